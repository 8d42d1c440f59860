// One knob to be changed in one file of a project.
#ifndef PLIM_IO_PROJECT_TASK_H
#define PLIM_IO_PROJECT_TASK_H

#include "knob_change.h"
#include "project.h"

enum { PLIM_TASK_EDITS = 8 }; // of one attempt: a key, and those that have to fall silent

typedef struct {
  const plim_project_file *f;
  plim_knob knob;
  const plim_value *value;
  const plim_setting *decides;     // NULL: none does yet
  const plim_key *key;             // of what decides
  bool is_bound;                   // it has a name of one's own: only that is read
  const plim_knob_change *changes; // all that are made
  size_t change_count;
  char why[200];                   // what came of the first edit that was tried
  char spelling[64];               // of a value that was written as a text, and is again
  plim_edit done[PLIM_TASK_EDITS]; // what did it; their texts are the caller's
  size_t done_count;
  bool has_no_memory; // an attempt failed for want of it, which says nothing about the file
} plim_task;

// False if no edit does it; `error` then says why, if an editor had a reason.
bool plim_task_perform(plim_task *task, plim_error *error);

// What a knob is to become; NULL if it stays.
const plim_value *plim_change_of(const plim_knob_change *changes, size_t count, plim_knob knob);

#endif
