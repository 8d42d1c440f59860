// Routers: which experts see a token, and how much each of them counts.
#include "experts.h"
#include "kernels.h"
#include "moe.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

plim_tensor *plim_router_weight(plim_tape *t, const plim_experts *e, plim_routing *r) {
  return plim_merge_weight(t, &e->router_lora, e->router, &r->merge);
}

static void score(plim_tape *t, const plim_experts *e, plim_tensor *x, bool adds_up,
                  plim_routing *r, plim_tensor **probabilities) {
  plim_tensor *rows = NULL;
  set(t, &rows, reshape(t, x, dims(-1, x->shape.at[1])));
  set(t, &r->logits, linear(t, rows, plim_router_weight(t, e, r), NULL));
  set(t, probabilities, softmax(t, r->logits, PLIM_FP32));
  topk(t, *probabilities, e->c->experts_per_token, &r->shares, &r->chosen);
  if (adds_up) div_in_place(t, r->shares, sum_dim(t, r->shares, 1, true, PLIM_FP32));
  drop(t, &rows);
}

void plim_route_mixtral(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_tensor *probabilities = NULL;
  score(t, e, x, true, r, &probabilities);
  drop(t, &probabilities);
}

void plim_route_softmax(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_tensor *probabilities = NULL;
  score(t, e, x, e->c->normalises_shares, r, &probabilities);
  set(t, &r->shares, to(t, r->shares, (plim_dtype)r->logits->dtype));
  drop(t, &probabilities);
}

void plim_route_best(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_tensor *best = NULL;
  set(t, &r->logits, linear(t, x, plim_router_weight(t, e, r), e->router_bias));
  topk(t, r->logits, e->c->experts_per_token, &best, &r->chosen);
  set(t, &r->shares, softmax(t, best, (plim_dtype)best->dtype));
  drop(t, &best);
}

// Variables of a router that limits a token's experts to the best groups.
typedef struct {
  plim_tensor *scores, *best, *mask, *spread;
} grouping;

// The two best experts of a group count for it, added up.
static plim_tensor *add_best_pair(plim_tape *t, plim_tensor *grouped) {
  plim_tensor *values = NULL, *where = NULL;
  plim_dtype dtype = plim_autocast_is_on(t) ? PLIM_FP32 : (plim_dtype)grouped->dtype;
  topk(t, grouped, 2, &values, &where);
  drop(t, &where);
  return sum_dim(t, give(t, &values), 2, false, dtype);
}

// The best expert of a group counts for it.
static plim_tensor *take_best(plim_tape *t, plim_tensor *grouped) {
  plim_tensor *best = max_last(t, grouped);
  return view(t, best, dims(best->shape.at[0], best->shape.at[1]));
}

// Scores of the experts outside the best groups become minus infinity, or zero.
static void keep_best_groups(plim_tape *t, const plim_experts *e, bool adds_pair,
                             plim_tensor **scores, grouping *g) {
  int64_t groups = e->c->expert_groups, each = e->c->experts / groups;
  plim_tensor *values = NULL, *grouped = view(t, *scores, dims(-1, groups, each));
  set(t, &g->scores, adds_pair ? add_best_pair(t, grouped) : take_best(t, grouped));
  topk(t, g->scores, e->c->chosen_groups, &values, &g->best);
  drop(t, &values);
  set(t, &g->mask, empty(t, g->scores->shape, (plim_dtype)g->scores->dtype));
  plim_tensor *each_group = expand(t, unsqueeze(t, g->mask, 2), dims(-1, groups, each));
  set(t, &g->spread, reshape(t, each_group, dims(-1, e->c->experts)));
  plim_tensor *is_in = k_to(t, g->spread, PLIM_BOOL), *is_out = k_unary(t, is_in);
  plim_consume(t, is_in);
  plim_tensor *filled = masked_fill(t, *scores, is_out);
  plim_consume(t, is_out);
  set(t, scores, filled);
}

static void drop_grouping(plim_tape *t, grouping *g) {
  drop_all(t, &g->scores, &g->best, &g->mask, &g->spread);
}

// The logits, computed in float32 unless autocast has another opinion.
static void score_widely(plim_tape *t, const plim_experts *e, plim_tensor *rows, plim_routing *r) {
  plim_tensor *wide = NULL, *weight = NULL;
  set(t, &wide, to(t, rows, PLIM_FP32));
  set(t, &weight, to(t, plim_router_weight(t, e, r), PLIM_FP32));
  set(t, &r->logits, linear(t, wide, weight, NULL));
  drop_all(t, &wide, &weight);
}

void plim_route_groups(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_tensor *rows = NULL, *scores = NULL, *corrected = NULL, *values = NULL, *sum = NULL;
  grouping g = {0};
  set(t, &rows, view(t, x, dims(-1, x->shape.at[x->shape.n - 1])));
  score_widely(t, e, rows, r);
  set(t, &scores, sigmoid(t, r->logits));
  set(t, &corrected, add(t, scores, e->correction));
  keep_best_groups(t, e, true, &corrected, &g);
  topk(t, corrected, e->c->experts_per_token, &values, &r->chosen);
  drop(t, &values);
  set(t, &r->shares, gather_rows(t, scores, r->chosen));
  if (e->c->normalises_shares) {
    set(t, &sum, add_scalar(t, sum_dim(t, r->shares, 1, true, PLIM_FP32)));
    div_in_place(t, r->shares, sum);
  }
  set(t, &r->shares, mul_scalar(t, r->shares));
  drop_all(t, &rows, &scores, &corrected);
  drop_grouping(t, &g);
  drop(t, &sum);
}

void plim_route_softmax_groups(plim_tape *t, const plim_experts *e, plim_tensor *x,
                               plim_routing *r) {
  plim_tensor *rows = NULL, *scores = NULL, *kept = NULL, *values = NULL, *sum = NULL;
  grouping g = {0};
  set(t, &rows, view(t, x, dims(-1, x->shape.at[x->shape.n - 1])));
  set(t, &r->logits, linear(t, rows, plim_router_weight(t, e, r), NULL));
  plim_dtype dtype = plim_autocast_is_on(t) ? PLIM_FP32 : (plim_dtype)r->logits->dtype;
  set(t, &scores, softmax(t, r->logits, dtype));
  set(t, &kept, scores);
  keep_best_groups(t, e, true, &kept, &g);
  topk(t, kept, e->c->experts_per_token, &values, &r->chosen);
  drop(t, &values);
  set(t, &r->shares, gather_rows(t, scores, r->chosen));
  if (e->c->normalises_shares) {
    set(t, &sum, add_scalar(t, sum_dim(t, r->shares, 1, true, dtype)));
    div_in_place(t, r->shares, sum);
  }
  set(t, &r->shares, mul_scalar(t, r->shares));
  drop_all(t, &rows, &scores);
  drop_grouping(t, &g);
  drop_all(t, &kept, &sum);
}

void plim_route_sigmoid(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_tensor *rows = NULL, *scores = NULL, *corrected = NULL, *values = NULL;
  set(t, &rows, view(t, x, dims(-1, x->shape.at[x->shape.n - 1])));
  plim_tensor *weight = plim_router_weight(t, e, r);
  set(t, &r->logits, linear(t, to(t, rows, (plim_dtype)weight->dtype), weight, NULL));
  set(t, &scores, sigmoid(t, to(t, r->logits, PLIM_FP32)));
  set(t, &corrected, add(t, scores, e->correction));
  topk(t, corrected, e->c->experts_per_token, &values, &r->chosen);
  set(t, &r->shares, gather_rows(t, scores, r->chosen));
  div_in_place(t, r->shares, sum_dim(t, r->shares, 1, true, PLIM_FP32));
  drop_all(t, &rows, &scores, &corrected, &values);
}

void plim_route_deepseek_v2(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_tensor *rows = NULL, *scores = NULL;
  grouping g = {0};
  set(t, &rows, view(t, x, dims(-1, x->shape.at[x->shape.n - 1])));
  score_widely(t, e, rows, r);
  set(t, &scores, softmax(t, r->logits, PLIM_FP32));
  if (e->c->limits_groups) keep_best_groups(t, e, false, &scores, &g);
  topk(t, scores, e->c->experts_per_token, &r->shares, &r->chosen);
  set(t, &r->shares, mul_scalar(t, r->shares));
  drop_all(t, &rows, &scores);
  drop_grouping(t, &g);
}

void plim_route_best_widely(plim_tape *t, const plim_experts *e, plim_tensor *x, plim_routing *r) {
  plim_tensor *best = NULL;
  plim_tensor *logits = linear(t, x, plim_router_weight(t, e, r), NULL);
  set(t, &r->logits, to(t, logits, PLIM_FP32));
  topk(t, r->logits, e->c->experts_per_token, &best, &r->chosen);
  set(t, &r->shares, to(t, softmax(t, best, PLIM_FP32), (plim_dtype)x->dtype));
  drop(t, &best);
}
