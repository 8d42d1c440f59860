// Finds steps by periodic allocations, if neither markers nor stacks show them.
//
// In a loop, requests recur with the same size, stream and stack, in the same order. Single sizes also recur within a
// step (layers), so the unit is a pattern of four requests in a row. A pattern that recurs once per step, about the
// same number of requests later, is steady; many steady patterns with the same period are a loop. Batches of varying
// length change most sizes, but not those of gradient norms and scalars. The first interval may differ, because the
// first step creates state lazily.
#include "hash.h"
#include "sort.h"
#include "trace_analysis_impl.h"

enum {
  PATTERN_LENGTH = 4,     // requests per pattern
  MIN_REPEATS = 4,        // occurrences of a pattern: two intervals after the first one
  MIN_PATTERNS = 8,       // different patterns with the same period
  MAX_REQUESTS = 1 << 21, // requests examined: many steps, and some 250 MB at worst
  SLACK = 4               // the longest interval may exceed the shortest by a quarter
};

typedef struct {
  size_t first, last; // events
  size_t previous;    // number of the request that ended the last occurrence
  size_t shortest, longest;
  size_t start; // the same for the first occurrence
  uint64_t key;
  uint32_t count;
} pattern;

typedef vec(pattern) patterns;

// A hash of the last four requests, which `recent_hashes` holds.
static uint64_t signature(uint64_t recent_hashes[PATTERN_LENGTH], const plim_event *e) {
  uint64_t all = 0;
  for (int i = 0; i + 1 < PATTERN_LENGTH; i++) recent_hashes[i] = recent_hashes[i + 1];
  recent_hashes[PATTERN_LENGTH - 1] =
      plim_hash_mix(plim_hash_mix(e->bytes) + ((uint64_t)e->stack << 16) + e->stream);
  for (int i = 0; i < PATTERN_LENGTH; i++) all = plim_hash_mix(all + recent_hashes[i]);
  return all;
}

static void note_repeat(pattern *v, size_t event, size_t ordinal) {
  size_t gap = ordinal - v->previous;
  if (v->count <= 2 || gap < v->shortest)
    v->shortest = gap; // the second interval replaces the first
  if (v->count <= 2 || gap > v->longest) v->longest = gap;
  v->previous = ordinal;
  v->last = event;
  v->count++;
}

static bool find_patterns(const plim_trace *t, plim_hash *known, patterns *all, size_t *requests) {
  size_t ordinal = 0;
  uint64_t recent_hashes[PATTERN_LENGTH] = {0};
  for (size_t i = 0; i < t->events.len && ordinal < MAX_REQUESTS; i++) {
    if (!analysis_is_alloc(t, i)) continue;
    uint64_t key = signature(recent_hashes, &t->events.at[i]);
    uint32_t *found = plim_hash_find(known, key);
    if (found) note_repeat(&all->at[*found], i, ordinal);
    else if (!plim_hash_put(known, key, (uint32_t)all->len) ||
             !vec_push(all, (pattern){i, i, ordinal, 0, 0, ordinal, key, 1}))
      return false;
    ordinal++;
  }
  *requests = ordinal;
  return true;
}

static size_t period(const pattern *v) { return (v->previous - v->start) / (v->count - 1); }

// Whether the pattern recurs steadily over at least half of the recording.
static bool is_steady(const pattern *v, size_t requests) {
  if (v->count < MIN_REPEATS) return false;
  return v->longest - v->shortest <= v->shortest / SLACK && v->shortest > MIN_PATTERNS &&
         v->previous - v->start + period(v) >= requests / 2;
}

static int time_order(const void *x, const void *y) {
  const pattern *a = x, *b = y;
  return a->first < b->first ? -1 : a->first > b->first;
}

static int period_order(const void *x, const void *y) {
  const pattern *a = x, *b = y;
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  if (period(a) != period(b)) return period(a) < period(b) ? -1 : 1;
  return time_order(x, y);
}

// Keeps the steady patterns that agree with most others on their number and period.
static void keep_agreeing(patterns *all, size_t requests) {
  size_t kept = 0, best = 0, best_len = 0;
  for (size_t i = 0; i < all->len; i++)
    if (is_steady(&all->at[i], requests)) all->at[kept++] = all->at[i];
  all->len = kept;
  if (kept) plim_sort(all->at, kept, sizeof *all->at, period_order);
  for (size_t i = 0, end; i < kept; i = end) {
    for (end = i + 1; end < kept; end++)
      if (all->at[end].count != all->at[i].count ||
          period(&all->at[end]) - period(&all->at[i]) > period(&all->at[i]) / SLACK)
        break;
    if (end - i > best_len) best = i, best_len = end - i;
  }
  for (size_t i = 0; i < best_len; i++) all->at[i] = all->at[best + i];
  all->len = best_len;
  if (best_len) plim_sort(all->at, best_len, sizeof *all->at, time_order);
}

// A step begins with the pattern at whose first occurrence the fewest allocations are alive: memory is lowest between
// the optimizer and the next forward.
static const pattern *find_leader(const plim_trace *t, const plim_trace_analysis *s,
                                  const patterns *steady) {
  const pattern *leader = NULL;
  size_t fewest = SIZE_MAX, live = 0, next = 0;
  for (size_t i = 0; i < t->events.len && next < steady->len; i++) {
    while (next < steady->len && steady->at[next].first == i) {
      if (live < fewest) fewest = live, leader = &steady->at[next];
      next++;
    }
    if (analysis_is_alloc(t, i) && s->freed_at.at[i] != PLIM_NEVER) live++;
    else if (t->events.at[i].action == PLIM_EV_FREE && live) live--;
  }
  return leader;
}

// Each occurrence of the leading pattern begins a step, at its first request. The last step is as long as the others,
// or ends with the last request if that is near: frees after it may belong to the end of the program.
static bool steps_from_leader(analysis_reader *r, const pattern *leader) {
  const plim_trace *t = r->trace;
  uint64_t recent_hashes[PATTERN_LENGTH] = {0};
  size_t recent[PATTERN_LENGTH] = {0}; // where the requests of the pattern are
  size_t since = 0, cut = 0; // requests since the last occurrence; where they make a full step
  for (size_t i = 0; i < t->events.len; i++) {
    if (!analysis_is_alloc(t, i)) continue;
    for (int k = 0; k + 1 < PATTERN_LENGTH; k++) recent[k] = recent[k + 1];
    recent[PATTERN_LENGTH - 1] = i;
    if (++since == leader->longest) cut = recent[0];
    if (signature(recent_hashes, &t->events.at[i]) != leader->key) continue;
    if (r->analysis->steps.len) r->analysis->steps.at[r->analysis->steps.len - 1].end = recent[0];
    if (!vec_push(&r->analysis->steps, (plim_trace_step){recent[0], t->events.len})) return false;
    since = 0;
  }
  plim_trace_step *last = &r->analysis->steps.at[r->analysis->steps.len - 1];
  last->end = since < leader->longest ? recent[PATTERN_LENGTH - 1] + 1 : cut;
  bool is_rest = since < leader->shortest / 10; // the pattern ends a step: no further step follows
  if (is_rest && r->analysis->steps.len > 1) r->analysis->steps.len--;
  return true;
}

// If the leading pattern ends its step, the first step is before its first occurrence; it starts with the first pattern
// of the loop (or earlier: see find_set_up_end).
static bool add_first_step(analysis_reader *r, const patterns *steady, const pattern *leader) {
  plim_trace_step first = {steady->at[0].first, r->analysis->steps.at[0].first};
  if (steady->at[0].first >= first.end || leader == steady->at) return true;
  if (!vec_push(&r->analysis->steps, first)) return false;
  plim_trace_step *at = r->analysis->steps.at;
  for (size_t i = r->analysis->steps.len - 1; i > 0; i--) at[i] = at[i - 1];
  at[0] = first;
  return true;
}

// Loading and layers recur too. Where stacks show backward passes, a training step has one; the last may be cut short.
static bool are_of_training(const analysis_reader *r) {
  bool are_all = true;
  for (size_t i = 0; are_all && r->has_stacks && i + 1 < r->analysis->steps.len; i++) {
    const plim_trace_step *step = &r->analysis->steps.at[i];
    size_t at = step->first;
    while (at < step->end &&
           !(analysis_is_alloc(r->trace, at) && analysis_facts(r, at).phase == PHASE_BACKWARD))
      at++;
    are_all = at < step->end;
  }
  return are_all;
}

bool analysis_read_periods(analysis_reader *r) {
  plim_hash known = {0};
  patterns all = {0};
  size_t requests = 0;
  bool ok = find_patterns(r->trace, &known, &all, &requests);
  if (ok) keep_agreeing(&all, requests);
  const pattern *leader =
      ok && all.len >= MIN_PATTERNS ? find_leader(r->trace, r->analysis, &all) : NULL;
  if (leader) {
    r->analysis->steps_source = PLIM_STEPS_PERIODIC;
    ok = steps_from_leader(r, leader) && add_first_step(r, &all, leader);
    if (ok && !are_of_training(r)) {
      r->analysis->steps.len = 0;
      r->analysis->steps_source = PLIM_STEPS_NONE;
    }
  }
  plim_hash_free(&known);
  vec_free(&all);
  return ok;
}
