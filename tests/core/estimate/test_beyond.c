// Sizes beyond any address space are refused before any count overflows; sanitizers check that.
#include "estimate.h"
#include "families.h"
#include "job.h"
#include "test.h"

static plim_err run(int64_t heads, int64_t batch, int64_t length, plim_attention_kind attention,
                    plim_estimate *e, plim_error *error) {
  plim_job job = {.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&job.model, "llama", NULL);
  job.model.hidden = heads * 64;
  job.model.heads = job.model.kv_heads = heads;
  job.model.head_dim = 64;
  job.model.intermediate = 1 << 20;
  job.model.layers = 2;
  job.model.vocabulary = 1 << 20;
  job.recipe = (plim_recipe){.batch = batch,
                             .length = length,
                             .steps = 2,
                             .accumulate = 1,
                             .attention = attention,
                             .optimizer = plim_optimizer_named("adamw")};
  plim_target target = plim_target_any();
  return plim_estimate_make(&job, &target, e, error);
}

TEST(sizes_beyond_any_address_space_are_refused) {
  static const int64_t heads[] = {64, 8192, 16384, 1 << 20};
  static const plim_attention_kind ways[] = {PLIM_ATTENTION_EAGER, PLIM_ATTENTION_SDPA};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
      plim_estimate e;
      plim_error error = {0};
      plim_err err = run(heads[i], 512, 1 << 20, ways[k], &e, &error);
      CHECK(err == PLIM_ERR_ARGUMENT && strstr(error.message, "can be addressed"),
            "%lld heads: %d %s", (long long)heads[i], (int)err, error.message);
    }
}

// Sizes just below the limit do not overflow either.
TEST(sizes_below_the_limit_are_computed) {
  for (int64_t heads = 1; heads <= 1 << 20; heads *= 4)
    for (int64_t length = 1 << 10; length <= 1 << 20; length *= 32) {
      plim_estimate e;
      plim_error error = {0};
      plim_err err = run(heads, 512, length, PLIM_ATTENTION_EAGER, &e, &error);
      if (!err) err = run(heads, 512, length, PLIM_ATTENTION_SDPA, &e, &error);
      CHECK(!err || err == PLIM_ERR_ARGUMENT, "%s", error.message);
    }
}

TEST_MAIN
