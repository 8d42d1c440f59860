#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "command.h"
#include "help.h"
#include "text_result.h"

typedef struct {
  const char *dir;
} man_args;

// ---- roff -------------------------------------------------------------------------------------

// Writes text so that roff prints it literally: backslashes and dashes are escaped, and no line begins like a request.
static void literal(FILE *out, const char *text) {
  if (*text == '.' || *text == '\'') fputs("\\&", out);
  for (; *text; text++) {
    if (*text == '\\') fputs("\\e", out);
    else if (*text == '-') fputs("\\-", out);
    else if (*text == '\n') fputs("\n.br\n", out);
    else fputc(*text, out);
    if (*text == '\n' && (text[1] == '.' || text[1] == '\'')) fputs("\\&", out);
  }
}

static void line(FILE *out, const char *text) {
  literal(out, text);
  fputc('\n', out);
}

// Writes a tagged paragraph with a bold tag.
static void tagged(FILE *out, const char *tag, const char *text) {
  fputs(".TP\n\\fB", out);
  literal(out, tag);
  fputs("\\fR\n", out);
  line(out, text);
}

static void free_tagged(FILE *out, char *tag, const char *text) {
  tagged(out, tag, text);
  free(tag);
}

// ---- sections -----------------------------------------------------------------------------------

// The name of the man page of a command: "plimsoll-replay".
static char *page_name(const cli_command *command) {
  return cli_format(command->name ? "plimsoll-%s" : "plimsoll", command->name);
}

static void write_name(FILE *out, const cli_command *command) {
  char *name = page_name(command);
  fprintf(out, ".TH \"%s\" 1 \"\" \"plimsoll %s\" \"Plimsoll\"\n", name, PLIM_VERSION);
  fputs(".SH NAME\n", out);
  literal(out, name);
  fputs(" \\- ", out);
  line(out, command->summary);
  free(name);
}

static void write_synopsis(FILE *out, const cli_command *command) {
  char *synopsis = help_synopsis(command);
  fputs(".SH SYNOPSIS\n", out);
  line(out, synopsis);
  free(synopsis);
}

static void write_description(FILE *out, const cli_command *command) {
  if (command->description) fputs(".SH DESCRIPTION\n", out);
  for (size_t i = 0; command->description && command->description[i]; i++) {
    if (i > 0) fputs(".PP\n", out);
    line(out, command->description[i]);
  }
}

static void write_commands(FILE *out) {
  fputs(".SH COMMANDS\n", out);
  for (size_t i = 0; cli_commands()[i]; i++)
    tagged(out, cli_commands()[i]->name, cli_commands()[i]->summary);
}

static void write_positionals(FILE *out, const cli_positional *rows) {
  size_t count = cli_positional_count(rows);
  if (count > 0) fputs(".SH ARGUMENTS\n", out);
  for (size_t i = 0; i < count; i++)
    free_tagged(out, help_positional_label(&rows[i]), rows[i].help);
}

static void write_option_rows(FILE *out, const cli_option *rows) {
  for (size_t i = 0; i < cli_option_count(rows); i++) {
    char *text = help_option_text(&rows[i]);
    free_tagged(out, help_option_label(&rows[i]), text);
    free(text);
  }
}

static void write_options(FILE *out, const cli_command *command) {
  fputs(".SH OPTIONS\n", out);
  write_option_rows(out, command->options);
  write_option_rows(out, cli_common_options);
}

static void write_examples(FILE *out, const cli_example *examples) {
  if (examples) fputs(".SH EXAMPLES\n", out);
  for (; examples && examples->command; examples++) tagged(out, examples->command, examples->what);
}

static void write_exit_status(FILE *out, const cli_command *command) {
  fputs(".SH EXIT STATUS\n", out);
  for (int code = CLI_OK; code <= CLI_ERROR; code++) {
    const char *meaning = help_exit_meaning(command, code);
    if (meaning) free_tagged(out, cli_format("%d", code), meaning);
  }
}

static void write_see_also(FILE *out, const cli_command *command) {
  fputs(".SH SEE ALSO\n", out);
  if (command->name) fputs(".BR plimsoll (1)\n", out);
  for (size_t i = 0; !command->name && cli_commands()[i]; i++)
    fprintf(out, ".BR plimsoll\\-%s (1)%s\n", cli_commands()[i]->name,
            cli_commands()[i + 1] ? "," : "");
}

static void write_page(FILE *out, const void *context) {
  const cli_command *command = context;
  write_name(out, command);
  write_synopsis(out, command);
  write_description(out, command);
  if (command == &cli_program) write_commands(out);
  write_positionals(out, command->positionals);
  write_options(out, command);
  write_examples(out, command->examples);
  write_exit_status(out, command);
  write_see_also(out, command);
}

// ---- the command --------------------------------------------------------------------------------

static int write_file(const char *dir, const cli_command *command) {
  char *name = page_name(command), *path = cli_format("%s/%s.1", dir, name);
  FILE *out = fopen(path, "w");
  if (out) write_page(out, command);
  bool failed = !out || ferror(out);
  if (out && fclose(out) != 0) failed = true;
  int status = CLI_OK;
  if (!out && errno == ENOENT) status = cli_fail("%s does not exist: mkdir %s", dir, dir);
  else if (failed) status = cli_fail("cannot write %s: %s", path, strerror(errno));
  free(name);
  free(path);
  return status;
}

static int write_all(const char *dir) {
  int status = write_file(dir, &cli_program);
  for (size_t i = 0; cli_commands()[i] && status == CLI_OK; i++)
    status = write_file(dir, cli_commands()[i]);
  return status;
}

static int run(const cli_call *call) {
  const man_args *args = call->args;
  if (args->dir) return write_all(args->dir);
  const cli_command *about = call->words.len ? cli_find(call->words.at[0]) : &cli_program;
  return text_result_print(call, write_page, about);
}

static const cli_positional positionals[] = {
    {"COMMAND", "the command whose page to print (default: the page of plimsoll itself)",
     CLI_COMMAND, 0, 1, NULL},
    {0},
};

static const cli_option options[] = {
    {"dir", 0, "DIR", CLI_DIR, offsetof(man_args, dir), "write all pages to this folder", NULL},
    {0},
};

static const char *const description[] = {
    "Prints a manual page in roff format, with the same text as --help.",
    NULL,
};

static const cli_example examples[] = {
    {"plimsoll man replay | man -l -", "read the page of replay"},
    {"plimsoll man --dir /usr/local/share/man/man1", "install all pages"},
    {0},
};

const cli_command cmd_man = {
    .name = "man",
    .summary = "print a manual page",
    .positionals = positionals,
    .options = options,
    .args_size = sizeof(man_args),
    .run = run,
    .description = description,
    .examples = examples,
};
