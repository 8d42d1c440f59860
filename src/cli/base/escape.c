#include "escape.h"

#include <stdbool.h>
#include <stdint.h>

#define REPLACEMENT 0xFFFD

// Reads the next character and moves *text after it; 0 at the end.
static uint32_t next_character(const char **text) {
  const unsigned char *s = (const unsigned char *)*text;
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; // smaller codes have a shorter form
  size_t length = s[0] < 0x80 ? 1 : s[0] < 0xC0 ? 0 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
  if (length == 1) {
    if (*s) ++*text;
    return *s;
  }
  uint32_t c = length ? s[0] & (0xFFu >> (length + 1)) : 0;
  bool valid = length != 0 && s[0] < 0xF8;
  for (size_t i = 1; valid && i < length; i++) {
    valid = (s[i] & 0xC0) == 0x80; // also stops at the end of the text
    c = c << 6 | (s[i] & 0x3F);
  }
  if (!valid || c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) {
    ++*text;
    return REPLACEMENT;
  }
  *text += length;
  return c;
}

static void put_character(FILE *out, uint32_t c) {
  if (c < 0x80) {
    fputc((int)c, out);
    return;
  }
  int extra = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const uint32_t lead[] = {0, 0xC0, 0xE0, 0xF0};
  fputc((int)(lead[extra] | c >> 6 * extra), out);
  while (extra--) fputc((int)(0x80 | (c >> 6 * extra & 0x3F)), out);
}

static bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xFFFE || c == 0xFFFF;
}

void escape_xml(FILE *out, const char *text) {
  for (uint32_t c; (c = next_character(&text));) switch (c) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    case '"': fputs("&quot;", out); break;
    case '\'': fputs("&#39;", out); break;
    default: put_character(out, is_control(c) ? REPLACEMENT : c);
    }
}

void escape_script(FILE *out, const char *text) {
  fputc('"', out);
  for (uint32_t c; (c = next_character(&text));) switch (c) {
    case '"':
    case '\\': fprintf(out, "\\%c", (int)c); break;
    case '<':
    case '>':
    case '&':
    case 0x2028: // line ends in JavaScript, but not in JSON
    case 0x2029: fprintf(out, "\\u%04x", (unsigned)c); break;
    default: put_character(out, is_control(c) ? REPLACEMENT : c);
    }
  fputc('"', out);
}
