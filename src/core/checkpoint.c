// Checkpointing: saved tensors that are computed again in backward.
//
// Without reentry, forward runs as usual, but what its nodes save is packed into numbers. The first
// node of the function that needs one runs the function again; what that saves, by number, is what
// was wanted. It stops as soon as the last number is served, in the middle of the operator that
// would save it.
#include <string.h>

#include "ops.h"
#include "tape_impl.h"
#include "work.h"

struct plim_checkpoint {
  plim_closure call;
  plim_tensor *input;
  vec(plim_tensor *) recomputed; // by number; NULL once fetched
  uint32_t refs, count, cursor;
  plim_dtype autocast;
  bool is_done;
};

static plim_tensor *owned_alias(plim_tape *t, plim_tensor *x) {
  plim_tensor *alias = alias_of(t, x, x->shape, x->stride);
  alias->is_floating = false;
  return alias;
}

// ---- packing --------------------------------------------------------------------------------------

static void pack_recomputed(plim_tape *t, plim_node *n, int k, plim_tensor *x) {
  struct plim_checkpoint *f = t->packing;
  if (f->cursor >= f->count) return;
  plim_tensor *kept = owned_alias(t, x);
  f->recomputed.at[f->cursor++] = kept;
  if (f->cursor == f->count) t->is_stopped = true;
  else n->saved[k] = owned_alias(t, x); // the new graph's own
}

void saved_pack(plim_tape *t, plim_node *n, int k, plim_tensor *x, bool is_output) {
  if (t->packing) plim_work_hook(t);
  if (t->packing && t->is_recomputing) {
    pack_recomputed(t, n, k, x);
    return;
  }
  if (t->packing) {
    n->packed[k] = t->packing;
    n->packed_index[k] = t->packing->count++;
    t->packing->refs++;
    return;
  }
  if (is_output) n->saved[k] = owned_alias(t, x);
  else plim_retain(x), n->saved[k] = x;
}

void packed_release(plim_tape *t, struct plim_checkpoint *f) {
  if (--f->refs) return;
  struct plim_checkpoint dead = *f;
  tape_put_back(t, &t->frames, f);
  for (int i = 0; i < PLIM_MAX_HELD; i++) plim_release(t, dead.call.held[i]);
  plim_release(t, dead.input);
  for (size_t i = 0; i < dead.recomputed.len; i++) plim_release(t, dead.recomputed.at[i]);
  vec_free(&dead.recomputed);
}

// ---- computing again ------------------------------------------------------------------------------

static void recompute(plim_tape *t, struct plim_checkpoint *f) {
  if (!vec_reserve(&f->recomputed, f->count)) {
    t->failed = true;
    return;
  }
  memset(f->recomputed.at, 0, f->count * sizeof *f->recomputed.at);
  f->recomputed.len = f->count;
  struct plim_checkpoint *outer = t->packing;
  bool was = set_grad_mode(t, true), was_recomputing = t->is_recomputing;
  plim_dtype autocast_was = (plim_dtype)t->autocast;
  plim_place place_was = t->place;
  uint8_t purpose_was = t->purpose;
  t->packing = f;
  t->is_recomputing = true;
  t->autocast = (uint8_t)f->autocast;
  plim_consume(t, f->call.function(t, f->call.context, f->call.held, f->input));
  if (f->autocast != PLIM_BOOL) autocast(t, PLIM_BOOL);
  t->autocast = (uint8_t)autocast_was;
  t->is_stopped = false;
  t->is_recomputing = was_recomputing;
  t->packing = outer;
  t->place = place_was;
  t->purpose = purpose_was;
  set_grad_mode(t, was);
}

plim_tensor *saved_unpack(plim_tape *t, plim_node *n, int k) {
  struct plim_checkpoint *f = n->packed[k];
  plim_work_hook(t);
  if (!f->is_done) recompute(t, f);
  f->is_done = true;
  if (n->packed_index[k] >= f->recomputed.len) return NULL; // memory is out
  plim_tensor *x = f->recomputed.at[n->packed_index[k]];
  f->recomputed.at[n->packed_index[k]] = NULL;
  return x;
}

static struct plim_checkpoint *frame_new(plim_tape *t, plim_closure call, plim_tensor *x) {
  struct plim_checkpoint *f = tape_take(t, &t->frames, sizeof *f);
  *f = (struct plim_checkpoint){.call = call, .input = x, .refs = 1};
  f->autocast = (plim_dtype)t->autocast;
  if (x) plim_retain(x);
  for (int i = 0; i < PLIM_MAX_HELD; i++)
    if (call.held[i]) plim_retain(call.held[i]);
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

// The input is saved; what the closure holds lives as long as the node.
static void reentrant_backward(plim_tape *t, plim_node *n, plim_tensor **in, plim_tensor **out) {
  struct plim_checkpoint *f = n->frame;
  plim_tensor *input = owned_alias(t, n->saved[0]);
  input->requires_grad = n->saved[0]->requires_grad;
  bool was = set_grad_mode(t, true), was_recomputing = t->is_recomputing;
  plim_dtype autocast_was = (plim_dtype)t->autocast;
  t->autocast = (uint8_t)f->autocast;
  t->is_recomputing = true;
  plim_tensor *result = NULL;
  set(t, &result, f->call.function(t, f->call.context, f->call.held, input));
  if (f->autocast != PLIM_BOOL) autocast(t, PLIM_BOOL);
  t->autocast = (uint8_t)autocast_was;
  t->is_recomputing = was_recomputing;
  set_grad_mode(t, was);
  plim_retain(in[0]);
  backward(t, result, in[0]);
  if (input->grad) plim_retain(input->grad);
  out[0] = input->grad;
  plim_release(t, input);
  drop(t, &result);
}

plim_tensor *checkpoint_reentrant(plim_tape *t, plim_closure call, plim_tensor *x) {
  plim_node *n = node_begin(t, reentrant_backward, &x, 1);
  bool was = set_grad_mode(t, false);
  plim_tensor *out = call.function(t, call.context, call.held, x);
  set_grad_mode(t, was);
  if (!n) return out;
  n->frame = frame_new(t, call, NULL);
  node_save(t, n, x);
  node_output(t, n, out);
  return out;
}
