// The ways to show an explanation.
#ifndef PLIM_CLI_EXPLAIN_SHOW_H
#define PLIM_CLI_EXPLAIN_SHOW_H

#include "explain.h"

// `name` is what the log is called: "train.log", "standard input".
void explain_print_text(const char *name, const plim_oom_log *log, const explanation *e);
void explain_print_json(const char *name, const plim_oom_log *log, const explanation *e);

#endif
