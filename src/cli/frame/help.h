// Help as text and as data, and the pieces of it that man pages and completion share.
#ifndef PLIM_CLI_HELP_H
#define PLIM_CLI_HELP_H

#include <stdio.h>

#include "command.h"
#include "json_writer.h"

typedef enum { HELP_SHORT, HELP_FULL } help_length; // -h and --help

// Never wider than 80 columns. `command` may be &cli_program.
void help_print(FILE *out, const cli_command *command, help_length length);

// One JSON document: a command with its options, or all of them for &cli_program.
void help_print_json(FILE *out, const cli_command *command);

// "plimsoll replay", "plimsoll replay [OPTIONS] SNAPSHOT", "-V, --version", "--limit SIZE".
// The caller frees them.
char *help_called(const cli_command *command);
char *help_synopsis(const cli_command *command);
char *help_option_label(const cli_option *option);
char *
help_option_text(const cli_option *option); // with its choices if the label has no room for them
char *help_positional_label(const cli_positional *positional);

// The pieces of a page: a heading, "  label     text, wrapped in its column", a paragraph.
void help_heading(FILE *out, const char *text);
void help_entry(FILE *out, const char *label, const char *text);
void help_paragraph(FILE *out, const char *text);

// What the exit codes mean: a line per code from CLI_OK to CLI_ERROR; NULL: it does not occur.
const char *help_exit_meaning(const cli_command *command, int code);

#endif
