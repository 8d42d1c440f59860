// YAML files are read as PyYAML reads them, and a change affects no other byte. edits.sh checks the results with PyYAML
// itself.
#include "edits.h"
#include "formats.h"
#include "test.h"

#define CHECK_LIST(text, want) CHECK_STR(listed(PLIM_FORMAT_YAML, text), want)
#define CHECK_EDITS(cases)                                                                         \
  CHECK(edits_hold(PLIM_FORMAT_YAML, cases, sizeof cases / sizeof *cases), "see above")
#define REFUSED(text, part)                                                                        \
  CHECK(strstr(listed(PLIM_FORMAT_YAML, text), part), "%s", listed(PLIM_FORMAT_YAML, text))

// ---- reading ----------------------------------------------------------------------------------------

TEST(scalars_have_the_kind_that_pyyaml_gives_them) {
  CHECK_LIST("a: yes\nb: Off\nc: TRUE\nd: 'no'\ne: y\n",
             "a bool true\nb bool false\nc bool true\nd text no\ne text y\n");
  CHECK_LIST("a: 1e-5\nb: 1.0e-5\nc: 1.0e5\nd: .5\ne: +.5\nf: 1.0e+9\n",
             "a text 1e-5\nb real 1.0000000000000001e-05\nc text 1.0e5\nd real 0.5\ne text +.5\n"
             "f real 1000000000\n");
  CHECK_LIST("a: 010\nb: 0o10\nc: 08\nd: 0x1F\ne: 0b11\nf: 1_000\ng: 1:30\nh: -1:30.5\n",
             "a int 8\nb text 0o10\nc text 08\nd int 31\ne int 3\nf int 1000\ng int 90\n"
             "h real -90.5\n");
  CHECK_LIST("a:\nb: ~\nc: Null\nd: nULL\ne: ''\n",
             "a null \nb null \nc null \nd text nULL\ne text \n");
  CHECK_LIST("a: .inf\nb: -.INF\nc: .NaN\nd: inf\n",
             "a real inf\nb real -inf\nc real nan\nd text inf\n");
}

TEST(tags_decide_the_kind) {
  CHECK_LIST("a: !!int \"3\"\nb: !!str 3\nc: !!float 3\nd: !!bool \"YES\"\ne: ! 12\n",
             "a int 3\nb text 3\nc real 3\nd bool true\ne int 12\n");
  CHECK_LIST("a: !mine 3\nb: 2024-01-02\nc: 99999999999999999999\n",
             "a derived 3\nb derived 2024-01-02\nc derived 99999999999999999999\n");
}

TEST(keys_are_paths) {
  CHECK_LIST("a:\n  b: [1, {c: 2}]\n  d.e: 3\n'f\\': 4\n",
             "a.b.0 int 1\na.b.1.c int 2\na.d\\.e int 3\nf\\\\ int 4\n");
  CHECK_LIST("--- {a: 1}\n---\nb: 2\n...\n", "a int 1\nb int 2\n");
  CHECK_LIST("'': {a: 1}\nb: {'': 2}\n? [c]\n: 3\n", "b. int 2\n");
}

TEST(the_last_of_duplicate_keys_takes_effect) {
  CHECK_LIST("a: 1\nb: 2\na: 3\n", "a int 1\nb int 2\na int 3\n");
  CHECK_LIST("a: {b: 1, c: 2}\na: {b: 3}\n", "a.b int 3\n");
  CHECK_LIST("a: 1\na: 2\na: {b: 3}\n", "a.b int 3\n");
  CHECK_LIST("a: {b: 3}\na: 1\na: 2\n", "a int 1\na int 2\n");
}

TEST(aliases_and_merges_name_their_root) {
  CHECK_LIST("a: &x 5\nb: *x\n", "a int 5\nb derived *x <- a\n");
  CHECK_LIST("d: &d {lr: 1, opt: {k: 2}}\nr:\n  lr: 3\n  <<: *d\n",
             "d.lr int 1\nd.opt.k int 2\nr.lr int 3\nr.opt.k derived *d <- d.opt.k\n");
  CHECK_LIST("a: &a {x: 1}\nb: &b {x: 2, y: 2}\nc: {<<: [*a, *b]}\n",
             "a.x int 1\nb.x int 2\nb.y int 2\nc.x derived *a <- a.x\nc.y derived *b <- b.y\n");
  CHECK_LIST("a: &a [*a, 1]\n", "a.0 derived *a\na.1 int 1\n");
  REFUSED("a: *nobody\n", "refused: line 1: no anchor &nobody");
}

TEST(interpolations_name_their_root) {
  CHECK_LIST("b: 4\nv: ${b}\nw: ${v}\n", "b int 4\nv derived ${b} <- b\nw derived ${v} <- b\n");
  CHECK_LIST("m: {n: [7], o: '${.n[0]}', p: '${m.o}'}\n",
             "m.n.0 int 7\nm.o derived '${.n[0]}' <- m.n.0\nm.p derived '${m.o}' <- m.n.0\n");
  CHECK_LIST("a: ${oc.env:X,4}\nb: ${a}/x\nc: ${c}\nd: ${nobody}\n",
             "a derived ${oc.env:X,4}\nb derived ${a}/x\nc derived ${c}\nd derived ${nobody}\n");
}

TEST(comments_are_found) {
  CHECK_LIST("a: 1 # one\n# above\n#  more\nb: 2\n\n# far\n\nc: '#' #x\n",
             "a int 1 # one\nb int 2 # above more\nc text # # x\n");
  CHECK_LIST("a: |  # block\n  # text\nb: 1\nc: [1, 2] # list\n",
             "a text # text\n # block\nb int 1\nc.0 int 1\nc.1 int 2 # list\n");
}

TEST(lines_are_counted) {
  static const char text[] = "a: 1\r\nb: &x !!str\r\n  z\r\nc: |\r\n  t\r\nd:\r\n";
  plim_settings s;
  CHECK(!plim_settings_read(PLIM_FORMAT_YAML, text, strlen(text), &s, NULL), "read");
  static const int lines[] = {1, 3, 4, 6};
  CHECK_U64(s.at.len, 4u);
  for (size_t i = 0; i < s.at.len; i++)
    CHECK(s.at.at[i].line == lines[i], "%s: %d", s.at.at[i].key, s.at.at[i].line);
  plim_settings_clear(&s);
}

TEST(invalid_yaml_is_refused_with_the_position) {
  plim_settings s;
  plim_error error = {0};
  static const char text[] = "a: 1\nb: [1\n";
  CHECK(plim_settings_read(PLIM_FORMAT_YAML, text, strlen(text), &s, &error), "read");
  CHECK(error.code == PLIM_ERR_PARSE && error.byte == strlen(text), "%s", error.message);
  REFUSED("a: \xff\n", "is not valid UTF-8");
  CHECK(plim_settings_read(PLIM_FORMAT_YAML, "a\0:\0", 4, &s, &error), "read");
  CHECK(strstr(error.message, "UTF-16") && *error.hint, "%s", error.message);
}

TEST(exploding_aliases_are_refused) {
  char deep[512] = "a: ";
  memset(deep + 3, '[', 100);
  REFUSED(deep, "nested more than 64 levels deep");
  char bomb[2048] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; i++) {
    char line[200];
    snprintf(line, sizeof line, "a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i,
             i, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    strcat(bomb, line);
  }
  REFUSED(bomb, "expands to more settings");
}

// ---- changing ---------------------------------------------------------------------------------------

TEST(new_values_look_like_the_old) {
  const edit_case cases[] = {
      {"a: 4\n", "a", INTEGER(8), "a: 8\n"},
      {"a: 1_000_000\n", "a", INTEGER(2500000), "a: 2_500_000\n"},
      {"a: True\n", "a", FLAG(false), "a: False\n"},
      {"a: off # x\n", "a", FLAG(true), "a: on # x\n"},
      {"a: 1\nb: False\n", "a", FLAG(true), "a: True\nb: False\n"},
      {"a: 1.0e-4\n", "a", REAL(2e-5), "a: 2.0e-5\n"},
      {"a: 3e-4\n", "a", REAL(1e-5), "a: 1.0e-5\n"},
      {"a: 1.5E+9\n", "a", REAL(5e8), "a: 5.0E+8\n"},
      {"a: 0.0001\n", "a", REAL(2e-5), "a: 0.00002\n"},
      {"a: 1\n", "a", REAL(1e22), "a: 1.0e+22\n"},
      {"a: 1\n", "a", REAL(3), "a: 3.0\n"},
      {"a: x\n", "a", NONE, "a: null\n"},
  };
  CHECK_EDITS(cases);
}

TEST(text_is_quoted_where_it_must_be) {
  const edit_case cases[] = {
      {"a: bf16\n", "a", WORDS("fp16"), "a: fp16\n"},
      {"a: bf16\n", "a", WORDS("no"), "a: \"no\"\n"},
      {"a: bf16\n", "a", WORDS("1.5"), "a: \"1.5\"\n"},
      {"a: bf16\n", "a", WORDS("x: y # z"), "a: \"x: y # z\"\n"},
      {"a: bf16\n", "a", WORDS(""), "a: \"\"\n"},
      {"a: bf16\n", "a", WORDS("2024-01-02"), "a: \"2024-01-02\"\n"},
      {"a: bf16\n", "a", WORDS("1e-5"), "a: 1e-5\n"},
      {"a: 'x'\n", "a", WORDS("it's"), "a: 'it''s'\n"},
      {"a: 'x'\n", "a", WORDS("two\nlines"), "a: \"two\\nlines\"\n"},
      {"a: \"x\"\n", "a", WORDS("a\\b\"c\xe2\x80\xa8"), "a: \"a\\\\b\\\"c\\u2028\"\n"},
      {"a: [x,y]\n", "a.0", WORDS("p,q"), "a: [\"p,q\",y]\n"},
      {"a: 'x'#c\n", "a", INTEGER(1), "a: 1 #c\n"},
      {"a: x\n", "a", WORDS("${b}"), NULL},
      {"a: x\n", "a", WORDS("\xff"), NULL},
      {"a: !!int 3\n", "a", WORDS("x"), NULL},
      {"a: !!int 3\n", "a", INTEGER(4), "a: !!int 4\n"},
      {"b: 1\na: ${b}\n", "a", INTEGER(1), NULL},
  };
  CHECK_EDITS(cases);
}

TEST(blank_values_are_filled) {
  const edit_case cases[] = {
      {"a:\nb: 1\n", "a", WORDS("x"), "a: x\nb: 1\n"},
      {"a:   # why\n", "a", INTEGER(1), "a: 1   # why\n"},
      {"a:", "a", FLAG(true), "a: true"},
      {"- \n-\n", "1", INTEGER(2), "- \n- 2\n"},
      {"{a: , b}\n", "a", INTEGER(2), "{a: 2, b}\n"},
      {"{a: , b}\n", "b", INTEGER(2), "{a: , b: 2}\n"},
      {"a: &x\nb: *x\n", "a", INTEGER(2), "a: &x 2\nb: *x\n"},
  };
  CHECK_EDITS(cases);
}

TEST(values_over_several_lines_are_replaced_whole) {
  const edit_case cases[] = {
      {"a: two\n  words\nb: 1\n", "a", WORDS("one"), "a: one\nb: 1\n"},
      {"a: \"two\n  words\" # c\n", "a", WORDS("one"), "a: \"one\" # c\n"},
      {"a: | # c\n   x\n   y\n\nb: 1\n", "a", WORDS("p\n\nq\n"),
       "a: | # c\n   p\n\n   q\n\nb: 1\n"},
      {"a: | # c\n  x\n\nb: 1\n", "a", WORDS("p"), "a: \"p\" # c\n\nb: 1\n"},
      {"a: >-\r\n  x\r\n  y\r\nb: 1\r\n", "a", WORDS("p q"), "a: >-\r\n  p q\r\nb: 1\r\n"},
      {"a: |+\n  x\n\n\nb: 1\n", "a", INTEGER(3), "a: 3\nb: 1\n"},
      {"a: |\n  x", "a", INTEGER(3), "a: 3"},
  };
  CHECK_EDITS(cases);
}

TEST(comments_stay_in_their_column) {
  const edit_case cases[] = {
      {"a: 8     # one\nbb: 1    # two\n", "a", INTEGER(128), "a: 128   # one\nbb: 1    # two\n"},
      {"bb: 1    # two\r\na: 128   # one\r\n", "a", INTEGER(8),
       "bb: 1    # two\r\na: 8     # one\r\n"},
      {"a: 8  # one\nbbb: 1 # two\n", "a", INTEGER(128), "a: 128  # one\nbbb: 1 # two\n"},
      {"a: 8 # one\nb: 1 # two\n", "a", INTEGER(12345), "a: 12345 # one\nb: 1 # two\n"},
  };
  CHECK_EDITS(cases);
}

TEST(encoding_and_line_ends_stay) {
  const edit_case cases[] = {
      {"\xef\xbb\xbf"
       "a: 1\r\nb: \xc3\xa4\r\nc: 2",
       "c", INTEGER(3),
       "\xef\xbb\xbf"
       "a: 1\r\nb: \xc3\xa4\r\nc: 3"},
      {"\xc3\xa4: \xe6\xbc\xa2 # \xc3\xb6\nb: 1 # x\n", "b", INTEGER(2),
       "\xc3\xa4: \xe6\xbc\xa2 # \xc3\xb6\nb: 2 # x\n"},
  };
  CHECK_EDITS(cases);
}

// ---- inserting --------------------------------------------------------------------------------------

TEST(new_keys_go_after_the_last) {
  const edit_case cases[] = {
      {"a: 1\n", "b", INTEGER(2), "a: 1\nb: 2\n"},
      {"a: 1", "b", INTEGER(2), "a: 1\nb: 2"},
      {"a: 1\r\n", "b", WORDS("yes"), "a: 1\r\nb: \"yes\"\r\n"},
      {"a:\n   b: 1 # x\n   # y\nc: 2\n", "a.d", INTEGER(2),
       "a:\n   b: 1 # x\n   d: 2\n   # y\nc: 2\n"},
      {"a:\n- b: 1\n- c: 2\n", "a.0.d", INTEGER(2), "a:\n- b: 1\n  d: 2\n- c: 2\n"},
      {"a: |\n  x\n\n\nb:\n  c: |+\n    y\n\n", "b.d", INTEGER(2),
       "a: |\n  x\n\n\nb:\n  c: |+\n    y\n\n  d: 2\n"},
      {"a: 1\n---\nb:\n  c: 1\n", "b.d", INTEGER(2), "a: 1\n---\nb:\n  c: 1\n  d: 2\n"},
      {"'a': 1\n", "b", FLAG(true), "'a': 1\n'b': true\n"},
      {"", "b", INTEGER(2), "b: 2\n"},
      {"# only this", "b", INTEGER(2), "# only this\nb: 2"},
      {"a: 1\n", "x\\.y", REAL(1e-5), "a: 1\nx.y: 1.0e-5\n"},
  };
  CHECK_EDITS(cases);
}

TEST(new_parents_are_made_where_there_is_one_place) {
  const edit_case cases[] = {
      {"a:\n    b: 1\n", "c.d", INTEGER(2), "a:\n    b: 1\nc:\n    d: 2\n"},
      {"a: # x\nb: 1\n", "a.c.d", INTEGER(2), "a: # x\n  c:\n    d: 2\nb: 1\n"},
      {"a: {b: 1}\n", "a.c.d", INTEGER(2), "a: {b: 1, c: {d: 2}}\n"},
      {"a: null\n", "a.c", INTEGER(2), NULL},
      {"a: [1]\n", "a.c", INTEGER(2), NULL},
      {"a: &x {b: 1}\nc: *x\n", "c.d", INTEGER(2), NULL},
      {"a: 1\n---\nb: 2\n", "c", INTEGER(2), NULL},
      {"- 1\n", "c", INTEGER(2), NULL},
  };
  CHECK_EDITS(cases);
}

TEST(new_keys_in_brackets) {
  const edit_case cases[] = {
      {"a: {}\n", "a.b", INTEGER(2), "a: {b: 2}\n"},
      {"{a: 1,b: 2}\n", "c", INTEGER(3), "{a: 1,b: 2,c: 3}\n"},
      {"{a: 1, }\n", "b", INTEGER(3), "{a: 1, b: 3 }\n"},
      {"{\n   \"a\": 1 # x\n}\n", "b", WORDS("y"), "{\n   \"a\": 1, # x\n   \"b\": y\n}\n"},
      {"{\n   a: 1, # x\n}\n", "b", INTEGER(3), "{\n   a: 1, # x\n   b: 3,\n}\n"},
      {"{a}\n", "b", INTEGER(3), "{a, b: 3}\n"},
      {"{\n}\n", "b", INTEGER(3), "{\n  b: 3\n}\n"},
  };
  CHECK_EDITS(cases);
}

// A block of text at the end of the file would get one more line feed.
TEST(text_around_a_new_key_is_unchanged) {
  const edit_case cases[] = {
      {"a: |\n  x", "b", INTEGER(2), NULL},
      {"a: |-\n  x", "b", INTEGER(2), "a: |-\n  x\nb: 2"},
  };
  CHECK_EDITS(cases);
}

TEST(an_existing_key_is_not_added) {
  plim_settings s;
  plim_edit edit;
  plim_error error = {0};
  plim_value value = INTEGER(1);
  CHECK(!plim_settings_read(PLIM_FORMAT_YAML, "a: {b: 1}", 9, &s, &error), "%s", error.message);
  CHECK(plim_settings_insert(&s, "a", &value, &edit, &error) == PLIM_ERR_ARGUMENT, "a");
  CHECK(plim_settings_insert(&s, "a.b", &value, &edit, &error) == PLIM_ERR_ARGUMENT, "a.b");
  CHECK_STR(error.message, "a.b is already set");
  plim_settings_clear(&s);
}

TEST_MAIN
