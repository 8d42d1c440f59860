#include "json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plimsoll.h"
#include "text.h"
#include "value.h"

json_writer jsonw_begin(FILE *out) { return (json_writer){.out = out}; }

json_writer jsonw_begin_line(FILE *out) { return (json_writer){.out = out, .is_a_line = true}; }

// Where a stream to memory cannot grow, it drops what is written and goes on, and ferror does not say so (glibc).
static void put_bytes(json_writer *j, const char *text, size_t size) {
  if (fwrite(text, 1, size, j->out) != size) j->is_cut = true;
}

static void put(json_writer *j, const char *text) { put_bytes(j, text, strlen(text)); }

void jsonw_finish(json_writer *j) {
  assert(j->depth == 0 && j->is_done);
  put(j, "\n");
}

void jsonw_no_memory(json_writer *j) { j->has_no_memory = true; }

bool jsonw_is_whole(const json_writer *j) { return !j->has_no_memory && !j->is_cut; }

plim_err json_text(void (*write)(json_writer *j, const void *context), const void *context,
                   char **text, plim_error *error) {
  size_t size = 0;
  *text = NULL;
  FILE *memory = open_memstream(text, &size);
  if (!memory) return plim_no_memory(error);
  json_writer j = jsonw_begin(memory);
  write(&j, context);
  jsonw_finish(&j);
  bool is_whole = plim_stream_end(memory, text);
  if (is_whole && jsonw_is_whole(&j)) return PLIM_OK;
  free(*text);
  *text = NULL;
  return plim_no_memory(error);
}

static void new_line(json_writer *j) {
  char text[2 * JSON_DEPTH + 2];
  snprintf(text, sizeof text, "\n%*s", 2 * j->depth, "");
  if (!j->is_a_line) put(j, text);
}

static void write_code(json_writer *j, uint32_t code) {
  char text[12];
  snprintf(text, sizeof text, "\\u%04" PRIx32, code);
  put(j, text);
}

static void write_ascii(json_writer *j, unsigned char c) {
  static const char short_forms[128] = {['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
                                        ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't'};
  if (short_forms[c]) put_bytes(j, (const char[]){'\\', short_forms[c]}, 2);
  else if (c < 0x20 || c == 0x7F) write_code(j, c);
  else put_bytes(j, (const char *)&c, 1);
}

static void write_string(json_writer *j, const char *text) {
  put(j, "\"");
  while (*text) {
    uint32_t code;
    size_t length = plim_text_char(text, &code);
    if (length == 0) put(j, "\xEF\xBF\xBD"), length = 1;
    else if (length == 1) write_ascii(j, (unsigned char)*text);
    else if (plim_char_steers(code)) write_code(j, code);
    else put_bytes(j, text, length);
    text += length;
  }
  put(j, "\"");
}

// Writes what precedes a value: comma, line break and key.
static void before_value(json_writer *j, const char *key) {
  assert(!j->is_done);
  if (j->depth == 0) {
    assert(!key);
    return;
  }
  int top = j->depth - 1;
  assert(j->is_array[top] == !key);
  if (j->has_items[top]) put(j, j->is_a_line ? ", " : ",");
  j->has_items[top] = true;
  new_line(j);
  if (!key) return;
  write_string(j, key);
  put(j, ": ");
}

static void after_value(json_writer *j) {
  if (j->depth == 0) j->is_done = true;
}

static void write_plain(json_writer *j, const char *key, const char *text) {
  before_value(j, key);
  put(j, text);
  after_value(j);
}

static void open_container(json_writer *j, const char *key, bool is_array) {
  before_value(j, key);
  assert(j->depth < JSON_DEPTH);
  put(j, is_array ? "[" : "{");
  j->is_array[j->depth] = is_array;
  j->has_items[j->depth] = false;
  j->depth++;
}

void jsonw_object(json_writer *j, const char *key) { open_container(j, key, false); }

void jsonw_array(json_writer *j, const char *key) { open_container(j, key, true); }

void jsonw_end(json_writer *j) {
  assert(j->depth > 0);
  j->depth--;
  if (j->has_items[j->depth]) new_line(j);
  put(j, j->is_array[j->depth] ? "]" : "}");
  after_value(j);
}

void jsonw_string(json_writer *j, const char *key, const char *text) {
  if (!text) {
    jsonw_null(j, key);
    return;
  }
  before_value(j, key);
  write_string(j, text);
  after_value(j);
}

void jsonw_string_or_null(json_writer *j, const char *key, const char *text) {
  jsonw_string(j, key, text && *text ? text : NULL);
}

void jsonw_u64(json_writer *j, const char *key, uint64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRIu64, value);
  write_plain(j, key, text);
}

void jsonw_i64(json_writer *j, const char *key, int64_t value) {
  char text[32];
  snprintf(text, sizeof text, "%" PRId64, value);
  write_plain(j, key, text);
}

void jsonw_bytes(json_writer *j, const char *key, uint64_t bytes) {
  if (bytes == PLIM_UNKNOWN) jsonw_null(j, key);
  else jsonw_u64(j, key, bytes);
}

// The shortest text that reads back as the same double.
static void print_double(char text[32], double value) {
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, 32, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  char *comma = strchr(text, ','); // a decimal comma, if a locale is set
  if (comma) *comma = '.';
}

void jsonw_number(json_writer *j, const char *key, double value) {
  char text[32];
  if (!isfinite(value)) {
    jsonw_null(j, key);
    return;
  }
  print_double(text, value);
  write_plain(j, key, text);
}

void jsonw_bool(json_writer *j, const char *key, bool value) {
  write_plain(j, key, value ? "true" : "false");
}

void jsonw_null(json_writer *j, const char *key) { write_plain(j, key, "null"); }
