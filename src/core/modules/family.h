// A family of models: everything that is known of it, in one row. A family's row stands in its own file in
// core/families; docs/adding-a-family.md says how to add one.
#ifndef PLIM_CORE_FAMILY_H
#define PLIM_CORE_FAMILY_H

#include "config.h"
#include "model.h"

// Which layers attend only to a sliding window of tokens, where the configuration has a window.
typedef enum {
  PLIM_WINDOWS_NOWHERE, // the family's code has no windows
  PLIM_WINDOWS_EVERYWHERE,
  PLIM_WINDOWS_LATE,     // if use_sliding_window, from layer max_window_layers on
  PLIM_WINDOWS_ALTERNATE // every other layer, the first among them
} plim_windows;

// Norms of queries and keys before they are rotated.
typedef enum {
  PLIM_QK_NORM_NONE,
  PLIM_QK_NORM_HEADS, // of each head
  PLIM_QK_NORM_WIDTH  // of all heads at once
} plim_qk_norm;

// Which runs of a family were recorded (tests/truth) and are predicted event by event. Any other run is
// marked unverified.
enum {
  PLIM_RECORDED_TRAINING = 1 << 0, // on one GPU
  PLIM_RECORDED_QUANTISED = 1 << 1,
  PLIM_RECORDED_FUSED_LOSS = 1 << 2, // Liger-Kernel's cross entropy
  PLIM_RECORDED_LIGER = 1 << 3,      // Liger-Kernel's modules
  PLIM_RECORDED_SHARDED = 1 << 4,    // DDP and FSDP2
  PLIM_RECORDED_DEEPSPEED = 1 << 5,  // ZeRO 1 to 3
};

struct plim_family {
  const char *model_type; // as config.json has it
  // Builds the model as its constructor does, on the tape. NULL when memory is out.
  plim_model *(*build)(plim_tape *t, const plim_config *c, plim_dtype dtype);
  plim_config defaults; // of transformers' configuration class
  // The feature of this configuration that `build` does not support ("a tied head"); NULL: there is none. A family
  // without this function supports everything. Activations other than the default are refused, unless
  // `has_any_activation`.
  const char *(*unfollowed)(const plim_config *c);

  // Properties of the family's code, which no configuration changes.
  bool is_encoder;         // bare or with a head for masked tokens; otherwise it has a causal head
  bool is_encoder_decoder; // labels have a length of their own
  bool has_any_activation; // every activation function of config.json is supported
  bool has_position_table; // no sequence is longer than it
  int64_t position_offset; // number of positions of the table that are for padding
  bool counts_positions;   // from the token ids, padding left out
  bool has_relative_positions; // a bias on the scores of attention
  bool divides_width;          // a head is hidden / heads wide, whatever head_dim says
  bool turns_part_of_head;     // rotary positions rotate a part of each head, as config.json says
  bool reads_yarn_as_longrope; // older files call its scaling "yarn"
  bool cannot_checkpoint;      // its class lacks supports_gradient_checkpointing
  // Decoders of core/families/decoder.h:
  plim_windows windows;
  bool has_qkv_bias; // biases of q, k and v alone, without a key in the file
  plim_qk_norm qk_norm;
  bool has_wide_rotary;        // cos and sin stay float32
  bool has_fused_projections;  // qkv_proj and gate_up_proj
  bool has_residual_dropout;   // of what attention and the MLP add
  bool keeps_mask_arguments;   // its forward keeps them in a dict
  bool passes_positions_first; // to a layer, before cos and sin

  // How other libraries treat it.
  // peft's default target_modules (peft/utils/constants.py, 0.21); NULL: it has none.
  const char *lora_targets;
  // Liger-Kernel 0.8 (MODEL_TYPE_TO_APPLY_LIGER_FN) replaces norms, rotary positions, MLP and loss by those
  // of liger.h and loss.h. It has other modules for some families, which are not modelled.
  bool has_liger;

  unsigned recorded; // PLIM_RECORDED_... bits
};

#endif
