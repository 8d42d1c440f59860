// DeepSpeed ZeRO, stage 3: how parameters come to the card in parts, the states of the optimizer, and its step.
// Read off DeepSpeed 0.19 (runtime/zero/stage3.py, partition_parameters.py) and transformers 5.17
// (integrations/deepspeed.py).
#include <stdlib.h>

#include "traffic.h"
#include "work.h"
#include "zero3_impl.h"
#include "zero_work.h"

typedef zero3_parameter parameter;
typedef zero3_sub_group sub_group;

// ---- loading ----------------------------------------------------------------------------------------

static bool is_of_checkpoint(const parameter *p) {
  return p->tensor->storage->is_waiting && !p->tensor->behind;
}

static void take_part(plim_tape *t, parameter *p, plim_tensor **part) {
  bool is_on_host = p->all->how.offloads_parameters && !p->is_persistent;
  set(t, part,
      empty_for(t, PLIM_FOR_WEIGHTS, dims(is_on_host ? 0 : p->part), (plim_dtype)p->tensor->dtype));
  plim_resize_storage(t, p->tensor, 0);
}

// deepspeed.zero.Init, which from_pretrained runs under: each parameter is made whole on the card and cut at once;
// then each is gathered, filled from the checkpoint on the host, and cut again. Adapters come after that, whole.
// Trainer empties the cache before its engine gets the model.
static void load_in_parts(plim_tape *t, zero3 *z, const plim_model *m, plim_tensor **parts) {
  plim_tape_end_host(t);
  for (size_t i = 0; i < z->count; i++) {
    if (!is_of_checkpoint(&z->parameters[i])) continue;
    plim_tape_move(t, z->parameters[i].tensor);
    take_part(t, &z->parameters[i], &parts[i]);
  }
  for (size_t i = 0; i < z->count; i++) {
    parameter *p = &z->parameters[i];
    if (!parts[i]) continue;
    plim_resize_storage(t, p->tensor,
                        (uint64_t)(p->part * z->how.world) * plim_dtype_bytes[p->tensor->dtype]);
    plim_resize_storage(t, p->tensor, 0);
  }
  plim_tape_move_to_device(t);
  if (m->is_grouped_by_decay) plim_tape_empty_cache(t);
  z->shards.is_wrapped_late = true;
}

// ---- parts ------------------------------------------------------------------------------------------

// What is whole is cut, then the parts that are trained are put into one piece of memory.
static void put_together(plim_tape *t, zero3 *z, plim_tensor **parts) {
  for (size_t i = 0; i < z->count; i++)
    if (!parts[i]) take_part(t, &z->parameters[i], &parts[i]);
  for (size_t i = 0; i < z->count; i++) {
    if (z->parameters[i].is_trained) drop(t, &parts[i]);
    else z->parameters[i].own = parts[i];
  }
  plim_dtype dtype = (plim_dtype)z->parameters[z->count - 1].tensor->dtype;
  set(t, &z->parts, empty(t, dims(z->how.offloads_parameters ? 0 : z->partition), dtype));
}

static bool cut(plim_tape *t, zero3 *z, const plim_model *m) {
  plim_tensor **parts = calloc(z->count, sizeof *parts);
  if (!parts) return false;
  if (z->parameters[0].tensor->storage->is_waiting) load_in_parts(t, z, m, parts);
  put_together(t, z, parts);
  free(parts);
  return true;
}

// ---- sub groups -------------------------------------------------------------------------------------

typedef struct {
  zero3 *z;
  const plim_model *m;
  int64_t elements; // of the sub group that is being filled
  bool ok;
} filling;

static void close_sub_group(filling *f) {
  if (f->elements)
    f->ok = vec_push(&f->z->sub_groups, ((sub_group){.elements = f->elements})) && f->ok;
  f->elements = 0;
}

// A sub group is full when it has sub_group_size elements or more; each group of the optimizer's has its own.
static void fill_sub_groups(filling *f, bool decaying) {
  zero3 *z = f->z;
  for (size_t i = 0; i < z->count; i++) {
    const parameter *p = &z->parameters[i];
    bool decays = !f->m->is_grouped_by_decay || plim_decays(f->m, p->tensor);
    if (!p->is_trained || decays != decaying) continue;
    f->elements += p->part;
    if (f->elements >= z->sizes.sub_group) close_sub_group(f);
  }
  close_sub_group(f);
}

static bool find_sub_groups(zero3 *z, const plim_model *m) {
  filling f = {.z = z, .m = m, .ok = true};
  fill_sub_groups(&f, true);
  fill_sub_groups(&f, false);
  return f.ok;
}

static int64_t largest_sub_group(const zero3 *z) {
  int64_t most = 0;
  for (size_t i = 0; i < z->sub_groups.len; i++)
    if (z->sub_groups.at[i].elements > most) most = z->sub_groups.at[i].elements;
  return most;
}

// ---- states -----------------------------------------------------------------------------------------

static void make_master(plim_tape *t, sub_group *g) {
  plim_tensor *wide = empty_for(t, PLIM_FOR_WORKSPACE, dims(g->elements), PLIM_FP32);
  set(t, &g->master, empty_for(t, PLIM_FOR_OPTIMIZER, dims(g->elements), PLIM_FP32));
  plim_consume(t, wide);
}

static void make_masters(plim_tape *t, zero3 *z) {
  for (size_t i = 0; i < z->sub_groups.len; i++) make_master(t, &z->sub_groups.at[i]);
  plim_tensor *tried =
      empty_for(t, PLIM_FOR_WORKSPACE, dims(largest_sub_group(z)), PLIM_FP32); // a gradient
  plim_consume(t, tried);
}

static void make_states(plim_tape *t, zero3 *z) {
  plim_dtype dtype = (plim_dtype)z->parts->dtype;
  bool is_here = !z->how.offloads_optimizer;
  if (is_here) make_masters(t, z);
  set(t, &z->buffer, empty_for(t, PLIM_FOR_GRADIENTS, dims(z->sizes.reduce_bucket), dtype));
  if (is_here) set(t, &z->gradients, empty_for(t, PLIM_FOR_GRADIENTS, dims(z->partition), dtype));
  if (is_here)
    set(t, &z->tracker,
        empty_for(t, PLIM_FOR_WORKSPACE, dims(1), PLIM_BOOL)); // whether a gradient is infinite
}

// Pinned: masters and gradients in float32, gradients and, if offloaded, parameters in their own dtype.
static void count_host(zero3 *z) {
  uint64_t partition = (uint64_t)z->partition, element = plim_dtype_bytes[z->parts->dtype];
  if (z->how.offloads_parameters) z->shards.pinned_bytes += plim_pinned_bytes(element * partition);
  if (!z->how.offloads_optimizer) return;
  z->shards.pinned_bytes += plim_pinned_bytes(element * partition);
  z->shards.moment_bytes = 4 * partition;
  for (size_t i = 0; i < z->sub_groups.len; i++)
    z->shards.pinned_bytes += 2 * plim_pinned_bytes(4 * (uint64_t)z->sub_groups.at[i].elements);
}

bool zero3_make_states(plim_tape *t, zero3 *z, plim_model *m) {
  if (!find_sub_groups(z, m) || !cut(t, z, m)) return false;
  make_states(t, z);
  count_host(z);
  m->parameters.len = z->how.offloads_optimizer ? 0 : z->sub_groups.len;
  for (size_t i = 0; i < m->parameters.len; i++) m->parameters.at[i] = z->sub_groups.at[i].master;
  return true;
}

// ---- the step ---------------------------------------------------------------------------------------

static size_t trained_of(const zero3 *z) {
  size_t count = 0;
  for (size_t i = 0; i < z->count; i++) count += z->parameters[i].is_trained;
  return count;
}

void zero3_before_step(plim_tape *t, plim_shards *s) {
  zero3 *z = (zero3 *)s;
  zero_work_step(t, z->count, z->how.offloads_optimizer ? trained_of(z) : 0);
  if (z->how.offloads_optimizer) return;
  plim_work_bytes(t, ZERO_STEP_BYTES * (double)z->partition);
  for (size_t i = 0; i < z->count; i++)
    if (z->parameters[i].is_trained)
      plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(z->parameters[i].part), PLIM_FP64));
  set(t, &z->norm, empty_for(t, PLIM_FOR_OPTIMIZER, (plim_dims){0}, PLIM_FP32));
}

// The gradients of a sub group, put together and in float32, are there for its own update alone.
void zero3_before_update(plim_tape *t, plim_shards *s, size_t index) {
  zero3 *z = (zero3 *)s;
  const sub_group *g = &z->sub_groups.at[index];
  plim_tensor *together =
      empty_for(t, PLIM_FOR_OPTIMIZER, dims(g->elements), (plim_dtype)z->parts->dtype);
  set(t, &g->master->grad, empty_for(t, PLIM_FOR_OPTIMIZER, dims(g->elements), PLIM_FP32));
  plim_consume(t, together);
}

void zero3_after_step(plim_tape *t, plim_shards *s) {
  const zero3 *z = (zero3 *)s;
  if (!z->how.offloads_optimizer) return;
  plim_update_by_deepspeed(t, (double)z->partition);
  if (z->how.offloads_parameters) return;
  double part = (double)z->partition * plim_dtype_bytes[z->parts->dtype];
  plim_await(t,
             plim_copy_pageable(t, part, plim_traffic_now(t))); // rounded by torch, into new memory
}
