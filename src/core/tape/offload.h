// Tensors saved for backward that are kept on the host. Private to this folder.
//
// OffloadActivations (trl/models/activation_offloading.py, torchtune/training/_activation_offloading.py) numbers all
// tensors that nodes save. Large ones that are not parameters are copied to the host on a stream of its own, and kept
// on the card until a later one is saved whose number is 5 higher. Backward brings them back on that stream, and keeps
// them until the next node that had tensors brought back has run.
#ifndef PLIM_CORE_OFFLOAD_H
#define PLIM_CORE_OFFLOAD_H

#include "tape.h"
#include "vec.h"

// What is still on the card (fwd_stash), or was brought back to it (bwd_tensor_stash).
typedef struct {
  plim_tensor *x;
  double copied;          // forward: when the copy is done
  uint32_t number, order; // order: of being brought back
} offload_kept;

// Tensors of one storage that are saved again while it is still on the card are not copied (TRL's storage_to_tensor_id).
typedef struct {
  uint32_t storage; // the number of its allocation
  uint32_t number;  // of the tensor saved last
  int64_t offset;
  uint8_t dtype;
} offload_key;

// What is to be done when the node that asked for a tensor has run.
typedef struct {
  uint32_t number, refs; // the tensor, and references to its storage when it was brought back
  uint32_t before;       // those brought back up to this one are dropped; 0: none
  bool is_back;          // it was brought back from the host
} offload_hook;

typedef struct {
  uint32_t number;
  bool cleans;   // at its end, it drops what was brought back (queue_callback)
} offload_graph; // a backward pass

struct tape_offload {
  plim_saving how, made;     // the hooks that are on; those that gave the numbers
  uint32_t numbers, tracked; // the last number given; tensors that backward has not asked for
  uint32_t brought, graphs;  // brought back so far; backward passes so far
  offload_graph graph;       // the backward pass that runs
  uint32_t own_graph;        // the one that asked first
  plim_grad_node *node;      // the last that had tensors brought back
  bool cleans_late; // what was brought back is dropped when shards have ended their backward pass
  bool is_saving, is_asked; // not is_first_forward_call, not is_first_backward_call
  vec(offload_kept) forward, backward, abandoned;
  vec(offload_kept) inputs; // of reentrant checkpoints, on the host
  vec(offload_key) keys;
  vec(offload_hook) hooks; // of the nodes that are running, the innermost last
};

bool offload_is_class(plim_saving how); // OffloadActivations, or the next
bool offload_is_for_inputs(plim_saving how);

// A node's saved tensor, or a checkpoint's input. The caller owns the result.
plim_tensor *offload_pack(plim_tape *t, plim_tensor *x, bool is_output, uint32_t *number);
// Consumes `kept`, which offload_pack returned. `node` is the one that runs.
plim_tensor *offload_unpack(plim_tape *t, plim_grad_node *node, plim_tensor *kept, uint32_t number);
// The same for the input of a reentrant checkpoint, which is sent to the host beside hidden_states. offload_fetch_input also
// brings the input before it back, which the next call returns.
uint32_t offload_send_input(plim_tape *t, const plim_tensor *x);
plim_tensor *offload_fetch_input(plim_tape *t, uint32_t number);
// Takes over what offload_pack returned for a node that will not run: the class keeps it until the next step.
void offload_abandon(plim_tape *t, plim_tensor *kept, uint32_t number);
// The node has run: what was done since there were `first` hooks is completed.
void offload_node_ran(plim_tape *t, size_t first);
offload_graph offload_begin_graph(plim_tape *t); // returns the outer one
void offload_end_graph(plim_tape *t, offload_graph outer);
void offload_free(plim_tape *t);

#endif
