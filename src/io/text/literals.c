#include "literals.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- characters -------------------------------------------------------------------------------------

bool plim_chars_add(plim_chars *chars, const char *text, size_t size) {
  if (!vec_reserve(chars, size)) return false;
  if (size) memcpy(chars->at + chars->len, text, size);
  chars->len += size;
  return true;
}

bool plim_chars_add_text(plim_chars *chars, const char *text) {
  return plim_chars_add(chars, text, strlen(text));
}

static bool is_surrogate(uint32_t code) { return code >= 0xd800 && code < 0xe000; }

bool plim_chars_add_code(plim_chars *chars, uint32_t code) {
  if (!code || is_surrogate(code) || code > 0x10ffff) return false;
  if (code < 0x80) return vec_push(chars, (char)code);
  char bytes[4];
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  static const unsigned leads[] = {0, 0xc0, 0xe0, 0xf0};
  bytes[0] = (char)(leads[more] | code >> 6 * more);
  for (int i = 1; i <= more; i++) bytes[i] = (char)(0x80 | (code >> 6 * (more - i) & 0x3f));
  return plim_chars_add(chars, bytes, (size_t)more + 1);
}

// FNV-1a.
uint64_t plim_text_hash(uint64_t seed, const char *text, size_t size) {
  uint64_t hash = 0xcbf29ce484222325ull ^ (seed * 0x9e3779b97f4a7c15ull);
  for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3ull;
  return hash;
}

// ---- reading numbers --------------------------------------------------------------------------------

enum { MAX_DIGITS = 512 };

static int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c |= 0x20;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 99;
}

// Skips digits with single underscores between them; false if there are none or an underscore is misplaced.
static bool skip_digits(const char *text, size_t size, size_t *at, int base) {
  size_t from = *at;
  while (*at < size &&
         (digit_of(text[*at]) < base || (text[*at] == '_' && *at > from && text[*at - 1] != '_')))
    ++*at;
  return *at > from && text[*at - 1] != '_';
}

static int base_of(const char *text, size_t size) {
  if (size < 2 || text[0] != '0') return 10;
  char mark = text[1] | 0x20;
  return mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
}

static plim_number to_integer(const char *digits, size_t size, int base, bool is_negative,
                              plim_value *out) {
  uint64_t sum = 0, limit = (uint64_t)INT64_MAX + is_negative;
  for (size_t i = 0; i < size; i++) {
    if (digits[i] == '_') continue;
    if (__builtin_mul_overflow(sum, (uint64_t)base, &sum) ||
        __builtin_add_overflow(sum, (uint64_t)digit_of(digits[i]), &sum) || sum > limit)
      return PLIM_NUMBER_OTHER;
  }
  *out = (plim_value){.kind = PLIM_VALUE_INTEGER,
                      .integer = is_negative ? (int64_t)(0 - sum) : (int64_t)sum};
  return PLIM_NUMBER_OK;
}

static plim_number to_real(const char *text, size_t size, bool is_negative, plim_value *out) {
  char digits[MAX_DIGITS + 1];
  size_t used = 0;
  for (size_t i = 0; i < size && used < MAX_DIGITS; i++)
    if (text[i] != '_') digits[used++] = text[i];
  if (used == MAX_DIGITS) return PLIM_NUMBER_OTHER;
  digits[used] = 0;
  double real = strtod(digits, NULL);
  *out = (plim_value){.kind = PLIM_VALUE_REAL, .real = is_negative ? -real : real};
  return PLIM_NUMBER_OK;
}

// Skips a decimal number. In Python, digits may be missing on one side of the point. *is_real is false for integers.
static bool skip_decimal(const char *text, size_t size, size_t *at, plim_number_rules rules,
                         bool *is_real) {
  bool has_whole = skip_digits(text, size, at, 10), has_part = false;
  if (*at && text[*at - 1] == '_') return false;
  if (*at < size && text[*at] == '.') {
    *is_real = true;
    ++*at;
    has_part = skip_digits(text, size, at, 10);
    if (text[*at - 1] == '_' || (rules == PLIM_NUMBERS_TOML && !(has_whole && has_part)))
      return false;
  }
  if (!has_whole && !has_part) return false;
  if (*at == size || (text[*at] | 0x20) != 'e') return true;
  *is_real = true;
  ++*at;
  if (*at < size && (text[*at] == '+' || text[*at] == '-')) ++*at;
  return skip_digits(text, size, at, 10);
}

static bool has_needless_zero(const char *text, size_t size, bool is_real,
                              plim_number_rules rules) {
  if (size < 2 || text[0] != '0' || (digit_of(text[1]) > 9 && text[1] != '_')) return false;
  if (rules == PLIM_NUMBERS_TOML) return true;
  size_t at = 0;
  while (at < size && (text[at] == '0' || text[at] == '_')) at++;
  return !is_real && at < size;
}

plim_number plim_number_read(const char *text, size_t size, bool is_negative,
                             plim_number_rules rules, plim_value *out) {
  int base = base_of(text, size);
  size_t at = base == 10 ? 0 : 2;
  if (base != 10) {
    if (rules == PLIM_NUMBERS_PYTHON && size > 2 && text[2] == '_') at = 3;
    if (rules == PLIM_NUMBERS_TOML && text[1] < 'a') return PLIM_NUMBER_WRONG;
    if (!skip_digits(text, size, &at, base) || at != size) return PLIM_NUMBER_WRONG;
    return to_integer(text + 2, size - 2, base, is_negative, out);
  }
  bool is_real = false;
  if (!skip_decimal(text, size, &at, rules, &is_real)) return PLIM_NUMBER_WRONG;
  if (rules == PLIM_NUMBERS_PYTHON && at + 1 == size && (text[at] | 0x20) == 'j')
    return PLIM_NUMBER_OTHER;
  if (at != size || has_needless_zero(text, size, is_real, rules)) return PLIM_NUMBER_WRONG;
  return is_real ? to_real(text, size, is_negative, out)
                 : to_integer(text, size, 10, is_negative, out);
}

// ---- writing numbers --------------------------------------------------------------------------------

static bool has(const char *text, size_t size, const char *any) {
  for (size_t i = 0; i < size; i++)
    if (text[i] && strchr(any, text[i])) return true;
  return false;
}

// Writes digits backwards, the last one before `end`; returns the first.
static char *put_digits(char *end, uint64_t magnitude, unsigned base, int group, bool is_upper) {
  const char *digits = is_upper ? "0123456789ABCDEF" : "0123456789abcdef";
  int count = 0;
  do {
    if (group && count && count % group == 0) *--end = '_';
    *--end = digits[magnitude % base];
    count++;
  } while ((magnitude /= base) > 0);
  return end;
}

static void write_integer(char *out, int64_t value, const char *old, size_t size,
                          plim_number_rules rules) {
  char buffer[PLIM_NUMBER_BYTES], *end = buffer + sizeof buffer - 1;
  int base = base_of(old, size);
  if (value < 0 && rules == PLIM_NUMBERS_TOML) base = 10;
  int group = !has(old, size, "_") || has(old, size, ".") ? 0 : base == 10 ? 3 : 4;
  *end = 0;
  char *at = put_digits(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, (unsigned)base,
                        group, has(old + 2 * (base != 10), size - 2 * (base != 10), "ABCDEF"));
  snprintf(out, PLIM_NUMBER_BYTES, "%s%.*s%s", value < 0 ? "-" : "", base == 10 ? 0 : 2, old, at);
}

// Writes the fewest digits that read back as the same number; returns the exponent of the first.
static int shortest_digits(double value, char digits[32]) {
  char text[40];
  for (int precision = 0; precision <= 16; precision++) {
    snprintf(text, sizeof text, "%.*e", precision, value);
    if (strtod(text, NULL) == value) break;
  }
  size_t used = 0;
  const char *at = text;
  for (; *at && *at != 'e'; at++)
    if (*at >= '0' && *at <= '9') digits[used++] = *at;
  while (used > 1 && digits[used - 1] == '0') used--;
  digits[used] = 0;
  return atoi(at + 1);
}

static void write_exponent(char *out, const char *digits, int exponent, const char *old,
                           size_t size) {
  bool is_upper = has(old, size, "E"), has_point = digits[1] || has(old, size, ".");
  snprintf(out, PLIM_NUMBER_BYTES, "%c%s%s%c%d", digits[0], has_point ? "." : "",
           digits[1]   ? digits + 1
           : has_point ? "0"
                       : "",
           is_upper ? 'E' : 'e', exponent);
}

static void write_positional(char *out, const char *digits, int exponent) {
  int count = (int)strlen(digits), whole = exponent + 1;
  if (whole <= 0) snprintf(out, PLIM_NUMBER_BYTES, "0.%0*d%s", -whole, 0, digits);
  if (whole == 0) snprintf(out, PLIM_NUMBER_BYTES, "0.%s", digits);
  if (whole > 0 && whole < count)
    snprintf(out, PLIM_NUMBER_BYTES, "%.*s.%s", whole, digits, digits + whole);
  if (whole > 0 && whole == count) snprintf(out, PLIM_NUMBER_BYTES, "%s.0", digits);
  if (whole > 0 && whole > count)
    snprintf(out, PLIM_NUMBER_BYTES, "%s%0*d.0", digits, whole - count, 0);
}

static void write_real(char *out, double value, const char *old, size_t size) {
  char digits[32];
  int exponent = shortest_digits(fabs(value), digits);
  bool was_positional = has(old, size, ".") && !has(old, size, "eE");
  bool was_exponent = base_of(old, size) == 10 && has(old, size, "eE");
  bool is_positional = was_positional ? exponent >= -10 && exponent < 20
                                      : !was_exponent && exponent >= -4 && exponent < 16;
  if (signbit(value)) *out++ = '-';
  char unsigned_part[PLIM_NUMBER_BYTES];
  if (is_positional || value == 0) write_positional(unsigned_part, digits, exponent);
  else write_exponent(unsigned_part, digits, exponent, old, size);
  memcpy(out, unsigned_part, strlen(unsigned_part) + 1);
}

void plim_number_write(char out[PLIM_NUMBER_BYTES], const plim_value *value, const char *old,
                       size_t old_size, plim_number_rules rules) {
  while (old_size && has(old, 1, "+- \t")) old++, old_size--;
  if (value->kind == PLIM_VALUE_INTEGER) write_integer(out, value->integer, old, old_size, rules);
  else if (isnan(value->real)) snprintf(out, PLIM_NUMBER_BYTES, "nan");
  else if (isinf(value->real)) snprintf(out, PLIM_NUMBER_BYTES, value->real < 0 ? "-inf" : "inf");
  else write_real(out, value->real, old, old_size);
}
