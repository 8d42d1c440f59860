#include "text.h"

#include <string.h>

size_t plim_text_char(const char *text, uint32_t *code) {
  // Table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF.
  static const struct {
    unsigned char lead_min, lead_max, next_min, next_max, length;
  } forms[] = {
      {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3}, {0xE1, 0xEC, 0x80, 0xBF, 3},
      {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3}, {0xF0, 0xF0, 0x90, 0xBF, 4},
      {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
  };
  const unsigned char *s = (const unsigned char *)text;
  *code = s[0];
  if (s[0] < 0x80) return 1;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    if (s[0] < forms[i].lead_min || s[0] > forms[i].lead_max) continue;
    if (s[1] < forms[i].next_min || s[1] > forms[i].next_max) return 0;
    *code = s[0] & (0xFFu >> (forms[i].length + 1));
    for (size_t k = 1; k < forms[i].length; k++) {
      if (s[k] < 0x80 || s[k] > 0xBF) return 0;
      *code = *code << 6 | (s[k] & 0x3Fu);
    }
    return forms[i].length;
  }
  return 0;
}

bool plim_char_steers(uint32_t code) {
  static const struct {
    uint32_t first, last;
  } ranges[] = {
      {0x00, 0x1F},     {0x7F, 0x9F},     // control characters
      {0x061C, 0x061C}, {0x200E, 0x200F}, // marks of direction
      {0x202A, 0x202E}, {0x2066, 0x2069}, // embeddings, overrides and isolates
  };
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
    if (code >= ranges[i].first && code <= ranges[i].last) return true;
  return false;
}

static bool is_layout(const char *text) {
  return *text == '\n' || *text == '\t' || (text[0] == '\r' && text[1] == '\n');
}

static void disarm(char *text, size_t size, bool keeps_lines) {
  for (size_t at = 0, length; at < size; at += length) {
    uint32_t code;
    length = plim_text_char(text + at, &code);
    bool is_cut = at + length > size;
    bool is_harmless = length && !is_cut && !plim_char_steers(code);
    if (!length || is_cut) length = 1;
    if (is_harmless || (keeps_lines && is_layout(text + at))) continue;
    memset(text + at, '?', length);
  }
}

void plim_text_disarm(char *text) { disarm(text, strlen(text), false); }

void plim_text_disarm_lines(char *text, size_t size) { disarm(text, size, true); }
