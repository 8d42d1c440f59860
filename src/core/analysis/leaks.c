// Finds allocations that accumulate step after step.
//
// A line leaks if it leaves something behind in most steps and holds more and more: its bytes must still grow in the
// second half of the run and in its last quarter, so a buffer of fixed length is not a leak. The first step (state
// created lazily) and the last two (results still in a variable) do not count as evidence.
#include "hash.h"
#include "sort.h"
#include "trace_analysis_impl.h"

enum { MIN_STEPS = 3 }; // steps that left something behind

#define NO_GROUP UINT32_MAX

typedef struct {
  plim_leak leak;
  size_t newest_step;      // the last step counted in `steps`
  uint64_t evidence_bytes; // left behind by the steps that count
  size_t evidence_steps;
  uint64_t live[3]; // bytes alive at the three checkpoints
} group;

typedef struct {
  const plim_trace *trace;
  const plim_trace_analysis *analysis;
  vec(group) groups;
  uint32_t *by_line;    // indexed by frame: its group
  plim_hash by_size;    // for allocations without a stack
  size_t steps;         // number of steps
  size_t first, last;   // the steps that count, from 1
  size_t checkpoint[3]; // steps: the middle, three quarters, the last one that counts
  size_t horizon;       // what is alive at this event counts as alive at the end
  bool is_pooled;       // everything without a stack is one group: sizes vary by batch
} search;

// After a failure everything is freed while the stack unwinds, so the moment before it is the end.
static size_t find_horizon(const plim_trace *t, const plim_trace_analysis *analysis) {
  const plim_trace_step *last = &analysis->steps.at[analysis->steps.len - 1];
  for (size_t i = last->end; i > last->first; i--)
    if (t->events.at[i - 1].action == PLIM_EV_OOM) return i - 1;
  return last->end;
}

static uint32_t add_group(search *s, uint32_t stack, uint32_t line) {
  group g = {.leak = {.stack = stack, .line = line}};
  return vec_push(&s->groups, g) ? (uint32_t)s->groups.len - 1 : NO_GROUP;
}

// The group of an allocation, created if new; NO_GROUP when out of memory.
static uint32_t group_of(search *s, const plim_event *e) {
  uint32_t line = e->stack < s->analysis->line.len ? s->analysis->line.at[e->stack] : PLIM_NO_LINE;
  if (line != PLIM_NO_LINE) {
    if (s->by_line[line] == NO_GROUP) s->by_line[line] = add_group(s, e->stack, line);
    return s->by_line[line];
  }
  uint64_t key = s->is_pooled ? 0 : e->bytes;
  uint32_t *known = plim_hash_find(&s->by_size, key);
  if (known) return *known;
  uint32_t made = add_group(s, 0, PLIM_NO_LINE);
  return made != NO_GROUP && plim_hash_put(&s->by_size, key, made) ? made : NO_GROUP;
}

static void count_survivor(search *s, group *g, uint64_t bytes, size_t step) {
  plim_leak *k = &g->leak;
  k->bytes += bytes;
  k->count++;
  bool is_new = step != g->newest_step;
  if (is_new) {
    if (!k->steps) k->first_step = step;
    k->last_step = step;
    k->steps++;
    g->newest_step = step;
  }
  if (step < s->first || step > s->last) return;
  g->evidence_bytes += bytes;
  g->evidence_steps += is_new;
}

// An allocation that outlives its step counts at the checkpoints between its allocation and its free.
static void count_live(search *s, group *g, const plim_event *e, size_t step, size_t death) {
  for (size_t c = 0; c < 3; c++) {
    size_t at = s->checkpoint[c];
    if (step <= at && death >= s->analysis->steps.at[at - 1].end) g->live[c] += e->bytes;
  }
}

// Optimizer state is created in the first steps, with the sizes of parameters.
static bool is_lazy_state(const search *s, size_t event, size_t step) {
  return step <= 2 && s->analysis->kind.at[event] == PLIM_KIND_OPTIMIZER;
}

static bool read_allocations(search *s) {
  size_t step = 0;
  for (size_t i = s->analysis->steps.at[0].first; i < s->trace->events.len && i < s->horizon; i++) {
    while (step < s->steps && s->analysis->steps.at[step].first <= i) step++;
    const plim_event *e = &s->trace->events.at[i];
    if (e->action != PLIM_EV_ALLOC || is_lazy_state(s, i, step)) continue;
    size_t death = analysis_death(s->analysis, i);
    if (death < s->analysis->steps.at[step - 1].end) continue;
    uint32_t at = group_of(s, e);
    if (at == NO_GROUP) return false;
    if (death >= s->horizon) count_survivor(s, &s->groups.at[at], e->bytes, step);
    count_live(s, &s->groups.at[at], e, step, death);
  }
  return true;
}

// Whether the group grows between two checkpoints by at least half of what its steps leave behind.
static bool grows(const search *s, const group *g, size_t from, size_t to) {
  size_t steps = s->checkpoint[to] - s->checkpoint[from];
  uint64_t expected = g->leak.bytes_per_step / 2 * steps;
  return !steps || (g->live[to] > g->live[from] && g->live[to] - g->live[from] >= expected);
}

static bool is_leak(const search *s, group *g) {
  if (g->evidence_steps < MIN_STEPS || g->evidence_steps * 2 < s->last + 1 - s->first) return false;
  g->leak.bytes_per_step = g->evidence_bytes / g->evidence_steps;
  return g->leak.bytes_per_step && grows(s, g, 0, 2) && grows(s, g, 1, 2);
}

static int leak_order(const void *x, const void *y) {
  const plim_leak *a = x, *b = y;
  if (a->bytes_per_step != b->bytes_per_step) return a->bytes_per_step > b->bytes_per_step ? -1 : 1;
  return a->line < b->line ? -1 : a->line > b->line;
}

static bool search_once(search *s, plim_leaks *leaks) {
  s->groups.len = 0;
  for (size_t i = 0; i < s->trace->frames.len; i++) s->by_line[i] = NO_GROUP;
  plim_hash_free(&s->by_size);
  s->by_size = (plim_hash){0};
  if (!read_allocations(s)) return false;
  for (size_t i = 0; i < s->groups.len; i++) {
    group *g = &s->groups.at[i];
    if (is_leak(s, g) && !vec_push(leaks, g->leak)) return false;
  }
  return true;
}

static void set_window(search *s) {
  s->first = 2;
  s->last = s->steps - 2;
  size_t middle = (s->first + s->last) / 2;
  s->checkpoint[0] = middle;
  s->checkpoint[1] = (middle + s->last) / 2;
  s->checkpoint[2] = s->last;
}

bool plim_find_leaks(const plim_trace *trace, const plim_trace_analysis *analysis,
                     plim_leaks *leaks) {
  *leaks = (plim_leaks){0};
  if (analysis->steps.len < PLIM_LEAK_STEPS) return true;
  search s = {.trace = trace, .analysis = analysis, .steps = analysis->steps.len};
  set_window(&s);
  s.horizon = find_horizon(trace, analysis);
  s.by_line = malloc((trace->frames.len + 1) * sizeof *s.by_line);
  bool ok = s.by_line && search_once(&s, leaks);
  if (ok && !leaks->len) { // batches of varying length leave varying sizes behind
    s.is_pooled = true;
    ok = search_once(&s, leaks);
  }
  if (leaks->len) plim_sort(leaks->at, leaks->len, sizeof *leaks->at, leak_order);
  if (!ok) vec_free(leaks);
  free(s.by_line);
  vec_free(&s.groups);
  plim_hash_free(&s.by_size);
  return ok;
}

// ---- marking --------------------------------------------------------------------------------------

void plim_mark_leaks(const plim_trace *trace, const plim_leaks *leaks,
                     plim_trace_analysis *analysis) {
  if (!leaks->len) return;
  size_t end = find_horizon(trace, analysis);
  for (size_t i = analysis->steps.at[0].first; i < end; i++) {
    const plim_event *e = &trace->events.at[i];
    if (e->action != PLIM_EV_ALLOC || analysis->freed_at.at[i] < end) continue;
    if (analysis->kind.at[i] != PLIM_KIND_OTHER) continue;
    for (size_t k = 0; k < leaks->len; k++)
      if (leaks->at[k].line == analysis->line.at[e->stack]) analysis->kind.at[i] = PLIM_KIND_LEAKED;
  }
}
