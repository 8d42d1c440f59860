// A project with five files and a set of changes to them: one of each kind that there is.
#ifndef PLIM_TESTS_SCENE_H
#define PLIM_TESTS_SCENE_H

#include "changeset.h"

#define SCENE_FILES 5

void scene_make(void); // all files old, in a new temporary folder
void scene_remove(void);
void scene_reset(void); // as after scene_make

const char *scene_root(void);
const char *scene_shadow(void); // for fault_set

// Applies or takes back the changes, or recovers; the result is thrown away.
plim_err scene_apply(const plim_disk *disk, plim_error *error);
plim_err scene_undo(const plim_disk *disk, plim_error *error);
plim_err scene_recover(const plim_disk *disk, plim_error *error);

// One letter per file: o is old, n is new, both whole and with their permissions; anything else is x.
const char *scene_sides(void);

// "" if the folder holds what it should, with all files old or all new: backups where they were
// promised, nothing that is temporary. Otherwise what is wrong.
const char *scene_fault(void);

#endif
