// Each operator of torchao 0.17's prototype/mx_formats (mx_tensor.py, kernels.py) and custom_fp_utils.py makes a tensor of
// its own; integers of 32 bits take the place of floats without a copy.
#include "mx_linear.h"

#include "kernels.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum { BLOCK = 32 }; // elements that share a scale

// An integer of 16 bits counts as a bfloat16, which has as many bytes.
#define INT16 PLIM_BF16

// A tensor in 4 bits: two elements in a byte, and the exponents of the scales. Both floating.
typedef struct {
  plim_tensor *packed, *scale;
} mx;

static plim_tensor *as(plim_tape *t, const plim_tensor *x, plim_dtype dtype) {
  return k_binary_as(t, x, NULL, dtype);
}

// The result of an operator whose argument is a temporary
static plim_tensor *next(plim_tape *t, plim_tensor *x, plim_dtype dtype) {
  plim_tensor *out = as(t, x, dtype);
  plim_consume(t, x);
  return out;
}

// torch.where with a number, which becomes a tensor on the card; consumes the condition and the other value.
static plim_tensor *where_number(plim_tape *t, plim_tensor *condition, plim_tensor *other) {
  plim_tensor *number = empty(t, (plim_dims){0}, (plim_dtype)other->dtype);
  plim_tensor *out = as(t, other, (plim_dtype)other->dtype);
  consume_all(t, number, condition, other);
  return out;
}

// ---- to 4 bits --------------------------------------------------------------------------------------

// _to_mx_rceil: sets *exponent and returns the scaled values.
static plim_tensor *scaled_values(plim_tape *t, const plim_tensor *x, const plim_tensor *largest,
                                  plim_tensor **exponent) {
  plim_tensor *descale = as(t, largest, PLIM_FP32), *is_nan = as(t, descale, PLIM_BOOL);
  plim_tensor *power = as(t, descale, PLIM_FP32); // log2, ceil, clamp, + bias
  for (int i = 0; i < 3; i++) power = next(t, power, PLIM_FP32);
  *exponent = where_number(t, is_nan, next(t, power, PLIM_U8));
  plim_tensor *is_zero = as(t, *exponent, PLIM_BOOL);
  power = as(t, *exponent, PLIM_FP32); // bias - that, exp2
  for (int i = 0; i < 2; i++) power = next(t, power, PLIM_FP32);
  plim_tensor *factor = where_number(t, is_zero, power);
  plim_tensor *out = next(t, k_binary(t, x, factor), PLIM_FP32);
  consume_all(t, descale, factor);
  return out;
}

// _f32_to_floatx_unpacked: 4 bits in a byte. Consumes x, which its caller's variable keeps to the end.
static plim_tensor *to_bytes(plim_tape *t, plim_tensor *x) {
  plim_tensor *sign = as(t, x, PLIM_I32), *positive = k_binary(t, sign, NULL);
  plim_tensor *saturates = as(t, positive, PLIM_BOOL);
  plim_tensor *other = as(t, saturates, PLIM_BOOL), *is_small = as(t, positive, PLIM_BOOL);
  plim_tensor *is_denormal = k_binary(t, other, is_small);
  consume_all(t, other, is_small);
  plim_tensor *is_normal = next(t, k_binary(t, saturates, is_denormal), PLIM_BOOL);
  plim_tensor *denormal = next(t, as(t, positive, PLIM_FP32), PLIM_U8);
  plim_tensor *is_odd = next(t, as(t, positive, PLIM_I32), PLIM_I32);
  plim_tensor *normal = next(t, as(t, positive, PLIM_I32), PLIM_U8);
  plim_tensor *full = as(t, positive, PLIM_U8);
  plim_consume(t, positive);
  full = next(t, next(t, full, PLIM_U8), PLIM_U8); // where twice
  plim_tensor *sign_bits = next(t, next(t, as(t, sign, PLIM_I32), PLIM_U8), PLIM_U8);
  plim_tensor *out = k_binary(t, full, sign_bits);
  plim_consume(t, full);
  consume_all(t, sign, saturates, is_denormal, is_normal, denormal, normal, is_odd, sign_bits);
  plim_consume(t, x);
  return out;
}

static plim_dims with_last(plim_dims shape, int64_t size) {
  shape.at[shape.n - 1] = size;
  return shape;
}

// MXTensor.to_mx of a matrix
static mx quantised(plim_tape *t, plim_tensor *x) {
  int64_t rows = x->shape.at[0], width = x->shape.at[1];
  plim_tensor *groups = k_view(t, x, dims(rows, width / BLOCK, BLOCK)), *exponent = NULL;
  plim_tensor *sizes = k_unary(t, groups), *largest = k_extreme_last(t, sizes);
  plim_consume(t, sizes);
  plim_tensor *wide = k_to(t, groups, PLIM_FP32), *most = k_to(t, largest, PLIM_FP32);
  if (most != largest) plim_consume(t, largest);
  plim_tensor *column = k_view(t, most, dims(rows, width / BLOCK, 1));
  plim_tensor *bytes = to_bytes(t, scaled_values(t, wide, column, &exponent));
  plim_tensor *high = empty(t, dims(rows * width / 2), PLIM_U8), *packed = k_unary(t, high);
  consume_all(t, high, bytes);
  if (wide != groups) plim_consume(t, wide);
  consume_all(t, column, most, groups);
  plim_tensor *matrix = k_view(t, packed, dims(rows, width / 2));
  plim_consume(t, packed);
  return (mx){matrix, exponent};
}

// ---- and back ---------------------------------------------------------------------------------------

// _floatx_unpacked_to_f32. Borrows the bytes.
static plim_tensor *to_floats(plim_tape *t, const plim_tensor *bytes) {
  plim_tensor *sign = as(t, bytes, PLIM_U8), *positive = as(t, bytes, PLIM_U8);
  plim_tensor *is_zero = as(t, positive, PLIM_BOOL), *is_more = as(t, positive, PLIM_BOOL);
  plim_tensor *is_low = next(t, as(t, positive, PLIM_U8), PLIM_BOOL);
  plim_tensor *is_denormal = k_binary(t, is_more, is_low);
  consume_all(t, is_more, is_low);
  plim_tensor *biased = as(t, positive, PLIM_U8);
  plim_tensor *power = next(t, as(t, biased, PLIM_U8), PLIM_U8);
  plim_tensor *wide = as(t, power, PLIM_I32), *exponent = as(t, wide, PLIM_I32);
  consume_all(t, wide, power);
  plim_tensor *mantissa = next(t, as(t, positive, PLIM_U8), PLIM_I32);
  plim_tensor *shifted = as(t, mantissa, PLIM_I32), *sum = k_binary(t, exponent, shifted);
  plim_tensor *signs = next(t, as(t, sign, PLIM_I32), PLIM_I32);
  plim_tensor *out = as(t, sum, PLIM_FP32);
  plim_consume(t, sum);
  consume_all(t, sign, positive, is_zero, is_denormal, biased, exponent, mantissa, shifted, signs);
  return out;
}

static plim_tensor *scale_values(plim_tape *t, const plim_tensor *exponent) { // get_fp_scale
  plim_tensor *offset = next(t, as(t, exponent, INT16), INT16);
  plim_tensor *two = as(t, offset, PLIM_FP32), *power = as(t, offset, PLIM_FP32);
  plim_tensor *is_number = as(t, exponent, PLIM_BOOL);
  plim_tensor *out = where_number(t, is_number, power);
  consume_all(t, offset, two);
  return out;
}

// MXTensor.dequantize of a matrix
static plim_tensor *dequantised(plim_tape *t, const plim_tensor *packed,
                                const plim_tensor *exponent, plim_dtype dtype) {
  int64_t rows = packed->shape.at[0], width = 2 * packed->shape.at[1];
  plim_tensor *low = as(t, packed, PLIM_U8), *high = as(t, packed, PLIM_U8);
  plim_tensor *bytes = k_map(t, dims(rows, width), PLIM_U8, low, high);
  consume_all(t, low, high);
  plim_tensor *wide = to_floats(t, bytes), *values = k_to(t, wide, dtype);
  plim_tensor *factor = scale_values(t, exponent), *narrow = k_to(t, factor, dtype);
  if (narrow != factor) plim_consume(t, factor);
  plim_tensor *out = as(t, values, dtype);
  if (values != wide) plim_consume(t, values);
  consume_all(t, bytes, wide, narrow);
  return out;
}

// ---- the layer --------------------------------------------------------------------------------------

static plim_tensor *as_rows(plim_tape *t, plim_tensor *x) {
  int64_t width = x->shape.at[x->shape.n - 1];
  return k_view(t, x, dims(plim_numel(&x->shape) / width, width));
}

enum { INPUT_PACKED, INPUT_SCALE, WEIGHT_PACKED, WEIGHT_SCALE }; // what the node saves

// What a checkpoint computed again belongs to the variable alone that dequantize() then takes the place of.
static plim_tensor *unpacked(plim_tape *t, plim_grad_node *n, int packed, int scale) {
  plim_tensor *out = dequantised(t, n->saved[packed], n->saved[scale], (plim_dtype)n->dtype);
  if (n->packed >> packed & 1) drop_all(t, &n->saved[packed], &n->saved[scale]);
  return out;
}

// Computes both gradients, whether they are wanted or not.
static void mx_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *input = unpacked(t, n, INPUT_PACKED, INPUT_SCALE);
  plim_tensor *weight = unpacked(t, n, WEIGHT_PACKED, WEIGHT_SCALE);
  plim_tensor *rows = as_rows(t, in[0]), *flipped = k_transpose(t, rows, 0, 1);
  plim_tensor *to_input = k_mm(t, rows, weight), *to_weight = k_mm(t, flipped, input);
  consume_all(t, input, weight, flipped, rows);
  plim_tensor *shaped = k_view(t, to_input, n->shape);
  plim_consume(t, to_input);
  out[0] = shaped, out[1] = to_weight;
}

// _addmm_mx_dispatch without a kernel of its own for this format
static plim_tensor *product(plim_tape *t, mx input, mx weight, plim_dtype dtype,
                            plim_tensor *bias) {
  plim_tensor *left = dequantised(t, input.packed, input.scale, dtype);
  plim_tensor *right = dequantised(t, weight.packed, weight.scale, dtype);
  plim_tensor *flipped = k_transpose(t, right, 0, 1);
  plim_tensor *out = bias ? addmm(t, bias, left, flipped) : k_mm(t, left, flipped);
  if (bias) plim_consume(t, right);
  else consume_all(t, flipped, left, right);
  return out;
}

plim_tensor *plim_mx_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias) {
  plim_dtype dtype = (plim_dtype)x->dtype;
  plim_dims shape = x->shape;
  plim_grad_node *n = node_begin(t, mx_backward, (plim_tensor *[]){x, weight}, 2);
  bool had_gradients = set_grad_mode(t, false), was = hold(x);
  plim_tensor *rows = as_rows(t, x);
  mx input = quantised(t, rows), narrow = quantised(t, weight);
  plim_consume(t, rows);
  plim_tensor *out = product(t, input, narrow, dtype, bias);
  plim_tensor *shaped = k_view(t, out, with_last(shape, weight->shape.at[0]));
  plim_consume(t, out);
  set_grad_mode(t, had_gradients);
  if (bias) plim_mark_used(t, bias);
  if (n) {
    n->dtype = (uint8_t)dtype, n->shape = shape, n->drops_in_order = true;
    node_save_output(t, n, input.packed), node_save_output(t, n, input.scale);
    node_save_output(t, n, narrow.packed), node_save_output(t, n, narrow.scale);
    node_output(t, n, shaped);
  }
  // Its variables hold them; those that were saved are freed in the order of the list.
  mx first = n ? input : narrow, second = n ? narrow : input;
  consume_all(t, first.packed, first.scale, second.packed, second.scale);
  let_go(t, x, was);
  return shaped;
}
