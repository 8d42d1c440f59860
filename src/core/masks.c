#include "masks.h"

#include "kernels.h"
#include "ops.h"

// transformers looks for packed sequences in the positions: differences, their running sum, and
// whether it is zero everywhere.
static void look_for_packing(plim_tape *t, plim_tensor *positions, int64_t batch) {
  int64_t length = positions->shape.at[1];
  plim_tensor *first = empty(t, dims(batch, 1), PLIM_I64);
  plim_tensor *padded = empty(t, dims(batch, length + 1), PLIM_I64);
  plim_tensor *difference = empty(t, dims(batch, length), PLIM_I64);
  plim_consume(t, padded);
  plim_tensor *breaks = empty(t, dims(batch, length), PLIM_BOOL);
  plim_tensor *sums = empty(t, dims(batch, length), PLIM_I64);
  plim_tensor *cast = empty(t, dims(batch, length), PLIM_I64);
  if (batch == 1) plim_consume(t, scratch(t, 1279)); // cub's scan, read off recordings
  plim_consume(t, cast);
  plim_consume(t, breaks);
  plim_tensor *last = empty(t, dims(batch), PLIM_BOOL), *all = empty(t, (plim_dims){0}, PLIM_BOOL);
  plim_consume(t, last);
  plim_consume(t, all);
  plim_consume(t, first);
  plim_consume(t, difference);
  plim_consume(t, sums);
}

static plim_tensor *scalar(plim_tape *t, plim_dtype dtype) {
  return empty(t, (plim_dims){0}, dtype);
}

// arange(n) plus an offset.
static plim_tensor *positions_plus(plim_tape *t, int64_t n) {
  return add_scalar(t, empty(t, dims(n), PLIM_I64));
}

// mask.all(), written as a comparison of sums; nobody looks at the result twice.
static void look_for_zeros(plim_tape *t, const plim_tensor *mask) {
  plim_tensor *sum = scalar(t, PLIM_I64);
  plim_consume(t, empty(t, mask->shape, PLIM_I64));
  plim_tensor *all = scalar(t, PLIM_BOOL);
  plim_consume(t, sum);
  plim_consume(t, all);
}

// result & other, both temporaries of a chain.
static plim_tensor *both(plim_tape *t, plim_tensor *result, plim_tensor *other, plim_dims shape) {
  plim_tensor *out = empty(t, shape, PLIM_BOOL);
  plim_consume(t, other);
  plim_consume(t, result);
  return out;
}

// The index ranges every mask function is evaluated on.
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

// The padding looked up by index: the indices that are repeated are copied.
static plim_tensor *padding(plim_tape *t, int64_t batch, int64_t length) {
  plim_tensor *rows = length > 1 ? empty(t, dims(batch, length), PLIM_I64) : NULL;
  plim_tensor *columns = batch > 1 ? empty(t, dims(batch, length), PLIM_I64) : NULL;
  plim_tensor *out = empty(t, dims(batch, 1, 1, length), PLIM_BOOL);
  plim_consume(t, columns);
  plim_consume(t, rows);
  return out;
}

// Padding, and what the pattern without it allows: a square of lower positions, or anything, which is
// a column of ones.
static plim_tensor *padded_pattern(plim_tape *t, plim_dims pattern, int64_t batch, int64_t queries,
                                   int64_t keys) {
  ranges r = ranges_new(t, batch, queries, keys);
  plim_tensor *result = scalar(t, PLIM_BOOL);
  plim_tensor *allowed = empty(t, pattern, PLIM_BOOL);
  result = both(t, result, allowed, pattern);
  plim_tensor *pad = padding(t, batch, keys);
  result = both(t, result, pad, dims(batch, 1, queries, keys));
  ranges_drop(t, &r);
  return result;
}

static plim_tensor *padded_mask(plim_tape *t, int64_t batch, int64_t length) {
  return padded_pattern(t, dims(1, 1, length, length), batch, length, length);
}

static plim_tensor *square_mask(plim_tape *t, int64_t batch, int64_t length) {
  ranges r = ranges_new(t, batch, length, length);
  plim_tensor *result = empty(t, dims(1, 1, length, length), PLIM_BOOL);
  ranges_drop(t, &r);
  return result;
}

// Eager attention adds the mask: two scalars and the values.
static plim_tensor *additive(plim_tape *t, plim_tensor *mask, int64_t batch, plim_dtype dtype) {
  plim_tensor *zero = scalar(t, dtype), *lowest = scalar(t, dtype);
  plim_dims shape = mask->shape;
  shape.at[0] = batch;
  plim_tensor *out = empty(t, shape, dtype);
  plim_consume(t, lowest);
  plim_consume(t, zero);
  plim_consume(t, mask);
  return out;
}

static plim_tensor *mask_from_given(plim_tape *t, plim_attention_kind attention,
                                    plim_mask_kind kind, const plim_tensor *embedded,
                                    plim_tensor *as_bool) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  if (attention == PLIM_ATTENTION_EAGER)
    return additive(t, padded_mask(t, batch, length), batch, (plim_dtype)embedded->dtype);
  look_for_zeros(t, as_bool);
  if (kind == PLIM_MASK_ONES) return NULL;
  look_for_zeros(t, as_bool);
  return padded_mask(t, batch, length);
}

plim_tensor *plim_causal_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                              plim_tensor *embedded, plim_tensor *positions, plim_tensor *given) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  if (given) {
    plim_tensor *as_bool = empty(t, given->shape, PLIM_BOOL);
    plim_tensor *mask = mask_from_given(t, attention, kind, embedded, as_bool);
    plim_consume(t, as_bool);
    return mask;
  }
  if (positions) look_for_packing(t, positions, batch);
  if (attention != PLIM_ATTENTION_EAGER) return NULL;
  return additive(t, square_mask(t, batch, length), batch, (plim_dtype)embedded->dtype);
}

static plim_tensor *both_ways(plim_tape *t, plim_attention_kind attention, int64_t queries,
                              const plim_tensor *keys) {
  int64_t batch = keys->shape.at[0], length = keys->shape.at[1];
  plim_tensor *mask = padded_pattern(t, dims(1, 1, queries, 1), batch, queries, length);
  if (attention != PLIM_ATTENTION_EAGER) return mask;
  return additive(t, mask, batch, (plim_dtype)keys->dtype);
}

plim_tensor *plim_bidirectional_mask(plim_tape *t, plim_attention_kind attention,
                                     plim_mask_kind kind, int64_t queries, const plim_tensor *keys,
                                     const plim_tensor *given) {
  if (!given) return NULL;
  plim_tensor *as_bool = empty(t, given->shape, PLIM_BOOL);
  plim_consume(t, k_all(t, as_bool));
  plim_tensor *mask = kind == PLIM_MASK_ONES ? NULL : both_ways(t, attention, queries, keys);
  plim_consume(t, as_bool);
  return mask;
}
