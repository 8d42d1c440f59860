#include "masks.h"

#include "kernels.h"
#include "masks_impl.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

const char *const plim_attention_names[PLIM_ATTENTION_KINDS + 1] = {
    [PLIM_ATTENTION_SDPA] = "sdpa",
    [PLIM_ATTENTION_EAGER] = "eager",
    [PLIM_ATTENTION_FLASH] = "flash",
};

const char *const plim_mask_names[PLIM_MASK_KINDS + 1] = {[PLIM_MASK_NONE] = "none",
                                                          [PLIM_MASK_ONES] = "ones",
                                                          [PLIM_MASK_PAD] = "pad",
                                                          [PLIM_MASK_LONGEST] = "longest",
                                                          [PLIM_MASK_PACKED] = "packed"};

static plim_tensor *scalar(plim_tape *t, plim_dtype dtype) {
  return empty(t, (plim_dims){0}, dtype);
}

plim_tensor *mask_sequence_numbers(plim_tape *t, const plim_tensor *positions, int64_t batch,
                                   bool checks) {
  int64_t length = positions->shape.at[1];
  plim_tensor *first = empty(t, dims(batch, 1), PLIM_I64);
  plim_tensor *padded = empty(t, dims(batch, length + 1), PLIM_I64);
  plim_tensor *difference = empty(t, dims(batch, length), PLIM_I64);
  plim_consume(t, padded);
  plim_tensor *breaks = empty(t, dims(batch, length), PLIM_BOOL);
  plim_tensor *sums = k_running_sum(t, breaks);
  plim_consume(t, breaks);
  if (checks) { // (sums[:, -1] == 0).all()
    plim_tensor *is_zero = empty(t, dims(batch), PLIM_BOOL), *all = scalar(t, PLIM_BOOL);
    plim_consume(t, is_zero);
    plim_consume(t, all);
  }
  plim_consume(t, first);
  plim_consume(t, difference);
  return sums;
}

// arange(n) plus an offset.
static plim_tensor *positions_plus(plim_tape *t, int64_t n) {
  return add_scalar(t, empty(t, dims(n), PLIM_I64));
}

// mask.all(), computed by comparing sums; the result is read once and freed.
static void look_for_zeros(plim_tape *t, const plim_tensor *mask) {
  plim_tensor *sum = scalar(t, PLIM_I64);
  plim_consume(t, empty(t, mask->shape, PLIM_I64));
  plim_tensor *all = scalar(t, PLIM_BOOL);
  plim_consume(t, sum);
  plim_consume(t, all);
}

plim_tensor *mask_both(plim_tape *t, plim_tensor *result, plim_tensor *other, plim_dims shape) {
  plim_tensor *out = empty(t, shape, PLIM_BOOL);
  plim_consume(t, other);
  plim_consume(t, result);
  return out;
}

// The index ranges on which the mask functions are evaluated.
typedef struct {
  plim_tensor *batch, *head, *query, *key;
} ranges;

static ranges ranges_new(plim_tape *t, int64_t batch, int64_t queries, int64_t keys) {
  ranges r = {.batch = empty(t, dims(batch), PLIM_I64)};
  r.head = empty(t, dims(1), PLIM_I64);
  r.query = positions_plus(t, queries);
  r.key = positions_plus(t, keys);
  return r;
}

static void ranges_drop(plim_tape *t, ranges *r) {
  plim_consume(t, r->batch);
  plim_consume(t, r->head);
  plim_consume(t, r->query);
  plim_consume(t, r->key);
}

plim_tensor *mask_look_up(plim_tape *t, int64_t batch, int64_t length, plim_dtype dtype) {
  plim_tensor *rows = length > 1 ? empty(t, dims(batch, length), PLIM_I64) : NULL;
  plim_tensor *columns = batch > 1 ? empty(t, dims(batch, length), PLIM_I64) : NULL;
  plim_tensor *out = empty(t, dims(batch, 1, 1, length), dtype);
  plim_consume(t, columns);
  plim_consume(t, rows);
  return out;
}

// How far a query sees: a window of keys, or a chunk of them, up to itself. 0: all keys up to itself.
typedef struct {
  int64_t window;
  bool is_chunk;
  bool looks_ahead; // a window on both sides
} reach;

enum { BIDIRECTIONAL = -1 }; // in place of a window: queries see every key

// (index - left_padding[batch]) // size, for the indices of queries or of keys.
static plim_tensor *chunk_numbers(plim_tape *t, plim_dims shape) {
  plim_tensor *padding = empty(t, dims(shape.at[0], 1, 1, 1), PLIM_I64);
  plim_tensor *index = empty(t, shape, PLIM_I64);
  plim_consume(t, padding);
  plim_tensor *number = empty(t, shape, PLIM_I64);
  plim_consume(t, index);
  return number;
}

// Whether query and key are in the same chunk.
static plim_tensor *in_chunk(plim_tape *t, int64_t batch, int64_t queries, int64_t keys) {
  plim_tensor *of_key = chunk_numbers(t, dims(batch, 1, 1, keys));
  plim_tensor *of_query = chunk_numbers(t, dims(batch, 1, queries, 1));
  plim_tensor *out = empty(t, dims(batch, 1, queries, keys), PLIM_BOOL);
  consume_all(t, of_key, of_query);
  return out;
}

static plim_tensor *in_window(plim_tape *t, int64_t queries, plim_dims square) {
  plim_tensor *edge = empty(t, dims(1, 1, queries, 1), PLIM_I64);
  plim_tensor *inside = empty(t, square, PLIM_BOOL);
  plim_consume(t, edge);
  return inside;
}

// (abs(q_idx - kv_idx) <= window) & (q_idx >= 0)
static plim_tensor *around(plim_tape *t, int64_t queries, plim_dims square) {
  plim_tensor *result = scalar(t, PLIM_BOOL);
  plim_tensor *difference = empty(t, square, PLIM_I64), *distance = empty(t, square, PLIM_I64);
  plim_consume(t, difference);
  plim_tensor *inside = empty(t, square, PLIM_BOOL);
  plim_consume(t, distance);
  result = mask_both(t, result, inside, square);
  return mask_both(t, result, empty(t, dims(1, 1, queries, 1), PLIM_BOOL), square);
}

// Which keys each query may see. If every query sees every key, the pattern is the single column `q_idx >= 0`.
static plim_tensor *pattern(plim_tape *t, int64_t batch, int64_t queries, int64_t keys, reach r) {
  plim_dims square = dims(1, 1, queries, keys);
  if (r.window == BIDIRECTIONAL) return empty(t, dims(1, 1, queries, 1), PLIM_BOOL);
  if (!r.window) return empty(t, square, PLIM_BOOL);
  if (r.looks_ahead) return around(t, queries, square);
  plim_tensor *result = scalar(t, PLIM_BOOL);
  plim_tensor *inside =
      r.is_chunk ? in_chunk(t, batch, queries, keys) : in_window(t, queries, square);
  result = mask_both(t, result, inside, inside->shape);
  plim_tensor *before = empty(t, square, PLIM_BOOL);
  return mask_both(t, result, before, result->shape);
}

static plim_tensor *padded_mask(plim_tape *t, int64_t batch, int64_t queries, int64_t keys,
                                reach how) {
  ranges r = ranges_new(t, batch, queries, keys);
  plim_tensor *result = scalar(t, PLIM_BOOL);
  plim_tensor *first = pattern(t, batch, queries, keys, how);
  result = mask_both(t, result, first, first->shape);
  plim_tensor *pad = mask_look_up(t, batch, keys, PLIM_BOOL);
  result = mask_both(t, result, pad, dims(batch, 1, queries, keys));
  ranges_drop(t, &r);
  return result;
}

static plim_tensor *square_mask(plim_tape *t, int64_t batch, int64_t length, reach how) {
  ranges r = ranges_new(t, batch, length, length);
  plim_tensor *result = pattern(t, batch, length, length, how);
  ranges_drop(t, &r);
  return result;
}

plim_tensor *mask_additive(plim_tape *t, plim_tensor *mask, int64_t batch, plim_dtype dtype) {
  plim_tensor *zero = scalar(t, dtype), *lowest = scalar(t, dtype);
  plim_dims shape = mask->shape;
  shape.at[0] = batch;
  plim_tensor *out = empty(t, shape, dtype);
  consume_all(t, lowest, zero, mask);
  return out;
}

bool mask_needs_window(int64_t length, int64_t window) { return window && length >= window; }

static plim_tensor *mask_from_given(plim_tape *t, plim_attention_kind attention,
                                    plim_mask_kind kind, const plim_tensor *embedded,
                                    plim_tensor *as_bool, reach how) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  if (attention == PLIM_ATTENTION_EAGER)
    return mask_additive(t, padded_mask(t, batch, length, length, how), batch,
                         (plim_dtype)embedded->dtype);
  if (mask_needs_window(length, how.window)) return padded_mask(t, batch, length, length, how);
  look_for_zeros(t, as_bool);
  if (kind == PLIM_MASK_ONES) return NULL;
  look_for_zeros(t, as_bool);
  return padded_mask(t, batch, length, length, how);
}

static plim_tensor *mask_from_nothing(plim_tape *t, plim_attention_kind attention,
                                      const plim_tensor *embedded, reach how) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  if (attention == PLIM_ATTENTION_EAGER)
    return mask_additive(t, square_mask(t, batch, length, how), batch, (plim_dtype)embedded->dtype);
  if (!mask_needs_window(length, how.window)) return NULL;
  return expand(t, square_mask(t, batch, length, how), dims(batch, 1, length, length));
}

plim_tensor *mask_for_flash(plim_tape *t, plim_mask_kind kind, plim_tensor *as_bool) {
  plim_consume(t, k_all(t, as_bool));
  if (kind == PLIM_MASK_PAD) return as_bool;
  plim_consume(t, as_bool);
  return NULL;
}

// Tokens of padding in front of each text: (attention_mask.cumsum(-1) == zeros_like(attention_mask)).sum(-1)
static plim_tensor *left_padding(plim_tape *t, const plim_tensor *embedded, plim_tensor *as_bool) {
  int64_t batch = embedded->shape.at[0];
  if (!as_bool) return empty(t, dims(batch), PLIM_I64); // zeros
  plim_tensor *sums = k_running_sum(t, as_bool), *zeros = empty(t, as_bool->shape, PLIM_BOOL);
  plim_tensor *is_padding = empty(t, as_bool->shape, PLIM_BOOL);
  consume_all(t, sums, zeros);
  plim_tensor *out = empty(t, dims(batch), PLIM_I64);
  plim_consume(t, empty(t, as_bool->shape, PLIM_I64)); // a sum of flags is one of integers
  plim_consume(t, is_padding);
  return out;
}

static plim_tensor *mask_of_reach(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                                  plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                                  reach how) {
  plim_tensor *as_bool = given ? empty(t, given->shape, PLIM_BOOL) : NULL, *left = NULL;
  if (!given && positions)
    plim_consume(t, mask_sequence_numbers(t, positions, embedded->shape.at[0], true));
  if (how.is_chunk) left = left_padding(t, embedded, as_bool);
  plim_tensor *mask = NULL;
  if (attention == PLIM_ATTENTION_FLASH) {
    mask = given ? mask_for_flash(t, kind, as_bool) : NULL;
    as_bool = NULL;
  } else if (given) mask = mask_from_given(t, attention, kind, embedded, as_bool, how);
  else mask = mask_from_nothing(t, attention, embedded, how);
  plim_consume(t, as_bool);
  plim_consume(t, left);
  return mask;
}

plim_tensor *plim_sliding_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                               plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                               int64_t window) {
  if (!plim_transformers_from(t, 4, 53))
    return mask_by_update(t, attention, kind, embedded, given, window);
  if (!plim_transformers_from(t, 5, 0))
    return mask_by_vmap(t, attention, kind, embedded, positions, given, window);
  reach how = {.window = window};
  return mask_of_reach(t, attention, kind, embedded, positions, given, how);
}

plim_tensor *plim_chunked_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                               plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                               int64_t chunk) {
  reach how = {.window = chunk, .is_chunk = true};
  return mask_of_reach(t, attention, kind, embedded, positions, given, how);
}

plim_tensor *plim_causal_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                              plim_tensor *embedded, plim_tensor *positions, plim_tensor *given) {
  return plim_sliding_mask(t, attention, kind, embedded, positions, given, 0);
}

plim_tensor *plim_whole_causal_mask(plim_tape *t, plim_attention_kind attention,
                                    const plim_tensor *embedded, const plim_tensor *given) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  plim_tensor *as_bool = given ? empty(t, given->shape, PLIM_BOOL) : NULL;
  plim_tensor *mask =
      given ? padded_mask(t, batch, length, length, (reach){0})
            : expand(t, square_mask(t, batch, length, (reach){0}), dims(batch, 1, length, length));
  if (attention == PLIM_ATTENTION_EAGER)
    mask = mask_additive(t, mask, batch, (plim_dtype)embedded->dtype);
  plim_consume(t, as_bool);
  return mask;
}

// (q_group == kv_group) & (q_group >= 0): queries and keys of the same block, which is not that of text.
static plim_tensor *same_block(plim_tape *t, int64_t batch, int64_t length) {
  plim_dims square = dims(batch, 1, length, length);
  plim_tensor *of_query = mask_look_up(t, batch, length, PLIM_I64);
  plim_tensor *of_key = mask_look_up(t, batch, length, PLIM_I64);
  plim_tensor *is_same = empty(t, square, PLIM_BOOL);
  plim_tensor *is_block = empty(t, dims(batch, 1, length, 1), PLIM_BOOL);
  plim_tensor *out = empty(t, square, PLIM_BOOL);
  consume_all(t, is_same, is_block, of_query, of_key);
  return out;
}

static plim_tensor *pattern_or_block(plim_tape *t, int64_t batch, int64_t length, int64_t window) {
  plim_tensor *result = scalar(t, PLIM_BOOL);
  plim_tensor *first = pattern(t, batch, length, length, (reach){.window = window});
  result = mask_both(t, result, first, first->shape);
  return mask_both(t, result, same_block(t, batch, length), dims(batch, 1, length, length));
}

plim_tensor *plim_block_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                             plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                             int64_t window) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  plim_dims square = dims(batch, 1, length, length);
  plim_tensor *as_bool = given ? empty(t, given->shape, PLIM_BOOL) : NULL;
  if (!given) plim_consume(t, mask_sequence_numbers(t, positions, batch, true));
  if (attention == PLIM_ATTENTION_FLASH) return given ? mask_for_flash(t, kind, as_bool) : NULL;
  ranges r = ranges_new(t, batch, length, length);
  plim_tensor *result = given ? scalar(t, PLIM_BOOL) : NULL;
  plim_tensor *seen = pattern_or_block(t, batch, length, window);
  if (given) {
    result = mask_both(t, result, seen, square);
    seen = mask_both(t, result, mask_look_up(t, batch, length, PLIM_BOOL), square);
  }
  ranges_drop(t, &r);
  if (attention == PLIM_ATTENTION_EAGER)
    seen = mask_additive(t, seen, batch, (plim_dtype)embedded->dtype);
  plim_consume(t, as_bool);
  return seen;
}

// Every query sees every key that is not padding.
plim_tensor *plim_bidirectional_mask(plim_tape *t, plim_attention_kind attention,
                                     plim_mask_kind kind, int64_t queries, const plim_tensor *keys,
                                     const plim_tensor *given) {
  if (!given) return NULL;
  int64_t batch = keys->shape.at[0], length = keys->shape.at[1];
  plim_tensor *as_bool = empty(t, given->shape, PLIM_BOOL), *mask = NULL;
  if (attention == PLIM_ATTENTION_FLASH) return mask_for_flash(t, kind, as_bool);
  plim_consume(t, k_all(t, as_bool));
  if (kind == PLIM_MASK_PAD)
    mask = padded_mask(t, batch, queries, length, (reach){.window = BIDIRECTIONAL});
  if (mask && attention == PLIM_ATTENTION_EAGER)
    mask = mask_additive(t, mask, batch, (plim_dtype)keys->dtype);
  plim_consume(t, as_bool);
  return mask;
}

plim_tensor *plim_bidirectional_window_mask(plim_tape *t, plim_attention_kind attention,
                                            plim_mask_kind kind, const plim_tensor *embedded,
                                            const plim_tensor *given, int64_t window) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  reach how = {.window = window, .looks_ahead = true};
  plim_tensor *as_bool = given ? empty(t, given->shape, PLIM_BOOL) : NULL, *mask = NULL;
  if (given) plim_consume(t, k_all(t, as_bool));
  bool is_needed = (given && kind == PLIM_MASK_PAD) || length >= window;
  if (is_needed && given) mask = padded_mask(t, batch, length, length, how);
  else if (is_needed)
    mask = expand(t, square_mask(t, batch, length, how), dims(batch, 1, length, length));
  if (mask && attention == PLIM_ATTENTION_EAGER)
    mask = mask_additive(t, mask, batch, (plim_dtype)embedded->dtype);
  plim_consume(t, as_bool);
  return mask;
}

// torch.all(attention_mask == 1)
plim_tensor *plim_padding_mask(plim_tape *t, plim_mask_kind kind, plim_tensor *given) {
  if (!given) return NULL;
  plim_tensor *is_one = empty(t, given->shape, PLIM_BOOL), *all = k_all(t, is_one);
  consume_all(t, is_one, all);
  return kind == PLIM_MASK_PAD ? given : NULL;
}
