#include "python_literal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- the form of a string ---------------------------------------------------------------------------

typedef struct {
  size_t prefix, quotes; // bytes
  char quote;
  bool is_raw, is_triple, has_crlf;
} string_form;

static string_form form_of(const char *token, size_t size) {
  string_form form = {0};
  while (form.prefix < size && token[form.prefix] != '"' && token[form.prefix] != '\'')
    form.is_raw |= (token[form.prefix++] | 0x20) == 'r';
  const char *at = token + form.prefix;
  form.quote = *at;
  form.is_triple = size - form.prefix >= 6 && at[1] == *at && at[2] == *at;
  form.quotes = form.is_triple ? 3 : 1;
  form.has_crlf = memmem(token, size, "\r\n", 2) != NULL;
  return form;
}

// ---- reading ----------------------------------------------------------------------------------------

static const struct {
  char letter, code;
} escapes[] = {{'\\', '\\'}, {'\'', '\''}, {'"', '"'},  {'a', '\a'}, {'b', '\b'},
               {'f', '\f'},  {'n', '\n'},  {'r', '\r'}, {'t', '\t'}, {'v', '\v'}};

static bool is_octal(char c) { return c >= '0' && c <= '7'; }

static int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Reads exactly `digits` hexadecimal digits; false if there are fewer.
static bool read_hex(const char **at, const char *end, int digits, uint32_t *code) {
  *code = 0;
  for (int i = 0; i < digits; i++, ++*at) {
    int digit = *at < end ? hex_digit(**at) : -1;
    if (digit < 0) return false;
    *code = *code << 4 | (uint32_t)digit;
  }
  return true;
}

static uint32_t read_octal(const char **at, const char *end) {
  uint32_t code = 0;
  for (int i = 0; i < 3 && *at < end && is_octal(**at); i++, ++*at)
    code = code * 8 + (uint32_t)(**at - '0');
  return code;
}

// Reads an escape sequence after its backslash. False if it has no text.
static bool decode_escape(const char **at, const char *end, plim_chars *out) {
  char c = **at;
  uint32_t code = 0;
  if (c == '\r' || c == '\n') {
    *at += 1 + (c == '\r' && *at + 1 < end && (*at)[1] == '\n');
    return true;
  }
  if (is_octal(c)) return plim_chars_add_code(out, read_octal(at, end));
  ++*at;
  for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++)
    if (escapes[i].letter == c) return vec_push(out, escapes[i].code);
  int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits) return read_hex(at, end, digits, &code) && plim_chars_add_code(out, code);
  if (c == 'N') return false; // \N{NAME} is not supported: there is no table of names
  --*at;                      // not an escape: the backslash is kept
  return vec_push(out, '\\');
}

bool plim_py_decode(const char *token, size_t size, plim_chars *out, bool *is_text) {
  string_form form = form_of(token, size);
  const char *at = token + form.prefix + form.quotes, *end = token + size - form.quotes;
  if (!vec_reserve(out, size)) return false; // the text is never longer than its source
  while (at < end) {
    if (*at == '\\' && !form.is_raw && at + 1 < end) {
      at++;
      if (!decode_escape(&at, end, out)) *is_text = false;
    } else if (*at == '\r' || *at == '\n') { // Python reads every line end as \n
      at += at + 1 < end && at[0] == '\r' && at[1] == '\n' ? 2 : 1;
      (void)vec_push(out, '\n');
    } else (void)vec_push(out, *at++);
  }
  return true;
}

// ---- writing ----------------------------------------------------------------------------------------

static bool is_control(char c) { return (c >= 0 && c < 0x20) || c == 0x7f; }

// Whether a raw string can represent the text.
static bool fits_raw(const char *text, const string_form *form) {
  size_t size = strlen(text);
  if (size && text[size - 1] == '\\') return false;
  for (size_t i = 0; i < size; i++) {
    bool is_fine_line_end = text[i] == '\n' && form->is_triple;
    if (text[i] == form->quote || (is_control(text[i]) && text[i] != '\t' && !is_fine_line_end))
      return false;
  }
  return true;
}

static bool add_char(plim_chars *out, char c, const string_form *form) {
  char escape[8] = {'\\', c, 0};
  if (c == '\n' && form->is_triple) return plim_chars_add_text(out, form->has_crlf ? "\r\n" : "\n");
  if (form->is_raw || (!is_control(c) && c != '\\' && c != form->quote)) return vec_push(out, c);
  if (c == '\n') escape[1] = 'n';
  else if (c == '\r') escape[1] = 'r';
  else if (c == '\t') escape[1] = 't';
  else if (is_control(c)) snprintf(escape, sizeof escape, "\\x%02x", (unsigned)c);
  return plim_chars_add_text(out, escape);
}

static bool add_quotes(plim_chars *out, const string_form *form) {
  return plim_chars_add(out, (char[]){form->quote, form->quote, form->quote}, form->quotes);
}

static bool add_prefix(plim_chars *out, const char *old, const string_form *form, bool keeps_raw) {
  for (size_t i = 0; i < form->prefix; i++)
    if ((keeps_raw || (old[i] | 0x20) != 'r') && !vec_push(out, old[i])) return false;
  return true;
}

static bool add_string(plim_chars *out, const char *text, const char *old, string_form form) {
  form.is_raw = form.is_raw && fits_raw(text, &form);
  bool ok = add_prefix(out, old, &form, form.is_raw) && add_quotes(out, &form);
  for (; ok && *text; text++) ok = add_char(out, *text, &form);
  return ok && add_quotes(out, &form);
}

static bool is_string(const char *old, size_t size) {
  return size > 1 && (old[size - 1] == '"' || old[size - 1] == '\'');
}

static bool encode(const plim_value *value, const char *old, size_t size, char quote,
                   plim_chars *out) {
  char number[PLIM_NUMBER_BYTES];
  string_form plain = {.quotes = 1, .quote = quote};
  switch (value->kind) {
  case PLIM_VALUE_NULL: return plim_chars_add_text(out, "None");
  case PLIM_VALUE_BOOL: return plim_chars_add_text(out, value->flag ? "True" : "False");
  case PLIM_VALUE_TEXT:
    return add_string(out, value->text, old, is_string(old, size) ? form_of(old, size) : plain);
  default:
    if (is_string(old, size)) size = 0;
    plim_number_write(number, value, old, size, PLIM_NUMBERS_PYTHON);
    return plim_chars_add_text(out, number);
  }
}

plim_err plim_py_encode(const plim_value *value, const char *old, size_t old_size, char quote,
                        plim_chars *out, plim_error *error) {
  if (value->kind == PLIM_VALUE_DERIVED)
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "only a value can be written here, not an expression");
  if (value->kind == PLIM_VALUE_REAL && !isfinite(value->real))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "Python has no literal for infinity or nan");
  const char *text = value->kind == PLIM_VALUE_TEXT ? value->text : "";
  if (!text || plim_utf8_check(text, strlen(text)) != strlen(text))
    return plim_fail(error, PLIM_ERR_ARGUMENT, "the new text is not UTF-8");
  if (encode(value, old, old_size, quote, out)) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}
