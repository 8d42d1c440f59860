// Which of the candidates that fit comes first.
//
// The fastest one, as long as times differ by more than the clock's error. But a speed counts only in part if it rests
// on rates that were not measured on that machine, or if the candidate needs manual work: it must be clearly faster to
// be worth that. This fraction depends on the candidate only, so a larger card, a permission or a knob that is left
// free can only improve the best candidate. If a preference keeps a faster candidate from being first, the plan
// reports it (plim_plan.faster).
#include <math.h>

#include "plan_impl.h"

// The speed of links between GPUs was not measured, and a sharding library is one more thing to learn.
#define WORTH_ANOTHER_WAY 0.1
// Offloading was measured on one machine, where the clock is within a fifth of every row (docs/measurements.md, "What
// goes to the host"); another host may be slower by that much.
#define WORTH_THE_HOST 0.2
// What files cannot express: a sharding strategy, optimizer state or checkpoints on the host, another loss class; and a
// custom loss if the files can turn Liger's on or several GPUs can share the logits. Custom code must be twice as fast
// to be worth more than lines in files.
#define WORTH_CODE 0.5

static bool is_paged(const plim_choice *choice) {
  return plim_optimizer_is_paged(
      plim_optimizer_named(plim_optimizer_name((size_t)choice->at[PLIM_KNOB_OPTIMIZER])));
}

static bool offloads_checkpoints(const plim_choice *choice) {
  return choice->at[PLIM_KNOB_CHECKPOINT] == PLIM_CHECKPOINT_OFFLOADED;
}

bool plim_goes_to_host(const plim_plan_request *r, const plim_choice *choice) {
  plim_choice own = plim_plan_own_choice(r);
  int64_t offload = choice->at[PLIM_KNOB_OFFLOAD];
  return (offload && offload != own.at[PLIM_KNOB_OFFLOAD]) ||
         (is_paged(choice) && !is_paged(&own)) ||
         (offloads_checkpoints(choice) && !offloads_checkpoints(&own));
}

bool plim_is_another_sharding(const plim_plan_request *r, const plim_choice *choice) {
  return choice->at[PLIM_KNOB_STRATEGY] != plim_plan_own_choice(r).at[PLIM_KNOB_STRATEGY];
}

static bool is_shared_by_hand(const plim_plan_request *r, const plim_choice *own,
                              const plim_choice *choice) {
  int64_t strategy = choice->at[PLIM_KNOB_STRATEGY], offload = choice->at[PLIM_KNOB_OFFLOAD];
  bool is_own = strategy == own->at[PLIM_KNOB_STRATEGY] && offload == own->at[PLIM_KNOB_OFFLOAD];
  return !is_own && r->by_hand[strategy][offload];
}

static bool has_own_loss(const plim_plan_request *r, const plim_choice *own,
                         const plim_choice *choice) {
  return choice->at[PLIM_KNOB_CHUNKED_LOSS] && !own->at[PLIM_KNOB_CHUNKED_LOSS] && !r->chunk_tokens;
}

static bool has_new_cache(const plim_choice *own, const plim_choice *choice) {
  return choice->at[PLIM_KNOB_CACHED_BATCH] && !own->at[PLIM_KNOB_CACHED_BATCH];
}

static bool keeps_on_host_by_hand(const plim_plan_request *r, const plim_choice *own,
                                  const plim_choice *choice) {
  return r->optimizer_by_hand && is_paged(choice) && !is_paged(own);
}

plim_hand_work plim_hand_work_of(const plim_plan_request *r, const plim_choice *choice) {
  plim_choice own = plim_plan_own_choice(r);
  plim_hand_work work = {0};
  work.code += has_own_loss(r, &own, choice);
  work.code += has_new_cache(&own, choice);
  work.code += keeps_on_host_by_hand(r, &own, choice);
  work.code += is_shared_by_hand(r, &own, choice);
  work.lines = choice->at[PLIM_KNOB_ALLOC_CONF] && r->conf_by_hand;
  return work;
}

static bool takes_code(const plim_plan_request *r, const plim_choice *choice) {
  plim_choice own = plim_plan_own_choice(r);
  bool is_needless = has_own_loss(r, &own, choice) && (plim_can_use_liger(r) || r->world > 1);
  return is_needless || has_new_cache(&own, choice) || is_shared_by_hand(r, &own, choice) ||
         keeps_on_host_by_hand(r, &own, choice);
}

// The largest reduction first.
static const struct {
  bool (*applies)(const plim_plan_request *r, const plim_choice *choice);
  double takes;
  plim_passed reason;
} shares[] = {{takes_code, WORTH_CODE, PLIM_PASSED_CODE},
              {plim_goes_to_host, WORTH_THE_HOST, PLIM_PASSED_HOST},
              {plim_is_another_sharding, WORTH_ANOTHER_WAY, PLIM_PASSED_WAY}};
enum { SHARES = sizeof shares / sizeof *shares };

double plim_worth(const plim_plan_request *r, const plim_choice *choice) {
  double worth = 1;
  for (int i = 0; i < SHARES; i++)
    if (shares[i].applies(r, choice)) worth *= 1 - shares[i].takes;
  return worth;
}

plim_passed plim_why_passed(const plim_plan_request *r, const plim_choice *choice,
                            const plim_choice *first) {
  for (int i = 0; i < SHARES; i++)
    if (shares[i].applies(r, choice) && !shares[i].applies(r, first)) return shares[i].reason;
  return PLIM_PASSED_NONE;
}

// ---- among equally fast candidates ------------------------------------------------------------------

static int compare_counts(uint64_t a, uint64_t b) { return (a > b) - (a < b); }

// Negative: a is preferred.
static int compare_ease(const plim_plan_request *r, const plim_rung *a, const plim_rung *b) {
  plim_hand_work x = plim_hand_work_of(r, &a->choice), y = plim_hand_work_of(r, &b->choice);
  int code = x.code - y.code, lines = x.lines - y.lines;
  int host = plim_goes_to_host(r, &a->choice) - plim_goes_to_host(r, &b->choice);
  int mode = plim_way_place(&a->choice) - plim_way_place(&b->choice);
  int bytes = compare_counts(plim_needed_bytes(&a->e), plim_needed_bytes(&b->e));
  return code    ? code
         : lines ? lines
         : host  ? host
         : mode  ? mode
         : bytes ? bytes
                 : a->changes - b->changes;
}

// Without rates there is no order by time: the fewest changes come first, then the least memory.
static int compare_changes(const plim_rung *a, const plim_rung *b) {
  if (a->changes != b->changes) return a->changes - b->changes;
  return compare_counts(plim_needed_bytes(&a->e), plim_needed_bytes(&b->e));
}

double plim_same_time(const plim_plan_request *r) {
  return r->effective_batch ? PLIM_SAME_TIME : PLIM_SAME_TIME / 5;
}

// ---- the pick ---------------------------------------------------------------------------------------

// Lower rungs are ordered by their speed alone.
static double counted_speed(const plim_search *s, const plim_rung *x) {
  double worth = s->plan->rungs.len ? 1 : plim_worth(s->r, &x->choice);
  return isnan(x->tokens_per_second) ? 1 : x->tokens_per_second * worth;
}

bool plim_evaluates_below(const plim_plan *plan, const plim_rung *x) {
  const plim_rung *last = plan->rungs.len ? &plan->rungs.at[plan->rungs.len - 1] : NULL;
  return !last || x->evaluation_bytes <= last->evaluation_bytes ||
         x->evaluation_bytes <= plim_needed_bytes(&last->e);
}

static bool is_eligible(const plim_search *s, const plim_rung *x, uint64_t most, double no_faster) {
  bool is_too_fast = x->tokens_per_second > no_faster; // false for NaN
  return plim_needed_bytes(&x->e) <= most && !is_too_fast && plim_evaluates_below(s->plan, x);
}

double plim_surest(const plim_search *s, uint64_t most, double no_faster) {
  double best = 0;
  for (size_t i = 0; i < s->fitting.len; i++)
    if (is_eligible(s, &s->fitting.at[i], most, no_faster))
      best = fmax(best, counted_speed(s, &s->fitting.at[i]));
  return best;
}

const plim_rung *plim_pick(const plim_search *s, uint64_t most, double no_faster) {
  double least = (1 - plim_same_time(s->r)) * plim_surest(s, most, no_faster);
  const plim_rung *best = NULL;
  for (size_t i = 0; i < s->fitting.len; i++) {
    const plim_rung *x = &s->fitting.at[i];
    if (!is_eligible(s, x, most, no_faster) || counted_speed(s, x) < least) continue;
    bool has_times = !isnan(x->tokens_per_second);
    int order = !best ? -1 : has_times ? compare_ease(s->r, x, best) : compare_changes(x, best);
    if (order < 0) best = x;
  }
  return best;
}
