// Settings of TOML files are found with their position and value, and a change affects nothing else.
#include "editing.h"

static plim_err open_toml(const char *text) { return editing_open(PLIM_FORMAT_TOML, text); }

#define OPEN(text) CHECK(!open_toml(text), "%s", editing_error.message)
#define SHOWS(key, value) CHECK_STR(shown(key), value)
#define CHANGES(text, key, value, wanted)                                                          \
  do {                                                                                             \
    OPEN(text);                                                                                    \
    CHECK(!change(key, value), "%s", editing_error.message);                                       \
    CHECK_STR(edited, wanted);                                                                     \
  } while (0)
#define INSERTS(text, key, value, wanted)                                                          \
  do {                                                                                             \
    OPEN(text);                                                                                    \
    CHECK(!insert(key, value), "%s", editing_error.message);                                       \
    CHECK_STR(edited, wanted);                                                                     \
  } while (0)

// ---- reading ----------------------------------------------------------------------------------------

TEST(scalars_have_their_values) {
  static const struct {
    const char *source, *value;
  } cases[] = {
      {"42", "42"},
      {"+42", "42"},
      {"-1_000", "-1000"},
      {"0xDEAD_beef", "3735928559"},
      {"0o17", "15"},
      {"0b101", "5"},
      {"99999999999999999999", "=99999999999999999999"},
      {"1.5", "1.5r"},
      {"-0.0", "-0r"},
      {"6.626e-34", "6.626e-34r"},
      {"1e06", "1000000r"},
      {"9_224.4_4", "9224.44r"},
      {"inf", "infr"},
      {"-inf", "-infr"},
      {"true", "true"},
      {"false", "false"},
      {"\"a\\tb\\u00e9\\\"\"", "\"a\tb\xc3\xa9\"\""},
      {"'a\\b'", "\"a\\b\""},
      {"\"\"\"\na\"\"b\\\n   c\"\"\"\"", "\"a\"\"bc\"\""},
      {"'''\r\na\r\nb'''", "\"a\nb\""},
      {"\"\"", "\"\""},
      {"\"\\u0000\"", "=\"\\u0000\""},
      {"1979-05-27", "\"1979-05-27\""},
      {"07:32:00.5", "\"07:32:00.5\""},
      {"1979-05-27T07:32:00-07:00", "\"1979-05-27T07:32:00-07:00\""},
      {"1979-05-27 07:32:00z", "\"1979-05-27 07:32:00z\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    snprintf(text, sizeof text, "x = %s # c\n", cases[i].source);
    OPEN(text);
    SHOWS("x", cases[i].value);
    CHECK_STR(editing.at.at[0].comment, "c");
  }
}

TEST(keys_are_paths) {
  OPEN("a = 1\nb.c . \"d.e\" = 2\n[t]\nx = 3\n[t.u]\ny = [4, [5, {z = 6}]]\n[[s]]\nn = 7\n"
       "[[s]]\nn = 8\n[s.m]\no = 9\n[[s.q]]\nr = 10\n\"\" = 11\n'\\' = 12\n");
  static const char *const keys[] = {"a",         "b.c.d\\.e",   "t.x",      "t.u.y.0",
                                     "t.u.y.1.0", "t.u.y.1.1.z", "s.0.n",    "s.1.n",
                                     "s.1.m.o",   "s.1.q.0.r",   "s.1.q.0.", "s.1.q.0.\\\\"};
  CHECK(editing.at.len == 12, "%zu settings", editing.at.len);
  for (size_t i = 0; i < 12; i++) {
    CHECK_STR(editing.at.at[i].key, keys[i]);
    CHECK(editing.at.at[i].value.integer == (int64_t)i + 1, "%s", keys[i]);
  }
}

TEST(comments_are_after_or_above_the_value) {
  OPEN("# one\n\n# two\n# three\na = 1\nb = 2 # four\nc = [ # five\n  # six\n  1,\n  2, # "
       "seven\n]\n");
  static const char *const wanted[][2] = {
      {"a", "two\nthree"}, {"b", "four"}, {"c.0", "six"}, {"c.1", "seven"}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    CHECK_STR(plim_settings_find(&editing, wanted[i][0])->comment, wanted[i][1]);
}

TEST(tables_that_may_be_extended) {
  OPEN("[a.b]\nx = 1\n[a]\ny = 2\n[a.c]\nz = 3\n");
  OPEN("[f]\napple.color = 1\napple.taste.sweet = true\n[f.apple.texture]\nsmooth = true\n");
  OPEN("[a.b.c]\nx = 1\n[a]\nb.d = 2\n");
  OPEN("x = {a.b = 1, a.c = 2}\n");
}

// ---- refusals ---------------------------------------------------------------------------------------

TEST(broken_files_are_refused_where_they_break) {
  static const struct {
    const char *text;
    uint64_t byte;
  } cases[] = {
      {"a = 1\na = 2", 6},
      {"a = 1\na.b = 2", 6},
      {"[a]\n[a]", 5},
      {"a = []\n[[a]]", 9},
      {"[[a]]\n[a]", 7},
      {"[a]\nb = {}\n[a.b]", 14},
      {"[a]\nb = {}\nb.c = 1", 11},
      {"[a.b.c]\nz = 9\n[a]\nb.c.t = 1", 20},
      {"[f]\na.b = 1\n[f.a]", 15},
      {"a = {x = 1, x = 2}", 12},
      {"a = {x = 1,}", 11},
      {"a = {x = 1\n}", 10},
      {"a = 1 b = 2", 6},
      {"a", 1},
      {"= 1", 0},
      {"a = ", 4},
      {"a = 01", 4},
      {"a = 1__0", 4},
      {"a = 1_", 4},
      {"a = .5", 4},
      {"a = 5.", 4},
      {"a = -0x1", 4},
      {"a = 0XFF", 4},
      {"a = True", 4},
      {"a = 1979-02-30", 4},
      {"a = 25:00:00", 4},
      {"a = \"x", 6},
      {"a = \"x\ny\"", 6},
      {"a = \"\\q\"", 6},
      {"a = \"\\ud800\"", 11},
      {"a = 'x\x01'", 6},
      {"a = 1 # \x01", 8},
      {"a = 1\rb = 2", 5},
      {"a = [1 2]", 7},
      {"a = [1, 2", 9},
      {"[a\nb = 1", 2},
      {"[[a]\nb = 1", 4},
      {"a.b. = 1", 5},
      {"a = \xff", 4},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CHECK(open_toml(cases[i].text) == PLIM_ERR_PARSE, "%s: accepted", cases[i].text);
    CHECK(editing_error.byte == cases[i].byte, "%s: byte %d, want %d", cases[i].text,
          (int)editing_error.byte, (int)cases[i].byte);
  }
}

TEST(nesting_is_bounded) {
  enum { DEEP = 100000 };
  char *text = malloc(DEEP + 1);
  static const char *const openers[] = {"[", "{a=", "a.", "[[a."};
  for (size_t k = 0; k < sizeof openers / sizeof *openers; k++) {
    memcpy(text, k < 2 ? "a=" : "a.", 2);
    for (size_t i = 2; i < DEEP; i++) text[i] = openers[k][(i - 2) % strlen(openers[k])];
    text[DEEP] = 0;
    CHECK(open_toml(text), "accepted");
  }
  free(text);
}

// ---- changes ----------------------------------------------------------------------------------------

TEST(values_keep_their_form) {
  CHANGES("x = 0xFF # c", "x", integer(171), "x = 0xAB # c");
  CHANGES("x = 0xFF", "x", integer(-1), "x = -1");
  CHANGES("x=1_000", "x", integer(20000), "x=20_000");
  CHANGES("x = 2e-4", "x", real(1e-5), "x = 1e-5");
  CHANGES("x = 0.5", "x", real(2), "x = 2.0");
  CHANGES("x = 1", "x", flag(true), "x = true");
  CHANGES("x = \"a\"", "x", words("b\"\n\x01"), "x = \"b\\\"\\n\\u0001\"");
  CHANGES("x = 'a'", "x", words("c:\\d"), "x = 'c:\\d'");
  CHANGES("x = 'a'", "x", words("it's"), "x = \"it's\"");
  CHANGES("x = \"\"\"\na\n\"\"\"", "x", words("b\nc"), "x = \"\"\"\nb\nc\"\"\"");
  CHANGES("x = \"\"\"a\"\"\"", "x", words("\nb"), "x = \"\"\"\n\nb\"\"\"");
  CHANGES("x = '''a'''", "x", words("b'c"), "x = \"\"\"b'c\"\"\"");
  CHANGES("x = \"\"\"a\r\nb\"\"\"\r\n", "x", words("c\nd"), "x = \"\"\"c\r\nd\"\"\"\r\n");
  CHANGES("[t]\nx = {a = [1, 2 ]}", "t.x.a.1", integer(3), "[t]\nx = {a = [1, 3 ]}");
  OPEN("x = 1\nd = 1979-05-27\n");
  CHECK(change("x", null()) == PLIM_ERR_ARGUMENT, "null: %s", edited);
  CHECK(change("d", words("y")) == PLIM_ERR_UNSUPPORTED, "date: %s", edited);
}

// ---- insertions -------------------------------------------------------------------------------------

TEST(new_keys_follow_their_neighbours) {
  INSERTS("", "a", integer(1), "a = 1\n");
  INSERTS("[t]\n", "a", integer(1), "a = 1\n[t]\n");
  INSERTS("\xef\xbb\xbf[t]\r\n", "a", integer(1),
          "\xef\xbb\xbf"
          "a = 1\r\n[t]\r\n");
  INSERTS("a=1 # c\n\n[t]\nb = 2\n", "x", integer(3), "a=1 # c\nx=3\n\n[t]\nb = 2\n");
  INSERTS("[t]\n  b = 2 # c\n\n[u]\n", "t.c", words("x"), "[t]\n  b = 2 # c\n  c = \"x\"\n\n[u]\n");
  INSERTS("[t]\r\nb = 'y'", "t.c", words("x"), "[t]\r\nb = 'y'\r\nc = 'x'");
  INSERTS("[t] # c\n[u]\n", "t.c", flag(false), "[t] # c\nc = false\n[u]\n");
  INSERTS("[t]\nb = [\n 1,\n]\n", "t.c", real(0.5), "[t]\nb = [\n 1,\n]\nc = 0.5\n");
  INSERTS("l.r = 16\nx = 1\n", "l.alpha", integer(32), "l.r = 16\nl.alpha = 32\nx = 1\n");
  INSERTS("t = { a = 1 }\n", "t.b", integer(2), "t = { a = 1, b = 2 }\n");
  INSERTS("t = {a=1}\n", "t.b", integer(2), "t = {a=1, b=2}\n");
  INSERTS("t = {}\n", "t.b", integer(2), "t = { b = 2 }\n");
  INSERTS("t = { }\n", "t.b", integer(2), "t = { b = 2 }\n");
  INSERTS("[[s]]\na = 1\n[[s]]\na = 2\n", "s.0.b", integer(3),
          "[[s]]\na = 1\nb = 3\n[[s]]\na = 2\n");
  INSERTS("[t]\na = 1\n", "t.b c\\.d", integer(2), "[t]\na = 1\n\"b c.d\" = 2\n");
}

TEST(uncertain_places_are_refused) {
  static const char *const cases[][2] = {
      {"a = 1\n", "a"},          {"a = []\n", "a"},        {"[a]\n", "a"},
      {"[a.b]\nc = 1\n", "a.d"}, {"a = 1\n", "b.c"},       {"a = [1]\n", "a.1"},
      {"[[a]]\n", "a.1.b"},      {"[a]\nb = {}\n", "a.b"}, {"[a]\n[a.b]\n", "a.b"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    OPEN(cases[i][0]);
    CHECK(insert(cases[i][1], integer(2)), "%s: inserted: %s", cases[i][1], edited);
  }
}

TEST_MAIN
