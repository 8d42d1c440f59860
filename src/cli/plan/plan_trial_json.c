#include <stdio.h>
#include <stdlib.h>

#include "cli_alloc.h"
#include "json_writer.h"
#include "notes_json.h"
#include "plan_show.h"
#include "plan_trial.h"
#include "simulate_report.h"

static void put_count(json_writer *j, const char *key, uint64_t count) {
  if (count) jsonw_u64(j, key, count);
  else jsonw_null(j, key);
}

static void put_run(json_writer *j, const char *key, const plan_trial_report *r,
                    const trial_run *run) {
  if (!run) {
    jsonw_null(j, key);
    return;
  }
  jsonw_object(j, key);
  jsonw_i64(j, "micro_batch", run->micro);
  put_count(j, "accumulate", (uint64_t)run->accumulation);
  put_count(j, "effective_batch", plan_trial_effective(r, run));
  jsonw_string(j, "verdict", plan_trial_verdicts[run->verdict]);
  jsonw_bool(j, "is_on_card", run->is_on_card);
  jsonw_bytes(j, "needs_bytes", run->needs_bytes);
  jsonw_bytes(j, "peak_allocated_bytes", run->allocated_bytes);
  jsonw_bytes(j, "peak_reserved_bytes", run->reserved_bytes);
  jsonw_u64(j, "retries", run->retries);
  jsonw_u64(j, "steps", run->steps);
  jsonw_number(j, "seconds", run->seconds);
  jsonw_string(j, "log", run->log);
  jsonw_end(j);
}

static void put_command(json_writer *j, const plan_trial_report *r) {
  jsonw_array(j, "command");
  for (const char *const *word = r->program->words; *word; word++) jsonw_string(j, NULL, *word);
  jsonw_end(j);
}

static void put_remarks(json_writer *j, const plan_trial_report *r) {
  char text[PLAN_TRIAL_REMARK];
  jsonw_array(j, "remarks");
  for (size_t i = 0; plan_trial_remark(r, i, text, sizeof text); i++) jsonw_string(j, NULL, text);
  jsonw_end(j);
}

// A diff is bytes without a 0 at its end.
static void put_changes(json_writer *j, const plan_trial_report *r) {
  const plim_diff *files = &r->diff.files;
  char *diff = files->len ? cli_format("%.*s", (int)files->len, files->at) : NULL;
  jsonw_object(j, "changes");
  jsonw_string(j, "command", r->diff.command);
  jsonw_string(j, "diff", diff);
  jsonw_end(j);
  free(diff);
}

// What plimsoll apply reads: the settings, and the changes that give the files these settings.
static void put_rungs(json_writer *j, const plan_trial_report *r) {
  const trial_run *best = plan_trial_best(r);
  plim_knob_change changes[2];
  jsonw_array(j, "ladder");
  if (best) {
    jsonw_object(j, NULL);
    jsonw_i64(j, "micro_batch", best->micro);
    put_count(j, "accumulate", (uint64_t)best->accumulation);
    jsonw_end(j);
  }
  jsonw_end(j);
  plan_write_sources(j, &r->program->files.project);
  plan_write_places(j, r->sets);
  jsonw_array(j, "rungs");
  if (best) {
    jsonw_object(j, NULL);
    plan_write_writes(j, &r->program->files.project, changes,
                      trial_changes(r->program, best->micro, changes));
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_document(json_writer *j, const void *report) {
  const plan_trial_report *r = report;
  const trial_search *s = r->search;
  jsonw_u64(j, "format_version", 1);
  put_command(j, r);
  jsonw_string_or_null(j, "gpu", r->card);
  jsonw_bytes(j, "budget_bytes", r->budget_bytes);
  jsonw_u64(j, "gpus", r->program->gpus);
  if (simulate_fullest(&s->first))
    simulate_write_observed(j, &simulate_fullest(&s->first)->observed);
  put_run(j, "now", r, &s->runs.at[0]);
  put_run(j, "planned", r, plan_trial_best(r));
  jsonw_bool(j, "is_exact", s->is_exact);
  jsonw_array(j, "runs");
  for (size_t i = 0; i < s->runs.len; i++) put_run(j, NULL, r, &s->runs.at[i]);
  jsonw_end(j);
  put_changes(j, r);
  put_remarks(j, r);
  jsonw_array(j, "notes");
  notes_write(j, r->notes);
  jsonw_end(j);
  put_rungs(j, r);
}

plim_err plan_trial_json(const plan_trial_report *r, char **text, plim_error *error) {
  return plan_document(put_document, r, true, text, error);
}
