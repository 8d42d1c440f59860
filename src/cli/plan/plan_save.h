// The file of `--out`, and what a plan by prediction prints.
#ifndef PLIM_CLI_PLAN_SAVE_H
#define PLIM_CLI_PLAN_SAVE_H

#include "plan_make.h"

// Refuses --out if it would overwrite one of the files, which may be NULL, or another file that is not a plan.
plim_err plan_check_out(const plan_args *args, const project_job *files, plim_error *error);
plim_err plan_save(const char *json, const char *path, plim_error *error);
// Saves and prints the plan; returns the exit code.
int plan_show(const plan_result *r, bool is_json);

#endif
