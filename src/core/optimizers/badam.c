// BAdam (badam 1.4, mode "layer"): the trained layer has a copy in float32, on which fused AdamW steps with gradients in
// float32. What it writes back goes through the parameter's dtype.
#include <stdlib.h>

#include "kernels.h"
#include "optimizer_impl.h"

#include "tape_names.h"

enum { COPY = 3 }; // behind the states of fused AdamW

static bool is_half(const plim_tensor *p) { return p->dtype != PLIM_FP32; }

static plim_tensor *in_float(plim_tape *t, const plim_tensor *p) {
  return empty(t, p->shape, PLIM_FP32);
}

void begin_badam(plim_tape *t, plim_tensor *const *parameters, size_t count, plim_tensor **state) {
  for (size_t i = 0; i < count; i++) {
    const plim_tensor *p = parameters[i];
    if (!p->requires_grad) continue;
    plim_tensor *clone = k_like(t, p), *copy = is_half(p) ? in_float(t, p) : clone;
    if (copy != clone) plim_consume(t, clone);
    set(t, &state[PLIM_OPTIMIZER_STATE * i + COPY], copy);
  }
}

// The gradients move to the copies.
static void widen_gradients(plim_tape *t, const update *u, plim_tensor **copies) {
  for (size_t i = 0; i < u->count; i++) {
    plim_tensor *p = u->parameters[i], *copy = state_of(u, i)[COPY];
    copies[i] = copy ? copy : p;
    if (!copy || !p->grad) continue;
    if (is_half(p)) set(t, &copy->grad, in_float(t, p)), drop(t, &p->grad);
    else copy->grad = p->grad, p->grad = NULL;
  }
  update_one_by_one(t, &(update){.parameters = copies, .count = u->count}, 1, 1.5);
}

static void write_back(plim_tape *t, const update *u) {
  for (size_t i = 0; i < u->count; i++)
    if (state_of(u, i)[COPY] && is_half(u->parameters[i]))
      plim_consume(t, k_like(t, u->parameters[i]));
}

void step_badam(plim_tape *t, const plim_optimizer *o, const update *u) {
  plim_tensor **copies = calloc(u->count + 1, sizeof(plim_tensor *));
  if (!copies) {
    plim_tape_stop(t);
    return;
  }
  widen_gradients(t, u, copies);
  update inner = *u;
  inner.parameters = copies;
  step_adamw_fused(t, o, &inner);
  write_back(t, u);
  update_one_by_one(t, &inner, 2, 2.5); // to the parameter's dtype, and into the parameter
  for (size_t i = 0; i < u->count; i++)
    if (copies[i] != u->parameters[i]) drop(t, &copies[i]->grad);
  plim_tape_empty_cache(t);
  free(copies);
}
