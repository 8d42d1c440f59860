#include "mixtral.h"

#include "kernels.h"
#include "modules.h"
#include "moe.h"
#include "ops.h"

plim_experts plim_experts_new(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype dtype) {
  int64_t n = c->experts, h = c->hidden, i = c->intermediate;
  plim_experts e = {.per_token = c->experts_per_token};
  e.router = plim_model_parameter(t, m, dims(n, h), dtype);
  e.gate_up = plim_model_parameter(t, m, dims(n, 2 * i, h), dtype);
  e.down = plim_model_parameter(t, m, dims(n, h, i), dtype);
  return e;
}

// The experts of each token, how much each counts, and the scores that said so.
static void route(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_tensor **logits,
                  plim_tensor **shares, plim_tensor **experts) {
  plim_tensor *rows = NULL, *probabilities = NULL;
  set(t, &rows, reshape(t, x, dims(-1, x->shape.at[1])));
  plim_tape_at(t, "gate");
  set(t, logits, linear(t, rows, e->router, NULL));
  set(t, &probabilities, softmax(t, *logits, PLIM_FP32));
  topk(t, probabilities, e->per_token, shares, experts);
  div_in_place(t, *shares, sum_dim(t, *shares, 1, true));
  drop_all(t, &rows, &probabilities);
}

// Tokens sorted by expert.
typedef struct {
  plim_tensor *shares, *experts;      // of tokens in their order
  plim_tensor *sorted, *order;        // experts sorted, and where each was
  plim_tensor *rows, *row_shares;     // of tokens in the order of their experts
  plim_tensor *histogram_of, *counts; // how many tokens each expert has
  plim_tensor *offsets, *is_nobody;   // is_nobody: rows of experts that live elsewhere
} groups;

static void count_tokens(plim_tape *t, int64_t experts, groups *g) {
  set(t, &g->histogram_of, k_to(t, g->sorted, PLIM_I32));
  set(t, &g->counts, empty(t, dims(experts), PLIM_I32));
  set(t, &g->offsets, empty(t, dims(experts), PLIM_I32));
  plim_consume(t, scratch(t, k_scan_bytes(experts, K_SCAN_TILE, PLIM_I32)));
  set(t, &g->is_nobody, unsqueeze(t, empty(t, g->sorted->shape, PLIM_BOOL), 1));
}

static void group(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_tensor *shares,
                  plim_tensor *experts, groups *g) {
  set(t, &g->shares, reshape(t, shares, dims(-1)));
  set(t, &g->experts, reshape(t, experts, dims(-1)));
  sort_indices(t, g->experts, &g->sorted, &g->order);
  set(t, &g->rows, index_rows(t, x, k_unary(t, g->order))); // order // per_token
  set(t, &g->row_shares, index_rows(t, g->shares, g->order));
  count_tokens(t, e->router->shape.at[0], g);
  masked_fill_in_place(t, g->rows, g->is_nobody);
}

static void groups_drop(plim_tape *t, groups *g) {
  drop_all(t, &g->shares, &g->experts, &g->sorted, &g->order, &g->rows, &g->row_shares,
           &g->histogram_of, &g->counts, &g->offsets, &g->is_nobody);
}

static plim_tensor *gated(plim_tape *t, plim_tensor *both) {
  plim_tensor *gate = NULL, *up = NULL;
  split(t, both, &gate, &up);
  plim_tensor *out = mul(t, silu(t, gate), up);
  drop_all(t, &gate, &up);
  return out;
}

static void project(plim_tape *t, const groups *g, plim_tensor *weight, plim_tensor *x,
                    plim_tensor **out) {
  plim_tape_at(t, "experts");
  set(t, out, grouped_mm(t, x, transpose(t, weight, 1, 2), g->offsets));
  set(t, out, masked_fill(t, *out, g->is_nobody));
}

// Rows back in the order of tokens, and each token's summed up.
static plim_tensor *gather(plim_tape *t, const groups *g, plim_tensor *out, int64_t per_token,
                           plim_tensor **weighted, plim_tensor **inverse) {
  int64_t width = out->shape.at[1];
  set(t, weighted, mul(t, out, unsqueeze(t, g->row_shares, 1)));
  set(t, inverse, empty(t, g->order->shape, PLIM_I64));
  plim_consume(t, empty(t, g->order->shape, PLIM_I64)); // a range, written where order says
  set(t, weighted, index_rows(t, *weighted, *inverse));
  return sum_dim(t, view(t, *weighted, dims(-1, per_token, width)), 1, false);
}

static plim_tensor *run_experts(plim_tape *t, const plim_experts *e, plim_tensor *x,
                                plim_tensor *shares, plim_tensor *experts) {
  plim_tape_at(t, "experts");
  groups g = {0};
  plim_tensor *out = NULL, *weighted = NULL, *inverse = NULL, *sum = NULL, *result = NULL;
  group(t, e, x, shares, experts, &g);
  project(t, &g, e->gate_up, g.rows, &out);
  set(t, &out, gated(t, out));
  project(t, &g, e->down, out, &out);
  set(t, &sum, gather(t, &g, out, e->per_token, &weighted, &inverse));
  set(t, &result, to(t, sum, (plim_dtype)x->dtype));
  groups_drop(t, &g);
  drop_all(t, &out, &weighted, &inverse, &sum);
  return give(t, &result);
}

plim_tensor *plim_experts_forward(plim_tape *t, const plim_experts *e, plim_tensor *x) {
  int64_t batch = x->shape.at[0], length = x->shape.at[1], width = x->shape.at[2];
  plim_tensor *hidden = NULL, *logits = NULL, *shares = NULL, *experts = NULL;
  set(t, &hidden, view(t, x, dims(-1, width)));
  route(t, e, hidden, &logits, &shares, &experts);
  set(t, &hidden, run_experts(t, e, hidden, shares, experts));
  set(t, &hidden, reshape(t, hidden, dims(batch, length, width)));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &logits, &shares, &experts);
  return out;
}
