// A shell script as its simple commands, in the order of the text, wherever they stand: in functions,
// branches, loops, pipelines and substitutions. Here-documents and comments are no script.
#ifndef PLIM_IO_SHELL_SCRIPT_H
#define PLIM_IO_SHELL_SCRIPT_H

#include "shell_words.h"

#define PLIM_NOWHERE SIZE_MAX

// One simple command with its assignments in front, or the list of NAME=( ... ).
typedef struct {
  size_t first, count; // of the script's words; redirections are left out
  size_t begin;
  plim_span list;         // NAME of NAME=( ... ); empty: a command
  size_t line;            // of the lines above it, where one more command may be put before this
                          // one: that line's first byte; PLIM_NOWHERE: there is no such line
  int substitutions;      // $( ) and ` around it
  bool is_plain;          // stands at the beginning of a line, in no block
  bool is_conditional;    // in a branch, or behind && or ||
  bool has_here_document; // feeds it
} plim_shell_command;

typedef struct plim_shell_script {
  vec(plim_span) words;
  vec(plim_shell_command) commands; // by their first byte
  vec(plim_span) comments;          // from # to the end of the line
  vec(plim_span) loops;             // names that for, select and (( )) set
} plim_shell_script;

plim_err plim_shell_parse(const char *text, size_t size, plim_shell_script *out, plim_error *error);
void plim_shell_clear(plim_shell_script *script);

// For words: notes commands up to `closer` (0: the end of the text), and steps over it.
bool plim_shell_commands(plim_shell_scan *s, size_t *at, char closer);

#endif
