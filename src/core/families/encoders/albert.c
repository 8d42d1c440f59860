// ALBERT: an encoder whose layers all have the same weights, behind narrow tables.
#include "bert.h"
#include "families.h"
#include "ops.h"

#include "op_names.h"

typedef struct {
  plim_norm fed_norm;
  plim_linear query, key, value, dense;
  plim_norm attended_norm;
  plim_linear ffn, ffn_output;
} layer;

typedef struct {
  plim_encoder e;
  plim_bert_tables tables;
  plim_linear widen;             // from the width of the tables to that of the layers
  layer *layers;                 // only the first, which runs as often as there are layers
  plim_attention_kind attention; // of the batch that runs
} plim_albert;

// ---- construction ---------------------------------------------------------------------------------

static void build(plim_tape *t, plim_encoder *e, plim_dtype d) {
  plim_albert *m = (plim_albert *)e;
  layer *l = m->layers;
  int64_t h = e->c.hidden, i = e->c.intermediate;
  plim_bert_tables_new(t, e, &m->tables, d);
  m->widen = plim_linear_new(t, &e->model, "encoder.embedding_hidden_mapping_in", h, e->c.embedding,
                             true, d);
  l->fed_norm = plim_norm_new(t, &e->model, h, d);
  l->query = plim_encoder_square(t, e, "attention.query", d);
  l->key = plim_encoder_square(t, e, "attention.key", d);
  l->value = plim_encoder_square(t, e, "attention.value", d);
  l->dense = plim_encoder_square(t, e, "attention.dense", d);
  l->attended_norm = plim_norm_new(t, &e->model, h, d);
  l->ffn = plim_linear_new(t, &e->model, "ffn", i, h, true, d);
  l->ffn_output = plim_linear_new(t, &e->model, "ffn_output", h, i, true, d);
  plim_encoder_build_end(t, e, d);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_albert *m = (plim_albert *)model;
  layer *l = m->layers;
  plim_lora_begin(model);
  plim_lora_add_all(t, model, lora, "albert", -1, &m->widen);
  plim_lora_add_all(t, model, lora, "albert.encoder.albert_layer_groups.0.albert_layers", 0,
                    &l->query, &l->key, &l->value, &l->dense, &l->ffn, &l->ffn_output);
  plim_encoder_end_lora(t, &m->e, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *projected(plim_tape *t, const plim_albert *m, const plim_linear *projection,
                              plim_tensor *x) {
  return plim_split_heads(t, plim_linear_forward(t, projection, x), m->e.c.head_dim, NULL);
}

static plim_tensor *attend(plim_tape *t, const plim_albert *m, plim_tensor *x, plim_tensor *mask,
                           plim_tensor **weights) {
  const layer *l = m->layers;
  plim_attending how = {.kind = m->attention,
                        .dropout_p = m->e.c.attention_dropout,
                        .softmax = PLIM_SOFTMAX_OWN,
                        .sees_all = true};
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  set(t, &q, projected(t, m, &l->query, x));
  set(t, &k, projected(t, m, &l->key, x));
  set(t, &v, projected(t, m, &l->value, x));
  set(t, &out, plim_attend(t, &how, q, k, v, mask, weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &l->dense, out));
  set(t, &out, dropout(t, out, m->e.c.dropout));
  set(t, &out, plim_norm_forward(t, &l->attended_norm, add(t, x, out)));
  drop_all(t, &q, &k, &v);
  return give(t, &out);
}

static plim_tensor *run_layer(plim_tape *t, const plim_albert *m, plim_tensor *x,
                              plim_tensor *mask) {
  const layer *l = m->layers;
  plim_tensor *attended = NULL, *weights = NULL, *fed = NULL;
  set(t, &attended, attend(t, m, x, mask, &weights));
  set(t, &fed, plim_linear_forward(t, &l->ffn, attended));
  set(t, &fed, plim_activate(t, m->e.c.activation, fed));
  set(t, &fed, plim_linear_forward(t, &l->ffn_output, fed));
  plim_tensor *out = plim_norm_forward(t, &l->fed_norm, add(t, fed, attended));
  drop_all(t, &attended, &weights, &fed);
  return out;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_albert *m = (plim_albert *)model;
  plim_tensor *embedded = NULL, *ones = NULL, *mask = NULL, *hidden = NULL;
  m->attention = batch->attention;
  set(t, &embedded, plim_bert_embed(t, &m->e, &m->tables, batch));
  set(t, &mask, plim_encoder_mask(t, batch->attention, batch, embedded, &ones));
  set(t, &hidden, plim_linear_forward(t, &m->widen, embedded));
  for (int64_t i = 0; i < m->e.c.layers; i++) set(t, &hidden, run_layer(t, m, hidden, mask));
  plim_encoder_pool(t, &m->e, hidden);
  plim_encoder_release(t, &ones, &mask, &embedded);
  return give(t, &hidden);
}

// ---- the family -----------------------------------------------------------------------------------

static const char *unfollowed(const plim_config *c) {
  return c->layer_groups != 1 || c->layers_of_group != 1 ? "several groups of layers" : NULL;
}

static plim_model *albert_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_encoder_code code = {.bytes = sizeof(plim_albert),
                                         .layer_bytes = sizeof(layer),
                                         .layers_at = offsetof(plim_albert, layers),
                                         .build = build,
                                         .forward = model_forward,
                                         .add_lora = add_lora,
                                         .has_token_types = true};
  return plim_encoder_new(t, c, dtype, &code);
}

const plim_family plim_family_albert = {
    .model_type = "albert",
    .build = albert_new,
    .defaults = {.has_padding_row = true,
                 .head = PLIM_HEAD_MASKED,
                 .embedding = 128,
                 .hidden = 4096,
                 .intermediate = 16384,
                 .layers = 12,
                 .layer_groups = 1,
                 .layers_of_group = 1,
                 .heads = 64,
                 .positions = 512,
                 .token_types = 2,
                 .vocabulary = 30000,
                 .activation = PLIM_ACT_NEW_GELU,
                 .classifier_dropout = 0.1,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .has_any_activation = true,
    .is_encoder = true,
    .has_inline_loss = true,
    .text_head = {.is_pooled = true},
    .norms_first = true,
    .makes_bias_early = true,
    .divides_width = true,
    .has_position_table = true,
    .cannot_checkpoint = true,
    .loss_function_from = PLIM_RELEASE(5, 0),
    .recorded = PLIM_RECORDED_TRAINING,
};
