#include "traffic.h"

#include <math.h>

#include "clock.h"
#include "tape_impl.h"
#include "work.h"

// Bandwidth of host memory: an H200's host with 16 threads (tests/truth/timing_offload.json). A copy reads and writes
// 70.3 GB/s in total; memory to be written is first read into the cache, hence 3/2.
#define HOST_MEMORY_GBS (70.3 * 3 / 2)

// That machine had one GPU. With several, each is assumed to have as much bandwidth, up to the total of two sockets
// with eight channels of DDR5-4800. Not measured.
#define MACHINE_MEMORY_GBS (2 * 8 * 38.4)

// Latency of a copy: 1 and 8 MiB take 11 and 9 us longer than at the rate of a 1 GiB copy
// (tests/truth/timing_host.json).
#define COPY_SECONDS 10e-6

// Unpinned memory goes through a buffer of the driver, which one thread fills or empties: 7.2 and 8.9 GB/s to the card,
// 13.6 and 17.1 GB/s to the host for 1 GiB (timing_offload.json, timing_host.json).
#define PAGEABLE_GBS 8.0
#define PAGEABLE_TO_HOST_GBS 15.0

// DeepSpeed's step, in bytes of host memory traffic per element: scaling the gradient (2 float32 accesses), one loop
// of DeepSpeedCPUAdam (7: parameter, gradient and two moments, of which the gradient is only read), and the copy
// for the card (reads float32, writes 16 bits).
#define DEEPSPEED_STEP_BYTES (2 * 4 + 7 * 4 + 4 + 2)

// torch's AdamW step with clipping, which runs operator by operator. Allocating the quotient and 16-bit arithmetic
// slow it down. Seconds per element for 16-bit types and for float32, and seconds of Python per parameter, measured
// on the same host (the two FSDP2 runs, and the ZeRO run with torch's AdamW).
static const double torch_step_seconds[] = {1.10e-9, 1.52e-9};
#define TORCH_PARAMETER_SECONDS 140e-6

void plim_traffic_wire(plim_tape *t, const plim_wiring *wiring) {
  t->clock.ring = plim_ring_of(t->gpu, wiring);
  int64_t nodes = wiring->nodes > 1 ? wiring->nodes : 1;
  t->clock.neighbours = (double)wiring->world / (double)nodes;
}

static double now_of(const plim_tape *t) { return clock_later(t->clock.cpu, t->clock.gpu_free); }

// ---- moments in passes that are sent again ---------------------------------------------------------

static bool is_same(double a, double b) { return a <= b && a >= b; }

// Something may wait for this moment later.
static double mark(plim_tape *t, double moment) {
  if (t->passes.is_on && !vec_push(&t->passes.moments, moment)) t->passes.is_on = false;
  return moment;
}

// How many moments were marked since this one, which is counted; 0: nothing can wait for it, it is before this step.
static uint32_t moments_since(plim_tape *t, double moment) {
  size_t n = t->passes.moments.len, i = n;
  if (moment <= t->clock.began) return 0;
  while (i > 0 && !is_same(t->passes.moments.at[i - 1], moment)) i--;
  if (!i) pass_void(t);
  return (uint32_t)(n + 1 - i);
}

static void note(plim_tape *t, fold_work_kind kind, double amount, double after) {
  if (t->passes.is_recording) pass_note_work(t, (fold_work){amount, kind, moments_since(t, after)});
}

// A moment of the pass before those that were sent again has moved on with them.
static double moved(const plim_tape *t, double moment) {
  const struct tape_passes *p = &t->passes;
  size_t first = p->moments_first, end = p->moments_by ? first + p->moments_size : first;
  for (size_t i = first; i < end; i++)
    if (is_same(p->moments.at[i], moment)) return p->moments.at[i + p->moments_by];
  return moment;
}

// ---- transfers ------------------------------------------------------------------------------------

double plim_traffic_now(plim_tape *t) {
  double now = now_of(t);
  note(t, FOLD_NOW, 0, 0);
  return mark(t, now);
}

static double transfer(plim_tape *t, double *way, double seconds, double after) {
  if (!clock_is_on(t) || !(seconds > 0)) return after;
  if (t->fold.is_recording) fold_fail(t);
  *way = clock_later(clock_later(*way, t->clock.cpu), after) + seconds;
  return *way;
}

static double send(plim_tape *t, fold_work_kind kind, double seconds, double after) {
  struct tape_clock *c = &t->clock;
  double *way = kind == FOLD_RING      ? &c->ring_free
                : kind == FOLD_TO_HOST ? &c->to_host_free
                                       : &c->from_host_free;
  if (kind == FOLD_RING && clock_is_on(t)) c->now.sent_seconds += seconds;
  return mark(t, transfer(t, way, seconds, after));
}

static double collective(plim_tape *t, double bytes, int rounds, double after) {
  double seconds = plim_ring_seconds(&t->clock.ring, bytes, rounds);
  note(t, FOLD_RING, seconds, after);
  return send(t, FOLD_RING, seconds, moved(t, after));
}

double plim_send_gather(plim_tape *t, double bytes, double after) {
  return collective(t, bytes, 1, after);
}

double plim_send_scatter(plim_tape *t, double bytes, double after) {
  return collective(t, bytes, 1, after);
}

double plim_send_reduce(plim_tape *t, double bytes, double after) {
  return collective(t, bytes, 2, after);
}

static double copy(plim_tape *t, fold_work_kind way, double bytes, double gbs, double after) {
  double seconds = bytes > 0 ? COPY_SECONDS + bytes / (gbs * 1e9) : 0;
  note(t, way, seconds, after);
  return send(t, way, seconds, moved(t, after));
}

double plim_copy_to_host(plim_tape *t, double bytes, double after) {
  return copy(t, FOLD_TO_HOST, bytes, plim_gpu_host_gbs(t->gpu), after);
}

double plim_copy_pageable(plim_tape *t, double bytes, double after) {
  double gbs = fmin(PAGEABLE_GBS, plim_gpu_host_gbs(t->gpu));
  return copy(t, FOLD_FROM_HOST, bytes, gbs, after);
}

double plim_copy_to_pageable(plim_tape *t, double bytes, double after) {
  double gbs = fmin(PAGEABLE_TO_HOST_GBS, plim_gpu_host_gbs(t->gpu));
  return copy(t, FOLD_TO_HOST, bytes, gbs, after);
}

double plim_copy_from_host(plim_tape *t, double bytes, double after) {
  return copy(t, FOLD_FROM_HOST, bytes, plim_gpu_host_gbs(t->gpu), after);
}

// ---- waiting --------------------------------------------------------------------------------------

static void wait(plim_tape *t, double moment) {
  double now = now_of(t);
  if (!clock_is_on(t)) return;
  t->clock.gpu_free = clock_later(t->clock.gpu_free, moment);
  t->clock.now.waited_seconds += clock_later(0, moment - now);
}

static void wait_on_host(plim_tape *t, double moment) {
  if (clock_is_on(t)) t->clock.cpu = clock_later(t->clock.cpu, moment);
}

void plim_await(plim_tape *t, double moment) {
  note(t, FOLD_AWAIT, 0, moment);
  wait(t, moved(t, moment));
}

void plim_await_on_host(plim_tape *t, double moment) {
  note(t, FOLD_AWAIT_ON_HOST, 0, moment);
  wait_on_host(t, moved(t, moment));
}

void traffic_again(plim_tape *t, const fold_work *w) {
  const struct tape_passes *p = &t->passes;
  double after = w->ago ? p->moments.at[p->moments.len - w->ago] : 0;
  if (w->kind == FOLD_NOW) mark(t, now_of(t));
  else if (w->kind == FOLD_AWAIT) wait(t, after);
  else if (w->kind == FOLD_AWAIT_ON_HOST) wait_on_host(t, after);
  else send(t, w->kind, w->amount, after);
}

void plim_await_once(plim_tape *t, double moment) {
  double was = now_of(t);
  if (moment > t->clock.began) pass_void(t);
  plim_await(t, moment);
  t->clock.once += now_of(t) - was;
}

static void update_on_host(plim_tape *t, double elements, double seconds) {
  if (!clock_is_on(t)) return;
  pass_void(t);
  double crowding = clock_later(1, t->clock.neighbours * HOST_MEMORY_GBS / MACHINE_MEMORY_GBS);
  t->clock.cpu = now_of(t) + crowding * elements * seconds;
}

void plim_update_by_deepspeed(plim_tape *t, double elements) {
  update_on_host(t, elements, DEEPSPEED_STEP_BYTES / (HOST_MEMORY_GBS * 1e9));
}

void plim_update_by_torch(plim_tape *t, size_t parameters, double elements, plim_dtype dtype) {
  update_on_host(t, elements, torch_step_seconds[plim_dtype_bytes[dtype] > 2]);
  plim_work_cpu(t, TORCH_PARAMETER_SECONDS * (double)parameters);
}
