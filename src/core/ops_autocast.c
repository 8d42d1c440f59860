#include "ops.h"

#include "tape_impl.h"

plim_dtype autocast(plim_tape *t, plim_dtype dtype) {
  plim_dtype was = (plim_dtype)t->autocast;
  t->autocast = (uint8_t)dtype;
  if (dtype != PLIM_BOOL) return was;
  t->free_kind = PLIM_STREAM_FREE_UNORDERED;
  for (size_t i = 0; i < t->casts.len; i++) plim_release(t, t->casts.at[i].cast);
  t->free_kind = PLIM_STREAM_FREE;
  t->casts.len = 0;
  return was;
}

bool plim_autocast_is_on(const plim_tape *t) { return t->autocast != PLIM_BOOL; }

static bool is_kept(const plim_tensor *x) {
  return x->dtype == PLIM_FP32 && x->requires_grad && !x->fn && !x->base;
}

plim_tensor *cast(plim_tape *t, plim_tensor *x) {
  plim_dtype dtype = (plim_dtype)t->autocast;
  if (!x || dtype == PLIM_BOOL || x->dtype == dtype || x->dtype < PLIM_BF16) return x;
  if (!is_kept(x)) return to(t, x, dtype);
  for (size_t i = 0; i < t->casts.len; i++)
    if (t->casts.at[i].leaf == x) return t->casts.at[i].cast;
  plim_tensor *kept = NULL;
  set(t, &kept, to(t, x, dtype));
  if (!vec_push(&t->casts, (struct tape_cast){x, kept})) t->failed = true;
  return kept;
}
