#include "optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "work.h"

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

plim_tensor *plim_clip_grad_norm(plim_tape *t, plim_tensor *const *parameters, size_t count) {
  plim_work_parameters(t, count);
  plim_work_foreach(t, parameters, count, 1); // the norms, and
  plim_work_foreach(t, parameters, count, 2); // the gradients times what is clamped below
  plim_tensor *total = total_norm(t, parameters, count);
  plim_tensor *plus = k_unary(t, total), *inverse = k_unary(t, plus), *factor = k_unary(t, inverse);
  plim_consume(t, inverse);
  plim_consume(t, plus);
  plim_tensor *clamped = k_unary(t, factor);
  plim_consume(t, factor);
  plim_consume(t, clamped);
  return total;
}

// ---- steps ----------------------------------------------------------------------------------------

typedef struct {
  plim_tensor *const *parameters;
  plim_tensor **state;
  size_t count;
} update;

struct plim_optimizer {
  const char *name;
  void (*step)(plim_tape *t, const update *u);
  bool takes_scale;
};

// `n` tensors like each parameter that has a gradient and no state yet, from state `first` on.
static void make_state(plim_tape *t, const update *u, size_t i, int first, int n) {
  for (int k = first; k < first + n; k++)
    set(t, &u->state[PLIM_OPTIMIZER_STATE * i + (size_t)k], k_like(t, u->parameters[i]));
}

static bool is_new(const update *u, size_t i) {
  return u->parameters[i]->grad && !u->state[PLIM_OPTIMIZER_STATE * i];
}

// What a step does in place: kernels that together read and write a tensor like each parameter
// `passes` times, over all parameters at once or over one after the other.
static void in_place(plim_tape *t, const update *u, int kernels, double passes) {
  for (int k = 0; k < kernels; k++) plim_work_foreach(t, u->parameters, u->count, passes / kernels);
}

static void in_place_one_by_one(plim_tape *t, const update *u, int kernels, double passes) {
  for (size_t i = 0; i < u->count; i++)
    in_place(t, &(update){u->parameters + i, NULL, 1}, kernels, passes);
}

// The step counter is a tensor on the card; the rest happens in place.
static void adamw_fused(plim_tape *t, const update *u) {
  for (size_t i = 0; i < u->count; i++) {
    if (!is_new(u, i)) continue;
    set(t, &u->state[PLIM_OPTIMIZER_STATE * i], empty(t, (plim_dims){0}, PLIM_FP32));
    make_state(t, u, i, 1, 2);
  }
  in_place(t, u, 1, 7); // parameter, gradient and two moments; the gradient is only read
}

static void adamw_states(plim_tape *t, const update *u) {
  for (size_t i = 0; i < u->count; i++)
    if (is_new(u, i)) make_state(t, u, i, 0, 2);
}

// Counters are on the CPU. Every step makes the square roots of all second moments at once.
static void adamw_foreach(plim_tape *t, const update *u) {
  adamw_states(t, u);
  plim_tensor **roots = calloc(u->count, sizeof(plim_tensor *));
  if (!roots) return;
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad) roots[i] = k_like(t, u->parameters[i]);
  in_place(t, u, 8, 20); // decay, lerp, mul, addcmul, sqrt, div, add, addcdiv
  for (size_t i = u->count; i-- > 0;) plim_consume(t, roots[i]);
  free(roots);
}

// The quotient of a parameter lives until that of the next exists.
static void adamw_loop(plim_tape *t, const update *u) {
  plim_tensor *quotient = NULL;
  adamw_states(t, u);
  in_place_one_by_one(t, u, 8, 20); // as above
  for (size_t i = 0; i < u->count; i++) {
    if (!u->parameters[i]->grad) continue;
    plim_tensor *root = k_like(t, u->parameters[i]), *next = k_like(t, u->parameters[i]);
    plim_consume(t, root);
    set(t, &quotient, next);
  }
  drop(t, &quotient);
}

static void sgd(plim_tape *t, const update *u) { in_place(t, u, 1, 3); }

static void sgd_momentum(plim_tape *t, const update *u) {
  for (size_t i = 0; i < u->count; i++)
    if (is_new(u, i)) make_state(t, u, i, 0, 1);
  in_place(t, u, 3, 8); // the buffer times momentum, plus the gradient; the parameter
}

// ---- Adafactor, as transformers writes it ----------------------------------------------------------

enum { ROW, COLUMN, RMS }; // its state; of a vector ROW is the whole second moment

static plim_tensor *root_mean_square(plim_tape *t, const plim_tensor *x) {
  plim_tensor *norm = k_sum(t, x, (1u << x->shape.n) - 1, false, PLIM_FP32);
  plim_tensor *out = k_unary(t, norm);
  plim_consume(t, norm);
  return out;
}

static plim_tensor *mean_over(plim_tape *t, const plim_tensor *x, int from_last, bool keep) {
  return k_sum(t, x, 1u << (x->shape.n - from_last), keep, PLIM_FP32);
}

// The second moment from its row and column means.
static plim_tensor *from_factors(plim_tape *t, plim_tensor *row, plim_tensor *column) {
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

static void make_factors(plim_tape *t, const plim_tensor *p, plim_tensor **state) {
  plim_dims row = p->shape, column = p->shape;
  if (p->shape.n < 2) {
    set(t, &state[ROW], empty(t, p->shape, PLIM_FP32));
    return;
  }
  row.n--;
  column.n--;
  column.at[column.n - 1] = p->shape.at[p->shape.n - 1];
  set(t, &state[ROW], empty(t, row, PLIM_FP32));
  set(t, &state[COLUMN], empty(t, column, PLIM_FP32));
}

// Variables of its loop: what one parameter leaves in them lives until the next rebinds it.
typedef struct {
  plim_tensor *grad, *wide, *update;
} adafactor_variables;

static void adafactor_one(plim_tape *t, plim_tensor *p, plim_tensor **state,
                          adafactor_variables *v) {
  set(t, &v->grad, p->grad);
  set(t, &v->grad, k_to(t, v->grad, PLIM_FP32));
  if (!state[ROW]) make_factors(t, p, state);
  set(t, &v->wide, p);
  set(t, &v->wide, k_to(t, p, PLIM_FP32));
  set(t, &state[RMS], root_mean_square(t, v->wide));
  plim_tensor *squares = k_unary(t, v->grad), *shifted = k_unary(t, squares);
  plim_consume(t, squares);
  set(t, &v->update, shifted);
  if (p->shape.n > 1) {
    plim_consume(t, mean_over(t, v->update, 1, false));
    plim_consume(t, mean_over(t, v->update, 2, false));
    set(t, &v->update, from_factors(t, state[ROW], state[COLUMN]));
  } else set(t, &v->update, k_unary(t, state[ROW]));
  plim_tensor *rms = root_mean_square(t, v->update), *clipped = k_unary(t, rms);
  plim_consume(t, rms);
  plim_consume(t, clipped);
  plim_consume(t, k_unary(t, v->update));
}

static void adafactor(plim_tape *t, const update *u) {
  adafactor_variables v = {0};
  for (size_t i = 0; i < u->count; i++)
    if (u->parameters[i]->grad)
      adafactor_one(t, u->parameters[i], &u->state[PLIM_OPTIMIZER_STATE * i], &v);
  in_place_one_by_one(t, u, 5, 11); // moments, update and parameter; the rest is recorded above
  drop(t, &v.grad);
  drop(t, &v.wide);
  drop(t, &v.update);
}

static const plim_optimizer optimizers[] = {
    {"adamw", adamw_fused, .takes_scale = true}, {"adamw-foreach", adamw_foreach, false},
    {"adamw-loop", adamw_loop, false},           {"sgd", sgd, false},
    {"sgd-momentum", sgd_momentum, false},       {"adafactor", adafactor, false},
};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

const plim_optimizer *plim_optimizer_named(const char *name) {
  for (size_t i = 0; i < OPTIMIZERS; i++)
    if (strcmp(optimizers[i].name, name) == 0) return &optimizers[i];
  return NULL;
}

const char *plim_optimizer_name(size_t index) {
  return index < OPTIMIZERS ? optimizers[index].name : NULL;
}

bool plim_optimizer_takes_scale(const plim_optimizer *o) { return o->takes_scale; }

void plim_optimizer_step(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                         size_t count, plim_tensor **state) {
  plim_work_parameters(t, count);
  o->step(t, &(update){parameters, state, count});
}

void plim_zero_grad(plim_tape *t, plim_tensor *const *parameters, size_t count) {
  for (size_t i = 0; i < count; i++) drop(t, &parameters[i]->grad);
}
