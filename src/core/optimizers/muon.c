// torch.optim.Muon for the matrices of layers, and torch.optim.AdamW (fused) for all other parameters.
#include <stdlib.h>

#include "kernels.h"
#include "optimizer_impl.h"
#include "work.h"

#include "tape_names.h"

enum { ROUNDS = 5 }; // of Newton-Schulz: ns_steps

static bool is_inner(const plim_tensor *p) { return p->is_projection && p->shape.n == 2; }

// ortho_grad.div_(ortho_grad.norm().clamp(min=eps))
static void normalise(plim_tape *t, const plim_tensor *x) {
  plim_tensor *norm = k_sum(t, x, 3, false, PLIM_BF16), *clamped = k_unary(t, norm);
  plim_consume(t, norm);
  plim_consume(t, clamped);
}

// _zeropower_via_newtonschulz: a matrix with more rows than columns is transposed.
static plim_tensor *orthogonal(plim_tape *t, plim_tensor *x) {
  int64_t rows = x->shape.at[0], columns = x->shape.at[1];
  int64_t small = rows < columns ? rows : columns;
  plim_tensor *ortho = NULL, *gram = NULL, *change = NULL;
  set(t, &ortho, x);
  set(t, &ortho, k_to(t, x, PLIM_BF16));
  normalise(t, ortho);
  for (int i = 0; i < ROUNDS; i++) {
    set(t, &gram, empty(t, dims(small, small), PLIM_BF16));
    set(t, &change, empty(t, dims(small, small), PLIM_BF16));
    set(t, &ortho, empty(t, x->shape, PLIM_BF16));
  }
  drop_all(t, &gram, &change);
  return give(t, &ortho);
}

void step_muon(plim_tape *t, const plim_optimizer *o, const update *u) {
  plim_tensor *change = NULL;
  (void)o;
  for (size_t i = 0; i < u->count; i++)
    if (is_new(u, i) && is_inner(u->parameters[i]))
      set(t, state_of(u, i), k_like(t, u->parameters[i]));
  for (size_t i = 0; i < u->count; i++) {
    if (!u->parameters[i]->grad || !is_inner(u->parameters[i])) continue;
    set(t, &change, k_like(t, u->parameters[i])); // grad.lerp(buffer)
    set(t, &change, orthogonal(t, change));
  }
  drop(t, &change);
  for (size_t i = 0; i < u->count; i++) {
    if (!is_new(u, i) || is_inner(u->parameters[i])) continue;
    set(t, state_of(u, i), empty(t, (plim_dims){0}, PLIM_FP32));
    for (int k = 1; k <= 2; k++) set(t, &state_of(u, i)[k], k_like(t, u->parameters[i]));
  }
  update_one_by_one(t, u, 4, 8); // buffer, update, decay, parameter; the rounds are not timed
}
