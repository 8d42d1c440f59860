// A run on several GPUs, small enough to be predicted often.
#ifndef TESTS_CORE_SHARED_JOB_H
#define TESTS_CORE_SHARED_JOB_H

#include "catalogue.h"
#include "families.h"
#include "job.h"
#include "predict.h"
#include "test.h"

static inline plim_job shared_job(const char *model, int64_t length, plim_strategy strategy,
                                  int64_t world) {
  plim_job job = {.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&job.model, "llama", NULL);
  if (plim_catalogue_config(plim_catalogue_named(model), &job.model, NULL)) test_failed = true;
  job.recipe = (plim_recipe){.batch = 1,
                             .length = length,
                             .steps = 2,
                             .accumulate = 1,
                             .is_bare = true,
                             .optimizer = plim_optimizer_named("adamw")};
  job.sharding = (plim_sharding){
      .strategy = strategy, .world = world, .compute_dtype = PLIM_BOOL, .reduce_dtype = PLIM_BOOL};
  return job;
}

static inline plim_prediction predict_on(const plim_job *job, const char *card) {
  plim_prediction p = {0};
  plim_error error = {0};
  plim_predict_request r = {.job = job, .gpu = plim_gpu_named(card), .limit_bytes = PLIM_UNKNOWN};
  if (plim_predict(&r, &p, &error)) test_failed = true;
  return p;
}

#endif
