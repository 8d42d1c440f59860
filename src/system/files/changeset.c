#include "changeset.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transaction.h"

#define MOST_BACKUPS 100000

static const plim_changeset_options no_options = {0};

static plim_err out_of_memory(plim_error *error) {
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

// Adds file and hint to a refusal.
static plim_err refuse(plim_error *error, const char *path, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static plim_err refuse(plim_error *error, const char *path, const char *format, ...) {
  char hint[sizeof error->hint];
  va_list args;
  va_start(args, format);
  vsnprintf(hint, sizeof hint, format, args);
  va_end(args);
  plim_error_hint(error, "%s", hint);
  if (error) snprintf(error->file, sizeof error->file, "%s", path);
  return PLIM_ERR_UNSUPPORTED;
}

// ---- an interrupted call ------------------------------------------------------------------------

static plim_err recover_journal(const plim_change_store *p, plim_transaction *t, bool force,
                                plim_changes *out, plim_error *error) {
  plim_changes_way way;
  plim_file_side *found = calloc(t->steps.len, sizeof *found);
  if (!found) return out_of_memory(error);
  plim_err err = plim_transaction_recover(p, t, force, found, &way, error);
  if (!err) plim_changes_describe(t, way, found, out);
  free(found);
  return err;
}

// Completes an undo that restored all files but did not remove its traces.
static plim_err finish_undo(const plim_change_store *p, const plim_transaction *t,
                            plim_changes *out, plim_error *error) {
  int number = plim_transaction_clean(p, t);
  if (number) return plim_disk_fail(error, "remove what an undo left in", p->folder, number);
  plim_changes_clear(out);
  plim_changes_describe(t, PLIM_CHANGES_COMPLETED, NULL, out);
  for (size_t i = 0; i < out->count; i++) out->files[i].found = PLIM_FILE_NEW;
  return PLIM_OK;
}

static plim_err undo_record(const plim_change_store *p, unsigned number,
                            const plim_transaction *applied, bool force, plim_changes *out,
                            plim_error *error);

// Undoes a lent set whose process has ended. If a file has been changed since, the set stays.
static plim_err return_lent(const plim_change_store *p, unsigned number,
                            const plim_transaction *lent, plim_changes *out, plim_error *error) {
  plim_changes returned = {0};
  if (plim_store_is_held(p, number)) return PLIM_OK;
  plim_err err = undo_record(p, number, lent, false, &returned, error);
  if (!err) {
    plim_changes_clear(out);
    *out = returned;
    out->kind = PLIM_CHANGES_APPLY, out->way = PLIM_CHANGES_ROLLED_BACK, out->is_lent = true;
    for (size_t i = 0; i < out->count; i++) out->files[i].found = PLIM_FILE_NEW;
  }
  return err == PLIM_ERR_UNSUPPORTED ? PLIM_OK : err;
}

// The newest first: an older one may be below it. Only the newest decides about success, as it is the one that apply and
// undo go on with.
static plim_err recover_records(const plim_change_store *p, plim_changes *out, plim_error *error) {
  plim_error ignored;
  plim_err first = PLIM_OK;
  unsigned last = plim_store_last_record(p);
  for (unsigned n = last; n > 0; n = plim_store_record_below(p, n)) {
    plim_transaction t;
    plim_error *why = n == last ? error : &ignored;
    plim_err err = plim_store_load_record(p, n, &t, why);
    if (!err && t.kind == PLIM_CHANGES_UNDO) err = finish_undo(p, &t, out, why);
    else if (!err && t.is_lent) err = return_lent(p, n, &t, out, why);
    plim_transaction_clear(&t);
    if (n == last) first = err;
  }
  return first;
}

static plim_err recover(const plim_change_store *p, bool force, plim_changes *out,
                        plim_error *error) {
  plim_transaction t;
  plim_err err = plim_store_load(p, p->journal, &t, error);
  if (!err && t.steps.len) err = recover_journal(p, &t, force, out, error);
  plim_transaction_clear(&t);
  return err ? err : recover_records(p, out, error);
}

plim_err plim_changeset_recover(const char *root, const plim_changeset_options *options,
                                plim_changeset_result *result, plim_error *error) {
  const plim_changeset_options *o = options ? options : &no_options;
  plim_change_store p;
  *result = (plim_changeset_result){0};
  if (!plim_store_exists(root)) return PLIM_OK;
  plim_err err = plim_store_open(&p, root, o, error);
  if (!err) err = recover(&p, o->force, &result->earlier, error);
  plim_store_close(&p);
  return err;
}

// ---- what may be replaced ---------------------------------------------------------------------

static plim_err check_file(const char *path, const struct stat *found, plim_error *error) {
  if (!S_ISREG(found->st_mode)) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s is not a regular file", path);
    return refuse(error, path, "only regular files can be changed");
  }
  if (found->st_nlink > 1) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED,
              "%s has %lu hard links: replacing it would separate them", path,
              (unsigned long)found->st_nlink);
    return refuse(error, path, "make it a separate file: cp -p %s %s.new && mv %s.new %s", path,
                  path, path, path);
  }
  if (!(found->st_mode & 0222) || access(path, W_OK)) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s is write-protected", path);
    return refuse(error, path, "chmod u+w %s", path);
  }
  return PLIM_OK;
}

// The present content of a path, with the bytes; NULL if there is no file.
static plim_err read_now(const char *path, plim_content *content, char **data, plim_error *error) {
  struct stat found;
  size_t size = 0;
  *data = NULL;
  *content = (plim_content){0};
  if (lstat(path, &found))
    return errno == ENOENT ? PLIM_OK : plim_disk_fail(error, "read", path, errno);
  plim_err err = check_file(path, &found, error);
  if (err) return err;
  int number = plim_disk_read_file(path, data, &size);
  if (number) return plim_disk_fail(error, "read", path, number);
  *content = plim_content_of(*data, size);
  return PLIM_OK;
}

// 0: the name is taken; ENOENT: it is free; otherwise the reason why that is not known.
static int look_for_backup(const char *target, int number) {
  struct stat found;
  char *name = plim_backup_name(target, number);
  if (!name) return ENOMEM;
  int result = lstat(name, &found) ? errno : 0;
  free(name);
  return result;
}

static plim_err choose_backup(plim_file_step *s, const char *target, plim_error *error) {
  int number = 0, looked = 0;
  while (number < MOST_BACKUPS && !(looked = look_for_backup(target, number))) number++;
  if (looked != ENOENT)
    return plim_disk_fail(error, "find a name for the backup of", s->path,
                          looked ? looked : EEXIST);
  s->kept = number;
  return PLIM_OK;
}

static plim_err begin(plim_changes_kind kind, unsigned record, plim_transaction *t,
                      plim_error *error) {
  *t = (plim_transaction){.kind = kind, .record = record};
  if (getrandom(&t->id, sizeof t->id, 0) == sizeof t->id) return PLIM_OK;
  return plim_disk_fail(error, "read", "random numbers", errno);
}

// ---- apply ------------------------------------------------------------------------------------

static char *resolve_new(const char *path) {
  const char *slash = strrchr(path, '/');
  char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
  char *resolved = folder ? realpath(folder, NULL) : NULL;
  char *text = NULL;
  const char *name = slash ? slash + 1 : path;
  errno = resolved && !*name ? EISDIR : errno;
  if (resolved && *name &&
      asprintf(&text, "%s/%s", strcmp(resolved, "/") ? resolved : "", name) < 0)
    text = NULL;
  free(folder);
  free(resolved);
  return text;
}

// Resolves symbolic links.
static plim_err resolve(const char *path, char **out, plim_error *error) {
  struct stat found;
  *out = realpath(path, NULL);
  if (*out) return PLIM_OK;
  bool is_dangling = errno == ENOENT && lstat(path, &found) == 0;
  if (is_dangling) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s is a symbolic link to a file that does not exist",
              path);
    return refuse(error, path, "create that file first, or remove the link");
  }
  if (errno == ENOENT) *out = resolve_new(path);
  return *out ? PLIM_OK : plim_disk_fail(error, "write", path, errno);
}

static const char *inside(const char *root, const char *path) {
  size_t size = strcmp(root, "/") ? strlen(root) : 0;
  return strncmp(path, root, size) == 0 && path[size] == '/' ? path + size + 1 : path;
}

static plim_err check_twice(const plim_transaction *t, const char *path, plim_error *error) {
  for (size_t i = 0; i < t->steps.len; i++) {
    if (strcmp(t->steps.at[i].path, path) != 0) continue;
    plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s is changed twice in the same set", path);
    return refuse(error, path, "this is an internal error: please report it");
  }
  return PLIM_OK;
}

static plim_err check_before(const plim_file_change *c, const plim_file_step *s,
                             plim_error *error) {
  if (plim_content_equal(&s->from, &c->before)) return PLIM_OK;
  const char *what = !s->from.exists     ? "does not exist any more"
                     : !c->before.exists ? "exists already"
                                         : "has changed since it was read";
  plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s %s", c->path, what);
  return refuse(error, c->path,
                "nothing was changed; run this again to start from the current files");
}

static char *copy_of(const void *data, size_t size) {
  char *copy = malloc(size + 1);
  if (copy && size) memcpy(copy, data, size);
  return copy;
}

// Fills a step; one with `from` equal to `to` is not needed.
static plim_err plan_change(const plim_file_change *c, const char *target, plim_file_step *s,
                            plim_error *error) {
  plim_err err = read_now(target, &s->from, &s->old_data, error);
  if (!err) err = check_before(c, s, error);
  if (err) return err;
  s->to = plim_content_of(c->after, c->after_size);
  if (c->after && !(s->new_data = copy_of(c->after, c->after_size))) return out_of_memory(error);
  return s->from.exists ? choose_backup(s, target, error) : PLIM_OK;
}

// A plan may come from someone else: its digest is not a signature.
static plim_err check_inside(const plim_change_store *p, const char *path, plim_error *error) {
  if (*path != '/' || p->trusts_outside) return PLIM_OK;
  plim_fail(error, PLIM_ERR_UNSUPPORTED,
            "the plan changes %s, which is outside the current folder; nothing was written", path);
  return refuse(error, path, "if you trust the plan: plimsoll apply PLAN --outside");
}

// The step belongs to the transaction also when this fails.
static plim_err add_change(const plim_change_store *p, const plim_file_change *c,
                           const char *target, plim_transaction *t, plim_error *error) {
  const char *path = inside(p->root, target);
  plim_err err = check_inside(p, path, error);
  if (!err) err = check_twice(t, path, error);
  if (err) return err;
  plim_file_step fresh = {.path = strdup(path), .kept = PLIM_NO_BACKUP, .dropped = PLIM_NO_BACKUP};
  if (!fresh.path || !vec_push(&t->steps, fresh)) {
    free(fresh.path);
    return out_of_memory(error);
  }
  plim_file_step *s = &t->steps.at[t->steps.len - 1];
  err = plan_change(c, target, s, error);
  return err || plim_transaction_name(t, p->root, s) ? err : out_of_memory(error);
}

static plim_err plan_apply(const plim_change_store *p, const plim_file_change *changes,
                           size_t count, plim_transaction *t, plim_error *error) {
  plim_err err = begin(PLIM_CHANGES_APPLY, plim_store_last_record(p) + 1, t, error);
  for (size_t i = 0; i < count && !err; i++) {
    char *target = NULL;
    err = resolve(changes[i].path, &target, error);
    if (!err) err = add_change(p, &changes[i], target, t, error);
    free(target);
  }
  return err;
}

static void leave_out_unchanged(plim_transaction *t) {
  size_t kept = 0;
  for (size_t i = 0; i < t->steps.len; i++) {
    plim_file_step *s = &t->steps.at[i];
    if (plim_content_equal(&s->from, &s->to)) plim_step_clear(s);
    else t->steps.at[kept++] = *s;
  }
  t->steps.len = kept;
}

static plim_err run(const plim_change_store *p, plim_transaction *t, plim_changes *out,
                    plim_error *error) {
  plim_err err = t->steps.len ? plim_transaction_run(p, t, error) : PLIM_OK;
  if (!err && t->steps.len) plim_changes_describe(t, PLIM_CHANGES_DONE, NULL, out);
  return err;
}

static plim_err apply(const plim_change_store *p, const plim_file_change *changes, size_t count,
                      int *lent, plim_changes *out, plim_error *error) {
  plim_transaction t;
  plim_err err = plan_apply(p, changes, count, &t, error);
  t.is_lent = lent;
  if (!err) leave_out_unchanged(&t);
  if (!err) err = run(p, &t, out, error);
  if (!err && lent && t.steps.len) *lent = plim_store_hold(p, t.record);
  plim_transaction_clear(&t);
  return err;
}

plim_err plim_changeset_apply(const char *root, const plim_file_change *changes, size_t count,
                              const plim_changeset_options *options, plim_changeset_result *result,
                              plim_error *error) {
  const plim_changeset_options *o = options ? options : &no_options;
  plim_change_store p;
  *result = (plim_changeset_result){0};
  if (o->lent) *o->lent = -1;
  plim_err err = plim_store_open(&p, root, o, error);
  if (!err) err = recover(&p, o->force, &result->earlier, error);
  if (!err) err = apply(&p, changes, count, o->lent, &result->done, error);
  plim_store_close(&p);
  return err;
}

// ---- undo -------------------------------------------------------------------------------------

// Leaves the file unchanged: it has its old content already, or cannot be restored.
static plim_err leave(plim_file_step *s, plim_error *error) {
  s->is_skipped = !plim_content_equal(&s->from, &s->to);
  s->to = s->from;
  s->dropped = PLIM_NO_BACKUP;
  free(s->new_data);
  s->new_data = s->from.exists ? copy_of(s->old_data, s->from.size) : NULL;
  return s->from.exists && !s->new_data ? out_of_memory(error) : PLIM_OK;
}

static plim_err read_backup(const plim_file_step *applied, bool force, plim_file_step *s,
                            plim_error *error) {
  size_t size;
  if (!s->to.exists) return PLIM_OK;
  char *name = plim_backup_name(applied->path, applied->kept);
  if (!name) return out_of_memory(error);
  plim_err err = PLIM_OK;
  int number = plim_disk_read_file(applied->kept_path, &s->new_data, &size);
  plim_content found = plim_content_of(number ? NULL : s->new_data, size);
  bool is_good = plim_content_equal(&found, &s->to);
  if (!is_good && (force || plim_content_equal(&s->from, &s->to))) err = leave(s, error);
  else if (!is_good) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED, "the backup %s %s", name,
              number ? "cannot be read" : "was changed");
    err = refuse(error, name,
                 "nothing was changed; plimsoll undo --force skips this file and restores the "
                 "others");
  }
  free(name);
  return err;
}

static plim_err check_since(const plim_file_step *applied, const plim_file_step *s, bool force,
                            plim_error *error) {
  bool is_known = plim_content_equal(&s->from, &applied->to) ||
                  plim_content_equal(&s->from, &applied->from); // restored by hand
  if (force || is_known) return PLIM_OK;
  plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s was %s after the plan was applied", s->path,
            s->from.exists ? "changed" : "deleted");
  return refuse(error, s->path, "nothing was changed; plimsoll undo --force %s",
                s->from.exists ? "restores the original and keeps your version as a backup"
                               : "writes the original back");
}

static plim_err plan_restore(const plim_file_step *applied, bool force, plim_file_step *s,
                             plim_error *error) {
  s->to = applied->from;
  s->dropped = applied->kept;
  plim_err err = read_now(applied->target, &s->from, &s->old_data, error);
  if (!err) err = check_since(applied, s, force, error);
  if (!err) err = read_backup(applied, force, s, error);
  bool is_ours = plim_content_equal(&s->from, &applied->to) || plim_content_equal(&s->from, &s->to);
  return !err && s->from.exists && !is_ours ? choose_backup(s, applied->target, error) : err;
}

static plim_err plan_undo(const plim_change_store *p, unsigned number,
                          const plim_transaction *applied, bool force, plim_transaction *t,
                          plim_error *error) {
  plim_err err = begin(PLIM_CHANGES_UNDO, number, t, error);
  for (size_t i = 0; i < applied->steps.len && !err; i++) {
    const plim_file_step *before = &applied->steps.at[i];
    plim_file_step fresh = {
        .path = strdup(before->path), .kept = PLIM_NO_BACKUP, .dropped = PLIM_NO_BACKUP};
    if (!fresh.path || !vec_push(&t->steps, fresh)) {
      free(fresh.path);
      return out_of_memory(error);
    }
    plim_file_step *s = &t->steps.at[i];
    err = plan_restore(before, force, s, error);
    if (!err && !plim_transaction_name(t, p->root, s)) err = out_of_memory(error);
  }
  return err;
}

static plim_err undo_record(const plim_change_store *p, unsigned number,
                            const plim_transaction *applied, bool force, plim_changes *out,
                            plim_error *error) {
  plim_transaction t;
  plim_err err = plan_undo(p, number, applied, force, &t, error);
  if (!err) err = run(p, &t, out, error);
  plim_transaction_clear(&t);
  return err;
}

static plim_err undo(const plim_change_store *p, bool force, plim_changes *out, plim_error *error) {
  plim_transaction applied;
  unsigned last = plim_store_last_record(p);
  plim_err err = plim_store_load_record(p, last, &applied, error);
  if (!err && applied.steps.len) err = undo_record(p, last, &applied, force, out, error);
  plim_transaction_clear(&applied);
  return err;
}

// After an interruption, undo refers to the interrupted call, not to the set before it.
static bool is_undone_already(const plim_changes *earlier) {
  if (!earlier->count) return false;
  bool is_undo = earlier->kind == PLIM_CHANGES_UNDO;
  return is_undo == (earlier->way == PLIM_CHANGES_COMPLETED);
}

plim_err plim_changeset_undo(const char *root, const plim_changeset_options *options,
                             plim_changeset_result *result, plim_error *error) {
  const plim_changeset_options *o = options ? options : &no_options;
  plim_change_store p;
  *result = (plim_changeset_result){0};
  if (!plim_store_exists(root)) return PLIM_OK;
  plim_err err = plim_store_open(&p, root, o, error);
  if (!err) err = recover(&p, o->force, &result->earlier, error);
  if (!err && !is_undone_already(&result->earlier)) err = undo(&p, o->force, &result->done, error);
  plim_store_close(&p);
  return err;
}
