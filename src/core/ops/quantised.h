// Frozen weights in 4 or 8 bits, as bitsandbytes stores them, and linear layers with such weights.
#ifndef PLIM_CORE_QUANTISED_H
#define PLIM_CORE_QUANTISED_H

#include "tape.h"

typedef enum {
  PLIM_WEIGHTS_PLAIN,
  PLIM_WEIGHTS_NF4,
  PLIM_WEIGHTS_NF4_DOUBLE, // NF4 with the scales in 8 bits (double quantisation)
  PLIM_WEIGHTS_INT8,       // LLM.int8()
  PLIM_WEIGHTS_COUNT
} plim_weights_kind;

extern const char *const plim_weights_names[PLIM_WEIGHTS_COUNT + 1]; // "plain", ..., NULL

// What is stored beside a packed weight. The tape owns it.
typedef struct plim_quant {
  plim_weights_kind kind;
  plim_dtype compute; // dtype of the products
  plim_tensor *scales, *code;
  plim_tensor *nested_scales, *nested_code, *offset; // for scales in 8 bits
  plim_tensor *outliers;                             // outlier columns of the last 8-bit product
} plim_quant;

// Replaces the weight's storage by the packed one and sets its `quant`.
void plim_quantise(plim_tape *t, plim_tensor *weight, plim_weights_kind kind);

// A 4-bit weight in the dtype of its products, floating: weight.to(dtype) of torchao's tensors.
plim_tensor *plim_unpack(plim_tape *t, const plim_tensor *weight);

// x @ weight.T + bias; bias may be NULL.
plim_tensor *plim_quantised_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                   plim_tensor *bias);

#endif
