// Experts as a list of modules, which Mixtral had before transformers 5.0: each has three linear layers and computes the
// rows that the router gives it.
#include "listed_experts.h"
#include "kernels.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum { W1, W2, W3, MATRICES };

static plim_linear *expert_at(const plim_experts *e, int64_t i) {
  return e->listed + 1 + MATRICES * i; // behind the router
}

void plim_listed_experts_new(plim_tape *t, plim_model *m, plim_experts *e, plim_dtype dtype) {
  int64_t count = e->c->experts, h = e->c->hidden, i = e->c->intermediate;
  e->listed = plim_model_array(m, 1 + MATRICES * count, sizeof *e->listed);
  if (!e->listed) return;
  e->listed[0] = plim_linear_new(t, m, "block_sparse_moe.gate", count, h, false, dtype);
  for (int64_t k = 0; k < count; k++) {
    plim_linear *expert = expert_at(e, k);
    expert[W1] = plim_linear_new(t, m, "block_sparse_moe.experts.w1", i, h, false, dtype);
    expert[W2] = plim_linear_new(t, m, "block_sparse_moe.experts.w2", h, i, false, dtype);
    expert[W3] = plim_linear_new(t, m, "block_sparse_moe.experts.w3", i, h, false, dtype);
  }
}

void plim_listed_experts_visit(const plim_experts *e, plim_visit *visit, void *context) {
  for (int64_t k = 0; k < MATRICES * e->c->experts; k++)
    plim_linear_visit(&e->listed[1 + k], visit, context);
  plim_linear_visit(&e->listed[0], visit, context);
}

void plim_listed_experts_add_lora(plim_tape *t, plim_model *m, const plim_lora *lora,
                                  const plim_experts *e, const char *place, int64_t layer) {
  for (int64_t k = 0; k < 1 + MATRICES * e->c->experts; k++)
    plim_lora_add_all(t, m, lora, place, layer, &e->listed[k]);
}

// ---- forward ----------------------------------------------------------------------------------------

// Variables of the block's forward.
typedef struct {
  plim_tensor *logits, *shares, *chosen, *sum, *mask, *hit;
} block;

static void choose(plim_tape *t, const plim_experts *e, plim_tensor *x, block *b) {
  set(t, &b->logits, plim_linear_forward(t, &e->listed[0], x));
  plim_tensor *all = NULL;
  set(t, &all, softmax(t, b->logits, PLIM_FP32));
  topk(t, all, e->c->experts_per_token, &b->shares, &b->chosen);
  drop(t, &all);
  div_in_place(t, b->shares, sum_dim(t, b->shares, 1, true, PLIM_FP32));
  set(t, &b->shares, to(t, b->shares, (plim_dtype)x->dtype));
}

// Which experts have any rows, since 4.52.
static void find_hit(plim_tape *t, int64_t experts, block *b) {
  if (!plim_transformers_from(t, 4, 52)) return;
  plim_tensor *sums = empty(t, dims(experts), PLIM_I64),
              *is_hit = empty(t, dims(experts), PLIM_BOOL);
  plim_consume(t, sums);
  set(t, &b->hit, k_nonzero(t, experts, 1, experts));
  plim_consume(t, is_hit);
}

// torch.where(mask[expert]): two columns of a matrix, of which the second are the rows.
static plim_tensor *rows_of(plim_tape *t, int64_t tokens, int64_t per_token, int64_t found) {
  plim_dims shape = dims(per_token, tokens);
  bool is_copied = plim_transformers_from(t, 4, 52); // indexed by a tensor
  plim_tensor *own = is_copied ? empty(t, shape, PLIM_I64) : NULL;
  plim_tensor *dense = empty(t, shape, PLIM_I64);
  plim_tensor *both = k_nonzero(t, per_token * tokens, 1, 2 * found);
  plim_consume(t, dense);
  plim_consume(t, own);
  return both;
}

static plim_tensor *run_expert(plim_tape *t, const plim_linear *expert, plim_tensor *x) {
  plim_tensor *gate = silu(t, plim_linear_forward(t, &expert[W1], x));
  plim_tensor *product = mul(t, gate, plim_linear_forward(t, &expert[W3], x));
  return plim_linear_forward(t, &expert[W2], product);
}

// How many rows an expert gets depends on the data, so this is an assumption. Equally many would let the allocator fit one
// expert's tensors exactly into what another left, which never happens: the counts are spread around the mean by up to a fifth,
// in another order in each layer. A fifth was chosen with one measured run, of tests/truth/simulate/versions.json: its allocated
// memory is predicted within 0.4 % with 10 to 40 %; what the allocator reserves depends more on the data.
static int64_t rows_given(const plim_tape *t, const plim_experts *e, int64_t k, int64_t total) {
  int64_t count = e->c->experts, mean = total / count, layer = plim_const_state(t)->next_layer;
  if (count < 2) return total;
  int64_t place = (3 * k + 5 * layer) % count; // 3 and 5 share no factor with usual counts
  return mean + mean * (2 * place - (count - 1)) / (5 * (count - 1));
}

static void add_expert(plim_tape *t, const plim_experts *e, int64_t k, plim_tensor *x,
                       plim_tensor **found, plim_tensor **state, plim_tensor **result, block *b) {
  int64_t tokens = x->shape.at[0], total = tokens * e->c->experts_per_token;
  int64_t count = rows_given(t, e, k, total);
  set(t, found, rows_of(t, tokens, e->c->experts_per_token, count));
  plim_tensor *rows = NULL;
  set(t, &rows, slice_rows(t, *found, 0, count));
  set(t, state, index_rows(t, x, rows));
  plim_tensor *out = run_expert(t, expert_at(e, k), *state);
  plim_tensor *share = index_pairs(t, b->shares, rows, rows);
  set(t, result, mul(t, out, unsqueeze(t, share, 1)));
  index_add_in_place(t, b->sum, rows, to(t, *result, (plim_dtype)x->dtype));
  drop(t, &rows);
}

plim_tensor *plim_listed_experts_forward(plim_tape *t, const plim_experts *e, plim_tensor *x) {
  int64_t batch = x->shape.at[0], length = x->shape.at[1], width = x->shape.at[2];
  plim_tensor *hidden = NULL, *found = NULL, *state = NULL, *result = NULL;
  block b = {0};
  set(t, &hidden, view(t, x, dims(-1, width)));
  int64_t tokens = hidden->shape.at[0];
  choose(t, e, hidden, &b);
  set(t, &b.sum, empty(t, hidden->shape, (plim_dtype)hidden->dtype));
  set(t, &b.mask, empty(t, dims(tokens, e->c->experts_per_token, e->c->experts), PLIM_I64));
  find_hit(t, e->c->experts, &b);
  plim_tape_at(t, "experts");
  for (int64_t k = 0; k < e->c->experts; k++)
    add_expert(t, e, k, hidden, &found, &state, &result, &b);
  plim_tensor *out = reshape(t, b.sum, dims(batch, length, width));
  drop_all(t, &hidden, &b.shares, &b.chosen, &b.sum, &b.mask, &b.hit, &found, &state, &result,
           &b.logits); // the logits are a second result
  return out;
}
