// Removes what a sandboxed program wrote.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox_impl.h"

static bool is_dot(const char *name) { return strcmp(name, ".") == 0 || strcmp(name, "..") == 0; }

// Gives a folder the permissions that removing it needs: overlay file systems work in folders that have none. False: it is
// something else, such as a symbolic link, whose target must not be touched.
static bool unlock_folder(int parent, const char *name) {
  struct stat found;
  return fstatat(parent, name, &found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(found.st_mode) &&
         fchmodat(parent, name, 0700, 0) == 0;
}

static DIR *open_folder(int parent, const char *name) {
  if (!unlock_folder(parent, name)) return NULL;
  int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  DIR *folder = fd < 0 ? NULL : fdopendir(fd);
  if (!folder && fd >= 0) close(fd);
  return folder;
}

// Moves a folder up to `top`, where it is removed later: a tree of any depth is removed without recursion.
static bool move_up(int parent, const char *name, int top) {
  static unsigned long moved;
  char up[64];
  do snprintf(up, sizeof up, "moved-%lu", moved++);
  while (faccessat(top, up, F_OK, AT_SYMLINK_NOFOLLOW) == 0);
  return unlock_folder(parent, name) && renameat(parent, name, top, up) == 0;
}

static bool remove_folder(int top, const char *name) {
  DIR *folder = open_folder(top, name);
  if (!folder) return false;
  bool ok = true;
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (is_dot(entry->d_name)) continue;
    int fd = dirfd(folder);
    if (unlinkat(fd, entry->d_name, 0) != 0 && unlinkat(fd, entry->d_name, AT_REMOVEDIR) != 0)
      ok = move_up(fd, entry->d_name, top) && ok;
  }
  closedir(folder);
  return unlinkat(top, name, AT_REMOVEDIR) == 0 && ok;
}

bool plim_sandbox_empty(const char *path) {
  for (;;) {
    DIR *top = open_folder(AT_FDCWD, path);
    if (!top) return false;
    size_t left = 0, removed = 0;
    for (struct dirent *entry; (entry = readdir(top));) {
      if (is_dot(entry->d_name)) continue;
      int fd = dirfd(top);
      bool is_gone = unlinkat(fd, entry->d_name, 0) == 0 || remove_folder(fd, entry->d_name);
      *(is_gone ? &removed : &left) += 1;
    }
    closedir(top);
    if (!removed) return !left; // folders that were moved up came after reading had begun
  }
}
