#include "atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY_ENDING ".plimsoll-XXXXXX"

static const char *hint_for(int number) {
  switch (number) {
  case ENOENT:
  case ENOTDIR: return "create the folder first, or choose another path";
  case EACCES:
  case EPERM:
  case EROFS: return "choose a folder that you may write to";
  case EISDIR: return "name a file in that folder";
  case ENOSPC:
  case EDQUOT: return "free some space, or choose another disk";
  default: return "";
  }
}

// Reports errno about a file that is being written.
static plim_err fail(plim_error *error, const char *path, int number) {
  plim_fail(error, PLIM_ERR_IO, "cannot write %s: %s", path, strerror(number));
  if (error) {
    plim_error_hint(error, "%s", hint_for(number));
    snprintf(error->file, sizeof error->file, "%s", path);
  }
  return PLIM_ERR_IO;
}

static void forget(plim_atomic_file *file) {
  free(file->path);
  free(file->temporary);
  *file = (plim_atomic_file){0};
}

// Where the bytes go in the end; the path itself if there is nothing there yet.
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
  return fail(error, path, number);
}

// A rename survives a crash once the folder is on the disk. Not all file systems can do that.
static void sync_folder(const char *path) {
  char *folder = strdup(path);
  if (!folder) return;
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder] = '\0';
  int fd = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(folder);
}

// 0, or the errno of the first step that failed.
static int write_out(plim_atomic_file *file) {
  errno = EIO; // what an earlier failed write is called if nobody remembers
  bool ok = !ferror(file->out) && fflush(file->out) == 0 &&
            (!file->temporary || fsync(fileno(file->out)) == 0);
  int number = ok ? 0 : errno;
  if (fclose(file->out) && !number) number = errno;
  file->out = NULL;
  if (!number && file->temporary && rename(file->temporary, file->path)) number = errno;
  return number;
}

plim_err plim_atomic_commit(plim_atomic_file *file, plim_error *error) {
  int number = write_out(file);
  if (!number && file->temporary) sync_folder(file->path);
  if (number && file->temporary) unlink(file->temporary);
  plim_err err = number ? fail(error, file->path, number) : PLIM_OK;
  forget(file);
  return err;
}

void plim_atomic_abort(plim_atomic_file *file) {
  if (file->out) fclose(file->out);
  if (file->out && file->temporary) unlink(file->temporary);
  forget(file);
}
