// The folder of one run.
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "simulate_impl.h"

// ---- the stand-ins ----------------------------------------------------------------------------------

static bool has_stand_ins(const char *folder) {
  char path[PLIM_PATH_BYTES];
  return plim_path_join(path, folder, "libplimsoll-card.so") && plim_is_file(path);
}

plim_err simulate_find_stand_ins(char path[PLIM_PATH_BYTES], plim_error *error) {
  static const char *const places[] = {"card", "../lib/plimsoll"};
  char program[PLIM_PATH_BYTES];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length < 0) return plim_fail(error, PLIM_ERR_IO, "cannot read /proc/self/exe");
  program[length] = 0;
  *strrchr(program, '/') = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (plim_path_join(path, program, places[i]) && has_stand_ins(path)) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_IO,
                           "libplimsoll-card.so, the simulated card, is neither in %.120s/%s nor "
                           "in %.120s/%s",
                           program, places[0], program, places[1]);
  plim_error_hint(error, "install plimsoll again: make install");
  return err;
}

// ---- removing ---------------------------------------------------------------------------------------

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *where) {
  (void)status, (void)kind, (void)where;
  remove(path);
  return 0;
}

void simulate_folder_remove(const char *path, bool has_log) {
  static const char *const parts[] = {"names", "out", "scratch"};
  enum { OPEN_FOLDERS = 16 };
  char part[PLIM_PATH_BYTES];
  for (size_t i = 0; has_log && i < sizeof parts / sizeof *parts; i++)
    if (plim_path_join(part, path, parts[i]))
      nftw(part, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
  if (!has_log) nftw(path, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

// ---- old runs ---------------------------------------------------------------------------------------

// A run that has ended has nothing but its log.
static bool has_ended(const char *run) {
  char part[PLIM_PATH_BYTES];
  return plim_path_join(part, run, "out") && access(part, F_OK) != 0;
}

static int is_run(const struct dirent *entry) { return isdigit((unsigned char)*entry->d_name); }

// Names begin with the time, so the oldest come first.
static void forget_old_runs(const char *state) {
  struct dirent **runs;
  char path[PLIM_PATH_BYTES];
  int count = scandir(state, &runs, is_run, alphasort);
  for (int i = 0; i < count; i++) {
    bool is_old = i < count - SIMULATE_KEPT_LOGS && plim_path_join(path, state, runs[i]->d_name);
    if (is_old && has_ended(path)) simulate_folder_remove(path, false);
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

// Makes the folder and those above it.
static plim_err make_folders(const char *path, plim_error *error) {
  char part[PLIM_PATH_BYTES];
  for (const char *slash = strchr(path + 1, '/');; slash = strchr(slash + 1, '/')) {
    snprintf(part, sizeof part, "%.*s", slash ? (int)(slash - path) : (int)strlen(path), path);
    if (mkdir(part, 0700) && errno != EEXIST) return cannot_make(part, error);
    if (!slash) return PLIM_OK;
  }
}

// $XDG_STATE_HOME/plimsoll/simulate, or that below ~/.local/state.
static plim_err find_state(char path[PLIM_PATH_BYTES], plim_error *error) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  if (state && *state == '/') {
    if (plim_path_join(path, state, "plimsoll/simulate")) return PLIM_OK;
  } else if (home && *home == '/') {
    if (plim_path_join(path, home, ".local/state/plimsoll/simulate")) return PLIM_OK;
  }
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "neither HOME nor XDG_STATE_HOME is a path");
  plim_error_hint(error, "HOME=/tmp plimsoll simulate ...: the log is kept there");
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
static plim_err make_run(char path[PLIM_PATH_BYTES], plim_error *error) {
  char state[PLIM_PATH_BYTES], name[64], stamp[32];
  time_t now = time(NULL);
  struct tm local;
  localtime_r(&now, &local);
  strftime(stamp, sizeof stamp, "%Y-%m-%d-%H%M%S", &local);
  plim_err err = find_state(state, error);
  if (!err) err = make_folders(state, error);
  for (int i = 1; !err; i++) {
    snprintf(name, sizeof name, i > 1 ? "%s-%d" : "%s", stamp, i);
    if (!plim_path_join(path, state, name))
      return plim_fail(error, PLIM_ERR_IO, "the path %.200s is too long", state);
    if (!mkdir(path, 0700)) {
      forget_old_runs(state);
      return PLIM_OK;
    }
    if (errno != EEXIST) err = cannot_make(path, error);
  }
  *path = 0;
  return err;
}

plim_err simulate_folder_make(simulate_folder *f, const char *stand_ins, plim_error *error) {
  *f = (simulate_folder){0};
  plim_err err = make_run(f->path, error);
  bool fits =
      !err && plim_path_join(f->log, f->path, "log") &&
      plim_path_join(f->names, f->path, "names") && plim_path_join(f->out, f->path, "out") &&
      plim_path_join(f->scratch, f->path, "scratch") && plim_path_join(f->record, f->out, "record");
  if (!err && !fits) err = plim_fail(error, PLIM_ERR_IO, "the path %.200s is too long", f->path);
  const char *const folders[] = {f->names, f->out, f->scratch};
  for (size_t i = 0; !err && i < sizeof folders / sizeof *folders; i++)
    err = make_folders(folders[i], error);
  if (!err && stand_ins) err = link_names(f, stand_ins, error);
  if (err && *f->path) simulate_folder_remove(f->path, false);
  return err;
}
