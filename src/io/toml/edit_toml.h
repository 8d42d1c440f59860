// The editor of TOML files: reads, changes, adds and removes settings.
#ifndef PLIM_IO_EDIT_TOML_H
#define PLIM_IO_EDIT_TOML_H

#include "settings.h"

extern const plim_editor plim_toml_editor;

#endif
