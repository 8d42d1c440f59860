// Checks the encoding of a Python file: UTF-8, with or without a byte order mark or a declaration, or a declared encoding
// in which every ASCII byte is an ASCII character.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "literals.h"
#include "python_lexer.h"

enum { MAX_BYTES = 16 << 20 };

static const char *line_end(const char *at, const char *end) {
  while (at < end && *at != '\n' && *at != '\r') at++;
  return at;
}

static const char *next_line(const char *at, const char *end) {
  at = line_end(at, end);
  bool is_pair = at + 1 < end && at[0] == '\r' && at[1] == '\n';
  return at == end ? end : at + 1 + is_pair;
}

static const char *skip_blank(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\f')) at++;
  return at;
}

static bool is_in_encoding(char c) {
  return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' ||
         c == '_' || c == '.';
}

// The name after "coding:" or "coding=" in a comment; false if the line has none. PEP 263.
static bool find_encoding(const char *line, const char *end, const char **name, size_t *size) {
  line = skip_blank(line, end);
  if (line == end || *line != '#') return false;
  for (const char *at = line; end - at > 7; at++) {
    if (memcmp(at, "coding", 6) != 0 || (at[6] != ':' && at[6] != '=')) continue;
    *name = skip_blank(at + 7, end);
    *size = 0;
    while (*name + *size < end && is_in_encoding((*name)[*size])) ++*size;
    if (*size) return true;
  }
  return false;
}

static bool is_utf8(const char *name) {
  static const char *const names[] = {"utf-8", "utf8", "utf-8-sig", "u8", "utf"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (strcasecmp(names[i], name) == 0) return true;
  return false;
}

// Encodings in which every ASCII byte is an ASCII character, by the beginning of their names in Python (codecs,
// "Standard Encodings"): one byte per character, or several bytes none of which is ASCII.
static bool keeps_ascii(const char *name) {
  static const char *const begins[] = {"latin",       "iso-8859", "iso8859", "l1",    "8859",
                                       "windows-125", "cp125",    "koi8",    "mac-",  "euc",
                                       "cp437",       "cp850",    "cp858",   "cp866", "gb2312"};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
    if (strncasecmp(begins[i], name, strlen(begins[i])) == 0) return true;
  return false;
}

static bool has_mark(const char *text, size_t size) {
  return size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
}

// A declaration is valid in the first two lines; in the second only if the first contains no code.
static plim_err check_encoding(const char *text, size_t size, bool *is_utf8_text,
                               plim_error *error) {
  const char *end = text + size, *line = text + (has_mark(text, size) ? 3 : 0), *name;
  char known[40];
  size_t length;
  *is_utf8_text = true;
  for (int i = 0; i < 2; i++, line = next_line(line, end)) {
    const char *stop = line_end(line, end);
    if (find_encoding(line, stop, &name, &length)) {
      snprintf(known, sizeof known, "%.*s", length < sizeof known ? (int)length : 0, name);
      for (char *at = known; *at; at++)
        if (*at == '_') *at = '-';
      *is_utf8_text = !keeps_ascii(known) || has_mark(text, size);
      if (is_utf8(known) || !*is_utf8_text) return PLIM_OK;
      plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                               "the file declares the encoding %.*s, which is not supported yet",
                               length < 40 ? (int)length : 40, name);
      plim_error_at(error, (uint64_t)(name - text));
      return err;
    }
    const char *first = skip_blank(line, stop);
    if (first < stop && *first != '#') return PLIM_OK;
  }
  return PLIM_OK;
}

static plim_err check_bytes(const char *text, size_t size, bool is_utf8_text, plim_error *error) {
  if (size > MAX_BYTES)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "the file has %zu bytes; at most %d are read",
                     size, MAX_BYTES);
  const char *zero = size ? memchr(text, 0, size) : NULL;
  size_t wrong = zero ? (size_t)(zero - text) : is_utf8_text ? plim_utf8_check(text, size) : size;
  if (wrong == size) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_PARSE,
                           zero ? "the file contains a zero byte" : "the file is not valid UTF-8");
  if (!zero)
    plim_error_hint(error, "save it as UTF-8; without a \"coding:\" line, Python rejects it too");
  plim_error_at(error, wrong);
  return err;
}

plim_err plim_py_lexer_open(plim_py_lexer *x, const char *text, size_t size, plim_error *error) {
  *x = (plim_py_lexer){.text = text, .size = size, .line = 1, .error = error};
  bool is_utf8_text;
  x->err = check_encoding(text, size, &is_utf8_text, error);
  if (!x->err) x->err = check_bytes(text, size, is_utf8_text, error);
  if (has_mark(text, size)) x->at = 3;
  return x->err;
}

void plim_py_lexer_close(plim_py_lexer *x) {
  vec_free(&x->tokens);
  vec_free(&x->comments);
  vec_free(&x->open);
}
