// A shell script as its simple commands, in the order of the text, wherever they stand: in functions,
// branches, loops, pipelines and substitutions. Here-documents and comments are no script.
#ifndef PLIM_IO_SHELL_SCRIPT_H
#define PLIM_IO_SHELL_SCRIPT_H

#include "shell_words.h"

#define PLIM_NOWHERE SIZE_MAX

// Commands of one scope run one after the other: when one of them runs, those before it have run, and
// so have those before it in the scopes around. A branch, a loop, a function, a subshell, a part of a
// pipeline and what stands after && or || are scopes of their own.
typedef struct {
  size_t parent;
  bool is_test;     // the condition of an if, without those of its elif
  bool is_and;      // after &&
  bool in_function; // here or around it
  bool in_loop;
} plim_shell_scope;

// One simple command with its assignments in front, or the list of NAME=( ... ).
typedef struct {
  size_t first, count; // of the script's words; redirections are left out
  size_t begin;
  plim_span list;         // NAME of NAME=( ... ); empty: a command
  size_t line;            // of the lines above it, where one more command may be put before this
                          // one: that line's first byte; PLIM_NOWHERE: there is no such line
  int substitutions;      // $( ) and ` around it
  size_t scope;           // of the script's scopes
  bool is_plain;          // stands at the beginning of a line, in no block
  bool is_conditional;    // in a branch, or after && or ||
  bool has_here_document; // feeds it
} plim_shell_command;

typedef vec(plim_shell_scope) plim_shell_scopes;

typedef struct plim_shell_script {
  vec(plim_span) words;
  vec(plim_shell_command) commands; // by their first byte
  vec(plim_span) comments;          // from # to the end of the line
  plim_shell_scopes scopes;         // the first one is the script; parents come before
  vec(plim_span) changed;           // names that for, select, arithmetic and ${NAME:=...} set
} plim_shell_script;

plim_err plim_shell_parse(const char *text, size_t size, plim_shell_script *out, plim_error *error);
void plim_shell_clear(plim_shell_script *script);

// Whether what has run at the end of scope `a` has run in scope `b` as well, if it stands before it.
bool plim_shell_has_run(const plim_shell_scopes *scopes, size_t a, size_t b);

// For words: notes commands up to `closer` (0: the end of the text), and steps over it.
bool plim_shell_commands(plim_shell_scan *s, size_t *at, char closer);
// For words: notes the names that arithmetic, or the text of a here-document, assigns to.
bool plim_shell_note_arithmetic(plim_shell_scan *s, size_t at, size_t end);
bool plim_shell_note_document(plim_shell_scan *s, size_t at, size_t end);

#endif
