#include <stdio.h>

#include "show_notes.h"
#include "simulate_report.h"

static const char *verdict_of(const simulate_report *r) {
  if (r->capped.run.end == SIMULATE_FAILED) return "failed";
  if (!r->has_limit) return "unknown";
  return r->capped.run.end == SIMULATE_RAN ? "fits" : "does_not_fit";
}

static void put_command(json_writer *j, const simulate_report *r) {
  jsonw_array(j, "command");
  for (const char *const *word = r->request->command; *word; word++) jsonw_string(j, NULL, *word);
  jsonw_end(j);
}

static void put_looks(json_writer *j, const simulate_process *p) {
  jsonw_array(j, "looked_at");
  for (size_t i = 0; i < p->looks.len; i++) {
    const simulate_look *look = &p->looks.at[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "file", look->file);
    jsonw_i64(j, "line", look->line);
    jsonw_u64(j, "times", look->times);
    jsonw_string(j, "type", look->type);
    jsonw_string(j, "told", look->told);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_process(json_writer *j, const simulate_process *p) {
  jsonw_object(j, NULL);
  jsonw_i64(j, "rank", p->rank);
  jsonw_i64(j, "world", p->world);
  jsonw_u64(j, "steps", p->steps);
  jsonw_bytes(j, "peak_allocated_bytes", p->peak_allocated_bytes);
  jsonw_bytes(j, "peak_reserved_bytes", p->peak_reserved_bytes);
  jsonw_u64(j, "ooms", p->ooms);
  jsonw_u64(j, "retries", p->retries);
  jsonw_bytes(j, "host_bytes", p->host_bytes);
  jsonw_bool(j, "has_values", p->has_values);
  jsonw_object(j, "versions");
  for (size_t i = 0; i < p->versions.len; i++)
    jsonw_string(j, p->versions.at[i].name, p->versions.at[i].version);
  jsonw_end(j);
  put_looks(j, p);
  jsonw_end(j);
}

static void put_unmodelled(json_writer *j, const simulate_result *run) {
  jsonw_array(j, "unmodelled");
  for (size_t i = 0; i < run->unmodelled.len; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "function", run->unmodelled.at[i].name);
    jsonw_u64(j, "calls", run->unmodelled.at[i].calls);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_part(json_writer *j, const char *key, const simulate_part *part) {
  jsonw_object(j, key);
  jsonw_bytes(j, "needs_bytes", simulate_needs(part));
  jsonw_u64(j, "steps", simulate_steps(&part->run));
  jsonw_number(j, "seconds", part->run.seconds);
  jsonw_bytes(j, "pinned_bytes", part->run.pinned_bytes);
  jsonw_u64(j, "launches", part->run.launches);
  jsonw_string(j, "log", part->run.log);
  jsonw_array(j, "processes");
  for (size_t i = 0; i < part->run.processes.len; i++) put_process(j, &part->run.processes.at[i]);
  jsonw_end(j);
  put_unmodelled(j, &part->run);
  if (part->has_replay) {
    jsonw_object(j, "replay");
    replay_write_json(j, &part->replay);
    jsonw_end(j);
  } else jsonw_null(j, "replay");
  jsonw_end(j);
}

void simulate_print_json(const simulate_report *r) {
  json_writer writer = jsonw_begin(stdout), *j = &writer;
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  put_command(j, r);
  jsonw_string(j, "card", r->card);
  jsonw_u64(j, "gpus", r->request->gpus);
  jsonw_bytes(j, "budget_bytes", r->has_limit ? r->budget_bytes : PLIM_UNKNOWN);
  jsonw_string(j, "verdict", verdict_of(r));
  put_part(j, "run", &r->capped);
  if (r->has_large) put_part(j, "large_enough", &r->large);
  else jsonw_null(j, "large_enough");
  jsonw_array(j, "notes");
  notes_write(j, r->notes);
  jsonw_end(j);
  jsonw_end(j);
  jsonw_finish(j);
}
