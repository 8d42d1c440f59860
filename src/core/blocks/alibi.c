#include "alibi.h"

#include "kernels.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

static int64_t power_of_two_below(int64_t n) {
  int64_t power = 1;
  while (2 * power <= n) power *= 2;
  return power;
}

// Powers of a base: one for each head.
static void add_powers(plim_tape *t, int64_t count, plim_tensor **base, plim_tensor **powers,
                       plim_tensor **slopes) {
  set(t, base, empty(t, (plim_dims){0}, PLIM_FP32));
  set(t, powers, empty(t, dims(count), PLIM_I32));
  set(t, slopes, empty(t, dims(count), PLIM_FP32));
}

static plim_tensor *alibi(plim_tape *t, plim_tensor *mask, int64_t heads, plim_dtype product,
                          plim_dtype dtype) {
  int64_t batch = mask->shape.at[0], length = mask->shape.at[1], whole = power_of_two_below(heads);
  plim_tensor *base = NULL, *powers = NULL, *slopes = NULL, *distances = NULL;
  plim_tensor *more_base = NULL, *more_powers = NULL, *more = NULL, *out = NULL;
  add_powers(t, whole, &base, &powers, &slopes);
  if (whole != heads) {
    add_powers(t, heads - whole, &more_base, &more_powers, &more);
    set(t, &slopes, empty(t, dims(heads), PLIM_FP32));
    drop(t, &more);
  }
  plim_tensor *sums = mask->dtype == PLIM_FP32 ? k_like(t, mask) : k_running_sum(t, mask);
  plim_tensor *counted = add_scalar(t, sums);
  set(t, &distances, mul(t, counted, mask));
  plim_tensor *low = to(t, slopes, product);
  set(t, &out, empty(t, dims(batch, heads, length), product));
  if (low != slopes) plim_consume(t, low);
  plim_tensor *result = to(t, view(t, out, dims(batch * heads, 1, length)), dtype);
  drop_all(t, &base, &powers, &slopes, &more_base, &more_powers, &distances, &out);
  return result;
}

plim_tensor *plim_alibi(plim_tape *t, plim_tensor *mask, int64_t heads, plim_dtype dtype) {
  return alibi(t, mask, heads, PLIM_BF16, dtype);
}

plim_tensor *plim_alibi_wide(plim_tape *t, plim_tensor *mask, int64_t heads, plim_dtype dtype) {
  return alibi(t, mask, heads, PLIM_FP32, dtype);
}
