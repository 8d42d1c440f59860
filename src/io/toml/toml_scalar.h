// Reads TOML scalars, and writes values in the form of the scalar that they replace.
#ifndef PLIM_IO_TOML_SCALAR_H
#define PLIM_IO_TOML_SCALAR_H

#include "literals.h"

// Reads a string that begins at `at` with its quote. `*end` becomes the byte after it, and the text is added to `out`.
// *is_text becomes false if a C string cannot hold the text. Returns NULL, or the error (then `*end` is its place).
const char *plim_toml_string(const char *text, size_t size, size_t at, bool may_be_long,
                             plim_chars *out, size_t *end, bool *is_text);

typedef enum { PLIM_TOML_NONE, PLIM_TOML_SCALAR, PLIM_TOML_DATE, PLIM_TOML_LARGE } plim_toml_kind;

// Reads a number, boolean, date or time that fills the whole text.
plim_toml_kind plim_toml_bare(const char *text, size_t size, plim_value *out);

plim_err plim_toml_encode(const plim_value *value, const char *old, size_t old_size, char quote,
                          plim_chars *out, plim_error *error);

#endif
