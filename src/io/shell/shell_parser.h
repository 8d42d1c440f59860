// How a script is read: the state of the parser, shared by simple and compound commands.
#ifndef PLIM_IO_SHELL_PARSER_H
#define PLIM_IO_SHELL_PARSER_H

#include "shell_script.h"

typedef enum { BLOCK_IF, BLOCK_LOOP, BLOCK_BRACE, BLOCK_PAREN, BLOCK_CASE } shell_block_kind;

typedef struct {
  shell_block_kind kind;
  size_t begin;
  size_t line;          // the last line that began with a command of this block
  bool expects_pattern; // of a case
  size_t scope;         // of its commands, if no && or | stands before them
  size_t list_scope;    // of the list around it, to go on with
  bool had_or;
} shell_block;

typedef struct {
  plim_span delimiter; // as written
  bool strips_tabs;
} shell_here_document;

typedef struct {
  plim_shell_scan *s;
  size_t at;
  char closer;
  bool is_done, is_closed;
  size_t line;             // the first byte of the line, if no command stood on it yet
  bool is_continued;       // a list goes on: && and the like came last
  bool is_conditional;     // the current command may not run
  bool is_function;        // a function's head was read, and its body comes
  size_t list_scope;       // of what comes next in the list; PLIM_NOWHERE: the block's
  bool had_or;             // || stands in the list
  size_t list_first;       // command of the list
  size_t last;             // command, if it is the last part of the list; else PLIM_NOWHERE
  vec(shell_block) blocks; // the first one is no block but the text around all of them
  vec(shell_here_document) waiting;
} shell_parser;

char shell_peek(const shell_parser *p, size_t ahead);
bool shell_is_at(const shell_parser *p, const char *text);
bool shell_is_at_word(const shell_parser *p, const char *word);
bool shell_ends_command(const shell_parser *p);
const char *shell_redirection(const shell_parser *p);

// Over blanks, line ends and comments, where they mean nothing.
bool shell_skip_space(shell_parser *p);
// A command begins: its line is one before which another can be put, if it is the first on it.
bool shell_begin_command(shell_parser *p);
// Over the ( ) of a function's head; its body goes with it.
bool shell_skip_function_parens(shell_parser *p);
bool shell_read_command(shell_parser *p);
// A keyword with what belongs to it, an operator or a simple command.
bool shell_read_next(shell_parser *p);

// Another scope within the current one; false when out of memory.
bool shell_new_scope(shell_parser *p, size_t parent, plim_shell_scope is, size_t *out);
// The scope of the command that comes next.
size_t shell_scope(const shell_parser *p);
// What comes next begins a list.
void shell_end_list(shell_parser *p);
bool shell_note_command(shell_parser *p, plim_shell_command c, const plim_span *words,
                        size_t count);

static inline shell_block *shell_top(shell_parser *p) { return &p->blocks.at[p->blocks.len - 1]; }

#endif
