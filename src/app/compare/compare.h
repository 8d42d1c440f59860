// Compares two results: what a run was predicted to need, and what it needed. A result is what estimate, simulate, profile or
// replay print with --json.
//
//   compare_side predicted, measured;
//   plim_err err = compare_read_file("simulated.json", &predicted, &error);
//   if (!err) err = compare_read_text(text, size, &measured, &error);
//   comparison c;
//   if (!err) err = compare(&predicted, &measured, &c, &error);
//   ...
//   comparison_clear(&c), compare_side_clear(&predicted), compare_side_clear(&measured);
#ifndef PLIM_APP_COMPARE_H
#define PLIM_APP_COMPARE_H

#include "plimsoll.h"
#include "vec.h"

// What a line of code holds at the peak. Texts are owned, here and below.
typedef struct {
  char *module, *function; // NULL: no stack was recorded there
  uint64_t line, bytes;
} compare_line;

typedef struct {
  char *name, *value;
} compare_fact;

typedef vec(compare_fact) compare_facts;

// Kinds of memory that all results tell apart.
enum { COMPARE_KINDS = 7 };
extern const char *const compare_kind_names[COMPARE_KINDS]; // "parameters", ...

typedef struct {
  const char *made; // "estimated", "simulated", "measured", "recorded"
  // PLIM_UNKNOWN where the result does not say.
  uint64_t allocated_bytes, reserved_bytes; // peaks
  uint64_t outside_bytes;                   // used by CUDA and its libraries, not by PyTorch
  uint64_t retries;
  uint64_t steps;      // 0: not known
  double step_seconds; // NaN: not known
  bool has_kinds, has_lines;
  uint64_t kind_bytes[COMPARE_KINDS]; // at the peak
  vec(compare_line) lines;            // likewise
  char *peak_at; // where the peak is: "step 3, in model.py:12 (forward)"; NULL: not known
  compare_facts versions, observed;
} compare_side;

plim_err compare_read_file(const char *path, compare_side *side, plim_error *error);
plim_err compare_read_text(const char *text, size_t size, compare_side *side, plim_error *error);
void compare_side_clear(compare_side *side);

// A line on both sides. If the versions of a library differ, its functions are compared instead, because lines move.
typedef struct {
  char *where; // "transformers.models.qwen2.modeling_qwen2:212 (forward)"
  uint64_t predicted_bytes, measured_bytes;
} compare_row;

typedef struct {
  char *name, *predicted, *measured;
} compare_other;

typedef vec(compare_row) compare_rows;
typedef vec(compare_other) compare_others;

typedef struct {
  compare_rows rows;       // lines that differ, the largest difference first
  compare_others versions; // those that differ; a library that one side did not load is left out
  compare_others observed; // likewise: what the program does
} comparison;

plim_err compare(const compare_side *predicted, const compare_side *measured, comparison *out,
                 plim_error *error);
void comparison_clear(comparison *c);

#endif
