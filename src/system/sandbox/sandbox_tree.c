// The file tree of a sandbox. It is put together in a folder of the scratch folder and then becomes the root; the old root
// is detached, so that no path leads to the files themselves.
//
// The kernel does not overlay a folder with mount points below it, because that would reveal what they cover. Such a
// folder, always / among them, is split: it becomes a new folder with the same entries, each brought over by itself.
#include "sandbox_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

// Files of a split folder are copied. A file larger than COPY_LIMIT is read-only instead, since copying it would take too long,
// and so are all others once COPIES_LIMIT bytes were copied.
#define COPY_LIMIT (16 * PLIM_MIB)
#define COPIES_LIMIT (256 * PLIM_MIB)

#define OWN_LAYERS 400 // enough for the folders of a project; each takes a tenth of a millisecond

#define NOBODY 65534 // how ids that a user namespace does not have are shown; Linux fs.overflowuid

plim_err plim_sandbox_tree_cannot(plim_sandbox_tree *t, const char *what, const char *path) {
  int why = errno;
  plim_err err = plim_fail(&t->report->error, PLIM_ERR_UNSUPPORTED,
                           "the sandbox cannot %s %.200s: %s", what, path, strerror(why));
  if (why == ENOSPC || why == EDQUOT)
    plim_error_hint(&t->report->error,
                    "make room there: %.200s holds what the program writes until it ends", t->root);
  else plim_sandbox_advise(&t->report->error);
  return err;
}

bool plim_sandbox_tree_inside(const plim_sandbox_tree *t, const char *path, char out[PATH_MAX]) {
  int size = snprintf(out, PATH_MAX, "%s%s", t->root, strcmp(path, "/") == 0 ? "" : path);
  if (size < PATH_MAX) return true;
  return errno = ENAMETOOLONG, false;
}

// ---- folders --------------------------------------------------------------------------------------

// Makes a folder with owner, permissions and times of another; owners can only be kept by root.
static bool make_like(const char *path, const struct stat *like, bool may_write) {
  struct timespec times[2] = {like->st_atim, like->st_mtim};
  if (mkdir(path, 0700) != 0) return false;
  (void)!chown(path, like->st_uid, like->st_gid);
  mode_t mode = like->st_mode & 07777;
  if (!may_write) mode &= (mode_t)~0222; // here it belongs to the user
  bool ok = chmod(path, mode) == 0;
  utimensat(AT_FDCWD, path, times, 0);
  return ok;
}

static bool may_write(const char *path) { return faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) == 0; }

// The descriptor's path and names relative to the run's folder need no escapes in the options. Nothing is kept, so nothing
// needs to be synchronised (volatile).
bool plim_sandbox_tree_overlay(plim_sandbox_tree *t, const char *from, const char *to) {
  char upper[32], work[32], options[192];
  struct stat like;
  int lower = open(from, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lower < 0) return false;
  unsigned layer = ++t->layers;
  snprintf(upper, sizeof upper, "upper-%u", layer);
  snprintf(work, sizeof work, "work-%u", layer);
  snprintf(options, sizeof options,
           "userxattr,volatile,lowerdir=/proc/self/fd/%d,upperdir=%s,workdir=%s", lower, upper,
           work);
  bool ok = fstat(lower, &like) == 0 && make_like(upper, &like, may_write(from)) &&
            mkdir(work, 0700) == 0 &&
            mount("overlay", to, "overlay", MS_NOSUID | MS_NODEV, options) == 0;
  int why = errno;
  close(lower);
  errno = why;
  return ok;
}

bool plim_sandbox_tree_restrict(const char *path, uint64_t attributes) {
  struct mount_attr change = {.attr_set = attributes | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
  // glibc has mount_setattr since 2.36.
  return syscall(SYS_mount_setattr, AT_FDCWD, path, AT_RECURSIVE, &change, sizeof change) == 0;
}

// Adds a path to the list that tells the user where the program could not write.
static void note_read_only(plim_sandbox_tree *t, const char *path) {
  char *text = t->report->read_only;
  size_t size = strlen(text), room = sizeof t->report->read_only - size;
  const char *comma = size ? ", " : "";
  if (strlen(comma) + strlen(path) + sizeof ", ..." <= room)
    snprintf(text + size, room, "%s%s", comma, path);
  else if (size < 5 || strcmp(text + size - 5, ", ...") != 0)
    snprintf(text + size, room, "%s...", comma);
}

// With everything mounted below. What cannot be bound, such as an automount point outside, stays empty.
plim_err plim_sandbox_tree_bind_read_only(plim_sandbox_tree *t, const char *from, const char *to) {
  bool was_writable = may_write(from);
  bool is_bound = mount(from, to, NULL, MS_BIND | MS_REC, NULL) == 0;
  if (is_bound && !plim_sandbox_tree_restrict(to, MOUNT_ATTR_RDONLY))
    return plim_sandbox_tree_cannot(t, "write-protect", from);
  if (was_writable || !is_bound) note_read_only(t, from);
  return PLIM_OK;
}

// ---- split folders --------------------------------------------------------------------------------

static bool copy_bytes(int in, int out, size_t size) {
  while (size) {
    ssize_t copied = sendfile(out, in, NULL, size);
    if (copied < 0) return false;
    if (!copied) break; // it became shorter
    size -= (size_t)copied;
  }
  return true;
}

bool plim_sandbox_tree_copy_file(const char *from, const char *to) {
  struct stat like;
  int in = open(from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (in < 0) return false;
  int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool ok = out >= 0 && fstat(in, &like) == 0 && copy_bytes(in, out, (size_t)like.st_size);
  if (ok) {
    struct timespec times[2] = {like.st_atim, like.st_mtim};
    (void)!fchown(out, like.st_uid, like.st_gid);
    ok = fchmod(out, like.st_mode & 07777) == 0 && futimens(out, times) == 0;
  }
  close(in);
  if (out >= 0) close(out);
  if (out >= 0 && !ok) unlink(to);
  return ok;
}

static plim_err put_file(plim_sandbox_tree *t, const char *from, const char *to, uint64_t size) {
  if (size <= COPY_LIMIT && t->copied_bytes + size <= COPIES_LIMIT &&
      plim_sandbox_tree_copy_file(from, to)) {
    t->copied_bytes += size;
    return PLIM_OK;
  }
  int place = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (place < 0) return plim_sandbox_tree_cannot(t, "show the file", from);
  close(place);
  return plim_sandbox_tree_bind_read_only(t, from, to);
}

plim_err plim_sandbox_tree_copy_link(plim_sandbox_tree *t, const char *from, const char *to) {
  char target[PATH_MAX];
  ssize_t size = readlink(from, target, sizeof target - 1);
  if (size < 0)
    return errno == ENOENT ? PLIM_OK : plim_sandbox_tree_cannot(t, "show the link", from);
  target[size] = '\0';
  return symlink(target, to) == 0 ? PLIM_OK : plim_sandbox_tree_cannot(t, "show the link", from);
}

static plim_err put_folder(plim_sandbox_tree *t, const char *from, const char *to);

// Brings over one entry of a split folder. Sockets, pipes and devices are left out: they lead outside.
static plim_err put(plim_sandbox_tree *t, const char *from) {
  char to[PATH_MAX];
  struct stat found;
  if (plim_sandbox_tree_is_special(from)) return PLIM_OK;
  if (lstat(from, &found) != 0) return PLIM_OK; // it was removed, or was never accessible
  if (!plim_sandbox_tree_inside(t, from, to)) return plim_sandbox_tree_cannot(t, "show", from);
  if (S_ISLNK(found.st_mode)) return plim_sandbox_tree_copy_link(t, from, to);
  if (S_ISREG(found.st_mode)) return put_file(t, from, to, (uint64_t)found.st_size);
  if (!S_ISDIR(found.st_mode)) return PLIM_OK;
  if (!make_like(to, &found, may_write(from)))
    return plim_sandbox_tree_cannot(t, "show the folder", from);
  return put_folder(t, from, to);
}

static plim_err put_entries(plim_sandbox_tree *t, const char *folder, DIR *entries) {
  plim_err err = PLIM_OK;
  for (struct dirent *entry; !err && (entry = readdir(entries));) {
    char from[PATH_MAX];
    const char *name = entry->d_name;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) continue;
    const char *parent = strcmp(folder, "/") == 0 ? "" : folder;
    if (snprintf(from, sizeof from, "%s/%s", parent, name) < (int)sizeof from) err = put(t, from);
  }
  return err;
}

static bool is_read_only(const char *path) {
  struct statvfs found;
  return statvfs(path, &found) == 0 && found.f_flag & ST_RDONLY;
}

// `to` is an empty folder with the attributes of `from`.
static plim_err put_folder(plim_sandbox_tree *t, const char *from, const char *to) {
  if (plim_mount_points_below(&t->mounts, from)) {
    DIR *entries = opendir(from);
    plim_err err = entries ? put_entries(t, from, entries) : PLIM_OK;
    if (entries) return closedir(entries), err;
  } else if (!is_read_only(from) && plim_sandbox_tree_overlay(t, from, to)) return PLIM_OK;
  return plim_sandbox_tree_bind_read_only(t, from, to);
}

// Writing to a folder makes a copy of it in the upper layer, with its owner and group; the kernel refuses (EOVERFLOW) if
// the sandbox does not have these. The top of an overlay needs no copy, so such a folder gets an overlay of its own.
static bool own(plim_sandbox_tree *t, const char *folder) {
  char to[PATH_MAX];
  struct stat found;
  if (t->layers >= OWN_LAYERS || lstat(folder, &found) != 0 || !S_ISDIR(found.st_mode))
    return false;
  if ((found.st_uid != NOBODY && found.st_gid != NOBODY) || !may_write(folder)) return false;
  return !plim_mount_points_has(&t->mounts, folder) &&
         !plim_mount_points_below(&t->mounts, folder) && plim_sandbox_tree_inside(t, folder, to) &&
         plim_sandbox_tree_overlay(t, folder, to);
}

static void own_below(plim_sandbox_tree *t, const char *folder, int depth) {
  DIR *entries = depth > 0 ? opendir(folder) : NULL;
  for (struct dirent *entry; entries && (entry = readdir(entries));) {
    char path[PATH_MAX];
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) continue;
    if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path &&
        own(t, path))
      own_below(t, path, depth - 1);
  }
  if (entries) closedir(entries);
}

void plim_sandbox_tree_own(plim_sandbox_tree *t, const char *folder, int depth) {
  own(t, folder);
  if (strcmp(folder, "/") != 0) own_below(t, folder, depth);
}

plim_err plim_sandbox_tree_put_root(plim_sandbox_tree *t) {
  struct stat found;
  if (stat("/", &found) != 0 || !make_like(t->root, &found, may_write("/")) ||
      mount(t->root, t->root, NULL, MS_BIND, NULL) != 0)
    return plim_sandbox_tree_cannot(t, "make", t->root);
  return put_folder(t, "/", t->root);
}
