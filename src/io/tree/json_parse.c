// Parses JSON into a tree: what json.load accepts, plus comments and a comma after the last value, which Hjson (DeepSpeed's
// reader) also accepts.
#include <errno.h>
#include <math.h>
#include <string.h>

#include "tree.h"
#include "utf8.h"

typedef struct {
  plim_tree *tree;
  plim_builder builder;
  const char *text;
  size_t size, at;
  size_t counted; // lines are counted up to here
  int line;
  plim_error *error;
} parser;

static int line_at(parser *p, size_t at) {
  for (; p->counted < at; p->counted++) p->line += p->text[p->counted] == '\n';
  return p->line;
}

static plim_err refuse(parser *p, const char *what) {
  plim_err err = plim_fail(p->error, PLIM_ERR_PARSE, "line %d: %s", line_at(p, p->at), what);
  plim_error_at(p->error, p->at);
  return err;
}

static plim_err out_of_memory(parser *p) {
  return plim_fail(p->error, PLIM_ERR_NOMEM, "out of memory");
}

static char peek(const parser *p) { return p->at < p->size ? p->text[p->at] : 0; }

static bool starts(const parser *p, const char *word) {
  size_t size = strlen(word);
  return p->size - p->at >= size && memcmp(p->text + p->at, word, size) == 0;
}

// ---- between values ---------------------------------------------------------------------------------

static plim_err skip_block_comment(parser *p) {
  const char *end = memmem(p->text + p->at + 2, p->size - p->at - 2, "*/", 2);
  if (!end) return refuse(p, "this comment is never closed");
  p->at = (size_t)(end - p->text) + 2;
  return PLIM_OK;
}

static bool is_comment(const parser *p) {
  return peek(p) == '#' || starts(p, "//") || starts(p, "/*");
}

static plim_err skip_comment(parser *p) {
  if (p->tree->comment == SIZE_MAX) p->tree->comment = p->at;
  if (starts(p, "/*")) return skip_block_comment(p);
  p->at = plim_line_end(p->text, p->size, p->at);
  return PLIM_OK;
}

static plim_err skip_space(parser *p) {
  plim_err err = PLIM_OK;
  while (!err && p->at < p->size) {
    if (strchr(" \t\r\n", peek(p)) && peek(p)) p->at++;
    else if (is_comment(p)) err = skip_comment(p);
    else break;
  }
  return err;
}

// ---- strings ----------------------------------------------------------------------------------------

static bool hex4(const parser *p, size_t at, uint32_t *out) {
  static const char digits[] = "0123456789abcdef0123456789ABCDEF";
  if (p->size - at < 4) return false;
  *out = 0;
  for (size_t i = at; i < at + 4; i++) {
    const char *digit = p->text[i] ? strchr(digits, p->text[i]) : NULL;
    if (!digit) return false;
    *out = *out << 4 | (uint32_t)((digit - digits) % 16);
  }
  return true;
}

// Reads an escape after its backslash. `*is_whole` becomes false for half a surrogate pair and for a 0, which a C
// string cannot contain.
static bool take_escape(parser *p, FILE *out, bool *is_whole) {
  static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
  const char *name = peek(p) ? strchr(names, peek(p)) : NULL;
  uint32_t code, low;
  char bytes[4];
  if (name) return p->at++, fputc(codes[name - names], out) != EOF;
  if (peek(p) != 'u' || !hex4(p, p->at + 1, &code)) return false;
  p->at += 5;
  bool is_high = code >= 0xd800 && code < 0xdc00;
  if (is_high && starts(p, "\\u") && hex4(p, p->at + 2, &low) && low >= 0xdc00 && low < 0xe000) {
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    p->at += 6;
  }
  if (!code || (code >= 0xd800 && code < 0xe000)) *is_whole = false;
  else fwrite(bytes, 1, plim_utf8_write(code, bytes), out);
  return true;
}

static plim_err scan_string(parser *p, FILE *out, bool *is_whole) {
  for (p->at++; peek(p) != '"';) {
    if (p->at >= p->size) return refuse(p, "this string is never closed");
    if ((unsigned char)peek(p) < ' ') return refuse(p, "this string contains a control character");
    if (peek(p) != '\\') fputc(p->text[p->at++], out);
    else if (p->at++, !take_escape(p, out, is_whole))
      return refuse(p, "JSON has no such escape sequence");
  }
  p->at++;
  return PLIM_OK;
}

static plim_err take_string(parser *p, plim_node *node) {
  char *text = NULL;
  size_t size = 0;
  bool is_whole = true;
  FILE *out = open_memstream(&text, &size);
  if (!out) return out_of_memory(p);
  plim_err err = scan_string(p, out, &is_whole);
  bool is_written = plim_stream_end(out, &text);
  node->style = PLIM_STYLE_DOUBLE;
  if (!err && is_whole && is_written) node->text = plim_tree_keep(p->tree, text, size);
  if (!err && is_whole && !node->text) err = out_of_memory(p);
  if (is_whole) node->value = (plim_value){.kind = PLIM_VALUE_TEXT, .text = node->text};
  free(text);
  return err;
}

// ---- words and numbers ------------------------------------------------------------------------------

static const struct {
  const char *word;
  plim_value value;
} words[] = {
    {"null", {.kind = PLIM_VALUE_NULL}},
    {"true", {.kind = PLIM_VALUE_BOOL, .flag = true}},
    {"false", {.kind = PLIM_VALUE_BOOL}},
    {"NaN", {.kind = PLIM_VALUE_REAL, .real = NAN}},
    {"Infinity", {.kind = PLIM_VALUE_REAL, .real = INFINITY}},
    {"-Infinity", {.kind = PLIM_VALUE_REAL, .real = -INFINITY}},
};

static bool take_word(parser *p, plim_node *node) {
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (starts(p, words[i].word)) {
      p->at += strlen(words[i].word);
      node->value = words[i].value;
      return true;
    }
  return false;
}

static size_t take_digits(parser *p) {
  size_t begin = p->at;
  while (peek(p) >= '0' && peek(p) <= '9') p->at++;
  return p->at - begin;
}

// Reads the longest number at this position, like Python. Digits after a leading 0, or a "." without digits, are not
// part of it and are refused by the caller.
static bool scan_number(parser *p, bool *is_real) {
  *is_real = false;
  p->at += peek(p) == '-';
  if (peek(p) == '0') p->at++;
  else if (!take_digits(p)) return false;
  size_t end = p->at;
  if (peek(p) == '.' && (p->at++, take_digits(p))) *is_real = true, end = p->at;
  p->at = end;
  if (peek(p) != 'e' && peek(p) != 'E') return true;
  p->at++;
  p->at += peek(p) == '-' || peek(p) == '+';
  if (take_digits(p)) *is_real = true, end = p->at;
  p->at = end;
  return true;
}

static plim_err take_number(parser *p, plim_node *node) {
  bool is_real;
  size_t begin = p->at;
  if (!scan_number(p, &is_real)) return p->at = begin, refuse(p, "a value is missing here");
  const char *digits = plim_tree_keep(p->tree, p->text + begin, p->at - begin);
  if (!digits) return out_of_memory(p);
  errno = 0;
  long long integer = is_real ? 0 : strtoll(digits, NULL, 10);
  if (is_real) node->value = (plim_value){.kind = PLIM_VALUE_REAL, .real = strtod(digits, NULL)};
  else if (!errno) node->value = (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = integer};
  return PLIM_OK;
}

// ---- nodes ------------------------------------------------------------------------------------------

// Reads a scalar. A value that plim_value cannot represent becomes DERIVED, with its source as text.
static plim_err take_scalar(parser *p) {
  size_t begin = p->at;
  plim_node node = {.kind = PLIM_NODE_SCALAR, .value.kind = PLIM_VALUE_DERIVED};
  node.line = line_at(p, begin);
  plim_err err = PLIM_OK;
  if (peek(p) == '"') err = take_string(p, &node);
  else if (!take_word(p, &node)) err = take_number(p, &node);
  if (err) return err;
  node.span = (plim_span){begin, p->at};
  if (node.value.kind == PLIM_VALUE_DERIVED) {
    node.value.text = plim_tree_keep(p->tree, p->text + begin, p->at - begin);
    if (!node.value.text) return out_of_memory(p);
  }
  return plim_tree_add(&p->builder, node, p->error);
}

static plim_err take_key(parser *p) {
  if (peek(p) != '"') return refuse(p, "a key in double quotes is missing here");
  plim_err err = take_scalar(p);
  if (!err) err = skip_space(p);
  if (!err && peek(p) != ':') err = refuse(p, "a colon is missing here");
  p->at += !err;
  return err ? err : skip_space(p);
}

static plim_err take_value(parser *p);

static plim_err take_items(parser *p, char closing) {
  plim_err err = skip_space(p);
  while (!err && peek(p) != closing) {
    if (closing == '}') err = take_key(p);
    if (!err) err = take_value(p);
    if (!err) err = skip_space(p);
    if (err || peek(p) == closing) break;
    if (peek(p) != ',') return refuse(p, "a comma is missing here");
    size_t comma = p->at++;
    err = skip_space(p);
    if (peek(p) == closing && p->tree->comma == SIZE_MAX) p->tree->comma = comma;
  }
  return err;
}

static plim_err take_collection(parser *p) {
  bool is_mapping = peek(p) == '{';
  plim_node node = {.kind = is_mapping ? PLIM_NODE_MAPPING : PLIM_NODE_SEQUENCE,
                    .has_brackets = true,
                    .line = line_at(p, p->at),
                    .span = {p->at, p->at}};
  plim_err err = plim_tree_open(&p->builder, node, p->error);
  p->at++;
  if (!err) err = take_items(p, is_mapping ? '}' : ']');
  if (!err) plim_tree_close(&p->builder, ++p->at);
  return err;
}

static plim_err take_value(parser *p) {
  return peek(p) == '{' || peek(p) == '[' ? take_collection(p) : take_scalar(p);
}

plim_err plim_json_parse(const char *text, size_t size, plim_tree *out, plim_error *error) {
  *out = (plim_tree){.text = text, .size = size, .has_slash_comments = true};
  out->comma = out->comment = SIZE_MAX;
  parser p = {.tree = out, .builder.tree = out, .text = text, .size = size, .line = 1};
  p.error = error;
  plim_err err = plim_tree_too_long(size, error);
  if (!err) err = plim_utf8_open(text, size, &p.at, error);
  if (!err) err = skip_space(&p);
  if (!err && p.at == size) err = plim_fail(error, PLIM_ERR_PARSE, "the file is empty");
  if (!err) err = take_value(&p);
  if (!err) err = skip_space(&p);
  if (!err && p.at < size) err = refuse(&p, "there is text after the end of the value");
  return err;
}
