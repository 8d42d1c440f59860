// LOMO and AdaLOMO (lomo-optim 0.1.1): a parameter is updated when the gradient of the next one is complete, in float32, and
// its gradient is freed. AdaLOMO also has the factored second moments of Adafactor.
#include "kernels.h"
#include "optimizer_impl.h"

#include "tape_names.h"

enum { ROW, COLUMN }; // AdaLOMO's state; for a vector, ROW is the whole second moment

// Variables of the loop over parameters: what one iteration assigns lives until the next rebinds it.
typedef struct {
  plim_tensor *grad, *change, *wide, *rms, *rate;
} variables;

// torch.zeros(...).cuda() for every parameter, when the optimizer is made
void begin_adalomo(plim_tape *t, plim_tensor *const *parameters, size_t count,
                   plim_tensor **state) {
  for (size_t i = 0; i < count; i++)
    make_factors(t, parameters[i], &state[PLIM_OPTIMIZER_STATE * i + ROW],
                 &state[PLIM_OPTIMIZER_STATE * i + COLUMN]);
}

static void scale_by_moments(plim_tape *t, plim_tensor **state, variables *v) {
  plim_tensor *squares = k_unary(t, v->grad), *shifted = k_unary(t, squares);
  plim_consume(t, squares);
  set(t, &v->change, shifted);
  if (v->grad->shape.n > 1) {
    plim_consume(t, mean_over(t, v->change, 1, false));
    plim_consume(t, mean_over(t, v->change, 2, false));
    set(t, &v->change, from_factors(t, state[ROW], state[COLUMN]));
  } else set(t, &v->change, k_unary(t, state[ROW]));
  plim_tensor *rms = root_mean_square(t, v->change, PLIM_FP32), *clipped = k_unary(t, rms);
  plim_consume(t, rms);
  plim_consume(t, clipped);
}

// lr * max(eps, rms(p)), as long as that is not eps
static void find_rate(plim_tape *t, variables *v) {
  set(t, &v->rms, root_mean_square(t, v->wide, PLIM_FP32));
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_BOOL));
  set(t, &v->rate, k_unary(t, v->rms));
}

static void step_one(plim_tape *t, const plim_optimizer *o, plim_tensor *p, plim_tensor **state,
                     variables *v) {
  set(t, &v->grad, k_to(t, p->grad, PLIM_FP32));
  drop(t, &p->grad);
  if (o->has_factors) scale_by_moments(t, state, v);
  set(t, &v->wide, k_to(t, p, PLIM_FP32));
  if (!o->has_factors) return;
  find_rate(t, v);
  plim_consume(t, k_unary(t, v->rate)); // -lr
}

void step_lomo(plim_tape *t, const plim_optimizer *o, const update *u) {
  variables v = {0};
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad) step_one(t, o, u->parameters[i], state_of(u, i), &v);
  update_one_by_one(t, u, 2, 4); // the update and its copy; other kernels are recorded above
  drop_all(t, &v.grad, &v.change, &v.wide, &v.rate, &v.rms);
}
