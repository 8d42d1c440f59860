// Shell words: where each ends, whatever is quoted, substituted or continued in it. A carriage return
// in front of a line feed belongs to the line's end.
#ifndef PLIM_IO_SHELL_WORDS_H
#define PLIM_IO_SHELL_WORDS_H

#include "settings.h"

#define PLIM_SHELL_DEPTH 64 // of $( ), ${ }, <( ) and ` within each other

struct plim_shell_script;

typedef struct {
  const char *text;
  size_t end;                    // exclusive
  int depth;                     // of what is open around this place
  int substitutions;             // those of them that hold commands
  size_t scope;                  // the one of plim_shell_script that this place is in
  struct plim_shell_script *out; // where commands in substitutions are noted; NULL: nowhere
  plim_error *error;
  plim_err err;
} plim_shell_scan;

// All of these return false with scan->err set if the text breaks off or if memory runs out.

// Over the word that begins here; stays where it is if none does.
bool plim_shell_skip_word(plim_shell_scan *s, size_t *at);
// Over what begins with a $, alone or within "...".
bool plim_shell_skip_dollar(plim_shell_scan *s, size_t *at, bool in_quotes);
// Over "...", from quote to quote.
bool plim_shell_skip_double(plim_shell_scan *s, size_t *at);

// Over blanks and continued lines.
void plim_shell_skip_blanks(const plim_shell_scan *s, size_t *at);
// The bytes of the line's end that stands here; 0 if none does.
size_t plim_shell_newline(const plim_shell_scan *s, size_t at);
// The bytes of ( ... ) from here to the matching one, without a look at what it says; 0: there is none.
size_t plim_shell_parens(const plim_shell_scan *s, size_t at);

bool plim_shell_is_name(char c, bool is_first);
// The bytes of the name that stands here.
size_t plim_shell_name(const plim_shell_scan *s, size_t at);

bool plim_shell_fail(plim_shell_scan *s, size_t at, const char *what);
bool plim_shell_nomem(plim_shell_scan *s);

// Where what begins with a $ (or ", for the second) at `span.begin` ends; 0 if it does not within it.
size_t plim_shell_dollar_end(const char *text, plim_span span, bool in_quotes);
size_t plim_shell_double_end(const char *text, plim_span span);
size_t plim_shell_word_end(const char *text, plim_span span);

#endif
