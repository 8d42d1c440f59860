// Explains why a training ran out of memory: the verdict, the evidence for it, what to do, and how sure that is.
//
//   explain_facts facts = explain_nothing_known;
//   facts.exit_status = 137;                                // whatever the caller knows better than the log
//   explanation e;
//   err = explain_log(&log, &facts, &e, &error);            // log: plim_oom_log_read
//   for (size_t i = 0; i < e.cures.len; i++) e.cures.at[i].kind ...
//   explanation_clear(&e);
//
// A caller that acts on its own takes the first cure that it can apply. A cure that does not help is never listed: where
// a smaller batch would change nothing, there is no EXPLAIN_CURE_SMALLER_BATCH.
#ifndef PLIM_APP_EXPLAIN_H
#define PLIM_APP_EXPLAIN_H

#include "machine.h"
#include "notes.h"
#include "oom_log.h"

typedef enum { EXPLAIN_UNKNOWN, EXPLAIN_NO, EXPLAIN_YES } explain_answer;

typedef struct {
  unsigned pid;
  const char *name;    // NULL: not visible
  uint64_t used_bytes; // PLIM_UNKNOWN: not reported
} explain_process;

// Memory that grew from step to step until the end.
typedef struct {
  bool is_outside;         // PyTorch's allocator does not hold it
  uint64_t per_step_bytes; //
  uint64_t grown_bytes;    // in all
  const char *lines;       // that keep it: "train.py:13 (<module>)"; NULL: not known
} explain_growth;

// What the caller knows beside the log. Every value may be unknown; begin with explain_nothing_known.
typedef struct {
  int exit_status; // of the process, as the shell counts it (137 for signal 9); -1: not known
  int signal;      // that ended the process; 0: none; -1: not known
  uint64_t step;   // steps that were completed; PLIM_UNKNOWN: not known
  explain_answer had_steps;      // whether steps like the failing one went well before
  plim_run_phase phase;          // PLIM_RUN_UNKNOWN: take it from the log
  const plim_machine *machine;   // its host memory; NULL: not known
  explain_answer has_oom_kill;   // the counter oom_kill of its control group went up
  const explain_process *others; // other processes on the GPU; NULL: not known
  size_t other_count;
  const char *alloc_conf; // allocator settings in force; "": PyTorch's defaults; NULL: not known
  uint64_t micro_batch, accumulation;   // PLIM_UNKNOWN: not known
  uint64_t sample_tokens, usual_tokens; // of the failing batch, and the longest before it
  const explain_growth *growth;         // NULL: not known, or there is none
  const char *command;                  // the training command, quoted for a shell; NULL: not known
} explain_facts;

extern const explain_facts explain_nothing_known;

typedef enum {
  EXPLAIN_NO_OOM,            // the log has no out-of-memory error
  EXPLAIN_SHORTAGE,          // the program needs more than the GPU has
  EXPLAIN_FRAGMENTATION,     // enough memory, but in pieces
  EXPLAIN_OTHER_PROCESS,     // another process uses the GPU
  EXPLAIN_LIBRARIES,         // memory outside PyTorch: NCCL, cuBLAS, vLLM, CUDA contexts
  EXPLAIN_HOST_MEMORY,       // not the GPU: host memory or /dev/shm
  EXPLAIN_IMPOSSIBLE_TENSOR, // one tensor larger than the GPU
  EXPLAIN_LONG_SAMPLE,       // earlier steps fitted, this batch does not
  EXPLAIN_LEAK,              // the program keeps memory of earlier steps
  EXPLAIN_EVALUATION,
  EXPLAIN_SAVING,
  EXPLAIN_RESUMING,
  EXPLAIN_CAP,       // a limit that was set below the GPU's size
  EXPLAIN_TRANSIENT, // enough memory was free: a short peak of another process, or a limit of the system
  EXPLAIN_ON_CHIP, // a kernel's on-chip memory, not the GPU's
  EXPLAIN_UNCLEAR,
  EXPLAIN_VERDICTS
} explain_verdict;

typedef enum { EXPLAIN_CERTAIN, EXPLAIN_LIKELY, EXPLAIN_NOT_SURE, EXPLAIN_SURETIES } explain_surety;

typedef enum {
  EXPLAIN_CURE_EXPANDABLE_SEGMENTS,
  EXPLAIN_CURE_EVEN_SHAPES,     // fewer different sizes: fixed padding
  EXPLAIN_CURE_SMALLER_BATCH,   // smaller micro batch, more accumulation
  EXPLAIN_CURE_SHORTER_SAMPLES, // changes the data: ask first
  EXPLAIN_CURE_CHUNKED_LOSS,
  EXPLAIN_CURE_FUSED_ATTENTION,
  EXPLAIN_CURE_SMALLER_STATE, // weights, gradients and optimizer state: 4 bit, LoRA, 8-bit Adam, sharding
  EXPLAIN_CURE_PLAN,          // let plimsoll choose among all settings
  EXPLAIN_CURE_EVALUATION,
  EXPLAIN_CURE_SAVING,
  EXPLAIN_CURE_RESUMING,
  EXPLAIN_CURE_HOST_MEMORY,
  EXPLAIN_CURE_SHARED_MEMORY,
  EXPLAIN_CURE_OTHER_PROCESS,
  EXPLAIN_CURE_HEADROOM, // leave memory to libraries
  EXPLAIN_CURE_LIFT_CAP,
  EXPLAIN_CURE_RETRY,    // run it again as it is
  EXPLAIN_CURE_FIX_CODE, // the program computes something that it should not
  EXPLAIN_CURE_LOOK,     // find out more first
  EXPLAIN_CURES
} explain_cure_kind;

typedef struct {
  explain_cure_kind kind;
  char *text;    // what to do; owned
  char *command; // what to type; owned, NULL: nothing
} explain_cure;

typedef struct {
  explain_verdict verdict;
  explain_surety surety;
  char *summary;           // one sentence: what happened
  char *why_not_sure;      // NULL if certain
  plim_notes evidence;     // each with a code
  vec(explain_cure) cures; // the one to try first comes first

  // As used for the verdict; PLIM_UNKNOWN: not known.
  uint64_t library_bytes; // N: of this process, outside PyTorch's allocator
  uint64_t other_bytes;   // O: of other processes, display and driver
  plim_run_phase phase;
  plim_run_moment moment;
  uint64_t step;     // steps completed
  bool is_by_growth; // the verdict follows from facts->growth, which a log alone does not show
  bool has_no_memory;
} explanation;

// Fails only when out of memory; there is nothing to clear then. `facts` may be NULL.
plim_err explain_log(const plim_oom_log *log, const explain_facts *facts, explanation *out,
                     plim_error *error);
void explanation_clear(explanation *e);

// Names for programs: "fragmentation", "likely", "smaller_batch".
const char *explain_verdict_name(explain_verdict verdict);
const char *explain_surety_name(explain_surety surety);
const char *explain_cure_name(explain_cure_kind kind);

#endif
