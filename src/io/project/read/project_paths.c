// Paths of a project's files: short names, names in diffs, look-up by the end of a path.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_impl.h"
#include "text_file.h"

// ---- from the current folder ------------------------------------------------------------------------

static bool climbs(const char *path) {
  for (; path; path = strchr(path, '/')) {
    path += *path == '/';
    if (strncmp(path, "..", 2) == 0 && (!path[2] || path[2] == '/')) return true;
  }
  return false;
}

// Resolves links in the folder; the file itself may be a link.
static bool resolve(const char *path, char out[PLIM_PATH_BYTES]) {
  const char *slash = strrchr(path, '/');
  char folder[PLIM_PATH_BYTES];
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
  char real[PATH_MAX];
  return realpath(folder, real) &&
         plim_path_join(out, strcmp(real, "/") ? real : "", slash ? slash + 1 : path);
}

static const char *below(const char *folder, const char *path) {
  size_t size = strcmp(folder, "/") ? strlen(folder) : 0;
  return strncmp(path, folder, size) == 0 && path[size] == '/' ? path + size + 1 : NULL;
}

void plim_path_shorten(const char *path, char out[PLIM_PATH_BYTES]) {
  char whole[PLIM_PATH_BYTES], here[PATH_MAX];
  while (path[0] == '.' && path[1] == '/') path += 2;
  snprintf(out, PLIM_PATH_BYTES, "%s", path);
  if ((*path != '/' && !climbs(path)) || !resolve(path, whole)) return;
  const char *inner = realpath(".", here) ? below(here, whole) : NULL;
  if (inner) snprintf(out, PLIM_PATH_BYTES, "%s", inner);
}

// Resolves all links; for a file that does not exist yet, those in its folder.
static bool resolve_all(const char *path, char out[PLIM_PATH_BYTES]) {
  char real[PATH_MAX];
  if (!realpath(path, real)) return resolve(path, out);
  return snprintf(out, PLIM_PATH_BYTES, "%s", real) < PLIM_PATH_BYTES;
}

bool plim_path_is_outside(const char *path) {
  char whole[PLIM_PATH_BYTES], here[PATH_MAX];
  if (!resolve_all(path, whole) || !realpath(".", here)) return *path == '/' || climbs(path);
  return !below(here, whole);
}

void plim_path_in_diff(const char *path, bool from_root, char out[PLIM_PATH_BYTES]) {
  char whole[PLIM_PATH_BYTES], here[PATH_MAX];
  snprintf(out, PLIM_PATH_BYTES, "%s", path);
  if (!resolve_all(path, whole) || !realpath(".", here)) return;
  const char *inner = from_root ? NULL : below(here, whole);
  snprintf(out, PLIM_PATH_BYTES, "%s", inner ? inner : whole + 1);
}

// ---- among the files --------------------------------------------------------------------------------

bool plim_project_has(const plim_project *p, const char *path) {
  char real[PATH_MAX];
  bool has = false, is_there = realpath(path, real);
  for (size_t i = 0; i < p->files.len && !has; i++) {
    const plim_project_file *f = p->files.at[i];
    has = strcmp(f->path, path) == 0 || (is_there && f->real && strcmp(f->real, real) == 0);
  }
  return has;
}

static bool ends_in(const char *have, const char *path) {
  size_t m = strlen(have), n = strlen(path);
  return m > n && have[m - n - 1] == '/' && strcmp(have + m - n, path) == 0;
}

static plim_err is_ambiguous(const plim_project *p, const char *path, size_t a, size_t b,
                             plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%.80s could mean %.80s or %.80s", path,
                           p->files.at[a]->path, p->files.at[b]->path);
  plim_error_hint(error, "give the whole path: %.200s", p->files.at[a]->path);
  return err;
}

plim_err plim_project_find(const plim_project *p, const char *path, size_t *out,
                           plim_error *error) {
  char name[PLIM_PATH_BYTES];
  size_t found = SIZE_MAX, another = SIZE_MAX;
  plim_path_shorten(path, name);
  for (size_t i = 0; i < p->files.len; i++) {
    if (strcmp(p->files.at[i]->path, name) == 0) {
      *out = i;
      return PLIM_OK;
    }
    if (!ends_in(p->files.at[i]->path, name)) continue;
    if (found == SIZE_MAX) found = i;
    else another = i;
  }
  *out = found;
  if (another != SIZE_MAX) return is_ambiguous(p, path, found, another, error);
  if (found != SIZE_MAX) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "%.120s is not one of the given files", path);
  plim_error_hint(error, "add %.120s to the command", path);
  return err;
}

plim_span plim_path_folder(const char *path) {
  const char *end = strrchr(path, '/'), *begin = end;
  while (begin && begin > path && begin[-1] != '/') begin--;
  return end ? (plim_span){(size_t)(begin - path), (size_t)(end - path)} : (plim_span){0};
}
