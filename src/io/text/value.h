// A value as files write it, and the bytes it stands in.
#ifndef PLIM_IO_VALUE_H
#define PLIM_IO_VALUE_H

#include <stdio.h>

#include "plimsoll.h"
#include "vec.h"

static inline plim_err plim_no_memory(plim_error *error) {
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

// Bytes of the text, end exclusive.
typedef struct {
  size_t begin, end;
} plim_span;

typedef enum {
  PLIM_VALUE_NULL,
  PLIM_VALUE_BOOL,
  PLIM_VALUE_INTEGER,
  PLIM_VALUE_REAL,
  PLIM_VALUE_TEXT,
  PLIM_VALUE_DERIVED // an expression or a reference: no literal
} plim_value_kind;

// `text` is the decoded text of a TEXT, and the source of a DERIVED; NULL for the others.
typedef struct {
  plim_value_kind kind;
  bool flag;
  int64_t integer;
  double real;
  const char *text;
} plim_value;

// As files have it: "null", "true", "8"; for people, "unknown" instead of null. Both may be cut.
void plim_value_word(const plim_value *value, char *text, size_t size);
void plim_value_print(const plim_value *value, char *text, size_t size);
// Equal; 1 and 1.0 are.
bool plim_value_same(const plim_value *a, const plim_value *b);

// A copy of so many bytes followed by a 0 byte, which the caller frees; NULL when out of memory. The text
// need not end with a 0, which strndup would want.
char *plim_copy_of(const char *text, size_t size);
// Closes what open_memstream opened; false, and *text is gone, where not all could be written.
bool plim_stream_end(FILE *stream, char **text);

#endif
