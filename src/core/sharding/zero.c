// DeepSpeed ZeRO, stages 1 and 2. The parameters of each optimizer group are stored in one flat buffer on every GPU;
// each GPU updates its partition of it and has a float32 copy and optimizer state only for that. Stage 2 also keeps
// only the gradients of the partition. Follows DeepSpeed 0.19 (runtime/zero/stage_1_and_2.py).
#include <stdlib.h>

#include "rounding.h"
#include "sharding.h"
#include "tape_state.h"
#include "traffic.h"
#include "work.h"
#include "zero_work.h"

#include "tape_names.h"

#define START_ALIGNMENT 2 // elements: all-gathers start at multiples of 4 bytes

typedef struct {
  struct zero *all;
  struct group *in;
  plim_tensor *tensor;
  int64_t offset, elements; // in the flat buffer
} parameter;

// A parameter group of the optimizer.
typedef struct group {
  parameter *parameters;
  size_t count;
  int64_t partition;   // elements
  plim_tensor *flat;   // all parameters of the group
  plim_tensor *master; // this rank's partition in float32; on the host if offloaded
  plim_tensor *tried;  // temporary gradient of initialize_optimizer_states
} group;

enum { MOST_GROUPS = 2 }; // with weight decay and without, as Trainer creates them

typedef struct zero {
  plim_shards shards;
  plim_sharding how;
  int64_t most; // capacity of a bucket in elements
  plim_dtype dtype;
  parameter *parameters; // sorted by group
  size_t count;
  group groups[MOST_GROUPS];
  size_t group_count;
  plim_tensor *staging;    // for one gradient that is copied to the host
  plim_tensor *buffer;     // gradients waiting to be reduced
  plim_tensor *other;      // overlap_comm: the next gradients while those are reduced
  plim_tensor *owned;      // gradients of the partition from this backward
  plim_tensor *averaged;   // gradients of the partition from the whole step
  plim_tensor *norm;       // the last norm of all gradients
  vec(parameter *) bucket; // parameters whose gradients are in the buffer
  int64_t bucket_elements;
  double reduced;   // when the last bucket is reduced
  bool accumulates; // gradients of several passes are added up on the host
} zero;

static bool keeps_gradients(const zero *z) { return z->how.strategy == PLIM_SHARD_ZERO1; }

static bool is_owned(const parameter *p) { return p->offset < p->in->partition; }

// How many elements of the parameter's gradient lie in this rank's partition.
static int64_t owned_elements(const parameter *p) {
  int64_t left = p->in->partition - p->offset;
  return left < p->elements ? left : p->elements;
}

// ---- reducing -------------------------------------------------------------------------------------

// Adjacent gradients in the bucket that go to the same rank form one piece.
static size_t pieces_of(const zero *z) {
  size_t pieces = 0;
  int64_t last_rank = -1;
  for (size_t i = 0; i < z->bucket.len; i++) {
    const parameter *p = z->bucket.at[i];
    int64_t first = p->offset / p->in->partition;
    int64_t last = (p->offset + p->elements - 1) / p->in->partition;
    pieces += (size_t)(last - first) + (first != last_rank);
    last_rank = last;
  }
  return pieces;
}

static int64_t all_owned_elements(const zero *z) {
  int64_t elements = 0;
  for (size_t i = 0; i < z->count; i++)
    if (is_owned(&z->parameters[i])) elements += z->parameters[i].elements;
  return elements;
}

// Norms are computed in float64; the gradient is copied to the host in float32.
static void offload(plim_tape *t, parameter *p) {
  int64_t elements = owned_elements(p);
  plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(elements), PLIM_FP64));
  plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(elements), PLIM_FP32));
  drop(t, &p->tensor->grad);
}

static void keep_owned(plim_tape *t, parameter *p) {
  zero *z = p->all;
  plim_tensor *x = p->tensor;
  if (!z->owned)
    set(t, &z->owned,
        empty_for(t, PLIM_FOR_GRADIENTS, dims(all_owned_elements(z)), (plim_dtype)x->dtype));
  set(t, &x->grad, alias_of(t, z->owned, x->shape, x->stride));
}

static void await_reduced(plim_tape *t, const zero *z) {
  if (keeps_gradients(z)) plim_await_once(t, z->reduced);
  else plim_await(t, z->reduced);
}

// At the end of a step, gradients are copied in float32. Those of several passes are copied to the host and back in
// their own dtype to be added up (async_accumulate_grad_in_cpu_via_gpu).
static void send_to_host(plim_tape *t, zero *z) {
  double elements = (double)z->bucket_elements / (double)z->how.world;
  z->accumulates |= !plim_state(t)->ends_step;
  double own = z->accumulates ? elements * plim_dtype_bytes[z->dtype] : 0;
  double wide = plim_state(t)->ends_step ? 4 * elements : 0;
  if (!z->how.pages_optimizer) {
    z->reduced = plim_copy_to_host(t, wide + 2 * own, z->reduced);
    return;
  }
  z->reduced = plim_copy_pageable(t, own, plim_copy_to_pageable(t, wide + own, z->reduced));
  plim_await_on_host(t, z->reduced);
}

// Reduces on the compute stream, unless overlap_comm is on; then backward waits at its end. A bucket for several ranks
// is all-reduced (use_multi_rank_bucket_allreduce).
static void send_bucket(plim_tape *t, zero *z) {
  double element = plim_dtype_bytes[z->dtype], bytes = (double)z->bucket_elements * element;
  z->reduced = plim_send_reduce(t, bytes, plim_traffic_now(t));
  if (z->how.offloads_optimizer) send_to_host(t, z);
  if (!z->how.overlaps) await_reduced(t, z);
}

static void reduce_bucket(plim_tape *t, zero *z) {
  send_bucket(t, z);
  if (pieces_of(z) > 1)
    plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(z->bucket_elements), z->dtype));
  for (size_t i = 0; i < z->bucket.len; i++) {
    parameter *p = z->bucket.at[i];
    if (!is_owned(p)) {
      if (!keeps_gradients(z)) drop(t, &p->tensor->grad);
    } else if (z->how.offloads_optimizer) offload(t, p);
    else keep_owned(t, p);
  }
  z->bucket.len = 0;
  z->bucket_elements = 0;
}

// A gradient larger than the bucket is not copied.
static void add_to_bucket(plim_tape *t, parameter *p) {
  zero *z = p->all;
  plim_tensor *x = p->tensor;
  zero_work_gradient(t, z->how.offloads_optimizer);
  if (z->bucket_elements + p->elements > z->most) reduce_bucket(t, z);
  if (p->elements <= z->most) set(t, &x->grad, alias_of(t, z->buffer, x->shape, x->stride));
  z->bucket_elements += p->elements;
  if (!vec_push(&z->bucket, p)) plim_state(t)->failed = true;
}

static void on_grad(plim_tape *t, void *context) {
  parameter *p = context;
  zero *z = p->all;
  if (!z->buffer) set(t, &z->buffer, empty_for(t, PLIM_FOR_GRADIENTS, dims(z->most), z->dtype));
  if (z->how.overlaps && !z->other)
    set(t, &z->other, empty_for(t, PLIM_FOR_GRADIENTS, dims(z->most), z->dtype));
  if (!keeps_gradients(z)) add_to_bucket(t, p);
}

// Gradients of later passes are added in place to those of the first pass of a step.
static void after_engine_backward(plim_tape *t, plim_shards *s, bool is_last) {
  zero *z = (zero *)s;
  if (keeps_gradients(z) && !is_last) return;
  for (size_t i = 0; keeps_gradients(z) && i < z->count; i++)
    if (z->parameters[i].tensor->grad) add_to_bucket(t, &z->parameters[i]);
  reduce_bucket(t, z);
  if (z->how.overlaps) await_reduced(t, z);
  if (!z->averaged && z->owned) set(t, &z->averaged, z->owned);
  drop_all(t, &z->buffer, &z->other, &z->owned);
  for (size_t i = 0; i < z->count; i++) drop(t, &z->parameters[i].tensor->grad);
}

// ---- the step -------------------------------------------------------------------------------------

static int64_t all_partitions(const zero *z) {
  int64_t elements = 0;
  for (size_t i = 0; i < z->group_count; i++) elements += z->groups[i].partition;
  return elements;
}

static void before_step(plim_tape *t, plim_shards *s) {
  zero *z = (zero *)s;
  zero_work_step(t, z->count, z->how.offloads_optimizer ? z->count : 0);
  z->accumulates = false;
  if (z->how.offloads_optimizer) return;
  plim_work_bytes(t, ZERO_STEP_BYTES * (double)all_partitions(z));
  for (size_t i = 0; i < z->count; i++) {
    const parameter *p = &z->parameters[i];
    if (is_owned(p))
      plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(owned_elements(p)), PLIM_FP64));
  }
  set(t, &z->norm, empty_for(t, PLIM_FOR_OPTIMIZER, (plim_dims){0}, PLIM_FP32));
}

static bool is_in_pieces(const group *g) { return g->count > 1 && is_owned(&g->parameters[1]); }

// The optimizer gets the gradients of the group's partition, concatenated and in float32.
static void before_update(plim_tape *t, plim_shards *s, size_t index) {
  zero *z = (zero *)s;
  group *g = &z->groups[index];
  plim_tensor *together = NULL;
  if (is_in_pieces(g)) together = empty_for(t, PLIM_FOR_OPTIMIZER, dims(g->partition), z->dtype);
  set(t, &g->master->grad, empty_for(t, PLIM_FOR_OPTIMIZER, dims(g->partition), PLIM_FP32));
  plim_consume(t, together);
  if (index + 1 == z->group_count) drop(t, &z->averaged);
}

// The updated parameters are all-gathered, after they are copied from the host if they were updated there.
static void after_step(plim_tape *t, plim_shards *s) {
  zero *z = (zero *)s;
  int64_t elements = all_partitions(z);
  double part = (double)elements * plim_dtype_bytes[z->dtype];
  if (z->how.offloads_optimizer) {
    plim_update_by_deepspeed(t, (double)elements);
    double now = plim_traffic_now(t);
    plim_await(t, z->how.pages_optimizer ? plim_copy_pageable(t, part, now)
                                         : plim_copy_from_host(t, part, now));
  }
  plim_await(t, plim_send_gather(t, part * (double)z->how.world, plim_traffic_now(t)));
}

// ---- construction ---------------------------------------------------------------------------------

static void add_parameter(zero *z, group *g, plim_tensor *x) {
  parameter *p = &z->parameters[z->count++];
  const parameter *before = g->count ? p - 1 : NULL;
  int64_t offset = before ? before->offset + before->elements : 0;
  *p = (parameter){z, g, x, offset, plim_numel(&x->shape)};
  x->on_grad = (plim_hook){on_grad, p};
  g->count++;
}

static int64_t elements_of(const group *g) {
  const parameter *last = &g->parameters[g->count - 1];
  return last->offset + last->elements;
}

static void add_group(zero *z, const plim_model *m, bool decaying) {
  int64_t step = START_ALIGNMENT * z->how.world;
  group *g = &z->groups[z->group_count];
  g->parameters = z->parameters + z->count;
  for (size_t i = 0; i < m->parameters.len; i++) {
    plim_tensor *x = m->parameters.at[i];
    bool decays = !m->is_grouped_by_decay || plim_decays(x);
    if (decays == decaying) add_parameter(z, g, x);
  }
  if (!g->count) return;
  g->partition = plim_round_up(elements_of(g), step) / z->how.world;
  z->group_count++;
}

static bool list_parameters(zero *z, const plim_model *m) {
  z->parameters = calloc(m->parameters.len + 1, sizeof *z->parameters);
  if (!z->parameters || !m->parameters.len) return false;
  z->dtype = (plim_dtype)m->parameters.at[0]->dtype;
  add_group(z, m, true);
  add_group(z, m, false);
  return true;
}

static void flatten(plim_tape *t, const zero *z, group *g) {
  int64_t whole = g->partition * z->how.world, missing = whole - elements_of(g);
  plim_tensor *padding = missing ? empty_for(t, PLIM_FOR_WORKSPACE, dims(missing), z->dtype) : NULL;
  set(t, &g->flat, empty(t, dims(whole), z->dtype));
  plim_consume(t, padding);
  for (size_t i = 0; i < g->count; i++) plim_set_data(t, g->parameters[i].tensor, g->flat);
}

static int64_t largest_of(const zero *z) {
  int64_t most = 0;
  for (size_t i = 0; i < z->count; i++)
    if (z->parameters[i].elements > most) most = z->parameters[i].elements;
  return most;
}

// Pinned: masters, their copies in the parameters' dtype, gradients, and a buffer for the largest gradient.
static void count_host(zero *z) {
  uint64_t element = plim_dtype_bytes[z->dtype];
  z->shards.pinned_bytes = plim_pinned_bytes(element * (uint64_t)largest_of(z));
  for (size_t i = 0; i < z->group_count; i++) {
    uint64_t partition = (uint64_t)z->groups[i].partition;
    z->shards.pinned_bytes +=
        2 * plim_pinned_bytes(4 * partition) + plim_pinned_bytes(element * partition);
  }
  z->shards.moment_bytes = 4 * (uint64_t)all_partitions(z);
}

static void make_master(plim_tape *t, const zero *z, group *g) {
  plim_tensor *copy = empty_for(t, PLIM_FOR_WORKSPACE, dims(g->partition), z->dtype);
  if (!z->how.offloads_optimizer)
    set(t, &g->master, empty_for(t, PLIM_FOR_OPTIMIZER, dims(g->partition), PLIM_FP32));
  plim_consume(t, copy);
}

static void try_gradients(plim_tape *t, zero *z) {
  for (size_t i = 0; i < z->group_count; i++)
    set(t, &z->groups[i].tried,
        empty_for(t, PLIM_FOR_WORKSPACE, dims(z->groups[i].partition), PLIM_FP32));
  for (size_t i = 0; i < z->group_count; i++) drop(t, &z->groups[i].tried);
}

// DeepSpeed empties the cache before each group.
static void make_groups(plim_tape *t, zero *z) {
  for (size_t i = 0; i < z->group_count; i++) {
    plim_tape_empty_cache(t);
    flatten(t, z, &z->groups[i]);
    make_master(t, z, &z->groups[i]);
  }
  if (!z->how.offloads_optimizer) {
    try_gradients(t, z);
    return;
  }
  set(t, &z->staging, empty_for(t, PLIM_FOR_WORKSPACE, dims(largest_of(z)), z->dtype));
  count_host(z);
}

static void destroy(plim_shards *s) {
  zero *z = (zero *)s;
  vec_free(&z->bucket);
  free(z->parameters);
  free(z);
}

plim_shards *plim_zero_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers) {
  zero *z = calloc(1, sizeof *z);
  if (!z) return NULL;
  z->shards = (plim_shards){.after_engine_backward = after_engine_backward,
                            .before_step = before_step,
                            .before_update = before_update,
                            .after_step = after_step,
                            .destroy = destroy,
                            .layers = layers,
                            .is_wrapped_late = true};
  z->how = *how;
  z->most = plim_zero_sizes_of(how).reduce_bucket;
  zero_work_begin(t);
  if (!list_parameters(z, m)) {
    destroy(&z->shards);
    return NULL;
  }
  make_groups(t, z);
  m->parameters.len = how->offloads_optimizer ? 0 : z->group_count;
  for (size_t i = 0; i < m->parameters.len; i++) m->parameters.at[i] = z->groups[i].master;
  return &z->shards;
}
