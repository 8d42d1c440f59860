#include "timeline.h"

#include "driver.h"
#include "timeline_columns.h"
#include "trace_start.h"

_Static_assert((int)PLIM_KIND_COUNT <= PLIM_TIMELINE_PARTS, "every kind has a part");

// ---- holders ------------------------------------------------------------------------------------

// The current state of a slot.
typedef struct {
  uint64_t bytes; // of its block; 0: empty
  uint32_t line;  // index into ledger.lines
  uint8_t kind;
} tenant;

// Bytes by kind and by line, updated event by event.
typedef struct {
  const plim_trace *trace;
  const plim_trace_analysis *analysis;
  tenant *tenants;         // indexed by slot
  uint32_t *line_of_stack; // indexed by stack: index into lines
  vec(plim_holder) lines;  // the lines that occur in the trace, each once
  uint64_t kind_bytes[PLIM_KIND_COUNT];
} ledger;

static void ledger_clear(ledger *l) {
  free(l->tenants);
  free(l->line_of_stack);
  vec_free(&l->lines);
}

// Gives each line that occurs one entry, so that finding the largest does not visit all frames.
static bool number_lines(ledger *l) {
  size_t frames = l->trace->frames.len, stacks = l->analysis->line.len;
  uint32_t *entry_of = malloc((frames + 1) * sizeof *entry_of); // the last entry is for no line
  for (size_t i = 0; entry_of && i <= frames; i++) entry_of[i] = UINT32_MAX;
  bool ok = entry_of != NULL;
  for (size_t i = 0; ok && i < stacks; i++) {
    uint32_t line = l->analysis->line.at[i];
    uint32_t *entry = &entry_of[line < frames ? line : frames];
    if (*entry == UINT32_MAX) {
      *entry = (uint32_t)l->lines.len;
      ok = vec_push(&l->lines, (plim_holder){.line = line});
    }
    l->line_of_stack[i] = *entry;
  }
  free(entry_of);
  return ok;
}

static bool ledger_init(ledger *l, const plim_trace *trace, const plim_trace_analysis *analysis) {
  *l = (ledger){.trace = trace, .analysis = analysis};
  l->tenants = calloc((size_t)trace->block_slots + 1, sizeof *l->tenants);
  l->line_of_stack = calloc(analysis->line.len + 1, sizeof *l->line_of_stack);
  if (l->tenants && l->line_of_stack && number_lines(l)) return true;
  ledger_clear(l);
  return false;
}

static void move_out(ledger *l, uint32_t slot) {
  tenant *t = &l->tenants[slot];
  l->kind_bytes[t->kind] -= t->bytes;
  l->lines.at[t->line].bytes -= t->bytes;
  t->bytes = 0;
}

// `bytes` is PLIM_UNKNOWN if the allocation failed in the simulation.
static void move_in(ledger *l, uint32_t slot, uint64_t bytes, uint8_t kind, uint32_t stack) {
  move_out(l, slot);
  if (bytes == PLIM_UNKNOWN) return;
  l->tenants[slot] = (tenant){bytes, l->line_of_stack[stack], kind};
  l->kind_bytes[kind] += bytes;
  l->lines.at[l->tenants[slot].line].bytes += bytes;
}

// A block that waits for another stream is no longer allocated, so the requested free counts.
static void ledger_follow(ledger *l, size_t event, const plim_allocator *a) {
  const plim_event *e = &l->trace->events.at[event];
  if (e->action == PLIM_EV_ALLOC)
    move_in(l, e->block, plim_allocator_block_bytes(a, e->block), l->analysis->kind.at[event],
            e->stack);
  if (e->action == PLIM_EV_FREE || e->action == PLIM_EV_FREE_REQUESTED) move_out(l, e->block);
}

static void ledger_start(ledger *l, const plim_allocator *a) {
  for (size_t i = 0; i < l->trace->start_blocks.len; i++) {
    const plim_start_block *b = &l->trace->start_blocks.at[i];
    if (b->is_pending) continue;
    move_in(l, b->slot, plim_allocator_block_bytes(a, b->slot), l->analysis->start_kind.at[i],
            b->stack);
  }
}

// ---- columns ------------------------------------------------------------------------------------

bool timeline_make_columns(plim_timeline *t, size_t events, size_t count) {
  if (count > events) count = events;
  if (!vec_reserve(&t->columns, count)) return false;
  for (size_t i = 0; i < count; i++) t->columns.at[i] = (plim_timeline_column){.instant = SIZE_MAX};
  t->columns.len = count;
  for (size_t i = 0; i < count; i++) { // the inverse of timeline_column_of
    plim_timeline_column *c = &t->columns.at[i];
    c->first_event = (size_t)(((uint64_t)i * events + count - 1) / count);
    c->end_event = (size_t)(((uint64_t)(i + 1) * events + count - 1) / count);
  }
  return true;
}

size_t timeline_column_of(const plim_timeline *t, size_t events, size_t event) {
  size_t i = event < events ? event : events - 1;
  return (size_t)((uint64_t)i * t->columns.len / events);
}

bool timeline_offer(plim_timeline_column *c, size_t instant, const plim_usage *now) {
  bool empty = c->instant == SIZE_MAX;
  if (!empty && now->allocated_bytes <= c->allocated_bytes) return false;
  c->instant = instant;
  c->allocated_bytes = now->allocated_bytes;
  c->reserved_bytes = now->reserved_bytes;
  return true;
}

static void raise(uint64_t *highest, uint64_t value) {
  if (value > *highest) *highest = value;
}

// Memory may be mapped and released again within one malloc; the allocator's own peak shows that.
static uint64_t highest_reserved_since(const plim_allocator_stats_t *last,
                                       const plim_allocator_stats_t *now) {
  bool is_new_peak = now->peak.reserved_bytes > last->peak.reserved_bytes;
  return is_new_peak ? now->peak.reserved_bytes : now->now.reserved_bytes;
}

void timeline_raise_reserved(plim_timeline_column *c, const plim_allocator_stats_t *last,
                             const plim_allocator_stats_t *now) {
  raise(&c->peak_reserved_bytes, highest_reserved_since(last, now));
}

void timeline_offer_holder(plim_holder top[PLIM_TIMELINE_HOLDERS], plim_holder line) {
  if (line.bytes <= top[PLIM_TIMELINE_HOLDERS - 1].bytes) return;
  size_t at = PLIM_TIMELINE_HOLDERS - 1;
  for (; at > 0 && top[at - 1].bytes < line.bytes; at--) top[at] = top[at - 1];
  top[at] = line;
}

void timeline_find_peaks(plim_timeline *t) {
  for (size_t i = 0; i < t->columns.len; i++) {
    const plim_timeline_column *c = &t->columns.at[i];
    if (c->allocated_bytes > t->columns.at[t->peak].allocated_bytes) t->peak = i;
    raise(&t->peak_reserved_bytes, c->peak_reserved_bytes);
  }
}

// ---- the two passes -----------------------------------------------------------------------------

typedef struct {
  const plim_trace *trace;
  const plim_trace_analysis *analysis;
  const plim_replay_options *options;
  const plim_guided *guided; // NULL: shows the recording
  size_t first, end;         // the events to show
  plim_timeline *out;
  plim_allocator_stats_t last; // at the previous call
  size_t next_event;           // the first event not reported yet
  size_t next_column;          // second pass: the first column not filled yet
  ledger ledger;
} builder;

static bool is_shown(const builder *b, size_t event) { return event >= b->first && event < b->end; }

static size_t column_of(const builder *b, size_t event) {
  size_t from = event < b->first ? 0 : event - b->first;
  return timeline_column_of(b->out, b->end - b->first, from);
}

static void count_failures(builder *b, size_t event, const plim_allocator_stats_t *s) {
  if (!is_shown(b, event)) return;
  plim_timeline_column *c = &b->out->columns.at[column_of(b, event)];
  c->ooms += (uint32_t)(s->ooms - b->last.ooms);
  c->retries += (uint32_t)(s->retries - b->last.retries);
  if (s->ooms > b->last.ooms && b->out->first_oom_event == PLIM_UNKNOWN)
    b->out->first_oom_event = event;
}

// First pass: finds each column's instant. A malloc and its segment events happen at once and may extend over several
// columns; then it is a candidate for all of them.
static bool find_instant(void *context, size_t event, const plim_allocator *a) {
  builder *b = context;
  const plim_allocator_stats_t *s = plim_allocator_stats(a);
  size_t end = event < b->first ? 0 : column_of(b, event) + 1;
  for (size_t i = column_of(b, b->next_event); i < end; i++) {
    plim_timeline_column *c = &b->out->columns.at[i];
    timeline_offer(c, event + 1, &s->now);
    timeline_raise_reserved(c, &b->last, s);
  }
  count_failures(b, event, s);
  b->last = *s;
  b->next_event = event + 1;
  return b->next_event < b->end || b->end == b->trace->events.len; // the rest is not shown
}

static void fill_column(builder *b, plim_timeline_column *c) {
  for (size_t i = 0; i < PLIM_KIND_COUNT; i++) c->part_bytes[i] = b->ledger.kind_bytes[i];
  for (size_t i = 0; i < b->ledger.lines.len; i++)
    timeline_offer_holder(c->holders, b->ledger.lines.at[i]);
  c->entry = c->instant ? b->trace->events.at[c->instant - 1].entry : 0;
  c->step = plim_trace_analysis_step_of(b->analysis, c->instant ? c->instant - 1 : 0);
}

static void fill_columns_at(builder *b, size_t instant) {
  for (; b->next_column < b->out->columns.len; b->next_column++) {
    plim_timeline_column *c = &b->out->columns.at[b->next_column];
    if (c->instant != instant) return;
    fill_column(b, c);
  }
}

// Second pass: collects what was held at those instants.
static bool collect(void *context, size_t event, const plim_allocator *a) {
  builder *b = context;
  for (; b->next_event <= event; b->next_event++) ledger_follow(&b->ledger, b->next_event, a);
  fill_columns_at(b, event + 1);
  return b->next_column < b->out->columns.len;
}

static bool replay_with(builder *b, bool (*after_event)(void *, size_t, const plim_allocator *),
                        plim_guided *own) {
  plim_replay_watch watch = {after_event, b};
  plim_what_if ignored;
  b->next_event = 0;
  if (!b->guided) return plim_replay_guided(b->trace, b->options, &watch, own);
  return plim_replay_what_if(b->trace, b->guided, b->options, PLIM_ADDRESSES_MODEL, &watch, NULL,
                             NULL, &ignored);
}

static void place_marks(builder *b, const plim_guided *guided) {
  for (size_t i = 0; i < guided->marks.len; i++) {
    const plim_mark *m = &guided->marks.at[i];
    if (m->kind == PLIM_MARK_EMPTY_CACHE && is_shown(b, m->event))
      b->out->columns.at[column_of(b, m->event)].empty_caches++;
  }
}

static bool first_pass(builder *b) {
  plim_guided own = {0};
  bool ok = replay_with(b, find_instant, &own);
  if (ok) place_marks(b, b->guided ? b->guided : &own);
  plim_guided_clear(&own);
  return ok;
}

static bool second_pass(builder *b) {
  plim_guided own = {0};
  fill_columns_at(b, 0);
  bool ok = replay_with(b, collect, &own);
  plim_guided_clear(&own);
  return ok;
}

// ---- building the timeline ------------------------------------------------------------------------

// The allocator at the start of the recording; NULL when out of memory.
static plim_allocator *start_state(const builder *b, plim_address_model *model) {
  plim_allocator_options setup = {.conf = b->options->conf,
                                  .order = b->options->order,
                                  .driver = plim_address_model_driver(model),
                                  .limit_bytes = PLIM_UNKNOWN,
                                  .capacity_bytes = PLIM_UNKNOWN,
                                  .range_bytes = PLIM_UNKNOWN,
                                  .streams = b->trace->streams.at,
                                  .stream_count = (uint32_t)b->trace->streams.len,
                                  .pool_count = (uint32_t)b->trace->pools.len};
  plim_allocator *a = plim_allocator_new(&setup);
  bool consistent;
  if (a && plim_start_seed(b->trace, &b->options->conf, a, &consistent)) return a;
  plim_allocator_delete(a);
  return NULL;
}

// The state before the first event is a candidate instant of the first column.
static bool begin(builder *b) {
  plim_address_model model;
  plim_address_model_init(&model);
  plim_allocator *a = start_state(b, &model);
  if (a) {
    b->last = *plim_allocator_stats(a);
    ledger_start(&b->ledger, a);
    if (!b->first) timeline_offer(&b->out->columns.at[0], 0, &b->last.now);
    if (!b->first) b->out->columns.at[0].peak_reserved_bytes = b->last.now.reserved_bytes;
  }
  plim_allocator_delete(a);
  plim_address_model_clear(&model);
  return a != NULL;
}

bool plim_timeline_build(const plim_trace *trace, const plim_trace_analysis *analysis,
                         const plim_replay_options *options, const plim_guided *guided,
                         size_t columns, plim_timeline *out) {
  return plim_timeline_build_part(trace, analysis, options, guided, 0, trace->events.len, columns,
                                  out);
}

bool plim_timeline_build_part(const plim_trace *trace, const plim_trace_analysis *analysis,
                              const plim_replay_options *options, const plim_guided *guided,
                              size_t first, size_t end, size_t columns, plim_timeline *out) {
  builder b = {.trace = trace,
               .analysis = analysis,
               .options = options,
               .guided = guided,
               .first = first,
               .end = end,
               .out = out};
  *out = (plim_timeline){.first_oom_event = PLIM_UNKNOWN};
  if (first >= end || !columns) return true;
  if (!ledger_init(&b.ledger, trace, analysis)) return false;
  bool ok = timeline_make_columns(out, end - first, columns) && begin(&b) && first_pass(&b) &&
            second_pass(&b);
  for (size_t i = 0; ok && i < out->columns.len; i++) {
    out->columns.at[i].first_event += first;
    out->columns.at[i].end_event += first;
  }
  if (ok) timeline_find_peaks(out);
  else plim_timeline_clear(out);
  ledger_clear(&b.ledger);
  return ok;
}

void plim_timeline_clear(plim_timeline *timeline) {
  if (!timeline) return;
  vec_free(&timeline->columns);
}
