// A file is replaced as a whole or not at all, and no temporary file is left behind.
#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "atomic_file.h"
#include "test.h"

static char folder[64];

static const char *in_folder(const char *name) {
  static char path[160];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void make_folder(void) {
  strcpy(folder, "/tmp/plimsoll-test-XXXXXX");
  if (!mkdtemp(folder)) abort();
}

static void remove_folder(void) {
  static const char *const names[] = {"a", "link"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_folder(names[i]));
  rmdir(folder);
}

static int files_in_folder(void) {
  int count = 0;
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) count += e->d_name[0] != '.';
  if (d) closedir(d);
  return count;
}

static const char *content(const char *name) {
  static char text[64];
  FILE *in = fopen(in_folder(name), "rb");
  size_t got = in ? fread(text, 1, sizeof text - 1, in) : 0;
  if (in) fclose(in);
  text[got] = '\0';
  return text;
}

static plim_err write_whole(const char *path, const char *text) {
  plim_atomic_file file;
  plim_err err = plim_atomic_open(&file, path, NULL);
  if (err) return err;
  fputs(text, file.out);
  return plim_atomic_commit(&file, NULL);
}

TEST(atomic_file_appears_with_commit) {
  make_folder();
  CHECK(!write_whole(in_folder("a"), "one") && !write_whole(in_folder("a"), "two"), "write");
  CHECK_STR(content("a"), "two");
  CHECK(files_in_folder() == 1, "%d files", files_in_folder());
  remove_folder();
}

TEST(atomic_file_aborted_leaves_the_old_one) {
  make_folder();
  CHECK(!write_whole(in_folder("a"), "old"), "write");
  plim_atomic_file file;
  CHECK(!plim_atomic_open(&file, in_folder("a"), NULL), "open");
  fputs("new", file.out);
  plim_atomic_abort(&file);
  CHECK_STR(content("a"), "old");
  CHECK(files_in_folder() == 1, "%d files", files_in_folder());
  remove_folder();
}

TEST(atomic_file_keeps_permissions_and_links) {
  make_folder();
  CHECK(!write_whole(in_folder("a"), "old") && chmod(in_folder("a"), 0640) == 0, "write");
  char target[160];
  strcpy(target, in_folder("a"));
  CHECK(symlink(target, in_folder("link")) == 0, "symlink");
  CHECK(!write_whole(in_folder("link"), "new"), "write");
  struct stat found;
  CHECK(lstat(in_folder("link"), &found) == 0 && S_ISLNK(found.st_mode), "the link was replaced");
  CHECK(stat(in_folder("a"), &found) == 0 && (found.st_mode & 0777) == 0640, "mode %o",
        (unsigned)found.st_mode);
  CHECK_STR(content("a"), "new");
  remove_folder();
}

TEST(atomic_file_says_what_is_wrong) {
  make_folder();
  plim_atomic_file file;
  plim_error error;
  CHECK(plim_atomic_open(&file, in_folder("no/such/file"), &error) == PLIM_ERR_IO, "opened");
  CHECK(strstr(error.message, "no/such/file") && error.hint[0], "%s", error.message);
  CHECK(plim_atomic_open(&file, folder, &error) == PLIM_ERR_IO, "a folder was opened");
  CHECK(files_in_folder() == 0, "%d files", files_in_folder());
  remove_folder();
}

TEST(atomic_file_on_a_full_disk_is_an_error) {
  plim_atomic_file file;
  plim_error error;
  if (plim_atomic_open(&file, "/dev/full", NULL)) SKIP("there is no /dev/full");
  fputs("text", file.out);
  CHECK(plim_atomic_commit(&file, &error) == PLIM_ERR_IO, "the loss went unnoticed");
  CHECK(strstr(error.hint, "space"), "hint: %s", error.hint);
}

TEST_MAIN
