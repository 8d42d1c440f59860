#include "sharding.h"

#include <stdlib.h>

#include "modules.h"
#include "tape_impl.h"
#include "traffic.h"
#include "work.h"

const char *const plim_strategy_names[PLIM_STRATEGIES + 1] = {
    [PLIM_SHARD_NONE] = "none",   [PLIM_SHARD_DDP] = "ddp",     [PLIM_SHARD_FSDP2] = "fsdp2",
    [PLIM_SHARD_ZERO1] = "zero1", [PLIM_SHARD_ZERO2] = "zero2", [PLIM_SHARD_ZERO3] = "zero3",
};

static int64_t said_or(int64_t said, int64_t otherwise) { return said ? said : otherwise; }

// runtime/zero/config.py of DeepSpeed 0.19.
plim_zero_sizes plim_zero_sizes_of(const plim_sharding *how) {
  const plim_zero_sizes *said = &how->sizes;
  return (plim_zero_sizes){.reduce_bucket = said_or(said->reduce_bucket, 500000000),
                           .sub_group = said_or(said->sub_group, 1000000000),
                           .prefetch = said_or(said->prefetch, 50000000),
                           .live = said_or(said->live, 1000000000),
                           .reuse = said_or(said->reuse, 1000000000),
                           .persistent = said_or(said->persistent, 100000)};
}

typedef plim_shards *constructor(plim_tape *t, plim_model *m, const plim_sharding *how,
                                 size_t layers);

static constructor *const constructors[PLIM_STRATEGIES] = {
    [PLIM_SHARD_DDP] = plim_ddp_new,     [PLIM_SHARD_FSDP2] = plim_fsdp_new,
    [PLIM_SHARD_ZERO1] = plim_zero_new,  [PLIM_SHARD_ZERO2] = plim_zero_new,
    [PLIM_SHARD_ZERO3] = plim_zero3_new,
};

struct layer_call {
  plim_shards *shards;
  size_t layer;
  plim_closure call;
};

static size_t layers_of(const plim_model *m) {
  size_t layers = 0;
  for (size_t i = 0; i < m->frozen.len; i++)
    if (m->frozen.at[i]->layer > layers) layers = m->frozen.at[i]->layer;
  for (size_t i = 0; i < m->parameters.len; i++)
    if (m->parameters.at[i]->layer > layers) layers = m->parameters.at[i]->layer;
  return layers;
}

void plim_each_parameter(const plim_model *m, void (*visit)(void *, plim_tensor *, size_t),
                         void *context) {
  size_t k = 0;
  for (size_t i = 0; i < m->frozen.len; i++) {
    visit(context, m->frozen.at[i], SIZE_MAX);
    for (; k < m->parameters.len && m->parameters.at[k]->behind == m->frozen.at[i]; k++)
      visit(context, m->parameters.at[k], k);
  }
  for (; k < m->parameters.len; k++) visit(context, m->parameters.at[k], k);
}

bool plim_shard(plim_tape *t, plim_model *m, const plim_sharding *how) {
  plim_wiring wiring = {how->world, how->nodes, how->link, how->network_gbs};
  plim_traffic_wire(t, &wiring);
  if (!constructors[how->strategy]) return how->strategy == PLIM_SHARD_NONE;
  plim_shards *s = constructors[how->strategy](t, m, how, layers_of(m));
  if (!s) return false;
  s->calls = calloc(s->layers + 1, sizeof *s->calls);
  s->world = how->world;
  m->shards = t->shards = s;
  return s->calls != NULL;
}

void plim_shards_delete(plim_shards *s) {
  if (!s) return;
  free(s->calls);
  s->destroy(s);
}

// ---- the CPU's memory -------------------------------------------------------------------------------

uint64_t plim_pinned_bytes(uint64_t bytes) {
  uint64_t power = 1;
  while (power < bytes) power *= 2;
  return bytes ? power : 0;
}

uint64_t plim_host_bytes(const plim_model *m, const plim_optimizer *o) {
  const plim_shards *s = m->shards;
  if (!s) return 0;
  return s->pinned_bytes + (uint64_t)plim_optimizer_moments(o) * s->moment_bytes;
}

// ---- calls ----------------------------------------------------------------------------------------

// Modules beside linear ones and norms, which count themselves. Around the layers: the model and the one inside it,
// its embedding, its rotary embedding and its head. In a layer: itself, its attention, its MLP and the activation.
enum { MODULES_AROUND_LAYERS = 5, MODULES_OF_A_LAYER = 4 };

plim_tensor *plim_call_model(plim_tape *t, plim_model *m, const plim_batch *batch,
                             plim_tensor **logits) {
  plim_shards *s = m->shards;
  if (s) s->next_layer = 0;
  if (s && s->before_model) s->before_model(t, s);
  plim_work_modules(t, MODULES_AROUND_LAYERS);
  plim_tensor *loss = m->forward(t, m, batch, logits);
  plim_tensor *out = loss ? loss : *logits; // a bare encoder has no loss of its own
  if (s && s->after_model && out) out = s->after_model(t, s, out);
  return loss ? out : NULL;
}

// A layer that is computed again finds its parameters there: the hook of its output has seen to it.
static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const struct layer_call *c = context;
  plim_shards *s = c->shards;
  plim_work_modules(t, MODULES_OF_A_LAYER);
  if (t->is_recomputing || !s->before_layer) return c->call.function(t, c->call.context, held, x);
  plim_tensor *input = s->before_layer(t, s, c->layer, x);
  bool was = hold(input);
  plim_tensor *out = c->call.function(t, c->call.context, held, input);
  s->after_layer(t, s, c->layer, out);
  let_go(t, input, was);
  return out;
}

plim_tensor *plim_call_sharded_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                                     plim_tensor *x) {
  plim_shards *s = t->shards;
  size_t layer = s->next_layer++;
  if (layer >= s->layers) return plim_call_plain_layer(t, kind, call, x);
  s->calls[layer] = (struct layer_call){s, layer, call};
  plim_closure wrapped = call;
  wrapped.function = run_layer;
  wrapped.context = &s->calls[layer];
  return plim_call_plain_layer(t, kind, wrapped, x);
}

plim_tensor *plim_part_enter(plim_tape *t, plim_part part, plim_tensor *x) {
  t->parts |= (uint8_t)(1u << part);
  if (!t->shards || !t->shards->before_part) return x;
  plim_tensor *input = t->shards->before_part(t, t->shards, part, x);
  if (input != x) plim_consume(t, x);
  return input;
}

plim_tensor *plim_part_leave(plim_tape *t, plim_part part, plim_tensor *out) {
  t->parts &= (uint8_t) ~(1u << part);
  if (t->shards && t->shards->after_part) t->shards->after_part(t, t->shards, part, out);
  return out;
}

static bool has_module_hooks(const plim_tape *t, const plim_tensor *weight) {
  return t->shards && t->shards->before_module && weight->sharded;
}

void plim_module_enter(plim_tape *t, plim_tensor *weight, plim_tensor *bias) {
  weight->module = PLIM_MODULE_WEIGHT;
  if (bias) bias->module = PLIM_MODULE_BIAS;
  if (has_module_hooks(t, weight)) t->shards->before_module(t, t->shards, weight->sharded);
}

plim_tensor *plim_module_leave(plim_tape *t, const plim_tensor *weight, plim_tensor *out) {
  if (has_module_hooks(t, weight)) t->shards->after_module(t, t->shards, weight->sharded, out);
  return out;
}

void plim_after_backward(plim_tape *t) {
  if (t->shards && t->shards->after_backward) t->shards->after_backward(t, t->shards);
}
