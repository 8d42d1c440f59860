// Describes a set of changes for the caller.
#include <stdlib.h>
#include <string.h>

#include "transaction.h"

void plim_changes_clear(plim_changes *c) {
  for (size_t i = 0; i < c->count; i++) {
    free(c->files[i].path);
    free(c->files[i].backup);
  }
  free(c->files);
  *c = (plim_changes){0};
}

void plim_changeset_result_clear(plim_changeset_result *result) {
  plim_changes_clear(&result->earlier);
  plim_changes_clear(&result->done);
}

static bool describe_step(const plim_file_step *s, bool is_done, plim_changed_file *out) {
  *out = (plim_changed_file){.path = strdup(s->path),
                             .left = is_done && plim_content_equal(&s->from, &s->to),
                             .skipped = is_done && s->is_skipped,
                             .created = is_done && !s->from.exists && s->to.exists,
                             .gone = is_done && !s->to.exists && s->from.exists};
  bool has_backup = is_done && s->kept != PLIM_NO_BACKUP;
  if (has_backup) out->backup = plim_backup_name(s->path, s->kept);
  return out->path && (!has_backup || out->backup);
}

// The changes are made already; if memory runs out, the list is only shorter.
void plim_changes_describe(const plim_transaction *t, plim_changes_way way,
                           const plim_file_side *found, plim_changes *out) {
  *out = (plim_changes){.kind = t->kind, .way = way, .is_lent = t->is_lent};
  out->files = calloc(t->steps.len + 1, sizeof *out->files);
  for (size_t i = 0; i < t->steps.len && out->files; i++) {
    plim_changed_file *file = &out->files[out->count++];
    bool ok = describe_step(&t->steps.at[i], way != PLIM_CHANGES_ROLLED_BACK, file);
    if (found) file->found = found[i];
    if (ok) continue;
    free(file->path);
    free(file->backup);
    out->count--;
    return;
  }
}

// ---- looking without changing anything ----------------------------------------------------------

static plim_err look(const plim_change_store *p, plim_changes *out, plim_error *error) {
  plim_transaction t;
  plim_err err = plim_store_load(p, p->journal, &t, error);
  if (!err && t.steps.len) plim_changes_describe(&t, PLIM_CHANGES_INTERRUPTED, NULL, out);
  for (size_t i = 0; i < out->count; i++) out->files[i].found = plim_step_side(&t.steps.at[i]);
  plim_transaction_clear(&t);
  return err;
}

// A lent set whose process has ended, and whose files nobody has changed since.
static void look_for_lent(const plim_change_store *p, plim_changes *out) {
  plim_error ignored;
  for (unsigned n = plim_store_last_record(p); n > 0 && !out->count;
       n = plim_store_record_below(p, n)) {
    plim_transaction t;
    bool is_left = !plim_store_load_record(p, n, &t, &ignored) && t.is_lent &&
                   plim_step_side(&t.steps.at[0]) == PLIM_FILE_NEW && !plim_store_is_held(p, n);
    if (is_left) plim_changes_describe(&t, PLIM_CHANGES_INTERRUPTED, NULL, out);
    for (size_t i = 0; i < out->count; i++) out->files[i].found = plim_step_side(&t.steps.at[i]);
    plim_transaction_clear(&t);
  }
}

plim_err plim_changeset_look(const char *root, plim_changes *out, plim_error *error) {
  plim_change_store p;
  *out = (plim_changes){0};
  if (!plim_store_exists(root)) return PLIM_OK;
  plim_err err = plim_store_peek(&p, root, error);
  bool is_busy = !err && plim_store_is_busy(&p);
  if (!err && !is_busy) err = look(&p, out, error);
  if (!err && !is_busy && !out->count) look_for_lent(&p, out);
  plim_store_close(&p);
  return err;
}

static const plim_file_step *maker(const plim_transaction *last, const char *path,
                                   const plim_content *now) {
  char *real = realpath(path, NULL);
  const plim_file_step *made = NULL;
  for (size_t i = 0; real && !made && i < last->steps.len; i++) {
    const plim_file_step *s = &last->steps.at[i];
    if (strcmp(s->target, real) == 0 && plim_content_equal(&s->to, now)) made = s;
  }
  free(real);
  return made;
}

static bool find_made(const char *root, const char *path, const plim_content *now, char **backup) {
  plim_change_store p;
  plim_transaction last = {0};
  *backup = NULL;
  if (!plim_store_exists(root)) return false;
  bool is_read = !plim_store_peek(&p, root, NULL) && !plim_store_load_last(&p, &last, NULL);
  const plim_file_step *made = is_read ? maker(&last, path, now) : NULL;
  if (made && made->kept_path) *backup = strdup(made->kept_path);
  plim_transaction_clear(&last);
  plim_store_close(&p);
  return made;
}

bool plim_changeset_made(const char *root, const char *path, const plim_content *now) {
  char *backup;
  bool made = find_made(root, path, now, &backup);
  free(backup);
  return made;
}

char *plim_changeset_backup(const char *root, const char *path, const plim_content *now) {
  char *backup;
  return find_made(root, path, now, &backup) ? backup : NULL;
}
