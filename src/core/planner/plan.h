// The planner: the fastest settings that fit, with what is learned left as it is, and the ladder of
// slower and smaller ones below.
//
//   plim_plan plan;
//   plim_err err = plim_plan_make(&request, &plan, &error);
//   if (plan.rungs.len) plan.rungs.at[0];   // the chosen one
//   plim_plan_clear(&plan);
#ifndef PLIM_CORE_PLAN_H
#define PLIM_CORE_PLAN_H

#include "estimate.h"
#include "knobs.h"

// No batch up to PLIM_MAX_BATCH has more divisors than 240 (720,720 does), so none is left out.
enum { PLIM_MAX_VALUES = 256, PLIM_MAX_BATCH = 1 << 20, PLIM_OFFLOADS = 4 };

// The values a knob may take, in the planner's terms; see plim_knob_value_of.
typedef struct {
  int count; // 0: the planner's own choice
  int64_t at[PLIM_MAX_VALUES];
} plim_domain;

// Settings of one candidate, by knob. What a value means depends on the knob: a count (micro_batch,
// accumulate, chunked_loss, sequence, lora_rank), or the place in a list of names
// (plim_knob_value_name).
typedef struct {
  int64_t at[PLIM_KNOBS];
} plim_choice;

// Knobs the planner turns, in the order their changes are told.
extern const plim_knob plim_plan_knobs[];
extern const size_t plim_plan_knob_count;

// The value in words ("expandable_segments:True", "on"), for knobs whose values are a list; NULL for
// counts, and behind the last.
const char *plim_knob_value_name(plim_knob knob, int64_t value);
// The value of a text; false if the knob has none of that name.
bool plim_knob_value_of(plim_knob knob, const char *text, int64_t *value);

typedef struct {
  plim_job job; // as the user has it, with its own micro batch and accumulation
  const char *alloc_conf;
  plim_target target;       // conf is not used
  uint64_t effective_batch; // sequences per optimizer step; 0: any, as many tokens as possible
  int world;                // GPUs
  double margin;            // share of the memory to leave free; negative: the interval's
  plim_domain domains[PLIM_KNOBS]; // what --fix and --try say
  bool allowed[PLIM_KNOBS];        // of the knobs that change what is learned
  // Ways to share that the user would have to set up by hand, by the values of strategy and offload.
  bool by_hand[PLIM_STRATEGIES][PLIM_OFFLOADS];
  bool quantises_once; // nf4 is what the files have a word for, nf4-double is not
  bool checkpoint_by_hand, optimizer_by_hand; // the same of checkpoints and states on the host
  bool conf_by_hand;                          // and of the allocator's settings
  bool holds_others;                          // knobs without a domain stay as they are
  bool is_contrastive;                        // the loss compares within a micro batch, or
  bool has_batch_norm; // the model does: micro_batch then changes what is learned
  bool offers_liger;   // the user's files can turn Liger-Kernel on: better than a loss of one's own
  int64_t chunk_tokens; // of a loss in chunks that the user's files can turn on; 0: one's own
  int64_t positives, negatives; // sequences that come with each of the batch, encoded with it
} plim_plan_request;

// Whether this way to share may be tried, as far as by_hand does not say otherwise.
bool plim_plan_may_share(const plim_plan_request *r, int64_t strategy, int64_t offload);

typedef struct {
  plim_choice choice;
  int changes; // knobs that differ from the user's settings
  int passes;  // of a step, at most, that were run
  plim_estimate e;
  double step_seconds; // of the whole effective batch; NaN: the card's rates are not known
  double tokens_per_second;
} plim_rung;

// One knob that differs from the user's settings, and what turning it back would do. Some go together:
// accumulation with the micro batch, the type of frozen parameters with that of products.
typedef struct {
  plim_knob knob;
  plim_knob with; // turned back together with it; PLIM_KNOBS: none
  bool follows;   // `with` has the figures of both
  bool is_asked;  // without it, the batch is not the one to keep
  int64_t from, to;
  int64_t saves_bytes;  // of the device, negative: it costs
  double costs_seconds; // per step, negative: it saves; NaN: not known
  bool is_needed;       // without it, it does not fit
} plim_plan_change;

// A change of what is learned, which was not allowed, and what it would buy: of the plan, or, where
// nothing fits, of the smallest that there is. Where no single one is enough, several go together.
enum { PLIM_MAX_CONCEDED = 8 };

typedef struct {
  int count; // of knobs
  plim_knob knob[PLIM_MAX_CONCEDED];
  int64_t from[PLIM_MAX_CONCEDED], to[PLIM_MAX_CONCEDED];
  bool fits;             // with this and the best of the other knobs
  uint64_t device_bytes; //
  int64_t saves_bytes;   // against the plan; negative: it costs
  double tokens_per_second;
  bool is_instead; // of what the plan moves to the host
} plim_concession;

// Why something faster is not first.
typedef enum {
  PLIM_PASSED_NONE,
  PLIM_PASSED_HOST,
  PLIM_PASSED_WAY,
  PLIM_PASSED_CODE,
  PLIM_PASSED_LIGER // nothing in the user's files turns it on
} plim_passed;

typedef struct {
  plim_choice before_choice;
  plim_estimate before; // the user's own settings, with the time of a whole step
  vec(plim_rung)
      rungs; // each smaller than the one before, the first to take first; empty: nothing fits
  vec(plim_plan_change) changes; // of the first rung
  vec(plim_concession) concessions;
  plim_passed
      passed; // something is faster than the first rung by more than the clock's error, and why
  plim_rung faster; // it is not the first
  plim_rung
      tight; // the fastest that fits, but not surely, and asks for no more than the first; or empty
  plim_rung
      own_sharding; // the fastest that shares as the user does, where the first does not; or empty
  plim_rung smallest; // of what was tried, fitting or not
  bool is_tight;      // nothing is sure to fit, though the smallest would: the margin is in the way
  bool concedes;      // something changes what is learned, as it was allowed
  bool is_beyond;     // nothing fits, and nothing would with all that could be allowed
  size_t tried;
  uint64_t effective_batch;
} plim_plan;

plim_err plim_plan_make(const plim_plan_request *request, plim_plan *out, plim_error *error);
void plim_plan_clear(plim_plan *plan);

// The card computes in bf16 only by emulating it: those before Ampere.
bool plim_plan_lacks_bf16(const plim_plan_request *request);

// The user's own settings; and with the types of numbers that the card is fastest with.
plim_choice plim_plan_own_choice(const plim_plan_request *request);
plim_choice plim_plan_best_types(const plim_plan_request *request);

// Sequences that go through the model for each of the batch: an anchor, one of its positives at a time,
// and its negatives. (The project behind tests/fixtures/seed3 estimated 51.5 and 21.4 GB at 24 and at 8
// negatives, which fits that, and not all positives at once; nobody measured it.)
int64_t plim_sequences_per_anchor(int64_t positives, int64_t negatives);
int64_t plim_choice_sequences(const plim_choice *choice);

// The job of a choice, and its allocator settings.
// Passes per step, at most, of what a plan shows: the others do the same again.
enum { PLIM_SHOWN_PASSES = 8 };
plim_job plim_choice_job(const plim_plan_request *request, const plim_choice *choice);
const char *plim_choice_conf(const plim_plan_request *request, const plim_choice *choice);

// What a choice takes, as a rung would show it.
plim_err plim_choice_estimate(const plim_plan_request *request, const plim_choice *choice,
                              plim_estimate *out, plim_error *error);

// Looks at a plan from outside: does the batch multiply out, does the budget add up, does the peak fit, is
// every knob one of its values to try, is nothing changed that was not allowed. PLIM_OK, or what is wrong.
plim_err plim_plan_check(const plim_plan_request *request, const plim_plan *plan,
                         plim_error *error);

#endif
