// Training from preferences in a job: the method, its reference and the lengths of its answers.
#ifndef PLIM_APP_JOB_METHOD_H
#define PLIM_APP_JOB_METHOD_H

#include "job_options.h"

// Fills in the recipe if the method compares answers.
plim_err job_understand_method(const job_args *args, job_request *r, plim_error *error);

// "DPO with a reference model", "reward model", or "" for other trainings.
void job_describe_method(const job_request *r, char *text, size_t size);

// "DPO", "reward model"
const char *job_method_name(plim_method method);
// What a batch of the method has: " pairs", or "" for texts.
const char *job_samples_of(plim_method method);

#endif
