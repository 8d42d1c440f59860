// The optimizers of torch.optim, Lion, those of schedulefree, whose steps allocate the same, and those of torch-optimi.
#include <stdlib.h>

#include "kernels.h"
#include "optimizer_impl.h"

#include "tape_names.h"

// Creates n state tensors like parameter i, starting with state variable `first`.
static void make_state(plim_tape *t, const update *u, size_t i, int first, int n) {
  for (int k = first; k < first + n; k++) set(t, &state_of(u, i)[k], k_like(t, u->parameters[i]));
}

// The step counter is a tensor on the card; everything else works in place.
void step_adamw_fused(plim_tape *t, const plim_optimizer *o, const update *u) {
  (void)o;
  for (size_t i = 0; i < u->count; i++) {
    if (!is_new(u, i)) continue;
    set(t, state_of(u, i), empty(t, (plim_dims){0}, PLIM_FP32));
    make_state(t, u, i, 1, 2);
  }
  update_in_place(t, u, 1, 7); // reads and writes parameter and two moments, reads the gradient
}

static void make_states(plim_tape *t, const plim_optimizer *o, const update *u) {
  for (size_t i = 0; i < u->count; i++)
    if (is_new(u, i)) make_state(t, u, i, 0, o->moments);
}

// Step counters are on the CPU. Every step allocates the square roots of all second moments at once.
void step_adamw_foreach(plim_tape *t, const plim_optimizer *o, const update *u) {
  make_states(t, o, u);
  plim_tensor **roots = calloc(u->count, sizeof(plim_tensor *));
  if (!roots) {
    plim_tape_stop(t);
    return;
  }
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad) roots[i] = k_like(t, u->parameters[i]);
  update_in_place(t, u, 8, 20); // decay, lerp, mul, addcmul, sqrt, div, add, addcdiv
  for (size_t i = u->count; i-- > 0;) plim_consume(t, roots[i]);
  free(roots);
}

// The quotient of a parameter lives until that of the next one exists.
void step_adamw_loop(plim_tape *t, const plim_optimizer *o, const update *u) {
  plim_tensor *quotient = NULL;
  make_states(t, o, u);
  update_one_by_one(t, u, 8, 20); // the same operators as above
  for (size_t i = 0; i < u->count; i++) {
    if (!u->parameters[i]->grad) continue;
    plim_tensor *root = k_like(t, u->parameters[i]), *next = k_like(t, u->parameters[i]);
    plim_consume(t, root);
    set(t, &quotient, next);
  }
  drop(t, &quotient);
}

void step_sgd(plim_tape *t, const plim_optimizer *o, const update *u) {
  (void)o;
  update_in_place(t, u, 1, 3);
}

void step_sgd_momentum(plim_tape *t, const plim_optimizer *o, const update *u) {
  make_states(t, o, u);
  update_in_place(t, u, 3, 8); // buffer *= momentum; buffer += gradient; the parameter
}

// As in lion-pytorch: exp_avg.clone().mul_().add(grad).sgn_(), parameter by parameter.
void step_lion(plim_tape *t, const plim_optimizer *o, const update *u) {
  (void)o;
  for (size_t i = 0; i < u->count; i++) {
    if (!u->parameters[i]->grad) continue;
    if (is_new(u, i)) make_state(t, u, i, 0, 1);
    plim_tensor *copy = k_like(t, u->parameters[i]), *sum = k_like(t, u->parameters[i]);
    plim_consume(t, copy);
    plim_consume(t, sum);
  }
  update_one_by_one(t, u, 8, 19); // decay, clone, mul, add, sgn, add; for the average mul, add
}

// ---- torch-optimi 0.3.3 -------------------------------------------------------------------------------

enum { COMPENSATION = 2, SQUARED_EPS, MEAN_SQUARE }; // its state behind the moments

// Kahan summation, unless the parameter is float32.
static void make_compensation(plim_tape *t, const update *u, size_t i) {
  if (u->parameters[i]->dtype != PLIM_FP32) make_state(t, u, i, COMPENSATION, 1);
}

// AdamW with foreach=False: states of all parameters first, then one parameter after the other.
void step_optimi(plim_tape *t, const plim_optimizer *o, const update *u) {
  for (size_t i = 0; i < u->count; i++) {
    if (!is_new(u, i)) continue;
    make_state(t, u, i, 0, o->moments);
    make_compensation(t, u, i);
  }
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad) plim_consume(t, k_like(t, u->parameters[i])); // exp_avg_sq.sqrt()
  update_one_by_one(t, u, 8, 20);
}

// StableAdamW with Triton's kernels, which work in place.
void step_stable_adamw(plim_tape *t, const plim_optimizer *o, const update *u) {
  for (size_t i = 0; i < u->count; i++) {
    if (!is_new(u, i)) continue;
    const plim_tensor *p = u->parameters[i];
    make_state(t, u, i, 0, o->moments);
    set(t, &state_of(u, i)[SQUARED_EPS], empty(t, (plim_dims){0}, (plim_dtype)p->dtype));
    if (p->dtype == PLIM_FP32) set(t, &state_of(u, i)[COMPENSATION], empty(t, dims(1), PLIM_U8));
    make_compensation(t, u, i);
    set(t, &state_of(u, i)[MEAN_SQUARE], empty(t, dims(1), PLIM_FP32));
  }
  update_one_by_one(t, u, 3, 13); // moments, the parameter, the scratch number
}
