// Seconds per step, measured on an H200 with nothing else running (timing.json), against the clock.
#include <math.h>

#include "cases.h"
#include "clock.h"
#include "test.h"

static const plim_gpu h200 = {.name = "H200",
                              .capability = 90,
                              .multiprocessors = 132,
                              .bandwidth_gbs = 4800,
                              .bf16_tflops = 989.4,
                              .fp16_tflops = 989.4,
                              .fp32_tflops = 66.9,
                              .tf32_tflops = 494.7};

static void ignore(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  (void)context, (void)kind, (void)id, (void)bytes;
}

static plim_step_time predict(const plim_job *job) {
  plim_step_time time = {0};
  plim_tape *t = plim_tape_new((plim_tape_sink){ignore, NULL});
  plim_model *model = t ? plim_job_load(t, job) : NULL;
  if (model) {
    plim_tape_set_clock(t, &h200);
    if (!plim_train(t, model, &job->recipe)) test_failed = true;
    time = plim_clock_last_step(t);
  }
  plim_model_delete(model);
  plim_tape_delete(t);
  return time;
}

TEST(step_times) {
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  json_t *rows = json_load_file(TEST_ROOT "/truth/timing.json", 0, NULL);
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i), *c = json_object_get(row, "case");
    plim_job job;
    if (!case_job(c, json_object_get(models, case_text(c, "model", "")), &job)) continue;
    plim_step_time p = predict(&job);
    double measured = case_number(row, "step_seconds", 0);
    printf("  %-36s %.4f measured %.4f (%+.1f %%) busy %.4f kernels %" PRIu64 "\n",
           case_text(row, "id", "?"), p.seconds, measured, 100 * (p.seconds / measured - 1),
           p.busy_seconds, p.kernels);
  }
  json_decref(rows);
  json_decref(models);
}

TEST_MAIN
