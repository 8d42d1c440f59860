// A run that the tape shortens (fold.h, pass_replay.h), compared with the same run without shortcuts.
#ifndef TESTS_CORE_SHORTENED_RUN_H
#define TESTS_CORE_SHORTENED_RUN_H

#include <string.h>

#include "predict.h"
#include "test.h"

static inline plim_prediction predict_so(const plim_job *job, const char *settings, uint64_t limit,
                                         bool runs_all) {
  plim_prediction p = {0};
  plim_alloc_conf conf;
  plim_alloc_conf_parse(settings, &conf, NULL);
  plim_predict_request request = {.job = job,
                                  .gpu = plim_gpu_named("H200"),
                                  .conf = &conf,
                                  .limit_bytes = limit,
                                  .limit_is_card = true,
                                  .runs_all = runs_all};
  if (plim_predict(&request, &p, NULL)) test_failed = true;
  return p;
}

static inline bool has_same_place(const plim_prediction *a, const plim_prediction *b) {
  const plim_program_point *x = &a->peak_at, *y = &b->peak_at;
  return x->what == y->what && x->layer == y->layer && x->step == y->step && x->phase == y->phase &&
         x->is_recomputed == y->is_recomputed;
}

static inline bool has_same_bytes(const plim_prediction *a, const plim_prediction *b) {
  return a->events == b->events && a->peak_event == b->peak_event && has_same_place(a, b) &&
         a->peak_allocated_bytes == b->peak_allocated_bytes &&
         a->peak_reserved_bytes == b->peak_reserved_bytes && a->retries == b->retries &&
         a->runs_out == b->runs_out && a->host_bytes == b->host_bytes &&
         !memcmp(a->live_bytes, b->live_bytes, sizeof a->live_bytes);
}

// Bit by bit: work is added in the order in which it is done.
static inline bool has_same_time(const plim_step_time *a, const plim_step_time *b) {
  return memcmp(&a->seconds, &b->seconds, sizeof a->seconds) == 0 &&
         memcmp(&a->busy_seconds, &b->busy_seconds, sizeof a->busy_seconds) == 0 &&
         memcmp(&a->pass_seconds, &b->pass_seconds, sizeof a->pass_seconds) == 0 &&
         memcmp(&a->waited_seconds, &b->waited_seconds, sizeof a->waited_seconds) == 0 &&
         memcmp(&a->flops, &b->flops, sizeof a->flops) == 0 &&
         memcmp(&a->recomputed_flops, &b->recomputed_flops, sizeof a->flops) == 0 &&
         a->kernels == b->kernels && a->passes == b->passes;
}

// Under both kinds of segments, and under a limit that the run comes near, where it may end before anything is shortened.
static inline void compare(const plim_job *job, const char *what) {
  static const char *const settings[] = {"", "expandable_segments:True"};
  for (size_t i = 0; i < 4; i++) {
    const char *conf = settings[i % 2];
    uint64_t free_bytes = predict_so(job, conf, PLIM_UNKNOWN, true).peak_reserved_bytes;
    uint64_t limit = i < 2 ? PLIM_UNKNOWN : free_bytes - free_bytes / 64;
    plim_prediction all = predict_so(job, conf, limit, true),
                    shortened = predict_so(job, conf, limit, false);
    CHECK((shortened.folded_events || all.runs_out) && !all.folded_events,
          "%s, case %zu: nothing is shortened", what, i);
    CHECK(has_same_bytes(&all, &shortened),
          "%s, case %zu: %llu bytes reserved after %llu events, shortened %llu after %llu", what, i,
          (unsigned long long)all.peak_reserved_bytes, (unsigned long long)all.events,
          (unsigned long long)shortened.peak_reserved_bytes, (unsigned long long)shortened.events);
    CHECK(all.runs_out || has_same_time(&all.step, &shortened.step),
          "%s: %.17g s, shortened %.17g s", what, all.step.seconds, shortened.step.seconds);
  }
}

#endif
