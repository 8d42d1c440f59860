// Replays rounds of a loop inside a pass, such as the mini batches of a cached loss, without the tape. Each round may
// leave an allocation behind, so the allocator never returns to an earlier state although every round requests the
// same. The tape runs some rounds and the last of them are recorded; the others are replayed from that recording.
// Small and large blocks never mix. If the blocks of one pool return to their places after a period, that pool will
// keep repeating: its events need not be executed and only count for the peak. In the other pool they are executed.
//
// The limit of a card applies to both pools together. A round that comes near it is left to the tape.
#include <string.h>

#include "loop_replay_impl.h"

// ---- recording --------------------------------------------------------------------------------------

static void start(follower *f, bool is_on) {
  vec_free(&f->loop_replay.events);
  f->loop_replay = (loop_book){.is_on = is_on, .rounds.first = f->next_id};
}

void loop_replay_inner(void *context, bool begin) { start(context, begin); }

void loop_replay_clear(follower *f) { start(f, false); }

static uint64_t allocated_in(const predict_device *l) {
  return plim_allocator_stats(l->allocator)->now.allocated_bytes;
}

void loop_replay_note(follower *f, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  loop_book *b = &f->loop_replay;
  plim_stream stream = plim_tape_stream(f->tape);
  plim_rounds_note(&b->rounds, kind, stream, id, bytes);
  if (!b->period) return;
  loop_event e = {.bytes = bytes,
                  .place = plim_tape_point(f->tape),
                  .id = id,
                  .round = b->recorded,
                  .kind = kind};
  memcpy(e.live, plim_tape_live(f->tape), sizeof e.live);
  for (int i = 0; i < f->count; i++) e.allocated[i] = allocated_in(&f->devices[i]);
  b->is_void |=
      f->count != b->devices || kind == PLIM_STREAM_EMPTY_CACHE || stream != PLIM_COMPUTE_STREAM;
  if (!vec_push(&b->events, e)) f->failed = true;
}

static void begin_recording(follower *f, int period) {
  loop_book *b = &f->loop_replay;
  b->period = period;
  b->recorded = 0;
  b->devices = f->count;
  b->is_void = false;
  b->events.len = 0;
  b->firsts[0] = f->next_id;
  for (int i = 0; i < f->count; i++) b->allocated[i] = allocated_in(&f->devices[i]);
}

// ---- pools that repeat ------------------------------------------------------------------------------

static uint64_t *pools_at(loop_book *b, int round) {
  return b->pools[round % (LOOP_LONGEST_PERIOD + 1)];
}

static void end_round(follower *f) {
  loop_book *b = &f->loop_replay;
  uint64_t *pools = pools_at(b, b->rounds.rounds), one[LOOP_POOLS];
  pools[0] = pools[1] = (uint64_t)f->count;
  for (int i = 0; i < f->count; i++) {
    const predict_device *l = &f->devices[i];
    plim_rounds_pools(&b->rounds, l->allocator, one);
    for (int k = 0; k < LOOP_POOLS; k++) pools[k] = 31 * pools[k] + one[k] + l->out->runs_out;
  }
  plim_rounds_end(&b->rounds, 0, f->next_id);
}

// Counts the pools that are as they were `period` rounds ago; -1: the events differ or there are too few rounds.
static int find_returned(loop_book *b, int period) {
  int last = b->rounds.rounds - 1, count = 0;
  if (b->rounds.alike <= period || last < period) return -1;
  for (int i = 0; i < LOOP_POOLS; i++) {
    b->returned[i] = pools_at(b, last)[i] == pools_at(b, last - period)[i];
    count += b->returned[i];
  }
  return count;
}

// The shortest period after which the most pools repeat; 0: wait for more rounds. A pool in which something is left
// behind cannot repeat. For the others it waits, but not longer than LOOP_LONGEST_PERIOD rounds.
static int find_period(loop_book *b, bool keeps) {
  int best = 0, most = -1;
  for (int p = 1; p <= LOOP_LONGEST_PERIOD; p++) {
    int count = find_returned(b, p);
    if (count > most) best = p, most = count;
  }
  bool is_all = most >= LOOP_POOLS - keeps;
  return is_all || b->rounds.alike > LOOP_LONGEST_PERIOD ? best : 0;
}

// ---- executing recorded rounds ----------------------------------------------------------------------

// The number of an allocation in the nth replay of its round, from 1. Allocations of at most two rounds live at the
// same time, so two sets of numbers are enough; after an even number of rounds the numbers are those of the tape.
static uint32_t name_of(const loop_replay *x, const loop_event *e, int64_t n) {
  uint32_t first = x->f->loop_replay.firsts[e->round];
  bool is_older = e->id < first;
  uint32_t place = is_older ? e->id + x->size - first : e->id - first;
  n -= is_older;
  if (x->kept && x->base + place == x->kept->id && n > 0) return x->kept_base + (uint32_t)(n - 1);
  return (n % 2 ? x->other : x->base) + place;
}

static void note_peak(const loop_replay *x, int device, int64_t more, size_t event, int64_t n) {
  const follower *f = x->f;
  const loop_book *b = &f->loop_replay;
  plim_prediction *out = f->devices[device].out;
  const loop_event *e = loop_event_at(x, event);
  uint64_t peak = (uint64_t)((int64_t)allocated_in(&f->devices[device]) + x->aside[device] + more);
  if (peak <= out->peak_allocated_bytes) return;
  out->peak_allocated_bytes = peak;
  out->peak_at = e->place;
  out->peak_event = f->events + (uint64_t)((n - 1) / b->period) * b->events.len + event;
  memcpy(out->live_bytes, e->live, sizeof out->live_bytes);
  int64_t since = n - (e->round - b->period + 1);
  if (x->kept) out->live_bytes[x->kept->purpose] += (uint64_t)since * x->kept->bytes;
}

static void count(loop_replay *x, int device, const loop_tally *sum, int64_t n) {
  note_peak(x, device, sum->most[device], sum->highest[device], n);
  x->aside[device] += sum->change[device];
}

static void execute(loop_replay *x, int device, const loop_op *s, int64_t n) {
  follower *f = x->f;
  plim_allocator *a = f->devices[device].allocator;
  const loop_event *e = loop_event_at(x, s->event);
  if (s->is_counted) count(x, device, &s->sum, n);
  else if (e->kind == PLIM_STREAM_ALLOC) {
    plim_malloc_result got =
        plim_allocator_malloc(a, name_of(x, e, n), e->bytes, PLIM_COMPUTE_STREAM, 0);
    f->failed |= got == PLIM_MALLOC_NO_HOST_MEMORY;
    if (got == PLIM_MALLOC_OK) note_peak(x, device, 0, s->event, n);
  } else plim_allocator_free(a, name_of(x, e, n));
}

static bool has_room(const loop_replay *x, uint64_t bytes) {
  for (int i = 0; i < x->f->count; i++) {
    const predict_device *l = &x->f->devices[i];
    if (!l->out->runs_out &&
        plim_allocator_would_reuse(l->allocator, bytes, PLIM_COMPUTE_STREAM, 0) == PLIM_UNKNOWN)
      return false;
  }
  return true;
}

// Executes one operation, or counts the span that begins with it. Returns the index of the next operation.
static size_t execute_next(loop_replay *x, size_t at, int64_t n) {
  const loop_op *s = &x->ops.at[at];
  bool is_span = s->behind && has_room(x, s->room_bytes);
  for (int i = 0; i < x->f->count; i++) {
    if (x->f->devices[i].out->runs_out) continue;
    if (is_span) count(x, i, &s->span, n);
    else execute(x, i, s, n);
  }
  return is_span ? s->behind : at + 1;
}

// A number that changes when the allocator releases memory, which means that it has met the limit.
static uint64_t limit_events(const follower *f) {
  uint64_t sum = 0;
  for (int i = 0; i < f->count; i++) {
    const plim_allocator_stats_t *s = plim_allocator_stats(f->devices[i].allocator);
    sum += s->retries + s->ooms + s->segment_frees;
  }
  return sum;
}

// Executes up to `times` rounds. Returns how many were done before the limit was met.
static int execute_rounds(loop_replay *x, int times) {
  follower *f = x->f;
  uint64_t before = limit_events(f);
  memset(x->aside, 0, sizeof x->aside);
  size_t at = 0;
  for (int n = 1; n <= times && !f->failed; n++) {
    int round = (n - 1) % f->loop_replay.period;
    if (!round) at = 0;
    while (at < x->ops.len && loop_event_at(x, x->ops.at[at].event)->round == round)
      at = execute_next(x, at, n);
    if (limit_events(f) != before) return n - 1;
  }
  return times;
}

// ---- going back -------------------------------------------------------------------------------------

typedef struct {
  plim_allocator *allocator;
  plim_address_model addresses;
  plim_prediction out;
} saved_device;

static uint64_t limit_of(const follower *f, int device) {
  return device ? PLIM_UNKNOWN : f->request->limit_bytes;
}

static bool save(follower *f, saved_device *saved) {
  bool ok = true;
  for (int i = 0; i < f->count; i++) {
    predict_device *l = &f->devices[i];
    saved[i].out = *l->out;
    ok &= plim_address_model_copy(&saved[i].addresses, &l->addresses);
    saved[i].allocator = plim_allocator_clone(
        l->allocator, plim_address_model_driver(&l->addresses), limit_of(f, i));
    ok &= saved[i].allocator != NULL;
  }
  return ok;
}

static void restore(follower *f, saved_device *saved) {
  for (int i = 0; i < f->count; i++) {
    predict_device *l = &f->devices[i], now = *l;
    l->allocator = saved[i].allocator;
    l->addresses = saved[i].addresses;
    *l->out = saved[i].out;
    saved[i].allocator = now.allocator;
    saved[i].addresses = now.addresses;
  }
}

static void forget(const follower *f, saved_device *saved) {
  for (int i = 0; i < f->count; i++) {
    plim_allocator_delete(saved[i].allocator);
    plim_address_model_clear(&saved[i].addresses);
  }
}

// Rounds `times` down so that repeating pools end where they began and the allocation numbers are the tape's.
static int whole_periods(const loop_book *b, int times) {
  int unit = b->period % 2 ? 2 * b->period : b->period;
  return times - times % unit;
}

static int replay_rounds(loop_replay *x, int times) {
  follower *f = x->f;
  saved_device saved[MAX_DEVICES] = {0};
  bool ok = save(f, saved) && loop_make_ops(x);
  int done = ok ? execute_rounds(x, times) : 0;
  if (ok && done < times && !f->failed) {
    restore(f, saved);
    done = execute_rounds(x, whole_periods(&f->loop_replay, done));
  }
  f->failed |= !ok;
  forget(f, saved);
  vec_free(&x->ops);
  return f->failed ? 0 : done;
}

// ---- replaying --------------------------------------------------------------------------------------

// Stops before the rounds around an event that the observer wants to see.
static int stop_before_shown(const follower *f, int times) {
  uint64_t shown = f->request->shown_event,
           each = f->loop_replay.events.len / (size_t)f->loop_replay.period;
  if (shown < f->events || !each) return times;
  uint64_t before = (shown - f->events) / each;
  return before < (uint64_t)times ? (int)before : times;
}

// Whether all recorded events refer to allocations of their own round or the one before, and the allocation left behind
// is of the last round.
static bool is_sound(const loop_replay *x) {
  const loop_book *b = &x->f->loop_replay;
  for (size_t i = 0; i < b->events.len; i++)
    if (loop_event_at(x, i)->id < b->firsts[loop_event_at(x, i)->round] - x->size) return false;
  return !b->is_void && x->base >= x->size && (!x->kept || x->kept->id >= x->base);
}

static void report_skipped(follower *f, const loop_replay *x, int times, uint64_t events) {
  const plim_observer *o = f->request->observer;
  f->events += events;
  if (o && o->skips) o->skips(o->context, events);
  for (int i = 0; x->kept && o && o->keeps && i < times; i++)
    o->keeps(o->context, x->kept_base + (uint32_t)i, x->kept->id);
  for (int i = 0; f->watches_rounds && i < PLIM_CYCLES; i++)
    plim_rounds_note(&f->rounds[i], PLIM_STREAM_KINDS, 0, 0, events);
}

static int replay(follower *f, const plim_storage *kept, int times) {
  loop_book *b = &f->loop_replay;
  uint32_t base = b->firsts[b->period - 1];
  loop_replay x = {
      .f = f, .kept = kept, .base = base, .size = f->next_id - base, .kept_base = f->next_id};
  times = whole_periods(b, stop_before_shown(f, times));
  if (!times || !is_sound(&x)) return 0;
  x.other = f->next_id + (kept ? (uint32_t)times : 0);
  bool is_circle = !kept && b->returned[0] && b->returned[1];
  if (!is_circle) times = replay_rounds(&x, times);
  if (!times) return 0;
  report_skipped(f, &x, times, (uint64_t)(times / b->period) * b->events.len);
  if (kept) f->next_id += (uint32_t)times;
  return times;
}

static bool has_recorded_all(follower *f) {
  loop_book *b = &f->loop_replay;
  if (!b->period) return false;
  b->recorded++;
  if (b->recorded < b->period) b->firsts[b->recorded] = f->next_id;
  return b->recorded == b->period;
}

int loop_replay_again(void *context, const plim_storage *kept, int most) {
  follower *f = context;
  loop_book *b = &f->loop_replay;
  int done = 0;
  end_round(f);
  // Garbage collection depends on the age of blocks, which is not part of the compared state.
  if (f->failed || predict_collects_garbage(f)) return 0;
  if (has_recorded_all(f)) {
    if (find_returned(b, b->period) >= 0) done = replay(f, kept, most);
    b->period = 0;
    if (done) start(f, true);
    return done;
  }
  int period = b->period || !most ? 0 : find_period(b, kept);
  if (period) begin_recording(f, period);
  return 0;
}
