// The next settings of a program that ran out of memory, by a plan for what was observed of it.
#ifndef PLIM_CLI_RUN_PLAN_H
#define PLIM_CLI_RUN_PLAN_H

#include "recover.h"

typedef struct {
  const char *const *words; // the user's command; ends with NULL
  const cli_strings *sets;  // values of --set
  uint64_t total_bytes;     // of the GPU; PLIM_UNKNOWN: not known, and there is no plan
} run_planned;

// A recovery_plan; the context is a run_planned.
bool run_plan(void *context, const simulate_process *seen, size_t rung, cli_strings *settings);

#endif
