// The training loop as a program on the tape, and the recipe that describes it.
#ifndef PLIM_CORE_TRAINING_H
#define PLIM_CORE_TRAINING_H

#include "loss.h"
#include "model.h"
#include "optimizer.h"
#include "pooling.h"

// What a training learns from.
typedef enum {
  PLIM_METHOD_TEXTS, // texts, by the model's own loss; or whatever plim_loss_kind names
  // pairs of a chosen and a rejected answer (preference.h)
  PLIM_METHOD_DPO,
  PLIM_METHOD_DPO_TUNE, // as torchtune's recipes (two_models.h)
  // as LLaMA-Factory's stage dpo (factory_pairs.c)
  PLIM_METHOD_DPO_FACTORY,
  PLIM_METHOD_ORPO_FACTORY,
  PLIM_METHOD_SIMPO_FACTORY,
  PLIM_METHOD_ORPO,
  PLIM_METHOD_CPO,
  PLIM_METHOD_SIMPO,  // CPO without the loss of the chosen texts
  PLIM_METHOD_KTO,    // answers, of which each is good or bad
  PLIM_METHOD_REWARD, // pairs, to which a head gives a score
  PLIM_METHOD_PRM,    // texts, to whose tokens a head gives scores: a process reward model
  PLIM_METHODS
} plim_method;

// Where a preference loss has its reference from.
typedef enum {
  PLIM_REFERENCE_OWN,         // a second, frozen model
  PLIM_REFERENCE_ADAPTER,     // the model itself, with its adapters disabled
  PLIM_REFERENCE_PRECOMPUTED, // computed for all texts before training
  PLIM_REFERENCES
} plim_reference;

extern const char *const plim_method_names[PLIM_METHODS + 1];       // "sft", "dpo", ..., NULL
extern const char *const plim_reference_names[PLIM_REFERENCES + 1]; // "own", ..., NULL

// Whether a method learns from preferences: pairs, or answers that are good or bad.
bool plim_method_compares(plim_method method);
// Whether LLaMA-Factory's trainer of pairs computes it.
bool plim_method_is_of_factory(plim_method method);
// Whether a method compares the model with a reference.
bool plim_method_has_reference(plim_method method);

typedef struct {
  int64_t batch, length; // of preferences: pairs, and tokens of each of their texts
  int64_t target_length; // of an encoder-decoder's labels; 0: as long as the input
  int steps;
  int accumulate; // micro batches per step; 0 means 1
  const plim_optimizer *optimizer;
  plim_projection projection; // of an optimizer that projects gradients
  plim_attention_kind attention;
  plim_mask_kind mask;
  int64_t padding;     // padded positions in every row, if attention skips them
  plim_dtype autocast; // PLIM_BOOL: off
  plim_checkpoint_kind checkpoint;
  bool asks_for_inputs;     // enable_input_require_grads of a model that is trained in part
  bool checkpoints_trained; // of such a model: only layers with trained parameters
  bool adds_noise;          // NEFTune
  bool wraps_layers;        // checkpoints are FSDP's CheckpointWrappers, not the model's own
  plim_loss_kind loss;
  int64_t loss_chunk; // tokens per chunk of a chunked loss
  plim_method method;
  plim_reference reference;
  bool passes_reference; // the reference stays a model of its own if adapters are added
  bool
      distils; // also learns from the logits of the job's teacher, as torchtune's recipe (two_models.h)
  int64_t answers[2];    // tokens of the chosen and of the rejected answer
  bool skips_divergence; // KTO without its second batch (loss_type apo_zero_unpaired)
  bool centres_rewards;  // a reward model's center_rewards_coefficient
  int64_t columns;       // of a contrastive loss: an anchor, a positive, negatives
  bool is_pairwise;      // compares only texts of one sample: one forward per column
  int64_t cached_batch;  // mini batch of a cached contrastive loss; 0: not a cached loss
  // Tokens of each mini batch of a cached loss, the same in all columns, pass by pass: a mini batch whose texts are all
  // shorter than the batch is cut. Mini batches beyond the count have the batch's length. Borrowed.
  const uint32_t *cached_lengths;
  size_t cached_length_count;
  plim_pooling pooling;   // of a contrastive loss
  bool normalizes;        // normalises embeddings after the pooling
  bool uses_liger;        // norms, rotary positions and gated MLPs; the fused loss is a loss kind
  plim_saving saving;     // where tensors saved for backward are kept
  plim_saving offloading; // how they are offloaded if they are; PLIM_SAVED_HERE: by save_on_cpu
  // While activations are offloaded, a framework may replace the checkpoints that its settings ask for (Axolotl does).
  // PLIM_CHECKPOINT_OFF: it does not.
  plim_checkpoint_kind checkpoint_beside;
  bool wraps_beside;                     // those are CheckpointWrappers
  plim_checkpoint_kind asked_checkpoint; // what was asked for, if `checkpoint` replaces it
  bool is_trainer;
  // accelerator.backward divides the loss; accumulate() reduces once per step.
  bool uses_accelerator;
  bool is_bare;        // the minimal loop: labels are the ids, keeps only the loss, no clipping
  bool clips_bare;     // the minimal loop, with clipping
  bool skips_clipping; // no clip_grad_norm_
  // Each parameter has an optimizer of its own, which steps as soon as its gradient is complete and frees it (torchtune's
  // optimizer_in_bwd).
  bool steps_in_backward;
  bool keeps_only_loss; // loss = model(**batch).loss
  // Batches have images, too: on one GPU, what is trained of an idle tower has gradients all the same.
  bool reaches_towers;
  bool drops_batch; // no variable keeps the batch: model(**next_batch())
  // LLaMA-Factory v1: the loss is taken from the logits, beside the model's own, which is computed and not used.
  bool scores_again;
  // Axolotl's AxolotlDPOTrainer.training_step (core/trainers/dpo/trainer.py): gc.collect and empty_cache after each pass.
  bool empties_cache;
  bool deletes_outputs; // `del out` after backward frees the logits before the optimizer step
} plim_recipe;

// Offloads the tensors that are saved for backward in the recipe's way, or not; call it after `checkpoint` is set.
void plim_recipe_offload(plim_recipe *r, bool on);

// Texts that one sample of a batch has: both answers of a pair, all columns of a contrastive loss.
int64_t plim_texts_per_sample(const plim_recipe *r);

enum {
  PLIM_CACHED_BATCH = 32,           // default mini_batch_size of sentence-transformers 6.2
  PLIM_MOST_MINI_BATCHES = 1 << 17, // limit per forward pass: each takes time and memory to predict
};

// Mini batches per forward pass of a cached loss, over all columns; 0 for other losses.
int64_t plim_mini_batches(const plim_recipe *r);

// Runs the plain loop (forward, backward, clip_grad_norm_, optimizer, zero_grad) or transformers.Trainer. Returns
// false when out of memory.
bool plim_train(plim_tape *t, plim_model *m, const plim_recipe *recipe);

#endif
