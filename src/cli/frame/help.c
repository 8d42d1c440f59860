#include "help.h"

#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "term.h"

enum { WIDEST = 80, NARROWEST = 40, HELP_COLUMN = 24, MOST_CHOICES = 60, CHOICES_BYTES = 256 };

// ---- shared pieces
// --------------------------------------------------------------------------------

char *help_called(const cli_command *command) {
  return cli_format(command->name ? "plimsoll %s" : "plimsoll", command->name);
}

char *help_positional_label(const cli_positional *positional) {
  const char *more = positional->max > 1 ? "..." : "";
  return cli_format(positional->min == 0 ? "[%s%s]" : "%s%s", positional->name, more);
}

static char *append(char *text, char *more) {
  char *joined = cli_format("%s %s", text, more);
  free(text);
  free(more);
  return joined;
}

// A program's command is shown after --, so that its own options are not taken for plimsoll's.
static char *synopsis_part(const cli_positional *row) {
  if (row->kind != CLI_PROGRAM) return help_positional_label(row);
  return cli_format(row->min ? "-- %s..." : "[-- %s...]", row->name);
}

char *help_synopsis(const cli_command *command) {
  char *called = help_called(command);
  char *text = cli_format(command->name ? "%s [OPTIONS]" : "%s COMMAND [OPTIONS] [...]", called);
  free(called);
  for (size_t i = 0; i < cli_positional_count(command->positionals); i++)
    text = append(text, synopsis_part(&command->positionals[i]));
  return text;
}

static void join_choices(const cli_option *option, const char *between, char *text, size_t size) {
  size_t used = 0;
  *text = 0;
  for (size_t i = 0; option->kind == CLI_CHOICE && option->choices && option->choices[i]; i++)
    if (used < size)
      used +=
          (size_t)snprintf(text + used, size - used, "%s%s", i ? between : "", option->choices[i]);
}

// The text for the value of an option: its choices if they fit beside its name, or a placeholder.
static void argument_text(const cli_option *option, char *text, size_t size) {
  join_choices(option, "|", text, size);
  if (!*text || strlen(text) > MOST_CHOICES)
    snprintf(text, size, "%s", option->argument ? option->argument : "");
}

static bool describes_choices(const cli_option *option) {
  size_t i = 0;
  while (option->choices[i] && strstr(option->help, option->choices[i])) i++;
  return !option->choices[i];
}

char *help_option_text(const cli_option *option) {
  char choices[CHOICES_BYTES];
  join_choices(option, "|", choices, sizeof choices);
  if (strlen(choices) <= MOST_CHOICES || describes_choices(option))
    return cli_format("%s", option->help);
  join_choices(option, ", ", choices, sizeof choices);
  return cli_format("%s\none of: %s", option->help, choices);
}

char *help_option_label(const cli_option *option) {
  char argument[CHOICES_BYTES];
  argument_text(option, argument, sizeof argument);
  const char *blank = *argument ? " " : "", *more = cli_is_repeated(option->kind) ? "..." : "";
  if (!option->name) return cli_format("-%c%s%s%s", option->letter, blank, argument, more);
  if (!option->letter) return cli_format("--%s%s%s%s", option->name, blank, argument, more);
  return cli_format("-%c, --%s%s%s%s", option->letter, option->name, blank, argument, more);
}

const char *help_exit_meaning(const cli_command *command, int code) {
  if (code == CLI_OK) return command->ok ? command->ok : "done";
  return code == CLI_FINDING ? command->finding : "an error: wrong usage, or the command failed";
}

// ---- text -------------------------------------------------------------------------------------

static size_t page_width(FILE *out) {
  int width = term_width(out);
  return (size_t)(width > WIDEST ? WIDEST : width < NARROWEST ? NARROWEST : width);
}

void help_heading(FILE *out, const char *text) {
  fputc('\n', out);
  term_print(out, TERM_BOLD, "%s:", text);
  fputc('\n', out);
}

// "  label     help text, wrapped in its column"
void help_entry(FILE *out, const char *label, const char *text) {
  size_t used = 2 + term_text_width(label);
  fputs("  ", out);
  term_print(out, TERM_CYAN, "%s", label);
  if (used + 2 > HELP_COLUMN) fprintf(out, "\n%*s", HELP_COLUMN, "");
  else fprintf(out, "%*s", (int)(HELP_COLUMN - used), "");
  term_wrap(out, text, HELP_COLUMN, HELP_COLUMN, page_width(out));
}

static void free_entry(FILE *out, char *label, const char *text) {
  help_entry(out, label, text);
  free(label);
}

void help_paragraph(FILE *out, const char *text) {
  fputc('\n', out);
  term_wrap(out, text, 0, 0, page_width(out));
}

static void print_paragraphs(FILE *out, const char *const *paragraphs) {
  for (size_t i = 0; paragraphs && paragraphs[i]; i++) help_paragraph(out, paragraphs[i]);
}

static void print_commands(FILE *out) {
  help_heading(out, "Commands");
  for (size_t i = 0; cli_commands()[i]; i++)
    help_entry(out, cli_commands()[i]->name, cli_commands()[i]->summary);
}

static void print_positionals(FILE *out, const cli_positional *rows) {
  size_t count = cli_positional_count(rows);
  if (count > 0) help_heading(out, "Arguments");
  for (size_t i = 0; i < count; i++) free_entry(out, help_positional_label(&rows[i]), rows[i].help);
}

// The rows that the short help leaves out.
static size_t unusual_count(const cli_option *rows) {
  size_t count = cli_option_count(rows), usual = 0;
  for (size_t i = 0; i < count; i++) usual += rows[i].is_usual;
  return usual ? count - usual : 0;
}

static void print_option_rows(FILE *out, const cli_option *rows, help_length length) {
  bool is_cut = length == HELP_SHORT && unusual_count(rows);
  for (size_t i = 0; i < cli_option_count(rows); i++) {
    if (is_cut && !rows[i].is_usual) continue;
    char *text = help_option_text(&rows[i]);
    free_entry(out, help_option_label(&rows[i]), text);
    free(text);
  }
}

static void print_options(FILE *out, const cli_command *command, help_length length) {
  help_heading(out, "Options");
  print_option_rows(out, command->options, length);
  print_option_rows(out, cli_common_options, length);
}

static void print_examples(FILE *out, const cli_example *examples) {
  if (!examples) return;
  help_heading(out, "Examples");
  for (; examples->command; examples++) {
    fprintf(out, "  %s\n      ", examples->command);
    term_wrap(out, examples->what, 6, 6, page_width(out));
  }
}

static void print_exit_codes(FILE *out, const cli_command *command) {
  help_heading(out, "Exit status");
  for (int code = CLI_OK; code <= CLI_ERROR; code++) {
    const char *meaning = help_exit_meaning(command, code);
    if (!meaning) continue;
    fprintf(out, "  %d  ", code);
    term_wrap(out, meaning, 5, 5, page_width(out));
  }
}

static void print_title(FILE *out, const cli_command *command) {
  char *called = help_called(command), *synopsis = help_synopsis(command);
  term_print(out, TERM_BOLD, "%s", called);
  fputs(": ", out);
  term_wrap(out, command->summary, strlen(called) + 2, 2, page_width(out));
  fprintf(out, "\nUsage: %s\n", synopsis);
  free(called);
  free(synopsis);
}

static void print_pointer(FILE *out, const cli_command *command) {
  char *called = help_called(command);
  size_t more = unusual_count(command->options);
  if (more) fprintf(out, "\nFor the full help, with %zu more options: %s --help\n", more, called);
  else if (command->name) fprintf(out, "\nFor the full help: %s --help\n", called);
  else fprintf(out, "\nFor help on a command: plimsoll COMMAND -h, or plimsoll help COMMAND\n");
  free(called);
}

void help_print(FILE *out, const cli_command *command, help_length length) {
  bool is_program = command == &cli_program;
  print_title(out, command);
  if (length == HELP_FULL) print_paragraphs(out, command->description);
  if (is_program) print_commands(out);
  print_positionals(out, command->positionals);
  print_options(out, command, length);
  if (length == HELP_FULL) {
    print_examples(out, command->examples);
    print_exit_codes(out, command);
  }
  if (is_program || length == HELP_SHORT) print_pointer(out, command);
}

// ---- JSON -------------------------------------------------------------------------------------

static const char *const kind_names[CLI_KIND_COUNT] = {
    [CLI_FLAG] = "flag",        [CLI_STRING] = "string",   [CLI_STRINGS] = "strings",
    [CLI_FILE] = "file",        [CLI_DIR] = "directory",   [CLI_BYTES] = "bytes",
    [CLI_UINT] = "integer",     [CLI_NUMBER] = "number",   [CLI_CHOICE] = "choice",
    [CLI_PROGRAM] = "program",  [CLI_COMMAND] = "command", [CLI_TOPIC] = "topic",
    [CLI_MODEL] = "model",      [CLI_CARD] = "card",       [CLI_KNOBS] = "strings",
    [CLI_SETTINGS] = "strings",
};

static void json_list(json_writer *j, const char *key, const char *const *texts) {
  jsonw_array(j, key);
  for (; texts && *texts; texts++) jsonw_string(j, NULL, *texts);
  jsonw_end(j);
}

static void json_option(json_writer *j, const cli_option *option) {
  char letter[2] = {option->letter, '\0'};
  jsonw_object(j, NULL);
  jsonw_string(j, "name", option->name);
  jsonw_string_or_null(j, "letter", letter);
  jsonw_string(j, "argument", option->argument);
  jsonw_string(j, "kind", kind_names[option->kind]);
  jsonw_string(j, "help", option->help);
  if (option->choices) json_list(j, "choices", option->choices);
  jsonw_end(j);
}

static void json_options(json_writer *j, const char *key, const cli_option *options) {
  jsonw_array(j, key);
  for (size_t i = 0; i < cli_option_count(options); i++) json_option(j, &options[i]);
  jsonw_end(j);
}

static void json_positional(json_writer *j, const cli_positional *positional) {
  jsonw_object(j, NULL);
  jsonw_string(j, "name", positional->name);
  jsonw_string(j, "kind", kind_names[positional->kind]);
  jsonw_string(j, "help", positional->help);
  jsonw_u64(j, "min", positional->min);
  if (positional->max == SIZE_MAX) jsonw_null(j, "max");
  else jsonw_u64(j, "max", positional->max);
  if (positional->choices) json_list(j, "choices", positional->choices);
  jsonw_end(j);
}

static void json_examples(json_writer *j, const cli_example *examples) {
  jsonw_array(j, "examples");
  for (; examples && examples->command; examples++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "command", examples->command);
    jsonw_string(j, "what", examples->what);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void json_command(json_writer *j, const cli_command *command) {
  char *synopsis = help_synopsis(command);
  jsonw_object(j, NULL);
  jsonw_string(j, "name", command->name);
  jsonw_string(j, "summary", command->summary);
  jsonw_string(j, "synopsis", synopsis);
  json_list(j, "description", command->description);
  jsonw_array(j, "arguments");
  for (size_t i = 0; i < cli_positional_count(command->positionals); i++)
    json_positional(j, &command->positionals[i]);
  jsonw_end(j);
  json_options(j, "options", command->options);
  json_examples(j, command->examples);
  jsonw_end(j);
  free(synopsis);
}

void help_print_json(FILE *out, const cli_command *command) {
  json_writer j = jsonw_begin(out);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_string(&j, "version", PLIM_VERSION);
  json_options(&j, "common_options", cli_common_options);
  jsonw_array(&j, "commands");
  for (size_t i = 0; cli_commands()[i]; i++)
    if (command == &cli_program || command == cli_commands()[i])
      json_command(&j, cli_commands()[i]);
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_finish(&j);
}
