// The forward of linear layers and of the LoRA adapters on them.
#include <string.h>

#include "fake_quant.h"
#include "kernels.h"
#include "modules.h"
#include "ops.h"
#include "quantised.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

// The part of a path behind the last dot.
static const char *last_part(const char *path) {
  const char *dot = strrchr(path, '.');
  return dot ? dot + 1 : path;
}

void plim_lora_allow_name(plim_model *m, const char *path) {
  for (size_t i = 0; i < m->linear_names.len; i++)
    if (m->linear_names.at[i] == path) return;
  if (!vec_push(&m->linear_names, path)) m->failed = true;
}

plim_linear plim_linear_new(plim_tape *t, plim_model *m, const char *path, int64_t out, int64_t in,
                            bool has_bias, plim_dtype dtype) {
  plim_linear l = {.path = path, .name = last_part(path)};
  plim_lora_allow_name(m, path);
  l.weight = plim_model_parameter(t, m, dims(out, in), dtype);
  l.weight->is_projection = true;
  plim_model_name(m, path, "weight");
  if (has_bias) l.bias = plim_model_random(t, m, dims(out), dtype);
  if (has_bias) plim_model_name(m, path, "bias");
  return l;
}

plim_linear plim_conv1d_new(plim_tape *t, plim_model *m, const char *path, int64_t in, int64_t out,
                            plim_dtype dtype) {
  plim_linear l = {.path = path, .name = last_part(path), .is_conv1d = true};
  plim_lora_allow_name(m, path);
  l.weight = plim_model_parameter(t, m, dims(in, out), dtype);
  l.weight->is_projection = l.weight->is_flipped = true;
  plim_model_name(m, path, "weight");
  l.bias = plim_model_parameter(t, m, dims(out), dtype);
  plim_model_name(m, path, "bias");
  return l;
}

void plim_linear_visit(const plim_linear *l, plim_visit *visit, void *context) {
  if (l->bias) visit(context, l->bias);
  if (l->weight) visit(context, l->weight);
}

void plim_linear_save(plim_tape *t, plim_model *m, plim_linear *l) {
  const plim_tensor *weight = l->weight, *bias = l->bias;
  l->weight = plim_model_parameter(t, m, weight->shape, (plim_dtype)weight->dtype);
  if (bias) l->bias = plim_model_parameter(t, m, bias->shape, (plim_dtype)bias->dtype);
}

// Conv1D: addmm over the flattened rows. Autocast casts weight, input, bias in this order.
static plim_tensor *conv1d(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_dims shape = x->shape;
  bool was = hold(x);
  plim_tensor *rows = NULL;
  set(t, &rows, view(t, x, dims(-1, shape.at[2])));
  plim_tensor *weight = cast(t, p->weight), *input = cast(t, rows), *bias = cast(t, p->bias);
  shape.at[2] = p->weight->shape.at[1];
  plim_tensor *out = view(t, addmm(t, bias, input, weight), shape);
  drop(t, &rows);
  let_go(t, x, was);
  return out;
}

// The cast of a transposed weight is no leaf's, so autocast does not keep it.
static plim_tensor *product(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_dims shape = x->shape;
  bool was = hold(x);
  plim_tensor *flipped = cast(t, transpose(t, p->weight, 0, 1)), *input = cast(t, x);
  plim_tensor *rows = reshape(t, input, dims(-1, shape.at[2]));
  shape.at[2] = p->weight->shape.at[0];
  plim_tensor *out = unsafe_view(t, mm(t, rows, flipped), shape);
  if (p->bias) out = add(t, out, p->bias);
  let_go(t, x, was);
  return out;
}

static plim_tensor *base_forward(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_module_enter(t, p->weight, p->bias);
  plim_tensor *out = p->weight->quant ? plim_quantised_linear(t, x, p->weight, p->bias)
                     : p->is_conv1d   ? conv1d(t, p, x)
                     : p->is_product  ? product(t, p, x)
                                      : plim_weight_linear(t, x, p->weight, p->bias);
  return plim_module_leave(t, p->weight, out);
}

static plim_tensor *adapter(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_module_enter(t, weight, NULL);
  return plim_module_leave(t, weight, linear(t, x, weight, NULL));
}

// peft's layer over a quantised one: the adapter's output is cast, not the sum, and only if autocast does not do it.
// Over a 4-bit layer the base's output is cloned first.
static plim_tensor *quantised_lora(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_tensor *result = NULL, *input = NULL, *delta = NULL;
  bool was = hold(x), converts = !plim_autocast_is_on(t);
  set(t, &result, base_forward(t, p, x));
  if (p->weight->quant->kind != PLIM_WEIGHTS_INT8) set(t, &result, contiguous_copy(t, result));
  plim_dtype dtype = (plim_dtype)result->dtype;
  set(t, &input, converts ? to(t, x, (plim_dtype)p->lora_a->dtype) : x);
  plim_tensor *inner = adapter(t, dropout(t, input, p->dropout), p->lora_a);
  set(t, &delta, mul_scalar(t, adapter(t, inner, p->lora_b)));
  if (converts) set(t, &delta, to(t, delta, dtype));
  set(t, &result, add(t, result, delta));
  drop(t, &input);
  plim_tensor *out = give(t, &result);
  drop(t, &delta);
  let_go(t, x, was);
  return out;
}

// ---- DoRA -----------------------------------------------------------------------------------------

// lora_B(lora_A(eye)).T: the product of the adapter's matrices, as (out,in)
static plim_tensor *dora_product(plim_tape *t, const plim_linear *p) {
  int64_t in = p->lora_a->shape.at[1];
  plim_tensor *eye = NULL;
  set(t, &eye, empty(t, dims(in, in), (plim_dtype)p->lora_a->dtype));
  plim_tensor *product = adapter(t, adapter(t, eye, p->lora_a), p->lora_b);
  drop(t, &eye);
  return transpose(t, product, 0, 1);
}

// weight + scaling * product, without gradients
static plim_tensor *dora_sum(plim_tape *t, const plim_tensor *weight, const plim_tensor *product) {
  plim_tensor *scaled = k_unary(t, product), *sum = k_binary(t, weight, scaled);
  plim_consume(t, scaled);
  return sum;
}

// linalg.norm(sum, dim=1)
static plim_tensor *dora_norm(plim_tape *t, const plim_tensor *sum) {
  return k_sum(t, sum, 1u << 1, false, (plim_dtype)sum->dtype);
}

plim_tensor *plim_dora_magnitude(plim_tape *t, const plim_linear *p) {
  plim_dims shape = dims(p->lora_b->shape.at[0], p->lora_a->shape.at[1]);
  plim_tensor *product = empty(t, shape, (plim_dtype)p->lora_a->dtype);
  if (!p->weight->storage->is_waiting) k_cublas(t);
  plim_tensor *weight = p->weight->quant ? plim_unpack(t, p->weight)
                        : p->is_conv1d   ? k_transpose(t, p->weight, 0, 1)
                                         : p->weight;
  plim_tensor *sum = dora_sum(t, weight, product), *norm = dora_norm(t, sum);
  consume_all(t, product, sum, weight);
  return norm;
}

// (scale - 1) * base + scale * lora_B(lora_A(x)) * scaling. With dropout, the layer is computed again from what it left.
static plim_tensor *dora_delta(plim_tape *t, const plim_linear *p, plim_tensor *x,
                               plim_tensor *result) {
  plim_tensor *product = NULL, *weight = NULL, *norm = NULL, *scale = NULL, *base = NULL;
  plim_tensor *lora = NULL;
  plim_dtype dtype = (plim_dtype)x->dtype;
  set(t, &product, to(t, dora_product(t, p), dtype));
  set(t, &weight, to(t, p->is_conv1d ? transpose(t, p->weight, 0, 1) : p->weight, dtype));
  plim_tensor *sum = dora_sum(t, weight, product);
  set(t, &norm, dora_norm(t, sum));
  plim_consume(t, sum);
  set(t, &scale, view(t, divide(t, p->magnitude, norm), dims(1, -1)));
  set(t, &lora, adapter(t, adapter(t, x, p->lora_a), p->lora_b));
  if (p->dropout > 0) set(t, &base, linear(t, x, weight, NULL));
  else set(t, &base, p->bias ? sub(t, result, p->bias) : result);
  plim_tensor *left = mul(t, add_scalar(t, scale), base);
  plim_tensor *delta = add(t, left, mul_scalar(t, mul(t, scale, lora)));
  drop(t, &base); // an argument of the function, freed before its variables
  drop_graph(t, product);
  drop_all(t, &product, &weight, &norm, &scale, &lora);
  return delta;
}

static plim_tensor *dora(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_tensor *result = NULL, *input = NULL;
  bool was = hold(x);
  set(t, &result, base_forward(t, p, x));
  plim_dtype dtype = (plim_dtype)result->dtype;
  set(t, &input, to(t, x, (plim_dtype)p->lora_a->dtype));
  plim_tensor *left = NULL;
  set(t, &left, dropout(t, input, p->dropout));
  plim_tensor *sum = add(t, result, dora_delta(t, p, left, result));
  drop(t, &left);
  set(t, &result, sum);
  set(t, &result, to(t, result, dtype));
  drop(t, &input);
  plim_tensor *out = give(t, &result);
  let_go(t, x, was);
  return out;
}

// ---- torchtune's layers ---------------------------------------------------------------------------

// The weight that has adapters belongs to the layer itself (torchtune/modules/peft/lora.py and dora.py).
static plim_tensor *tune_base(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  if (!p->weight->quant || !p->bias) return base_forward(t, p, x);
  plim_linear unbiased = *p;
  unbiased.bias = NULL;
  return add(t, base_forward(t, &unbiased, x), p->bias);
}

static plim_tensor *tune_lora(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_tensor *base = NULL, *delta = NULL;
  bool was = hold(x);
  set(t, &base, tune_base(t, p, x));
  set(t, &delta, adapter(t, dropout(t, x, p->dropout), p->lora_a));
  set(t, &delta, mul_scalar(t, adapter(t, delta, p->lora_b)));
  plim_tensor *out = add(t, base, delta);
  drop_all(t, &base, &delta);
  let_go(t, x, was);
  return out;
}

// DoRALinear.forward. The norm is computed without gradients.
static plim_tensor *tune_dora(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_tensor *base = NULL, *input = NULL, *lora = NULL, *eye = NULL, *product = NULL;
  plim_tensor *weight = NULL, *norm = NULL, *scale = NULL, *delta = NULL;
  int64_t in = p->lora_a->shape.at[1];
  bool was = hold(x);
  set(t, &base, tune_base(t, p, x));
  set(t, &input, dropout(t, x, p->dropout));
  set(t, &lora, adapter(t, adapter(t, input, p->lora_a), p->lora_b));
  set(t, &eye, empty(t, dims(in, in), (plim_dtype)x->dtype));
  plim_work_map(t, NULL, NULL, eye);
  set(t, &product, transpose(t, adapter(t, adapter(t, eye, p->lora_a), p->lora_b), 0, 1));
  set(t, &weight, p->weight->quant ? plim_unpack(t, p->weight) : p->weight);
  plim_tensor *sum = dora_sum(t, weight, product);
  set(t, &norm, dora_norm(t, sum));
  plim_consume(t, sum);
  set(t, &scale, view(t, divide(t, p->magnitude, norm), dims(1, -1)));
  plim_tensor *left = mul(t, add_scalar(t, scale), base);
  set(t, &delta, add(t, left, mul_scalar(t, mul(t, scale, lora))));
  plim_tensor *out = add(t, delta, base);
  drop_all(t, &input, &base, &lora, &eye);
  drop_graph(t, product);
  drop_all(t, &product, &weight, &norm, &scale, &delta);
  let_go(t, x, was);
  return out;
}

enum { MODULES_OF_TUNE = 4 }; // the layer, dropout and both matrices

static plim_tensor *tune_forward(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_work_modules(t, MODULES_OF_TUNE);
  return p->magnitude ? tune_dora(t, p, x) : tune_lora(t, p, x);
}

// ---- a linear layer -------------------------------------------------------------------------------

// peft's layer, the layer it wraps, dropout and both matrices are modules.
enum { MODULES_OF_LORA = 5 };

plim_tensor *plim_linear_forward(plim_tape *t, const plim_linear *p, plim_tensor *x) {
  plim_tape_at(t, p->name);
  bool is_plain = !p->lora_a || plim_const_state(t)->skips_adapters;
  if (!is_plain && plim_const_state(t)->is_torchtune) return tune_forward(t, p, x);
  plim_work_modules(t, p->lora_a ? MODULES_OF_LORA : 1);
  if (is_plain) return base_forward(t, p, x);
  if (p->magnitude) return dora(t, p, x);
  if (p->weight->quant) return quantised_lora(t, p, x);
  plim_tensor *result = NULL, *input = NULL;
  bool was = hold(x);
  set(t, &result, base_forward(t, p, x));
  plim_dtype dtype = (plim_dtype)result->dtype;
  set(t, &input, to(t, x, (plim_dtype)p->lora_a->dtype));
  plim_tensor *inner = adapter(t, dropout(t, input, p->dropout), p->lora_a);
  plim_tensor *delta = mul_scalar(t, adapter(t, inner, p->lora_b));
  set(t, &result, add(t, result, delta));
  set(t, &result, to(t, result, dtype));
  drop(t, &input);
  plim_tensor *out = give(t, &result);
  let_go(t, x, was);
  return out;
}
