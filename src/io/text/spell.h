// Writes values as text in the style of the value that they replace.
#ifndef PLIM_IO_SPELL_H
#define PLIM_IO_SPELL_H

#include <stdio.h>

#include "value.h"

// Writes an integer, with digits in groups of three if `like` has them (1_000_000).
void plim_spell_integer(int64_t value, const char *like, size_t like_size, FILE *out);

// Writes the shortest digits that read back as this finite number, with an exponent if `like` has one and that is
// shorter. With `is_yaml` the result has a decimal point and a signed exponent, because PyYAML requires them in a float.
void plim_spell_real(double value, const char *like, size_t like_size, bool is_yaml, FILE *out);

// Writes a text in double quotes, in a form that both JSON and YAML read. The text must be well-formed UTF-8.
void plim_spell_quoted(const char *text, FILE *out);

#endif
