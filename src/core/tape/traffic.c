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

// Unpinned memory goes through a buffer of the driver, which one thread fills: 7.2 and 8.9 GB/s for 1 GiB
// (timing_offload.json, timing_host.json).
#define PAGEABLE_GBS 8.0

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

double plim_traffic_now(const plim_tape *t) { return fmax(t->clock.cpu, t->clock.gpu_free); }

static double transfer(plim_tape *t, double *way, double seconds, double after) {
  if (!clock_is_on(t) || !(seconds > 0)) return after;
  if (t->fold.is_recording) fold_fail(t);
  *way = fmax(fmax(*way, t->clock.cpu), after) + seconds;
  return *way;
}

// In a recorded pass, every copy between card and host begins now, and whoever waits for one waits for the last.
static void note_copy(plim_tape *t, const double *way, double seconds, double after) {
  bool is_to_host = way == &t->clock.to_host_free, begins_now = after >= plim_traffic_now(t);
  if (begins_now) pass_note_work(t, is_to_host ? FOLD_TO_HOST : FOLD_FROM_HOST, seconds);
  else pass_void(t);
}

static void note_await(plim_tape *t, fold_work_kind kind, double moment) {
  bool is_last = moment >= t->clock.copied && moment <= t->clock.copied;
  if (is_last) pass_note_work(t, kind, 0);
  else pass_void(t);
}

static double collective(plim_tape *t, double bytes, int rounds, double after) {
  double seconds = plim_ring_seconds(&t->clock.ring, bytes, rounds);
  if (clock_is_on(t)) t->clock.now.sent_seconds += seconds;
  pass_void(t);
  return transfer(t, &t->clock.ring_free, seconds, after);
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

static double copy(plim_tape *t, double *way, double bytes, double gbs, double after) {
  double seconds = bytes > 0 ? COPY_SECONDS + bytes / (gbs * 1e9) : 0;
  if (t->passes.is_recording) note_copy(t, way, seconds, after);
  return t->clock.copied = transfer(t, way, seconds, after);
}

double plim_copy_to_host(plim_tape *t, double bytes, double after) {
  return copy(t, &t->clock.to_host_free, bytes, plim_gpu_host_gbs(t->gpu), after);
}

double plim_copy_pageable(plim_tape *t, double bytes, double after) {
  double gbs = fmin(PAGEABLE_GBS, plim_gpu_host_gbs(t->gpu));
  return copy(t, &t->clock.from_host_free, bytes, gbs, after);
}

double plim_copy_from_host(plim_tape *t, double bytes, double after) {
  return copy(t, &t->clock.from_host_free, bytes, plim_gpu_host_gbs(t->gpu), after);
}

void plim_await(plim_tape *t, double moment) {
  double now = plim_traffic_now(t);
  if (!clock_is_on(t)) return;
  if (t->passes.is_recording) note_await(t, FOLD_AWAIT, moment);
  t->clock.gpu_free = fmax(t->clock.gpu_free, moment);
  t->clock.now.waited_seconds += fmax(0, moment - now);
}

void plim_await_on_host(plim_tape *t, double moment) {
  if (!clock_is_on(t)) return;
  if (t->passes.is_recording) note_await(t, FOLD_AWAIT_ON_HOST, moment);
  t->clock.cpu = fmax(t->clock.cpu, moment);
}

void traffic_again(plim_tape *t, const fold_work *w) {
  struct tape_clock *c = &t->clock;
  double now = plim_traffic_now(t);
  if (w->kind == FOLD_TO_HOST) c->copied = transfer(t, &c->to_host_free, w->amount, now);
  else if (w->kind == FOLD_FROM_HOST) c->copied = transfer(t, &c->from_host_free, w->amount, now);
  else if (w->kind == FOLD_AWAIT) plim_await(t, c->copied);
  else plim_await_on_host(t, c->copied);
}

void plim_await_once(plim_tape *t, double moment) {
  double was = plim_traffic_now(t);
  pass_void(t);
  plim_await(t, moment);
  t->clock.once += plim_traffic_now(t) - was;
}

static void update_on_host(plim_tape *t, double elements, double seconds) {
  if (!clock_is_on(t)) return;
  pass_void(t);
  double crowding = fmax(1, t->clock.neighbours * HOST_MEMORY_GBS / MACHINE_MEMORY_GBS);
  t->clock.cpu = plim_traffic_now(t) + crowding * elements * seconds;
}

void plim_update_by_deepspeed(plim_tape *t, double elements) {
  update_on_host(t, elements, DEEPSPEED_STEP_BYTES / (HOST_MEMORY_GBS * 1e9));
}

void plim_update_by_torch(plim_tape *t, size_t parameters, double elements, plim_dtype dtype) {
  update_on_host(t, elements, torch_step_seconds[plim_dtype_bytes[dtype] > 2]);
  plim_work_cpu(t, TORCH_PARAMETER_SECONDS * (double)parameters);
}
