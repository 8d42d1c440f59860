// Reads and writes values of shell scripts and Dockerfiles with the quoting that their place requires; there is one table
// row per kind of place.
#ifndef PLIM_IO_QUOTING_H
#define PLIM_IO_QUOTING_H

#include <stdio.h>

#include "value.h"

typedef enum {
  PLIM_WORD_WORD,           // a shell word, or the end of one
  PLIM_WORD_SINGLE,         // within '...'
  PLIM_WORD_DOUBLE,         // within "..."
  PLIM_WORD_DEFAULT,        // ${NAME:-here}
  PLIM_WORD_DEFAULT_DOUBLE, // "${NAME:-here}"
  PLIM_WORD_PIECE,          // a word of a quoted string that the shell splits later
  PLIM_WORD_ELEMENT,        // a string of a JSON array
  PLIM_WORD_JSON,           // part of such a string
  PLIM_WORD_ENV,            // a word of ENV NAME=here
  PLIM_WORD_REST,           // ENV NAME here, to the end of the line
  PLIM_WORD_CONTEXTS
} plim_word_context;

typedef vec(char) plim_bytes;

// Decodes the value at `span`, followed by a 0 byte. Returns false if it is computed and not a literal, or if memory runs
// out (then `*is_out` is set).
bool plim_word_read(plim_word_context place, const char *text, plim_span span, plim_bytes *out,
                    bool *is_out);

// Encodes `value` as a replacement of `old`, with the same quotes, followed by a 0 byte. Returns false if it cannot be
// written there, or if memory runs out.
bool plim_word_write(plim_word_context place, const char *old, size_t old_size, const char *value,
                     plim_bytes *out, bool *is_out);

// Writes a word that a shell reads as this text: unquoted if possible, otherwise in single quotes.
void plim_shell_quote(FILE *out, const char *text);

// The line that a shell reads as these words, which end with NULL; and a script with that line. free() it; NULL: out of
// memory.
#define PLIM_SCRIPT_START                                                                          \
  "#!/bin/sh\n" // lets a reader recognise a shell script without a file name
char *plim_shell_line(const char *const *words);
char *plim_script_of_words(const char *const *words);

// The value that a text stands for: a number, true or false, or the text itself. `text` must outlive it.
plim_value plim_value_of_text(const char *text);

// The text of a value, in the spelling of `old`, the present text ("" if there is none). Returns false if a shell has no
// such value, or if memory runs out.
bool plim_value_to_text(const plim_value *value, const char *old, plim_bytes *out, bool *is_out);

bool plim_values_equal(const plim_value *a, const plim_value *b);

#endif
