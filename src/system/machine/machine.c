#include "machine.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 16 };

// ---- files ------------------------------------------------------------------------------------------

static bool path_of(char path[PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static bool path_of(char path[PATH_MAX], const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(path, PATH_MAX, format, args);
  va_end(args);
  return n > 0 && n < PATH_MAX;
}

// Reads the beginning of a file as text; empty if it does not exist. Allocates no memory, so that it works on a
// machine that is out of memory.
static bool read_text(const char *path, char text[FILE_BYTES]) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  size_t size = 0;
  ssize_t got = 1;
  while (file >= 0 && size < FILE_BYTES - 1 && got > 0) {
    got = read(file, text + size, FILE_BYTES - 1 - size);
    if (got > 0) size += (size_t)got;
  }
  text[size] = 0;
  if (file >= 0) close(file);
  return size > 0;
}

static bool read_below(const char *root, const char *name, char text[FILE_BYTES]) {
  char path[PATH_MAX];
  *text = 0;
  return path_of(path, "%s%s", root, name) && read_text(path, text);
}

static bool is_there(const char *root, const char *name) {
  char path[PATH_MAX];
  return path_of(path, "%s%s", root, name) && access(path, F_OK) == 0;
}

// The number after "name" at the start of a line, in units of `unit`.
static uint64_t number_after(const char *text, const char *name, uint64_t unit) {
  size_t size = strlen(name);
  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    if (strncmp(line, name, size) != 0) continue;
    const char *digits = line + size + strspn(line + size, " \t");
    if (isdigit((unsigned char)*digits)) return strtoull(digits, NULL, 10) * unit;
  }
  return PLIM_UNKNOWN;
}

// ---- memory -----------------------------------------------------------------------------------------

static void read_memory(const char *root, plim_machine *m) {
  char text[FILE_BYTES];
  read_below(root, "/proc/meminfo", text);
  m->total_bytes = number_after(text, "MemTotal:", 1024);
  m->available_bytes = number_after(text, "MemAvailable:", 1024);
  m->swap_total_bytes = number_after(text, "SwapTotal:", 1024);
  m->swap_free_bytes = number_after(text, "SwapFree:", 1024);
}

// "Max locked memory         8388608              8388608              bytes"
static void read_locked(const char *root, plim_machine *m) {
  char text[FILE_BYTES];
  read_below(root, "/proc/self/limits", text);
  m->locked_bytes = number_after(text, "Max locked memory", 1);
}

// ---- control groups ---------------------------------------------------------------------------------

// The folders and file names of control groups version 1 and 2.
typedef struct {
  const char *mount, *limit, *used, *cache, *events;
} version;

static const version versions[] = {
    {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file", "memory.oom_control"},
    {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file", "memory.events"},
};

#define NO_LIMIT (1ull << 62) // version 1 reports 2^63 minus a page if there is no limit

static uint64_t number_in(const char *root, const version *v, const char *group, const char *name) {
  char path[PATH_MAX], text[FILE_BYTES];
  if (!path_of(path, "%s%s%s/%s", root, v->mount, group, name)) return PLIM_UNKNOWN;
  if (!read_text(path, text) || !isdigit((unsigned char)*text)) return PLIM_UNKNOWN; // "max"
  return strtoull(text, NULL, 10);
}

// Inactive file cache, which the kernel reclaims when memory is short.
static uint64_t cache_in(const char *root, const version *v, const char *group) {
  char path[PATH_MAX], text[FILE_BYTES];
  if (!path_of(path, "%s%s%s/memory.stat", root, v->mount, group)) return 0;
  read_text(path, text);
  uint64_t bytes = number_after(text, v->cache, 1);
  return bytes == PLIM_UNKNOWN ? 0 : bytes;
}

// The kernel's counter includes the groups below.
static uint64_t kills_in(const char *root, const version *v, const char *group) {
  char path[PATH_MAX], text[FILE_BYTES];
  if (!path_of(path, "%s%s%s/%s", root, v->mount, group, v->events)) return PLIM_UNKNOWN;
  read_text(path, text);
  return number_after(text, "oom_kill ", 1);
}

static uint64_t room_in(uint64_t limit, uint64_t used) { return limit > used ? limit - used : 0; }

static void consider(const char *root, const version *v, const char *group, plim_machine *m) {
  uint64_t limit = number_in(root, v, group, v->limit), used = number_in(root, v, group, v->used);
  if (m->oom_kills == PLIM_UNKNOWN) m->oom_kills = kills_in(root, v, group);
  if (limit >= NO_LIMIT || used == PLIM_UNKNOWN) return;
  uint64_t cache = cache_in(root, v, group);
  used -= cache < used ? cache : used;
  bool is_first = m->limit_bytes == PLIM_UNKNOWN;
  if (!is_first && room_in(limit, used) >= room_in(m->limit_bytes, m->limit_used_bytes)) return;
  m->limit_bytes = limit;
  m->limit_used_bytes = used;
}

// Reads the group and all its parents. In a container, the path may exist only outside.
static void climb(const char *root, const version *v, char *group, plim_machine *m) {
  for (char *slash; (slash = strrchr(group, '/')); *slash = 0) {
    if (slash[1] == 0) *slash = 0; // the root is the empty path
    consider(root, v, group, m);
    if (!*group) return;
  }
  consider(root, v, "", m);
}

// Lines are "12:memory:/path" (version 1) and "0::/path" (version 2).
static void read_groups(const char *root, plim_machine *m) {
  char text[FILE_BYTES], *rest = text, *line;
  read_below(root, "/proc/self/cgroup", text);
  while ((line = strsep(&rest, "\n"))) {
    char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    if (!*++names) climb(root, &versions[1], group, m);
    else if (strcmp(names, "memory") == 0) climb(root, &versions[0], group, m);
  }
}

// ---- shared memory ----------------------------------------------------------------------------------

// A size as the mount table has it: 65536k, 50%.
static uint64_t mount_size(const char *text, uint64_t memory) {
  char *end;
  uint64_t size = strtoull(text, &end, 10);
  switch (tolower((unsigned char)*end)) {
  case 'k': return size << 10;
  case 'm': return size << 20;
  case 'g': return size << 30;
  case '%': return memory == PLIM_UNKNOWN ? PLIM_UNKNOWN : memory / 100 * size;
  default: return size;
  }
}

// Without a size it is half of the memory (the kernel's tmpfs documentation).
static uint64_t mounted_size(const char *options, uint64_t memory) {
  const char *size = strstr(options, "size=");
  if (size) return mount_size(size + strlen("size="), memory);
  return memory == PLIM_UNKNOWN ? PLIM_UNKNOWN : memory / 2;
}

// Lines are "shm /dev/shm tmpfs rw,size=65536k 0 0"; the last one is on top.
static void read_mounts(const char *root, plim_machine *m) {
  char text[FILE_BYTES], *rest = text, *line;
  read_below(root, "/proc/self/mounts", text);
  while ((line = strsep(&rest, "\n"))) {
    char *options = strstr(line, " /dev/shm ");
    if (options) m->shm_total_bytes = mounted_size(options, m->total_bytes);
  }
}

// Asks the file system itself; with another root, that is not possible.
static void read_shared(const char *root, plim_machine *m) {
  struct statvfs s;
  read_mounts(root, m);
  if (*root || statvfs("/dev/shm", &s) != 0) return;
  m->shm_total_bytes = (uint64_t)s.f_blocks * s.f_frsize;
  m->shm_free_bytes = (uint64_t)s.f_bavail * s.f_frsize;
}

// ---- all of it --------------------------------------------------------------------------------------

void plim_machine_read(const char *root, plim_machine *out) {
  char text[FILE_BYTES];
  *out = (plim_machine){.limit_bytes = PLIM_UNKNOWN,
                        .limit_used_bytes = PLIM_UNKNOWN,
                        .oom_kills = PLIM_UNKNOWN,
                        .shm_total_bytes = PLIM_UNKNOWN,
                        .shm_free_bytes = PLIM_UNKNOWN};
  read_memory(root, out);
  read_locked(root, out);
  read_groups(root, out);
  read_shared(root, out);
  out->is_container = is_there(root, "/.dockerenv") || is_there(root, "/run/.containerenv");
  out->is_wsl = read_below(root, "/proc/version", text) && strcasestr(text, "microsoft");
}

uint64_t plim_machine_room(const plim_machine *m) {
  if (m->limit_bytes == PLIM_UNKNOWN) return m->available_bytes;
  uint64_t room = room_in(m->limit_bytes, m->limit_used_bytes);
  return room < m->available_bytes ? room : m->available_bytes;
}

bool plim_process_name(const char *root, unsigned pid, char *name, size_t size) {
  char path[PATH_MAX], text[FILE_BYTES];
  if (!path_of(path, "%s/proc/%u/comm", root, pid) || !read_text(path, text)) return false;
  text[strcspn(text, "\n")] = 0;
  snprintf(name, size, "%s", text);
  return *name != 0;
}
