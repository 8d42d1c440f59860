#include "test.h"
#include "trace_analysis.h"

static uint32_t add_text(plim_trace *t, const char *text) {
  uint32_t at = (uint32_t)t->text.len;
  for (size_t i = 0; i <= strlen(text); i++)
    if (!vec_push(&t->text, text[i])) return 0;
  return at;
}

// The author of the snapshot chose the names; they must not control the terminal.
TEST(names_are_printed_without_control_characters) {
  plim_trace t;
  char line[128], module[128];
  CHECK(plim_trace_init(&t), "memory");
  uint32_t file = add_text(&t, "a/\x1b]0;owned\x07.py"), name = add_text(&t, "f\n\x7f\xc2\x9b"
                                                                             "31m");
  CHECK(vec_push(&t.frames, (plim_frame){file, name, 7}), "memory");
  plim_line_name(&t, 0, line, sizeof line);
  plim_module_name(&t, 0, module, sizeof module);
  plim_trace_clear(&t);
  CHECK_STR(line, "?]0;owned?.py:7 (f????31m)");
  CHECK_STR(module, "?]0;owned?");
}

TEST(a_frame_that_does_not_exist_has_a_name) {
  plim_trace t;
  char line[32];
  CHECK(plim_trace_init(&t), "memory");
  plim_line_name(&t, PLIM_NO_LINE, line, sizeof line);
  plim_trace_clear(&t);
  CHECK_STR(line, "(no stack)");
}

TEST_MAIN
