// A saved plan: the files it was made from, as they were, and the knobs it wants changed in them.
#ifndef PLIM_IO_PLAN_FILE_H
#define PLIM_IO_PLAN_FILE_H

#include "knob_change.h"
#include "project.h"
#include "sha256.h"

typedef struct {
  char *path;
  uint64_t size;
  uint8_t sha256[PLIM_SHA256_BYTES];
} plim_plan_source;

// A binding of --set: where a knob is.
typedef struct {
  plim_knob knob;
  char *path, *key;
} plim_plan_place;

// A setting that the files have no place for.
typedef struct {
  plim_knob knob;
  plim_value value;
  const char *reason;
} plim_plan_left;

// Something to do by hand.
typedef struct {
  plim_knob knob;           // PLIM_KNOBS: it is about none
  const char *text, *lines; // what to do, and what to paste; lines: NULL if there is nothing
} plim_plan_step;

typedef struct {
  vec(plim_plan_source) files;
  vec(plim_plan_place) places;
  vec(plim_knob_change) changes;
  vec(plim_plan_left) by_hand;
  bool fits_as_written;      // while nothing was done by hand
  uint64_t as_written_bytes; //
  vec(plim_plan_step) steps;
  const char *replan; // the command that plans without what is left by hand; NULL: not said
  vec(char *) texts;  // of values, reasons and steps; owned
} plim_plan_file;

// Of the text of a plan that `plimsoll plan --out` wrote. `rung` is counted from 1.
plim_err plim_plan_file_parse(const char *text, size_t size, uint64_t rung, plim_plan_file *out,
                              plim_error *error);
void plim_plan_file_clear(plim_plan_file *plan);

#endif
