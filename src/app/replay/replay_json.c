#include "notes_json.h"
#include "replay_result.h"

static void put_frame(json_writer *j, const plim_trace *t, uint32_t frame) {
  if (frame == PLIM_NO_LINE) {
    jsonw_null(j, "file");
    jsonw_null(j, "line");
    jsonw_null(j, "function");
    jsonw_null(j, "module");
    return;
  }
  char module[256];
  const plim_frame *f = &t->frames.at[frame];
  plim_module_name(t, frame, module, sizeof module);
  jsonw_string(j, "file", plim_trace_text(t, f->file));
  jsonw_u64(j, "line", f->line);
  jsonw_string(j, "function", plim_trace_text(t, f->name));
  jsonw_string(j, "module", module);
}

static void put_stack(json_writer *j, const plim_trace *t, uint32_t stack) {
  jsonw_array(j, "stack");
  for (uint32_t i = 0; i < t->stacks.at[stack].count; i++) {
    const plim_frame *f = &t->frames.at[t->stack_frames.at[t->stacks.at[stack].first + i]];
    jsonw_object(j, NULL);
    jsonw_string(j, "file", plim_trace_text(t, f->file));
    jsonw_u64(j, "line", f->line);
    jsonw_string(j, "function", plim_trace_text(t, f->name));
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_totals(json_writer *j, const char *key, const plim_replay_totals *t,
                       bool allocated_known) {
  jsonw_object(j, key);
  jsonw_bytes(j, "peak_allocated_bytes", allocated_known ? t->peak_allocated_bytes : PLIM_UNKNOWN);
  jsonw_bytes(j, "peak_reserved_bytes", t->peak_reserved_bytes);
  jsonw_u64(j, "segment_allocs", t->segment_allocs);
  jsonw_u64(j, "segment_frees", t->segment_frees);
  jsonw_u64(j, "retries", t->retries);
  jsonw_u64(j, "ooms", t->ooms);
  jsonw_end(j);
}

static void put_conf(json_writer *j, const char *key, const plim_alloc_conf *conf) {
  char text[512];
  plim_alloc_conf_print(conf, text, sizeof text);
  jsonw_string(j, key, text);
}

static double share(uint64_t bytes, uint64_t whole) {
  return whole ? (double)bytes / (double)whole : 0;
}

static void put_holders(json_writer *j, const replay_result *r, const plim_holders *h) {
  jsonw_array(j, "holders");
  for (size_t i = 0; i < h->by_line.len; i++) {
    const plim_held *holder = &h->by_line.at[i];
    jsonw_object(j, NULL);
    jsonw_bytes(j, "bytes", holder->bytes);
    jsonw_number(j, "share", share(holder->bytes, h->bytes));
    jsonw_u64(j, "count", holder->count);
    jsonw_string(j, "kind", plim_kind_names[holder->kind]);
    put_frame(j, &r->trace, holder->frame);
    jsonw_end(j);
  }
  jsonw_end(j);
  jsonw_object(j, "holders_by_kind_bytes");
  for (size_t k = 0; k < PLIM_KIND_COUNT; k++) jsonw_bytes(j, plim_kind_names[k], h->by_kind[k]);
  jsonw_end(j);
  jsonw_array(j, "holders_by_module");
  for (size_t i = 0; i < h->by_module.len; i++) {
    char module[256];
    plim_module_name(&r->trace, h->by_module.at[i].frame, module, sizeof module);
    jsonw_object(j, NULL);
    jsonw_bytes(j, "bytes", h->by_module.at[i].bytes);
    jsonw_number(j, "share", share(h->by_module.at[i].bytes, h->bytes));
    jsonw_u64(j, "count", h->by_module.at[i].count);
    jsonw_string(j, "module", module);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_fragmentation(json_writer *j, const char *key, const plim_fragmentation *f) {
  jsonw_object(j, key);
  jsonw_bytes(j, "allocated_bytes", f->usage.allocated_bytes);
  jsonw_bytes(j, "reserved_bytes", f->usage.reserved_bytes);
  jsonw_bytes(j, "stranded_bytes", f->stranded_bytes);
  jsonw_bytes(j, "cached_bytes", f->cached_bytes);
  jsonw_bytes(j, "slack_bytes", f->slack_bytes);
  jsonw_bytes(j, "largest_free_bytes", f->largest_free_bytes);
  jsonw_array(j, "segments");
  for (size_t i = 0; i < f->segments.len; i++) {
    const plim_stranded *s = &f->segments.at[i];
    jsonw_object(j, NULL);
    jsonw_u64(j, "address", s->addr);
    jsonw_bytes(j, "bytes", s->bytes);
    jsonw_bytes(j, "free_bytes", s->free_bytes);
    jsonw_bytes(j, "largest_free_bytes", s->largest_free_bytes);
    jsonw_string(j, "pool", s->is_large ? "large" : "small");
    jsonw_bool(j, "expandable", s->is_expandable);
    jsonw_u64(j, "private_pool", s->pool);
    jsonw_end(j);
  }
  jsonw_end(j);
  jsonw_end(j);
}

// Writes an event as its index in the snapshot's device_traces.
static void put_entry(json_writer *j, const replay_result *r, size_t event) {
  if (event < r->trace.events.len) jsonw_u64(j, "entry", r->trace.events.at[event].entry);
  else jsonw_null(j, "entry");
}

static void put_moment(json_writer *j, const replay_result *r, size_t event) {
  put_entry(j, r, event);
  jsonw_number(j, "seconds", replay_seconds_at(r, event));
  jsonw_u64(j, "step", plim_trace_analysis_step_of(&r->analysis, event));
}

// When it was, and the line that the program was at.
static void put_event(json_writer *j, const char *key, const replay_result *r, size_t event) {
  jsonw_object(j, key);
  put_moment(j, r, event);
  uint32_t stack = r->trace.events.len ? r->trace.events.at[event].stack : 0;
  put_frame(j, &r->trace, r->analysis.line.at[stack]);
  jsonw_end(j);
}

static void put_oom_details(json_writer *j, const replay_oom *oom) {
  jsonw_bytes(j, "compacted_free_low_bytes", oom->compacted_low_bytes);
  jsonw_bytes(j, "compacted_free_high_bytes", oom->compacted_high_bytes);
  replay_verdict verdict = replay_compacted_verdict(oom);
  if (verdict == REPLAY_NOT_KNOWN) jsonw_null(j, "fits_if_compacted");
  else jsonw_bool(j, "fits_if_compacted", verdict == REPLAY_WOULD_FIT);
  put_fragmentation(j, "fragmentation", &oom->moment.fragmentation);
}

static void put_oom(json_writer *j, const replay_result *r, size_t event, const replay_oom *oom) {
  jsonw_object(j, NULL);
  put_moment(j, r, event);
  jsonw_bytes(j, "request_bytes", r->trace.events.at[event].bytes);
  put_frame(j, &r->trace, r->analysis.line.at[r->trace.events.at[event].stack]);
  if (oom) put_oom_details(j, oom);
  jsonw_end(j);
}

// Writes all failures of the recording, the first REPLAY_MAX_OOMS in detail; of a simulation only the first.
static void put_ooms(json_writer *j, const replay_result *r) {
  jsonw_array(j, "ooms");
  for (size_t i = 0; i < r->oom_count; i++) put_oom(j, r, r->ooms[i].event, &r->ooms[i]);
  size_t from = r->oom_count == REPLAY_MAX_OOMS ? r->ooms[r->oom_count - 1].event + 1 : SIZE_MAX;
  for (size_t i = from; i < r->trace.events.len; i++)
    if (r->trace.events.at[i].action == PLIM_EV_OOM) put_oom(j, r, i, NULL);
  jsonw_end(j);
}

static void put_leaks(json_writer *j, const replay_result *r) {
  if (r->analysis.steps.len < PLIM_LEAK_STEPS) { // nothing is known
    jsonw_null(j, "leaks");
    return;
  }
  jsonw_array(j, "leaks");
  for (size_t i = 0; i < r->leaks.len; i++) {
    const plim_leak *leak = &r->leaks.at[i];
    uint64_t full = replay_full_at_step(r, leak->bytes_per_step);
    jsonw_object(j, NULL);
    jsonw_bytes(j, "bytes_per_step", leak->bytes_per_step);
    jsonw_bytes(j, "bytes", leak->bytes);
    jsonw_u64(j, "count", leak->count);
    jsonw_u64(j, "first_step", leak->first_step);
    jsonw_u64(j, "last_step", leak->last_step);
    jsonw_u64(j, "steps", leak->steps);
    if (!full) full = replay_ran_out_at_step(r);
    if (full) jsonw_u64(j, "full_at_step", full);
    else jsonw_null(j, "full_at_step");
    put_frame(j, &r->trace, leak->line);
    put_stack(j, &r->trace, leak->stack);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_duplicates(json_writer *j, const replay_result *r) {
  jsonw_array(j, "duplicates");
  for (size_t i = 0; i < r->duplicates.len; i++) {
    const plim_duplicate *d = &r->duplicates.at[i];
    jsonw_object(j, NULL);
    jsonw_u64(j, "tensors", d->tensors);
    jsonw_bytes(j, "wasted_bytes", d->wasted_bytes);
    jsonw_array(j, "copies");
    for (size_t c = 0; c < d->copies.len; c++) {
      const plim_copy *copy = &d->copies.at[c];
      jsonw_object(j, NULL);
      jsonw_bytes(j, "bytes", copy->bytes);
      jsonw_u64(j, "count", copy->count);
      jsonw_number(j, "element_size_ratio", copy->bytes_per_element_ratio);
      put_frame(j, &r->trace, copy->line);
      put_stack(j, &r->trace, copy->stack);
      jsonw_end(j);
    }
    jsonw_end(j);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_tune(json_writer *j, const replay_result *r) {
  const plim_tune_row *recommended = replay_recommended(r);
  jsonw_array(j, "tune");
  for (size_t i = 0; i < r->tune.len; i++) {
    const plim_tune_row *row = &r->tune.at[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "alloc_conf", row->conf);
    jsonw_bool(j, "recorded", row->is_recorded);
    jsonw_bytes(j, "peak_allocated_bytes", row->totals.peak_allocated_bytes);
    jsonw_bytes(j, "peak_reserved_bytes", row->totals.peak_reserved_bytes);
    jsonw_u64(j, "segment_allocs", row->totals.segment_allocs);
    jsonw_u64(j, "segment_frees", row->totals.segment_frees);
    jsonw_u64(j, "retries", row->totals.retries);
    jsonw_u64(j, "ooms", row->totals.ooms);
    jsonw_bool(j, "recommended", row == recommended);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_divergence(json_writer *j, const replay_result *r) {
  const plim_guided *g = &r->guided;
  if (!g->divergences) {
    jsonw_null(j, "first_difference");
    return;
  }
  jsonw_object(j, "first_difference");
  put_entry(j, r, g->first.event);
  jsonw_string(j, "what", g->first.what);
  jsonw_u64(j, "differences", g->divergences);
  jsonw_end(j);
}

static void put_notes(json_writer *j, const replay_result *r) {
  jsonw_array(j, "notes");
  notes_write(j, &r->notes);
  jsonw_end(j);
}

void replay_write_json(json_writer *j, const replay_result *r) {
  jsonw_u64(j, "device", r->trace.device);
  jsonw_u64(j, "entries", r->trace.entries);
  jsonw_u64(j, "steps", r->analysis.steps.len);
  jsonw_bool(j, "exact", r->guided.exact);
  put_divergence(j, r);
  put_conf(j, "recorded_alloc_conf", &r->recorded_options.conf);
  put_conf(j, "simulated_alloc_conf", &r->options.conf);
  jsonw_bytes(j, "limit_bytes", r->options.limit_bytes);
  jsonw_bool(j, "limit_is_inferred", r->limit_is_guessed);
  put_totals(j, "recorded", &r->guided.recorded, r->guided.recorded_allocated_known);
  put_totals(j, "simulated", &r->simulated, true);
  jsonw_string(j, "moments_of", r->is_what_if ? "simulated" : "recorded");
  put_event(j, "peak", r, r->peak.event);
  put_holders(j, r, &r->peak.holders);
  jsonw_bytes(j, "fragmentation_bytes", r->peak_reserved.fragmentation.stranded_bytes);
  put_fragmentation(j, "fragmentation", &r->peak_reserved.fragmentation);
  put_ooms(j, r);
  put_leaks(j, r);
  put_duplicates(j, r);
  put_tune(j, r);
  put_notes(j, r);
}

void replay_write_moment(json_writer *j, const replay_result *r, const plim_moment *m) {
  jsonw_u64(j, "event", m->event + 1);
  put_event(j, "at", r, m->event);
  jsonw_bytes(j, "allocated_bytes", m->holders.bytes);
  put_holders(j, r, &m->holders);
  put_fragmentation(j, "fragmentation", &m->fragmentation);
}

void replay_write(json_writer *j, const void *result) {
  const replay_result *r = result;
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  jsonw_string(j, "file", r->path);
  replay_write_json(j, r);
  jsonw_end(j);
}
