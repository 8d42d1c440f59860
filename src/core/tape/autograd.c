// Autograd: the graph of nodes, and the engine that runs backward over it.
#include <string.h>

#include "kernels.h"
#include "tape_impl.h"
#include "work.h"

#include "tape_names.h"

#define ACCUMULATE_SEQUENCE UINT64_MAX // AccumulateGrad nodes run first

bool set_grad_mode(plim_tape *t, bool on) {
  bool was = t->grad_mode;
  t->grad_mode = on;
  return was;
}

bool needs_grad(const plim_tape *t, const plim_tensor *x) {
  return t->grad_mode && x && x->requires_grad;
}

bool wants(const plim_grad_node *n, int edge) { return n->edges[edge].node != NULL; }

// ---- nodes ----------------------------------------------------------------------------------------

static void release_saved(plim_tape *t, plim_grad_node *n) {
  for (int i = 0; i < n->saved_count; i++) {
    if (n->tracked >> i & 1 && n->saved[i]) {
      offload_abandon(t, n->saved[i], n->packed_index[i]);
      n->saved[i] = NULL;
    }
    drop(t, &n->saved[i]);
    if (!(n->packed >> i & 1)) continue;
    packed_forget(t, n->packer, n->packed_index[i]);
    packed_release(t, n->packer);
  }
  n->saved_count = n->packed = n->tracked = 0;
}

static void doom(plim_tape *t, plim_grad_node *n) {
  if (--n->refs == 0 && !vec_push(&t->doomed, n)) t->state.failed = true;
}

// Edge arrays come from one of four pools, for 1, 2, 4 or 8 edges.
static int edges_class(int count) { return count <= 1 ? 0 : count <= 2 ? 1 : count <= 4 ? 2 : 3; }

static plim_edge *edges_new(plim_tape *t, int count) {
  int k = edges_class(count);
  return tape_take(t, &t->edges[k], ((size_t)1 << k) * sizeof(plim_edge));
}

static void node_destroy(plim_tape *t, plim_grad_node *n) {
  release_saved(t, n);
  if (n->frame) packed_release(t, n->frame);
  if (n->leaf) n->leaf->accumulator = NULL;
  plim_tensor *leaf = n->function ? NULL : n->leaf;
  for (int i = 0; i < n->edge_count; i++)
    if (n->edges[i].node) doom(t, n->edges[i].node);
  plim_tensor *kept[PLIM_MAX_KEPT];
  memcpy(kept, n->kept, sizeof kept);
  if (n->more_shapes) tape_put_back(t, &t->shapes, n->more_shapes);
  if (n->edges) tape_put_back(t, &t->edges[edges_class(n->edge_count)], n->edges);
  tape_put_node(t, n);
  for (int i = 0; i < PLIM_MAX_KEPT; i++) plim_release(t, kept[i]);
  plim_release(t, leaf);
}

// Nodes of a chain are destroyed in a loop and not by recursion, because graphs are deep. If destroying a node
// releases a tensor with a graph of its own, that graph is destroyed completely before the tensor's memory is freed.
void plim_node_release(plim_tape *t, plim_grad_node *n) {
  size_t before = t->doomed.len;
  doom(t, n);
  while (t->doomed.len > before) node_destroy(t, t->doomed.at[--t->doomed.len]);
}

static plim_grad_node *accumulator_of(plim_tape *t, plim_tensor *leaf) {
  if (leaf->accumulator) return leaf->accumulator;
  plim_grad_node *n = tape_node(t);
  n->sequence = ACCUMULATE_SEQUENCE;
  n->output_count = 1;
  n->first_shape = leaf->shape;
  n->dtypes[0] = leaf->dtype;
  n->leaf = leaf;
  plim_retain(leaf);
  leaf->accumulator = n;
  return n;
}

// The node that gets the gradient of x: the one that computed it, or the AccumulateGrad node of a leaf.
static plim_grad_node *node_of(plim_tape *t, plim_tensor *x) {
  return x->fn ? x->fn : accumulator_of(t, x);
}

void plim_mark_used(const plim_tape *t, plim_tensor *x) {
  if (t->place.layer >= 0) x->layer = (uint32_t)t->place.layer + 1;
  x->parts |= t->state.parts;
}

plim_grad_node *node_begin(plim_tape *t, plim_backward_fn *function, plim_tensor *const *inputs,
                           int count) {
  bool any = false;
  plim_work_operator(t);
  for (int i = 0; i < count; i++) {
    any |= needs_grad(t, inputs[i]);
    if (inputs[i]) plim_mark_used(t, inputs[i]);
  }
  if (!any || t->state.is_stopped) return NULL;
  plim_grad_node *n = tape_node(t);
  n->function = function;
  n->purpose = t->purpose;
  n->what = t->place.what;
  n->layer = t->place.layer;
  n->edge_count = (uint8_t)count;
  n->edges = edges_new(t, count);
  for (int i = 0; i < count; i++) {
    if (!needs_grad(t, inputs[i])) continue;
    plim_grad_node *next = node_of(t, inputs[i]);
    next->refs++;
    n->edges[i] = (plim_edge){next, inputs[i]->output};
  }
  return n;
}

void node_before(plim_tape *t, plim_tensor *x, plim_hook *hook) {
  if (!x->fn && !needs_grad(t, x)) return;
  plim_grad_node *n = node_of(t, x);
  plim_hook **end = &n->before;
  while (*end && *end != hook) end = &(*end)->next;
  *end = hook;
}

void node_save(plim_tape *t, plim_grad_node *n, plim_tensor *x) {
  if (x && n->saved_count == PLIM_MAX_SAVED) t->state.failed = true;
  else if (x) saved_pack(t, n, n->saved_count++, x, false);
}

// An output is saved without its node; otherwise the two would keep each other alive.
void node_save_output(plim_tape *t, plim_grad_node *n, plim_tensor *x) {
  if (n->saved_count == PLIM_MAX_SAVED) t->state.failed = true;
  else saved_pack(t, n, n->saved_count++, x, true);
}

void node_output(plim_tape *t, plim_grad_node *n, plim_tensor *x) {
  if (!n->sequence) n->sequence = ++t->sequence;
  x->fn = n;
  x->output = n->output_count;
  x->requires_grad = true;
  n->refs++;
  if (!n->output_count) n->first_shape = x->shape;
  else {
    if (!n->more_shapes)
      n->more_shapes = tape_take(t, &t->shapes, (PLIM_MAX_EDGES - 1) * sizeof(plim_dims));
    n->more_shapes[n->output_count - 1] = x->shape;
  }
  n->dtypes[n->output_count++] = x->dtype;
}

void drop_graph(plim_tape *t, plim_tensor *x) {
  if (!x || !x->fn) return;
  plim_grad_node *n = x->fn;
  x->fn = NULL;
  plim_node_release(t, n);
}

// ---- the engine -----------------------------------------------------------------------------------

typedef struct {
  plim_grad_node *node;
  uint32_t missing, arrival; // gradients still to arrive; order in which it became ready
  plim_tensor *in[PLIM_MAX_EDGES];
} task;

typedef struct {
  plim_tape *t;
  vec(task) tasks; // in order of discovery
  vec(uint32_t) ready;
  uint32_t arrivals;
} engine;

// While the engine runs, a node's `task` is 1 + its index in `tasks`; 0: it has none.
static task *task_of(engine *e, const plim_grad_node *n) { return &e->tasks.at[n->task - 1]; }

static void need(engine *e, plim_grad_node *n) {
  if (!n->task) {
    if (!vec_push(&e->tasks, (task){.node = n})) {
      e->t->state.failed = true;
      return;
    }
    n->task = (uint32_t)e->tasks.len;
  }
  task_of(e, n)->missing++;
}

static void discover(engine *e) {
  for (size_t i = 0; i < e->tasks.len && !e->t->state.failed; i++) {
    plim_grad_node *n = e->tasks.at[i].node;
    for (int k = 0; k < n->edge_count; k++)
      if (n->edges[k].node) need(e, n->edges[k].node);
  }
}

static void make_ready(engine *e, task *k) {
  k->arrival = e->arrivals++;
  if (!vec_push(&e->ready, (uint32_t)(k - e->tasks.at))) e->t->state.failed = true;
}

// Takes the node that was made last; among AccumulateGrad nodes, the one that became ready first.
static task *take_ready(engine *e) {
  size_t best = 0;
  for (size_t i = 1; i < e->ready.len; i++) {
    const task *a = &e->tasks.at[e->ready.at[i]], *b = &e->tasks.at[e->ready.at[best]];
    if (a->node->sequence > b->node->sequence ||
        (a->node->sequence == b->node->sequence && a->arrival < b->arrival))
      best = i;
  }
  task *k = &e->tasks.at[e->ready.at[best]];
  e->ready.at[best] = e->ready.at[--e->ready.len];
  return k;
}

// Whether no other tensor shares the storage, except (with DeepSpeed's linear) the tensor that x is a view of.
static bool is_alone(const plim_tape *t, const plim_tensor *x) {
  bool is_only_view = t->state.has_own_linear && x->base && x->base->refs == 1;
  return x->refs == 1 && x->storage->refs == (is_only_view ? 2 : 1);
}

// Adds a second gradient in place if nothing else refers to the first one, as PyTorch's InputBuffer does.
static void accumulate(plim_tape *t, plim_tensor **slot, plim_tensor *more) {
  plim_tensor *first = *slot;
  bool in_place = plim_is_dense(first) && is_alone(t, first);
  if (!in_place) {
    plim_tensor *sum = k_binary(t, first, more);
    sum->is_floating = false;
    *slot = sum;
    plim_release(t, first);
  } else plim_work_map(t, first, more, first);
  plim_release(t, more);
}

static void repurpose(plim_tape *t, const plim_tensor *x, plim_purpose purpose) {
  plim_storage *s = x->storage;
  if (t->fold.is_recording) fold_fail(t);
  if (t->passes.is_recording) {
    pass_note_event(t, PASS_LEAVES_PURPOSE, s->id, s->bytes, s->purpose);
    pass_note_event(t, PASS_GETS_PURPOSE, s->id, s->bytes, (uint8_t)purpose);
  }
  t->live[s->purpose] -= s->bytes;
  s->purpose = (uint8_t)purpose;
  t->live[purpose] += s->bytes;
  if (s->bytes && t->sink.repurpose) t->sink.repurpose(t->sink.context, s->id, purpose);
}

// The first gradient of a leaf is taken over without a copy if nothing else refers to it and its layout is that of the
// leaf, or contiguous if the leaf is not dense; later ones are added in place.
static void accumulate_leaf(plim_tape *t, plim_grad_node *n, plim_tensor *grad) {
  plim_tensor *leaf = n->leaf;
  if (!leaf->grad) {
    bool is_dense = plim_is_dense(leaf);
    bool fits = is_dense ? plim_same(&grad->stride, &leaf->stride) : plim_is_contiguous(grad);
    leaf->grad = grad->refs == 1 && fits ? alias_of(t, grad, grad->shape, grad->stride)
                 : is_dense              ? empty_strided(t, grad->shape, leaf->stride, grad->dtype)
                                         : empty(t, grad->shape, (plim_dtype)grad->dtype);
    leaf->grad->is_floating = false;
    if (leaf->storage->purpose <= PLIM_FOR_ADAPTERS) repurpose(t, leaf->grad, PLIM_FOR_GRADIENTS);
    plim_work_default(t, grad, NULL, leaf->grad);
  } else plim_work_map(t, leaf->grad, grad, leaf->grad);
}

// Reduces broadcast gradients to the shape of their input and casts them to its dtype.
static void fit(plim_tape *t, const plim_grad_node *n, plim_tensor **out) {
  for (int i = 0; i < n->edge_count; i++) {
    if (!out[i] || !n->edges[i].node) continue;
    const plim_grad_node *next = n->edges[i].node;
    int output = n->edges[i].output;
    plim_tensor *fitted = k_sum_to(t, out[i], plim_output_shape(next, output));
    if (fitted != out[i]) set(t, &out[i], fitted);
    fitted = k_to(t, out[i], (plim_dtype)next->dtypes[output]);
    if (fitted != out[i]) set(t, &out[i], fitted);
  }
}

static void deliver_one(engine *e, plim_edge to, plim_tensor *grad) {
  task *k = task_of(e, to.node);
  plim_tensor **slot = &k->in[to.output];
  if (grad && *slot) accumulate(e->t, slot, grad);
  else if (grad) *slot = grad;
  if (--k->missing == 0) make_ready(e, k);
}

static void deliver(engine *e, plim_grad_node *n, plim_tensor **out) {
  for (int i = 0; i < n->edge_count; i++) {
    if (!n->edges[i].node) continue;
    deliver_one(e, n->edges[i], out[i]);
    out[i] = NULL;
  }
}

// Recomputes or fetches the saved tensors. The host copies of offloaded ones are kept in `hosts` meanwhile.
static void unpack(plim_tape *t, plim_grad_node *n, plim_tensor **hosts) {
  for (int i = 0; i < n->saved_count; i++) {
    if (n->packed >> i & 1) n->saved[i] = saved_unpack(t, n, i);
    else if (n->tracked >> i & 1)
      n->saved[i] = offload_unpack(t, n, n->saved[i], n->packed_index[i]);
    else if (is_offloaded(n->saved[i]))
      hosts[i] = n->saved[i], n->saved[i] = saved_fetch(t, hosts[i]);
  }
}

// Recomputed and fetched tensors are needed only once. C++ destroys local variables in reverse order.
static void drop_unpacked(plim_tape *t, plim_grad_node *n, plim_tensor *const *hosts) {
  for (int k = 0; k < n->saved_count; k++) {
    int i = n->drops_in_order ? k : n->saved_count - 1 - k;
    if ((n->packed | n->tracked) >> i & 1 || hosts[i]) drop(t, &n->saved[i]);
    if (hosts[i]) n->saved[i] = hosts[i];
  }
}

// Drops gradients that a kernel computed although no edge needs them. Those that a Python function returns live longest:
// the engine's list of results holds them.
static void drop_unwanted(plim_tape *t, const plim_grad_node *n, plim_tensor **out) {
  for (int i = 0; i < n->edge_count; i++) {
    if (n->edges[i].node || !out[i]) continue;
    out[i]->is_floating = false;
    drop(t, &out[i]);
  }
}

static void run(engine *e, task *k) {
  plim_tape *t = e->t;
  plim_grad_node *n = k->node;
  plim_tensor *in[PLIM_MAX_EDGES], *out[PLIM_MAX_EDGES] = {0}, *hosts[PLIM_MAX_SAVED] = {0};
  memcpy(in, k->in, sizeof in);
  memset(k->in, 0, sizeof k->in);
  if (n->fold) fold_arrive(t, n);
  plim_work_node(t);
  size_t hooks = t->offload.hooks.len;
  if (n->function) {
    t->purpose = n->purpose;
    plim_tape_enter(t, n->layer, n->what);
  }
  for (const plim_hook *h = n->before; h; h = h->next) h->run(t, h->context);
  if (!n->function) {
    if (n->leaf->before_grad.run) n->leaf->before_grad.run(t, n->leaf->before_grad.context);
    accumulate_leaf(t, n, in[0]);
    drop(t, &in[0]); // the leaf alone holds it
    if (n->leaf->on_grad.run) n->leaf->on_grad.run(t, n->leaf->on_grad.context);
  } else {
    unpack(t, n, hosts);
    if (!t->state.failed) n->function(t, n, in, out); // a failure may leave saved tensors missing
    if (!n->drops_in_order) drop_unwanted(t, n, out);
    drop_unpacked(t, n, hosts);
    for (int i = 0; i < n->edge_count; i++)
      if (out[i]) {
        out[i]->is_floating = false;
        plim_work_default(t, in[0], NULL, out[i]);
      }
    fit(t, n, out);
  }
  offload_node_ran(t, hooks);
  for (int i = 0; i < n->output_count; i++) plim_release(t, in[i]);
  release_saved(t, n);
  deliver(e, n, out);
  if (n->drops_in_order) drop_unwanted(t, n, out);
}

void backward(plim_tape *t, plim_tensor *x, plim_tensor *grad) { backward_all(t, &x, &grad, 1); }

void backward_all(plim_tape *t, plim_tensor *const *xs, plim_tensor *const *grads, int count) {
  engine e = {.t = t};
  plim_edge roots[PLIM_MAX_EDGES];
  bool was = set_grad_mode(t, false);
  plim_program_point place_was = t->place;
  uint8_t purpose_was = t->purpose;
  for (int i = 0; i < count; i++) {
    roots[i] = (plim_edge){node_of(t, xs[i]), xs[i]->output};
    roots[i].node->refs++;
    need(&e, roots[i].node);
  }
  discover(&e);
  for (int i = 0; i < count; i++) {
    grads[i]->is_floating = false;
    if (!t->state.failed) deliver_one(&e, roots[i], grads[i]);
  }
  offload_graph outer = offload_begin_graph(t);
  while (e.ready.len && !t->state.failed) run(&e, take_ready(&e));
  offload_end_graph(t, outer);
  for (size_t i = 0; i < e.tasks.len; i++) e.tasks.at[i].node->task = 0;
  for (int i = 0; i < count; i++) plim_node_release(t, roots[i].node);
  vec_free(&e.tasks);
  vec_free(&e.ready);
  t->place = place_was;
  t->purpose = purpose_was;
  set_grad_mode(t, was);
}
