// The options of `plimsoll plan`, and how they become a request to the planner.
#ifndef PLIM_APP_PLAN_OPTIONS_H
#define PLIM_APP_PLAN_OPTIONS_H

#include "job_options.h"
#include "plan.h"
#include "value.h"

typedef struct {
  job_args job;
  const job_args *typed; // `job` before files were read
  const char *effective_batch, *margin, *out, *command;
  char batch_of_files[24]; // the effective batch that the files set, as text
  cli_strings fix, tries, allow, set;
  double epochs, price; // NaN: not given
  uint64_t samples;
  bool contrastive, batch_norm;
  int64_t positives, negatives;   // from the files
  bool is_proved;                 // by a simulated run of the files' command
  bool is_online, is_unsandboxed; // of a program that is simulated
} plan_args;

extern const cli_option plan_options[];
extern const plan_args plan_defaults;

// Reads KNOB=V of an option with this name; the value is in the knob's own notation and owns nothing.
plim_err plan_read_setting(const char *option, const char *text, plim_knob *knob, plim_value *value,
                           plim_error *error);

// The length that --fix sequence=N names; 0: none.
uint64_t plan_fixed_length(const plan_args *args);

// Fills in --fix, --try, --allow, --margin and --effective-batch. The request's job must be set already.
plim_err plan_read_options(const plan_args *args, plim_plan_request *r, plim_error *error);

#endif
