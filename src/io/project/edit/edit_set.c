#include "edit_set.h"

#include <stdlib.h>

void plim_edit_set_clear(plim_edit_set *edits) {
  for (size_t i = 0; i < edits->at.len; i++) free(edits->at.at[i].edit.text);
  for (size_t i = 0; i < edits->files.len; i++) {
    free(edits->files.at[i].path);
    free(edits->files.at[i].text);
  }
  vec_free(&edits->at);
  vec_free(&edits->files);
  vec_free(&edits->unnamed);
}

plim_err plim_project_text(const plim_project *p, size_t file, const plim_edit_set *edits,
                           char **text, size_t *size, plim_error *error) {
  plim_edit *mine = malloc((edits->at.len + 1) * sizeof *mine);
  size_t count = 0;
  *text = NULL;
  if (!mine) return plim_no_memory(error);
  for (size_t i = 0; i < edits->at.len; i++)
    if (edits->at.at[i].file == file) mine[count++] = edits->at.at[i].edit;
  const plim_project_file *f = p->files.at[file];
  plim_err err = plim_edits_apply(f->text, f->size, mine, count, text, size, error);
  free(mine);
  return err;
}
