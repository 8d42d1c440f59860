// What the parts of the tape share: tape.c (memory), autograd.c (graph and engine), kernels.c (what
// operators allocate). Nobody else includes this.
#ifndef PLIM_CORE_TAPE_IMPL_H
#define PLIM_CORE_TAPE_IMPL_H

#include "tape.h"

struct tape_pool {
  void *free;
};

struct tape_cast {
  const plim_tensor *leaf;
  plim_tensor *cast;
};

struct plim_tape {
  plim_tape_sink sink;
  struct tape_chunk *chunks;
  struct tape_pool tensors, storages, nodes;
  vec(plim_node *) doomed; // nodes whose last reference is gone
  uint64_t sequence;
  uint32_t next_id;
  plim_thread thread;
  plim_tensor *workspaces[PLIM_THREADS][2]; // cuBLAS, cuBLASLt: made once per thread, kept for ever
  vec(struct tape_cast) casts;              // of leaves, made under autocast
  uint8_t autocast;                         // a plim_dtype; PLIM_BOOL: off
  bool grad_mode, is_dooming, is_unordered, failed;
  _Alignas(16) unsigned char spare[1024];
};

plim_node *tape_node(plim_tape *t);
void tape_put_node(plim_tape *t, plim_node *n);
void node_release(plim_tape *t, plim_node *n);

#endif
