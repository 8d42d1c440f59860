#include "rope.h"

#include "kernels.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// The kinds other than the default follow transformers 5.17's modeling_rope_utils.py line by line. Llama 3's has been
// recorded (tests/truth/programs/llama-3.1-rope); linear, dynamic, yarn and longrope have not. All tensors here have a
// few hundred bytes.

// ---- lines of Python ------------------------------------------------------------------------------

static plim_tensor *floats(plim_tape *t, int64_t n) { return empty(t, dims(n), PLIM_FP32); }
static plim_tensor *flags(plim_tape *t, int64_t n) { return empty(t, dims(n), PLIM_BOOL); }

// f(x), where x is a temporary.
static plim_tensor *after(plim_tape *t, plim_tensor *x) {
  plim_tensor *out = floats(t, x->shape.at[0]);
  plim_consume(t, x);
  return out;
}

// f(a, b), where both are temporaries.
static plim_tensor *after_both(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_tensor *out = floats(t, a->shape.at[0]);
  plim_consume(t, a);
  plim_consume(t, b);
  return out;
}

// number / x: a reciprocal, then a product with the number.
static plim_tensor *divided_by(plim_tape *t, const plim_tensor *x) {
  return after(t, floats(t, x->shape.at[0]));
}

// number ** x, where x is a temporary; the number becomes a tensor.
static plim_tensor *raised_to(plim_tape *t, plim_tensor *x) {
  plim_tensor *out = floats(t, x->shape.at[0]);
  plim_consume(t, scratch(t, 8));
  plim_consume(t, x);
  return out;
}

// base ** (arange(0, dim, 2).to(float) / dim)
static plim_tensor *powers(plim_tape *t, int64_t n) {
  plim_tensor *steps = after(t, empty(t, dims(n), PLIM_I64));
  return raised_to(t, after(t, steps));
}

static plim_tensor *inverse_powers(plim_tape *t, int64_t n) {
  plim_tensor *p = powers(t, n), *out = divided_by(t, p);
  plim_consume(t, p);
  return out;
}

// ---- kinds ----------------------------------------------------------------------------------------

// 1 / (base ** (arange(0, dim, 2, dtype=float) / dim))
plim_tensor *plim_inverse_frequencies(plim_tape *t, int64_t n) {
  plim_tensor *raised = raised_to(t, after(t, floats(t, n))), *out = divided_by(t, raised);
  plim_consume(t, raised);
  return out;
}

static plim_tensor *llama3(plim_tape *t, int64_t n) {
  plim_tensor *inverse = inverse_powers(t, n), *waves = divided_by(t, inverse);
  plim_tensor *is_low = flags(t, n), *slowed = floats(t, n);
  plim_tensor *chosen = after_both(t, is_low, slowed);
  plim_tensor *smooth = after(t, after(t, divided_by(t, waves)));
  plim_tensor *rest = after(t, after(t, floats(t, n))); // (1 - smooth) * chosen / factor
  plim_tensor *smoothed = floats(t, n);                 // smooth * chosen
  smoothed = after_both(t, rest, smoothed);
  plim_tensor *is_high = flags(t, n), *not_high = flags(t, n);
  plim_consume(t, is_high);
  is_low = flags(t, n);
  plim_tensor *not_low = flags(t, n);
  plim_consume(t, is_low);
  plim_tensor *is_between = flags(t, n);
  plim_consume(t, not_high);
  plim_consume(t, not_low);
  plim_tensor *out = floats(t, n);
  plim_consume(t, chosen);
  consume_all(t, inverse, waves, smooth, smoothed, is_between);
  return out;
}

static plim_tensor *longrope(plim_tape *t, int64_t n) {
  plim_tensor *factors = floats(t, n);
  plim_tensor *shares = after(t, after(t, empty(t, dims(n), PLIM_I64)));
  plim_tensor *raised = floats(t, n);
  plim_consume(t, scratch(t, 8));
  plim_tensor *product = after(t, raised), *out = divided_by(t, product);
  plim_consume(t, product);
  consume_all(t, factors, shares);
  return out;
}

static plim_tensor *yarn(plim_tape *t, int64_t n) {
  plim_tensor *p = powers(t, n), *beyond = divided_by(t, p), *scaled = floats(t, n);
  plim_tensor *between = divided_by(t, scaled);
  plim_consume(t, scaled);
  plim_tensor *line = after(t, after(t, floats(t, n))), *ramp = floats(t, n); // ramp: clamped
  plim_consume(t, line);
  plim_tensor *share = after(t, ramp);
  plim_tensor *left = after(t, floats(t, n)), *right = floats(t, n); // each side times its share
  plim_tensor *out = after_both(t, left, right);
  consume_all(t, p, beyond, between, share);
  return out;
}

static plim_tensor *frequencies(plim_tape *t, plim_rope_kind kind, int64_t n) {
  switch (kind) {
  case PLIM_ROPE_LINEAR: // divided in place
  case PLIM_ROPE_DYNAMIC: return inverse_powers(t, n);
  case PLIM_ROPE_LLAMA3: return llama3(t, n);
  case PLIM_ROPE_LONG: return longrope(t, n);
  case PLIM_ROPE_YARN: return yarn(t, n);
  default:
    return plim_transformers_from(t, 5, 15) ? plim_inverse_frequencies(t, n) : inverse_powers(t, n);
  }
}

// ---- the module -----------------------------------------------------------------------------------

void plim_rope_new(plim_tape *t, const plim_config *c, plim_rope_buffers *out) {
  int64_t n = (plim_config_rotary_width(c) + 1) / 2;
  set(t, &out->inv_freq, frequencies(t, c->rope, n));
  bool is_five = plim_transformers_from(t, 5, 0);
  set(t, &out->original, is_five ? floats(t, n) : out->inv_freq); // a copy
  if (is_five) plim_consume(t, frequencies(t, c->rope, n)); // again when weights are initialised
}

// torch.max(position_ids) + 1, and its comparison with a number.
static plim_tensor *look_at_length(plim_tape *t) {
  plim_tensor *most = empty(t, (plim_dims){0}, PLIM_I64);
  plim_tensor *length = empty(t, (plim_dims){0}, PLIM_I64);
  plim_consume(t, most);
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_BOOL));
  return length;
}

// Texts longer than the original length get their own frequencies, computed anew each time; the module keeps them
// under two names. For shorter texts the original frequencies are restored.
static void update_longrope(plim_tape *t, const plim_config *c, plim_rope_buffers *b,
                            int64_t length) {
  plim_tensor *looked = look_at_length(t);
  if (length > c->original_positions) {
    set(t, &b->inv_freq, longrope(t, b->original->shape.at[0]));
    set(t, &b->scaled, b->inv_freq);
  } else set(t, &b->inv_freq, b->original);
  plim_consume(t, looked);
}

// The case of texts longer than the original length of a model with dynamic scaling is not modelled: its frequencies
// are small, and the comparison is smaller.
static void update_dynamic(plim_tape *t) {
  plim_tensor *looked = look_at_length(t);
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_BOOL));
  plim_consume(t, looked);
}

void plim_rope_update(plim_tape *t, const plim_config *c, plim_rope_buffers *b, int64_t length) {
  if (c->rope == PLIM_ROPE_LONG) update_longrope(t, c, b, length);
  if (c->rope == PLIM_ROPE_DYNAMIC) update_dynamic(t);
}

// ---- rotation -------------------------------------------------------------------------------------

void plim_rotary(plim_tape *t, const plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                 plim_tensor **cos, plim_tensor **sin) {
  bool was = set_grad_mode(t, false);
  int64_t half = inv_freq->shape.at[0];
  plim_tensor *angles = NULL, *both = NULL, *wide = NULL, *c = NULL, *s = NULL;
  set(t, &wide, empty(t, dims(1, 1, length), PLIM_FP32));
  set(t, &angles, empty(t, dims(1, half, length), PLIM_FP32));
  if (plim_transformers_from(t, 5, 19)) drop(t, &wide); // a product of both, not of matrices
  else k_cublas(t);
  set(t, &both, empty(t, dims(1, length, 2 * half), PLIM_FP32));
  set(t, &c, mul_scalar(t, k_unary(t, both)));
  set(t, &s, mul_scalar(t, k_unary(t, both)));
  plim_tensor *low_c = to(t, c, dtype), *low_s = NULL;
  set(t, cos, low_c);
  low_s = to(t, s, dtype);
  set(t, sin, low_s);
  drop_all(t, &wide, &angles, &both, &c, &s);
  set_grad_mode(t, was);
}

static plim_tensor *rotate_half(plim_tape *t, plim_tensor *x) {
  int64_t d = x->shape.at[3];
  plim_tensor *x1 = NULL, *x2 = NULL;
  set(t, &x1, slice(t, x, 3, 0, d / 2));
  set(t, &x2, slice(t, x, 3, d / 2, d));
  plim_tensor *out = cat2(t, neg(t, x2), x1, 3);
  drop_all(t, &x1, &x2);
  return out;
}

static plim_tensor *rotated(plim_tape *t, plim_tensor *x, plim_tensor *cos, plim_tensor *sin) {
  plim_tensor *straight = mul(t, x, cos);
  plim_tensor *across = mul(t, rotate_half(t, x), sin);
  return add(t, straight, across);
}

void plim_apply_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                     plim_tensor **k) {
  plim_tensor *c = NULL, *s = NULL;
  plim_tape_at(t, "rope");
  set(t, &c, unsqueeze(t, cos, 1));
  set(t, &s, unsqueeze(t, sin, 1));
  plim_tensor *new_q = rotated(t, *q, c, s), *new_k = NULL;
  new_k = rotated(t, *k, c, s);
  set(t, q, new_q);
  set(t, k, new_k);
  drop_all(t, &c, &s);
}

void plim_apply_wide_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                          plim_tensor **k) {
  plim_dtype dtype = (plim_dtype)(*q)->dtype;
  plim_tensor *new_q = NULL, *new_k = NULL, *low_q = NULL, *low_k = NULL;
  set(t, &new_q, *q);
  set(t, &new_k, *k);
  plim_apply_rope(t, cos, sin, &new_q, &new_k);
  set(t, &low_q, to(t, new_q, dtype));
  set(t, &low_k, to(t, new_k, dtype));
  drop_all(t, &new_q, &new_k);
  set(t, q, give(t, &low_q));
  set(t, k, give(t, &low_k));
}

// All slices are made before the first product, because backward runs the nodes in that order.
void plim_apply_rope_parts(plim_tape *t, plim_tensor *cos, plim_tensor *sin, bool joins_last,
                           plim_tensor **q, plim_tensor **k) {
  int64_t width = cos->shape.at[2], head_dim = (*q)->shape.at[3];
  plim_tensor *c = NULL, *s = NULL, *q_part = NULL, *q_rest = NULL, *k_part = NULL, *k_rest = NULL;
  plim_tensor *new_q = NULL, *new_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &c, unsqueeze(t, cos, 1));
  set(t, &s, unsqueeze(t, sin, 1));
  set(t, &q_part, slice(t, *q, 3, 0, width));
  set(t, &q_rest, slice(t, *q, 3, width, head_dim));
  set(t, &k_part, slice(t, *k, 3, 0, width));
  set(t, &k_rest, slice(t, *k, 3, width, head_dim));
  set(t, &new_q, rotated(t, q_part, c, s));
  if (!joins_last) set(t, &new_q, cat2(t, new_q, q_rest, 3));
  set(t, &new_k, rotated(t, k_part, c, s));
  if (joins_last) set(t, &new_q, cat2(t, new_q, q_rest, 3));
  set(t, &new_k, cat2(t, new_k, k_rest, 3));
  drop_all(t, &c, &s, &q_part, &q_rest, &k_part, &k_rest);
  set(t, q, give(t, &new_q));
  set(t, k, give(t, &new_k));
}
