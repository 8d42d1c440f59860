// Shared by the files of the planner:
//   plan.c                 the plan as a whole
//   plan_run.c             runs one candidate
//   plan_concessions.c     concession levels: the least that must be conceded for something to fit
//   candidate_families.c   candidate families of a level, and how one is searched
//   plan_search.c          searches a level for everything that could be best
//   plan_fallbacks.c       searches a level for small candidates
//   plan_order.c           which candidate is preferred
//   plan_ladder.c          the rungs
//   plan_changes.c         the effect of each change
//   plan_offers.c          what changes that were not allowed would gain
//   plan_values.c          knobs as numbers
//   plan_domains.c         the values that may be tried
//   plan_precision.c       dtypes as knobs
//   contrastive_counts.c   sequences of contrastive losses
//   plan_check.c           checks a plan independently
//   plan_refusal.c         explains why there is no plan
#ifndef PLIM_CORE_PLAN_IMPL_H
#define PLIM_CORE_PLAN_IMPL_H

#include "plan.h"

enum { PLIM_CONF_AS_IS, PLIM_CONF_EXPANDABLE }; // values of alloc_conf; those of offload follow
enum {
  PLIM_OFFLOAD_NONE,
  PLIM_OFFLOAD_OPTIMIZER,
  PLIM_OFFLOAD_PARAMETERS,
  PLIM_OFFLOAD_ACTIVATIONS
};

// ---- concession levels ------------------------------------------------------------------------------

// What may be moved to the host in addition to what the user has there; none of it changes what the model learns.
typedef struct {
  bool activations, optimizer, parameters;
} plim_offload_scope;

// A concession level: one value for each knob that changes what the model learns. All other knobs are free.
typedef struct {
  const plim_plan_request *r;
  plim_offload_scope scope;
  plim_choice at;
  bool is_easy;  // nothing more on the host and no custom code
  bool is_brief; // only the fastest candidate is wanted, and what is nearly as fast may be missed
  int cost;      // see plan_concessions.c
} plim_concessions;

// The knobs that may change what the model learns, the least harmful first.
extern const plim_knob plim_conceded_knobs[];
extern const size_t plim_conceded_knob_count;

// Whether changing this knob changes what the model learns in this job.
bool plim_knob_changes_learning(const plim_plan_request *r, plim_knob knob);
// The knob's values, the least harmful first: those the request allows or names; with `is_offered`, those that it could
// allow.
plim_domain plim_knob_concessions(const plim_plan_request *r, plim_knob knob, bool is_offered);

// The user's number per anchor, then smaller numbers.
plim_domain plim_fewer_per_anchor(int64_t own);

// The free values of a knob on a level, the most promising first.
plim_domain plim_concession_domain(const plim_concessions *concessions, plim_knob knob);
bool plim_may_be(const plim_domain *d, int64_t value); // true if d contains it or is empty
bool plim_could_use_liger(const plim_plan_request *r); // possibly only with custom code
bool plim_can_use_liger(const plim_plan_request *r);   // the user's files can turn it on
int64_t plim_optimizer_on_card(int64_t optimizer);     // the same algorithm without managed memory
void plim_domain_push(plim_domain *d, int64_t value);  // unless it is already there

// A sharding strategy together with what is offloaded to the host.
typedef struct {
  int64_t strategy, offload;
} plim_sharing_mode;

int plim_way_place(const plim_choice *choice); // 0: the one that communicates least
enum { PLIM_MAX_SHARING_MODES = PLIM_STRATEGIES * PLIM_OFFLOADS };
size_t plim_concession_sharings(const plim_concessions *concessions,
                                plim_sharing_mode out[PLIM_MAX_SHARING_MODES]);

// Whether the choice is consistent: its knobs do not contradict each other.
bool plim_choice_is_sound(const plim_plan_request *r, const plim_choice *choice);

// Whether only float32 adapters are trained.
bool plim_base_is_frozen(const plim_plan_request *r);
// The knobs precision and dtype.
void plim_precision_of(const plim_job *job, plim_choice *choice);
void plim_precision_set(const plim_choice *choice, plim_job *job); // call after the strategy is set
int64_t plim_precision_offered(const plim_plan_request *r); // a value in addition to the user's own
int64_t plim_dtype_offered(const plim_plan_request *r);     // the same
bool plim_precision_is_sound(const plim_plan_request *r, const plim_choice *choice);

// ---- a search ---------------------------------------------------------------------------------------

// Times that differ by less than this count as equal: the clock is not more accurate.
#define PLIM_SAME_TIME 0.01
// The same as a function: smaller if any batch is accepted, because then only speed matters.
double plim_same_time(const plim_plan_request *r);

// A candidate that runs out of memory.
typedef struct {
  plim_choice choice;
  bool is_hopeless; // its live tensors alone are too large: no allocator settings help
  bool is_loading;  // while the model is loaded
} plim_failure;

// A candidate for which PyTorch would reserve more than this; how much more is not known.
typedef struct {
  plim_choice choice;
  uint64_t bytes;
  bool is_loading; // while the model is loaded
} plim_excess;

typedef struct {
  const plim_plan_request *r;
  plim_plan *plan;
  vec(plim_rung) tried;     // every candidate that ran
  vec(plim_rung) shown;     // every candidate that ran in full
  vec(plim_choice) refused; // candidates that are not supported
  vec(plim_failure) out;    // candidates that run out of memory
  vec(plim_excess) large;   // candidates that were not run to the end
  vec(plim_rung) fitting;   // candidates that fit on the current level
  plim_rung before;         // the user's own settings, run in full
  double fastest, surest;   // tokens per second of what fits; and weighted by plim_worth
  double untold;            // `fastest` before candidates were tried that can only be reported
  bool failed;              // err says why
  plim_err err;
  plim_error *error;
} plim_search;

// In a search, two forward passes per step represent all of them.
enum { PLIM_SEARCH_PASSES = 2 };

// Runs a candidate with fewer steps and passes than it is shown with. Returns NULL if it is not supported or the search
// failed. The result is valid until the next call.
const plim_rung *plim_search_run(plim_search *s, const plim_choice *choice);
// The same; NULL also if it needs so many bytes or more, unless that is 0.
const plim_rung *plim_search_below(plim_search *s, const plim_choice *choice, uint64_t below);
// The same as plim_search_run, for the time only: the candidate need not be an allowed one.
const plim_rung *plim_search_time(plim_search *s, const plim_choice *choice);
// NULL if it does not run out of memory. Faster than computing how much it needs. Valid until the next call.
const plim_failure *plim_search_failure(plim_search *s, const plim_choice *choice);
// Runs a candidate with the passes that a plan shows. Returns false if the search failed.
bool plim_search_show(plim_search *s, const plim_choice *choice, plim_rung *out);

// Whether the choice changes what the model learns; `unasked`: in a way that is not allowed.
bool plim_choice_concedes(const plim_search *s, const plim_choice *choice, bool unasked);

// Whether no allocator settings could make it safe, because its live tensors alone are too large.
bool plim_is_hopeless(const plim_plan_request *r, const plim_estimate *e);

// Fills `fitting` with all candidates on the level that fit and could be the best or a lower rung.
void plim_search_concessions(plim_search *s, const plim_concessions *concessions);
// plim_search_small adds, for each sharding, the smallest candidate and the largest that needs at most `most` bytes.
// plim_search_near adds the neighbours of a choice.
void plim_search_small(plim_search *s, const plim_concessions *concessions, uint64_t most);
void plim_search_near(plim_search *s, const plim_concessions *concessions,
                      const plim_choice *choice);
bool plim_concession_fits(plim_search *s, const plim_concessions *concessions);
// The same. Also sets *smallest to a small candidate that fits, or to the smallest of those that need less than `below`
// bytes (0: of all); its device_bytes are 0 if there is none.
bool plim_concession_smallest(plim_search *s, const plim_concessions *concessions, uint64_t below,
                              plim_rung *smallest);
// Sets the accumulation that gives the effective batch; returns false if there is no allowed one.
bool plim_set_accumulation(const plim_plan_request *r, plim_choice *choice);

// Finds the level with the fewest concessions, of those allowed or offered, on which something fits; returns false if
// there is none. *from is the position to continue at, 0 at first.
typedef struct {
  bool is_offered;       // searches what could be allowed
  bool is_easy, on_card; // see plim_concessions; on_card: nothing more on the host
} plim_concession_kind;
bool plim_find_concessions(plim_search *s, plim_concession_kind kind, size_t *from,
                           plim_concessions *out);
// The level without concessions, and the one with everything that is allowed, or that could be (is_offered).
plim_concessions plim_concession_of(const plim_search *s);
plim_concessions plim_concession_of_all(const plim_search *s, bool is_offered);
plim_offload_scope plim_offload_scope_of(const plim_search *s); // everything that would help
void plim_list_concessions(plim_search *s);                     // plan_offers.c
// Explains why none of the candidates that may be tried can run (plan_refusal.c). Fills the error.
plim_err plim_search_refuse(const plim_search *s, plim_error *error);

// ---- preferences (plan_order.c) ---------------------------------------------------------------------

// Whether it needs no more in evaluation than the last rung needs in all: a fallback that does would be none.
bool plim_evaluates_below(const plim_plan *plan, const plim_rung *x);

// What the user must do outside the files: custom code, and lines in an environment.
typedef struct {
  int code, lines;
} plim_hand_work;
plim_hand_work plim_hand_work_of(const plim_plan_request *r, const plim_choice *choice);
// Whether it moves to the host what the user has on the card; whether it shards in another way.
bool plim_goes_to_host(const plim_plan_request *r, const plim_choice *choice);
bool plim_is_another_sharding(const plim_plan_request *r, const plim_choice *choice);
// The fraction of its speed that counts: less if it rests on rates of another machine or needs manual work.
double plim_worth(const plim_plan_request *r, const plim_choice *choice);
// Why a faster choice is not the first rung.
plim_passed plim_why_passed(const plim_plan_request *r, const plim_choice *choice,
                            const plim_choice *first);
// The best candidate that needs at most `most` bytes and is no faster than `no_faster`; NULL if there is none.
const plim_rung *plim_pick(const plim_search *s, uint64_t most, double no_faster);
// The weighted speed of that candidate.
double plim_surest(const plim_search *s, uint64_t most, double no_faster);

// Whether the user's attention cannot run on this card (the error says why) and PyTorch's can.
bool plim_attention_is_refused(const plim_plan_request *r, plim_error *error);
bool plim_own_is_possible(
    const plim_search *s); // the user's own settings are among those asked for
bool plim_own_is_candidate(const plim_search *s); // the same, and they fit
// Builds the rungs from `fitting`. Returns false if the level must be searched again, because what it found does not fit
// when it is run in full.
bool plim_build_ladder(plim_search *s, const plim_concessions *concessions);

// ---- effects of changes (plan_changes.c) ------------------------------------------------------------

// The choice with one knob, and the knob that belongs to it, reset to the user's values.
plim_choice plim_reverted(const plim_search *s, const plim_choice *choice, plim_knob knob);
bool plim_follows(const plim_choice *own, const plim_choice *choice, plim_knob knob);
bool plim_has_its_batch(const plim_plan_request *r, const plim_choice *c);
void plim_explain_changes(plim_search *s);

#endif
