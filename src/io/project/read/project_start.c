// Finds the folder in which a run is started; relative paths in its files start there.
#include <stdio.h>
#include <string.h>

#include "project_impl.h"
#include "text_file.h"

static size_t folder_size(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) + 1 : 0;
}

bool plim_path_beside(const char *of, const char *name, char out[PLIM_PATH_BYTES]) {
  int size = snprintf(out, PLIM_PATH_BYTES, "%.*s%s", (int)folder_size(of), of, name);
  return size >= 0 && size < PLIM_PATH_BYTES;
}

// Whether a script that a command starts exists relative to this folder.
static bool holds_script(const char *folder, size_t size, const char *text) {
  char path[PLIM_PATH_BYTES];
  while (*text) {
    size_t word = strcspn(text, " \t\r\n\"'=;|&<>()");
    bool is_script = word > 3 && *text != '/' && memcmp(text + word - 3, ".py", 3) == 0;
    int length =
        is_script ? snprintf(path, sizeof path, "%.*s%.*s", (int)size, folder, (int)word, text) : 0;
    if (length > 0 && length < PLIM_PATH_BYTES && plim_is_file(path)) return true;
    text += word + (text[word] != 0);
  }
  return false;
}

static size_t folder_above(const char *path, size_t size) {
  while (size > 0 && path[size - 1] == '/') size--;
  while (size > 0 && path[size - 1] != '/') size--;
  return size;
}

// The length of the part of the path that is the folder in which the command runs; by default the script's folder.
static size_t run_folder(const plim_project_file *f) {
  size_t own = folder_size(f->path), size = own;
  while (!holds_script(f->path, size, f->text)) {
    if (!size) return own;
    size = folder_above(f->path, size);
  }
  return size;
}

void plim_run_folder(const plim_project_file *command, char out[PLIM_PATH_BYTES]) {
  size_t size = run_folder(command);
  while (size > 1 && command->path[size - 1] == '/') size--;
  snprintf(out, PLIM_PATH_BYTES, "%.*s", size ? (int)size : 1, size ? command->path : ".");
}

static const plim_project_file *command_of(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->settings.format == PLIM_FORMAT_SHELL) return p->files.at[i];
  return NULL;
}

bool plim_path_from_run(const plim_project *p, const char *path, char out[PLIM_PATH_BYTES]) {
  const plim_project_file *command = command_of(p);
  size_t run = command ? run_folder(command) : 0, used = 0;
  bool is_below = run == 0 || strncmp(path, command->path, run) == 0;
  *out = 0;
  for (size_t i = 0; !is_below && *path != '/' && i < run; i++)
    if (command->path[i] == '/' && used + 4 < PLIM_PATH_BYTES)
      used += (size_t)snprintf(out + used, PLIM_PATH_BYTES - used, "../");
  int size = snprintf(out + used, PLIM_PATH_BYTES - used, "%s", path + (is_below ? run : 0));
  return size >= 0 && used + (size_t)size < PLIM_PATH_BYTES;
}
