// Changes knobs of a project: finds the edits of its files that give them new values.
#ifndef PLIM_IO_PROJECT_CHANGE_H
#define PLIM_IO_PROJECT_CHANGE_H

#include "edit_set.h"
#include "knob_change.h"

// Collects the edits that give the knobs these values. A missing key is inserted where its dialect allows it.
// A sharding strategy may need a new file, to which a key then refers. Either all changes are made or none: the
// call fails with the reason if a change is not possible, would change another knob, or would make
// micro batch x accumulation x GPUs differ from the global batch.
plim_err plim_project_set(const plim_project *p, const plim_knob_change *changes, size_t count,
                          plim_edit_set *out, plim_error *error);

// Reads the project again as it would be with these edits. `out` must be empty; clear it whatever the outcome.
plim_err plim_project_edited(const plim_project *p, const plim_edit_set *edits, plim_project *out,
                             plim_error *error);
#endif
