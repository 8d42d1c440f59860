// Measures the error of replays in which segment addresses come from the model of the driver instead of the
// recording. The error that the program states must be the one measured here.
#include <math.h>

#include "driver.h"
#include "test.h"
#include "truth.h"

typedef struct {
  size_t files, equal_peaks;
  double sum, worst;
  char worst_name[96];
} errors;

static bool measure(const truth_file *file, errors *e) {
  plim_trace trace;
  if (!truth_load(file, &trace)) return false;
  plim_replay_options options = {.limit_bytes = file->limit_bytes};
  plim_guided guided = {0};
  plim_what_if got;
  bool ok = plim_replay_recorded_conf(&trace, &options.conf) &&
            plim_replay_guided(&trace, &options, NULL, &guided);
  plim_guided_set_limit(&guided, &options);
  ok = ok &&
       plim_replay_what_if(&trace, &guided, &options, PLIM_ADDRESSES_MODEL, NULL, NULL, NULL, &got);
  if (ok) {
    double want = (double)guided.recorded.peak_reserved_bytes;
    double off = fabs((double)got.totals.peak_reserved_bytes - want) / want;
    e->files++;
    e->equal_peaks += off == 0;
    e->sum += off;
    if (off > e->worst) {
      e->worst = off;
      snprintf(e->worst_name, sizeof e->worst_name, "%s", file->name);
    }
  }
  plim_guided_clear(&guided);
  plim_trace_clear(&trace);
  return ok;
}

static errors measure_all(const char *const *folders, size_t count) {
  errors e = {0};
  truth_files files = truth_list(folders, count);
  for (size_t i = 0; i < files.len; i++)
    if (!measure(&files.at[i], &e)) test_failed = true;
  vec_free(&files);
  printf("%zu files, %zu peaks equal, mean error %.4f %%, worst %.3f %% (%s)\n", e.files,
         e.equal_peaks, 100 * e.sum / (double)e.files, 100 * e.worst, e.worst_name);
  return e;
}

TEST(stated_error_on_training_runs_is_the_measured_one) {
  static const char *const training[] = {"families", "kernels", "snapshots", "foreign", "stories"};
  errors e = measure_all(training, 5);
  double mean = 100 * e.sum / (double)e.files, worst = 100 * e.worst;
  CHECK(fabs(mean - PLIM_ADDRESS_MODEL_MEAN_PERCENT) < 0.005, "mean %f", mean);
  CHECK(fabs(worst - PLIM_ADDRESS_MODEL_WORST_PERCENT) < 0.05, "worst %f", worst);
}

TEST(error_on_random_programs_is_bounded) {
  static const char *const random[] = {"allocator"};
  errors e = measure_all(random, 1);
  CHECK(e.worst < 0.004 && e.equal_peaks == 13, "worst %f in %s", e.worst, e.worst_name);
}

TEST_MAIN
