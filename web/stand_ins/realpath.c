// A page's files have no symbolic links, so a path without "." and ".." is the real one.
#include "realpath.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Appends the parts of `path` to the absolute path `out`; false if it becomes too long.
static bool add_parts(char out[PATH_MAX], const char *path) {
  size_t used = strlen(out);
  for (size_t length; *path; path += length + (path[length] == '/')) {
    length = strcspn(path, "/");
    bool is_here = !length || (length == 1 && *path == '.');
    if (is_here) continue;
    if (length == 2 && memcmp(path, "..", 2) == 0) {
      while (used && out[--used] != '/') continue;
    } else {
      if (used + length + 2 > PATH_MAX) return false;
      out[used++] = '/';
      memcpy(out + used, path, length);
      used += length;
    }
    out[used] = 0;
  }
  return true;
}

char *realpath(const char *path, char *resolved) {
  struct stat found;
  char whole[PATH_MAX] = "", here[PATH_MAX] = "";
  if (*path != '/' && !getcwd(here, sizeof here)) return NULL;
  if (!add_parts(whole, here) || !add_parts(whole, path)) return errno = ENAMETOOLONG, NULL;
  if (!*whole) strcpy(whole, "/");
  if (stat(path, &found)) return NULL;
  return resolved ? strcpy(resolved, whole) : strdup(whole);
}
