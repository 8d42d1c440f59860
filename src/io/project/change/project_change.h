// Knobs of a project given other values, as edits of its files.
#ifndef PLIM_IO_PROJECT_CHANGE_H
#define PLIM_IO_PROJECT_CHANGE_H

#include "edit_set.h"
#include "knob_change.h"

// Every place that must change for the knobs to have these values, in files as they are now; a key that
// is not there is added where its dialect has a place for it, and a way to share that no key turns on
// may take a new file which a key then names. All of it or nothing: what cannot be
// done, would change another knob, or breaks a batch that multiplies out, is refused with the reason.
plim_err plim_project_set(const plim_project *p, const plim_knob_change *changes, size_t count,
                          plim_edit_set *out, plim_error *error);
#endif
