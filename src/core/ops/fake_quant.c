#include "fake_quant.h"

#include "kernels.h"
#include "mx_linear.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

const plim_qat_info plim_qat_table[PLIM_QAT_COUNT] = {
    [PLIM_QAT_NONE] = {"none", 0, false},
    [PLIM_QAT_INT8_INT4] = {"int8-int4", 256, false}, // torchao's Int8DynActInt4WeightQATQuantizer
    [PLIM_QAT_INT4] = {"int4", 256, false},           // its Int4WeightOnlyQATQuantizer
    [PLIM_QAT_AXOLOTL] = {"axolotl-int8-int4", 32, true}, // Axolotl's utils/quantization.py
    [PLIM_QAT_MXFP4] = {"axolotl-mxfp4", 32, true},
};

void plim_fake_quantise(plim_tape *t, plim_tensor *weight, plim_qat how) {
  plim_fake_quant *q = plim_tape_object(t, sizeof *q);
  *q = (plim_fake_quant){.how = how};
  weight->fake_quant = q;
}

// ---- scales and zero points -------------------------------------------------------------------------

typedef struct {
  plim_tensor *scale, *zero; // floating
} parameters;

static plim_tensor *then(plim_tape *t, plim_tensor *x) { // k(x), where x is a temporary
  plim_tensor *out = k_unary(t, x);
  plim_consume(t, x);
  return out;
}

// min(least, zeros_like(least)), and the same of the largest
static plim_tensor *beyond_zero(plim_tape *t, const plim_tensor *x) {
  plim_tensor *zeros = k_like(t, x), *out = k_binary(t, x, zeros);
  plim_consume(t, zeros);
  return out;
}

static plim_tensor *converted(plim_tape *t, plim_tensor *x, plim_dtype dtype) {
  plim_tensor *out = k_to(t, x, dtype);
  if (out != x) plim_consume(t, x);
  return out;
}

// Both in the wanted types. The function's variables are freed when it returns: first `locals`, which end in NULL.
static parameters as_types(plim_tape *t, plim_tensor *scale, plim_tensor *zero,
                           const plim_dtype types[2], plim_tensor *const *locals) {
  parameters out = {k_to(t, scale, types[0]), k_to(t, zero, types[1])};
  for (; *locals; locals++) plim_consume(t, *locals);
  if (out.scale != scale) plim_consume(t, scale);
  if (out.zero != zero) plim_consume(t, zero);
  return out;
}

// choose_qparams_affine(ASYMMETRIC): scale = clamp((max - min) / range), zero = clamp(least - round(min / scale))
static parameters asymmetric(plim_tape *t, const plim_tensor *x, const plim_dtype types[2]) {
  plim_tensor *least = k_extreme_last(t, x), *most = k_extreme_last(t, x);
  plim_tensor *low = beyond_zero(t, least), *high = beyond_zero(t, most);
  plim_tensor *scale = then(t, then(t, k_binary(t, high, low)));
  plim_tensor *zero = then(t, then(t, then(t, k_binary(t, low, scale))));
  return as_types(t, scale, zero, types, (plim_tensor *[]){least, most, low, high, NULL});
}

// choose_qparams_affine(SYMMETRIC): scale = clamp(max(-min, max) / range), zero = 0
static parameters symmetric(plim_tape *t, const plim_tensor *x, const plim_dtype types[2]) {
  plim_tensor *least = k_extreme_last(t, x), *most = k_extreme_last(t, x);
  plim_tensor *low = beyond_zero(t, least), *above = beyond_zero(t, most);
  plim_tensor *negated = k_unary(t, low), *high = k_binary(t, negated, above);
  consume_all(t, negated, above);
  plim_tensor *raw = k_unary(t, high), *zero = k_like(t, raw), *scale = then(t, raw);
  return as_types(t, scale, zero, types, (plim_tensor *[]){least, most, low, high, NULL});
}

// _choose_qparams_affine_tinygemm: scale = clamp((max - min) / range), zero = min + scale * middle
static parameters around_middle(plim_tape *t, const plim_tensor *x, const plim_dtype types[2]) {
  plim_tensor *low = k_extreme_last(t, x), *high = k_extreme_last(t, x);
  plim_tensor *scale = then(t, then(t, k_binary(t, high, low)));
  plim_tensor *shift = k_unary(t, scale), *zero = k_binary(t, low, shift);
  plim_consume(t, shift);
  zero = converted(t, zero, types[1]);
  scale = converted(t, scale, types[0]);
  consume_all(t, low, high);
  return (parameters){scale, zero};
}

typedef parameters chooser(plim_tape *t, const plim_tensor *x, const plim_dtype types[2]);

// Puts them where the layer keeps them, and returns them with a dimension of 1 in place of the reduced one.
static void choose(plim_tape *t, chooser *how, const plim_tensor *x, const plim_dtype types[2],
                   plim_tensor **scale, plim_tensor **zero) {
  bool was = set_grad_mode(t, false);
  parameters made = how(t, x, types);
  set_grad_mode(t, was);
  set(t, scale, made.scale);
  set(t, zero, made.zero);
}

static plim_tensor *column(plim_tape *t, plim_tensor *x) { return unsqueeze(t, x, x->shape.n); }

// ---- rounding there and back ------------------------------------------------------------------------

// _fake_quantize_affine in the domain of integers: clamp(round(x * (1 / scale)) + zero), then (that - zero) * scale
// in the type of x. `x` ends in the elements that share a scale.
static plim_tensor *by_integers(plim_tape *t, plim_tensor *x, plim_tensor *scale,
                                plim_tensor *zero) {
  plim_dtype dtype = (plim_dtype)x->dtype;
  plim_tensor *scales = NULL, *zeros = NULL, *q = NULL, *back = NULL, *out = NULL;
  set(t, &scales, column(t, scale));
  set(t, &zeros, column(t, zero));
  plim_tensor *inverse = then(t, k_unary(t, scales)); // reciprocal() * 1.0
  plim_tensor *rounded = add_scalar(t, mul(t, x, inverse));
  set(t, &q, clamp(t, add(t, rounded, zeros), 2));
  set(t, &back, q->dtype == dtype ? contiguous_copy(t, q) : to(t, q, dtype));
  plim_tensor *narrow = k_to(t, zeros, dtype);
  set(t, &back, sub(t, back, narrow));
  set(t, &back, mul(t, back, scales));
  set(t, &out, to(t, back, dtype));
  drop_all(t, &back, &scales, &zeros, &q);
  return give(t, &out);
}

// The same with a zero point that is no integer: clamp(round((x - least) / scale)), then (that - middle) * scale + zero
static plim_tensor *by_middle(plim_tape *t, plim_tensor *x, plim_tensor *scale, plim_tensor *zero) {
  plim_tensor *scales = NULL, *zeros = NULL, *least = NULL, *q = NULL;
  set(t, &scales, column(t, scale));
  set(t, &zeros, column(t, zero));
  plim_tensor *shift = k_unary(t, scales);
  set(t, &least, k_binary(t, zeros, shift));
  plim_consume(t, shift);
  plim_tensor *steps = divide(t, sub(t, x, least), scales);
  set(t, &q, clamp(t, add_scalar(t, steps), 2));
  drop(t, &least);
  plim_tensor *back = mul_in_place(t, add_scalar(t, q), scales);
  add_in_place(t, back, zeros);
  drop_all(t, &scales, &zeros, &q);
  return back;
}

// Int4WeightFakeQuantizer, in float32 and with gradients of the scales: round((w - min) / scale), between its bounds,
// less their middle, times scale, plus the zero point.
static plim_tensor *by_extremes(plim_tape *t, plim_tensor *weight, plim_dims shape) {
  plim_tensor *groups = NULL, *high = NULL, *low = NULL, *scale = NULL, *zero = NULL, *q = NULL;
  plim_dtype dtype = (plim_dtype)weight->dtype;
  set(t, &groups, view(t, to(t, weight, PLIM_FP32), shape));
  set(t, &high, plim_op_extreme_last(t, groups));
  set(t, &low, plim_op_extreme_last(t, groups));
  set(t, &scale, div_scalar(t, clamp(t, sub(t, high, low), 1)));
  set(t, &zero, add(t, low, mul_scalar(t, scale)));
  plim_tensor *steps = divide_both(t, sub(t, groups, low), scale);
  set(t, &q, clamp(t, add_scalar(t, steps), 2));
  set(t, &q, add_scalar(t, q));
  set(t, &q, add(t, mul(t, q, scale), zero));
  plim_tensor *out = NULL;
  set(t, &out, to(t, view(t, q, weight->shape), dtype));
  drop_all(t, &groups, &high, &low, &scale, &zero, &q);
  return give(t, &out);
}

// ---- layers -----------------------------------------------------------------------------------------

static plim_tensor *rounded_input(plim_tape *t, plim_fake_quant *q, plim_tensor *x) {
  static const plim_dtype wide[2] = {PLIM_FP32, PLIM_FP32}, usual[2] = {PLIM_FP32, PLIM_I32};
  plim_tensor *rows = NULL;
  set(t, &rows, view(t, x, x->shape));
  choose(t, asymmetric, rows, q->how.kind == PLIM_QAT_AXOLOTL ? usual : wide, &q->input_scale,
         &q->input_zero);
  plim_tensor *out = by_integers(t, rows, q->input_scale, q->input_zero);
  drop(t, &rows);
  return out;
}

static plim_tensor *by_groups(plim_tape *t, plim_fake_quant *q, plim_tensor *weight,
                              plim_dims shape) {
  static const plim_dtype wide[2] = {PLIM_FP32, PLIM_FP32}, narrow[2] = {PLIM_BF16, PLIM_BF16};
  bool is_symmetric = q->how.kind == PLIM_QAT_INT8_INT4;
  plim_tensor *groups = NULL;
  set(t, &groups, view(t, weight, shape));
  choose(t, is_symmetric ? symmetric : around_middle, groups, is_symmetric ? wide : narrow,
         &q->scale, &q->zero);
  plim_tensor *rounded = is_symmetric ? by_integers(t, groups, q->scale, q->zero)
                                      : by_middle(t, groups, q->scale, q->zero);
  drop(t, &groups);
  return view(t, rounded, weight->shape);
}

// torchao's other fake quantisers do not divide a row into one group.
static plim_tensor *rounded_weight(plim_tape *t, plim_fake_quant *q, plim_tensor *weight) {
  int64_t out_width = weight->shape.at[0], in_width = weight->shape.at[1], group = q->how.group;
  plim_dims shape = dims(out_width, in_width / group, group);
  if (q->how.kind == PLIM_QAT_AXOLOTL) return by_extremes(t, weight, shape);
  return by_groups(t, q, weight, group < in_width ? shape : weight->shape);
}

// FakeQuantizedLinear.forward
static plim_tensor *rounded_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                   plim_tensor *bias) {
  plim_fake_quant *q = weight->fake_quant;
  plim_tensor *input = NULL, *narrow = NULL;
  bool was = hold(x);
  set(t, &input, q->how.kind == PLIM_QAT_INT4 ? x : rounded_input(t, q, x));
  set(t, &narrow, rounded_weight(t, q, weight));
  plim_tensor *out = linear(t, input, narrow, bias);
  drop_all(t, &input, &narrow);
  let_go(t, x, was);
  return out;
}

plim_tensor *plim_weight_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                plim_tensor *bias) {
  if (!weight->fake_quant) return linear(t, x, weight, bias);
  if (weight->fake_quant->how.kind == PLIM_QAT_MXFP4) return plim_mx_linear(t, x, weight, bias);
  return rounded_linear(t, x, weight, bias);
}
