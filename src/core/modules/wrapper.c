#include "wrapper.h"

#include <stdlib.h>

#include "modules.h"
#include "tape_state.h"
#include "trained.h"
#include "work.h"

#include "tape_names.h"

struct layer_call {
  plim_shards *shards;
  size_t layer;
  plim_closure call;
};

bool plim_wrap(plim_tape *t, plim_model *m, plim_shards *s) {
  s->calls = calloc(s->layers + 1, sizeof *s->calls);
  m->shards = plim_state(t)->shards = s;
  return s->calls != NULL;
}

void plim_shards_delete(plim_shards *s) {
  if (!s) return;
  free(s->calls);
  s->destroy(s);
}

// Modules other than linear layers and norms, which count themselves. Around the layers: the model and its inner
// model, the embedding, the rotary embedding and the head. In a layer: itself, attention, MLP and activation.
enum { MODULES_AROUND_LAYERS = 5, MODULES_OF_A_LAYER = 4 };

plim_shards *plim_begin_call(plim_tape *t, plim_model *m) {
  plim_shards *s = m->shards, *was = plim_state(t)->shards;
  plim_state(t)->shards = s; // of two models, each has its own
  if (s) s->next_layer = 0;
  if (s && s->before_model) s->before_model(t, s);
  plim_work_modules(t, MODULES_AROUND_LAYERS);
  return was;
}

plim_tensor *plim_end_call(plim_tape *t, plim_model *m, plim_tensor *out, plim_shards *was) {
  plim_shards *s = m->shards;
  if (s && s->after_model && out) out = s->after_model(t, s, out);
  plim_state(t)->shards = was;
  return out;
}

// torchtune's LinearCrossEntropyLoss calls the head itself, after the model has returned its last hidden states.
static plim_tensor *call_without_head(plim_tape *t, plim_model *m, const plim_batch *batch) {
  plim_shards *was = plim_begin_call(t, m);
  plim_tensor *hidden = plim_end_call(t, m, m->inner(t, m, batch), was);
  plim_tensor *loss = plim_head_in_eighths(t, m, hidden, batch);
  drop(t, &m->embedded);
  return loss;
}

// The loop computes the loss from the logits that the sharded model has returned.
static plim_tensor *call_for_logits(plim_tape *t, plim_model *m, const plim_batch *batch,
                                    plim_tensor **logits) {
  plim_batch inputs = *batch;
  inputs.labels = NULL;
  plim_shards *was = plim_begin_call(t, m);
  m->forward(t, m, &inputs, logits);
  plim_end_call(t, m, *logits, was);
  plim_saving saving_was = plim_saves_loss(t);
  plim_purpose purpose_was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tensor *loss = plim_causal_loss(t, *logits, batch->labels, batch->items);
  plim_tape_purpose(t, purpose_was);
  plim_saves(t, saving_was);
  return loss;
}

plim_tensor *plim_call_model(plim_tape *t, plim_model *m, const plim_batch *batch,
                             plim_tensor **logits) {
  bool is_full = batch->loss == PLIM_LOSS_FULL && m->forward == plim_causal_forward;
  if (is_full && m->shards && batch->labels && plim_saves_model_alone(t))
    return call_for_logits(t, m, batch, logits);
  if (batch->loss == PLIM_LOSS_EIGHTHS && m->forward == plim_causal_forward)
    return call_without_head(t, m, batch);
  plim_shards *was = plim_begin_call(t, m);
  plim_tensor *loss = m->forward(t, m, batch, logits);
  bool is_of_logits = !loss || batch->scores_again; // some return no loss
  plim_tensor *out = plim_end_call(t, m, is_of_logits ? *logits : loss, was);
  return is_of_logits ? loss : out;
}

static plim_tensor *call_closure(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                                 plim_tensor *x) {
  switch (kind) {
  case PLIM_CHECKPOINT_ON: return checkpoint(t, call, x);
  case PLIM_CHECKPOINT_REENTRANT: return checkpoint_reentrant(t, call, x);
  case PLIM_CHECKPOINT_OFFLOADED: return checkpoint_offloaded(t, call, x);
  default: return call.function(t, call.context, call.held, x);
  }
}

// LLaMA-Factory: a layer without trained parameters runs without a checkpoint; the input of others needs a gradient.
static plim_checkpoint_kind kind_of_layer(plim_tape *t, plim_checkpoint_kind kind, plim_tensor *x) {
  const plim_tape_state *s = plim_const_state(t);
  if (!kind || !s->partly || !s->checkpoints_trained) return kind;
  if (!plim_layer_is_trained(s->partly, plim_tape_point(t).layer)) return PLIM_CHECKPOINT_OFF;
  x->requires_grad = true;
  return kind;
}

static plim_tensor *call_plain_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                                     plim_tensor *x) {
  plim_tape_enter_layer(t);
  kind = kind_of_layer(t, kind, x);
  plim_tensor *out = call_closure(t, kind, call, x);
  plim_tape_enter(t, -1, NULL);
  return out;
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const struct layer_call *c = context;
  plim_shards *s = c->shards;
  plim_work_modules(t, MODULES_OF_A_LAYER);
  if (!s->before_layer) return c->call.function(t, c->call.context, held, x);
  plim_tensor *input = s->before_layer(t, s, c->layer, x);
  bool was = hold(input);
  plim_tensor *out = c->call.function(t, c->call.context, held, input);
  s->after_layer(t, s, c->layer, out);
  let_go(t, input, was);
  return out;
}

static plim_tensor *call_wrapped_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                                       plim_tensor *x) {
  plim_shards *s = plim_state(t)->shards;
  size_t layer = s->next_layer++;
  if (layer >= s->layers) return call_plain_layer(t, kind, call, x);
  s->calls[layer] = (struct layer_call){s, layer, call};
  plim_closure wrapped = call;
  wrapped.function = run_layer;
  wrapped.context = &s->calls[layer];
  return call_plain_layer(t, kind, wrapped, x);
}

plim_tensor *plim_call_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                             plim_tensor *x) {
  return plim_state(t)->shards ? call_wrapped_layer(t, kind, call, x)
                               : call_plain_layer(t, kind, call, x);
}

plim_tensor *plim_part_enter(plim_tape *t, plim_part part, plim_tensor *x) {
  plim_state(t)->parts |= (uint8_t)(1u << part);
  if (!plim_state(t)->shards || !plim_state(t)->shards->before_part) return x;
  plim_tensor *input = plim_state(t)->shards->before_part(t, plim_state(t)->shards, part, x);
  if (input != x) plim_consume(t, x);
  return input;
}

plim_tensor *plim_part_leave(plim_tape *t, plim_part part, plim_tensor *out) {
  plim_state(t)->parts &= (uint8_t) ~(1u << part);
  if (plim_state(t)->shards && plim_state(t)->shards->after_part)
    plim_state(t)->shards->after_part(t, plim_state(t)->shards, part, out);
  return out;
}

static bool has_module_hooks(const plim_tape *t, const plim_tensor *weight) {
  return plim_const_state(t)->shards && plim_const_state(t)->shards->before_module &&
         weight->sharded;
}

void plim_module_enter(plim_tape *t, plim_tensor *weight, plim_tensor *bias) {
  weight->module = PLIM_MODULE_WEIGHT;
  if (bias) bias->module = PLIM_MODULE_BIAS;
  if (has_module_hooks(t, weight))
    plim_state(t)->shards->before_module(t, plim_state(t)->shards, weight->sharded);
}

plim_tensor *plim_module_leave(plim_tape *t, const plim_tensor *weight, plim_tensor *out) {
  if (has_module_hooks(t, weight))
    plim_state(t)->shards->after_module(t, plim_state(t)->shards, weight->sharded, out);
  return out;
}

void plim_after_backward(plim_tape *t) {
  if (plim_state(t)->shards && plim_state(t)->shards->after_backward)
    plim_state(t)->shards->after_backward(t, plim_state(t)->shards);
  plim_saves_clean(t);
}
