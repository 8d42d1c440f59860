// Internal declarations shared by the files of this folder.
#ifndef PLIM_IO_PROJECT_CHANGE_IMPL_H
#define PLIM_IO_PROJECT_CHANGE_IMPL_H

#include "project_change.h"
#include "project_places.h"
#include "project_task.h"

// Adds use_reentrant=False if this file turns checkpointing on for adapters that need it. Adds nothing if it is
// not clear where to insert it (project_reentrant.c).
void plim_project_add_reentrant(const plim_project *p, size_t file, plim_edit_set *out);

// Axolotl's Liger-Kernel, which needs several keys and a plugin and includes the fused loss
// (project_liger.c): whether the change asks for it, and the edits that turn it on.
bool plim_project_takes_liger(const plim_project *p, const plim_knob_change *c);
plim_err plim_project_add_liger(const plim_project *p, plim_edit_set *out, plim_error *error);

// Refuses edits that would change other settings as well, because those are computed from a literal that an
// edit replaces. `q` is the project with the edits made.
plim_err plim_project_refuse_moves(const plim_project *p, const plim_project *q,
                                   const plim_knob_change *changes, size_t count,
                                   const plim_edit_set *edits, plim_error *error);

// Whether the knob is strategy or offload, which are changed together; and whether a value of theirs is the
// default that needs no key (project_compare.c).
bool plim_is_sharing(plim_knob knob);
bool plim_is_unshared_value(plim_knob knob, const plim_value *want);
// Reads the edited files again. Fails if a knob does not have its new value or another knob has changed.
plim_err plim_project_check(const plim_project *p, const plim_knob_change *changes, size_t count,
                            const plim_edit_set *edits, plim_error *error);

// Several trainings in one script: changes a value that all of them share, or inserts it in all (parallel_edits.c).
// Both append edits and return false when out of memory; insert appends none if one of the trainings has no place for
// the key.
bool plim_trainings_change(const plim_project_file *f, const plim_key *key, const plim_setting *of,
                           const plim_value *value, plim_task_edits *edits);
bool plim_trainings_insert(const plim_project_file *f, const char *key, const plim_value *value,
                           plim_task_edits *edits);

#endif
