#include "folder.h"

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static pid_t owner; // of the folder; children that end must leave it

static void remove_own(void) {
  if (owner == getpid()) folder_remove();
}

// A test that fails returns before it removes its folder: the next one does, or the end of the program.
static bool make_in(const char *parent) {
  if (!owner) atexit(remove_own);
  remove_own();
  owner = getpid();
  snprintf(folder, sizeof folder, "%s/plimsoll-test-XXXXXX", parent);
  return mkdtemp(folder);
}

void folder_make(void) {
  if (!make_in("/tmp")) abort();
}

void folder_make_in_memory(void) {
  if (!make_in("/dev/shm")) folder_make();
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *walk) {
  (void)found, (void)kind, (void)walk;
  return remove(path);
}

void folder_remove(void) { nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

const char *folder_path(const char *name) {
  static char paths[4][512];
  static int turn;
  char *path = paths[turn = (turn + 1) % 4];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

static void make_parents(const char *path) {
  char part[512];
  for (const char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
    snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
    mkdir(part, 0700);
  }
}

void folder_write(const char *name, const void *data, size_t size) {
  const char *path = folder_path(name);
  make_parents(path);
  FILE *out = fopen(path, "wb");
  if (!out || fwrite(data, 1, size, out) != size || fclose(out) != 0) abort();
}

void folder_write_text(const char *name, const char *text) {
  folder_write(name, text, strlen(text));
}
