#include <math.h>

#include "json_writer.h"
#include "watch_show.h"

static void write_driver(json_writer *j, const watch_cards *c) {
  char text[160];
  jsonw_object(j, "driver");
  jsonw_string(j, "state", watch_driver_names[c->state]);
  if (c->state == WATCH_DRIVER_SILENT) jsonw_number(j, "silent_seconds", floor(c->silent_seconds));
  else jsonw_null(j, "silent_seconds");
  jsonw_string(j, "message", watch_driver_says(c, text, sizeof text));
  jsonw_end(j);
}

static void write_watts(json_writer *j, const char *key, uint64_t milliwatts) {
  jsonw_number(j, key, milliwatts == PLIM_UNKNOWN ? NAN : (double)milliwatts / 1000);
}

static void write_processes(json_writer *j, const watch *w, const watch_card *c) {
  if (!c->lists_processes) {
    jsonw_null(j, "processes");
    return;
  }
  jsonw_array(j, "processes");
  for (size_t i = 0; i < c->process_count; i++) {
    const watch_process *p = &c->processes[i];
    const watch_run *run = watch_run_of(w, p->process.pid);
    jsonw_object(j, NULL);
    jsonw_u64(j, "pid", p->process.pid);
    jsonw_string_or_null(j, "name", p->is.name);
    jsonw_string_or_null(j, "user", p->is.user);
    jsonw_bytes(j, "used_bytes", p->process.used_bytes);
    jsonw_string(j, "run", run ? run->run.name : NULL);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void write_cards(json_writer *j, const watch *w) {
  if (!w->cards.count && w->cards.state != WATCH_DRIVER_HERE) { // not known which there are
    jsonw_null(j, "cards");
    return;
  }
  jsonw_array(j, "cards");
  for (size_t i = 0; i < w->cards.count; i++) {
    const watch_card *c = &w->cards.at[i];
    jsonw_object(j, NULL);
    jsonw_u64(j, "index", c->card.index);
    jsonw_string_or_null(j, "name", c->card.name);
    jsonw_string_or_null(j, "uuid", c->card.uuid);
    jsonw_bytes(j, "total_bytes", c->card.total_bytes);
    jsonw_bytes(j, "used_bytes", c->card.used_bytes);
    jsonw_bytes(j, "free_bytes", c->card.free_bytes);
    jsonw_bytes(j, "busy_percent", c->activity.busy_percent);
    jsonw_bytes(j, "temperature_celsius", c->activity.temperature_celsius);
    write_watts(j, "power_watts", c->activity.power_milliwatts);
    write_watts(j, "power_limit_watts", c->activity.power_limit_milliwatts);
    write_processes(j, w, c);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void write_host(json_writer *j, const plim_machine *m) {
  jsonw_object(j, "host");
  jsonw_bytes(j, "total_bytes", m->total_bytes);
  jsonw_bytes(j, "available_bytes", m->available_bytes);
  jsonw_bytes(j, "swap_bytes", m->swap_total_bytes);
  jsonw_bytes(j, "swap_free_bytes", m->swap_free_bytes);
  jsonw_bytes(j, "limit_bytes", m->limit_bytes);
  jsonw_bytes(j, "limit_used_bytes", m->limit_used_bytes);
  jsonw_end(j);
}

// ---- runs and signs ---------------------------------------------------------------------------------

static void write_trend(json_writer *j, const plim_trend *t) {
  char text[PLIM_TREND_TEXT];
  bool grows = plim_trend_is_growth(t);
  double unknown = NAN;
  plim_trend_say(t, text, sizeof text);
  jsonw_object(j, "trend");
  jsonw_string(j, "kind", plim_trend_names[t->kind]);
  jsonw_string(j, "text", text);
  const char *rate = t->is_by_time ? "bytes_per_second" : "bytes_per_step";
  jsonw_number(j, rate, grows ? t->bytes_per_step : unknown);
  jsonw_bytes(j, t->is_by_time ? "full_in_seconds" : "full_step", t->full_step);
  jsonw_bytes(j, t->is_by_time ? "earliest_full_in_seconds" : "earliest_full_step",
              t->earliest_full_step);
  jsonw_bytes(j, t->is_by_time ? "latest_full_in_seconds" : "latest_full_step",
              t->latest_full_step);
  jsonw_bytes(j, "low_peak_bytes", t->low_peak_bytes);
  jsonw_bytes(j, "high_peak_bytes", t->high_peak_bytes);
  jsonw_end(j);
}

static void write_rank(json_writer *j, const live_rank *r) {
  jsonw_object(j, NULL);
  jsonw_u64(j, "pid", r->pid);
  jsonw_bytes(j, "rank", r->has_sample ? r->last.rank : PLIM_UNKNOWN);
  jsonw_string_or_null(j, "uuid", r->last.uuid);
  jsonw_number(j, "reported", r->has_sample && r->last.seconds >= 0 ? r->last.seconds : NAN);
  jsonw_string(j, "phase", r->has_sample && r->last.phase ? live_phase_names[r->last.phase] : NULL);
  jsonw_bytes(j, "step", r->has_sample ? r->last.step : PLIM_UNKNOWN);
  jsonw_number(j, "steps_per_second", r->steps_per_second > 0 ? r->steps_per_second : NAN);
  jsonw_bytes(j, "allocated_bytes", r->has_sample ? r->last.allocated_bytes : PLIM_UNKNOWN);
  jsonw_bytes(j, "reserved_bytes", r->has_sample ? r->last.reserved_bytes : PLIM_UNKNOWN);
  jsonw_bytes(j, "peak_bytes", r->peak_bytes);
  jsonw_bytes(j, "limit_bytes", r->limit_bytes);
  jsonw_bytes(j, "headroom_bytes", r->headroom_bytes);
  write_trend(j, &r->trend);
  jsonw_end(j);
}

static void write_runs(json_writer *j, const watch *w) {
  if (!*w->folder) { // not known where they would be
    jsonw_null(j, "runs");
    return;
  }
  jsonw_array(j, "runs");
  for (size_t i = 0; i < w->runs.len; i++) {
    const watch_run *run = w->runs.at[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "name", run->run.name);
    jsonw_u64(j, "pid", run->run.pid);
    jsonw_string_or_null(j, "command", run->run.command);
    jsonw_number(j, "started", run->run.started_seconds < 0 ? NAN : run->run.started_seconds);
    jsonw_bytes(j, "limit_bytes", run->run.limit_bytes);
    jsonw_bytes(j, "planned_steps", run->run.steps);
    if (run->worst) jsonw_u64(j, "worst_pid", run->worst->pid);
    else jsonw_null(j, "worst_pid");
    jsonw_array(j, "ranks");
    for (size_t k = 0; k < run->ranks.len; k++) write_rank(j, run->ranks.at[k]);
    jsonw_end(j);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void write_signs(json_writer *j, const watch *w) {
  jsonw_array(j, "signs");
  for (size_t i = 0; i < w->signs.len; i++) {
    const watch_sign *s = &w->signs.at[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "kind", watch_sign_names[s->kind]);
    jsonw_string(j, "severity", s->is_warning ? "warning" : "note");
    jsonw_string(j, "run", s->run ? s->run->run.name : NULL);
    if (s->run) jsonw_null(j, "card");
    else jsonw_u64(j, "card", w->cards.at[s->card].card.index);
    jsonw_string(j, "text", s->text);
    jsonw_end(j);
  }
  jsonw_end(j);
}

void watch_print_json(const watch *w) {
  json_writer j = jsonw_begin_line(stdout);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_number(&j, "time", round(w->unix_seconds * 1000) / 1000);
  write_driver(&j, &w->cards);
  write_cards(&j, w);
  write_host(&j, &w->host);
  write_runs(&j, w);
  write_signs(&j, w);
  jsonw_end(&j);
  jsonw_finish(&j);
  fflush(stdout);
}
