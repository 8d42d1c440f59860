// The file tree of a sandbox while it is put together.
#ifndef PLIM_SYSTEM_SANDBOX_TREE_H
#define PLIM_SYSTEM_SANDBOX_TREE_H

#include <limits.h>

#include "mount_points.h"
#include "sandbox_impl.h"

typedef struct {
  plim_mount_points mounts;
  char root[PATH_MAX];         // the folder that will become the root
  unsigned layers;             // overlays made so far; the layers are in the current folder
  uint64_t copied_bytes;       // of small files
  plim_sandbox_report *report; // takes errors and the names of what is read-only
} plim_sandbox_tree;

// Puts everything into the new tree except what sandbox_system.c makes.
plim_err plim_sandbox_tree_put_root(plim_sandbox_tree *t);
// Gives separate overlays to a folder, and to the folders below it down to a depth, if the program could not write to them
// otherwise: those of other users and of the user's other groups.
void plim_sandbox_tree_own(plim_sandbox_tree *t, const char *folder, int depth);
// /proc, /sys, /dev and /run.
bool plim_sandbox_tree_is_special(const char *path);

// The path in the new tree. False if it is too long.
bool plim_sandbox_tree_inside(const plim_sandbox_tree *t, const char *path, char out[PATH_MAX]);

// `to` is a path in the new tree. Those that return a bool leave the reason in errno.
bool plim_sandbox_tree_overlay(plim_sandbox_tree *t, const char *from, const char *to);
bool plim_sandbox_tree_copy_file(const char *from, const char *to);
plim_err plim_sandbox_tree_copy_link(plim_sandbox_tree *t, const char *from, const char *to);
plim_err plim_sandbox_tree_bind_read_only(plim_sandbox_tree *t, const char *from, const char *to);
// Sets MOUNT_ATTR_* of a mount and those below it, and that devices and set-user-id bits there have no effect.
bool plim_sandbox_tree_restrict(const char *path, uint64_t attributes);

// Fills the report's error from errno: "the sandbox cannot WHAT PATH: REASON".
plim_err plim_sandbox_tree_cannot(plim_sandbox_tree *t, const char *what, const char *path);

#endif
