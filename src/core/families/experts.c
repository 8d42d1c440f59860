#include "experts.h"

#include "kernels.h"
#include "modules.h"
#include "moe.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

plim_experts plim_experts_new(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype dtype) {
  int64_t n = c->experts, h = c->hidden, i = c->intermediate;
  plim_experts e = {.per_token = c->experts_per_token};
  e.router = plim_model_parameter(t, m, dims(n, h), dtype);
  e.gate_up = plim_model_parameter(t, m, dims(n, 2 * i, h), dtype);
  e.down = plim_model_parameter(t, m, dims(n, h, i), dtype);
  return e;
}

void plim_experts_add_lora(plim_tape *t, plim_model *m, plim_experts *e, int64_t rank) {
  e->router_lora = plim_expert_lora_new(t, m, e->router, rank);
  e->gate_up_lora = plim_expert_lora_new(t, m, e->gate_up, 2 * rank);
  e->down_lora = plim_expert_lora_new(t, m, e->down, rank);
  e->router_lora.a->behind = e->router_lora.b->behind = e->router;
  e->gate_up_lora.a->behind = e->gate_up_lora.b->behind = e->down;
  e->down_lora.a->behind = e->down_lora.b->behind = e->down;
}

static plim_tensors load_pieces(plim_tape *t, plim_model *m, const plim_dims *stack,
                                plim_dtype dtype) {
  plim_tensors pieces = {0};
  for (int64_t i = 0; i < stack->at[0]; i++)
    if (!vec_push(&pieces, empty(t, dims(stack->at[1], stack->at[2]), dtype))) m->failed = true;
  return pieces;
}

static void drop_pieces(plim_tape *t, plim_tensors *pieces) {
  while (pieces->len) plim_consume(t, pieces->at[--pieces->len]);
  vec_free(pieces);
}

static void assemble_halves(plim_tape *t, plim_model *m, plim_tensor *gate_up) {
  plim_dtype dtype = (plim_dtype)gate_up->dtype;
  plim_dims half = gate_up->shape;
  half.at[1] /= 2;
  plim_tensors gates = load_pieces(t, m, &half, dtype), ups = load_pieces(t, m, &half, dtype);
  plim_tensor *gate = empty(t, half, dtype), *up = NULL;
  drop_pieces(t, &gates);
  up = empty(t, half, dtype);
  drop_pieces(t, &ups);
  plim_retype(t, gate_up, dtype);
  plim_consume(t, gate);
  plim_consume(t, up);
}

void plim_experts_assemble(plim_tape *t, plim_model *m, plim_tensor *stack, bool has_halves) {
  if (has_halves) {
    assemble_halves(t, m, stack);
    return;
  }
  plim_tensors pieces = load_pieces(t, m, &stack->shape, (plim_dtype)stack->dtype);
  plim_retype(t, stack, (plim_dtype)stack->dtype);
  drop_pieces(t, &pieces);
}

// The experts of each token, how much each counts, and the scores that said so.
static void route(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_tensor **logits,
                  plim_tensor **shares, plim_tensor **experts) {
  plim_tensor *rows = NULL, *probabilities = NULL;
  plim_merge router = {0};
  plim_merge_begin(t, &e->router_lora, e->router, &router);
  set(t, &rows, reshape(t, x, dims(-1, x->shape.at[1])));
  plim_tape_at(t, "gate");
  set(t, logits, linear(t, rows, plim_merge_weight(t, &e->router_lora, e->router, &router), NULL));
  set(t, &probabilities, softmax(t, *logits, PLIM_FP32));
  topk(t, probabilities, e->per_token, shares, experts);
  div_in_place(t, *shares, sum_dim(t, *shares, 1, true, (plim_dtype)(*shares)->dtype));
  drop_all(t, &rows, &probabilities, &router.merged);
  plim_merge_end(t, &router);
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
  if (!plim_transformers_from(t, 5, 18)) // since then only if experts are shared between GPUs
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
  if (g->is_nobody) set(t, out, masked_fill(t, *out, g->is_nobody));
}

// Rows back in the order of tokens, and each token's summed up.
static plim_tensor *gather(plim_tape *t, const groups *g, plim_tensor *out, int64_t per_token,
                           plim_tensor **weighted, plim_tensor **inverse) {
  int64_t width = out->shape.at[1];
  set(t, weighted, mul(t, out, unsqueeze(t, g->row_shares, 1)));
  set(t, inverse, empty(t, g->order->shape, PLIM_I64));
  plim_consume(t, empty(t, g->order->shape, PLIM_I64)); // a range, written where order says
  set(t, weighted, index_rows(t, *weighted, *inverse));
  plim_tensor *parts = view(t, *weighted, dims(-1, per_token, width));
  return sum_dim(t, parts, 1, false, (plim_dtype)parts->dtype);
}

static plim_tensor *run_experts(plim_tape *t, const plim_experts *e, plim_tensor *x,
                                plim_tensor *shares, plim_tensor *experts) {
  plim_tape_at(t, "experts");
  groups g = {0};
  plim_merge up = {0}, down = {0};
  plim_merge_begin(t, &e->down_lora, e->down, &down);
  plim_merge_begin(t, &e->gate_up_lora, e->gate_up, &up);
  plim_tensor *out = NULL, *weighted = NULL, *inverse = NULL, *sum = NULL, *result = NULL;
  group(t, e, x, shares, experts, &g);
  plim_tensor *weight = plim_merge_weight(t, &e->gate_up_lora, e->gate_up, &up);
  if (g.is_nobody) masked_fill_in_place(t, g.rows, g.is_nobody);
  project(t, &g, weight, g.rows, &out);
  set(t, &out, gated(t, out));
  project(t, &g, plim_merge_weight(t, &e->down_lora, e->down, &down), out, &out);
  set(t, &sum, gather(t, &g, out, e->per_token, &weighted, &inverse));
  set(t, &result, to(t, sum, (plim_dtype)x->dtype));
  groups_drop(t, &g);
  drop_all(t, &out, &weighted, &inverse, &sum);
  plim_merge_end(t, &up);
  drop_all(t, &up.merged, &down.merged);
  plim_merge_end(t, &down);
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
