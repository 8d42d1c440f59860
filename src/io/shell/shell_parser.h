// The state of the shell parser, shared by the files that read simple and compound commands.
#ifndef PLIM_IO_SHELL_PARSER_H
#define PLIM_IO_SHELL_PARSER_H

#include "shell_script.h"

typedef enum { BLOCK_IF, BLOCK_LOOP, BLOCK_BRACE, BLOCK_PAREN, BLOCK_CASE } shell_block_kind;

typedef struct {
  shell_block_kind kind;
  size_t begin;
  size_t line;          // the last line that began with a command of this block
  bool expects_pattern; // a pattern of a case comes next
  size_t scope;         // of its commands that are not after && or |
  size_t list_scope;    // of the list around it, which continues after the block
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
  size_t line;         // the first byte of the line, if no command was read on it yet
  bool is_continued;   // the list continues: && or the like was read last
  bool is_conditional; // the current command may not run
  bool is_function;    // the head of a function was read, and its body comes next
  size_t list_scope;   // the scope of the next command of the list; PLIM_NOWHERE: that of the block
  bool had_or;         // the list contains ||
  size_t list_first;   // the first command of the list
  size_t last;         // the last part of the list if it is a command; otherwise PLIM_NOWHERE
  vec(shell_block) blocks; // the first entry is the script itself
  vec(shell_here_document) waiting;
} shell_parser;

char shell_peek(const shell_parser *p, size_t ahead);
bool shell_is_at(const shell_parser *p, const char *text);
bool shell_is_at_word(const shell_parser *p, const char *word);
bool shell_ends_command(const shell_parser *p);
const char *shell_redirection(const shell_parser *p);

// Skips blanks, line ends and comments.
bool shell_skip_space(shell_parser *p);
// Called when a command begins. If it is the first on its line, another command can be inserted before that line.
bool shell_begin_command(shell_parser *p);
// Skips the ( ) of a function's head.
bool shell_skip_function_parens(shell_parser *p);
bool shell_read_command(shell_parser *p);
// Reads a keyword with its words, an operator or a simple command.
bool shell_read_next(shell_parser *p);

// Adds a scope inside `parent`; false when out of memory.
bool shell_new_scope(shell_parser *p, size_t parent, plim_shell_scope is, size_t *out);
// The scope of the next command.
size_t shell_scope(const shell_parser *p);
// Ends the current list; the next command begins a new one.
void shell_end_list(shell_parser *p);
bool shell_note_command(shell_parser *p, plim_shell_command c, const plim_span *words,
                        size_t count);

static inline shell_block *shell_top(shell_parser *p) { return &p->blocks.at[p->blocks.len - 1]; }

#endif
