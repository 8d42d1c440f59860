// GPT-J: attention and MLP side by side, neighbours of a part of each head rotated by a table of each layer, eager attention.
#include "families.h"
#include "kernels.h"
#include "layered.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum {
  K_PROJ,
  V_PROJ,
  Q_PROJ,
  OUT_PROJ,
  FC_IN,
  FC_OUT
}; // linear layers, in the order they are built in

// ---- construction ---------------------------------------------------------------------------------

// create_sinusoidal_positions: sin and cos of all positions, (P,R). The frequencies have torch's default dtype.
static plim_tensor *angles_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  int64_t pairs = c->rotary_width / 2;
  plim_tensor *table = NULL, *angles = NULL;
  plim_tensor *numbers = empty(t, dims(pairs), PLIM_I64), *share = empty(t, dims(pairs), dtype);
  plim_consume(t, numbers);
  plim_tensor *power = empty(t, dims(pairs), dtype);
  plim_consume(t, scratch(t, 8));
  plim_consume(t, share);
  plim_tensor *inverse = empty(t, dims(pairs), dtype);
  plim_tensor *frequencies = empty(t, dims(pairs), dtype);
  consume_all(t, inverse, power);
  plim_tensor *positions = empty(t, dims(c->positions), PLIM_I64);
  plim_tensor *wide = empty(t, dims(c->positions), PLIM_FP32);
  plim_consume(t, positions);
  set(t, &angles, empty(t, dims(c->positions, pairs), PLIM_FP32));
  plim_consume(t, wide);
  plim_tensor *sin = empty(t, angles->shape, PLIM_FP32), *cos = empty(t, angles->shape, PLIM_FP32);
  set(t, &table, empty(t, dims(c->positions, 2 * pairs), PLIM_FP32));
  consume_all(t, cos, sin, frequencies);
  drop(t, &angles);
  return give(t, &table);
}

static plim_linear square_new(plim_tape *t, plim_layered *m, const char *path, plim_dtype d) {
  return plim_linear_new(t, &m->model, path, m->c.hidden, m->c.hidden, false, d);
}

static void add_layer(plim_tape *t, plim_layered *m, plim_layered_layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  l->norms[0] = plim_layered_norm(t, m, d);
  l->norm_paths[0] = "ln_1";
  l->linears[K_PROJ] = square_new(t, m, "attn.k_proj", d);
  l->linears[V_PROJ] = square_new(t, m, "attn.v_proj", d);
  l->linears[Q_PROJ] = square_new(t, m, "attn.q_proj", d);
  l->linears[OUT_PROJ] = square_new(t, m, "attn.out_proj", d);
  set(t, &l->buffer, angles_new(t, &m->c, d));
  l->linears[FC_IN] = plim_linear_new(t, &m->model, "mlp.fc_in", i, h, true, d);
  l->linears[FC_OUT] = plim_linear_new(t, &m->model, "mlp.fc_out", h, i, true, d);
}

// Every layer's table is computed again.
static void initialise(plim_tape *t, plim_model *model, plim_dtype dtype) {
  const plim_layered *m = (const plim_layered *)model;
  for (int64_t i = 0; i < m->c.layers; i++) plim_consume(t, angles_new(t, &m->c, dtype));
}

// ---- attention ------------------------------------------------------------------------------------

// Variables of the forward, in the order in which they are released.
typedef struct {
  plim_tensor *query, *key, *value, *table, *ids, *sincos, *sin, *cos;
  plim_rope_parts parts;
} variables;

// embed_positions.repeat(...), then the rows of the positions
static void look_up(plim_tape *t, const plim_layered_layer *l, plim_tensor *positions,
                    plim_dtype dtype, variables *v) {
  int64_t width = l->m->c.rotary_width, length = positions->shape.at[1];
  set(t, &v->table, empty(t, dims(1, l->m->c.positions, width), PLIM_FP32));
  set(t, &v->ids, empty(t, dims(1, length, width), PLIM_I64));
  set(t, &v->sincos, to(t, empty(t, dims(1, length, width), PLIM_FP32), dtype));
  set(t, &v->sin, slice(t, v->sincos, 2, 0, width / 2));
  set(t, &v->cos, slice(t, v->sincos, 2, width / 2, width));
}

static plim_tensor *headed(plim_tape *t, const plim_layered_layer *l, int which, plim_tensor *x) {
  plim_tensor *all = plim_linear_forward(t, &l->linears[which], x);
  return view(t, all, dims(x->shape.at[0], x->shape.at[1], l->m->c.heads, l->m->c.head_dim));
}

static void turn(plim_tape *t, const plim_config *c, variables *v) {
  plim_rope_parts *p = &v->parts;
  int64_t width = c->rotary_width, d = c->head_dim;
  set(t, &p->k_part, slice(t, v->key, 3, 0, width));
  set(t, &p->k_rest, slice(t, v->key, 3, width, d));
  set(t, &p->q_part, slice(t, v->query, 3, 0, width));
  set(t, &p->q_rest, slice(t, v->query, 3, width, d));
  set(t, &p->k_part, plim_rotate_pairs(t, p->k_part, v->cos, v->sin));
  set(t, &p->q_part, plim_rotate_pairs(t, p->q_part, v->cos, v->sin));
  set(t, &v->key, cat2(t, p->k_part, p->k_rest, 3));
  set(t, &v->query, cat2(t, p->q_part, p->q_rest, 3));
  set(t, &v->key, transpose(t, v->key, 1, 2));
  set(t, &v->query, transpose(t, v->query, 1, 2));
}

// In float32, but for the last product.
static plim_tensor *attended(plim_tape *t, const plim_config *c, const variables *v,
                             plim_tensor *mask, plim_tensor **weights) {
  plim_tensor *query = NULL, *key = NULL;
  plim_tape_at(t, "attention");
  set(t, &query, to(t, v->query, PLIM_FP32));
  set(t, &key, to(t, v->key, PLIM_FP32));
  set(t, weights, matmul(t, query, transpose(t, key, 2, 3)));
  set(t, weights, div_scalar(t, *weights));
  if (mask) set(t, weights, add(t, *weights, mask));
  set(t, weights, plim_softmax_own(t, *weights));
  set(t, weights, to(t, *weights, (plim_dtype)v->value->dtype));
  set(t, weights, dropout(t, *weights, c->attention_dropout));
  plim_tensor *out = matmul(t, *weights, v->value);
  drop_all(t, &query, &key);
  return out;
}

// In the order in which the arguments of a layer are released.
enum { HELD_MASK, HELD_POSITIONS };

static plim_tensor *self_attention(plim_tape *t, const plim_layered_layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  variables v = {0};
  plim_tensor *out = NULL;
  bool was = hold(x);
  set(t, &v.query, headed(t, l, Q_PROJ, x));
  set(t, &v.key, headed(t, l, K_PROJ, x));
  set(t, &v.value, headed(t, l, V_PROJ, x));
  set(t, &v.value, transpose(t, v.value, 1, 2));
  look_up(t, l, held[HELD_POSITIONS], (plim_dtype)v.key->dtype, &v);
  turn(t, c, &v);
  set(t, &out, attended(t, c, &v, held[HELD_MASK], weights));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  set(t, &out, view(t, out, x->shape));
  set(t, &out, plim_linear_forward(t, &l->linears[OUT_PROJ], out));
  set(t, &out, dropout(t, out, c->dropout));
  drop_all(t, &v.query, &v.key, &v.value, &v.table, &v.ids, &v.sincos, &v.sin, &v.cos);
  drop_all(t, &v.parts.k_part, &v.parts.k_rest, &v.parts.q_part, &v.parts.q_rest);
  plim_tensor *result = give(t, &out);
  let_go(t, x, was);
  return result;
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_layered_layer *l = context;
  plim_tensor *hidden = NULL, *paid = NULL, *weights = NULL, *fed = NULL;
  set(t, &hidden, plim_norm_forward(t, &l->norms[0], x));
  set(t, &paid, self_attention(t, l, hidden, held, &weights));
  set(t, &fed, plim_layered_mlp(t, l, FC_IN, FC_OUT, hidden));
  set(t, &hidden, add(t, add(t, paid, fed), x));
  plim_tensor *out = give(t, &hidden);
  drop(t, &paid);
  set(t, &l->m->results[0], give(t, &weights));
  drop(t, &fed);
  return out;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_layered *m = (plim_layered *)model;
  plim_tensor *embedded = NULL, *positions = NULL, *mask = NULL, *hidden = NULL, *weights = NULL;
  plim_tensor *last = NULL;
  set(t, &embedded, plim_embed(t, batch, m->words, batch->ids));
  set(t, &positions, plim_position_ids(t, batch->ids->shape.at[1]));
  set(t, &mask,
      plim_causal_mask(t, PLIM_ATTENTION_EAGER, batch->mask_kind, embedded, positions,
                       batch->mask));
  set(t, &hidden, dropout(t, embedded, m->c.embedding_dropout));
  plim_closure call = {run_layer, NULL, {mask, positions}};
  plim_layered_run(t, m, batch, call, &hidden, &weights);
  set(t, &last, hidden);
  set(t, &hidden, plim_layered_last_norm(t, m, hidden));
  set(t, &hidden, view(t, hidden, hidden->shape));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &positions, &embedded, &mask, &weights, &last);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *gptj_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_layered_code code = {.layers = "transformer.h",
                                         .table = "wte",
                                         .add_layer = add_layer,
                                         .initialise = initialise,
                                         .forward = model_forward,
                                         .has_head_bias = true};
  return plim_layered_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->ties_embeddings ? "a head tied to the embedding" : NULL;
}

const plim_family plim_family_gptj = {
    .model_type = "gptj",
    .has_no_padding_row = true,
    .build = gptj_new,
    .defaults = {.hidden = 4096,
                 .layers = 28,
                 .heads = 16,
                 .vocabulary = 50400,
                 .positions = 2048,
                 .rotary_width = 64,
                 .activation = PLIM_ACT_NEW_GELU},
    .unfollowed = unfollowed,
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
