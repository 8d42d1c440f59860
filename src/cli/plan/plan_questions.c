// Questions that only the user can answer: whether gradients may be accumulated over micro batches although that is not
// the same as one batch; and what a cached loss would need instead.
#include <stdio.h>

#include "plan_show.h"
#include "term.h"
#include "units.h"

typedef struct {
  const char *id, *why, *instead;
} question;

static const question contrastive = {
    "contrastive",
    "the loss compares the samples of one micro batch with each other, "
    "so training with a smaller micro batch and accumulation changes "
    "what the model learns",
    NULL};
static const question batch_norm = {"batch_norm",
                                    "batch norm averages over one micro batch, so training with a "
                                    "smaller micro batch and accumulation changes what the model "
                                    "learns",
                                    "SyncBatchNorm averages over all GPUs"};

static const question divergence = {"kto",
                                    "KTO estimates how far the model is from its reference in each "
                                    "micro batch, so another micro batch changes what the model "
                                    "learns",
                                    NULL};

static const question distillation = {
    "distillation",
    "torchtune's distillation adds up the means of the micro batches, "
    "so with another micro batch the tokens of short samples count "
    "for more or less, which changes what the model learns",
    "samples of equal length (dataset.packed: True) leave it free"};

// The question to ask; NULL if the user has said that the micro batch stays or is free.
static const question *asked(const plan_for_card *c) {
  const plim_plan_request *r = &c->asked;
  if (r->allowed[PLIM_KNOB_MICRO_BATCH] || r->domains[PLIM_KNOB_MICRO_BATCH].count) return NULL;
  if (r->is_contrastive) return &contrastive;
  if (r->has_batch_norm) return &batch_norm;
  if (!plim_plan_compares_batch(r)) return NULL;
  return r->job.recipe.distils ? &distillation : &divergence;
}

static long long micro_batch(const plan_for_card *c) {
  return (long long)c->plan.before_choice.at[PLIM_KNOB_MICRO_BATCH];
}

// ---- a cached loss ----------------------------------------------------------------------------------

typedef struct {
  int64_t at_once; // sequences at a time; 0: a cached loss is not an alternative here
  plim_estimate e;
} cached_loss;

// The user's own settings with a cached loss: the usual number of sequences at a time, or fewer so that it fits.
static cached_loss cached_instead(const plan_for_card *c) {
  plim_choice choice = c->plan.before_choice;
  cached_loss x = {0};
  bool is_planned = c->plan.rungs.len && c->plan.rungs.at[0].choice.at[PLIM_KNOB_CACHED_BATCH];
  bool is_plain = !is_planned && c->asked.job.recipe.loss == PLIM_LOSS_CONTRASTIVE &&
                  !choice.at[PLIM_KNOB_CACHED_BATCH] && choice.at[PLIM_KNOB_MICRO_BATCH] > 1;
  for (int64_t n = PLIM_CACHED_BATCH; is_plain && n >= 1 && !x.e.fits; n /= 2) {
    if (n >= choice.at[PLIM_KNOB_MICRO_BATCH]) continue;
    choice.at[PLIM_KNOB_CACHED_BATCH] = n;
    plim_error error = {0};
    if (plim_choice_estimate(&c->asked, &choice, &x.e, &error)) return (cached_loss){0};
    x.at_once = n;
  }
  return x;
}

static void print_cached(const plan_for_card *c, size_t width) {
  cached_loss x = cached_instead(c);
  char line[512], tight[PLAN_TIGHT_SIZE] = "";
  if (!x.at_once) return;
  plan_why_tight(c, &x.e, tight, sizeof tight);
  int used =
      snprintf(line, sizeof line,
               "a cached loss (CachedMultipleNegativesRankingLoss with mini_batch_size=%lld, "
               "or GradCache) still compares all %lld and needs %s with your settings: %s%s%s",
               (long long)x.at_once, micro_batch(c), units_bytes(x.e.device_bytes).text,
               x.e.fits ? "FITS" : "DOES NOT FIT", *tight ? ", " : "", tight);
  if (x.e.tokens_per_second > 0 && used < (int)sizeof line)
    snprintf(line + used, sizeof line - (size_t)used, ", %s tokens per second",
             units_count((uint64_t)x.e.tokens_per_second).text);
  term_wrap(stdout, line, 0, 0, width);
}

static void write_cached(json_writer *j, const plan_for_card *c) {
  cached_loss x = cached_instead(c);
  if (!x.at_once) {
    jsonw_null(j, "cached_loss");
    return;
  }
  jsonw_object(j, "cached_loss");
  jsonw_i64(j, "cached_batch", x.at_once);
  jsonw_bytes(j, "device_bytes", x.e.device_bytes);
  jsonw_bool(j, "fits", x.e.fits);
  jsonw_number(j, "tokens_per_second", x.e.tokens_per_second);
  jsonw_end(j);
}

// ---- output -----------------------------------------------------------------------------------------

void plan_print_questions(const plan_for_card *c) {
  const question *q = asked(c);
  char line[512];
  size_t width = (size_t)term_width(stdout);
  if (!q) return;
  plan_heading("question: may the micro batch change?");
  snprintf(line, sizeof line, "%s; it stays at %lld until you answer", q->why, micro_batch(c));
  term_wrap(stdout, line, 0, 0, width);
  printf("yes: --allow micro_batch\nno:  --fix micro_batch=%lld\n", micro_batch(c));
  if (q->instead) term_wrap(stdout, q->instead, 0, 0, width);
  else print_cached(c, width);
}

void plan_write_questions(json_writer *j, const plan_for_card *c) {
  const question *q = asked(c);
  char no[64];
  jsonw_array(j, "questions");
  if (q) {
    snprintf(no, sizeof no, "--fix micro_batch=%lld", micro_batch(c));
    jsonw_object(j, NULL);
    jsonw_string(j, "about", q->id);
    jsonw_string(j, "knob", "micro_batch");
    jsonw_string(j, "question", "may the micro batch change?");
    jsonw_string(j, "why", q->why);
    jsonw_string(j, "yes", "--allow micro_batch");
    jsonw_string(j, "no", no);
    if (!q->instead) write_cached(j, c);
    jsonw_end(j);
  }
  jsonw_end(j);
}
