// What `plimsoll run` says, and the explanation of a failure. All of it goes to standard error: standard output is the
// program's.
#ifndef PLIM_CLI_RUN_SHOW_H
#define PLIM_CLI_RUN_SHOW_H

#include "explain.h"
#include "options.h"
#include "run.h"

// For run_options.fold: a line as the terminal of standard error shows it best; NULL: as it is.
char *run_show_folded(const char *line);

void run_show_start(run *r);
void run_show_variables(run *r, const run_variables *helpful);
// The findings of `check` that would make the run fail. *cards is the number of GPUs that the command uses; 0: not known.
// Fails only if memory runs out.
plim_err run_show_check(run *r, const char *const *words, const cli_strings *sets, uint64_t *cards,
                        plim_error *error);

// Why a program failed, and who ran out of memory.
typedef struct {
  explanation cause;
  uint64_t rank;                // PLIM_UNKNOWN: there is one rank, or it is not known
  const simulate_process *seen; // what was observed of it, or of another rank; NULL: nothing
} run_explained;

// Reads the log of a program that failed. Fails only if memory runs out; otherwise clear the explanation.
// `conf`: the allocator's settings that are in force; NULL: not known.
plim_err run_explain(run *r, const run_end *end, const char *conf, run_explained *out,
                     plim_error *error);

// Not because of memory. `changed`: with what plimsoll had started it again; empty: as the user typed it.
void run_show_failure(run *r, const run_end *end, const char *changed);
void run_show_cause(run *r, const run_explained *x, bool is_memory);
// Why the run does not go on, and what the user can do. `why` may be empty. With `has_retried`, the program was already
// started again with the same settings.
void run_show_cures(run *r, const explanation *e, bool has_retried, const char *why,
                    const run_end *end);
void run_show_recovery(run *r, const char *text, uint64_t number, uint64_t most);
void run_show_end(run *r, const char *how);

#endif
