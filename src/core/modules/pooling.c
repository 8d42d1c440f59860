#include "pooling.h"

#include "kernels.h"
#include "ops.h"

#include "op_names.h"

const char *const plim_pooling_names[PLIM_POOLINGS + 1] = {
    [PLIM_POOL_MEAN] = "mean",
    [PLIM_POOL_CLS] = "cls",
    [PLIM_POOL_LAST] = "last",
};

// 16-bit tokens are summed in float32.
static plim_dtype wide(const plim_tensor *x) {
  return x->dtype == PLIM_BF16 || x->dtype == PLIM_FP16 ? PLIM_FP32 : (plim_dtype)x->dtype;
}

static plim_tensor *mean(plim_tape *t, plim_tensor *hidden, plim_tensor *mask) {
  plim_dtype dtype = (plim_dtype)hidden->dtype;
  plim_tensor *sums = NULL, *weights = NULL, *counts = NULL, *out = NULL;
  set(t, &weights, to(t, unsqueeze(t, mask, 2), dtype));
  set(t, &sums, sum_dim(t, mul(t, hidden, weights), 1, false, wide(hidden)));
  set(t, &counts, sum_dim(t, weights, 1, false, wide(hidden)));
  set(t, &counts, clamp(t, counts, 1));
  set(t, &out, divide(t, sums, counts));
  set(t, &out, to(t, out, dtype));
  drop_all(t, &sums, &weights, &counts);
  return give(t, &out);
}

// token_embeddings.gather(1, index), with the index repeated over the width.
static plim_tensor *token_at(plim_tape *t, plim_tensor *hidden, plim_tensor *index) {
  int64_t batch = hidden->shape.at[0], width = hidden->shape.at[2];
  plim_tensor *repeated = expand(t, unsqueeze(t, unsqueeze(t, index, 1), 1), dims(batch, 1, width));
  return view(t, gather_rows(t, hidden, repeated), dims(batch, width));
}

// The position of the first 1 of the mask.
static plim_tensor *first(plim_tape *t, plim_tensor *hidden, plim_tensor *mask) {
  plim_tensor *index = NULL, *as_int = to(t, mask, PLIM_I32);
  set(t, &index, empty(t, dims(mask->shape.at[0]), PLIM_I64));
  plim_consume(t, as_int);
  plim_tensor *out = token_at(t, hidden, index);
  drop(t, &index);
  return out;
}

// where(values == 0, length - 1, indices)
static plim_tensor *last_position(plim_tape *t, plim_tensor *mask) {
  plim_dims rows = dims(mask->shape.at[0]);
  plim_tensor *flipped = k_like(t, mask);
  plim_tensor *values = empty(t, rows, PLIM_I64), *indices = empty(t, rows, PLIM_I64);
  plim_consume(t, flipped);
  plim_tensor *is_none = empty(t, rows, PLIM_BOOL), *number = empty(t, (plim_dims){0}, PLIM_I64);
  plim_tensor *found = empty(t, rows, PLIM_I64);
  consume_all(t, number, is_none, indices);
  plim_tensor *position = add_scalar(t, add_scalar(t, found));
  plim_consume(t, values);
  return position;
}

static plim_tensor *last(plim_tape *t, plim_tensor *hidden, plim_tensor *mask) {
  plim_tensor *index = NULL, *weights = NULL;
  set(t, &index, last_position(t, mask));
  plim_tensor *spread = expand(t, unsqueeze(t, mask, 2), hidden->shape);
  set(t, &weights, to(t, spread, (plim_dtype)hidden->dtype));
  plim_tensor *out = token_at(t, mul(t, hidden, weights), index);
  drop_all(t, &index, &weights);
  return out;
}

typedef plim_tensor *pool(plim_tape *t, plim_tensor *hidden, plim_tensor *mask);
static pool *const pools[PLIM_POOLINGS] = {
    [PLIM_POOL_MEAN] = mean, [PLIM_POOL_CLS] = first, [PLIM_POOL_LAST] = last};

// sentence-transformers concatenates the results of all pooling modes, so even a single one is copied.
plim_tensor *plim_pool(plim_tape *t, plim_pooling pooling, plim_tensor *hidden, plim_tensor *mask) {
  plim_tensor *pooled = NULL, *ones = NULL;
  plim_tape_at(t, "pooling");
  if (!mask) set(t, &ones, empty(t, dims(hidden->shape.at[0], hidden->shape.at[1]), PLIM_I64));
  set(t, &pooled, pools[pooling](t, hidden, mask ? mask : ones));
  plim_tensor *out = cat1(t, pooled);
  drop_all(t, &ones, &pooled);
  return out;
}
