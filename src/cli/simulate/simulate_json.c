#include <stdio.h>

#include "notes_json.h"
#include "simulate_report.h"
#include "step_time_error.h"

static const char *verdict_of(const simulate_report *r) {
  if (r->capped.run.end == SIMULATE_FAILED) return "failed";
  if (simulate_is_by_fault(r)) return "out_of_memory_by_fault";
  if (!r->has_limit || !simulate_fullest(&simulate_whole(r)->run)) return "unknown";
  return r->capped.run.end == SIMULATE_RAN ? "fits" : "does_not_fit";
}

void simulate_write_command(json_writer *j, const char *const *command) {
  jsonw_array(j, "command");
  for (const char *const *word = command; *word; word++) jsonw_string(j, NULL, *word);
  jsonw_end(j);
}

// 0: not known.
static void put_count(json_writer *j, const char *key, int64_t count) {
  if (count) jsonw_i64(j, key, count);
  else jsonw_null(j, key);
}

static void put_changed(json_writer *j, const trial_with *with) {
  static const char *const where[] = {"command", "environment", "file", "added_file", "computed"};
  jsonw_array(j, "changed");
  for (size_t i = 0; with && i < with->changed.len; i++) {
    const trial_changed *c = &with->changed.at[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "knob", plim_knob_table[c->knob].name);
    jsonw_string(j, "where", where[c->where]);
    jsonw_string_or_null(j, "file", c->file);
    jsonw_string(j, "key", c->key);
    jsonw_string_or_null(j, "from", c->from);
    jsonw_string(j, "to", c->to);
    jsonw_end(j);
  }
  jsonw_end(j);
  if (!with) return;
  put_count(j, "effective_batch_before", with->effective_before);
  put_count(j, "effective_batch_after", with->effective_after);
  put_count(j, "accumulate_to_keep_it", with->keeping_accumulation);
}

static void put_world(json_writer *j, const simulate_report *r) {
  const simulate_process *p = simulate_fullest(&simulate_whole(r)->run);
  if (!r->request->world) {
    jsonw_null(j, "world");
    return;
  }
  jsonw_object(j, "world");
  jsonw_u64(j, "ranks", r->request->world);
  jsonw_bool(j, "has_process_group", p && p->is_grouped);
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

static void put_routes(json_writer *j, const simulate_process *p) {
  jsonw_array(j, "routed");
  for (size_t i = 0; i < p->routes.len; i++) {
    const simulate_route *route = &p->routes.at[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "file", route->file);
    jsonw_i64(j, "line", route->line);
    jsonw_u64(j, "times", route->times);
    jsonw_u64(j, "choices", route->choices);
    jsonw_u64(j, "chosen", route->chosen);
    jsonw_end(j);
  }
  jsonw_end(j);
}

void simulate_write_observed(json_writer *j, const simulate_observed *o) {
  jsonw_object(j, "observed");
  jsonw_string(j, "model", o->model);
  jsonw_string(j, "model_type", o->type);
  jsonw_string(j, "attention", o->attention);
  jsonw_u64(j, "parameters", o->parameters);
  jsonw_u64(j, "trained", o->trained);
  jsonw_string(j, "adapters", o->adapters);
  jsonw_u64(j, "adapter_rank", o->rank);
  jsonw_string(j, "autocast", o->autocast);
  jsonw_bool(j, "checkpointing", o->checkpoints);
  jsonw_string(j, "optimizer", o->optimizer);
  jsonw_string(j, "strategy", o->strategy);
  jsonw_u64(j, "accumulation", o->accumulation);
  jsonw_array(j, "batch");
  for (size_t i = 0; i < 2; i++) jsonw_u64(j, NULL, o->batch[i]);
  jsonw_end(j);
  jsonw_u64(j, "batch_shapes", o->shapes);
  jsonw_end(j);
}

static void put_chunks(json_writer *j, const savers_done *done) {
  if (!done->wants_chunks) {
    jsonw_null(j, "chunked_loss");
    return;
  }
  jsonw_object(j, "chunked_loss");
  jsonw_u64(j, "tokens", done->chunk_tokens);
  jsonw_u64(j, "losses", done->losses);
  jsonw_u64(j, "most_tokens", done->most_tokens);
  jsonw_bytes(j, "float32_logits_bytes", done->logits_bytes);
  jsonw_string_or_null(j, "why_off", done->why_off ? done->why_off : "");
  jsonw_array(j, "logits_read_at");
  for (size_t i = 0; i < done->looks.len; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "file", done->looks.at[i].file);
    jsonw_i64(j, "line", done->looks.at[i].line);
    jsonw_u64(j, "times", done->looks.at[i].times);
    jsonw_end(j);
  }
  jsonw_end(j);
  jsonw_end(j);
}

// null: not wanted
static void put_calls(json_writer *j, const char *key, uint64_t calls) {
  if (calls == PLIM_UNKNOWN) jsonw_null(j, key);
  else jsonw_u64(j, key, calls);
}

static void put_savers(json_writer *j, const savers_done *done) {
  jsonw_object(j, "savers");
  put_chunks(j, done);
  put_calls(j, "empty_cache_calls", done->emptied);
  put_calls(j, "gc_calls", done->collected);
  jsonw_end(j);
}

static void put_phases(json_writer *j, const simulate_part *part) {
  simulate_phase_peak peaks[SIMULATE_PHASES];
  size_t count = simulate_phase_peaks(part, peaks);
  jsonw_object(j, "phase_peaks_bytes");
  for (size_t i = 0; i < count; i++) jsonw_bytes(j, peaks[i].name, peaks[i].peak_bytes);
  jsonw_end(j);
}

static void put_failure(json_writer *j, const simulate_failure *f) {
  if (!f->text) {
    jsonw_null(j, "failure");
    return;
  }
  jsonw_object(j, "failure");
  jsonw_string(j, "text", f->text);
  jsonw_string_or_null(j, "file", f->file);
  jsonw_u64(j, "line", (uint64_t)f->line);
  jsonw_end(j);
}

static void put_step(json_writer *j, const simulate_step *s) {
  if (!s->kernels) {
    jsonw_null(j, "step");
    return;
  }
  jsonw_object(j, "step");
  jsonw_number(j, "seconds", s->seconds);
  jsonw_number(j, "worst_factor", STEP_TIME_WORST);
  jsonw_number(j, "product_seconds", s->product_seconds);
  jsonw_number(j, "attention_seconds", s->attention_seconds);
  jsonw_number(j, "memory_seconds", s->memory_seconds);
  jsonw_number(j, "host_seconds", s->host_seconds);
  jsonw_u64(j, "kernels", s->kernels);
  jsonw_end(j);
}

static void put_process(json_writer *j, const simulate_process *p) {
  jsonw_object(j, NULL);
  jsonw_i64(j, "rank", p->rank);
  jsonw_i64(j, "world", p->world);
  jsonw_i64(j, "local_rank", p->local_rank);
  put_failure(j, &p->failure);
  jsonw_u64(j, "steps", p->steps);
  jsonw_bytes(j, "peak_allocated_bytes", p->peak_allocated_bytes);
  jsonw_bytes(j, "peak_reserved_bytes", p->peak_reserved_bytes);
  jsonw_u64(j, "ooms", p->ooms);
  jsonw_u64(j, "retries", p->retries);
  jsonw_bytes(j, "host_bytes", p->host_bytes);
  jsonw_bool(j, "has_values", p->has_values);
  put_step(j, &p->step);
  jsonw_object(j, "versions");
  for (size_t i = 0; i < p->versions.len; i++)
    jsonw_string(j, p->versions.at[i].name, p->versions.at[i].version);
  jsonw_end(j);
  jsonw_bool(j, "has_triton", !p->is_without_triton);
  simulate_write_observed(j, &p->observed);
  put_savers(j, &p->savers);
  put_looks(j, p);
  put_routes(j, p);
  jsonw_end(j);
}

static void put_unmodelled(json_writer *j, const simulate_result *run) {
  jsonw_array(j, "unmodelled");
  for (size_t i = 0; i < run->unmodelled.len; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "function", run->unmodelled.at[i].name);
    jsonw_u64(j, "calls", run->unmodelled.at[i].calls);
    jsonw_bool(j, "is_taken_as_zero", simulate_taken_as_zero(run->unmodelled.at[i].name));
    jsonw_end(j);
  }
  jsonw_end(j);
}

void simulate_write_part(json_writer *j, const char *key, const simulate_part *part) {
  jsonw_object(j, key);
  jsonw_bytes(j, "needs_bytes", simulate_needs(part));
  put_count(j, "processes_on_gpu", part->run.sharing); // profile does not know it
  jsonw_u64(j, "steps", simulate_steps(&part->run));
  jsonw_number(j, "seconds", part->run.seconds);
  jsonw_bytes(j, "pinned_bytes", part->run.pinned_bytes);
  jsonw_u64(j, "launches", part->run.launches);
  jsonw_string_or_null(j, "log", part->run.log);
  jsonw_array(j, "processes");
  for (size_t i = 0; i < part->run.processes.len; i++) put_process(j, &part->run.processes.at[i]);
  jsonw_end(j);
  put_phases(j, part);
  put_unmodelled(j, &part->run);
  jsonw_string_or_null(j, "read_only", part->run.read_only);
  if (part->has_replay) {
    jsonw_object(j, "replay");
    replay_write_json(j, &part->replay);
    jsonw_end(j);
  } else jsonw_null(j, "replay");
  jsonw_end(j);
}

static void put_faults(json_writer *j, const simulate_result *run) {
  jsonw_array(j, "faults");
  for (size_t i = 0; i < run->fault_count; i++) {
    const card_fault *f = &run->faults[i];
    bool is_leak = f->kind == CARD_FAULT_LEAK, is_counted = f->kind != CARD_FAULT_OTHER_PROCESS;
    jsonw_object(j, NULL);
    jsonw_string(j, "fault", f->text);
    jsonw_bool(j, "happened", f->has_begun);
    if (is_counted && !is_leak) jsonw_u64(j, "calls", f->times);
    else jsonw_null(j, "calls");
    jsonw_bytes(j, "bytes", is_leak ? f->times : is_counted ? PLIM_UNKNOWN : f->amount);
    jsonw_end(j);
  }
  jsonw_end(j);
}

void simulate_write_json(FILE *out, const simulate_report *r) {
  json_writer writer = jsonw_begin(out), *j = &writer;
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  simulate_write_command(j, r->request->command);
  put_changed(j, r->with);
  jsonw_string_or_null(j, "gpu", r->card);
  jsonw_string(j, "rates_of", r->request->gpu->name);
  jsonw_u64(j, "gpus", r->request->gpus);
  put_world(j, r);
  jsonw_bytes(j, "budget_bytes", r->has_limit ? r->budget_bytes : PLIM_UNKNOWN);
  jsonw_string(j, "verdict", verdict_of(r));
  put_faults(j, &r->capped.run);
  simulate_write_part(j, "run", &r->capped);
  if (r->has_large) simulate_write_part(j, "large_enough", &r->large);
  else jsonw_null(j, "large_enough");
  jsonw_array(j, "notes");
  notes_write(j, r->notes);
  notes_write(j, &r->found);
  jsonw_end(j);
  jsonw_end(j);
  jsonw_finish(j);
}
