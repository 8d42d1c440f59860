// StarCoder and SantaCoder: GPT-2's layers with one head of keys and values for all queries.
#include "families.h"
#include "layered.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum { C_ATTN, ATTN_PROJ, C_FC, MLP_PROJ }; // linear layers
enum { LN_1, LN_2 };

// ---- construction ---------------------------------------------------------------------------------

static void add_layer(plim_tape *t, plim_layered *m, plim_layered_layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate, width = h + 2 * m->c.head_dim;
  l->norms[LN_1] = plim_layered_norm(t, m, d);
  l->linears[C_ATTN] = plim_linear_new(t, &m->model, "attn.c_attn", width, h, true, d);
  l->linears[ATTN_PROJ] = plim_linear_new(t, &m->model, "attn.c_proj", h, h, true, d);
  l->norms[LN_2] = plim_layered_norm(t, m, d);
  l->linears[C_FC] = plim_linear_new(t, &m->model, "mlp.c_fc", i, h, true, d);
  l->linears[MLP_PROJ] = plim_linear_new(t, &m->model, "mlp.c_proj", h, i, true, d);
  l->norm_paths[LN_1] = "ln_1";
  l->norm_paths[LN_2] = "ln_2";
}

// tril(ones((positions, positions))), which nothing uses
static plim_tensor *triangle_new(plim_tape *t, const plim_config *c) {
  plim_dims square = dims(c->positions, c->positions);
  plim_tensor *ones = empty(t, square, PLIM_BOOL), *lower = empty(t, square, PLIM_BOOL);
  plim_consume(t, ones);
  return lower;
}

// Made again when the weights are initialised.
static void add_buffers(plim_tape *t, plim_layered *m) {
  set(t, &m->buffer, triangle_new(t, &m->c));
  plim_consume(t, triangle_new(t, &m->c));
}

// ---- forward --------------------------------------------------------------------------------------

enum { HELD_MASK };

static plim_tensor *self_attention(plim_tape *t, const plim_layered_layer *l, plim_tensor *x,
                                   plim_tensor *mask, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_attending how = {.kind = l->m->attention, .dropout_p = c->attention_dropout};
  int64_t sizes[] = {c->hidden, c->head_dim, c->head_dim};
  int64_t b = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  bool was = hold(x);
  plim_tensor *fused = unsqueeze(t, plim_linear_forward(t, &l->linears[C_ATTN], x), 1);
  split_sizes(t, fused, 3, sizes, &q, &k, &v);
  set(t, &q, transpose(t, view(t, q, dims(b, length, c->heads, c->head_dim)), 1, 2));
  set(t, &out, plim_attend(t, &how, q, k, v, mask, weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &l->linears[ATTN_PROJ], out));
  set(t, &out, dropout(t, out, c->dropout));
  drop_all(t, &q, &k, &v);
  plim_tensor *result = give(t, &out);
  let_go(t, x, was);
  return result;
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_layered_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *paid = NULL, *fed = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_norm_forward(t, &l->norms[LN_1], x));
  set(t, &paid, self_attention(t, l, hidden, held[HELD_MASK], &weights));
  set(t, &hidden, add(t, paid, residual));
  set(t, &residual, hidden);
  set(t, &hidden, plim_norm_forward(t, &l->norms[LN_2], hidden));
  set(t, &fed, plim_layered_mlp(t, l, C_FC, MLP_PROJ, hidden));
  set(t, &hidden, add(t, residual, fed));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &paid, &weights, &fed);
  return out;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_layered *m = (plim_layered *)model;
  plim_tensor *embedded = NULL, *positions = NULL, *mask = NULL, *placed = NULL, *hidden = NULL;
  plim_tensor *weights = NULL;
  m->attention = batch->attention;
  set(t, &embedded, plim_embed(t, batch, m->words, batch->ids));
  set(t, &positions, plim_position_ids(t, batch->ids->shape.at[1]));
  set(t, &mask,
      plim_causal_mask(t, batch->attention, batch->mask_kind, embedded, positions, batch->mask));
  set(t, &placed, plim_look_up(t, m->positions, positions));
  set(t, &hidden, add(t, embedded, placed));
  set(t, &hidden, dropout(t, hidden, m->c.embedding_dropout));
  plim_closure call = {run_layer, NULL, {mask}};
  plim_layered_run(t, m, batch, call, &hidden, &weights);
  set(t, &hidden, plim_layered_last_norm(t, m, hidden));
  set(t, &hidden, view(t, hidden, hidden->shape));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &positions, &embedded, &mask, &placed, &weights);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *gpt_bigcode_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_layered_code code = {.layers = "transformer.h",
                                         .add_layer = add_layer,
                                         .add_buffers = add_buffers,
                                         .forward = model_forward,
                                         .has_positions = true};
  return plim_layered_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->has_one_key_head ? NULL : "a key head for each query head (multi_query: false)";
}

const plim_family plim_family_gpt_bigcode = {
    .model_type = "gpt_bigcode",
    .has_no_padding_row = true,
    .build = gpt_bigcode_new,
    .defaults = {.hidden = 768,
                 .layers = 12,
                 .heads = 12,
                 .vocabulary = 50257,
                 .positions = 1024,
                 .activation = PLIM_ACT_GELU,
                 .dropout = 0.1,
                 .attention_dropout = 0.1,
                 .embedding_dropout = 0.1,
                 .has_one_key_head = true,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .has_any_activation = true,
    .divides_width = true,
    .has_position_table = true,
    .lora_targets = "c_attn",
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_BREAKS,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
