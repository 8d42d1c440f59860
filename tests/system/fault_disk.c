// Nothing here is synced: a power cut is played by taking back, from the last to the first, every
// change of a name that no fsync of its folder followed, and by emptying every file that was never
// synced itself. A replaced or removed file is kept by a second link until then.
#include "fault_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST 512

typedef enum { MADE, RENAMED, REMOVED, MADE_FOLDER } action;

typedef struct {
  action what;
  char from[512], to[512]; // MADE, REMOVED and MADE_FOLDER: only `to`
  char saved[512];         // what was at `to`; "" for nothing
  bool is_durable;
} change;

typedef struct {
  char path[512];
  bool is_durable;
} content;

static fault now;
static const char *shadow;
static int calls;
static const char *struck_call;
static change changes[MOST];
static content contents[MOST];
static int change_count, content_count;
static char path_of_fd[256][512];

void fault_set(fault f, const char *shadow_folder) {
  now = f;
  shadow = shadow_folder;
  calls = change_count = content_count = 0;
  struck_call = NULL;
}

bool fault_struck(void) { return struck_call != NULL; }
const char *fault_call(void) { return struck_call ? struck_call : "no call"; }

// ---- the power cut ------------------------------------------------------------------------------

static bool is_in_project(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash - path >= 10 && memcmp(slash - 10, "/.plimsoll", 10) == 0;
}

static bool is_lost(const char *path) {
  return now.cut & (is_in_project(path) ? CUT_PROJECT : CUT_FILES);
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *walk) {
  (void)found, (void)kind, (void)walk;
  return remove(path);
}

static void take_back(const change *c) {
  if (c->what == RENAMED) rename(c->to, c->from);
  if (c->what == MADE) unlink(c->to);
  if (c->what == MADE_FOLDER) nftw(c->to, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  if (c->saved[0]) rename(c->saved, c->to);
}

static void cut_power(void) {
  for (int i = 0; i < content_count; i++)
    if (!contents[i].is_durable && is_lost(contents[i].path) && truncate(contents[i].path, 0))
      continue;
  for (int i = change_count - 1; i >= 0; i--)
    if (!changes[i].is_durable && is_lost(changes[i].to)) take_back(&changes[i]);
}

static void forget_saved(void) {
  for (int i = 0; i < change_count; i++)
    if (changes[i].saved[0]) unlink(changes[i].saved);
}

static void die(void) {
  if (now.cut) cut_power();
  forget_saved();
  _exit(FAULT_EXIT);
}

// ---- what is remembered -----------------------------------------------------------------------

static void copy_path(char to[512], const char *from) {
  if (strlen(from) >= 512) abort();
  strcpy(to, from);
}

static change *remember(action what, const char *from, const char *to) {
  if (!now.cut) return NULL;
  if (change_count == MOST) abort();
  change *c = &changes[change_count++];
  *c = (change){.what = what};
  copy_path(c->from, from);
  copy_path(c->to, to);
  return c;
}

// Before a call that takes away what is at `path`.
static void keep(const char *path, char saved[512]) {
  static int number;
  saved[0] = '\0';
  if (!now.cut || access(path, F_OK)) return;
  snprintf(saved, 512, "%s/%d", shadow, number++);
  if (link(path, saved)) abort();
}

static void move_content(const char *from, const char *to) {
  for (int i = 0; i < content_count; i++)
    if (strcmp(contents[i].path, from) == 0) copy_path(contents[i].path, to);
}

static bool is_folder(int fd) {
  struct stat found;
  return fstat(fd, &found) == 0 && S_ISDIR(found.st_mode);
}

static void folder_is_durable(const char *folder) {
  size_t size = strlen(folder);
  for (int i = 0; i < change_count; i++) {
    const char *to = changes[i].to;
    if (!strncmp(to, folder, size) && to[size] == '/' && !strchr(to + size + 1, '/'))
      changes[i].is_durable = true;
  }
}

static void file_is_durable(const char *path) {
  for (int i = 0; i < content_count; i++)
    if (strcmp(contents[i].path, path) == 0) contents[i].is_durable = true;
}

// ---- calls ------------------------------------------------------------------------------------

// True if the call must fail.
static bool before(const char *call) {
  bool is_it = calls == now.at;
  if (is_it) struck_call = call;
  if (is_it && now.kind == FAULT_DIE_BEFORE) die();
  bool fails = (is_it && now.kind == FAULT_FAIL) || (calls >= now.at && now.kind == FAULT_FAIL_ON);
  if (fails) errno = now.number;
  return fails;
}

static void after(void) {
  int number = errno;
  if (calls++ == now.at && now.kind == FAULT_DIE_WITHIN) die();
  errno = number;
}

static int failed_call(void) {
  int number = errno;
  after();
  errno = number;
  return -1;
}

static int fault_open(const char *path, int flags, mode_t mode) {
  if (before("open")) return failed_call();
  bool is_new = (flags & O_CREAT) && access(path, F_OK);
  int fd = open(path, flags, mode);
  if (fd >= 256) abort();
  if (fd >= 0) copy_path(path_of_fd[fd], path);
  if (fd >= 0 && is_new && remember(MADE, "", path)) {
    copy_path(contents[content_count].path, path);
    contents[content_count++].is_durable = false;
  }
  after();
  return fd;
}

static ssize_t fault_write(int fd, const void *data, size_t size) {
  if (before("write")) return failed_call();
  bool is_part = calls == now.at && (now.kind == FAULT_SHORT || now.kind == FAULT_DIE_WITHIN);
  ssize_t wrote = write(fd, data, is_part ? (size + 1) / 2 : size);
  after();
  return wrote;
}

static int fault_fsync(int fd) {
  if (before("fsync")) return failed_call();
  if (is_folder(fd)) folder_is_durable(path_of_fd[fd]);
  else file_is_durable(path_of_fd[fd]);
  after();
  return 0;
}

static int do_rename(const char *call, int (*real)(const char *, const char *), const char *from,
                     const char *to) {
  if (before(call)) return failed_call();
  char saved[512];
  keep(to, saved);
  int failed = real(from, to);
  change *c = failed ? NULL : remember(RENAMED, from, to);
  if (c) copy_path(c->saved, saved);
  else if (saved[0]) unlink(saved);
  if (!failed) move_content(from, to);
  after();
  return failed;
}

static int fault_rename(const char *from, const char *to) {
  return do_rename("rename", plim_real_disk.rename, from, to);
}

static int fault_rename_new(const char *from, const char *to) {
  return do_rename("rename_new", plim_real_disk.rename_new, from, to);
}

static int fault_unlink(const char *path) {
  if (before("unlink")) return failed_call();
  char saved[512];
  keep(path, saved);
  int failed = unlink(path);
  change *c = failed ? NULL : remember(REMOVED, "", path);
  if (c) copy_path(c->saved, saved);
  after();
  return failed;
}

static int fault_mkdir(const char *path, mode_t mode) {
  if (before("mkdir")) return failed_call();
  int failed = mkdir(path, mode);
  if (!failed) remember(MADE_FOLDER, "", path);
  after();
  return failed;
}

// The rest changes no names. A folder that is removed was empty: it may as well be gone.
#define PASS_ON(name, parameters, ...)                                                             \
  static int fault_##name parameters {                                                             \
    if (before(#name)) return failed_call();                                                       \
    int result = plim_real_disk.name(__VA_ARGS__);                                                 \
    after();                                                                                       \
    return result;                                                                                 \
  }

PASS_ON(fchmod, (int fd, mode_t mode), fd, mode)
PASS_ON(fchown, (int fd, uid_t owner, gid_t group), fd, owner, group)
PASS_ON(copy_attributes, (const char *from, int fd), from, fd)
PASS_ON(rmdir, (const char *path), path)

static int fault_close(int fd) { // which closes also when it fails
  bool fails = before("close");
  int number = errno, result = close(fd);
  if (fails) errno = number;
  after();
  return fails ? -1 : result;
}

const plim_disk fault_disk = {
    .open = fault_open,
    .write = fault_write,
    .fchmod = fault_fchmod,
    .fchown = fault_fchown,
    .copy_attributes = fault_copy_attributes,
    .fsync = fault_fsync,
    .close = fault_close,
    .rename = fault_rename,
    .rename_new = fault_rename_new,
    .unlink = fault_unlink,
    .mkdir = fault_mkdir,
    .rmdir = fault_rmdir,
};
