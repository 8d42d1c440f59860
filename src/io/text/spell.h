// Values as text.
#ifndef PLIM_IO_SPELL_H
#define PLIM_IO_SPELL_H

#include <stdio.h>

#include "value.h"

// An integer, in groups of three where `like` is (1_000_000).
void plim_spell_integer(int64_t value, const char *like, size_t like_size, FILE *out);

// The shortest digits that read back as this finite number, with an exponent where `like` has one and
// it helps. With `is_yaml` PyYAML reads a float: there is a point, and the exponent has a sign.
void plim_spell_real(double value, const char *like, size_t like_size, bool is_yaml, FILE *out);

// In double quotes, as JSON and YAML both read it. The text is well-formed UTF-8.
void plim_spell_quoted(const char *text, FILE *out);

#endif
