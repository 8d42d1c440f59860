// Log-probabilities of tokens without all logits at once, as TRL computes them (add_fused_lm_head, from TRL 1.16 on).
#ifndef PLIM_CORE_LOG_PROBS_H
#define PLIM_CORE_LOG_PROBS_H

#include "model.h"

// What the model returns; the caller drops it. Each is (B,T-1), 0 where a token does not count.
typedef struct {
  plim_tensor *loss, *log_probs;
  plim_tensor *entropy, *mean_logits, *is_top1; // NULL unless asked for
  plim_tensor *counts;                          // whether each token counts
} plim_log_probs;

// Which of them are computed beside the log-probabilities.
typedef enum {
  PLIM_ONLY_LOG_PROBS = 0,
  PLIM_WITH_ENTROPY = 1,
  PLIM_WITH_MEAN_LOGITS = 2,
  PLIM_WITH_TOP1 = 4
} plim_log_prob_outputs;

// model(**batch, labels=labels, fused_lm_head=True). `scored` is the number of tokens of the batch that count.
void plim_call_log_probs(plim_tape *t, plim_model *m, const plim_batch *batch, int64_t scored,
                         unsigned outputs, plim_log_probs *out);

// selective_log_softmax(logits, labels): the log-probability of each label, (B,T) in float32, in one Triton kernel (TRL
// from 1.15 on).
plim_tensor *plim_select_log_probs(plim_tape *t, plim_tensor *logits, plim_tensor *labels);

void plim_log_probs_drop(plim_tape *t, plim_log_probs *x);

#endif
