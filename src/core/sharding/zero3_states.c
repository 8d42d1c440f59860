// DeepSpeed ZeRO, stage 3: how a model is loaded in partitions, the optimizer's state, and its step. Follows
// DeepSpeed 0.19 (runtime/zero/stage3.py, partition_parameters.py) and transformers 5.17 (integrations/deepspeed.py).
#include <stdlib.h>

#include "traffic.h"
#include "work.h"
#include "zero3_impl.h"
#include "zero_work.h"

#include "tape_names.h"

typedef zero3_parameter parameter;
typedef zero3_sub_group sub_group;

// ---- loading ----------------------------------------------------------------------------------------

static bool is_of_checkpoint(const parameter *p) {
  return p->tensor->storage->is_waiting && !p->tensor->behind;
}

static plim_tensor *part_of(plim_tape *t, const parameter *p) {
  int64_t elements = p->all->how.offloads_parameters ? 0 : p->part;
  return empty_for(t, PLIM_FOR_WEIGHTS, dims(elements), (plim_dtype)p->tensor->dtype);
}

static void take_part(plim_tape *t, parameter *p, plim_tensor **part) {
  set(t, part, part_of(t, p));
  plim_resize_storage(t, p->tensor, 0);
}

// Gathers a parameter. A partition on the host is first copied to the card.
static void make_whole(plim_tape *t, parameter *p) {
  plim_dtype dtype = (plim_dtype)p->tensor->dtype;
  plim_resize_storage(t, p->tensor,
                      (uint64_t)(p->part * p->all->how.world) * plim_dtype_bytes[dtype]);
  if (p->all->how.offloads_parameters)
    plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(p->part), dtype));
}

// Under zero.Init every new parameter is cast to the training dtype; this is the tensor before the cast, or NULL.
static plim_tensor *as_in_checkpoint(plim_tape *t, const parameter *p) {
  if (!p->all->how.loads_float32) return NULL;
  return empty_for(t, PLIM_FOR_WORKSPACE, dims(p->elements), PLIM_FP32);
}

static void make(plim_tape *t, const parameter *p) {
  plim_tensor *wide = as_in_checkpoint(t, p);
  plim_tape_move(t, p->tensor);
  plim_consume(t, wide);
}

// Index after the last parameter of the module that begins with `first`.
static size_t end_of_module(const zero3 *z, size_t first) {
  size_t next = first + 1;
  return next + (next < z->count && z->parameters[next].tensor->module == PLIM_MODULE_BIAS);
}

// A module's parameters are partitioned once all of them exist.
static void make_and_cut(plim_tape *t, zero3 *z, size_t first, size_t end, plim_tensor **parts) {
  for (size_t i = first; i < end; i++) make(t, &z->parameters[i]);
  for (size_t i = first; i < end; i++) take_part(t, &z->parameters[i], &parts[i]);
}

static void fill(plim_tape *t, zero3 *z, size_t first, size_t end) {
  for (size_t i = first; i < end; i++) make_whole(t, &z->parameters[i]);
  for (size_t i = first; i < end; i++) plim_resize_storage(t, z->parameters[i].tensor, 0);
}

static bool is_adapter(const parameter *p) {
  return p->tensor->behind && p->tensor->storage->is_waiting;
}

// peft creates adapters in the dtype of the layer below; then all are cast to float32, one by one.
static void add_adapters(plim_tape *t, zero3 *z, plim_tensor **narrow) {
  for (size_t i = 0; i < z->count && z->trained_dtype != z->dtype; i++)
    if (is_adapter(&z->parameters[i]))
      set(t, &narrow[i],
          empty_for(t, PLIM_FOR_ADAPTERS, dims(z->parameters[i].elements), z->dtype));
  for (size_t i = 0; i < z->count; i++) {
    if (!is_adapter(&z->parameters[i])) continue;
    plim_tape_move(t, z->parameters[i].tensor);
    drop(t, &narrow[i]);
  }
}

// The table that head and embedding share; NULL if they are not tied.
static const parameter *tied_table(const zero3 *z, const plim_model *m) {
  const parameter *table = NULL;
  for (size_t i = 0; m->head && i < z->count; i++) {
    const parameter *p = &z->parameters[i];
    if (p->tensor == m->head) table = p;
    else if (table && p->tensor->layer && is_of_checkpoint(p)) return table;
  }
  return NULL;
}

// The head is created before it is tied; its partition is freed by Python's next garbage collection.
static plim_tensor *make_head_and_cut(plim_tape *t, const parameter *table) {
  plim_dtype dtype = (plim_dtype)table->tensor->dtype;
  plim_tensor *wide = as_in_checkpoint(t, table), *part = NULL;
  plim_tensor *whole = empty_for(t, PLIM_FOR_WORKSPACE, dims(table->elements), dtype);
  plim_consume(t, wide);
  set(t, &part, part_of(t, table));
  plim_consume(t, whole);
  return part;
}

// from_pretrained under deepspeed.zero.Init: each parameter is created whole on the card and partitioned at once; then
// each is gathered, filled from the checkpoint on the host, and partitioned again. Adapters are added after that and
// are not partitioned yet. Trainer empties the cache before its engine gets the model.
static void load_in_parts(plim_tape *t, zero3 *z, const plim_model *m, plim_tensor **parts) {
  const parameter *tied = tied_table(z, m);
  plim_tape_end_host(t);
  for (size_t i = 0, end; i < z->count; i = end) {
    end = end_of_module(z, i);
    if (is_of_checkpoint(&z->parameters[i])) make_and_cut(t, z, i, end, parts);
  }
  plim_tensor *head = tied ? make_head_and_cut(t, tied) : NULL;
  for (size_t i = 0, end; i < z->count; i = end) {
    end = end_of_module(z, i);
    if (parts[i]) fill(t, z, i, end);
  }
  add_adapters(t, z, parts);
  plim_tape_move_to_device(t);
  drop(t, &head);
  if (m->is_grouped_by_decay) plim_tape_empty_cache(t);
}

// ---- parts ------------------------------------------------------------------------------------------

// Whether p is in the optimizer's group with (or without) weight decay.
static bool is_in_group(const plim_model *m, const parameter *p, bool decaying) {
  bool decays = !m->is_grouped_by_decay || plim_decays(p->tensor);
  return p->is_trained && decays == decaying;
}

// stage3.py, defragment: the trained partitions are copied to the host and come back in one buffer.
static void put_together(plim_tape *t, zero3 *z, const plim_model *m, plim_tensor **parts) {
  for (size_t i = 0; i < z->count; i++)
    if (!parts[i]) take_part(t, &z->parameters[i], &parts[i]);
  if (!z->how.offloads_optimizer)
    // Flag for infinite gradients.
    set(t, &z->tracker, empty_for(t, PLIM_FOR_WORKSPACE, dims(1), PLIM_BOOL));
  for (int decaying = 1; decaying >= 0; decaying--)
    for (size_t i = 0; i < z->count; i++)
      if (is_in_group(m, &z->parameters[i], decaying)) drop(t, &parts[i]);
  for (size_t i = 0; i < z->count; i++) z->parameters[i].own = parts[i];
  if (!z->how.offloads_parameters) plim_tape_empty_cache(t);
  set(t, &z->parts,
      empty(t, dims(z->how.offloads_parameters ? 0 : z->partition), z->trained_dtype));
}

static bool cut(plim_tape *t, zero3 *z, const plim_model *m) {
  plim_tensor **parts = calloc(z->count, sizeof *parts);
  if (!parts) return false;
  if (z->parameters[0].tensor->storage->is_waiting) load_in_parts(t, z, m, parts);
  put_together(t, z, m, parts);
  free(parts);
  return true;
}

// ---- sub groups -------------------------------------------------------------------------------------

typedef struct {
  zero3 *z;
  const plim_model *m;
  int64_t elements; // of the sub group being filled
  bool ok;
} filling;

static void close_sub_group(filling *f) {
  if (f->elements)
    f->ok = vec_push(&f->z->sub_groups, ((sub_group){.elements = f->elements})) && f->ok;
  f->elements = 0;
}

// A sub group is full when it has at least sub_group_size elements. The optimizer's groups do not share sub groups.
static void fill_sub_groups(filling *f, bool decaying) {
  zero3 *z = f->z;
  for (size_t i = 0; i < z->count; i++) {
    const parameter *p = &z->parameters[i];
    if (!is_in_group(f->m, p, decaying)) continue;
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

// A variable keeps the last float32 copy alive.
static void make_masters(plim_tape *t, zero3 *z) {
  plim_tensor *wide = NULL;
  for (size_t i = 0; i < z->sub_groups.len; i++) {
    sub_group *g = &z->sub_groups.at[i];
    if (z->trained_dtype != PLIM_FP32)
      set(t, &wide, empty_for(t, PLIM_FOR_WORKSPACE, dims(g->elements), PLIM_FP32));
    set(t, &g->master, empty_for(t, PLIM_FOR_OPTIMIZER, dims(g->elements), PLIM_FP32));
  }
  drop(t, &wide);
  // Temporary gradient of the initialisation of the optimizer's state.
  plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(largest_sub_group(z)), PLIM_FP32));
}

static void make_states(plim_tape *t, zero3 *z) {
  bool is_here = !z->how.offloads_optimizer;
  if (is_here) make_masters(t, z);
  set(t, &z->buffer, empty_for(t, PLIM_FOR_GRADIENTS, dims(z->sizes.reduce_bucket), z->dtype));
  if (is_here)
    set(t, &z->gradients, empty_for(t, PLIM_FOR_GRADIENTS, dims(z->partition), z->dtype));
}

// create_reduce_and_remove_grad_hooks: gathers each parameter to register its hook.
static void put_hooks(plim_tape *t, zero3 *z, const plim_model *m) {
  for (int decaying = 1; decaying >= 0; decaying--)
    for (size_t i = 0; i < z->count; i++) {
      parameter *p = &z->parameters[i];
      if (!is_in_group(m, p, decaying)) continue;
      make_whole(t, p);
      plim_resize_storage(t, p->tensor, 0);
    }
}

// Pinned: masters and gradients in float32, gradients and, if offloaded, parameters in their own dtype.
static void count_host(zero3 *z) {
  uint64_t partition = (uint64_t)z->partition, element = plim_dtype_bytes[z->dtype];
  if (z->how.offloads_parameters) z->shards.pinned_bytes += plim_pinned_bytes(element * partition);
  for (size_t i = 0; z->how.offloads_parameters && i < z->count; i++) // each frozen one on its own
    if (!z->parameters[i].is_trained)
      z->shards.pinned_bytes += plim_pinned_bytes(element * (uint64_t)z->parameters[i].part);
  if (!z->how.offloads_optimizer) return;
  z->shards.pinned_bytes += plim_pinned_bytes(element * partition);
  z->shards.moment_bytes = 4 * partition;
  for (size_t i = 0; i < z->sub_groups.len; i++)
    z->shards.pinned_bytes += 2 * plim_pinned_bytes(4 * (uint64_t)z->sub_groups.at[i].elements);
}

bool zero3_make_states(plim_tape *t, zero3 *z, plim_model *m) {
  if (!find_sub_groups(z, m) || !cut(t, z, m)) return false;
  make_states(t, z);
  put_hooks(t, z, m);
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

// The gradients of a sub group, concatenated and in float32, exist only during its update.
void zero3_before_update(plim_tape *t, plim_shards *s, size_t index) {
  zero3 *z = (zero3 *)s;
  const sub_group *g = &z->sub_groups.at[index];
  plim_tensor *together = empty_for(t, PLIM_FOR_OPTIMIZER, dims(g->elements), z->dtype);
  set(t, &g->master->grad, empty_for(t, PLIM_FOR_OPTIMIZER, dims(g->elements), PLIM_FP32));
  plim_consume(t, together);
}

// Persistent parameters are partitioned and gathered again after each step.
static void renew_persistent(plim_tape *t, zero3 *z) {
  for (size_t i = 0; i < z->count; i++)
    if (z->parameters[i].is_persistent) plim_resize_storage(t, z->parameters[i].tensor, 0);
  for (size_t i = 0; i < z->count; i++) {
    parameter *p = &z->parameters[i];
    if (!p->is_persistent) continue;
    make_whole(t, p);
    p->is_whole = true;
  }
}

void zero3_after_step(plim_tape *t, plim_shards *s) {
  zero3 *z = (zero3 *)s;
  renew_persistent(t, z);
  if (!z->how.offloads_optimizer) return;
  plim_update_by_deepspeed(t, (double)z->partition);
  if (z->how.offloads_parameters) return;
  double part = (double)z->partition * plim_dtype_bytes[z->parts->dtype];
  // torch rounds them on the host, into new memory that is not pinned.
  plim_await(t, plim_copy_pageable(t, part, plim_traffic_now(t)));
}
