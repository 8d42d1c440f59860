// What the parts of the planner share: plan.c (the plan as a whole), plan_run.c (one candidate),
// candidate_families.c, plan_search.c and plan_fallbacks.c (all that fit on a level), plan_concessions.c (levels: what is conceded), plan_offers.c (what was
// not allowed), plan_order.c (what is preferred), plan_ladder.c (rungs), plan_changes.c (what their changes
// do), plan_values.c (knobs as numbers), plan_domains.c (what may be tried), plan_precision.c (types of
// numbers), contrastive_counts.c (what is compared), plan_check.c (a look from outside),
// plan_refusal.c (why there is no plan).
#ifndef PLIM_CORE_PLAN_IMPL_H
#define PLIM_CORE_PLAN_IMPL_H

#include "plan.h"

enum { PLIM_CONF_AS_IS, PLIM_CONF_EXPANDABLE }; // values of alloc_conf, and of offload:
enum {
  PLIM_OFFLOAD_NONE,
  PLIM_OFFLOAD_OPTIMIZER,
  PLIM_OFFLOAD_PARAMETERS,
  PLIM_OFFLOAD_ACTIVATIONS
};

// ---- levels -----------------------------------------------------------------------------------------

// What may go to the host beside what the user has there, without changing what is learned.
typedef struct {
  bool activations, optimizer, parameters;
} plim_offload_scope;

// What is conceded: one value for each knob that changes what is learned. The rest is free.
typedef struct {
  const plim_plan_request *r;
  plim_offload_scope scope;
  plim_choice at;
  bool is_easy; // nothing more on the host, no code of one's own
  int cost;     // see plan_concessions.c
} plim_concessions;

// Knobs that may change what is learned, those first that do so least.
extern const plim_knob plim_conceded_knobs[];
extern const size_t plim_conceded_knob_count;

// Turning it changes what is learned, in this job.
bool plim_knob_changes_learning(const plim_plan_request *r, plim_knob knob);
// Its values, the one that changes least first: those the request allows or names; or, if `is_offered`,
// those it could allow.
plim_domain plim_knob_concessions(const plim_plan_request *r, plim_knob knob, bool is_offered);

// The user's number per anchor, and fewer.
plim_domain plim_fewer_per_anchor(int64_t own);

// The free values of a knob on a level, those first that are likely to be best.
plim_domain plim_concession_domain(const plim_concessions *concessions, plim_knob knob);
bool plim_may_be(const plim_domain *d, int64_t value); // it is in there, or all are
bool plim_could_use_liger(const plim_plan_request *r); // by hand at least
bool plim_can_use_liger(const plim_plan_request *r);   // the user's files can turn it on
int64_t plim_optimizer_on_card(int64_t optimizer);     // the same without managed memory
void plim_domain_push(plim_domain *d, int64_t value);  // once

// Ways to share the work, and the host's part in it.
typedef struct {
  int64_t strategy, offload;
} plim_sharing_mode;

int plim_way_place(const plim_choice *choice); // from the one that sends least
enum { PLIM_MAX_SHARING_MODES = PLIM_STRATEGIES * PLIM_OFFLOADS };
size_t plim_concession_sharings(const plim_concessions *concessions,
                                plim_sharing_mode out[PLIM_MAX_SHARING_MODES]);

// The choice makes sense as a whole: its knobs do not contradict each other.
bool plim_choice_is_sound(const plim_plan_request *r, const plim_choice *choice);

// Only adapters of their own, in float32, are trained.
bool plim_base_is_frozen(const plim_plan_request *r);
// Of the knobs precision and dtype.
void plim_precision_of(const plim_job *job, plim_choice *choice);
void plim_precision_set(const plim_choice *choice, plim_job *job); // after the strategy is set
int64_t plim_precision_offered(const plim_plan_request *r);        // beside the user's own
int64_t plim_dtype_offered(const plim_plan_request *r);            // the same
bool plim_precision_is_sound(const plim_plan_request *r, const plim_choice *choice);

// ---- a search ---------------------------------------------------------------------------------------

// Times this close are the same: the clock is not better than that.
#define PLIM_SAME_TIME 0.01
double plim_same_time(const plim_plan_request *
                          r); // and where any batch will do, closer: speed is all that is asked for

typedef struct {
  const plim_plan_request *r;
  plim_plan *plan;
  vec(plim_rung) tried;     // every candidate that ran, once
  vec(plim_choice) refused; // those there is no program for
  vec(plim_choice) out;     // those that were found to run out
  vec(plim_rung) fitting;   // on the level that is searched
  plim_rung before;         // the user's own settings, run in full
  double fastest, surest;   // tokens per second of what fits; and with plim_worth
  double untold;            // fastest, before what can only be told is tried
  bool failed;              // err says why, or memory is out
  plim_err err;
  plim_error *error;
} plim_search;

// In a search, two forward passes per step stand for all of them.
enum { PLIM_SEARCH_PASSES = 2 };

// A candidate, with fewer steps and passes than it is shown with. NULL: there is no program for it, or
// the search failed. Valid until the next.
const plim_rung *plim_search_run(plim_search *s, const plim_choice *choice);
// The same for its time alone: it need not be one that may be.
const plim_rung *plim_search_time(plim_search *s, const plim_choice *choice);
// Whether it runs out of memory, which is found out faster than what it would take.
bool plim_search_runs_out(plim_search *s, const plim_choice *choice);
// As it is shown. False: the search failed.
bool plim_search_show(plim_search *s, const plim_choice *choice, plim_rung *out);
bool plim_search_compare(plim_search *s, const plim_choice *choice,
                         plim_rung *out); // beside the plan
bool plim_is_safe(const plim_plan_request *r, const plim_estimate *e);
// Whether no settings of the allocator could make it fit: what it holds at once is too much.
bool plim_is_hopeless(const plim_plan_request *r, const plim_estimate *e);

// Fills `fitting` with what fits on the level, all that could be the best or a rung below it.
void plim_search_concessions(plim_search *s, const plim_concessions *concessions);
// Adds, of each way to share, the smallest and the largest that takes at most so many bytes; and what is near a choice.
void plim_search_small(plim_search *s, const plim_concessions *concessions, uint64_t most);
void plim_search_near(plim_search *s, const plim_concessions *concessions,
                      const plim_choice *choice);
// Whether something fits on the level: a small one that does, or the smallest that there is. NULL: that
// is not asked for, which is faster.
bool plim_concession_fits(plim_search *s, const plim_concessions *concessions, plim_rung *smallest);
// Accumulation that makes the batch of a micro batch; false: there is none that may be.
bool plim_set_accumulation(const plim_plan_request *r, plim_choice *choice);

// The least that has to be conceded, of what is allowed or could be; false: nothing fits. `from` is where to
// go on with the next; 0 at first.
typedef struct {
  bool is_offered;       // of what could be allowed
  bool is_easy, on_card; // see plim_concessions; with nothing more on the host
} plim_concession_kind;
bool plim_find_concessions(plim_search *s, plim_concession_kind kind, size_t *from,
                           plim_concessions *out);
// A level of nothing conceded, and one of all that is allowed.
plim_concessions plim_concession_of(const plim_search *s);
plim_concessions plim_concession_of_all(const plim_search *s);
plim_offload_scope plim_offload_scope_of(const plim_search *s); // all that would help
void plim_list_concessions(plim_search *s);                     // plan_offers.c
// What to tell where nothing that may be tried is a run (plan_refusal.c). Fills the error.
plim_err plim_search_refuse(const plim_search *s, plim_error *error);

// ---- what is preferred (plan_order.c) ---------------------------------------------------------------

// What the user has to do that no file can say: code of one's own, and lines in an environment.
typedef struct {
  int code, lines;
} plim_hand_work;
plim_hand_work plim_hand_work_of(const plim_plan_request *r, const plim_choice *choice);
// It takes to the host what the user has on the card; its GPUs share in another way.
bool plim_goes_to_host(const plim_plan_request *r, const plim_choice *choice);
bool plim_is_another_sharding(const plim_plan_request *r, const plim_choice *choice);
// How much of its speed counts: less where it rests on rates of another machine, or takes work.
double plim_worth(const plim_plan_request *r, const plim_choice *choice);
// Why a faster choice is not first.
plim_passed plim_why_passed(const plim_plan_request *r, const plim_choice *choice,
                            const plim_choice *first);
// The one to take, of those that need at most so many bytes and are no faster than that; NULL: none.
const plim_rung *plim_pick(const plim_search *s, uint64_t most, double no_faster);
double plim_surest(const plim_search *s, uint64_t most, double no_faster); // speed of the best

bool plim_own_is_candidate(const plim_search *s); // it may be, and fits
void plim_build_ladder(plim_search *s, const plim_concessions *concessions);

// ---- what its changes do (plan_changes.c) -----------------------------------------------------------

// A choice with one knob, and what goes with it, as the user has it.
plim_choice plim_reverted(const plim_search *s, const plim_choice *choice, plim_knob knob);
bool plim_follows(const plim_choice *own, const plim_choice *choice, plim_knob knob);
bool plim_has_its_batch(const plim_plan_request *r, const plim_choice *c);
void plim_explain_changes(plim_search *s);

#endif
