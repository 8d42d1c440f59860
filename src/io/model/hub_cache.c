#include "hub_cache.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ID = 192, MAX_REVISION = 96 }; // the hub allows 96 characters on either side of '/'

typedef struct {
  const char *variable, *below;
} place;

// Below the first of the variables that is set. The list ends with {0}.
static bool find_place(const place *places, char path[PLIM_PATH_BYTES]) {
  for (; places->variable; places++) {
    const char *value = getenv(places->variable);
    if (value && *value) return plim_path_join(path, value, places->below);
  }
  return false;
}

static bool find_cache(char folder[PLIM_PATH_BYTES]) {
  static const place places[] = {
      {"HF_HUB_CACHE", "."},
      {"HUGGINGFACE_HUB_CACHE", "."}, // its old name
      {"HF_HOME", "hub"},
      {"XDG_CACHE_HOME", "huggingface/hub"},
      {"HOME", ".cache/huggingface/hub"},
      {0},
  };
  return find_place(places, folder);
}

static bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

// Whether it is a valid part of an id or a revision; ".." would leave the cache.
static bool is_name(const char *text, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (!is_plain(text[i])) return false;
  return length > 0 && text[0] != '.';
}

// The folder of a model: "models--owner--name" for "owner/name".
static bool repository_name(const char *id, char name[MAX_ID + 16]) {
  size_t length = strlen(id), owner = strcspn(id, "/");
  if (length > MAX_ID || !is_name(id, owner)) return false;
  if (owner == length) return snprintf(name, MAX_ID + 16, "models--%s", id) > 0;
  if (!is_name(id + owner + 1, length - owner - 1)) return false;
  return snprintf(name, MAX_ID + 16, "models--%.*s--%s", (int)owner, id, id + owner + 1) > 0;
}

static bool main_revision(const char *repository, char revision[MAX_REVISION + 1]) {
  char path[PLIM_PATH_BYTES], *text;
  size_t size;
  if (!plim_path_join(path, repository, "refs/main")) return false;
  if (plim_text_file_read(path, MAX_REVISION, &text, &size, NULL)) return false;
  size_t length = strcspn(text, "\r\n");
  bool is_fine = length <= MAX_REVISION && is_name(text, length);
  if (is_fine) snprintf(revision, MAX_REVISION + 1, "%.*s", (int)length, text);
  free(text);
  return is_fine;
}

static bool only_revision(const char *snapshots, char revision[MAX_REVISION + 1]) {
  DIR *folder = opendir(snapshots);
  size_t count = 0;
  if (!folder) return false;
  for (struct dirent *entry; (entry = readdir(folder));) {
    size_t length = strlen(entry->d_name);
    if (length > MAX_REVISION || !is_name(entry->d_name, length)) continue;
    snprintf(revision, MAX_REVISION + 1, "%.*s", (int)length, entry->d_name);
    count++;
  }
  closedir(folder);
  return count == 1;
}

bool plim_hub_snapshot(const char *id, char folder[PLIM_PATH_BYTES]) {
  char cache[PLIM_PATH_BYTES], repository[PLIM_PATH_BYTES], snapshots[PLIM_PATH_BYTES];
  char name[MAX_ID + 16], revision[MAX_REVISION + 1];
  if (!repository_name(id, name) || !find_cache(cache)) return false;
  if (!plim_path_join(repository, cache, name)) return false;
  if (!plim_path_join(snapshots, repository, "snapshots")) return false;
  if (!main_revision(repository, revision) && !only_revision(snapshots, revision)) return false;
  return plim_path_join(folder, snapshots, revision) && plim_is_folder(folder);
}

bool plim_hub_is_id(const char *text) {
  char name[MAX_ID + 16];
  return repository_name(text, name);
}

bool plim_hub_kept(const char *id, char path[PLIM_PATH_BYTES]) {
  static const place places[] = {
      {"XDG_CACHE_HOME", "plimsoll/hub"}, {"HOME", ".cache/plimsoll/hub"}, {0}};
  char name[MAX_ID + 16], cache[PLIM_PATH_BYTES], folder[PLIM_PATH_BYTES];
  return repository_name(id, name) && find_place(places, cache) && *cache == '/' &&
         plim_path_join(folder, cache, name) && plim_path_join(path, folder, "config.json");
}

// huggingface_hub 1.1, constants.py, HF_TOKEN_PATH.
bool plim_hub_token_path(char path[PLIM_PATH_BYTES]) {
  static const place places[] = {{"HF_HOME", "token"},
                                 {"XDG_CACHE_HOME", "huggingface/token"},
                                 {"HOME", ".cache/huggingface/token"},
                                 {0}};
  const char *given = getenv("HF_TOKEN_PATH"); // a file: nothing is below it
  if (given && *given) return snprintf(path, PLIM_PATH_BYTES, "%s", given) < PLIM_PATH_BYTES;
  return find_place(places, path);
}
