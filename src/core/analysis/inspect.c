#include "inspect.h"

#include <string.h>

#include "hash.h"
#include "sort.h"

// ---- stranded memory ----------------------------------------------------------------------------------

typedef struct {
  plim_fragmentation *out;
  plim_stranded segment; // the segment being visited
  bool ok;
} walker;

static void finish_segment(walker *w) {
  plim_stranded *s = &w->segment;
  if (!s->bytes || !s->free_bytes) return;
  if (s->free_bytes == s->bytes) w->out->cached_bytes += s->bytes;
  else {
    w->out->stranded_bytes += s->free_bytes;
    w->ok = w->ok && vec_push(&w->out->segments, *s);
  }
}

static void walk_block(void *context, const plim_block_view *b) {
  walker *w = context;
  if (b->starts_segment) {
    finish_segment(w);
    w->segment = (plim_stranded){.addr = b->addr,
                                 .stream = b->stream,
                                 .pool = b->pool,
                                 .is_large = b->is_large,
                                 .is_expandable = b->is_expandable};
  }
  plim_stranded *s = &w->segment;
  s->bytes += b->bytes;
  if (!b->is_free) {
    if (b->bytes > b->requested_bytes) w->out->slack_bytes += b->bytes - b->requested_bytes;
    return;
  }
  s->free_bytes += b->bytes;
  if (b->bytes > s->largest_free_bytes) s->largest_free_bytes = b->bytes;
  if (b->bytes > w->out->largest_free_bytes) w->out->largest_free_bytes = b->bytes;
}

static int most_free_first(const void *x, const void *y) {
  const plim_stranded *a = x, *b = y;
  if (a->free_bytes != b->free_bytes) return a->free_bytes < b->free_bytes ? 1 : -1;
  return (a->addr > b->addr) - (a->addr < b->addr);
}

static bool look_at_segments(const plim_allocator *a, plim_fragmentation *out) {
  walker w = {.out = out, .ok = true};
  out->usage = plim_allocator_stats(a)->now;
  plim_allocator_visit(a, walk_block, &w);
  finish_segment(&w);
  if (out->segments.len)
    plim_sort(out->segments.at, out->segments.len, sizeof *out->segments.at, most_free_first);
  return w.ok;
}

// ---- holders --------------------------------------------------------------------------------------------

typedef struct {
  const plim_trace *trace;
  const plim_trace_analysis *analysis;
  uint64_t (*by_line)[PLIM_KIND_COUNT]; // indexed by frame; the last entry is "no stack"
  uint64_t *counts;
} tally;

static void tally_add(tally *t, plim_holders *out, uint32_t stack, uint8_t kind, uint64_t bytes) {
  if (bytes == PLIM_UNKNOWN) return; // the request failed in this simulation
  uint32_t line = t->analysis->line.at[stack];
  size_t row = line == PLIM_NO_LINE ? t->trace->frames.len : line;
  t->by_line[row][kind] += bytes;
  t->counts[row]++;
  out->by_kind[kind] += bytes;
  out->bytes += bytes;
}

// Adds up what is alive after event `moment`: allocated until then and freed later.
static void tally_alive(tally *t, const plim_allocator *a, size_t moment, plim_holders *out) {
  const plim_trace *trace = t->trace;
  for (size_t i = 0; i < trace->start_blocks.len; i++) {
    const plim_start_block *b = &trace->start_blocks.at[i];
    if (t->analysis->start_freed_at.at[i] <= moment || b->is_pending) continue;
    tally_add(t, out, b->stack, t->analysis->start_kind.at[i],
              plim_allocator_block_bytes(a, b->slot));
  }
  for (size_t i = 0; i <= moment && i < trace->events.len; i++) {
    const plim_event *e = &trace->events.at[i];
    if (e->action != PLIM_EV_ALLOC || t->analysis->freed_at.at[i] <= moment) continue;
    tally_add(t, out, e->stack, t->analysis->kind.at[i], plim_allocator_block_bytes(a, e->block));
  }
}

static plim_held holder_of(const tally *t, size_t row) {
  plim_held h = {.frame = row == t->trace->frames.len ? PLIM_NO_LINE : (uint32_t)row,
                 .count = t->counts[row]};
  for (uint32_t k = 0; k < PLIM_KIND_COUNT; k++) {
    h.bytes += t->by_line[row][k];
    if (t->by_line[row][k] > t->by_line[row][h.kind]) h.kind = k;
  }
  return h;
}

static int most_bytes_first(const void *x, const void *y) {
  const plim_held *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return (a->frame > b->frame) - (a->frame < b->frame);
}

static void sort_holders(plim_held_list *list) {
  if (list->len) plim_sort(list->at, list->len, sizeof *list->at, most_bytes_first);
}

static bool list_lines(const tally *t, plim_held_list *list) {
  for (size_t row = 0; row <= t->trace->frames.len; row++)
    if (t->counts[row] && !vec_push(list, holder_of(t, row))) return false;
  sort_holders(list);
  return true;
}

static uint64_t file_key(const plim_trace *trace, uint32_t frame) {
  return frame == PLIM_NO_LINE ? UINT64_MAX : trace->frames.at[frame].file;
}

static bool list_modules(const plim_trace *trace, const plim_held_list *lines,
                         plim_held_list *modules) {
  plim_hash by_file = {0};
  bool ok = true;
  for (size_t i = 0; ok && i < lines->len; i++) {
    uint64_t key = file_key(trace, lines->at[i].frame);
    const uint32_t *known = plim_hash_find(&by_file, key);
    if (known) {
      modules->at[*known].bytes += lines->at[i].bytes;
      modules->at[*known].count += lines->at[i].count;
    } else
      ok = plim_hash_put(&by_file, key, (uint32_t)modules->len) && vec_push(modules, lines->at[i]);
  }
  plim_hash_free(&by_file);
  sort_holders(modules);
  return ok;
}

static bool look_at_holders(const plim_trace *trace, const plim_trace_analysis *analysis,
                            const plim_allocator *a, size_t moment, plim_holders *out) {
  size_t rows = trace->frames.len + 1;
  tally t = {trace, analysis, calloc(rows, sizeof *t.by_line), calloc(rows, sizeof *t.counts)};
  bool ok = t.by_line && t.counts;
  if (ok) tally_alive(&t, a, moment, out);
  ok = ok && list_lines(&t, &out->by_line) && list_modules(trace, &out->by_line, &out->by_module);
  free(t.by_line);
  free(t.counts);
  return ok;
}

// ---- inspecting moments -----------------------------------------------------------------------------------

typedef struct {
  size_t event;
  plim_moment *moment;
} target;

typedef struct {
  const plim_trace *trace;
  const plim_trace_analysis *analysis;
  target *targets; // sorted by event
  size_t count, next;
  bool ok;
} inspector;

static bool look(void *context, size_t event, const plim_allocator *a) {
  inspector *in = context;
  for (; in->next < in->count && in->targets[in->next].event <= event; in->next++) {
    plim_moment *m = in->targets[in->next].moment;
    m->event = event;
    in->ok = in->ok && look_at_segments(a, &m->fragmentation) &&
             look_at_holders(in->trace, in->analysis, a, event, &m->holders);
  }
  return in->ok && in->next < in->count;
}

static int by_event(const void *x, const void *y) {
  const target *a = x, *b = y;
  return (a->event > b->event) - (a->event < b->event);
}

static bool replay(const plim_trace *trace, const plim_guided *guided,
                   const plim_replay_options *options, const plim_replay_watch *watch) {
  plim_what_if ignored;
  if (guided)
    return plim_replay_what_if(trace, guided, options, PLIM_ADDRESSES_MODEL, watch, NULL, NULL,
                               &ignored);
  plim_guided again = {0};
  bool ok = plim_replay_guided(trace, options, watch, &again);
  plim_guided_clear(&again);
  return ok;
}

bool plim_inspect(const plim_trace *trace, const plim_trace_analysis *analysis,
                  const plim_guided *guided, const plim_replay_options *options,
                  const size_t *events, size_t count, plim_moment *moments) {
  memset(moments, 0, count * sizeof *moments);
  inspector in = {trace, analysis, calloc(count, sizeof(target)), count, 0, true};
  if (!in.targets) return false;
  for (size_t i = 0; i < count; i++) in.targets[i] = (target){events[i], &moments[i]};
  plim_sort(in.targets, count, sizeof *in.targets, by_event);
  plim_replay_watch watch = {look, &in};
  bool ok = replay(trace, guided, options, &watch);
  free(in.targets);
  return ok && in.ok;
}

void plim_moment_clear(plim_moment *moment) {
  vec_free(&moment->fragmentation.segments);
  vec_free(&moment->holders.by_line);
  vec_free(&moment->holders.by_module);
}
