// Finds steps by the rhythm of the allocations, where neither markers nor stacks show them.
//
// In a loop requests come back with the same size, stream and stack, and in the same order. Single
// sizes recur within a step, too (layers), so the unit is a phrase: four requests in a row. A phrase
// that comes back once per step, about the same number of requests later, beats; many that share one
// beat are a loop. Batches of varying length change most sizes but not those of the gradient norms
// and scalars. The first interval is not held to the rule: the first step makes state lazily.
#include "hash.h"
#include "trace_analysis_impl.h"

enum {
  PHRASE = 4,          // requests
  MIN_BEATS = 4,       // occurrences of a phrase: two intervals behind the first one
  MIN_VOICES = 8,      // different phrases with the same beat
  MAX_HEARD = 1 << 21, // requests listened to: many steps, and some 250 MB at worst
  SLACK = 4            // the longest interval may exceed the shortest by a 4th
};

typedef struct {
  size_t first, last; // events
  size_t previous;    // ordinal of the last occurrence, counted in requests
  size_t shortest, longest;
  size_t start; // ordinal of the first one
  uint64_t key;
  uint32_t count;
} voice;

typedef vec(voice) voices;

static uint64_t mix(uint64_t x) { // splitmix64's finalizer
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// The phrase that ends with a request; `phrase` holds the last four.
static uint64_t signature(uint64_t phrase[PHRASE], const plim_event *e) {
  uint64_t all = 0;
  for (int i = 0; i + 1 < PHRASE; i++) phrase[i] = phrase[i + 1];
  phrase[PHRASE - 1] = mix(mix(e->bytes) + ((uint64_t)e->stack << 16) + e->stream);
  for (int i = 0; i < PHRASE; i++) all = mix(all + phrase[i]);
  return all;
}

static void beat(voice *v, size_t event, size_t ordinal) {
  size_t gap = ordinal - v->previous;
  if (v->count <= 2 || gap < v->shortest)
    v->shortest = gap; // the second interval replaces the first
  if (v->count <= 2 || gap > v->longest) v->longest = gap;
  v->previous = ordinal;
  v->last = event;
  v->count++;
}

static bool resolve(const plim_trace *t, plim_hash *known, voices *all, size_t *requests) {
  size_t ordinal = 0;
  uint64_t phrase[PHRASE] = {0};
  for (size_t i = 0; i < t->events.len && ordinal < MAX_HEARD; i++) {
    if (!analysis_is_alloc(t, i)) continue;
    uint64_t key = signature(phrase, &t->events.at[i]);
    uint32_t *found = plim_hash_find(known, key);
    if (found) beat(&all->at[*found], i, ordinal);
    else if (!plim_hash_put(known, key, (uint32_t)all->len) ||
             !vec_push(all, (voice){i, i, ordinal, 0, 0, ordinal, key, 1}))
      return false;
    ordinal++;
  }
  *requests = ordinal;
  return true;
}

static size_t period(const voice *v) { return (v->previous - v->start) / (v->count - 1); }

// Steady over at least half of the recording.
static bool is_steady(const voice *v, size_t requests) {
  if (v->count < MIN_BEATS) return false;
  return v->longest - v->shortest <= v->shortest / SLACK && v->shortest > MIN_VOICES &&
         v->previous - v->start + period(v) >= requests / 2;
}

static int time_order(const void *x, const void *y) {
  const voice *a = x, *b = y;
  return a->first < b->first ? -1 : a->first > b->first;
}

static int beat_order(const void *x, const void *y) {
  const voice *a = x, *b = y;
  if (a->count != b->count) return a->count < b->count ? -1 : 1;
  if (period(a) != period(b)) return period(a) < period(b) ? -1 : 1;
  return time_order(x, y);
}

// Keeps the steady voices that agree with most others on the number of beats and the period.
static void keep_choir(voices *all, size_t requests) {
  size_t kept = 0, best = 0, best_len = 0;
  for (size_t i = 0; i < all->len; i++)
    if (is_steady(&all->at[i], requests)) all->at[kept++] = all->at[i];
  all->len = kept;
  if (kept) qsort(all->at, kept, sizeof *all->at, beat_order);
  for (size_t i = 0, end; i < kept; i = end) {
    for (end = i + 1; end < kept; end++)
      if (all->at[end].count != all->at[i].count ||
          period(&all->at[end]) - period(&all->at[i]) > period(&all->at[i]) / SLACK)
        break;
    if (end - i > best_len) best = i, best_len = end - i;
  }
  for (size_t i = 0; i < best_len; i++) all->at[i] = all->at[best + i];
  all->len = best_len;
  if (best_len) qsort(all->at, best_len, sizeof *all->at, time_order);
}

// The voice at whose first beat least is alive begins the step: memory is lowest between the
// optimizer and the next forward.
static const voice *find_leader(const plim_trace *t, const plim_trace_analysis *s,
                                const voices *choir) {
  const voice *leader = NULL;
  size_t fewest = SIZE_MAX, live = 0, next = 0;
  for (size_t i = 0; i < t->events.len && next < choir->len; i++) {
    while (next < choir->len && choir->at[next].first == i) {
      if (live < fewest) fewest = live, leader = &choir->at[next];
      next++;
    }
    if (analysis_is_alloc(t, i) && s->freed_at.at[i] != PLIM_NEVER) live++;
    else if (t->events.at[i].action == PLIM_EV_FREE && live) live--;
  }
  return leader;
}

// Beats of the leader become the steps, from the first request of the phrase on. The last one is as
// long as the others, or goes to the last request where that is near: frees behind it may be the
// end of the program.
static bool steps_from_leader(analysis_reader *r, const voice *leader) {
  const plim_trace *t = r->trace;
  uint64_t phrase[PHRASE] = {0};
  size_t recent[PHRASE] = {0}; // where the requests of the phrase are
  size_t since = 0, cut = 0;   // requests behind the last beat, and where they are a full step
  for (size_t i = 0; i < t->events.len; i++) {
    if (!analysis_is_alloc(t, i)) continue;
    for (int k = 0; k + 1 < PHRASE; k++) recent[k] = recent[k + 1];
    recent[PHRASE - 1] = i;
    if (++since == leader->longest) cut = recent[0];
    if (signature(phrase, &t->events.at[i]) != leader->key) continue;
    if (r->analysis->steps.len) r->analysis->steps.at[r->analysis->steps.len - 1].end = recent[0];
    if (!vec_push(&r->analysis->steps, (plim_trace_step){recent[0], t->events.len})) return false;
    since = 0;
  }
  plim_trace_step *last = &r->analysis->steps.at[r->analysis->steps.len - 1];
  last->end = since < leader->longest ? recent[PHRASE - 1] + 1 : cut;
  bool is_rest = since < leader->shortest / 10; // the leader ends a step: no other one follows
  if (is_rest && r->analysis->steps.len > 1) r->analysis->steps.len--;
  return true;
}

// Where the leader ends its step, the first step is before its first beat, from the first phrase of
// the loop on (or earlier: see find_set_up_end).
static bool add_first_step(analysis_reader *r, const voices *choir, const voice *leader) {
  plim_trace_step first = {choir->at[0].first, r->analysis->steps.at[0].first};
  if (choir->at[0].first >= first.end || leader == choir->at) return true;
  if (!vec_push(&r->analysis->steps, first)) return false;
  plim_trace_step *at = r->analysis->steps.at;
  for (size_t i = r->analysis->steps.len - 1; i > 0; i--) at[i] = at[i - 1];
  at[0] = first;
  return true;
}

bool analysis_read_periods(analysis_reader *r) {
  plim_hash known = {0};
  voices all = {0};
  size_t requests = 0;
  bool ok = resolve(r->trace, &known, &all, &requests);
  if (ok) keep_choir(&all, requests);
  const voice *leader =
      ok && all.len >= MIN_VOICES ? find_leader(r->trace, r->analysis, &all) : NULL;
  if (leader) {
    r->analysis->steps_source = PLIM_STEPS_PERIODIC;
    ok = steps_from_leader(r, leader) && add_first_step(r, &all, leader);
  }
  plim_hash_free(&known);
  vec_free(&all);
  return ok;
}
