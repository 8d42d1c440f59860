#include "scaler.h"

#include "kernels.h"
#include "ops.h"
#include "work.h"

#include "op_names.h"

static plim_tensor *scalar(plim_tape *t, plim_dtype dtype) {
  return empty(t, (plim_dims){0}, dtype);
}

plim_tensor *plim_scaler_scale(plim_tape *t, plim_scaler *s, plim_tensor *loss) {
  if (!s->scale) {
    set(t, &s->scale, scalar(t, PLIM_FP32));
    set(t, &s->growth, scalar(t, PLIM_I32));
  }
  return mul(t, loss, s->scale);
}

// _unscale_grads_: the flag and the inverse are copied to each device that has gradients.
static void look_for_infinities(plim_tape *t, plim_scaler *s) {
  set(t, &s->found, scalar(t, PLIM_FP32));
  plim_consume(t, scalar(t, PLIM_FP32));
}

// 1 / scale is computed in float64.
void plim_scaler_unscale(plim_tape *t, plim_scaler *s) {
  plim_tensor *wide = k_to(t, s->scale, PLIM_FP64), *quotient = k_unary(t, wide);
  plim_consume(t, wide);
  plim_tensor *inverse = k_to(t, quotient, PLIM_FP32);
  plim_consume(t, quotient);
  plim_tensor *flag = scalar(t, PLIM_FP32);
  look_for_infinities(t, s);
  plim_consume(t, inverse);
  plim_consume(t, flag);
  s->is_unscaled = true;
}

// _check_inf_per_device: uses an inverse of 1, which leaves the gradients unchanged.
static void check_only(plim_tape *t, plim_scaler *s) {
  plim_tensor *inverse = scalar(t, PLIM_FP32), *flag = scalar(t, PLIM_FP32);
  look_for_infinities(t, s);
  plim_consume(t, inverse);
  plim_consume(t, flag);
}

void plim_scaler_step(plim_tape *t, plim_scaler *s, const plim_optimizer *o,
                      plim_tensor *const *parameters, size_t count, plim_tensor **state,
                      bool widens_tables) {
  plim_tensor *found = NULL, *scale = NULL;
  bool takes_scale = plim_optimizer_takes_scale(o);
  plim_work_foreach(t, parameters, count, 2); // unscales the gradients, or only checks them
  if (!takes_scale) plim_work_synchronize(t); // Python reads the flag
  if (!s->is_unscaled && takes_scale) check_only(t, s);
  else if (!s->is_unscaled) plim_scaler_unscale(t, s);
  if (takes_scale) {
    set(t, &found, k_unary(t, s->found));
    if (!s->is_unscaled) set(t, &scale, k_unary(t, s->scale));
  }
  plim_optimizer_step(t, o, parameters, count, state, widens_tables);
  drop_all(t, &scale, &found, &s->found);
  s->is_unscaled = false;
}
