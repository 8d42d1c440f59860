// Prints why the plan is first, what is faster but not first, and how to read its numbers.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estimate_result.h"
#include "plan_show.h"
#include "term.h"
#include "units.h"

static void sentence(const char *text) {
  term_wrap(stdout, text, 10, 10, (size_t)term_width(stdout));
}

static bool is_any_allowed(const plim_plan_request *r) {
  for (int i = 0; i < PLIM_KNOBS; i++)
    if (r->allowed[i]) return true;
  return false;
}

// What the plan leaves out although it would be faster, and why.
static const char *const left_out[] = {
    [PLIM_PASSED_NONE] = "",
    [PLIM_PASSED_HOST] = " without offload to the host, whose speed depends on your machine",
    [PLIM_PASSED_WAY] = " without another strategy, whose speed depends on your GPU links",
    [PLIM_PASSED_CODE] = " without changes that plimsoll cannot write",
    [PLIM_PASSED_LIGER] = " without Liger-Kernel, which your code would have to turn on"};

// The same as the start of the sentence that tells how fast it would be.
static const char *const faster_with[] = {[PLIM_PASSED_NONE] = "",
                                          [PLIM_PASSED_HOST] = "faster with offload",
                                          [PLIM_PASSED_WAY] = "faster with another strategy",
                                          [PLIM_PASSED_CODE] =
                                              "faster with changes that you make yourself",
                                          [PLIM_PASSED_LIGER] = "faster with Liger-Kernel"};

static void print_first(const plan_for_card *c) {
  const plim_plan *p = &c->plan;
  const char *learned = p->concedes ? " and changes as little as possible of what the model learns"
                        : is_any_allowed(&c->asked) ? " without changing what the model learns"
                                                    : "";
  char line[320];
  const char *what = p->is_held ? "is predicted to need no more memory than your settings" : "fits";
  snprintf(line, sizeof line, "of %zu candidates, the fastest that %s%s%s%s", p->tried, what,
           learned, *learned && p->passed ? " and" : "", left_out[p->passed]);
  printf("%10s", "");
  sentence(line);
}

static bool is_batch(plim_knob knob) {
  return knob == PLIM_KNOB_MICRO_BATCH || knob == PLIM_KNOB_ACCUMULATE;
}

// Writes the settings that differ: "16 x 1, strategy zero3, offload parameters".
size_t plan_list_settings(const plim_choice *from, const plim_choice *to, char *text, size_t size) {
  size_t used =
      (size_t)snprintf(text, size, "%lld x %lld", (long long)to->at[PLIM_KNOB_MICRO_BATCH],
                       (long long)to->at[PLIM_KNOB_ACCUMULATE]);
  for (size_t i = 0; i < plim_plan_knob_count && used < size; i++) {
    plim_knob knob = plim_plan_knobs[i];
    char value[96];
    if (from->at[knob] == to->at[knob] || is_batch(knob) || knob == PLIM_KNOB_ALLOC_CONF) continue;
    plim_knob_value_text(knob, to->at[knob], value, sizeof value);
    used +=
        (size_t)snprintf(text + used, size - used, ", %s %s", plim_knob_table[knob].name, value);
  }
  return used < size ? used : size - 1;
}

static double times_the_speed(const plim_rung *x, const plim_rung *than) {
  return x->tokens_per_second / than->tokens_per_second;
}

// Writes the options that make the plan choose these settings: " --fix liger=on".
static void list_flags(const plim_choice *from, const plim_choice *to, char *text, size_t size) {
  size_t used = 0;
  *text = 0;
  for (size_t i = 0; i < plim_plan_knob_count && used < size; i++) {
    plim_knob knob = plim_plan_knobs[i];
    char value[96];
    if (from->at[knob] == to->at[knob] || knob == PLIM_KNOB_ALLOC_CONF) continue;
    if (knob == PLIM_KNOB_ACCUMULATE) continue; // follows from the micro batch
    plim_knob_value_text(knob, to->at[knob], value, sizeof value);
    used += (size_t)snprintf(text + used, size - used, " --fix %s=%s", plim_knob_table[knob].name,
                             value);
  }
}

static void print_faster(const plim_plan *p) {
  char line[768], speed[80], settings[256], flags[256];
  if (p->passed == PLIM_PASSED_NONE) return;
  plan_list_settings(&p->rungs.at[0].choice, &p->faster.choice, settings, sizeof settings);
  list_flags(&p->rungs.at[0].choice, &p->faster.choice, flags, sizeof flags);
  if (p->effective_batch)
    snprintf(speed, sizeof speed, "%s per step", units_seconds(p->faster.step_seconds).text);
  else // steps of different batches do not compare
    snprintf(speed, sizeof speed, "%s tokens per second",
             units_count((uint64_t)p->faster.tokens_per_second).text);
  snprintf(line, sizeof line, "%s: %s (%.2f x the speed) with batch %s; to use it, add%s",
           faster_with[p->passed], speed, times_the_speed(&p->faster, &p->rungs.at[0]), settings,
           flags);
  printf("%10s", "");
  sentence(line);
}

// Prints the faster choice that was rejected because it fits only if the prediction is exact.
static void print_tight(const plan_for_card *c) {
  const plim_plan *p = &c->plan;
  char line[640], tight[PLAN_TIGHT_SIZE];
  const plim_rung *first = &p->rungs.at[0];
  const plim_estimate *e = &p->tight.e;
  if (!(times_the_speed(&p->tight, first) > 1.01)) return;
  plan_why_tight(c, e, tight, sizeof tight);
  char settings[256];
  plan_list_settings(&first->choice, &p->tight.choice, settings, sizeof settings);
  snprintf(line, sizeof line,
           "faster, but not safe: batch %s would run at %.2f x the speed and "
           "needs %s; %s",
           settings, times_the_speed(&p->tight, first), units_bytes(e->device_bytes).text, tight);
  printf("%10s", "");
  sentence(line);
}

static void print_own_sharding(const plim_plan *p) {
  const plim_rung *x = &p->own_sharding;
  char line[320];
  if (!(x->tokens_per_second > 0)) return;
  const int64_t *at = x->choice.at;
  bool is_kept = at[PLIM_KNOB_STRATEGY] == p->rungs.at[0].choice.at[PLIM_KNOB_STRATEGY];
  plim_knob knob = is_kept ? PLIM_KNOB_OFFLOAD : PLIM_KNOB_STRATEGY;
  snprintf(line, sizeof line, "with your current %s (%s), batch %lld x %lld fits: %s, %s per step",
           plim_knob_table[knob].name, at[knob] ? plim_knob_value_name(knob, at[knob]) : "none",
           (long long)at[PLIM_KNOB_MICRO_BATCH], (long long)at[PLIM_KNOB_ACCUMULATE],
           units_bytes(x->e.device_bytes).text, units_seconds(x->step_seconds).text);
  printf("%10s", "");
  sentence(line);
}

void plan_print_preference(const plan_for_card *c) {
  print_first(c);
  print_faster(&c->plan);
  if (c->asked.margin < 0) print_tight(c);
  print_own_sharding(&c->plan);
}

// ---- how to read it ---------------------------------------------------------------------------------

void plan_print_sum(const plan_for_card *c) {
  size_t rows = 0;
  for (size_t i = 0; i < c->plan.changes.len; i++) rows += !c->plan.changes.at[i].follows;
  if (rows < 2) return;
  term_wrap(
      stdout,
      "memory and time: the plan compared with the same plan without that change (rows do not add "
      "up)",
      0, 0, (size_t)term_width(stdout));
}

void plan_print_moments(const plan_for_card *c) {
  char now[128], planned[128], line[320];
  estimate_place(&c->plan.before.p.peak_at, now, sizeof now);
  estimate_place(&c->plan.rungs.at[0].e.p.peak_at, planned, sizeof planned);
  if (strcmp(now, planned) == 0) return;
  snprintf(line, sizeof line, "peak now: %s; peak planned: %s", now, planned);
  term_wrap(stdout, line, 0, 0, (size_t)term_width(stdout));
}

void plan_print_reproduce(const plan_for_card *c) {
  char line[256];
  if (c->reproduce) printf("\nto predict this plan again:\n%s\n", c->reproduce);
  if (c->reproduce || !c->no_reproduce) return;
  snprintf(
      line, sizeof line,
      "there is no plimsoll estimate command for this plan, because estimate has no option for %s",
      c->no_reproduce);
  printf("\n");
  term_wrap(stdout, line, 0, 0, (size_t)term_width(stdout));
}
