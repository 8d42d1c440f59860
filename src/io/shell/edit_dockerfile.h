// The editor of Dockerfiles: reads, changes, adds and removes settings.
#ifndef PLIM_IO_EDIT_DOCKERFILE_H
#define PLIM_IO_EDIT_DOCKERFILE_H

#include "settings.h"

extern const plim_editor plim_dockerfile_editor;

#endif
