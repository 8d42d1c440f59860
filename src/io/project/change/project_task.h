// Changes one knob in one file of a project.
#ifndef PLIM_IO_PROJECT_TASK_H
#define PLIM_IO_PROJECT_TASK_H

#include "knob_change.h"
#include "project.h"

// Of one attempt: a key, and keys that have to be turned off with it.
typedef vec(plim_edit) plim_task_edits;

typedef struct {
  const plim_project_file *f;
  plim_knob knob;
  const plim_value *value;
  const plim_setting *decides;     // the setting that decides the knob now; NULL: none
  const plim_key *key;             // the dialect's row for `decides`
  bool is_bound;                   // the knob has a custom name: only that key is read
  const plim_knob_change *changes; // all changes of this call
  size_t change_count;
  char why[200];        // why the first edit that was tried was rejected
  char spelling[64];    // of a value that was written as text and stays text
  plim_task_edits done; // the edits that worked; the caller frees them and their texts
  bool has_no_memory;   // an attempt failed for lack of memory, not because of the file
} plim_task;

// Returns false if no edit works; `error` is then set if an editor gave a reason.
bool plim_task_perform(plim_task *task, plim_error *error);

// The new value of a knob; NULL: it does not change.
const plim_value *plim_change_of(const plim_knob_change *changes, size_t count, plim_knob knob);

#endif
