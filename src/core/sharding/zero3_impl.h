// Shared by the files of ZeRO stage 3: zero3_gather.c gathers parameters, zero3.c has the hooks and reduces gradients,
// zero3_states.c partitions the model and performs the optimizer step.
#ifndef PLIM_CORE_ZERO3_IMPL_H
#define PLIM_CORE_ZERO3_IMPL_H

#include "sharding.h"
#include "tape_state.h"

// Parameters that are requested together: those of a module or, if the tape does not call the module as such, those of
// a layer, or those used before or after all layers.
typedef struct zero3_group {
  struct zero3 *all;
  vec(struct zero3_parameter *) members;
  plim_hook before_backward;
  uint32_t modules; // of a layer: number of modules that its forward calls
  bool is_module;
} zero3_group;

typedef struct zero3_parameter {
  struct zero3 *all;
  zero3_group module; // its module, if it is the weight of one
  // Requested before the module: peft's layer, which asks lora_A for its dtype, or the dropout.
  zero3_group around;
  plim_tensor *tensor; // its storage is empty while it is partitioned
  plim_tensor *flat;   // the gathered buffer it has not been copied out of yet
  plim_tensor *own;    // if frozen: this rank's partition; trained ones share one buffer
  double ready;        // when it has been gathered, in seconds of the clock
  size_t claimed;      // trace position up to which prefetching has handled it
  int64_t elements, part;
  bool is_persistent, is_whole, is_trained;
  bool is_adapters; // an adapter, or the weight under one
} zero3_parameter;

// The parameters that the optimizer updates at a time.
typedef struct {
  plim_tensor *master; // this rank's partition in float32
  int64_t elements;
} zero3_sub_group;

typedef struct zero3 {
  plim_shards shards;
  plim_sharding how;
  plim_zero_sizes sizes;
  plim_dtype dtype;         // of the model and its gradients
  plim_dtype trained_dtype; // of adapters, which may be float32
  zero3_parameter *parameters;
  size_t count;
  zero3_group *groups; // before the layers, the layers, after the layers
  size_t group_count;
  zero3_group *last, *last_module; // last ones used in backward
  vec(zero3_group *) trace;        // groups in the order of use in the first forward and backward
  size_t position;                 // in the trace
  size_t queued, queued_member;    // next entry of the trace to be prefetched
  vec(zero3_parameter *) bucket;   // gradients waiting to be reduced
  vec(zero3_sub_group) sub_groups;
  int64_t partition, live, bucket_elements;
  double reduced;   // when the last bucket is reduced
  double offloaded; // when its gradients are on the host, for the optimizer
  plim_tensor *parts, *buffer, *gradients, *norm, *tracker;
  bool is_traced, has_adapters;
} zero3;

// Partitions all parameters and creates the optimizer's state. Afterwards m->parameters are the float32 masters, or
// empty if they are on the host. Returns false when out of memory.
bool zero3_make_states(plim_tape *t, zero3 *z, plim_model *m);

// Call before a module or layer runs, forward or backward: gathers its parameters and prefetches the next ones.
void zero3_use(plim_tape *t, zero3_group *g);
// Call after it has run: releases parameters that are not used again soon.
void zero3_done_with(plim_tape *t, zero3_group *g);
bool zero3_is_used_soon(const zero3 *z, const zero3_parameter *p);
void zero3_release(plim_tape *t, zero3_parameter *p); // unless partitioned already or persistent

// Hooks of the engine's optimizer step.
void zero3_before_step(plim_tape *t, plim_shards *s);
void zero3_before_update(plim_tape *t, plim_shards *s, size_t index);
void zero3_after_step(plim_tape *t, plim_shards *s);

#endif
