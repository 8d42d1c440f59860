#include "json.h"
#include "replay_result.h"
#include "show_notes.h"

static void put_frame(json_writer *j, const plim_trace *t, uint32_t frame) {
  if (frame == PLIM_NO_LINE) {
    json_null(j, "file");
    json_null(j, "line");
    json_null(j, "function");
    json_null(j, "module");
    return;
  }
  char module[256];
  const plim_frame *f = &t->frames.at[frame];
  plim_module_name(t, frame, module, sizeof module);
  json_string(j, "file", plim_trace_text(t, f->file));
  json_u64(j, "line", f->line);
  json_string(j, "function", plim_trace_text(t, f->name));
  json_string(j, "module", module);
}

static void put_stack(json_writer *j, const plim_trace *t, uint32_t stack) {
  json_array(j, "stack");
  for (uint32_t i = 0; i < t->stacks.at[stack].count; i++) {
    const plim_frame *f = &t->frames.at[t->stack_frames.at[t->stacks.at[stack].first + i]];
    json_object(j, NULL);
    json_string(j, "file", plim_trace_text(t, f->file));
    json_u64(j, "line", f->line);
    json_string(j, "function", plim_trace_text(t, f->name));
    json_end(j);
  }
  json_end(j);
}

static void put_totals(json_writer *j, const char *key, const plim_replay_totals *t,
                       bool allocated_known) {
  json_object(j, key);
  json_bytes(j, "peak_allocated_bytes", allocated_known ? t->peak_allocated_bytes : PLIM_UNKNOWN);
  json_bytes(j, "peak_reserved_bytes", t->peak_reserved_bytes);
  json_u64(j, "segment_allocs", t->segment_allocs);
  json_u64(j, "segment_frees", t->segment_frees);
  json_u64(j, "retries", t->retries);
  json_u64(j, "ooms", t->ooms);
  json_end(j);
}

static void put_conf(json_writer *j, const char *key, const plim_alloc_conf *conf) {
  char text[512];
  plim_alloc_conf_print(conf, text, sizeof text);
  json_string(j, key, text);
}

static double share(uint64_t bytes, uint64_t whole) {
  return whole ? (double)bytes / (double)whole : 0;
}

static void put_holders(json_writer *j, const replay_result *r) {
  const plim_holders *h = &r->peak.holders;
  json_array(j, "holders");
  for (size_t i = 0; i < h->by_line.len; i++) {
    const plim_held *holder = &h->by_line.at[i];
    json_object(j, NULL);
    json_bytes(j, "bytes", holder->bytes);
    json_number(j, "share", share(holder->bytes, h->bytes));
    json_u64(j, "count", holder->count);
    json_string(j, "kind", plim_kind_names[holder->kind]);
    put_frame(j, &r->trace, holder->frame);
    json_end(j);
  }
  json_end(j);
  json_object(j, "holders_by_kind_bytes");
  for (size_t k = 0; k < PLIM_KIND_COUNT; k++) json_bytes(j, plim_kind_names[k], h->by_kind[k]);
  json_end(j);
  json_array(j, "holders_by_module");
  for (size_t i = 0; i < h->by_module.len; i++) {
    char module[256];
    plim_module_name(&r->trace, h->by_module.at[i].frame, module, sizeof module);
    json_object(j, NULL);
    json_bytes(j, "bytes", h->by_module.at[i].bytes);
    json_number(j, "share", share(h->by_module.at[i].bytes, h->bytes));
    json_u64(j, "count", h->by_module.at[i].count);
    json_string(j, "module", module);
    json_end(j);
  }
  json_end(j);
}

static void put_fragmentation(json_writer *j, const char *key, const plim_fragmentation *f) {
  json_object(j, key);
  json_bytes(j, "allocated_bytes", f->usage.allocated_bytes);
  json_bytes(j, "reserved_bytes", f->usage.reserved_bytes);
  json_bytes(j, "stranded_bytes", f->stranded_bytes);
  json_bytes(j, "cached_bytes", f->cached_bytes);
  json_bytes(j, "slack_bytes", f->slack_bytes);
  json_bytes(j, "largest_free_bytes", f->largest_free_bytes);
  json_array(j, "segments");
  for (size_t i = 0; i < f->segments.len; i++) {
    const plim_stranded *s = &f->segments.at[i];
    json_object(j, NULL);
    json_u64(j, "address", s->addr);
    json_bytes(j, "bytes", s->bytes);
    json_bytes(j, "free_bytes", s->free_bytes);
    json_bytes(j, "largest_free_bytes", s->largest_free_bytes);
    json_string(j, "pool", s->is_large ? "large" : "small");
    json_bool(j, "expandable", s->is_expandable);
    json_u64(j, "private_pool", s->pool);
    json_end(j);
  }
  json_end(j);
  json_end(j);
}

// Events are told by their entry in the snapshot's device_traces.
static void put_entry(json_writer *j, const replay_result *r, size_t event) {
  if (event < r->trace.events.len) json_u64(j, "entry", r->trace.events.at[event].entry);
  else json_null(j, "entry");
}

static void put_moment(json_writer *j, const replay_result *r, size_t event) {
  put_entry(j, r, event);
  json_number(j, "seconds", replay_seconds_at(r, event));
  json_u64(j, "step", plim_trace_analysis_step_of(&r->analysis, event));
}

static void put_peak(json_writer *j, const replay_result *r) {
  json_object(j, "peak");
  put_moment(j, r, r->peak.event);
  uint32_t stack = r->trace.events.len ? r->trace.events.at[r->peak.event].stack : 0;
  put_frame(j, &r->trace, r->analysis.line.at[stack]);
  json_end(j);
}

static void put_oom_details(json_writer *j, const replay_oom *oom) {
  json_bytes(j, "compacted_free_low_bytes", oom->compacted_low_bytes);
  json_bytes(j, "compacted_free_high_bytes", oom->compacted_high_bytes);
  replay_verdict verdict = replay_compacted_verdict(oom);
  if (verdict == REPLAY_NOT_KNOWN) json_null(j, "fits_if_compacted");
  else json_bool(j, "fits_if_compacted", verdict == REPLAY_WOULD_FIT);
  put_fragmentation(j, "fragmentation", &oom->moment.fragmentation);
}

static void put_oom(json_writer *j, const replay_result *r, size_t event, const replay_oom *oom) {
  json_object(j, NULL);
  put_moment(j, r, event);
  json_bytes(j, "request_bytes", r->trace.events.at[event].bytes);
  put_frame(j, &r->trace, r->analysis.line.at[r->trace.events.at[event].stack]);
  if (oom) put_oom_details(j, oom);
  json_end(j);
}

// All of the recording's, the first REPLAY_MAX_OOMS in detail; of a simulation the first.
static void put_ooms(json_writer *j, const replay_result *r) {
  json_array(j, "ooms");
  for (size_t i = 0; i < r->oom_count; i++) put_oom(j, r, r->ooms[i].event, &r->ooms[i]);
  size_t from = r->oom_count == REPLAY_MAX_OOMS ? r->ooms[r->oom_count - 1].event + 1 : SIZE_MAX;
  for (size_t i = from; i < r->trace.events.len; i++)
    if (r->trace.events.at[i].action == PLIM_EV_OOM) put_oom(j, r, i, NULL);
  json_end(j);
}

static void put_leaks(json_writer *j, const replay_result *r) {
  json_array(j, "leaks");
  for (size_t i = 0; i < r->leaks.len; i++) {
    const plim_leak *leak = &r->leaks.at[i];
    uint64_t full = replay_full_at_step(r, leak->bytes_per_step);
    json_object(j, NULL);
    json_bytes(j, "bytes_per_step", leak->bytes_per_step);
    json_bytes(j, "bytes", leak->bytes);
    json_u64(j, "count", leak->count);
    json_u64(j, "first_step", leak->first_step);
    json_u64(j, "last_step", leak->last_step);
    json_u64(j, "steps", leak->steps);
    if (full) json_u64(j, "full_at_step", full);
    else json_null(j, "full_at_step");
    put_frame(j, &r->trace, leak->line);
    put_stack(j, &r->trace, leak->stack);
    json_end(j);
  }
  json_end(j);
}

static void put_duplicates(json_writer *j, const replay_result *r) {
  json_array(j, "duplicates");
  for (size_t i = 0; i < r->duplicates.len; i++) {
    const plim_duplicate *d = &r->duplicates.at[i];
    json_object(j, NULL);
    json_u64(j, "tensors", d->tensors);
    json_bytes(j, "wasted_bytes", d->wasted_bytes);
    json_array(j, "copies");
    for (size_t c = 0; c < d->copies.len; c++) {
      const plim_copy *copy = &d->copies.at[c];
      json_object(j, NULL);
      json_bytes(j, "bytes", copy->bytes);
      json_u64(j, "count", copy->count);
      json_number(j, "element_size_ratio", copy->bytes_per_element_ratio);
      put_frame(j, &r->trace, copy->line);
      put_stack(j, &r->trace, copy->stack);
      json_end(j);
    }
    json_end(j);
    json_end(j);
  }
  json_end(j);
}

static void put_tune(json_writer *j, const replay_result *r) {
  const plim_tune_row *recommended = replay_recommended(r);
  json_array(j, "tune");
  for (size_t i = 0; i < r->tune.len; i++) {
    const plim_tune_row *row = &r->tune.at[i];
    json_object(j, NULL);
    json_string(j, "alloc_conf", row->conf);
    json_bool(j, "recorded", row->is_recorded);
    json_bytes(j, "peak_allocated_bytes", row->totals.peak_allocated_bytes);
    json_bytes(j, "peak_reserved_bytes", row->totals.peak_reserved_bytes);
    json_u64(j, "segment_allocs", row->totals.segment_allocs);
    json_u64(j, "segment_frees", row->totals.segment_frees);
    json_u64(j, "retries", row->totals.retries);
    json_u64(j, "ooms", row->totals.ooms);
    json_bool(j, "recommended", row == recommended);
    json_end(j);
  }
  json_end(j);
}

static void put_divergence(json_writer *j, const replay_result *r) {
  const plim_guided *g = &r->guided;
  if (!g->divergences) {
    json_null(j, "first_difference");
    return;
  }
  json_object(j, "first_difference");
  put_entry(j, r, g->first.event);
  json_string(j, "what", g->first.what);
  json_u64(j, "differences", g->divergences);
  json_end(j);
}

static void put_notes(json_writer *j, const replay_result *r) {
  json_array(j, "notes");
  notes_write(j, &r->notes);
  json_end(j);
}

void replay_print_json(const replay_result *r) {
  json_writer writer = json_begin(stdout), *j = &writer;
  json_object(j, NULL);
  json_u64(j, "format_version", 1);
  json_string(j, "file", r->path);
  json_u64(j, "device", r->trace.device);
  json_u64(j, "entries", r->trace.entries);
  json_u64(j, "steps", r->analysis.steps.len);
  json_bool(j, "exact", r->guided.exact);
  put_divergence(j, r);
  put_conf(j, "recorded_alloc_conf", &r->recorded_options.conf);
  put_conf(j, "simulated_alloc_conf", &r->options.conf);
  json_bytes(j, "limit_bytes", r->options.limit_bytes);
  json_bool(j, "limit_is_inferred", r->limit_is_guessed);
  put_totals(j, "recorded", &r->guided.recorded, r->guided.recorded_allocated_known);
  put_totals(j, "simulated", &r->simulated, true);
  json_string(j, "moments_of", r->is_what_if ? "simulated" : "recorded");
  put_peak(j, r);
  put_holders(j, r);
  json_bytes(j, "fragmentation_bytes", r->peak_reserved.fragmentation.stranded_bytes);
  put_fragmentation(j, "fragmentation", &r->peak_reserved.fragmentation);
  put_ooms(j, r);
  put_leaks(j, r);
  put_duplicates(j, r);
  put_tune(j, r);
  put_notes(j, r);
  json_end(j);
  json_finish(j);
}
