#include "pass_replay.h"

#include "tape_impl.h"

// The first pass of a step differs: it allocates gradients. With fewer passes than this, none is left to send again.
enum { LEAST_PASSES = 3 };

void plim_tape_replay_passes(plim_tape *t) { t->passes.is_on = true; }

bool plim_replays_passes(const plim_tape *t) { return t->passes.is_on; }

void pass_void(plim_tape *t) { t->passes.is_void = true; }

void pass_clear(plim_tape *t) {
  vec_free(&t->passes.events);
  vec_free(&t->passes.work);
  vec_free(&t->passes.places);
  vec_free(&t->passes.moved);
  vec_free(&t->passes.moments);
}

void pass_forget_moments(plim_tape *t) {
  t->passes.moments.len = 0;
  t->passes.moments_by = 0;
}

// ---- recording ------------------------------------------------------------------------------------

static bool is_same_place(const plim_program_point *a, const plim_program_point *b) {
  return a->what == b->what && a->layer == b->layer && a->phase == b->phase &&
         a->is_recomputed == b->is_recomputed;
}

static void note_place(plim_tape *t) {
  struct tape_passes *p = &t->passes;
  plim_program_point here = plim_tape_point(t);
  if (p->places.len && is_same_place(&p->places.at[p->places.len - 1].place, &here)) return;
  if (!vec_push(&p->places, (pass_place){p->event_count, here})) p->is_void = true;
}

static bool is_same_event(const pass_event *a, const pass_event *b) {
  return a->bytes == b->bytes && a->name == b->name && a->kind == b->kind &&
         a->purpose == b->purpose && a->of == b->of && a->stream == b->stream;
}

static bool is_same_work(const fold_work *a, const fold_work *b) {
  return a->kind == b->kind && a->ago == b->ago && a->amount <= b->amount && a->amount >= b->amount;
}

void pass_note_event(plim_tape *t, uint8_t kind, uint32_t id, uint64_t bytes, uint8_t purpose) {
  struct tape_passes *p = &t->passes;
  pass_event e = {bytes, id, kind, purpose, PASS_OLDER, (uint8_t)t->state.stream};
  if (id >= p->first) e.name -= p->first, e.of = PASS_OWN;
  else if (id >= p->first_before) e.name -= p->first_before, e.of = PASS_BEFORE;
  size_t i = p->event_count;
  note_place(t);
  if (i < p->events.len) {
    p->is_alike = p->is_alike && is_same_event(&p->events.at[i], &e);
    p->events.at[i] = e;
  } else {
    p->is_alike = false;
    if (!vec_push(&p->events, e)) p->is_void = true;
  }
  p->event_count++;
}

void pass_note_work(plim_tape *t, fold_work w) {
  struct tape_passes *p = &t->passes;
  size_t i = p->work_count;
  if (i < p->work.len) {
    p->is_alike = p->is_alike && is_same_work(&p->work.at[i], &w);
    p->work.at[i] = w;
  } else {
    p->is_alike = false;
    if (!vec_push(&p->work, w)) p->is_void = true;
  }
  p->work_count++;
}

static void record(plim_tape *t) {
  struct tape_passes *p = &t->passes;
  p->is_recording = p->is_alike = true;
  p->is_void = false;
  p->event_count = p->work_count = p->places.len = 0;
  p->first_before = p->first;
  p->first = t->next_id;
  p->moments_first = p->moments.len;
  p->operators = t->clock.operators;
  p->modules = t->clock.modules;
  p->host_bytes = t->host_bytes;
}

// Whether everything that the pass allocates is freed in it or in the next one, which frees what the pass before left.
static bool leaves_nothing(const struct tape_passes *p) {
  int64_t left = 0;
  for (size_t i = 0; i < p->events.len; i++) {
    const pass_event *e = &p->events.at[i];
    if (e->of == PASS_OLDER) return false;
    if (e->kind == PASS_LEAVES_PURPOSE || e->kind == PASS_GETS_PURPOSE) continue;
    left += e->kind == PLIM_STREAM_ALLOC ? 1 : -1;
  }
  return left == 0;
}

// Whether the pass did the same as the one recorded before it.
static bool stop_recording(plim_tape *t) {
  struct tape_passes *p = &t->passes;
  if (!p->is_recording) return false;
  bool is_alike = p->is_alike && p->event_count == p->events.len && p->work_count == p->work.len;
  p->is_recording = false;
  p->events.len = p->event_count;
  p->work.len = p->work_count;
  p->operators = t->clock.operators - p->operators;
  p->modules = t->clock.modules - p->modules;
  if (p->is_void) p->events.len = 0; // nothing is like it
  return is_alike && !p->is_void && p->host_bytes == t->host_bytes && leaves_nothing(p);
}

// ---- sending again --------------------------------------------------------------------------------

static void send_events(plim_tape *t, uint32_t size) {
  struct tape_passes *p = &t->passes;
  uint32_t first = t->next_id;
  plim_program_point was = t->place;
  plim_stream stream = t->state.stream;
  bool was_recomputing = t->state.is_recomputing;
  t->pending.writer = PLIM_BY_COPY; // what the driver takes for a first use, earlier passes took
  for (size_t i = 0, k = 0; i < p->events.len && !t->state.failed; i++) {
    const pass_event *e = &p->events.at[i];
    if (k < p->places.len && p->places.at[k].event == i) {
      t->place = p->places.at[k++].place;
      t->place.step = was.step;
      t->state.is_recomputing = t->place.is_recomputed;
    }
    uint32_t id = e->name + (e->of == PASS_OWN ? first : first - size);
    t->state.stream = (plim_stream)e->stream;
    bool is_more = e->kind == PLIM_STREAM_ALLOC || e->kind == PASS_GETS_PURPOSE;
    t->live[e->purpose] += is_more ? e->bytes : -e->bytes;
    if (e->kind == PLIM_STREAM_ALLOC) t->next_id = id + 1;
    if (e->kind < PLIM_STREAM_KINDS)
      t->sink.event(t->sink.context, (plim_stream_kind)e->kind, id, e->bytes);
    else if (e->kind == PASS_GETS_PURPOSE && t->sink.repurpose)
      t->sink.repurpose(t->sink.context, id, (plim_purpose)e->purpose);
  }
  t->place = was;
  t->state.stream = stream;
  t->state.is_recomputing = was_recomputing;
}

static void send_again(plim_tape *t, uint32_t size) {
  struct tape_passes *p = &t->passes;
  send_events(t, size);
  for (size_t i = 0; i < p->work.len; i++) work_again(t, &p->work.at[i]);
  t->clock.operators += p->operators;
  t->clock.modules += p->modules;
  t->fold.events += p->events.len;
}

uint32_t pass_moved(const plim_tape *t, uint32_t id) {
  for (size_t i = t->passes.moved.len; i-- > 0;) {
    const pass_window *w = &t->passes.moved.at[i];
    if (id - w->first < w->size) return id + w->by;
  }
  return id;
}

void plim_begin_pass(plim_tape *t) {
  if (!t->passes.is_recording) t->passes.first = t->next_id;
}

int plim_replay_passes(plim_tape *t, int done, int last) {
  struct tape_passes *p = &t->passes;
  bool is_alike = stop_recording(t);
  if (t->state.failed || done >= last || last < LEAST_PASSES - 1) return done;
  if (!is_alike || !vec_reserve(&p->moved, 1)) {
    record(t);
    return done;
  }
  pass_window window = {p->first, t->next_id - p->first, 0};
  p->moved_end = t->next_id;
  p->moments_size = p->moments.len - p->moments_first;
  for (int i = done; i < last && !t->state.failed; i++) send_again(t, window.size);
  window.by = t->next_id - p->moved_end;
  p->moved.at[p->moved.len++] = window;
  p->moments_by = (size_t)(last - done) * p->moments_size;
  return last;
}
