// A plan as JSON: what `--json` prints and what `--out` saves, for `plimsoll apply` to read.
#ifndef PLIM_APP_PLAN_JSON_H
#define PLIM_APP_PLAN_JSON_H

#include "json_writer.h"
#include "manual_steps.h"

// The document, which the caller frees.
plim_err plan_json(const plan_result *r, char **text, plim_error *error);

// Parts of a saved plan: the files with their digests, what --set gave, what a rung writes (with the new command line, if
// a command was typed).
void plan_write_sources(json_writer *j, const plim_project *project);
void plan_write_places(json_writer *j, const cli_strings *sets);
void plan_write_writes(json_writer *j, const plim_project *project, const plim_knob_change *writes,
                       size_t count);
// The document that `write` fills in. A plan that can be saved ends with the digest of what stands before it. The caller
// frees the text.
typedef void plan_writer(json_writer *j, const void *report);
plim_err plan_document(plan_writer *write, const void *report, bool is_saved, char **text,
                       plim_error *error);

// "request": the run with these settings as a request of plimsoll_estimate (plan_reproduce.c).
void plan_write_request(json_writer *j, const plan_result *r, const plan_for_card *c,
                        const plim_choice *choice);

// Why a change is made, and that it does not change what the model learns; empty if its name explains it.
enum { PLAN_REASON_SIZE = 320 };
void plan_reason(const plan_for_card *c, plim_knob knob, char *text, size_t size);

#endif
