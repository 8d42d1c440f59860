// Why the plan makes its changes, and how they affect what the model learns, if their names do not show it.
#include <stdio.h>
#include <string.h>

#include "estimate_result.h"
#include "plan_json.h"
#include "units.h"

typedef struct {
  const plan_for_card *c;
  int64_t from, to; // values of the row's knob
} change;

static const char *name(plim_knob knob, int64_t value) { return plim_knob_value_name(knob, value); }

static void say_precision(const change *x, char *text, size_t size) {
  bool trains_wide = x->c->asked.job.dtype == PLIM_FP32 || x->c->asked.job.lora.rank;
  bool is_fp16 = strcmp(name(PLIM_KNOB_PRECISION, x->to), "fp16") == 0;
  const char *kept =
      trains_wide ? "; trained parameters, gradients and optimizer states stay fp32" : "";
  if (x->to == 0) snprintf(text, size, "no autocast: this GPU has no fast 16-bit type");
  else if (is_fp16)
    snprintf(
        text, size,
        "autocast computes matrix products in fp16, with loss scaling (Trainer, accelerate and "
        "Lightning do that)%s%s",
        kept, plim_plan_lacks_bf16(&x->c->asked) ? "; this GPU only emulates bf16" : "");
  else
    snprintf(text, size, "autocast computes matrix products in bf16%s%s", kept,
             !x->c->request.is_known_by_size
                 ? ""
                 : "; GPUs before Ampere (T4, V100) need fp16 instead: --gpu T4");
}

static void say_dtype(const change *x, char *text, size_t size) {
  const char *to = name(PLIM_KNOB_DTYPE, x->to);
  if (x->c->asked.job.lora.rank)
    snprintf(text, size,
             "frozen weights are loaded in %s, to which autocast would convert them anyway; the "
             "adapters stay fp32",
             to);
  else
    snprintf(text, size,
             "weights, gradients and optimizer states in %s: small updates are rounded away", to);
}

static void say_loss(const change *x, const char *how, char *text, size_t size) {
  const char *same = "so they are never all in memory; the loss is the same up to rounding";
  uint64_t bytes = estimate_shown(&x->c->plan.before).component_bytes[PLIM_FOR_LOGITS];
  if (bytes >= 16 * PLIM_MIB) // less is a scalar or a chunk
    snprintf(text, size, "%s, %s (now they take %s of the peak)", how, same,
             units_bytes(bytes).text);
  else snprintf(text, size, "%s, %s", how, same);
}

static void say_chunks(const change *x, char *text, size_t size) {
  char how[96];
  snprintf(how, sizeof how, "the plan computes the logits %lld tokens at a time", (long long)x->to);
  if (x->to) say_loss(x, how, text, size);
}

static void say_liger(const change *x, char *text, size_t size) {
  if (x->to) say_loss(x, "Liger's cross entropy computes the logits chunk by chunk", text, size);
}

static void say_checkpoint(const change *x, char *text, size_t size) {
  const char *to = name(PLIM_KNOB_CHECKPOINT, x->to);
  bool keeps_on_host =
      strcmp(name(PLIM_KNOB_OFFLOAD, x->c->plan.rungs.at[0].choice.at[PLIM_KNOB_OFFLOAD]),
             "activations") == 0;
  if (!x->to && keeps_on_host)
    snprintf(text, size, "not needed, because activations are offloaded to host memory");
  else if (!x->to) snprintf(text, size, "activations are kept instead of computed twice");
  else if (strcmp(to, "offloaded") == 0)
    snprintf(text, size, "layer inputs are kept in host memory, everything else is computed twice");
  else if (!x->from)
    snprintf(text, size, "activations are computed again in backward instead of kept");
  else if (strcmp(to, "reentrant") == 0)
    snprintf(text, size,
             "reentrant checkpoints run the forward pass without gradients, so 8-bit layers do not "
             "keep their inputs");
}

static bool has_growing_segments(const plan_for_card *c, const plim_choice *choice) {
  return strstr(plim_choice_conf(&c->asked, choice), "expandable_segments:True") != NULL;
}

static void say_alloc_conf(const change *x, char *text, size_t size) {
  const plim_plan *p = &x->c->plan;
  if (has_growing_segments(x->c, &p->before_choice))
    snprintf(text, size,
             "expandable segments are already on; the other settings only cost memory here");
  else if (has_growing_segments(x->c, &p->rungs.at[0].choice))
    snprintf(text, size, "segments grow in place instead of leaving unusable gaps");
}

static void say_strategy(const change *x, char *text, size_t size) {
  const plim_job *job = &x->c->asked.job;
  bool loads_whole = job->recipe.is_trainer && job->load == PLIM_LOAD_PRETRAINED;
  if (x->to == PLIM_SHARD_ZERO3 && loads_whole)
    snprintf(text, size,
             "each GPU holds the whole model once, because it is loaded before ZeRO-3 is set up; "
             "create TrainingArguments before from_pretrained to save that memory");
}

static const plim_optimizer *optimizer(int64_t value) {
  return plim_optimizer_named(name(PLIM_KNOB_OPTIMIZER, value));
}

static void say_optimizer(const change *x, char *text, size_t size) {
  const plim_optimizer *to = optimizer(x->to);
  const plim_job *job = &x->c->asked.job;
  if (!plim_optimizer_is_bitsandbytes(to) || plim_optimizer_rounds(to)) return;
  bool has_narrow = job->dtype != PLIM_FP32 && (!job->lora.rank || job->lora.keeps_dtype);
  has_narrow |= job->lora.casts_bf16;
  if (has_narrow && !plim_optimizer_is_bitsandbytes(optimizer(x->from)))
    snprintf(text, size,
             "bitsandbytes keeps its states in fp32, which is more exact than torch's 16 bits");
}

static void say_cached_batch(const change *x, char *text, size_t size) {
  (void)x;
  snprintf(text, size,
           "the loss still compares the whole batch; embeddings and gradients are computed in "
           "separate passes");
}

static const struct {
  plim_knob knob;
  void (*say)(const change *x, char *text, size_t size);
} rows[] = {
    {PLIM_KNOB_PRECISION, say_precision},       {PLIM_KNOB_DTYPE, say_dtype},
    {PLIM_KNOB_CHUNKED_LOSS, say_chunks},       {PLIM_KNOB_LIGER, say_liger},
    {PLIM_KNOB_CHECKPOINT, say_checkpoint},     {PLIM_KNOB_ALLOC_CONF, say_alloc_conf},
    {PLIM_KNOB_CACHED_BATCH, say_cached_batch}, {PLIM_KNOB_STRATEGY, say_strategy},
    {PLIM_KNOB_OPTIMIZER, say_optimizer},
};

void plan_reason(const plan_for_card *c, plim_knob knob, char *text, size_t size) {
  const plim_choice *from = &c->plan.before_choice, *to = &c->plan.rungs.at[0].choice;
  change x = {c, from->at[knob], to->at[knob]};
  *text = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].knob == knob && x.from != x.to) rows[i].say(&x, text, size);
}
