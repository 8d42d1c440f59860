// Integer division and multiples, rounded up.
#ifndef PLIM_CORE_ROUNDING_H
#define PLIM_CORE_ROUNDING_H

#include <stdint.h>

// n / by, rounded up. n must not be negative, by must be positive.
static inline int64_t plim_ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

// The smallest multiple of `step` that is not below n.
static inline int64_t plim_round_up(int64_t n, int64_t step) {
  return plim_ceil_div(n, step) * step;
}

// Bits that are needed for numbers up to this one, at least 1.
static inline int plim_bits_of(int64_t largest) {
  int bits = 1;
  while (bits < 63 && largest >> bits) bits++;
  return bits;
}

#endif
