// A set of edits of a project's files that are made together.
#ifndef PLIM_IO_EDIT_SET_H
#define PLIM_IO_EDIT_SET_H

#include "project.h"

typedef struct {
  size_t file;
  plim_edit edit;
} plim_file_edit;

// A file to create; its path is relative to the current folder.
typedef struct {
  char *path, *text; // owned
  bool is_there;     // it already exists with exactly this text
} plim_new_file;

typedef struct {
  vec(plim_file_edit) at;
  vec(plim_new_file) files;
  vec(size_t) unnamed; // unchanged files that nothing refers to after the edits
} plim_edit_set;

void plim_edit_set_clear(plim_edit_set *edits);

// The text of a file with its edits applied; the caller frees it.
plim_err plim_project_text(const plim_project *p, size_t file, const plim_edit_set *edits,
                           char **text, size_t *size, plim_error *error);

// The file's own text with its edits, which the caller frees: for commands in a Makefile or the like, that of the Makefile.
// Fails if an edit of the commands cannot be made there without changing anything else.
plim_err plim_project_written(const plim_project *p, size_t file, const plim_edit_set *edits,
                              char **text, size_t *size, plim_error *error);

#endif
