#include "atomic_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "disk.h"

#define TEMPORARY_ENDING ".plimsoll-XXXXXX"

static void forget(plim_atomic_file *file) {
  free(file->path);
  free(file->temporary);
  *file = (plim_atomic_file){0};
}

// The path with links resolved; the path itself if nothing exists there yet.
static char *final_path(const char *path) {
  char *resolved = realpath(path, NULL);
  return resolved ? resolved : strdup(path);
}

static char *temporary_path(const char *path) {
  char *text = malloc(strlen(path) + sizeof TEMPORARY_ENDING);
  if (text) strcat(strcpy(text, path), TEMPORARY_ENDING);
  return text;
}

static mode_t mode_for_new_files(void) {
  mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

// mkstemp makes files that only their owner may read.
static bool open_temporary(plim_atomic_file *file, mode_t mode) {
  int fd = mkstemp(file->temporary);
  if (fd < 0) return false;
  file->out = fchmod(fd, mode) == 0 ? fdopen(fd, "wb") : NULL;
  if (file->out) return true;
  int number = errno;
  close(fd);
  unlink(file->temporary);
  errno = number;
  return false;
}

static bool open_output(plim_atomic_file *file) {
  struct stat found;
  bool exists = stat(file->path, &found) == 0;
  if (exists && S_ISDIR(found.st_mode)) {
    errno = EISDIR;
    return false;
  }
  if (exists && !S_ISREG(found.st_mode)) {
    file->out = fopen(file->path, "wb");
    return file->out != NULL;
  }
  file->temporary = temporary_path(file->path);
  return file->temporary &&
         open_temporary(file, exists ? found.st_mode & 07777 : mode_for_new_files());
}

plim_err plim_atomic_open(plim_atomic_file *file, const char *path, plim_error *error) {
  *file = (plim_atomic_file){.path = final_path(path)};
  errno = ENOMEM;
  if (file->path && open_output(file)) return PLIM_OK;
  int number = errno;
  forget(file);
  return plim_disk_fail(error, "write", path, number);
}

// Finds out why an earlier write failed by writing again, at the end of a file that is removed anyway.
static int find_write_error(int fd) {
  static const char block[1 << 16];
  struct stat found;
  bool may_ask = fstat(fd, &found) == 0 && (S_ISREG(found.st_mode) || S_ISCHR(found.st_mode));
  return may_ask && write(fd, block, sizeof block) < 0 ? errno : EIO;
}

// 0, or the errno of the first step that failed.
static int write_out(plim_atomic_file *file) {
  bool ok = !ferror(file->out) && fflush(file->out) == 0 &&
            (!file->temporary || fsync(fileno(file->out)) == 0);
  int number = ok ? 0 : ferror(file->out) ? find_write_error(fileno(file->out)) : errno;
  if (fclose(file->out) && !number) number = errno;
  file->out = NULL;
  if (!number && file->temporary && rename(file->temporary, file->path)) number = errno;
  return number;
}

plim_err plim_atomic_commit(plim_atomic_file *file, plim_error *error) {
  int number = write_out(file);
  // A rename survives a crash once the folder is synced. The file is complete in any case.
  if (!number && file->temporary) plim_disk_sync_folder(&plim_real_disk, file->path);
  if (number && file->temporary) unlink(file->temporary);
  plim_err err = number ? plim_disk_fail(error, "write", file->path, number) : PLIM_OK;
  forget(file);
  return err;
}

void plim_atomic_abort(plim_atomic_file *file) {
  if (file->out) fclose(file->out);
  if (file->out && file->temporary) unlink(file->temporary);
  forget(file);
}
