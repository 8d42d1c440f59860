// What the parts of the tape share: tape.c (memory), autograd.c (graph and engine), kernels.c (what
// operators allocate). Nobody else includes this.
#ifndef PLIM_CORE_TAPE_IMPL_H
#define PLIM_CORE_TAPE_IMPL_H

#include "clock.h"
#include "interconnect.h"
#include "tape_state.h"

struct tape_pool {
  void *free;
};

struct tape_cast {
  const plim_tensor *leaf;
  plim_tensor *cast;
};

struct tape_time_mark {
  double cpu, gpu_free;
  uint32_t operators;
  plim_step_time now;
};

// Of a loop: the ends of its last two rounds, the last first, and what the last one added.
struct tape_period {
  struct tape_time_mark ends[2], each;
  int marked; // rounds so far
};

// Two timelines in seconds, and what the step that runs has done so far.
struct tape_clock {
  double cpu, gpu_free, began, pass_began, pass_before;
  double ring_free, to_host_free, from_host_free; // links (traffic.h)
  double once;                                    // of this pass, waited once in a step
  double neighbours;                              // GPUs of one machine
  plim_ring ring;
  uint32_t operators;          // of forward, since the last look at the loss
  uint32_t modules;            // of forward, since an engine last counted them
  bool ends_longer;            // the last pass of a step does work that the others do not
  double visit_seconds;        // that hooks on every module take around a call of one; 0: no hooks
  bool is_causal, has_dropout; // attention that comes next
  plim_step_time now, last, step_before;
  struct tape_period passes, inner_loop; // of this step; of the loop inside a pass that runs
};

struct plim_tape {
  plim_tape_state state; // first: plim_state finds it there
  plim_tape_sink sink;
  const plim_gpu *gpu;
  plim_program_point place;
  plim_pending_alloc pending;
  uint64_t live[PLIM_PURPOSES];
  uint8_t purpose;                     // a plim_purpose
  struct tape_chunk *chunks, *reserve; // reserve: an array, for when memory is out
  size_t reserved_used;
  struct tape_pool tensors, storages, nodes, frames, shapes, edges[4];
  vec(plim_grad_node *) doomed; // nodes whose last reference is gone
  uint64_t sequence;
  uint64_t host_bytes, host_peak;
  uint32_t next_id;
  vec(plim_storage *) waiting; // built on the host, to be moved; NULL where it is gone again
  bool is_on_host;
  plim_tensor *workspaces[PLIM_THREADS][2]; // cuBLAS, cuBLASLt: made once per thread, kept for ever
  vec(struct tape_cast) casts;              // of leaves, made under autocast
  struct tape_clock clock;
  struct plim_checkpoint *packing;    // what is saved now is packed for it
  struct plim_checkpoint *recomputed; // alive
  bool offloads;                      // what is saved now goes to the host
  vec(plim_tensor *) unwound;         // variables of functions that were stopped
  bool grad_mode;
  _Alignas(16) unsigned char spare[1024];
};

plim_grad_node *tape_node(plim_tape *t);
void tape_put_node(plim_tape *t, plim_grad_node *n);
void tape_finish_unwinding(plim_tape *t); // the exception is handled, and its frames go
void *tape_take(plim_tape *t, struct tape_pool *pool, size_t bytes);
void tape_put_back(plim_tape *t, struct tape_pool *pool, void *object);

// checkpoint.c
// Saves x for the node as entry k, or packs it.
void saved_pack(plim_tape *t, plim_grad_node *n, int k, plim_tensor *x, bool is_output);
// A packed entry's tensor, computed again if need be; the caller owns it.
plim_tensor *saved_unpack(plim_tape *t, plim_grad_node *n, int k);
// Offloading: a copy on the host, and back on the card.
plim_tensor *saved_offload(plim_tape *t, const plim_tensor *x);
plim_tensor *saved_fetch(plim_tape *t, const plim_tensor *x);
bool is_offloaded(const plim_tensor *x);
void packed_release(plim_tape *t, struct plim_checkpoint *frame);
void packed_forget(plim_tape *t, struct plim_checkpoint *frame, uint32_t number);
void tape_free_recomputed(plim_tape *t);

#endif
