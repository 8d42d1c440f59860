// What `plimsoll simulate` prints. Text and JSON render the same struct.
#ifndef PLIM_CLI_SIMULATE_REPORT_H
#define PLIM_CLI_SIMULATE_REPORT_H

#include "job_options.h"
#include "replay_result.h"
#include "simulate.h"
#include "trial.h"

// One run, and the replay of the snapshot of its fullest process.
typedef struct {
  simulate_result run;
  replay_result replay;
  bool has_replay;
} simulate_part;

typedef struct {
  const simulate_request *request;
  const char *card;      // in words: "RTX 4090"
  bool has_limit;        // a card or a limit was given, so there is a verdict
  uint64_t budget_bytes; // of the card, as CUDA reports it
  simulate_part capped;  // on the card that was asked for
  simulate_part large;   // if that ran out of memory: on a card that is large enough
  bool has_large;
  const plim_notes *notes;
  const trial_with *with; // settings that were changed for this run; NULL: none
} simulate_report;

// The run that says what the program needs.
const simulate_part *simulate_whole(const simulate_report *report);
// The memory that the run needs on its fullest card, with CUDA's context; 0 if it used none.
uint64_t simulate_needs(const simulate_part *part);

// The peak of allocated memory in each phase that the fullest process went through, in the order of their first beginning.
enum { SIMULATE_PHASES = 8 };
typedef struct {
  const char *name;
  uint64_t peak_bytes;
} simulate_phase_peak;
// Returns how many there are; 0 if they are not known.
size_t simulate_phase_peaks(const simulate_part *part, simulate_phase_peak out[SIMULATE_PHASES]);

void simulate_print_text(const simulate_report *report);
void simulate_print_json(const simulate_report *report);
// What a process does: model, batch, precision. Nothing if it was not seen; `p` may be NULL.
void simulate_print_observed(const simulate_process *p);
// The last lines of the log, for a program that failed.
void simulate_print_log(const char *path);

#endif
