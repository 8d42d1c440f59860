// The record of one run while it runs. Samples and events are collected for some seconds and written in one transaction by a
// thread of its own, so that a slow disk, or another plimsoll that has the file locked, never makes the program's output wait.
//
//   run_record *record = run_record_new(history, id, &error);   // takes the history
//   run_record_add_sample(record, &sample);
//   err = run_record_end(record, &end, &error);                 // writes the rest
#ifndef PLIM_APP_RUN_RECORD_H
#define PLIM_APP_RUN_RECORD_H

#include "run_history.h"

typedef struct run_record run_record;

// On failure the history is closed, and NULL returned.
run_record *run_record_new(history *h, int64_t id, plim_error *error);

// These only remember; NULL is fine. Out of memory, what was given is missing from the record.
void run_record_add_sample(run_record *record, const history_sample *sample);
void run_record_add_event(run_record *record, double time, const char *kind, const char *text);

// Writes what is left and how the run ended (history_end), closes the history and frees the record. What could not be written
// before is tried again: an error means that something is missing.
plim_err run_record_end(run_record *record, const history_run *end, plim_error *error);

#endif
