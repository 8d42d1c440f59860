// Losses: as transformers computes them, and variants that never hold all logits.
#ifndef PLIM_CORE_LOSS_H
#define PLIM_CORE_LOSS_H

#include "tape.h"

typedef enum {
  PLIM_LOSS_FULL, // all logits at once
  // A number of tokens at a time, each chunk checkpointed, in the model's forward (docs/chunked_loss.py).
  PLIM_LOSS_CHUNKED,
  PLIM_LOSS_FUSED,       // Liger-Kernel: forward computes the gradients chunk by chunk
  PLIM_LOSS_LOOP,        // chunked by the training loop, which calls the model without its head
  PLIM_LOSS_CONTRASTIVE, // compares embeddings of texts (contrastive.h)
  // torchtune's LinearCrossEntropyLoss: an eighth of the tokens at a time, kept for backward.
  PLIM_LOSS_EIGHTHS,
  // torchtune's CEWithChunkedOutputLoss: the same, but computes the logits of all eighths first.
  PLIM_LOSS_LISTED,
  PLIM_LOSS_COUNT
} plim_loss_kind;

struct plim_model; // model.h

// What a causal language model's head does to its logits.
typedef enum {
  PLIM_LOGITS_PLAIN,
  PLIM_LOGITS_CAPPED,  // holds them between bounds by tanh: final_logit_softcapping
  PLIM_LOGITS_DIVIDED, // by a number: logits_scaling
  PLIM_LOGITS_WIDE     // float32
} plim_logits;

extern const char *const plim_loss_names[PLIM_LOSS_COUNT + 1]; // "full", ..., NULL

// The loss of a causal language model: logits in float32, labels shifted by one. The sum is divided by `items`;
// NULL: the mean is taken.
plim_tensor *plim_causal_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
                              plim_tensor *items);
// The same in the dtype of the logits, as models computed it themselves before they used transformers' functions.
plim_tensor *plim_own_causal_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels);

// The same as versions before 4.49 computed it, from copies of logits and labels without one token.
plim_tensor *plim_shifted_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels);

// The loss of a masked language model, or of labels: the mean, in the dtype of the logits.
plim_tensor *plim_masked_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels);
// The same in float32, by a function of loss_utils.py; `items` as above.
plim_tensor *plim_wide_loss(plim_tape *t, plim_tensor *logits, plim_tensor *labels,
                            plim_tensor *items);

// hidden.float().pow(2).mean(): a substitute for models without a loss of their own.
plim_tensor *plim_mean_square(plim_tape *t, plim_tensor *hidden);

// Sets *loss, which must be NULL, to the sum of the cross entropies of `hidden` (N,H). Each chunk of `chunk` rows is a
// checkpoint of its own. The head's bias may be NULL.
void plim_chunked_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight, plim_tensor *bias,
                       plim_tensor *targets, int64_t chunk, plim_logits logits, plim_tensor **loss);

// The chunked loss of a causal language model from its last hidden states (B,T,H); `items` as above.
plim_tensor *plim_chunked_causal_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                                      plim_tensor *bias, plim_tensor *labels, plim_tensor *items,
                                      int64_t chunk, plim_logits logits);

// The same in eighths of the length (`hidden.tensor_split(8, dim=1)`) without checkpoints. `is_listed`: all logits are
// computed before the first loss.
plim_tensor *plim_eighths_causal_loss(plim_tape *t, const struct plim_model *m, plim_tensor *hidden,
                                      plim_tensor *labels, bool is_listed);

// The parts of these losses: the logits of all eighths, (B,T/8,V) each; a list of them as rows; all labels in eighths
// (lists have PLIM_EIGHTHS variables, of which the last are NULL if the text is shorter); the sum of the cross entropies of a list of logits over the number of labels.
enum { PLIM_EIGHTHS = 8 }; // num_output_chunks
void plim_eighths_logits(plim_tape *t, const struct plim_model *m, plim_tensor *hidden,
                         plim_tensor **out);
void plim_eighths_as_rows(plim_tape *t, plim_tensor *const *logits, plim_tensor **out);
void plim_eighths_of_labels(plim_tape *t, plim_tensor *labels, plim_tensor **out);
plim_tensor *plim_listed_loss(plim_tape *t, plim_tensor *const *logits, plim_tensor *labels);
// Python's lists free their last element first.
void plim_eighths_drop(plim_tape *t, plim_tensor **list);

plim_tensor *plim_count_labels(plim_tape *t, plim_dims shape); // (labels != -100).sum()
// running += x, which begins as the number 0.
void plim_add_to_running(plim_tape *t, plim_tensor **running, plim_tensor *x);

// The loss of a causal language model as Liger-Kernel computes it from the last hidden states (B,T,H), without ever
// holding all logits.
plim_tensor *plim_fused_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                             plim_tensor *labels, plim_tensor *items);

#endif
