// plimsoll plan -- COMMAND: a plan from simulated runs of the user's program.
#ifndef PLIM_CLI_PLAN_TRIAL_H
#define PLIM_CLI_PLAN_TRIAL_H

#include "job_options.h"
#include "trial.h"

typedef struct {
  const trial_program *program;
  const trial_search *search;
  const char *card; // in words: "RTX 4090"; empty: known by its size
  uint64_t budget_bytes;
  bool is_whole_card;      // the budget is the card's memory, CUDA's share included; not --limit
  const plim_notes *notes; // on the card
  trial_diff diff;         // what the plan changes
  const cli_strings *sets; // values of --set
  const char *out;         // the file that the plan is saved to; NULL: none
  const char *why;         // why it was not planned by prediction
} plan_trial_report;

// Runs the command; returns its exit code.
int plan_trial(const cli_call *call);

void plan_trial_print_text(const plan_trial_report *r);
// The document, a saved plan, which the caller frees.
plim_err plan_trial_json(const plan_trial_report *r, char **text, plim_error *error);

// The last run with this micro batch, which decides: a run on the card comes after one on a larger card. NULL: none.
const trial_run *plan_trial_run_of(const trial_search *s, int64_t micro);
// The run of the plan; NULL: nothing fits.
const trial_run *plan_trial_best(const plan_trial_report *r);
// The effective batch of a run; 0: not known.
uint64_t plan_trial_effective(const plan_trial_report *r, const trial_run *run);
// What the user must know about the plan, one sentence for each `index` from 0 on; false: there are no more.
enum { PLAN_TRIAL_REMARK = 560 };
bool plan_trial_remark(const plan_trial_report *r, size_t index, char *text, size_t size);
extern const char *const plan_trial_verdicts[]; // by trial_verdict, for JSON

#endif
