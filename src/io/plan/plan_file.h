// Reads a saved plan: the files it was made from, with their digests, and the knobs to change in them.
#ifndef PLIM_IO_PLAN_FILE_H
#define PLIM_IO_PLAN_FILE_H

#include "knob_change.h"
#include "project.h"
#include "sha256.h"

typedef struct {
  char *path;
  char *text; // of a command line that was typed, which is no file; NULL: a file
  char *
      target; // of a Makefile or the like, whose commands start the training; NULL: an ordinary file
  uint64_t size;
  uint8_t sha256[PLIM_SHA256_BYTES];
} plim_plan_source;

// A binding given by --set: the key that decides a knob.
typedef struct {
  plim_knob knob;
  char *path, *key;
} plim_plan_place;

// A setting that cannot be written into the files.
typedef struct {
  plim_knob knob;
  plim_value value;
  const char *reason;
} plim_plan_left;

// Something to do by hand.
typedef struct {
  plim_knob knob; // PLIM_KNOBS: the step is not about a knob
  const char *text,
      *lines;      // what to do, and what to paste; lines is NULL if there is nothing to paste
  const char *why; // the reason why it is left to the user; may be NULL
} plim_plan_step;

typedef struct {
  vec(plim_plan_source) files;
  vec(plim_plan_place) places;
  vec(plim_knob_change) changes;
  vec(plim_plan_left) by_hand;
  bool fits_as_written;      // whether the written files fit before the manual steps are done
  uint64_t as_written_bytes; // the memory they need
  vec(plim_plan_step) steps;
  const char *replan; // the command that plans without manual steps; NULL: the plan has none
  vec(char *) texts;  // texts of values, reasons and steps; owned
} plim_plan_file;

// Parses a plan written by `plimsoll plan --out` and selects one rung, counted from 1.
plim_err plim_plan_file_parse(const char *text, size_t size, uint64_t rung, plim_plan_file *out,
                              plim_error *error);
void plim_plan_file_clear(plim_plan_file *plan);

#endif
