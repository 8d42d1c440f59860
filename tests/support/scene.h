// A project with five files and a set of changes to them, one of each kind.
#ifndef PLIM_TESTS_SCENE_H
#define PLIM_TESTS_SCENE_H

#include "changeset.h"

#define SCENE_FILES 5

void scene_make(void); // creates a new temporary folder with all files in the old state
void scene_remove(void);
void scene_reset(void); // restores the state after scene_make

const char *scene_root(void);
const char *scene_shadow(void); // for fault_set

// Applies or undoes the changes, or recovers; the result is discarded.
plim_err scene_apply(const plim_disk *disk, plim_error *error);
plim_err scene_undo(const plim_disk *disk, plim_error *error);
plim_err scene_recover(const plim_disk *disk, plim_error *error);

// One letter per file: o is old, n is new (with the right content and permissions), x is anything else.
const char *scene_sides(void);

// "" if the folder is in order: all files old or all new, backups where they were promised, no temporary files. Else
// what is wrong.
const char *scene_fault(void);

#endif
