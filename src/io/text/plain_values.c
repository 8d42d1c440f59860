// Converts values to and from words of a shell, some of which are numbers or mean true and false.
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "quoting.h"

static const char *const bools[][2] = {{"false", "true"}, {"False", "True"}, {"FALSE", "TRUE"}};

static bool read_bool(const char *text, size_t *spelling, bool *flag) {
  for (size_t i = 0; i < sizeof bools / sizeof *bools; i++)
    for (int k = 0; k < 2; k++)
      if (strcmp(text, bools[i][k]) == 0) return *spelling = i, *flag = k, true;
  return false;
}

static size_t digits(const char *text) { return strspn(text, "0123456789"); }

// Whether it is a decimal integer without leading zeros or a plus, which every program reads in the same way.
static bool is_integer(const char *text) {
  text += *text == '-';
  size_t n = digits(text);
  return n && !text[n] && (n == 1 || *text != '0');
}

static bool is_real(const char *text) {
  text += *text == '-';
  size_t before = digits(text), after = 0;
  text += before;
  if (*text == '.') after = digits(++text), text += after;
  if (before + after == 0) return false;
  if (*text == 'e' || *text == 'E') {
    text++;
    text += *text == '-' || *text == '+';
    size_t n = digits(text);
    if (!n) return false;
    text += n;
  }
  return !*text;
}

plim_value plim_value_of_text(const char *text) {
  size_t spelling;
  bool flag;
  if (read_bool(text, &spelling, &flag)) return (plim_value){.kind = PLIM_VALUE_BOOL, .flag = flag};
  if (is_integer(text)) {
    errno = 0;
    int64_t integer = strtoll(text, NULL, 10);
    if (!errno) return (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = integer};
  }
  double real = is_real(text) ? strtod(text, NULL) : INFINITY;
  const char *first = text + (*text == '-');
  bool has_leading_zero = digits(first) > 1 && *first == '0';
  if (isfinite(real) && !has_leading_zero)
    return (plim_value){.kind = PLIM_VALUE_REAL, .real = real};
  return (plim_value){.kind = PLIM_VALUE_TEXT, .text = text};
}

static bool append(plim_bytes *out, const char *text, bool *is_out) {
  for (;; text++) {
    if (!vec_push(out, *text)) return *is_out = true, false;
    if (!*text) return true;
  }
}

// Shortens 5e-05, as printf writes it, to 5e-5.
static void shorten_exponent(char *text) {
  char *e = strchr(text, 'e');
  if (!e) return;
  char *to = e + 1, *from = e + 1;
  if (*from == '-') *to++ = *from;
  from += *from == '-' || *from == '+';
  while (*from == '0' && from[1]) from++;
  memmove(to, from, strlen(from) + 1);
}

// Writes the fewest digits that read back as the same number, in fixed or exponential form.
static void shortest(double real, bool is_fixed, char *text, size_t size) {
  for (int digit = is_fixed ? 1 : 0; digit < 40; digit++) {
    snprintf(text, size, is_fixed ? "%.*f" : "%.*e", digit, real);
    if (strtod(text, NULL) == real) break;
  }
}

// Writes the number with an exponent if the old one has one, or if it would have too many zeros.
static void write_real(double real, const char *old, char *text, size_t size) {
  bool had_exponent = is_real(old) && strpbrk(old, "eE");
  bool is_handy = real == 0 || (fabs(real) >= 1e-4 && fabs(real) < 1e15);
  bool is_fixed =
      !had_exponent && (is_handy || (is_real(old) && fabs(real) >= 1e-12 && fabs(real) < 1e15));
  shortest(real, is_fixed, text, size);
  shorten_exponent(text);
}

static bool write_bool(bool flag, const char *old, plim_bytes *out, bool *is_out) {
  size_t spelling = 0;
  bool was;
  read_bool(old, &spelling, &was);
  return append(out, bools[spelling][flag], is_out);
}

bool plim_value_to_text(const plim_value *value, const char *old, plim_bytes *out, bool *is_out) {
  char number[512];
  out->len = 0;
  *is_out = false;
  switch (value->kind) {
  case PLIM_VALUE_BOOL: return write_bool(value->flag, old, out, is_out);
  case PLIM_VALUE_INTEGER:
    snprintf(number, sizeof number, "%lld", (long long)value->integer);
    break;
  case PLIM_VALUE_REAL:
    if (!isfinite(value->real)) return false;
    write_real(value->real, old, number, sizeof number);
    break;
  case PLIM_VALUE_TEXT: return value->text && append(out, value->text, is_out);
  default: return false;
  }
  return append(out, number, is_out);
}

static double number_of(const plim_value *v) {
  return v->kind == PLIM_VALUE_INTEGER ? (double)v->integer : v->real;
}

// The value as the program sees it: a text such as "1e-4" is a number for a program that gets it as an argument.
static plim_value seen_as(const plim_value *v) {
  return v->kind == PLIM_VALUE_TEXT ? plim_value_of_text(v->text) : *v;
}

bool plim_values_equal(const plim_value *x, const plim_value *y) {
  plim_value a = seen_as(x), b = seen_as(y);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
  case PLIM_VALUE_BOOL: return a.flag == b.flag;
  case PLIM_VALUE_INTEGER: return a.integer == b.integer;
  case PLIM_VALUE_REAL: return number_of(&a) == number_of(&b);
  case PLIM_VALUE_TEXT:
  case PLIM_VALUE_DERIVED: return strcmp(a.text, b.text) == 0;
  default: return true;
  }
}
