// The editor of Python scripts: reads, changes, adds and removes settings.
#ifndef PLIM_IO_EDIT_PYTHON_H
#define PLIM_IO_EDIT_PYTHON_H

#include "settings.h"

extern const plim_editor plim_python_editor;

#endif
