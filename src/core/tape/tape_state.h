// How the program on the tape runs at the moment, for the layers above that set it and look at it: operators
// (autocast, kernels), sharding and training loops.
#ifndef PLIM_CORE_TAPE_STATE_H
#define PLIM_CORE_TAPE_STATE_H

#include "tape.h"

typedef struct {
  bool failed;     // host memory ran out somewhere
  bool is_stopped; // all that was wanted is there: nothing is allocated any more
  // Where the program is.
  plim_thread thread;
  plim_stream stream;
  int32_t next_layer;
  bool is_recomputing; // a checkpointed layer is computed again
  uint8_t parts;       // bit i: plim_part i of the model runs
  uint8_t free_kind;   // a plim_stream_kind: of the frees that happen now
  // Operators.
  uint8_t autocast; // a plim_dtype; PLIM_BOOL: off
  uint8_t sdpa;     // a plim_sdpa_kernel
  bool ran_math;    // attention ran without a fused kernel
  bool uses_liger;
  int64_t padding;          // positions of padding in every row
  bool has_own_linear;      // DeepSpeed's: gives its weight's gradient as it is, not as a view
  plim_tensor *nested_code; // bitsandbytes' table of 8-bit values
  const uint32_t *outliers; // of products in 8 bits still to come
  size_t outlier_count;
  // Sharding and training loops.
  struct plim_shards *shards; // of the model, if it is sharded; not owned
  bool wraps_layers;          // checkpoints are wrappers around layers, not the model's own
  bool reduces_gradients;     // this backward: it is not under no_sync
  bool ends_step;             // this backward: it is the last before the optimizer
  bool reduces_once;          // in a step: all but its last backward are under no_sync
} plim_tape_state;

// The tape begins with its state.
static inline plim_tape_state *plim_state(plim_tape *t) { return (plim_tape_state *)(void *)t; }
static inline const plim_tape_state *plim_const_state(const plim_tape *t) {
  return (const plim_tape_state *)(const void *)t;
}

// ---- autocast -------------------------------------------------------------------------------------

// Turns autocast on for a dtype, or off (PLIM_BOOL), which frees the casts it kept. Returns what it was.
plim_dtype plim_autocast(plim_tape *t, plim_dtype dtype);
bool plim_autocast_is_on(const plim_tape *t);
// The cast of a leaf that is kept until autocast ends; NULL: there is none yet.
plim_tensor *plim_autocast_kept(const plim_tape *t, const plim_tensor *leaf);
void plim_autocast_keep(plim_tape *t, const plim_tensor *leaf,
                        plim_tensor *cast); // takes the reference

#endif
