// plimsoll estimate --as TRAINER: the run as a file of that trainer.
#ifndef PLIM_CLI_SHOW_SETTINGS_H
#define PLIM_CLI_SHOW_SETTINGS_H

#include "job_options.h"

// Prints the file, and beside it (on stderr) what it leaves out and how it is started. Returns the exit code.
int show_settings(const job_args *args, const char *dialect, bool as_json);

#endif
