// The calls that change a disk, in one table: a test hands in its own and makes any of them fail. What
// stands on it takes care that files are whole whatever fails, and when.
#ifndef PLIM_SYSTEM_DISK_H
#define PLIM_SYSTEM_DISK_H

#include <sys/types.h>

#include "plimsoll.h"

// Each as in POSIX: -1 (or less than 0) and errno where it fails.
typedef struct {
  int (*open)(const char *path, int flags, mode_t mode);
  ssize_t (*write)(int fd, const void *data, size_t size);
  int (*fchmod)(int fd, mode_t mode);
  int (*fchown)(int fd, uid_t owner, gid_t group);
  int (*copy_attributes)(const char *from, int fd); // extended ones: access lists, labels
  int (*fsync)(int fd);
  int (*close)(int fd);
  int (*rename)(const char *from, const char *to);
  int (*rename_new)(const char *from, const char *to); // EEXIST if there is something at `to`
  int (*unlink)(const char *path);
  int (*mkdir)(const char *path, mode_t mode);
  int (*rmdir)(const char *path);
} plim_disk;

extern const plim_disk plim_real_disk;

// The functions below return 0 or an errno.

// Writes a file that must not exist yet, and waits until it is on the disk. It gets the permissions,
// the owner (where that is allowed) and the attributes of the file `like`, and if it holds the same its
// time; NULL: those of any new file. What could not be written whole is removed.
int plim_disk_write_file(const plim_disk *disk, const char *path, const void *data, size_t size,
                         const char *like);

// Waits until the names in the folder that `path` lies in are on the disk. File systems that cannot
// do that are believed.
int plim_disk_sync_folder(const plim_disk *disk, const char *path);

// The folder that `path` lies in, which the caller frees; NULL when memory is out.
char *plim_disk_folder_of(const char *path);

// Removes a file; one that is not there is fine.
int plim_disk_remove(const plim_disk *disk, const char *path);

// The content of a regular file, with a 0 behind it, which the caller frees. EINVAL: not a regular
// file.
int plim_disk_read_file(const char *path, char **data, size_t *size);

// An error about a file: "cannot write conf.yaml: No space left on device", and what to do about it.
plim_err plim_disk_fail(plim_error *error, const char *verb, const char *path, int number);

#endif
