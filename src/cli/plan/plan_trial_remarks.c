// What the user must know about a plan that simulated runs found.
#include <stdio.h>
#include <string.h>

#include "plan_trial.h"
#include "units.h"

const char *const plan_trial_verdicts[] = {"may_fit", "fits", "does_not_fit", "too_little_data"};

// Each writes a sentence, or nothing if there is nothing to say.
typedef void remark(const plan_trial_report *r, const trial_run *best, char *text, size_t size);

static void about_batch(const plan_trial_report *r, const trial_run *best, char *text,
                        size_t size) {
  const trial_run *first = &r->search->runs.at[0];
  uint64_t now = plan_trial_effective(r, first), then = plan_trial_effective(r, best);
  bool is_kept = r->program->how == TRIAL_ACCUMULATION_KEPT;
  if (best->micro == first->micro || r->program->effective) return;
  if (!then)
    snprintf(text, size,
             "the effective batch changes with the micro batch, and with it what the model learns: "
             "plimsoll did not find the program's accumulation");
  else
    snprintf(text, size,
             "the effective batch becomes %s (now %s), which changes what the model "
             "learns%s",
             units_count(then).text, units_count(now).text,
             is_kept ? ": your program has no accumulation that plimsoll can change" : "");
}

static void about_learning(const plan_trial_report *r, const trial_run *best, char *text,
                           size_t size) {
  if (best->micro == r->program->micro) return;
  snprintf(text, size,
           "if the loss compares the samples of a batch (contrastive), or the model has "
           "batch norm, another micro batch changes what the model learns");
}

static const trial_run *without_retries(const trial_search *s) {
  const trial_run *found = NULL;
  for (size_t i = 0; i < s->runs.len; i++) {
    const trial_run *r = &s->runs.at[i];
    bool is_calm = r->verdict == TRIAL_FITS && !r->retries;
    if (is_calm && (!found || r->micro > found->micro)) found = r;
  }
  return found;
}

static void about_retries(const plan_trial_report *r, const trial_run *best, char *text,
                          size_t size) {
  const trial_run *calm = without_retries(r->search);
  char instead[120] = "";
  if (!best->retries) return;
  if (calm)
    snprintf(instead, sizeof instead, "; micro batch %s, which was tried too, fits without that",
             units_count((uint64_t)calm->micro).text);
  snprintf(text, size,
           "to fit, PyTorch had to empty its cache %s time%s in %s steps, which costs time%s",
           units_count(best->retries).text, best->retries == 1 ? "" : "s",
           units_count(best->steps).text, instead);
}

// CUDA may offer up to 5 % less memory than the driver says (core/estimate/estimate.c).
static void about_spare(const plan_trial_report *r, const trial_run *best, char *text,
                        size_t size) {
  const double little = 0.05;
  uint64_t all = r->budget_bytes, spare = all > best->needs_bytes ? all - best->needs_bytes : 0;
  if (!r->is_whole_card || (double)spare >= little * (double)all) return;
  snprintf(text, size,
           "the plan leaves only %s free, and a real run may need more: what CUDA and its "
           "libraries use differs between drivers; --limit SIZE plans with less memory for PyTorch",
           units_bytes(spare).text);
}

static void about_next(const plan_trial_report *r, const trial_run *best, char *text, size_t size) {
  int64_t next = trial_next_micro(r->program, best->micro);
  const trial_run *run = next ? plan_trial_run_of(r->search, next) : NULL;
  if (!next && r->program->effective)
    snprintf(text, size, "there is no larger micro batch: this is the whole effective batch");
  else if (run && run->verdict == TRIAL_NO_DATA)
    snprintf(text, size, "the program has too little data for a larger micro batch");
  else if (!r->search->is_exact)
    snprintf(text, size,
             "a larger micro batch may fit: the search ended after %zu runs, and %s was not tried",
             r->search->runs.len, units_count((uint64_t)next).text);
}

// The smallest micro batch does not fit, and the reason is not the micro batch.
static void about_evaluation(const plan_trial_report *r, const trial_run *best, char *text,
                             size_t size) {
  const trial_run *smallest =
      best ? NULL : plan_trial_run_of(r->search, trial_next_micro(r->program, 0));
  if (smallest && smallest->is_in_evaluation)
    snprintf(text, size,
             "memory ran out during evaluation, whose batch is a setting of its own "
             "(per_device_eval_batch_size in transformers): make that smaller first");
}

static void about_prediction(const plan_trial_report *r, const trial_run *best, char *text,
                             size_t size) {
  (void)best;
  snprintf(text, size, "planned by simulated runs, because %s", r->why);
}

static remark *const remarks[] = {about_batch, about_learning,   about_retries,   about_spare,
                                  about_next,  about_evaluation, about_prediction};

bool plan_trial_remark(const plan_trial_report *r, size_t index, char *text, size_t size) {
  const trial_run *best = plan_trial_best(r);
  for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++) {
    *text = 0;
    bool is_about_none = remarks[i] == about_evaluation || remarks[i] == about_prediction;
    if (best || is_about_none) remarks[i](r, best, text, size);
    if (*text && index-- == 0) return true;
  }
  return false;
}
