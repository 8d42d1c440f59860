// Losses: as transformers writes them, and those that never hold all logits.
#ifndef PLIM_CORE_LOSS_H
#define PLIM_CORE_LOSS_H

#include "tape.h"

typedef enum {
  PLIM_LOSS_FULL,    // of all logits at once
  PLIM_LOSS_CHUNKED, // so many tokens at a time, each chunk checkpointed, in the model's forward
                     // (docs/chunked_loss.py)
  PLIM_LOSS_FUSED,   // Liger-Kernel's: forward computes the gradients, chunk by chunk
  PLIM_LOSS_LOOP,    // in chunks, by the training loop, which calls the model without its head
  PLIM_LOSS_CONTRASTIVE, // of the embeddings of texts, compared with each other (contrastive.h)
  PLIM_LOSS_EIGHTHS, // torchtune's LinearCrossEntropyLoss: an eighth of the tokens at a time, kept for backward
  PLIM_LOSS_LISTED, // torchtune's CEWithChunkedOutputLoss: the same, with the logits of all eighths first
  PLIM_LOSS_COUNT
} plim_loss_kind;

// What a causal language model's head does to its logits.
typedef enum {
  PLIM_LOGITS_PLAIN,
  PLIM_LOGITS_CAPPED, // holds them between bounds by tanh: final_logit_softcapping
  PLIM_LOGITS_DIVIDED // by a number: logits_scaling
} plim_logits;

extern const char *const plim_loss_names[PLIM_LOSS_COUNT + 1]; // "full", ..., NULL

// The loss of a causal language model: logits in float32, labels shifted by one. `items` is the
// number of items the sum is divided by; NULL: the mean.
plim_tensor *plim_causal_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
                              plim_tensor *items);

// The loss of a masked language model: the mean, in the dtype of the logits.
plim_tensor *plim_masked_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels);

// hidden.float().pow(2).mean(): what stands in for a loss where a model has none.
plim_tensor *plim_mean_square(plim_tape *t, plim_tensor *hidden);

// The sum of the cross entropies of `hidden` (N,H), each `chunk` rows computed, and computed again, on
// their own, into the variable *loss, which must be empty.
void plim_chunked_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight, plim_tensor *targets,
                       int64_t chunk, plim_logits logits, plim_tensor **loss);

// The loss of a causal language model from its last hidden states (B,T,H), in chunks; `items`
// as above.
plim_tensor *plim_chunked_causal_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                      plim_tensor *labels, plim_tensor *items, int64_t chunk,
                                      plim_logits logits);

// The same in eighths of the length (`hidden.chunk(8, dim=1)`), none of them checkpointed; `is_listed`: all
// logits are made before the first of them is compared.
plim_tensor *plim_eighths_causal_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                      plim_tensor *labels, bool is_listed);

// The loss of a causal language model without its logits, as Liger-Kernel computes it from the last
// hidden states (B,T,H).
plim_tensor *plim_fused_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                             plim_tensor *labels, plim_tensor *items);

#endif
