// Arithmetic in other people's files.
#include <math.h>
#include <string.h>

#include "evaluate.h"
#include "test.h"

static bool value_of(void *context, const char *name, plim_value *out) {
  static const struct {
    const char *name;
    int64_t value;
  } known[] = {
      {"$GLOBAL", 128}, {"$MICRO", 8}, {"a.bs", 16}, {"CONFIG.train.bs", 4}, {"os.environ.SET", 3}};
  static const struct {
    const char *name, *text;
  } texts[] = {{"$EIGHT", "010"}, {"$NINE", "09"}, {"$HALF", "0.5"}};
  (void)context;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    if (strcmp(texts[i].name, name) == 0) {
      *out = (plim_value){.kind = PLIM_VALUE_TEXT, .text = texts[i].text};
      return true;
    }
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) {
      *out = (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = known[i].value};
      return true;
    }
  return false;
}

static double compute(const char *text, bool is_shell) {
  plim_value v;
  if (!plim_evaluate(text, &(plim_evaluator){value_of, NULL, is_shell}, &v)) return NAN;
  return v.kind == PLIM_VALUE_INTEGER ? (double)v.integer : v.real;
}

#define IS(text, value)                                                                            \
  CHECK(compute(text, false) == (value), "%s is %g", text, compute(text, false))
#define IS_IN_SHELL(text, value)                                                                   \
  CHECK(compute(text, true) == (value), "%s is %g", text, compute(text, true))
#define IS_UNKNOWN(text) CHECK(isnan(compute(text, false)), "%s is %g", text, compute(text, false))
#define IS_UNKNOWN_IN_SHELL(text)                                                                  \
  CHECK(isnan(compute(text, true)), "%s is %g", text, compute(text, true))

TEST(python_computes_as_python_does) {
  IS("64 // 16", 4);
  IS("2 * (3 + 4) - 1", 13);
  IS("-7 // 2", -4);
  IS("-7 % 3", 2);
  IS("7 / 2", 3.5);
  IS("2 ** 10", 1024);
  IS("1_000", 1000);
  IS("64 // a.bs", 4);
  IS("CONFIG[\"train\"]['bs'] * 2", 8);
  IS("CONFIG[\"train\"].get(\"bs\", 9)", 4);
  IS("int(128 / 3)", 42);
  IS("max(1, 8 // a.bs)", 1);
  IS("math.ceil(7 / 2)", 4);
}

TEST(environment_variables_have_their_defaults) {
  IS("int(os.environ.get(\"BS\", \"16\"))", 16);
  IS("int(os.getenv('BS', 8))", 8);
  IS("int(os.environ.get('SET', 8))", 3);
  IS("${oc.env:BS,8}", 8);
  IS("${oc.decode:${oc.env:BS, 8}}", 8);
  IS_UNKNOWN("${oc.env:BS}");
  IS_UNKNOWN("int(os.environ[\"BS\"])");
}

TEST(shells_compute_whole_numbers) {
  IS_IN_SHELL("$((GLOBAL / MICRO / 3))", 5);
  IS_IN_SHELL("\"$(( $GLOBAL / ${MICRO} ))\"", 16);
  IS_IN_SHELL("$MICRO", 8);
  IS_IN_SHELL("${MICRO:-2}", 8);
  IS_UNKNOWN_IN_SHELL("$MICRO*2"); // a text
  IS_UNKNOWN_IN_SHELL("$((MICRO / 0))");
  IS_UNKNOWN_IN_SHELL("$(nproc)");
  IS_IN_SHELL("$((010 + 0x1F))", 39);
  IS_IN_SHELL("$((EIGHT + 1))", 9); // 010
  IS_IN_SHELL("$EIGHT", 10);        // a text that Python reads
  IS_IN_SHELL("$((-2 ** 2))", 4);
  IS_IN_SHELL("$((2 ** 3 ** 2))", 512);
  IS_IN_SHELL("$((-7 / 2))", -3);
  IS_IN_SHELL("$((-7 % 3))", -1);
  static const char *const unknown[] = {
      "$((08))",
      "$((1.5 * 2))",
      "$((1_0))",
      "$((2#101))",
      "$((++MICRO))",
      "$((--MICRO))",
      "$((MICRO++))",
      "$((MICRO = 4))",
      "$((MICRO += 1))",
      "$((2 ** -1))",
      "$((7 // 2))",
      "$((HALF * 2))",
      "$((NINE))",
      "$((1 << 63))",
      "$((MICRO > 1))",
      "$((9223372036854775807 + 1))",
      "$((0x))",
      "$((MICRO, 2))",
      "$((! MICRO))",
      "$((9223372036854775808))",
      "$((-9223372036854775807 - 2))",
  };
  for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) IS_UNKNOWN_IN_SHELL(unknown[i]);
}

TEST(unknown_values_are_not_numbers) {
  IS_UNKNOWN("");
  IS_UNKNOWN("64 // b");
  IS_UNKNOWN("8 if small else 16");
  IS_UNKNOWN("64 // 0");
  IS_UNKNOWN("9223372036854775807 * 9223372036854775807");
  IS_UNKNOWN("len(x)");
  IS_UNKNOWN("\"8\" * 2");
  IS_UNKNOWN("batch = 8");
}

TEST(depth_and_length_are_bounded) {
  char text[4096];
  memset(text, '(', sizeof text - 1), text[sizeof text - 1] = 0;
  IS_UNKNOWN(text);
  memset(text, '-', sizeof text - 1);
  IS_UNKNOWN(text);
}

TEST_MAIN
