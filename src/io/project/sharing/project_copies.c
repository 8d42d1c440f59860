// A configuration that other trainings use as well is copied, not rewritten: the copy gets the edits, and the training's own
// file then names the copy.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_share.h"
#include "project_steps.h"

static bool has_edits(const plim_edit_set *edits, size_t file) {
  for (size_t i = 0; i < edits->at.len; i++)
    if (edits->at.at[i].file == file) return true;
  return false;
}

static void drop_edits(plim_edit_set *edits, size_t file) {
  size_t kept = 0;
  for (size_t i = 0; i < edits->at.len; i++)
    if (edits->at.at[i].file == file) free(edits->at.at[i].edit.text);
    else edits->at.at[kept++] = edits->at.at[i];
  edits->at.len = kept;
}

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

// The setting of another file whose value names this file.
static const plim_setting *naming(const plim_project *p, size_t file, size_t *by) {
  const char *name = name_of(p->files.at[file]->path);
  for (size_t i = 0; i < p->files.len; i++)
    for (size_t k = 0; i != file && k < p->files.at[i]->settings.at.len; k++) {
      const plim_setting *s = &p->files.at[i]->settings.at.at[k];
      bool is_text = s->value.kind == PLIM_VALUE_TEXT && !s->is_aside;
      if (is_text && strcmp(name_of(s->value.text), name) == 0) return *by = i, s;
    }
  return NULL;
}

// A name beside the file that is free: "zero2_plimsoll.json".
static bool free_path(const char *of, char path[PLIM_PATH_BYTES]) {
  const char *dot = strrchr(name_of(of), '.');
  for (int i = 1; i <= 99; i++) {
    char number[8] = "";
    if (i > 1) snprintf(number, sizeof number, "%d", i);
    int size = snprintf(path, PLIM_PATH_BYTES, "%.*s_plimsoll%s%s",
                        (int)(dot ? dot - of : (long)strlen(of)), of, number, dot ? dot : "");
    if (size >= PLIM_PATH_BYTES) return false;
    if (!plim_is_file(path)) return true;
  }
  return false;
}

// The value that names the copy as `was` names the file: the same folder, another name.
static void rename_in(const char *was, const char *path, char out[PLIM_PATH_BYTES]) {
  snprintf(out, PLIM_PATH_BYTES, "%.*s%.255s", (int)(name_of(was) - was), was, name_of(path));
}

// Makes the edit that gives the setting with this key another text.
static plim_err say(const plim_project_file *f, const char *key, const void *text, plim_edit *edit,
                    plim_error *error) {
  const plim_setting *setting = plim_settings_find(&f->settings, key);
  plim_value value = {.kind = PLIM_VALUE_TEXT, .text = text};
  if (setting) return plim_settings_change(&f->settings, setting, &value, edit, error);
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "%.96s cannot be changed", key);
}

static plim_err copy(const plim_project *p, size_t file, plim_edit_set *out, plim_error *error) {
  char path[PLIM_PATH_BYTES], value[PLIM_PATH_BYTES], *text = NULL;
  size_t by = 0, size;
  const plim_project_file *f = p->files.at[file];
  const plim_setting *names = naming(p, file, &by);
  if (!names || !free_path(f->path, path)) {
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                             "%.120s is used by %.120s too, and would have to be copied",
                             name_of(f->path), f->elsewhere);
    plim_error_hint(error, "copy it, name the copy in your file, and plan again");
    return err;
  }
  rename_in(names->value.text, path, value);
  plim_err err = plim_project_text(p, file, out, &text, &size, error);
  if (!err) err = plim_share_set(p, by, say, names->key, value, out, error);
  plim_new_file made = {err ? NULL : strdup(path), text, false};
  if (err || !made.path || !vec_push(&out->files, made)) {
    free(made.path);
    free(text);
    return err ? err : plim_no_memory(error);
  }
  drop_edits(out, file);
  return vec_push(&out->unnamed, file) ? PLIM_OK : plim_no_memory(error);
}

plim_err plim_project_copy_shared(const plim_project *p, plim_edit_set *out, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < p->files.len && !err; i++)
    if (p->files.at[i]->elsewhere && has_edits(out, i)) err = copy(p, i, out, error);
  return err;
}
