// FSDP2: fully_shard of each layer and then of the model. Each group of parameters (those of a layer, or those outside
// the layers) is all-gathered before use and freed after; gradients are reduce-scattered.
#include <math.h>
#include <stdlib.h>

#include "fsdp_impl.h"
#include "ops.h"
#include "rounding.h"
#include "traffic.h"
#include "work.h"

#include "op_names.h"

// ---- gathering ------------------------------------------------------------------------------------

// Kernels that copy many tensors at once get a table of tensors and blocks with 8 bytes per entry. Blocks of 128
// threads move 16 bytes per thread (ATen/native/cuda/TensorShape.cu).
enum { BLOCK_THREADS = 128, BLOCK_BYTES = BLOCK_THREADS * 16, ENTRY_BYTES = 8 };

// Twice as many as the card can run at a time; beyond that each block does more work.
static int64_t most_blocks(const plim_gpu *gpu) {
  return gpu->multiprocessors * plim_gpu_threads(gpu) / BLOCK_THREADS * 2;
}

// split_with_sizes_copy: three addresses or sizes per tensor, the tensor of each block, and running sums.
static uint64_t split_table_bytes(const plim_gpu *gpu, const fsdp_group *g) {
  int64_t pieces = (int64_t)g->parameters.len, blocks = 0, entries = 3 * pieces + pieces + 1;
  int64_t world = g->all->how.world;
  for (size_t i = 0; i < g->parameters.len; i++) {
    const fsdp_parameter *p = &g->parameters.at[i];
    blocks += plim_ceil_div(fsdp_part_bytes(p, p->dtype), BLOCK_BYTES);
  }
  int64_t factor = plim_ceil_div(blocks * world, most_blocks(gpu));
  int64_t chunks = (int64_t)ceil(sqrt((double)factor));
  int64_t rounds = plim_ceil_div(factor, chunks < world ? chunks : world);
  for (size_t i = 0; i < g->parameters.len; i++) {
    const fsdp_parameter *p = &g->parameters.at[i];
    entries += plim_ceil_div(fsdp_part_bytes(p, p->dtype), BLOCK_BYTES * rounds);
  }
  return (uint64_t)entries * ENTRY_BYTES;
}

static bool is_cast(const fsdp_parameter *p) { return p->dtype != p->own_dtype; }

static uint64_t gathered_bytes(const fsdp_group *g, bool only_cast) {
  int64_t bytes = 0;
  for (size_t i = 0; i < g->parameters.len; i++) {
    const fsdp_parameter *p = &g->parameters.at[i];
    if (!only_cast || is_cast(p)) bytes += fsdp_part_bytes(p, p->dtype);
  }
  return (uint64_t)bytes;
}

static double own_bytes(const fsdp_group *g) {
  int64_t bytes = 0;
  for (size_t i = 0; i < g->parameters.len; i++)
    bytes += fsdp_part_bytes(&g->parameters.at[i], g->parameters.at[i].own_dtype);
  return (double)bytes;
}

// The inputs of the all-gather: shards are cast into one buffer if they must be cast, or copied from the host one by
// one. At most one input per parameter.
static size_t gather_inputs(plim_tape *t, const fsdp_group *g, plim_tensor **inputs) {
  uint64_t cast_bytes = gathered_bytes(g, true);
  if (!g->all->how.offloads_parameters) {
    if (cast_bytes) inputs[0] = scratch(t, cast_bytes);
    return cast_bytes > 0;
  }
  for (size_t i = 0; i < g->parameters.len; i++) {
    const fsdp_parameter *p = &g->parameters.at[i];
    inputs[i] = empty_for(t, PLIM_FOR_WORKSPACE, dims(p->elements), p->own_dtype);
    if (!is_cast(p)) continue;
    plim_tensor *narrow = empty_for(t, PLIM_FOR_WORKSPACE, dims(p->elements), p->dtype);
    plim_consume(t, inputs[i]);
    inputs[i] = narrow;
  }
  return g->parameters.len;
}

// Offloaded shards are first copied from the host.
static void send_parts(plim_tape *t, fsdp_group *g) {
  const fsdp *f = g->all;
  double after = f->copied_out;
  if (f->how.offloads_parameters && f->how.pages_all) {
    after = plim_copy_pageable(t, own_bytes(g), after);
    plim_await_on_host(t, after);
  } else if (f->how.offloads_parameters) after = plim_copy_from_host(t, own_bytes(g), after);
  double whole = (double)gathered_bytes(g, false) * (double)f->how.world;
  g->ready = plim_send_gather(t, whole, after);
}

static void gather(plim_tape *t, fsdp_group *g) {
  if (g->gathered || g->is_full || !g->parameters.len) return;
  plim_tensor **inputs = calloc(g->parameters.len, sizeof *inputs);
  if (!inputs) {
    plim_state(t)->failed = true;
    return;
  }
  plim_stream was = plim_state(t)->stream;
  plim_state(t)->stream = PLIM_GATHER_STREAM;
  size_t count = gather_inputs(t, g, inputs);
  set(t, &g->gathered, scratch(t, gathered_bytes(g, false) * (uint64_t)g->all->how.world));
  while (count-- > 0) plim_consume(t, inputs[count]);
  plim_state(t)->stream = was;
  free(inputs);
  send_parts(t, g);
}

// Python's time for a parameter copied from the host or a gradient copied to it: measured on an H200's host, the step
// of Qwen2.5-1.5B in tests/truth/timing_offload.json. For parameters that stay on the card it was not measured.
#define OFFLOADED_SECONDS 100e-6

static void work_on_offloaded(plim_tape *t, const fsdp *f, size_t count) {
  if (f->how.offloads_parameters) plim_work_cpu(t, OFFLOADED_SECONDS * (double)count);
}

static void copy_out(plim_tape *t, fsdp_group *g) {
  work_on_offloaded(t, g->all, g->parameters.len);
  for (size_t i = 0; i < g->parameters.len; i++) {
    fsdp_parameter *p = &g->parameters.at[i];
    int64_t bytes = fsdp_part_bytes(p, p->dtype) * g->all->how.world;
    plim_resize_storage(t, p->full, (uint64_t)bytes);
  }
  plim_consume(t, scratch(t, split_table_bytes(plim_tape_gpu(t), g)));
  plim_await(t, g->ready);
  plim_work_bytes(t, 2 * (double)gathered_bytes(g, false) * (double)g->all->how.world);
  g->all->copied_out = plim_traffic_now(t);
  g->is_full = true;
}

// In forward the gathered buffer is kept until the next group is copied out, so that the two overlap.
static void unshard(plim_tape *t, fsdp_group *g) {
  gather(t, g);
  if (!g->gathered) return;
  copy_out(t, g);
  if (g->state == FORWARD) set(t, &g->all->last_gathered, g->gathered);
  drop(t, &g->gathered);
}

static void reshard(plim_tape *t, fsdp_group *g) {
  for (size_t i = 0; i < g->parameters.len; i++)
    plim_resize_storage(t, g->parameters.at[i].full, 0);
  g->is_full = false;
}

// ---- reducing -------------------------------------------------------------------------------------

// chunk_cat: four entries per tensor, two lists of running sums, and the tensor of each block.
static uint64_t cat_table_bytes(const fsdp_group *g, plim_dtype dtype) {
  int64_t pieces = 0, blocks = 0;
  for (size_t i = 0; i < g->parameters.len; i++) {
    if (!g->parameters.at[i].has_grad) continue;
    pieces++;
    blocks += plim_ceil_div(fsdp_part_bytes(&g->parameters.at[i], dtype), BLOCK_BYTES);
  }
  return (uint64_t)(4 * pieces + 2 * (pieces + 1) + blocks) * ENTRY_BYTES;
}

static int64_t mark_gradients(fsdp_group *g) {
  int64_t elements = 0;
  for (size_t i = 0; i < g->parameters.len; i++) {
    fsdp_parameter *p = &g->parameters.at[i];
    p->has_grad = p->full->grad != NULL;
    if (p->has_grad) elements += p->elements;
  }
  return elements;
}

static const fsdp_parameter *first_with_grad(const fsdp_group *g) {
  size_t i = 0;
  while (i + 1 < g->parameters.len && !g->parameters.at[i].has_grad) i++;
  return &g->parameters.at[i];
}

// The shards of the gradients are views of one buffer; offloaded ones are copied to the host at once. Hooks of parameters
// (register_post_accumulate_grad_hook) run on the stream that reduces (_fsdp_collectives.py, foreach_reduce).
static plim_tensor *scatter(plim_tape *t, fsdp_group *g, int64_t elements, plim_dtype dtype) {
  plim_tensor *out = NULL;
  plim_state(t)->stream = PLIM_REDUCE_STREAM;
  set(t, &out, empty_for(t, PLIM_FOR_GRADIENTS, dims(elements), dtype));
  plim_dtype own = first_with_grad(g)->own_dtype;
  if (own != dtype) set(t, &out, empty_for(t, PLIM_FOR_GRADIENTS, dims(elements), own));
  for (size_t i = 0; i < g->parameters.len && !g->all->how.offloads_parameters; i++) {
    plim_tensor *shard = g->parameters.at[i].shard;
    if (!g->parameters.at[i].has_grad) continue;
    if (!shard->grad) set(t, &shard->grad, alias_of(t, out, shard->shape, shard->stride));
    if (shard->on_grad.run) shard->on_grad.run(t, shard->on_grad.context);
  }
  plim_state(t)->stream = PLIM_COMPUTE_STREAM;
  return out;
}

// The loop variable keeps the last gradient alive until the function returns.
static plim_tensor *drop_gradients(plim_tape *t, fsdp_group *g) {
  plim_tensor *last = NULL;
  for (size_t i = g->parameters.len; i-- > 0;) {
    plim_tensor **grad = &g->parameters.at[i].full->grad;
    if (!last) set(t, &last, *grad);
    drop(t, grad);
  }
  return last;
}

static void send_gradients(plim_tape *t, fsdp *f, int64_t elements, plim_dtype dtype) {
  double part = (double)elements * plim_dtype_bytes[dtype], whole = part * (double)f->how.world;
  plim_work_bytes(t, 2 * whole); // concatenates the gradients
  f->reduced = plim_send_scatter(t, whole, plim_traffic_now(t));
  if (f->how.offloads_parameters && f->how.pages_all) {
    f->reduced = plim_copy_to_pageable(t, part, f->reduced);
    plim_await_on_host(t, f->reduced);
  } else if (f->how.offloads_parameters) f->reduced = plim_copy_to_host(t, part, f->reduced);
}

static void reduce(plim_tape *t, fsdp_group *g) {
  fsdp *f = g->all;
  int64_t elements = mark_gradients(g);
  if (!elements) return;
  for (size_t i = 0; i < g->parameters.len; i++)
    work_on_offloaded(t, f, g->parameters.at[i].has_grad);
  plim_dtype dtype = f->how.reduce_dtype;
  if (dtype == PLIM_BOOL) dtype = first_with_grad(g)->dtype;
  drop(t, &f->reducing);
  set(t, &f->reducing, empty_for(t, PLIM_FOR_WORKSPACE, dims(elements * f->how.world), dtype));
  plim_consume(t, scratch(t, cat_table_bytes(g, dtype)));
  send_gradients(t, f, elements, dtype);
  plim_tensor *last = drop_gradients(t, g), *out = scatter(t, g, elements, dtype);
  drop_all(t, &last, &out);
}

// ---- hooks ----------------------------------------------------------------------------------------

// Under no_sync gradients are not sharded.
static void after_backward_of(plim_tape *t, void *context) {
  fsdp_group *g = context;
  g->state = AFTER_BACKWARD;
  reshard(t, g);
  if (plim_state(t)->reduces_gradients) reduce(t, g);
}

static void before_backward_of(plim_tape *t, void *context) {
  fsdp_group *g = context;
  if (g->state == BEFORE_BACKWARD) return;
  g->state = BEFORE_BACKWARD;
  unshard(t, g);
  // A module that is called several times, such as the head of a loss in chunks, prefetches what precedes each call.
  size_t order = g->orders.len ? g->orders.at[--g->orders.len] : 0;
  if (order) gather(t, g->all->done.at[order - 1]);
}

static void pass_on(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)t, (void)n;
  plim_retain(in[0]);
  out[0] = in[0];
}

// Passes the input through a node that reduces the group's gradients once the input's gradient has arrived.
static plim_tensor *watch(plim_tape *t, fsdp_group *g, plim_tensor *x) {
  plim_grad_node *n = node_begin(t, pass_on, &x, 1);
  if (!n) return x;
  g->after_backward = (plim_hook){after_backward_of, g, NULL};
  n->before = &g->after_backward;
  plim_tensor *input = view_of(t, x, x->shape, x->stride);
  node_output(t, n, input);
  return input;
}

static void before_forward_of(plim_tape *t, fsdp_group *g) {
  g->state = FORWARD;
  unshard(t, g);
}

// A layer of a reentrant checkpoint stays gathered after it was recomputed: it runs inside backward.
static void after_forward_of(plim_tape *t, fsdp_group *g, plim_tensor *out) {
  bool is_in_backward = plim_state(t)->is_recomputing;
  if (!g->keeps_full && !is_in_backward) reshard(t, g);
  g->state = IDLE;
  // The call without adapters is the reference's, which has no backward.
  if (!g->parameters.len || plim_state(t)->skips_adapters) return;
  if (!is_in_backward) {
    size_t order = g->all->done.len;
    if (!vec_push(&g->orders, order) || !vec_push(&g->all->done, g)) plim_state(t)->failed = true;
  }
  g->before_backward = (plim_hook){before_backward_of, g, NULL};
  node_before(t, out, &g->before_backward);
  if (is_in_backward) drop(t, &g->all->last_gathered); // nothing is gathered next
}

static void before_model(plim_tape *t, plim_shards *s) {
  ((fsdp *)s)->is_in_model = true;
  before_forward_of(t, fsdp_other((fsdp *)s, FSDP_ROOT));
}

// accelerate's policy also has an output dtype: the loss is cast after everything else.
static plim_tensor *after_model(plim_tape *t, plim_shards *s, plim_tensor *loss) {
  fsdp *f = (fsdp *)s;
  after_forward_of(t, fsdp_other(f, FSDP_ROOT), loss);
  bool casts = plim_is_accelerates(&f->how) && f->how.compute_dtype != PLIM_BOOL;
  bool was = hold(loss);
  plim_tensor *out = casts ? to(t, loss, f->how.compute_dtype) : loss;
  drop(t, &f->last_gathered);
  f->is_in_model = false;
  if (out == loss) loss->is_floating = was;
  else let_go(t, loss, was);
  return out;
}

// Without reentry, a layer is recomputed when the hook on its output has already gathered its parameters. With reentry,
// that hook is on the output of the recomputed layer.
static plim_tensor *before_layer(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *x) {
  fsdp_group *g = &((fsdp *)s)->groups[layer];
  if (g->state == BEFORE_BACKWARD) return x;
  before_forward_of(t, g);
  return watch(t, g, x);
}

static void after_layer(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *out) {
  fsdp_group *g = &((fsdp *)s)->groups[layer];
  if (g->state != BEFORE_BACKWARD) after_forward_of(t, g, out);
}

static fsdp_group *group_with(const fsdp *f, plim_part part) {
  for (int i = 0; i < FSDP_ROOT; i++)
    if (fsdp_other(f, i)->parts >> part & 1) return fsdp_other(f, i);
  return NULL;
}

static plim_tensor *before_part(plim_tape *t, plim_shards *s, plim_part part, plim_tensor *x) {
  fsdp_group *g = group_with((fsdp *)s, part);
  if (!g || g->running) return x;
  g->running = g->parts;
  before_forward_of(t, g);
  return needs_grad(t, x) ? watch(t, g, x) : x;
}

static void after_part(plim_tape *t, plim_shards *s, plim_part part, plim_tensor *out) {
  fsdp_group *g = group_with((fsdp *)s, part);
  if (!g || !g->running) return;
  g->running &= ~(1u << part);
  if (g->running) return;
  after_forward_of(t, g, out);
  // A loss calls the head on its own: nothing is gathered next (_post_forward of the group that forward began with).
  if (!g->all->is_in_model) drop(t, &g->all->last_gathered);
}

// Groups whose input needs no gradient are reduced at the end of backward; that is always so for the root.
static void finish(plim_tape *t, fsdp_group *g) {
  if (!g) return;
  if (g->state != AFTER_BACKWARD) after_backward_of(t, g);
  g->state = IDLE;
  g->running = 0;
  g->orders.len = 0;
  drop(t, &g->gathered);
}

// Finishes the groups in the order of model.named_modules().
static void after_backward(plim_tape *t, plim_shards *s) {
  fsdp *f = (fsdp *)s;
  finish(t, fsdp_other(f, FSDP_ROOT));
  finish(t, group_with(f, PLIM_PART_EMBEDDING));
  for (size_t i = 0; i < f->shards.layers; i++) finish(t, &f->groups[i]);
  finish(t, fsdp_other(f, FSDP_TAIL));
  f->done.len = 0;
  drop(t, &f->reducing);
  plim_await(t, f->reduced);
  if (f->how.offloads_parameters) plim_await_on_host(t, f->reduced);
}

static void after_step(plim_tape *t, plim_shards *s) {
  const fsdp *f = (fsdp *)s;
  if (!f->how.offloads_parameters) return;
  plim_update_by_torch(t, f->trained_count, (double)f->trained, f->trained_dtype);
}

static void destroy(plim_shards *s) {
  fsdp *f = (fsdp *)s;
  for (size_t i = 0; i < f->count; i++) {
    vec_free(&f->groups[i].parameters);
    vec_free(&f->groups[i].orders);
  }
  vec_free(&f->done);
  free(f->groups);
  free(f);
}

// With offloading, each shard and each of its gradients is pinned separately; the optimizer's state is not pinned.
static void count_host(fsdp *f) {
  for (size_t i = 0; i < f->count; i++)
    for (size_t k = 0; k < f->groups[i].parameters.len; k++) {
      const fsdp_parameter *p = &f->groups[i].parameters.at[k];
      uint64_t bytes = (uint64_t)fsdp_part_bytes(p, p->own_dtype);
      bool is_trained = p->index != SIZE_MAX;
      uint64_t pinned = plim_pinned_bytes(bytes), gradient = is_trained ? pinned : 0;
      f->shards.pinned_bytes += pinned + gradient;
      f->shards.gradient_bytes += gradient;
      f->shards.moment_bytes += is_trained ? bytes : 0;
      f->trained += is_trained ? p->elements : 0;
      f->trained_count += is_trained;
      if (is_trained) f->trained_dtype = p->own_dtype;
    }
}

// The optimizer sees the shards; if they are on the host, it sees nothing on the card.
static void replace_parameters(const fsdp *f, plim_model *m) {
  for (size_t i = 0; i < f->count; i++)
    for (size_t k = 0; k < f->groups[i].parameters.len; k++) {
      const fsdp_parameter *p = &f->groups[i].parameters.at[k];
      if (p->index != SIZE_MAX) m->parameters.at[p->index] = p->shard;
    }
  if (f->how.offloads_parameters) m->parameters.len = 0;
}

plim_shards *plim_fsdp_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers) {
  fsdp *f = calloc(1, sizeof *f);
  if (!f) return NULL;
  f->shards = (plim_shards){.syncs_passes = how->syncs_passes,
                            .before_model = before_model,
                            .after_model = after_model,
                            .before_layer = before_layer,
                            .after_layer = after_layer,
                            .before_part = before_part,
                            .after_part = after_part,
                            .after_backward = after_backward,
                            .after_step = after_step,
                            .destroy = destroy,
                            .layers = layers,
                            .is_wrapped_late = plim_is_accelerates(how),
                            .has_dtensors = true};
  f->how = *how;
  if (!fsdp_cut(t, f, m)) {
    destroy(&f->shards);
    return NULL;
  }
  replace_parameters(f, m);
  if (how->offloads_parameters) count_host(f);
  return &f->shards;
}
