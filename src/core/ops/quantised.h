// Frozen weights in fewer bits, as bitsandbytes keeps them, and layers that compute with them.
#ifndef PLIM_CORE_QUANTISED_H
#define PLIM_CORE_QUANTISED_H

#include "tape.h"

typedef enum {
  PLIM_WEIGHTS_PLAIN,
  PLIM_WEIGHTS_NF4,
  PLIM_WEIGHTS_NF4_DOUBLE, // and the scales in 8 bits
  PLIM_WEIGHTS_INT8,       // LLM.int8()
  PLIM_WEIGHTS_COUNT
} plim_weights_kind;

extern const char *const plim_weights_names[PLIM_WEIGHTS_COUNT + 1]; // "plain", ..., NULL

// What is kept beside a packed weight.
typedef struct plim_quant {
  plim_weights_kind kind;
  plim_dtype compute; // of the products
  plim_tensor *scales, *code;
  plim_tensor *nested_scales, *nested_code, *offset; // of scales in 8 bits
  plim_tensor *outliers; // of the last product in 8 bits: columns that were computed apart
} plim_quant;

// Replaces the weight's memory by the packed one: from then on it has a `quant`.
void plim_quantise(plim_tape *t, plim_tensor *weight, plim_weights_kind kind);

// How many columns of each product of LLM.int8(), in their order, hold values of 6 or more and are computed
// apart, which depends on the data. Of products that are not told there are none. Counts are borrowed.
void plim_tape_set_outliers(plim_tape *t, const uint32_t *counts, size_t count);

// x @ weight.T + bias; bias may be NULL.
plim_tensor *plim_quantised_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                   plim_tensor *bias);

#endif
