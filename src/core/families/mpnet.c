#include "mpnet.h"

#include <stdlib.h>

#include "encoder.h"
#include "ops.h"

typedef struct {
  plim_linear q, k, v, o;
  plim_norm norm; // after attention
  plim_linear intermediate;
  plim_encoder_output fed;
} layer;

typedef struct {
  plim_model model;
  plim_config c;
  plim_tensor *words, *positions, *relative; // tables
  plim_tensor *position_ids;                 // a buffer
  plim_norm norm;
  layer *layers;
  plim_linear pooler; // of a bare encoder
  plim_masked_head head;
} plim_mpnet;

// ---- construction ---------------------------------------------------------------------------------

static plim_linear square_new(plim_tape *t, plim_mpnet *m, plim_dtype d) {
  return plim_linear_new(t, &m->model, m->c.hidden, m->c.hidden, true, d);
}

static layer layer_new(plim_tape *t, plim_mpnet *m, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  layer l = {.q = square_new(t, m, d)};
  l.k = square_new(t, m, d);
  l.v = square_new(t, m, d);
  l.o = square_new(t, m, d);
  l.norm = plim_norm_new(t, &m->model, h, d);
  l.intermediate = plim_linear_new(t, &m->model, i, h, true, d);
  l.fed = plim_encoder_output_new(t, &m->model, h, i, d);
  return l;
}

static plim_tensor *table_new(plim_tape *t, plim_mpnet *m, int64_t rows, int64_t width,
                              plim_dtype d) {
  return plim_model_parameter(t, &m->model, dims(rows, width), d);
}

static void build(plim_tape *t, plim_mpnet *m, plim_dtype d) {
  m->words = table_new(t, m, m->c.vocabulary, m->c.hidden, d);
  m->positions = table_new(t, m, m->c.positions, m->c.hidden, d);
  m->norm = plim_norm_new(t, &m->model, m->c.hidden, d);
  set(t, &m->position_ids, empty(t, dims(1, m->c.positions), PLIM_I64));
  for (int64_t i = 0; i < m->c.layers; i++) m->layers[i] = layer_new(t, m, d);
  m->relative = table_new(t, m, m->c.relative_buckets, m->c.heads, d);
  if (m->model.is_bare) m->pooler = square_new(t, m, d);
  plim_consume(t, empty(t, dims(1, m->c.positions), PLIM_I64)); // position ids, made again
  if (m->model.is_bare) return;
  m->head = plim_masked_head_new(t, &m->model, m->words, m->c.ties_embeddings);
}

static void destroy(plim_model *model) {
  plim_mpnet *m = (plim_mpnet *)model;
  free(m->layers);
  free(m);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_mpnet *m = (plim_mpnet *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_target(t, model, &l->q, PLIM_Q, lora);
    plim_lora_target(t, model, &l->k, PLIM_K, lora);
    plim_lora_target(t, model, &l->v, PLIM_V, lora);
    plim_lora_target(t, model, &l->o, PLIM_O, lora);
    plim_lora_target(t, model, &l->intermediate, PLIM_DENSE, lora);
    plim_lora_target(t, model, &l->fed.dense, PLIM_DENSE, lora);
  }
  plim_lora_target(t, model, &m->pooler, PLIM_DENSE, lora);
  plim_lora_target(t, model, &m->head.dense, PLIM_DENSE, lora);
  plim_lora_end(t, model, lora, (plim_dtype)m->words->dtype);
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *projected(plim_tape *t, const plim_mpnet *m, const plim_linear *l,
                              plim_tensor *x) { // (B,H,T,D)
  plim_dims shape = dims(x->shape.at[0], x->shape.at[1], -1, m->c.head_dim);
  return transpose(t, view(t, plim_linear_forward(t, l, x), shape), 1, 2);
}

static plim_tensor *probabilities(plim_tape *t, plim_tensor *scores) {
  return softmax(t, scores, plim_autocast_is_on(t) ? PLIM_FP32 : (plim_dtype)scores->dtype);
}

static plim_tensor *self_attention(plim_tape *t, const plim_mpnet *m, const layer *l,
                                   plim_tensor *x, plim_tensor *mask, plim_tensor *bias) {
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *scores = NULL, *weights = NULL, *out = NULL;
  set(t, &q, projected(t, m, &l->q, x));
  set(t, &k, projected(t, m, &l->k, x));
  set(t, &v, projected(t, m, &l->v, x));
  set(t, &scores, matmul(t, q, transpose(t, k, 2, 3)));
  set(t, &scores, div_scalar(t, scores));
  add_in_place(t, scores, bias);
  if (mask) set(t, &scores, add(t, scores, mask));
  set(t, &weights, probabilities(t, scores));
  set(t, &weights, dropout(t, weights, m->c.attention_dropout));
  set(t, &out, matmul(t, weights, v));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  set(t, &out, view(t, out, dims(batch, length, -1)));
  plim_tensor *projection = plim_linear_forward(t, &l->o, out);
  plim_tensor **gone[] = {&q, &k, &v, &scores, &weights, &out};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) drop(t, gone[i]);
  return projection;
}

static plim_tensor *attend(plim_tape *t, const plim_mpnet *m, const layer *l, plim_tensor *x,
                           plim_tensor *mask, plim_tensor *bias) {
  plim_tensor *attended = NULL;
  set(t, &attended, self_attention(t, m, l, x, mask, bias));
  plim_tensor *dropped = dropout(t, attended, m->c.dropout);
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
  plim_tensor *out = plim_encoder_output_forward(t, &l->fed, fed, attended, m->c.dropout);
  drop(t, &attended);
  drop(t, &fed);
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
  set(t, &words, embedding(t, m->words, batch->ids));
  set(t, &placed, embedding(t, m->positions, positions));
  set(t, &out, add(t, words, placed));
  set(t, &out, plim_norm_forward(t, &m->norm, out));
  set(t, &out, dropout(t, out, m->c.dropout));
  drop(t, &positions);
  drop(t, &words);
  drop(t, &placed);
  return give(t, &out);
}

static plim_tensor *encode(plim_tape *t, plim_mpnet *m, const plim_batch *batch) {
  int64_t size = batch->ids->shape.at[0], length = batch->ids->shape.at[1];
  plim_tensor *embedded = NULL, *mask = NULL, *bias = NULL, *hidden = NULL;
  set(t, &embedded, embed(t, m, batch));
  set(t, &mask,
      plim_bidirectional_mask(t, PLIM_ATTENTION_EAGER, batch->mask_kind, embedded, batch->mask));
  set(t, &bias, position_bias(t, m, size, length));
  set(t, &hidden, embedded);
  for (int64_t i = 0; i < m->c.layers; i++)
    set(t, &hidden, run_layer(t, m, &m->layers[i], hidden, mask, bias));
  drop(t, &bias);
  if (m->pooler.weight) set(t, &m->model.pooled, plim_pooler_forward(t, &m->pooler, hidden));
  drop(t, &mask);
  drop(t, &embedded);
  return give(t, &hidden);
}

static plim_tensor *forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                            plim_tensor **output) {
  plim_mpnet *m = (plim_mpnet *)model;
  plim_tensor *hidden = encode(t, m, batch);
  if (!model->is_bare) return plim_masked_head_forward(t, &m->head, hidden, batch, output);
  set(t, output, hidden);
  return NULL;
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_mpnet_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_mpnet *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->model = (plim_model){.forward = forward,
                          .add_lora = add_lora,
                          .destroy = destroy,
                          .is_bare = config->head == PLIM_HEAD_NONE,
                          .has_aligned_labels = true};
  m->c = *config;
  m->layers = calloc((size_t)config->layers, sizeof *m->layers);
  if (m->layers) build(t, m, dtype);
  else m->model.failed = true;
  return plim_model_finish(&m->model);
}
