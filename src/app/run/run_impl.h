// Between the files of this folder.
#ifndef PLIM_APP_RUN_IMPL_H
#define PLIM_APP_RUN_IMPL_H

#include "run.h"

// Seconds since 1970.
double run_clock(void);

// Sends an event to options.notify, without waiting (run_notify.c).
void run_notify(const run *r, const char *event, const char *text);

// Reads what the processes appended, writes samples to the record, and warns (run_follow.c).
void run_follow(run *r, run_end *end);

#endif
