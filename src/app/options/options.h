// Tables of commands, options and positional arguments, and the parsed command line.
#ifndef PLIM_CLI_OPTIONS_H
#define PLIM_CLI_OPTIONS_H

#include "plimsoll.h"
#include "vec.h"

// The kind of a value: how it is parsed, the type of its field, and how a shell completes it.
typedef enum {
  CLI_FLAG,     // bool; takes no value
  CLI_STRING,   // const char *, pointing into argv
  CLI_STRINGS,  // cli_strings; may be given more than once
  CLI_FILE,     // const char *; a path
  CLI_DIR,      // const char *; a path of a directory
  CLI_BYTES,    // uint64_t; 24GiB
  CLI_UINT,     // uint64_t
  CLI_NUMBER,   // double
  CLI_CHOICE,   // int; index into the row's choices
  CLI_COMMAND,  // const char *; the name of one of our commands
  CLI_PROGRAM,  // last positional: a command of the user's and its options; after others, behind --
  CLI_TOPIC,    // const char *; a command, or one of the lists that help prints
  CLI_MODEL,    // const char *; a name of the catalogue, or a path
  CLI_CARD,     // const char *; a card's name, or a size
  CLI_KNOBS,    // cli_strings of the planner's knobs
  CLI_SETTINGS, // cli_strings of knobs with a value: checkpoint=on
  CLI_KIND_COUNT
} cli_kind;

typedef vec(const char *) cli_strings;

#define CLI_LEFT_OUT UINT64_MAX // of CLI_UINT: the option was given without its value

bool cli_is_repeated(cli_kind kind); // fills cli_strings

// One option: one row. A table ends with {0}.
//
//   {"limit", 0, "SIZE", CLI_BYTES, offsetof(args, limit_bytes), "memory limit", NULL}
typedef struct cli_option {
  const char *name; // without the dashes; NULL: the option has a letter only
  char letter;      // its short form, or 0
  const char *
      argument; // placeholder in the help; NULL for a flag; "[N]": a number that may be left out, which
                // leaves the field as it is, or makes it CLI_LEFT_OUT (CLI_UINT)
  cli_kind kind;    //
  size_t offset;    // of the field in the command's args struct
  const char *help; // begins in lower case, no full stop; a line for each choice may follow
  const char *const *choices; // for CLI_CHOICE, ends with NULL
  bool is_usual;              // in the short help; where no row of a table is, all of them are
} cli_option;

// One positional argument: one row. A table ends with {0}.
typedef struct cli_positional {
  const char *name; // as in the help: SNAPSHOT
  const char *help;
  cli_kind kind;
  size_t min, max;            // how many; max SIZE_MAX: any number (only in the last row)
  const char *const *choices; // for CLI_CHOICE, ends with NULL
} cli_positional;

// Options that every command accepts.
typedef struct {
  bool json;
  int color; // a term_when
  bool short_help, full_help;
} cli_common;

// A parsed command line (cli/frame/parse.h).
typedef struct cli_call {
  const struct cli_command *command;
  cli_common common;
  void *args;              // the command's own args struct
  vec(const char *) words; // the positional arguments, except the user's program
  vec(const char *) program;
  vec(size_t) given; // offsets of the fields that were typed, even if the value is the default
} cli_call;

typedef struct {
  const char *command; // as typed
  const char *what;    // what it does, one line
} cli_example;

typedef struct cli_command {
  const char *name;                  // NULL: the program itself
  const char *summary;               // one line, lower case, no full stop
  const cli_positional *positionals; // or NULL
  const cli_option *options;         // its own, without the common ones; or NULL
  size_t args_size;                  // sizeof its args struct; 0 if it has none
  const void *defaults;              // an args struct to start from; NULL: all zero
  int (*run)(const cli_call *call);  // returns a CLI_ exit code
  const char *const *description;    // paragraphs, ends with NULL; or NULL
  const cli_example *examples;       // ends with {0}; or NULL
  const char *ok;                    // what exit code 0 means for this command; NULL: done
  const char *finding; // what exit code 1 means for this command; NULL: it does not occur
} cli_command;

// Whether the option that fills the field at this offset of the args struct was typed.
bool cli_was_given(const cli_call *call, size_t offset);

// The number of rows without the closing one; 0 for NULL.
size_t cli_option_count(const cli_option *options);
size_t cli_positional_count(const cli_positional *positionals);

#endif
