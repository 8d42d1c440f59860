#include "encoder.h"

#include <stdio.h>

#include "family.h"
#include "heads.h"
#include "kernels.h"
#include "loss.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// ---- parts of layers ------------------------------------------------------------------------------

plim_linear plim_encoder_square(plim_tape *t, plim_encoder *e, const char *path, plim_dtype dtype) {
  return plim_linear_new(t, &e->model, path, e->c.hidden, e->c.hidden, true, dtype);
}

plim_linear plim_encoder_named(plim_tape *t, plim_model *m, const char *module, const char *path,
                               int64_t out, int64_t in, plim_dtype dtype) {
  plim_linear dense = plim_linear_new(t, m, path, out, in, true, dtype);
  dense.name = module;
  return dense;
}

plim_encoder_output plim_encoder_output_of(plim_tape *t, plim_model *m, plim_linear dense,
                                           plim_dtype dtype) {
  plim_encoder_output o = {.dense = dense};
  o.norm = plim_norm_new(t, m, dense.weight->shape.at[0], dtype);
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

plim_encoder_layer plim_encoder_layer_new(plim_tape *t, plim_encoder *e, const char *const paths[3],
                                          plim_dtype dtype) {
  int64_t h = e->c.hidden, i = e->c.intermediate;
  plim_encoder_layer l = {.query = plim_encoder_square(t, e, paths[0], dtype)};
  l.key = plim_encoder_square(t, e, paths[1], dtype);
  l.value = plim_encoder_square(t, e, paths[2], dtype);
  l.attended = plim_encoder_output_new(t, &e->model, "attention.output", h, h, dtype);
  l.intermediate = plim_encoder_dense(t, &e->model, "intermediate", i, h, dtype);
  l.fed = plim_encoder_output_new(t, &e->model, "output", h, i, dtype);
  return l;
}

void plim_encoder_layer_lora(plim_tape *t, plim_encoder *e, const plim_lora *lora,
                             const char *place, int64_t i, plim_encoder_layer *l) {
  plim_lora_add_all(t, &e->model, lora, place, i, &l->query, &l->key, &l->value, &l->attended.dense,
                    &l->intermediate, &l->fed.dense);
}

// ---- masks ----------------------------------------------------------------------------------------

plim_tensor *plim_encoder_mask(plim_tape *t, plim_attention_kind attention, const plim_batch *batch,
                               plim_tensor *embedded, plim_tensor **ones) {
  if (plim_transformers_from(t, 5, 0))
    return plim_bidirectional_mask(t, attention, batch->mask_kind, embedded->shape.at[1], embedded,
                                   batch->mask);
  if (!batch->mask) set(t, ones, empty(t, batch->ids->shape, PLIM_FP32));
  plim_mask_kind kind = batch->mask ? batch->mask_kind : PLIM_MASK_ONES;
  plim_tensor *given = batch->mask ? batch->mask : *ones;
  return plim_extended_mask(t, attention, kind, (plim_dtype)embedded->dtype, given);
}

void plim_encoder_release(plim_tape *t, plim_tensor **ones, plim_tensor **mask,
                          plim_tensor **embedded) {
  drop(t, ones);
  if (!plim_transformers_from(t, 5, 0)) drop(t, embedded);
  drop_all(t, mask, embedded);
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

// The first layer and its norm, then a projection with a weight and a bias of its own. BERT's head has another bias, which
// is tied to the projection's.
static void masked_head_begin(plim_tape *t, plim_encoder *e, plim_dtype dtype) {
  const plim_family *f = e->c.family;
  plim_masked_head *h = &e->head;
  int64_t rows = e->c.vocabulary, width = e->c.embedding;
  h->index = e->model.parameters.len;
  bool has_bias = !f->has_unbiased_transform;
  bool is_bias_early = f->makes_bias_early && e->c.ties_embeddings;
  if (f->norms_first) h->norm = plim_norm_new(t, &e->model, width, dtype);
  if (is_bias_early) set(t, &h->other_bias, empty(t, dims(rows), dtype));
  h->dense = f->transform
                 ? plim_linear_new(t, &e->model, f->transform, width, e->c.hidden, has_bias, dtype)
                 : plim_encoder_dense(t, &e->model, "transform", width, e->c.hidden, dtype);
  if (!f->norms_first)
    h->norm = has_bias ? plim_norm_new(t, &e->model, width, dtype)
                       : plim_norm_new_unbiased(t, &e->model, width, dtype);
  if (e->c.ties_embeddings) {
    bool is_before = !plim_transformers_from(t, 5, 0); // the other bias was the projection's itself
    set(t, &h->weight, empty(t, dims(rows, width), dtype));
    plim_tensor *first = is_before && f->makes_head_bias_twice ? empty(t, dims(rows), dtype) : NULL;
    set(t, &h->bias, empty(t, dims(rows), dtype));
    plim_consume(t, first);
    if (!f->transform && !is_before && !is_bias_early)
      set(t, &h->other_bias, empty(t, dims(rows), dtype));
    return;
  }
  h->weight = plim_model_parameter(t, &e->model, dims(rows, width), dtype);
  h->bias = plim_model_parameter(t, &e->model, dims(rows), dtype);
  if (f->transform) return;
  plim_model_parameter(t, &e->model, dims(rows), dtype); // the head's own, which nothing uses
  if (!e->model.failed) put_last_parameter_at(&e->model, h->index);
}

// Tying lets go of the projection's weight and pads each bias by nothing.
static void masked_head_tie(plim_tape *t, plim_encoder *e) {
  plim_masked_head *h = &e->head;
  if (!e->c.ties_embeddings) return;
  bool is_bias_first = e->c.family->ties_bias_first;
  plim_dims shape = h->bias->shape;
  plim_dtype dtype = (plim_dtype)h->bias->dtype;
  if (is_bias_first) drop(t, &h->bias);
  if (is_bias_first) set(t, &h->other_bias, empty(t, shape, dtype));
  set(t, &h->weight, e->words);
  if (h->bias && h->other_bias) set(t, &h->bias, empty(t, shape, dtype));
  if (h->bias && h->other_bias) drop(t, &h->bias);
  plim_tensor *own = h->other_bias ? h->other_bias : h->bias;
  h->bias = plim_model_parameter(t, &e->model, shape, dtype);
  drop(t, &own);
  h->other_bias = NULL;
  if (!e->c.family->transform && !e->model.failed) put_last_parameter_at(&e->model, h->index);
  e->model.padded = h->bias;
}

// The loss. `hidden` is let go when it and the logits are there.
static plim_tensor *masked_head_forward(plim_tape *t, const plim_encoder *e, plim_tensor *hidden,
                                        const plim_batch *batch, plim_tensor **logits) {
  const plim_masked_head *h = &e->head;
  plim_tensor *scores = NULL;
  bool was = hold(hidden);
  set(t, &scores, plim_linear_forward(t, &h->dense, hidden));
  set(t, &scores, plim_activate(t, e->c.activation, scores));
  set(t, &scores, plim_norm_forward(t, &h->norm, scores));
  plim_purpose purpose_was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "decoder");
  plim_tensor *input = plim_part_enter(t, PLIM_PART_HEAD, scores);
  set(t, &scores, plim_part_leave(t, PLIM_PART_HEAD, linear(t, input, h->weight, h->bias)));
  plim_tensor *loss = e->c.family->calls_other_losses
                          ? plim_wide_loss(t, scores, batch->labels, batch->items)
                          : plim_masked_loss(t, scores, batch->labels);
  plim_tape_purpose(t, purpose_was);
  set(t, logits, give(t, &scores));
  let_go(t, hidden, was);
  return loss;
}

// ---- the encoder ----------------------------------------------------------------------------------

// warn_if_padding_and_no_attention_mask: whether input_ids[:, [-1, 0]] holds a padding token.
void plim_encoder_look_for_padding(plim_tape *t, const plim_batch *batch) {
  if (batch->mask) return;
  plim_dims shape = dims(batch->ids->shape.at[0], 2);
  plim_tensor *index = empty(t, dims(2), PLIM_I64), *ends = empty(t, shape, PLIM_I64);
  plim_consume(t, index);
  plim_tensor *is_padding = empty(t, shape, PLIM_BOOL);
  plim_tensor *any = k_all(t, is_padding);
  consume_all(t, is_padding, any, ends);
}

static void head_new(plim_tape *t, plim_encoder *e, plim_dtype dtype) {
  if (plim_returns_labels(e->c.head)) plim_label_head_new(t, &e->model, &e->c, dtype);
  if (e->c.head == PLIM_HEAD_MASKED) masked_head_begin(t, e, dtype);
}

void plim_encoder_build_begin(plim_tape *t, plim_encoder *e, plim_dtype dtype) {
  if (e->c.family->makes_head_first) head_new(t, e, dtype);
}

void plim_encoder_build_end(plim_tape *t, plim_encoder *e, plim_dtype dtype) {
  int64_t h = e->c.hidden;
  if (plim_needs_pooler(&e->c)) e->pooler = plim_encoder_dense(t, &e->model, "pooler", h, h, dtype);
  if (e->position_ids && plim_transformers_from(t, 5, 0)) // made again at initialisation
    plim_consume(t, empty(t, e->position_ids->shape, PLIM_I64));
  if (!e->c.family->makes_head_first) head_new(t, e, dtype);
  if (e->c.head == PLIM_HEAD_MASKED) masked_head_tie(t, e);
}

void plim_encoder_place(const plim_encoder *e, char place[PLIM_PLACE_BYTES]) {
  const char *layers = e->layers ? e->layers : "encoder.layer";
  if (e->model.is_bare) snprintf(place, PLIM_PLACE_BYTES, "%s", layers);
  else
    snprintf(place, PLIM_PLACE_BYTES, "%s.%s", e->prefix ? e->prefix : e->c.family->model_type,
             layers);
}

void plim_encoder_end_lora(plim_tape *t, plim_encoder *e, const plim_lora *lora) {
  plim_lora_add_all(t, &e->model, lora, e->c.family->model_type, -1, &e->pooler, &e->head.dense);
  plim_label_head_lora(t, &e->model, lora);
}

void plim_encoder_pool(plim_tape *t, plim_encoder *e, plim_tensor *hidden) {
  if (!e->pooler.weight) return;
  plim_tensor *first = NULL, *pooled = NULL;
  set(t, &first, select_index(t, hidden, 1));
  set(t, &pooled, plim_linear_forward(t, &e->pooler, first));
  set(t, &pooled, tanh_(t, pooled));
  drop(t, &first);
  set(t, &e->model.extra, give(t, &pooled));
}

plim_tensor *plim_encoder_forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                                  plim_tensor **output) {
  plim_encoder *e = (plim_encoder *)model;
  plim_tensor *hidden = model->inner(t, model, batch);
  if (!model->is_bare) return masked_head_forward(t, e, hidden, batch, output);
  set(t, output, hidden);
  return NULL;
}

plim_model *plim_encoder_new(plim_tape *t, const plim_config *c, plim_dtype dtype,
                             const plim_encoder_code *code) {
  plim_encoder *e =
      plim_model_new(code->bytes, (plim_model){.inner = code->forward, .add_lora = code->add_lora});
  if (!e) return NULL;
  e->c = *c;
  e->model.forward = plim_encoder_forward;
  e->model.is_bare = c->head == PLIM_HEAD_NONE;
  e->model.has_aligned_labels = true;
  e->model.has_token_types = code->has_token_types;
  void *layers = plim_model_array(&e->model, c->layers, code->layer_bytes);
  *(void **)(void *)((char *)e + code->layers_at) = layers;
  if (layers) code->build(t, e, dtype);
  return plim_model_finish(&e->model);
}
