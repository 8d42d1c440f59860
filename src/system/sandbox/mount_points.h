// The mount points of the calling process, from /proc/self/mountinfo.
#ifndef PLIM_SYSTEM_MOUNT_POINTS_H
#define PLIM_SYSTEM_MOUNT_POINTS_H

#include <stdio.h>

#include "plimsoll.h"
#include "vec.h"

typedef vec(char *) plim_mount_points; // absolute paths; owned

// Reads lines of mountinfo. False when out of memory; what was read must be freed in either case.
bool plim_mount_points_read(FILE *mountinfo, plim_mount_points *out);
void plim_mount_points_free(plim_mount_points *points);

bool plim_mount_points_has(const plim_mount_points *points, const char *path);
// Whether there is a mount point inside this folder, at any depth.
bool plim_mount_points_below(const plim_mount_points *points, const char *folder);

// Whether a path is inside this folder, at any depth.
bool plim_path_is_below(const char *path, const char *folder);

#endif
