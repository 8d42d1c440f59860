#include "sharding.h"

#include <stdlib.h>

#include "modules.h"
#include "tape_state.h"
#include "traffic.h"
#include "work.h"

#include "tape_names.h"

const char *const plim_strategy_names[PLIM_STRATEGIES + 1] = {
    [PLIM_SHARD_NONE] = "none",   [PLIM_SHARD_DDP] = "ddp",     [PLIM_SHARD_FSDP2] = "fsdp2",
    [PLIM_SHARD_ZERO1] = "zero1", [PLIM_SHARD_ZERO2] = "zero2", [PLIM_SHARD_ZERO3] = "zero3",
};

static int64_t given_or(int64_t given, int64_t otherwise) { return given ? given : otherwise; }

// Defaults of runtime/zero/config.py in DeepSpeed 0.19.
plim_zero_sizes plim_zero_sizes_of(const plim_sharding *how) {
  const plim_zero_sizes *given = &how->sizes;
  return (plim_zero_sizes){.reduce_bucket = given_or(given->reduce_bucket, 500000000),
                           .sub_group = given_or(given->sub_group, 1000000000),
                           .prefetch = given_or(given->prefetch, 50000000),
                           .live = given_or(given->live, 1000000000),
                           .reuse = given_or(given->reuse, 1000000000),
                           .persistent = given_or(given->persistent, 100000)};
}

typedef plim_shards *constructor(plim_tape *t, plim_model *m, const plim_sharding *how,
                                 size_t layers);

static constructor *const constructors[PLIM_STRATEGIES] = {
    [PLIM_SHARD_DDP] = plim_ddp_new,     [PLIM_SHARD_FSDP2] = plim_fsdp_new,
    [PLIM_SHARD_ZERO1] = plim_zero_new,  [PLIM_SHARD_ZERO2] = plim_zero_new,
    [PLIM_SHARD_ZERO3] = plim_zero3_new,
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
  bool is_partly = m->is_partly_trained;
  for (; is_partly && k < m->parameters.len && !m->parameters.at[k]->behind; k++)
    visit(context, m->parameters.at[k], k);
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
  s->world = how->world;
  return plim_wrap(t, m, s);
}

// ---- host memory ------------------------------------------------------------------------------------

uint64_t plim_pinned_bytes(uint64_t bytes) {
  uint64_t power = 1;
  while (power < bytes) power *= 2;
  return bytes ? power : 0;
}

// The reference, or the teacher, gets no gradients.
static uint64_t reference_bytes(const plim_model *m) {
  const plim_shards *s = m->reference ? m->reference->shards : NULL;
  return s ? s->pinned_bytes - s->gradient_bytes : 0;
}

uint64_t plim_host_bytes(const plim_model *m, const plim_optimizer *o) {
  const plim_shards *s = m->shards;
  if (!s) return 0;
  return s->pinned_bytes + (uint64_t)plim_optimizer_moments(o) * s->moment_bytes +
         reference_bytes(m);
}
