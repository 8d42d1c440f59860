#include "attention.h"

#include "flash_attention.h"
#include "kernels.h"
#include "ops.h"
#include "rounding.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

typedef struct {
  plim_tensor *mask; // NULL: none
  double dropout_p;  // applies to the probabilities
  bool is_causal;
  bool broadcasts; // one head of keys and values
} options;

// A tensor of shape (B,H,T,D) stored in memory as (B,T,H,D).
static plim_tensor *heads_of_width(plim_tape *t, const plim_tensor *like, int64_t heads,
                                   int64_t d) {
  int64_t b = like->shape.at[0], length = like->shape.at[2];
  plim_dims shape = dims(b, heads, length, d), stride = dims(length * heads * d, d, heads * d, 1);
  return empty_strided(t, shape, stride, (plim_dtype)like->dtype);
}

static plim_tensor *heads_inside(plim_tape *t, const plim_tensor *like, int64_t heads) {
  return heads_of_width(t, like, heads, like->shape.at[3]);
}

// ---- cuDNN ----------------------------------------------------------------------------------------

// cuDNN's fused attention: sizes fitted to the recordings.
static uint64_t cudnn_workspace_bytes(const plim_tensor *q, const plim_tensor *k) {
  int64_t batch = q->shape.at[0], heads = q->shape.at[1], queries = q->shape.at[2];
  int64_t width = q->shape.at[3], keys = k->shape.at[2];
  int64_t bytes = batch * heads * queries * (width * 4 + 4) + 256;
  if (k->shape.at[1] != heads) bytes += batch * heads * keys * width * 4;
  return (uint64_t)bytes;
}

// What attention saves, in the order of release. If there is a mask, the bias comes before these.
enum { SAVED_KEY, SAVED_QUERY, SAVED_VALUE, FLASH_SAVED_OUT = 4 };

static void cudnn_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)in;
  plim_tensor **saved = n->saved + n->number; // after the bias
  out[0] = k_like(t, saved[SAVED_QUERY]);
  out[1] = k_like(t, saved[SAVED_KEY]);
  out[2] = k_like(t, saved[SAVED_VALUE]);
  plim_work_attention_backward(t, n, PLIM_SDPA_CUDNN, out);
  plim_consume(t, scratch(t, cudnn_workspace_bytes(saved[SAVED_QUERY], saved[SAVED_KEY])));
}

// 0 where the mask is true, minus infinity elsewhere; takes two scalars and a tensor. A numeric mask is already a
// bias.
static plim_tensor *bias_from(plim_tape *t, plim_tensor *mask, plim_dtype dtype) {
  if (mask->dtype != PLIM_BOOL) return mask;
  plim_tensor *zero = empty(t, (plim_dims){0}, dtype), *infinity = empty(t, (plim_dims){0}, dtype);
  plim_tensor *bias = k_map(t, mask->shape, dtype, mask, NULL);
  plim_consume(t, infinity);
  plim_consume(t, zero);
  return bias;
}

static plim_tensor *cudnn(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                          plim_tensor *mask) {
  plim_tensor *bias = mask ? bias_from(t, mask, (plim_dtype)q->dtype) : NULL;
  plim_grad_node *n = node_begin(t, cudnn_backward, (plim_tensor *[]){q, k, v}, 3);
  if (n) n->number = bias != NULL, node_save(t, n, bias);
  if (n) node_save(t, n, k), node_save(t, n, q), node_save(t, n, v);
  plim_dims scalar = {0}, shape = q->shape, rows = q->shape;
  plim_tensor *seed = empty(t, scalar, PLIM_I64), *offset = empty(t, scalar, PLIM_I64);
  shape.at[3] = v->shape.at[3];
  rows.at[3] = 1;
  plim_tensor *out = empty_strided(t, shape, k_strides(q, NULL), (plim_dtype)q->dtype);
  plim_tensor *logsumexp = n ? empty(t, rows, PLIM_FP32) : NULL;
  plim_work_attention(t, n, PLIM_SDPA_CUDNN, q, k);
  plim_tape_written(t, PLIM_BY_CUDNN);
  plim_consume(t, scratch(t, 256));
  plim_tensor *kept[] = {logsumexp, out, offset, seed};
  for (size_t i = 0; n && i < sizeof kept / sizeof *kept; i++) node_save_output(t, n, kept[i]);
  if (n) node_output(t, n, out);
  consume_all(t, logsumexp, seed, offset, bias, q, k, v, mask);
  return out;
}

// ---- flash ----------------------------------------------------------------------------------------

// A contiguous copy of (B,H,T,D) as (B,T,H,D); NULL if it lies in memory like that.
static plim_tensor *copy_tokens_first(plim_tape *t, plim_tensor *x) {
  plim_tensor *flipped = k_transpose(t, x, 1, 2);
  bool is_contiguous = plim_is_contiguous(flipped);
  plim_tensor *copy = is_contiguous ? NULL : empty(t, flipped->shape, (plim_dtype)x->dtype);
  plim_consume(t, flipped);
  return copy;
}

static void flash_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *q = n->saved[SAVED_QUERY], *k = n->saved[SAVED_KEY], *v = n->saved[SAVED_VALUE];
  int64_t b = q->shape.at[0], heads = q->shape.at[1], d = q->shape.at[3];
  int64_t rows = plim_round_up(q->shape.at[2], 128);
  plim_tensor *grad = copy_tokens_first(t, in[0]);
  plim_tensor *result = copy_tokens_first(t, n->saved[FLASH_SAVED_OUT]);
  out[0] = k_like(t, q);
  out[1] = k_like(t, k);
  out[2] = k_like(t, v);
  plim_work_attention_backward(t, n, PLIM_SDPA_FLASH, out);
  plim_tensor *sums = empty(t, dims(b, heads, rows), PLIM_FP32);
  plim_tensor *dq = empty(t, dims(b, rows, heads, plim_round_up(d, d <= 128 ? 32 : 64)), PLIM_FP32);
  bool grouped = k->shape.at[1] != heads;
  plim_tensor *wide_k = grouped ? heads_inside(t, k, heads) : NULL;
  plim_tensor *wide_v = grouped ? heads_inside(t, v, heads) : NULL;
  consume_all(t, wide_v, wide_k, dq, sums, result, grad);
}

static plim_tensor *flash(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                          double dropout_p) {
  plim_grad_node *n = node_begin(t, flash_backward, (plim_tensor *[]){q, k, v}, 3);
  if (n) node_save(t, n, k), node_save(t, n, q), node_save(t, n, v);
  plim_tensor *out = k_like(t, q);
  plim_work_attention(t, n, PLIM_SDPA_FLASH, q, k);
  plim_dims rows = dims(q->shape.at[0], q->shape.at[1], q->shape.at[2]);
  plim_tensor *logsumexp = empty(t, rows, PLIM_FP32), *parts[2] = {0};
  plim_dims tokens_first = dims(rows.at[0], rows.at[2], rows.at[1], q->shape.at[3]);
  if (plim_torch_from(t, 2, 5)) plim_flash_take_parts(t, &tokens_first, dropout_p, parts);
  bool has_state = plim_torch_from(t, 2, 7); // before, on the host
  plim_tensor *state = has_state ? empty(t, dims(2), PLIM_I64) : NULL;
  plim_tensor *unused = has_state ? empty(t, (plim_dims){0}, PLIM_I64) : NULL;
  if (has_state && dropout_p > 0) { // the generator's state replaces the empty tensor
    plim_tensor *drawn = empty(t, dims(2), PLIM_I64);
    plim_consume(t, state);
    state = drawn;
  }
  plim_tensor *kept[] = {logsumexp, out, state, unused};
  for (size_t i = 0; n && i < (has_state ? 4 : 2); i++) node_save_output(t, n, kept[i]);
  if (n) node_output(t, n, out);
  if (has_state) plim_consume(t, parts[0]);
  consume_all(t, parts[1], has_state ? NULL : parts[0], logsumexp, state, unused);
  return out;
}

// ---- memory-efficient -----------------------------------------------------------------------------

enum { SAVED_BIAS_FIRST = 1 };

// The rows of the bias's gradient are padded to a multiple of 16 elements.
static plim_tensor *bias_gradient(plim_tape *t, const plim_tensor *bias) {
  plim_dims wide = bias->shape;
  wide.at[3] = plim_round_up(wide.at[3], 16);
  plim_tensor *padded = empty(t, wide, (plim_dtype)bias->dtype);
  plim_tensor *gradient = alias_of(t, padded, bias->shape, padded->stride);
  plim_consume(t, padded);
  return gradient;
}

// Temporary memory of backward: a float32 tile of the query's gradient for every block, with 16 bytes of bookkeeping.
// Heads above 128 in half precision also need the gradients of key and value there, once per part that the keys are
// split into. Tile sizes were measured on Hopper, which runs the kernels for Ampere, with heads of 32 to 256.
static uint64_t efficient_workspace_bytes(const plim_tensor *q, const plim_tensor *k) {
  int64_t lines = q->shape.at[0] * q->shape.at[1], d = q->shape.at[3];
  bool is_half = q->dtype != PLIM_FP32;
  int64_t rows = d <= 64 ? 64 : 128, columns = is_half && d > 64 && d <= 128 ? 128 : 64;
  int64_t tiles =
      plim_round_up(q->shape.at[2], rows) / rows * (plim_round_up(d, columns) / columns);
  int64_t bytes = tiles * (16 + rows * columns * 4);
  if (is_half && d > 128) {
    int64_t parts = plim_round_up(k->shape.at[2], 64) / 64,
            most = 200 / lines; // attention_backward.cu
    if (parts > most) parts = most > 1 ? most : 1;
    bytes += 2 * parts * 64 * plim_round_up(d, 128) * 4;
  }
  return (uint64_t)(lines * bytes);
}

static void efficient_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  (void)in;
  plim_tensor **saved = n->saved + n->number; // after the bias
  plim_tensor *q = saved[SAVED_QUERY], *k = saved[SAVED_KEY], *v = saved[SAVED_VALUE];
  int64_t b = q->shape.at[0], heads = q->shape.at[1], length = q->shape.at[2], d = v->shape.at[3];
  out[0] = heads_inside(t, q, heads);
  out[1] = heads_inside(t, k, k->shape.at[1]);
  out[2] = heads_inside(t, v, v->shape.at[1]);
  if (wants(n, 3)) out[3] = bias_gradient(t, n->saved[0]);
  bool is_grouped = k->shape.at[1] != heads;
  plim_tensor *wide_k = is_grouped ? heads_inside(t, k, heads) : NULL;
  plim_tensor *wide_v = is_grouped ? heads_inside(t, v, heads) : NULL;
  plim_tensor *delta;
  if (q->dtype == PLIM_FP32) {
    plim_tensor *product = empty(t, dims(b, length, heads, d), PLIM_FP32);
    plim_tensor *sum = empty(t, dims(b, length, heads), PLIM_FP32);
    delta = empty(t, dims(b, heads, length), PLIM_FP32);
    plim_consume(t, sum);
    plim_consume(t, product);
  } else delta = empty(t, dims(b, heads, length), PLIM_FP32);
  plim_tensor *workspace = scratch(t, efficient_workspace_bytes(q, k));
  consume_all(t, delta, workspace, wide_v, wide_k);
  plim_work_attention_backward(t, n, PLIM_SDPA_EFFICIENT, out);
}

static void pad_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  out[0] = empty(t, n->shape, (plim_dtype)in[0]->dtype);
}

// Rows of a bias are padded to a multiple of 8 elements; the result is a view without the padding.
static plim_tensor *align_rows(plim_tape *t, plim_tensor *bias) {
  int last = bias->shape.n - 1;
  int64_t keys = bias->shape.at[last];
  if (keys % 8 == 0) return bias;
  plim_dims wide = bias->shape;
  wide.at[last] = plim_round_up(keys, 8);
  plim_grad_node *n = node_begin(t, pad_backward, &bias, 1);
  if (n) n->shape = bias->shape;
  plim_tensor *padded = empty(t, wide, (plim_dtype)bias->dtype);
  plim_work_map(t, bias, NULL, padded);
  if (n) node_output(t, n, padded);
  plim_consume(t, bias);
  return slice(t, padded, last, 0, keys);
}

// Kernels for heads above 128 add up their output in float32 in memory (kNeedsOutputAccumulatorBuffer; recorded:
// gemma4_text, heads of 512).
static plim_tensor *efficient_accumulator(plim_tape *t, const plim_tensor *v,
                                          const plim_tensor *out) {
  enum { WIDEST_IN_REGISTERS = 128 };
  if (v->shape.at[3] <= WIDEST_IN_REGISTERS || out->dtype == PLIM_FP32) return NULL;
  return empty(t, out->shape, PLIM_FP32);
}

static plim_tensor *efficient(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                              plim_tensor *mask) {
  int64_t b = q->shape.at[0], heads = q->shape.at[1], length = q->shape.at[2];
  plim_tensor *bias = mask ? bias_from(t, mask, (plim_dtype)q->dtype) : NULL;
  if (bias) bias = expand(t, align_rows(t, bias), dims(b, heads, length, k->shape.at[2]));
  plim_grad_node *n = node_begin(t, efficient_backward, (plim_tensor *[]){q, k, v, bias}, 4);
  if (n) n->number = bias ? SAVED_BIAS_FIRST : 0, node_save(t, n, bias);
  if (n) node_save(t, n, k), node_save(t, n, q), node_save(t, n, v);
  bool is_grouped = k->shape.at[1] != heads; // since torch 2.14, with the generator's state
  plim_tensor *seed = is_grouped ? empty(t, (plim_dims){0}, PLIM_I64) : NULL;
  plim_tensor *offset = is_grouped ? empty(t, (plim_dims){0}, PLIM_I64) : NULL;
  plim_tensor *out = heads_of_width(t, q, heads, v->shape.at[3]);
  plim_work_attention(t, n, PLIM_SDPA_EFFICIENT, q, k);
  plim_tensor *logsumexp =
      n ? empty(t, dims(b, heads, plim_round_up(length, 32)), PLIM_FP32) : NULL;
  if (n) node_save_output(t, n, logsumexp), node_save_output(t, n, out);
  if (n && is_grouped) node_save_output(t, n, offset), node_save_output(t, n, seed);
  if (n) node_output(t, n, out);
  plim_consume(t, efficient_accumulator(t, v, out));
  consume_all(t, logsumexp, seed, offset);
  plim_consume(t, bias);
  return out;
}

// ---- math -----------------------------------------------------------------------------------------

static plim_tensor *causal_bias(plim_tape *t, int64_t queries, int64_t keys, plim_dtype dtype) {
  plim_tensor *ones = empty(t, dims(queries, keys), PLIM_BOOL);
  plim_tensor *lower = empty(t, dims(queries, keys), PLIM_BOOL);
  plim_consume(t, ones);
  plim_tensor *bias = bias_from(t, lower, dtype);
  plim_consume(t, lower);
  return bias;
}

static plim_tensor *repeat_heads(plim_tape *t, plim_tensor *x, int64_t times) {
  int64_t b = x->shape.at[0], h = x->shape.at[1], length = x->shape.at[2], d = x->shape.at[3];
  plim_tensor *spread = expand(t, unsqueeze(t, x, 2), dims(b, h, times, length, d));
  return view(t, contiguous_copy(t, spread), dims(b, h * times, length, d));
}

// The unfused computation: scores of every query against every key, in float32.
static plim_tensor *math(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                         const options *o) {
  plim_dtype dtype = (plim_dtype)q->dtype;
  int64_t groups = q->shape.at[1] / k->shape.at[1];
  plim_tensor *wide_q = NULL, *wide_k = NULL, *wide_v = NULL, *scaled = NULL, *bias = NULL;
  plim_tensor *weights = NULL, *low = NULL, *keys = NULL, *values = NULL;
  if (o->mask) set(t, &bias, bias_from(t, o->mask, dtype));
  set(t, &wide_q, to(t, q, PLIM_FP32));
  set(t, &wide_k, to(t, k, PLIM_FP32));
  set(t, &wide_v, to(t, v, PLIM_FP32));
  set(t, &scaled, mul_scalar(t, wide_q));
  if (o->is_causal) set(t, &bias, causal_bias(t, q->shape.at[2], k->shape.at[2], PLIM_FP32));
  if (o->broadcasts) groups = 1;
  set(t, &keys, groups > 1 ? repeat_heads(t, wide_k, groups) : wide_k);
  set(t, &values, groups > 1 ? repeat_heads(t, wide_v, groups) : wide_v);
  set(t, &weights, matmul(t, scaled, mul_scalar(t, transpose(t, keys, 2, 3))));
  if (bias) add_in_place(t, weights, bias);
  set(t, &weights, safe_softmax(t, weights));
  set(t, &weights, dropout(t, weights, o->dropout_p));
  set(t, &low, to(t, weights, dtype));
  plim_tensor *out = to(t, matmul(t, weights, values), dtype);
  drop_all(t, &weights, &keys, &values, &scaled);
  if (o->is_causal) drop(t, &bias); // the caller's, if it was made of a mask
  drop_all(t, &wide_v, &wide_k, &wide_q, &low, &bias);
  return out;
}

// ---- the choice -----------------------------------------------------------------------------------

void plim_tape_set_sdpa(plim_tape *t, plim_sdpa_kernel preferred) {
  plim_state(t)->sdpa = (uint8_t)preferred;
}

bool plim_tape_ran_math(const plim_tape *t) { return plim_const_state(t)->ran_math; }

// sdp_utils.cpp, check_prefer_cudnn_attention: Hopper and data centre Blackwell. Flash needs Ampere.
plim_sdpa_kernel plim_sdpa_preferred(const plim_gpu *gpu) {
  bool prefers_cudnn = gpu->capability >= 90 && gpu->capability < 110;
  return prefers_cudnn           ? PLIM_SDPA_CUDNN
         : gpu->capability >= 80 ? PLIM_SDPA_FLASH
                                 : PLIM_SDPA_EFFICIENT;
}

// Consumer cards have too little shared memory for flash's backward of the largest heads; sdp_utils.cpp,
// check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120.
static bool flash_fits(const plim_gpu *gpu, const plim_sdpa_call *c) {
  bool is_small = gpu->capability == 86 || gpu->capability == 89 || gpu->capability >= 120;
  bool is_odd = c->head_dim > 192 && c->head_dim <= 224;
  return !is_small || !(is_odd || (c->head_dim > 224 && c->has_dropout));
}

// The requirements of each kernel in sdp_utils.cpp. cuDNN accepts heads of 256 on Hopper (recorded: gemma2).
static bool kernel_can(plim_sdpa_kernel kernel, const plim_gpu *gpu, const plim_sdpa_call *c) {
  bool is_half = c->dtype == PLIM_FP16 || c->dtype == PLIM_BF16;
  bool mask_is_dense = !c->mask || c->mask->stride.at[c->mask->stride.n - 1] == 1;
  switch (kernel) {
  case PLIM_SDPA_CUDNN:
    return !c->avoids_cudnn && is_half && c->head_dim <= (gpu->capability == 90 ? 256 : 128) &&
           mask_is_dense && !(c->mask && c->mask->requires_grad);
  case PLIM_SDPA_FLASH:
    return is_half && gpu->capability >= 80 && c->head_dim <= 256 && !c->mask &&
           c->value_dim == c->head_dim && flash_fits(gpu, c);
  case PLIM_SDPA_EFFICIENT:
    return (c->heads_are_equal || c->groups_heads) && mask_is_dense &&
           (c->dtype != PLIM_BF16 || gpu->capability >= 80);
  default: return true;
  }
}

// Kernels are tried in the order of the enumeration, starting from the preferred one.
plim_sdpa_kernel plim_sdpa_choose(plim_sdpa_kernel preferred, const plim_gpu *gpu,
                                  const plim_sdpa_call *call) {
  int kernel = (int)preferred;
  while (!kernel_can((plim_sdpa_kernel)kernel, gpu, call)) kernel++;
  return (plim_sdpa_kernel)kernel;
}

// Before torch 2.10, cuDNN's kernel is the last choice. Since 2.12 it is not used with dropout.
static bool avoids_cudnn(const plim_tape *t, const options *o) {
  return !plim_torch_from(t, 2, 10) || (plim_torch_from(t, 2, 12) && o->dropout_p > 0);
}

static plim_tensor *run_kernel(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                               const options *o) {
  plim_sdpa_call call = {.dtype = (plim_dtype)q->dtype,
                         .head_dim = q->shape.at[3],
                         .value_dim = v->shape.at[3],
                         .mask = o->mask,
                         .heads_are_equal = q->shape.at[1] == k->shape.at[1],
                         .has_dropout = o->dropout_p > 0,
                         .avoids_cudnn = avoids_cudnn(t, o),
                         .groups_heads = plim_torch_from(t, 2, 14)};
  plim_sdpa_kernel kernel = o->broadcasts ? PLIM_SDPA_MATH
                                          : plim_sdpa_choose((plim_sdpa_kernel)plim_state(t)->sdpa,
                                                             plim_tape_gpu(t), &call);
  plim_state(t)->ran_math |= kernel == PLIM_SDPA_MATH;
  switch (kernel) {
  case PLIM_SDPA_FLASH: return flash(t, q, k, v, o->dropout_p);
  case PLIM_SDPA_EFFICIENT: return efficient(t, q, k, v, o->mask);
  case PLIM_SDPA_MATH: return math(t, q, k, v, o);
  default: return cudnn(t, q, k, v, o->mask);
  }
}

// Autocast casts from right to left: bias, value, key, query.
static plim_tensor *run(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v, options o) {
  plim_tape_at(t, "attention");
  plim_work_attention_kind(t, o.is_causal, o.dropout_p > 0);
  bool q_was = hold(q), k_was = hold(k), v_was = hold(v);
  plim_tensor *bias = cast(t, o.mask), *value = cast(t, v), *key = cast(t, k);
  plim_tensor *query = cast(t, q);
  bool bias_was = bias && hold(bias), value_was = hold(value), key_was = hold(key);
  bool query_was = hold(query);
  uint8_t autocast_was = plim_const_state(t)->autocast;
  plim_state(t)->autocast = PLIM_BOOL; // the kernels themselves cast nothing
  o.mask = bias;
  plim_tensor *out = run_kernel(t, query, key, value, &o);
  plim_state(t)->autocast = autocast_was;
  let_go(t, query, query_was);
  let_go(t, key, key_was);
  let_go(t, value, value_was);
  let_go(t, bias, bias_was);
  let_go(t, q, q_was);
  let_go(t, k, k_was);
  let_go(t, v, v_was);
  return out;
}

plim_tensor *attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                       plim_tensor *mask, double dropout_p) {
  return run(t, q, k, v, (options){mask, dropout_p, .is_causal = !mask});
}

plim_tensor *full_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                            plim_tensor *mask, double dropout_p) {
  return run(t, q, k, v, (options){mask, dropout_p, .is_causal = false});
}

plim_tensor *broadcast_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                 plim_tensor *mask) {
  return run(t, q, k, v, (options){mask, 0, .is_causal = !mask, .broadcasts = true});
}
