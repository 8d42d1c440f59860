// DeBERTa v2 and v3: attention adds scores between tokens and relative positions, in both directions, written out.
#include "encoder.h"
#include "families.h"
#include "kernels.h"
#include "ops.h"

#include "op_names.h"

typedef struct {
  const struct plim_deberta *m;
  plim_encoder_layer own;
} layer;

typedef struct plim_deberta {
  plim_encoder e;
  plim_tensor *relative; // a table of relative positions
  plim_norm relative_norm;
  layer *layers;
  plim_tensor **states; // what goes into each layer; the model's forward keeps them
  bool has_run;         // TorchScript fuses its function from the second call on
} plim_deberta;

// ---- construction ---------------------------------------------------------------------------------

static void build(plim_tape *t, plim_encoder *e, plim_dtype d) {
  static const char *const paths[] = {"attention.self.query_proj", "attention.self.key_proj",
                                      "attention.self.value_proj"};
  plim_deberta *m = (plim_deberta *)e;
  int64_t h = e->c.hidden;
  m->states = plim_model_array(&e->model, e->c.layers, sizeof(plim_tensor *));
  if (!m->states) return;
  e->prefix = "deberta";
  e->words = plim_model_table(t, &e->model, dims(e->c.vocabulary, h), d, e->c.has_padding_row);
  if (!e->c.lacks_position_bias)
    e->positions = plim_model_parameter(t, &e->model, dims(e->c.positions, h), d);
  e->norm = plim_norm_new(t, &e->model, h, d);
  set(t, &e->position_ids, empty(t, dims(1, e->c.positions), PLIM_I64));
  for (int64_t i = 0; i < e->c.layers; i++)
    m->layers[i] = (layer){m, plim_encoder_layer_new(t, e, paths, d)};
  m->relative = plim_model_parameter(t, &e->model, dims(2 * e->c.relative_buckets, h), d);
  m->relative_norm = plim_norm_new(t, &e->model, h, d);
  plim_encoder_build_end(t, e, d);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_deberta *m = (plim_deberta *)model;
  char place[PLIM_PLACE_BYTES];
  plim_encoder_place(&m->e, place);
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->e.c.layers; i++)
    plim_encoder_layer_lora(t, &m->e, lora, place, i, &m->layers[i].own);
  plim_encoder_end_lora(t, &m->e, lora);
  plim_lora_end(t, model, lora);
}

// ---- relative positions ---------------------------------------------------------------------------

// make_log_bucket_position, one operator at a time.
static plim_tensor *buckets_at_first(plim_tape *t, plim_dims shape) {
  plim_tensor *sign = empty(t, shape, PLIM_I64);
  plim_tensor *is_low = empty(t, shape, PLIM_BOOL), *is_high = empty(t, shape, PLIM_BOOL);
  plim_tensor *is_near = empty(t, shape, PLIM_BOOL);
  consume_all(t, is_low, is_high);
  plim_tensor *middle = empty(t, (plim_dims){0}, PLIM_I64), *far = empty(t, shape, PLIM_I64);
  plim_tensor *distance = empty(t, shape, PLIM_I64);
  consume_all(t, is_near, middle, far);
  plim_tensor *steps = empty(t, shape, PLIM_FP32);
  for (int i = 0; i < 5; i++) { // log, /, *, ceil, +
    plim_tensor *next = empty(t, shape, PLIM_FP32);
    plim_consume(t, steps);
    steps = next;
  }
  is_near = empty(t, shape, PLIM_BOOL);
  plim_consume(t, distance);
  plim_tensor *near = empty(t, shape, PLIM_FP32), *signed_steps = empty(t, shape, PLIM_FP32);
  consume_all(t, steps, sign);
  plim_tensor *out = empty(t, shape, PLIM_FP32);
  consume_all(t, is_near, near, signed_steps);
  return out;
}

// The same in three kernels.
static plim_tensor *buckets_fused(plim_tape *t, plim_dims shape) {
  plim_tensor *sign = empty(t, shape, PLIM_I64), *middle = empty(t, (plim_dims){0}, PLIM_I64);
  plim_tensor *logs = empty(t, shape, PLIM_FP32), *distance = empty(t, shape, PLIM_I64);
  plim_consume(t, middle);
  plim_tensor *divided = empty(t, shape, PLIM_FP32);
  plim_consume(t, logs);
  plim_tensor *out = empty(t, shape, PLIM_FP32);
  consume_all(t, divided, distance, sign);
  return out;
}

// build_relative_position: (1,T,T)
static plim_tensor *relative_positions(plim_tape *t, plim_deberta *m, int64_t length) {
  plim_dims shape = dims(length, length);
  plim_tensor *queries = empty(t, dims(length), PLIM_I64), *keys = empty(t, dims(length), PLIM_I64);
  plim_tensor *difference = empty(t, shape, PLIM_I64);
  plim_tensor *buckets = m->has_run ? buckets_fused(t, shape) : buckets_at_first(t, shape);
  m->has_run = true;
  plim_consume(t, difference);
  plim_tensor *out = empty(t, dims(1, length, length), PLIM_I64);
  consume_all(t, buckets, queries, keys);
  return out;
}

// ---- attention ------------------------------------------------------------------------------------

// (B,T,H*D) -> (B*H,T,D), contiguous.
static plim_tensor *by_heads(plim_tape *t, const plim_config *c, plim_tensor *x) {
  plim_tensor *heads = NULL;
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  set(t, &heads, view(t, x, dims(batch, length, c->heads, c->head_dim)));
  plim_tensor *out = contiguous(t, transpose(t, heads, 1, 2));
  out = view(t, out, dims(batch * c->heads, length, c->head_dim));
  drop(t, &heads);
  return out;
}

static plim_tensor *projected(plim_tape *t, const layer *l, const plim_linear *p, plim_tensor *x) {
  return by_heads(t, &l->m->e.c, plim_linear_forward(t, p, x));
}

// disentangled_attention_bias
static plim_tensor *position_scores(plim_tape *t, const layer *l, plim_tensor *q, plim_tensor *k,
                                    plim_tensor *relative, plim_tensor *table) {
  int64_t length = q->shape.at[1], batch = q->shape.at[0] / l->m->e.c.heads;
  plim_dims spread = dims(q->shape.at[0], length, length);
  plim_tensor *rows = NULL, *pos_q = NULL, *pos_k = NULL, *forth = NULL, *back = NULL;
  plim_tensor *score = NULL, *from = NULL, *until = NULL, *scaled = NULL;
  set(t, &rows, unsqueeze(t, table, 0));
  set(t, &pos_q, repeat(t, projected(t, l, &l->own.query, rows), batch));
  set(t, &pos_k, repeat(t, projected(t, l, &l->own.key, rows), batch));
  set(t, &forth, bmm(t, q, transpose(t, pos_k, 1, 2)));
  set(t, &from, clamp(t, add_scalar(t, relative), 2));
  set(t, &forth, gather_last(t, forth, expand(t, from, spread)));
  set(t, &score, add_scalar(t, div_scalar(t, forth)));
  set(t, &until, clamp(t, add_scalar(t, neg(t, relative)), 2));
  set(t, &back, bmm(t, k, transpose(t, pos_q, 1, 2)));
  set(t, &back, transpose(t, gather_last(t, back, expand(t, until, spread)), 1, 2));
  set(t, &scaled, div_scalar(t, back));
  add_in_place(t, score, scaled);
  drop_all(t, &scaled, &rows, &pos_q, &pos_k, &forth, &from, &until, &back);
  return give(t, &score);
}

enum { HELD_MASK, HELD_RELATIVE, HELD_TABLE };

static plim_tensor *self_attention(plim_tape *t, const layer *l, plim_tensor *x,
                                   plim_tensor *const *held) {
  const plim_config *c = &l->m->e.c;
  int64_t length = x->shape.at[1];
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *scores = NULL, *table = NULL, *added = NULL;
  plim_tensor *mask = NULL, *hides = NULL, *weights = NULL, *out = NULL;
  set(t, &q, projected(t, l, &l->own.query, x));
  set(t, &k, projected(t, l, &l->own.key, x));
  set(t, &v, projected(t, l, &l->own.value, x));
  plim_tape_at(t, "attention");
  set(t, &scores, bmm(t, q, div_scalar(t, transpose(t, k, 1, 2))));
  set(t, &table, dropout(t, held[HELD_TABLE], c->dropout));
  set(t, &added, position_scores(t, l, q, k, held[HELD_RELATIVE], table));
  set(t, &scores, add(t, scores, added));
  set(t, &scores, view(t, scores, dims(-1, c->heads, length, length)));
  set(t, &mask, to(t, held[HELD_MASK], PLIM_BOOL));
  set(t, &hides, k_unary(t, mask));
  plim_tensor *filled = masked_fill(t, scores, hides);
  drop(t, &hides);
  set(t, &scores, filled);
  set(t, &weights, plim_softmax_own(t, scores));
  set(t, &weights, dropout(t, weights, c->attention_dropout));
  plim_tape_at(t, "attention");
  set(t, &out, bmm(t, cast(t, view(t, weights, dims(-1, length, length))), v));
  set(t, &out, view(t, out, dims(-1, c->heads, length, c->head_dim)));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  set(t, &out, view(t, out, dims(-1, length, c->hidden)));
  drop_all(t, &mask, &table, &q, &k, &v, &added, &scores, &weights);
  return give(t, &out);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer *l = context;
  double dropout_p = l->m->e.c.dropout;
  plim_tensor *attended = NULL, *fed = NULL;
  set(t, &attended, self_attention(t, l, x, held));
  set(t, &attended, plim_encoder_output_forward(t, &l->own.attended, attended, x, dropout_p));
  set(t, &fed, plim_linear_forward(t, &l->own.intermediate, attended));
  set(t, &fed, gelu(t, fed));
  plim_tensor *out = plim_encoder_output_forward(t, &l->own.fed, fed, attended, dropout_p);
  drop_all(t, &attended, &fed);
  return out;
}

// ---- forward --------------------------------------------------------------------------------------

// Zeros in place of a table of positions are not added.
static plim_tensor *embed(plim_tape *t, const plim_encoder *e, const plim_batch *batch,
                          plim_tensor *mask) {
  plim_tensor *words = NULL, *placed = NULL, *sum = NULL, *out = NULL, *wide = NULL, *ids = NULL;
  set(t, &words, plim_embed(t, batch, e->words, batch->ids));
  set(t, &ids, slice(t, e->position_ids, 1, 0, batch->ids->shape.at[1]));
  set(t, &placed, e->positions ? plim_look_up(t, e->positions, ids) : k_like(t, words));
  set(t, &sum, e->positions ? add(t, words, placed) : words);
  set(t, &out, plim_norm_forward(t, &e->norm, sum));
  drop(t, &sum);
  set(t, &wide, to(t, unsqueeze(t, mask, 2), (plim_dtype)out->dtype));
  set(t, &out, mul(t, out, wide));
  set(t, &out, dropout(t, out, e->c.dropout));
  drop_all(t, &wide, &words, &placed, &ids);
  return give(t, &out);
}

static plim_tensor *run_layers(plim_tape *t, plim_deberta *m, const plim_batch *batch,
                               plim_tensor *given) {
  int64_t size = given->shape.at[0], length = given->shape.at[1];
  plim_tensor *mask = NULL, *relative = NULL, *table = NULL, *hidden = NULL;
  set(t, &mask, empty(t, dims(size, 1, length, length), (plim_dtype)given->dtype));
  set(t, &relative, relative_positions(t, m, length));
  set(t, &hidden, m->states[0]);
  set(t, &table, plim_norm_forward(t, &m->relative_norm, m->relative));
  for (int64_t i = 0; i < m->e.c.layers; i++) {
    plim_closure call = {run_layer, &m->layers[i], {mask, relative, table}, .positional = 1};
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
    if (i + 1 < m->e.c.layers) set(t, &m->states[i + 1], hidden);
  }
  drop_all(t, &mask, &relative, &table);
  return give(t, &hidden);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_deberta *m = (plim_deberta *)model;
  plim_tensor *ones = NULL, *types = NULL, *hidden = NULL;
  plim_encoder_look_for_padding(t, batch);
  if (!batch->mask) set(t, &ones, empty(t, batch->ids->shape, PLIM_FP32));
  if (!batch->types) set(t, &types, empty(t, batch->ids->shape, PLIM_I64));
  plim_tensor *mask = batch->mask ? batch->mask : ones;
  set(t, &m->states[0], embed(t, &m->e, batch, mask));
  set(t, &hidden, run_layers(t, m, batch, mask));
  drop_all(t, &ones, &types);
  for (int64_t i = m->e.c.layers; i-- > 0;) drop(t, &m->states[i]);
  return give(t, &hidden);
}

// ---- the family -----------------------------------------------------------------------------------

static const char *unfollowed(const plim_config *c) {
  if (c->conv_kernel > 0) return "a convolution behind its first layer (conv_kernel_size)";
  if (c->token_types > 0) return "token types";
  if (c->embedding && c->embedding != c->hidden) return "a narrower table of words";
  bool is_known = c->is_relative && c->relative_buckets > 0 && c->shares_position_keys &&
                  c->norms_positions && c->scores_positions[0] && c->scores_positions[1];
  return is_known ? NULL : "other relative positions than those of version 3";
}

static plim_model *deberta_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_encoder_code code = {.bytes = sizeof(plim_deberta),
                                         .layer_bytes = sizeof(layer),
                                         .layers_at = offsetof(plim_deberta, layers),
                                         .build = build,
                                         .forward = model_forward,
                                         .add_lora = add_lora,
                                         .has_token_types = true};
  return plim_encoder_new(t, c, dtype, &code);
}

const plim_family plim_family_deberta_v2 = {
    .model_type = "deberta-v2",
    .build = deberta_new,
    .defaults = {.has_padding_row = true,
                 .head = PLIM_HEAD_MASKED,
                 .hidden = 1536,
                 .intermediate = 6144,
                 .layers = 24,
                 .heads = 24,
                 .positions = 512,
                 .vocabulary = 128100,
                 .activation = PLIM_ACT_GELU,
                 .dropout = 0.1,
                 .attention_dropout = 0.1,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .is_encoder = true,
    .has_inline_loss = true,
    .gathers_labelled = true,
    .ties_bias_first = true,
    .text_head = {.dense = "pooler.dense", .activation = PLIM_ACT_GELU},
    .has_no_pooler = true,
    .divides_width = true,
    .has_position_table = true,
    .has_relative_positions = true,
    .lacks_sdpa = true,
    .is_refused_flash = true,
    .lora_targets = "query_proj,value_proj",
    .loss_function_from = PLIM_RELEASE(5, 0),
    .recorded = PLIM_RECORDED_TRAINING,
};
