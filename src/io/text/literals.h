// Reads and writes numbers and characters in the syntax of Python and TOML.
#ifndef PLIM_IO_LITERALS_H
#define PLIM_IO_LITERALS_H

#include "utf8.h"
#include "value.h"

typedef vec(char) plim_chars;

bool plim_chars_add(plim_chars *chars, const char *text, size_t size);
bool plim_chars_add_text(plim_chars *chars, const char *text);

// Adds a character as UTF-8. Returns false if `code` is not a character (a surrogate, or too large), if it is 0, and when
// out of memory.
bool plim_chars_add_code(plim_chars *chars, uint32_t code);

typedef enum { PLIM_NUMBERS_PYTHON, PLIM_NUMBERS_TOML } plim_number_rules;

typedef enum {
  PLIM_NUMBER_OK,
  PLIM_NUMBER_WRONG, // not a number by these rules
  PLIM_NUMBER_OTHER  // a number that does not fit into 64 bits, or an imaginary one
} plim_number;

// Reads a number without its sign: 1_000, 0xff, .5, 2e-4.
plim_number plim_number_read(const char *text, size_t size, bool is_negative,
                             plim_number_rules rules, plim_value *out);

enum { PLIM_NUMBER_BYTES = 128 };

// Writes a number in the form of the number that it replaces (base, underscores, exponent). `old` may be empty.
void plim_number_write(char out[PLIM_NUMBER_BYTES], const plim_value *value, const char *old,
                       size_t old_size, plim_number_rules rules);

// A 64-bit hash of a text; the same text has different hashes for different values of `seed`.
uint64_t plim_text_hash(uint64_t seed, const char *text, size_t size);

#endif
