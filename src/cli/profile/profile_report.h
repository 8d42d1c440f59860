// What `plimsoll profile` prints. Text and JSON render the same struct.
#ifndef PLIM_CLI_PROFILE_REPORT_H
#define PLIM_CLI_PROFILE_REPORT_H

#include "compare.h"
#include "profile.h"
#include "simulate_report.h"

typedef struct {
  const profile_request *request;
  simulate_part part; // the run, and the replay of the snapshot of its fullest process
  profile_card card;
  uint64_t top; // how many rows the tables list
  // With --compare or --against.
  bool has_comparison;
  char against[600]; // what it was compared with: "the same command on a simulated H200"
  compare_side predicted, measured;
  comparison difference;
  plim_notes notes;
} profile_report;

// Adds to the notes what the user must know about the measurement.
void profile_add_notes(profile_report *r);
void profile_print_text(const profile_report *r);
void profile_print_comparison(const profile_report *r);
// Without the comparison, if there is none yet.
void profile_write_json(FILE *out, const profile_report *r);

#endif
