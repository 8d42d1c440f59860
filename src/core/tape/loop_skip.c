#include "loop_skip.h"

#include <limits.h>
#include <math.h>

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
  pass_void(t);
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
