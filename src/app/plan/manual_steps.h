// What is left to do by hand for a plan: one list, in the order in which a person would do it.
#ifndef PLIM_APP_MANUAL_STEPS_H
#define PLIM_APP_MANUAL_STEPS_H

#include "plan_edits.h"

typedef struct {
  const char *kind; // "install", "environment", "setting", "version", "file", "command"; a literal
  plim_knob knob;   // that the step is about; PLIM_KNOBS: none
  char *text;       // what to do, one sentence; owned
  char *lines;      // to paste, each line ended by \n; NULL: nothing; owned
} manual_step;

typedef vec(manual_step) manual_steps;

// For the rung of a plan, counted from 0, of which `edits` says what is written into files (NULL: there are no files).
// The only error is that memory is out.
plim_err manual_steps_of(const plan_result *r, const plan_for_card *c, size_t rung,
                         const plan_edits *edits, manual_steps *out, plim_error *error);
void manual_steps_clear(manual_steps *steps);

// ---- for those who add steps ------------------------------------------------------------------------

// Adds a step whose text is printed from the format; `lines` may be NULL, and is copied.
plim_err manual_step_add(manual_steps *steps, const char *kind, plim_knob knob, const char *lines,
                         plim_error *error, const char *format, ...)
    __attribute__((format(printf, 6, 7)));

// The code that turns a setting on in a script, to paste; false: it is not known. `*where` says what to do with it
// (code_lines.c).
bool code_lines_for(plim_knob knob, const plim_value *value, const char **where, char *lines,
                    size_t size);

#endif
