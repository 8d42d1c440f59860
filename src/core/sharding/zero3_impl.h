// What the files of ZeRO's third stage share: zero3_gather.c gathers, zero3.c has the hooks and reduces, zero3_states.c
// has the parts and steps.
#ifndef PLIM_CORE_ZERO3_IMPL_H
#define PLIM_CORE_ZERO3_IMPL_H

#include "sharding.h"
#include "tape_state.h"

// What is asked for at once: the parameters of a module or, where the tape does not know the module, of a layer or of
// what comes before or after all layers.
typedef struct zero3_group {
  struct zero3 *all;
  vec(struct zero3_parameter *) members;
  plim_hook before_backward;
  uint32_t modules; // of a layer: that its forward calls
  bool is_module;
} zero3_group;

typedef struct zero3_parameter {
  struct zero3 *all;
  zero3_group module; // if it is the weight of one
  zero3_group
      around; // what is called before it: peft's layer, which asks lora_A for its type, or the dropout
  plim_tensor *tensor; // over no memory while it is partitioned
  plim_tensor *flat;   // gathered together with others, and not yet copied out
  plim_tensor *own;    // frozen: this rank's part; those of the others lie together
  double ready;        // when it is here, in seconds of the clock
  size_t claimed;      // how far in the trace it was found to be there, or was asked for
  int64_t elements, part;
  bool is_persistent, is_whole, is_trained;
  bool is_adapters; // or what an adapter is on
} zero3_parameter;

// What the optimizer updates at a time.
typedef struct {
  plim_tensor *master; // this rank's part in float32
  int64_t elements;
} zero3_sub_group;

typedef struct zero3 {
  plim_shards shards;
  plim_sharding how;
  plim_zero_sizes sizes;
  plim_dtype dtype;         // of the model, and of gradients
  plim_dtype trained_dtype; // of adapters, which may be float32
  zero3_parameter *parameters;
  size_t count;
  zero3_group *groups; // before the layers, the layers, behind the layers
  size_t group_count;
  zero3_group *last, *last_module; // used in backward
  vec(zero3_group *) trace;        // as they were used in the first pass, forward and backward
  size_t position;                 // in the trace
  size_t queued, queued_member;    // of the trace: what is still to be prefetched
  vec(zero3_parameter *) bucket;   // gradients on their way to be reduced
  vec(zero3_sub_group) sub_groups;
  int64_t partition, live, bucket_elements;
  double reduced;   // when the last bucket is
  double offloaded; // when its gradients are on the host, for the optimizer
  plim_tensor *parts, *buffer, *gradients, *norm, *tracker;
  bool is_traced, has_adapters;
} zero3;

// Cuts all parameters and makes the optimizer's states; from here on m->parameters are the masters, none if they are
// on the host. False when memory is out.
bool zero3_make_states(plim_tape *t, zero3 *z, plim_model *m);

// A module or a layer is about to run, forward or backward: its parameters come, and what is needed next.
void zero3_use(plim_tape *t, zero3_group *g);
// It has run: what is not used again soon goes.
void zero3_done_with(plim_tape *t, zero3_group *g);
bool zero3_is_used_soon(const zero3 *z, const zero3_parameter *p);
void zero3_release(plim_tape *t, zero3_parameter *p); // if it is whole and may be cut

// The step of the engine, as hooks.
void zero3_before_step(plim_tape *t, plim_shards *s);
void zero3_before_update(plim_tape *t, plim_shards *s, size_t index);
void zero3_after_step(plim_tape *t, plim_shards *s);

#endif
