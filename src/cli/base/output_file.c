#include "output_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli_alloc.h"
#include "disk.h"
#include "text_file.h"

enum { MAX_BYTES = 1 << 30 };

bool output_is_same(const char *a, const char *b) {
  struct stat x, y;
  if (strcmp(a, b) == 0) return true;
  return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

plim_err output_refuse(const output_file *file, const char *why, const char *what,
                       plim_error *error) {
  plim_fail(error, PLIM_ERR_ARGUMENT, "%s %.200s: %s%s", file->option, file->path, why, what);
  plim_error_hint(error, "%s %s", file->option, file->example);
  return PLIM_ERR_ARGUMENT;
}

// Whether the file may be overwritten: it is new, empty, a pipe or device, or was written by this program.
static bool may_replace(const output_file *file) {
  struct stat found;
  char *text;
  size_t size;
  if (stat(file->path, &found) || !S_ISREG(found.st_mode) || !found.st_size) return true;
  if (plim_text_file_read(file->path, MAX_BYTES, &text, &size, NULL)) return false;
  bool is_own = file->is_own(text, size);
  free(text);
  return is_own;
}

// A pipe or a device is written to in place.
static plim_err check_folder(const char *path, plim_error *error) {
  struct stat found;
  if (stat(path, &found) == 0 && !S_ISREG(found.st_mode)) return PLIM_OK;
  char *folder = plim_disk_folder_of(path);
  if (!folder) cli_out_of_memory();
  int why = access(folder, W_OK | X_OK) ? errno : 0;
  free(folder);
  return why ? plim_disk_fail(error, "write", path, why) : PLIM_OK;
}

plim_err output_check(const output_file *file, plim_error *error) {
  if (strcmp(file->path, "-") == 0)
    return output_refuse(file, "the report already goes to standard output", "", error);
  if (!may_replace(file))
    return output_refuse(file, "a file of that name exists, and it is not ", file->kind, error);
  return check_folder(file->path, error);
}
