#include "traffic.h"

#include <math.h>

#include "clock.h"
#include "tape_impl.h"

// Memory of the host: eight channels of DDR4-3200 at 25.6 GB/s, one socket of the servers that such
// cards are in. Not measured.
#define HOST_MEMORY_GBS 204.8

// Bytes of the host's memory that a step moves per element. DeepSpeedCPUAdam in one loop: parameter,
// gradient and two moments read, three of them written, and the copy in 16 bits for the card. torch's
// own loop over operators: each of its eight reads and writes tensors of their own, 20 times 4 bytes.
static const double step_bytes[] = {[PLIM_HOST_DEEPSPEED] = 7 * 4 + 2, [PLIM_HOST_TORCH] = 20 * 4};

static bool is_on(const plim_tape *t) { return t->gpu->bandwidth_gbs > 0 && !t->is_stopped; }

void plim_traffic_wire(plim_tape *t, const plim_wiring *wiring) {
  t->clock.ring = plim_ring_of(t->gpu, wiring);
  int64_t nodes = wiring->nodes > 1 ? wiring->nodes : 1;
  t->clock.neighbours = (double)wiring->world / (double)nodes;
}

double plim_traffic_now(const plim_tape *t) { return fmax(t->clock.cpu, t->clock.gpu_free); }

static double transfer(plim_tape *t, double *way, double seconds, double after) {
  if (!is_on(t) || !(seconds > 0)) return after;
  *way = fmax(fmax(*way, t->clock.cpu), after) + seconds;
  return *way;
}

static double collective(plim_tape *t, double bytes, int rounds, double after) {
  double seconds = plim_ring_seconds(&t->clock.ring, bytes, rounds);
  if (is_on(t)) t->clock.now.sent_seconds += seconds;
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

double plim_copy_to_host(plim_tape *t, double bytes, double after) {
  double seconds = bytes / (plim_gpu_pcie_gbs(t->gpu) * 1e9);
  return transfer(t, &t->clock.to_host_free, seconds, after);
}

double plim_copy_from_host(plim_tape *t, double bytes, double after) {
  double seconds = bytes / (plim_gpu_pcie_gbs(t->gpu) * 1e9);
  return transfer(t, &t->clock.from_host_free, seconds, after);
}

void plim_await(plim_tape *t, double moment) {
  double now = plim_traffic_now(t);
  if (!is_on(t)) return;
  t->clock.gpu_free = fmax(t->clock.gpu_free, moment);
  t->clock.now.waited_seconds += fmax(0, moment - now);
}

void plim_await_on_host(plim_tape *t, double moment) {
  if (is_on(t)) t->clock.cpu = fmax(t->clock.cpu, moment);
}

void plim_await_once(plim_tape *t, double moment) {
  double was = plim_traffic_now(t);
  plim_await(t, moment);
  t->clock.once += plim_traffic_now(t) - was;
}

void plim_update_on_host(plim_tape *t, plim_host_step kind, double elements) {
  if (!is_on(t)) return;
  double ranks = fmax(1, t->clock.neighbours);
  t->clock.cpu =
      plim_traffic_now(t) + ranks * elements * step_bytes[kind] / (HOST_MEMORY_GBS * 1e9);
}
