// Splits a log into lines and removes what is not text.
#include <string.h>

#include "oom_log_impl.h"

// ---- escape sequences -------------------------------------------------------------------------------

// The length of an escape character, also as programs print it when they escape it: \x1b, \u001b, \033, ^[
static size_t escape_length(const char *at, size_t size) {
  static const char *const forms[] = {"\x1b",    "\\x1b", "\\x1B", "\\u001b",
                                      "\\u001B", "\\033", "^["};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    size_t length = strlen(forms[i]);
    bool is_plain = i == 0;
    if (size > length - is_plain && memcmp(at, forms[i], length) == 0 &&
        (is_plain || at[length] == '['))
      return length;
  }
  return 0;
}

// The length of the sequence after the escape character: "[0;31m", "]8;;https://...BEL".
static size_t sequence_length(const char *at, size_t size) {
  size_t i = 1;
  if (!size) return 0;
  if (*at == '[') {
    while (i < size && at[i] >= 0x20 && at[i] <= 0x3f) i++;
    return i < size ? i + 1 : i;
  }
  if (*at == ']') {
    while (i < size && at[i] != '\a' && at[i] != '\x1b') i++;
    return i;
  }
  return 1;
}

// "[0m" and "[36m", whose escape character was lost when the text was copied.
static size_t orphan_length(const char *at, size_t size) {
  size_t i = 1;
  while (i < size && i < 12 && ((at[i] >= '0' && at[i] <= '9') || at[i] == ';')) i++;
  return i < size && i > 1 && at[i] == 'm' ? i + 1 : 0;
}

static size_t colour_length(const char *at, size_t size) {
  if (*at == '[') return orphan_length(at, size);
  if (*at != '\x1b' && *at != '\\' && *at != '^') return 0;
  size_t escape = escape_length(at, size);
  return escape ? escape + sequence_length(at + escape, size - escape) : 0;
}

// Lines of boxes, U+2500 to U+257F: rich draws them around tracebacks.
static bool is_box(const char *at, size_t size) {
  return size >= 3 && at[0] == '\xe2' && (at[1] == '\x94' || at[1] == '\x95');
}

// Bytes that are copied as they are, unless they begin something.
static bool is_plain(char c) {
  return (unsigned char)c >= 0x20 && c != '[' && c != '\\' && c != '^' && c != '\xe2' && c != 0x7f;
}

// NULs are dropped, so that UTF-16, which PowerShell writes, reads as ASCII.
static size_t clean(const char *raw, size_t size, char *out) {
  size_t length = 0;
  for (size_t i = 0; i < size;) {
    if (is_plain(raw[i])) {
      out[length++] = raw[i++];
      continue;
    }
    size_t skip = colour_length(raw + i, size - i);
    if (skip) i += skip;
    else if (is_box(raw + i, size - i)) out[length++] = ' ', i += 3;
    else if (raw[i] == '\t') out[length++] = ' ', i++;
    else if ((unsigned char)raw[i] < 0x20 || raw[i] == 0x7f) i++;
    else out[length++] = raw[i++];
  }
  return length;
}

// ---- lines ------------------------------------------------------------------------------------------

// Copies bytes up to a line end; returns false if none was found yet and there is room for more.
static bool take(log_reader *r, size_t *used, bool *is_line_end) {
  plim_input *in = r->input;
  size_t left = (size_t)(in->end - in->at), room = LOG_LINE_BYTES - *used;
  size_t look = left < room ? left : room;
  const uint8_t *end = memchr(in->at, '\n', look);
  size_t length = end ? (size_t)(end - in->at) : look;
  const uint8_t *back = memchr(in->at, '\r', length);
  if (back) end = back, length = (size_t)(back - in->at);
  memcpy(r->raw + *used, in->at, length);
  *used += length;
  in->at += length + (end != NULL);
  *is_line_end = end && !back;
  return end || *used == LOG_LINE_BYTES;
}

bool log_next(log_reader *r, log_text *line, plim_err *err, plim_error *error) {
  size_t used = 0;
  bool is_line_end = false;
  while (!take(r, &used, &is_line_end)) {
    if ((*err = plim_input_fill(r->input, error))) return false;
    if (r->input->at == r->input->end && r->input->at_end) {
      if (!used) return false;
      break;
    }
  }
  if (r->has_new_line) r->number++;
  r->has_new_line = is_line_end;
  *line = (log_text){r->clean, clean(r->raw, used, r->clean)};
  return true;
}
