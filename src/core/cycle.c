#include "cycle.h"

#include <math.h>

#include "tape_impl.h"

// ---- the clock --------------------------------------------------------------------------------------

// Rates add up to the same sum in another order only up to rounding.
static bool same_seconds(double a, double b) { return fabs(a - b) <= 1e-9 * fabs(a); }

typedef struct tape_time_mark mark;

static mark mark_now(const plim_tape *t) {
  return (mark){t->clock.cpu, t->clock.gpu_free, t->clock.now};
}

// Whether a link is still busy with something that a later pass will wait for.
static bool is_sending(const struct tape_clock *c) {
  double now = fmax(c->cpu, c->gpu_free);
  return fmax(c->ring_free, fmax(c->to_host_free, c->from_host_free)) > now;
}

// Both timelines grow as in the pass before, and the CPU does not catch up with the card: then both go on
// so. Where the card is ahead by more in each pass, gaps that are left would close, and the pass change.
static bool passes_are_even(plim_tape *t) {
  struct tape_clock *c = &t->clock;
  mark now = mark_now(t), *one = &c->passes[0], *two = &c->passes[1];
  double cpu = now.cpu - one->cpu, gpu = now.gpu_free - one->gpu_free;
  bool are_even = c->marked >= 2 && !is_sending(c) && same_seconds(cpu, one->cpu - two->cpu) &&
                  same_seconds(gpu, one->gpu_free - two->gpu_free) && gpu >= cpu * (1 - 1e-9);
  c->pass = (mark){cpu, gpu, c->now};
  c->pass.now.busy_seconds -= one->now.busy_seconds;
  c->pass.now.sent_seconds -= one->now.sent_seconds;
  c->pass.now.waited_seconds -= one->now.waited_seconds;
  c->pass.now.flops -= one->now.flops;
  c->pass.now.recomputed_flops -= one->now.recomputed_flops;
  c->pass.now.kernels -= one->now.kernels;
  c->passes[1] = *one;
  c->passes[0] = now;
  c->marked++;
  return are_even;
}

static bool steps_are_even(plim_tape *t) {
  struct tape_clock *c = &t->clock;
  bool are_even = same_seconds(c->last.seconds, c->step_before.seconds) &&
                  same_seconds(c->last.pass_seconds, c->step_before.pass_seconds);
  c->step_before = c->last;
  c->marked = 0;
  return are_even;
}

static void skip_passes(plim_tape *t, int times) {
  struct tape_clock *c = &t->clock;
  c->cpu += times * c->pass.cpu;
  c->gpu_free += times * c->pass.gpu_free;
  c->pass_began += times * c->pass.gpu_free; // the later of the two
  c->now.busy_seconds += times * c->pass.now.busy_seconds;
  c->now.sent_seconds += times * c->pass.now.sent_seconds;
  c->now.waited_seconds += times * c->pass.now.waited_seconds;
  c->now.flops += times * c->pass.now.flops;
  c->now.recomputed_flops += times * c->pass.now.recomputed_flops;
  c->now.kernels += (uint64_t)times * c->pass.now.kernels;
}

// ---- loops ------------------------------------------------------------------------------------------

int plim_skip_alike(plim_tape *t, plim_cycle cycle, int done, int last) {
  bool is_pass = cycle == PLIM_CYCLE_PASS;
  bool is_even = is_pass ? passes_are_even(t) : steps_are_even(t);
  if (!t->sink.repeats || t->is_stopped || t->failed) return done;
  int period = t->sink.repeats(t->sink.context, cycle);
  int times = period && is_even && last > done ? (last - done) / period : 0;
  if (!times) return done;
  if (is_pass) skip_passes(t, times * period);
  t->sink.skips(t->sink.context, cycle, (uint64_t)times);
  return done + times * period;
}

// ---- digests ----------------------------------------------------------------------------------------

// The finaliser of splitmix64: every bit of the input changes half of those of the output.
static uint64_t mix(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static uint64_t digest_of(const uint64_t *words, size_t count) {
  uint64_t digest = count;
  for (size_t i = 0; i < count; i++) digest = mix(digest ^ words[i]) + 0x9e3779b97f4a7c15u;
  return digest;
}

#define DIGEST(...)                                                                                \
  digest_of((const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

#define RELATIVE (1ull << 40) // above all numbers of allocations

static uint64_t name_of(const plim_rounds *r, uint32_t id) {
  return id >= r->first_before ? RELATIVE + id - r->first : id;
}

void plim_rounds_note(plim_rounds *r, plim_stream_kind kind, uint32_t stream, uint32_t id,
                      uint64_t bytes) {
  r->digest = DIGEST(r->digest, kind, stream, name_of(r, id), bytes);
}

typedef struct {
  const plim_rounds *rounds;
  uint64_t digest; // a sum, so that the order of visits does not matter
} survey;

static void add_block(void *context, const plim_block_view *b) {
  uint64_t kind = b->is_free + 2u * b->is_pending + 4u * b->is_large + 8u * b->starts_segment;
  ((survey *)context)->digest += DIGEST(b->addr, b->bytes, b->stream, b->pool, kind);
}

static void add_slot(void *context, uint32_t slot, uint64_t addr) {
  survey *s = context;
  s->digest += DIGEST(name_of(s->rounds, slot), addr);
}

uint64_t plim_rounds_state(const plim_rounds *r, const plim_allocator *a,
                           const plim_address_model *addresses) {
  survey s = {r, 0};
  plim_allocator_visit(a, add_block, &s);
  plim_allocator_visit_slots(a, add_slot, &s);
  for (size_t i = 0; i < addresses->ranges.len; i++) {
    const plim_address_range *range = &addresses->ranges.at[i];
    s.digest += DIGEST(range->start, range->bytes, range->used_bytes);
  }
  for (size_t i = 0; i < addresses->holes.len; i++)
    s.digest += DIGEST(addresses->holes.at[i].addr, addresses->holes.at[i].bytes, 0, 0);
  return s.digest;
}

// Events are alike for a round longer than the period, so that what they named was alike too.
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
