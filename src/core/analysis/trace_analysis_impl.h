// Shared by the files that analyse a trace: trace_analysis.c, lines.c, steps.c, periodic_steps.c, kinds.c and leaks.c.
// Private to this folder.
#ifndef PLIM_CORE_TRACE_ANALYSIS_IMPL_H
#define PLIM_CORE_TRACE_ANALYSIS_IMPL_H

#include "trace_analysis.h"

// What the program was doing when a stack was recorded, by the innermost frame that shows it.
typedef enum {
  PHASE_UNKNOWN,   // nothing in the stack shows it
  PHASE_FORWARD,   // inside a module's forward; also a checkpoint's recomputation
  PHASE_BACKWARD,  // inside autograd; its device threads have no Python frames
  PHASE_OPTIMIZER, // inside an optimizer's step
  PHASE_STATE      // an optimizer is loading its state
} analysis_phase;

typedef struct {
  uint8_t phase;     // an analysis_phase
  bool in_optimizer; // any frame is in an optimizer step
  bool in_zero_grad;
  bool is_of_card; // no code of the program, only what computes values for a simulated card
} stack_facts;

typedef struct {
  const plim_trace *trace;
  plim_trace_analysis *analysis;
  vec(stack_facts) facts;     // indexed by stack
  bool has_stacks;            // at least a tenth of the allocations have one
  bool frees_have_stacks;     // frees show where they happened, not where the block was allocated
  vec(plim_trace_step) spans; // optimizer steps, by event; several may belong to one step
  vec(plim_trace_step) zero_grads; // spans of zero_grad
  bool spans_are_guessed;          // no optimizer was seen: spans are the ends of the steps
  bool is_unfinished;              // the last step was cut short
  size_t cut;                      // then: the failed request, or the end of the recording
  size_t horizon; // the last moment of training: what is alive here lived to the end
} analysis_reader;

// lines.c: fills facts, line and user_line. These functions return false when out of memory.
bool analysis_read_lines(analysis_reader *r);
// steps.c: fills spans and steps.
bool analysis_read_steps(analysis_reader *r);
// periodic_steps.c: fills steps by periodicity, if that is beyond doubt.
bool analysis_read_periods(analysis_reader *r);
// kinds.c: fills kind and start_kind.
bool analysis_read_kinds(analysis_reader *r);

static inline bool analysis_is_alloc(const plim_trace *trace, size_t event) {
  return trace->events.at[event].action == PLIM_EV_ALLOC;
}

// When an allocation ends, for comparisons: SIZE_MAX if it is never freed.
static inline size_t analysis_death(const plim_trace_analysis *analysis, size_t event) {
  return analysis->freed_at.at[event] == PLIM_NEVER ? SIZE_MAX : analysis->freed_at.at[event];
}

static inline stack_facts analysis_facts(const analysis_reader *r, size_t event) {
  uint32_t stack = r->trace->events.at[event].stack;
  return stack < r->facts.len ? r->facts.at[stack] : (stack_facts){0};
}

#endif
