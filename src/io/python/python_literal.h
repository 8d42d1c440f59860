// Python's literals: their values, and values in the form of an older literal.
#ifndef PLIM_IO_PYTHON_LITERAL_H
#define PLIM_IO_PYTHON_LITERAL_H

#include "literals.h"
#include "python_lexer.h"

// Adds the text of one string token. *is_text becomes false if no char * can hold it (a 0, a lone
// surrogate, a character by name). False when out of memory.
bool plim_py_decode(const char *token, size_t size, plim_chars *out, bool *is_text);

// Writes the value: as it was written in `old` where that has a form for it, else as is usual.
// `quote` is for a text where there was none.
plim_err plim_py_encode(const plim_value *value, const char *old, size_t old_size, char quote,
                        plim_chars *out, plim_error *error);

#endif
