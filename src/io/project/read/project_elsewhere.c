// Configurations that other trainings use as well: a DeepSpeed file that examples share is not rewritten for one of them.
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_impl.h"

enum { MOST_FILES = 400, MOST_BYTES = 1 << 18 };

// The search for files that name another file.
typedef struct {
  plim_project *p;
  int left; // files that may still be read
} search;

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool ends_in(const char *path, const char *end) {
  size_t size = strlen(path), n = strlen(end);
  return size > n && strcmp(path + size - n, end) == 0;
}

static bool may_name_files(const char *path) {
  static const char *const ends[] = {".yaml", ".yml", ".sh", ".toml", ".py"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (ends_in(path, ends[i])) return true;
  return false;
}

static bool is_of_project(const plim_project *p, const char *path) {
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    char *real = f->real ? realpath(path, NULL) : NULL;
    bool is_it = real && strcmp(real, f->real) == 0;
    free(real);
    if (is_it) return true;
  }
  return false;
}

// A configuration that another file of the project names.
static bool is_configuration(const plim_project_file *f) {
  return f->real && !f->is_typed && ends_in(f->path, ".json");
}

static bool is_of_path(char c) { return c > ' ' && !strchr("\"'=:,;()[]{}#", c); }

// Whether a path, seen from the folder of a file or from one above it, is this configuration.
static bool leads_to(const char *named, const char *from, const plim_project_file *f) {
  char path[PLIM_PATH_BYTES];
  if (!plim_lookup_file(from, named, path)) return false;
  char *real = realpath(path, NULL);
  bool is_it = real && strcmp(real, f->real) == 0;
  free(real);
  return is_it;
}

// Whether the text of the file `from` has a path that leads to the configuration.
static bool names_it(const char *text, size_t size, const char *from, const plim_project_file *f) {
  const char *name = name_of(f->path), *end = text + size;
  size_t n = strlen(name);
  for (const char *at = text; (at = memmem(at, (size_t)(end - at), name, n)); at += n) {
    const char *first = at;
    char named[PLIM_PATH_BYTES];
    bool is_whole = at + n == end || !is_of_path(at[n]);
    while (first > text && is_of_path(first[-1])) first--;
    size_t length = (size_t)(at + n - first);
    if (!is_whole || length >= sizeof named) continue;
    memcpy(named, first, length);
    named[length] = '\0';
    if (leads_to(named, from, f)) return true;
  }
  return false;
}

static void look_into(search *s, const char *path) {
  char *text = NULL;
  size_t size;
  if (is_of_project(s->p, path)) return;
  s->left--;
  if (plim_text_file_read(path, MOST_BYTES, &text, &size, NULL)) return;
  for (size_t i = 0; i < s->p->files.len; i++) {
    plim_project_file *f = s->p->files.at[i];
    if (f->elsewhere || !is_configuration(f) || !names_it(text, size, path, f)) continue;
    f->elsewhere = strdup(path);
    s->p->has_failed |= !f->elsewhere;
  }
  free(text);
}

static void look_through(search *s, const char *folder, bool goes_down) {
  DIR *entries = opendir(folder);
  char path[PLIM_PATH_BYTES];
  for (struct dirent *e; entries && s->left > 0 && (e = readdir(entries));) {
    if (*e->d_name == '.' || !plim_path_join(path, folder, e->d_name)) continue;
    if (may_name_files(path) && plim_is_file(path)) look_into(s, path);
    else if (goes_down && plim_is_folder(path)) look_through(s, path, false);
  }
  if (entries) closedir(entries);
}

static void look_around(search *s, const plim_project_file *f) {
  char folder[PLIM_PATH_BYTES];
  for (int up = 1; up <= 2; up++) {
    snprintf(folder, sizeof folder, "%s", f->real);
    char *slash = NULL;
    for (int i = 0; i < up && (slash = strrchr(folder, '/')); i++) *slash = '\0';
    if (slash && *folder) look_through(s, folder, up == 2);
  }
}

// Looks beside the first file and in the folders beside its own, and the same for each configuration.
void plim_project_find_elsewhere(plim_project *p) {
  bool has_any = false;
  for (size_t i = 0; i < p->files.len; i++) has_any |= i > 0 && is_configuration(p->files.at[i]);
  if (!has_any || !p->files.at[0]->real) return;
  search s = {p, MOST_FILES};
  look_around(&s, p->files.at[0]);
  for (size_t i = 1; i < p->files.len; i++)
    if (is_configuration(p->files.at[i]) && !p->files.at[i]->elsewhere)
      look_around(&s, p->files.at[i]);
}
