#include "toml_scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- reading strings --------------------------------------------------------------------------------

typedef struct {
  const char *text;
  size_t size, at;
  char quote;
  bool is_long;
  plim_chars *out;
  bool *is_text;
} cursor;

static char peek(const cursor *c, size_t ahead) {
  return c->size - c->at > ahead ? c->text[c->at + ahead] : 0;
}

static bool is_control(char ch) { return (ch >= 0 && ch < 0x20 && ch != '\t') || ch == 0x7f; }

static size_t line_end(const cursor *c) {
  if (peek(c, 0) == '\r' && peek(c, 1) == '\n') return 2;
  return peek(c, 0) == '\n';
}

static size_t quotes_here(const cursor *c) {
  size_t count = 0;
  while (peek(c, count) == c->quote) count++;
  return count;
}

static int hex_digit(char ch) {
  if (ch >= '0' && ch <= '9') return ch - '0';
  ch |= 0x20;
  return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

static const char *read_code(cursor *c, int digits) {
  uint32_t code = 0;
  for (int i = 0; i < digits; i++, c->at++) {
    int digit = hex_digit(peek(c, 0));
    if (digit < 0) return "this escape sequence has too few digits";
    code = code << 4 | (uint32_t)digit;
  }
  if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
    return "this escape sequence is not a character";
  if (!plim_chars_add_code(c->out, code)) *c->is_text = false;
  return NULL;
}

// After a backslash at the end of a line, skips blanks and line ends up to the next character.
static bool skip_folded(cursor *c) {
  size_t start = c->at;
  while (peek(c, 0) == ' ' || peek(c, 0) == '\t') c->at++;
  if (!c->is_long || !line_end(c)) {
    c->at = start;
    return false;
  }
  while (peek(c, 0) == ' ' || peek(c, 0) == '\t' || line_end(c)) c->at += line_end(c) == 2 ? 2 : 1;
  return true;
}

static const char *read_escape(cursor *c) {
  static const char letters[] = "btnfr\"\\", codes[] = "\b\t\n\f\r\"\\";
  c->at++;
  if (skip_folded(c)) return NULL;
  char letter = peek(c, 0);
  const char *found = letter ? strchr(letters, letter) : NULL;
  if (!found && letter != 'u' && letter != 'U') return "TOML has no such escape sequence";
  c->at++;
  if (!found) return read_code(c, letter == 'u' ? 4 : 8);
  (void)vec_push(c->out, codes[found - letters]);
  return NULL;
}

static const char *read_char(cursor *c) {
  if (c->at >= c->size) return "this string is never closed";
  if (peek(c, 0) == '\\' && c->quote == '"') return read_escape(c);
  size_t end = line_end(c);
  if (end && !c->is_long) return "this string is never closed";
  if (!end && is_control(peek(c, 0))) return "this string contains a control character";
  (void)vec_push(c->out, end ? '\n' : peek(c, 0));
  c->at += end ? end : 1;
  return NULL;
}

// Up to two quotes may directly precede the closing quotes.
static bool closes(cursor *c) {
  size_t quotes = quotes_here(c), needed = c->is_long ? 3 : 1;
  if (quotes < needed) return false;
  size_t kept = c->is_long ? (quotes > 5 ? 2 : quotes - 3) : 0;
  for (size_t i = 0; i < kept; i++) (void)vec_push(c->out, c->quote);
  c->at += kept + needed;
  return true;
}

const char *plim_toml_string(const char *text, size_t size, size_t at, bool may_be_long,
                             plim_chars *out, size_t *end, bool *is_text) {
  cursor c = {text, size, at, text[at], false, out, is_text};
  const char *wrong = NULL;
  *is_text = true;
  c.is_long = may_be_long && quotes_here(&c) >= 3;
  c.at += c.is_long ? 3 : 1;
  if (c.is_long) c.at += line_end(&c);
  while (!wrong && !closes(&c)) {
    if (!vec_reserve(out, 16)) return "out of memory"; // enough for any character
    wrong = read_char(&c);
  }
  *end = c.at;
  return wrong;
}

// ---- reading values without quotes ------------------------------------------------------------------

// Matches `format`, in which 9 is any digit. Returns the length, 0 if the text does not match.
static size_t has_form(const char *text, size_t size, const char *format) {
  size_t i = 0;
  for (; format[i]; i++) {
    if (i >= size) return 0;
    bool fits = format[i] == '9' ? text[i] >= '0' && text[i] <= '9' : text[i] == format[i];
    if (!fits) return 0;
  }
  return i;
}

static int two(const char *text) { return (text[0] - '0') * 10 + text[1] - '0'; }

static bool is_day(const char *text) {
  static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int year = two(text) * 100 + two(text + 2), month = two(text + 5), day = two(text + 8);
  if (month < 1 || month > 12 || day < 1 || day > days[month - 1]) return false;
  bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month != 2 || day < 29 || is_leap;
}

static bool is_hour(const char *text) { return two(text) < 24 && two(text + 3) < 60; }

// The length of a time of day; 0 if it is not one.
static size_t time_length(const char *text, size_t size) {
  size_t at = has_form(text, size, "99:99:99");
  if (!at || !is_hour(text) || two(text + 6) > 59) return 0;
  if (at == size || text[at] != '.') return at;
  size_t digits = at + 1;
  while (digits < size && text[digits] >= '0' && text[digits] <= '9') digits++;
  return digits > at + 1 ? digits : 0;
}

static bool is_offset(const char *text, size_t size) {
  if (size == 1) return text[0] == 'Z' || text[0] == 'z';
  return size == 6 && (text[0] == '+' || text[0] == '-') && has_form(text + 1, 5, "99:99") &&
         is_hour(text + 1);
}

static bool is_date(const char *text, size_t size) {
  size_t day = has_form(text, size, "9999-99-99");
  if (!day) return size && time_length(text, size) == size;
  if (!is_day(text) || size == day) return is_day(text);
  if (text[day] != 'T' && text[day] != 't' && text[day] != ' ') return false;
  size_t time = time_length(text + day + 1, size - day - 1), used = day + 1 + time;
  return time && (used == size || is_offset(text + used, size - used));
}

static bool is_word(const char *text, size_t size, const char *word) {
  return size == strlen(word) && memcmp(text, word, size) == 0;
}

plim_toml_kind plim_toml_bare(const char *text, size_t size, plim_value *out) {
  bool is_true = is_word(text, size, "true");
  *out = (plim_value){.kind = PLIM_VALUE_BOOL, .flag = is_true};
  if (is_true || is_word(text, size, "false")) return PLIM_TOML_SCALAR;
  if (is_date(text, size)) return PLIM_TOML_DATE;
  bool has_sign = size && (text[0] == '-' || text[0] == '+'),
       is_negative = has_sign && text[0] == '-';
  text += has_sign, size -= has_sign;
  bool is_infinite = is_word(text, size, "inf"), is_nan = is_word(text, size, "nan");
  *out = (plim_value){.kind = PLIM_VALUE_REAL,
                      .real = is_nan        ? NAN
                              : is_negative ? -INFINITY
                                            : INFINITY};
  if (is_infinite || is_nan) return PLIM_TOML_SCALAR;
  if (has_sign && size > 1 && text[0] == '0' && (text[1] | 0x20) >= 'a' && text[1] != 'e' &&
      text[1] != 'E')
    return PLIM_TOML_NONE; // 0x takes no sign
  plim_number number = plim_number_read(text, size, is_negative, PLIM_NUMBERS_TOML, out);
  return number == PLIM_NUMBER_OK      ? PLIM_TOML_SCALAR
         : number == PLIM_NUMBER_OTHER ? PLIM_TOML_LARGE
                                       : PLIM_TOML_NONE;
}

// ---- writing ----------------------------------------------------------------------------------------

typedef struct {
  char quote;
  bool is_long, starts_with_line, has_crlf;
} string_form;

static string_form form_of(const char *old, size_t size, char quote) {
  string_form form = {.quote = quote};
  if (size < 2 || (old[0] != '"' && old[0] != '\'')) return form;
  form.quote = old[0];
  form.is_long = size >= 6 && old[1] == old[0] && old[2] == old[0];
  form.starts_with_line = form.is_long && (old[3] == '\n' || old[3] == '\r');
  form.has_crlf = memmem(old, size, "\r\n", 2) != NULL;
  return form;
}

// Between single quotes nothing can be escaped.
static bool fits_literal(const char *text, const string_form *form) {
  for (; *text; text++) {
    bool is_line = *text == '\n' && form->is_long;
    if (*text == '\'' || (is_control(*text) && !is_line)) return false;
  }
  return true;
}

static bool add_char(plim_chars *out, char ch, const string_form *form) {
  static const char letters[] = "btnfr\"\\", codes[] = "\b\t\n\f\r\"\\";
  char escape[8] = {'\\', 0, 0};
  if (ch == '\n' && form->is_long) return plim_chars_add_text(out, form->has_crlf ? "\r\n" : "\n");
  bool is_plain = form->quote == '\'' || (ch != '"' && ch != '\\' && !is_control(ch));
  if (is_plain) return vec_push(out, ch);
  const char *found = strchr(codes, ch);
  if (found) escape[1] = letters[found - codes];
  else snprintf(escape, sizeof escape, "\\u%04X", (unsigned)(ch & 0x7f));
  return plim_chars_add_text(out, escape);
}

static bool add_string(plim_chars *out, const char *text, string_form form) {
  if (form.quote == '\'' && !fits_literal(text, &form)) form.quote = '"';
  char quotes[] = {form.quote, form.quote, form.quote};
  size_t count = form.is_long ? 3 : 1;
  bool ok = plim_chars_add(out, quotes, count);
  // The line end right after the quotes is not part of the text.
  if (form.starts_with_line || (form.is_long && *text == '\n'))
    ok = ok && plim_chars_add_text(out, form.has_crlf ? "\r\n" : "\n");
  for (; ok && *text; text++) ok = add_char(out, *text, &form);
  return ok && plim_chars_add(out, quotes, count);
}

plim_err plim_toml_encode(const plim_value *value, const char *old, size_t old_size, char quote,
                          plim_chars *out, plim_error *error) {
  char number[PLIM_NUMBER_BYTES];
  bool ok, was_text = old_size && (old[0] == '"' || old[0] == '\'');
  switch (value->kind) {
  case PLIM_VALUE_NULL: return plim_fail(error, PLIM_ERR_ARGUMENT, "TOML has no null");
  case PLIM_VALUE_DERIVED:
    return plim_fail(error, PLIM_ERR_ARGUMENT,
                     "only a value can be written here, not an expression");
  case PLIM_VALUE_BOOL: ok = plim_chars_add_text(out, value->flag ? "true" : "false"); break;
  case PLIM_VALUE_TEXT:
    if (!value->text || plim_utf8_check(value->text, strlen(value->text)) != strlen(value->text))
      return plim_fail(error, PLIM_ERR_ARGUMENT, "the new text is not UTF-8");
    ok = add_string(out, value->text, form_of(old, old_size, quote));
    break;
  default:
    plim_number_write(number, value, old, was_text ? 0 : old_size, PLIM_NUMBERS_TOML);
    ok = plim_chars_add_text(out, number);
  }
  return ok ? PLIM_OK : plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}
