// Finds a file that another file refers to. The result does not depend on how the path of the other file is spelled.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "project_impl.h"
#include "text_file.h"

enum { FOLDERS_UP = 4 };

// ---- configurations ---------------------------------------------------------------------------------

static void folder_of(const char *path, char out[PLIM_PATH_BYTES]) {
  const char *slash = strrchr(path, '/');
  if (!slash) snprintf(out, PLIM_PATH_BYTES, ".");
  else snprintf(out, PLIM_PATH_BYTES, "%.*s", slash == path ? 1 : (int)(slash - path), path);
}

// Replaces a folder by its parent; false: there is none.
static bool go_up(char folder[PLIM_PATH_BYTES]) {
  struct stat here, above;
  size_t size = strlen(folder);
  if (size + 4 > PLIM_PATH_BYTES || stat(folder, &here)) return false;
  memcpy(folder + size, "/..", 4);
  bool is_root =
      stat(folder, &above) || (here.st_dev == above.st_dev && here.st_ino == above.st_ino);
  return !is_root;
}

bool plim_lookup_file(const char *from, const char *name, char path[PLIM_PATH_BYTES]) {
  char folder[PLIM_PATH_BYTES];
  if (*name == '/')
    return snprintf(path, PLIM_PATH_BYTES, "%s", name) < PLIM_PATH_BYTES && plim_is_file(path);
  folder_of(from, folder);
  for (int i = 0; i < FOLDERS_UP; i++) {
    if (plim_path_join(path, folder, name) && plim_is_file(path)) return true;
    if (!go_up(folder)) return false;
  }
  return false;
}

bool plim_lookup_end(const char *from, const char *name, char path[PLIM_PATH_BYTES]) {
  for (const char *end = strchr(name, '/'); end && strchr(end + 1, '/'); end = strchr(end + 1, '/'))
    if (plim_lookup_file(from, end + 1, path)) return true;
  return false;
}

bool plim_project_finds(const char *from, const char *name) {
  char path[PLIM_PATH_BYTES];
  return plim_lookup_file(from, name, path) || plim_lookup_end(from, name, path);
}

// ---- modules ----------------------------------------------------------------------------------------

// A module that is searched, with the folder and the path where it was found.
typedef struct {
  const char *module; // "config/base"
  char *root;         // root and path have PLIM_PATH_BYTES each
  char *path;
} search;

static bool look_into(search *s, const char *folder) {
  char name[PLIM_PATH_BYTES];
  static const char *const endings[] = {".py", "/__init__.py"};
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    int size = snprintf(name, sizeof name, "%s%s", s->module, endings[i]);
    bool fits = size > 0 && (size_t)size < sizeof name && plim_path_join(s->path, folder, name);
    if (!fits || !plim_is_file(s->path)) continue;
    snprintf(s->root, PLIM_PATH_BYTES, "%s", folder);
    return true;
  }
  return false;
}

static bool has_init(const char *folder) {
  char path[PLIM_PATH_BYTES];
  return plim_path_join(path, folder, "__init__.py") && plim_is_file(path);
}

// Searches the folder that contains the package of the script, because python -m runs it from there.
static bool look_above_package(search *s, const char *folder) {
  char above[PLIM_PATH_BYTES];
  snprintf(above, sizeof above, "%s", folder);
  if (!has_init(above)) return false;
  while (has_init(above))
    if (!go_up(above)) return false;
  return look_into(s, above);
}

static bool has_word(const char *text, const char *word) {
  size_t size = strlen(word);
  for (const char *at = text; (at = strstr(at, word)); at += size) {
    bool begins = at == text || isspace((unsigned char)at[-1]);
    if (begins && (isspace((unsigned char)at[size]) || !at[size])) return true;
  }
  return false;
}

// Searches the folders of a list such as src:$PYTHONPATH, relative to the folder in which the command runs.
static bool look_into_list(search *s, const char *run_folder, const char *list) {
  char folder[PLIM_PATH_BYTES], entry[PLIM_PATH_BYTES];
  while (*list) {
    size_t size = strcspn(list, ":");
    const char *at = list;
    list += size + (list[size] == ':');
    if (strncmp(at, "$PWD", 4) == 0) at += 4, size -= 4;
    else if (strncmp(at, "$(pwd)", 6) == 0) at += 6, size -= 6;
    else if (*at == '/') run_folder = "";
    while (size && *at == '/' && *run_folder) at++, size--;
    if (memchr(at, '$', size) || size >= sizeof entry) continue;
    snprintf(entry, sizeof entry, "%.*s", (int)size, at);
    bool fits = plim_path_join(folder, *run_folder ? run_folder : ".", size ? entry : ".");
    if (*at == '/') fits = snprintf(folder, sizeof folder, "%s", entry) > 0;
    if (fits && look_into(s, folder)) return true;
  }
  return false;
}

// The value of PYTHONPATH as it is written in a command file; NULL: it has none.
static const char *python_path(const plim_project_file *f, char out[PLIM_PATH_BYTES]) {
  const char *at = strstr(f->text, "PYTHONPATH=");
  if (!at) return NULL;
  at += strlen("PYTHONPATH=");
  at += strspn(at, "\"'");
  size_t size = strcspn(at, " \t\r\n\"';&");
  snprintf(out, PLIM_PATH_BYTES, "%.*s", size < PLIM_PATH_BYTES ? (int)size : 0, at);
  return out;
}

// Searches the folders that the commands of the project put on Python's path: by python -m, and by PYTHONPATH.
static bool look_by_commands(const plim_project *p, search *s) {
  char folder[PLIM_PATH_BYTES], list[PLIM_PATH_BYTES];
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (!plim_is_command(f)) continue;
    plim_run_folder(f, folder);
    if (has_word(f->text, "-m") && look_into(s, folder)) return true;
    if (python_path(f, list) && look_into_list(s, folder, list)) return true;
  }
  return false;
}

bool plim_lookup_module(const plim_project *p, const plim_project_file *from, const char *module,
                        int dots, char root[PLIM_PATH_BYTES], char path[PLIM_PATH_BYTES]) {
  char folder[PLIM_PATH_BYTES];
  search s = {module, root, path};
  folder_of(from->path, folder);
  if (dots) {
    while (--dots > 0)
      if (!go_up(folder)) return false;
    if (!look_into(&s, folder)) return false;
    if (from->import_root) snprintf(root, PLIM_PATH_BYTES, "%s", from->import_root);
    return true;
  }
  const char *start = from->import_root ? from->import_root : folder;
  return look_into(&s, start) || look_by_commands(p, &s) || look_above_package(&s, start);
}
