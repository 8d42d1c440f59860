#include "program.h"
#include "test.h"

#include <stddef.h>

typedef struct {
  bool fast, loud;
  const char *name, *file;
  cli_strings tags;
  uint64_t limit_bytes, count, chunk;
  double ratio;
  int mode;
} sample_args;

static const char *const modes[] = {"slow", "medium", "quick", NULL};
static const sample_args defaults = {.limit_bytes = PLIM_UNKNOWN, .count = 3, .ratio = 0.5};

#define AT(field) offsetof(sample_args, field)
static const cli_option options[] = {
    {"fast", 'f', NULL, CLI_FLAG, AT(fast), "", NULL},
    {"loud", 'l', NULL, CLI_FLAG, AT(loud), "", NULL},
    {"name", 0, "STR", CLI_STRING, AT(name), "", NULL},
    {"file", 'o', "FILE", CLI_FILE, AT(file), "", NULL},
    {"tag", 't', "TAG", CLI_STRINGS, AT(tags), "", NULL},
    {"limit", 0, "SIZE", CLI_BYTES, AT(limit_bytes), "", NULL},
    {"count", 'n', "N", CLI_UINT, AT(count), "", NULL},
    {"chunk", 0, "[N]", CLI_UINT, AT(chunk), "", NULL},
    {"ratio", 0, "R", CLI_NUMBER, AT(ratio), "", NULL},
    {"mode", 0, "MODE", CLI_CHOICE, AT(mode), "", modes},
    {0},
};
static const cli_positional positionals[] = {
    {"INPUT", "file to read: any", CLI_FILE, 1, 1, NULL},
    {"MODE", "", CLI_CHOICE, 0, 1, modes},
    {0},
};
static const cli_command sample = {
    .name = "sample",
    .positionals = positionals,
    .options = options,
    .args_size = sizeof(sample_args),
    .defaults = &defaults,
};

static cli_call call;
static cli_usage usage;
static sample_args got; // the args of the last parse; strings in it point into argv

// Parses "sample WORD..."; the words are copied out of `call`, which is cleared at once.
static const char *words[8];
static size_t word_count;

static bool parse(const char *const *argv) {
  int argc = 0;
  while (argv[argc]) argc++;
  bool ok = cli_parse(&sample, argc, (char **)argv, 0, false, NULL, &call, &usage);
  got = *(sample_args *)call.args;
  word_count = call.words.len;
  for (size_t i = 0; i < word_count && i < 8; i++) words[i] = call.words.at[i];
  return ok;
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})
#define DONE cli_call_clear(&call)

#define REJECTED(want_message, want_hint, ...)                                                     \
  do {                                                                                             \
    bool accepted = PARSE(__VA_ARGS__);                                                            \
    DONE;                                                                                          \
    CHECK(!accepted, "accepted");                                                                  \
    CHECK_STR(usage.error.message, want_message);                                                  \
    CHECK_STR(usage.error.hint, want_hint);                                                        \
  } while (0)

// ---- programs of the user's -------------------------------------------------------------------------

static const cli_positional with_program[] = {
    {"FILES", "", CLI_FILE, 0, SIZE_MAX, NULL},
    {"COMMAND", "", CLI_PROGRAM, 0, SIZE_MAX, NULL},
    {0},
};
static const cli_command planner = {.name = "planner",
                                    .positionals = with_program,
                                    .options = options,
                                    .args_size = sizeof(sample_args),
                                    .defaults = &defaults};
static const cli_command runner = {.name = "runner",
                                   .positionals = with_program + 1,
                                   .options = options,
                                   .args_size = sizeof(sample_args),
                                   .defaults = &defaults};

TEST(a_program_after_two_dashes_is_kept_apart_from_files) {
  char *argv[] = {"a.yaml", "-f", "--", "python", "b.py", "--count", "x", "--"};
  CHECK(cli_parse(&planner, 8, argv, 0, false, NULL, &call, &usage), "%s", usage.error.message);
  CHECK(call.words.len == 1 && call.program.len == 5, "%zu words, %zu of the program",
        call.words.len, call.program.len);
  CHECK_STR(call.program.at[0], "python");
  CHECK_STR(call.program.at[4], "--");
  DONE;
  CHECK(cli_parse(&planner, 1, argv, 0, false, NULL, &call, &usage), "%s", usage.error.message);
  CHECK(call.words.len == 1 && !call.program.len, "a file is no program");
  DONE;
}

TEST(a_command_that_runs_a_program_needs_no_dashes) {
  char *argv[] = {"-f", "python", "-f", "--no-such-option"};
  CHECK(cli_parse(&runner, 4, argv, 0, false, NULL, &call, &usage), "%s", usage.error.message);
  CHECK(!call.words.len && call.program.len == 3, "%zu words of the program", call.program.len);
  DONE;
}

TEST(defaults_hold_where_nothing_is_given) {
  CHECK(PARSE("in"), "%s", usage.error.message);
  DONE;
  CHECK_U64(got.limit_bytes, PLIM_UNKNOWN);
  CHECK_U64(got.count, 3u);
  CHECK(!got.fast && !got.name && got.ratio == 0.5 && got.mode == 0, "a default is lost");
}

TEST(values_of_every_kind_reach_their_field) {
  CHECK(PARSE("--fast", "--name", "x", "--file=y", "--limit", "24GB", "--count=7", "--ratio", "0.8",
              "--mode", "quick", "in"),
        "%s", usage.error.message);
  DONE;
  CHECK(got.fast && !got.loud, "flags");
  CHECK_STR(got.name, "x");
  CHECK_STR(got.file, "y");
  CHECK_U64(got.limit_bytes, 24000000000u);
  CHECK_U64(got.count, 7u);
  CHECK(got.ratio == 0.8 && got.mode == 2, "ratio %g mode %d", got.ratio, got.mode);
}

// The next word may be the user's program, so only a number is a value.
TEST(an_optional_value_may_be_left_out) {
  static const struct {
    char *argv[4];
    int argc;
    uint64_t chunk;
    size_t program;
  } cases[] = {
      {{"python", "a.py"}, 2, 0, 2},
      {{"--chunk", "python", "a.py"}, 3, CLI_LEFT_OUT, 2},
      {{"--chunk", "--", "python"}, 3, CLI_LEFT_OUT, 1},
      {{"--chunk", "-f", "python"}, 3, CLI_LEFT_OUT, 1},
      {{"--chunk", "256", "python"}, 3, 256, 1},
      {{"--chunk=256", "python"}, 2, 256, 1},
      {{"--chunk"}, 1, CLI_LEFT_OUT, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bool ok =
        cli_parse(&runner, cases[i].argc, (char **)cases[i].argv, 0, false, NULL, &call, &usage);
    got = *(sample_args *)call.args;
    size_t program = call.program.len;
    bool was_given = cli_was_given(&call, AT(chunk));
    DONE;
    CHECK(ok, "case %zu: %s", i, usage.error.message);
    CHECK(got.chunk == cases[i].chunk && program == cases[i].program, "case %zu", i);
    CHECK(was_given == (cases[i].chunk != 0), "case %zu", i);
  }
  char *wrong[] = {"--chunk=many", "python"};
  CHECK(!cli_parse(&runner, 2, wrong, 0, false, NULL, &call, &usage), "accepted");
  DONE;
  CHECK_STR(usage.error.hint, "--chunk 1");
}

TEST(short_forms) {
  CHECK(PARSE("-fl", "-n", "5", "-oout", "in"), "%s", usage.error.message);
  DONE;
  CHECK(got.fast && got.loud, "clustered flags");
  CHECK_U64(got.count, 5u);
  CHECK_STR(got.file, "out");
}

TEST(options_may_follow_words) {
  CHECK(PARSE("in", "--fast", "medium", "-l"), "%s", usage.error.message);
  DONE;
  CHECK(got.fast && got.loud && word_count == 2, "%zu words", word_count);
  CHECK_STR(words[1], "medium");
}

TEST(a_dash_is_a_word_and_two_end_the_options) {
  CHECK(PARSE("-"), "%s", usage.error.message);
  DONE;
  CHECK_STR(words[0], "-");
  CHECK(PARSE("--", "--fast"), "%s", usage.error.message);
  DONE;
  CHECK_STR(words[0], "--fast");
  CHECK(!got.fast, "--fast after -- was taken as an option");
}

TEST(repeatable_options_collect) {
  CHECK(PARSE("-t", "a", "--tag=b", "in"), "%s", usage.error.message);
  bool right = got.tags.len == 2 && strcmp(got.tags.at[1], "b") == 0;
  DONE;
  CHECK(right, "tags are not a, b");
}

TEST(an_empty_value_is_a_value) {
  CHECK(PARSE("--name=", "in"), "%s", usage.error.message);
  DONE;
  CHECK_STR(got.name, "");
}

TEST(common_options_are_on_every_command) {
  CHECK(PARSE("--json", "--color=never", "in"), "%s", usage.error.message);
  bool json = call.common.json;
  int color = call.common.color;
  DONE;
  CHECK(json && color == 2, "json %d color %d", json, color);
}

TEST(help_needs_nothing_else) {
  CHECK(PARSE("-h"), "%s", usage.error.message);
  DONE;
  CHECK(PARSE("--help", "a", "slow", "superfluous"), "%s", usage.error.message);
  DONE;
}

TEST(unknown_options_are_named) {
  REJECTED("unknown option --cuont", "did you mean --count N?", "in", "--cuont=3");
  REJECTED("unknown option --fst", "did you mean --fast?", "--fst", "in");
  REJECTED("unknown option --zzzzzz", "to list the options: plimsoll sample -h", "--zzzzzz");
  REJECTED("unknown option -fz", "to list the options: plimsoll sample -h", "-fz");
}

TEST(missing_and_superfluous_values) {
  REJECTED("--limit needs a SIZE", "--limit 24GiB", "in", "--limit");
  REJECTED("--name needs a STR", "--name STR", "in", "--name", "--fast");
  REJECTED("--fast takes no value", "--fast", "--fast=1", "in");
}

TEST(bad_values_point_at_the_place) {
  REJECTED("--count: \"7x\" is not a whole number", "--count 7", "in", "-n", "7x");
  CHECK_STR(usage.source, "--count 7x");
  CHECK_U64(usage.error.byte, 9u);
  REJECTED("--mode: \"quik\" is not allowed; use slow, medium or quick", "--mode quick", "in",
           "--mode=quik");
  CHECK_U64(usage.error.byte, 7u);
}

TEST(words_are_counted_and_checked) {
  REJECTED("sample needs an INPUT: file to read", "plimsoll sample INPUT", "--fast");
  REJECTED("unexpected argument \"x\"", "to see the arguments: plimsoll sample -h", "a", "slow",
           "x");
  REJECTED("\"mediun\" is not allowed; use slow, medium or quick", "plimsoll sample medium", "a",
           "mediun");
}

TEST(parsing_can_stop_at_the_first_word) {
  const char *argv[] = {"plimsoll", "--json", "replay", "--tune", NULL};
  int next = 0;
  bool ok = cli_parse(&cli_program, 4, (char **)argv, 1, true, &next, &call, &usage);
  bool json = call.common.json;
  DONE;
  CHECK(ok && json && next == 2, "ok %d json %d next %d", ok, json, next);
}

// The tables must be complete, so that help, man page and completion are correct.
TEST(every_command_row_is_complete) {
  cli_set_commands(plimsoll_commands);
  for (size_t i = 0; plimsoll_commands[i]; i++) {
    const cli_command *command = plimsoll_commands[i];
    CHECK(command->name && command->summary && command->run, "row %zu", i);
    CHECK(cli_find(command->name) == command, "%s is there twice", command->name);
    for (size_t k = 0; k < cli_option_count(command->options); k++) {
      const cli_option *option = &command->options[k];
      CHECK((option->kind == CLI_FLAG) == !option->argument, "%s --%s", command->name,
            option->name);
      CHECK((option->kind == CLI_CHOICE) == !!option->choices, "%s --%s", command->name,
            option->name);
      CHECK(option->offset < command->args_size, "%s --%s", command->name, option->name);
      CHECK(option->help && *option->help, "%s --%s", command->name, option->name);
    }
  }
}

// The report of an error; the caret must be under the offending byte, whatever the text is.
static const char *report(const char *file, uint64_t byte, const char *source) {
  static char text[1024];
  plim_error error;
  plim_fail(&error, PLIM_ERR_PARSE, "wrong");
  plim_error_at(&error, byte);
  snprintf(error.file, sizeof error.file, "%s", file);
  memset(text, 0, sizeof text);
  FILE *out = fmemopen(text, sizeof text, "w");
  cli_report_text(out, &error, source);
  fclose(out);
  return text;
}

TEST(reports_show_file_line_and_caret) {
  CHECK_STR(report("a.sh", 6, "one\ntwo three\nfour"), "error: wrong\n  --> a.sh:2\n"
                                                       "   |  two three\n   |    ^\n");
  CHECK_STR(report("a.pickle", 77, NULL), "error: wrong\n  --> a.pickle, byte 77\n");
  CHECK_STR(report("a.pickle", PLIM_UNKNOWN, NULL), "error: wrong\n  --> a.pickle\n");
  CHECK_STR(report("", 2, "\u00e9\tb"), "error: wrong\n   |  \u00e9 b\n   |   ^\n");
  CHECK_STR(report("", 99, "ab"), "error: wrong\n   |  ab\n   |    ^\n");
}

// Only the part around the byte is shown, even if the line consists of bytes that look like the inside of a character.
TEST(reports_of_lines_that_are_not_utf8_stay_short) {
  char line[4096], shown[64];
  memset(line, 0x80, sizeof line);
  line[sizeof line - 1] = 0;
  const char *text = report("", 4000, line);
  const char *caret = strchr(text, '^');
  snprintf(shown, sizeof shown, "\n   |  %*s^\n", 53, "");
  CHECK(caret && strlen(text) < 300, "%zu bytes", strlen(text));
  CHECK(strstr(text, shown) != NULL, "the caret is elsewhere:\n%s", text);
}

TEST(long_lines_are_shown_around_the_offence) {
  char source[400];
  memset(source, 'x', sizeof source - 1);
  source[sizeof source - 1] = '\0';
  source[300] = '!';
  const char *text = report("", 300, source);
  const char *bang = strchr(text, '!'), *caret = strchr(text, '^');
  const char *line = strstr(text, "   |  "), *next = strchr(line, '\n') + 1;
  CHECK(bang && caret && bang - line == caret - next, "%s", text);
  CHECK(next - line <= 80, "%s", text);
}

TEST_MAIN
