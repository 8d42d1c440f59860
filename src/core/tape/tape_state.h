// The current state of the program on the tape, which the layers above read and set: operators (autocast,
// kernels), sharding and training loops.
#ifndef PLIM_CORE_TAPE_STATE_H
#define PLIM_CORE_TAPE_STATE_H

#include "packages.h"
#include "tape.h"
#include "versions.h"

typedef struct {
  bool failed;     // host memory ran out, or the program was stopped
  bool is_stopped; // a recomputation has all it needs: no more allocations
  plim_thread thread;
  plim_stream stream;
  int32_t next_layer;
  bool is_recomputing; // a checkpointed layer is being recomputed
  bool runs_again;     // and the checkpoint is reentrant: a forward pass of its own
  uint8_t parts;       // bit i is set while plim_part i of the model runs
  uint8_t free_kind;   // a plim_stream_kind for frees that happen now
  uint8_t autocast;    // a plim_dtype; PLIM_BOOL: off
  uint8_t sdpa;        // a plim_sdpa_kernel
  bool ran_math;       // attention ran without a fused kernel
  bool uses_liger;
  bool has_bitsandbytes;    // the program has imported it
  bool copies_heads;        // attention copies keys and values for every query head
  bool is_torchtune;        // linear layers with adapters and 4-bit weights are torchtune's
  int64_t padding;          // padded positions in every row
  bool is_packed;           // position ids begin again with each sample of a row
  bool has_own_linear;      // DeepSpeed's linear: the weight's gradient is not a view
  plim_tensor *nested_code; // bitsandbytes' table of 8-bit values
  // How many columns each LLM.int8() product still to come computes separately because they hold values of 6 or more. That
  // depends on the data; products after these have none. Borrowed; only recordings know it.
  const uint32_t *outliers;
  size_t outlier_count;
  struct plim_shards *shards; // NULL if the model is not sharded; not owned
  struct plim_model *partly;  // the model, if only a part of it is trained (trained.h); or NULL
  bool asks_for_inputs;       // the output of its embedding needs a gradient
  bool adds_noise;            // NEFTune, to what the embedding of tokens returns
  bool checkpoints_trained;   // only its layers with trained parameters are checkpointed
  bool wraps_layers;          // checkpoints are CheckpointWrappers, not the model's own
  bool reduces_gradients;     // this backward is not under no_sync
  bool ends_step;             // this backward is the last before the optimizer step
  bool reduces_once;          // all backward passes of a step but the last are under no_sync
  plim_hook after_backward;   // runs when a backward pass of the training loop has ended
  bool skips_adapters;        // adapters are disabled
  plim_versions versions;     // of the libraries
  plim_packages packages;     // that are installed
} plim_tape_state;

// plim_tape's first member is its state.
static inline plim_tape_state *plim_state(plim_tape *t) { return (plim_tape_state *)(void *)t; }
static inline const plim_tape_state *plim_const_state(const plim_tape *t) {
  return (const plim_tape_state *)(const void *)t;
}

static inline bool plim_has_package(const plim_tape *t, plim_package package) {
  return PLIM_HAS_PACKAGE(plim_const_state(t)->packages, package);
}

// ---- versions -------------------------------------------------------------------------------------

// Whether the program uses this release of transformers, or a later one.
static inline bool plim_transformers_since(const plim_tape *t, uint16_t release) {
  uint16_t version = plim_const_state(t)->versions.transformers;
  return (version ? version : PLIM_MEASURED_TRANSFORMERS) >= release;
}
static inline bool plim_transformers_from(const plim_tape *t, unsigned major, unsigned minor) {
  return plim_transformers_since(t, PLIM_RELEASE(major, minor));
}

// Whether it uses this release of PyTorch, or a later one.
static inline bool plim_torch_from(const plim_tape *t, unsigned major, unsigned minor) {
  uint16_t version = plim_const_state(t)->versions.torch;
  return (version ? version : PLIM_MEASURED_TORCH) >= PLIM_RELEASE(major, minor);
}

// ---- autocast -------------------------------------------------------------------------------------

// Turns autocast on for a dtype, or off (PLIM_BOOL), which frees the casts it kept. Returns the previous setting.
plim_dtype plim_autocast(plim_tape *t, plim_dtype dtype);
bool plim_autocast_is_on(const plim_tape *t);
// The cast of a leaf that autocast keeps until it is turned off; NULL: there is none yet.
plim_tensor *plim_autocast_kept(const plim_tape *t, const plim_tensor *leaf);
// Takes over the reference to `cast`.
void plim_autocast_keep(plim_tape *t, plim_tensor *leaf, plim_tensor *cast);

#endif
