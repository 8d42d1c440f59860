// A job as the options of `plimsoll estimate` that predict the same run.
#ifndef PLIM_APP_JOB_AS_OPTIONS_H
#define PLIM_APP_JOB_AS_OPTIONS_H

#include "job_effects.h"
#include "job_options.h"

// Texts that the options refer to.
typedef struct {
  char tables[96];
  plim_packages_name packages;
  plim_versions_name versions;
} job_option_texts;

typedef struct {
  const plim_job *job;
  const job_args *own;        // what it was understood from
  const job_request *request; // and the result
  const char *conf, *gpu;     // empty: none
} job_described;

// The options; settings without an option are missing. They refer to *texts and to what `d` refers to.
job_args job_as_options(const job_described *d, job_option_texts *texts);

// Names a setting of the files for which there is no option; NULL if none is known. `own` and `job` as above.
const char *job_setting_without_option(const job_args *own, const plim_job *job);

// Whether two sets of options have the same value of this option of job_own_options; whether it has its default.
bool job_option_is_same(const cli_option *option, const job_args *a, const job_args *b);
bool job_option_is_usual(const cli_option *option, const job_args *a);

// The command line, which the caller frees; NULL if memory runs out.
char *job_command_line(const job_args *a);

#endif
