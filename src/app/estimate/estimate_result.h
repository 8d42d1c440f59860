// What `plimsoll estimate` finds out, and its JSON.
//
//   estimate_result r = {.args = &args};
//   err = estimate_make(&r, &source, &error);
//   if (!err) err = json_text(estimate_write, &r, &text, &error);
//   estimate_clear(&r);
#ifndef PLIM_APP_ESTIMATE_RESULT_H
#define PLIM_APP_ESTIMATE_RESULT_H

#include "holdings.h"
#include "job_moment.h"
#include "job_needs.h"
#include "job_options.h"
#include "json_writer.h"

typedef struct {
  const job_args *args;
  bool wants_holders;
  uint64_t columns; // of the timeline; 0: none is wanted
  job_request request;
  plim_estimate e;
  plim_holdings holders;     // empty unless asked for
  plim_version_needs others; // none: the versions are known
} estimate_result;

// Predicts. On error, `*source` is the text that error->byte refers to, or NULL. Clear the result in any case.
plim_err estimate_make(estimate_result *r, const char **source, plim_error *error);
void estimate_clear(estimate_result *r);

// The run that the estimate describes: with the limit if it fits, otherwise without one.
plim_predict_request estimate_request(const estimate_result *r);

// The whole document of an estimate_result; for the timeline, the estimate is made once more.
void estimate_write(json_writer *j, const void *result);
// The members of an estimate, into an open object.
void estimate_json_members(json_writer *j, const plim_estimate *e);
// "versions": of the libraries, and where each comes from.
void estimate_json_versions(json_writer *j, const job_args *args, const plim_versions *versions);
// "timeline": memory over the steps, an array for each quantity (estimate_timeline.c).
void estimate_json_timeline(json_writer *j, const estimate_result *r);
// These options as a request of plimsoll_estimate: an object without options that have their defaults.
void estimate_json_options(json_writer *j, const char *name, const job_args *args);

#endif
