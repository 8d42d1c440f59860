// The parts of the explanation, private to this folder.
#ifndef PLIM_APP_EXPLAIN_IMPL_H
#define PLIM_APP_EXPLAIN_IMPL_H

#include "explain.h"
#include "units.h"

// All that is known, from the log and from the caller.
typedef struct {
  const plim_oom_log *log;
  const plim_oom_message *message;
  const explain_facts *facts;
  explanation *out;
  plim_oom_kind kind; // of the message; SIGKILL if only the exit status tells it

  // The numbers, with what can be derived. PLIM_UNKNOWN: not known.
  uint64_t wanted, total, free, process, allocated, stranded;
  uint64_t outside; // T - F - A - R: libraries and other processes together
  bool is_own_process[PLIM_OOM_MAX_PROCESSES]; // this process, listed under the host's pid

  uint64_t micro_batch, accumulation;
  uint64_t sample_tokens;
  explain_growth growth; // of memory from step to step; per_step_bytes is unknown if there is none
  char leaking_lines[320];
  const char *alloc_conf; // NULL: not known
} explain_case;

bool explain_is_known(uint64_t value);
// a > b * factor, for known values.
bool explain_exceeds(uint64_t a, uint64_t b, double factor);

// explain_figures.c
void explain_derive(explain_case *c);
// Whether earlier steps went well; UNKNOWN if the log shows no progress.
explain_answer explain_had_steps(const explain_case *c);
bool explain_is_expandable(const explain_case *c); // known to be on
// Whether the message lists this process. What the caller found on the GPU may be the same processes.
bool explain_is_listed(const explain_case *c, unsigned pid);

// explain_verdict.c
void explain_decide(explain_case *c);
// The request is so large that only a mistake explains it.
bool explain_is_absurd(const explain_case *c);
void explain_conclude(explain_case *c, explain_verdict verdict, explain_surety surety,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));
void explain_doubt(explain_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

// explain_evidence.c
void explain_show_evidence(explain_case *c);

// explain_cures.c
void explain_find_cures(explain_case *c);
// The texts may be NULL for `command`; both are copied.
void explain_add_cure(explain_case *c, explain_cure_kind kind, const char *command,
                      const char *format, ...) __attribute__((format(printf, 4, 5)));

// explain_command.c: "plimsoll plan train.py --gpu 23.65GiB", with what the log shows. The caller frees it; NULL when out
// of memory.
char *explain_run_command(const explain_case *c, const char *option);
char *explain_plan_command(const explain_case *c);
char *explain_replay_command(const explain_case *c);

// "12.3 GiB"; several may be used in one call.
#define BYTES(value) units_bytes(value).text

#endif
