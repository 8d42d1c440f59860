// Edits of a file that build on each other: a key goes, and another comes where it was.
//
//   plim_project_file now;
//   err = plim_step_begin(p, file, edits, &now, error);      // the file with the edits so far
//   if (!err) err = plim_settings_remove(&now.settings, setting, &edit, error);
//   if (!err) err = plim_step_add(&now, file, edit, edits, error);
//   plim_step_end(&now);
#ifndef PLIM_IO_PROJECT_STEPS_H
#define PLIM_IO_PROJECT_STEPS_H

#include "edit_set.h"

// A file as the edits leave it, with its settings; what its knobs are is not read.
plim_err plim_step_begin(const plim_project *p, size_t file, const plim_edit_set *edits,
                         plim_project_file *out, plim_error *error);
void plim_step_end(plim_project_file *f);

// Adds an edit of that text to the set, joined with those that it meets. Takes the edit's text over.
plim_err plim_step_add(const plim_project_file *now, size_t file, plim_edit edit,
                       plim_edit_set *edits, plim_error *error);

// The text with the line ends of the file, in place of it, which is freed; NULL: out of memory, or of NULL.
char *plim_broken_like(const plim_project_file *f, char *text);

#endif
