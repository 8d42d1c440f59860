// The knobs of a training run: the settings that a plan changes and that users' files contain.
#ifndef PLIM_CORE_KNOBS_H
#define PLIM_CORE_KNOBS_H

#include "plimsoll.h"

// Whether changing a knob changes what the model learns.
typedef enum {
  PLIM_KNOB_FREE,    // no: the same numbers, in another order or place
  PLIM_KNOB_QUALITY, // yes: only with the user's consent (--allow)
  PLIM_KNOB_FACT     // not a choice: the model, the number of GPUs
} plim_knob_kind;

// X(NAME, name, kind, description)
// clang-format off
#define PLIM_KNOB_LIST(X)                                                                            \
  X(MICRO_BATCH, "micro_batch", FREE, "sequences per forward pass on one GPU")                       \
  X(ACCUMULATE, "accumulate", FREE, "forward passes per optimizer step")                             \
  X(GLOBAL_BATCH, "global_batch", FACT, "sequences per optimizer step, over all GPUs")               \
  X(CHECKPOINT, "checkpoint", FREE, "gradient checkpointing: off, on, reentrant, offloaded")         \
  X(ATTENTION, "attention", FREE, "attention implementation: sdpa, eager, flash")                    \
  X(OPTIMIZER, "optimizer", FREE, "optimizer and its implementation")                                \
  X(CHUNKED_LOSS, "chunked_loss", FREE, "tokens per chunk of a chunked cross entropy")              \
  X(CACHED_BATCH, "cached_batch", FREE, "mini batch of a cached contrastive loss")                  \
  X(LIGER, "liger", FREE, "Liger-Kernel's fused kernels")                                            \
  X(ALLOC_CONF, "alloc_conf", FREE, "PYTORCH_CUDA_ALLOC_CONF (unchanged keeps your own setting)")    \
  X(STRATEGY, "strategy", FREE, "sharding strategy: none, ddp, fsdp2, zero1, zero2, zero3")          \
  X(OFFLOAD, "offload", FREE, "offload to host memory: none, optimizer, parameters, activations")    \
  X(RESHARD, "reshard", FREE, "free a layer's parameters after its forward pass (FSDP2)")            \
  X(EMPTY_CACHE, "empty_cache", FREE, "steps between calls of empty_cache; 0: never")                \
  X(WORKERS, "workers", FREE, "data loader workers per GPU")                                         \
  X(PRECISION, "precision", FREE, "autocast dtype of matrix products: none, bf16, fp16")             \
  X(DTYPE, "dtype", QUALITY, "dtype of the parameters: fp32, bf16, fp16; changed freely if they are frozen") \
  X(SEQUENCE, "sequence", QUALITY, "tokens per sequence")                                            \
  X(LORA_RANK, "lora_rank", QUALITY, "rank of the LoRA adapters; 0: train all parameters")           \
  X(QUANTISATION, "quantisation", QUALITY, "quantisation of frozen weights: plain, nf4, nf4-double, int8") \
  X(POSITIVES, "n_positives", QUALITY, "positives per anchor")                                       \
  X(NEGATIVES, "n_negatives", QUALITY, "negatives per anchor")                                       \
  X(LORA_ALPHA, "lora_alpha", FACT, "scale of the adapters")                                         \
  X(LORA_DROPOUT, "lora_dropout", FACT, "dropout of the adapters")                                   \
  X(LORA_TARGETS, "lora_targets", FACT, "layers that have adapters")                                 \
  X(LORA_SAVED, "lora_saved", FACT, "modules trained in full beside the adapters")                   \
  X(LORA_LAYERS, "lora_layers", FACT, "numbers of the layers that have adapters")                    \
  X(LORA_EXCLUDED, "lora_excluded", FACT, "layers that have no adapters")                            \
  X(LORA_BIAS, "lora_bias", FACT, "biases trained beside the adapters: none, lora_only, all")        \
  X(DORA, "dora", FACT, "weight-decomposed adapters (DoRA)")                                         \
  X(MODEL, "model", FACT, "the model")                                                               \
  X(WORLD, "world", FACT, "number of GPUs")                                                          \
  X(NODES, "nodes", FACT, "number of machines")                                                      \
  X(PACKING, "packing", FACT, "whether sequences are packed")                                        \
  X(EPOCHS, "epochs", FACT, "epochs over the training data")                                         \
  X(CLIP, "clip", FACT, "maximum gradient norm for clipping; 0: no clipping")                        \
  X(LOSS_KIND, "loss_kind", FACT, "kind of loss: causal, contrastive, ...")                          \
  X(TENSOR_PARALLEL, "tensor_parallel", FACT, "GPUs per tensor-parallel group")                      \
  X(CONTEXT_PARALLEL, "context_parallel", FACT, "GPUs per context-parallel group")                   \
  X(COMPILE, "compile", FACT, "torch.compile")
// clang-format on

#define PLIM_KNOB_ENUM(NAME, name, kind, what) PLIM_KNOB_##NAME,
typedef enum { PLIM_KNOB_LIST(PLIM_KNOB_ENUM) PLIM_KNOBS } plim_knob;
#undef PLIM_KNOB_ENUM

typedef struct {
  const char *name, *what;
  plim_knob_kind kind;
} plim_knob_info;

extern const plim_knob_info plim_knob_table[PLIM_KNOBS];

// Finds a knob by its name or its flag; dashes and underscores are the same. PLIM_KNOBS if there is none.
plim_knob plim_knob_named(const char *name);

#endif
