// What a trace tells about the program: training steps, the line of each allocation, how long it lived and what it
// probably is. Pictures, holders, leaks and duplicates are derived from this.
#ifndef PLIM_CORE_TRACE_ANALYSIS_H
#define PLIM_CORE_TRACE_ANALYSIS_H

#include "trace.h"

// What an allocation is. Every allocation has exactly one kind, so the kinds add up to the whole.
typedef enum {
  PLIM_KIND_PARAMETER,  // weights and buffers: allocated before the first step, never freed
  PLIM_KIND_GRADIENT,   // allocated in a backward pass, alive when the optimizer steps
  PLIM_KIND_OPTIMIZER,  // allocated in the optimizer step, alive after it
  PLIM_KIND_ACTIVATION, // allocated in a forward pass, alive when the backward pass begins
  PLIM_KIND_WORKSPACE,  // library scratch space that is never freed (cuBLAS, cuBLASLt)
  PLIM_KIND_TEMPORARY,  // allocated and freed within one phase
  PLIM_KIND_OTHER,      // long-lived, purpose unknown
  PLIM_KIND_LEAKED,     // from a line that leaks; see plim_mark_leaks
  PLIM_KIND_COUNT
} plim_kind;

extern const char *const plim_kind_names[PLIM_KIND_COUNT]; // "parameters", "gradients", ...

#define PLIM_NEVER UINT32_MAX // freed_at of what is alive at the end
#define PLIM_NO_LINE UINT32_MAX

// Events [first, end) of one training step.
typedef struct {
  size_t first, end;
} plim_trace_step;

// How the steps were found.
typedef enum {
  PLIM_STEPS_NONE,      // none were found
  PLIM_STEPS_ANNOTATED, // by the optimizer's own markers
  PLIM_STEPS_STACKS,    // by calls of an optimizer's step in the stacks
  PLIM_STEPS_PERIODIC   // by the periodicity of the allocations
} plim_steps_source;

typedef struct plim_trace_analysis {
  vec(plim_trace_step) steps; // by event; everything before the first step is set-up
  plim_steps_source steps_source;
  vec(uint32_t) freed_at;       // indexed by event: where an ALLOC is freed (or its free requested)
  vec(uint8_t) kind;            // indexed by event: the plim_kind of ALLOC events
  vec(uint32_t) start_freed_at; // the same for trace.start_blocks
  vec(uint8_t) start_kind;
  vec(uint32_t) line;      // indexed by stack: the responsible frame (index into trace.frames),
                           // which is the innermost outside PyTorch's own code; PLIM_NO_LINE
                           // if the stack has no Python frame
  vec(uint32_t) user_line; // indexed by stack: the innermost frame outside installed packages
} plim_trace_analysis;

// Returns false when out of memory. The trace must be linked.
bool plim_trace_analysis_read(const plim_trace *trace, plim_trace_analysis *analysis);
void plim_trace_analysis_clear(plim_trace_analysis *analysis);

// The step an event belongs to, counted from 1; 0 before the first step.
size_t plim_trace_analysis_step_of(const plim_trace_analysis *analysis, size_t event);

// plim_line_name: "modeling_llama.py:212 (forward)" for a frame, shortened from the left to `size`; "(no stack)" for
// PLIM_NO_LINE. Both names are safe to print: control characters are replaced.
void plim_line_name(const plim_trace *trace, uint32_t frame, char *text, size_t size);
// The file of a frame as a Python module ("transformers.models.llama.modeling_llama").
void plim_module_name(const plim_trace *trace, uint32_t frame, char *text, size_t size);

// ---- leaks ----------------------------------------------------------------------------------------

typedef struct {
  uint32_t stack;                      // a stack that allocated them; 0 if none was recorded
  uint32_t line;                       // as in plim_trace_analysis.line
  uint64_t bytes_per_step;             // mean over the steps in which it was seen
  uint64_t bytes;                      // alive at the end
  uint64_t count;                      // allocations alive at the end
  size_t first_step, last_step, steps; // steps that left something behind
} plim_leak;

typedef vec(plim_leak) plim_leaks;

// The least number of steps in which a leak can be seen: three that left something behind, and the first and the last two,
// which prove nothing.
#define PLIM_LEAK_STEPS 6

// Allocations that accumulate step after step, grouped by line (by size if no stacks were recorded), the most bytes per
// step first; none if there are fewer than PLIM_LEAK_STEPS steps. Returns false when out of memory.
bool plim_find_leaks(const plim_trace *trace, const plim_trace_analysis *analysis,
                     plim_leaks *leaks);

// Sets the kind of what these leaks left behind to PLIM_KIND_LEAKED.
void plim_mark_leaks(const plim_trace *trace, const plim_leaks *leaks,
                     plim_trace_analysis *analysis);

// ---- duplicates -----------------------------------------------------------------------------------

typedef struct {
  uint32_t stack, line; // the user's line that allocated this copy
  uint64_t bytes, count;
  size_t first_event;
  double bytes_per_element_ratio; // relative to the first copy: 0.5 for bf16 after fp32
} plim_copy;

typedef struct {
  uint64_t tensors;      // number of tensors that the copies have in common
  uint64_t wasted_bytes; // bytes of all copies but the smallest
  size_t event;          // a moment at which all copies were alive
  vec(plim_copy) copies; // two or more, in the order of allocation
} plim_duplicate;

typedef vec(plim_duplicate) plim_duplicates;

// Sets of tensors with the same shapes, in the same or another dtype, that were alive twice or more at the same time.
// Gradients and optimizer state always mirror the parameters and are not counted. Returns false when out of memory.
bool plim_find_duplicates(const plim_trace *trace, const plim_trace_analysis *analysis,
                          plim_duplicates *duplicates);
void plim_duplicates_clear(plim_duplicates *duplicates);

#endif
