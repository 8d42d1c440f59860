// Parses a shell script into its simple commands, in the order of the text, including those in functions, branches, loops,
// pipelines and substitutions. Here-documents and comments contain no commands.
#ifndef PLIM_IO_SHELL_SCRIPT_H
#define PLIM_IO_SHELL_SCRIPT_H

#include "shell_words.h"

#define PLIM_NOWHERE SIZE_MAX

// The commands of one scope run one after the other: when one of them runs, all commands before it in this scope and in
// the enclosing scopes have run. A branch, a loop, a function, a subshell, a part of a pipeline and a command after && or
// || each have a scope of their own.
typedef struct {
  size_t parent;
  bool is_test;     // the condition of an if, but not of an elif
  bool is_and;      // after &&
  bool in_function; // this scope or an enclosing one is a function
  bool in_loop;
} plim_shell_scope;

// One simple command with the assignments before it, or the list of NAME=( ... ).
typedef struct {
  size_t first, count; // range in the script's words; redirections are left out
  size_t begin;
  plim_span list;         // the NAME of NAME=( ... ); empty for a command
  size_t line;            // of the lines above it, where one more command may be put before this
                          // one: that line's first byte; PLIM_NOWHERE: there is no such line
  int substitutions;      // number of $( ) and ` around it
  size_t scope;           // index in the script's scopes
  bool is_plain;          // at the beginning of a line and not in a block
  bool is_conditional;    // in a branch, or after && or ||
  bool has_here_document; // its input is a here-document
} plim_shell_command;

typedef vec(plim_shell_scope) plim_shell_scopes;

typedef struct plim_shell_script {
  vec(plim_span) words;
  vec(plim_shell_command) commands; // by their first byte
  vec(plim_span) comments;          // from # to the end of the line
  plim_shell_scopes scopes; // the first one is the script; a parent comes before its children
  vec(plim_span) changed;   // names that are set by for, select, arithmetic and ${NAME:=...}
} plim_shell_script;

plim_err plim_shell_parse(const char *text, size_t size, plim_shell_script *out, plim_error *error);
void plim_shell_clear(plim_shell_script *script);

// Whether commands of scope `a` have certainly run when a later command of scope `b` runs.
bool plim_shell_has_run(const plim_shell_scopes *scopes, size_t a, size_t b);

// For shell_words.c: records the commands up to `closer` (0: the end of the text) and skips it.
bool plim_shell_commands(plim_shell_scan *s, size_t *at, char closer);
// For shell_words.c: records the names that arithmetic, or the text of a here-document, assigns to.
bool plim_shell_note_arithmetic(plim_shell_scan *s, size_t at, size_t end);
bool plim_shell_note_document(plim_shell_scan *s, size_t at, size_t end);

#endif
