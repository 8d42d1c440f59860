#include "parse.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "catalogue.h"
#include "cli_alloc.h"
#include "command.h"
#include "help_lists.h"
#include "option_values.h"
#include "suggest.h"
#include "text_file.h"

static const char *const color_choices[] = {"auto", "always", "never", NULL};

const cli_option cli_common_options[] = {
    {"json", 0, NULL, CLI_FLAG, offsetof(cli_common, json), "print the result as JSON", NULL},
    {"color", 0, "WHEN", CLI_CHOICE, offsetof(cli_common, color),
     "colour the output: auto, always or never", color_choices},
    {NULL, 'h', NULL, CLI_FLAG, offsetof(cli_common, short_help), "print a short help", NULL},
    {"help", 0, NULL, CLI_FLAG, offsetof(cli_common, full_help), "print the full help", NULL},
    {0},
};

// ---- the state of a parse -----------------------------------------------------------------------

typedef struct {
  const cli_command *command;
  cli_call *call;
  cli_usage *usage;
  char **argv;
  int argc, at;
} parser;

// An option together with the struct that contains its field.
typedef struct {
  const cli_option *option;
  char *base;
} match;

// The name of the command for messages: "plimsoll replay", or "plimsoll".
static const char *called(const cli_command *command, char out[64]) {
  snprintf(out, 64, command->name ? "plimsoll %s" : "plimsoll", command->name);
  return out;
}

static const char *article(const char *noun) { return strchr("AEIO", *noun) ? "an" : "a"; }

#define FAIL(p, ...) plim_fail(&(p)->usage->error, PLIM_ERR_ARGUMENT, __VA_ARGS__)
#define HINT(p, ...) plim_error_hint(&(p)->usage->error, __VA_ARGS__)

// ---- values -----------------------------------------------------------------------------------

// The name of the option for messages: "--limit", or "-n" if it has no long name.
static const char *option_text(const cli_option *option, char out[64]) {
  if (option->name) snprintf(out, 64, "--%s", option->name);
  else snprintf(out, 64, "-%c", option->letter);
  return out;
}

// Turns the error of a value into one of the option: names the option, and moves the caret to the value on the command
// line.
static bool fail_value(parser *p, const cli_option *option, const char *value) {
  char name[64], message[sizeof p->usage->error.message];
  plim_error *error = &p->usage->error;
  uint64_t byte = error->byte;
  snprintf(message, sizeof message, "%s", error->message);
  option_text(option, name);
  FAIL(p, "%s: %s", name, message);
  char example[24];
  HINT(p, "%s %s", name, cli_option_example(option, value, example, sizeof example));
  snprintf(p->usage->source, sizeof p->usage->source, "%s %s", name, value);
  plim_error_at(error, strlen(name) + 1 + byte);
  return false;
}

static void mark_given(parser *p, match found) {
  bool is_own = found.base == p->call->args;
  if (is_own && !vec_push(&p->call->given, found.option->offset)) cli_out_of_memory();
}

static bool set_value(parser *p, match found, const char *value) {
  mark_given(p, found);
  plim_err err = cli_option_set(found.option, found.base, value, &p->usage->error);
  if (!err) return true;
  if (err == PLIM_ERR_NOMEM) cli_out_of_memory();
  return fail_value(p, found.option, value);
}

// ---- finding options ----------------------------------------------------------------------------

static match find_in(const cli_option *options, void *base, const char *name, size_t bytes,
                     char letter) {
  for (const cli_option *option = options; option && (option->name || option->letter); option++) {
    bool same_name = name && option->name && strlen(option->name) == bytes &&
                     strncmp(option->name, name, bytes) == 0;
    if (same_name || (letter && option->letter == letter)) return (match){option, base};
  }
  return (match){0};
}

// Finds an option by its long name (of `bytes` bytes), or by its letter if name is NULL.
static match find_option(const parser *p, const char *name, size_t bytes, char letter) {
  match own = find_in(p->command->options, p->call->args, name, bytes, letter);
  if (own.option) return own;
  return find_in(cli_common_options, &p->call->common, name, bytes, letter);
}

static bool is_known_option(const parser *p, const char *word) {
  if (word[0] != '-' || !word[1]) return false;
  if (word[1] != '-') return find_option(p, NULL, 0, word[1]).option != NULL;
  return find_option(p, word + 2, strcspn(word + 2, "="), 0).option != NULL;
}

static const char *nearest_option(const parser *p, const char *name) {
  enum { MOST = 256 };
  const char *names[MOST];
  size_t count = 0;
  const cli_option *tables[] = {p->command->options, cli_common_options};
  for (size_t t = 0; t < 2; t++)
    for (size_t i = 0; i < cli_option_count(tables[t]) && count < MOST; i++)
      names[count++] = tables[t][i].name;
  return plim_suggest(name, names, count);
}

// The row of the user's program; the number of rows if there is none.
static size_t program_row(const cli_command *command) {
  size_t rows = cli_positional_count(command->positionals), i = 0;
  while (i < rows && command->positionals[i].kind != CLI_PROGRAM) i++;
  return i;
}

// Whether it has an option for the user's launch command.
static bool takes_command(const cli_command *command) {
  for (size_t i = 0; i < cli_option_count(command->options); i++)
    if (strcmp(command->options[i].name, "command") == 0) return true;
  return false;
}

static bool fail_unknown(parser *p, const char *word, size_t bytes) {
  char name[64], command[64];
  snprintf(name, sizeof name, "%.*s", (int)bytes, word);
  FAIL(p, "unknown option %s", name);
  called(p->command, command);
  const char *near = nearest_option(p, name + strspn(name, "-"));
  bool has_program = program_row(p->command) < cli_positional_count(p->command->positionals);
  if (!near) {
    HINT(p, "to list the options: %s -h%s", command,
         takes_command(p->command) ? "; options of your training go into --command \"python "
                                     "train.py ...\""
         : has_program             ? "; options of your own program come after its name"
                                   : "");
    return false;
  }
  const cli_option *option = find_option(p, near, strlen(near), 0).option;
  HINT(p, "did you mean --%s%s%s?", near, option->argument ? " " : "",
       option->argument ? option->argument : "");
  return false;
}

// ---- reading words ------------------------------------------------------------------------------

static bool fail_missing_value(parser *p, const cli_option *option) {
  char name[64];
  option_text(option, name);
  const char *what = cli_kinds[option->kind].what;
  if (what) FAIL(p, "%s needs %s", name, what);
  else FAIL(p, "%s needs %s %s", name, article(option->argument), option->argument);
  HINT(p, "%s %s", name, cli_option_example(option, NULL, NULL, 0));
  return false;
}

// Whether the value may be left out, and the next word is not it. Such values are numbers, so that a word of another
// kind is not taken for one.
static bool lacks_value(const parser *p, const cli_option *option) {
  if (option->argument[0] != '[') return false;
  return p->at == p->argc || !isdigit((unsigned char)p->argv[p->at][0]);
}

// The value is the rest of the word, or else the next word, unless that is an option itself.
static bool read_value(parser *p, match found, const char *attached) {
  if (attached) return set_value(p, found, attached);
  if (lacks_value(p, found.option)) {
    mark_given(p, found);
    if (found.option->kind == CLI_UINT)
      *(uint64_t *)(void *)(found.base + found.option->offset) = CLI_LEFT_OUT;
    return true;
  }
  if (p->at == p->argc || strcmp(p->argv[p->at], "--") == 0 || is_known_option(p, p->argv[p->at]))
    return fail_missing_value(p, found.option);
  return set_value(p, found, p->argv[p->at++]);
}

static bool set_flag(parser *p, match found) {
  mark_given(p, found);
  *(bool *)(void *)(found.base + found.option->offset) = true;
  return true;
}

static bool read_long(parser *p, const char *word) {
  size_t bytes = strcspn(word + 2, "=");
  const char *attached = word[2 + bytes] ? word + 3 + bytes : NULL;
  match found = find_option(p, word + 2, bytes, 0);
  if (!found.option) return fail_unknown(p, word, 2 + bytes);
  if (found.option->kind != CLI_FLAG) return read_value(p, found, attached);
  if (!attached) return set_flag(p, found);
  FAIL(p, "--%s takes no value", found.option->name);
  HINT(p, "--%s", found.option->name);
  return false;
}

// Reads short options: -a, -ab (two flags), -n 5, -n5.
static bool read_short(parser *p, const char *word) {
  for (const char *letter = word + 1; *letter; letter++) {
    match found = find_option(p, NULL, 0, *letter);
    if (!found.option) return fail_unknown(p, word, strlen(word));
    if (found.option->kind != CLI_FLAG) return read_value(p, found, letter[1] ? letter + 1 : NULL);
    set_flag(p, found);
  }
  return true;
}

static void add_word(parser *p, const char *word) {
  if (!vec_push(&p->call->words, word)) cli_out_of_memory();
}

static bool is_option(const char *word) { return word[0] == '-' && word[1]; }

// plimsoll simulate python train.py --lr 1e-4: the options of another program are not ours.
static void read_program(parser *p) {
  while (p->at < p->argc)
    if (!vec_push(&p->call->program, p->argv[p->at++])) cli_out_of_memory();
}

static bool read_words(parser *p, bool until_word) {
  size_t row = program_row(p->command);
  bool has_program = row < cli_positional_count(p->command->positionals);
  while (p->at < p->argc) {
    const char *word = p->argv[p->at];
    if (until_word && !is_option(word)) return true;
    if (has_program && row == 0 && !is_option(word)) break;
    p->at++;
    if (strcmp(word, "--") == 0) break;
    if (!is_option(word)) add_word(p, word);
    if (is_option(word) && !(word[1] == '-' ? read_long(p, word) : read_short(p, word)))
      return false;
  }
  if (has_program && !until_word) read_program(p);
  while (!until_word && p->at < p->argc) add_word(p, p->argv[p->at++]);
  return true;
}

// ---- positional arguments
// -------------------------------------------------------------------------

static bool fail_word_choice(parser *p, const cli_positional *row, const char *word) {
  char command[64];
  const char *near = plim_suggest(word, row->choices, cli_choice_count(row->choices));
  HINT(p, "%s %s", called(p->command, command), near ? near : row->choices[0]);
  p->usage->error.byte = PLIM_UNKNOWN; // the message names the word; a caret would add nothing
  return false;
}

static bool fail_word_command(parser *p, const char *word) {
  char command[64];
  const char *near = cli_nearest(word);
  FAIL(p, "unknown command %s", word);
  if (near) HINT(p, "did you mean %s %s?", called(p->command, command), near);
  else HINT(p, "to list the commands: plimsoll -h");
  return false;
}

static bool fail_word_topic(parser *p, const char *word) {
  const char *names[8], *near = cli_nearest(word);
  size_t count = 0;
  for (; help_lists[count].name && count < 8; count++) names[count] = help_lists[count].name;
  if (!near) near = plim_suggest(word, names, count);
  FAIL(p, "there is no help on %s", word);
  if (near) HINT(p, "did you mean plimsoll help %s?", near);
  else HINT(p, "to list the commands: plimsoll -h; the other topics: plimsoll help --help");
  return false;
}

static bool check_word(parser *p, const cli_positional *row, const char *word) {
  int index;
  if (row->kind == CLI_CHOICE && cli_choice_find(row->choices, word, &index, &p->usage->error))
    return fail_word_choice(p, row, word);
  if (row->kind == CLI_COMMAND && !cli_find(word)) return fail_word_command(p, word);
  if (row->kind == CLI_TOPIC && !cli_find(word) && !help_list_named(word))
    return fail_word_topic(p, word);
  return true;
}

static const char *shortest_example(const cli_command *command) {
  const char *shortest = NULL;
  for (const cli_example *e = command->examples; e && e->command; e++)
    if (!shortest || strlen(e->command) < strlen(shortest)) shortest = e->command;
  return shortest;
}

static bool fail_too_few(parser *p, const cli_positional *row) {
  char command[64];
  called(p->command, command);
  const char *example = shortest_example(p->command);
  FAIL(p, "%s needs %s %s: %.*s", p->command->name, article(row->name), row->name,
       (int)strcspn(row->help, ":;"), row->help);
  if (example) HINT(p, "%s", example);
  else HINT(p, "%s %s", command, row->name);
  return false;
}

static bool fail_too_many(parser *p, const char *word) {
  char command[64];
  called(p->command, command);
  bool describes_run = find_option(p, "model", strlen("model"), 0).option != NULL;
  if (describes_run && !cli_positional_count(p->command->positionals)) {
    FAIL(p, "%s does not read files, but \"%s\" was given", p->command->name, word);
    bool is_model = plim_catalogue_named(word) && !plim_is_file(word);
    if (is_model) HINT(p, "%s --model %s", command, word);
    else HINT(p, "plimsoll plan %s --gpu GPU", word);
    return false;
  }
  FAIL(p, "unexpected argument \"%s\"", word);
  HINT(p, "to see the arguments: %s -h", command);
  return false;
}

static bool check_words(parser *p) {
  size_t used = 0, count = p->call->words.len;
  size_t rows = cli_positional_count(p->command->positionals);
  for (size_t i = 0; i < rows; i++) {
    const cli_positional *row = &p->command->positionals[i];
    size_t taken = row->kind == CLI_PROGRAM ? p->call->program.len : 0;
    for (; row->kind != CLI_PROGRAM && taken < row->max && used < count; taken++, used++)
      if (!check_word(p, row, p->call->words.at[used])) return false;
    if (taken < row->min) return fail_too_few(p, row);
  }
  return used == count || fail_too_many(p, p->call->words.at[used]);
}

// ---- the command line -------------------------------------------------------------------------

static void start_call(const cli_command *command, cli_call *call) {
  *call = (cli_call){.command = command, .args = cli_alloc(command->args_size)};
  if (command->defaults) memcpy(call->args, command->defaults, command->args_size);
}

bool cli_parse(const cli_command *command, int argc, char **argv, int first, bool until_word,
               int *next, cli_call *call, cli_usage *usage) {
  parser p = {command, call, usage, argv, argc, first};
  usage->source[0] = '\0';
  start_call(command, call);
  bool ok = read_words(&p, until_word);
  if (next) *next = p.at;
  if (!ok) return false;
  if (until_word || call->common.short_help || call->common.full_help) return true;
  return check_words(&p);
}
