// The training loop, as a program on the tape.
#ifndef PLIM_CORE_TRAINING_H
#define PLIM_CORE_TRAINING_H

#include "loss.h"
#include "model.h"
#include "optimizer.h"
#include "pooling.h"

typedef struct {
  int64_t batch, length;
  int64_t target_length; // of an encoder-decoder's labels; 0: as long as its input
  int steps;
  int accumulate; // micro batches per step; 0 and 1: one
  const plim_optimizer *optimizer;
  plim_attention_kind attention;
  plim_mask_kind mask;
  int64_t padding; // positions of padding in every row of the mask, where attention leaves them out
  plim_dtype autocast; // PLIM_BOOL: off
  plim_checkpoint_kind checkpoint;
  bool wraps_layers; // checkpoints are wrappers around layers (FSDP's), not the model's own
  plim_loss_kind loss;
  int64_t loss_chunk;   // tokens at a time, of a chunked loss
  int64_t columns;      // texts of a contrastive loss: an anchor, a positive, negatives
  bool is_pairwise;     // it compares texts of one sample alone: one pass for each column
  int64_t cached_batch; // sequences at a time of a cached contrastive loss; 0: it is a plain one
  // Tokens of its mini batches, alike in all columns, pass by pass: those whose texts are all shorter are cut.
  // Behind the last all are as long as the batch.
  const uint32_t *cached_lengths;
  size_t cached_length_count;
  plim_pooling pooling; // of a contrastive loss
  bool normalizes;      // embeddings, behind the pooling
  bool uses_liger; // its norms, rotary positions and gated MLPs; its cross entropy is a loss kind
  bool offloads_saved; // forward under save_on_cpu
  bool is_trainer;
  bool uses_accelerator; // accelerator.backward divides the loss; accumulate reduces once in a step
  bool is_bare;         // the shortest loop: labels are the ids, only the loss is kept, no clipping
  bool clips_bare;      // but it does clip
  bool skips_clipping;  // no clip_grad_norm_
  bool deletes_outputs; // `del out` after backward: the logits go before the optimizer runs
} plim_recipe;

enum {
  PLIM_CACHED_BATCH = 32, // mini_batch_size of sentence-transformers 6.2, unless it is told
  PLIM_MOST_MINI_BATCHES = 1 << 17, // of a forward pass: each takes time and memory to predict
};

// Of a cached loss, in all columns; 0 without one.
int64_t plim_mini_batches(const plim_recipe *r);

// The plain loop (forward, backward, clip_grad_norm_, optimizer, zero_grad) or transformers.Trainer.
// False when memory is out.
bool plim_train(plim_tape *t, plim_model *m, const plim_recipe *recipe);

#endif
