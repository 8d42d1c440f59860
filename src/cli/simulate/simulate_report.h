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
  const char *card;      // in words: "RTX 4090", "24.0 GiB"; empty: none was given
  bool has_name;         // the card was named; otherwise its kernels and rates are those of an H200
  bool has_limit;        // a card or a limit was given, so there is a verdict
  bool is_whole_card;    // the limit is the card's memory, CUDA's share included; not --limit
  uint64_t budget_bytes; // of the card, as CUDA reports it
  simulate_part capped;  // on the card that was asked for
  simulate_part large;   // if that ran out of memory: on a card that is large enough
  bool has_large;
  const plim_notes *notes; // on the card
  plim_notes found;        // on the runs; simulate_add_notes adds them
  const trial_with *with;  // settings that were changed for this run; NULL: none
} simulate_report;

// The run that says what the program needs.
const simulate_part *simulate_whole(const simulate_report *report);
// Whether a program that ran out of memory would have had enough without --fault.
bool simulate_is_by_fault(const simulate_report *report);
// The memory that the run needs on its fullest card, with CUDA's context; 0 if it used none.
uint64_t simulate_needs(const simulate_part *part);
// Fills in `found`: what the user must know about the runs, the same in text and JSON.
void simulate_add_notes(simulate_report *report);

// The peak of allocated memory in each phase that the fullest process went through, in the order of their first beginning.
enum { SIMULATE_PHASES = 8 };
typedef struct {
  const char *name;
  uint64_t peak_bytes;
} simulate_phase_peak;
// Returns how many there are; 0 if they are not known.
size_t simulate_phase_peaks(const simulate_part *part, simulate_phase_peak out[SIMULATE_PHASES]);

// Runs the program once, with a line of progress on a terminal, and reads the snapshot of its fullest process. With
// `is_verbose` the program's output is shown instead. Whatever the outcome, clear the part.
plim_err simulate_run_part(const simulate_request *request, bool is_verbose, uint64_t top,
                           simulate_part *part, plim_error *error);
void simulate_part_clear(simulate_part *part);
// Reads the snapshot of the part's fullest process; `top`: how many rows its tables list.
plim_err simulate_read_snapshot(simulate_part *part, uint64_t top, plim_error *error);
// Before the run: whether `path`, of --out, can be written and is not one of the user's other files; NULL is fine.
plim_err simulate_check_out(const char *path, plim_error *error);
// Copies that snapshot to a file of the user's; `path` NULL: nothing to do.
plim_err simulate_keep_snapshot(const simulate_part *part, const char *path, plim_error *error);

void simulate_print_text(const simulate_report *report);
void simulate_write_json(FILE *out, const simulate_report *report);
// Parts of both, for `profile`.
extern const cli_positional simulate_positionals[]; // COMMAND
void simulate_print_command(const char *const *command);
void simulate_print_peaks(const simulate_part *part, bool is_of_larger_card);
void simulate_print_phases(const simulate_part *part);
void simulate_print_ranks(const simulate_part *part);
void simulate_write_command(json_writer *j, const char *const *command);
void simulate_write_part(json_writer *j, const char *key, const simulate_part *part);
// What a process does: model, batch, precision. Nothing if it was not seen; `p` may be NULL.
void simulate_print_observed(const simulate_process *p);
// What the savers did in it; `p` may be NULL.
void simulate_print_savers(const simulate_process *p);
// The same as the member "observed" of a JSON object.
void simulate_write_observed(json_writer *j, const simulate_observed *o);
// The path of a file from its installed package on, otherwise all of it. Points into `file`.
const char *simulate_short_path(const char *file);
// What a function of CUDA's was asked for, if the answer was 0 because nobody knows it: the real program needs more. NULL
// for other functions.
const char *simulate_taken_as_zero(const char *function);
// The last lines of the log, for a program that failed.
void simulate_print_log(const char *path);

#endif
