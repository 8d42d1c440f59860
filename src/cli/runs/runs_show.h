// What `plimsoll runs` prints and draws.
#ifndef PLIM_CLI_RUNS_SHOW_H
#define PLIM_CLI_RUNS_SHOW_H

#include "picture_options.h"
#include "run_history.h"

void runs_print_list(const history_found *found);
void runs_print_list_json(const history_found *found);
void runs_print_one(const history_found *found);
void runs_print_one_json(const history_found *found);

// How a run ended, in words. A run without an end either runs or was killed.
const char *runs_end_of(const history_run *run);
// The rank that held the most memory; -1: there are no samples.
int64_t runs_fullest_rank(const history_found *found);

// Memory over time of that rank; the context is a history_found.
plim_err runs_draw(const void *context, const picture_request *wanted, plim_error *error);

#endif
