// torch.autocast: turning it on and off, and the casts of leaves that it keeps until it is turned off.
#include "tape_impl.h"

plim_dtype plim_autocast(plim_tape *t, plim_dtype dtype) {
  plim_dtype was = (plim_dtype)t->state.autocast;
  t->state.autocast = (uint8_t)dtype;
  if (dtype != PLIM_BOOL) return was;
  t->state.free_kind = PLIM_STREAM_FREE_UNORDERED;
  for (size_t i = 0; i < t->casts.len; i++) {
    t->casts.at[i].leaf->cast = 0;
    plim_release(t, t->casts.at[i].cast);
  }
  t->state.free_kind = PLIM_STREAM_FREE;
  t->casts.len = 0;
  return was;
}

bool plim_autocast_is_on(const plim_tape *t) { return t->state.autocast != PLIM_BOOL; }

plim_tensor *plim_autocast_kept(const plim_tape *t, const plim_tensor *leaf) {
  return leaf->cast ? t->casts.at[leaf->cast - 1].cast : NULL;
}

void plim_autocast_keep(plim_tape *t, plim_tensor *leaf, plim_tensor *cast) {
  if (vec_push(&t->casts, (struct tape_cast){leaf, cast})) leaf->cast = (uint32_t)t->casts.len;
  else t->state.failed = true;
}
