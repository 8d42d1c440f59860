// CAME (came-pytorch 0.1.3): Adafactor with a first moment, and with factors of how far the updates are from it.
#include "kernels.h"
#include "optimizer_impl.h"

#include "tape_names.h"

enum {
  AVERAGE,
  ROW,
  COLUMN,
  ROW_OF_REST,
  COLUMN_OF_REST,
  RMS
}; // for a vector, ROW is the whole second moment

// Variables of the loop over parameters: what one iteration assigns lives until the next rebinds it.
typedef struct {
  plim_tensor *grad, *change, *rest, *approximation;
} variables;

static void make_state(plim_tape *t, const plim_tensor *grad, plim_tensor **state) {
  set(t, &state[AVERAGE], empty(t, grad->shape, PLIM_FP32));
  make_factors(t, grad, &state[ROW], &state[COLUMN]);
  if (grad->shape.n > 1) make_factors(t, grad, &state[ROW_OF_REST], &state[COLUMN_OF_REST]);
}

// x**2 + eps, whose means over rows and columns go to the factors. x is consumed.
static plim_tensor *squares_of(plim_tape *t, plim_tensor *x) {
  plim_tensor *squares = k_unary(t, x);
  plim_consume(t, x);
  plim_tensor *out = k_unary(t, squares);
  plim_consume(t, squares);
  return out;
}

static plim_tensor *approximated(plim_tape *t, const plim_tensor *squares, plim_tensor *row,
                                 plim_tensor *column) {
  plim_consume(t, mean_over(t, squares, 1, false));
  plim_consume(t, mean_over(t, squares, 2, false));
  return from_factors(t, row, column);
}

// update.div_((rms(update) / threshold).clamp_(min=1))
static void clip(plim_tape *t, const plim_tensor *x) {
  plim_tensor *rms = root_mean_square(t, x, PLIM_FP32), *clipped = k_unary(t, rms);
  plim_consume(t, rms);
  plim_consume(t, clipped);
}

static void step_one(plim_tape *t, plim_tensor *p, plim_tensor **state, variables *v) {
  set(t, &v->grad, p->grad);
  set(t, &v->grad, k_to(t, v->grad, PLIM_FP32));
  bool is_factored = p->shape.n > 1;
  if (!state[AVERAGE]) make_state(t, v->grad, state);
  set(t, &state[RMS], root_mean_square(t, p, (plim_dtype)p->dtype));
  set(t, &v->change, squares_of(t, v->grad));
  set(t, &v->change,
      is_factored ? approximated(t, v->change, state[ROW], state[COLUMN]) : k_unary(t, state[ROW]));
  clip(t, v->change);
  plim_tensor *difference = k_binary(t, v->change, state[AVERAGE]);
  plim_tensor *rest = squares_of(t, difference);
  set(t, &v->rest, rest);
  if (is_factored) {
    set(t, &v->approximation, approximated(t, v->rest, state[ROW_OF_REST], state[COLUMN_OF_REST]));
    set(t, &v->change, v->approximation);
  } else set(t, &v->change, k_like(t, state[AVERAGE]));
  plim_consume(t, k_unary(t, v->change));
}

void step_came(plim_tape *t, const plim_optimizer *o, const update *u) {
  variables v = {0};
  (void)o;
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad) step_one(t, u->parameters[i], state_of(u, i), &v);
  update_one_by_one(t, u, 8,
                    18); // moments, updates and the parameter; other kernels are recorded above
  drop_all(t, &v.grad, &v.change, &v.rest, &v.approximation);
}
