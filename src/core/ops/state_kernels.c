// mamba_ssm/ops/triton/ssd_combined.py: MambaSplitConv1dScanCombinedFn. It also multiplies by the weight of the projection,
// whose input it computes again in backward; here that is a layer of its own, which keeps its input.
#include "state_kernels.h"

#include "kernels.h"
#include "rounding.h"
#include "tape_state.h"
#include "work.h"

#include "tape_names.h"

enum { PROJECTED, CONV, CONV_BIAS, STEP_BIAS, RATES, SKIP, NORM, INPUTS }; // inputs
enum { OF_PROJECTED, OF_CONV, OF_RATES, OF_SCANNED, OF_NORM };             // what is saved
enum { ROWS = 32 }; // BLOCK_SIZE_M_min of _chunk_scan_bwd_ddAcs_stable

typedef struct {
  int64_t batch, length, heads, width, head, groups, size, chunk, chunks, channels;
  plim_dtype dtype;
} sizes;

static sizes sizes_of(const plim_tensor *projected, const plim_dims *kept) {
  const plim_dims *s = &projected->shape;
  int64_t heads = kept->at[0], width = kept->at[1], groups = kept->at[2], size = kept->at[3];
  return (sizes){.batch = s->at[0],
                 .length = s->at[1],
                 .heads = heads,
                 .width = width,
                 .head = width / heads,
                 .groups = groups,
                 .size = size,
                 .chunk = kept->at[4],
                 .chunks = plim_ceil_div(s->at[1], kept->at[4]),
                 .channels = width + 2 * groups * size,
                 .dtype = (plim_dtype)projected->dtype};
}

static plim_tensor *per_token(plim_tape *t, const sizes *s, int64_t width) {
  plim_tensor *out = empty(t, dims(s->batch, s->length, width), s->dtype);
  plim_work_map(t, NULL, NULL, out);
  return out;
}

static plim_tensor *per_step(plim_tape *t, const sizes *s) {
  plim_tensor *out = empty(t, dims(s->batch, s->heads, s->chunks, s->chunk), PLIM_FP32);
  plim_work_map(t, NULL, NULL, out);
  return out;
}

static plim_tensor *states_of(plim_tape *t, const sizes *s, plim_dtype dtype) {
  return empty(t, dims(s->batch, s->chunks, s->heads, s->head, s->size), dtype);
}

// _bmm_chunk_fwd, of "C" and "B".
static plim_tensor *products_in_chunks(plim_tape *t, const sizes *s, const plim_tensor *mixed) {
  plim_tensor *out = empty(t, dims(s->batch, s->chunks, s->groups, s->chunk, s->chunk), PLIM_FP32);
  plim_work_products(t, s->size, mixed, NULL, out);
  return out;
}

// What both passes compute of each chunk of `mixed`, which the convolution returns: _chunk_cumsum_fwd, _chunk_state_fwd and
// _state_passing_fwd.
typedef struct {
  plim_tensor *sums, *steps, *states, *last, *products;
} scan;

static scan scanned(plim_tape *t, const sizes *s, const plim_tensor *mixed, plim_dtype dtype) {
  scan x = {.sums = per_step(t, s), .steps = per_step(t, s)};
  plim_tensor *own = states_of(t, s, PLIM_FP32);
  plim_work_products(t, s->chunk, mixed, NULL, own);
  x.states = states_of(t, s, dtype);
  x.last = empty(t, dims(s->batch, s->heads, s->head * s->size), PLIM_FP32);
  plim_work_map(t, own, NULL, x.states);
  plim_consume(t, own);
  x.products = products_in_chunks(t, s, mixed);
  return x;
}

// ---- backward -----------------------------------------------------------------------------------------

// Gradients of "B", "C" and of their products have a part for each program on the card.
static int64_t parts_of(const plim_tape *t, const sizes *s) {
  int64_t ratio = s->heads / s->groups;
  int64_t heads = plim_ceil_div(s->batch * s->chunks * s->heads, plim_tape_gpu(t)->multiprocessors);
  return plim_ceil_div(ratio, heads < ratio ? heads : ratio);
}

static plim_tensor *summed(plim_tape *t, plim_tensor *parts) {
  plim_tensor *out = k_sum(t, parts, 1u << 2, false, PLIM_FP32);
  plim_consume(t, parts);
  return out;
}

static plim_tensor *state_gradient(plim_tape *t, const sizes *s, const plim_tensor *mixed) {
  plim_dims shape = dims(s->batch, s->length, parts_of(t, s), s->groups, s->size);
  plim_tensor *parts = empty(t, shape, PLIM_FP32);
  plim_work_products(t, s->head, mixed, NULL, parts);
  return summed(t, parts);
}

// _chunk_scan_bwd_dcb; (B, chunks, parts * G, chunk, chunk) is as large as the tensor of six dimensions.
static plim_tensor *product_gradient(plim_tape *t, const sizes *s, const plim_tensor *mixed) {
  plim_dims shape = dims(s->batch * s->chunks, s->groups, parts_of(t, s), s->chunk, s->chunk);
  plim_tensor *parts = empty(t, shape, PLIM_FP32);
  plim_work_products(t, s->head, mixed, NULL, parts);
  return summed(t, parts);
}

static plim_tensor *decay_gradient(plim_tape *t, const sizes *s, const plim_tensor *mixed) {
  plim_dims shape = dims(s->batch * s->heads, s->chunks, plim_ceil_div(s->chunk, ROWS), s->chunk);
  plim_tensor *parts = empty(t, shape, PLIM_FP32);
  plim_work_products(t, s->head, mixed, NULL, parts);
  return summed(t, parts);
}

// _layer_norm_bwd: the gradient of its input, and that of the weight from a row for each program.
static plim_tensor *norm_backward(plim_tape *t, const sizes *s, plim_tensor **weight,
                                  const plim_tensor *norm) {
  plim_tensor *out = per_token(t, s, s->width);
  int64_t rows = plim_ceil_div(plim_tape_gpu(t)->multiprocessors, s->groups);
  plim_tensor *parts = empty(t, dims(rows, s->width), PLIM_FP32);
  plim_tensor *sum = k_sum(t, parts, 1, false, PLIM_FP32);
  *weight = k_to(t, sum, (plim_dtype)norm->dtype);
  if (*weight != sum) plim_consume(t, sum);
  plim_consume(t, parts);
  return out;
}

// _mamba_chunk_scan_combined_bwd, whose results lie in the gradient of `projected`.
static void scan_backward(plim_tape *t, const sizes *s, const plim_tensor *mixed) {
  plim_tensor *steps = per_token(t, s, s->heads); // a copy
  scan x = scanned(t, s, mixed, PLIM_FP32);
  plim_tensor *wide = states_of(t, s, PLIM_FP32); // _chunk_scan_bwd_dstates
  plim_work_products(t, s->chunk, mixed, NULL, wide);
  plim_tensor *gradients = states_of(t, s, s->dtype), *states = states_of(t, s, s->dtype);
  plim_work_map(t, wide, x.states, gradients);
  consume_all(t, wide, x.states);
  plim_tensor *of_steps = per_step(t, s); // _chunk_scan_chunk_state_bwd_dx
  plim_tensor *b = state_gradient(t, s, mixed), *next = per_step(t, s);
  plim_tensor *c = state_gradient(t, s, mixed), *previous = per_step(t, s);
  plim_tensor *products = product_gradient(t, s, mixed);
  plim_tensor *sums = per_step(t, s); // flip, cumsum, flip
  plim_tensor *decay = decay_gradient(t, s, mixed);
  consume_all(t, steps, x.sums, x.steps, x.last, x.products, gradients, states, of_steps);
  consume_all(t, b, next, c, previous, products, sums, decay);
}

// The gradient of a parameter, which a kernel adds up in float32.
static plim_tensor *small_gradient(plim_tape *t, plim_dims shape, plim_dtype dtype) {
  plim_tensor *sum = empty(t, shape, PLIM_FP32), *out = k_to(t, sum, dtype);
  if (out != sum) plim_consume(t, sum);
  return out;
}

static void split_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  const plim_tensor *projected = n->saved[OF_PROJECTED], *conv = n->saved[OF_CONV];
  sizes s = sizes_of(projected, &n->shape);
  plim_dtype dtype = (plim_dtype)conv->dtype;
  bool has_norm = n->number;
  plim_tensor *mixed = per_token(t, &s, s.channels); // the convolution again
  plim_work_map(t, projected, conv, mixed);
  out[PROJECTED] = per_token(t, &s, projected->shape.at[2]);
  plim_tensor *of_mixed = per_token(t, &s, s.channels), *gradient;
  if (has_norm) gradient = norm_backward(t, &s, &out[NORM], n->saved[OF_NORM]);
  else gradient = per_token(t, &s, s.width); // _chunk_scan_bwd_dz
  plim_work_map(t, in[0], n->saved[OF_SCANNED], gradient);
  scan_backward(t, &s, mixed);
  out[CONV] = small_gradient(t, conv->shape, dtype);
  if (wants(n, CONV_BIAS)) out[CONV_BIAS] = small_gradient(t, dims(s.channels), dtype);
  out[STEP_BIAS] = small_gradient(t, dims(s.heads), dtype);
  out[RATES] = small_gradient(t, dims(s.heads), PLIM_FP32);
  out[SKIP] = small_gradient(t, dims(s.heads), dtype);
  consume_all(t, mixed, of_mixed, gradient);
}

// ---- forward ------------------------------------------------------------------------------------------

// Two results of the scan: what is saved, and with the gate or its norm what is returned.
plim_tensor *plim_mamba_split_scan(plim_tape *t, const plim_split_scan *in) {
  plim_dims kept = dims(in->skip->shape.at[0], in->width, in->groups, in->size, in->chunk);
  sizes s = sizes_of(in->projected, &kept);
  plim_tensor *inputs[INPUTS] = {in->projected, in->conv1d, in->conv_bias, in->step_bias,
                                 in->rates,     in->skip,   in->norm};
  plim_tape_at(t, "state space");
  plim_grad_node *n = node_begin(t, split_backward, inputs, INPUTS);
  if (n) {
    n->drops_in_order = true, n->shape = kept, n->number = in->norm != NULL;
    node_save(t, n, in->projected), node_save(t, n, in->conv1d), node_save(t, n, in->rates);
  }
  plim_tensor *mixed = per_token(t, &s, s.channels), *scale = NULL;
  plim_work_map(t, in->projected, in->conv1d, mixed);
  scan x = scanned(t, &s, mixed, s.dtype);
  plim_tensor *own = per_token(t, &s, s.width); // _chunk_scan_fwd
  plim_work_products(t, s.chunk + s.size, mixed, x.states, own);
  plim_tensor *out = per_token(t, &s, s.width);
  if (in->norm) scale = empty(t, dims(s.groups * s.batch * s.length), PLIM_FP32);
  plim_work_map(t, own, in->projected, out);
  if (n) node_save_output(t, n, own);
  if (n && in->norm) node_save(t, n, in->norm), node_save_output(t, n, scale);
  consume_all(t, mixed, x.sums, x.steps, x.states, x.last, x.products, own);
  if (scale) plim_consume(t, scale);
  if (n) node_output(t, n, out);
  for (int i = 0; i < INPUTS; i++)
    if (inputs[i]) plim_consume(t, inputs[i]);
  return out;
}
