#include "text_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

plim_err plim_error_file(plim_error *error, plim_err code, const char *path) {
  if (error) snprintf(error->file, sizeof error->file, "%s", path);
  return code;
}

bool plim_path_join(char path[PLIM_PATH_BYTES], const char *folder, const char *name) {
  int length = snprintf(path, PLIM_PATH_BYTES, "%s/%s", folder, name);
  return length >= 0 && length < PLIM_PATH_BYTES;
}

// Removes the last part of the path, for ".."; false if there is none or it is ".." itself.
static bool step_up(char *path) {
  char *slash = strrchr(path, '/'), *part = slash ? slash + 1 : path;
  if (!*part || strcmp(part, "..") == 0) return false;
  if (slash == path) path[1] = 0;
  else *(slash ? slash : path) = 0;
  return true;
}

static void add_part(char path[PLIM_PATH_BYTES], const char *part, size_t size) {
  size_t used = strlen(path);
  if (used && path[used - 1] != '/') path[used++] = '/';
  memcpy(path + used, part, size);
  path[used + size] = 0;
}

static bool is_same_file(const char *a, const char *b) {
  struct stat x, y;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool plim_path_tidy(const char *named, char path[PLIM_PATH_BYTES]) {
  if (strlen(named) >= PLIM_PATH_BYTES) return false;
  strcpy(path, *named == '/' ? "/" : "");
  for (const char *at = named; *at;) {
    size_t size = strcspn(at, "/");
    bool is_up = size == 2 && memcmp(at, "..", 2) == 0, is_here = size == 1 && *at == '.';
    if (size && !is_here && !(is_up && step_up(path))) add_part(path, at, size);
    at += size + (at[size] == '/');
  }
  if (!is_same_file(named, path)) strcpy(path, named); // a folder in the path is a link
  return true;
}

bool plim_is_file(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && S_ISREG(found.st_mode);
}

bool plim_is_folder(const char *path) {
  struct stat found;
  return stat(path, &found) == 0 && S_ISDIR(found.st_mode);
}

static plim_err read_open(FILE *in, size_t limit, char **text, size_t *size, plim_error *error) {
  struct stat found;
  if (fstat(fileno(in), &found) != 0 || !S_ISREG(found.st_mode))
    return plim_fail(error, PLIM_ERR_IO, "this is not a regular file");
  if ((uint64_t)found.st_size > limit)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "the file has %llu bytes; at most %zu are read",
                     (unsigned long long)found.st_size, limit);
  size_t room = (size_t)found.st_size;
  *text = malloc(room + 1);
  if (!*text) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  *size = fread(*text, 1, room, in);
  (*text)[*size] = '\0';
  if (!ferror(in)) return PLIM_OK;
  free(*text);
  *text = NULL;
  return plim_fail(error, PLIM_ERR_IO, "cannot read: %s", strerror(errno));
}

plim_err plim_text_file_read(const char *path, size_t limit, char **text, size_t *size,
                             plim_error *error) {
  *text = NULL;
  *size = 0;
  errno = 0;
  FILE *in = plim_is_file(path) ? fopen(path, "rb") : NULL; // opening a pipe would wait
  if (!in) {
    bool is_folder = plim_is_folder(path);
    bool is_missing = !is_folder && errno == ENOENT;
    const char *why = is_folder ? "this is a folder" : errno ? strerror(errno) : "not a file";
    plim_err code = errno == ENOMEM ? PLIM_ERR_NOMEM : PLIM_ERR_IO;
    if (is_missing) plim_fail(error, code, "%.200s does not exist", path);
    else plim_fail(error, code, "cannot open %.200s: %s", path, why);
    if (is_folder)
      plim_error_hint(error, "name the files to read: the configuration and the script that starts "
                             "the run");
    return plim_error_file(error, code, path);
  }
  plim_err err = read_open(in, limit, text, size, error);
  fclose(in);
  return err ? plim_error_file(error, err, path) : PLIM_OK;
}
