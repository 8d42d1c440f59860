// The editor of YAML files: reads, changes, adds and removes settings.
#ifndef PLIM_IO_EDIT_YAML_H
#define PLIM_IO_EDIT_YAML_H

#include "settings.h"

extern const plim_editor plim_yaml_editor;

#endif
