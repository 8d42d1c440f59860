#include "process.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "machine.h"

#define INITIAL_NAMESPACE "pid:[4026531836]" // PROC_PID_INIT_INO of the kernel's proc_ns.h
#define SLACK_SECONDS 120 // a clock that was set in between; a number is not used again that soon

static bool path_of(char path[PATH_MAX], const char *root, unsigned pid, const char *name) {
  int n = snprintf(path, PATH_MAX, "%s/proc/%u/%s", root, pid, name);
  return n > 0 && n < PATH_MAX;
}

// The first bytes of a file, with a 0 after them; -1 if it cannot be read.
static ssize_t read_start(const char *path, char *text, size_t size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t got = file < 0 ? -1 : read(file, text, size - 1);
  if (file >= 0) close(file);
  text[got > 0 ? got : 0] = 0;
  return got;
}

// ---- names ------------------------------------------------------------------------------------------

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

// The script or module that an interpreter runs; NULL if there is none. The words end with a 0 each.
static const char *script_of(const char *words, const char *end) {
  const char *word = words + strlen(words) + 1;
  for (; word < end; word += strlen(word) + 1) {
    if (strcmp(word, "-c") == 0) return NULL;
    if (strcmp(word, "-m") == 0) {
      word += strlen(word) + 1;
      return word < end ? word : NULL;
    }
    bool has_value = strcmp(word, "-X") == 0 || strcmp(word, "-W") == 0;
    if (has_value) word += strlen(word) + 1;
    else if (*word != '-') return base_name(word);
    if (word >= end) return NULL;
  }
  return NULL;
}

static bool read_name(const char *root, unsigned pid, char *name, size_t size) {
  char path[PATH_MAX], words[4096];
  ssize_t got = path_of(path, root, pid, "cmdline") ? read_start(path, words, sizeof words) : -1;
  if (got <= 0 || !*words) return plim_process_name(root, pid, name, size);
  const char *program = base_name(words), *script = NULL;
  if (strncmp(program, "python", 6) == 0) script = script_of(words, words + got);
  snprintf(name, size, "%s%s%s", program, script ? " " : "", script ? script : "");
  return true;
}

static void read_user(const char *root, unsigned pid, char *user, size_t size) {
  char path[PATH_MAX], text[1024];
  struct stat s;
  struct passwd entry, *found = NULL;
  *user = 0;
  if (!path_of(path, root, pid, "") || stat(path, &s) != 0) return;
  if (getpwuid_r(s.st_uid, &entry, text, sizeof text, &found) == 0 && found)
    snprintf(user, size, "%s", found->pw_name);
  else snprintf(user, size, "%u", (unsigned)s.st_uid);
}

// ---- containers -------------------------------------------------------------------------------------

// Whether this process numbers processes as the driver does. If that cannot be read, it does.
static bool has_host_numbers(const char *root) {
  char path[PATH_MAX], name[64];
  int n = snprintf(path, sizeof path, "%s/proc/self/ns/pid", root);
  ssize_t size = n < PATH_MAX ? readlink(path, name, sizeof name - 1) : -1;
  if (size < 0) return true;
  name[size] = 0;
  return strcmp(name, INITIAL_NAMESPACE) == 0;
}

// Whether the process has a file of the driver open.
static bool uses_driver(const char *root, unsigned pid) {
  char path[PATH_MAX], target[64];
  DIR *folder = path_of(path, root, pid, "fd") ? opendir(path) : NULL;
  bool found = false;
  for (struct dirent *e; folder && !found && (e = readdir(folder));) {
    ssize_t size = readlinkat(dirfd(folder), e->d_name, target, sizeof target);
    found = size > 11 && strncmp(target, "/dev/nvidia", 11) == 0;
  }
  if (folder) closedir(folder);
  return found;
}

bool plim_process_read(const char *root, unsigned pid, plim_process *out) {
  *out = (plim_process){0};
  if (!has_host_numbers(root) && !uses_driver(root, pid)) return false;
  if (!read_name(root, pid, out->name, sizeof out->name)) return false;
  read_user(root, pid, out->user, sizeof out->user);
  return true;
}

// ---- whether it runs --------------------------------------------------------------------------------

// When the machine was started, in Unix seconds; negative: unknown.
static double boot_seconds(const char *root) {
  char path[PATH_MAX], text[1 << 16];
  int n = snprintf(path, sizeof path, "%s/proc/stat", root);
  if (n >= PATH_MAX || read_start(path, text, sizeof text) <= 0) return -1;
  const char *line = strstr(text, "\nbtime ");
  return line ? strtod(line + strlen("\nbtime "), NULL) : -1;
}

// The state and the start of "4100 (a name) S 1 4100 ...": the 3rd and the 22nd field. The name may have any character.
static bool parse_stat(const char *text, char *state, double *ticks) {
  const char *at = strrchr(text, ')');
  if (!at || at[1] != ' ') return false;
  *state = at[2];
  at += 2;
  for (int field = 3; field < 22; field++) {
    at = strchr(at, ' ');
    if (!at) return false;
    at++;
  }
  *ticks = strtod(at, NULL);
  return true;
}

bool plim_process_runs(const char *root, unsigned pid, double at_seconds) {
  char path[PATH_MAX], text[1024], state;
  double ticks, boot = boot_seconds(root);
  if (!path_of(path, root, pid, "stat") || read_start(path, text, sizeof text) <= 0) return false;
  if (!parse_stat(text, &state, &ticks)) return true; // it is there
  if (state == 'Z' || state == 'X') return false;
  if (boot < 0 || at_seconds < 0) return true;
  double started = boot + ticks / (double)sysconf(_SC_CLK_TCK);
  return started <= at_seconds + SLACK_SECONDS;
}
