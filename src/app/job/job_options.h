// The options that describe a training run, shared by the commands that predict one.
#ifndef PLIM_APP_JOB_OPTIONS_H
#define PLIM_APP_JOB_OPTIONS_H

#include "estimate.h"
#include "model_config.h"
#include "model_names.h"
#include "notes.h"
#include "options.h"
#include "other_versions.h"
#include "project_pins.h"

// The options as typed. A command embeds this in its args struct as `job`. lora_targets: NULL for all-linear;
// loss_chunk: PLIM_UNKNOWN for the default.
typedef struct {
  const char *model, *lora_targets, *optimizer, *gpu, *alloc_conf;
  const char *lengths; // a file; NULL: every sample has the same length
  const char *teacher; // of distillation; NULL: none
  const char *qat; // how layers round while they are trained: "int8-int4:256"; NULL: they do not
  const char
      *projected; // expressions for the modules whose gradients are projected; NULL: the default
  const char *trained; // expressions for the names of the trained parameters; NULL: all
  const char *lora_saved, *lora_layers, *lora_excluded; // NULL: none, all, none
  uint64_t batch, seq, target_seq, accumulate, steps, lora_rank, limit_bytes, loss_chunk;
  uint64_t projection_rank;       // 0: the default
  uint64_t columns, cached_batch; // 0: two columns, no cached loss
  uint64_t labels;                // 0: the configuration's
  uint64_t answer_seq;            // tokens of an answer; 0: as many as there can be
  bool is_pairwise;               // the loss compares only texts of the same sample
  double lora_alpha, lora_dropout, network;
  double usual_dropout; // of adapters that only a plan has
  uint64_t world, nodes;
  // Indices into the choices.
  int strategy, reduce_dtype, dtype, amp, lora_dtype, attention, mask, loop, load, loss, weights,
      offload, offload_with, link, pooling, prepare, head, method, reference, lora_bias, trained_by;
  bool in_backward;          // optimizer_in_bwd
  bool holds_logits;         // DPO of TRL before 1.15
  bool centres_rewards;      // RewardConfig's center_rewards_coefficient
  bool loss_is_ligers;       // the key that turns Liger-Kernel on turned on its loss
  bool passes_reference;     // plim_recipe
  bool keeps_host_optimizer; // plim_plan_request
  bool skips_divergence;     // KTOConfig's loss_type apo_zero_unpaired
  bool
      is_elsewhere; // the run is for another machine: the GPU and the environment of this one are ignored
  bool may_fetch; // --fetch: the hub may be asked for a config.json
  bool dora, checkpoint, reentrant, no_clip, noise, delete_outputs, liger, no_reshard, bucket_views;
  bool through_accelerate;    // accelerate shards the model (with Trainer it always does)
  bool wraps_layers;          // activation checkpointing is FSDP's, around each layer
  bool scores_again;          // plim_recipe
  bool is_of_trl;             // TRL trains
  bool freezes_towers;        // the part of the model that reads images is not trained
  bool reaches_towers;        // plim_recipe
  bool sees_images;           // the files train on images or sound
  bool drops_masked;          // the loss computes nothing for tokens that are masked in the labels
  bool keeps_masked;          // torchtune's mask_ignored_tokens is off
  bool widens_trained;        // of parameters trained by name, those that are trained are float32
  plim_zero_sizes zero_sizes; // DeepSpeed's, from files; JOB_AUTO_SIZE: computed from the model
  bool overlaps;              // overlap_comm
  bool syncs_passes;          // sync_each_batch
  bool sends_in_turn, pages_all, pages_optimizer, pages_parameters; // plim_sharding
  bool returns_ends, returns_tables, leaves_tables;                 // plim_job
  bool quantises_experts; // Axolotl's quantize_moe_experts
  bool leaves_kbit; // the files do not call prepare_model_for_kbit_training; --prepare overrides it
  bool
      loads_whole; // before ZeRO-3 shards it: zero3_init_flag is off, or the script loads too early
  const char
      *load_help; // how the files could load less onto each GPU, as sentences; NULL: they could not
  bool is_observed;           // the model's configuration was written down by a running program
  unsigned mapped_under;      // plim_job
  bool is_fsdp_1;             // the strategy is FSDP 1, which is predicted as FSDP2
  bool packs_in_bytes;        // 4-bit weights are stored as uint8 (bnb_4bit_quant_storage)
  bool quantises_on_host;     // and shards the model from there
  bool is_axolotl;            // which leaves some layers out when it quantises
  unsigned lora_kernels;      // Axolotl's: JOB_KERNELS_... (job_kernels.c)
  const char *attention_word; // the files' kind of attention, if it is not modelled; NULL: it is
  bool is_torchtune;          // plim_job
  unsigned own_parts;         // plim_sharding
  bool leaves_towers;         // plim_lora
  const char *left_plain;  // layers that are not quantised with the others, with commas; NULL: none
  const char *rope_tables; // as typed: "36x40MiB,64MiB"; NULL: those of the builders
  plim_builder_tables tables[PLIM_MODELS]; // of the model and of the teacher
  bool is_megatron;        // shards the optimizer by itself, though it is predicted as ZeRO-1
  bool is_factory;         // LLaMA-Factory, which chooses the attention of some architectures
  bool is_factory_1;       // LLaMA-Factory v1
  bool leaves_attention;   // the files leave the kind of attention to it
  bool widens_ends;        // plim_job
  bool fuses_mlp;          // Axolotl's flash_attn_fuse_mlp
  bool widens_but_stage_3; // plim_job's
  bool widens_all; // all parameters become `dtype` if all are trained (plim_job.loaded_dtype)
  bool turns_on_reentrant; // checkpoints are reentrant unless the files say otherwise
  bool on_is_reentrant;    // and the files have no word for that
  bool trusts_code;        // that checkpoints bring along (trust_remote_code)
  bool is_patched;         // Axolotl: FSDP2 takes 8-bit weights
  plim_saving offloading;  // how the files' ecosystem offloads activations, unless it is typed
  plim_checkpoint_kind checkpoint_beside; // and its checkpoints then (plim_recipe)
  bool wraps_beside;
  const char *versions;   // as typed: "transformers=4.57,torch=2.9"; NULL: not typed
  const char *packages;   // as typed: "fla,causal-conv1d"; NULL: not typed
  plim_packages required; // packages that the files' ecosystem brings along
  plim_pins pins;         // versions and packages that the files ask for
  const cli_call
      *typed; // the command line; its args struct has this one at offset `typed_at`; NULL: none
  size_t typed_at;
} job_args;

// The model as the user named it; "config.json" if its text was given.
const char *job_model_word(const job_args *args);

// Whether the option for this field of `args` was typed.
bool job_is_typed(const job_args *args, const void *field);

#define JOB_AUTO_SIZE INT64_MIN

// Indices in job_loads; SHARDED is loading in parts, which Trainer and accelerate do on their own.
enum { JOB_LOAD_DEVICE_MAP = 1, JOB_LOAD_SHARDED = 3 };

// Adapters on the layers that peft chooses by default.
#define JOB_PEFT_TARGETS "default"

// For counts that the user's files may set: not typed.
#define JOB_UNSET PLIM_UNKNOWN
#define JOB_DEFAULTS JOB_DEFAULTS_WITH(1)
// Batch, accumulation and GPUs are `count` if they are not typed.
#define JOB_DEFAULTS_WITH(count)                                                                   \
  {                                                                                                \
    .batch = count, .world = count, .nodes = 1, .accumulate = count, .steps = 3,                   \
    .optimizer = "adamw", .loss_chunk = PLIM_UNKNOWN, .limit_bytes = PLIM_UNKNOWN                  \
  }

// Axolotl's LoRA kernels, as its files set them: those that are on, and whether it turns them on by itself.
enum { JOB_KERNELS_ATTENTION = 1, JOB_KERNELS_MLP = 2, JOB_KERNELS_BY_ITSELF = 4 };

// The choices of options; the other options use core's tables of names.
extern const char *const job_dtypes[], *const job_amps[], *const job_lora_dtypes[];
enum { JOB_LOOP_LOSS_ONLY = 3 };               // in job_loops
enum { ADAPTERS_KEPT = 1, ADAPTERS_CAST = 2 }; // in job_lora_dtypes
extern const char *const job_loops[], *const job_loads[], *const job_offloads[];
// plim_saving_names from save_on_cpu on
extern const char *const job_offloaders[];
// Indices in job_offloads.
enum {
  JOB_OFFLOAD_NONE,
  JOB_OFFLOAD_ACTIVATIONS,
  JOB_OFFLOAD_CHECKPOINTS,
  JOB_OFFLOAD_OPTIMIZER,
  JOB_OFFLOAD_PARAMETERS
};
extern const char *const job_trained_by[];
enum { JOB_TRAINED_BY_LOOP, JOB_TRAINED_BY_INPUTS, JOB_TRAINED_BY_FACTORY }; // indices in it
extern const char *const job_references[];
extern const char *const job_reduce_dtypes[], *const job_links[], *const job_prepares[];
extern const char *const job_heads[]; // "default", then plim_head_names

#define JOB_FETCH_HELP                                                                             \
  "download the config.json of a model that plimsoll does not know from the Hugging Face hub (a "  \
  "few KiB, kept for the next time); without --fetch, nothing is sent over the network"
// Rows for the command's table of options; AT(field) is the offset of job.field.
// clang-format off
#define JOB_OPTIONS(AT)                                                                            \
  {"model", 'm', "MODEL", CLI_MODEL, AT(model),                                                    \
   "a model name, a Hugging Face id in your local cache, or the path of a config.json", NULL, true},     \
  {"fetch", 0, NULL, CLI_FLAG, AT(may_fetch), JOB_FETCH_HELP, NULL},                               \
  {"batch", 'b', "N", CLI_UINT, AT(batch), "sequences per forward pass (default: 1)", NULL, true}, \
  {"seq", 's', "N", CLI_UINT, AT(seq),                                                             \
   "tokens per sequence (default: 2048, or the model's maximum if that is less)", NULL, true},     \
  {"lengths", 0, "FILE", CLI_FILE, AT(lengths),                                                    \
   "a file with the number of tokens of each sample, one per line; memory is predicted "          \
   "for the longest sample, time for typical batches; samples longer than --seq are cut", NULL},                       \
  {"head", 0, "KIND", CLI_CHOICE, AT(head),                                                        \
   "the model's head (default: as in its config.json)\n"                                           \
   "causal: next token, ForCausalLM\n"                                                             \
   "masked: masked tokens, ForMaskedLM\n"                                                          \
   "none: hidden states only\n"                                                                    \
   "sequence: labels of texts, ForSequenceClassification\n"                                        \
   "tokens: labels of tokens, ForTokenClassification\n"                                            \
   "answers: answers in a text, ForQuestionAnswering\n"                                            \
   "choices: one of several texts, ForMultipleChoice", job_heads},                                 \
  {"labels", 0, "N", CLI_UINT, AT(labels), "number of labels, num_labels (default: as in config.json, or 2)", NULL}, \
  {"target-seq", 0, "N", CLI_UINT, AT(target_seq),                                                 \
   "tokens per target sequence of an encoder-decoder (default: as --seq)", NULL},                  \
  {"dtype", 0, "TYPE", CLI_CHOICE, AT(dtype),                                                      \
   "dtype of the parameters (default: the checkpoint's, as in transformers 5, or bf16)", job_dtypes}, \
  {"amp", 0, "TYPE", CLI_CHOICE, AT(amp), "autocast to this dtype (default: none)", job_amps},     \
  {"lora-rank", 0, "R", CLI_UINT, AT(lora_rank), "train LoRA adapters of this rank, as peft does", NULL, true}, \
  {"lora-alpha", 0, "A", CLI_NUMBER, AT(lora_alpha), "scale of the adapters; does not affect memory", NULL}, \
  {"lora-dropout", 0, "P", CLI_NUMBER, AT(lora_dropout), "dropout of the adapters (default: 0)", NULL}, \
  {"lora-targets", 0, "LIST", CLI_STRING, AT(lora_targets),                                        \
   "layers that get adapters, such as q_proj,v_proj (default: all-linear)", NULL},                 \
  {"lora-save", 0, "LIST", CLI_STRING, AT(lora_saved),                                             \
   "modules trained in full beside the adapters (modules_to_save): embed_tokens,lm_head", NULL},   \
  {"lora-layers", 0, "LIST", CLI_STRING, AT(lora_layers),                                          \
   "numbers of the layers that get adapters (layers_to_transform; default: all)", NULL},           \
  {"lora-exclude", 0, "LIST", CLI_STRING, AT(lora_excluded),                                       \
   "layers that get no adapters (exclude_modules)", NULL},                                         \
  {"lora-bias", 0, "KIND", CLI_CHOICE, AT(lora_bias),                                              \
   "biases trained beside the adapters (default: none)", plim_lora_bias_names},                    \
  {"dora", 0, NULL, CLI_FLAG, AT(dora), "weight-decomposed adapters (use_dora)", NULL},            \
  {"train", 0, "LIST", CLI_STRING, AT(trained),                                                    \
   "train only parameters in whose names one of these expressions occurs, separated by blanks: "   \
   "\"layers\\.31\\. lm_head\" (default: all)", NULL},                                            \
  {"train-by", 0, "WHO", CLI_CHOICE, AT(trained_by),                                               \
   "what else is done if only a part is trained (default: loop)\n"                                 \
   "loop: nothing\n"                                                                               \
   "inputs: embeddings need a gradient, enable_input_require_grads()\n"                            \
   "llama-factory: trained parameters become float32 under --amp, and only layers with trained "   \
   "parameters are checkpointed", job_trained_by},                                                 \
  {"lora-dtype", 0, "TYPE", CLI_CHOICE, AT(lora_dtype),                                            \
   "dtype of the adapters (default: fp32, as in peft)\n"                                           \
   "bf16: that of the weights, as with autocast_adapter_dtype=False\n"                             \
   "bf16-cast: cast to bf16 with all else that is trained, as TRL does with quantised weights",     \
   job_lora_dtypes},                                                                               \
  {"checkpoint", 'c', NULL, CLI_FLAG, AT(checkpoint), "gradient checkpointing", NULL, true},       \
  {"reentrant", 0, NULL, CLI_FLAG, AT(reentrant), "gradient checkpointing with use_reentrant=True", NULL}, \
  {"attention", 0, "KIND", CLI_CHOICE, AT(attention),                                              \
   "attention implementation; flash means flash_attention_2 (default: sdpa)", plim_attention_names}, \
  {"mask", 0, "KIND", CLI_CHOICE, AT(mask),                                                        \
   "the attention mask that the data loader passes to the model (default: none)\n"                 \
   "none: no mask, as for packed data\n"                                                           \
   "ones: an all-ones mask, which transformers discards\n"                                         \
   "pad: padding in every batch, as with a fixed length\n"                                         \
   "longest: pads to the longest sequence in the batch\n"                                          \
   "packed: no mask, and position ids that begin again with each sample of a row", plim_mask_names}, \
  {"optimizer", 'o', "NAME", CLI_STRING, AT(optimizer), "adamw (fused), adamw-foreach, adamw-8bit, sgd, lion, ... or a name that " \
   "TrainingArguments accepts (default: adamw)", NULL},                                            \
  {"projection-rank", 0, "N", CLI_UINT, AT(projection_rank),                                       \
   "rank to which GaLore and APOLLO project gradients (default: 128)", NULL},               \
  {"projected", 0, "LIST", CLI_STRING, AT(projected),                                              \
   "modules whose gradients GaLore and APOLLO project: those whose names contain one of these "     \
   "expressions, separated by spaces (default: all linear layers but the head)", NULL},                                 \
  {"accumulate", 'a', "N", CLI_UINT, AT(accumulate),                                               \
   "forward passes per optimizer step (default: 1)", NULL, true},                                  \
  {"in-backward", 0, NULL, CLI_FLAG, AT(in_backward),                                              \
   "step the optimizer during backward and free each gradient (torchtune's optimizer_in_bwd)", NULL}, \
  {"no-clip", 0, NULL, CLI_FLAG, AT(no_clip), "do not clip gradients (no clip_grad_norm_)", NULL}, \
  {"neftune", 0, NULL, CLI_FLAG, AT(noise), "add NEFTune's noise to the embedded tokens", NULL},     \
  {"loss", 0, "KIND", CLI_CHOICE, AT(loss),                                                        \
   "how the loss is computed (default: full)\n"                                                    \
   "full: all logits at once, as transformers does\n"                                              \
   "chunked: a few tokens at a time, as in TRL from 1.7 on\n"                                      \
   "fused: Liger-Kernel's fused linear cross entropy\n"                                            \
   "chunked-loop: as chunked, but in your training loop\n"                                         \
   "contrastive: compares embeddings (sentence-transformers)\n"                                    \
   "eighths: in eight chunks, torchtune's LinearCrossEntropyLoss\n"                                                 \
   "eighths-listed: the same, but all logits first: CEWithChunkedOutputLoss", plim_loss_names},                        \
  {"loss-chunk", 0, "N", CLI_UINT, AT(loss_chunk), "tokens per chunk of a chunked loss (default: 512)", NULL}, \
  {"columns", 0, "N", CLI_UINT, AT(columns),                                                       \
   "texts per sample of a contrastive loss: anchor, positive, negatives (default: 2)", NULL},      \
  {"cached-batch", 0, "N", CLI_UINT, AT(cached_batch),                                             \
   "mini_batch_size of a cached contrastive loss (default: not a cached loss)", NULL},             \
  {"pooling", 0, "KIND", CLI_CHOICE, AT(pooling),                                                  \
   "pooling of tokens into an embedding, for a contrastive loss (default: mean)", plim_pooling_names}, \
  {"method", 0, "NAME", CLI_CHOICE, AT(method),                                                    \
   "what the model is trained with (default: sft)\n"                                               \
   "sft: texts, or whatever --loss names\n"                                                        \
   "dpo, orpo, cpo, simpo: pairs of answers, as TRL trains them (--loss full: as older TRL does)\n" \
   "dpo-torchtune: DPO as in torchtune's recipes\n"                                                \
   "dpo-llamafactory, orpo-llamafactory, simpo-llamafactory: as in LLaMA-Factory's stage dpo\n"    \
   "kto: single answers, each marked good or bad; reward: a model that scores answers\n"           \
   "prm: a model that scores the steps of an answer", plim_method_names},                           \
  {"teacher", 0, "MODEL", CLI_STRING, AT(teacher),                                                 \
   "distil from this model, as torchtune's recipe does; takes what --model takes", NULL},          \
  {"reference", 0, "KIND", CLI_CHOICE, AT(reference),                                              \
   "where DPO and KTO get their reference from (default: adapter with --lora-rank, otherwise own)\n"         \
   "own: a second model; adapter: the model with its adapters disabled\n"                          \
   "precomputed: computed once, before training", job_references},                                 \
  {"answer-seq", 0, "N", CLI_UINT, AT(answer_seq),                                                 \
   "tokens of each answer of a pair; the rest of --seq is its prompt (default: all)", NULL},       \
  {"torchtune", 0, NULL, CLI_FLAG, AT(is_torchtune),                                              \
   "linear layers with adapters and 4-bit weights are torchtune's and torchao's, not peft's and bitsandbytes'", NULL}, \
  {"rope-tables", 0, "LIST", CLI_STRING, AT(rope_tables),                                          \
   "tables of rotary positions that stay on every GPU, as torchtune's models have them: number and size, 36x40MiB (default: none)", NULL}, \
  {"liger", 0, NULL, CLI_FLAG, AT(liger), "use Liger-Kernel's norms, rotary embeddings and MLPs", NULL}, \
  {"weights", 0, "KIND", CLI_CHOICE, AT(weights),                                                  \
   "quantisation of the frozen weights by bitsandbytes (default: plain, not quantised)", plim_weights_names, true}, \
  {"qat", 0, "KIND[:GROUP]", CLI_STRING, AT(qat),                                                  \
   "quantisation-aware training with torchao: layers round their inputs and weights, GROUP weights " \
   "of a row at a time (default: none)\n"                                                          \
   "int8-int4: inputs in 8 bits, weights in 4; Int8DynActInt4WeightQATQuantizer, GROUP 256\n"      \
   "int4: weights alone; Int4WeightOnlyQATQuantizer, GROUP 256\n"                                 \
   "axolotl-int8-int4, axolotl-mxfp4: as Axolotl does it, with a tied head too, GROUP 32", NULL},  \
  {"prepare", 0, "HOW", CLI_CHOICE, AT(prepare),                                                   \
   "with quantised weights (--weights): whether prepare_model_for_kbit_training is called\n"       \
   "(default: what plan finds in your files, otherwise peft)\n"                                     \
   "peft: called; what is not quantised becomes float32\n"                                         \
   "none: not called; what is not quantised keeps its dtype\n"                                     \
   "axolotl: as peft, but the embedding, the head and norms become bf16 again afterwards",                                      \
   job_prepares},                                                                                  \
  {"offload", 0, "WHAT", CLI_CHOICE, AT(offload),                                                  \
   "offload to host memory; parameters includes the optimizer (default: none)", job_offloads},     \
  {"offload-with", 0, "WHAT", CLI_CHOICE, AT(offload_with),                                        \
   "what offloads activations: save_on_cpu or a library's class (-inline: on the compute stream; " \
   "hidden-states: Axolotl's, which offloads only inputs of checkpoints)\n"                        \
   "(default: what plan finds in your files, otherwise save_on_cpu)",                              \
   job_offloaders},                                                                                \
  {"strategy", 0, "NAME", CLI_CHOICE, AT(strategy),                                                \
   "sharding strategy for several GPUs (default: none)", plim_strategy_names, true},               \
  {"world", 0, "N", CLI_UINT, AT(world), "number of GPUs (default: 1)", NULL, true},               \
  {"nodes", 0, "N", CLI_UINT, AT(nodes), "number of machines that the GPUs are in (default: 1)", NULL}, \
  {"link", 0, "KIND", CLI_CHOICE, AT(link),                                                        \
   "link between GPUs of one machine (default: NVLink on SXM GPUs, PCIe on others)", job_links},   \
  {"network", 0, "GB/S", CLI_NUMBER, AT(network),                                                  \
   "network bandwidth of each machine, in each direction (default: 12, about 100 Gbit/s)", NULL},        \
  {"no-reshard", 0, NULL, CLI_FLAG, AT(no_reshard),                                                \
   "FSDP2: keep a layer's full parameters after its forward pass", NULL},                          \
  {"reduce-dtype", 0, "TYPE", CLI_CHOICE, AT(reduce_dtype),                                        \
   "FSDP2: dtype in which gradients are reduced (default: fp32; Trainer: as --amp)", job_reduce_dtypes}, \
  {"bucket-views", 0, NULL, CLI_FLAG, AT(bucket_views), "DDP: set gradient_as_bucket_view=True", NULL}, \
  {"delete-outputs", 0, NULL, CLI_FLAG, AT(delete_outputs),                                        \
   "the training loop frees the model's outputs after backward", NULL},                            \
  {"loop", 0, "KIND", CLI_CHOICE, AT(loop),                                                        \
   "the training loop (default: manual; bare with --strategy)\n"                                   \
   "manual: your own; clips gradients, keeps model outputs\n"                                      \
   "trainer: transformers.Trainer, or TRL's trainers\n"                                            \
   "bare: your own; does not clip, keeps only the loss\n"                                          \
   "loss-only: as manual, but keeps only the loss: loss = model(**batch).loss", job_loops},        \
  {"load", 0, "HOW", CLI_CHOICE, AT(load),                                                         \
   "how the model gets to the GPU (default: pretrained)\n"                                         \
   "pretrained: from_pretrained on the CPU, then moved\n"                                          \
   "device-map: from_pretrained directly to the GPU\n"                                             \
   "init: random weights, made on the GPU\n"                                                       \
   "sharded: in shards, under DeepSpeed's zero.Init", job_loads},                                 \
  {"steps", 0, "N", CLI_UINT, AT(steps), "optimizer steps to predict (default: 3)", NULL},        \
  {"versions", 0, "LIST", CLI_STRING, AT(versions),                                                \
   "versions of libraries, such as transformers=4.57,torch=2.9,peft=0.18,trl=0.24\n"               \
   "(default: those that the project pins or has installed, otherwise those that were measured)", NULL}, \
  {"packages", 0, "LIST", CLI_STRING, AT(packages),                                                \
   "packages whose kernels run in place of PyTorch code: fla (flash-linear-attention), causal-conv1d, "     \
   "fla-conv1d (FLA's convolution, as Axolotl runs it on packed samples), kernels (with which "    \
   "transformers fetches those of mamba-ssm); or none\n"                                           \
   "(default: those that the project asks for or has installed)", NULL},                           \
  {"alloc-conf", 0, "STR", CLI_STRING, AT(alloc_conf), "allocator settings, as in PYTORCH_CUDA_ALLOC_CONF", NULL}, \
  {"gpu", 'g', "GPU", CLI_CARD, AT(gpu),                                                           \
   "GPU by name or by size: RTX 4090, 24GiB (default: the one in this machine)", NULL, true},      \
  {"limit", 0, "SIZE", CLI_BYTES, AT(limit_bytes),                                                 \
   "memory PyTorch may use, as set by set_per_process_memory_fraction", NULL}
// clang-format on

// A job and its card, after reading the options.
typedef struct {
  plim_job job;
  plim_model_source source;
  plim_target target;
  plim_lengths lengths;  // of --lengths; job.lengths points here
  int64_t most_tokens;   // longer samples are cut to this
  plim_alloc_conf conf;  // target.conf points here
  char card[128];        // in words: "RTX 4090", "24.0 GiB"; empty: no card was given or found
  char card_note[160];   // how its name or size was interpreted; empty: nothing to say
  bool is_known_by_size; // only its size is known; kernels and rates are those of an H200
  int unmatched_targets; // names for adapters that no layer has
  const char *load_help; // job_args
  double trained_share;  // of the parameters, if only a part is trained by name; 0: all are
  plim_notes notes;      // assumptions, and what is not modelled
} job_request;

// Fills *out, which must not move afterwards. `typed` are the arguments before files were read: an option
// without effect is an error if it was typed, and a note if it comes from files. On error, `*source` is the
// text that error->byte refers to, or NULL.
plim_err job_understand(const job_args *args, const job_args *typed, job_request *out,
                        const char **source, plim_error *error);

void job_request_clear(job_request *r);

// The packages of kernels: typed, or those that the files ask for (job_family.c).
plim_err job_understand_packages(const job_args *args, job_request *r, plim_error *error);
// The versions of libraries: typed, or those that the files ask for (job_versions.c).
plim_err job_understand_versions(const job_args *args, job_request *r, plim_error *error);
// The release of a library if it is known, typed or from the files; otherwise 0.
uint16_t job_release(const job_args *args, plim_library library);
bool job_release_is_typed(const job_args *args, plim_library library); // by --versions
// Refuses a model that this version of transformers does not have yet.
plim_err job_check_release(const job_request *r, plim_error *error);
// Tables of rotary positions: typed, or those of torchtune's builders (job_tables.c).
plim_err job_understand_tables(const job_args *args, job_request *r, plim_error *error);
// The same as the option's value.
void job_describe_tables(const plim_job *job, char *text, size_t size);
// Attention of a model that had no PyTorch attention in this version: eager, unless sdpa was asked for.
plim_err job_fit_attention(const job_args *args, job_request *r, plim_error *error);
// "transformers 4.57 (requirements.txt:3), torch 2.11 (not pinned)"; where a version comes from: "--versions",
// "requirements.txt:3", or NULL if nothing says.
void job_describe_versions(const job_args *args, const job_request *r, char *text, size_t size);
// Says what the estimate's interval holds if versions are not pinned, and which of them needs more.
void job_note_other_versions(const job_args *args, job_request *r, const plim_estimate *e,
                             const plim_version_need *all, size_t count);
const char *job_version_origin(const job_args *args, plim_library library, char *text, size_t size);

// Adds the assumptions of every prediction to the notes (job_assumptions.c).
void job_note_assumptions(const job_args *args, job_request *r);
void job_note_family(const job_args *args, job_request *r);
// Axolotl's LoRA kernels (job_kernels.c): why a run with them stops; NULL: it does not.
const char *job_kernels_stop(const job_args *args, const plim_job *job);
// Whether they run, and replace anything.
bool job_kernels_run(const job_args *args, const plim_job *job);
// Whether the trainer has Liger-Kernel's modules for the model, modelled or not.
bool job_knows_liger(const job_args *args, const plim_config *model);
// The keys that turn them off.
#define JOB_KERNELS_OFF "lora_qkv_kernel: false\nlora_o_kernel: false\nlora_mlp_kernel: false\n"
void job_note_kernels(const job_args *args, job_request *r);
// Says that samples are packed, instead of that each has the full length.
void job_note_packed_length(job_request *r);
// Says that batches are filled up to a number of tokens, and how: "samples are packed to rows of up to"; with or without
// a mask between the samples.
void job_note_filled_batches(const char *what, bool see_each_other, job_request *r);
// States the length that a plan chose, where it is not the run's own.
void job_note_planned_length(job_request *r, int64_t length);

// The part of job_understand for adapters; and the layers that get them: "q_proj,v_proj", "all-linear".
plim_err job_understand_lora(const job_args *args, job_request *r, plim_error *error);
// The part for layers that round while they are trained (job_qat.c).
plim_err job_understand_qat(const job_args *args, job_request *r, plim_error *error);
// The part for parameters that are trained by name (job_lora.c).
plim_err job_understand_trained(const job_args *args, job_request *r, plim_error *error);
const char *job_lora_targets(const job_args *args, const job_request *r);

// The parts for the card and for the link between cards (job_card.c).
plim_err job_understand_target(const job_args *args, job_request *r, const char **source,
                               plim_error *error);
plim_err job_understand_link(const job_args *args, job_request *r, plim_error *error);

// "qwen2.5-7b, LoRA r=16 on 7 kinds of layers, bf16" and "batch 2 x 2048 tokens, ...".
void job_describe_model(const job_request *r, const job_args *args, char *text, size_t size);
void job_describe_recipe(const job_request *r, const job_args *args, char *text, size_t size);

#endif
