// What the files of this folder share.
#ifndef PLIM_IO_PROJECT_CHANGE_IMPL_H
#define PLIM_IO_PROJECT_CHANGE_IMPL_H

#include "project_change.h"
#include "project_places.h"

// use_reentrant=False, where checkpointing is turned on in this file for adapters that need it; nothing where
// it has no sure place (project_reentrant.c).
void plim_project_add_reentrant(const plim_project *p, size_t file, plim_edit_set *out);

// Axolotl's Liger-Kernel, which takes several keys and a plugin; its fused loss comes with it
// (project_liger.c).
bool plim_project_takes_liger(const plim_project *p, const plim_knob_change *c);
plim_err plim_project_add_liger(const plim_project *p, plim_edit_set *out, plim_error *error);

// Refuses edits that make anything else read differently than the knobs that are to change: settings that are
// computed from the literal that an edit replaces. `q` is the project with the edits.
plim_err plim_project_refuse_moves(const plim_project *p, const plim_project *q,
                                   const plim_knob_change *changes, size_t count,
                                   const plim_edit_set *edits, plim_error *error);

// Strategy and offload, which are one way to share; whether a value of theirs is what holds without a word
// (project_compare.c).
bool plim_is_sharing(plim_knob knob);
bool plim_is_without_a_word(plim_knob knob, const plim_value *want);
// Refuses edits after which a knob has not the value that it was to have, or another has moved.
plim_err plim_project_check(const plim_project *p, const plim_knob_change *changes, size_t count,
                            const plim_edit_set *edits, plim_error *error);

// Several trainings in one script: what all of them set alike is changed, or added, in all (parallel_edits.c). The number
// of edits in all; 0 of added ones: not all have a place.
size_t plim_trainings_change(const plim_project_file *f, const plim_key *key,
                             const plim_setting *of, const plim_value *value, plim_edit *edits,
                             size_t count, size_t most);
size_t plim_trainings_insert(const plim_project_file *f, const char *key, const plim_value *value,
                             plim_edit *edits, size_t most);

#endif
