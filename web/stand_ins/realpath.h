// The one function of POSIX that wasi-libc lacks and the reading of files needs.
#ifndef PLIM_WEB_REALPATH_H
#define PLIM_WEB_REALPATH_H

char *realpath(const char *path, char *resolved);

#endif
