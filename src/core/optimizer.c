#include "optimizer.h"

#include <stdlib.h>

#include "kernels.h"

#define NORM_CHUNK 65536 // elements a block of the multi-tensor norm handles

static uint64_t norm_buffer_bytes(plim_tensor *const *parameters, size_t count, size_t with_grad) {
  uint64_t most = 0;
  for (size_t i = 0; i < count; i++) {
    if (!parameters[i]->grad) continue;
    uint64_t chunks =
        ((uint64_t)plim_numel(&parameters[i]->grad->shape) + NORM_CHUNK - 1) / NORM_CHUNK;
    if (chunks > most) most = chunks;
  }
  return most * with_grad * 4;
}

// One norm per gradient, stacked, and the norm of those.
static plim_tensor *total_norm(plim_tape *t, plim_tensor *const *parameters, size_t count) {
  size_t n = 0;
  plim_dtype dtype = PLIM_FP32;
  for (size_t i = 0; i < count; i++)
    if (parameters[i]->grad) n++, dtype = (plim_dtype)parameters[i]->grad->dtype;
  plim_tensor **norms = calloc(n + 1, sizeof(plim_tensor *));
  if (!norms) return empty(t, (plim_dims){0}, dtype);
  plim_tensor *buffer = scratch(t, norm_buffer_bytes(parameters, count, n));
  for (size_t i = 0; i < n; i++) norms[i] = empty(t, (plim_dims){0}, dtype);
  plim_consume(t, buffer);
  plim_tensor *stacked = empty(t, dims((int64_t)n), dtype);
  plim_tensor *total = empty(t, (plim_dims){0}, dtype);
  plim_consume(t, stacked);
  for (size_t i = n; i-- > 0;) plim_consume(t, norms[i]);
  free(norms);
  return total;
}

void clip_grad_norm(plim_tape *t, plim_tensor *const *parameters, size_t count) {
  plim_tensor *total = total_norm(t, parameters, count);
  plim_tensor *plus = k_unary(t, total), *inverse = k_unary(t, plus), *factor = k_unary(t, inverse);
  plim_consume(t, inverse);
  plim_consume(t, plus);
  plim_tensor *clamped = k_unary(t, factor);
  plim_consume(t, factor);
  plim_consume(t, clamped);
  plim_consume(t, total);
}

void adamw_fused_step(plim_tape *t, plim_tensor *const *parameters, size_t count,
                      plim_tensor **state) {
  for (size_t i = 0; i < count; i++) {
    plim_tensor **s = &state[3 * i];
    if (!parameters[i]->grad || s[0]) continue;
    set(t, &s[0], empty(t, (plim_dims){0}, PLIM_FP32));
    set(t, &s[1], k_like(t, parameters[i]));
    set(t, &s[2], k_like(t, parameters[i]));
  }
}

void zero_grad(plim_tape *t, plim_tensor *const *parameters, size_t count) {
  for (size_t i = 0; i < count; i++) drop(t, &parameters[i]->grad);
}
