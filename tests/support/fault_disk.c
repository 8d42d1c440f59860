// Simulates a power cut; nothing is really synced. The file behind every name is remembered by a second link. At the
// cut, each change of a name that was not followed by an fsync of its folder is lost or not (all of them, or at
// random), and so is the content of each file that was not synced. Then every name is set to the file that it has
// after the changes that were not lost, in their order.
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

enum { NOTHING = -1 };

typedef struct {
  action what;
  char from[512], to[512]; // all but RENAMED: only `to`
  int file;                // the file that `to` refers to from then on, or NOTHING
  bool is_durable, is_lost;
} change;

typedef struct {
  char path[512];
  int before; // the file that it referred to at the beginning, or NOTHING
} touched;

typedef struct {
  char path[512];
  bool is_durable;
} content;

static fault now;
static const char *shadow;
static int calls;
static const char *struck_call;
static change changes[MOST];
static touched names[MOST];
static content contents[MOST]; // by the number of the file
static int change_count, name_count, content_count;
static uint64_t lot;
static char path_of_fd[256][512];

void fault_set(fault f, const char *shadow_folder) {
  now = f;
  shadow = shadow_folder;
  calls = change_count = name_count = content_count = 0;
  lot = f.seed * 0x9e3779b97f4a7c15u + (uint64_t)f.at;
  struck_call = NULL;
}

bool fault_struck(void) { return struck_call != NULL; }
const char *fault_call(void) { return struck_call ? struck_call : "no call"; }

// ---- the power cut ------------------------------------------------------------------------------

static bool is_in_project(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash - path >= 10 && memcmp(slash - 10, "/.plimsoll", 10) == 0;
}

static bool draw(void) { // xorshift
  lot ^= lot << 13, lot ^= lot >> 7, lot ^= lot << 17;
  return lot >> 32 & 1;
}

static bool is_lost(const char *path) {
  bool may_be = now.cut & (is_in_project(path) ? CUT_PROJECT : CUT_FILES);
  return may_be && (!now.seed || draw());
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *walk) {
  (void)found, (void)kind, (void)walk;
  return remove(path);
}

static const char *link_to(int file) {
  static char path[600];
  snprintf(path, sizeof path, "%s/%d", shadow, file);
  return path;
}

static int stands_for(const touched *name) {
  int file = name->before;
  for (int i = 0; i < change_count; i++) {
    const change *c = &changes[i];
    if (c->is_lost) continue;
    if (!strcmp(c->to, name->path)) file = c->file;
    else if (c->what == RENAMED && !strcmp(c->from, name->path)) file = NOTHING;
  }
  return file;
}

static void cut_contents(void) {
  struct stat found;
  for (int i = 0; i < content_count; i++) {
    bool is_cut = !contents[i].is_durable && is_lost(contents[i].path);
    if (!is_cut || stat(link_to(i), &found)) continue;
    if (truncate(link_to(i), now.seed && draw() ? found.st_size / 2 : 0)) abort();
  }
}

static void cut_names(void) {
  for (int i = 0; i < change_count; i++)
    changes[i].is_lost = !changes[i].is_durable && is_lost(changes[i].to);
  for (int i = 0; i < name_count; i++) {
    int file = stands_for(&names[i]);
    unlink(names[i].path);
    if (file != NOTHING && link(link_to(file), names[i].path) && errno != ENOENT) abort();
  }
  for (int i = 0; i < change_count; i++)
    if (changes[i].what == MADE_FOLDER && changes[i].is_lost)
      nftw(changes[i].to, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void forget_links(void) {
  for (int i = 0; i < content_count; i++) unlink(link_to(i));
}

static void die(void) {
  if (now.cut) cut_contents(), cut_names();
  forget_links();
  _exit(FAULT_EXIT);
}

// ---- what is remembered -----------------------------------------------------------------------

static void copy_path(char to[512], const char *from) {
  if (strlen(from) >= 512) abort();
  strcpy(to, from);
}

static int new_file(const char *path, bool is_durable) {
  if (content_count == MOST) abort();
  copy_path(contents[content_count].path, path);
  contents[content_count].is_durable = is_durable;
  if (link(path, link_to(content_count))) abort();
  return content_count++;
}

// The file that a name refers to now, before it is changed. Files from before the first call are durable.
static int file_at(const char *path) {
  for (int i = 0; i < name_count; i++)
    if (!strcmp(names[i].path, path)) return stands_for(&names[i]);
  if (name_count == MOST) abort();
  touched *name = &names[name_count++];
  copy_path(name->path, path);
  return name->before = access(path, F_OK) ? NOTHING : new_file(path, true);
}

static void remember(action what, const char *from, const char *to, int file) {
  if (change_count == MOST) abort();
  change *c = &changes[change_count++];
  *c = (change){.what = what, .file = file};
  copy_path(c->from, from);
  copy_path(c->to, to);
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
  int file = now.cut ? file_at(path) : NOTHING;
  if (file != NOTHING) contents[file].is_durable = true;
}

// ---- calls ------------------------------------------------------------------------------------

// Counts a call; true if it must fail.
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
  bool is_new = now.cut && (flags & O_CREAT) && file_at(path) == NOTHING;
  int fd = open(path, flags, mode);
  if (fd >= 256) abort();
  if (fd >= 0) copy_path(path_of_fd[fd], path);
  if (fd >= 0 && is_new) remember(MADE, "", path, new_file(path, false));
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
  int file = now.cut ? file_at(from) : NOTHING;
  if (now.cut) file_at(to);
  int failed = real(from, to);
  if (!failed && now.cut) {
    remember(RENAMED, from, to, file);
    copy_path(contents[file].path, to);
  }
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
  if (now.cut) file_at(path);
  int failed = unlink(path);
  if (!failed && now.cut) remember(REMOVED, "", path, NOTHING);
  after();
  return failed;
}

static int fault_mkdir(const char *path, mode_t mode) {
  if (before("mkdir")) return failed_call();
  int failed = mkdir(path, mode);
  if (!failed && now.cut) remember(MADE_FOLDER, "", path, NOTHING);
  after();
  return failed;
}

// The other calls change no names of files. A removed folder was empty, so losing its removal does not matter.
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

static int fault_close(int fd) { // closes the file even if it fails
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
