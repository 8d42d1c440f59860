#include "cycle.h"

#include <limits.h>
#include <math.h>

#include "hash.h"
#include "tape_impl.h"

// ---- the clock --------------------------------------------------------------------------------------

// The same rates added in a different order give the same sum only up to rounding.
static bool same_seconds(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(a); }

typedef struct tape_time_mark mark;

static mark mark_now(const plim_tape *t) {
  return (mark){t->clock.cpu, t->clock.gpu_free, t->clock.operators, t->clock.now};
}

// Whether a link is still busy with a transfer that a later pass will wait for.
static bool is_sending(const struct tape_clock *c) {
  double now = fmax(c->cpu, c->gpu_free);
  return fmax(c->ring_free, fmax(c->to_host_free, c->from_host_free)) > now;
}

static mark difference(const mark *now, const mark *then) {
  mark d = *now;
  d.cpu -= then->cpu;
  d.gpu_free -= then->gpu_free;
  d.operators -= then->operators;
  d.now.busy_seconds -= then->now.busy_seconds;
  d.now.sent_seconds -= then->now.sent_seconds;
  d.now.waited_seconds -= then->now.waited_seconds;
  d.now.flops -= then->now.flops;
  d.now.recomputed_flops -= then->now.recomputed_flops;
  d.now.kernels -= then->now.kernels;
  return d;
}

// True if both timelines grew as in the previous round and the card's grew at least as much as the CPU's; then they
// will continue that way. If the CPU's grew more, it would use up the card's backlog and the rounds would change.
static bool rounds_are_even(const plim_tape *t, struct tape_period *r) {
  mark now = mark_now(t), before = r->each;
  r->each = difference(&now, &r->ends[0]);
  bool are_even = r->marked >= 2 && !is_sending(&t->clock) &&
                  same_seconds(r->each.cpu, before.cpu) &&
                  same_seconds(r->each.gpu_free, before.gpu_free) &&
                  r->each.gpu_free >= r->each.cpu * (1 - 1e-9);
  r->ends[1] = r->ends[0];
  r->ends[0] = now;
  r->marked++;
  return are_even;
}

static bool steps_are_even(plim_tape *t) {
  struct tape_clock *c = &t->clock;
  bool are_even = same_seconds(c->last.seconds, c->step_before.seconds) &&
                  same_seconds(c->last.pass_seconds, c->step_before.pass_seconds);
  c->step_before = c->last;
  c->passes.marked = 0;
  return are_even;
}

static void skip_rounds(struct tape_clock *c, const mark *each, int times) {
  c->cpu += times * each->cpu;
  c->gpu_free += times * each->gpu_free;
  c->now.busy_seconds += times * each->now.busy_seconds;
  c->now.sent_seconds += times * each->now.sent_seconds;
  c->now.waited_seconds += times * each->now.waited_seconds;
  c->now.flops += times * each->now.flops;
  c->now.recomputed_flops += times * each->now.recomputed_flops;
  c->now.kernels += (uint64_t)times * each->now.kernels;
}

// ---- loops ------------------------------------------------------------------------------------------

int plim_skip_alike(plim_tape *t, plim_cycle cycle, int done, int last) {
  bool is_pass = cycle == PLIM_CYCLE_PASS;
  bool is_even = is_pass ? rounds_are_even(t, &t->clock.passes) : steps_are_even(t);
  if (!t->sink.repeats || t->state.is_stopped || t->state.failed) return done;
  int period = t->sink.repeats(t->sink.context, cycle);
  int times = period && is_even && last > done ? (last - done) / period : 0;
  if (!times) return done;
  if (is_pass) {
    const mark *each = &t->clock.passes.each;
    skip_rounds(&t->clock, each, times * period);
    t->clock.pass_began += times * period * each->gpu_free; // the card's timeline is the later one
  }
  t->sink.skips(t->sink.context, cycle, (uint64_t)times);
  return done + times * period;
}

// ---- loops inside a pass ----------------------------------------------------------------------------

void plim_inner_loop_begin(plim_tape *t) {
  t->clock.inner_loop.marked = 0;
  if (t->sink.inner_loop) t->sink.inner_loop(t->sink.context, true);
}

void plim_inner_loop_end(plim_tape *t) {
  if (t->sink.inner_loop) t->sink.inner_loop(t->sink.context, false);
}

// Another tensor like x, over the storage that the sink knows by this number.
static plim_tensor *parallel_of(plim_tape *t, const plim_tensor *x, uint32_t id) {
  plim_storage *s = tape_take(t, &t->storages, sizeof *s);
  plim_tensor *parallel = tape_take(t, &t->tensors, sizeof *parallel);
  *s = *x->storage;
  s->refs = 1;
  s->id = id;
  t->live[s->purpose] += s->bytes;
  parallel->storage = s;
  parallel->shape = x->shape;
  parallel->stride = x->stride;
  parallel->dtype = x->dtype;
  parallel->refs = 1;
  return parallel;
}

int64_t plim_inner_loop_skip(plim_tape *t, const plim_tensor *kept, int64_t most,
                             plim_tensor **more) {
  struct tape_period *r = &t->clock.inner_loop;
  bool is_even = rounds_are_even(t, r);
  if (!t->sink.inner_loop_again || t->state.is_stopped || t->state.failed) return 0;
  const plim_storage *s = kept ? kept->storage : NULL;
  if (!is_even || t->state.outlier_count || most < 0) most = 0;
  if (most > INT_MAX) most = INT_MAX;
  int times = t->sink.inner_loop_again(t->sink.context, s, (int)most);
  for (int i = 0; kept && i < times; i++) more[i] = parallel_of(t, kept, t->next_id++);
  skip_rounds(&t->clock, &r->each, times);
  t->clock.operators += (uint32_t)times * r->each.operators;
  if (times) r->marked = 0;
  return times;
}

// ---- digests ----------------------------------------------------------------------------------------

static uint64_t digest_of(const uint64_t *words, size_t count) {
  uint64_t digest = count;
  for (size_t i = 0; i < count; i++)
    digest = plim_hash_mix(digest ^ words[i]) + 0x9e3779b97f4a7c15u;
  return digest;
}

#define DIGEST(...)                                                                                \
  digest_of((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

#define RELATIVE (1ull << 40) // larger than any allocation number

static uint64_t name_of(const plim_rounds *r, uint32_t id) {
  return id >= r->first_before ? RELATIVE + id - r->first : id;
}

void plim_rounds_note(plim_rounds *r, plim_stream_kind kind, uint32_t stream, uint32_t id,
                      uint64_t bytes) {
  r->digest = DIGEST(r->digest, kind, stream, name_of(r, id), bytes);
}

typedef struct {
  const plim_rounds *rounds;
  // Of small blocks and of large ones. Digests are added, so that the order of visits does not matter.
  uint64_t digests[2];
} survey;

static void add_block(void *context, const plim_block_view *b) {
  uint64_t kind = b->is_free + 2u * b->is_pending + 4u * b->is_large + 8u * b->starts_segment;
  ((survey *)context)->digests[b->is_large] += DIGEST(b->addr, b->bytes, b->stream, b->pool, kind);
}

static void add_slot(void *context, uint32_t slot, uint64_t addr, bool is_large) {
  survey *s = context;
  s->digests[is_large] += DIGEST(name_of(s->rounds, slot), addr);
}

void plim_rounds_pools(const plim_rounds *r, const plim_allocator *a, uint64_t digests[2]) {
  survey s = {r, {0}};
  plim_allocator_visit(a, add_block, &s);
  plim_allocator_visit_slots(a, add_slot, &s);
  digests[0] = s.digests[0];
  digests[1] = s.digests[1];
}

uint64_t plim_rounds_state(const plim_rounds *r, const plim_allocator *a,
                           const plim_address_model *addresses) {
  uint64_t pools[2];
  plim_rounds_pools(r, a, pools);
  uint64_t state = pools[0] + pools[1];
  for (size_t i = 0; i < addresses->ranges.len; i++) {
    const plim_address_range *range = &addresses->ranges.at[i];
    state += DIGEST(range->start, range->bytes, range->used_bytes);
  }
  for (size_t i = 0; i < addresses->holes.len; i++)
    state += DIGEST(addresses->holes.at[i].addr, addresses->holes.at[i].bytes, 0, 0);
  return state;
}

// The events must have been the same for one round more than the period, so that the allocations they refer to
// were the same, too.
static int period_of(const plim_rounds *r, uint64_t state) {
  for (int p = 1; p <= PLIM_LONGEST_PERIOD && p <= r->rounds && p < r->alike; p++)
    if (r->states[(r->rounds - p) % PLIM_LONGEST_PERIOD] == state) return p;
  return 0;
}

int plim_rounds_end(plim_rounds *r, uint64_t state, uint32_t next) {
  bool is_alike = r->rounds && r->digest == r->digest_before;
  r->alike = is_alike ? r->alike + 1 : 0;
  int period = period_of(r, state);
  r->states[r->rounds++ % PLIM_LONGEST_PERIOD] = state;
  r->digest_before = r->digest;
  r->digest = 0;
  r->first_before = r->first;
  r->first = next;
  return period;
}

bool plim_rounds_seem_settled(plim_rounds *r, uint64_t level, int enough) {
  r->level_rounds = level == r->level ? r->level_rounds + 1 : 0;
  r->level = level;
  return r->alike >= enough && r->level_rounds >= enough;
}
