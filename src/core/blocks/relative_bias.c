#include "relative_bias.h"

#include "kernels.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

static plim_tensor *range(plim_tape *t, plim_dims shape) { return empty(t, shape, PLIM_I64); }

static plim_tensor *as_bool(plim_tape *t, const plim_tensor *x) {
  return k_binary_as(t, x, NULL, PLIM_BOOL);
}

// Of two integer tensors, the second a temporary.
static plim_tensor *with(plim_tape *t, const plim_tensor *a, plim_tensor *temporary) {
  plim_tensor *out = k_binary(t, a, temporary);
  plim_consume(t, temporary);
  return out;
}

// Far distances share buckets by their logarithm: five steps in float32, and the last bucket at most.
static plim_tensor *far_buckets(plim_tape *t, plim_tensor *distance) {
  plim_tensor *bucket = NULL, *real = to(t, distance, PLIM_FP32);
  for (int i = 0; i < 4; i++) real = mul_scalar(t, real);
  set(t, &bucket, add_scalar(t, to(t, real, PLIM_I64)));
  plim_tensor *last = k_like(t, bucket);
  set(t, &bucket, with(t, bucket, last));
  return give(t, &bucket);
}

// Looking both ways, half of the buckets are for keys that come after the query.
static plim_tensor *buckets_of(plim_tape *t, plim_tensor *relative, bool both_ways) {
  plim_tensor *bucket = NULL, *distance = NULL, *is_near = NULL, *far = NULL;
  if (both_ways) {
    set(t, &bucket, add_scalar(t, mul_scalar(t, to(t, as_bool(t, relative), PLIM_I64))));
    set(t, &distance, k_unary(t, relative));
  } else set(t, &distance, neg(t, with(t, relative, k_like(t, relative))));
  set(t, &is_near, as_bool(t, distance));
  set(t, &far, far_buckets(t, distance));
  plim_tensor *chosen = k_binary(t, distance, far);
  if (both_ways) plim_consume(t, chosen); // added in place
  else set(t, &bucket, add_scalar(t, chosen));
  drop(t, &distance);
  plim_tensor *out = give(t, &bucket);
  drop_all(t, &is_near, &far);
  return out;
}

plim_tensor *plim_relative_bias(plim_tape *t, plim_tensor *table, int64_t queries, int64_t keys,
                                bool both_ways) { // (1,H,queries,keys)
  plim_tensor *query = NULL, *key = NULL, *relative = NULL, *bucket = NULL;
  bool is_five = plim_transformers_from(t, 5, 0); // before, the model's cache_position
  if (is_five) set(t, &query, add_scalar(t, range(t, dims(queries, 1))));
  set(t, &key, range(t, dims(1, keys)));
  set(t, &relative, is_five ? k_binary(t, key, query) : range(t, dims(queries, keys)));
  set(t, &bucket, buckets_of(t, relative, both_ways));
  plim_tensor *values = permute(t, embedding(t, table, bucket), dims(2, 0, 1));
  plim_tensor *out = unsqueeze(t, values, 0);
  drop_all(t, &query, &key, &relative, &bucket);
  return out;
}
