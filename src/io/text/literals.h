// Numbers and characters as Python and TOML write them.
#ifndef PLIM_IO_LITERALS_H
#define PLIM_IO_LITERALS_H

#include "utf8.h"
#include "value.h"

typedef vec(char) plim_chars;

bool plim_chars_add(plim_chars *chars, const char *text, size_t size);
bool plim_chars_add_text(plim_chars *chars, const char *text);

// As UTF-8. False for what is no character (surrogates, too large), for 0, and when out of memory.
bool plim_chars_add_code(plim_chars *chars, uint32_t code);

typedef enum { PLIM_NUMBERS_PYTHON, PLIM_NUMBERS_TOML } plim_number_rules;

typedef enum {
  PLIM_NUMBER_OK,
  PLIM_NUMBER_WRONG, // no number by the rules
  PLIM_NUMBER_OTHER  // one that 64 bits do not hold, or an imaginary one
} plim_number;

// A number without its sign: 1_000, 0xff, .5, 2e-4.
plim_number plim_number_read(const char *text, size_t size, bool is_negative,
                             plim_number_rules rules, plim_value *out);

enum { PLIM_NUMBER_BYTES = 128 };

// The number in the form of an older one: base, underscores, exponent. `old` may be empty.
void plim_number_write(char out[PLIM_NUMBER_BYTES], const plim_value *value, const char *old,
                       size_t old_size, plim_number_rules rules);

// A number of 64 bits that stands for a text; `seed` tells texts of different use apart.
uint64_t plim_text_hash(uint64_t seed, const char *text, size_t size);

#endif
