// The folder .plimsoll: its lock, its journal, its records.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "transaction.h"

#define FOLDER "/.plimsoll"
#define RECORD "applied."
#define LOCK_TRIES 1000 // each try may be lost to another process that is just ending
#define WAIT_MILLISECONDS 10

static char *join(const char *a, const char *b) {
  char *text = NULL;
  return asprintf(&text, "%s%s", a, b) < 0 ? NULL : text;
}

static bool name_parts(plim_change_store *p, const char *root) {
  p->root = realpath(root, NULL);
  if (!p->root) return false;
  p->folder = join(strcmp(p->root, "/") ? p->root : "", FOLDER);
  if (!p->folder) return false;
  p->lock = join(p->folder, "/lock");
  p->journal = join(p->folder, "/journal");
  p->journal_new = join(p->folder, "/journal.new");
  errno = ENOMEM;
  return p->lock && p->journal && p->journal_new;
}

// ---- lock -------------------------------------------------------------------------------------

static bool is_still_there(int fd, const char *path) {
  struct stat own, there;
  return fstat(fd, &own) == 0 && stat(path, &there) == 0 && own.st_ino == there.st_ino &&
         own.st_dev == there.st_dev;
}

// The contents of a folder survive a power cut only if the folder itself is synced.
static int make_folder(const plim_change_store *p) {
  struct stat found;
  if (p->disk->mkdir(p->folder, 0777) == 0) return plim_disk_sync_folder(p->disk, p->folder);
  if (errno != EEXIST) return errno;
  return lstat(p->folder, &found) == 0 && !S_ISDIR(found.st_mode) ? ENOTDIR : 0;
}

// Returns 0, EAGAIN (try again), EBUSY (another process has the lock), or another errno. A process that ends
// removes the lock file and the folder, so both may vanish at any time.
static int try_lock(plim_change_store *p) {
  int made = make_folder(p);
  if (made) return made;
  int fd = p->disk->open(p->lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return errno == ENOENT ? EAGAIN : errno;
  int number = flock(fd, LOCK_EX | LOCK_NB) ? errno : 0;
  if (number == EWOULDBLOCK) number = EBUSY;
  if (!number && !is_still_there(fd, p->lock)) number = EAGAIN;
  if (number) p->disk->close(fd);
  else p->lock_fd = fd;
  return number;
}

static int take_lock(plim_change_store *p) {
  int number = EAGAIN;
  for (int i = 0; i < LOCK_TRIES; i++) {
    number = try_lock(p);
    if (number == EBUSY && p->waits)
      nanosleep(&(struct timespec){.tv_nsec = WAIT_MILLISECONDS * 1000000}, NULL);
    else if (number != EAGAIN) break;
  }
  return number == EAGAIN ? EBUSY : number;
}

static plim_err fail_lock(const plim_change_store *p, int number, plim_error *error) {
  if (number == ENOTDIR) {
    plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s is not a folder", p->folder);
    plim_error_hint(error,
                    "plimsoll records its changes in a folder of that name: remove the file");
    return PLIM_ERR_UNSUPPORTED;
  }
  if (number != EBUSY) {
    p->disk->rmdir(p->folder);
    return plim_disk_fail(error, "lock", p->folder, number);
  }
  plim_fail(error, PLIM_ERR_UNSUPPORTED, "another plimsoll is changing files in %s", p->root);
  plim_error_hint(error, "wait until it has finished, then run this again");
  return PLIM_ERR_UNSUPPORTED;
}

plim_err plim_store_open(plim_change_store *p, const char *root,
                         const plim_changeset_options *options, plim_error *error) {
  *p = (plim_change_store){.disk = options->disk ? options->disk : &plim_real_disk,
                           .lock_fd = -1,
                           .trusts_outside = options->outside,
                           .waits = options->waits};
  if (!name_parts(p, root)) return plim_disk_fail(error, "open", root, errno);
  int number = take_lock(p);
  if (number) return fail_lock(p, number, error);
  plim_disk_remove(p->disk, p->journal_new); // left by a call that was killed while writing it
  return PLIM_OK;
}

plim_err plim_store_peek(plim_change_store *p, const char *root, plim_error *error) {
  *p = (plim_change_store){.disk = &plim_real_disk, .lock_fd = -1, .trusts_outside = true};
  return name_parts(p, root) ? PLIM_OK : plim_disk_fail(error, "open", root, errno);
}

bool plim_store_is_busy(const plim_change_store *p) {
  int fd = open(p->lock, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  bool is_busy = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK;
  if (fd >= 0) close(fd);
  return is_busy;
}

void plim_store_close(plim_change_store *p) {
  if (p->lock_fd >= 0) {
    p->disk->unlink(p->lock);
    p->disk->rmdir(p->folder);
    p->disk->close(p->lock_fd);
  }
  free(p->root);
  free(p->folder);
  free(p->lock);
  free(p->journal);
  free(p->journal_new);
  *p = (plim_change_store){.lock_fd = -1};
}

bool plim_store_exists(const char *root) {
  char *folder = join(root, FOLDER);
  struct stat found;
  bool exists = !folder || stat(folder, &found) == 0;
  free(folder);
  return exists;
}

// ---- journal ----------------------------------------------------------------------------------

static int replace_journal(const plim_change_store *p, const char *text, size_t size) {
  int number = plim_disk_write_file(p->disk, p->journal_new, text, size, NULL);
  if (!number && p->disk->rename(p->journal_new, p->journal)) {
    number = errno;
    p->disk->unlink(p->journal_new);
  }
  return number ? number : plim_disk_sync_folder(p->disk, p->journal);
}

plim_err plim_store_write_journal(const plim_change_store *p, const plim_transaction *t,
                                  plim_error *error) {
  size_t size;
  char *text = plim_journal_write(t, &size);
  int number = text ? replace_journal(p, text, size) : ENOMEM;
  free(text);
  return number ? plim_disk_fail(error, "write", p->journal, number) : PLIM_OK;
}

static bool name_steps(const plim_change_store *p, plim_transaction *t) {
  for (size_t i = 0; i < t->steps.len; i++)
    if (!plim_transaction_name(t, p->root, &t->steps.at[i])) return false;
  return true;
}

static plim_err parse(const plim_change_store *p, const char *path, const char *text, size_t size,
                      plim_transaction *out, plim_error *error) {
  if (plim_journal_read(text, size, out, error)) {
    plim_error_hint(
        error, "it records what was done to each file; inspect those files, then remove %s", path);
    if (error) snprintf(error->file, sizeof error->file, "%s", path);
    return PLIM_ERR_PARSE;
  }
  if (name_steps(p, out)) return PLIM_OK;
  plim_transaction_clear(out);
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

// apply records paths with links resolved, so a path through a link was not written by it.
static bool stays_inside(const plim_file_step *s) {
  char *folder = plim_disk_folder_of(s->target);
  char *real = folder && *s->path != '/' ? realpath(folder, NULL) : NULL;
  bool is_gone = folder && *s->path != '/' && !real && errno == ENOENT;
  bool stays = is_gone || (real && strcmp(real, folder) == 0);
  free(folder);
  free(real);
  return stays;
}

static plim_err check_inside(const plim_change_store *p, const char *path,
                             const plim_transaction *t, plim_error *error) {
  for (size_t i = 0; i < t->steps.len && !p->trusts_outside; i++) {
    const plim_file_step *s = &t->steps.at[i];
    if (stays_inside(s)) continue;
    plim_fail(error, PLIM_ERR_UNSUPPORTED,
              "undo would change %s, which is outside the current folder; nothing was written",
              s->path);
    plim_error_hint(
        error, "if you applied that plan yourself: plimsoll undo --outside; if the folder came "
               "from someone else, remove .plimsoll");
    if (error) snprintf(error->file, sizeof error->file, "%s", path);
    return PLIM_ERR_UNSUPPORTED;
  }
  return PLIM_OK;
}

plim_err plim_store_load(const plim_change_store *p, const char *path, plim_transaction *out,
                         plim_error *error) {
  char *text;
  size_t size;
  *out = (plim_transaction){0};
  int number = plim_disk_read_file(path, &text, &size);
  if (number == ENOENT) return PLIM_OK;
  if (number) return plim_disk_fail(error, "read", path, number);
  plim_err err = parse(p, path, text, size, out, error);
  if (!err) err = check_inside(p, path, out, error);
  if (err) plim_transaction_clear(out);
  free(text);
  return err;
}

// ---- records ----------------------------------------------------------------------------------

static unsigned record_number(const char *name) {
  size_t prefix = strlen(RECORD);
  if (strncmp(name, RECORD, prefix) != 0) return 0;
  char *end;
  unsigned long number = strtoul(name + prefix, &end, 10);
  return *end || number >= INT32_MAX ? 0 : (unsigned)number;
}

unsigned plim_store_record_below(const plim_change_store *p, unsigned limit) {
  unsigned last = 0;
  DIR *folder = opendir(p->folder);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    unsigned number = record_number(entry->d_name);
    if (number > last && number < limit) last = number;
  }
  if (folder) closedir(folder);
  return last;
}

unsigned plim_store_last_record(const plim_change_store *p) {
  return plim_store_record_below(p, UINT_MAX);
}

char *plim_store_record_path(const plim_change_store *p, unsigned number) {
  char *path = NULL;
  return asprintf(&path, "%s/" RECORD "%u", p->folder, number) < 0 ? NULL : path;
}

plim_err plim_store_load_record(const plim_change_store *p, unsigned number, plim_transaction *out,
                                plim_error *error) {
  *out = (plim_transaction){0};
  char *path = plim_store_record_path(p, number);
  plim_err err = path ? plim_store_load(p, path, out, error)
                      : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  free(path);
  return err;
}

plim_err plim_store_load_last(const plim_change_store *p, plim_transaction *out,
                              plim_error *error) {
  return plim_store_load_record(p, plim_store_last_record(p), out, error);
}

// ---- lent sets --------------------------------------------------------------------------------

static int lock_record(const plim_change_store *p, unsigned number, bool *is_taken) {
  char *path = plim_store_record_path(p, number);
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
  free(path);
  *is_taken = fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
  return fd;
}

int plim_store_hold(const plim_change_store *p, unsigned number) {
  bool is_taken;
  return lock_record(p, number, &is_taken);
}

bool plim_store_is_held(const plim_change_store *p, unsigned number) {
  bool is_taken;
  int fd = lock_record(p, number, &is_taken);
  if (fd >= 0) close(fd);
  return is_taken;
}
