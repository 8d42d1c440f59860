// GPT-Neo: a table of positions, eager attention in float32, and a buffer in each layer that says which keys a query sees.
#include "families.h"
#include "kernels.h"
#include "layered.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum { K_PROJ, V_PROJ, Q_PROJ, OUT_PROJ, C_FC, C_PROJ }; // in the order they are built in
enum { NORM_1, NORM_2 };

// ---- construction ---------------------------------------------------------------------------------

// Which of all positions see which, (1,1,P,P). Every other layer has a window.
static plim_tensor *seen_new(plim_tape *t, const plim_config *c, int64_t layer) {
  plim_dims square = dims(1, 1, c->positions, c->positions);
  plim_tensor *ones = empty(t, square, PLIM_BOOL), *seen = empty(t, square, PLIM_BOOL);
  plim_consume(t, ones);
  if (layer % 2 == 0) return seen;
  plim_tensor *beyond = empty(t, square, PLIM_BOOL), *near = empty(t, square, PLIM_BOOL);
  consume_all(t, beyond, seen);
  return near;
}

static plim_linear square_new(plim_tape *t, plim_layered *m, const char *path, bool has_bias,
                              plim_dtype d) {
  return plim_linear_new(t, &m->model, path, m->c.hidden, m->c.hidden, has_bias, d);
}

static void add_layer(plim_tape *t, plim_layered *m, plim_layered_layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  l->norms[NORM_1] = plim_layered_norm(t, m, d);
  set(t, &l->buffer, seen_new(t, &m->c, l - m->layers));
  l->linears[K_PROJ] = square_new(t, m, "attn.attention.k_proj", false, d);
  l->linears[V_PROJ] = square_new(t, m, "attn.attention.v_proj", false, d);
  l->linears[Q_PROJ] = square_new(t, m, "attn.attention.q_proj", false, d);
  l->linears[OUT_PROJ] = square_new(t, m, "attn.attention.out_proj", true, d);
  l->norms[NORM_2] = plim_layered_norm(t, m, d);
  l->linears[C_FC] = plim_linear_new(t, &m->model, "mlp.c_fc", i, h, true, d);
  l->linears[C_PROJ] = plim_linear_new(t, &m->model, "mlp.c_proj", h, i, true, d);
  l->norm_paths[NORM_1] = "ln_1";
  l->norm_paths[NORM_2] = "ln_2";
}

// Every layer's buffer is computed again.
static void initialise(plim_tape *t, plim_model *model, plim_dtype dtype) {
  (void)dtype;
  const plim_layered *m = (const plim_layered *)model;
  for (int64_t i = 0; i < m->c.layers; i++) plim_consume(t, seen_new(t, &m->c, i));
}

// ---- forward --------------------------------------------------------------------------------------

enum { HELD_MASK };

// Queries and keys in float32, but for the last product.
static plim_tensor *attended(plim_tape *t, const plim_layered_layer *l, plim_tensor *const *qkv,
                             plim_tensor *mask, plim_tensor **weights) {
  int64_t length = qkv[0]->shape.at[2];
  plim_tensor *query = NULL, *key = NULL, *seen = NULL, *lowest = NULL;
  plim_tape_at(t, "attention");
  set(t, &query, to(t, qkv[0], PLIM_FP32));
  set(t, &key, to(t, qkv[1], PLIM_FP32));
  set(t, weights, matmul(t, query, transpose(t, key, 2, 3)));
  set(t, &seen, slice(t, slice(t, l->buffer, 2, 0, length), 3, 0, length));
  set(t, &lowest, empty(t, (plim_dims){0}, (plim_dtype)(*weights)->dtype));
  set(t, weights, where_else(t, seen, *weights, lowest));
  if (mask) set(t, weights, add(t, *weights, mask));
  set(t, weights, plim_softmax_own(t, *weights));
  set(t, weights, to(t, *weights, (plim_dtype)qkv[2]->dtype));
  set(t, weights, dropout(t, *weights, l->m->c.attention_dropout));
  plim_tensor *out = matmul(t, *weights, qkv[2]);
  drop_all(t, &query, &key, &seen, &lowest);
  return out;
}

static plim_tensor *self_attention(plim_tape *t, const plim_layered_layer *l, plim_tensor *x,
                                   plim_tensor *mask, plim_tensor **weights) {
  static const int projections[] = {Q_PROJ, K_PROJ, V_PROJ};
  const plim_config *c = &l->m->c;
  plim_tensor *qkv[3] = {NULL}, *out = NULL;
  for (int i = 0; i < 3; i++)
    set(t, &qkv[i], plim_linear_forward(t, &l->linears[projections[i]], x));
  for (int i = 0; i < 3; i++) set(t, &qkv[i], plim_split_heads(t, qkv[i], c->head_dim, NULL));
  set(t, &out, attended(t, l, qkv, mask, weights));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  set(t, &out, view(t, out, x->shape));
  set(t, &out, plim_linear_forward(t, &l->linears[OUT_PROJ], out));
  set(t, &out, dropout(t, out, c->dropout));
  drop_all(t, &qkv[0], &qkv[1], &qkv[2]);
  return give(t, &out);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_layered_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *paid = NULL, *weights = NULL, *fed = NULL;
  set(t, &hidden, plim_norm_forward(t, &l->norms[NORM_1], x));
  set(t, &paid, self_attention(t, l, hidden, held[HELD_MASK], &weights));
  set(t, &hidden, add(t, paid, x));
  set(t, &residual, hidden);
  set(t, &hidden, plim_norm_forward(t, &l->norms[NORM_2], hidden));
  set(t, &fed, plim_layered_mlp(t, l, C_FC, C_PROJ, hidden));
  set(t, &hidden, add(t, residual, fed));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &paid, &fed);
  set(t, &l->m->results[0], give(t, &weights));
  return out;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_layered *m = (plim_layered *)model;
  plim_tensor *embedded = NULL, *positions = NULL, *mask = NULL, *placed = NULL, *hidden = NULL;
  plim_tensor *weights = NULL, *last = NULL;
  set(t, &embedded, plim_embed(t, batch, m->words, batch->ids));
  set(t, &positions, plim_position_ids(t, batch->ids->shape.at[1]));
  set(t, &mask,
      plim_causal_mask(t, PLIM_ATTENTION_EAGER, batch->mask_kind, embedded, positions,
                       batch->mask));
  set(t, &placed, plim_look_up(t, m->positions, positions));
  set(t, &hidden, add(t, embedded, placed));
  set(t, &hidden, dropout(t, hidden, m->c.embedding_dropout));
  plim_closure call = {run_layer, NULL, {mask}};
  plim_layered_run(t, m, batch, call, &hidden, &weights);
  set(t, &last, hidden);
  set(t, &hidden, plim_layered_last_norm(t, m, hidden));
  set(t, &hidden, view(t, hidden, hidden->shape));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &positions, &embedded, &mask, &placed, &weights, &last);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *gpt_neo_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_layered_code code = {.layers = "transformer.h",
                                         .add_layer = add_layer,
                                         .initialise = initialise,
                                         .forward = model_forward,
                                         .has_positions = true};
  return plim_layered_new(t, c, dtype, &code);
}

const plim_family plim_family_gpt_neo = {
    .model_type = "gpt_neo",
    .has_no_padding_row = true,
    .build = gpt_neo_new,
    .defaults = {.hidden = 2048,
                 .layers = 24,
                 .heads = 16,
                 .vocabulary = 50257,
                 .positions = 2048,
                 .activation = PLIM_ACT_NEW_GELU,
                 .ties_embeddings = true},
    .has_any_activation = true,
    .divides_width = true,
    .has_position_table = true,
    .lacks_sdpa = true,
    .lacks_flash = true,
    .lists_attention = true,
    .lora_targets = "q_proj,v_proj",
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_BREAKS,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
