// Adafactor as implemented in transformers; with projected gradients, GaLore's.
#include "kernels.h"
#include "optimizer_impl.h"

#include "tape_names.h"

enum { ROW, COLUMN, RMS }; // its state; for a vector, ROW is the whole second moment

plim_tensor *root_mean_square(plim_tape *t, const plim_tensor *x, plim_dtype dtype) {
  plim_tensor *norm = k_sum(t, x, (1u << x->shape.n) - 1, false, dtype);
  plim_tensor *out = k_unary(t, norm);
  plim_consume(t, norm);
  return out;
}

plim_tensor *mean_over(plim_tape *t, const plim_tensor *x, int from_last, bool keep) {
  return k_sum(t, x, 1u << (x->shape.n - from_last), keep, PLIM_FP32);
}

plim_tensor *from_factors(plim_tape *t, plim_tensor *row, plim_tensor *column) {
  plim_tensor *mean = mean_over(t, row, 1, true), *rows = k_binary(t, row, mean);
  plim_consume(t, mean);
  plim_tensor *columns = k_unary(t, column);
  plim_dims shape = row->shape;
  shape.at[shape.n++] = column->shape.at[column->shape.n - 1];
  plim_tensor *out = empty(t, shape, PLIM_FP32);
  plim_consume(t, rows);
  plim_consume(t, columns);
  return out;
}

void make_factors(plim_tape *t, const plim_tensor *grad, plim_tensor **row_state,
                  plim_tensor **column_state) {
  plim_dims row = grad->shape, column = grad->shape;
  if (grad->shape.n < 2) {
    set(t, row_state, empty(t, grad->shape, PLIM_FP32));
    return;
  }
  row.n--;
  column.n--;
  column.at[column.n - 1] = grad->shape.at[grad->shape.n - 1];
  set(t, row_state, empty(t, row, PLIM_FP32));
  set(t, column_state, empty(t, column, PLIM_FP32));
}

// Variables of the loop over parameters: what one iteration assigns lives until the next rebinds it.
typedef struct {
  plim_tensor *grad, *wide, *update;
} adafactor_variables;

static void adafactor_one(plim_tape *t, const plim_optimizer *o, plim_tensor *p,
                          plim_tensor **state, adafactor_variables *v) {
  set(t, &v->grad, p->grad);
  set(t, &v->grad, k_to(t, v->grad, PLIM_FP32));
  if (p->blocks) set(t, &v->grad, plim_project(t, o, v->grad, p->blocks, &state[PROJECTION]));
  if (!state[ROW]) make_factors(t, v->grad, &state[ROW], &state[COLUMN]);
  set(t, &v->wide, p);
  set(t, &v->wide, k_to(t, p, PLIM_FP32));
  set(t, &state[RMS], root_mean_square(t, v->wide, PLIM_FP32));
  plim_tensor *squares = k_unary(t, v->grad), *shifted = k_unary(t, squares);
  plim_consume(t, squares);
  set(t, &v->update, shifted);
  if (p->shape.n > 1) {
    plim_consume(t, mean_over(t, v->update, 1, false));
    plim_consume(t, mean_over(t, v->update, 2, false));
    set(t, &v->update, from_factors(t, state[ROW], state[COLUMN]));
  } else set(t, &v->update, k_unary(t, state[ROW]));
  plim_tensor *rms = root_mean_square(t, v->update, PLIM_FP32), *clipped = k_unary(t, rms);
  plim_consume(t, rms);
  plim_consume(t, clipped);
  if (p->blocks) set(t, &v->update, plim_project_back(t, v->update, state[PROJECTION]));
  plim_consume(t, k_unary(t, v->update));
}

void step_adafactor(plim_tape *t, const plim_optimizer *o, const update *u) {
  adafactor_variables v = {0};
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad) adafactor_one(t, o, u->parameters[i], state_of(u, i), &v);
  update_one_by_one(t, u, 5, 11); // moments, update and parameter; other kernels are recorded above
  drop_all(t, &v.grad, &v.wide, &v.update);
}
