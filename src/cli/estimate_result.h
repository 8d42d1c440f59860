// What `plimsoll estimate` found out, and the two ways to show it.
#ifndef PLIM_CLI_ESTIMATE_RESULT_H
#define PLIM_CLI_ESTIMATE_RESULT_H

#include "holders.h"
#include "job_options.h"
#include "json.h"

typedef struct {
  const job_args *args;
  job_request request;
  plim_estimate e;
  plim_holders holders; // empty unless asked for
} estimate_result;

void estimate_print_text(const estimate_result *r);
void estimate_print_json(const estimate_result *r);

// The members of an estimate, into an open object.
void estimate_json_members(json_writer *j, const plim_estimate *e);

// "step 2, backward of layer 27: down_proj".
void estimate_place(const plim_place *place, char *text, size_t size);

#endif
