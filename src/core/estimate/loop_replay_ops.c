// Turns recorded rounds into operations, and finds spans of operations that need not be executed.
#include "loop_replay_impl.h"

// ---- operations -------------------------------------------------------------------------------------

static int64_t change_of(const loop_replay *x, size_t event, int device) {
  const loop_book *b = &x->f->loop_replay;
  uint64_t before = event ? b->events.at[event - 1].allocated[device] : b->allocated[device];
  return (int64_t)(b->events.at[event].allocated[device] - before);
}

static void add(loop_tally *sum, int device, int64_t most, size_t highest, int64_t change,
                bool is_first) {
  if (is_first || sum->change[device] + most > sum->most[device])
    sum->most[device] = sum->change[device] + most, sum->highest[device] = highest;
  sum->change[device] += change;
}

static void add_event(const loop_replay *x, loop_tally *sum, size_t event, bool is_first) {
  for (int i = 0; i < x->f->count; i++) {
    int64_t change = change_of(x, event, i);
    add(sum, i, change, event, change, is_first);
  }
}

static void add_tally(const loop_replay *x, loop_tally *sum, const loop_tally *more) {
  for (int i = 0; i < x->f->count; i++)
    add(sum, i, more->most[i], more->highest[i], more->change[i], false);
}

static bool is_large(const loop_replay *x, const loop_event *e) {
  return plim_request_is_large(&x->conf, e->bytes);
}

static bool cut(loop_replay *x) {
  for (size_t i = 0; i < x->f->loop_replay.events.len; i++) {
    const loop_event *e = loop_event_at(x, i);
    loop_op *last = x->ops.len ? &x->ops.at[x->ops.len - 1] : NULL;
    bool is_counted = x->f->loop_replay.returned[is_large(x, e)];
    bool goes_on =
        is_counted && last && last->is_counted && loop_event_at(x, last->event)->round == e->round;
    if (!goes_on) {
      loop_op fresh = {.event = i, .is_counted = is_counted};
      if (!vec_push(&x->ops, fresh)) return false;
      last = &x->ops.at[x->ops.len - 1];
    }
    if (is_counted) add_event(x, &last->sum, i, !goes_on);
  }
  return true;
}

// ---- spans ------------------------------------------------------------------------------------------

// In the small pool a block is as large as its request, and adjacent free blocks are merged. So a span of events that
// frees exactly what it allocates leaves the pool as it was, provided that no request misses. None does if one free
// block is as large as all requests together, minus what nested spans have already freed.

enum { MOST_ROOM = 512 << 10 }; // larger free blocks are rare in segments of 2 MiB

typedef struct {
  uint64_t bytes;
  uint32_t id;
  size_t frees_before;
  bool is_free;
} tenant;

typedef struct {
  vec(tenant) tenants; // allocations of spans that have not ended
  size_t frees, live;
  uint64_t bytes, room_bytes;
} span;

// Removes the longest span that ends here.
static void settle(span *s) {
  size_t first = s->tenants.len;
  for (size_t i = s->tenants.len; i-- > 0 && s->tenants.at[i].is_free;)
    if (s->frees - s->tenants.at[i].frees_before == s->tenants.len - i) first = i;
  for (size_t i = first; i < s->tenants.len; i++) {
    s->bytes -= s->tenants.at[i].bytes;
    s->frees -= 1;
  }
  s->tenants.len = first;
}

static bool span_alloc(const loop_replay *x, span *s, const loop_event *e) {
  tenant fresh = {plim_round_request(&x->conf, e->bytes), e->id, s->frees, false};
  s->bytes += fresh.bytes;
  s->live++;
  if (s->bytes > s->room_bytes) s->room_bytes = s->bytes;
  return s->room_bytes <= MOST_ROOM && vec_push(&s->tenants, fresh);
}

static bool span_free(span *s, const loop_event *e) {
  size_t i = s->tenants.len;
  while (i > 0 && s->tenants.at[i - 1].id != e->id) i--;
  if (!i) return false; // frees something older than the span
  s->tenants.at[i - 1].is_free = true;
  s->frees++;
  s->live--;
  settle(s);
  return true;
}

static bool span_goes_on(const loop_replay *x, span *s, const loop_op *next) {
  const loop_event *e = loop_event_at(x, next->event);
  if (next->is_counted) return true;
  if (is_large(x, e)) return false;
  return e->kind == PLIM_STREAM_ALLOC ? span_alloc(x, s, e) : span_free(s, e);
}

// Finds the longest span that begins with this operation.
static void find_span(const loop_replay *x, size_t from) {
  loop_op *head = &x->ops.at[from];
  span s = {.live = 0};
  loop_tally sum = {.change = {0}};
  int round = loop_event_at(x, head->event)->round;
  for (size_t i = from; i < x->ops.len; i++) {
    const loop_op *next = &x->ops.at[i];
    if (loop_event_at(x, next->event)->round != round || !span_goes_on(x, &s, next)) break;
    if (next->is_counted) add_tally(x, &sum, &next->sum);
    else add_event(x, &sum, next->event, i == from);
    if (s.live || next->is_counted) continue;
    head->behind = i + 1;
    head->room_bytes = s.room_bytes;
    head->span = sum;
  }
  vec_free(&s.tenants);
}

static void find_spans(const loop_replay *x) {
  for (size_t i = 0; i < x->ops.len; i++) {
    const loop_event *e = loop_event_at(x, x->ops.at[i].event);
    bool may_begin = e->kind == PLIM_STREAM_ALLOC && !x->ops.at[i].is_counted;
    if (may_begin && !is_large(x, e)) find_span(x, i);
    if (x->ops.at[i].behind) i = x->ops.at[i].behind - 1;
  }
}

bool loop_make_ops(loop_replay *x) {
  const plim_alloc_conf *conf = x->f->request->conf;
  if (conf) x->conf = *conf;
  else plim_alloc_conf_parse("", &x->conf, NULL);
  if (!cut(x)) return false;
  find_spans(x);
  return true;
}
