#include "flash_attention.h"

#include "attention.h"
#include "kernels.h"
#include "moe.h"
#include "ops.h"
#include "rounding.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

void plim_tape_set_padding(plim_tape *t, int64_t positions) { plim_state(t)->padding = positions; }

void plim_tape_set_packing(plim_tape *t, bool is_packed) { plim_state(t)->is_packed = is_packed; }

// Head sizes are rounded up to a multiple of 32, above 128 to one of 64; flash_api.cpp, head_size_rounded.
static int64_t head_rounded(int64_t d) { return plim_round_up(d, d <= 128 ? 32 : 64); }

// ---- the kernels --------------------------------------------------------------------------------------

enum { SAVED_Q, SAVED_K, SAVED_V };

// With grouped keys and values, every query head gets its own gradient, and those are then summed.
static void take_spread_gradients(plim_tape *t, const plim_tensor *q, const plim_tensor *k) {
  int heads_at = q->shape.n - 2;
  plim_dims shape = k->shape;
  shape.at[heads_at] = q->shape.at[heads_at];
  bool is_grouped = !plim_same(&shape, &k->shape);
  plim_tensor *keys = is_grouped ? empty(t, shape, (plim_dtype)k->dtype) : NULL;
  plim_tensor *values = is_grouped ? empty(t, shape, (plim_dtype)k->dtype) : NULL;
  plim_consume(t, values);
  plim_consume(t, keys);
}

// Allocates the gradients, then the kernel's float32 accumulators: row sums and the gradient of the queries.
static void package_backward(plim_tape *t, plim_grad_node *n, plim_dims sums_shape, plim_dims rows,
                             plim_tensor **out) {
  for (int i = SAVED_Q; i <= SAVED_V; i++) out[i] = k_like(t, n->saved[i]);
  plim_work_attention_backward(t, n, PLIM_SDPA_FLASH, out);
  plim_tensor *sums = empty(t, sums_shape, PLIM_FP32), *queries = empty(t, rows, PLIM_FP32);
  take_spread_gradients(t, n->saved[SAVED_Q], n->saved[SAVED_K]);
  plim_consume(t, queries);
  plim_consume(t, sums);
}

enum { ROWS = 128 }; // lengths are rounded up to a multiple; flash_api.cpp, seqlen_q_rounded

static void dense_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)in;
  const plim_dims *q = &n->saved[SAVED_Q]->shape;
  int64_t b = q->at[0], length = plim_round_up(q->at[1], ROWS), h = q->at[2];
  package_backward(t, n, dims(b, h, length), dims(b, length, h, head_rounded(q->at[3])), out);
}

// Every sequence may need up to 128 additional rows; `number` is the number of sequences.
static void ragged_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)in;
  const plim_dims *q = &n->saved[SAVED_Q]->shape;
  int64_t rows = q->at[0] + ROWS * n->number, h = q->at[1];
  package_backward(t, n, dims(h, rows), dims(rows, h, head_rounded(q->at[2])), out);
}

// How full the last wave of blocks is if the keys of every block are split into this many parts.
static double efficiency(int64_t blocks, int64_t slots, int64_t splits) {
  double waves = (double)(blocks * splits) / (double)slots;
  int64_t whole = plim_ceil_div(blocks * splits, slots);
  return waves / (double)whole;
}

static bool changes_anything(int64_t key_blocks, int64_t splits) {
  return splits == 1 || plim_ceil_div(key_blocks, splits) != plim_ceil_div(key_blocks, splits - 1);
}

// If there are too few blocks for the card, the keys are split into the smallest number of parts whose efficiency is
// within 85 % of the best; flash_api.cpp, num_splits_heuristic.
static int64_t key_splits(const plim_gpu *gpu, const plim_dims *q) {
  int64_t d = q->at[3], width = d <= 64 ? 256 : d <= 128 ? 128 : 64;
  int64_t key_blocks = plim_ceil_div(q->at[1], width), slots = 2 * gpu->multiprocessors;
  int64_t blocks = q->at[0] * q->at[2] * plim_ceil_div(q->at[1], 64), most = key_blocks;
  if (5 * blocks >= 4 * slots) return 1;
  if (most > slots) most = slots;
  if (most > 128) most = 128;
  double best = 0;
  for (int64_t s = 1; s <= most; s++) {
    double e = changes_anything(key_blocks, s) ? efficiency(blocks, slots, s) : 0;
    if (e > best) best = e;
  }
  int64_t s = 1;
  while (s < most &&
         !(changes_anything(key_blocks, s) && efficiency(blocks, slots, s) >= 0.85 * best))
    s++;
  return s;
}

void plim_flash_take_parts(plim_tape *t, const plim_dims *q, double dropout_p,
                           plim_tensor **parts) {
  int64_t splits = dropout_p > 0 ? 1 : key_splits(plim_tape_gpu(t), q);
  int64_t b = q->at[0], length = q->at[1], h = q->at[2], d = head_rounded(q->at[3]);
  if (splits <= 1) return;
  parts[0] = empty(t, dims(splits, b, h, length), PLIM_FP32);
  parts[1] = empty(t, dims(splits, b, h, length, d), PLIM_FP32);
}

// Saves tensors in the order in which the Python function saves them.
static plim_tensor *finish(plim_tape *t, plim_grad_node *n, plim_tensor *const *inputs,
                           plim_tensor *out, plim_tensor *logsumexp, plim_tensor *offsets) {
  plim_tensor *state = empty(t, dims(2), PLIM_I64); // state of the random generator
  if (n) {
    n->drops_in_order = true;
    for (int i = SAVED_Q; i <= SAVED_V; i++) node_save(t, n, inputs[i]);
    node_save_output(t, n, out);
    node_save_output(t, n, logsumexp);
    if (offsets) node_save(t, n, offsets);
    node_save_output(t, n, state);
    node_output(t, n, out);
  }
  plim_consume(t, logsumexp);
  plim_consume(t, state);
  return out;
}

// Reports the shape (B,H,T,D) to the clock.
static void tell_clock(plim_tape *t, plim_grad_node *n, const plim_tensor *q, int64_t batch) {
  int last = q->shape.n - 1;
  int64_t d = q->shape.at[last], h = q->shape.at[last - 1];
  plim_tensor seen = *q;
  seen.shape = dims(batch, h, plim_numel(&q->shape) / (batch * h * d), d);
  plim_work_attention(t, n, PLIM_SDPA_FLASH, &seen, &seen);
}

// (B,T,H,D)
static plim_tensor *dense(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                          double dropout_p) {
  plim_tensor *inputs[] = {q, k, v}, *parts[2] = {0};
  plim_grad_node *n = node_begin(t, dense_backward, inputs, 3);
  plim_tensor *out = k_like(t, q);
  plim_dims rows = dims(q->shape.at[0], q->shape.at[2], q->shape.at[1]);
  plim_tensor *logsumexp = empty(t, rows, PLIM_FP32);
  plim_flash_take_parts(t, &q->shape, dropout_p, parts);
  tell_clock(t, n, q, q->shape.at[0]);
  out = finish(t, n, inputs, out, logsumexp, NULL);
  plim_consume(t, parts[1]);
  plim_consume(t, parts[0]);
  return out;
}

// (N,H,D): the tokens of all sequences, concatenated. The clock counts them as `sequences` of equal length.
static plim_tensor *ragged(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                           plim_tensor *offsets, int64_t sequences) {
  plim_tensor *inputs[] = {q, k, v};
  plim_grad_node *n = node_begin(t, ragged_backward, inputs, 3);
  if (n) n->number = offsets->shape.at[0] - 1;
  plim_tensor *out = k_like(t, q);
  plim_tensor *logsumexp = empty(t, dims(q->shape.at[1], q->shape.at[0]), PLIM_FP32);
  tell_clock(t, n, q, sequences);
  return finish(t, n, inputs, out, logsumexp, offsets);
}

// ---- padding ------------------------------------------------------------------------------------------

// Finds the indices of the tokens that are not padding, and the offset of each sequence among them.
static void find_tokens(plim_tape *t, const plim_tensor *mask, plim_tensor **indices,
                        plim_tensor **offsets) {
  int64_t batch = mask->shape.at[0], length = mask->shape.at[1];
  plim_tensor *lengths = k_count_rows(t, mask);
  set(t, indices, k_nonzero(t, batch * length, 1, batch * (length - plim_state(t)->padding)));
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_I32)); // the longest length
  plim_tensor *sums = empty(t, dims(batch), PLIM_I32);
  plim_consume(t, scratch(t, k_scan_bytes(t, batch, K_SCAN_32_TILE, PLIM_I32)));
  set(t, offsets, empty(t, dims(batch + 1), PLIM_I32));
  plim_consume(t, sums);
  plim_consume(t, lengths);
}

static void scatter_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_dims shape = in[0]->shape;
  shape.at[0] = n->saved[0]->shape.at[0];
  out[0] = k_map(t, shape, (plim_dtype)in[0]->dtype, in[0], NULL);
}

// Zeros with the rows of x scattered to the given indices.
static plim_tensor *scatter_rows(plim_tape *t, plim_tensor *x, plim_tensor *indices, int64_t rows) {
  plim_grad_node *n = node_begin(t, scatter_backward, &x, 1);
  plim_dims shape = x->shape;
  shape.at[0] = rows;
  plim_tensor *out = k_map(t, shape, (plim_dtype)x->dtype, x, NULL);
  if (n) n->drops_in_order = true, node_save(t, n, indices), node_output(t, n, out);
  plim_consume(t, x);
  return out;
}

static plim_tensor *gather_tokens(plim_tape *t, plim_tensor *x, plim_tensor *indices) {
  return index_rows(t, reshape(t, x, dims(-1, x->shape.at[2], x->shape.at[3])), indices);
}

static plim_tensor *without_padding(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                    const plim_flash_options *o, plim_tensor **packed) {
  int64_t batch = q->shape.at[0], length = q->shape.at[1], heads = q->shape.at[2];
  plim_tensor *indices = NULL, *offsets = NULL, *rows = NULL;
  plim_tensor *queries = NULL, *keys = NULL, *values = NULL;
  find_tokens(t, o->mask, &indices, &offsets);
  set(t, &keys, gather_tokens(t, k, indices));
  set(t, &values, gather_tokens(t, v, indices));
  set(t, &queries, gather_tokens(t, q, indices));
  set(t, &rows, ragged(t, queries, keys, values, offsets, batch));
  plim_tensor *out = scatter_rows(t, rows, indices, batch * length);
  out = view(t, out, dims(batch, length, heads, -1));
  plim_tensor **gone[] = {&offsets, packed, &queries, &keys, &values, &indices, &rows};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) drop(t, gone[i]);
  return out;
}

// ---- transformers ---------------------------------------------------------------------------------

// Position ids that do not increase by one would indicate packed sequences. Only a batch of one
// can have those; transformers then keeps the answer in a variable.
static void look_for_packing(plim_tape *t, int64_t batch, int64_t length, plim_tensor **packed) {
  plim_dims row = dims(1, length);
  plim_tensor *range = empty(t, dims(length), PLIM_I64), *expected = NULL;
  plim_tensor *least = k_reduce(t, range, PLIM_I64);
  set(t, &expected, empty(t, dims(length), PLIM_I64));
  plim_consume(t, range);
  plim_consume(t, least);
  if (batch == 1) {
    plim_tensor *difference = empty(t, row, PLIM_I64), *size = empty(t, row, PLIM_I64);
    plim_consume(t, difference);
    plim_tensor *sum = k_reduce(t, size, PLIM_I64);
    plim_consume(t, size);
    set(t, packed, empty(t, (plim_dims){0}, PLIM_BOOL));
    plim_consume(t, sum);
  }
  drop(t, &expected);
}

// prepare_fa_kwargs_from_position_ids: where each sample begins, and the end of the last. How many a row has depends on the
// data; this is for one. In backward, each further one needs up to ROWS more rows.
static plim_tensor *find_samples(plim_tape *t, int64_t tokens) {
  enum { SAMPLES = 1 };
  plim_tensor *is_first = empty(t, dims(tokens), PLIM_BOOL);
  plim_tensor *first = k_nonzero(t, tokens, 1, SAMPLES);
  plim_consume(t, is_first);
  plim_tensor *narrow = empty(t, dims(SAMPLES), PLIM_I32), *end = empty(t, dims(1), PLIM_I32);
  plim_consume(t, first);
  plim_tensor *offsets = empty(t, dims(SAMPLES + 1), PLIM_I32);
  plim_consume(t, narrow);
  plim_consume(t, end);
  return offsets;
}

// _prepare_from_posids and flash_attn_varlen_func: the samples of all rows one after another, without a copy where the tokens
// already are in this order. No sample is longer than a row: trainers drop or cut longer ones, also where they make one row
// of the whole micro batch. Shorter samples take less time.
static plim_tensor *by_sample(plim_tape *t, plim_tensor *const *inputs) {
  plim_dims shape = inputs[0]->shape;
  plim_tensor *rows[3] = {0}, *offsets = NULL;
  for (int i = 0; i < 3; i++)
    set(t, &rows[i],
        view(t, contiguous(t, inputs[i]),
             dims(-1, inputs[i]->shape.at[2], inputs[i]->shape.at[3])));
  set(t, &offsets, find_samples(t, shape.at[0] * shape.at[1]));
  plim_tensor *out = ragged(t, rows[0], rows[1], rows[2], offsets, shape.at[0]);
  for (int i = 0; i < 3; i++) drop(t, &rows[i]);
  drop(t, &offsets);
  return view(t, out, dims(shape.at[0], shape.at[1], shape.at[2], -1));
}

// Rotary positions yield float32 under autocast; it is cast to a dtype that the kernel accepts.
static plim_tensor *halved(plim_tape *t, plim_tensor *x) {
  plim_dtype autocast_dtype = (plim_dtype)plim_state(t)->autocast;
  return x->dtype == PLIM_FP32 ? to(t, x, plim_autocast_is_on(t) ? autocast_dtype : PLIM_BF16) : x;
}

plim_tensor *plim_flash_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                  plim_flash_options o) {
  int64_t batch = q->shape.at[0], length = q->shape.at[2];
  plim_tensor *inputs[] = {q, k, v}, *turned[3] = {0}, *halves[3] = {0}, *packed = NULL,
              *out = NULL;
  plim_tape_at(t, "attention");
  plim_work_attention_kind(t, o.is_causal, o.dropout_p > 0);
  for (int i = 0; i < 3; i++) set(t, &turned[i], transpose(t, inputs[i], 1, 2));
  bool is_wide = q->dtype == PLIM_FP32;
  for (int i = 0; i < 3; i++) set(t, &halves[i], is_wide ? halved(t, turned[i]) : turned[i]);
  if (o.has_positions) look_for_packing(t, batch, length, &packed);
  bool has_samples = o.has_positions && plim_state(t)->is_packed;
  set(t, &out,
      o.mask        ? without_padding(t, halves[0], halves[1], halves[2], &o, &packed)
      : has_samples ? by_sample(t, halves)
                    : dense(t, halves[0], halves[1], halves[2], o.dropout_p));
  for (int i = 0; i < 3; i++) drop(t, &halves[i]);
  drop(t, &packed);
  for (int i = 0; i < 3; i++) drop(t, &turned[i]);
  return give(t, &out);
}
