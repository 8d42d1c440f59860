// What `plimsoll estimate` found out, and the two ways to show it.
#ifndef PLIM_CLI_ESTIMATE_RESULT_H
#define PLIM_CLI_ESTIMATE_RESULT_H

#include "holdings.h"
#include "job_moment.h"
#include "job_needs.h"
#include "job_options.h"
#include "json_writer.h"

typedef struct {
  const job_args *args;
  job_request request;
  plim_estimate e;
  plim_holdings holders;     // empty unless asked for
  plim_version_needs others; // none: the versions are known
} estimate_result;

void estimate_print_text(const estimate_result *r);
void estimate_print_json(const estimate_result *r);

// The members of an estimate, into an open object.
void estimate_json_members(json_writer *j, const plim_estimate *e);
// "versions": of the libraries, and where each comes from.
void estimate_json_versions(json_writer *j, const job_args *args, const plim_versions *versions);

// The run that the estimate is of: under the limit if it fits, otherwise without one.
plim_predict_request estimate_request(const estimate_result *r);

// "activations of the layers, bf16 (2, 2048, 18944)".
void estimate_holding(const plim_holding *h, char *text, size_t size);

#endif
