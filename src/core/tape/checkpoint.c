// Activation checkpointing (torch.utils.checkpoint) and offloading of saved tensors (save_on_cpu).
//
// Without reentry, forward runs as usual, but a node notes only the number of each tensor it would save. The first
// node of the checkpoint that needs a tensor in backward runs the function again, which provides all tensors by
// number. As in PyTorch, that run stops with an exception as soon as the last number is provided, in the middle of
// the operator that saves it.
#include <string.h>

#include "tape_impl.h"
#include "traffic.h"
#include "work.h"

#include "tape_names.h"

struct plim_checkpoint {
  plim_closure call;
  plim_tensor *input;
  vec(plim_tensor *) recomputed; // by number; NULL once taken
  vec(uint32_t) forgotten;       // numbers whose node was freed before recomputation
  uint32_t refs, count, cursor;
  plim_dtype autocast;
  uint32_t number; // that OffloadActivations has given to the input; 0: none
  bool is_done, is_linked;
  struct plim_checkpoint *next, *before; // list of checkpoints that own arrays
};

static plim_tensor *owned_alias(plim_tape *t, plim_tensor *x) {
  plim_tensor *alias = alias_of(t, x, x->shape, x->stride);
  alias->is_floating = false;
  return alias;
}

// ---- offloading -----------------------------------------------------------------------------------

bool is_offloaded(const plim_tensor *x) { return x && x->storage->is_on_host; }

// A non-contiguous tensor is first made contiguous on the card. The copy runs on the compute stream; save_on_cpu
// also blocks the CPU until it is done.
plim_tensor *saved_offload(plim_tape *t, const plim_tensor *x) {
  plim_tensor *host = empty_on_host(t, x->shape, (plim_dtype)x->dtype);
  host->is_floating = false;
  host->requires_grad = x->requires_grad;
  if (!plim_is_contiguous(x)) plim_consume(t, empty(t, x->shape, (plim_dtype)x->dtype));
  double copied = plim_copy_to_host(t, plim_bytes_of(x), plim_traffic_now(t));
  plim_await(t, copied);
  if (t->offload.how == PLIM_SAVED_ON_HOST) plim_await_on_host(t, copied);
  return host;
}

plim_tensor *saved_fetch(plim_tape *t, const plim_tensor *x) {
  plim_tensor *back = empty(t, x->shape, (plim_dtype)x->dtype);
  back->is_floating = false;
  back->requires_grad = x->requires_grad;
  plim_await(t, plim_copy_from_host(t, plim_bytes_of(x), plim_traffic_now(t)));
  return back;
}

// ---- packing --------------------------------------------------------------------------------------

static bool is_forgotten(const struct plim_checkpoint *f, uint32_t number) {
  for (size_t i = 0; i < f->forgotten.len; i++)
    if (f->forgotten.at[i] == number) return true;
  return false;
}

static void pack_recomputed(plim_tape *t, plim_grad_node *n, int k, plim_tensor *x) {
  struct plim_checkpoint *f = t->packing;
  if (f->cursor >= f->count) return;
  plim_tensor *kept = is_forgotten(f, f->cursor) ? NULL : owned_alias(t, x);
  f->recomputed.at[f->cursor++] = kept;
  if (f->cursor == f->count) t->state.is_stopped = true;
  else n->saved[k] = owned_alias(t, x); // the new graph saves it, too
}

void saved_pack(plim_tape *t, plim_grad_node *n, int k, plim_tensor *x, bool is_output) {
  if (t->packing) plim_work_hook(t);
  if (t->packing && t->state.is_recomputing) {
    pack_recomputed(t, n, k, x);
    return;
  }
  if (t->packing) {
    n->packer = t->packing;
    n->packed |= (uint8_t)(1u << k);
    n->packed_index[k] = t->packing->count++;
    t->packing->refs++;
    return;
  }
  plim_saving how = t->offload.how;
  if (offload_is_class(how) && !offload_is_for_inputs(how)) {
    n->tracked |= (uint8_t)(1u << k);
    n->saved[k] = offload_pack(t, x, is_output, &n->packed_index[k]);
    return;
  }
  if (how == PLIM_SAVED_ON_HOST) n->saved[k] = saved_offload(t, x);
  else if (is_output) n->saved[k] = owned_alias(t, x);
  else plim_retain(x), n->saved[k] = x;
}

// Links a checkpoint that owns arrays, so that plim_tape_delete can free them after a tape that ended early.
static void link_frame(plim_tape *t, struct plim_checkpoint *f) {
  if (f->is_linked || (void *)f == (void *)t->spare) return; // spare: out of memory
  f->is_linked = true;
  f->next = t->recomputed;
  if (f->next) f->next->before = f;
  t->recomputed = f;
}

static void unlink_frame(plim_tape *t, const struct plim_checkpoint *f) {
  if ((const void *)f == (void *)t->spare) return;
  if (f->before) f->before->next = f->next;
  else if (t->recomputed == f) t->recomputed = f->next;
  if (f->next) f->next->before = f->before;
}

void tape_free_recomputed(plim_tape *t) {
  for (struct plim_checkpoint *f = t->recomputed; f; f = f->next) {
    vec_free(&f->recomputed);
    vec_free(&f->forgotten);
  }
}

// A node was freed before recomputation: what it would have saved is not kept.
void packed_forget(plim_tape *t, struct plim_checkpoint *f, uint32_t number) {
  if (f->is_done || (void *)f == (void *)t->spare) return;
  link_frame(t, f);
  if (!vec_push(&f->forgotten, number)) t->state.failed = true;
}

void plim_bag_keep(plim_bag *bag) {
  if (bag) bag->refs++;
}

void plim_bag_release(plim_tape *t, plim_bag *bag) {
  if (!bag || --bag->refs) return;
  for (int i = 0; i < PLIM_BAG_SLOTS; i++) drop(t, &bag->at[i]);
}

void packed_release(plim_tape *t, struct plim_checkpoint *f) {
  if (--f->refs) return;
  unlink_frame(t, f);
  struct plim_checkpoint dead = *f;
  tape_put_back(t, &t->frames, f);
  // CheckpointWrapper passes all arguments by position.
  int positional = t->state.wraps_layers ? PLIM_MAX_HELD : dead.call.positional;
  plim_bag_release(t, dead.call.bag);
  for (int is_first = 1; is_first >= 0; is_first--)
    for (int i = positional; i < PLIM_MAX_HELD; i++)
      if ((int)(dead.call.first >> i & 1) == is_first) plim_release(t, dead.call.held[i]);
  plim_release(t, dead.input);
  for (int i = 0; i < positional; i++) plim_release(t, dead.call.held[i]);
  for (size_t i = 0; i < dead.recomputed.len; i++) plim_release(t, dead.recomputed.at[i]);
  vec_free(&dead.recomputed);
  vec_free(&dead.forgotten);
}

// ---- recomputation --------------------------------------------------------------------------------

// Restores the autocast setting of forward. Returns the current one.
static plim_dtype enter_autocast(plim_tape *t, const struct plim_checkpoint *f) {
  plim_dtype was = (plim_dtype)t->state.autocast;
  t->state.autocast = (uint8_t)f->autocast;
  return was;
}

// Frees the casts that autocast kept, then restores the setting.
static void leave_autocast(plim_tape *t, const struct plim_checkpoint *f, plim_dtype was) {
  if (f->autocast != PLIM_BOOL) plim_autocast(t, PLIM_BOOL);
  t->state.autocast = (uint8_t)was;
}

// The input is kept on the host, or by OffloadActivations. The caller owns the result; NULL: it is in f->input.
static plim_tensor *fetch_input(plim_tape *t, plim_grad_node *n, struct plim_checkpoint *f) {
  if (!f->number) return is_offloaded(f->input) ? saved_fetch(t, f->input) : NULL;
  plim_tensor *kept = f->input;
  f->input = NULL;
  return offload_unpack(t, n, kept, f->number);
}

static void recompute(plim_tape *t, plim_grad_node *n, struct plim_checkpoint *f) {
  if (!vec_reserve(&f->recomputed, f->count)) {
    t->state.failed = true;
    return;
  }
  memset(f->recomputed.at, 0, f->count * sizeof *f->recomputed.at);
  f->recomputed.len = f->count;
  link_frame(t, f);
  struct plim_checkpoint *outer = t->packing;
  bool was = set_grad_mode(t, true), was_recomputing = t->state.is_recomputing;
  plim_dtype autocast_was = enter_autocast(t, f);
  plim_program_point place_was = t->place;
  uint8_t purpose_was = t->purpose;
  t->packing = f;
  t->state.is_recomputing = true;
  plim_tensor *input = fetch_input(t, n, f);
  plim_consume(t, f->call.function(t, f->call.context, f->call.held, input ? input : f->input));
  for (int i = 0; f->call.results && i < PLIM_MAX_RESULTS; i++) drop(t, &f->call.results[i]);
  leave_autocast(t, f, autocast_was);
  t->state.is_stopped = false;
  tape_finish_unwinding(t);
  plim_release(t, input);
  t->state.is_recomputing = was_recomputing;
  t->packing = outer;
  t->place = place_was;
  t->purpose = purpose_was;
  set_grad_mode(t, was);
}

plim_tensor *saved_unpack(plim_tape *t, plim_grad_node *n, int k) {
  struct plim_checkpoint *f = n->packer;
  plim_work_hook(t);
  if (!f->is_done) recompute(t, n, f);
  f->is_done = true;
  if (n->packed_index[k] >= f->recomputed.len) return NULL; // out of memory
  plim_tensor *x = f->recomputed.at[n->packed_index[k]];
  f->recomputed.at[n->packed_index[k]] = NULL;
  return x;
}

// _NoopSaveInputs.apply(dummy, ...) saves an empty tensor, then the input.
static plim_tensor *pack_input(plim_tape *t, plim_tensor *x, uint32_t *number) {
  if (!offload_is_for_inputs(t->offload.how)) {
    plim_tensor *dummy = empty(t, dims(0), PLIM_FP32);
    plim_release(t, offload_pack(t, dummy, false, number));
    plim_consume(t, dummy);
  }
  return offload_pack(t, x, false, number);
}

static struct plim_checkpoint *frame_new(plim_tape *t, plim_closure call, plim_tensor *x) {
  struct plim_checkpoint *f = tape_take(t, &t->frames, sizeof *f);
  *f = (struct plim_checkpoint){.call = call, .refs = 1};
  f->autocast = (plim_dtype)t->state.autocast;
  bool saves = x && !t->packing && t->grad_mode;
  if (saves && offload_is_class(t->offload.how)) f->input = pack_input(t, x, &f->number);
  else if (saves && t->offload.how == PLIM_SAVED_ON_HOST) f->input = saved_offload(t, x);
  else if (x) plim_retain(x), f->input = x;
  for (int i = 0; i < PLIM_MAX_HELD; i++)
    if (call.held[i]) plim_retain(call.held[i]);
  plim_bag_keep(call.bag);
  return f;
}

plim_tensor *checkpoint(plim_tape *t, plim_closure call, plim_tensor *x) {
  struct plim_checkpoint *f = frame_new(t, call, x), *outer = t->packing;
  t->packing = f;
  plim_tensor *out = call.function(t, call.context, call.held, x);
  t->packing = outer;
  packed_release(t, f);
  return out;
}

// ---- reentrant ------------------------------------------------------------------------------------

enum { MAX_ARGUMENTS = 1 + PLIM_MAX_HELD, MAX_OUTPUTS = 1 + PLIM_MAX_RESULTS };

// Results without a gradient get zeros, which only the arguments of backward refer to.
static void fill_gradients(plim_tape *t, const plim_grad_node *n, plim_tensor **in,
                           plim_tensor **zeros) {
  for (int i = 0; i < n->output_count; i++) {
    if (in[i]) continue;
    set(t, &zeros[i], empty(t, plim_output_shape(n, (int)i), (plim_dtype)n->dtypes[i]));
    in[i] = zeros[i];
  }
}

static void drop_zeros(plim_tape *t, const plim_grad_node *n, plim_tensor **in,
                       plim_tensor **zeros) {
  for (int i = n->output_count; i-- > 0;) {
    if (zeros[i]) in[i] = NULL;
    drop(t, &zeros[i]);
  }
}

// Aliases of the input and the positional arguments, detached from the outer graph.
static void detach_arguments(plim_tape *t, const plim_grad_node *n, plim_tensor **arguments) {
  for (int i = 0, k = 0; i < n->edge_count; i++) {
    if (!(n->number >> i & 1)) continue;
    arguments[i] = owned_alias(t, n->saved[k]);
    arguments[i]->requires_grad = n->saved[k++]->requires_grad;
  }
}

static int run_again(plim_tape *t, struct plim_checkpoint *f, plim_tensor *const *arguments,
                     plim_tensor **outputs) {
  plim_closure *call = &f->call;
  bool was = set_grad_mode(t, true), was_recomputing = t->state.is_recomputing;
  bool ran_again = t->state.runs_again;
  t->state.is_recomputing = t->state.runs_again = true;
  plim_tensor *held[PLIM_MAX_HELD];
  memcpy(held, call->held, sizeof held);
  memcpy(held, arguments + 1, (size_t)call->positional * sizeof *held);
  int count = 0;
  set(t, &outputs[count++], call->function(t, call->context, held, arguments[0]));
  for (int i = 0; call->results && i < PLIM_MAX_RESULTS; i++)
    if (call->results[i]) set(t, &outputs[count++], give(t, &call->results[i]));
  t->state.is_recomputing = was_recomputing;
  t->state.runs_again = ran_again;
  set_grad_mode(t, was);
  return count;
}

// Runs a nested backward from the outputs that need gradients.
static void run_nested(plim_tape *t, plim_tensor *const *outputs, plim_tensor *const *grads,
                       int count) {
  plim_tensor *roots[MAX_OUTPUTS], *gradients[MAX_OUTPUTS];
  int used = 0;
  for (int i = 0; i < count; i++) {
    if (!outputs[i]->requires_grad) continue;
    plim_retain(grads[i]);
    roots[used] = outputs[i];
    gradients[used++] = grads[i];
  }
  backward_all(t, roots, gradients, used);
}

static void reentrant_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  plim_tensor *arguments[MAX_ARGUMENTS] = {0}, *outputs[MAX_OUTPUTS] = {0};
  plim_tensor *zeros[MAX_OUTPUTS] = {0};
  fill_gradients(t, n, in, zeros);
  detach_arguments(t, n, arguments);
  if (n->frame->number) arguments[0] = offload_fetch_input(t, n->frame->number);
  plim_dtype was = enter_autocast(t, n->frame);
  int count = run_again(t, n->frame, arguments, outputs);
  leave_autocast(t, n->frame, was);
  run_nested(t, outputs, in, count);
  for (int i = 0; i < n->edge_count; i++) {
    out[i] = arguments[i] ? arguments[i]->grad : NULL;
    if (out[i]) plim_retain(out[i]);
  }
  for (int i = 0; i < n->saved_count; i++) // ctx.saved_tensors, a variable before the others
    if (n->tracked >> i & 1) drop(t, &n->saved[i]);
  for (int i = n->edge_count; i-- > 0;) drop(t, &arguments[i]);
  while (count-- > 0) drop(t, &outputs[count]);
  drop_zeros(t, n, in, zeros);
}

// A result that is one of the arguments becomes a view, so that it can have its own node.
static void attach_results(plim_tape *t, plim_grad_node *n, const plim_closure *call,
                           plim_tensor *const *arguments) {
  for (int i = 0; call->results && i < PLIM_MAX_RESULTS; i++) {
    plim_tensor **result = &call->results[i];
    if (!*result) continue;
    for (int k = 0; k < n->edge_count; k++)
      if (*result == arguments[k]) {
        set(t, result, view_of(t, *result, (*result)->shape, (*result)->stride));
        break;
      }
    node_output(t, n, *result);
  }
}

// Only the input gets a gradient. As with torch.amp.custom_bwd, everything runs under forward's autocast setting,
// the nested backward included.
static void offloaded_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in,
                               plim_tensor **out) {
  struct plim_checkpoint *f = n->frame;
  plim_tensor *arguments[MAX_ARGUMENTS] = {saved_fetch(t, f->input)}, *outputs[MAX_OUTPUTS] = {0};
  memcpy(arguments + 1, f->call.held, sizeof f->call.held);
  plim_dtype was = enter_autocast(t, f);
  int count = run_again(t, f, arguments, outputs);
  run_nested(t, outputs, in, 1);
  out[0] = arguments[0]->grad;
  if (out[0]) plim_retain(out[0]);
  drop(t, &arguments[0]);
  while (count-- > 0) drop(t, &outputs[count]);
  leave_autocast(t, f, was);
  drop(t, &f->input);
}

plim_tensor *checkpoint_offloaded(plim_tape *t, plim_closure call, plim_tensor *x) {
  plim_grad_node *n = node_begin(t, offloaded_backward, &x, 1);
  if (n) n->frame = frame_new(t, call, NULL), n->frame->input = saved_offload(t, x);
  bool was = set_grad_mode(t, false);
  plim_tensor *out = call.function(t, call.context, call.held, x);
  set_grad_mode(t, was);
  if (n) node_output(t, n, out);
  return out;
}

plim_tensor *checkpoint_reentrant(plim_tape *t, plim_closure call, plim_tensor *x) {
  plim_tensor *arguments[MAX_ARGUMENTS] = {x};
  int count = 1 + call.positional;
  memcpy(arguments + 1, call.held, (size_t)call.positional * sizeof *call.held);
  plim_grad_node *n = node_begin(t, reentrant_backward, arguments, count);
  bool was = set_grad_mode(t, false);
  plim_tensor *out = call.function(t, call.context, call.held, x);
  set_grad_mode(t, was);
  if (!n) return out;
  memset(call.held, 0, (size_t)call.positional * sizeof *call.held); // the node saves them
  n->frame = frame_new(t, call, NULL);
  bool is_sent = offload_is_for_inputs(t->offload.how);
  if (is_sent) n->frame->number = offload_send_input(t, x);
  for (int i = is_sent; i < count; i++) {
    n->number |= (int64_t)(arguments[i] != NULL) << i;
    node_save(t, n, arguments[i]);
  }
  node_output(t, n, out);
  attach_results(t, n, &call, arguments);
  return out;
}
