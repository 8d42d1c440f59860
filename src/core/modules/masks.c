#include "masks.h"

#include "kernels.h"
#include "ops.h"

#include "op_names.h"

const char *const plim_attention_names[PLIM_ATTENTION_KINDS + 1] = {
    [PLIM_ATTENTION_SDPA] = "sdpa",
    [PLIM_ATTENTION_EAGER] = "eager",
    [PLIM_ATTENTION_FLASH] = "flash",
};

const char *const plim_mask_names[PLIM_MASK_KINDS + 1] = {[PLIM_MASK_NONE] = "none",
                                                          [PLIM_MASK_ONES] = "ones",
                                                          [PLIM_MASK_PAD] = "pad",
                                                          [PLIM_MASK_LONGEST] = "longest"};

// transformers searches the positions for packed sequences: it takes differences, their running sum, and checks
// whether that is zero everywhere.
static void look_for_packing(plim_tape *t, plim_tensor *positions, int64_t batch) {
  int64_t length = positions->shape.at[1];
  plim_tensor *first = empty(t, dims(batch, 1), PLIM_I64);
  plim_tensor *padded = empty(t, dims(batch, length + 1), PLIM_I64);
  plim_tensor *difference = empty(t, dims(batch, length), PLIM_I64);
  plim_consume(t, padded);
  plim_tensor *breaks = empty(t, dims(batch, length), PLIM_BOOL);
  plim_tensor *sums = k_running_sum(t, breaks);
  plim_consume(t, breaks);
  plim_tensor *last = empty(t, dims(batch), PLIM_BOOL), *all = empty(t, (plim_dims){0}, PLIM_BOOL);
  consume_all(t, last, all, first, difference, sums);
}

static plim_tensor *scalar(plim_tape *t, plim_dtype dtype) {
  return empty(t, (plim_dims){0}, dtype);
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

// result & other; both are temporaries.
static plim_tensor *both(plim_tape *t, plim_tensor *result, plim_tensor *other, plim_dims shape) {
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

// Looks up the padding by index; broadcast indices are copied.
static plim_tensor *padding(plim_tape *t, int64_t batch, int64_t length) {
  plim_tensor *rows = length > 1 ? empty(t, dims(batch, length), PLIM_I64) : NULL;
  plim_tensor *columns = batch > 1 ? empty(t, dims(batch, length), PLIM_I64) : NULL;
  plim_tensor *out = empty(t, dims(batch, 1, 1, length), PLIM_BOOL);
  plim_consume(t, columns);
  plim_consume(t, rows);
  return out;
}

enum { BIDIRECTIONAL = -1 }; // in place of a window: queries see every key

// Which keys each query may see: those up to itself, and inside the window if there is one (0: none). If every query
// sees every key, the pattern is the single column `q_idx >= 0`.
static plim_tensor *pattern(plim_tape *t, int64_t queries, int64_t keys, int64_t window) {
  plim_dims square = dims(1, 1, queries, keys);
  if (window == BIDIRECTIONAL) return empty(t, dims(1, 1, queries, 1), PLIM_BOOL);
  if (!window) return empty(t, square, PLIM_BOOL);
  plim_tensor *result = scalar(t, PLIM_BOOL), *edge = empty(t, dims(1, 1, queries, 1), PLIM_I64);
  plim_tensor *inside = empty(t, square, PLIM_BOOL);
  plim_consume(t, edge);
  result = both(t, result, inside, square);
  plim_tensor *before = empty(t, square, PLIM_BOOL);
  return both(t, result, before, square);
}

static plim_tensor *padded_mask(plim_tape *t, int64_t batch, int64_t queries, int64_t keys,
                                int64_t window) {
  ranges r = ranges_new(t, batch, queries, keys);
  plim_tensor *result = scalar(t, PLIM_BOOL);
  plim_tensor *first = pattern(t, queries, keys, window);
  result = both(t, result, first, first->shape);
  plim_tensor *pad = padding(t, batch, keys);
  result = both(t, result, pad, dims(batch, 1, queries, keys));
  ranges_drop(t, &r);
  return result;
}

static plim_tensor *square_mask(plim_tape *t, int64_t batch, int64_t length, int64_t window) {
  ranges r = ranges_new(t, batch, length, length);
  plim_tensor *result = pattern(t, length, length, window);
  ranges_drop(t, &r);
  return result;
}

// Eager attention adds its mask to the scores: takes two scalars and the values.
static plim_tensor *additive(plim_tape *t, plim_tensor *mask, int64_t batch, plim_dtype dtype) {
  plim_tensor *zero = scalar(t, dtype), *lowest = scalar(t, dtype);
  plim_dims shape = mask->shape;
  shape.at[0] = batch;
  plim_tensor *out = empty(t, shape, dtype);
  consume_all(t, lowest, zero, mask);
  return out;
}

// A kernel needs no explicit mask if attention is plainly causal. It needs one if the window is not longer than the
// sequence; transformers checks that before it looks for padding.
static bool needs_window(int64_t length, int64_t window) { return window && length >= window; }

static plim_tensor *mask_from_given(plim_tape *t, plim_attention_kind attention,
                                    plim_mask_kind kind, const plim_tensor *embedded,
                                    plim_tensor *as_bool, int64_t window) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  if (attention == PLIM_ATTENTION_EAGER)
    return additive(t, padded_mask(t, batch, length, length, window), batch,
                    (plim_dtype)embedded->dtype);
  if (needs_window(length, window)) return padded_mask(t, batch, length, length, window);
  look_for_zeros(t, as_bool);
  if (kind == PLIM_MASK_ONES) return NULL;
  look_for_zeros(t, as_bool);
  return padded_mask(t, batch, length, length, window);
}

static plim_tensor *mask_from_nothing(plim_tape *t, plim_attention_kind attention,
                                      const plim_tensor *embedded, int64_t window) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  if (attention == PLIM_ATTENTION_EAGER)
    return additive(t, square_mask(t, batch, length, window), batch, (plim_dtype)embedded->dtype);
  if (!needs_window(length, window)) return NULL;
  return expand(t, square_mask(t, batch, length, window), dims(batch, 1, length, length));
}

// flash-attn gets no built mask: padding is looked up when attention runs.
static plim_tensor *mask_for_flash(plim_tape *t, plim_mask_kind kind, plim_tensor *as_bool) {
  plim_consume(t, k_all(t, as_bool));
  if (kind == PLIM_MASK_PAD) return as_bool;
  plim_consume(t, as_bool);
  return NULL;
}

plim_tensor *plim_sliding_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                               plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                               int64_t window) {
  if (given) {
    plim_tensor *as_bool = empty(t, given->shape, PLIM_BOOL);
    if (attention == PLIM_ATTENTION_FLASH) return mask_for_flash(t, kind, as_bool);
    plim_tensor *mask = mask_from_given(t, attention, kind, embedded, as_bool, window);
    plim_consume(t, as_bool);
    return mask;
  }
  if (positions) look_for_packing(t, positions, embedded->shape.at[0]);
  if (attention == PLIM_ATTENTION_FLASH) return NULL;
  return mask_from_nothing(t, attention, embedded, window);
}

plim_tensor *plim_causal_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                              plim_tensor *embedded, plim_tensor *positions, plim_tensor *given) {
  return plim_sliding_mask(t, attention, kind, embedded, positions, given, 0);
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
  if (kind == PLIM_MASK_PAD) mask = padded_mask(t, batch, queries, length, BIDIRECTIONAL);
  if (mask && attention == PLIM_ATTENTION_EAGER)
    mask = additive(t, mask, batch, (plim_dtype)keys->dtype);
  plim_consume(t, as_bool);
  return mask;
}
