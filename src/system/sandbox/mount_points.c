#include "mount_points.h"

static bool is_octal(char c) { return c >= '0' && c <= '7'; }

// Undoes the kernel's escapes in place: \040 is a space.
static void decode(char *path) {
  char *out = path;
  for (const char *at = path; *at; at++)
    if (at[0] == '\\' && is_octal(at[1]) && is_octal(at[2]) && is_octal(at[3])) {
      *out++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
      at += 3;
    } else *out++ = *at;
  *out = '\0';
}

// The fifth word of the line, cut out in place; NULL if there is none.
static char *mount_point_of(char *line) {
  char *rest = line, *word = NULL;
  for (int i = 0; i < 5; i++) word = strsep(&rest, " \n");
  return word && *word == '/' ? word : NULL;
}

bool plim_mount_points_read(FILE *mountinfo, plim_mount_points *out) {
  char *line = NULL;
  size_t capacity = 0;
  bool ok = true;
  while (ok && getline(&line, &capacity, mountinfo) > 0) {
    char *path = mount_point_of(line);
    if (!path) continue;
    decode(path);
    char *copy = strdup(path);
    ok = copy && vec_push(out, copy);
    if (!ok) free(copy);
  }
  free(line);
  return ok;
}

void plim_mount_points_free(plim_mount_points *points) {
  for (size_t i = 0; i < points->len; i++) free(points->at[i]);
  vec_free(points);
}

bool plim_mount_points_has(const plim_mount_points *points, const char *path) {
  for (size_t i = 0; i < points->len; i++)
    if (strcmp(points->at[i], path) == 0) return true;
  return false;
}

bool plim_path_is_below(const char *path, const char *folder) {
  if (strcmp(folder, "/") == 0) return path[0] == '/' && path[1];
  size_t size = strlen(folder);
  return strncmp(path, folder, size) == 0 && path[size] == '/';
}

bool plim_mount_points_below(const plim_mount_points *points, const char *folder) {
  for (size_t i = 0; i < points->len; i++)
    if (plim_path_is_below(points->at[i], folder)) return true;
  return false;
}
