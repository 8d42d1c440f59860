#include "offload.h"

#include <stdlib.h>

#include "tape_impl.h"
#include "traffic.h"

#include "sort.h"
#include "tape_names.h"

enum {
  FORWARD_STASH = 5,     // max_fwd_stash_size
  INPUTS_STASH = 2,      // the same of CheckpointHiddenStatesOffload
  LEAST_OFFLOADED = 1024 // min_offload_size
};

typedef struct {
  bool is_class;      // OffloadActivations
  bool is_around;     // the whole training step
  bool has_stream;    // of its own
  bool knows_storage; // tells the model's parameters from other tensors by their storage
  bool clones_first;  // makes everything contiguous before the class sees it
  bool is_for_inputs; // of checkpoints; the class is a simpler one
} saving_kind;

static const saving_kind kinds[PLIM_SAVINGS] = {
    [PLIM_SAVED_BY_TRL] = {true, true, true, true, false, false},
    [PLIM_SAVED_BY_TRL_INLINE] = {true, true, false, true, false, false},
    [PLIM_SAVED_BY_TUNE] = {true, false, true, false, false, false},
    [PLIM_SAVED_BY_TUNE_INLINE] = {true, false, false, false, false, false},
    [PLIM_SAVED_BY_AXOLOTL] = {true, true, true, false, true, false},
    [PLIM_SAVED_BY_AXOLOTL_INLINE] = {true, true, false, false, false, false},
    [PLIM_SAVED_INPUTS] = {true, true, true, false, false, true},
};

// torchtune's version of the class is the older one.
static bool is_tune(plim_saving how) { return kinds[how].is_class && !kinds[how].is_around; }

static bool is_trl(plim_saving how) { return kinds[how].is_class && kinds[how].is_around; }

static bool has_stream(plim_saving how) { return kinds[how].has_stream; }

bool offload_is_class(plim_saving how) { return kinds[how].is_class; }

bool offload_is_for_inputs(plim_saving how) { return kinds[how].is_for_inputs; }

plim_saving plim_saves(plim_tape *t, plim_saving how) {
  plim_saving was = t->offload.how;
  t->offload.how = how;
  return was;
}

plim_saving plim_saves_head(plim_tape *t) {
  plim_saving how = t->offload.how;
  return plim_saves(t, offload_is_class(how) ? PLIM_SAVED_HERE : how);
}

bool plim_saves_model_alone(const plim_tape *t) { return is_tune(t->offload.how); }

plim_saving plim_saves_loss(plim_tape *t) {
  plim_saving how = t->offload.how;
  return plim_saves(t, is_tune(how) ? PLIM_SAVED_HERE : how);
}

// ---- copies ---------------------------------------------------------------------------------------

static plim_stream enter_stream(plim_tape *t, plim_saving how) {
  plim_stream was = t->state.stream;
  if (has_stream(how)) t->state.stream = PLIM_OFFLOAD_STREAM;
  return was;
}

// The storage of a tensor with broadcast dimensions is copied as it is (TRL); other tensors have one of their own size.
static bool is_broadcast(const plim_tensor *x) {
  for (int i = 0; i < x->stride.n; i++)
    if (!x->stride.at[i]) return true;
  return false;
}

static plim_tensor *host_like(plim_tape *t, const plim_tensor *x, plim_dims stored,
                              plim_dims stride) {
  plim_tensor *host = empty_on_host(t, stored, (plim_dtype)x->dtype);
  host->shape = x->shape;
  host->stride = stride;
  host->is_floating = false;
  host->requires_grad = x->requires_grad;
  return host;
}

static int64_t stored_elements(const plim_tensor *x) {
  return (int64_t)(x->storage->bytes / plim_dtype_bytes[x->dtype]);
}

// torchtune: empty_like(x, device="cpu").copy_(x), which makes a dense copy on the card first if x is not dense.
static plim_tensor *tune_host_copy(plim_tape *t, const plim_tensor *x) {
  if (plim_is_dense(x)) return host_like(t, x, x->shape, x->stride);
  plim_consume(t, empty(t, x->shape, (plim_dtype)x->dtype));
  return host_like(t, x, x->shape, plim_contiguous_strides(&x->shape));
}

static plim_tensor *trl_host_copy(plim_tape *t, const plim_tensor *x) {
  if (is_broadcast(x)) return host_like(t, x, dims(stored_elements(x)), x->stride);
  return host_like(t, x, x->shape, x->stride);
}

// Sets *copied to when the copy is done.
static plim_tensor *begin_bringing(plim_tape *t, const plim_tensor *host, double *copied) {
  plim_stream was = enter_stream(t, t->offload.made);
  plim_dims stored = dims(stored_elements(host));
  bool is_whole = stored.at[0] == plim_numel(&host->shape);
  plim_tensor *back = is_whole
                          ? empty_strided(t, host->shape, host->stride, (plim_dtype)host->dtype)
                          : empty(t, stored, (plim_dtype)host->dtype);
  back->shape = host->shape;
  back->stride = host->stride;
  back->is_floating = false;
  back->requires_grad = host->requires_grad;
  t->state.stream = was;
  *copied = plim_copy_from_host(t, (double)host->storage->bytes, plim_traffic_now(t));
  return back;
}

static plim_tensor *bring_back(plim_tape *t, const plim_tensor *host) {
  double copied;
  plim_tensor *back = begin_bringing(t, host, &copied);
  plim_await(t, copied);
  return back;
}

// ---- keys -----------------------------------------------------------------------------------------

static bool deduplicates(plim_saving how) {
  return is_trl(how) && has_stream(how) && !kinds[how].is_for_inputs;
}

static offload_key *find_key(struct tape_offload *o, const plim_tensor *x) {
  for (size_t i = 0; i < o->keys.len; i++) {
    offload_key *k = &o->keys.at[i];
    if (k->storage == x->storage->id && k->offset == x->offset && k->dtype == x->dtype) return k;
  }
  return NULL;
}

static void track_key(plim_tape *t, offload_key key) {
  if (deduplicates(t->offload.made) && !vec_push(&t->offload.keys, key)) t->state.failed = true;
}

static void release_key(struct tape_offload *o, uint32_t number) {
  for (size_t i = 0; i < o->keys.len; i++) {
    if (o->keys.at[i].number != number) continue;
    o->keys.at[i] = o->keys.at[--o->keys.len];
    return;
  }
}

// ---- packing --------------------------------------------------------------------------------------

// A variable of the function's frame keeps the tensor that was dropped last until the function returns. Tensors up to
// the number `last` are dropped.
static plim_tensor *drop_forward(plim_tape *t, uint32_t last) {
  struct tape_offload *o = &t->offload;
  plim_tensor *variable = NULL;
  size_t count = 0;
  for (; count < o->forward.len && o->forward.at[count].number <= last; count++) {
    offload_kept gone = o->forward.at[count];
    plim_await(t, gone.copied);
    plim_release(t, variable);
    variable = gone.x;
    release_key(o, gone.number);
  }
  o->forward.len -= count;
  for (size_t i = 0; i < o->forward.len; i++) o->forward.at[i] = o->forward.at[i + count];
  return variable;
}

// isinstance(x, Parameter): a transposed weight is none.
static bool is_parameter(const plim_tensor *x) {
  return x->storage->purpose <= PLIM_FOR_ADAPTERS && !x->fn && !x->base;
}

static bool is_known_parameter(plim_saving how, const plim_tensor *x) {
  bool is_weights = x->storage->purpose <= PLIM_FOR_ADAPTERS;
  return kinds[how].knows_storage ? is_weights : is_parameter(x);
}

static plim_tensor *keep(plim_tensor *x, bool is_output, plim_tape *t) {
  if (!is_output) {
    plim_retain(x);
    return x;
  }
  plim_tensor *alias = alias_of(t, x, x->shape, x->stride);
  alias->is_floating = false;
  return alias;
}

// What is not contiguous, or does not start where its storage does, is copied on the card first.
static plim_tensor *made_contiguous(plim_tape *t, plim_tensor *x) {
  if (plim_is_contiguous(x) && !x->offset) {
    plim_retain(x);
    return x;
  }
  plim_tensor *copy = empty(t, x->shape, (plim_dtype)x->dtype);
  copy->is_floating = false;
  copy->requires_grad = x->requires_grad;
  return copy;
}

static void begin_saving(struct tape_offload *o) {
  if (o->is_saving) return;
  o->is_saving = true;
  o->is_asked = false;
  o->keys.len = 0;
}

static plim_tensor *pack(plim_tape *t, plim_tensor *x, bool is_output, uint32_t *number) {
  struct tape_offload *o = &t->offload;
  plim_saving how = o->how;
  o->made = how;
  begin_saving(o);
  *number = ++o->numbers;
  o->tracked++;
  offload_key *known = deduplicates(how) ? find_key(o, x) : NULL;
  if (known) known->number = *number;
  bool is_large = plim_numel(&x->shape) * plim_dtype_bytes[x->dtype] >= LEAST_OFFLOADED;
  bool is_here = !x->storage->is_on_host && !x->storage->is_waiting;
  if (known || !is_here || !is_large || is_known_parameter(how, x)) return keep(x, is_output, t);

  offload_key key = {x->storage->id, *number, x->offset, x->dtype};
  bool is_as_it_is = is_tune(how) || kinds[how].is_for_inputs || is_broadcast(x);
  uint32_t stash = kinds[how].is_for_inputs ? INPUTS_STASH : FORWARD_STASH;
  plim_tensor *variable = NULL, *copied = is_as_it_is ? x : made_contiguous(t, x);
  if (is_as_it_is) plim_retain(x);
  if (has_stream(how) && *number > stash) variable = drop_forward(t, *number - stash);
  plim_stream was = enter_stream(t, how);
  plim_tensor *host = is_tune(how) ? tune_host_copy(t, copied) : trl_host_copy(t, copied);
  t->state.stream = was;
  double done = plim_copy_to_host(t, (double)host->storage->bytes, plim_traffic_now(t));
  if (has_stream(how)) {
    if (!vec_push(&o->forward, (offload_kept){copied, done, *number, 0})) t->state.failed = true;
    track_key(t, key);
  } else {
    plim_await(t, done);
    plim_release(t, copied);
  }
  plim_release(t, variable);
  return host;
}

plim_tensor *offload_pack(plim_tape *t, plim_tensor *x, bool is_output, uint32_t *number) {
  if (!kinds[t->offload.how].clones_first || is_parameter(x)) return pack(t, x, is_output, number);
  plim_tensor *whole = made_contiguous(t, x);
  plim_tensor *kept = pack(t, whole, is_output && whole == x, number);
  plim_release(t, whole);
  return kept;
}

// ---- unpacking ------------------------------------------------------------------------------------

static void ask_first(struct tape_offload *o) {
  if (o->is_asked) return;
  o->is_asked = true;
  o->own_graph = o->graph.number;
  o->graph.cleans = true;
  if (is_tune(o->made)) o->is_saving = false;
}

static void forget_number(struct tape_offload *o, uint32_t number) {
  if (o->tracked) o->tracked--;
  release_key(o, number);
  if (!o->tracked) o->is_saving = false;
}

// Whether the node is not the one that had tensors brought back before.
static bool is_next_node(plim_tape *t, plim_grad_node *node) {
  struct tape_offload *o = &t->offload;
  plim_grad_node *old = o->node;
  if (o->graph.number != o->own_graph || node == old) return false;
  node->refs++;
  o->node = node;
  if (old) plim_node_release(t, old);
  return true;
}

static offload_kept *find_kept(offload_kept *list, size_t count, uint32_t number) {
  for (size_t i = 0; i < count; i++)
    if (list[i].number == number) return &list[i];
  return NULL;
}

// The class keeps nothing but what was not dropped in forward.
static plim_tensor *unpack_at_once(plim_tape *t, plim_tensor *host, uint32_t number) {
  struct tape_offload *o = &t->offload;
  offload_kept *here = find_kept(o->forward.at, o->forward.len, number);
  plim_tensor *x = here ? here->x : bring_back(t, host);
  if (here) {
    plim_await(t, here->copied);
    for (o->forward.len--; here < o->forward.at + o->forward.len; here++) *here = here[1];
  }
  plim_release(t, host);
  return x;
}

plim_tensor *offload_unpack(plim_tape *t, plim_grad_node *node, plim_tensor *kept,
                            uint32_t number) {
  struct tape_offload *o = &t->offload;
  ask_first(o);
  bool is_copied = kept->storage->is_on_host;
  bool is_stashed = has_stream(o->made) && !kinds[o->made].is_for_inputs;
  if (!is_copied || !is_stashed) {
    forget_number(o, number);
    return is_copied ? unpack_at_once(t, kept, number) : kept;
  }
  uint32_t before = is_next_node(t, node) ? o->brought : 0;
  const offload_kept *here = find_kept(o->forward.at, o->forward.len, number);
  plim_tensor *x = here ? here->x : bring_back(t, kept);
  offload_hook hook = {number, x->storage->refs, before, !here};
  bool ok = here || vec_push(&o->backward, (offload_kept){x, 0, number, ++o->brought});
  if (!ok || !vec_push(&o->hooks, hook)) t->state.failed = true;
  plim_release(t, kept);
  forget_number(o, number);
  plim_tensor *out = alias_of(t, x, x->shape, x->stride);
  out->is_floating = false;
  out->requires_grad = x->requires_grad;
  return out;
}

static void remove_backward(struct tape_offload *o, size_t i) {
  for (o->backward.len--; i < o->backward.len; i++) o->backward.at[i] = o->backward.at[i + 1];
}

// If something still refers to a tensor that the node used, record_stream makes the allocator wait for the compute stream
// when it is freed, and it is dropped here.
static plim_tensor *drop_if_used_further(struct tape_offload *o, const offload_hook *h) {
  offload_kept *back = find_kept(o->backward.at, o->backward.len, h->number);
  if (!h->is_back || !back || back->x->storage->refs <= h->refs) return NULL;
  plim_tensor *x = back->x;
  remove_backward(o, (size_t)(back - o->backward.at));
  return x;
}

static void drop_backward(plim_tape *t, uint32_t before) {
  struct tape_offload *o = &t->offload;
  for (size_t i = 0; i < o->backward.len;) {
    if (o->backward.at[i].order > before) {
      i++;
      continue;
    }
    plim_tensor *x = o->backward.at[i].x;
    remove_backward(o, i);
    plim_release(t, x);
  }
}

void offload_node_ran(plim_tape *t, size_t first) {
  struct tape_offload *o = &t->offload;
  for (size_t i = first; i < o->hooks.len; i++) {
    offload_hook hook = o->hooks.at[i];
    plim_tensor *used = drop_if_used_further(o, &hook);
    plim_tensor *variable = drop_forward(t, UINT32_MAX);
    drop_backward(t, hook.before);
    plim_release(t, used);
    plim_release(t, variable);
  }
  o->hooks.len = first;
}

offload_graph offload_begin_graph(plim_tape *t) {
  offload_graph outer = t->offload.graph;
  t->offload.graph = (offload_graph){.number = ++t->offload.graphs};
  return outer;
}

void offload_end_graph(plim_tape *t, offload_graph outer) {
  struct tape_offload *o = &t->offload;
  o->cleans_late = o->graph.cleans && is_tune(o->made) && t->state.shards && !outer.number;
  if (o->graph.cleans && !o->cleans_late) drop_backward(t, UINT32_MAX);
  o->graph = outer;
}

void plim_saves_clean(plim_tape *t) {
  if (t->offload.cleans_late) drop_backward(t, UINT32_MAX);
  t->offload.cleans_late = false;
}

void offload_abandon(plim_tape *t, plim_tensor *kept, uint32_t number) {
  if (!vec_push(&t->offload.abandoned, (offload_kept){kept, 0, number, 0})) t->state.failed = true;
}

// ---- inputs of reentrant checkpoints ----------------------------------------------------------------

// Axolotl's HiddenStatesOffloadCheckpoint (monkeypatch/activation_offload_checkpoint.py). It keeps a layer's input on the
// card until the copy is done, which is taken to be at once.
uint32_t offload_send_input(plim_tape *t, const plim_tensor *x) {
  struct tape_offload *o = &t->offload;
  plim_tensor *host = trl_host_copy(t, x);
  o->made = o->how;
  plim_copy_to_host(t, (double)host->storage->bytes, plim_traffic_now(t));
  if (!vec_push(&o->inputs, (offload_kept){host, 0, ++o->numbers, 0})) t->state.failed = true;
  return o->numbers;
}

// Removes the entry with this number from the list. False: it is not there.
static bool take_kept(offload_kept *list, size_t *count, uint32_t number, offload_kept *out) {
  offload_kept *found = find_kept(list, *count, number);
  if (!found) return false;
  *out = *found;
  for (--*count; found < list + *count; found++) *found = found[1];
  return true;
}

static bool bring_input_back(plim_tape *t, uint32_t number, offload_kept *out) {
  struct tape_offload *o = &t->offload;
  if (!take_kept(o->inputs.at, &o->inputs.len, number, out)) return false;
  plim_tensor *host = out->x;
  out->x = begin_bringing(t, host, &out->copied);
  plim_release(t, host);
  return true;
}

plim_tensor *offload_fetch_input(plim_tape *t, uint32_t number) {
  struct tape_offload *o = &t->offload;
  offload_kept input, next;
  if (!take_kept(o->backward.at, &o->backward.len, number, &input) &&
      !bring_input_back(t, number, &input)) {
    t->state.failed = true; // its list had no memory
    return empty(t, dims(0), PLIM_FP32);
  }
  if (bring_input_back(t, number - 1, &next) && !vec_push(&o->backward, next))
    t->state.failed = true;
  plim_await(t, input.copied);
  return input.x;
}

// ---- TRL's context --------------------------------------------------------------------------------

static int by_number(const void *x, const void *y) {
  const offload_kept *a = x, *b = y;
  return (a->number > b->number) - (a->number < b->number);
}

// self.tracker.clear()
static void drop_abandoned(plim_tape *t) {
  struct tape_offload *o = &t->offload;
  if (o->abandoned.len)
    plim_sort(o->abandoned.at, o->abandoned.len, sizeof *o->abandoned.at, by_number);
  for (size_t i = 0; i < o->abandoned.len; i++) plim_release(t, o->abandoned.at[i].x);
  o->abandoned.len = 0;
}

void plim_saves_enter(plim_tape *t, plim_saving how) {
  if (!is_trl(how)) return;
  struct tape_offload *o = &t->offload;
  drop_abandoned(t);
  o->numbers = o->tracked = 0;
  o->keys.len = 0;
  o->is_saving = o->is_asked = false;
  // `if "bitsandbytes" in sys.modules`
  if (t->state.has_bitsandbytes && !kinds[how].is_for_inputs) plim_tape_empty_cache(t);
  plim_saves(t, how);
}

void plim_saves_leave(plim_tape *t, plim_saving how) {
  if (!is_trl(how)) return;
  drop_backward(t, UINT32_MAX);
  plim_release(t, drop_forward(t, UINT32_MAX));
  plim_saves(t, PLIM_SAVED_HERE);
}

void offload_free(plim_tape *t) {
  vec_free(&t->offload.forward);
  vec_free(&t->offload.backward);
  vec_free(&t->offload.abandoned);
  vec_free(&t->offload.inputs);
  vec_free(&t->offload.keys);
  vec_free(&t->offload.hooks);
}
