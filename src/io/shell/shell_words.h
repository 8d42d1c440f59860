// Finds the end of shell words, including quoted, substituted and continued parts. A carriage return before a line feed is
// part of the line end.
#ifndef PLIM_IO_SHELL_WORDS_H
#define PLIM_IO_SHELL_WORDS_H

#include "settings.h"

#define PLIM_SHELL_DEPTH 64 // nesting depth of $( ), ${ }, <( ) and `

struct plim_shell_script;

typedef struct {
  const char *text;
  size_t end;                    // exclusive
  int depth;                     // how many constructs are open around this place
  int substitutions;             // how many of them contain commands
  size_t scope;                  // the scope of this place in plim_shell_script
  struct plim_shell_script *out; // receives the commands in substitutions; NULL: they are ignored
  plim_error *error;
  plim_err err;
} plim_shell_scan;

// All of these return false and set scan->err if the text ends too early or if memory runs out.

// Skips the word that begins here; does not move if there is none.
bool plim_shell_skip_word(plim_shell_scan *s, size_t *at);
// Skips an expansion that begins with $, alone or inside "...".
bool plim_shell_skip_dollar(plim_shell_scan *s, size_t *at, bool in_quotes);
// Skips "...", from quote to quote.
bool plim_shell_skip_double(plim_shell_scan *s, size_t *at);

// Skips blanks and continued lines.
void plim_shell_skip_blanks(const plim_shell_scan *s, size_t *at);
// The length of the line end at this place; 0 if there is none.
size_t plim_shell_newline(const plim_shell_scan *s, size_t at);
// The length of ( ... ) from here to the matching parenthesis, without parsing the content; 0 if there is none.
size_t plim_shell_parens(const plim_shell_scan *s, size_t at);

bool plim_shell_is_name(char c, bool is_first);
// The length of the name at this place.
size_t plim_shell_name(const plim_shell_scan *s, size_t at);

bool plim_shell_fail(plim_shell_scan *s, size_t at, const char *what);
bool plim_shell_nomem(plim_shell_scan *s);

// The end of the expansion, the double-quoted string or the word that begins at `span.begin`; 0 if it does not end within
// the span.
size_t plim_shell_dollar_end(const char *text, plim_span span, bool in_quotes);
size_t plim_shell_double_end(const char *text, plim_span span);
size_t plim_shell_word_end(const char *text, plim_span span);

#endif
