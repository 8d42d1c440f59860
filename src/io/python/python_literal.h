// Reads Python literals, and writes values in the form of the literal that they replace.
#ifndef PLIM_IO_PYTHON_LITERAL_H
#define PLIM_IO_PYTHON_LITERAL_H

#include "literals.h"
#include "python_lexer.h"

// Adds the text of one string token. *is_text becomes false if a C string cannot hold it (a 0, a lone surrogate, a named
// character). Returns false when out of memory.
bool plim_py_decode(const char *token, size_t size, plim_chars *out, bool *is_text);

// Writes the value in the form of `old` if possible, otherwise in the usual form. `quote` is the quote of a text if `old`
// has none.
plim_err plim_py_encode(const plim_value *value, const char *old, size_t old_size, char quote,
                        plim_chars *out, plim_error *error);

#endif
