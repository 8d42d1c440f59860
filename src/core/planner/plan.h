// The planner: finds the fastest settings that fit without changing what the model learns, and a ladder of slower
// settings that need less memory.
//
//   plim_plan plan;
//   plim_err err = plim_plan_make(&request, &plan, &error);
//   if (plan.rungs.len) plan.rungs.at[0];   // the chosen settings
//   plim_plan_clear(&plan);
#ifndef PLIM_CORE_PLAN_H
#define PLIM_CORE_PLAN_H

#include "estimate.h"
#include "knobs.h"

// A batch of up to PLIM_MAX_BATCH has at most 240 divisors (720,720 has that many), so no divisor is left out.
enum { PLIM_MAX_VALUES = 256, PLIM_MAX_BATCH = 1 << 20, PLIM_OFFLOADS = 4 };

// The values that a knob may take, as numbers; see plim_knob_value_of.
typedef struct {
  int count; // 0: the planner chooses
  int64_t at[PLIM_MAX_VALUES];
} plim_domain;

// The settings of one candidate, indexed by knob. A value is a count (micro_batch, accumulate, chunked_loss, sequence,
// lora_rank) or an index into a list of names (plim_knob_value_name).
typedef struct {
  int64_t at[PLIM_KNOBS];
} plim_choice;

// The knobs that the planner changes, in the order in which changes are listed.
extern const plim_knob plim_plan_knobs[];
extern const size_t plim_plan_knob_count;

// The name of a value ("expandable_segments:True", "on") for knobs whose values are a list; NULL for counts, and
// after the last value.
const char *plim_knob_value_name(plim_knob knob, int64_t value);
// The value with that name; returns false if the knob has none.
bool plim_knob_value_of(plim_knob knob, const char *text, int64_t *value);
// The value as every text writes it and --fix reads it: "512", "on", "off" for a loss that is not chunked.
void plim_knob_value_text(plim_knob knob, int64_t value, char *text, size_t size);
// What --fix accepts: "off, on, reentrant, offloaded"; "off, or a number from 1 to 1048576".
void plim_knob_values_text(plim_knob knob, char *text, size_t size);
// The name of the knob's value that is most like a mistyped one; NULL if none is close.
const char *plim_knob_value_near(plim_knob knob, const char *text);

// Candidates that an earlier plan has run, so that a plan of the same job with other domains need not run them again.
typedef struct {
  plim_choice choice;
  int passes;
  plim_estimate e;
} plim_known_estimate;
typedef vec(plim_known_estimate) plim_known_estimates;

// Values of two knobs that the user's framework refuses together. Each is a list of names, separated by spaces. With the
// same knob and value twice, it has no such value.
typedef struct {
  plim_knob knob[2];
  const char *values[2];
  const char *why;     // a sentence without a full stop
  const char *instead; // what it has in place of that: "--fix offload=activations"; NULL: nothing
} plim_refused_pair;
enum { PLIM_MAX_REFUSED = 8 };

typedef struct {
  plim_job job; // the user's job, with its own micro batch and accumulation
  const char *alloc_conf;
  plim_target target;       // its conf is not used
  uint64_t effective_batch; // sequences per optimizer step; 0: any, for the most tokens per second
  int world;                // number of GPUs
  double margin;            // fraction of the memory to leave free; negative: use the interval
  bool
      errs_low; // runs need more memory than predicted: if the user's settings fit, no candidate may need more than they
  // A part of the training is not predicted: what images or sound need. It grows with the micro batch, without checkpoints, and
  // with less sharding or offload: unless the user asks for such a value, no candidate may keep more of it than the user's
  // settings.
  bool omits_part;
  uint64_t
      most_bytes; // the most that a candidate may need for that reason; 0: not limited. Set by plim_plan_make.
  plim_domain domains[PLIM_KNOBS]; // the values of --fix and --try
  bool allowed[PLIM_KNOBS];        // for knobs that change what the model learns
  // Whether the user would have to set up this sharding manually; indexed by the values of strategy and offload.
  bool by_hand[PLIM_STRATEGIES][PLIM_OFFLOADS];
  // The files decide how GPUs share the model, and what is set up by hand would come beside it.
  bool shares_in_files;
  // Candidates with such a pair are not tried.
  plim_refused_pair refused[PLIM_MAX_REFUSED];
  size_t refused_count;
  bool quantises_once; // the files can express nf4, but not nf4-double
  // The files cannot express optimizer state on the host, or the allocator's settings.
  bool optimizer_by_hand, conf_by_hand;
  bool holds_others; // knobs without a domain keep the user's value
  bool only_first;   // only the first rung is wanted: no others, and nothing to compare it with
  // The loss compares sequences within a micro batch, or the model has batch norm: micro_batch then changes what the
  // model learns.
  bool is_contrastive;
  bool has_batch_norm;
  bool packs_samples; // rows of the same number of tokens
  // The user's files can turn Liger-Kernel on: better than custom code for the loss.
  bool offers_liger;
  bool turns_on_reentrant;   // checkpoints that the files turn on are reentrant
  bool on_is_reentrant;      // and the files have no word for that
  bool can_say_reentrant;    // the files can turn other checkpoints into reentrant ones
  bool keeps_host_optimizer; // DeepSpeed's zero_force_ds_cpu_optimizer is off
  int64_t chunk_tokens; // of a chunked loss that the files can turn on; 0: it needs custom code
  int64_t positives, negatives; // sequences encoded along with each sequence of the batch
  // What evaluation during training, which is not on the tape, needs at least, if that is more than what training needs;
  // else 0. NULL: there is none. The argument `of` is evaluation_of.
  uint64_t (*evaluation_bytes)(const void *of, const plim_job *job, const plim_estimate *e);
  const void *evaluation_of;
  // Used and extended. Only requests that differ in nothing but their domains may share one; NULL: none.
  plim_known_estimates *known;
} plim_plan_request;

// Whether the size of a micro batch changes what the model learns: a contrastive loss, batch norm, or KTO, which
// estimates its divergence from one micro batch.
bool plim_plan_compares_batch(const plim_plan_request *r);

// Whether it fits and leaves the margin free.
bool plim_is_safe(const plim_plan_request *r, const plim_estimate *e);

// Whether the run's own allocator settings are expandable_segments:True: then "unchanged" is the only name for them.
bool plim_plan_has_expandable(const plim_plan_request *r);

// Whether this sharding may be tried, not considering by_hand.
bool plim_plan_may_share(const plim_plan_request *r, int64_t strategy, int64_t offload);

typedef struct {
  plim_choice choice;
  int changes; // knobs that differ from the user's settings
  int passes;  // the most passes of a step that were run
  plim_estimate e;
  uint64_t evaluation_bytes; // that evaluation needs at least; 0: not more than training
  double step_seconds;       // for the whole effective batch; NaN: the card's rates are not known
  double tokens_per_second;
} plim_rung;

// One knob that differs from the user's settings, and the effect of reverting it. Some knobs are reverted together:
// accumulation with the micro batch, the dtype of frozen parameters with the precision of products.
typedef struct {
  plim_knob knob;
  plim_knob with;            // reverted together with it; PLIM_KNOBS: none
  bool follows;              // the figures of both are listed under `with`
  bool is_asked;             // without it the effective batch would be wrong
  bool cannot_run_otherwise; // on this card: there are no figures
  int64_t from, to;
  int64_t saves_bytes;  // on the device; negative: it costs memory
  double costs_seconds; // per step; negative: it saves time; NaN: not known
  double gains_tokens;  // per second, where the step's batch is another; NaN: not known
  bool is_needed;       // without it the plan does not fit
} plim_plan_change;

// A change of what the model learns that was not allowed, and what it would gain compared with the plan or, if nothing
// fits, with the smallest candidate. If no single change is enough, several are combined.
enum { PLIM_MAX_CONCEDED = 8 };

typedef struct {
  int count; // number of knobs
  plim_knob knob[PLIM_MAX_CONCEDED];
  int64_t from[PLIM_MAX_CONCEDED], to[PLIM_MAX_CONCEDED];
  plim_estimate e;       // together with the best values of the other knobs
  bool fits;             // it does, and leaves the margin free
  uint64_t device_bytes; // memory that a card must have for it
  int64_t saves_bytes;   // compared with the plan; negative: it costs memory
  double tokens_per_second;
  bool is_instead;           // replaces what the plan moves to the host
  int64_t strategy, offload; // with which e is
} plim_concession;

// Why a faster candidate is not the first rung.
typedef enum {
  PLIM_PASSED_NONE,
  PLIM_PASSED_HOST,
  PLIM_PASSED_WAY,
  PLIM_PASSED_CODE,
  PLIM_PASSED_LIGER // the user's files cannot turn it on
} plim_passed;

// Candidates that could not be tried because the tape does not have them yet. The texts are constants.
enum { PLIM_MAX_UNTRIED = 4 };
typedef struct {
  const char *setting, *why; // as plim_job_is_unmodelled gives them
  bool concedes; // only together with changes of what the model learns that are not allowed
} plim_untried;

typedef struct {
  plim_choice before_choice;
  plim_estimate before; // of the user's own settings, with the time of a whole step
  // Why the user's own attention cannot run on this card; `before` is then with PyTorch's. "": it can.
  char own_refusal[160];
  // Best first; each needs less memory than the one before, and its evaluation no more than that one in all. Empty: nothing
  // fits.
  vec(plim_rung) rungs;
  vec(plim_plan_change) changes; // of the first rung
  vec(plim_concession) concessions;
  // If something is faster than the first rung by more than the clock's error: why it is not first, and what it is.
  plim_passed passed;
  plim_rung faster;
  // The fastest that fits only within the error margin and asks no more of the user than the first rung; or empty.
  plim_rung tight;
  // The fastest with the user's own sharding, if the first rung shards differently; or empty.
  plim_rung own_sharding;
  plim_rung smallest; // of all candidates tried, fitting or not
  plim_rung
      least; // the smallest with everything that could be allowed, if that does not fit either; or empty
  bool is_tight;  // the smallest would fit, but only within the error margin
  bool concedes;  // the plan uses allowed changes of what the model learns
  bool is_held;   // no candidate was to need more memory than the user's settings (errs_low)
  bool is_beyond; // nothing fits, not even with everything that could be allowed
  size_t tried;
  plim_untried untried[PLIM_MAX_UNTRIED];
  size_t untried_count;
  uint64_t effective_batch;
} plim_plan;

plim_err plim_plan_make(const plim_plan_request *request, plim_plan *out, plim_error *error);
void plim_plan_clear(plim_plan *plan);

// Whether the card can only emulate bf16: cards before Ampere.
bool plim_plan_lacks_bf16(const plim_plan_request *request);

// The user's own settings, and the same with the dtypes that are fastest on the card.
plim_choice plim_plan_own_choice(const plim_plan_request *request);
// The pair of request->refused that the choice has; NULL: none.
const plim_refused_pair *plim_plan_refused(const plim_plan_request *request,
                                           const plim_choice *choice);
plim_choice plim_plan_best_types(const plim_plan_request *request);

// Sequences that go through the model for each anchor of the batch: the anchor, one of its positives at a time, and its
// negatives. (The project behind tests/fixtures/seed3 estimated 51.5 and 21.4 GB for 24 and 8 negatives, which agrees
// with this and not with all positives at once; it was not measured.)
int64_t plim_sequences_per_anchor(int64_t positives, int64_t negatives);
int64_t plim_choice_sequences(const plim_choice *choice);

// The most passes per step of what a plan shows; further passes repeat.
enum { PLIM_SHOWN_PASSES = 8 };
// The job of a choice, and its allocator settings.
plim_job plim_choice_job(const plim_plan_request *request, const plim_choice *choice);
const char *plim_choice_conf(const plim_plan_request *request, const plim_choice *choice);

// The estimate of a choice, as a rung would show it.
plim_err plim_choice_estimate(const plim_plan_request *request, const plim_choice *choice,
                              plim_estimate *out, plim_error *error);

// Checks a plan independently of the search: the batch multiplies out, the budget adds up, the peak fits, every knob
// has one of the values to try, and nothing is changed that was not allowed. Returns PLIM_OK or what is wrong.
plim_err plim_plan_check(const plim_plan_request *request, const plim_plan *plan,
                         plim_error *error);

#endif
