#include "bert.h"

#include <stdlib.h>

#include "attention.h"
#include "encoder.h"
#include "flash_attention.h"
#include "ops.h"

typedef struct {
  plim_linear query, key, value;
  plim_encoder_output attended, fed;
  plim_linear intermediate;
} layer;

typedef struct layer_call {
  const struct plim_bert *m;
  const layer *l;
  plim_attention_kind attention;
} layer_call;

typedef struct plim_bert {
  plim_model model;
  plim_config c;
  plim_tensor *words, *positions, *token_types; // tables
  plim_tensor *position_ids, *token_type_ids;   // buffers
  plim_norm norm;
  layer *layers;
  layer_call *calls;  // one per layer
  plim_linear pooler; // of a bare encoder
  plim_masked_head head;
} plim_bert;

// ---- construction ---------------------------------------------------------------------------------

static plim_linear square_new(plim_tape *t, plim_bert *m, plim_dtype d) {
  return plim_linear_new(t, &m->model, m->c.hidden, m->c.hidden, true, d);
}

static layer layer_new(plim_tape *t, plim_bert *m, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  layer l = {.query = square_new(t, m, d)};
  l.key = square_new(t, m, d);
  l.value = square_new(t, m, d);
  l.attended = plim_encoder_output_new(t, &m->model, h, h, d);
  l.intermediate = plim_linear_new(t, &m->model, i, h, true, d);
  l.fed = plim_encoder_output_new(t, &m->model, h, i, d);
  return l;
}

static plim_tensor *table_new(plim_tape *t, plim_bert *m, int64_t rows, plim_dtype d) {
  return plim_model_parameter(t, &m->model, dims(rows, m->c.hidden), d);
}

// RoBERTa makes the table of positions last.
static void embeddings_new(plim_tape *t, plim_bert *m, plim_dtype d) {
  bool is_last = m->c.counts_positions;
  m->words = table_new(t, m, m->c.vocabulary, d);
  if (!is_last) m->positions = table_new(t, m, m->c.positions, d);
  m->token_types = table_new(t, m, m->c.token_types, d);
  m->norm = plim_norm_new(t, &m->model, m->c.hidden, d);
  set(t, &m->position_ids, empty(t, dims(1, m->c.positions), PLIM_I64));
  set(t, &m->token_type_ids, empty(t, dims(1, m->c.positions), PLIM_I64));
  if (is_last) m->positions = table_new(t, m, m->c.positions, d);
}

static void build(plim_tape *t, plim_bert *m, plim_dtype d) {
  embeddings_new(t, m, d);
  for (int64_t i = 0; i < m->c.layers; i++) m->layers[i] = layer_new(t, m, d);
  if (m->model.is_bare) m->pooler = square_new(t, m, d);
  plim_consume(t, empty(t, dims(1, m->c.positions), PLIM_I64)); // position ids, made again
  if (m->model.is_bare) return;
  m->head = plim_masked_head_new(t, &m->model, m->words, m->c.ties_embeddings);
}

static void destroy(plim_model *model) {
  plim_bert *m = (plim_bert *)model;
  free(m->layers);
  free(m->calls);
  free(m);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_bert *m = (plim_bert *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_target(t, model, &l->query, PLIM_QUERY, lora);
    plim_lora_target(t, model, &l->key, PLIM_KEY, lora);
    plim_lora_target(t, model, &l->value, PLIM_VALUE, lora);
    plim_lora_target(t, model, &l->attended.dense, PLIM_DENSE, lora);
    plim_lora_target(t, model, &l->intermediate, PLIM_DENSE, lora);
    plim_lora_target(t, model, &l->fed.dense, PLIM_DENSE, lora);
  }
  plim_lora_target(t, model, &m->pooler, PLIM_DENSE, lora);
  plim_lora_target(t, model, &m->head.dense, PLIM_DENSE, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *split_heads(plim_tape *t, plim_tensor *x, int64_t head_dim) { // (B,H,T,D)
  plim_dims shape = dims(x->shape.at[0], x->shape.at[1], -1, head_dim);
  return transpose(t, view(t, x, shape), 1, 2);
}

static plim_tensor *projected(plim_tape *t, const plim_bert *m, const plim_linear *l,
                              plim_tensor *x) {
  return split_heads(t, plim_linear_forward(t, l, x), m->c.head_dim);
}

static plim_tensor *eager_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                    plim_tensor *mask, double dropout_p, plim_tensor **kept) {
  plim_tensor *weights = NULL, *out = NULL;
  set(t, &weights, mul_scalar(t, matmul(t, q, transpose(t, k, 2, 3))));
  if (mask) set(t, &weights, add(t, weights, mask));
  plim_dtype dtype = plim_autocast_is_on(t) ? PLIM_FP32 : (plim_dtype)weights->dtype;
  set(t, &weights, softmax(t, weights, dtype));
  set(t, &weights, dropout(t, weights, dropout_p));
  set(t, &out, matmul(t, weights, v));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  set(t, kept, give(t, &weights));
  return give(t, &out);
}

static plim_tensor *attend(plim_tape *t, const layer_call *call, plim_tensor *q, plim_tensor *k,
                           plim_tensor *v, plim_tensor *mask, plim_tensor **weights) {
  double dropout_p = call->m->c.attention_dropout;
  if (call->attention == PLIM_ATTENTION_EAGER)
    return eager_attention(t, q, k, v, mask, dropout_p, weights);
  if (call->attention == PLIM_ATTENTION_FLASH)
    return plim_flash_attention(t, q, k, v, (plim_flash_options){mask, .dropout_p = dropout_p});
  return contiguous(t, transpose(t, full_attention(t, q, k, v, mask, dropout_p), 1, 2));
}

static plim_tensor *self_attention(plim_tape *t, const layer_call *call, plim_tensor *x,
                                   plim_tensor *mask, plim_tensor **weights) {
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  set(t, &q, projected(t, call->m, &call->l->query, x));
  set(t, &k, projected(t, call->m, &call->l->key, x));
  set(t, &v, projected(t, call->m, &call->l->value, x));
  set(t, &out, attend(t, call, q, k, v, mask, weights));
  set(t, &out, contiguous(t, reshape(t, out, dims(batch, length, -1))));
  drop(t, &q);
  drop(t, &k);
  drop(t, &v);
  return give(t, &out);
}

enum { HELD_MASK };

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer_call *call = context;
  double dropout_p = call->m->c.dropout;
  plim_tensor *attended = NULL, *weights = NULL, *fed = NULL;
  set(t, &attended, self_attention(t, call, x, held[HELD_MASK], &weights));
  set(t, &attended, plim_encoder_output_forward(t, &call->l->attended, attended, x, dropout_p));
  set(t, &fed, plim_linear_forward(t, &call->l->intermediate, attended));
  set(t, &fed, gelu(t, fed));
  plim_tensor *out = plim_encoder_output_forward(t, &call->l->fed, fed, attended, dropout_p);
  drop(t, &fed);
  drop(t, &weights);
  drop(t, &attended);
  return out;
}

// The token types come from a buffer of zeros, gathered at the positions.
static plim_tensor *token_types(plim_tape *t, plim_tensor *position_ids, const plim_dims *shape,
                                plim_tensor **gathered) {
  set(t, gathered, empty(t, position_ids->shape, PLIM_I64));
  return expand(t, *gathered, *shape);
}

static plim_tensor *embed(plim_tape *t, const plim_bert *m, const plim_batch *batch) {
  plim_tensor *positions = NULL, *types = NULL, *gathered = NULL, *words = NULL;
  plim_tensor *typed = NULL, *placed = NULL, *out = NULL;
  int64_t length = batch->ids->shape.at[1];
  if (m->c.counts_positions) set(t, &positions, plim_positions_from_ids(t, batch->ids, true));
  else set(t, &positions, slice(t, m->position_ids, 1, 0, length));
  set(t, &types, token_types(t, positions, &batch->ids->shape, &gathered));
  set(t, &words, embedding(t, m->words, batch->ids));
  if (batch->checkpoint) words->requires_grad = true; // enable_input_require_grads
  set(t, &typed, embedding(t, m->token_types, types));
  set(t, &out, add(t, words, typed));
  set(t, &placed, embedding(t, m->positions, positions));
  set(t, &out, add(t, out, placed));
  set(t, &out, plim_norm_forward(t, &m->norm, out));
  set(t, &out, dropout(t, out, m->c.dropout));
  plim_tensor **gone[] = {&types, &positions, &words, &gathered, &typed, &placed};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) drop(t, gone[i]);
  return give(t, &out);
}

static plim_tensor *encode(plim_tape *t, plim_bert *m, const plim_batch *batch) {
  plim_tensor *embedded = NULL, *mask = NULL, *hidden = NULL;
  set(t, &embedded, embed(t, m, batch));
  set(t, &mask,
      plim_bidirectional_mask(t, batch->attention, batch->mask_kind, embedded->shape.at[1],
                              embedded, batch->mask));
  set(t, &hidden, embedded);
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->calls[i] = (layer_call){m, &m->layers[i], batch->attention};
    plim_closure call = {run_layer, &m->calls[i], {mask}, .positional = 1};
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
  }
  if (m->pooler.weight) set(t, &m->model.extra, plim_pooler_forward(t, &m->pooler, hidden));
  drop(t, &mask);
  drop(t, &embedded);
  return give(t, &hidden);
}

static plim_tensor *forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                            plim_tensor **output) {
  plim_bert *m = (plim_bert *)model;
  plim_tensor *hidden = encode(t, m, batch);
  if (!model->is_bare) return plim_masked_head_forward(t, &m->head, hidden, batch, output);
  set(t, output, hidden);
  return NULL;
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_bert_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_bert *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->model = (plim_model){.forward = forward,
                          .add_lora = add_lora,
                          .destroy = destroy,
                          .is_bare = config->head == PLIM_HEAD_NONE,
                          .has_aligned_labels = true};
  m->c = *config;
  m->layers = calloc((size_t)config->layers, sizeof *m->layers);
  m->calls = calloc((size_t)config->layers, sizeof *m->calls);
  if (m->layers && m->calls) build(t, m, dtype);
  else m->model.failed = true;
  return plim_model_finish(&m->model);
}
