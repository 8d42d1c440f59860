// The system calls that change the disk, in one table, so that a test can make any of them fail. The code
// that uses it keeps files intact whichever call fails.
#ifndef PLIM_SYSTEM_DISK_H
#define PLIM_SYSTEM_DISK_H

#include <sys/types.h>

#include "plimsoll.h"

// Each behaves as in POSIX: a negative result and errno on failure.
typedef struct {
  int (*open)(const char *path, int flags, mode_t mode);
  ssize_t (*write)(int fd, const void *data, size_t size);
  int (*fchmod)(int fd, mode_t mode);
  int (*fchown)(int fd, uid_t owner, gid_t group);
  int (*copy_attributes)(const char *from, int fd); // extended attributes: access lists, labels
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

// Writes a file that must not exist yet, and waits until it is on the disk. It gets the permissions, the
// owner (if permitted) and the attributes of the file `like`, and its time if the content is the same. `like`
// NULL: the defaults of a new file. A file that could not be written completely is removed.
int plim_disk_write_file(const plim_disk *disk, const char *path, const void *data, size_t size,
                         const char *like);

// Waits until the folder that contains `path` is synced to the disk. A file system that does not support this
// counts as success.
int plim_disk_sync_folder(const plim_disk *disk, const char *path);

// The folder that contains `path`, which the caller frees; NULL if memory runs out.
char *plim_disk_folder_of(const char *path);

// Makes a folder and those above it, for their owner alone, if they do not exist.
int plim_disk_make_folders(const plim_disk *disk, const char *path);

// Removes a file; succeeds if it does not exist.
int plim_disk_remove(const plim_disk *disk, const char *path);

// The content of a regular file followed by a 0, which the caller frees. EINVAL: not a regular file.
int plim_disk_read_file(const char *path, char **data, size_t *size);

// Fills in an error about a file: "cannot write conf.yaml: No space left on device", and what to do about it.
plim_err plim_disk_fail(plim_error *error, const char *verb, const char *path, int number);

#endif
