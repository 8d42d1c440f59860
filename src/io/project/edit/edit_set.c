#include "edit_set.h"

#include <stdlib.h>
#include <string.h>

#include "launch_file.h"

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

// ---- commands in other files ------------------------------------------------------------------------

static const plim_launch *find_launch(const plim_launch_file *f, const char *name) {
  for (size_t i = 0; i < f->at.len; i++)
    if (strcmp(f->at.at[i].name, name) == 0) return &f->at.at[i];
  return NULL;
}

static plim_err refuse(plim_error *error) {
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "other commands use this value, or it is computed");
}

static bool holds(const plim_sourced *script, const char *text, size_t size) {
  return script->bytes.len == size && (!size || memcmp(script->bytes.at, text, size) == 0);
}

// Whether the file, read again, has this script for the target, and its other scripts as they were.
static bool is_as_meant(const plim_project_file *f, const plim_launch_file *before,
                        const char *source, size_t source_size, const char *text, size_t size) {
  plim_launch_file now;
  plim_error why;
  bool is = !plim_launch_file_read(f->path, source, source_size, &now, &why) &&
            now.at.len == before->at.len;
  for (size_t i = 0; is && i < now.at.len; i++) {
    const plim_launch *was = find_launch(before, now.at.at[i].name);
    bool is_own = strcmp(now.at.at[i].name, f->target) == 0;
    is = is_own ? holds(&now.at.at[i].script, text, size)
                : was && holds(&now.at.at[i].script, was->script.bytes.at, was->script.bytes.len);
  }
  plim_launch_file_clear(&now);
  return is;
}

static plim_err write_source(const plim_project *p, size_t file, const plim_edit_set *edits,
                             const plim_launch_file *before, char **text, size_t *size,
                             plim_error *error) {
  const plim_project_file *f = p->files.at[file];
  const plim_launch *launch = find_launch(before, f->target);
  vec(plim_edit) mine = {0};
  char *script = NULL;
  size_t script_size;
  plim_err err = launch ? PLIM_OK : refuse(error);
  for (size_t i = 0; !err && i < edits->at.len; i++) {
    plim_edit edit = {0};
    if (edits->at.at[i].file != file) continue;
    if (!plim_launch_edit(launch, &edits->at.at[i].edit, &edit)) err = refuse(error);
    else if (!vec_push(&mine, edit)) free(edit.text), err = plim_no_memory(error);
  }
  if (!err) err = plim_edits_apply(f->source, f->source_size, mine.at, mine.len, text, size, error);
  if (!err) err = plim_project_text(p, file, edits, &script, &script_size, error);
  if (!err && !is_as_meant(f, before, *text, *size, script, script_size)) err = refuse(error);
  for (size_t i = 0; i < mine.len; i++) free(mine.at[i].text);
  vec_free(&mine);
  free(script);
  if (err) free(*text), *text = NULL;
  return err;
}

plim_err plim_project_written(const plim_project *p, size_t file, const plim_edit_set *edits,
                              char **text, size_t *size, plim_error *error) {
  const plim_project_file *f = p->files.at[file];
  plim_launch_file before;
  if (!f->source) return plim_project_text(p, file, edits, text, size, error);
  *text = NULL;
  plim_err err = plim_launch_file_read(f->path, f->source, f->source_size, &before, error);
  if (!err) err = write_source(p, file, edits, &before, text, size, error);
  plim_launch_file_clear(&before);
  return err;
}
