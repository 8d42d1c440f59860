// Notes the assumptions of every prediction: library versions, GPUs, lengths, masks. Their codes begin with "assumes.";
// the text output joins them into one line.
#include <stdio.h>
#include <string.h>

#include "job_options.h"

// The versions that the recordings of tests/truth were made with (tests/truth/README.md).
static void assume_versions(job_request *r) {
  char text[160];
  const plim_job *job = &r->job;
  snprintf(text, sizeof text, "torch 2.11, transformers 5.17%s%s",
           job->lora.rank ? ", peft 0.21" : "",
           job->sharding.strategy >= PLIM_SHARD_ZERO1 ? ", DeepSpeed 0.19" : "");
  plim_note_add(&r->notes, "assumes.versions", NULL, "%s (other versions may differ)", text);
}

static void assume_gpus(const job_args *args, job_request *r) {
  if (args->world > 1 || job_is_typed(args, &args->world)) return;
  plim_note_add(&r->notes, "assumes.gpus", "world", "one GPU");
}

static void assume_batches(const job_args *args, job_request *r) {
  static const char *const masks[] = {[PLIM_MASK_NONE] = "no attention mask",
                                      [PLIM_MASK_ONES] = "an attention mask without padding",
                                      [PLIM_MASK_PAD] = "padding in every batch",
                                      [PLIM_MASK_LONGEST] = "padding to the longest sample"};
  long long length = (long long)r->job.recipe.length;
  plim_note_add(&r->notes, "assumes.lengths", "sequence",
                "every sample has %lld tokens (shorter ones need less memory)", length);
  if (r->job.recipe.loss != PLIM_LOSS_CONTRASTIVE)
    plim_note_add(&r->notes, "assumes.mask", NULL, "%s", masks[args->mask]);
}

void job_note_planned_length(job_request *r, int64_t length) {
  plim_note_reword(&r->notes, "assumes.lengths",
                   "every sample has %lld tokens in the plan, %lld now (shorter ones need less "
                   "memory)",
                   (long long)length, (long long)r->job.recipe.length);
}

void job_note_assumptions(const job_args *args, job_request *r) {
  assume_versions(r);
  assume_gpus(args, r);
  assume_batches(args, r);
}
