#include "predicted_timeline.h"

#include <string.h>

#include "timeline_columns.h"

_Static_assert((int)PLIM_PURPOSES <= PLIM_TIMELINE_PARTS, "every purpose has a part");

// The current state of an allocation id.
typedef struct {
  uint64_t bytes; // of its block; 0: free
  uint32_t line;  // index into plim_predicted_timeline.lines
  uint8_t purpose;
} tenant;

typedef struct {
  plim_predicted_timeline *out;
  vec(tenant) tenants; // indexed by allocation id
  vec(uint64_t) line_bytes;
  uint64_t part_bytes[PLIM_PURPOSES];
  plim_allocator_stats_t last; // after the previous event
  size_t event;                // index of the current event
  bool failed;                 // out of memory
} watcher;

// ---- holders ------------------------------------------------------------------------------------

static uint32_t line_of(watcher *w, const plim_holding *tensor) {
  size_t line = plim_holdings_group(&w->out->lines, tensor);
  if (line == w->line_bytes.len && vec_push(&w->line_bytes, 0)) return (uint32_t)line;
  w->failed |= line >= w->line_bytes.len;
  return (uint32_t)line;
}

static void move_in(watcher *w, uint32_t id, uint64_t bytes, const plim_holding *tensor) {
  uint32_t line = line_of(w, tensor);
  while (w->tenants.len <= id && !w->failed) w->failed = !vec_push(&w->tenants, (tenant){0});
  if (w->failed) return;
  w->tenants.at[id] = (tenant){bytes, line, (uint8_t)tensor->purpose};
  w->part_bytes[tensor->purpose] += bytes;
  w->line_bytes.at[line] += bytes;
}

static void move_out(watcher *w, uint32_t id) {
  if (id >= w->tenants.len || !w->tenants.at[id].bytes) return;
  tenant *t = &w->tenants.at[id];
  w->part_bytes[t->purpose] -= t->bytes;
  w->line_bytes.at[t->line] -= t->bytes;
  t->bytes = 0;
}

static void follow_alloc(watcher *w, const plim_tape *t, const plim_allocator *a, uint32_t id) {
  uint64_t bytes = plim_allocator_block_bytes(a, id);
  if (bytes == PLIM_UNKNOWN) return; // the allocation failed
  plim_pending_alloc pending = plim_tape_pending(t);
  plim_holding tensor = {.place = plim_tape_point(t),
                         .shape = pending.shape,
                         .dtype = pending.dtype,
                         .purpose = pending.purpose};
  move_in(w, id, bytes, &tensor);
}

static void repurpose(void *context, uint32_t id, plim_purpose purpose) {
  watcher *w = context;
  if (id >= w->tenants.len || !w->tenants.at[id].bytes) return;
  uint64_t bytes = w->tenants.at[id].bytes;
  plim_holding tensor = {.place.layer = -1, .purpose = purpose};
  move_out(w, id);
  move_in(w, id, bytes, &tensor);
}

// ---- steps and phases ---------------------------------------------------------------------------

static size_t step_of(const plim_program_point *place) {
  return place->phase == PLIM_PHASE_LOAD ? 0 : (size_t)place->step + 1;
}

static void follow_steps(watcher *w, const plim_program_point *place) {
  plim_predicted_timeline *f = w->out;
  size_t i = w->event;
  if (step_of(place) > f->steps.len) w->failed |= !vec_push(&f->steps, (plim_trace_step){i, i});
  if (f->steps.len) f->steps.at[f->steps.len - 1].end = i + 1;
}

static void follow_phases(watcher *w, const plim_program_point *place) {
  plim_predicted_timeline *f = w->out;
  size_t i = w->event;
  plim_phase phase = (plim_phase)place->phase;
  if (!f->phases.len || f->phases.at[f->phases.len - 1].phase != phase)
    w->failed |= !vec_push(&f->phases, (plim_stretch){i, i, phase});
  if (f->phases.len) f->phases.at[f->phases.len - 1].end = i + 1;
}

// ---- columns ------------------------------------------------------------------------------------

static void fill_column(watcher *w, size_t column, const plim_program_point *place) {
  plim_timeline_column *c = &w->out->timeline.columns.at[column];
  memcpy(c->part_bytes, w->part_bytes, sizeof w->part_bytes);
  memset(c->holders, 0, sizeof c->holders);
  for (size_t i = 0; i < w->line_bytes.len; i++)
    timeline_offer_holder(c->holders, (plim_holder){(uint32_t)i, w->line_bytes.at[i]});
  c->entry = w->event;
  c->step = step_of(place);
  w->out->places.at[column] = *place;
}

static void count_marks(watcher *w, plim_timeline_column *c, plim_stream_kind kind,
                        const plim_allocator_stats_t *now) {
  c->empty_caches += kind == PLIM_STREAM_EMPTY_CACHE;
  c->ooms += (uint32_t)(now->ooms - w->last.ooms);
  c->retries += (uint32_t)(now->retries - w->last.retries);
  plim_timeline *t = &w->out->timeline;
  if (now->ooms > w->last.ooms && t->first_oom_event == PLIM_UNKNOWN) t->first_oom_event = w->event;
}

static void follow_columns(watcher *w, const plim_allocator *a, plim_stream_kind kind,
                           const plim_program_point *place) {
  const plim_allocator_stats_t *now = plim_allocator_stats(a);
  size_t column = timeline_column_of(&w->out->timeline, w->out->events, w->event);
  plim_timeline_column *c = &w->out->timeline.columns.at[column];
  if (timeline_offer(c, w->event + 1, &now->now)) fill_column(w, column, place);
  timeline_raise_reserved(c, &w->last, now);
  count_marks(w, c, kind, now);
  w->last = *now;
}

static void watch(void *context, const plim_tape *t, const plim_allocator *a, plim_stream_kind kind,
                  uint32_t id, uint64_t bytes) {
  watcher *w = context;
  plim_program_point place = plim_tape_point(t);
  (void)bytes;
  if (kind == PLIM_STREAM_ALLOC) follow_alloc(w, t, a, id);
  else if (kind != PLIM_STREAM_EMPTY_CACHE) move_out(w, id);
  follow_steps(w, &place);
  follow_phases(w, &place);
  if (!w->failed) follow_columns(w, a, kind, &place);
  w->event++;
}

// ---- making the timeline ------------------------------------------------------------------------

static bool prepare(plim_predicted_timeline *f, size_t columns) {
  if (!timeline_make_columns(&f->timeline, f->events, columns)) return false;
  size_t count = f->timeline.columns.len;
  if (!vec_reserve(&f->places, count)) return false;
  f->places.len = count;
  return true;
}

static bool run(const plim_predict_request *request, plim_predicted_timeline *out) {
  watcher w = {.out = out};
  plim_observer observer = {watch, &w, .repurpose = repurpose};
  plim_predict_request again = *request;
  plim_prediction ignored;
  again.observer = &observer;
  again.runs_all = true;
  bool ok = !plim_predict(&again, &ignored, NULL) && !w.failed;
  vec_free(&w.tenants);
  vec_free(&w.line_bytes);
  return ok;
}

bool plim_predicted_timeline_make(const plim_predict_request *request, const plim_prediction *p,
                                  size_t columns, plim_predicted_timeline *out) {
  *out = (plim_predicted_timeline){.timeline.first_oom_event = PLIM_UNKNOWN,
                                   .events = (size_t)p->events};
  if (!out->events || !columns) return true;
  if (!prepare(out, columns) || !run(request, out)) {
    plim_predicted_timeline_clear(out);
    return false;
  }
  timeline_find_peaks(&out->timeline);
  out->timeline.peak = timeline_column_of(&out->timeline, out->events, (size_t)p->peak_event);
  return true;
}

void plim_predicted_timeline_clear(plim_predicted_timeline *f) {
  if (!f) return;
  plim_timeline_clear(&f->timeline);
  vec_free(&f->steps);
  vec_free(&f->phases);
  vec_free(&f->places);
  vec_free(&f->lines);
}
