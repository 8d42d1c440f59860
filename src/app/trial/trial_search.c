// Finds the largest micro batch that fits, with few runs. A run on a card that is large enough gives two bounds: what PyTorch
// reserved is enough memory, and less than it allocated at one time is not. Between the two, PyTorch frees its cache and tries
// again, so only a run on the card itself can decide.
#include <stdio.h>
#include <string.h>

#include "trial_impl.h"

typedef struct {
  trial_search *s;
  trial_watch *watch;
  void *context;
  int64_t micro;
} watching;

static void look(void *context, const simulate_moment *now) {
  const watching *w = context;
  if (w->watch) w->watch(w->context, w->s, w->micro, now);
}

// ---- one run ----------------------------------------------------------------------------------------

static void take_result(const simulate_result *r, trial_run *out) {
  const simulate_process *p = simulate_fullest(r);
  bool has_ended_well = r->end == SIMULATE_RAN;
  out->needs_bytes = has_ended_well ? r->peak_bytes : PLIM_UNKNOWN;
  out->is_in_evaluation = simulate_ran_out_in_evaluation(r);
  out->steps = simulate_steps(r);
  out->seconds = r->seconds;
  snprintf(out->log, sizeof out->log, "%s", r->log);
  if (!p) return;
  out->allocated_bytes = p->peak_allocated_bytes;
  out->reserved_bytes = p->peak_reserved_bytes;
  out->retries = p->retries;
  memcpy(out->batch, p->observed.batch, sizeof out->batch);
}

static trial_verdict by_memory(const trial_search *s, const trial_run *r) {
  if (r->needs_bytes == PLIM_UNKNOWN) return TRIAL_DOES_NOT_FIT;
  if (r->is_on_card || r->needs_bytes <= s->request.total_bytes) return TRIAL_FITS;
  uint64_t outside = r->needs_bytes - (r->reserved_bytes < r->needs_bytes ? r->reserved_bytes : 0);
  bool can_never_fit = !r->reserved_bytes || r->allocated_bytes + outside > s->request.total_bytes;
  return can_never_fit ? TRIAL_DOES_NOT_FIT : TRIAL_OPEN;
}

static bool has_batch_of(const trial_run *a, const trial_run *b) {
  return a->batch[0] && a->batch[0] == b->batch[0] && a->batch[1] == b->batch[1];
}

// Whether the program's batch is smaller than it should be, or as large as with a smaller micro batch: the program then has
// no more data. If data is packed, the samples of a batch are not proportional to the micro batch.
static bool has_no_data(const trial_search *s, const trial_run *r) {
  const trial_run *a = &s->runs.at[0], *b = &s->runs.at[s->runs.len > 1];
  uint64_t at[] = {(uint64_t)a->micro, (uint64_t)b->micro, (uint64_t)r->micro};
  bool is_proportional = at[0] != at[1] && a->batch[0] * at[1] == b->batch[0] * at[0];
  if (is_proportional && r->batch[0] && r->batch[0] * at[0] < a->batch[0] * at[2]) return true;
  for (size_t i = 0; i < s->runs.len; i++)
    if (s->runs.at[i].micro < r->micro && has_batch_of(&s->runs.at[i], r)) return true;
  return false;
}

// The peak is reached in the second step at the latest, because the optimizer's state exists then.
static trial_verdict verdict_of(const trial_search *s, const trial_run *r) {
  enum { ENOUGH_STEPS = 2 };
  trial_verdict verdict = by_memory(s, r);
  if (verdict == TRIAL_DOES_NOT_FIT || !s->runs.len) return verdict;
  uint64_t first = s->runs.at[0].steps;
  if (r->steps < (first < ENOUGH_STEPS ? first : ENOUGH_STEPS)) return TRIAL_NO_DATA;
  return has_no_data(s, r) ? TRIAL_NO_DATA : verdict;
}

static plim_err refuse_failed(trial_search *s, const simulate_result *r, int64_t micro,
                              plim_error *error) {
  snprintf(s->failed_log, sizeof s->failed_log, "%s", r->log);
  plim_err err =
      s->runs.len
          ? plim_fail(error, PLIM_ERR_UNSUPPORTED,
                      "with a micro batch of %lld the program failed, but not because of memory; "
                      "the last lines of its output are above",
                      (long long)micro)
          : plim_fail(error, PLIM_ERR_UNSUPPORTED,
                      "the program failed, but not because of memory; the last lines of its "
                      "output are above");
  plim_error_hint(error, "its whole output is in %.280s", r->log);
  return err;
}

static plim_err run_version(watching *w, const trial_version *v, bool is_on_card, trial_run *run,
                            simulate_result *result, plim_error *error) {
  trial_search *s = w->s;
  simulate_request request = s->request;
  *run = (trial_run){.micro = w->micro,
                     .accumulation = trial_accumulation_of(s->program, w->micro),
                     .is_on_card = is_on_card};
  request.command = (const char *const *)v->words.at;
  request.gpus = s->program->gpus;
  request.replaced = v->replaced.at;
  request.replaced_count = v->replaced.len;
  if (!is_on_card) request.total_bytes = SIMULATE_LARGE_ENOUGH;
  plim_err err = simulate_run(&request, look, w, result, error);
  if (!err && result->end == SIMULATE_FAILED) err = refuse_failed(s, result, w->micro, error);
  if (!err) take_result(result, run);
  if (!err) run->verdict = verdict_of(s, run);
  return err;
}

// Runs the program with these changes. Whatever the outcome, the caller clears the result.
static plim_err run_changed(watching *w, const plim_knob_change *changes, size_t count,
                            bool is_on_card, trial_run *run, simulate_result *result,
                            plim_error *error) {
  trial_version version;
  *result = (simulate_result){0};
  plim_err err = trial_version_make(w->s->program, changes, count, &version, error);
  if (!err) err = trial_version_check(&version, w->s->request.is_unsandboxed, error);
  if (!err) err = run_version(w, &version, is_on_card, run, result, error);
  trial_version_clear(&version);
  return err;
}

static plim_err run_once(watching *w, int64_t micro, bool is_on_card, plim_error *error) {
  trial_search *s = w->s;
  plim_knob_change changes[2];
  simulate_result result;
  trial_run run;
  w->micro = micro;
  size_t count = trial_changes(s->program, micro, changes);
  plim_err err = run_changed(w, changes, count, is_on_card, &run, &result, error);
  if (!err && !vec_push(&s->runs, run)) err = plim_no_memory(error);
  if (!err && s->runs.len == 1) s->first = result;
  else simulate_result_clear(&result);
  return err;
}

// ---- what is known ----------------------------------------------------------------------------------

// The last verdict on a micro batch: a run on the card comes later, and decides.
static trial_verdict known(const trial_search *s, int64_t micro) {
  for (size_t i = s->runs.len; i-- > 0;)
    if (s->runs.at[i].micro == micro) return s->runs.at[i].verdict;
  return TRIAL_OPEN;
}

// The largest that fits, and the smallest that does not; 0: none.
static void find_bounds(const trial_search *s, int64_t *fits, int64_t *fails) {
  *fits = *fails = 0;
  for (size_t i = 0; i < s->runs.len; i++) {
    int64_t micro = s->runs.at[i].micro;
    trial_verdict verdict = known(s, micro);
    bool is_bad = verdict == TRIAL_DOES_NOT_FIT || verdict == TRIAL_NO_DATA;
    if (is_bad && (!*fails || micro < *fails)) *fails = micro;
  }
  for (size_t i = 0; i < s->runs.len; i++) {
    int64_t micro = s->runs.at[i].micro;
    bool may_be_chosen = !s->program->effective || s->runs.at[i].accumulation;
    bool is_below = may_be_chosen && (!*fails || micro < *fails);
    if (is_below && known(s, micro) == TRIAL_FITS && micro > *fits) *fits = micro;
  }
}

static bool has_ended(const trial_run *r) {
  return r->needs_bytes != PLIM_UNKNOWN && r->verdict != TRIAL_NO_DATA;
}

// The micro batch at which a line through the two largest results reaches the card's memory. The line is that of reserved or
// of allocated memory. 0: not known.
static int64_t reaches(const trial_search *s, bool is_allocated) {
  const trial_run *a = NULL, *b = NULL; // the largest two, b above a
  for (size_t i = 0; i < s->runs.len; i++) {
    const trial_run *r = &s->runs.at[i];
    if (!has_ended(r) || (!is_allocated && r->retries)) continue;
    if (!b || r->micro > b->micro) a = b, b = r;
    else if (r->micro < b->micro && (!a || r->micro > a->micro)) a = r;
  }
  if (!a) return 0;
  double spare = (double)(a->needs_bytes - a->reserved_bytes); // context and CUDA's libraries
  double low = is_allocated ? (double)a->allocated_bytes + spare : (double)a->needs_bytes;
  double high = is_allocated ? (double)b->allocated_bytes + spare : (double)b->needs_bytes;
  double slope = (high - low) / (double)(b->micro - a->micro);
  if (slope <= 0) return TRIAL_MAX_MICRO;
  double at = (double)b->micro + ((double)s->request.total_bytes - high) / slope;
  return at < 1 ? 1 : at > TRIAL_MAX_MICRO ? TRIAL_MAX_MICRO : (int64_t)at;
}

// ---- what to try next -------------------------------------------------------------------------------

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The lines say that nothing larger fits, but they were wrong by `past` before, so the search goes further each time.
static int64_t beyond(int64_t fits, int64_t line) {
  int64_t past = fits > line ? fits - line : 0;
  return fits + past + 1;
}

// A flat line does not show where the memory ends, so the guess is at most sixteen times the largest that fits.
static int64_t guess_above(const trial_search *s, int64_t fits) {
  enum { LEAP = 16 };
  int64_t reserved = reaches(s, false), allocated = reaches(s, true);
  int64_t guess = reserved > fits    ? reserved
                  : allocated > fits ? allocated
                                     : beyond(fits, allocated);
  return fits ? smaller(guess, LEAP * fits) : guess;
}

// What is reserved is enough. What is allocated bounds what is worth trying.
static int64_t guess_between(const trial_search *s, int64_t fits, int64_t fails) {
  int64_t reserved = reaches(s, false), allocated = reaches(s, true);
  if (reserved > fits && reserved < fails) return reserved;
  if (allocated > fits) return (fits + smaller(fails, allocated + 1)) / 2;
  return smaller((fits + fails) / 2, allocated ? beyond(fits, allocated) : fails);
}

// The micro batch of the next run; 0: the search is over.
static int64_t next(const trial_search *s) {
  const trial_program *p = s->program;
  int64_t fits, fails;
  find_bounds(s, &fits, &fails);
  int64_t lowest = trial_next_micro(p, fits);
  if (!lowest || (fails && lowest >= fails)) return 0;
  int64_t guess = s->runs.len == 1 ? (fits ? 2 * fits : p->micro / 2)
                  : fails          ? guess_between(s, fits, fails)
                                   : guess_above(s, fits);
  int64_t micro = trial_micro_at_most(p, guess);
  return micro < lowest ? lowest : micro;
}

static size_t best_of(const trial_search *s) {
  int64_t fits, fails;
  find_bounds(s, &fits, &fails);
  for (size_t i = s->runs.len; fits && i-- > 0;)
    if (s->runs.at[i].micro == fits) return i;
  return SIZE_MAX;
}

// ---- the search -------------------------------------------------------------------------------------

static plim_err check_first(const trial_search *s, plim_error *error) {
  const trial_run *r = &s->runs.at[0];
  plim_err err;
  if (!simulate_fullest(&s->first))
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                    "the program did not use the GPU, so there is nothing to plan");
  else if (!r->steps)
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                    "the program ended without an optimizer step, so what it needs is not known");
  else return PLIM_OK;
  plim_error_hint(error, "its output is in %.280s", r->log);
  return err;
}

// The second run shows whether the knob that was found is the right one.
static plim_err check_second(const trial_search *s, plim_error *error) {
  const trial_run *a = &s->runs.at[0], *b = &s->runs.at[1];
  if (!has_batch_of(a, b) || b->micro == a->micro) return PLIM_OK;
  const plim_project *project = &s->program->files.project;
  const plim_project_knob *k = &project->knobs[PLIM_KNOB_MICRO_BATCH];
  const char *path = k->place_count ? project->files.at[k->places[0].file]->path : NULL;
  plim_err err = plim_fail(
      error, PLIM_ERR_UNSUPPORTED,
      "with a micro batch of %lld instead of %lld%s%.120s%s, the program's batches stayed the "
      "same: %llu x %llu",
      (long long)b->micro, (long long)a->micro, path ? " (in " : "", path ? path : "",
      path ? ")" : "", (unsigned long long)a->batch[0], (unsigned long long)a->batch[1]);
  plim_error_hint(error, "if another setting decides the batch: --set micro_batch=FILE:KEY; "
                         "otherwise the data set may have too few samples");
  return err;
}

static plim_err check(const trial_search *s, plim_error *error) {
  if (s->runs.len == 1) return check_first(s, error);
  return s->runs.len == 2 ? check_second(s, error) : PLIM_OK;
}

// The line needs a second run that ends well, so that run gets only the card's memory if this is certainly enough: memory
// grows at most in proportion to the micro batch.
static bool is_for_card(const trial_search *s, int64_t micro) {
  const trial_run *first = &s->runs.at[0];
  double most = (double)first->needs_bytes * (double)micro / (double)first->micro;
  return s->runs.len > 1 || micro == first->micro ||
         (micro > first->micro && most <= (double)s->request.total_bytes);
}

// Before the first run.
static plim_err check_sandbox(const trial_search *s, plim_error *error) {
  trial_version version;
  plim_knob_change changes[2];
  const trial_program *p = s->program;
  if (!s->request.is_unsandboxed) return PLIM_OK;
  int64_t other = trial_next_micro(p, trial_next_micro(p, 0) == p->micro ? p->micro : 0);
  if (!other) return PLIM_OK;
  size_t count = trial_changes(p, other, changes);
  plim_err err = trial_version_make(p, changes, count, &version, error);
  if (!err) err = trial_version_check(&version, true, error);
  trial_version_clear(&version);
  return err;
}

plim_err trial_search_first(trial_search *s, trial_watch *watch, void *context, plim_error *error) {
  watching w = {s, watch, context, 0};
  s->best = SIZE_MAX;
  plim_err err = check_sandbox(s, error);
  if (!err) err = run_once(&w, s->program->micro, false, error);
  return err ? err : check(s, error);
}

plim_err trial_prove(trial_search *s, const plim_knob_change *changes, size_t count, int64_t micro,
                     trial_watch *watch, void *context, trial_run *run, plim_error *error) {
  watching w = {s, watch, context, micro};
  simulate_result result;
  plim_err err = run_changed(&w, changes, count, true, run, &result, error);
  simulate_result_clear(&result);
  return err;
}

plim_err trial_search_rest(trial_search *s, trial_watch *watch, void *context, plim_error *error) {
  watching w = {s, watch, context, 0};
  plim_err err = PLIM_OK;
  while (!err) {
    int64_t micro = s->runs.len < s->most_runs ? next(s) : 0;
    s->best = best_of(s);
    const trial_run *best = s->best == SIZE_MAX ? NULL : &s->runs.at[s->best];
    s->is_exact = !next(s);
    if (!micro && best && !best->is_on_card) micro = best->micro; // the proof
    else if (!micro) break;
    err = run_once(&w, micro, is_for_card(s, micro), error);
    if (!err) err = check(s, error);
  }
  return err;
}

void trial_search_clear(trial_search *s) {
  simulate_result_clear(&s->first);
  vec_free(&s->runs);
}
