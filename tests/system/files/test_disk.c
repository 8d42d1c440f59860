// Folders are made with those above them, and what is in the way is said.
#include "disk.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "folder.h"
#include "test.h"

static int made;

static int counted(const char *path, mode_t mode) {
  made++;
  return plim_real_disk.mkdir(path, mode);
}

TEST(folders_are_made_once) {
  plim_disk disk = plim_real_disk;
  struct stat found;
  disk.mkdir = counted;
  folder_make();
  char path[512];
  snprintf(path, sizeof path, "%s", folder_path("a/b/c"));
  CHECK(plim_disk_make_folders(&disk, path) == 0 && made, "not made");
  CHECK(stat(path, &found) == 0 && S_ISDIR(found.st_mode), "there is no folder");
  CHECK((found.st_mode & 0777) == 0700, "mode %o", found.st_mode & 0777);
  CHECK(plim_disk_make_folders(&disk, path) == 0, "not again");
  folder_write_text("file", "x");
  snprintf(path, sizeof path, "%s", folder_path("file/b"));
  CHECK(plim_disk_make_folders(&disk, path) == ENOTDIR, "below a file");
  CHECK(plim_disk_make_folders(&disk, "/proc/nowhere/b") == ENOENT, "below /proc");
  folder_remove();
}

TEST_MAIN
