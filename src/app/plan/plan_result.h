// The result of `plimsoll plan`, before it is printed.
#ifndef PLIM_APP_PLAN_RESULT_H
#define PLIM_APP_PLAN_RESULT_H

#include "job_options.h"
#include "plan.h"
#include "project_job.h"

enum { PLAN_MAX_CARDS = 16 };

// The plan for one card.
typedef struct {
  job_request request;
  plim_plan_request asked;
  uint64_t saved_bytes;       // the run may need up to so much less memory (plim_notes_saved)
  bool errs_low;              // the run may need more
  plim_known_estimates known; // what `plan` has run, for `writable`
  plim_plan plan;
  plim_plan writable;       // if the plan has manual steps: the best plan without any; else empty
  char writable_flags[320]; // "--fix chunked_loss=off"
  char gpu[64];             // as typed; empty: the card in this machine
  char load_help[320];      // job_request, with what a plan then needs
  char *reproduce;          // the command that predicts the first rung; NULL: there is none; owned
  const char *no_reproduce; // if there is none: the setting that has no option
} plan_for_card;

// A simulated run with the settings of the first rung, or why there was none.
typedef enum {
  PLAN_PROVED,    // it fits, whether or not it needs what was predicted
  PLAN_DISPROVED, // it ran out of memory
  PLAN_UNPROVED,  // there was no run, or it shows too little
} plan_proof_end;

typedef struct {
  plan_proof_end end;
  uint64_t needs_bytes; // with CUDA's context; PLIM_UNKNOWN: not known
  char *command;        // the line that was run; NULL: the program of plan -- COMMAND; owned
  char *log;            // what it printed; NULL: it was not run; owned
  char why[480];        // the reason, unless it is proved
  char *help;           // and what to do; NULL: nothing to add; owned
} plan_proof;

void plan_proof_clear(plan_proof *proof);
// Whether the run needed what was predicted, within the error margin.
bool plan_proof_agrees(const plan_proof *proof, const plim_estimate *predicted);

typedef struct {
  const job_args *args;
  plan_for_card *cards;
  size_t count;
  uint64_t samples; // in the data set; PLIM_UNKNOWN: not known
  double epochs;
  double price_per_hour; // NaN: not known
  uint64_t nodes;
  const project_job *files; // NULL: planned from options alone
  uint64_t own_batch;       // the effective batch that the files set; 0: none
  const cli_strings *sets;  // values of --set
  const cli_call *call;     // the command line
  const char *out;          // the file that the plan was saved to; NULL: none
  const plan_proof *proof;  // NULL: the plan was not run
} plan_result;

// Fills in the command that predicts the first rung.
plim_err plan_reproduce(const plan_result *r, plan_for_card *c, plim_error *error);

// Steps of an optimizer over all data, their hours and price; 0 and NaN where it is not known.
uint64_t plan_steps(const plan_result *r, const plim_rung *rung);
double plan_hours(const plan_result *r, const plim_rung *rung);
double plan_price(const plan_result *r, const plan_for_card *c, const plim_rung *rung);

#endif
