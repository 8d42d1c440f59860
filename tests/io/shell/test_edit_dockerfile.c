// Dockerfiles are read as docker build reads them, and changed without touching another byte.
#include <jansson.h>
#include <stdlib.h>

#include "edited.h"
#include "formats.h"
#include "test.h"

static plim_settings s;
static plim_error error;

static bool read_file(const char *text) {
  plim_settings_clear(&s);
  error = (plim_error){0};
  return !plim_settings_read(PLIM_FORMAT_DOCKERFILE, text, strlen(text), &s, &error);
}

// "key=value" of every setting, one per line; values as they are written, followed by the root.
static const char *listing(void) {
  static char out[4096];
  size_t n = 0;
  *out = 0;
  for (size_t i = 0; i < s.at.len; i++) {
    const plim_setting *a = &s.at.at[i];
    n += (size_t)snprintf(out + n, sizeof out - n, "%d %s=%.*s%s%s\n", a->line, a->key,
                          (int)(a->span.end - a->span.begin), s.text + a->span.begin,
                          a->root ? " <- " : "", a->root ? a->root : "");
  }
  return out;
}

static const struct {
  const char *what, *text, *settings;
} readings[] = {
    {"both forms of ENV", "FROM a\nENV A=1 B=\"x y\" C=x\\ y\nENV D some words\nenv E=2\n",
     "2 $A=1\n2 $B=\"x y\"\n2 $C=x\\ y\n3 $D=some words\n4 $E=2\n"},
    {"continued lines, with comments and empty lines between",
     "FROM a\nENV A=1 \\\n    # not this: B=2\n\n    C=3 \\   \n    D=4\n",
     "2 $A=1\n5 $C=3\n6 $D=4\n"},
    {"ARG with and without a default", "ARG T=24.01\nFROM a:${T}\nARG T\nARG N=1 M\n",
     "1 $T=24.01\n4 $N=1\n"},
    {"copies and defaults", "FROM a\nARG A=4\nENV B=$A C=\"${A}\" D=${Z:-7} E=$A/x\n",
     "2 $A=4\n3 $B=$A <- $A\n3 $C=\"${A}\" <- $A\n3 $D=7\n3 $E=$A/x\n"},
    {"arrays",
     "FROM a\nCMD [\"python\", \"train.py\", \"--batch-size\", \"4\", \"--lr=1e-4\", \"--bf16\"]\n",
     "2 --batch-size=\"4\"\n2 --lr=1e-4\n2 --bf16=\n"},
    {"arrays over lines",
     "FROM a\nCMD [\"python\", \"train.py\", \\\n     # smaller\n     \"--bs\", \"4\", \\\n     "
     "\"--n\", \"2\"]\n",
     "4 --bs=\"4\"\n5 --n=\"2\"\n"},
    {"arguments of an entry point",
     "FROM a\nENTRYPOINT [\"python\", \"t.py\"]\nCMD [\"--bs\", \"4\"]\n", "3 --bs=\"4\"\n"},
    {"the shell's form",
     "FROM a\nCMD cd x && torchrun t.py \\\n  --bs 4 \\\n  --name 'a b' | tee log\n",
     "3 --bs=4\n4 --name='a b'\n"},
    {"what is no array is the shell's",
     "FROM a\nCMD ['python', 't.py']\nENTRYPOINT python t.py --a 1\n", "3 --a=1\n"},
    {"RUN: only trainings",
     "FROM a\nRUN apt-get install -y x && make -j 4 && ./b --c 3\n"
     "RUN --mount=type=cache,target=/x python warm.py --steps 3\n",
     "3 --steps=3\n"},
    {"RUN that no shell could read is left alone", "FROM a\nRUN powershell 'x\nENV A=1\n",
     "3 $A=1\n"},
    {"here-documents",
     "FROM a\nRUN <<EOF\nENV A=1\nEOF\nCOPY <<-\"E\" /x\n\tENV B=2\n\tE\nENV C=3\n", "8 $C=3\n"},
    {"stages",
     "FROM a AS x\nENV A=1 B=1\nCMD [\"p.py\", \"--l\", \"1\"]\nFROM b\nENV A=2\nFROM c\nENV A=3 "
     "C=1\nCMD [\"p.py\", \"--l\", \"2\"]\n",
     "7 $A=3\n7 $C=1\n8 --l=\"2\"\n"},
    {"a stage from another",
     "ARG G=0\nFROM a AS One\nENV A=1\nCMD [\"p.py\", \"--l\", \"1\"]\nFROM b AS two\nENV A=2\n"
     "FROM --platform=linux/amd64 one AS three\nENV B=3\nFROM three\nENV C=4\n",
     "1 $G=0\n3 $A=1\n4 --l=\"1\"\n8 $B=3\n10 $C=4\n"},
    {"the last CMD", "FROM a\nCMD p.py --l 1\nCMD p.py --l 2\n", "3 --l=2\n"},
    {"an ENTRYPOINT takes back the CMD below",
     "FROM a AS x\nCMD [\"--l\", \"1\"]\nFROM x\nENTRYPOINT [\"p.py\", \"--m\", \"2\"]\n",
     "4 --m=\"2\"\n"},
    {"a name that only an earlier stage sets", "FROM a\nENV B=8\nFROM b\nCMD p.py --l $B\n",
     "4 --l=$B\n"},
    // From here on according to the Dockerfile reference: "Environment replacement", ARG, CMD and ENTRYPOINT.
    {"values of one instruction are those from before it", "FROM a\nENV A=1 B=$A\nENV C=$A\n",
     "2 $A=1\n2 $B=$A\n3 $C=$A <- $A\n"},
    {"RUN sees what stands above it, CMD all of ENV",
     "FROM a\nRUN python w.py --a $A\nCMD p.py --a $A\nENV A=1\nRUN python x.py --a $A\n",
     "2 --a=$A\n3 --a#2=$A <- $A\n4 $A=1\n5 --a#3=$A <- $A\n"},
    {"a container has no ARG", "FROM a\nARG A=1\nRUN python w.py --a $A\nCMD p.py --a $A\n",
     "2 $A=1\n3 --a=$A <- $A\n4 --a#2=$A\n"},
    {"an ARG above FROM holds where a stage names it",
     "ARG A=1\nARG B=2\nFROM a\nENV C=$A D=$B\nARG B\nENV E=$A F=$B\n",
     "1 $A=1\n2 $B=2\n4 $C=$A\n4 $D=$B\n6 $E=$A\n6 $F=$B <- $B\n"},
    {"what is set twice has no root", "FROM a\nARG A=1\nENV A=2\nCMD p.py --a $A\n",
     "2 $A=1\n3 $A=2\n4 --a=$A\n"},
    {"an array is not expanded", "FROM a\nENV A=1\nCMD [\"p.py\", \"--a\", \"$A\"]\n",
     "2 $A=1\n3 --a=\"$A\"\n"},
    {"but the shell in it expands",
     "FROM a\nENV A=1\nCMD [\"sh\", \"-c\", \"python p.py --a $A\"]\n", "2 $A=1\n3 --a=$A <- $A\n"},
    {"quotes and escapes", "FROM a\nENV A=1\nENV B='$A' C=\\$A D=\"\\$A\" E=\"$A\"\n",
     "2 $A=1\n3 $B='$A'\n3 $C=\\$A\n3 $D=\"\\$A\"\n3 $E=\"$A\" <- $A\n"},
    {"other words than defaults are not followed",
     "FROM a\nENV A=1\nENV B=${A:+2} C=${A#1} D=${A:-3} E=${F:-4}\n",
     "2 $A=1\n3 $B=${A:+2}\n3 $C=${A#1}\n3 $D=${A:-3} <- $A\n3 $E=4\n"},
    {"a default for an empty one", "FROM a\nENV A=\nENV B=${A:-3}\n", "2 $A=\n3 $B=${A:-3}\n"},
    {"a command that sets the variable itself", "FROM a\nENV A=1\nCMD A=2; python p.py --a $A\n",
     "2 $A=1\n3 --a=$A\n"},
    {"an entry point for the shell takes no CMD",
     "FROM a\nENTRYPOINT python p.py --a 1\nCMD [\"--a\", \"2\"]\n", "2 --a=1\n"},
    {"a CMD for the shell is no argument of an entry point",
     "FROM a\nENTRYPOINT [\"python\", \"p.py\", \"--a\", \"1\"]\nCMD python q.py --a 2\n",
     "2 --a=\"1\"\n"},
    {"a command in an array",
     "FROM a\nCMD [\"bash\", \"-c\", \"torchrun t.py --n 1 --x $X && y\"]\n",
     "2 --n=1\n2 --x=$X\n"},
    {"overrides", "FROM a\nCMD [\"python\", \"t.py\", \"model.r=8\", \"+x=[1,2]\"]\n",
     "2 model.r=8\n2 x=[1,2]\n"},
    {"another escape",
     "# escape=`\nFROM a\nENV P=C:\\x `\n    Q=1\nCMD [\"p.py\", `\n  \"--n\", \"1\"]\n",
     "3 $P=C:\\x\n4 $Q=1\n6 --n=\"1\"\n"},
    {"line ends of Windows, no end",
     "FROM a\r\nENV A=1 \\\r\n B=2\r\nCMD [\"p.py\", \"--n\", \"1\"]",
     "2 $A=1\n3 $B=2\n4 --n=\"1\"\n"},
    {"comments", "FROM a\n# why\nENV A=1\n", "3 $A=1\n"},
    {"nothing", "", ""},
};

TEST(dockerfiles_are_read) {
  for (size_t i = 0; i < sizeof readings / sizeof *readings; i++) {
    bool is_read = read_file(readings[i].text);
    CHECK(is_read, "%s: %s", readings[i].what, error.message);
    CHECK(strcmp(listing(), readings[i].settings) == 0, "%s:\n%swant\n%s", readings[i].what,
          listing(), readings[i].settings);
  }
  CHECK(read_file("FROM a\n# why\n# so\nENV A=1\n"), "%s", error.message);
  CHECK_STR(s.at.at[0].comment, "why\nso");
  plim_settings_clear(&s);
}

TEST(only_shells_evaluate_arithmetic) {
  CHECK(read_file("FROM a\nENV A=4 B=$((1+2))\nCMD p.py --a $((A*2))\n"), "%s", error.message);
  const plim_setting *env = plim_settings_find(&s, "$B"), *flag = plim_settings_find(&s, "--a");
  CHECK(env && env->value.kind == PLIM_VALUE_DERIVED && env->computed.kind == PLIM_VALUE_NULL,
        "$B");
  CHECK(flag && flag->computed.integer == 8, "--a");
}

TEST(values_are_decoded) {
  CHECK(read_file("FROM a\nENV A='x' B=\"y\\\"z\" C=a\\ b D=True E=1e-4\n"
                  "CMD [\"p.py\", \"--f\", \"a\\tb\"]\n"),
        "%s", error.message);
  CHECK_STR(s.at.at[0].value.text, "x");
  CHECK_STR(s.at.at[1].value.text, "y\"z");
  CHECK_STR(s.at.at[2].value.text, "a b");
  CHECK(s.at.at[3].value.kind == PLIM_VALUE_BOOL && s.at.at[3].value.flag, "D");
  CHECK(s.at.at[4].value.kind == PLIM_VALUE_REAL && s.at.at[4].value.real == 1e-4, "E");
  CHECK_STR(s.at.at[5].value.text, "a\tb");
  plim_settings_clear(&s);
}

// ---- changes ----------------------------------------------------------------------------------------

static const edit_row rows[] = {
    {"FROM a\nENV A=1 B=2\n", "$B", INT(3), "FROM a\nENV A=1 B=3\n"},
    {"FROM a\nENV A=\"x\"\n", "$A", TEXT("y z"), "FROM a\nENV A=\"y z\"\n"},
    {"FROM a\nENV A=x\n", "$A", TEXT("$y"), "FROM a\nENV A='$y'\n"},
    {"FROM a\nENV A some words\n", "$A", INT(3), "FROM a\nENV A 3\n"},
    {"FROM a\nENV A x\n", "$A", TEXT("y z"), NULL},
    {"FROM a\nENV A=1\n", "$A", TEXT("y\nz"), NULL},
    {"ARG A=1\nFROM a:$A", "$A", INT(2), "ARG A=2\nFROM a:$A"},
    {"FROM a\nENV A=1\nFROM b\nENV A=2\n", "$A", INT(3), "FROM a\nENV A=1\nFROM b\nENV A=3\n"},
    {"FROM a\nENV A=$B\n", "$A", INT(1), NULL},
    // A smaller batch and more accumulation steps, as in one of the example projects.
    {"FROM a\nCMD [\"python\", \"train.py\", \\\n     \"--batch-size\", \"8\", \\\n     "
     "\"--gradient-accumulation-steps\", \"16\"]\n",
     "--batch-size", INT(4),
     "FROM a\nCMD [\"python\", \"train.py\", \\\n     \"--batch-size\", \"4\", \\\n     "
     "\"--gradient-accumulation-steps\", \"16\"]\n"},
    {"FROM a\nCMD [\"p.py\",\"--lr=1e-4\"]", "--lr", REAL(2e-5),
     "FROM a\nCMD [\"p.py\",\"--lr=2e-5\"]"},
    {"FROM a\nCMD [\"p.py\", \"--n\", \"x\"]", "--n", TEXT("a \"b\" \\"),
     "FROM a\nCMD [\"p.py\", \"--n\", \"a \\\"b\\\" \\\\\"]"},
    {"FROM a\nCMD [\"p.py\", \"--x\", \"--n\", \"1\"]", "--x", BOOL(false),
     "FROM a\nCMD [\"p.py\", \"--n\", \"1\"]"},
    {"FROM a\nCMD [\"p.py\", \"--x\", \"--n\", \"1\"]", "--x", TEXT("full"),
     "FROM a\nCMD [\"p.py\", \"--x\", \"full\", \"--n\", \"1\"]"},
    {"FROM a\nCMD python t.py \\\r\n  --bs 4\r\n", "--bs", INT(2),
     "FROM a\nCMD python t.py \\\r\n  --bs 2\r\n"},
    {"FROM a\nCMD python t.py --x --bs 4\n", "--x", BOOL(false),
     "FROM a\nCMD python t.py --bs 4\n"},
    // New variables go after the last ENV of the last stage.
    {"FROM a\nENV A=1\nFROM b\nRUN x\n", "$N", INT(1), "FROM a\nENV A=1\nFROM b\nENV N=1\nRUN x\n"},
    {"FROM b\nENV A=\"1\" \\\n  B=\"2\"\nRUN x\n", "$N", INT(1),
     "FROM b\nENV A=\"1\" \\\n  B=\"2\"\nENV N=\"1\"\nRUN x\n"},
    {"FROM b\r\nENV A=1", "$N", INT(1), "FROM b\r\nENV A=1\r\nENV N=1"},
    {"FROM b\nENV A=1\n", "$N", TEXT("x y"), "FROM b\nENV A=1\nENV N='x y'\n"},
    {"ARG A=1\n", "$N", INT(1), NULL},
    // New flags.
    {"FROM a\nCMD [\"python\", \"t.py\"]\n", "--n", INT(1),
     "FROM a\nCMD [\"python\", \"t.py\", \"--n\", \"1\"]\n"},
    {"FROM a\nCMD [\"python\", \"t.py\", \"--a=1\"]\n", "--n", INT(1),
     "FROM a\nCMD [\"python\", \"t.py\", \"--a=1\", \"--n=1\"]\n"},
    {"FROM a\nCMD [\"python\", \"t.py\", \\\n  \"--a\", \"1\"]\n", "--n", INT(1),
     "FROM a\nCMD [\"python\", \"t.py\", \\\n  \"--a\", \"1\", \\\n  \"--n\", \"1\"]\n"},
    {"FROM a\nENTRYPOINT [\"python\", \"t.py\"]\nCMD [\"--a\", \"1\"]\n", "--n", BOOL(true),
     "FROM a\nENTRYPOINT [\"python\", \"t.py\"]\nCMD [\"--a\", \"1\", \"--n\"]\n"},
    {"FROM a\nENTRYPOINT [\"python\", \"t.py\"]\n", "x.y", INT(1),
     "FROM a\nENTRYPOINT [\"python\", \"t.py\", \"++x.y=1\"]\n"},
    {"FROM a\nCMD cd x && python t.py --a 1 | tee log\n", "--n", INT(1),
     "FROM a\nCMD cd x && python t.py --a 1 --n 1 | tee log\n"},
    {"FROM a\nCMD python t.py \\\n  --a 1\n", "--n", INT(1),
     "FROM a\nCMD python t.py \\\n  --a 1 \\\n  --n 1\n"},
    {"FROM a\nCMD [\"bash\"]\n", "--n", INT(1), NULL},
    {"FROM a\nCMD python a.py && python b.py\n", "--n", INT(1), NULL},
    {"FROM a\nRUN python t.py\n", "--n", INT(1), NULL},
};

static bool has_json(const char *text) {
  const char *array = strstr(text, "CMD [");
  char joined[512];
  size_t n = 0;
  for (const char *c = array ? array + 4 : "[]"; *c && n < sizeof joined - 1; c++)
    if (c[0] == '\\' && c[1] == '\n') c++;
    else joined[n++] = *c;
  joined[n] = 0;
  json_t *root = json_loads(joined, JSON_DISABLE_EOF_CHECK, NULL);
  json_decref(root);
  return root != NULL;
}

TEST(changes_are_exact) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *got = edited(PLIM_FORMAT_DOCKERFILE, &rows[i], &error);
    bool is_right = got && rows[i].after ? strcmp(got, rows[i].after) == 0 : !got && !rows[i].after;
    if (!is_right)
      printf("%s of\n%sgot\n%s\n", rows[i].key, rows[i].before, got ? got : error.message);
    if (!got) CHECK(*error.message, "%s is refused without a word", rows[i].key);
    bool is_json = !got || has_json(got);
    free(got);
    CHECK(is_right && is_json, "row %zu", i);
  }
}

TEST(invalid_dockerfiles_are_refused) {
  CHECK(!read_file("FROM a\n{\"json\": 1}\n"), "read");
  CHECK(error.code == PLIM_ERR_PARSE && error.byte == 7, "%s", error.message);
}

TEST(hostile_files_end) {
  static const char *const parts[] = {
      "ENV A=1\n", "ENV A=1 \\\n", "CMD [\"\n",          "RUN <<E\n", "A=1 ",
      "#\n\\\n",   "CMD $(",       "FROM a\nENV A=$A\n", "\""};
  enum { SIZE = 1 << 20 };
  char *text = malloc(SIZE);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    memcpy(text, "FROM a\nENV ", 11);
    for (size_t k = 11; k < SIZE; k++) text[k] = parts[i][(k - 11) % strlen(parts[i])];
    if (!plim_settings_read(PLIM_FORMAT_DOCKERFILE, text, SIZE, &s, &error))
      plim_settings_clear(&s);
  }
  free(text);
}

TEST_MAIN
