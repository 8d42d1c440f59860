// A family of models: everything that is known of it, in one row. A family's row stands in its own file in
// core/families; docs/adding-a-family.md says how to add one.
#ifndef PLIM_CORE_FAMILY_H
#define PLIM_CORE_FAMILY_H

#include "config.h"
#include "model.h"
#include "packages.h"
#include "versions.h"

// Which layers attend only to a sliding window of tokens, where the configuration has a window and does not list
// the kinds of layers.
typedef enum {
  PLIM_WINDOWS_NOWHERE, // the family's code has no windows
  PLIM_WINDOWS_EVERYWHERE,
  PLIM_WINDOWS_IF_ASKED, // everywhere, if use_sliding_window
  PLIM_WINDOWS_LATE,     // if use_sliding_window, from layer max_window_layers on
  PLIM_WINDOWS_TURNED,   // layers with rotary positions
  PLIM_WINDOWS_PATTERN   // every layer but each n-th: sliding_window_pattern
} plim_windows;

// Norms of queries and keys, most before they are rotated.
typedef enum {
  PLIM_QK_NORM_NONE,
  PLIM_QK_NORM_HEADS,  // of each head, (B,T,H,D)
  PLIM_QK_NORM_ASKED,  // the same if use_qk_norm, after all projections
  PLIM_QK_NORM_TURNED, // of each head, when it is (B,H,T,D)
  PLIM_QK_NORM_WIDTH,  // of all heads at once
  PLIM_QK_NORM_LATE    // of each head, after they are rotated
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
  // Training on one GPU with other releases of transformers than the measured one:
  PLIM_RECORDED_4_46 = 1 << 8,
  PLIM_RECORDED_4_57 = 1 << 9,
  PLIM_RECORDED_5_22 = 1 << 10,  // 5.18 to 5.22
  PLIM_RECORDED_TORCH = 1 << 11, // with other releases of PyTorch
};

// Which modules compute rotary positions before transformers 4.48; since then the model does, once for all layers.
typedef enum {
  PLIM_OLD_ROTARY_UNUSED, // the model; layers have modules that are not used
  PLIM_OLD_ROTARY_LAYERS, // each layer
  PLIM_OLD_ROTARY_CACHED, // each layer, from a table of all positions
  PLIM_OLD_ROTARY_MODEL   // the model; layers have none
} plim_old_rotary;

// What Axolotl's LoRA kernels do with a family's code (monkeypatch/lora_kernels.py with transformers 5.14, the release it
// pins; found by running its functions on a model of every family, tests/truth/lora_kernels.json).
typedef enum {
  PLIM_LORA_KERNELS_WORK,
  PLIM_LORA_KERNELS_FAIL_IN_ATTENTION, // patch_self_attn_lora finds no such class, or other code in it
  PLIM_LORA_KERNELS_FAIL,              // and get_layers does not find the layers
  PLIM_LORA_KERNELS_OFF                // model_support/ declares them unsupported
} plim_lora_kernels;

// What Axolotl has in place of transformers' loss: Cut Cross Entropy (integrations/cut_cross_entropy, and PATCH_FNS of the release of
// its fork that it names), and Liger-Kernel's for models that Liger-Kernel does not know (integrations/liger).
typedef enum {
  PLIM_AXOLOTL_LOSS_OWN,     // code for the family
  PLIM_AXOLOTL_LOSS_GENERIC, // a patch of NAMEForCausalLM, which works
  PLIM_AXOLOTL_LOSS_BREAKS,  // that patch calls self.model, which the class does not have
  PLIM_AXOLOTL_LOSS_NONE, // there is no class NAMEForCausalLM: Cut Cross Entropy stops, Liger-Kernel is left out
  PLIM_AXOLOTL_LOSS_REFUSED // model_support/ declares both unsupported
} plim_axolotl_loss;

typedef struct plim_mixture plim_mixture; // core/blocks/experts.h
struct plim_towers;                       // core/blocks/towers.h

// What the head of a family's ...ForSequenceClassification does with the first token before it classifies. All zero: it
// scores every token and takes the last one's, as decoders do.
typedef struct {
  bool is_pooled;             // takes what the pooler of the bare encoder returns
  const char *dense;          // name of a layer before the classifier; NULL: none
  plim_activation activation; // behind that layer
  bool drops_first;           // dropout before that layer, too
  const char *classifier;     // its name
  bool is_in_all;             // heads for tokens and answers have that layer, too
} plim_text_head;

struct plim_family {
  const char *model_type; // as config.json has it
  // Builds the model as its constructor does, on the tape. NULL when memory is out.
  plim_model *(*build)(plim_tape *t, const plim_config *c, plim_dtype dtype);
  plim_config defaults; // of transformers' configuration class
  // The feature of this configuration that `build` does not support ("a tied head"); NULL: there is none. A family
  // without this function supports everything. Activations other than the default are refused, unless
  // `has_any_activation`.
  const char *(*unfollowed)(const plim_config *c);

  // Multimodal models, of which text is trained: the towers are built, loaded and idle. Everything else is said by the
  // row of the language model.
  const char *
      text_types; // the families that the language model may have; the first if text_config names none
  void (*add_towers)(plim_tape *t, struct plim_towers *out, const plim_config *c, plim_dtype dtype);
  // The same for what is built behind the language model; NULL: nothing.
  void (*add_towers_behind)(plim_tape *t, struct plim_towers *out, const plim_config *c,
                            plim_dtype dtype);
  const char *text_place; // its layers; NULL: "model.language_model.layers"
  bool may_lack_towers;   // config.json may have no vision_config or audio_config
  bool lacks_loss_kwargs; // the class sets accepts_loss_kwargs = False
  bool masks_blocks;      // its masks let tokens of an image see each other, if has_image_blocks
  bool makes_masks_first; // before the language model runs, without positions
  bool has_inner_head; // it holds a causal model, whose head computes the logits, and adds the loss
  bool passes_ids_on;  // the language model embeds the tokens, not the model around it

  // Properties of the family's code, which no configuration changes.
  bool is_encoder;         // bare or with a head for masked tokens; otherwise it has a causal head
  bool is_encoder_decoder; // labels have a length of their own
  bool has_any_activation; // every activation function of config.json is supported
  bool has_position_table; // no sequence is longer than it
  int64_t position_offset; // number of positions of the table that are for padding
  bool counts_positions;   // from the token ids, padding left out
  // Before transformers 5.0, the head for masked tokens was made with a bias that another replaced.
  bool makes_head_bias_twice;
  bool has_relative_positions; // a bias on the scores of attention
  bool divides_width;          // a head is hidden / heads wide, whatever head_dim says
  bool turns_part_of_head;     // rotary positions rotate a part of each head, as config.json says
  bool reads_yarn_as_longrope; // older files call its scaling "yarn"
  bool has_no_padding_row;     // its code does not tell nn.Embedding which token is padding
  bool lacks_sdpa;             // its class lacks _supports_sdpa: attention is eager by default
  bool is_refused_flash;  // its class lacks _supports_flash_attn: transformers does not load it so
  bool lacks_flash;       // its class has code of its own for flash-attn, which is not modelled
  bool lists_attention;   // its layers look the kind of attention up in a dictionary of their own
  bool cannot_checkpoint; // its class lacks supports_gradient_checkpointing
  plim_text_head text_head;
  bool has_inline_loss; // heads for labels do not call a function of loss_utils.py for their loss
  // The loss of a head for texts takes those examples whose label is not negative, and float32.
  bool gathers_labelled;
  bool calls_other_losses; // the heads for masked tokens and answers do, whatever the others do
  bool makes_head_first;   // before the encoder
  bool has_no_pooler;      // an encoder without one
  bool drops_answers;      // dropout before the head for answers
  // Name of the first layer of a head for masked tokens that ends in an ordinary linear layer, whose bias is not tied;
  // NULL: the head is BERT's.
  const char *transform;
  bool makes_bias_early; // that of a head for masked tokens, behind its norm
  bool ties_bias_first;  // that of a head for masked tokens, before its weight
  bool norms_first;      // that head makes its norm before its first layer
  // The first layer has no bias, nor has the norm behind it, which heads for labels have, too.
  bool has_unbiased_transform;
  unsigned
      lacks_heads; // bit i: plim_head i, for which transformers has no class, or one that is not modelled
  // Decoders of core/blocks/decoder.h:
  const plim_mixture
      *mixture;          // of experts, where the configuration has them; NULL: the family has none
  bool asks_for_experts; // enable_moe_block decides whether there are any
  plim_windows windows;
  plim_layer_kind mixes;       // what some layers have in place of attention; 0: all have attention
  bool mixes_beside_attention; // every layer has a mixer and attention, which read the same input
  bool has_single_blocks;      // a layer is attention, a mixer, an MLP or experts, and nothing else
  bool has_only_mixers;        // every layer is a mixer and nothing else, without positions
  bool norms_state_groups;     // the norm behind a state space is that of each group
  bool
      scales_states; // Falcon-H1's state space: numbers that input and projection are multiplied with
  bool has_wide_logits; // the head returns float32
  bool narrows_hidden;  // the head gets the hidden states in the dtype of its weight
  bool
      has_gated_attention; // q_proj also computes a gate, with which attention's result is multiplied
  bool has_grid_positions; // three positions for each token (time, height, width), each with angles
  bool has_grid_sections;  // the angles of each position are side by side, not interleaved
  bool has_qkv_bias;       // biases of q, k and v alone, without a key in the file
  plim_qk_norm qk_norm;
  bool has_latent_attention; // core/blocks/latent.h
  bool keeps_latent_apart;   // a variable of its own holds the normed latent
  bool has_unbiased_output;  // o_proj has no bias, whatever attention_bias says
  bool has_complex_rotary;   // rotates pairs as complex numbers
  bool joins_parts_last;     // rotates parts of queries and keys, then joins both with the rest
  bool has_sinks;            // a score of each head that takes no part in attention's result
  bool has_half_rotary;      // cos and sin are half as wide as a head
  bool has_wide_rotary;      // cos and sin stay float32
  bool
      initialises_rotary_again; // a second time; with "alpha", frequencies are plain when they are built
  bool has_local_rotary;        // layers with a window have frequencies of their own
  bool has_fused_projections;  // qkv_proj and gate_up_proj
  bool has_fused_gate;         // gate_up_proj alone
  bool turns_neighbours;       // rotary positions rotate neighbours, of a part of each head
  bool has_paired_angles;      // cos and sin have every angle twice, side by side
  bool turns_neighbours_wide;  // of the whole head, in float32
  bool turns_all_neighbours;   // of the whole head
  bool has_residual_dropout;   // of what attention and the MLP add
  bool keeps_mask_arguments;   // its forward keeps them in a dict
  bool has_idle_mask;          // makes a mask with a window even if no layer has one
  bool masks_lack_positions;   // they are made without position_ids
  bool replaces_mask_argument; // its forward puts the mask in the variable of attention_mask
  bool layers_lack_positions;  // they are not given position_ids
  bool passes_positions_first; // to a layer, before cos and sin
  bool turns_windows_only;     // only layers with a window have rotary positions
  bool turns_without_windows;  // all layers have them if there is no window
  bool has_unturned_layers;    // config.json names layers without rotary positions
  bool scales_queries;         // by a number for each position
  bool has_chunks;             // a window is a chunk of the text, beyond which a token does not see
  bool has_linear_router;      // the router is a linear layer that returns two tensors
  bool has_cross_layers;       // some layers attend to an image, and are passed by without one
  int64_t more_tokens;         // rows of the table of tokens that the head does not have

  // Releases of transformers; 0: all that are supported.
  uint16_t first_release; // that has it
  uint16_t sdpa_from;     // since which it has PyTorch's attention
  // The release of transformers since which its forward calls a function for the loss and takes num_items_in_batch; 0:
  // all that are supported.
  uint16_t loss_function_from;
  uint16_t logits_to_keep_from; // since which it has the argument logits_to_keep
  bool
      had_wide_logits; // before, it returned float32 logits; others computed the loss in the dtype of the logits

  plim_old_rotary old_rotary;

  // How other libraries treat it.
  // peft's default target_modules (peft/utils/constants.py, 0.21); NULL: it has none.
  const char *lora_targets;
  const char *lora_refuses; // a layer that peft refuses to adapt (tuners_utils.py); NULL: none
  // A layer that Axolotl names in llm_int8_skip_modules (loaders/model.py), which makes bitsandbytes quantise the head
  // instead; NULL: none.
  const char *axolotl_leaves;
  bool
      was_run_in_torchtune; // torchtune's own model has the same peaks (tests/truth/tune_models.json)
  // Axolotl refuses reentrant checkpoints (normalize_config): layers share parameters or keys and values.
  bool axolotl_fuses_mlp; // with flash_attn_fuse_mlp (monkeypatch/llama_attn_hijack_flash.py)
  bool axolotl_avoids_reentrant;
  plim_axolotl_loss axolotl_loss;
  plim_lora_kernels axolotl_lora_kernels;
  // Norms and rotary positions of the attention are one kernel of Axolotl's, whatever the settings (loaders/patch_manager.py).
  bool axolotl_fuses_attention;
  // LLaMA-Factory's own choice of attention (model/model_utils/attention.py): eager if flash-attn is not installed, and a
  // kernel of the Hub.
  bool factory_is_eager, factory_has_kernel;
  // Not one of its COMPOSITE_MODELS (model/model_utils/visual.py), in whose frozen towers no layer gets adapters.
  bool factory_adapts_towers;
  // Published checkpoints name code of their own (auto_map in config.json), which trust_remote_code runs instead.
  bool ships_code;
  // Liger-Kernel 0.8 (MODEL_TYPE_TO_APPLY_LIGER_FN) replaces norms, rotary positions, MLP and loss by those
  // of liger.h and loss.h. It has other modules for some families, which are not modelled.
  bool has_liger;
  bool
      has_other_liger; // Liger-Kernel 0.8, or Axolotl's plugin for it, has modules that are not modelled
  bool
      factory_1_has_liger; // LLaMA-Factory v1 does (v1/plugins/model_plugins/kernels/liger_kernel_ops.py)
  bool
      factory_lacks_liger; // LLaMA-Factory 0.9 does not know them (model/model_utils/liger_kernel.py)

  // A part of the checkpoints that this class does not load; NULL: none.
  const char *left_out;
  // Optional packages whose kernels replace transformers' own PyTorch code; NULL: none. `packages` are those that are
  // modelled.
  const char *faster_packages;
  plim_packages packages;
  // With any of these installed, Axolotl does not start (loaders/model.py, _check_model_requirements).
  plim_packages axolotl_refuses;
  // Axolotl's code for packed samples (monkeypatch/models) looks for layers under names that transformers has changed.
  bool axolotl_packs_by_old_names;
  // With packed samples, Axolotl turns the fused kernel of Mamba 2 off for the parts of it.
  bool axolotl_splits_kernels;
  bool axolotl_guards_kernels; // the same for quantised weights alone

  unsigned recorded; // PLIM_RECORDED_... bits
};

// The attention of a run that asks for `asked`, or for none: sdpa.
static inline plim_attention_kind plim_family_attention(const plim_family *f,
                                                        plim_attention_kind asked) {
  return f->lacks_sdpa && asked == PLIM_ATTENTION_SDPA ? PLIM_ATTENTION_EAGER : asked;
}

#endif
