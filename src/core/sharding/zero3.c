// DeepSpeed ZeRO, stage 3, which also partitions the parameters: the hooks around modules, or around layers for
// parameters whose modules the tape does not call as such, and the reduction of gradients. Follows DeepSpeed 0.19
// (runtime/zero/stage3.py, parameter_offload.py).
#include <stdlib.h>

#include "rounding.h"
#include "traffic.h"
#include "zero3_impl.h"
#include "zero_work.h"

#include "sort.h"
#include "tape_names.h"

typedef zero3_parameter parameter;
typedef zero3_group group;

static group *before_layers(zero3 *z) { return &z->groups[0]; }
static group *behind_layers(zero3 *z) { return &z->groups[z->group_count - 1]; }

// ---- reducing -------------------------------------------------------------------------------------

#define NORM_ELEMENTS 250000000 // stage3.py, _constant_buffered_norm2: buffer_size

// Offloaded gradients are copied one by one; their norms are computed in float64, in addition to the total.
static void offload(plim_tape *t, const parameter *p) {
  plim_tensor *copy = empty_for(t, PLIM_FOR_WORKSPACE, dims(p->part), p->all->dtype);
  for (int64_t done = 0; done < p->part; done += NORM_ELEMENTS) {
    int64_t left = p->part - done, elements = left < NORM_ELEMENTS ? left : NORM_ELEMENTS;
    plim_consume(t, empty_for(t, PLIM_FOR_WORKSPACE, dims(elements), PLIM_FP64));
  }
  plim_consume(t, copy);
}

// Offloaded gradients go to the host and back to the card, where the next pass adds to them (partition_grads); at the end
// of a step they also go to the host in float32 for the optimizer.
static void send_to_host(plim_tape *t, zero3 *z, double elements) {
  double own = elements * plim_dtype_bytes[z->dtype], wide = 4 * elements;
  bool is_pageable = z->how.pages_optimizer, ends_step = plim_state(t)->ends_step;
  if (!is_pageable) {
    z->reduced = plim_copy_to_host(t, 2 * own, z->reduced);
    if (ends_step) z->offloaded = plim_copy_to_host(t, wide, z->reduced);
    return;
  }
  z->reduced = plim_copy_pageable(t, own, plim_copy_to_pageable(t, own, z->reduced));
  plim_await_on_host(t, z->reduced);
  if (ends_step) z->offloaded = plim_copy_to_pageable(t, wide, z->reduced);
}

// Overlaps with computing, unless overlap_comm is off.
static void send_bucket(plim_tape *t, zero3 *z) {
  double whole = (double)z->bucket_elements * plim_dtype_bytes[z->dtype];
  z->reduced = plim_send_scatter(t, whole, plim_traffic_now(t));
  if (z->how.offloads_optimizer)
    send_to_host(t, z, (double)z->bucket_elements / (double)z->how.world);
  if (z->how.sends_in_turn) plim_await(t, z->reduced);
}

static int in_model_order(const void *x, const void *y) {
  const parameter *const *a = x, *const *b = y;
  return (*a > *b) - (*a < *b);
}

static void reduce_bucket(plim_tape *t, zero3 *z) {
  if (!z->bucket.len) return;
  send_bucket(t, z);
  plim_sort(z->bucket.at, z->bucket.len, sizeof *z->bucket.at, in_model_order);
  plim_stream was = plim_state(t)->stream;
  plim_state(t)->stream = PLIM_REDUCE_STREAM;
  plim_tensor *inputs = empty_for(t, PLIM_FOR_WORKSPACE, dims(z->bucket_elements), z->dtype);
  for (size_t i = 0; z->how.offloads_optimizer && i < z->bucket.len; i++)
    offload(t, z->bucket.at[i]);
  plim_consume(t, inputs);
  z->bucket.len = 0;
  z->bucket_elements = 0;
  plim_state(t)->stream = was;
}

// Copies the gradient into the bucket. A module is released when its input's gradient has arrived; embeddings have no
// such gradient and stay until the end.
static void on_grad(plim_tape *t, void *context) {
  parameter *p = context;
  zero3 *z = p->all;
  if (z->bucket_elements + p->elements > z->sizes.reduce_bucket) reduce_bucket(t, z);
  z->bucket_elements += p->part * z->how.world;
  if (!vec_push(&z->bucket, p)) plim_state(t)->failed = true;
  zero_work_gradient(t, z->how.offloads_optimizer);
  drop(t, &p->tensor->grad);
  if (!p->tensor->is_table && !zero3_is_used_soon(z, p)) zero3_release(t, p);
}

// ---- hooks ----------------------------------------------------------------------------------------

// In backward: releases the previous group, which is no longer needed.
static void use_again(plim_tape *t, void *context) {
  group *g = context;
  zero3 *z = g->all;
  group **last = g->is_module ? &z->last_module : &z->last;
  if (*last && *last != g) zero3_done_with(t, *last);
  *last = g;
  zero_work_backward(t, g->modules);
  zero3_use(t, g);
}

static plim_hook *gather_again(group *g) {
  g->before_backward = (plim_hook){use_again, g};
  return &g->before_backward;
}

// Modules without parameters are called, too. Models: the one with a head and the one inside it, with peft two more
// around them. Before the layers: the rotary embedding. In a layer: itself and its attention.
enum { MODELS = 2, MODELS_OF_PEFT = 4, MODULES_OF_LAYER = 2 };

static void before_model(plim_tape *t, plim_shards *s) {
  zero3 *z = (zero3 *)s;
  z->position = z->queued = z->queued_member = 0;
  for (size_t i = 0; i < z->count; i++) z->parameters[i].claimed = 0;
  for (int i = 0; i < (z->has_adapters ? MODELS_OF_PEFT : MODELS); i++)
    zero3_use(t, before_layers(z));
}

static void before_module(plim_tape *t, plim_shards *s, void *sharded) {
  parameter *p = sharded;
  (void)s;
  if (p->is_adapters) zero3_use(t, &p->around);
  zero3_use(t, &p->module);
}

static void after_module(plim_tape *t, plim_shards *s, void *sharded, plim_tensor *out) {
  parameter *p = sharded;
  (void)s;
  zero3_done_with(t, &p->module);
  if (out->fn) out->fn->before = gather_again(&p->module);
  else if (out->requires_grad) node_before(t, out, gather_again(&p->module));
}

static void pass_on(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)t, (void)n;
  plim_retain(in[0]);
  out[0] = in[0];
}

// The group before the layers is gathered for its backward, too.
static plim_tensor *before_layer(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *x) {
  zero3 *z = (zero3 *)s;
  if (plim_state(t)->is_recomputing) return x;
  if (layer == 0) before_layers(z)->modules = zero_count_modules(t);
  if (layer == 0) zero3_use(t, before_layers(z)), zero3_done_with(t, before_layers(z));
  for (int i = 0; i < MODULES_OF_LAYER; i++) zero3_use(t, &z->groups[layer + 1]);
  bool is_asked_for = layer == 0 && before_layers(z)->members.len;
  plim_grad_node *n = is_asked_for ? node_begin(t, pass_on, &x, 1) : NULL;
  if (!n) return x;
  n->before = gather_again(before_layers(z));
  plim_tensor *input = view_of(t, x, x->shape, x->stride);
  node_output(t, n, input);
  return input;
}

static void after_layer(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *out) {
  zero3 *z = (zero3 *)s;
  if (plim_state(t)->is_recomputing) return;
  group *g = &z->groups[layer + 1];
  g->modules = zero_count_modules(t);
  zero3_done_with(t, g);
  if (out->fn) out->fn->before = gather_again(g);
  if (layer + 1 == s->layers) zero3_use(t, behind_layers(z));
}

static plim_tensor *after_model(plim_tape *t, plim_shards *s, plim_tensor *loss) {
  zero3 *z = (zero3 *)s;
  behind_layers(z)->modules = zero_count_modules(t);
  zero3_done_with(t, behind_layers(z));
  if (loss->fn) loss->fn->before = gather_again(behind_layers(z));
  return loss;
}

static void after_engine_backward(plim_tape *t, plim_shards *s, bool is_last) {
  zero3 *z = (zero3 *)s;
  (void)is_last;
  reduce_bucket(t, z);
  plim_await(t, z->reduced);
  plim_await_once(t, z->offloaded);
  plim_await_on_host(t, plim_traffic_now(t));
  for (size_t i = 0; i < z->count; i++) zero3_release(t, &z->parameters[i]);
  z->last = z->last_module = NULL;
  z->is_traced = true;
}

// ---- construction ---------------------------------------------------------------------------------

static void destroy(plim_shards *s) {
  zero3 *z = (zero3 *)s;
  for (size_t i = 0; i < z->group_count; i++) vec_free(&z->groups[i].members);
  for (size_t i = 0; i < z->count; i++) {
    vec_free(&z->parameters[i].module.members);
    vec_free(&z->parameters[i].around.members);
  }
  vec_free(&z->trace);
  vec_free(&z->bucket);
  vec_free(&z->sub_groups);
  free(z->groups);
  free(z->parameters);
  free(z);
}

static bool add_member(group *g, parameter *p) { return vec_push(&g->members, p); }

static group *layers_group(zero3 *z, const parameter *p, bool is_behind) {
  return p->tensor->layer ? &z->groups[p->tensor->layer]
         : is_behind      ? behind_layers(z)
                          : before_layers(z);
}

// A bias belongs to the module of the weight before it.
static group *module_of(parameter *p) {
  bool is_bias = p->tensor->module == PLIM_MODULE_BIAS && p > p->all->parameters;
  parameter *weight = is_bias ? p - 1 : p;
  return weight->tensor->module == PLIM_MODULE_WEIGHT ? &weight->module : NULL;
}

// lora_A: the first trained parameter after a frozen module.
static bool is_asked_around(const parameter *p) {
  return p->is_trained && p->tensor->behind && p > p->all->parameters && !p[-1].is_trained;
}

static bool ask_around(parameter *p) {
  parameter *weight = p[-1].tensor->module == PLIM_MODULE_BIAS ? p - 2 : p - 1;
  p->is_adapters = weight->is_adapters = true;
  return add_member(&weight->around, p);
}

// Parameters outside the layers that the model lists first are used first. A table used at both ends (a tied head) is
// also in the group after the layers.
static bool group_parameters(zero3 *z) {
  bool ok = true, has_head = false, is_behind = false;
  for (size_t i = 0; i < z->count; i++) {
    parameter *p = &z->parameters[i];
    is_behind |= p->tensor->layer != 0;
    group *around = layers_group(z, p, is_behind), *module = module_of(p);
    has_head |= around == behind_layers(z) && !p->is_persistent;
    ok = ok && add_member(module ? module : around, p);
    if (is_asked_around(p)) ok = ok && ask_around(p);
  }
  return ok && (has_head || add_member(behind_layers(z), &z->parameters[0]));
}

static void add_parameter(zero3 *z, plim_tensor *x, bool is_trained) {
  parameter *p = &z->parameters[z->count++];
  int64_t elements = plim_numel(&x->shape);
  *p = (parameter){.all = z, .tensor = x, .elements = elements, .is_trained = is_trained};
  p->module = p->around = (group){.all = z, .is_module = true};
  x->sharded = p;
  p->part = plim_ceil_div(elements, z->how.world);
  p->is_persistent = elements <= z->sizes.persistent;
  if (!is_trained) return;
  x->on_grad = (plim_hook){on_grad, p};
  z->partition += p->part;
}

static void list_parameter(void *context, plim_tensor *x, size_t trained) {
  add_parameter(context, x, trained != SIZE_MAX);
}

static bool list_parameters(zero3 *z, const plim_model *m) {
  z->group_count = z->shards.layers + 2;
  z->groups = calloc(z->group_count, sizeof *z->groups);
  z->parameters = calloc(m->frozen.len + m->parameters.len + 1, sizeof *z->parameters);
  if (!z->groups || !z->parameters) return false;
  for (size_t i = 0; i < z->group_count; i++) z->groups[i].all = z;
  plim_each_parameter(m, list_parameter, z);
  return group_parameters(z);
}

plim_shards *plim_zero3_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers) {
  zero3 *z = m->parameters.len ? calloc(1, sizeof *z) : NULL;
  if (!z) return NULL;
  z->shards = (plim_shards){.before_model = before_model,
                            .after_model = after_model,
                            .before_layer = before_layer,
                            .after_layer = after_layer,
                            .before_module = before_module,
                            .after_module = after_module,
                            .after_engine_backward = after_engine_backward,
                            .before_step = zero3_before_step,
                            .before_update = zero3_before_update,
                            .after_step = zero3_after_step,
                            .destroy = destroy,
                            .layers = layers,
                            .is_wrapped_late = true};
  z->how = *how;
  z->sizes = plim_zero_sizes_of(how);
  z->dtype = (plim_dtype)(m->frozen.len ? m->frozen.at[0] : m->parameters.at[0])->dtype;
  z->has_adapters = m->frozen.len > 0;
  z->trained_dtype = (plim_dtype)m->parameters.at[0]->dtype;
  plim_state(t)->has_own_linear = true;
  zero_work_begin(t);
  zero_watch_modules(t);
  if (list_parameters(z, m) && zero3_make_states(t, z, m)) return &z->shards;
  if (!z->groups) z->group_count = 0;
  destroy(&z->shards);
  return NULL;
}
