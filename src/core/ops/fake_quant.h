// Linear layers of quantisation-aware training, as torchao computes them (torchao/quantization/qat): the products use
// inputs and weights that were rounded to few bits and converted back; gradients pass the rounding unchanged.
#ifndef PLIM_CORE_FAKE_QUANT_H
#define PLIM_CORE_FAKE_QUANT_H

#include "tape.h"

typedef enum {
  PLIM_QAT_NONE,
  PLIM_QAT_INT8_INT4, // inputs in 8 bits for each token, weights in 4 bits for each group
  PLIM_QAT_INT4,      // weights alone, in 4 bits for each group
  PLIM_QAT_AXOLOTL, // as INT8_INT4, with other operators for the weights, whose scales have gradients
  PLIM_QAT_MXFP4,   // mx_linear.h
  PLIM_QAT_COUNT
} plim_qat_kind;

typedef struct {
  const char *name;
  int64_t group; // the default
  bool
      rounds_all; // also a head that is tied to the embedding and, with adapters, layers without one
} plim_qat_info;

extern const plim_qat_info plim_qat_table[PLIM_QAT_COUNT];

typedef struct {
  plim_qat_kind kind;
  int64_t group; // weights of a row that share a scale
} plim_qat;

// What a layer keeps from one forward pass to the next: the scales and zero points of its input and its weight, of
// which every pass makes new ones. The tape owns it.
typedef struct plim_fake_quant {
  plim_qat how;
  plim_tensor *input_scale, *input_zero, *scale, *zero;
} plim_fake_quant;

// From now on, the layer of this weight is such a layer.
void plim_fake_quantise(plim_tape *t, plim_tensor *weight, plim_qat how);

// F.linear of what a weight's layer makes of input and weight; F.linear itself if it is a plain one. bias may be NULL.
plim_tensor *plim_weight_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                plim_tensor *bias);

#endif
