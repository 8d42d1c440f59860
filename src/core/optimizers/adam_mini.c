// Adam-mini (adam-mini 1.1.1): a first moment like the parameter, and one second moment for each head of queries and keys,
// each row of other matrices, and each norm. Biases have Adam's.
#include "kernels.h"
#include "optimizer_impl.h"

#include "tape_names.h"

enum { FIRST, SECOND };

// Variables of the loop over parameters: what one iteration assigns lives until the next rebinds it.
typedef struct {
  plim_tensor *grad, *root, *step, *mean, *change, *count;
} variables;

static plim_tensor *quotient_of_root(plim_tape *t, const plim_tensor *x) {
  plim_tensor *root = k_unary(t, x), *out = k_unary(t, root);
  plim_consume(t, root);
  return out;
}

static plim_tensor *sum_of_squares(plim_tape *t, plim_tensor *x, bool by_row) {
  plim_tensor *squares = k_binary(t, x, x);
  uint32_t mask = by_row ? 2 : (1u << x->shape.n) - 1;
  plim_tensor *out = k_sum(t, squares, mask, by_row, (plim_dtype)x->dtype);
  plim_consume(t, squares);
  return out;
}

// One block: torch.zeros_like(torch.sum(p * p)), and the number of elements, which goes through the card.
static void make_block(plim_tape *t, plim_tensor *p, plim_tensor **state, variables *v) {
  set(t, &v->count, empty(t, (plim_dims){0}, PLIM_FP32));
  set(t, &state[FIRST], k_like(t, p));
  plim_tensor *sum = sum_of_squares(t, p, false);
  set(t, &state[SECOND], k_like(t, sum));
  plim_consume(t, sum);
}

static void make_rows(plim_tape *t, const plim_tensor *p, plim_tensor **state) {
  set(t, &state[FIRST], k_like(t, p));
  set(t, &state[SECOND], empty(t, dims(p->blocks, 1), (plim_dtype)p->dtype));
}

static void step_of_bias(plim_tape *t, plim_tensor *p, plim_tensor **state, variables *v) {
  for (int k = FIRST; !state[k] && k <= SECOND; k++) set(t, &state[k], k_like(t, p));
  set(t, &v->grad, p->grad);
  set(t, &v->root, quotient_of_root(t, state[SECOND]));
}

static void step_of_one(plim_tape *t, plim_tensor *p, plim_tensor **state, variables *v) {
  bool is_whole = p->blocks == PLIM_ONE_BLOCK;
  if (!state[FIRST] && is_whole) make_block(t, p, state, v);
  else if (!state[FIRST]) make_rows(t, p, state);
  set(t, &v->grad, p->grad);
  if (!is_whole) {
    int64_t blocks = p->blocks, size = plim_numel(&p->shape) / blocks;
    set(t, &v->grad, k_view(t, v->grad, dims(blocks, size)));
  }
  set(t, &v->mean, sum_of_squares(t, v->grad, !is_whole));
  if (is_whole) set(t, &v->mean, k_unary(t, v->mean));
  set(t, &v->root, quotient_of_root(t, state[SECOND]));
  set(t, &v->step, quotient_of_root(t, v->root)); // the reciprocal, and a product
  set(t, &v->change, k_like(t, state[FIRST]));
  plim_consume(t, k_unary(t, v->change));
}

void step_adam_mini(plim_tape *t, const plim_optimizer *o, const update *u) {
  variables v = {0};
  (void)o;
  for (size_t i = 0; i < u->count; i++) {
    plim_tensor *p = u->parameters[i];
    if (!p->grad) continue;
    if (!p->blocks) step_of_bias(t, p, state_of(u, i), &v);
    else step_of_one(t, p, state_of(u, i), &v);
  }
  update_one_by_one(t, u, 3, 8); // decay, moment, parameter; other kernels are recorded above
  drop_all(t, &v.grad, &v.root, &v.step, &v.mean, &v.change, &v.count);
}
