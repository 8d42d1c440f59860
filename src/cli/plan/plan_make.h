// Makes and shows a plan by prediction, of the user's files or of a program that was observed.
#ifndef PLIM_CLI_PLAN_MAKE_H
#define PLIM_CLI_PLAN_MAKE_H

#include "plan_options.h"
#include "plan_result.h"

// An empty result; `args` must outlive it.
plan_result plan_result_new(const cli_call *call, const plan_args *args);
// Takes arguments from the files, which may be NULL, and plans for the cards. args->typed and the members of args->job that
// tell what was typed must be set. On error, `*source` is the text that error->byte refers to, or NULL.
plim_err plan_result_make(plan_args *args, project_job *files, plan_result *r, const char **source,
                          plim_error *error);
void plan_result_clear(plan_result *r);

// Refuses --out if it would overwrite one of the files, which may be NULL, or another file that is not a plan.
plim_err plan_check_out(const plan_args *args, const project_job *files, plim_error *error);
plim_err plan_save(const char *json, const char *path, plim_error *error);
// Saves and prints the plan; returns the exit code.
int plan_show(const plan_result *r, bool is_json);

#endif
