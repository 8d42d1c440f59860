// Text from other people must not control the terminal.
#include "test.h"
#include "text.h"

static const char *disarmed(const char *text) {
  static char copy[64];
  snprintf(copy, sizeof copy, "%s", text);
  plim_text_disarm(copy);
  return copy;
}

TEST(control_characters_become_question_marks) {
  static const struct {
    const char *text, *wanted;
  } rows[] = {
      {"plain", "plain"},
      {"caf\u00e9 \u4e2d \U0001f600", "caf\u00e9 \u4e2d \U0001f600"},
      {"a\033[31m\n\tb\177", "a?[31m??b?"},
      {"a\xc2\x9b|", "a??|"},     // a control character of two bytes
      {"a\u00a0b", "a\u00a0b"},   // the first character after them
      {"a\u202eb", "a???b"},      // an override
      {"\u2066\u2069", "??????"}, // isolates
      {"\u200e\u200f\u061c", "????????"},
      {"\x9b", "?"},   // a lone byte
      {"a\xc3", "a?"}, // cut off
      {"\xe2\x80", "??"},
      {"\xc0\x80 \xed\xa0\x80 \xf5\x80\x80\x80", "?? ??? ????"}, // invalid UTF-8
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    CHECK_STR(disarmed(rows[i].text), rows[i].wanted);
}

TEST(line_breaks_stay) {
  char text[] = "a\tb\r\nc\rd\0e\n";
  plim_text_disarm_lines(text, sizeof text - 1);
  CHECK(memcmp(text, "a\tb\r\nc?d?e\n", sizeof text) == 0, "%s", text);
}

TEST_MAIN
