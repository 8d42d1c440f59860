#include "expert_lora.h"

#include "kernels.h"
#include "ops.h"
#include "work.h"

#include "op_names.h"

plim_expert_lora plim_expert_lora_new(plim_tape *t, plim_model *m, const plim_tensor *weight,
                                      int64_t rank) {
  bool is_stacked = weight->shape.n == 3;
  int64_t experts = is_stacked ? weight->shape.at[0] : 1;
  int64_t out = weight->shape.at[is_stacked], in = weight->shape.at[is_stacked + 1];
  plim_expert_lora l = {
      .a = plim_model_parameter(t, m, dims(rank * experts, in), (plim_dtype)weight->dtype)};
  l.b = plim_model_parameter(t, m, dims(out, rank * experts), (plim_dtype)weight->dtype);
  l.a->is_adapter = l.b->is_adapter = true;
  return l;
}

// ---- torch.baddbmm ------------------------------------------------------------------------------------

// cuBLAS wants one of the two inner dimensions dense; what has neither is copied first.
static bool is_for_cublas(const plim_tensor *x) {
  return x->stride.at[1] == 1 || x->stride.at[2] == 1;
}

static plim_tensor *product(plim_tape *t, const plim_tensor *a, const plim_tensor *b,
                            plim_tensor *out) {
  plim_tensor *copy = is_for_cublas(a) ? NULL : empty(t, a->shape, (plim_dtype)a->dtype);
  k_cublas(t);
  plim_work_matmul(t, a, b, out);
  plim_consume(t, copy);
  return out;
}

static plim_tensor *bmm_scaled(plim_tape *t, const plim_tensor *a, const plim_tensor *b) {
  plim_dims shape = dims(a->shape.at[0], a->shape.at[1], b->shape.at[2]);
  plim_tensor *plain = product(t, a, b, empty(t, shape, (plim_dtype)a->dtype));
  plim_tensor *scaled = k_unary(t, plain);
  plim_consume(t, plain);
  return scaled;
}

static void baddbmm_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  plim_tensor *right = k_transpose(t, n->saved[1], 1, 2);
  plim_tensor *left = k_transpose(t, n->saved[0], 1, 2);
  out[1] = bmm_scaled(t, in[0], right);
  out[2] = bmm_scaled(t, left, in[0]);
  plim_consume(t, left);
  plim_consume(t, right);
}

// x + scale * left @ right
static plim_tensor *baddbmm(plim_tape *t, plim_tensor *x, plim_tensor *left, plim_tensor *right) {
  plim_grad_node *n = node_begin(t, baddbmm_backward, (plim_tensor *[]){x, left, right}, 3);
  if (n) node_save(t, n, left), node_save(t, n, right);
  plim_tensor *out = product(t, left, right, empty(t, x->shape, (plim_dtype)x->dtype));
  if (n) node_output(t, n, out);
  return out;
}

// ---- merging ------------------------------------------------------------------------------------------

static bool is_stacked(const plim_tensor *weight) { return weight->shape.n == 3; }

static plim_tensor *merged(plim_tape *t, plim_tensor *weight, const plim_merge *m) {
  return is_stacked(weight) ? baddbmm(t, weight, m->left, m->right) : add(t, weight, m->left);
}

static void multiply(plim_tape *t, const plim_expert_lora *l, plim_dtype dtype, plim_merge *m) {
  set(t, &m->left, mul_scalar(t, matmul2(t, l->b, l->a)));
  set(t, &m->left, to(t, m->left, dtype));
}

static void factor(plim_tape *t, const plim_expert_lora *l, int64_t experts, plim_dtype dtype,
                   plim_merge *m) {
  int64_t out = l->b->shape.at[0], in = l->a->shape.at[1];
  plim_tensor *right = NULL, *left = NULL;
  set(t, &right, reshape(t, l->a, dims(experts, -1, in)));
  set(t, &left, permute(t, reshape(t, l->b, dims(out, -1, experts)), dims(2, 0, 1)));
  set(t, &m->left, to(t, left, dtype));
  set(t, &m->right, to(t, right, dtype));
  drop(t, &left);
  drop(t, &right);
}

// Registering it computes it once, to look at its shape and dtype.
void plim_merge_begin(plim_tape *t, const plim_expert_lora *l, plim_tensor *weight, plim_merge *m) {
  plim_dtype dtype = (plim_dtype)weight->dtype;
  if (!l->a) return;
  if (is_stacked(weight)) factor(t, l, weight->shape.at[0], dtype, m);
  else multiply(t, l, dtype, m);
  plim_consume(t, merged(t, weight, m));
}

plim_tensor *plim_merge_weight(plim_tape *t, const plim_expert_lora *l, plim_tensor *weight,
                               plim_merge *m) {
  if (!l->a) return weight;
  set(t, &m->merged, merged(t, weight, m));
  return m->merged;
}

void plim_merge_end(plim_tape *t, plim_merge *m) {
  drop(t, &m->left);
  drop(t, &m->right);
}
