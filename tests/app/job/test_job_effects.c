// For every option of a training run, it is known when it has an effect.
#include "job_effects.h"
#include "test.h"

TEST(every_option_has_a_known_effect) {
  size_t count = 0;
  for (const cli_option *o = job_own_options; o->name; o++, count++)
    CHECK(job_effect_is_known(o->name), "--%s", o->name);
  CHECK(count > 30, "%zu options", count);
}

TEST(defaults_are_never_reported_as_mistakes) {
  static const char *const models[] = {"tiny-llama", "t5-small", "mpnet-base", "gpt2"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    job_args args = JOB_DEFAULTS;
    job_request request;
    const char *source;
    plim_error error = {0};
    args.model = models[i];
    args.gpu = "24GiB";
    CHECK(!job_understand(&args, &args, &request, &source, &error), "%s: %s", models[i],
          error.message);
    job_request_clear(&request);
  }
}

TEST_MAIN
