// The editor of JSON files: reads, changes, adds and removes settings.
#ifndef PLIM_IO_EDIT_JSON_H
#define PLIM_IO_EDIT_JSON_H

#include "settings.h"

extern const plim_editor plim_json_editor;

#endif
