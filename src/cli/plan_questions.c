// Questions that only the user can answer: whether gradients may be accumulated over micro batches that
// are not the same as one batch.
#include <stdio.h>

#include "plan_result.h"
#include "term.h"

typedef struct {
  const char *id, *why, *instead;
} question;

static const question contrastive = {
    "contrastive",
    "the loss compares the sequences of one micro batch with each "
    "other, so a smaller one, accumulated, "
    "learns something else",
    "a cached loss (GradCache, CachedMultipleNegativesRankingLoss) compares all of it in smaller "
    "passes"};
static const question batch_norm = {"batch_norm",
                                    "batch norm takes its means over one micro batch, so a smaller "
                                    "one, accumulated, learns something "
                                    "else",
                                    "SyncBatchNorm takes them over all GPUs"};

// It is asked until the micro batch is said to stay, or to be free.
static const question *asked(const plan_for_card *c) {
  const plim_plan_request *r = &c->asked;
  if (r->allowed[PLIM_KNOB_MICRO_BATCH] || r->domains[PLIM_KNOB_MICRO_BATCH].count) return NULL;
  return r->is_contrastive ? &contrastive : r->has_batch_norm ? &batch_norm : NULL;
}

static long long micro_batch(const plan_for_card *c) {
  return (long long)c->plan.before_choice.at[PLIM_KNOB_MICRO_BATCH];
}

void plan_print_questions(const plan_for_card *c) {
  const question *q = asked(c);
  char line[512];
  size_t width = (size_t)term_width(stdout);
  if (!q) return;
  plan_heading("question: may the micro batch change?");
  snprintf(line, sizeof line, "%s; it stays at %lld until you say", q->why, micro_batch(c));
  term_wrap(stdout, line, 0, 0, width);
  printf("yes: --allow micro_batch\nno:  --fix micro_batch=%lld\n", micro_batch(c));
  term_wrap(stdout, q->instead, 0, 0, width);
}

void plan_write_questions(json_writer *j, const plan_for_card *c) {
  const question *q = asked(c);
  char no[64];
  json_array(j, "questions");
  if (q) {
    snprintf(no, sizeof no, "--fix micro_batch=%lld", micro_batch(c));
    json_object(j, NULL);
    json_string(j, "about", q->id);
    json_string(j, "knob", "micro_batch");
    json_string(j, "question", "may the micro batch change?");
    json_string(j, "why", q->why);
    json_string(j, "yes", "--allow micro_batch");
    json_string(j, "no", no);
    json_end(j);
  }
  json_end(j);
}
