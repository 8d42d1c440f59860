#include "notes_json.h"
#include "profile_report.h"

static const char *const ends[] = {[SIMULATE_RAN] = "ran",
                                   [SIMULATE_OUT_OF_MEMORY] = "out_of_memory",
                                   [SIMULATE_FAILED] = "failed"};

static void put_times(json_writer *j, const simulate_process *p) {
  profile_time time = profile_step_time(p);
  jsonw_number(j, "seconds_per_step", time.median);
  jsonw_u64(j, "warm_up_steps", PROFILE_WARM_UP);
  jsonw_array(j, "step_seconds"); // of the second step and those after it
  for (size_t i = 0; p && i < p->measured.step_seconds.len; i++)
    jsonw_number(j, NULL, p->measured.step_seconds.at[i]);
  jsonw_end(j);
}

static void put_pair(json_writer *j, const char *key, uint64_t predicted, uint64_t measured) {
  jsonw_object(j, key);
  jsonw_bytes(j, "predicted_bytes", predicted);
  jsonw_bytes(j, "measured_bytes", measured);
  jsonw_end(j);
}

static void put_others(json_writer *j, const char *key, const compare_others *others) {
  jsonw_array(j, key);
  for (size_t i = 0; i < others->len; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "name", others->at[i].name);
    jsonw_string(j, "predicted", others->at[i].predicted);
    jsonw_string(j, "measured", others->at[i].measured);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_lines(json_writer *j, const comparison *c) {
  jsonw_array(j, "lines");
  for (size_t i = 0; i < c->rows.len; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "where", c->rows.at[i].where);
    jsonw_bytes(j, "predicted_bytes", c->rows.at[i].predicted_bytes);
    jsonw_bytes(j, "measured_bytes", c->rows.at[i].measured_bytes);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_kinds(json_writer *j, const compare_side *a, const compare_side *b) {
  jsonw_array(j, "kinds");
  for (size_t i = 0; i < COMPARE_KINDS && a->has_kinds && b->has_kinds; i++) {
    jsonw_object(j, NULL);
    jsonw_string(j, "kind", compare_kind_names[i]);
    jsonw_bytes(j, "predicted_bytes", a->kind_bytes[i]);
    jsonw_bytes(j, "measured_bytes", b->kind_bytes[i]);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_comparison(json_writer *j, const profile_report *r) {
  const compare_side *a = &r->predicted, *b = &r->measured;
  jsonw_object(j, "comparison");
  jsonw_string(j, "against", r->against);
  jsonw_string(j, "made", a->made);
  put_pair(j, "peak_allocated", a->allocated_bytes, b->allocated_bytes);
  put_pair(j, "peak_reserved", a->reserved_bytes, b->reserved_bytes);
  put_pair(j, "outside", a->outside_bytes, b->outside_bytes);
  jsonw_number(j, "predicted_seconds_per_step", a->step_seconds);
  jsonw_string(j, "predicted_peak_at", a->peak_at);
  jsonw_string(j, "measured_peak_at", b->peak_at);
  put_kinds(j, a, b);
  put_lines(j, &r->difference);
  put_others(j, "versions", &r->difference.versions);
  put_others(j, "observed", &r->difference.observed);
  jsonw_end(j);
}

void profile_write_json(FILE *out, const profile_report *r) {
  json_writer writer = jsonw_begin(out), *j = &writer;
  const simulate_process *p = simulate_fullest(&r->part.run);
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  jsonw_string(j, "made_by", "profile");
  simulate_write_command(j, r->request->command);
  jsonw_string(j, "gpu", p ? p->measured.card : NULL);
  jsonw_bytes(j, "gpu_bytes", p ? p->measured.total_bytes : PLIM_UNKNOWN);
  jsonw_string(j, "end", ends[r->part.run.end]);
  jsonw_bool(j, "was_ended", p && p->was_ended);
  jsonw_bool(j, "was_interrupted", r->card.is_interrupted);
  put_times(j, p);
  jsonw_bytes(j, "outside_first_bytes", r->card.outside_first_bytes);
  jsonw_bytes(j, "outside_peak_bytes", r->card.outside_peak_bytes);
  jsonw_bytes(j, "other_processes_bytes", r->card.others_bytes);
  jsonw_bytes(j, "other_processes_after_bytes", r->card.others_after_bytes);
  simulate_write_part(j, "run", &r->part);
  if (r->has_comparison) put_comparison(j, r);
  else jsonw_null(j, "comparison");
  jsonw_array(j, "notes");
  notes_write(j, &r->notes);
  jsonw_end(j);
  jsonw_end(j);
  jsonw_finish(j);
}
