// The editor of shell scripts: reads, changes, adds and removes settings.
#ifndef PLIM_IO_EDIT_SHELL_H
#define PLIM_IO_EDIT_SHELL_H

#include "settings.h"

extern const plim_editor plim_shell_editor;

#endif
