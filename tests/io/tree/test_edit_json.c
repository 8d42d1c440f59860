// JSON files are read as json.load reads them, with comments allowed, and a change affects no other byte. edits.sh
// checks the results with Python itself.
#include "edits.h"
#include "formats.h"
#include "test.h"

#define CHECK_LIST(text, want) CHECK_STR(listed(PLIM_FORMAT_JSON, text), want)
#define CHECK_EDITS(cases)                                                                         \
  CHECK(edits_hold(PLIM_FORMAT_JSON, cases, sizeof cases / sizeof *cases), "see above")

// ---- reading ----------------------------------------------------------------------------------------

TEST(values_are_read) {
  CHECK_LIST("{\"a\": 1, \"b\": [1e9, -0.5, 1E+2, \"x\"], \"c\": {\"d\": null, \"e\": false}}",
             "a int 1\nb.0 real 1000000000\nb.1 real -0.5\nb.2 real 100\nb.3 text x\nc.d null \n"
             "c.e bool false\n");
  CHECK_LIST("{\"a\": NaN, \"b\": -Infinity, \"c\": 1e999}",
             "a real nan\nb real -inf\nc real inf\n");
  CHECK_LIST("{\"a\": \"\\u00e4\\ud83d\\ude00\\/\\n\"}", "a text \xc3\xa4\xf0\x9f\x98\x80/\n\n");
  CHECK_LIST("{\"a\": 99999999999999999999, \"b\": \"\\u0000\", \"c\": \"\\ud800\"}",
             "a derived 99999999999999999999\nb derived \"\\u0000\"\nc derived \"\\ud800\"\n");
  CHECK_LIST("{\"a\": 1, \"a.b\": 2, \"a\": \"${x}\"}", "a int 1\na\\.b int 2\na text ${x}\n");
}

TEST(comments_and_a_last_comma_are_allowed) {
  CHECK_LIST("# top\n{\n  \"a\": 1, // one\n  # two\n  \"b\": 2, /* three */ \"c\": [3,],\n}\n",
             "a int 1 # one\nb int 2 # two\nc.0 int 3\n");
}

TEST(invalid_json_is_refused_with_the_position) {
  static const struct {
    const char *text;
    uint64_t byte;
  } cases[] = {
      {"{", 1},     {"{\"a\" 1}", 5}, {"{\"a\": }", 6}, {"{'a': 1}", 1},       {"[1,,2]", 3},
      {"[01]", 2},  {"[1.]", 2},      {"[+1]", 1},      {"[\"\\x\"]", 3},      {"[\"a\nb\"]", 3},
      {"[1] 2", 4}, {"[\"a", 3},      {"[tru]", 1},     {"{\"a\": 1 /* }", 8}, {"[\"\xff\"]", 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plim_settings s;
    plim_error error = {0};
    const char *text = cases[i].text;
    CHECK(plim_settings_read(PLIM_FORMAT_JSON, text, strlen(text), &s, &error), "%s", text);
    CHECK(error.byte == cases[i].byte, "%s: byte %d: %s", text, (int)error.byte, error.message);
  }
}

TEST(json_without_a_value_is_an_empty_file) {
  static const char *const cases[] = {"", " \n", "// only a comment\n"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plim_settings s;
    plim_error error = {0};
    const char *text = cases[i];
    CHECK(plim_settings_read(PLIM_FORMAT_JSON, text, strlen(text), &s, &error), "%s", text);
    CHECK_STR(error.message, "the file is empty");
  }
}

TEST(json_that_is_nested_too_deeply_is_refused) {
  char deep[512] = "";
  memset(deep, '[', 100);
  CHECK(strstr(listed(PLIM_FORMAT_JSON, deep), "nested more than 64 levels deep"), "deep");
}

// ---- changing ---------------------------------------------------------------------------------------

TEST(new_values_look_like_the_old) {
  const edit_case cases[] = {
      {"{\"a\": \"auto\"}", "a", INTEGER(4), "{\"a\": 4}"},
      {"{\"a\":4}", "a", WORDS("\"\\\t"), "{\"a\":\"\\\"\\\\\\t\"}"},
      {"{\"a\": 1e9}", "a", REAL(5e8), "{\"a\": 5e8}"},
      {"{\"a\": 1.0e-5}", "a", REAL(2e-5), "{\"a\": 2.0e-5}"},
      {"{\"a\": 3e+8}", "a", REAL(2e8), "{\"a\": 2e+8}"},
      {"{\"a\": 0.1}", "a", REAL(2), "{\"a\": 2.0}"},
      {"{\"a\": 1e9}", "a", INTEGER(500000000), "{\"a\": 500000000}"},
      {"{\"a\": true} // x", "a", FLAG(false), "{\"a\": false} // x"},
      {"[1, 2]", "1", NONE, "[1, null]"},
      {"\xef\xbb\xbf{\"a\": 1}\r\n", "a", INTEGER(2), "\xef\xbb\xbf{\"a\": 2}\r\n"},
      {"{\"a\": 1}", "a", REAL(__builtin_inf()), NULL},
      {"{\"a\": 1, \"a\": 2}", "a", INTEGER(3), "{\"a\": 1, \"a\": 3}"},
  };
  CHECK_EDITS(cases);
}

// ---- inserting --------------------------------------------------------------------------------------

// With several lines, a new key is inserted before the last entry, which has no comma, so that no other line changes.
TEST(new_keys_are_one_line) {
  const edit_case cases[] = {
      {"{}", "a", INTEGER(1), "{\"a\": 1}"},
      {"{ \"a\" : 1 }", "b", INTEGER(2), "{ \"a\" : 1, \"b\" : 2 }"},
      {"{\"a\":1,\"b\":2}", "c", INTEGER(3), "{\"a\":1,\"b\":2,\"c\":3}"},
      {"{\n\t\"a\": 1\n}\n", "b", FLAG(true), "{\n\t\"b\": true,\n\t\"a\": 1\n}\n"},
      {"{\r\n  \"a\": {\r\n    \"b\": 1\r\n  }\r\n}", "a.c", INTEGER(2),
       "{\r\n  \"a\": {\r\n    \"c\": 2,\r\n    \"b\": 1\r\n  }\r\n}"},
      {"{\n  \"a\": 1 // x\n}\n", "b", INTEGER(2), "{\n  \"b\": 2,\n  \"a\": 1 // x\n}\n"},
      {"{\n  // about a\n  \"a\": 1\n}\n", "b", INTEGER(2),
       "{\n  // about a\n  \"a\": 1,\n  \"b\": 2\n}\n"},
      {"{\n  \"a\": 1, // x\n}\n", "b", INTEGER(2), "{\n  \"a\": 1, // x\n  \"b\": 2,\n}\n"},
      {"{\n  \"a\": 1}\n", "b", INTEGER(2), "{\n  \"b\": 2,\n  \"a\": 1}\n"},
      {"{\n  \"a\": {}\n}\n", "a.b", INTEGER(2), "{\n  \"a\": {\"b\": 2}\n}\n"},
      {"{\n}\n", "b", INTEGER(2), "{\n  \"b\": 2\n}\n"},
      {"[{\"a\": 1}]", "0.b", INTEGER(2), "[{\"a\": 1, \"b\": 2}]"},
  };
  CHECK_EDITS(cases);
}

TEST(new_parents_are_made) {
  const edit_case cases[] = {
      {"{\n    \"a\": 1\n}\n", "b.c", INTEGER(2), "{\n    \"b\": {\"c\": 2},\n    \"a\": 1\n}\n"},
      {"{\"a\": 1}", "b.c.d", INTEGER(2), "{\"a\": 1, \"b\": {\"c\": {\"d\": 2}}}"},
      {"{\n}\n", "b.c", INTEGER(2), "{\n  \"b\": {\"c\": 2}\n}\n"},
      {"{\"a\": 1}", "a.b", INTEGER(2), NULL},
      {"{\"a\": null}", "a.b", INTEGER(2), NULL},
      {"[1]", "a", INTEGER(2), NULL},
  };
  CHECK_EDITS(cases);
}

TEST_MAIN
