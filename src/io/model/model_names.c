#include "model_names.h"

#include <ctype.h>
#include <fnmatch.h>
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

// The name without the slashes after it; false if nothing is left or it is too long.
static bool copy_name(const char *what, char out[NAME_BYTES]) {
  size_t size = strlen(what);
  while (size && what[size - 1] == '/') size--;
  if (!size || size >= NAME_BYTES) return false;
  memcpy(out, what, size);
  out[size] = 0;
  return true;
}

static const char *last_part(const char *name) {
  const char *slash = strrchr(name, '/');
  return slash ? slash + 1 : name;
}

// ---- endings ----------------------------------------------------------------------------------------

// How a checkpoint is stored, by the ends of names, of which one may have several: "-unsloth-bnb-4bit". It does not change
// the shapes of the model.
static const struct {
  const char *end, *quantization; // quantization: as in model_config.h; NULL: not quantised
  int bits;
} endings[] = {
    {"-fp16", NULL, 0},
    {"-bf16", NULL, 0},
    {"-unsloth", NULL, 0},
    {"-dequantized", NULL, 0},
    {"-bnb-4bit", "bitsandbytes", 4},
    {"-bnb-nf4", "bitsandbytes", 4},
    {"-bnb-8bit", "bitsandbytes", 8},
    {"-4bit", "4-bit", 4},
    {"-8bit", "8-bit", 8},
    {"-gptq", "gptq", 4},
    {"-gptq-4bit", "gptq", 4},
    {"-gptq-int4", "gptq", 4},
    {"-gptq-int8", "gptq", 8},
    {"-awq", "awq", 4},
    {"-awq-int4", "awq", 4},
    {"-aqlm-2bit-1x16", "aqlm", 2},
    {"-nvfp4", "nvfp4", 4},
    {"-fp8", "fp8", 8},
    {"-fp8-block", "fp8", 8},
    {"-fp8-dynamic", "fp8", 8},
};

static size_t ending_of(const char *name) {
  size_t size = strlen(name), i = 0;
  for (; i < sizeof endings / sizeof *endings; i++) {
    size_t n = strlen(endings[i].end);
    if (size > n && strcasecmp(name + size - n, endings[i].end) == 0) break;
  }
  return i;
}

static bool cut_ending(char *name) {
  size_t i = ending_of(name);
  if (i == sizeof endings / sizeof *endings) return false;
  name[strlen(name) - strlen(endings[i].end)] = 0;
  return true;
}

// Removes a date such as that of Qwen3-4B-Instruct-2507. What is left must have a size: Mistral-Small-2409 is not the
// Mistral Small of 2501.
static bool cut_date(char *name) {
  size_t size = strlen(name);
  bool is_date = size > 5 && name[size - 5] == '-' && strspn(name + size - 4, "0123456789") == 4;
  if (is_date) name[size - 5] = 0;
  return is_date;
}

const char *plim_model_quantization(const char *what, int *bits) {
  char name[NAME_BYTES];
  *bits = 0;
  if (!copy_name(what, name)) return NULL;
  do {
    size_t i = ending_of(name);
    if (i == sizeof endings / sizeof *endings || !endings[i].quantization) continue;
    *bits = endings[i].bits;
    return endings[i].quantization;
  } while (cut_ending(name));
  return NULL;
}

// ---- mirrors and folders, found ---------------------------------------------------------------------

static const plim_catalogue_model *named(const char *name) {
  const plim_catalogue_model *found = plim_catalogue_named(name);
  return found ? found : plim_catalogue_named(last_part(name));
}

const plim_catalogue_model *plim_model_called(const char *what) {
  char name[NAME_BYTES];
  if (!copy_name(what, name)) return NULL;
  const plim_catalogue_model *found = named(name);
  while (!found && cut_ending(name)) found = named(name);
  return found || !cut_date(name) ? found : plim_catalogue_same(last_part(name));
}

static bool is_file_name(const char *text) {
  static const char *const ends[] = {".yaml", ".yml", ".json", ".toml", ".py",         ".pt",
                                     ".pth",  ".bin", ".ckpt", ".onnx", ".safetensors"};
  size_t size = strlen(text);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    size_t n = strlen(ends[i]);
    if (size > n && strcasecmp(text + size - n, ends[i]) == 0) return true;
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

// Builders whose names differ from the models'.
static const struct {
  const char *builder, *model;
} renamed[] = {
    {"phi3_mini", "torchtune/phi3_mini"}, {"phi4_14b", "torchtune/phi4_14b"},
    {"code_llama2_7b", "codellama-7b"},   {"code_llama2_13b", "codellama-13b"},
    {"code_llama2_70b", "codellama-70b"}, {"smollm2_135m", "smollm2-135m"},
    {"smollm2_360m", "smollm2-360m"},     {"smollm2_1_7b", "smollm2-1.7b"},
};

static const char *renamed_model(const char *builder) {
  for (size_t i = 0; i < sizeof renamed / sizeof *renamed; i++)
    if (strcmp(renamed[i].builder, builder) == 0) return renamed[i].model;
  return NULL;
}

// max_seq_len in torchtune/models/*/_model_builders.py, and the class of positions in _component_builders.py: most have
// pairs of cos and sin, those of phi3 and qwen2 both for every element of a head. Functions for adapters make them in each
// call of lora_*_self_attention, except where lora_llama3_attention is given those of all layers.
static const struct {
  const char *functions; // behind "torchtune.models."
  plim_builder_tables tables;
  bool is_shared_by_adapters;
} tables_of[] = {
    {"llama2.*", {4096, 1}, false},
    {"llama3.*", {8192, 1}, false},
    {"llama3_1.*", {131072, 1}, true},
    {"llama3_2.*", {131072, 1}, true},
    {"llama3_3.*", {131072, 1}, true},
    {"llama3_2_vision.*", {131072, 1}, true},
    {"llama4.*scout*", {10485760, 1}, true},
    {"llama4.*maverick*", {1048576, 1}, true},
    {"smol.*", {8192, 1}, true},
    {"gemma.*", {8192, 1}, false},
    {"gemma2.*", {8192, 1}, false},
    {"mistral.*", {32768, 1}, false},
    {"phi3.*", {4096, 2}, false},
    {"phi4.*", {16384, 2}, false},
    {"qwen2.*", {32768, 2}, false},
    {"qwen2_5.*_base", {131072, 2}, false},
    {"qwen2_5.*", {32768, 2}, false},
    {"qwen3.*_base", {32768, 2}, false},
    {"qwen3.*", {40960, 2}, false},
};

static const char builders_start[] = "torchtune.models.";

void plim_tables_of_builder(const char *function, plim_builder_tables *out) {
  *out = (plim_builder_tables){0};
  size_t n = sizeof builders_start - 1;
  if (strncmp(function, builders_start, n) != 0) return;
  const char *dot = strchr(function + n, '.');
  for (size_t i = 0; dot && i < sizeof tables_of / sizeof *tables_of; i++) {
    if (fnmatch(tables_of[i].functions, function + n, 0) != 0) continue;
    bool has_adapters = without_adapter(dot + 1) != dot + 1;
    *out = tables_of[i].tables;
    out->is_of_each_adapted = !tables_of[i].is_shared_by_adapters;
    out->is_of_each_layer = has_adapters && out->is_of_each_adapted;
    return;
  }
}

bool plim_model_of_builder(const char *function, char *out, size_t size) {
  size_t start = sizeof builders_start - 1;
  *out = 0;
  if (strncmp(function, builders_start, start) != 0) return false;
  const char *family = function + start, *dot = strchr(family, '.');
  if (!dot) return false;
  size_t n = (size_t)(dot - family);
  const char *name = without_adapter(dot + 1), *other = renamed_model(name);
  if (other) return (size_t)snprintf(out, size, "%s", other) < size;
  if (strncmp(name, family, n) != 0 || name[n] != '_') return false; // models of any size
  return add_dotted(family, n, out, size) && add_dotted("_", 1, out, size) &&
         add_dotted(name + n + 1, strlen(name + n + 1), out, size);
}
