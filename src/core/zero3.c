// DeepSpeed ZeRO, stage 3: parameters are partitioned too, gathered when a layer needs them and ahead of
// that, and let go when they are not needed again soon. Read off DeepSpeed 0.19
// (runtime/zero/stage3.py, partitioned_param_coordinator.py), by layers where DeepSpeed goes by modules.
#include <stdlib.h>

#include "traffic.h"
#include "zero3_impl.h"
#include "zero_work.h"

typedef zero3_parameter parameter;
typedef zero3_group group;

static group *before_layers(zero3 *z) { return &z->groups[0]; }
static group *behind_layers(zero3 *z) { return &z->groups[z->group_count - 1]; }

// ---- gathering ------------------------------------------------------------------------------------

static uint64_t whole_bytes(const parameter *p) {
  return (uint64_t)(p->part * p->all->how.world) * plim_dtype_bytes[p->tensor->dtype];
}

static bool is_here(const parameter *p) { return p->is_persistent || p->is_whole || p->flat; }

// Parameters that are asked for together travel together; offloaded parts come from the host first, and Python waits
// for them: `tensor.to(device)` of several ranks returns when it is done, and with one rank the next parameter that is
// used waits for all that was asked for.
static double send_parts(plim_tape *t, const zero3 *z, double whole) {
  double after = 0;
  if (!(whole > 0)) return 0;
  if (z->how.offloads_parameters)
    after = plim_copy_from_host(t, whole / (double)z->how.world, after);
  plim_await_on_host(t, after);
  return plim_send_gather(t, whole, after);
}

static void copy_out(plim_tape *t, parameter *p) {
  plim_resize_storage(t, p->tensor, whole_bytes(p));
  p->is_whole = true;
}

static void gather(plim_tape *t, parameter *p) {
  zero3 *z = p->all;
  if (is_here(p)) return;
  plim_tensor *part = NULL;
  if (z->how.offloads_parameters)
    part = empty_for(t, PLIM_FOR_WORKSPACE, dims(p->part), (plim_dtype)p->tensor->dtype);
  copy_out(t, p);
  plim_consume(t, part);
  z->live += p->elements;
}

// Several at once go into one piece of memory first.
static void gather_together(plim_tape *t, parameter **members, size_t count) {
  if (count == 1) gather(t, members[0]);
  if (count < 2) return;
  plim_tensor *flat = NULL;
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += whole_bytes(members[i]);
  set(t, &flat, scratch(t, bytes));
  for (size_t i = 0; i < count; i++) {
    set(t, &members[i]->flat, flat);
    members[i]->all->live += members[i]->elements;
  }
  drop(t, &flat);
}

static void send_together(plim_tape *t, parameter **members, size_t count) {
  double whole = 0;
  size_t missing = 0;
  for (size_t i = 0; i < count; i++)
    if (!is_here(members[i])) missing++, whole += (double)whole_bytes(members[i]);
  zero_work_gather(t, missing);
  double ready = count ? send_parts(t, members[0]->all, whole) : 0;
  for (size_t i = 0; i < count; i++)
    if (!is_here(members[i])) members[i]->ready = ready;
}

enum { MOST_TOGETHER = 256 };

// What the trace names next, as far as room for live parameters allows.
static bool prefetch_some(plim_tape *t, zero3 *z) {
  parameter *chosen[MOST_TOGETHER];
  size_t count = 0;
  int64_t room = z->sizes.live - z->live, elements = 0;
  if (room > z->sizes.prefetch) room = z->sizes.prefetch;
  for (size_t i = z->position; i < z->trace.len && elements < room; i++) {
    const group *g = &z->groups[z->trace.at[i]];
    for (size_t k = 0; k < g->members.len && elements < room && count < MOST_TOGETHER; k++) {
      parameter *p = g->members.at[k];
      bool is_chosen = false;
      for (size_t c = 0; c < count; c++) is_chosen |= chosen[c] == p;
      if (is_here(p) || is_chosen) continue;
      chosen[count++] = p;
      elements += p->elements;
    }
  }
  send_together(t, chosen, count);
  gather_together(t, chosen, count);
  return count > 0;
}

static void use(plim_tape *t, group *g) {
  zero3 *z = g->all;
  plim_stream was = t->stream;
  t->stream = PLIM_GATHER_STREAM;
  if (!z->is_traced && !vec_push(&z->trace, (size_t)(g - z->groups))) t->failed = true;
  z->position++;
  send_together(t, g->members.at, g->members.len);
  for (size_t i = 0; i < g->members.len; i++) {
    parameter *p = g->members.at[i];
    plim_await(t, p->ready);
    gather(t, p);
    if (p->flat) copy_out(t, p);
  }
  while (z->is_traced && prefetch_some(t, z)) {}
  t->stream = was;
  for (size_t i = 0; i < g->members.len; i++) drop(t, &g->members.at[i]->flat);
}

static void release(plim_tape *t, parameter *p) {
  if (!p->is_whole || p->is_persistent) return;
  plim_resize_storage(t, p->tensor, 0);
  p->is_whole = false;
  p->all->live -= p->elements;
}

static bool is_used_soon(const zero3 *z, const parameter *p) {
  int64_t distance = 0;
  for (size_t i = z->position; z->is_traced && i < z->trace.len; i++) {
    const group *g = &z->groups[z->trace.at[i]];
    if (distance >= z->sizes.reuse) return false;
    for (size_t k = 0; k < g->members.len; k++) {
      if (g->members.at[k] == p) return true;
      distance += g->members.at[k]->elements;
    }
  }
  return false;
}

static void done_with(plim_tape *t, group *g) {
  for (size_t i = 0; i < g->members.len; i++)
    if (!is_used_soon(g->all, g->members.at[i])) release(t, g->members.at[i]);
}

// ---- reducing -------------------------------------------------------------------------------------

// Offloaded gradients are copied and their norms taken in float64, one by one, beside the others.
static void offload(plim_tape *t, const parameter *p) {
  plim_tensor *copy = empty_for(t, PLIM_FOR_WORKSPACE, dims(p->part), (plim_dtype)p->tensor->dtype);
  plim_tensor *wide = empty_for(t, PLIM_FOR_WORKSPACE, dims(p->part), PLIM_FP64);
  plim_consume(t, wide);
  plim_consume(t, copy);
}

// Beside what the card computes: overlap_comm is on in this stage. To the host and back to the card, to be added to
// by the next pass, or, in float32, to the host for the optimizer.
static void send_bucket(plim_tape *t, zero3 *z) {
  double whole = (double)z->bucket_elements * plim_dtype_bytes[z->parts->dtype];
  z->reduced = plim_send_scatter(t, whole, plim_traffic_now(t));
  if (!z->how.offloads_optimizer) return;
  double own = whole / (double)z->how.world, elements = own / plim_dtype_bytes[z->parts->dtype];
  z->reduced = plim_copy_to_host(t, 2 * own, z->reduced);
  if (t->ends_step) z->offloaded = plim_copy_to_host(t, 4 * elements, z->reduced);
}

static void reduce_bucket(plim_tape *t, zero3 *z) {
  if (!z->bucket.len) return;
  send_bucket(t, z);
  plim_stream was = t->stream;
  t->stream = PLIM_REDUCE_STREAM;
  plim_tensor *inputs =
      empty_for(t, PLIM_FOR_WORKSPACE, dims(z->bucket_elements), (plim_dtype)z->parts->dtype);
  for (size_t i = 0; z->how.offloads_optimizer && i < z->bucket.len; i++)
    offload(t, z->bucket.at[i]);
  plim_consume(t, inputs);
  z->bucket.len = 0;
  z->bucket_elements = 0;
  t->stream = was;
}

static bool is_before_layers(const parameter *p) {
  const group *g = before_layers(p->all);
  for (size_t i = 0; i < g->members.len; i++)
    if (g->members.at[i] == p) return true;
  return false;
}

// A gradient is copied into the bucket. What comes before the layers is let go at the very end.
static void on_grad(plim_tape *t, void *context) {
  parameter *p = context;
  zero3 *z = p->all;
  if (z->bucket_elements + p->elements > z->sizes.reduce_bucket) reduce_bucket(t, z);
  z->bucket_elements += p->part * z->how.world;
  if (!vec_push(&z->bucket, p)) t->failed = true;
  zero_work_gradient(t, z->how.offloads_optimizer);
  drop(t, &p->tensor->grad);
  if (!is_before_layers(p)) release(t, p);
}

// ---- hooks ----------------------------------------------------------------------------------------

// In backward: what was used before is no longer needed.
static void use_again(plim_tape *t, void *context) {
  group *g = context;
  zero3 *z = g->all;
  if (z->last && z->last != g) done_with(t, z->last);
  z->last = g;
  zero_work_backward(t, g->modules);
  use(t, g);
}

static plim_hook *gather_again(group *g) {
  g->before_backward = (plim_hook){use_again, g};
  return &g->before_backward;
}

static void before_model(plim_tape *t, plim_shards *s) {
  zero3 *z = (zero3 *)s;
  z->position = 0;
  for (size_t i = 0; i < z->count; i++)
    if (z->parameters[i].is_persistent) copy_out(t, &z->parameters[i]);
  use(t, before_layers(z));
}

static void pass_on(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)t, (void)n;
  plim_retain(in[0]);
  out[0] = in[0];
}

// What comes before the layers is gathered for its backward, too.
static plim_tensor *before_layer(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *x) {
  zero3 *z = (zero3 *)s;
  if (layer == 0) before_layers(z)->modules = zero_count_modules(t);
  if (layer == 0) done_with(t, before_layers(z));
  use(t, &z->groups[layer + 1]);
  plim_grad_node *n = layer ? NULL : node_begin(t, pass_on, &x, 1);
  if (!n) return x;
  n->before = gather_again(before_layers(z));
  plim_tensor *input = view_of(t, x, x->shape, x->stride);
  node_output(t, n, input);
  return input;
}

static void after_layer(plim_tape *t, plim_shards *s, size_t layer, plim_tensor *out) {
  zero3 *z = (zero3 *)s;
  group *g = &z->groups[layer + 1];
  g->modules = zero_count_modules(t);
  done_with(t, g);
  if (out->fn) out->fn->before = gather_again(g);
  if (layer + 1 == s->layers) use(t, behind_layers(z));
}

static plim_tensor *after_model(plim_tape *t, plim_shards *s, plim_tensor *loss) {
  zero3 *z = (zero3 *)s;
  behind_layers(z)->modules = zero_count_modules(t);
  done_with(t, behind_layers(z));
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
  for (size_t i = 0; i < z->count; i++) release(t, &z->parameters[i]);
  z->last = NULL;
  z->is_traced = true;
}

// ---- construction ---------------------------------------------------------------------------------

static void destroy(plim_shards *s) {
  zero3 *z = (zero3 *)s;
  for (size_t i = 0; i < z->group_count; i++) vec_free(&z->groups[i].members);
  vec_free(&z->trace);
  vec_free(&z->bucket);
  vec_free(&z->sub_groups);
  free(z->groups);
  free(z->parameters);
  free(z);
}

static bool add_member(group *g, parameter *p) {
  return p->is_persistent || vec_push(&g->members, p);
}

// Outside of the layers: what the model lists first is used first. A table used at both ends (a tied
// head) is in both groups.
static bool group_parameters(zero3 *z) {
  bool ok = true, has_head = false, is_behind = false;
  for (size_t i = 0; i < z->count; i++) {
    parameter *p = &z->parameters[i];
    is_behind |= p->tensor->layer != 0;
    group *g = p->tensor->layer ? &z->groups[p->tensor->layer]
               : is_behind      ? behind_layers(z)
                                : before_layers(z);
    has_head |= g == behind_layers(z) && !p->is_persistent;
    ok = ok && add_member(g, p);
  }
  if (!has_head && before_layers(z)->members.len)
    ok = ok && add_member(behind_layers(z), before_layers(z)->members.at[0]);
  return ok;
}

static void add_parameter(zero3 *z, plim_tensor *x, bool is_trained) {
  parameter *p = &z->parameters[z->count++];
  int64_t elements = plim_numel(&x->shape);
  *p = (parameter){.all = z, .tensor = x, .elements = elements, .is_trained = is_trained};
  p->part = (elements + z->how.world - 1) / z->how.world;
  p->is_persistent = elements <= z->sizes.persistent;
  if (!is_trained) return;
  x->on_grad = (plim_hook){on_grad, p};
  z->partition += p->part;
}

static bool list_parameters(zero3 *z, const plim_model *m) {
  z->group_count = z->shards.layers + 2;
  z->groups = calloc(z->group_count, sizeof *z->groups);
  z->parameters = calloc(m->frozen.len + m->parameters.len + 1, sizeof *z->parameters);
  if (!z->groups || !z->parameters) return false;
  for (size_t i = 0; i < z->group_count; i++) z->groups[i].all = z;
  for (size_t i = 0; i < m->frozen.len; i++) add_parameter(z, m->frozen.at[i], false);
  for (size_t i = 0; i < m->parameters.len; i++) add_parameter(z, m->parameters.at[i], true);
  return group_parameters(z);
}

plim_shards *plim_zero3_new(plim_tape *t, plim_model *m, const plim_sharding *how, size_t layers) {
  zero3 *z = calloc(1, sizeof *z);
  if (!z) return NULL;
  z->shards = (plim_shards){.before_model = before_model,
                            .after_model = after_model,
                            .before_layer = before_layer,
                            .after_layer = after_layer,
                            .after_engine_backward = after_engine_backward,
                            .before_step = zero3_before_step,
                            .before_update = zero3_before_update,
                            .after_step = zero3_after_step,
                            .destroy = destroy,
                            .layers = layers};
  z->how = *how;
  z->sizes = plim_zero_sizes_of(how);
  t->has_own_linear = true;
  zero_watch_modules(t);
  if (m->parameters.len && list_parameters(z, m) && zero3_make_states(t, z, m)) return &z->shards;
  if (!z->groups) z->group_count = 0;
  destroy(&z->shards);
  return NULL;
}
