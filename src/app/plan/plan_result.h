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
  plim_known_estimates known; // what `plan` has run, for `writable`
  plim_plan plan;
  plim_plan writable;       // if the plan has manual steps: the best plan without any; else empty
  char writable_flags[320]; // "--fix chunked_loss=off"
  char gpu[64];             // as typed; empty: the card in this machine
  char *reproduce;          // the command that predicts the first rung; NULL: there is none; owned
  const char *no_reproduce; // if there is none: the setting that has no option
} plan_for_card;

// A simulated run with the settings of the first rung.
typedef struct {
  uint64_t needs_bytes; // with CUDA's context
  const char *log;
} plan_proof;

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

#endif
