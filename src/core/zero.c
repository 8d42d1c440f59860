// DeepSpeed ZeRO, stages 1 and 2: parameters lie in one flat piece of memory on every GPU; each updates
// its partition of it, with a float32 copy and the optimizer's state for that alone. Stage 2 also keeps
// only the gradients of the partition. Read off DeepSpeed 0.19 (runtime/zero/stage_1_and_2.py).
#include <stdlib.h>

#include "sharding.h"
#include "tape_impl.h"
#include "traffic.h"
#include "work.h"
#include "zero_work.h"

#define START_ALIGNMENT 2 // elements: all-gathers start at multiples of 4 bytes

typedef struct {
  struct zero *all;
  plim_tensor *tensor;
  int64_t offset, elements; // in the flat memory
} parameter;

typedef struct zero {
  plim_shards shards;
  plim_sharding how;
  int64_t most; // elements in a bucket
  parameter *parameters;
  size_t count;
  int64_t partition;    // elements
  plim_tensor *flat;    // all parameters
  plim_tensor *master;  // this rank's partition in float32; over no memory of the card if offloaded
  plim_tensor *staging; // of one gradient on its way to the CPU
  plim_tensor *buffer;  // gradients on their way to be reduced
  plim_tensor *other;   // the next ones, while those are
  plim_tensor *owned;   // gradients of the partition, of this backward
  plim_tensor *averaged;   // and of the whole step
  plim_tensor *norm;       // of all gradients; the last one
  vec(parameter *) bucket; // what is in the buffer
  int64_t bucket_elements;
  double reduced;   // when the last bucket is
  bool accumulates; // in a step, gradients on the host
} zero;

static bool keeps_gradients(const zero *z) { return z->how.strategy == PLIM_SHARD_ZERO1; }

static bool is_owned(const parameter *p) { return p->offset < p->all->partition; }

// Of a parameter's gradient, what lies in this rank's partition.
static int64_t owned_elements(const parameter *p) {
  int64_t left = p->all->partition - p->offset;
  return left < p->elements ? left : p->elements;
}

// ---- reducing -------------------------------------------------------------------------------------

// Neighbours in the bucket that go to the same rank are one piece.
static size_t pieces_of(const zero *z) {
  size_t pieces = 0;
  int64_t last_rank = -1;
  for (size_t i = 0; i < z->bucket.len; i++) {
    const parameter *p = z->bucket.at[i];
    int64_t first = p->offset / z->partition;
    int64_t last = (p->offset + p->elements - 1) / z->partition;
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

// Norms are taken in float64; the gradient goes to the CPU in float32.
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

// In float32 where the step ends. Gradients of several passes go to the host and back in their own type to be added up.
static double offloaded_bytes(const plim_tape *t, zero *z) {
  double elements = (double)z->bucket_elements / (double)z->how.world;
  z->accumulates |= !t->ends_step;
  return elements *
         ((t->ends_step ? 4 : 0) + (z->accumulates ? 2 * plim_dtype_bytes[z->flat->dtype] : 0));
}

// On the compute stream, unless overlap_comm is asked for: then the end of backward waits. Where a bucket goes
// to several ranks it is reduced for all of them (use_multi_rank_bucket_allreduce).
static void send_bucket(plim_tape *t, zero *z) {
  double element = plim_dtype_bytes[z->flat->dtype], bytes = (double)z->bucket_elements * element;
  z->reduced = plim_send_reduce(t, bytes, plim_traffic_now(t));
  if (z->how.offloads_optimizer)
    z->reduced = plim_copy_to_host(t, offloaded_bytes(t, z), z->reduced);
  if (!z->how.overlaps) await_reduced(t, z);
}

static void reduce_bucket(plim_tape *t, zero *z) {
  plim_dtype dtype = (plim_dtype)z->flat->dtype;
  send_bucket(t, z);
  if (pieces_of(z) > 1)
    plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(z->bucket_elements), dtype));
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

// A gradient larger than the whole bucket stays where it is.
static void add_to_bucket(plim_tape *t, parameter *p) {
  zero *z = p->all;
  plim_tensor *x = p->tensor;
  zero_work_gradient(t, z->how.offloads_optimizer);
  if (z->bucket_elements + p->elements > z->most) reduce_bucket(t, z);
  if (p->elements <= z->most) set(t, &x->grad, alias_of(t, z->buffer, x->shape, x->stride));
  z->bucket_elements += p->elements;
  if (!vec_push(&z->bucket, p)) t->failed = true;
}

static void on_grad(plim_tape *t, void *context) {
  parameter *p = context;
  zero *z = p->all;
  plim_dtype dtype = (plim_dtype)z->flat->dtype;
  if (!z->buffer) set(t, &z->buffer, empty_for(t, PLIM_FOR_GRADIENTS, dims(z->most), dtype));
  if (z->how.overlaps && !z->other)
    set(t, &z->other, empty_for(t, PLIM_FOR_GRADIENTS, dims(z->most), dtype));
  if (!keeps_gradients(z)) add_to_bucket(t, p);
}

// Gradients of the first part of a step are added to in place by those of the others.
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

static size_t take_norms(plim_tape *t, const zero *z) {
  size_t count = 0;
  for (size_t i = 0; i < z->count; i++) {
    if (!is_owned(&z->parameters[i])) continue;
    plim_consume(
        t, empty_for(t, PLIM_FOR_WORKSPACE, dims(owned_elements(&z->parameters[i])), PLIM_FP64));
    count++;
  }
  return count;
}

// The gradients of the partition, put together and in float32, are the optimizer's.
static void before_step(plim_tape *t, plim_shards *s) {
  zero *z = (zero *)s;
  zero_work_step(t, z->count, z->how.offloads_optimizer ? z->count : 0);
  z->accumulates = false;
  if (z->how.offloads_optimizer) return;
  plim_work_bytes(t, ZERO_STEP_BYTES * (double)z->partition);
  plim_tensor *together = NULL;
  size_t count = take_norms(t, z);
  set(t, &z->norm, empty_for(t, PLIM_FOR_OPTIMIZER, (plim_dims){0}, PLIM_FP32));
  if (count > 1)
    together = empty_for(t, PLIM_FOR_OPTIMIZER, dims(z->partition), (plim_dtype)z->flat->dtype);
  set(t, &z->master->grad, empty_for(t, PLIM_FOR_OPTIMIZER, dims(z->partition), PLIM_FP32));
  plim_consume(t, together);
  drop(t, &z->averaged);
}

// The new parameters, from the host if they are made there, go to all ranks.
static void after_step(plim_tape *t, plim_shards *s) {
  zero *z = (zero *)s;
  double part = (double)z->partition * plim_dtype_bytes[z->flat->dtype];
  if (z->how.offloads_optimizer) {
    plim_update_by_deepspeed(t, (double)z->partition);
    plim_await(t, plim_copy_from_host(t, part, plim_traffic_now(t)));
  }
  plim_await(t, plim_send_gather(t, part * (double)z->how.world, plim_traffic_now(t)));
}

// ---- construction ---------------------------------------------------------------------------------

static bool list_parameters(zero *z, const plim_model *m) {
  int64_t offset = 0, step = START_ALIGNMENT * z->how.world;
  z->parameters = calloc(m->parameters.len + 1, sizeof *z->parameters);
  if (!z->parameters) return false;
  for (; z->count < m->parameters.len; z->count++) {
    plim_tensor *x = m->parameters.at[z->count];
    parameter *p = &z->parameters[z->count];
    *p = (parameter){z, x, offset, plim_numel(&x->shape)};
    x->on_grad = (plim_hook){on_grad, p};
    offset += p->elements;
  }
  z->partition = (offset + step - 1) / step * step / z->how.world;
  return true;
}

static void flatten(plim_tape *t, zero *z) {
  plim_dtype dtype = (plim_dtype)z->parameters[0].tensor->dtype;
  const parameter *last = &z->parameters[z->count - 1];
  int64_t missing = z->partition * z->how.world - last->offset - last->elements;
  plim_tensor *padding = missing ? empty_for(t, PLIM_FOR_WORKSPACE, dims(missing), dtype) : NULL;
  set(t, &z->flat, empty(t, dims(z->partition * z->how.world), dtype));
  plim_consume(t, padding);
  for (size_t i = 0; i < z->count; i++) plim_set_data(t, z->parameters[i].tensor, z->flat);
}

static int64_t largest_of(const zero *z) {
  int64_t most = 0;
  for (size_t i = 0; i < z->count; i++)
    if (z->parameters[i].elements > most) most = z->parameters[i].elements;
  return most;
}

// Pinned: master, its copy in the parameters' dtype, gradient, and room for the largest gradient.
static void count_host(zero *z) {
  uint64_t partition = (uint64_t)z->partition, element = plim_dtype_bytes[z->flat->dtype];
  z->shards.pinned_bytes = 2 * plim_pinned_bytes(4 * partition) +
                           plim_pinned_bytes(element * partition) +
                           plim_pinned_bytes(element * (uint64_t)largest_of(z));
  z->shards.moment_bytes = 4 * partition;
}

static void make_master(plim_tape *t, zero *z) {
  plim_dtype dtype = (plim_dtype)z->flat->dtype;
  plim_tensor *copy = empty_for(t, PLIM_FOR_WORKSPACE, dims(z->partition), dtype);
  if (!z->how.offloads_optimizer) {
    set(t, &z->master, empty_for(t, PLIM_FOR_OPTIMIZER, dims(z->partition), PLIM_FP32));
    plim_consume(t, copy);
    plim_consume(
        t, empty_for(t, PLIM_FOR_WORKSPACE, dims(z->partition), PLIM_FP32)); // a gradient, to try
    return;
  }
  plim_consume(t, copy);
  set(t, &z->staging, empty_for(t, PLIM_FOR_WORKSPACE, dims(largest_of(z)), dtype));
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
                            .after_step = after_step,
                            .destroy = destroy,
                            .layers = layers};
  z->how = *how;
  z->most = plim_zero_sizes_of(how).reduce_bucket;
  if (!m->parameters.len || !list_parameters(z, m)) {
    destroy(&z->shards);
    return NULL;
  }
  flatten(t, z);
  make_master(t, z);
  m->parameters.len = z->master ? 1 : 0;
  m->parameters.at[0] = z->master;
  return &z->shards;
}
