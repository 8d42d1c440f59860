#include "bert.h"

#include "encoder.h"
#include "families.h"
#include "flash_attention.h"
#include "ops.h"

#include "op_names.h"

typedef struct {
  const struct plim_bert *m;
  plim_linear query, key, value;
  plim_encoder_output attended, fed;
  plim_linear intermediate;
} layer;

typedef struct plim_bert {
  plim_encoder e;
  plim_tensor *token_types;    // a table
  plim_tensor *token_type_ids; // a buffer
  layer *layers;
  plim_attention_kind attention; // of the batch that runs
} plim_bert;

// ---- construction ---------------------------------------------------------------------------------

static layer layer_new(plim_tape *t, plim_bert *m, plim_dtype d) {
  int64_t h = m->e.c.hidden, i = m->e.c.intermediate;
  layer l = {.m = m, .query = plim_encoder_square(t, &m->e, PLIM_QUERY, d)};
  l.key = plim_encoder_square(t, &m->e, PLIM_KEY, d);
  l.value = plim_encoder_square(t, &m->e, PLIM_VALUE, d);
  l.attended = plim_encoder_output_new(t, &m->e.model, "attention.output", h, h, d);
  l.intermediate = plim_encoder_dense(t, &m->e.model, "intermediate", i, h, d);
  l.fed = plim_encoder_output_new(t, &m->e.model, "output", h, i, d);
  return l;
}

static plim_tensor *table_new(plim_tape *t, plim_encoder *e, int64_t rows, plim_dtype d) {
  return plim_model_parameter(t, &e->model, dims(rows, e->c.hidden), d);
}

// RoBERTa makes the table of positions last.
static void embeddings_new(plim_tape *t, plim_bert *m, plim_dtype d) {
  plim_encoder *e = &m->e;
  bool is_last = e->c.family->counts_positions;
  e->words = table_new(t, e, e->c.vocabulary, d);
  if (!is_last) e->positions = table_new(t, e, e->c.positions, d);
  m->token_types = table_new(t, e, e->c.token_types, d);
  e->norm = plim_norm_new(t, &e->model, e->c.hidden, d);
  set(t, &e->position_ids, empty(t, dims(1, e->c.positions), PLIM_I64));
  set(t, &m->token_type_ids, empty(t, dims(1, e->c.positions), PLIM_I64));
  if (!is_last) return;
  e->positions = table_new(t, e, e->c.positions, d);
  plim_tape_move_behind(e->position_ids, e->positions, 1); // model.to: buffers go last
  plim_tape_move_behind(m->token_type_ids, e->positions, 2);
}

static void build(plim_tape *t, plim_bert *m, plim_dtype d) {
  embeddings_new(t, m, d);
  for (int64_t i = 0; i < m->e.c.layers; i++) m->layers[i] = layer_new(t, m, d);
  plim_encoder_build_end(t, &m->e, d);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_bert *m = (plim_bert *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->e.c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_add_all(t, model, lora, &l->query, &l->key, &l->value, &l->attended.dense,
                      &l->intermediate, &l->fed.dense);
  }
  plim_encoder_end_lora(t, &m->e, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *projected(plim_tape *t, const layer *l, const plim_linear *projection,
                              plim_tensor *x) {
  return plim_split_heads(t, plim_linear_forward(t, projection, x), l->m->e.c.head_dim, NULL);
}

static plim_tensor *self_attention(plim_tape *t, const layer *l, plim_tensor *x, plim_tensor *mask,
                                   plim_tensor **weights) {
  plim_attending how = {.kind = l->m->attention,
                        .dropout_p = l->m->e.c.attention_dropout,
                        .softmax = PLIM_SOFTMAX_OWN,
                        .sees_all = true};
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  set(t, &q, projected(t, l, &l->query, x));
  set(t, &k, projected(t, l, &l->key, x));
  set(t, &v, projected(t, l, &l->value, x));
  set(t, &out, plim_attend(t, &how, q, k, v, mask, weights));
  set(t, &out, plim_join_heads(t, out));
  drop_all(t, &q, &k, &v);
  return give(t, &out);
}

enum { HELD_MASK };

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer *l = context;
  double dropout_p = l->m->e.c.dropout;
  plim_tensor *attended = NULL, *weights = NULL, *fed = NULL;
  set(t, &attended, self_attention(t, l, x, held[HELD_MASK], &weights));
  set(t, &attended, plim_encoder_output_forward(t, &l->attended, attended, x, dropout_p));
  set(t, &fed, plim_linear_forward(t, &l->intermediate, attended));
  set(t, &fed, gelu(t, fed));
  plim_tensor *out = plim_encoder_output_forward(t, &l->fed, fed, attended, dropout_p);
  drop_all(t, &fed, &weights, &attended);
  return out;
}

// The token types come from a buffer of zeros, gathered at the positions.
static plim_tensor *token_types(plim_tape *t, plim_tensor *position_ids, const plim_dims *shape,
                                plim_tensor **gathered) {
  set(t, gathered, empty(t, position_ids->shape, PLIM_I64));
  return expand(t, *gathered, *shape);
}

static plim_tensor *embed(plim_tape *t, const plim_bert *m, const plim_batch *batch) {
  const plim_encoder *e = &m->e;
  plim_tensor *positions = NULL, *types = NULL, *gathered = NULL, *words = NULL;
  plim_tensor *typed = NULL, *placed = NULL, *out = NULL;
  int64_t length = batch->ids->shape.at[1];
  if (e->c.family->counts_positions)
    set(t, &positions, plim_positions_from_ids(t, batch->ids, true));
  else set(t, &positions, slice(t, e->position_ids, 1, 0, length));
  if (batch->types) set(t, &types, batch->types);
  else set(t, &types, token_types(t, positions, &batch->ids->shape, &gathered));
  set(t, &words, plim_embed(t, batch, e->words, batch->ids));
  set(t, &typed, plim_look_up(t, m->token_types, types));
  set(t, &out, add(t, words, typed));
  set(t, &placed, plim_look_up(t, e->positions, positions));
  set(t, &out, add(t, out, placed));
  set(t, &out, plim_norm_forward(t, &e->norm, out));
  set(t, &out, dropout(t, out, e->c.dropout));
  drop_all(t, &types, &positions, &words, &gathered, &typed, &placed);
  return give(t, &out);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_bert *m = (plim_bert *)model;
  plim_tensor *embedded = NULL, *mask = NULL, *hidden = NULL;
  m->attention = batch->attention;
  set(t, &embedded, embed(t, m, batch));
  set(t, &mask,
      plim_bidirectional_mask(t, batch->attention, batch->mask_kind, embedded->shape.at[1],
                              embedded, batch->mask));
  set(t, &hidden, embedded);
  for (int64_t i = 0; i < m->e.c.layers; i++) {
    plim_closure call = {run_layer, &m->layers[i], {mask}, .positional = 1};
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
  }
  plim_encoder_pool(t, &m->e, hidden);
  drop_all(t, &mask, &embedded);
  return give(t, &hidden);
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_bert_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_bert *m = plim_encoder_new(sizeof *m, config,
                                  (plim_model){.inner = model_forward, .add_lora = add_lora});
  if (!m) return NULL;
  m->e.model.has_token_types = !config->family->counts_positions;
  m->layers = plim_model_array(&m->e.model, config->layers, sizeof *m->layers);
  if (m->layers) build(t, m, dtype);
  return plim_model_finish(&m->e.model);
}

const plim_family plim_family_bert = {
    .model_type = "bert",
    .build = plim_bert_new,
    .defaults = {.head = PLIM_HEAD_MASKED,
                 .hidden = 768,
                 .intermediate = 3072,
                 .layers = 12,
                 .heads = 12,
                 .positions = 512,
                 .token_types = 2,
                 .vocabulary = 30522,
                 .activation = PLIM_ACT_GELU,
                 .dropout = 0.1,
                 .attention_dropout = 0.1,
                 .ties_embeddings = true},
    .is_encoder = true,
    .divides_width = true,
    .has_position_table = true,
    .lora_targets = "query,value",
    .recorded = PLIM_RECORDED_TRAINING,
};
