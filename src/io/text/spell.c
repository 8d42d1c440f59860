#include "spell.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

static bool has(const char *text, size_t size, const char *any) {
  for (size_t i = 0; i < size; i++)
    if (strchr(any, text[i]) && text[i]) return true;
  return false;
}

// ---- numbers ----------------------------------------------------------------------------------------

void plim_spell_integer(int64_t value, const char *like, size_t like_size, FILE *out) {
  char digits[24];
  bool is_grouped = has(like, like_size, "_") && !has(like, like_size, "xXbo");
  uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  int count = snprintf(digits, sizeof digits, "%" PRIu64, size);
  if (value < 0) fputc('-', out);
  for (int i = 0; i < count; i++) {
    if (is_grouped && i && (count - i) % 3 == 0) fputc('_', out);
    fputc(digits[i], out);
  }
}

typedef struct {
  char digits[24]; // without the point and trailing zeros
  int count;
  int exponent; // power of ten of the first digit
} decimal;

static decimal shortest(double size) {
  char text[40];
  decimal d = {.count = 0};
  for (int digits = 0; digits < 17; digits++) {
    snprintf(text, sizeof text, "%.*e", digits, size);
    if (strtod(text, NULL) == size) break;
  }
  for (const char *at = text; *at && *at != 'e'; at++)
    if (*at != '.') d.digits[d.count++] = *at;
  d.exponent = atoi(strchr(text, 'e') + 1);
  while (d.count > 1 && d.digits[d.count - 1] == '0') d.count--;
  return d;
}

static void write_decimal(const decimal *d, FILE *out) {
  if (d->exponent < 0) fputs("0.", out);
  for (int i = -1; i > d->exponent; i--) fputc('0', out);
  int last = d->exponent < d->count ? d->count - 1 : d->exponent;
  for (int i = 0; i <= last; i++) {
    fputc(i < d->count ? d->digits[i] : '0', out);
    if (i == d->exponent && i < last) fputc('.', out);
  }
  if (last == d->exponent) fputs(".0", out);
}

static void write_scientific(const decimal *d, const char *like, size_t like_size, bool is_yaml,
                             FILE *out) {
  bool has_plus = memmem(like, like_size, "e+", 2) || memmem(like, like_size, "E+", 2);
  fputc(d->digits[0], out);
  if (d->count > 1) fprintf(out, ".%.*s", d->count - 1, d->digits + 1);
  else if (is_yaml || has(like, like_size, ".")) fputs(".0", out);
  fputc(has(like, like_size, "E") ? 'E' : 'e', out);
  if (d->exponent >= 0 && (is_yaml || has_plus)) fputc('+', out);
  fprintf(out, "%d", d->exponent);
}

// The smallest and the largest power of ten that is written without an exponent.
static const struct {
  int first, last;
} plain_range[] = {
    {-4, 15}, // there is no old number: as Python prints
    {-7, 15}, // the old number is like 0.001
    {-2, 5},  // the old number is like 1e-3
};

static bool is_number(const char *text, size_t size) {
  size_t at = size && (*text == '-' || *text == '+');
  return at < size && has(text + at, 1, "0123456789.") && !has(text, size, "xX");
}

void plim_spell_real(double value, const char *like, size_t like_size, bool is_yaml, FILE *out) {
  if (!is_number(like, like_size)) like_size = 0;
  int form = !like_size ? 0 : has(like, like_size, "eE") ? 2 : 1;
  decimal d = shortest(fabs(value));
  bool is_plain = d.exponent >= plain_range[form].first && d.exponent <= plain_range[form].last;
  if (signbit(value)) fputc('-', out);
  if (is_plain || value == 0) write_decimal(&d, out);
  else write_scientific(&d, like, like_size, is_yaml, out);
}

// ---- text -------------------------------------------------------------------------------------------

// Characters that YAML does not allow unescaped, or that it reads as a line break.
static bool needs_escape(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x2028 || code == 0x2029 ||
         code == 0xfeff || code == 0xfffe || code == 0xffff;
}

static void write_escaped(uint32_t code, FILE *out) {
  static const char names[][2] = {{'\n', 'n'}, {'\t', 't'}, {'\r', 'r'}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (code == (uint32_t)names[i][0]) {
      fprintf(out, "\\%c", names[i][1]);
      return;
    }
  fprintf(out, "\\u%04x", (unsigned)code);
}

void plim_spell_quoted(const char *text, FILE *out) {
  fputc('"', out);
  for (size_t left = strlen(text), length; left; left -= length, text += length) {
    uint32_t code;
    length = plim_utf8_length(text, left, &code);
    if (!length) break;
    if (code == '"' || code == '\\') fputc('\\', out);
    if (needs_escape(code)) write_escaped(code, out);
    else fwrite(text, 1, length, out);
  }
  fputc('"', out);
}
