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
  X(CHUNKED_LOSS, "chunked_loss", FREE, "cross entropy in chunks of so many tokens; 0: all at once") \
  X(CACHED_BATCH, "cached_batch", FREE, "sequences at a time of a cached contrastive loss; 0: all at once") \
  X(LIGER, "liger", FREE, "Liger-Kernel's fused kernels")                                            \
  X(ALLOC_CONF, "alloc_conf", FREE, "PYTORCH_CUDA_ALLOC_CONF")                                       \
  X(STRATEGY, "strategy", FREE, "how GPUs share the work: none, ddp, fsdp2, zero1, zero2, zero3")     \
  X(OFFLOAD, "offload", FREE, "kept on the host: none, optimizer, parameters, activations")                            \
  X(RESHARD, "reshard", FREE, "FSDP2: free parameters after a layer's forward")                      \
  X(EMPTY_CACHE, "empty_cache", FREE, "empty_cache every so many steps; 0: never")                   \
  X(WORKERS, "workers", FREE, "data loader processes per GPU")                                       \
  X(PRECISION, "precision", FREE, "what products are computed in, by autocast: none, bf16, fp16")    \
  X(DTYPE, "dtype", QUALITY, "type of the parameters: fp32, bf16, fp16; free if they are frozen")    \
  X(SEQUENCE, "sequence", QUALITY, "tokens per sequence")                                            \
  X(LORA_RANK, "lora_rank", QUALITY, "rank of the adapters; 0: all parameters are trained")          \
  X(QUANTISATION, "quantisation", QUALITY, "frozen weights: plain, nf4, nf4-double, int8")           \
  X(POSITIVES, "n_positives", QUALITY, "positives per anchor")                                       \
  X(NEGATIVES, "n_negatives", QUALITY, "negatives per anchor")                                       \
  X(LORA_ALPHA, "lora_alpha", FACT, "scale of the adapters")                                         \
  X(LORA_DROPOUT, "lora_dropout", FACT, "dropout of the adapters")                                   \
  X(LORA_TARGETS, "lora_targets", FACT, "layers with adapters")                                      \
  X(MODEL, "model", FACT, "the model")                                                               \
  X(WORLD, "world", FACT, "GPUs")                                                                    \
  X(NODES, "nodes", FACT, "machines they are in")                                                    \
  X(PACKING, "packing", FACT, "sequences are packed")                                                \
  X(EPOCHS, "epochs", FACT, "passes over the data")                                                  \
  X(CLIP, "clip", FACT, "bound of the gradient norm; 0: none")                                       \
  X(LOSS_KIND, "loss_kind", FACT, "what is learned: causal, contrastive, ...")                       \
  X(TENSOR_PARALLEL, "tensor_parallel", FACT, "GPUs that share a layer")                             \
  X(CONTEXT_PARALLEL, "context_parallel", FACT, "GPUs that share a sequence")                        \
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
