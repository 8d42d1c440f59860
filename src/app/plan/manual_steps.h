// The manual steps of a plan: one list, in the order in which a person would do them.
#ifndef PLIM_APP_MANUAL_STEPS_H
#define PLIM_APP_MANUAL_STEPS_H

#include "plan_edits.h"

typedef struct {
  const char *kind; // "install", "environment", "setting", "version", "file", "command"; a literal
  plim_knob knob;   // the knob that the step is about; PLIM_KNOBS: none
  char *text;       // what to do, in one sentence; owned
  char *lines;      // lines to paste, each ending with \n; NULL: none; owned
  char *
      why; // why it is not written into the files, and what else to do; NULL: nothing to say; owned
} manual_step;

typedef vec(manual_step) manual_steps;

// Lists the steps for a rung of a plan, counted from 0. `edits` are the changes that are written into files (NULL: there
// are no files). Fails only if memory runs out.
plim_err manual_steps_of(const plan_result *r, const plan_for_card *c, size_t rung,
                         const plan_edits *edits, manual_steps *out, plim_error *error);
void manual_steps_clear(manual_steps *steps);

// Whether Axolotl turns on its LoRA kernels by itself with these settings, and not with the user's own.
bool plan_adds_kernels(const plan_result *r, const plan_for_card *c, const plim_choice *x);
// Whether these settings need the package.
bool plan_takes_bitsandbytes(const plim_choice *x);
bool plan_takes_deepspeed(const plim_choice *x);

// ---- for code that adds steps -----------------------------------------------------------------------

// Adds a step with a formatted text; `lines` is copied and may be NULL.
plim_err manual_step_add(manual_steps *steps, const char *kind, plim_knob knob, const char *lines,
                         plim_error *error, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

// Says why the last step is manual; copies the text.
plim_err manual_step_why(manual_steps *steps, const char *why, plim_error *error);

// The code to paste into a script to turn a setting on; false: not known. `*where` says what to do with it
// (code_lines.c).
bool code_lines_for(plim_knob knob, const plim_value *value, const char **where, char *lines,
                    size_t size);
// The lines of a framework's own file that do the same, of several keys; NULL: not known.
const char *file_lines_for(plim_dialect dialect, plim_knob knob, const plim_value *value);

#endif
