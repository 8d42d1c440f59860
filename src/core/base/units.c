#include "units.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char SIZES[] =
    "a size such as 24GiB, 24G (the same), 24GB (decimal) or a number of bytes";

static const struct {
  const char *suffix;
  uint64_t bytes;
} size_units[] = {
    {"", 1},
    {"B", 1},
    {"K", 1ull << 10},
    {"KiB", 1ull << 10},
    {"Ki", 1ull << 10},
    {"KB", 1000ull},
    {"M", 1ull << 20},
    {"MiB", 1ull << 20},
    {"Mi", 1ull << 20},
    {"MB", 1000000ull},
    {"G", 1ull << 30},
    {"GiB", 1ull << 30},
    {"Gi", 1ull << 30},
    {"GB", 1000000000ull},
    {"T", 1ull << 40},
    {"TiB", 1ull << 40},
    {"Ti", 1ull << 40},
    {"TB", 1000000000000ull},
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number of bytes of a unit; 0 if it is unknown.
static uint64_t find_unit(const char *suffix) {
  for (size_t i = 0; i < sizeof size_units / sizeof *size_units; i++)
    if (strcasecmp(suffix, size_units[i].suffix) == 0) return size_units[i].bytes;
  return 0;
}

static plim_err fail_at(plim_error *error, const char *text, const char *at, const char *expected) {
  if (*text) plim_fail(error, PLIM_ERR_ARGUMENT, "\"%s\" is not %s", text, expected);
  else plim_fail(error, PLIM_ERR_ARGUMENT, "the value is empty, it must be %s", expected);
  plim_error_at(error, (uint64_t)(at - text));
  return PLIM_ERR_ARGUMENT;
}

static plim_err fail_large(plim_error *error, const char *text) {
  plim_fail(error, PLIM_ERR_ARGUMENT, "%s is too large (more than 64 bits)", text);
  plim_error_at(error, 0);
  return PLIM_ERR_ARGUMENT;
}

// Reads digits into *value and moves *text past them; false if they do not fit.
static bool read_digits(const char **text, uint64_t *value) {
  *value = 0;
  for (; is_digit(**text); (*text)++) {
    uint64_t digit = (uint64_t)(**text - '0');
    if (*value > (UINT64_MAX - digit) / 10) return false;
    *value = *value * 10 + digit;
  }
  return true;
}

// Reads ".7" as millionths, which fit into 64 bits even when multiplied by a TiB; further digits are dropped.
static uint64_t read_millionths(const char **text) {
  uint64_t millionths = 0, scale = 100000;
  if (**text != '.') return 0;
  for ((*text)++; is_digit(**text); (*text)++, scale /= 10)
    millionths += scale * (uint64_t)(**text - '0');
  return millionths;
}

plim_err units_parse_bytes(const char *text, uint64_t *bytes, plim_error *error) {
  const char *p = text;
  uint64_t whole;
  if (!is_digit(*p)) return fail_at(error, text, p, SIZES);
  if (!read_digits(&p, &whole)) return fail_large(error, text);
  const char *point = p;
  uint64_t millionths = read_millionths(&p);
  if (*point == '.' && p == point + 1) return fail_at(error, text, p, SIZES);
  while (*p == ' ') p++;
  uint64_t unit = find_unit(p);
  if (unit == 0) return fail_at(error, text, p, SIZES);
  if (unit == 1 && *point == '.') return fail_at(error, text, point, "a whole number of bytes");
  uint64_t part = unit * millionths / 1000000;
  if (whole > (UINT64_MAX - 1 - part) / unit) return fail_large(error, text);
  *bytes = whole * unit + part;
  return PLIM_OK;
}

plim_err units_parse_u64(const char *text, uint64_t *value, plim_error *error) {
  const char *p = text;
  uint64_t read;
  if (!read_digits(&p, &read)) return fail_large(error, text);
  if (*text == '-' && is_digit(text[1])) {
    plim_fail(error, PLIM_ERR_ARGUMENT, "\"%s\" is negative", text);
    plim_error_at(error, 0);
    return PLIM_ERR_ARGUMENT;
  }
  if (p == text || *p) return fail_at(error, text, p, "a whole number");
  *value = read;
  return PLIM_OK;
}

plim_err units_parse_number(const char *text, double *value, plim_error *error) {
  char *end;
  bool plain = is_digit(*text) || *text == '-' || *text == '.';
  double read = plain ? strtod(text, &end) : 0;
  if (!plain || end == text || strpbrk(text, "xX")) return fail_at(error, text, text, "a number");
  if (*end) return fail_at(error, text, end, "a number");
  if (!isfinite(read)) return fail_at(error, text, text, "a finite number");
  *value = read;
  return PLIM_OK;
}

// Three digits for 1 to 999; larger values show their integer part.
static units_text three_digits(double value, const char *unit) {
  units_text out;
  int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  snprintf(out.text, sizeof out.text, "%.*f %s", decimals, value, unit);
  return out;
}

units_text units_bytes(uint64_t bytes) {
  static const char *const names[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  units_text out = {"unknown"};
  if (bytes == PLIM_UNKNOWN) return out;
  if (bytes < 1024) {
    snprintf(out.text, sizeof out.text, "%" PRIu64 " B", bytes);
    return out;
  }
  size_t i = 0;
  double value = (double)bytes / 1024;
  for (; value >= 1023.5 && i < 5; i++) value /= 1024; // so that nothing prints as 1024 KiB
  return three_digits(value, names[i]);
}

units_text units_count(uint64_t count) {
  units_text out = {"unknown"};
  if (count == PLIM_UNKNOWN) return out;
  char digits[24];
  int len = snprintf(digits, sizeof digits, "%" PRIu64, count);
  char *to = out.text;
  for (int i = 0; i < len; i++) {
    if (i > 0 && (len - i) % 3 == 0) *to++ = ',';
    *to++ = digits[i];
  }
  *to = '\0';
  return out;
}

static units_text two_parts(uint64_t large, const char *large_unit, uint64_t small,
                            const char *small_unit) {
  units_text out;
  snprintf(out.text, sizeof out.text, "%" PRIu64 " %s %02" PRIu64 " %s", large, large_unit, small,
           small_unit);
  return out;
}

units_text units_seconds(double seconds) {
  if (!(seconds >= 0) || seconds > 1e15) return (units_text){"unknown"};
  if (seconds == 0) return (units_text){"0 s"};
  if (seconds < 999.5e-9) return three_digits(seconds * 1e9, "ns");
  if (seconds < 999.5e-6) return three_digits(seconds * 1e6, "us");
  if (seconds < 999.5e-3) return three_digits(seconds * 1e3, "ms");
  if (seconds < 99.95) return three_digits(seconds, "s");
  uint64_t whole = (uint64_t)(seconds + 0.5);
  if (whole < 3600) return two_parts(whole / 60, "min", whole % 60, "s");
  return two_parts(whole / 3600, "h", whole % 3600 / 60, "min");
}
