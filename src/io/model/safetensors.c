#include "safetensors.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sort.h"
#include "text.h"
#include "text_file.h"

enum {
  LENGTH_BYTES = 8, // the header's length, little endian
  // Enough for 200,000 tensors. Reading a header of 100 MB, the limit of the format, takes 1.5 GB.
  MAX_HEADER_BYTES = 32 << 20,
  MAX_INDEX_BYTES = 64 << 20, // DeepSeek-V3's has 9 MB
  MAX_SHARDS = 10000,
};

// ---- one tensor -------------------------------------------------------------------------------------

static const struct {
  const char *name;
  uint8_t bytes;
  plim_safe_kind kind;
} types[] = {
    {"F32", 4, PLIM_SAFE_FP32},    {"F16", 2, PLIM_SAFE_FP16},    {"BF16", 2, PLIM_SAFE_BF16},
    {"F8_E4M3", 1, PLIM_SAFE_FP8}, {"F8_E5M2", 1, PLIM_SAFE_FP8}, {"U8", 1, PLIM_SAFE_INTEGER},
    {"I8", 1, PLIM_SAFE_INTEGER},  {"I16", 2, PLIM_SAFE_INTEGER}, {"U16", 2, PLIM_SAFE_INTEGER},
    {"I32", 4, PLIM_SAFE_INTEGER}, {"U32", 4, PLIM_SAFE_INTEGER}, {"I64", 8, PLIM_SAFE_INTEGER},
    {"U64", 8, PLIM_SAFE_INTEGER}, {"F64", 8, PLIM_SAFE_OTHER},   {"BOOL", 1, PLIM_SAFE_OTHER},
};
enum { TYPES = sizeof types / sizeof *types };

static size_t type_named(const char *name) {
  size_t i = 0;
  while (i < TYPES && strcmp(name, types[i].name) != 0) i++;
  return i;
}

// False if the shape is invalid or the number of elements exceeds 64 bits.
static bool count_elements(const json_t *shape, uint64_t *count) {
  *count = 1;
  if (!json_is_array(shape)) return false;
  for (size_t i = 0; i < json_array_size(shape); i++) {
    const json_t *extent = json_array_get(shape, i);
    if (!json_is_integer(extent) || json_integer_value(extent) < 0) return false;
    if (__builtin_mul_overflow(*count, (uint64_t)json_integer_value(extent), count)) return false;
  }
  return true;
}

static bool read_span(const json_t *offsets, uint64_t data_bytes, uint64_t *bytes) {
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last))
    return false;
  json_int_t from = json_integer_value(first), to = json_integer_value(last);
  if (from < 0 || to < from || (uint64_t)to > data_bytes) return false;
  *bytes = (uint64_t)(to - from);
  return true;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

// Masks and tables that older versions of transformers stored with the weights.
static bool is_buffer(const char *name) {
  static const char *const ends[] = {".attn.bias",      ".attn.masked_bias",
                                     ".attention.bias", ".attention.masked_bias",
                                     ".inv_freq",       "position_ids"};
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (ends_with(name, ends[i])) return true;
  return false;
}

static plim_err refuse_tensor(plim_error *error, const char *name, const char *why) {
  plim_err err = plim_fail(error, PLIM_ERR_PARSE, "tensor \"%.96s\" %s", name, why);
  plim_error_hint(error, "the file is damaged: download it again");
  return err;
}

static plim_err add_tensor(const char *name, const json_t *tensor, uint64_t data_bytes,
                           plim_safetensors *out, plim_error *error) {
  const char *type_name = json_string_value(json_object_get(tensor, "dtype"));
  size_t type = type_named(type_name ? type_name : "");
  uint64_t elements, bytes, expected;
  if (type == TYPES)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "tensor \"%.96s\" has the unknown dtype \"%.32s\"", name,
                     type_name ? type_name : "");
  if (!count_elements(json_object_get(tensor, "shape"), &elements))
    return refuse_tensor(error, name, "has an invalid shape");
  if (!read_span(json_object_get(tensor, "data_offsets"), data_bytes, &bytes))
    return refuse_tensor(error, name, "has data_offsets that are not within the file");
  if (__builtin_mul_overflow(elements, (uint64_t)types[type].bytes, &expected) || expected != bytes)
    return refuse_tensor(error, name, "has a different size than its shape and dtype require");
  out->tensors++;
  out->elements += elements;
  out->bytes += bytes;
  out->elements_of[types[type].kind] += elements;
  if (strcmp(name, "lm_head.weight") == 0) out->head_elements += elements;
  if (is_buffer(name)) out->buffer_elements += elements;
  return PLIM_OK;
}

// ---- headers ----------------------------------------------------------------------------------------

static json_t *load_object(const char *text, size_t size, plim_error *error) {
  json_error_t why;
  json_t *root = json_loadb(text, size, 0, &why);
  if (json_is_object(root)) return root;
  plim_fail(error, PLIM_ERR_PARSE, "this is not a JSON object: %.160s",
            root ? "it is another kind of JSON value" : why.text);
  if (error) plim_text_disarm(error->message);
  json_decref(root);
  return NULL;
}

// Sums cannot overflow: every tensor lies within the file, and they are checked to fit together.
plim_err plim_safetensors_add_header(const char *text, size_t size, uint64_t data_bytes,
                                     plim_safetensors *out, plim_error *error) {
  json_t *root = load_object(text, size, error), *tensor;
  if (!root) return PLIM_ERR_PARSE;
  const char *name;
  plim_err err = PLIM_OK;
  uint64_t before = out->bytes;
  json_object_foreach(root, name, tensor) {
    if (strcmp(name, "__metadata__") != 0) err = add_tensor(name, tensor, data_bytes, out, error);
    if (!err && out->bytes - before > data_bytes)
      err = refuse_tensor(error, name, "overlaps another tensor");
    if (err) break;
  }
  json_decref(root);
  if (error) plim_text_disarm(error->message);
  return err;
}

static uint64_t little_endian(const uint8_t at[LENGTH_BYTES]) {
  uint64_t value = 0;
  for (int i = LENGTH_BYTES; i-- > 0;) value = value << 8 | at[i];
  return value;
}

static plim_err read_header(FILE *in, uint64_t file_bytes, plim_safetensors *out,
                            plim_error *error) {
  uint8_t length_bytes[LENGTH_BYTES];
  if (fread(length_bytes, 1, LENGTH_BYTES, in) != LENGTH_BYTES)
    return plim_fail(error, PLIM_ERR_PARSE, "the file ends before its header");
  uint64_t length = little_endian(length_bytes);
  if (length > MAX_HEADER_BYTES && length <= file_bytes - LENGTH_BYTES)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "the header has %llu bytes; at most %d are read",
                     (unsigned long long)length, MAX_HEADER_BYTES);
  if (length > file_bytes - LENGTH_BYTES)
    return plim_fail(error, PLIM_ERR_PARSE,
                     "this is not a safetensors file: it declares a header of %llu bytes, but the "
                     "file has %llu bytes",
                     (unsigned long long)length, (unsigned long long)file_bytes);
  char *text = malloc((size_t)length + 1);
  if (!text) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  plim_err err = fread(text, 1, (size_t)length, in) == length
                     ? plim_safetensors_add_header(text, (size_t)length,
                                                   file_bytes - LENGTH_BYTES - length, out, error)
                     : plim_fail(error, PLIM_ERR_IO, "cannot read: %s", strerror(errno));
  free(text);
  return err;
}

static plim_err add_file(const char *path, plim_safetensors *out, plim_error *error) {
  struct stat found;
  FILE *in = plim_is_file(path) ? fopen(path, "rb") : NULL;
  plim_err err;
  if (!in || fstat(fileno(in), &found) != 0)
    err = plim_fail(error, PLIM_ERR_IO, "cannot open: %s", errno ? strerror(errno) : "not a file");
  else err = read_header(in, (uint64_t)found.st_size, out, error);
  if (in) fclose(in);
  out->files += !err;
  return err ? plim_error_file(error, err, path) : PLIM_OK;
}

// ---- folders ----------------------------------------------------------------------------------------

static int compare_texts(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The file names of the index's weight_map, each once. They belong to the index.
static size_t list_shards(json_t *map, const char **shards) {
  const char *name;
  json_t *value;
  size_t count = 0, kept = 0;
  json_object_foreach(map, name, value) {
    const char *file = json_string_value(value);
    shards[count++] = file ? file : "";
  }
  plim_sort(shards, count, sizeof *shards, compare_texts);
  for (size_t i = 0; i < count; i++)
    if (!kept || strcmp(shards[kept - 1], shards[i]) != 0) shards[kept++] = shards[i];
  return kept;
}

static plim_err add_shards(const char *folder, const char *const *shards, size_t count,
                           plim_safetensors *out, plim_error *error) {
  char path[PLIM_PATH_BYTES];
  if (count > MAX_SHARDS)
    return plim_fail(error, PLIM_ERR_PARSE,
                     "it lists %zu files, which is more than a checkpoint can have", count);
  for (size_t i = 0; i < count; i++) {
    bool is_name = *shards[i] && shards[i][0] != '.' && !strchr(shards[i], '/');
    if (!is_name || !plim_path_join(path, folder, shards[i]))
      return plim_fail(error, PLIM_ERR_PARSE,
                       "weight_map contains an entry that is not a file of this folder");
    plim_err err = add_file(path, out, error);
    if (err) return err;
  }
  return PLIM_OK;
}

static plim_err add_index(const char *folder, json_t *index, plim_safetensors *out,
                          plim_error *error) {
  json_t *map = json_object_get(index, "weight_map");
  size_t count = json_object_size(map);
  if (!count) return plim_fail(error, PLIM_ERR_PARSE, "the index has no weight_map");
  const char **shards = malloc(count * sizeof *shards);
  if (!shards) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  plim_err err = add_shards(folder, shards, list_shards(map, shards), out, error);
  free(shards);
  return err;
}

static plim_err read_index(const char *folder, const char *path, plim_safetensors *out,
                           plim_error *error) {
  char *text;
  size_t size;
  plim_err err = plim_text_file_read(path, MAX_INDEX_BYTES, &text, &size, error);
  if (err) return err;
  json_t *index = load_object(text, size, error);
  free(text);
  err = index ? add_index(folder, index, out, error) : PLIM_ERR_PARSE;
  json_decref(index);
  return err && error && !*error->file ? plim_error_file(error, err, path) : err;
}

plim_err plim_safetensors_read(const char *path, plim_safetensors *out, plim_error *error) {
  char inside[PLIM_PATH_BYTES];
  *out = (plim_safetensors){0};
  if (!plim_is_folder(path)) return add_file(path, out, error);
  if (plim_path_join(inside, path, "model.safetensors") && plim_is_file(inside))
    return add_file(inside, out, error);
  if (plim_path_join(inside, path, "model.safetensors.index.json") && plim_is_file(inside))
    return read_index(path, inside, out, error);
  plim_fail(error, PLIM_ERR_IO,
            "the folder contains neither model.safetensors nor model.safetensors.index.json");
  return plim_error_file(error, PLIM_ERR_IO, path);
}

bool plim_safetensors_holds(const plim_safetensors *s, uint64_t parameters) {
  uint64_t weights = s->elements - s->buffer_elements;
  return weights == parameters || weights - s->head_elements == parameters;
}
