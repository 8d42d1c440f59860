// Casting operands under torch.autocast.
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

static bool is_kept(const plim_tensor *x) {
  return x->dtype == PLIM_FP32 && x->requires_grad && !x->fn && !x->base;
}

plim_tensor *cast(plim_tape *t, plim_tensor *x) {
  plim_dtype dtype = (plim_dtype)plim_state(t)->autocast;
  if (!x || dtype == PLIM_BOOL || x->dtype == dtype || x->dtype < PLIM_BF16) return x;
  if (!is_kept(x)) return to(t, x, dtype);
  plim_tensor *kept = plim_autocast_kept(t, x);
  if (kept) return kept;
  set(t, &kept, to(t, x, dtype));
  plim_autocast_keep(t, x, kept);
  return kept;
}
