// Between the files of this folder.
#ifndef PLIM_APP_RUN_IMPL_H
#define PLIM_APP_RUN_IMPL_H

#include "run.h"

// Seconds since 1970.
double run_clock(void);

// Sends an event to options.notify, without waiting (run_notify.c). `end` waits until all are sent, or have failed.
void run_notify(run *r, const char *event, const char *text);
void run_notify_end(run *r);

// Reads what the processes appended, writes samples to the record, and warns (run_follow.c).
void run_follow(run *r, run_end *end);
// When the program has ended: its last samples too.
void run_follow_last(run *r, run_end *end);

// Looks at the snapshots that the program has written, and asks for others (run_findings.c). The second is for a program that
// has ended.
void run_inquire(run *r, run_end *end);
void run_inquire_last(run *r, run_end *end);
// The memory of this process grows: finds out at which lines.
void run_suspect_leak(run *r, run_end *end, unsigned pid);

// The hook library (run_hook.c). `look` warns of spilled memory; `end` says what the library did.
plim_err run_hook_begin(run *r, plim_error *error);
void run_hook_look(run *r);
void run_hook_end(run *r);

#endif
