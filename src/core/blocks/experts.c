#include "experts.h"

#include <string.h>

#include "kernels.h"
#include "listed_experts.h"
#include "modules.h"
#include "moe.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

const char *const plim_former_experts[4] = {"mlp.gate", "mlp.experts.gate_proj",
                                            "mlp.experts.up_proj", "mlp.experts.down_proj"};

enum { FORMER_ROUTER, FORMER_GATE, FORMER_UP, FORMER_DOWN, FORMER_NAMES };

static void add_correction(plim_tape *t, plim_experts *e, plim_dtype d) {
  if (!e->kind->has_correction) return;
  plim_dtype declared = e->kind->has_wide_correction ? PLIM_FP32 : d;
  bool is_loaded = plim_tape_is_on_host(t) && !e->kind->corrects_last;
  set(t, &e->correction, empty(t, dims(e->c->experts), is_loaded ? PLIM_FP32 : declared));
  e->correction->declared = (uint8_t)declared;
}

static void add_router(plim_tape *t, plim_model *m, plim_experts *e, plim_dtype d) {
  e->router = plim_model_parameter(t, m, dims(e->c->experts, e->c->hidden), d);
  plim_model_name(m, e->kind->has_biases ? "mlp.router" : "mlp.gate", "weight");
  if (e->kind->has_biases) e->router_bias = plim_model_parameter(t, m, dims(e->c->experts), d);
  if (e->kind->has_biases) plim_model_name(m, "mlp.router", "bias");
  if (!e->kind->corrects_last) add_correction(t, e, d);
}

static void add_shared(plim_tape *t, plim_model *m, plim_experts *e, plim_dtype d) {
  int64_t h = e->c->hidden, width = e->c->shared_width;
  bool biased = e->c->has_mlp_bias;
  const char *const *paths = e->kind->shared;
  if (!width) return;
  if (paths[0]) e->shared_gate = plim_linear_new(t, m, paths[0], width, h, biased, d);
  e->shared_up = plim_linear_new(t, m, paths[1], width, h, biased, d);
  e->shared_down = plim_linear_new(t, m, paths[2], h, width, biased, d);
  if (e->kind->shared_share)
    e->shared_share = plim_linear_new(t, m, e->kind->shared_share, 1, h, false, d);
}

static void add_latent(plim_tape *t, plim_model *m, plim_experts *e, plim_dtype d) {
  int64_t h = e->c->hidden, latent = e->c->expert_input;
  bool biased = e->c->has_mlp_bias;
  e->latent_in = plim_linear_new(t, m, e->kind->latent[0], latent, h, biased, d);
  e->latent_out = plim_linear_new(t, m, e->kind->latent[1], h, latent, biased, d);
}

static void add_biased_experts(plim_tape *t, plim_model *m, plim_experts *e, plim_dtype d) {
  int64_t n = e->c->experts, h = e->c->hidden, i = e->c->expert_width;
  e->gate_up = plim_model_parameter(t, m, dims(n, h, 2 * i), d);
  plim_model_name(m, "mlp.experts.gate_up_proj", "");
  e->gate_up_bias = plim_model_parameter(t, m, dims(n, 2 * i), d);
  plim_model_name(m, "mlp.experts.gate_up_proj_bias", "");
  e->down = plim_model_parameter(t, m, dims(n, i, h), d);
  plim_model_name(m, "mlp.experts.down_proj", "");
  e->down_bias = plim_model_parameter(t, m, dims(n, h), d);
  plim_model_name(m, "mlp.experts.down_proj_bias", "");
  e->gate_up_bias->decay = e->down_bias->decay = PLIM_DECAY_NEVER;
}

static void add_experts(plim_tape *t, plim_model *m, plim_experts *e, plim_dtype d) {
  int64_t n = e->c->experts, i = e->c->expert_width, out = e->kind->has_no_gate ? i : 2 * i;
  int64_t h = e->c->expert_input ? e->c->expert_input : e->c->hidden;
  bool turned = e->kind->is_transposed;
  e->gate_up = plim_model_parameter(t, m, turned ? dims(n, h, out) : dims(n, out, h), d);
  plim_model_name(m, e->kind->has_no_gate ? "mlp.experts.up_proj" : "mlp.experts.gate_up_proj", "");
  e->down = plim_model_parameter(t, m, turned ? dims(n, i, h) : dims(n, h, i), d);
  plim_model_name(m, "mlp.experts.down_proj", "");
}

static plim_linear *linears_new(plim_tape *t, plim_model *m, const plim_experts *e,
                                const char *path, plim_dims shape, plim_dtype d) {
  plim_linear *all = plim_model_array(m, e->c->experts, sizeof *all);
  for (int64_t i = 0; all && i < e->c->experts; i++)
    all[i] = plim_linear_new(t, m, path, shape.at[0], shape.at[1], false, d);
  return all;
}

static void add_linear_experts(plim_tape *t, plim_model *m, plim_experts *e, plim_dtype d) {
  int64_t h = e->c->hidden, i = e->c->expert_width;
  e->gates = linears_new(t, m, e, "feed_forward.experts.gate_projs", dims(i, h), d);
  e->ups = linears_new(t, m, e, "feed_forward.experts.up_projs", dims(i, h), d);
  e->downs = linears_new(t, m, e, "feed_forward.experts.down_projs", dims(h, i), d);
}

plim_experts plim_experts_new(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype dtype) {
  plim_experts e = {.kind = c->family->mixture, .c = c};
  if (e.kind->is_block_sparse_moe && !plim_transformers_from(t, 5, 0)) {
    plim_listed_experts_new(t, m, &e, dtype);
    return e;
  }
  if (e.kind->builds_router_first) add_router(t, m, &e, dtype);
  if (e.kind->has_biases) add_biased_experts(t, m, &e, dtype);
  else if (c->has_linear_experts) add_linear_experts(t, m, &e, dtype);
  else add_experts(t, m, &e, dtype);
  if (!e.kind->builds_router_first) add_router(t, m, &e, dtype);
  if (e.kind->corrects_last) add_correction(t, &e, dtype);
  if (e.kind->shared[1]) add_shared(t, m, &e, dtype);
  if (e.kind->latent[0] && c->expert_input) add_latent(t, m, &e, dtype);
  for (int i = 0; e.kind->former && i < FORMER_NAMES; i++)
    plim_lora_allow_name(m, e.kind->former[i]);
  return e;
}

static void adapt(plim_tape *t, plim_model *m, plim_expert_lora *l, plim_tensor *weight,
                  const plim_tensor *last, int64_t rank) {
  *l = plim_expert_lora_new(t, m, weight, rank);
  l->a->behind = l->b->behind = last;
}

// Shared experts are linear layers with the names of the others.
static bool is_target(const plim_mixture *kind, const plim_lora *lora, int which) {
  if (lora->is_axolotls && plim_lora_is_everywhere(lora) && !kind->shared[1]) return false;
  return plim_lora_names(lora, strrchr(kind->former[which], '.') + 1);
}

bool plim_experts_are_targets(const plim_config *c, const plim_lora *lora) {
  const plim_mixture *kind = c->experts ? c->family->mixture : NULL;
  for (int i = 0; kind && kind->former && i < FORMER_NAMES; i++)
    if (is_target(kind, lora, i)) return true;
  return false;
}

void plim_experts_ranks(const plim_config *c, const plim_lora *lora, int64_t *gate_up,
                        int64_t *down) {
  const plim_mixture *kind = c->experts ? c->family->mixture : NULL;
  bool has_former = kind && kind->former;
  *gate_up = has_former && is_target(kind, lora, FORMER_GATE) ? 2 * lora->rank : 0;
  *down = has_former && is_target(kind, lora, FORMER_DOWN) ? lora->rank : 0;
}

bool plim_experts_split_target(const plim_config *c, const plim_lora *lora) {
  const plim_mixture *kind = c->experts ? c->family->mixture : NULL;
  return kind && kind->former &&
         is_target(kind, lora, FORMER_GATE) != is_target(kind, lora, FORMER_UP);
}

static void adapt_router(plim_tape *t, plim_model *m, plim_experts *e, const plim_lora *lora) {
  if (is_target(e->kind, lora, FORMER_ROUTER))
    adapt(t, m, &e->router_lora, e->router, e->router, lora->rank);
}

void plim_experts_add_lora(plim_tape *t, plim_model *m, plim_experts *e, const plim_lora *lora) {
  if (!e->kind || !e->kind->former || e->listed) return;
  if (e->kind->builds_router_first) adapt_router(t, m, e, lora);
  if (is_target(e->kind, lora, FORMER_GATE))
    adapt(t, m, &e->gate_up_lora, e->gate_up, e->down, 2 * lora->rank);
  if (is_target(e->kind, lora, FORMER_DOWN))
    adapt(t, m, &e->down_lora, e->down, e->down, lora->rank);
  if (!e->kind->builds_router_first) adapt_router(t, m, e, lora);
}

// ---- loading ----------------------------------------------------------------------------------------

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

bool plim_experts_assemble(plim_tape *t, plim_model *m, const plim_experts *e, plim_tensor *stack) {
  if (!e->kind || e->kind->is_stored_whole || (stack != e->gate_up && stack != e->down))
    return false;
  if (stack == e->gate_up && !e->kind->has_no_gate) {
    assemble_halves(t, m, stack);
    return true;
  }
  plim_tensors pieces = load_pieces(t, m, &stack->shape, (plim_dtype)stack->dtype);
  plim_retype(t, stack, (plim_dtype)stack->dtype);
  drop_pieces(t, &pieces);
  return true;
}

// In checkpoints, experts have gate_proj, up_proj and down_proj, or w1, w3 and w2.
void plim_experts_visit(const plim_experts *e, plim_visit *visit, void *context) {
  if (!e->kind) return;
  if (e->listed) {
    plim_listed_experts_visit(e, visit, context);
    return;
  }
  bool corrects_last = e->kind->corrects_last; // e_score_correction_bias comes before experts
  if (e->correction && corrects_last) visit(context, e->correction);
  const plim_linear *const linears[] = {e->downs, e->gates, e->ups};
  for (size_t kind = 0; kind < sizeof linears / sizeof *linears; kind++)
    for (int64_t i = 0; linears[kind] && i < e->c->experts; i++)
      plim_linear_visit(&linears[kind][i], visit, context);
  if (e->gate_up && e->kind->is_block_sparse_moe) visit(context, e->gate_up);
  if (e->down) visit(context, e->down);
  if (e->down_bias) visit(context, e->down_bias);
  if (e->gate_up && !e->kind->is_block_sparse_moe) visit(context, e->gate_up);
  if (e->gate_up_bias) visit(context, e->gate_up_bias);
  if (e->router_bias) visit(context, e->router_bias);
  if (e->correction && !corrects_last) visit(context, e->correction);
  visit(context, e->router);
  plim_linear_visit(&e->shared_down, visit, context);
  plim_linear_visit(&e->shared_gate, visit, context);
  plim_linear_visit(&e->shared_up, visit, context);
  plim_linear_visit(&e->shared_share, visit, context);
  plim_linear_visit(&e->latent_in, visit, context);
  plim_linear_visit(&e->latent_out, visit, context);
}

// ---- forward ----------------------------------------------------------------------------------------

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
  plim_consume(t, scratch(t, k_scan_bytes(t, experts, K_SCAN_TILE, PLIM_I32)));
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
  count_tokens(t, e->c->experts, g);
}

static void groups_drop(plim_tape *t, groups *g) {
  drop_all(t, &g->shares, &g->experts, &g->sorted, &g->order, &g->rows, &g->row_shares,
           &g->histogram_of, &g->counts, &g->offsets, &g->is_nobody);
}

static plim_tensor *gated(plim_tape *t, plim_activation activation, plim_tensor *both) {
  plim_tensor *gate = NULL, *up = NULL;
  split(t, both, &gate, &up);
  plim_tensor *out = mul(t, plim_activate(t, activation, gate), up);
  drop_all(t, &gate, &up);
  return out;
}

static void project(plim_tape *t, const groups *g, plim_tensor *weight, plim_tensor *bias,
                    plim_tensor *x, plim_tensor **out) {
  plim_tape_at(t, "experts");
  plim_tensor *product = grouped_mm(t, x, bias ? weight : transpose(t, weight, 1, 2), g->offsets);
  if (bias) add_in_place(t, product, bias);
  set(t, out, product);
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
  return sum_dim(t, parts, 1, false, plim_autocast_is_on(t) ? PLIM_FP32 : (plim_dtype)parts->dtype);
}

plim_tensor *plim_experts_run(plim_tape *t, const plim_experts *e, plim_tensor *x,
                              plim_tensor *shares, plim_tensor *experts) {
  plim_tape_at(t, "experts");
  groups g = {0};
  plim_merge up = {0}, down = {0};
  plim_merge_begin(t, &e->down_lora, e->down, &down);
  plim_merge_begin(t, &e->gate_up_lora, e->gate_up, &up);
  plim_tensor *bias = NULL, *out = NULL, *weighted = NULL, *inverse = NULL, *sum = NULL;
  plim_tensor *result = NULL;
  group(t, e, x, shares, experts, &g);
  plim_tensor *weight = plim_merge_weight(t, &e->gate_up_lora, e->gate_up, &up);
  if (e->gate_up_bias) set(t, &bias, index_rows(t, e->gate_up_bias, g.sorted));
  if (g.is_nobody) masked_fill_in_place(t, g.rows, g.is_nobody);
  project(t, &g, weight, bias, g.rows, &out);
  set(t, &out,
      e->kind->has_no_gate ? plim_activate(t, e->c->activation, out)
      : e->kind->gate      ? e->kind->gate(t, out)
                           : gated(t, e->c->activation, out));
  weight = plim_merge_weight(t, &e->down_lora, e->down, &down);
  if (e->down_bias) set(t, &bias, index_rows(t, e->down_bias, g.sorted));
  project(t, &g, weight, bias, out, &out);
  set(t, &sum, gather(t, &g, out, e->c->experts_per_token, &weighted, &inverse));
  set(t, &result, to(t, sum, (plim_dtype)x->dtype));
  groups_drop(t, &g);
  drop_all(t, &bias, &out, &weighted, &inverse, &sum);
  plim_merge_end(t, &up);
  drop_all(t, &up.merged, &down.merged);
  plim_merge_end(t, &down);
  return give(t, &result);
}

void plim_experts_route(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_merge_begin(t, &e->router_lora, e->router, &r->merge);
  plim_tape_at(t, "gate");
  e->kind->route(t, e, x, r);
  drop(t, &r->merge.merged);
  plim_merge_end(t, &r->merge);
}

plim_tensor *plim_experts_forward(plim_tape *t, const plim_experts *e, plim_tensor *x,
                                  plim_tensor **shares) {
  if (e->listed) return plim_listed_experts_forward(t, e, x);
  if (e->kind->forward) return e->kind->forward(t, e, x);
  int64_t batch = x->shape.at[0], length = x->shape.at[1], width = x->shape.at[2];
  plim_tensor *hidden = NULL;
  plim_routing r = {0};
  set(t, &hidden, view(t, x, dims(-1, width)));
  plim_experts_route(t, e, hidden, &r);
  set(t, &hidden, plim_experts_run(t, e, hidden, r.shares, r.chosen));
  set(t, &hidden, reshape(t, hidden, dims(batch, length, width)));
  plim_tensor *out = give(t, &hidden);
  if (shares) set(t, shares, r.shares);
  drop_all(t, &r.logits, &r.shares, &r.chosen);
  return out;
}

static plim_tensor *run_shared(plim_tape *t, const plim_experts *e, plim_tensor *x) {
  if (e->kind->has_no_gate) {
    plim_tensor *up = plim_linear_forward(t, &e->shared_up, x);
    return plim_linear_forward(t, &e->shared_down, plim_activate(t, e->c->activation, up));
  }
  return plim_gated_mlp(t, e->c->activation, &e->shared_gate, &e->shared_up, &e->shared_down, x);
}

plim_tensor *plim_experts_then_shared(plim_tape *t, const plim_experts *e, plim_tensor *x) {
  plim_tensor *hidden = NULL;
  plim_routing r = {0};
  bool was = hold(x);
  plim_experts_route(t, e, x, &r);
  set(t, &hidden, view(t, x, dims(-1, x->shape.at[2])));
  if (e->latent_in.weight) set(t, &hidden, plim_linear_forward(t, &e->latent_in, hidden));
  set(t, &hidden, plim_experts_run(t, e, hidden, r.shares, r.chosen));
  if (e->latent_out.weight) set(t, &hidden, plim_linear_forward(t, &e->latent_out, hidden));
  set(t, &hidden, view(t, hidden, x->shape));
  set(t, &hidden, add(t, hidden, run_shared(t, e, x)));
  let_go(t, x, was);
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &r.logits, &r.shares, &r.chosen);
  return out;
}

plim_tensor *plim_experts_gated_shared(plim_tape *t, const plim_experts *e, plim_tensor *x) {
  plim_dims shape = x->shape;
  plim_tensor *rows = NULL, *shared = NULL, *hidden = NULL;
  plim_routing r = {0};
  bool was = hold(x);
  set(t, &rows, view(t, x, dims(-1, shape.at[2])));
  set(t, &shared, run_shared(t, e, rows));
  plim_experts_route(t, e, rows, &r);
  set(t, &hidden, plim_experts_run(t, e, rows, r.shares, r.chosen));
  plim_tensor *share = sigmoid(t, plim_linear_forward(t, &e->shared_share, rows));
  set(t, &shared, mul(t, share, shared));
  set(t, &hidden, add(t, hidden, shared));
  set(t, &hidden, reshape(t, hidden, shape));
  let_go(t, x, was);
  drop_all(t, &rows, &shared, &r.logits, &r.shares, &r.chosen);
  return give(t, &hidden);
}
