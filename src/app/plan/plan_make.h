// Makes a plan by prediction, of the user's files, of options alone, or of a program that was observed.
//
//   plan_result r = plan_result_new(call, &args);
//   err = plan_check_args(&args, &error);
//   if (!err) err = plan_result_make(&args, &files, &r, &source, &error);
//   if (!err) err = plan_result_finish(&r, &error);
//   plan_result_clear(&r);
#ifndef PLIM_APP_PLAN_MAKE_H
#define PLIM_APP_PLAN_MAKE_H

#include "plan_options.h"
#include "plan_result.h"

// Checks the options for duration and price: they must be valid, and need --samples.
plim_err plan_check_args(const plan_args *args, plim_error *error);
// An empty result; `args` must outlive it.
plan_result plan_result_new(const cli_call *call, const plan_args *args);
// Takes arguments from the files, which may be NULL, and plans for the cards. args->typed and the members of args->job that
// tell what was typed must be set. On error, `*source` is the text that error->byte refers to, or NULL.
plim_err plan_result_make(plan_args *args, project_job *files, plan_result *r, const char **source,
                          plim_error *error);
// Adds, of a plan for one GPU, the best plan without manual steps; and the commands that predict the plans again.
plim_err plan_result_finish(plan_result *r, plim_error *error);
void plan_result_clear(plan_result *r);

#endif
