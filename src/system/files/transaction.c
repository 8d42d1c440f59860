// Runs and recovers transactions. The steps, each synced to the disk before the next begins:
//   1. the journal records what will be done ("preparing")
//   2. every new content is staged next to its file, every old one is copied
//   3. the journal records "ready"
//   4. the staged files are renamed over the files
//   5. the journal is renamed to a record: done
// Before 3, no file has been changed, and rolling back means removing what was added. From 3 on, everything
// needed to complete or roll back is on the disk, and both need only renames, which take no disk space.
#include "transaction.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// ---- names and contents -----------------------------------------------------------------------

void plim_step_clear(plim_file_step *s) {
  char *owned[] = {s->path,      s->target,       s->staged,   s->copy,
                   s->kept_path, s->dropped_path, s->old_data, s->new_data};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

void plim_transaction_clear(plim_transaction *t) {
  for (size_t i = 0; i < t->steps.len; i++) plim_step_clear(&t->steps.at[i]);
  vec_free(&t->steps);
  *t = (plim_transaction){0};
}

char *plim_backup_name(const char *path, int number) {
  char *text = NULL;
  int size =
      number ? asprintf(&text, "%s.backup.%d", path, number) : asprintf(&text, "%s.backup", path);
  return size < 0 ? NULL : text;
}

static char *temporary_name(const char *path, uint32_t id, const char *ending) {
  char *text = NULL;
  return asprintf(&text, "%s.plimsoll-%08x%s", path, id, ending) < 0 ? NULL : text;
}

static char *below(const char *root, const char *path) {
  char *text = NULL;
  if (*path == '/') return strdup(path);
  return asprintf(&text, "%s/%s", strcmp(root, "/") ? root : "", path) < 0 ? NULL : text;
}

bool plim_transaction_name(const plim_transaction *t, const char *root, plim_file_step *s) {
  s->target = below(root, s->path);
  if (!s->target) return false;
  s->staged = temporary_name(s->target, t->id, "");
  s->copy = temporary_name(s->target, t->id, "-old");
  bool keeps = s->kept != PLIM_NO_BACKUP, drops = s->dropped != PLIM_NO_BACKUP;
  if (keeps) s->kept_path = plim_backup_name(s->target, s->kept);
  if (drops) s->dropped_path = plim_backup_name(s->target, s->dropped);
  return s->staged && s->copy && (!keeps || s->kept_path) && (!drops || s->dropped_path);
}

plim_content plim_content_of(const void *data, size_t size) {
  plim_content content = {.exists = data != NULL, .size = data ? size : 0};
  if (data) plim_sha256(data, size, content.sha256);
  return content;
}

bool plim_content_equal(const plim_content *a, const plim_content *b) {
  if (!a->exists || !b->exists) return a->exists == b->exists;
  return a->size == b->size && memcmp(a->sha256, b->sha256, sizeof a->sha256) == 0;
}

int plim_content_at(const char *path, plim_content *out) {
  struct stat found;
  char *data;
  size_t size;
  *out = (plim_content){0};
  if (lstat(path, &found)) return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
  if (!S_ISREG(found.st_mode)) return EINVAL;
  int number = plim_disk_read_file(path, &data, &size);
  if (number) return number;
  *out = plim_content_of(data, size);
  free(data);
  return 0;
}

static bool holds(const char *path, const plim_content *content) {
  plim_content found;
  return plim_content_at(path, &found) == 0 && plim_content_equal(&found, content);
}

// The file that has the old content once the transaction is ready.
static const char *rescue_of(const plim_file_step *s) {
  return s->kept_path ? s->kept_path : s->copy;
}

plim_file_side plim_step_side(const plim_file_step *s) {
  if (holds(s->target, &s->from)) return PLIM_FILE_OLD;
  return holds(s->target, &s->to) ? PLIM_FILE_NEW : PLIM_FILE_OTHER;
}

// ---- steps ------------------------------------------------------------------------------------

static plim_err fail_step(plim_error *error, const plim_file_step *s, int number) {
  plim_err err = plim_disk_fail(error, "write", s->path, number);
  if (number == EACCES || number == EPERM || number == EROFS)
    plim_error_hint(error, "nothing was changed; you need write permission for the file's folder, "
                           "because the new file is written next to the old one");
  return err;
}

static plim_err stage(const plim_change_store *p, const plim_file_step *s, plim_error *error) {
  if (!s->to.exists) return PLIM_OK;
  const char *like = s->dropped_path ? s->dropped_path : s->from.exists ? s->target : NULL;
  int number = plim_disk_write_file(p->disk, s->staged, s->new_data, s->to.size, like);
  return number ? fail_step(error, s, number) : PLIM_OK;
}

static plim_err save(const plim_change_store *p, const plim_file_step *s, plim_error *error) {
  if (!s->from.exists) return PLIM_OK;
  int number = plim_disk_write_file(p->disk, s->copy, s->old_data, s->from.size, s->target);
  if (!number && s->kept_path && p->disk->rename_new(s->copy, s->kept_path)) number = errno;
  return number ? fail_step(error, s, number) : PLIM_OK;
}

static int put_in_place(const plim_change_store *p, const plim_file_step *s) {
  int failed;
  if (!s->to.exists) return plim_disk_remove(p->disk, s->target); // may be gone already
  if (!s->from.exists) failed = p->disk->rename_new(s->staged, s->target);
  else failed = p->disk->rename(s->staged, s->target);
  return failed ? errno : 0;
}

static plim_err place(const plim_change_store *p, const plim_file_step *s, plim_error *error) {
  if (!holds(s->target, &s->from)) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s was changed by another program just now", s->path);
    plim_error_hint(error, "nothing was changed; run this again when that program has finished");
    if (error) snprintf(error->file, sizeof error->file, "%s", s->path);
    return PLIM_ERR_UNSUPPORTED;
  }
  int number = put_in_place(p, s);
  return number ? fail_step(error, s, number) : PLIM_OK;
}

static bool is_same_folder(const char *a, const char *b) {
  size_t size = (size_t)(strrchr(a, '/') - a);
  return size == (size_t)(strrchr(b, '/') - b) && memcmp(a, b, size) == 0;
}

static int sync_folders(const plim_change_store *p, const plim_transaction *t) {
  int number = 0;
  for (size_t i = 0; i < t->steps.len && !number; i++) {
    const char *path = t->steps.at[i].target;
    if (i && is_same_folder(path, t->steps.at[i - 1].target)) continue;
    number = plim_disk_sync_folder(p->disk, path);
  }
  return number;
}

// ---- rolling back -----------------------------------------------------------------------------

// A file that cannot be read may still have to be restored, so the journal must stay.
static int unreadable(const char *path) {
  plim_content found;
  int number = plim_content_at(path, &found);
  return number == EINVAL ? 0 : number;
}

static int restore(const plim_change_store *p, const plim_file_step *s) {
  int number = unreadable(s->target);
  if (!number && s->from.exists) number = unreadable(rescue_of(s));
  if (number || plim_step_side(s) != PLIM_FILE_NEW) return number;
  if (!s->from.exists) return plim_disk_remove(p->disk, s->target);
  if (!holds(rescue_of(s), &s->from)) return 0; // only with force
  return p->disk->rename(rescue_of(s), s->target) ? errno : 0;
}

// The backup is removed only if the file itself has the same content.
static int remove_traces(const plim_change_store *p, const plim_file_step *s) {
  int number = plim_disk_remove(p->disk, s->staged);
  if (!number) number = plim_disk_remove(p->disk, s->copy);
  bool is_spare = s->kept_path && holds(s->kept_path, &s->from) && holds(s->target, &s->from);
  return !number && is_spare ? plim_disk_remove(p->disk, s->kept_path) : number;
}

// Stops at the first call that fails after having tried to restore every file; the journal stays then.
static int go_back(const plim_change_store *p, const plim_transaction *t) {
  int number = 0;
  for (size_t i = 0; i < t->steps.len && t->is_ready; i++) {
    int failed = restore(p, &t->steps.at[i]);
    if (!number) number = failed;
  }
  if (!number) number = sync_folders(p, t);
  for (size_t i = 0; i < t->steps.len && !number; i++) number = remove_traces(p, &t->steps.at[i]);
  if (!number) number = sync_folders(p, t);
  if (!number) number = plim_disk_remove(p->disk, p->journal);
  return number;
}

// ---- completing -------------------------------------------------------------------------------

static int clean_steps(const plim_change_store *p, const plim_transaction *t) {
  int number = 0;
  for (size_t i = 0; i < t->steps.len && !number; i++) {
    const plim_file_step *s = &t->steps.at[i];
    number = plim_disk_remove(p->disk, s->copy);
    bool is_spare = s->dropped_path && holds(s->dropped_path, &s->to);
    if (!number && is_spare) number = plim_disk_remove(p->disk, s->dropped_path);
  }
  return number ? number : sync_folders(p, t);
}

int plim_transaction_clean(const plim_change_store *p, const plim_transaction *t) {
  char *record = plim_store_record_path(p, t->record);
  int number = record ? clean_steps(p, t) : ENOMEM;
  if (!number) number = plim_disk_remove(p->disk, record);
  free(record);
  return number;
}

// Writes the record. For an undo, it replaces the record of the undone set until all traces are removed. If that
// fails, or the folder is not synced, the next call detects it and continues from here.
static plim_err commit(const plim_change_store *p, const plim_transaction *t, plim_error *error) {
  char *record = plim_store_record_path(p, t->record);
  int number = !record ? ENOMEM : p->disk->rename(p->journal, record) ? errno : 0;
  free(record);
  if (number) return plim_disk_fail(error, "write", p->journal, number);
  plim_disk_sync_folder(p->disk, p->journal);
  if (t->kind == PLIM_CHANGES_UNDO) plim_transaction_clean(p, t);
  return PLIM_OK;
}

static plim_err sync_all(const plim_change_store *p, const plim_transaction *t, plim_error *error) {
  int number = sync_folders(p, t);
  return number ? plim_disk_fail(error, "write", p->root, number) : PLIM_OK;
}

static plim_err prepare(const plim_change_store *p, plim_transaction *t, plim_error *error) {
  plim_err err = plim_store_write_journal(p, t, error);
  for (size_t i = 0; i < t->steps.len && !err; i++) err = stage(p, &t->steps.at[i], error);
  for (size_t i = 0; i < t->steps.len && !err; i++) err = save(p, &t->steps.at[i], error);
  if (!err) err = sync_all(p, t, error);
  t->is_ready = !err;
  return err ? err : plim_store_write_journal(p, t, error);
}

static plim_err replace_all(const plim_change_store *p, const plim_transaction *t,
                            plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < t->steps.len && !err; i++) err = place(p, &t->steps.at[i], error);
  if (!err) err = sync_all(p, t, error);
  return err ? err : commit(p, t, error);
}

plim_err plim_transaction_run(const plim_change_store *p, plim_transaction *t, plim_error *error) {
  plim_err err = prepare(p, t, error);
  if (!err) err = replace_all(p, t, error);
  if (err && go_back(p, t))
    plim_error_hint(error, "not everything could be restored: fix the cause, then run plimsoll "
                           "apply or undo again, which completes or rolls back the change");
  return err;
}

// ---- after an interruption --------------------------------------------------------------------

static bool can_go_forward(const plim_file_step *s, plim_file_side side) {
  if (side != PLIM_FILE_OLD) return side == PLIM_FILE_NEW;
  return !s->to.exists || holds(s->staged, &s->to);
}

static bool can_go_back(const plim_file_step *s, plim_file_side side) {
  if (side != PLIM_FILE_NEW) return side == PLIM_FILE_OLD;
  return !s->from.exists || holds(rescue_of(s), &s->from);
}

typedef bool can_go(const plim_file_step *s, plim_file_side side);

// The first step that cannot be completed (or rolled back); NULL: all can. With `force`, files that someone else
// has changed are skipped.
static const plim_file_step *obstacle(const plim_transaction *t, const plim_file_side *sides,
                                      bool force, can_go *can) {
  for (size_t i = 0; i < t->steps.len; i++) {
    if (force && sides[i] == PLIM_FILE_OTHER) continue;
    if (!can(&t->steps.at[i], sides[i])) return &t->steps.at[i];
  }
  return NULL;
}

static plim_err go_forward(const plim_change_store *p, const plim_transaction *t,
                           const plim_file_side *sides, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < t->steps.len && !err; i++) {
    const plim_file_step *s = &t->steps.at[i];
    int number = 0;
    if (sides[i] == PLIM_FILE_OLD) err = place(p, s, error);
    else number = plim_disk_remove(p->disk, s->staged);
    if (number) err = fail_step(error, s, number);
  }
  if (!err) err = sync_all(p, t, error);
  return err ? err : commit(p, t, error);
}

static plim_err refuse(const plim_transaction *t, const plim_file_step *s, plim_error *error) {
  const char *what = t->kind == PLIM_CHANGES_UNDO ? "undo" : "apply";
  plim_fail(error, PLIM_ERR_UNSUPPORTED,
            "%s was interrupted, and %s or its backup has been changed since: it matches neither "
            "the old nor the new version",
            what, s->path);
  plim_error_hint(error,
                  "plimsoll undo --force skips this file, and completes or rolls back the others");
  if (error) snprintf(error->file, sizeof error->file, "%s", s->path);
  return PLIM_ERR_UNSUPPORTED;
}

// A file that someone has changed keeps its backup, even if the backup was to be removed.
static void spare_backups(plim_transaction *t, const plim_file_side *sides) {
  for (size_t i = 0; i < t->steps.len; i++) {
    if (sides[i] != PLIM_FILE_OTHER) continue;
    free(t->steps.at[i].dropped_path);
    t->steps.at[i].dropped_path = NULL;
  }
}

plim_err plim_transaction_recover(const plim_change_store *p, plim_transaction *t, bool force,
                                  plim_file_side *found, plim_changes_way *way, plim_error *error) {
  for (size_t i = 0; i < t->steps.len; i++) found[i] = plim_step_side(&t->steps.at[i]);
  spare_backups(t, found);
  *way = PLIM_CHANGES_COMPLETED;
  if (t->is_ready && !obstacle(t, found, force, can_go_forward))
    return go_forward(p, t, found, error);
  *way = PLIM_CHANGES_ROLLED_BACK;
  const plim_file_step *stuck = t->is_ready ? obstacle(t, found, force, can_go_back) : NULL;
  if (stuck && !force) return refuse(t, stuck, error);
  int number = go_back(p, t);
  return number ? plim_disk_fail(error, "roll back what is in", p->journal, number) : PLIM_OK;
}
