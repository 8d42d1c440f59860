// MPNet: an encoder with a bias by relative position, which all layers share, and attention written
// out: transformers has no other for it, and no checkpointing.
#include "encoder.h"
#include "families.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

typedef struct {
  plim_linear q, k, v, o;
  plim_norm norm; // after attention
  plim_linear intermediate;
  plim_encoder_output fed;
} layer;

typedef struct {
  plim_encoder e;
  plim_tensor *relative; // a table
  layer *layers;
} plim_mpnet;

// ---- construction ---------------------------------------------------------------------------------

static layer layer_new(plim_tape *t, plim_mpnet *m, plim_dtype d) {
  plim_model *model = &m->e.model;
  int64_t h = m->e.c.hidden, i = m->e.c.intermediate;
  layer l = {.q = plim_encoder_square(t, &m->e, "attention.attn.q", d)};
  l.k = plim_encoder_square(t, &m->e, "attention.attn.k", d);
  l.v = plim_encoder_square(t, &m->e, "attention.attn.v", d);
  l.o = plim_encoder_square(t, &m->e, "attention.attn.o", d);
  l.norm = plim_norm_new(t, model, h, d);
  l.intermediate = plim_encoder_dense(t, model, "intermediate", i, h, d);
  l.fed = plim_encoder_output_new(t, model, "output", h, i, d);
  return l;
}

static void build(plim_tape *t, plim_encoder *e, plim_dtype d) {
  plim_mpnet *m = (plim_mpnet *)e;
  const plim_config *c = &e->c;
  e->words =
      plim_model_table(t, &e->model, dims(c->vocabulary, c->hidden), d, e->c.has_padding_row);
  e->positions = plim_model_parameter(t, &e->model, dims(c->positions, c->hidden), d);
  e->norm = plim_norm_new(t, &e->model, c->hidden, d);
  set(t, &e->position_ids, empty(t, dims(1, c->positions), PLIM_I64));
  for (int64_t i = 0; i < c->layers; i++) m->layers[i] = layer_new(t, m, d);
  m->relative = plim_model_parameter(t, &e->model, dims(c->relative_buckets, c->heads), d);
  m->relative->decay = PLIM_DECAY_NEVER;
  plim_encoder_build_end(t, e, d);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_mpnet *m = (plim_mpnet *)model;
  char place[PLIM_PLACE_BYTES];
  plim_encoder_place(&m->e, place);
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->e.c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_add_all(t, model, lora, place, i, &l->q, &l->k, &l->v, &l->o, &l->intermediate,
                      &l->fed.dense);
  }
  plim_encoder_end_lora(t, &m->e, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *projected(plim_tape *t, const plim_mpnet *m, const plim_linear *projection,
                              plim_tensor *x) {
  return plim_split_heads(t, plim_linear_forward(t, projection, x), m->e.c.head_dim, NULL);
}

static plim_tensor *self_attention(plim_tape *t, const plim_mpnet *m, const layer *l,
                                   plim_tensor *x, plim_tensor *mask, plim_tensor *bias) {
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *scores = NULL, *weights = NULL, *out = NULL;
  set(t, &q, projected(t, m, &l->q, x));
  set(t, &k, projected(t, m, &l->k, x));
  set(t, &v, projected(t, m, &l->v, x));
  plim_tape_at(t, "attention");
  set(t, &scores, matmul(t, q, transpose(t, k, 2, 3)));
  set(t, &scores, div_scalar(t, scores));
  add_in_place(t, scores, bias);
  if (mask) set(t, &scores, add(t, scores, mask));
  set(t, &weights, plim_softmax_own(t, scores));
  set(t, &weights, dropout(t, weights, m->e.c.attention_dropout));
  plim_tape_at(t, "attention");
  set(t, &out, matmul(t, weights, v));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  set(t, &out, view(t, out, dims(batch, length, -1)));
  plim_tensor *projection = plim_linear_forward(t, &l->o, out);
  drop_all(t, &q, &k, &v, &scores, &weights, &out);
  return projection;
}

static plim_tensor *attend(plim_tape *t, const plim_mpnet *m, const layer *l, plim_tensor *x,
                           plim_tensor *mask, plim_tensor *bias) {
  plim_tensor *attended = NULL;
  set(t, &attended, self_attention(t, m, l, x, mask, bias));
  plim_tensor *dropped = dropout(t, attended, m->e.c.dropout);
  plim_tensor *out = plim_norm_forward(t, &l->norm, add(t, dropped, x));
  drop(t, &attended);
  return out;
}

static plim_tensor *run_layer(plim_tape *t, const plim_mpnet *m, const layer *l, plim_tensor *x,
                              plim_tensor *mask, plim_tensor *bias) {
  plim_tensor *attended = NULL, *fed = NULL;
  set(t, &attended, attend(t, m, l, x, mask, bias));
  set(t, &fed, plim_linear_forward(t, &l->intermediate, attended));
  set(t, &fed, gelu(t, fed));
  plim_tensor *out = plim_encoder_output_forward(t, &l->fed, fed, attended, m->e.c.dropout);
  drop_all(t, &attended, &fed);
  return out;
}

// A value per head and bucket, looked up for every pair of positions and copied for every sequence.
// The buckets are computed on the CPU.
static plim_tensor *position_bias(plim_tape *t, const plim_mpnet *m, int64_t batch,
                                  int64_t length) { // (B,H,T,T)
  plim_tensor *buckets = NULL, *values = NULL;
  set(t, &buckets, empty(t, dims(length, length), PLIM_I64));
  set(t, &values, embedding(t, m->relative, buckets));
  plim_tensor *by_head = transpose(t, transpose(t, values, 0, 2), 1, 2);
  set(t, &values, unsqueeze(t, by_head, 0));
  set(t, &values, contiguous(t, expand(t, values, dims(batch, -1, length, length))));
  drop(t, &buckets);
  return give(t, &values);
}

static plim_tensor *embed(plim_tape *t, const plim_mpnet *m, const plim_batch *batch) {
  plim_tensor *positions = NULL, *words = NULL, *placed = NULL, *out = NULL;
  set(t, &positions, plim_positions_from_ids(t, batch->ids, false));
  set(t, &words, plim_embed(t, batch, m->e.words, batch->ids));
  set(t, &placed, plim_look_up(t, m->e.positions, positions));
  set(t, &out, add(t, words, placed));
  set(t, &out, plim_norm_forward(t, &m->e.norm, out));
  set(t, &out, dropout(t, out, m->e.c.dropout));
  drop_all(t, &positions, &words, &placed);
  return give(t, &out);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_mpnet *m = (plim_mpnet *)model;
  int64_t size = batch->ids->shape.at[0], length = batch->ids->shape.at[1];
  plim_tensor *embedded = NULL, *ones = NULL, *mask = NULL, *bias = NULL, *hidden = NULL;
  if (!plim_transformers_from(t, 5, 0)) plim_encoder_look_for_padding(t, batch);
  set(t, &embedded, embed(t, m, batch));
  set(t, &mask, plim_encoder_mask(t, PLIM_ATTENTION_EAGER, batch, embedded, &ones));
  set(t, &bias, position_bias(t, m, size, length));
  set(t, &hidden, embedded);
  for (int64_t i = 0; i < m->e.c.layers; i++)
    set(t, &hidden, run_layer(t, m, &m->layers[i], hidden, mask, bias));
  drop(t, &bias);
  plim_encoder_pool(t, &m->e, hidden);
  plim_encoder_release(t, &ones, &mask, &embedded);
  return give(t, &hidden);
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *mpnet_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_encoder_code code = {.bytes = sizeof(plim_mpnet),
                                         .layer_bytes = sizeof(layer),
                                         .layers_at = offsetof(plim_mpnet, layers),
                                         .build = build,
                                         .forward = model_forward,
                                         .add_lora = add_lora};
  return plim_encoder_new(t, c, dtype, &code);
}

const plim_family plim_family_mpnet = {
    .model_type = "mpnet",
    .build = mpnet_new,
    .defaults = {.has_padding_row = true,
                 .head = PLIM_HEAD_MASKED,
                 .hidden = 768,
                 .intermediate = 3072,
                 .layers = 12,
                 .heads = 12,
                 .positions = 512,
                 .relative_buckets = 32,
                 .vocabulary = 30527,
                 .activation = PLIM_ACT_GELU,
                 .dropout = 0.1,
                 .attention_dropout = 0.1,
                 .ties_embeddings = true},
    .is_encoder = true,
    .has_inline_loss = true,
    .text_head = {.dense = "classifier.dense",
                  .activation = PLIM_ACT_TANH,
                  .drops_first = true,
                  .classifier = "classifier.out_proj"},
    .divides_width = true,
    .has_position_table = true,
    .position_offset = 2,
    .has_relative_positions = true,
    .cannot_checkpoint = true,
    .loss_function_from = PLIM_RELEASE(5, 0),
    .recorded = PLIM_RECORDED_TRAINING,
};
