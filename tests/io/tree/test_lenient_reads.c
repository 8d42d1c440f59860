// Texts that libyaml accepts and PyYAML's own scanner refuses. The bytes are those at which yaml.safe_load of PyYAML
// 6.0.3 stops; without one, it reads the text as libyaml does.
#include "lenient_reads.h"
#include "test.h"

#define NONE SIZE_MAX

static const struct {
  const char *text;
  size_t byte;
} rows[] = {
    {"a: 1\t\nb: 2\n", 4},
    {"a: 1\t# c\nb: 2\n", 4},
    {"a:\t1\nb: 2\n", 2},
    {"a: \t1\nb: 2\n", 3},
    {"a: 1\n  \t\nb: 2\n", 7},
    {"a: [1,\t2]\n", 6},
    {"a: [1\t,2]\n", 5},
    {"a: [\t1]\n", 4},
    {"a: [1\t]\n", 5},
    {"a: [1,\n\t2]\n", 7},
    {"a: {b:\t1}\n", 6},
    {"a: {\tb: 1}\n", 4},
    {"a: {b: 1\t}\n", 8},
    {"- a\t\n", 3},
    {"a\t: 1\n", 1},
    {"'a'\t: 1\n", 3},
    {"\"a\"\t: 1\n", 3},
    {"a: 'x'\t\nb: 1\n", 6},
    {"a: \"x\"\t\nb: 1\n", 6},
    {"a: \"x\ty\"\n", NONE},
    {"a: 'x\ty'\n", NONE},
    {"a: x\ty\n", 4},
    {"a: x \ty\n", 5},
    {"a: x\t#y\n", 4},
    {"a: x\t # y\n", 4},
    {"a: |\n  x\ty\n", NONE},
    {"a: |\t\n  x\n", 4},
    {"a: >\t# c\n  x\n", 4},
    {"a: |\n  x\t\n", NONE},
    {"a:\t\n  b: 1\n", 2},
    {"a:\t# c\n  b: 1\n", 2},
    {"a: # c\t\n  b: 1\n", NONE},
    {"---\t\na: 1\n", 3},
    {"a: 1\n...\t\n", 8},
    {"%YAML 1.1\t\n---\na: 1\n", 9},
    {"a: &x\t1\n", 5},
    {"a: !!int\t1\n", 8},
    {"? a\t\n: b\n", 3},
    {"a: b\n \tc\n", 6},
    {"a: 'b\n\tc'\n", NONE},
    {"a: \"b\n\tc\"\n", NONE},
    {"a: \"b \t\n  c\"\n", NONE},
    {"a: b\t\n  c\n", 4},
    {"# c\t\na: 1\n", NONE},
    {"a: [\n\t1\n]\n", 5},
    {"a: [\n  1\t\n]\n", 8},
    {"a: [\n  1,\t\n  2\n]\n", 9},
    {"&x\ta: 1\n", 2},
    {"a: 1 \t\nb: 2\n", 5},
    {"a: true\t\n", 7},
    {"a: ''\t\n", 5},
    {"a: 1\t\t\n", 4},
    {"{a: 1}\t\n", 6},
    {"a: |2\t\n  x\n", 5},
    {"a: |+\t\n  x\n", 5},
    {"a: \"caf\u00e9\"\t\n", 10}, // the mark counts characters, the program bytes
};

TEST(tabs_are_found_where_pyyaml_stops) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plim_lenient_read found[PLIM_LOOSE_KINDS];
    plim_err err =
        plim_lenient_reads_find(PLIM_FORMAT_YAML, rows[i].text, strlen(rows[i].text), found, NULL);
    CHECK(!err, "%s is not read", rows[i].text);
    const plim_lenient_read *tab = &found[PLIM_LOOSE_TAB];
    size_t byte = tab->is_there ? tab->byte : NONE;
    CHECK(byte == rows[i].byte, "row %zu, %s: byte %zu, not %zu", i, rows[i].text, byte,
          rows[i].byte);
  }
}

TEST_MAIN
