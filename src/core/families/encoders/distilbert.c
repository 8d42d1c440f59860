// DistilBERT: BERT without token types and pooler; its attention adds what it computes without dropout.
#include "encoder.h"
#include "families.h"
#include "ops.h"

#include "op_names.h"

typedef struct {
  const struct plim_distilbert *m;
  plim_linear q_lin, k_lin, v_lin, out_lin, lin1, lin2;
  plim_norm attended, fed;
} layer;

typedef struct plim_distilbert {
  plim_encoder e;
  layer *layers;
  plim_attention_kind attention; // of the batch that runs
} plim_distilbert;

// ---- construction ---------------------------------------------------------------------------------

static layer layer_new(plim_tape *t, plim_distilbert *m, plim_dtype d) {
  int64_t h = m->e.c.hidden, i = m->e.c.intermediate;
  layer l = {.m = m, .q_lin = plim_encoder_square(t, &m->e, "attention.q_lin", d)};
  l.k_lin = plim_encoder_square(t, &m->e, "attention.k_lin", d);
  l.v_lin = plim_encoder_square(t, &m->e, "attention.v_lin", d);
  l.out_lin = plim_encoder_square(t, &m->e, "attention.out_lin", d);
  l.attended = plim_norm_new(t, &m->e.model, h, d);
  l.lin1 = plim_linear_new(t, &m->e.model, "ffn.lin1", i, h, true, d);
  l.lin2 = plim_linear_new(t, &m->e.model, "ffn.lin2", h, i, true, d);
  l.fed = plim_norm_new(t, &m->e.model, h, d);
  return l;
}

static void build(plim_tape *t, plim_encoder *e, plim_dtype d) {
  plim_distilbert *m = (plim_distilbert *)e;
  int64_t h = e->c.hidden;
  e->layers = "transformer.layer";
  e->words = plim_model_table(t, &e->model, dims(e->c.vocabulary, h), d, e->c.has_padding_row);
  e->positions = plim_model_parameter(t, &e->model, dims(e->c.positions, h), d);
  e->norm = plim_norm_new(t, &e->model, h, d);
  set(t, &e->position_ids, empty(t, dims(1, e->c.positions), PLIM_I64));
  for (int64_t i = 0; i < e->c.layers; i++) m->layers[i] = layer_new(t, m, d);
  plim_encoder_build_end(t, e, d);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_distilbert *m = (plim_distilbert *)model;
  char place[PLIM_PLACE_BYTES];
  plim_encoder_place(&m->e, place);
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->e.c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_add_all(t, model, lora, place, i, &l->q_lin, &l->k_lin, &l->v_lin, &l->out_lin,
                      &l->lin1, &l->lin2);
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
  set(t, &q, projected(t, l, &l->q_lin, x));
  set(t, &k, projected(t, l, &l->k_lin, x));
  set(t, &v, projected(t, l, &l->v_lin, x));
  set(t, &out, plim_attend(t, &how, q, k, v, mask, weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &l->out_lin, out));
  drop_all(t, &q, &k, &v);
  return give(t, &out);
}

static plim_tensor *feed(plim_tape *t, const layer *l, plim_tensor *x) {
  plim_tensor *fed = NULL;
  set(t, &fed, plim_linear_forward(t, &l->lin1, x));
  set(t, &fed, gelu(t, fed));
  set(t, &fed, plim_linear_forward(t, &l->lin2, fed));
  set(t, &fed, dropout(t, fed, l->m->e.c.dropout));
  return give(t, &fed);
}

enum { HELD_MASK };

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer *l = context;
  plim_tensor *attended = NULL, *weights = NULL, *fed = NULL;
  set(t, &attended, self_attention(t, l, x, held[HELD_MASK], &weights));
  set(t, &attended, plim_norm_forward(t, &l->attended, add(t, attended, x)));
  set(t, &fed, feed(t, l, attended));
  set(t, &fed, plim_norm_forward(t, &l->fed, add(t, fed, attended)));
  drop_all(t, &attended, &weights);
  return give(t, &fed);
}

static plim_tensor *embed(plim_tape *t, const plim_encoder *e, const plim_batch *batch) {
  plim_tensor *words = NULL, *positions = NULL, *placed = NULL, *out = NULL;
  set(t, &words, plim_embed(t, batch, e->words, batch->ids));
  set(t, &positions, slice(t, e->position_ids, 1, 0, batch->ids->shape.at[1]));
  set(t, &placed, plim_look_up(t, e->positions, positions));
  set(t, &out, add(t, words, placed));
  set(t, &out, plim_norm_forward(t, &e->norm, out));
  set(t, &out, dropout(t, out, e->c.dropout));
  drop_all(t, &words, &positions, &placed);
  return give(t, &out);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_distilbert *m = (plim_distilbert *)model;
  plim_tensor *embedded = NULL, *mask = NULL, *hidden = NULL;
  m->attention = batch->attention;
  set(t, &embedded, embed(t, &m->e, batch));
  set(t, &mask,
      plim_bidirectional_mask(t, batch->attention, batch->mask_kind, embedded->shape.at[1],
                              embedded, batch->mask));
  set(t, &hidden, embedded);
  for (int64_t i = 0; i < m->e.c.layers; i++) {
    plim_closure call = {run_layer, &m->layers[i], {mask}, .positional = 1};
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
  }
  drop_all(t, &mask, &embedded);
  return give(t, &hidden);
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *distilbert_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_encoder_code code = {.bytes = sizeof(plim_distilbert),
                                         .layer_bytes = sizeof(layer),
                                         .layers_at = offsetof(plim_distilbert, layers),
                                         .build = build,
                                         .forward = model_forward,
                                         .add_lora = add_lora};
  return plim_encoder_new(t, c, dtype, &code);
}

const plim_family plim_family_distilbert = {
    .model_type = "distilbert",
    .build = distilbert_new,
    .defaults = {.has_padding_row = true,
                 .head = PLIM_HEAD_MASKED,
                 .hidden = 768,
                 .intermediate = 3072,
                 .layers = 6,
                 .heads = 12,
                 .positions = 512,
                 .vocabulary = 30522,
                 .activation = PLIM_ACT_GELU,
                 .dropout = 0.1,
                 .attention_dropout = 0.1,
                 .ties_embeddings = true},
    .is_encoder = true,
    .has_inline_loss = true,
    .text_head = {.dense = "pre_classifier", .activation = PLIM_ACT_RELU},
    .has_no_pooler = true,
    .drops_answers = true,
    .transform = "vocab_transform",
    .divides_width = true,
    .has_position_table = true,
    .lora_targets = "q_lin,v_lin",
    .loss_function_from = PLIM_RELEASE(5, 0),
    .recorded = PLIM_RECORDED_TRAINING,
};
