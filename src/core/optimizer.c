#include "optimizer.h"

#include <stdlib.h>
#include <string.h>

#include "kernels.h"

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
};

// `n` tensors like each parameter that has a gradient and no state yet, from state `first` on.
static void make_state(plim_tape *t, const update *u, size_t i, int first, int n) {
  for (int k = first; k < first + n; k++)
    set(t, &u->state[PLIM_OPTIMIZER_STATE * i + (size_t)k], k_like(t, u->parameters[i]));
}

static bool is_new(const update *u, size_t i) {
  return u->parameters[i]->grad && !u->state[PLIM_OPTIMIZER_STATE * i];
}

// The step counter is a tensor on the card; the rest happens in place.
static void adamw_fused(plim_tape *t, const update *u) {
  for (size_t i = 0; i < u->count; i++) {
    if (!is_new(u, i)) continue;
    set(t, &u->state[PLIM_OPTIMIZER_STATE * i], empty(t, (plim_dims){0}, PLIM_FP32));
    make_state(t, u, i, 1, 2);
  }
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
  for (size_t i = u->count; i-- > 0;) plim_consume(t, roots[i]);
  free(roots);
}

// The quotient of a parameter lives until that of the next exists.
static void adamw_loop(plim_tape *t, const update *u) {
  plim_tensor *quotient = NULL;
  adamw_states(t, u);
  for (size_t i = 0; i < u->count; i++) {
    if (!u->parameters[i]->grad) continue;
    plim_tensor *root = k_like(t, u->parameters[i]), *next = k_like(t, u->parameters[i]);
    plim_consume(t, root);
    set(t, &quotient, next);
  }
  drop(t, &quotient);
}

static void sgd(plim_tape *t, const update *u) { (void)t, (void)u; } // in place

static void sgd_momentum(plim_tape *t, const update *u) {
  for (size_t i = 0; i < u->count; i++)
    if (is_new(u, i)) make_state(t, u, i, 0, 1);
}

static const plim_optimizer optimizers[] = {
    {"adamw", adamw_fused}, {"adamw-foreach", adamw_foreach}, {"adamw-loop", adamw_loop},
    {"sgd", sgd},           {"sgd-momentum", sgd_momentum},
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

void plim_optimizer_step(plim_tape *t, const plim_optimizer *o, plim_tensor *const *parameters,
                         size_t count, plim_tensor **state) {
  o->step(t, &(update){parameters, state, count});
}

void plim_zero_grad(plim_tape *t, plim_tensor *const *parameters, size_t count) {
  for (size_t i = 0; i < count; i++) drop(t, &parameters[i]->grad);
}
