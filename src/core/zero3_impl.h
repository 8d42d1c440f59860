// What the files of ZeRO's third stage share: zero3.c gathers and reduces, zero3_states.c has the parts and steps.
#ifndef PLIM_CORE_ZERO3_IMPL_H
#define PLIM_CORE_ZERO3_IMPL_H

#include "sharding.h"
#include "tape_impl.h"

typedef struct {
  struct zero3 *all;
  plim_tensor *tensor; // over no memory while it is partitioned
  plim_tensor *flat;   // gathered together with others, and not yet copied out
  plim_tensor *own;    // frozen: this rank's part; those of the others lie together
  double ready;        // when it is here, in seconds of the clock
  int64_t elements, part;
  bool is_persistent, is_whole, is_trained;
} zero3_parameter;

// The parameters of a layer, or of what comes before or after all layers, in one pass.
typedef struct {
  struct zero3 *all;
  vec(zero3_parameter *) members;
  plim_hook before_backward;
  uint32_t modules; // that its forward calls
} zero3_group;

// What the optimizer updates at a time.
typedef struct {
  plim_tensor *master; // this rank's part in float32
  int64_t elements;
} zero3_sub_group;

typedef struct zero3 {
  plim_shards shards;
  plim_sharding how;
  plim_zero_sizes sizes;
  zero3_parameter *parameters;
  size_t count;
  zero3_group *groups; // before the layers, the layers, behind the layers
  size_t group_count;
  zero3_group *last;             // used in backward
  vec(size_t) trace;             // groups as they were used in the first pass, forward and backward
  size_t position;               // in the trace
  vec(zero3_parameter *) bucket; // gradients on their way to be reduced
  vec(zero3_sub_group) sub_groups;
  int64_t partition, live, bucket_elements;
  double reduced;   // when the last bucket is
  double offloaded; // when its gradients are on the host, for the optimizer
  plim_tensor *parts, *buffer, *gradients, *norm, *tracker;
  bool is_traced;
} zero3;

// Cuts all parameters and makes the optimizer's states; from here on m->parameters are the masters, none if they are
// on the host. False when memory is out.
bool zero3_make_states(plim_tape *t, zero3 *z, plim_model *m);

// The step of the engine, as hooks.
void zero3_before_step(plim_tape *t, plim_shards *s);
void zero3_before_update(plim_tape *t, plim_shards *s, size_t index);
void zero3_after_step(plim_tape *t, plim_shards *s);

#endif
