// Edits of a file that depend on each other, such as removing a key and inserting another in its place.
//
//   plim_project_file now;
//   err = plim_step_begin(p, file, edits, &now, error);      // the file with the edits so far
//   if (!err) err = plim_settings_remove(&now.settings, setting, &edit, error);
//   if (!err) err = plim_step_add(&now, file, edit, edits, error);
//   plim_step_end(&now);
#ifndef PLIM_IO_PROJECT_STEPS_H
#define PLIM_IO_PROJECT_STEPS_H

#include "edit_set.h"

// The file with the edits made, and its settings; its knobs are not read.
plim_err plim_step_begin(const plim_project *p, size_t file, const plim_edit_set *edits,
                         plim_project_file *out, plim_error *error);
void plim_step_end(plim_project_file *f);

// Adds an edit of that text to the set and merges it with edits that it overlaps or touches. Takes ownership of the
// edit's text.
plim_err plim_step_add(const plim_project_file *now, size_t file, plim_edit edit,
                       plim_edit_set *edits, plim_error *error);

// Converts a text to the line endings of the file; frees the original. Returns NULL for NULL or if memory runs out.
char *plim_broken_like(const plim_project_file *f, char *text);

#endif
