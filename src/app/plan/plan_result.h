// What `plimsoll plan` found out.
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
  plim_plan plan;
  plim_plan writable;       // where the plan asks for work by hand: the best without it; or empty
  char writable_flags[320]; // "--fix chunked_loss=off"
  char gpu[64];             // as it was typed; empty: the one in this machine
  char *reproduce;          // the command that predicts the first rung; NULL: none does. Owned
  const char *no_reproduce; // what it would take an option for
} plan_for_card;

typedef struct {
  const job_args *args;
  plan_for_card *cards;
  size_t count;
  uint64_t samples; // of the data; PLIM_UNKNOWN: not known
  double epochs;
  double price_per_hour; // NaN: not known
  uint64_t nodes;
  const project_job *files; // NULL: made from flags alone
  uint64_t own_batch;       // the effective batch that the files say; 0: they do not
  const cli_strings *sets;  // of --set
  const cli_call *call;     // as it was typed
} plan_result;

// Fills in the command that predicts the first rung.
plim_err plan_reproduce(const plan_result *r, plan_for_card *c, plim_error *error);

// A knob's value in words: "512", "on".
void plan_value_text(plim_knob knob, int64_t value, char *text, size_t size);

#endif
