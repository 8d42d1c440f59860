// Numbers as people write and read them: sizes, counts, durations.
#ifndef PLIM_CORE_UNITS_H
#define PLIM_CORE_UNITS_H

#include "plimsoll.h"

// A short text by value: printf("%s", units_bytes(n).text).
typedef struct {
  char text[40];
} units_text;

// Reads a size: 24GiB, 24Gi and 24G are binary, 24GB is decimal, a plain number is bytes. Case and
// a space before the unit do not matter; fractions are fine (1.5GiB) and round down to a byte.
// On failure *bytes is unchanged and error->byte is the offset of the error in `text`.
plim_err units_parse_bytes(const char *text, uint64_t *bytes, plim_error *error);

// Reads an integer from 0 to 2^64-1, or a finite decimal number. On failure as above.
plim_err units_parse_u64(const char *text, uint64_t *value, plim_error *error);
plim_err units_parse_number(const char *text, double *value, plim_error *error);

// 512 B, 1.00 MiB, 23.7 GiB, 1023 KiB: three digits, IEC units. PLIM_UNKNOWN is "unknown".
units_text units_bytes(uint64_t bytes);

// 1,234,567. PLIM_UNKNOWN is "unknown".
units_text units_count(uint64_t count);

// 850 ns, 1.23 ms, 12.3 s, 3 min 20 s, 2 h 05 min. Negative or NaN is "unknown".
units_text units_seconds(double seconds);

#endif
