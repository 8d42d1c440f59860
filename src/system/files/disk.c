#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

// ---- the real one -----------------------------------------------------------------------------

static int open_file(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }

static bool lacks_the_call(int number) {
  return number == ENOSYS || number == EINVAL || number == EPERM || number == EOPNOTSUPP;
}

// If the file system cannot rename without replacing, checking first is the best option.
static int look_then_rename(const char *from, const char *to) {
  struct stat found;
  if (lstat(to, &found) == 0) {
    errno = EEXIST;
    return -1;
  }
  return errno == ENOENT ? rename(from, to) : -1;
}

static int link_then_unlink(const char *from, const char *to) {
  return link(from, to) ? -1 : unlink(from);
}

static int rename_new(const char *from, const char *to) {
  if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return 0;
  if (!lacks_the_call(errno)) return -1;
  if (link_then_unlink(from, to) == 0) return 0;
  return lacks_the_call(errno) ? look_then_rename(from, to) : -1;
}

static void copy_attribute(const char *from, int fd, const char *name) {
  char value[4096]; // larger attributes are not access lists
  ssize_t size = getxattr(from, name, value, sizeof value);
  if (size >= 0) fsetxattr(fd, name, value, (size_t)size, 0);
}

// Copies the attributes that can be read and set; many are reserved for the system.
static int copy_attributes(const char *from, int fd) {
  char names[4096];
  ssize_t size = listxattr(from, names, sizeof names);
  for (const char *name = names; size > 0 && name < names + size; name += strlen(name) + 1)
    copy_attribute(from, fd, name);
  return 0;
}

const plim_disk plim_real_disk = {
    .open = open_file,
    .write = write,
    .fchmod = fchmod,
    .fchown = fchown,
    .copy_attributes = copy_attributes,
    .fsync = fsync,
    .close = close,
    .rename = rename,
    .rename_new = rename_new,
    .unlink = unlink,
    .mkdir = mkdir,
    .rmdir = rmdir,
};

// ---- whole files ------------------------------------------------------------------------------

static int write_all(const plim_disk *disk, int fd, const char *data, size_t size) {
  while (size) {
    ssize_t wrote = disk->write(fd, data, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    if (wrote == 0) return EIO;
    data += wrote;
    size -= (size_t)wrote;
  }
  return 0;
}

// False if the new file has a different owner than the original.
static bool keep_owner(const plim_disk *disk, int fd, const struct stat *like) {
  struct stat own;
  if (fstat(fd, &own)) return false;
  if (own.st_uid == like->st_uid && own.st_gid == like->st_gid) return true;
  if (disk->fchown(fd, like->st_uid, like->st_gid) == 0) return true;
  if (disk->fchown(fd, (uid_t)-1, like->st_gid)) return false; // at least the group
  return own.st_uid == like->st_uid;
}

// If the owner differs, set-user-id bits must not be copied.
static int look_like(const plim_disk *disk, int fd, const char *path) {
  struct stat like, own;
  if (stat(path, &like)) return errno;
  mode_t mode = like.st_mode & (keep_owner(disk, fd, &like) ? 07777 : 0777);
  if (fstat(fd, &own)) return errno;
  if ((own.st_mode & 07777) != mode && disk->fchmod(fd, mode)) return errno;
  disk->copy_attributes(path, fd);
  return 0;
}

// The modification time belongs to the content, so a copy keeps it.
static void keep_time(int fd, const char *path, const void *data, size_t size) {
  struct stat like;
  char *content;
  size_t length;
  if (stat(path, &like) || plim_disk_read_file(path, &content, &length)) return;
  bool is_copy = length == size && memcmp(content, data, size) == 0;
  free(content);
  if (is_copy) futimens(fd, (struct timespec[]){like.st_atim, like.st_mtim});
}

int plim_disk_write_file(const plim_disk *disk, const char *path, const void *data, size_t size,
                         const char *like) {
  int fd = disk->open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, like ? 0600 : 0666);
  if (fd < 0) return errno;
  int number = write_all(disk, fd, data, size);
  if (!number && like) number = look_like(disk, fd, like);
  if (!number && like) keep_time(fd, like, data, size);
  if (!number && disk->fsync(fd)) number = errno;
  if (disk->close(fd) && !number) number = errno;
  if (number) disk->unlink(path);
  return number;
}

char *plim_disk_folder_of(const char *path) {
  char *folder = strdup(path);
  char *slash = folder ? strrchr(folder, '/') : NULL;
  if (slash) slash[slash == folder] = '\0';
  else if (folder) strcpy(folder, ".");
  return folder;
}

int plim_disk_sync_folder(const plim_disk *disk, const char *path) {
  char *folder = plim_disk_folder_of(path);
  if (!folder) return ENOMEM;
  int fd = disk->open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  int number = fd < 0 || disk->fsync(fd) ? errno : 0;
  if (fd >= 0) disk->close(fd);
  free(folder);
  bool cannot =
      number == EINVAL || number == EOPNOTSUPP || number == EACCES; // EACCES: not listable
  return cannot ? 0 : number;
}

int plim_disk_make_folders(const plim_disk *disk, const char *path) {
  char *part = strdup(path);
  int why = part ? 0 : ENOMEM;
  for (char *slash = part; !why && slash; slash = strchr(slash + 1, '/')) {
    if (slash == part) continue;
    *slash = 0;
    if (disk->mkdir(part, 0700) && errno != EEXIST) why = errno;
    *slash = '/';
  }
  if (!why && disk->mkdir(path, 0700) && errno != EEXIST) why = errno;
  free(part);
  return why;
}

int plim_disk_remove(const plim_disk *disk, const char *path) {
  return disk->unlink(path) && errno != ENOENT ? errno : 0;
}

static int read_all(int fd, char *data, size_t room, size_t *size) {
  *size = 0;
  while (*size < room) {
    ssize_t got = read(fd, data + *size, room - *size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    *size += (size_t)got;
  }
  data[*size] = '\0';
  return 0;
}

static int read_open(int fd, char **data, size_t *size) {
  struct stat found;
  if (fstat(fd, &found)) return errno;
  if (!S_ISREG(found.st_mode)) return EINVAL;
  *data = malloc((size_t)found.st_size + 1);
  if (!*data) return ENOMEM;
  int number = read_all(fd, *data, (size_t)found.st_size, size);
  if (!number) return 0;
  free(*data);
  *data = NULL;
  return number;
}

int plim_disk_read_file(const char *path, char **data, size_t *size) {
  *data = NULL;
  *size = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a pipe would wait for a writer
  if (fd < 0) return errno;
  int number = read_open(fd, data, size);
  close(fd);
  return number;
}

// ---- errors -----------------------------------------------------------------------------------

static const struct {
  int number;
  const char *hint;
} hints[] = {
    {ENOENT, "create the folder first, or choose another path"},
    {ENOTDIR, "create the folder first, or choose another path"},
    {EACCES, "choose a folder you can write to"},
    {EPERM, "choose a folder you can write to"},
    {EROFS, "choose a folder you can write to"},
    {EISDIR, "name a file in that folder"},
    {ENOSPC, "free some space, or choose another disk"},
    {EDQUOT, "free some space, or choose another disk"},
    {EBUSY, "the file is a mount point, probably of a container: change it outside the container"},
    {EXDEV, "the file is a mount point, probably of a container: change it outside the container"},
    {EIO, "the disk is failing or disconnected: check dmesg"},
    {ENOSYS, "this file system does not support file locks: mount it with locks (Lustre: -o "
             "flock), or copy the project"},
    {ENOLCK, "this file system does not support file locks: mount it with locks (Lustre: -o "
             "flock), or copy the project"},
    {ENAMETOOLONG, "give the file a shorter name"},
};

static const char *hint_for(int number) {
  for (size_t i = 0; i < sizeof hints / sizeof *hints; i++)
    if (hints[i].number == number) return hints[i].hint;
  return "";
}

plim_err plim_disk_fail(plim_error *error, const char *verb, const char *path, int number) {
  plim_err code = number == ENOMEM ? PLIM_ERR_NOMEM : PLIM_ERR_IO;
  plim_fail(error, code, "cannot %s %s: %s", verb, path, strerror(number));
  plim_error_hint(error, "%s", hint_for(number));
  if (error) snprintf(error->file, sizeof error->file, "%s", path);
  return code;
}
