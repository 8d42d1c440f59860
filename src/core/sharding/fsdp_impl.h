// Shared by the two files of FSDP2: fsdp_units.c divides a model into groups, fsdp.c runs them.
#ifndef PLIM_CORE_FSDP_IMPL_H
#define PLIM_CORE_FSDP_IMPL_H

#include "sharding.h"
#include "tape_state.h"

typedef struct {
  plim_tensor *full;    // the whole parameter; its storage is empty while it is sharded
  plim_tensor *shard;   // this rank's shard; on the host if offloaded
  int64_t elements;     // of the shard
  plim_dtype own_dtype; // of the shard; of a packed weight, that of its storage
  plim_dtype dtype;     // in which it is gathered
  size_t index;         // among the model's trained parameters; SIZE_MAX: frozen
  bool has_grad;        // its gradient is being reduced
} fsdp_parameter;

typedef enum { IDLE, FORWARD, BEFORE_BACKWARD, AFTER_BACKWARD } fsdp_state;

// The parameters of one fully_shard call: of a layer, of some parts of the model, or of the rest of the model.
typedef struct {
  struct fsdp *all;
  vec(fsdp_parameter) parameters;
  plim_tensor *gathered; // output of the all-gather, until it is copied out
  double ready;          // when the all-gather is done, in seconds of the clock
  vec(size_t) orders;    // of each call, its position in the order in which forward finished
  unsigned parts;        // bit i: plim_part i; forward begins with the first and ends with the last
  unsigned running;      // the parts whose forward has not ended yet
  bool is_full, keeps_full;
  fsdp_state state;
  plim_hook before_backward, after_backward;
} fsdp_group;

// Groups after those of the layers. FSDP_TOWERS stands for a group of each layer of a tower: none is ever gathered.
enum { FSDP_EMBEDDING, FSDP_TAIL, FSDP_TOWERS, FSDP_ROOT, FSDP_OTHERS };

typedef struct fsdp {
  plim_shards shards;
  plim_sharding how;
  fsdp_group *groups; // those of the layers, then the others
  size_t count;
  plim_tensor *last_gathered; // in forward: already copied out, but kept until the next group is
  plim_tensor *reducing;      // input of the last reduce-scatter
  vec(fsdp_group *) done;     // groups whose forward is done, in order
  bool is_in_model;           // in the model's forward
  double copied_out; // when the last group is copied out; the next all-gather starts no sooner
  double reduced;    // when the last gradients are reduced, and on the host if offloaded
  int64_t trained;   // elements that this rank's optimizer updates
  size_t trained_count;
  plim_dtype trained_dtype;
} fsdp;

static inline fsdp_group *fsdp_other(const fsdp *f, int which) {
  return &f->groups[f->shards.layers + (size_t)which];
}

static inline int64_t fsdp_part_bytes(const fsdp_parameter *p, plim_dtype dtype) {
  return p->elements * plim_dtype_bytes[dtype];
}

// Divides a model into groups and shards the parameters. Returns false when out of memory.
bool fsdp_cut(plim_tape *t, fsdp *f, plim_model *m);

#endif
