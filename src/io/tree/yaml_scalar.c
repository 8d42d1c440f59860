#include "yaml_scalar.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#define TAG_PREFIX "tag:yaml.org,2002:"

// ---- bool and null ----------------------------------------------------------------------------------

static const char *const bools[][2] = {
    {"false", "true"}, {"False", "True"}, {"FALSE", "TRUE"}, {"no", "yes"}, {"No", "Yes"},
    {"NO", "YES"},     {"off", "on"},     {"Off", "On"},     {"OFF", "ON"},
};
enum { BOOLS = sizeof bools / sizeof *bools };

static bool is_word(const char *text, size_t size, const char *word) {
  return strlen(word) == size && memcmp(text, word, size) == 0;
}

const char *plim_yaml_bool(const char *text, size_t size, bool wanted) {
  for (size_t i = 0; i < BOOLS; i++)
    for (int flag = 0; flag < 2; flag++)
      if (is_word(text, size, bools[i][flag])) return bools[i][wanted];
  return NULL;
}

typedef int comparison(const char *a, const char *b);

// Reads a bool. The caller passes a comparison that ignores case if the value has the tag !!bool.
static bool read_bool(const char *text, comparison *compare, plim_value *out) {
  for (size_t i = 0; i < BOOLS; i++)
    for (int flag = 0; flag < 2; flag++)
      if (compare(text, bools[i][flag]) == 0) {
        *out = (plim_value){.kind = PLIM_VALUE_BOOL, .flag = flag};
        return true;
      }
  return false;
}

static bool is_null(const char *text) {
  static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
  for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
    if (strcmp(text, nulls[i]) == 0) return true;
  return false;
}

// ---- shapes of numbers ------------------------------------------------------------------------------

static size_t span_of(const char *text, const char *allowed) { return strspn(text, allowed); }

// The length of the match of (?::[0-5]?[0-9])+; 0 if there is none.
static size_t sexagesimal(const char *text) {
  size_t used = 0;
  while (text[used] == ':') {
    const char *at = text + used + 1;
    if (at[0] >= '0' && at[0] <= '5' && isdigit((unsigned char)at[1])) used += 3;
    else if (isdigit((unsigned char)at[0])) used += 2;
    else break;
  }
  return used;
}

static size_t exponent(const char *text) {
  if ((text[0] != 'e' && text[0] != 'E') || (text[1] != '-' && text[1] != '+')) return 0;
  size_t digits = span_of(text + 2, "0123456789");
  return digits ? digits + 2 : 0;
}

static bool is_infinite(const char *text) {
  return strcmp(text, ".inf") == 0 || strcmp(text, ".Inf") == 0 || strcmp(text, ".INF") == 0;
}

static bool is_nan(const char *text) {
  return strcmp(text, ".nan") == 0 || strcmp(text, ".NaN") == 0 || strcmp(text, ".NAN") == 0;
}

static bool is_float(const char *text) {
  if (is_nan(text)) return true;
  if (text[0] == '.' && isdigit((unsigned char)text[1])) {
    text += 1 + span_of(text + 1, "0123456789_");
    return !text[exponent(text)];
  }
  text += *text == '-' || *text == '+';
  if (is_infinite(text)) return true;
  if (!isdigit((unsigned char)*text)) return false;
  text += span_of(text, "0123456789_");
  size_t minutes = sexagesimal(text);
  text += minutes;
  if (*text != '.') return false;
  text += 1 + span_of(text + 1, "0123456789_");
  return !*text || (!minutes && exponent(text) && !text[exponent(text)]);
}

static bool is_integer(const char *text) {
  text += *text == '-' || *text == '+';
  if (text[0] == '0') {
    static const struct {
      char mark;
      const char *digits;
    } bases[] = {{'b', "01_"}, {'x', "0123456789abcdefABCDEF_"}};
    for (size_t i = 0; i < 2; i++)
      if (text[1] == bases[i].mark) return text[2] && !text[2 + span_of(text + 2, bases[i].digits)];
    return !text[1 + span_of(text + 1, "01234567_")];
  }
  if (*text < '1' || *text > '9') return false;
  text += span_of(text, "0123456789_");
  return !text[sexagesimal(text)];
}

// ---- dates ------------------------------------------------------------------------------------------

static bool take_digits(const char **at, size_t least, size_t most) {
  size_t count = span_of(*at, "0123456789");
  if (count < least) return false;
  *at += count < most ? count : most;
  return true;
}

static bool take(const char **at, const char *allowed) {
  if (!**at || !strchr(allowed, **at)) return false;
  ++*at;
  return true;
}

static bool take_zone(const char **at) {
  *at += span_of(*at, " \t");
  if (take(at, "Z")) return true;
  if (!take(at, "-+") || !take_digits(at, 1, 2)) return false;
  return !take(at, ":") || take_digits(at, 2, 2);
}

static bool is_date(const char *at) {
  const char *start = at;
  if (!take_digits(&at, 4, 4) || !take(&at, "-") || !take_digits(&at, 1, 2)) return false;
  if (!take(&at, "-") || !take_digits(&at, 1, 2)) return false;
  if (!*at) return at - start == 10;
  size_t blanks = span_of(at, " \t");
  at += blanks;
  if (!blanks && !take(&at, "Tt")) return false;
  if (!take_digits(&at, 1, 2) || !take(&at, ":") || !take_digits(&at, 2, 2)) return false;
  if (!take(&at, ":") || !take_digits(&at, 2, 2)) return false;
  if (take(&at, ".")) at += span_of(at, "0123456789");
  return !*at || (take_zone(&at) && !*at);
}

// ---- their values -----------------------------------------------------------------------------------

// Copies the number without sign and underscores; false if it is too long.
static bool bare(const char *text, char *out, size_t size, bool *is_negative) {
  size_t used = 0;
  *is_negative = *text == '-';
  text += *text == '-' || *text == '+';
  for (; *text; text++) {
    if (*text == '_') continue;
    if (used + 1 == size) return false;
    out[used++] = *text;
  }
  out[used] = 0;
  return used > 0;
}

static bool in_base(const char *text, int base, uint64_t *out) {
  char *end;
  if (!isxdigit((unsigned char)*text)) return false;
  errno = 0;
  *out = strtoull(text, &end, base);
  return !*end && !errno;
}

static bool in_sixties(const char *text, uint64_t *out) {
  *out = 0;
  for (char *end;; text = end + 1) {
    if (!isdigit((unsigned char)*text)) return false;
    errno = 0;
    uint64_t digit = strtoull(text, &end, 10);
    if (errno || __builtin_mul_overflow(*out, 60ull, out)) return false;
    if (__builtin_add_overflow(*out, digit, out)) return false;
    if (*end != ':') return !*end;
  }
}

static bool read_integer(const char *text, plim_value *out) {
  char digits[128];
  bool is_negative, is_read;
  uint64_t size;
  if (!bare(text, digits, sizeof digits, &is_negative)) return false;
  if (digits[0] != '0') is_read = in_sixties(digits, &size);
  else if (digits[1] == 'b') is_read = in_base(digits + 2, 2, &size);
  else if (digits[1] == 'x') is_read = in_base(digits + 2, 16, &size);
  else is_read = in_base(digits, 8, &size);
  if (!is_read || size > (uint64_t)INT64_MAX + is_negative) return false;
  *out =
      (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = (int64_t)(is_negative ? 0 - size : size)};
  return true;
}

static bool real_in_sixties(const char *text, double *out) {
  char *end;
  for (*out = 0;; text = end + 1) {
    double digit = strtod(text, &end);
    if (end == text) return false;
    *out = *out * 60 + digit;
    if (*end != ':') return !*end;
  }
}

static bool read_float(const char *text, plim_value *out) {
  char digits[512];
  bool is_negative;
  double size;
  if (!bare(text, digits, sizeof digits, &is_negative)) return false;
  if (strcasecmp(digits, ".inf") == 0) size = INFINITY;
  else if (strcasecmp(digits, ".nan") == 0) size = NAN;
  else if (!strpbrk(digits, "0123456789") || digits[strspn(digits, "0123456789.:eE+-")])
    return false;
  else if (!real_in_sixties(digits, &size)) return false;
  *out = (plim_value){.kind = PLIM_VALUE_REAL, .real = is_negative ? -size : size};
  return true;
}

// ---- resolving --------------------------------------------------------------------------------------

static bool resolve_plain(const char *text, plim_value *out) {
  if (read_bool(text, strcmp, out)) return true;
  if (is_float(text)) return read_float(text, out);
  if (is_integer(text)) return read_integer(text, out);
  if (is_null(text)) {
    *out = (plim_value){.kind = PLIM_VALUE_NULL};
    return true;
  }
  if (strcmp(text, "<<") == 0 || strcmp(text, "=") == 0 || is_date(text)) return false;
  *out = (plim_value){.kind = PLIM_VALUE_TEXT, .text = text};
  return true;
}

bool plim_yaml_resolve(const char *text, const char *tag, plim_value *out) {
  if (!tag) return resolve_plain(text, out);
  if (strncmp(tag, TAG_PREFIX, strlen(TAG_PREFIX)) == 0) tag += strlen(TAG_PREFIX);
  else if (*tag) return false;
  *out = (plim_value){.kind = PLIM_VALUE_TEXT, .text = text};
  if (!*tag || strcmp(tag, "str") == 0) return true;
  *out = (plim_value){.kind = PLIM_VALUE_NULL};
  if (strcmp(tag, "null") == 0) return true;
  if (strcmp(tag, "bool") == 0) return read_bool(text, strcasecmp, out);
  if (strcmp(tag, "int") == 0) return is_integer(text) && read_integer(text, out);
  return strcmp(tag, "float") == 0 && read_float(text, out);
}
