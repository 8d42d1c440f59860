// What `plimsoll run` says, and the explanation of a failure. All of it goes to standard error: standard output is the
// program's.
#ifndef PLIM_CLI_RUN_SHOW_H
#define PLIM_CLI_RUN_SHOW_H

#include "explain.h"
#include "options.h"
#include "run.h"

void run_show_start(run *r);
void run_show_variables(run *r, const run_variables *helpful);
// The findings of `check` that would make the run fail. *cards is the number of GPUs that the command uses; 0: not known.
// Fails only if memory runs out.
plim_err run_show_check(run *r, const char *const *words, const cli_strings *sets, uint64_t *cards,
                        plim_error *error);

// Reads the log of a program that failed. Fails only if memory runs out; otherwise clear the explanation.
// `conf`: the allocator's settings that are in force; NULL: not known.
plim_err run_explain(const run *r, const run_end *end, const char *conf, explanation *out,
                     plim_error *error);

void run_show_failure(run *r, const run_end *end); // not because of memory
void run_show_cause(run *r, const explanation *e, bool is_memory);
// Why the run does not go on, and what the user can do. `why` may be empty.
void run_show_cures(run *r, const explanation *e, const char *why);
void run_show_recovery(run *r, const char *text, uint64_t number, uint64_t most);
void run_show_end(run *r, const char *how);

#endif
