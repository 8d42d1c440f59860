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
  plim_tape_written(t, PLIM_BY_CHECKING_KERNEL);
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

plim_tensor *plim_inverse_powers(plim_tape *t, int64_t n) {
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
  plim_tensor *inverse = plim_inverse_powers(t, n), *waves = divided_by(t, inverse);
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

// The rotated pairs, and zeros for the others.
static plim_tensor *proportional(plim_tape *t, int64_t n, double share) {
  int64_t turned = (int64_t)(share * (double)n);
  plim_tensor *inverse = plim_inverse_powers(t, turned);
  if (turned == n) return inverse;
  plim_tensor *zeros = floats(t, n - turned), *all = floats(t, n);
  plim_consume(t, zeros);
  plim_consume(t, inverse);
  return all;
}

static plim_tensor *frequencies(plim_tape *t, plim_rope_kind kind, int64_t n, double share) {
  switch (kind) {
  case PLIM_ROPE_LINEAR: // divided in place
  case PLIM_ROPE_DYNAMIC: return plim_inverse_powers(t, n);
  case PLIM_ROPE_LLAMA3: return llama3(t, n);
  case PLIM_ROPE_LONG: return longrope(t, n);
  case PLIM_ROPE_YARN: return yarn(t, n);
  case PLIM_ROPE_PROPORTIONAL: return proportional(t, n, share);
  default:
    return plim_transformers_from(t, 5, 15) ? plim_inverse_frequencies(t, n)
                                            : plim_inverse_powers(t, n);
  }
}

// ---- the module -----------------------------------------------------------------------------------

void plim_rope_new(plim_tape *t, plim_rope_kind kind, int64_t width, plim_rope_buffers *out) {
  int64_t n = (width + 1) / 2;
  set(t, &out->inv_freq, frequencies(t, kind, n, out->share));
  bool is_five = plim_transformers_from(t, 5, 0);
  set(t, &out->original, is_five ? floats(t, n) : out->inv_freq); // a copy
}

void plim_rope_init(plim_tape *t, plim_rope_kind kind, const plim_rope_buffers *b,
                    plim_tensor **again) {
  if (plim_transformers_from(t, 5, 0))
    set(t, again, frequencies(t, kind, b->inv_freq->shape.at[0], b->share));
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

static void rotary(plim_tape *t, plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                   bool is_half, bool scales, plim_tensor **cos, plim_tensor **sin) {
  bool was = set_grad_mode(t, false);
  int64_t half = inv_freq->shape.at[0];
  plim_tensor *angles = NULL, *both = NULL, *wide = NULL, *c = NULL, *s = NULL;
  set(t, &wide, empty(t, dims(1, 1, length), PLIM_FP32));
  set(t, &angles, empty(t, dims(1, half, length), PLIM_FP32));
  if (plim_transformers_from(t, 5, 19)) drop(t, &wide); // a product of both, not of matrices
  else k_outer_product(t);
  set(t, &both,
      is_half ? k_transpose(t, angles, 1, 2) : empty(t, dims(1, length, 2 * half), PLIM_FP32));
  if (plim_transformers_from(t, 4, 51)) {
    set(t, &c, mul_scalar(t, k_unary(t, both)));
    set(t, &s, mul_scalar(t, k_unary(t, both)));
  } else { // scaled once both exist
    set(t, &c, k_unary(t, both));
    set(t, &s, k_unary(t, both));
    if (scales) set(t, &c, mul_scalar(t, c));
    if (scales) set(t, &s, mul_scalar(t, s));
  }
  plim_tensor *low_c = to(t, c, dtype), *low_s = NULL;
  set(t, cos, low_c);
  low_s = to(t, s, dtype);
  set(t, sin, low_s);
  drop_all(t, &wide, &angles, &both, &c, &s);
  set_grad_mode(t, was);
}

void plim_rotary(plim_tape *t, plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                 bool is_half, plim_tensor **cos, plim_tensor **sin) {
  rotary(t, inv_freq, length, dtype, is_half, true, cos, sin);
}

void plim_layer_rotary(plim_tape *t, plim_tensor *inv_freq, int64_t length, plim_dtype dtype,
                       plim_tensor **cos, plim_tensor **sin) {
  rotary(t, inv_freq, length, dtype, false, false, cos, sin);
}

// One angle of each pair from the grid that it belongs to, twice: (B,T,D). Those of two grids are written between the ones
// of the first, or parts of all are concatenated.
static plim_tensor *recompose(plim_tape *t, int64_t batch, int64_t length, int64_t half,
                              bool is_sectioned) {
  plim_tensor *one = is_sectioned ? empty(t, dims(batch, length, half), PLIM_FP32) : NULL;
  plim_tensor *out = empty(t, dims(batch, length, 2 * half), PLIM_FP32);
  if (one) plim_consume(t, one);
  return out;
}

void plim_grid_rotary(plim_tape *t, const plim_tensor *inv_freq, int64_t batch, int64_t length,
                      bool is_sectioned, plim_dtype dtype, plim_tensor **cos, plim_tensor **sin) {
  enum { GRIDS = 3 };
  bool was = set_grad_mode(t, false);
  int64_t half = inv_freq->shape.at[0];
  plim_tensor *wide = NULL, *angles = NULL, *c = NULL, *s = NULL;
  set(t, &wide, empty(t, dims(GRIDS, batch, 1, length), PLIM_FP32));
  set(t, &angles, empty(t, dims(GRIDS, batch, half, length), PLIM_FP32));
  k_outer_product(t);
  set(t, &c, mul_scalar(t, k_unary(t, angles)));
  set(t, &s, mul_scalar(t, k_unary(t, angles)));
  set(t, &s, recompose(t, batch, length, half, is_sectioned));
  set(t, &c, recompose(t, batch, length, half, is_sectioned));
  plim_tensor *low_c = to(t, c, dtype), *low_s = NULL;
  set(t, cos, low_c);
  low_s = to(t, s, dtype);
  set(t, sin, low_s);
  drop_all(t, &wide, &angles, &c, &s);
  set_grad_mode(t, was);
}

void plim_complex_rotary(plim_tape *t, const plim_tensor *inv_freq, int64_t length,
                         plim_tensor **turns) {
  bool was = set_grad_mode(t, false);
  int64_t half = inv_freq->shape.at[0];
  plim_tensor *wide = NULL, *angles = NULL;
  set(t, &wide, empty(t, dims(1, 1, length), PLIM_FP32));
  set(t, &angles, empty(t, dims(1, half, length), PLIM_FP32));
  k_outer_product(t);
  plim_tensor *ones = empty(t, dims(1, length, half), PLIM_FP32);
  set(t, turns, empty(t, dims(1, length, half), PLIM_FP64)); // torch.polar
  plim_consume(t, ones);
  set(t, turns, mul_scalar(t, *turns));
  drop_all(t, &wide, &angles);
  set_grad_mode(t, was);
}

void plim_rope_cache(plim_tape *t, plim_rope_buffers *b, int64_t positions, plim_dtype dtype) {
  int64_t half = b->inv_freq->shape.at[0];
  plim_dims whole = dims(positions, 2 * half);
  plim_tensor *range = empty(t, dims(positions), PLIM_I64);
  plim_tensor *wide = floats(t, positions);
  plim_consume(t, range);
  plim_tensor *angles = empty(t, dims(positions, half), PLIM_FP32);
  plim_tensor *both = empty(t, whole, PLIM_FP32);
  set(t, &b->cos, to(t, empty(t, whole, PLIM_FP32), dtype));
  set(t, &b->sin, to(t, empty(t, whole, PLIM_FP32), dtype));
  consume_all(t, wide, angles, both);
}

// cos_cached[:length].to(dtype)[position_ids]
void plim_cached_rotary(plim_tape *t, const plim_rope_buffers *b, plim_tensor *positions,
                        plim_dtype dtype, plim_tensor **cos, plim_tensor **sin) {
  int64_t length = positions->shape.at[1], width = b->cos->shape.at[1];
  plim_tensor *all_cos = NULL, *all_sin = NULL, *ids = NULL;
  set(t, &ids, view(t, positions, dims(-1)));
  set(t, &all_cos, to(t, slice_rows(t, b->cos, 0, length), dtype));
  set(t, &all_sin, to(t, slice_rows(t, b->sin, 0, length), dtype));
  set(t, cos, view(t, index_rows(t, all_cos, ids), dims(1, length, width)));
  set(t, sin, view(t, index_rows(t, all_sin, ids), dims(1, length, width)));
  drop_all(t, &all_cos, &all_sin, &ids);
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

plim_tensor *plim_rotate(plim_tape *t, plim_tensor *x, plim_tensor *cos, plim_tensor *sin,
                         int dim) {
  plim_tensor *c = NULL, *s = NULL;
  plim_tape_at(t, "rope");
  set(t, &c, unsqueeze(t, cos, dim));
  set(t, &s, unsqueeze(t, sin, dim));
  plim_tensor *out = rotated(t, x, c, s);
  drop_all(t, &c, &s);
  return out;
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

// (x.float() * cos) + (rotate_half(x.float()) * sin)
static plim_tensor *rotated_wide(plim_tape *t, plim_tensor *x, plim_tensor *cos, plim_tensor *sin) {
  plim_tensor *straight = mul(t, to(t, x, PLIM_FP32), cos), *wide = NULL;
  set(t, &wide, to(t, x, PLIM_FP32));
  plim_tensor *across = rotate_half(t, wide);
  drop(t, &wide);
  return add(t, straight, mul(t, across, sin));
}

void plim_apply_rope_widening(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                              plim_tensor **k) {
  plim_dtype dtype = (plim_dtype)(*q)->dtype;
  plim_tensor *c = NULL, *s = NULL, *new_q = NULL, *new_k = NULL, *low_q = NULL, *low_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &c, unsqueeze(t, cos, 1));
  set(t, &s, unsqueeze(t, sin, 1));
  set(t, &new_q, rotated_wide(t, *q, c, s));
  set(t, &new_k, rotated_wide(t, *k, c, s));
  set(t, &low_q, to(t, new_q, dtype));
  set(t, &low_k, to(t, new_k, dtype));
  drop_all(t, &c, &s, &new_q, &new_k);
  set(t, q, give(t, &low_q));
  set(t, k, give(t, &low_k));
}

// first * cos - second * sin, second * cos + first * sin
static void turn_pair(plim_tape *t, plim_tensor *first, plim_tensor *second, plim_tensor *cos,
                      plim_tensor *sin, plim_tensor **new_first, plim_tensor **new_second) {
  plim_tensor *straight = mul(t, first, cos), *across = NULL;
  across = mul(t, second, sin);
  set(t, new_first, sub(t, straight, across));
  straight = mul(t, second, cos);
  across = mul(t, first, sin);
  set(t, new_second, add(t, straight, across));
}

static plim_tensor *rotated_halves(plim_tape *t, plim_tensor *x, plim_tensor *cos,
                                   plim_tensor *sin) {
  plim_tensor *first = NULL, *second = NULL, *new_first = NULL, *new_second = NULL;
  split(t, x, &first, &second);
  turn_pair(t, first, second, cos, sin, &new_first, &new_second);
  plim_tensor *out = cat2(t, new_first, new_second, 3);
  drop_all(t, &first, &second, &new_first, &new_second);
  return out;
}

void plim_apply_half_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                          plim_tensor **k) {
  plim_tensor *c = NULL, *s = NULL, *new_q = NULL, *new_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &c, unsqueeze(t, cos, 1));
  set(t, &s, unsqueeze(t, sin, 1));
  set(t, &new_q, rotated_halves(t, *q, c, s));
  set(t, &new_k, rotated_halves(t, *k, c, s));
  drop_all(t, &c, &s);
  set(t, q, give(t, &new_q));
  set(t, k, give(t, &new_k));
}

// A list holds both results until they are concatenated.
static plim_tensor *joined_pair(plim_tape *t, plim_tensor *first, plim_tensor *second,
                                plim_tensor *cos, plim_tensor *sin) {
  plim_tensor *new_first = NULL, *new_second = NULL;
  turn_pair(t, first, second, cos, sin, &new_first, &new_second);
  plim_tensor *out = cat2(t, new_first, new_second, 3);
  drop_all(t, &new_second, &new_first);
  return out;
}

void plim_apply_interleaved_rope(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                                 plim_tensor **k) {
  int64_t half = cos->shape.at[2] / 2;
  plim_tensor *c = NULL, *s = NULL, *q1 = NULL, *q2 = NULL, *k1 = NULL, *k2 = NULL;
  plim_tensor *new_q = NULL, *new_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &c, unsqueeze(t, slice(t, cos, 2, 0, half), 1));
  set(t, &s, unsqueeze(t, slice(t, sin, 2, 0, half), 1));
  set(t, &q1, every_other(t, *q));
  set(t, &q2, every_other(t, *q));
  set(t, &k1, every_other(t, *k));
  set(t, &k2, every_other(t, *k));
  set(t, &new_q, joined_pair(t, q1, q2, c, s));
  set(t, &new_k, joined_pair(t, k1, k2, c, s));
  drop_all(t, &c, &s, &q1, &q2, &k1, &k2);
  set(t, q, give(t, &new_q));
  set(t, k, give(t, &new_k));
}

// All slices are made before the first product, because backward runs the nodes in that order.
static void take_parts(plim_tape *t, int64_t width, plim_tensor *q, plim_tensor *k,
                       plim_rope_parts *out) {
  int64_t head_dim = q->shape.at[3];
  set(t, &out->q_part, slice(t, q, 3, 0, width));
  set(t, &out->q_rest, slice(t, q, 3, width, head_dim));
  set(t, &out->k_part, slice(t, k, 3, 0, width));
  set(t, &out->k_rest, slice(t, k, 3, width, head_dim));
}

static void drop_parts(plim_tape *t, plim_rope_parts *p) {
  drop_all(t, &p->q_part, &p->q_rest, &p->k_part, &p->k_rest);
}

void plim_apply_rope_parts(plim_tape *t, plim_tensor *cos, plim_tensor *sin, bool joins_last,
                           plim_tensor **q, plim_tensor **k) {
  plim_rope_parts p = {0};
  plim_tensor *c = NULL, *s = NULL, *new_q = NULL, *new_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &c, unsqueeze(t, cos, 1));
  set(t, &s, unsqueeze(t, sin, 1));
  take_parts(t, cos->shape.at[2], *q, *k, &p);
  set(t, &new_q, rotated(t, p.q_part, c, s));
  if (!joins_last) set(t, &new_q, cat2(t, new_q, p.q_rest, 3));
  set(t, &new_k, rotated(t, p.k_part, c, s));
  if (joins_last) set(t, &new_q, cat2(t, new_q, p.q_rest, 3));
  set(t, &new_k, cat2(t, new_k, p.k_rest, 3));
  drop_all(t, &c, &s);
  drop_parts(t, &p);
  set(t, q, give(t, &new_q));
  set(t, k, give(t, &new_k));
}

void plim_apply_rope_keeping(plim_tape *t, plim_tensor *cos, plim_tensor *sin,
                             plim_rope_parts *parts, plim_tensor **q, plim_tensor **k) {
  plim_tape_at(t, "rope");
  take_parts(t, cos->shape.at[2], *q, *k, parts);
  plim_apply_rope(t, cos, sin, &parts->q_part, &parts->k_part);
  set(t, q, cat2(t, parts->q_part, parts->q_rest, 3));
  set(t, k, cat2(t, parts->k_part, parts->k_rest, 3));
}

void plim_apply_rope_at_once(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                             plim_tensor **k) {
  plim_rope_parts p = {0};
  plim_tensor *new_q = NULL, *new_k = NULL;
  set(t, &new_q, *q);
  set(t, &new_k, *k);
  plim_apply_rope_keeping(t, cos, sin, &p, &new_q, &new_k);
  drop_parts(t, &p);
  set(t, q, give(t, &new_q));
  set(t, k, give(t, &new_k));
}

// stack((-second of each pair, first of each pair), dim=-1).flatten(-2)
static plim_tensor *rotate_pairs(plim_tape *t, plim_tensor *x) {
  plim_dims shape = x->shape;
  plim_tensor *first = NULL, *second = NULL;
  set(t, &first, every_other(t, x));
  set(t, &second, every_other(t, x));
  plim_tensor *turned = unsqueeze(t, neg(t, second), 4);
  plim_tensor *out = cat2(t, turned, unsqueeze(t, first, 4), 4);
  drop_all(t, &first, &second);
  return view(t, out, shape);
}

static plim_tensor *rotated_pairs(plim_tape *t, plim_tensor *x, plim_tensor *cos,
                                  plim_tensor *sin) {
  plim_tensor *straight = mul(t, x, cos);
  plim_tensor *across = mul(t, rotate_pairs(t, x), sin);
  return add(t, straight, across);
}

// x.unsqueeze(1)[..., : width / 2].repeat_interleave(2, dim=-1)
static plim_tensor *spread(plim_tape *t, const plim_tensor *x) {
  return empty(t, dims(x->shape.at[0], 1, x->shape.at[1], x->shape.at[2]), (plim_dtype)x->dtype);
}

void plim_apply_rope_to_neighbours(plim_tape *t, plim_tensor *cos, plim_tensor *sin, bool is_paired,
                                   plim_tensor **q, plim_tensor **k) {
  plim_rope_parts p = {0};
  plim_tensor *c = NULL, *s = NULL, *new_q = NULL, *new_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &c, is_paired ? unsqueeze(t, cos, 1) : spread(t, cos));
  set(t, &s, is_paired ? unsqueeze(t, sin, 1) : spread(t, sin));
  take_parts(t, cos->shape.at[2], *q, *k, &p);
  set(t, &new_q, rotated_pairs(t, p.q_part, c, s));
  set(t, &new_k, rotated_pairs(t, p.k_part, c, s));
  set(t, &new_q, cat2(t, new_q, p.q_rest, 3));
  set(t, &new_k, cat2(t, new_k, p.k_rest, 3));
  drop_all(t, &c, &s);
  drop_parts(t, &p);
  set(t, q, give(t, &new_q));
  set(t, k, give(t, &new_k));
}

void plim_apply_wide_rope_to_neighbours(plim_tape *t, plim_tensor *cos, plim_tensor *sin,
                                        plim_tensor **q, plim_tensor **k) {
  plim_dtype dtype = (plim_dtype)(*q)->dtype;
  plim_tensor *c = NULL, *s = NULL, *wide_q = NULL, *wide_k = NULL, *new_q = NULL, *new_k = NULL;
  plim_tensor *low_q = NULL, *low_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &wide_q, to(t, *q, PLIM_FP32));
  set(t, &wide_k, to(t, *k, PLIM_FP32));
  set(t, &c, unsqueeze(t, cos, 1));
  set(t, &s, unsqueeze(t, sin, 1));
  set(t, &new_q, rotated_pairs(t, wide_q, c, s));
  set(t, &new_k, rotated_pairs(t, wide_k, c, s));
  set(t, &low_q, to(t, new_q, dtype));
  set(t, &low_k, to(t, new_k, dtype));
  drop_all(t, &wide_q, &wide_k, &c, &s, &new_q, &new_k);
  set(t, q, give(t, &low_q));
  set(t, k, give(t, &low_k));
}

// torch.repeat_interleave(x[:, :, None, :], 2, 3)
static plim_tensor *doubled(plim_tape *t, const plim_tensor *x) {
  return empty(t, dims(x->shape.at[0], x->shape.at[1], 1, 2 * x->shape.at[2]),
               (plim_dtype)x->dtype);
}

plim_tensor *plim_rotate_pairs(plim_tape *t, plim_tensor *x, plim_tensor *cos, plim_tensor *sin) {
  plim_tensor *c = NULL, *s = NULL;
  plim_tape_at(t, "rope");
  set(t, &s, doubled(t, sin));
  set(t, &c, doubled(t, cos));
  plim_tensor *out = rotated_pairs(t, x, c, s);
  drop_all(t, &s, &c);
  return out;
}

// x.float() * cos + rotate_pairs(x).float() * sin
static plim_tensor *rotated_pairs_wide(plim_tape *t, plim_tensor *x, plim_tensor *cos,
                                       plim_tensor *sin) {
  plim_tensor *straight = mul(t, to(t, x, PLIM_FP32), cos);
  plim_tensor *across = mul(t, to(t, rotate_pairs(t, x), PLIM_FP32), sin);
  return add(t, straight, across);
}

void plim_apply_rope_to_all_neighbours(plim_tape *t, plim_tensor *cos, plim_tensor *sin,
                                       bool is_wide, plim_tensor **q, plim_tensor **k) {
  plim_tensor *(*turned)(plim_tape *, plim_tensor *, plim_tensor *, plim_tensor *) =
      is_wide ? rotated_pairs_wide : rotated_pairs;
  plim_dtype own = (plim_dtype)(*q)->dtype;
  plim_tensor *c = NULL, *s = NULL, *new_q = NULL, *new_k = NULL, *low_q = NULL, *low_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &c, spread(t, cos));
  set(t, &s, spread(t, sin));
  set(t, &new_q, turned(t, *q, c, s));
  set(t, &new_k, turned(t, *k, c, s));
  set(t, &low_q, is_wide ? to(t, new_q, own) : new_q);
  set(t, &low_k, is_wide ? to(t, new_k, own) : new_k);
  drop_all(t, &c, &s, &new_q, &new_k);
  set(t, q, give(t, &low_q));
  set(t, k, give(t, &low_k));
}

static plim_tensor *to_complex(plim_tape *t, plim_tensor *x) {
  plim_dims shape = x->shape;
  shape.at[3] /= 2, shape.at[4] = 2, shape.n = 5;
  return view_as_complex(t, reshape(t, to(t, x, PLIM_FP32), shape));
}

static plim_tensor *turned(plim_tape *t, plim_tensor *pairs, plim_tensor *turns,
                           const plim_tensor *like) {
  return reshape(t, view_as_real(t, mul_complex(t, pairs, turns)), like->shape);
}

static plim_tensor *turned_back(plim_tape *t, plim_tensor *pairs, plim_tensor *turns,
                                plim_tensor *like) {
  return to(t, turned(t, pairs, turns, like), (plim_dtype)like->dtype);
}

void plim_apply_complex_rope(plim_tape *t, plim_tensor *turns, plim_tensor **q, plim_tensor **k) {
  plim_tensor *q_pairs = NULL, *k_pairs = NULL, *spread = NULL, *new_q = NULL, *new_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &q_pairs, to_complex(t, *q));
  set(t, &k_pairs, to_complex(t, *k));
  set(t, &spread, unsqueeze(t, turns, 1));
  set(t, &new_q, turned_back(t, q_pairs, spread, *q));
  set(t, &new_k, turned_back(t, k_pairs, spread, *k));
  drop_all(t, &spread, &q_pairs, &k_pairs);
  set(t, q, give(t, &new_q));
  set(t, k, give(t, &new_k));
}

void plim_apply_complex_rope_to_rows(plim_tape *t, plim_tensor *turns, plim_tensor **q,
                                     plim_tensor **k) {
  plim_tensor *q_pairs = NULL, *k_pairs = NULL, *wide_q = NULL, *wide_k = NULL;
  plim_tensor *new_q = NULL, *new_k = NULL;
  plim_tape_at(t, "rope");
  set(t, &q_pairs, to_complex(t, *q));
  set(t, &k_pairs, to_complex(t, *k));
  set(t, &wide_q, turned(t, q_pairs, unsqueeze(t, turns, 2), *q));
  set(t, &wide_k, turned(t, k_pairs, unsqueeze(t, turns, 2), *k));
  set(t, &new_q, to(t, wide_q, (plim_dtype)(*q)->dtype));
  set(t, &new_k, to(t, wide_k, (plim_dtype)(*k)->dtype));
  drop_all(t, &q_pairs, &k_pairs, &wide_q, &wide_k);
  set(t, q, give(t, &new_q));
  set(t, k, give(t, &new_k));
}
