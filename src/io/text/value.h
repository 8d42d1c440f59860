// A value of a setting, and the range of bytes that it occupies in its file.
#ifndef PLIM_IO_VALUE_H
#define PLIM_IO_VALUE_H

#include <stdio.h>

#include "plimsoll.h"
#include "vec.h"

static inline plim_err plim_no_memory(plim_error *error) {
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

// A range of bytes of a text; `end` is exclusive.
typedef struct {
  size_t begin, end;
} plim_span;

typedef enum {
  PLIM_VALUE_NULL,
  PLIM_VALUE_BOOL,
  PLIM_VALUE_INTEGER,
  PLIM_VALUE_REAL,
  PLIM_VALUE_TEXT,
  PLIM_VALUE_DERIVED // an expression or a reference, not a literal
} plim_value_kind;

// `text` is the decoded text of a TEXT and the source code of a DERIVED; NULL for the other kinds.
typedef struct {
  plim_value_kind kind;
  bool flag;
  int64_t integer;
  double real;
  const char *text;
} plim_value;

// Writes a value as it appears in files: "null", "true", "8". plim_value_print writes "unknown" instead of null. Both
// truncate the text to `size`.
void plim_value_word(const plim_value *value, char *text, size_t size);
void plim_value_print(const plim_value *value, char *text, size_t size);
// Whether two values are equal; 1 equals 1.0.
bool plim_value_same(const plim_value *a, const plim_value *b);

// Counts lines. It remembers the last place, so that asking for many bytes of a text in their order takes one pass.
typedef struct {
  const char *text; // of the last question; it must not change
  size_t byte;
  int line;
} plim_line_counter;

// The line of a byte, from 1.
int plim_line_at(plim_line_counter *counter, const char *text, size_t byte);

// A copy of `size` bytes followed by a 0 byte; the caller frees it. NULL when out of memory. Unlike with strndup, the
// text may contain 0 bytes.
char *plim_copy_of(const char *text, size_t size);
// Closes a stream of open_memstream. If not everything could be written, it frees *text and returns false.
bool plim_stream_end(FILE *stream, char **text);

#endif
