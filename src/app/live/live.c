#include "live.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process.h"
#include "sort.h"

enum {
  CHUNK_BYTES = 1 << 16,
  MOST_BYTES = 4 << 20, // of a file that is read for the first time
  RUN_BYTES = 1 << 16,  // of run.json
};

// Opens a plain file: a pipe would block, and a link may lead anywhere.
static int open_plain(const char *path, struct stat *s) {
  int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (file < 0) return -1;
  if (fstat(file, s) == 0 && S_ISREG(s->st_mode)) return file;
  close(file);
  return -1;
}

// ---- the lines of a process -------------------------------------------------------------------------

// Starts at the beginning of a file that is new, or shorter than before.
static void follow(live_reader *r, const struct stat *s) {
  bool is_same = r->inode == (uint64_t)s->st_ino && r->device == (uint64_t)s->st_dev;
  if (is_same && (uint64_t)s->st_size >= r->offset) return;
  r->inode = (uint64_t)s->st_ino;
  r->device = (uint64_t)s->st_dev;
  r->offset = s->st_size > MOST_BYTES ? (uint64_t)s->st_size - MOST_BYTES : 0;
  r->is_skipping = r->offset > 0; // the first line is cut
}

// Takes the complete lines of a chunk, and moves the offset behind them.
static size_t take_lines(live_reader *r, const char *text, size_t size, live_sample *out,
                         size_t most) {
  size_t count = 0;
  const char *at = text, *end = text + size;
  while (at < end && count < most) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    if (!stop) break;
    size_t length = (size_t)(stop - at);
    if (!r->is_skipping && length <= LIVE_LINE_BYTES) count += live_parse(at, length, &out[count]);
    r->is_skipping = false;
    at = stop + 1;
  }
  bool is_long = count < most && end - at > LIVE_LINE_BYTES;
  if (is_long) at = end, r->is_skipping = true;
  r->offset += (uint64_t)(at - text);
  return count;
}

size_t live_read(live_reader *r, live_sample *out, size_t most) {
  char chunk[CHUNK_BYTES];
  struct stat s;
  size_t count = 0;
  int file = open_plain(r->path, &s);
  if (file < 0) return 0;
  follow(r, &s);
  // Chunks without a line that can be read are passed over, so that 0 means the end.
  while (!count && most) {
    uint64_t before = r->offset;
    ssize_t got = pread(file, chunk, sizeof chunk, (off_t)r->offset);
    if (got > 0) count = take_lines(r, chunk, (size_t)got, out, most);
    if (r->offset == before) break;
  }
  close(file);
  return count;
}

// ---- runs -------------------------------------------------------------------------------------------

plim_err live_folder(char path[PATH_MAX], plim_error *error) {
  const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
  int n = -1;
  if (state && *state == '/') n = snprintf(path, PATH_MAX, "%s/plimsoll/run", state);
  else if (home && *home == '/') n = snprintf(path, PATH_MAX, "%s/.local/state/plimsoll/run", home);
  if (n > 0 && n < PATH_MAX) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT, "neither HOME nor XDG_STATE_HOME is a path");
}

static bool read_run(const char *folder, const char *name, live_run *out) {
  char path[PATH_MAX], text[RUN_BYTES];
  struct stat s;
  int n = snprintf(path, sizeof path, "%s/%s/run.json", folder, name);
  int file = n > 0 && n < PATH_MAX ? open_plain(path, &s) : -1;
  if (file < 0) return false;
  ssize_t got = read(file, text, sizeof text);
  close(file);
  if (got <= 0 || !live_parse_run(text, (size_t)got, out)) return false;
  snprintf(out->name, sizeof out->name, "%s", name);
  return true;
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const live_run *)a)->name, ((const live_run *)b)->name);
}

size_t live_runs(const char *folder, const char *root, live_run *out, size_t most) {
  DIR *all = opendir(folder);
  size_t count = 0;
  for (struct dirent *e; all && count < most && (e = readdir(all));)
    if (e->d_name[0] != '.' && read_run(folder, e->d_name, &out[count]) &&
        plim_process_runs(root, out[count].pid, out[count].started_seconds))
      count++;
  if (all) closedir(all);
  plim_sort(out, count, sizeof *out, by_name);
  return count;
}

// The number of "4242.live"; 0 if it is another file.
static unsigned number_of(const char *name) {
  char *end;
  if (*name < '1' || *name > '9') return 0;
  unsigned long n = strtoul(name, &end, 10);
  return n <= INT_MAX && strcmp(end, ".live") == 0 ? (unsigned)n : 0;
}

static int by_number(const void *a, const void *b) {
  unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
  return (x > y) - (x < y);
}

size_t live_processes(const char *folder, const live_run *run, unsigned *pids, size_t most) {
  char path[PATH_MAX];
  size_t count = 0;
  int n = snprintf(path, sizeof path, "%s/%s", folder, run->name);
  DIR *files = n > 0 && n < PATH_MAX ? opendir(path) : NULL;
  for (struct dirent *e; files && count < most && (e = readdir(files));)
    if (number_of(e->d_name)) pids[count++] = number_of(e->d_name);
  if (files) closedir(files);
  plim_sort(pids, count, sizeof *pids, by_number);
  return count;
}

bool live_path(char path[PATH_MAX], const char *folder, const live_run *run, unsigned pid) {
  int n = snprintf(path, PATH_MAX, "%s/%s/%u.live", folder, run->name, pid);
  return n > 0 && n < PATH_MAX;
}
