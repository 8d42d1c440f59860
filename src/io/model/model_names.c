#include "model_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { NAME_BYTES = 160 };

// ---- mirrors and folders ----------------------------------------------------------------------------

// Common names of folders that contain models.
static bool is_folder_name(const char *what, size_t size) {
  static const char *const names[] = {"models",  "checkpoints", "ckpts",   "saves",
                                      "outputs", "output",      "weights", "results"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strlen(names[i]) == size && memcmp(names[i], what, size) == 0) return true;
  return false;
}

bool plim_model_is_path(const char *what) {
  const char *slash = strchr(what, '/');
  bool is_id = slash && slash != what && slash[1] && !strchr(slash + 1, '/');
  if (is_id && is_folder_name(what, (size_t)(slash - what))) return true;
  size_t size = strlen(what);
  if (size > 5 && strcmp(what + size - 5, ".json") == 0)
    return true; // no repository has such a name
  return slash && (!is_id || *what == '.' || *what == '~');
}

// The last part of a path, with or without a slash after it.
static bool last_part(const char *what, char out[NAME_BYTES]) {
  size_t end = strlen(what);
  while (end && what[end - 1] == '/') end--;
  size_t begin = end;
  while (begin && what[begin - 1] != '/') begin--;
  if (begin == end || end - begin >= NAME_BYTES) return false;
  memcpy(out, what + begin, end - begin);
  out[end - begin] = 0;
  return true;
}

// Removes the storage format and the date from a name: neither changes the shapes of the model.
static bool cut_ending(char *name) {
  static const char *const endings[] = {"-fp16", "-bf16", "-bnb-4bit", "-4bit", "-unsloth"};
  size_t size = strlen(name);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    size_t n = strlen(endings[i]);
    if (size <= n || strcasecmp(name + size - n, endings[i]) != 0) continue;
    name[size - n] = 0;
    return true;
  }
  bool is_date = size > 5 && name[size - 5] == '-' && strspn(name + size - 4, "0123456789") == 4;
  if (is_date) name[size - 5] = 0; // Qwen3-4B-Instruct-2507
  return is_date;
}

const plim_catalogue_model *plim_model_called(const char *what) {
  char name[NAME_BYTES];
  if (!last_part(what, name)) return NULL;
  const plim_catalogue_model *found = plim_catalogue_named(name);
  while (!found && cut_ending(name)) found = plim_catalogue_named(name);
  return found;
}

static bool is_file_name(const char *text) {
  static const char *const endings[] = {".yaml", ".yml", ".json", ".toml", ".py",         ".pt",
                                        ".pth",  ".bin", ".ckpt", ".onnx", ".safetensors"};
  size_t size = strlen(text);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    size_t n = strlen(endings[i]);
    if (size > n && strcasecmp(text + size - n, endings[i]) == 0) return true;
  }
  return false;
}

// Whether it is an id that the hub allows, such as "Qwen/Qwen2.5-7B".
static bool is_id(const char *text) {
  static const char allowed[] =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./";
  return strchr(text, '/') && !plim_model_is_path(text) && !text[strspn(text, allowed)];
}

bool plim_model_is_meant(const char *text) {
  if (is_file_name(text)) return false;
  return is_id(text) || plim_model_called(text) || plim_catalogue_unfollowed(text);
}

bool plim_model_is_quantized(const char *what) { return strcasestr(what, "-bnb-4bit") != NULL; }

static const char *next_digit(const char *text) {
  while (*text && !isdigit((unsigned char)*text)) text++;
  return text;
}

bool plim_model_has_digits(const char *name, const char *typed) {
  name = next_digit(name), typed = next_digit(typed);
  for (; *typed && *typed == *name; typed = next_digit(typed + 1)) name = next_digit(name + 1);
  return !*typed;
}

// ---- builders ---------------------------------------------------------------------------------------

// Appends the text with "_" as a dot between digits and as a dash elsewhere: "llama3_1" becomes "llama3.1".
static bool add_dotted(const char *text, size_t n, char *out, size_t size) {
  size_t used = strlen(out);
  if (used + n + 1 > size) return false;
  for (size_t i = 0; i < n; i++) {
    bool is_point = i && i + 1 < n && isdigit((unsigned char)text[i - 1]) &&
                    isdigit((unsigned char)text[i + 1]);
    out[used++] = text[i] != '_' ? text[i] : is_point ? '.' : '-';
  }
  out[used] = 0;
  return true;
}

static const char *without_adapter(const char *name) {
  static const char *const adapters[] = {"lora_", "qlora_", "dora_"};
  for (size_t i = 0; i < sizeof adapters / sizeof *adapters; i++)
    if (strncmp(name, adapters[i], strlen(adapters[i])) == 0) return name + strlen(adapters[i]);
  return name;
}

bool plim_model_of_builder(const char *function, char *out, size_t size) {
  static const char start[] = "torchtune.models.";
  *out = 0;
  if (strncmp(function, start, sizeof start - 1) != 0) return false;
  const char *family = function + sizeof start - 1, *dot = strchr(family, '.');
  if (!dot) return false;
  size_t n = (size_t)(dot - family);
  const char *name = without_adapter(dot + 1);
  if (strncmp(name, family, n) != 0 || name[n] != '_') return false; // models of any size
  return add_dotted(family, n, out, size) && add_dotted("_", 1, out, size) &&
         add_dotted(name + n + 1, strlen(name + n + 1), out, size);
}
