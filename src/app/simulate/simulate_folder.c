// The folder of one run.
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "disk.h"
#include "simulate_impl.h"

// ---- the stand-ins ----------------------------------------------------------------------------------

static bool has_stand_ins(const char *folder) {
  char path[PLIM_PATH_BYTES];
  return plim_path_join(path, folder, "libplimsoll-card.so") && plim_is_file(path);
}

plim_err simulate_find_stand_ins(char path[PLIM_PATH_BYTES], plim_error *error) {
  // Where it is built, where make install puts it, and where pip does: pip install --target leaves out lib.
  static const char *const places[] = {"card", "../lib/plimsoll", "../libexec/plimsoll"};
  char program[PLIM_PATH_BYTES];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length < 0) return plim_fail(error, PLIM_ERR_IO, "cannot read /proc/self/exe");
  program[length] = 0;
  *strrchr(program, '/') = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (plim_path_join(path, program, places[i]) && has_stand_ins(path)) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_IO,
                           "libplimsoll-card.so, the simulated GPU, is in none of %s, %s and %s "
                           "of %.120s",
                           places[0], places[1], places[2], program);
  plim_error_hint(
      error,
      "install plimsoll again: make install, or pip install --force-reinstall with its wheel");
  return err;
}

// ---- removing ---------------------------------------------------------------------------------------

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where) {
  (void)status, (void)kind, (void)where;
  remove(path);
  return 0;
}

static int is_part(const struct dirent *entry) {
  static const char *const others[] = {".", "..", "log"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(entry->d_name, others[i]) == 0) return 0;
  return 1;
}

void simulate_folder_remove(const char *path, bool has_log) {
  enum { OPEN_FOLDERS = 16 };
  char part[PLIM_PATH_BYTES];
  struct dirent **parts;
  int count = scandir(path, &parts, is_part, NULL);
  for (int i = 0; i < count; i++) {
    if (plim_path_join(part, path, parts[i]->d_name))
      nftw(part, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
    free(parts[i]);
  }
  if (count >= 0) free(parts);
  if (!has_log) nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

// ---- old runs ---------------------------------------------------------------------------------------

// Locks the folder `out` of a run, which is the same inside the run's sandbox. The lock ends with the process that has it,
// however that ends. -1: another process has it, there is no such folder, or the file system has no locks.
static int lock_run(const char *run) {
  char part[PLIM_PATH_BYTES];
  int folder =
      plim_path_join(part, run, "out") ? open(part, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (folder < 0 || flock(folder, LOCK_EX | LOCK_NB) == 0) return folder;
  close(folder);
  return -1;
}

// The log is made when the folder is locked.
static bool has_log(const char *run) {
  char part[PLIM_PATH_BYTES];
  return plim_path_join(part, run, "log") && plim_is_file(part);
}

// A run that has ended well has nothing but its log.
static bool has_ended(const char *run) {
  char part[PLIM_PATH_BYTES];
  return plim_path_join(part, run, "out") && access(part, F_OK) != 0;
}

static int is_run(const struct dirent *entry) { return isdigit((unsigned char)*entry->d_name); }

// Of a run that was interrupted or killed, everything but the log is removed; of an old one, that too. Names begin with the
// time, so the oldest come first.
static void forget_old_runs(const char *state, int kept) {
  struct dirent **runs;
  char path[PLIM_PATH_BYTES];
  int count = scandir(state, &runs, is_run, alphasort);
  for (int i = 0; i < count; i++) {
    bool is_old = i < count - kept, fits = plim_path_join(path, state, runs[i]->d_name);
    int lock = fits && has_log(path) ? lock_run(path) : -1;
    if (lock >= 0 || (fits && is_old && has_ended(path))) simulate_folder_remove(path, !is_old);
    if (lock >= 0) close(lock);
    free(runs[i]);
  }
  if (count >= 0) free(runs);
}

// ---- making -----------------------------------------------------------------------------------------

static plim_err cannot_make(const char *path, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_IO, "cannot make %.200s: %s", path, strerror(errno));
  plim_error_hint(error, "to keep the log elsewhere: XDG_STATE_HOME=/tmp plimsoll ...");
  return err;
}

static plim_err make_folders(const char *path, plim_error *error) {
  errno = plim_disk_make_folders(&plim_real_disk, path);
  return errno ? cannot_make(path, error) : PLIM_OK;
}

plim_err simulate_state_path(const char *name, char path[PLIM_PATH_BYTES], plim_error *error) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  char folder[PLIM_PATH_BYTES];
  bool fits = false;
  if (state && *state == '/') fits = plim_path_join(folder, state, "plimsoll");
  else if (home && *home == '/') fits = plim_path_join(folder, home, ".local/state/plimsoll");
  if (fits && plim_path_join(path, folder, name)) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "neither HOME nor XDG_STATE_HOME is a path");
  plim_error_hint(error, "HOME=/tmp plimsoll ...: logs are kept there");
  return err;
}

static plim_err link_names(const simulate_folder *folder, const char *stand_ins,
                           plim_error *error) {
  static const char *const by_name[] = {"libplimsoll-card.so", "libcuda.so.1", "libnvidia-ml.so.1"};
  char card[PLIM_PATH_BYTES], names[PLIM_PATH_BYTES], path[PLIM_PATH_BYTES];
  bool fits = plim_path_join(card, stand_ins, "libplimsoll-card.so") &&
              plim_path_join(names, stand_ins, "libplimsoll-names.so");
  for (size_t i = 0; fits && i < sizeof by_name / sizeof *by_name; i++)
    if (!plim_path_join(path, folder->names, by_name[i]) || symlink(card, path))
      return cannot_make(path, error);
  for (const char *const *name = simulate_library_names; fits && *name; name++)
    if (!plim_path_join(path, folder->names, *name) || symlink(names, path))
      return cannot_make(path, error);
  return fits ? PLIM_OK : plim_fail(error, PLIM_ERR_IO, "the path %.200s is too long", stand_ins);
}

// Makes a new folder, named by the time so that the newest log is the last.
static plim_err make_run(char path[PLIM_PATH_BYTES], const char *kind, int kept,
                         plim_error *error) {
  char state[PLIM_PATH_BYTES], name[64], stamp[32];
  time_t now = time(NULL);
  struct tm local;
  localtime_r(&now, &local);
  strftime(stamp, sizeof stamp, "%Y-%m-%d-%H%M%S", &local);
  plim_err err = simulate_state_path(kind, state, error);
  if (!err) err = make_folders(state, error);
  for (int i = 1; !err; i++) {
    snprintf(name, sizeof name, i > 1 ? "%s-%d" : "%s", stamp, i);
    if (!plim_path_join(path, state, name))
      return plim_fail(error, PLIM_ERR_IO, "the path %.200s is too long", state);
    if (!mkdir(path, 0700)) {
      forget_old_runs(state, kept);
      return PLIM_OK;
    }
    if (errno != EEXIST) err = cannot_make(path, error);
  }
  *path = 0;
  return err;
}

plim_err simulate_folder_make(simulate_folder *f, const char *kind, int kept, const char *stand_ins,
                              plim_error *error) {
  *f = (simulate_folder){.lock = -1};
  plim_err err = make_run(f->path, kind, kept, error);
  bool fits =
      !err && plim_path_join(f->log, f->path, "log") &&
      plim_path_join(f->names, f->path, "names") && plim_path_join(f->out, f->path, "out") &&
      plim_path_join(f->scratch, f->path, "scratch") && plim_path_join(f->record, f->out, "record");
  if (!err && !fits) err = plim_fail(error, PLIM_ERR_IO, "the path %.200s is too long", f->path);
  const char *const folders[] = {f->names, f->out, f->scratch};
  for (size_t i = 0; !err && i < sizeof folders / sizeof *folders; i++)
    err = make_folders(folders[i], error);
  if (!err) f->lock = lock_run(f->path);
  if (!err && stand_ins) err = link_names(f, stand_ins, error);
  if (err && *f->path) simulate_folder_remove(f->path, false);
  if (err && f->lock >= 0) close(f->lock);
  return err;
}
