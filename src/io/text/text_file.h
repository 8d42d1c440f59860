// A small file read whole.
#ifndef PLIM_IO_TEXT_FILE_H
#define PLIM_IO_TEXT_FILE_H

#include "plimsoll.h"

#define PLIM_PATH_BYTES 4096

// The content, followed by a 0 byte, which the caller frees. Only a regular file of at most `limit` bytes
// is read. Errors name the file.
plim_err plim_text_file_read(const char *path, size_t limit, char **text, size_t *size,
                             plim_error *error);

// Puts "folder/name" into `path`; false if it does not fit.
bool plim_path_join(char path[PLIM_PATH_BYTES], const char *folder, const char *name);

// The same path without "./", "a/../" and doubled slashes, where it still names the same file; false if it
// does not fit.
bool plim_path_tidy(const char *named, char path[PLIM_PATH_BYTES]);

bool plim_is_file(const char *path);
bool plim_is_folder(const char *path);

// Says which file an error is about, and returns its code.
plim_err plim_error_file(plim_error *error, plim_err code, const char *path);

#endif
