#include "term.h"
#include "test.h"

#include <stdlib.h>
#include <unistd.h>

static char text[2048];

static FILE *open_text(void) {
  memset(text, 0, sizeof text);
  return fmemopen(text, sizeof text, "w");
}

TEST(columns_are_aligned_by_visible_width) {
  static const term_column columns[] = {{"name", false, false}, {"bytes", true, false}};
  term_table *table = term_table_new(columns, 2);
  term_table_cell(table, TERM_PLAIN, "caf\u00e9");
  term_table_cell(table, TERM_PLAIN, "%d", 5);
  term_table_cell(table, TERM_PLAIN, "\u6f22\u5b57 x");
  term_table_cell(table, TERM_PLAIN, "1234567");
  FILE *out = open_text();
  term_table_print(table, out);
  fclose(out);
  term_table_free(table);
  CHECK_STR(text, "name      bytes\n"
                  "caf\u00e9          5\n"
                  "\u6f22\u5b57 x  1234567\n");
}

TEST(a_table_without_titles_has_no_header_and_fills_its_last_row) {
  static const term_column columns[] = {{"", false, false}, {"", false, false}};
  term_table *table = term_table_new(columns, 2);
  term_table_cell(table, TERM_PLAIN, "alone");
  FILE *out = open_text();
  term_table_print(table, out);
  fclose(out);
  term_table_free(table);
  CHECK_STR(text, "alone  \n");
}

TEST(widths_of_text) {
  CHECK_U64(term_text_width(""), 0u);
  CHECK_U64(term_text_width("abc"), 3u);
  CHECK_U64(term_text_width("e\u0301"), 1u); // a combining accent
  CHECK_U64(term_text_width("\u6f22"), 2u);
  CHECK_U64(term_text_width("\U0001F600"), 2u);
  CHECK_U64(term_text_width("\xFF\x80\xE2"), 2u); // invalid UTF-8 must not loop
}

static const char *wrapped(const char *paragraph, size_t column, size_t indent, size_t width) {
  FILE *out = open_text();
  term_wrap(out, paragraph, column, indent, width);
  fclose(out);
  return text;
}

TEST(wrapping_fills_lines_and_never_overflows) {
  CHECK_STR(wrapped("aa bb cc", 0, 0, 5), "aa bb\ncc\n");
  CHECK_STR(wrapped("aa bb cc", 3, 2, 8), "aa bb\n  cc\n");
  CHECK_STR(wrapped("muchtoolongword b", 0, 0, 5), "muchtoolongword\nb\n");
  CHECK_STR(wrapped("a\nb", 0, 1, 20), "a\n b\n");
}

TEST(a_command_to_paste_stays_in_one_piece) {
  CHECK_STR(wrapped("or type plimsoll plan FILES --gpu 4090, so that it fits", 0, 2, 32),
            "or type\n  plimsoll plan FILES --gpu 4090,\n  so that it fits\n");
  CHECK_STR(wrapped("a call of plimsoll undo takes it back", 0, 0, 30),
            "a call of plimsoll undo takes\nit back\n");
}

TEST(a_number_stays_with_its_unit) {
  CHECK_STR(wrapped("it would be 19 % faster", 0, 0, 15), "it would be\n19 % faster\n");
  CHECK_STR(wrapped("which saves 1.28 GiB: now", 0, 0, 18), "which saves\n1.28 GiB: now\n");
  CHECK_STR(wrapped("there are 19 apples", 0, 0, 13), "there are 19\napples\n");
}

TEST(without_a_terminal_messages_are_one_line) {
  FILE *out = tmpfile();
  char line[64] = "";
  CHECK(out, "no temporary file");
  setenv("COLUMNS", "10", 1);
  term_say(out, "more than ten columns of text", 0, 2);
  unsetenv("COLUMNS");
  rewind(out);
  CHECK(fgets(line, sizeof line, out), "nothing was said");
  fclose(out);
  CHECK_STR(line, "more than ten columns of text\n");
}

static void set_environment(const char *no_color, const char *force) {
  unsetenv("NO_COLOR");
  unsetenv("CLICOLOR_FORCE");
  if (no_color) setenv("NO_COLOR", no_color, 1);
  if (force) setenv("CLICOLOR_FORCE", force, 1);
}

TEST(colour_follows_flag_then_environment_then_terminal) {
  FILE *file = tmpfile();
  CHECK(file, "no temporary file");
  set_environment(NULL, NULL);
  bool off_a_terminal = term_has_color(file);
  set_environment(NULL, "1");
  bool forced = term_has_color(file);
  set_environment("1", "1");
  bool refused = term_has_color(file);
  term_set_color(TERM_ALWAYS);
  bool asked = term_has_color(file);
  term_set_color(TERM_NEVER);
  set_environment(NULL, "1");
  bool forbidden = term_has_color(file);
  term_set_color(TERM_AUTO);
  fclose(file);
  CHECK(!off_a_terminal && forced && !refused && asked && !forbidden, "%d %d %d %d %d",
        off_a_terminal, forced, refused, asked, forbidden);
}

TEST(the_width_comes_from_columns_and_is_80_off_a_terminal) {
  FILE *file = tmpfile();
  CHECK(file, "no temporary file");
  unsetenv("COLUMNS");
  int unset = term_width(file);
  setenv("COLUMNS", "123", 1);
  int set = term_width(file);
  setenv("COLUMNS", "nonsense", 1);
  int nonsense = term_width(file);
  unsetenv("COLUMNS");
  fclose(file);
  CHECK(unset == 80 && set == 123 && nonsense == 80, "%d %d %d", unset, set, nonsense);
}

TEST_MAIN
