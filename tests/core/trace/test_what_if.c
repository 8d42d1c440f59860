// Compares what-if replays with reality: the same program was recorded under several settings, so predictions from
// one recording for the settings of the others can be compared with what happened.
#include <math.h>

#include "driver.h"
#include "test.h"
#include "truth.h"

static const struct {
  const char *from, *to;
  bool exact; // no address of a new segment matters, so no model is involved
} pairs[] = {
    {"snapshots/tiny-default", "snapshots/tiny-expandable", true},
    {"snapshots/tiny-expandable", "snapshots/tiny-default", false},
    {"snapshots/varlen-default", "snapshots/varlen-expandable", true},
    {"snapshots/varlen-expandable", "snapshots/varlen-default", false},
    {"snapshots/varlen-default", "snapshots/varlen-split128-gc0.7-cap12", false},
    {"snapshots/varlen-expandable", "snapshots/varlen-split128-gc0.7-cap12", false},
    {"stories/evaluate", "stories/evaluate-exp", true},
    {"stories/evaluate-exp", "stories/evaluate", false},
};

typedef struct {
  plim_trace trace;
  plim_replay_options options;
  plim_guided guided;
} recording;

static bool load(const char *name, recording *r) {
  char folder[64];
  snprintf(folder, sizeof folder, "%.*s", (int)strcspn(name, "/"), name);
  const char *const folders[] = {folder};
  truth_files files = truth_list(folders, 1);
  bool ok = false;
  *r = (recording){0};
  for (size_t i = 0; i < files.len; i++) {
    if (strcmp(files.at[i].name, name) != 0) continue;
    r->options.limit_bytes = files.at[i].limit_bytes;
    ok = truth_load(&files.at[i], &r->trace) &&
         plim_replay_recorded_conf(&r->trace, &r->options.conf) &&
         plim_replay_guided(&r->trace, &r->options, NULL, &r->guided);
  }
  vec_free(&files);
  return ok;
}

static void unload(recording *r) {
  plim_guided_clear(&r->guided);
  plim_trace_clear(&r->trace);
}

TEST(predictions_for_other_settings_are_correct) {
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    recording from, to;
    plim_what_if got;
    CHECK(load(pairs[i].from, &from) && load(pairs[i].to, &to), "%s", pairs[i].from);
    CHECK(plim_replay_what_if(&from.trace, &from.guided, &to.options, PLIM_ADDRESSES_MODEL, NULL,
                              NULL, NULL, &got),
          "memory");
    uint64_t predicted = got.totals.peak_reserved_bytes;
    uint64_t measured = to.guided.recorded.peak_reserved_bytes;
    double percent = 100 * fabs((double)predicted - (double)measured) / (double)measured;
    printf("%s -> %s: predicted %" PRIu64 ", measured %" PRIu64 ", off by %.3f %%\n", pairs[i].from,
           pairs[i].to, predicted, measured, percent);
    double allowed = pairs[i].exact ? 0 : PLIM_ADDRESS_MODEL_WORST_PERCENT;
    CHECK(percent <= allowed, "allowed are %g %%", allowed);
    CHECK_U64(got.totals.ooms, to.guided.recorded.ooms);
    if (pairs[i].exact) CHECK_U64(got.totals.segment_allocs, to.guided.recorded.segment_allocs);
    unload(&from);
    unload(&to);
  }
}

TEST_MAIN
