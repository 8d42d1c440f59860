#include "utf8.h"

#include <string.h>

static const struct {
  uint32_t first; // the smallest code that needs this length
  uint8_t mask, mark;
} forms[] = {{0, 0x80, 0x00}, {0x80, 0xe0, 0xc0}, {0x800, 0xf0, 0xe0}, {0x10000, 0xf8, 0xf0}};

size_t plim_utf8_length(const char *text, size_t size, uint32_t *code) {
  const uint8_t *at = (const uint8_t *)text;
  for (size_t more = 0; more < 4 && more < size; more++) {
    if ((at[0] & forms[more].mask) != forms[more].mark) continue;
    uint32_t value = at[0] & (uint8_t)~forms[more].mask;
    for (size_t i = 1; i <= more; i++) {
      if ((at[i] & 0xc0) != 0x80) return 0;
      value = value << 6 | (at[i] & 0x3f);
    }
    bool is_surrogate = value >= 0xd800 && value < 0xe000;
    if (value < forms[more].first || value > 0x10ffff || is_surrogate) return 0;
    if (code) *code = value;
    return more + 1;
  }
  return 0;
}

size_t plim_utf8_check(const char *text, size_t size) {
  for (size_t i = 0, length; i < size; i += length) {
    length = plim_utf8_length(text + i, size - i, NULL);
    if (!length) return i;
  }
  return size;
}

size_t plim_utf8_write(uint32_t code, char out[4]) {
  size_t more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  for (size_t i = more; i > 0; i--, code >>= 6) out[i] = (char)(0x80 | (code & 0x3f));
  out[0] = (char)(forms[more].mark | code);
  return more + 1;
}

// A configuration file starts with an ASCII character, so UTF-16 is recognised by the first two bytes.
static bool is_utf16(const char *text, size_t size) {
  if (size < 2) return false;
  return memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0 ||
         (!text[0] != !text[1]);
}

plim_err plim_utf8_open(const char *text, size_t size, size_t *skip, plim_error *error) {
  *skip = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
  if (is_utf16(text, size)) {
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "the text is UTF-16, not UTF-8");
    plim_error_hint(error, "convert it: iconv -f UTF-16 -t UTF-8");
    plim_error_at(error, 0);
    return err;
  }
  size_t bad = plim_utf8_check(text, size);
  if (bad == size) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_PARSE, "byte 0x%02x is not valid UTF-8", (uint8_t)text[bad]);
  plim_error_at(error, bad);
  return err;
}
