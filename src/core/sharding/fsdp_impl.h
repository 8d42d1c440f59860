// What the two halves of FSDP2 share: fsdp_units.c cuts a model into groups, fsdp.c runs them.
#ifndef PLIM_CORE_FSDP_IMPL_H
#define PLIM_CORE_FSDP_IMPL_H

#include "sharding.h"
#include "tape_state.h"

typedef struct {
  plim_tensor *full;    // what the model computes with; over no memory while it is sharded
  plim_tensor *shard;   // this rank's part; over no memory of the card when it is offloaded
  int64_t elements;     // of the part
  plim_dtype own_dtype; // of the part
  size_t index;         // among the model's parameters; SIZE_MAX: frozen
  bool has_grad;        // that is being reduced
} fsdp_parameter;

typedef enum { IDLE, FORWARD, BEFORE_BACKWARD, AFTER_BACKWARD } fsdp_state;

// What one call of fully_shard makes: of a layer, of some parts of the model, or of the model.
typedef struct {
  struct fsdp *all;
  vec(fsdp_parameter) parameters;
  plim_tensor *gathered; // all-gather output, until it is copied out
  double ready;          // when it is there, in seconds of the clock
  size_t order;          // in which forward was done
  unsigned parts;        // bit i: plim_part i; forward begins with the first and ends with the last
  unsigned running;      // those of them whose forward is still to end
  bool is_full, keeps_full;
  fsdp_state state;
  plim_hook before_backward, after_backward;
} fsdp_group;

enum { FSDP_EMBEDDING, FSDP_TAIL, FSDP_ROOT, FSDP_OTHERS }; // groups behind those of the layers

typedef struct fsdp {
  plim_shards shards;
  plim_sharding how;
  fsdp_group *groups; // of the layers, then the others
  size_t count;
  plim_tensor *last_gathered; // in forward: copied out, but kept until the next is
  plim_tensor *reducing;      // input of the last reduce-scatter
  vec(fsdp_group *) done;     // forward, in order
  double copied_out;          // when the last group is: the next is gathered no sooner
  double reduced;  // when the last gradients are, and are on the host if they are offloaded
  int64_t trained; // elements of this rank that the optimizer updates
  size_t trained_count;
  plim_dtype trained_dtype;
} fsdp;

static inline fsdp_group *fsdp_other(const fsdp *f, int which) {
  return &f->groups[f->shards.layers + (size_t)which];
}

static inline int64_t fsdp_part_bytes(const fsdp_parameter *p, plim_dtype dtype) {
  return p->elements * plim_dtype_bytes[dtype];
}

// Makes the groups, with the parameters' parts, out of a model that is there. False when memory is out.
bool fsdp_cut(plim_tape *t, fsdp *f, plim_model *m);

#endif
