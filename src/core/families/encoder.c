#include "encoder.h"

#include "kernels.h"
#include "loss.h"
#include "ops.h"

#include "op_names.h"

// ---- parts of layers ------------------------------------------------------------------------------

plim_linear plim_encoder_square(plim_tape *t, plim_encoder *e, plim_projection projection,
                                plim_dtype dtype) {
  return plim_linear_new(t, &e->model, projection, e->c.hidden, e->c.hidden, true, dtype);
}

plim_linear plim_encoder_dense(plim_tape *t, plim_model *m, const char *module, int64_t out,
                               int64_t in, plim_dtype dtype) {
  plim_linear dense = plim_linear_new(t, m, PLIM_DENSE, out, in, true, dtype);
  dense.name = module;
  return dense;
}

plim_encoder_output plim_encoder_output_new(plim_tape *t, plim_model *m, const char *module,
                                            int64_t out, int64_t in, plim_dtype dtype) {
  plim_encoder_output o = {.dense = plim_encoder_dense(t, m, module, out, in, dtype)};
  o.norm = plim_norm_new(t, m, out, dtype);
  return o;
}

plim_tensor *plim_encoder_output_forward(plim_tape *t, const plim_encoder_output *o, plim_tensor *x,
                                         plim_tensor *residual, double dropout_p) {
  plim_tensor *hidden = NULL;
  set(t, &hidden, plim_linear_forward(t, &o->dense, x));
  set(t, &hidden, dropout(t, hidden, dropout_p));
  set(t, &hidden, plim_norm_forward(t, &o->norm, add(t, hidden, residual)));
  return give(t, &hidden);
}

// ---- positions ------------------------------------------------------------------------------------

plim_tensor *plim_positions_from_ids(plim_tape *t, plim_tensor *ids, bool adds_past) {
  plim_tensor *is_token = NULL, *counted = NULL;
  plim_tensor *differs = k_binary_as(t, ids, NULL, PLIM_BOOL);
  set(t, &is_token, to(t, differs, PLIM_I32));
  plim_tensor *sums = to(t, k_running_sum(t, is_token), PLIM_I32);
  if (adds_past) sums = add_scalar(t, sums);
  set(t, &counted, mul(t, sums, is_token));
  plim_tensor *positions = add_scalar(t, to(t, counted, PLIM_I64));
  drop_all(t, &is_token, &counted);
  return positions;
}

// ---- the head for masked tokens -------------------------------------------------------------------

// A module's own parameters come before those of its parts.
static void put_last_parameter_at(plim_model *m, size_t index) {
  plim_tensor *last = m->parameters.at[m->parameters.len - 1];
  for (size_t i = m->parameters.len - 1; i > index; i--)
    m->parameters.at[i] = m->parameters.at[i - 1];
  m->parameters.at[index] = last;
}

// The projection is made with a weight and a bias of its own, and the head with another bias; tying
// lets go of the weight, and pads the bias twice, by nothing.
static void tie(plim_tape *t, plim_model *m, plim_masked_head *h, plim_tensor *words) {
  plim_dims shape = dims(words->shape.at[0]);
  plim_dtype dtype = (plim_dtype)words->dtype;
  plim_tensor *weight = empty(t, words->shape, dtype);
  plim_tensor *first = empty(t, shape, dtype), *second = empty(t, shape, dtype);
  plim_consume(t, weight);
  plim_tensor *padded = empty(t, shape, dtype);
  plim_consume(t, first);
  plim_consume(t, padded);
  h->weight = words;
  h->bias = plim_model_parameter(t, m, shape, dtype);
  plim_consume(t, second);
  m->padded = h->bias;
}

static plim_masked_head masked_head_new(plim_tape *t, plim_model *m, plim_tensor *words,
                                        bool is_tied) {
  int64_t rows = words->shape.at[0], width = words->shape.at[1];
  plim_dtype dtype = (plim_dtype)words->dtype;
  size_t index = m->parameters.len;
  plim_masked_head h = {.dense = plim_encoder_dense(t, m, "transform", width, width, dtype)};
  h.norm = plim_norm_new(t, m, width, dtype);
  if (is_tied) tie(t, m, &h, words);
  else {
    h.weight = plim_model_parameter(t, m, words->shape, dtype);
    h.bias = plim_model_parameter(t, m, dims(rows), dtype);
    plim_model_parameter(t, m, dims(rows), dtype); // the head's own, which nothing uses
  }
  if (!m->failed) put_last_parameter_at(m, index);
  return h;
}

// The loss. `hidden` is let go when it and the logits are there.
static plim_tensor *masked_head_forward(plim_tape *t, const plim_masked_head *h,
                                        plim_tensor *hidden, const plim_batch *batch,
                                        plim_tensor **logits) {
  plim_tensor *scores = NULL;
  bool was = hold(hidden);
  set(t, &scores, plim_linear_forward(t, &h->dense, hidden));
  set(t, &scores, gelu(t, scores));
  set(t, &scores, plim_norm_forward(t, &h->norm, scores));
  plim_purpose purpose_was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "decoder");
  plim_tensor *input = plim_part_enter(t, PLIM_PART_HEAD, scores);
  set(t, &scores, plim_part_leave(t, PLIM_PART_HEAD, linear(t, input, h->weight, h->bias)));
  plim_tensor *loss = plim_masked_loss(t, scores, batch->labels);
  plim_tape_purpose(t, purpose_was);
  set(t, logits, give(t, &scores));
  let_go(t, hidden, was);
  return loss;
}

// ---- the encoder ----------------------------------------------------------------------------------

void *plim_encoder_new(size_t bytes, const plim_config *c, plim_model methods) {
  methods.forward = plim_encoder_forward;
  methods.is_bare = c->head == PLIM_HEAD_NONE;
  methods.has_aligned_labels = true;
  plim_encoder *e = plim_model_new(bytes, methods);
  if (e) e->c = *c;
  return e;
}

void plim_encoder_build_end(plim_tape *t, plim_encoder *e, plim_dtype dtype) {
  int64_t h = e->c.hidden;
  if (e->model.is_bare) e->pooler = plim_encoder_dense(t, &e->model, "pooler", h, h, dtype);
  plim_consume(t, empty(t, e->position_ids->shape, PLIM_I64)); // made again at initialisation
  if (!e->model.is_bare) e->head = masked_head_new(t, &e->model, e->words, e->c.ties_embeddings);
}

void plim_encoder_end_lora(plim_tape *t, plim_encoder *e, const plim_lora *lora) {
  plim_lora_add_all(t, &e->model, lora, &e->pooler, &e->head.dense);
}

void plim_encoder_pool(plim_tape *t, plim_encoder *e, plim_tensor *hidden) {
  if (!e->model.is_bare) return;
  plim_tensor *first = NULL, *pooled = NULL;
  set(t, &first, select_first(t, hidden, 1));
  set(t, &pooled, plim_linear_forward(t, &e->pooler, first));
  set(t, &pooled, tanh_(t, pooled));
  drop(t, &first);
  set(t, &e->model.extra, give(t, &pooled));
}

plim_tensor *plim_encoder_forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                                  plim_tensor **output) {
  plim_encoder *e = (plim_encoder *)model;
  plim_tensor *hidden = model->inner(t, model, batch);
  if (!model->is_bare) return masked_head_forward(t, &e->head, hidden, batch, output);
  set(t, output, hidden);
  return NULL;
}
