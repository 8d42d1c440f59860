// How many events per second the simulator alone handles, on one core: the requests of a recorded
// snapshot, free-running, with the addresses of new segments from the model of the driver.
//
//   bench_simulator SNAPSHOT [SECONDS]
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "replay.h"
#include "snapshot.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
  plim_trace trace;
  plim_error error;
  if (argc < 2 || plim_snapshot_read(argv[1], -1, &trace, NULL, &error) ||
      !plim_trace_link(&trace)) {
    fprintf(stderr, "usage: bench_simulator SNAPSHOT [SECONDS]\n");
    return 2;
  }
  plim_replay_options options = {.limit_bytes = PLIM_UNKNOWN};
  plim_guided guided;
  plim_what_if result;
  if (!plim_replay_recorded_conf(&trace, &options.conf) ||
      !plim_replay_guided(&trace, &options, NULL, &guided))
    return 2;
  double seconds = argc > 2 ? atof(argv[2]) : 2, start = now(), elapsed = 0;
  uint64_t rounds = 0;
  for (; elapsed < seconds; rounds++, elapsed = now() - start)
    if (!plim_replay_what_if(&trace, &guided, &options, PLIM_ADDRESSES_MODEL, NULL, NULL, NULL,
                             &result))
      return 2;
  uint64_t requests = 0; // segment events are the simulator's answers, not its input
  for (size_t i = 0; i < trace.events.len; i++) {
    uint8_t action = trace.events.at[i].action;
    requests += action <= PLIM_EV_FREE_COMPLETED || action == PLIM_EV_OOM;
  }
  printf("%.0f\n", (double)(requests * rounds) / elapsed);
  plim_guided_clear(&guided);
  plim_trace_clear(&trace);
  return 0;
}
