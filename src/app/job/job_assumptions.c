// Notes the assumptions of every prediction: library versions, GPUs, lengths, masks. Their codes begin with "assumes.";
// the text output joins them into one line.
#include <stdio.h>
#include <string.h>

#include "family.h"
#include "job_lengths.h"
#include "job_options.h"

static void assume_versions(const job_args *args, job_request *r) {
  char text[400];
  job_describe_versions(args, r, text, sizeof text);
  plim_note_add(&r->notes, "assumes.versions", NULL, "%s", text);
}

static void assume_gpus(const job_args *args, job_request *r) {
  if (args->world > 1 || job_is_typed(args, &args->world)) return;
  plim_note_add(&r->notes, "assumes.gpus", "world", "one GPU");
}

static void assume_batches(const job_args *args, job_request *r) {
  static const char *const masks[] = {[PLIM_MASK_NONE] = "no attention mask",
                                      [PLIM_MASK_ONES] = "an attention mask without padding",
                                      [PLIM_MASK_PAD] = "padding in every batch",
                                      [PLIM_MASK_LONGEST] = "padding to the longest sample",
                                      [PLIM_MASK_PACKED] = "no attention mask"};
  long long length = (long long)r->job.recipe.length;
  plim_method method = r->job.recipe.method;
  if (method == PLIM_METHOD_REWARD)
    plim_note_add(&r->notes, "assumes.lengths", "sequence",
                  "both texts of every pair have %lld tokens (shorter ones need less memory)",
                  length);
  else if (plim_method_compares(method))
    plim_note_add(&r->notes, "assumes.lengths", "sequence",
                  "%s %lld tokens, of which %lld are the answer (shorter ones need less memory)",
                  method == PLIM_METHOD_KTO ? "every text has" : "both texts of every pair have",
                  length, (long long)r->job.recipe.answers[0]);
  else if (r->job.lengths) job_note_lengths(args->lengths, &r->lengths, r->most_tokens, &r->notes);
  else if (r->job.model.family->is_encoder_decoder && r->job.recipe.target_length)
    plim_note_add(
        &r->notes, "assumes.lengths", "sequence",
        "every sample has %lld tokens, and its labels %lld (shorter ones need less memory)", length,
        (long long)r->job.recipe.target_length);
  else
    plim_note_add(&r->notes, "assumes.lengths", "sequence",
                  "every sample has %lld tokens (shorter ones need less memory)", length);
  if (r->job.recipe.loss != PLIM_LOSS_CONTRASTIVE)
    plim_note_add(&r->notes, "assumes.mask", NULL, "%s", masks[r->job.recipe.mask]);
}

// Losses that leave out masked tokens (labels of -100). torchtune's takes logits of the others only (mask_ignored_tokens of
// modules/loss/cross_entropy_loss.py); TRL's and Cut Cross Entropy have a tile of logits at a time whatever is masked.
static void assume_labels(const job_args *args, job_request *r) {
  const plim_recipe *c = &r->job.recipe;
  bool takes_fewer_logits = c->loss == PLIM_LOSS_EIGHTHS && !args->keeps_masked;
  bool takes_fewer_tiles =
      args->drops_masked && (c->loss == PLIM_LOSS_CHUNKED || c->loss == PLIM_LOSS_FUSED);
  if (c->method != PLIM_METHOD_TEXTS || c->distils) return;
  if (!takes_fewer_logits && !takes_fewer_tiles) return;
  plim_note_add(&r->notes, "assumes.labels", NULL,
                "every token counts in the loss (masked ones need less %s)",
                takes_fewer_logits ? "memory and time" : "time");
}

void job_note_packed_length(job_request *r) {
  plim_note_reword(&r->notes, "assumes.lengths", "samples are packed to sequences of %lld tokens",
                   (long long)r->job.recipe.length);
}

void job_note_filled_batches(const char *what, bool see_each_other, job_request *r) {
  plim_note_reword(&r->notes, "assumes.lengths", "%s %lld tokens (micro batch x sequence length)%s",
                   what, (long long)(r->job.recipe.batch * r->job.recipe.length),
                   see_each_other ? ", which all see each other" : "");
  if (see_each_other) plim_note_reword(&r->notes, "assumes.mask", "an attention mask of ones");
}

static void assume_text(const job_args *args, job_request *r) {
  const plim_config *c = &r->job.model;
  if (!c->outer) return;
  const char *left_out = !c->audio.hidden    ? "images"
                         : !c->vision.hidden ? "sound"
                                             : "images and sound";
  bool reaches = r->job.recipe.reaches_towers;
  bool is_alone = r->job.sharding.strategy == PLIM_SHARD_NONE;
  bool counts = reaches && is_alone; // their gradients and states are in the prediction
  bool is_full = !r->job.lora.rank && !r->job.trained.names && !args->is_torchtune;
  bool trains =
      reaches || is_full; // torchtune's keys say what is trained of it (other_key_tables.c)
  if (args->freezes_towers)
    plim_note_add(&r->notes, "assumes.text", NULL,
                  "texts without %s (the part of the model that reads %s is loaded but idle; "
                  "LLaMA-Factory freezes it and counts the tokens of %s in cutoff_len, so training "
                  "with them needs little more memory)",
                  left_out, left_out, left_out);
  else
    plim_note_add(&r->notes, "assumes.text", NULL,
                  "texts without %s (the part of the model that reads %s is loaded but idle%s; "
                  "training with %s needs more memory, for %stokens and activations)",
                  left_out, left_out,
                  counts ? ", with the gradients and optimizer states of what is "
                           "trained of it"
                         : "",
                  left_out,
                  trains && !counts ? "gradients and optimizer states of that part, " : "");
  if (args->sees_images) {
    plim_note_add(&r->notes, "held.images", "micro_batch",
                  "the memory of %s is not modelled, and a larger micro batch, or checkpointing "
                  "turned off, would multiply it; plans do neither unless you ask for it (--fix "
                  "micro_batch=N, --fix checkpoint=off)",
                  left_out);
    plim_note_errs_low(&r->notes);
  }
  bool are_frozen = args->freezes_towers && !c->outer->factory_adapts_towers;
  if (!are_frozen || r->job.lora.rank || r->job.trained.names) return;
  plim_note_add(&r->notes, "unmodelled.towers", NULL,
                "the part of the model that reads %s is frozen, and predicted as if it were "
                "trained, which needs more memory than the run",
                left_out);
  plim_note_errs_high(&r->notes);
}

void job_note_planned_length(job_request *r, int64_t length) {
  plim_note_reword(&r->notes, "assumes.lengths",
                   "every sample has %lld tokens in the plan, %lld now (shorter ones need less "
                   "memory)",
                   (long long)length, (long long)r->job.recipe.length);
}

// bitsandbytes' default is uint8.
static void assume_storage(const job_args *args, job_request *r) {
  bool is_4_bit = r->job.weights == PLIM_WEIGHTS_NF4 || r->job.weights == PLIM_WEIGHTS_NF4_DOUBLE;
  if (!is_4_bit || args->strategy != PLIM_SHARD_FSDP2 || args->packs_in_bytes) return;
  if (!job_is_typed(args, &args->weights)) return;
  plim_note_add(&r->notes, "assumes.storage", "quantisation",
                "4-bit weights are stored as 16-bit numbers (bnb_4bit_quant_storage; its default, "
                "uint8, is not sharded)");
}

void job_note_assumptions(const job_args *args, job_request *r) {
  assume_versions(args, r);
  assume_gpus(args, r);
  assume_batches(args, r);
  assume_labels(args, r);
  assume_storage(args, r);
  job_note_family(args, r);
  job_note_kernels(args, r);
  assume_text(args, r);
}
