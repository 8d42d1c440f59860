#include "project_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "formats.h"
#include "launch_file.h"
#include "project.h"
#include "run_settings.h"
#include "text_file.h"

// More than the folder of one project has.
enum { MOST_FILES = 600, MOST_ENTRIES = 20000, MOST_FOLDERS_DOWN = 6, MOST_BYTES = 1 << 19 };

// ---- the files ----------------------------------------------------------------------------------------------

typedef vec(char *) paths;

static void free_paths(char **at, size_t count) {
  for (size_t i = 0; i < count; i++) free(at[i]);
  free(at);
}

// Folders of other people's code and of results.
static bool is_passed_over(const char *name) {
  static const char *const names[] = {"node_modules", "site-packages", "venv", "__pycache__",
                                      "wandb",        "build",         "dist"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return *name == '.';
}

// Larger files are data.
static bool is_readable(const char *path) {
  plim_format format;
  struct stat found;
  bool is_known = plim_is_launch_file(path) || plim_format_of(path, "", 0, &format);
  return is_known && stat(path, &found) == 0 && S_ISREG(found.st_mode) &&
         found.st_size <= MOST_BYTES;
}

// A folder that is not behind a link, which could lead back to where it is.
static bool is_own_folder(const char *path) {
  struct stat found;
  return lstat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

typedef struct {
  paths files;
  size_t entries; // seen so far
  plim_folder *folder;
} walk;

static plim_err keep_path(walk *w, const char *path, plim_error *error) {
  if (w->files.len >= MOST_FILES) {
    w->folder->is_cut = true;
    return PLIM_OK;
  }
  char *copy = strdup(path);
  if (copy && vec_push(&w->files, copy)) return PLIM_OK;
  free(copy);
  return plim_no_memory(error);
}

static plim_err collect(walk *w, const char *folder, int down, plim_error *error);

// The files of a folder come before those of the folders in it.
static plim_err collect_some(walk *w, const char *folder, struct dirent **entries, int count,
                             bool folders, int down, plim_error *error) {
  char path[PLIM_PATH_BYTES];
  plim_err err = PLIM_OK;
  for (int i = 0; !err && i < count && !w->folder->is_cut; i++) {
    if (is_passed_over(entries[i]->d_name) || !plim_path_join(path, folder, entries[i]->d_name))
      continue;
    if (folders && is_own_folder(path)) err = collect(w, path, down + 1, error);
    if (!folders && is_readable(path)) err = keep_path(w, path, error);
  }
  return err;
}

// The one file in a hidden folder that starts programs.
static plim_err collect_editor(walk *w, const char *folder, plim_error *error) {
  char path[PLIM_PATH_BYTES];
  bool is_there = plim_path_join(path, folder, ".vscode/launch.json") && is_readable(path);
  return is_there ? keep_path(w, path, error) : PLIM_OK;
}

static plim_err collect(walk *w, const char *folder, int down, plim_error *error) {
  struct dirent **entries = NULL;
  char venv[PLIM_PATH_BYTES];
  if (plim_path_join(venv, folder, "pyvenv.cfg") && plim_is_file(venv)) return PLIM_OK;
  int count = scandir(folder, &entries, NULL, alphasort);
  if (count < 0 && down) return PLIM_OK; // not for us to read
  if (count < 0)
    return plim_fail(error, PLIM_ERR_IO, "cannot read the folder %.200s: %s", folder,
                     strerror(errno));
  w->entries += (size_t)count;
  w->folder->is_cut |= w->entries > MOST_ENTRIES || down > MOST_FOLDERS_DOWN;
  plim_err err = collect_some(w, folder, entries, count, false, down, error);
  if (!err) err = collect_editor(w, folder, error);
  if (!err) err = collect_some(w, folder, entries, count, true, down, error);
  for (int i = 0; i < count; i++) free(entries[i]);
  free(entries);
  return err;
}

// ---- which of them train ------------------------------------------------------------------------------------

// Whether the file only says how a run is launched, as those of accelerate and DeepSpeed do.
static bool is_of_launcher(const plim_project *p) {
  plim_dialect dialect = p->files.len ? p->files.at[0]->is.dialect : PLIM_DIALECTS;
  return dialect != PLIM_DIALECTS && plim_dialect_table[dialect].is_part;
}

// Targets of one file are files of their own.
static char *identity_of(const plim_project_file *f) {
  char *out = NULL;
  if (!f->target) return strdup(f->real);
  return asprintf(&out, "%s:%s", f->real, f->target) < 0 ? NULL : out;
}

static plim_err keep_training(const plim_project *p, const char *path, int line, plim_folder *out,
                              plim_error *error) {
  plim_folder_training t = {.path = strdup(path), .line = line};
  bool has_all = t.path != NULL;
  for (size_t i = 0; has_all && i < p->files.len; i++) {
    if (!p->files.at[i]->real) continue;
    char *real = identity_of(p->files.at[i]);
    has_all = real && vec_push(&t.files, real);
    if (!has_all) free(real);
  }
  if (has_all && vec_push(&out->trainings, t)) return PLIM_OK;
  free_paths(t.files.at, t.files.len);
  free(t.path);
  return plim_no_memory(error);
}

// A file that cannot be parsed, or that is no configuration, starts nothing. The first that cannot be parsed is remembered.
static plim_err look_at(const char *path, int line, plim_folder *out, plim_error *error) {
  plim_project p = {0};
  plim_run_settings settings;
  plim_error why = {0};
  plim_err err = plim_project_read_named(&p, path, &why);
  if (err == PLIM_ERR_PARSE && !out->unparsed.code) out->unparsed = why;
  if (!err) err = plim_project_follow(&p, &why);
  if (!err) err = plim_project_finish(&p, &why);
  if (!err) err = plim_run_settings_of(&p, &settings, &why);
  if (!err) err = keep_training(&p, path, line, out, &why);
  else if (err != PLIM_ERR_NOMEM && is_of_launcher(&p)) {
    char *copy = strdup(path);
    bool is_kept = copy && vec_push(&out->unused, copy);
    if (!is_kept) free(copy), err = PLIM_ERR_NOMEM;
  }
  plim_project_clear(&p);
  return err == PLIM_ERR_NOMEM ? plim_no_memory(error) : PLIM_OK;
}

// Each target that starts a training is one. Without any, a pyproject.toml may hold the settings of one.
static plim_err look_at_targets(const char *path, plim_folder *out, plim_error *error) {
  plim_launch_file f = {0};
  char *text = NULL;
  size_t size;
  plim_error why = {0};
  if (!plim_is_launch_file(path)) return look_at(path, 0, out, error);
  plim_err err = plim_text_file_read(path, MOST_BYTES, &text, &size, &why);
  if (!err) err = plim_launch_file_read(path, text, size, &f, &why);
  if (err == PLIM_ERR_PARSE && !out->unparsed.code) {
    plim_error_file(&why, err, path);
    out->unparsed = why;
  }
  err = err == PLIM_ERR_NOMEM ? plim_no_memory(error) : PLIM_OK;
  for (size_t i = 0; !err && i < f.at.len; i++) {
    char name[PLIM_PATH_BYTES];
    int length = snprintf(name, sizeof name, "%s:%s", path, f.at.at[i].name);
    if (length < PLIM_PATH_BYTES) err = look_at(name, f.at.at[i].line, out, error);
  }
  if (!err && !f.at.len) err = look_at(path, 0, out, error);
  plim_launch_file_clear(&f);
  free(text);
  return err;
}

// ---- which of them start ------------------------------------------------------------------------------------

static bool reads(const plim_folder_training *t, const char *real) {
  for (size_t i = 0; i < t->files.len; i++)
    if (strcmp(t->files.at[i], real) == 0) return true;
  return false;
}

// Whether another training reads this file. If two read each other, the one with more files starts the other.
static bool is_read_by_another(const plim_folder *f, const plim_folder_training *t) {
  for (size_t i = 0; i < f->trainings.len; i++) {
    const plim_folder_training *other = &f->trainings.at[i];
    if (other == t || !t->files.len || !other->files.len || !reads(other, t->files.at[0])) continue;
    bool is_mutual = reads(t, other->files.at[0]);
    bool is_later = other->files.len == t->files.len && other > t;
    if (!is_mutual || (other->files.len >= t->files.len && !is_later)) return true;
  }
  return false;
}

static void free_training(plim_folder_training *t) {
  free_paths(t->files.at, t->files.len);
  free(t->path);
}

static void drop_parts(plim_folder *f) {
  bool *is_part = calloc(f->trainings.len + 1, sizeof *is_part);
  size_t kept = 0;
  if (!is_part) return; // each is then a question of its own
  for (size_t i = 0; i < f->trainings.len; i++)
    is_part[i] = is_read_by_another(f, &f->trainings.at[i]);
  for (size_t i = 0; i < f->trainings.len; i++)
    if (is_part[i]) free_training(&f->trainings.at[i]);
    else f->trainings.at[kept++] = f->trainings.at[i];
  f->trainings.len = kept;
  free(is_part);
}

static void drop_used(plim_folder *f) {
  size_t kept = 0;
  for (size_t i = 0; i < f->unused.len; i++) {
    char *real = realpath(f->unused.at[i], NULL);
    bool is_used = !real;
    for (size_t t = 0; real && t < f->trainings.len; t++)
      is_used |= reads(&f->trainings.at[t], real);
    free(real);
    if (is_used) free(f->unused.at[i]);
    else f->unused.at[kept++] = f->unused.at[i];
  }
  f->unused.len = kept;
}

plim_err plim_folder_read(const char *folder, plim_folder *out, plim_error *error) {
  *out = (plim_folder){0};
  walk w = {.folder = out};
  plim_err err = collect(&w, folder, 0, error);
  for (size_t i = 0; !err && i < w.files.len; i++) err = look_at_targets(w.files.at[i], out, error);
  free_paths(w.files.at, w.files.len);
  if (err) plim_folder_clear(out);
  drop_parts(out);
  drop_used(out);
  return err;
}

void plim_folder_clear(plim_folder *f) {
  for (size_t i = 0; i < f->trainings.len; i++) free_training(&f->trainings.at[i]);
  vec_free(&f->trainings);
  free_paths(f->unused.at, f->unused.len);
  *f = (plim_folder){0};
}
