// Estimates: refusals, unmeasured parts, and the effect of a limit.
#include <string.h>

#include "catalogue.h"
#include "estimate.h"
#include "families.h"
#include "other_versions.h"
#include "test.h"
#include "unverified.h"

static plim_job job_of(const char *model) {
  plim_job job = {.dtype = PLIM_BF16, .load = PLIM_LOAD_INIT};
  plim_config_init(&job.model, "llama", NULL);
  if (plim_catalogue_config(plim_catalogue_named(model), &job.model, NULL)) test_failed = true;
  job.recipe = (plim_recipe){.batch = 1,
                             .length = 64,
                             .steps = 2,
                             .accumulate = 1,
                             .optimizer = plim_optimizer_named("adamw")};
  return job;
}

static plim_err estimate(const plim_job *job, uint64_t limit, plim_estimate *e, plim_error *error) {
  plim_target target = plim_target_any();
  target.limit_bytes = limit;
  return plim_estimate_make(job, &target, e, error);
}

TEST(unmeasured_parts_widen_the_interval) {
  plim_job job = job_of("tiny-llama");
  plim_estimate plain, flash;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &plain, NULL), "plain");
  job.recipe.attention = PLIM_ATTENTION_FLASH;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &flash, NULL), "flash");
  uint64_t a = plain.interval_bytes[1] - plain.interval_bytes[0];
  uint64_t b = flash.interval_bytes[1] - flash.interval_bytes[0];
  CHECK(!plain.unverified_count && flash.unverified_count == 1, "reasons");
  CHECK((double)a <= 0.02 * (double)plain.device_bytes && b > 3 * a, "%llu and %llu bytes wide",
        (unsigned long long)a, (unsigned long long)b);
}

// The activations of the steps after the first are no memory of the optimizer, which steps in backward.
TEST(an_optimizer_without_states_holds_nothing_when_it_steps_in_backward) {
  plim_job job = job_of("tiny-llama");
  plim_estimate e;
  job.recipe.skips_clipping = job.recipe.steps_in_backward = true;
  job.recipe.optimizer = plim_optimizer_named("sgd");
  job.recipe.length = 1024;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &e, NULL), "estimate");
  CHECK_U64(e.p.live_bytes[PLIM_FOR_OPTIMIZER], 0);
  CHECK(e.p.live_bytes[PLIM_FOR_ACTIVATIONS] > 0, "no activations");
}

// Other versions have other logits and masks.
TEST(the_interval_holds_versions_that_are_not_pinned) {
  plim_job job = job_of("smollm2-135m");
  plim_target target = plim_target_any();
  plim_version_needs all;
  plim_estimate e, own;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &e, NULL), "nothing pinned");
  uint64_t width = e.interval_bytes[1] - e.interval_bytes[0];
  CHECK(!plim_predict_other_versions(&job, &target, &e, &all, NULL), "predicted");
  CHECK_U64(all.count, PLIM_VERSION_NEEDS);
  CHECK(e.interval_bytes[1] - e.interval_bytes[0] > 2 * width, "not wider");
  for (size_t i = 0; i < PLIM_VERSION_NEEDS; i++) {
    job.versions = all.at[i].versions;
    CHECK(!estimate(&job, PLIM_UNKNOWN, &own, NULL), "version");
    CHECK(own.device_bytes == all.at[i].device_bytes && own.device_bytes >= e.interval_bytes[0] &&
              own.device_bytes <= e.interval_bytes[1],
          "%zu", i);
  }
}

// Near the limit PyTorch frees what it keeps, which other versions do as well.
TEST(other_versions_run_under_the_same_limit) {
  plim_job job = job_of("smollm2-135m");
  plim_target target = plim_target_any();
  plim_version_needs all;
  plim_estimate e, own;
  job.recipe.length = 1024;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &e, NULL), "without a limit");
  target.limit_bytes = (e.p.peak_allocated_bytes + e.p.peak_reserved_bytes) / 2;
  CHECK(!plim_predict_other_versions(&job, &target, &e, &all, NULL), "predicted");
  job.versions = all.at[all.count - 1].versions;
  CHECK(!estimate(&job, target.limit_bytes, &own, NULL) && own.fits,
        "fits by freeing what is kept");
  CHECK_U64(all.at[all.count - 1].device_bytes, own.device_bytes);
}

TEST(what_is_pinned_stays) {
  plim_job job = job_of("qwen3-0.6b"); // since transformers 4.51
  plim_target target = plim_target_any();
  plim_version_needs all;
  plim_estimate e;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &e, NULL), "nothing pinned");
  CHECK(!plim_predict_other_versions(&job, &target, &e, &all, NULL), "predicted");
  CHECK_U64(all.count, 2); // not 4.46
  job.versions.torch = PLIM_RELEASE(2, 8);
  CHECK(!plim_predict_other_versions(&job, &target, &e, &all, NULL), "predicted");
  CHECK_U64(all.count, 2);
  CHECK(all.at[0].versions.torch == PLIM_RELEASE(2, 8), "torch is pinned");
  job.versions.transformers = PLIM_RELEASE(4, 57);
  CHECK(!plim_predict_other_versions(&job, &target, &e, &all, NULL), "predicted");
  CHECK_U64(all.count, 0);
}

// After the run is out of memory, the rest of its step must not be simulated.
TEST(a_run_that_runs_out_before_thousands_of_chunks_ends) {
  plim_job job = job_of("smollm2-135m");
  plim_prediction p;
  plim_alloc_conf conf;
  plim_alloc_conf_parse("", &conf, NULL);
  plim_predict_request request = {.job = &job, .conf = &conf, .limit_bytes = 8ull << 30};
  job.recipe.batch = 512;
  job.recipe.length = 8192;
  job.recipe.loss = PLIM_LOSS_CHUNKED;
  job.recipe.loss_chunk = 512;
  CHECK(!plim_predict(&request, &p, NULL) && p.runs_out, "8192 chunks");
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  CHECK(!plim_predict(&request, &p, NULL) && p.runs_out, "layers in checkpoints");
}

TEST(a_limit_gives_a_verdict_and_does_not_change_the_needs) {
  plim_job job = job_of("tiny-llama");
  plim_estimate free_run, tight;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &free_run, NULL), "free");
  CHECK(!estimate(&job, free_run.p.peak_allocated_bytes / 2, &tight, NULL), "tight");
  CHECK(!free_run.has_verdict && tight.has_verdict && !tight.fits, "verdicts");
  CHECK(tight.p.peak_reserved_bytes == free_run.p.peak_reserved_bytes, "needs %llu, free %llu",
        (unsigned long long)tight.p.peak_reserved_bytes,
        (unsigned long long)free_run.p.peak_reserved_bytes);
  CHECK(!estimate(&job, free_run.p.peak_reserved_bytes, &tight, NULL) && tight.fits, "just fits");
}

// Any stage of the step may be the one that runs out of memory.
TEST(every_limit_gives_a_verdict_and_more_is_never_worse) {
  plim_job job = job_of("tiny-llama");
  job.recipe.checkpoint = PLIM_CHECKPOINT_ON;
  bool fitted = false;
  for (uint64_t limit = 40 * PLIM_MIB; limit <= 1600 * PLIM_MIB; limit += 60 * PLIM_MIB) {
    plim_estimate e;
    CHECK(!estimate(&job, limit, &e, NULL), "%llu MiB", (unsigned long long)(limit / PLIM_MIB));
    CHECK(e.fits || !fitted, "%llu MiB does not fit, less did",
          (unsigned long long)(limit / PLIM_MIB));
    fitted = fitted || e.fits;
  }
  CHECK(fitted, "nothing fits");
}

// Expandable segments are mapped in pages that are larger than most requests. A card has no memory for a page beyond
// its end, while set_per_process_memory_fraction is compared with the request alone.
TEST(pages_of_expandable_segments_end_where_the_card_ends) {
  plim_job job = job_of("tiny-llama");
  plim_alloc_conf conf;
  plim_alloc_conf_parse("expandable_segments:True,max_split_size_mb:32", &conf, NULL);
  bool is_above_fraction = false;
  for (uint64_t mib = 300; mib <= 520; mib += 5) {
    plim_target card = plim_target_size((mib + PLIM_CONTEXT_MIB) * PLIM_MIB), fraction = card;
    plim_estimate e;
    card.conf = fraction.conf = &conf;
    fraction.limit_is_card = false;
    CHECK(!plim_estimate_make(&job, &card, &e, NULL), "%llu MiB", (unsigned long long)mib);
    CHECK(e.fits || e.capped.runs_out_bytes, "%llu MiB: no request failed",
          (unsigned long long)mib);
    CHECK(!e.fits || e.device_bytes <= e.budget_bytes, "%llu MiB: the card ends before",
          (unsigned long long)mib);
    CHECK(!plim_estimate_make(&job, &fraction, &e, NULL), "%llu MiB", (unsigned long long)mib);
    CHECK(e.fits || e.capped.runs_out_bytes, "%llu MiB: no request failed",
          (unsigned long long)mib);
    is_above_fraction |= e.fits && e.device_bytes > e.budget_bytes;
  }
  CHECK(is_above_fraction, "a page never goes beyond the fraction");
}

// The head on top of an encoder is unknown, but it needs little memory.
TEST(an_encoders_own_loss_is_not_verified) {
  plim_estimate e;
  plim_job job = job_of("minilm-l6");
  job.model.head = PLIM_HEAD_NONE;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &e, NULL) && !e.unverified_count, "the plain loop");
  job.recipe.is_trainer = true;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &e, NULL) && e.unverified_count == 1, "Trainer");
}

TEST(unsupported_jobs_are_refused) {
  plim_estimate e;
  plim_error error;
  plim_job job = job_of("tiny-llama");
  job.recipe.loss = PLIM_LOSS_CHUNKED;
  job.recipe.loss_chunk = 512;
  job.recipe.length = 1;
  CHECK(estimate(&job, PLIM_UNKNOWN, &e, &error) == PLIM_ERR_UNSUPPORTED, "no token to predict");
  job = job_of("tiny-llama");
  job.weights = PLIM_WEIGHTS_NF4;
  CHECK(estimate(&job, PLIM_UNKNOWN, &e, &error) == PLIM_ERR_UNSUPPORTED, "training 4 bits");
  job = job_of("tiny-llama");
  job.recipe.attention = PLIM_ATTENTION_FLASH;
  job.dtype = PLIM_FP32;
  CHECK(estimate(&job, PLIM_UNKNOWN, &e, &error) == PLIM_ERR_UNSUPPORTED, "flash in float32");
  job = job_of("t5-small");
  job.recipe.attention = PLIM_ATTENTION_FLASH;
  CHECK(estimate(&job, PLIM_UNKNOWN, &e, &error) == PLIM_ERR_UNSUPPORTED, "flash with a bias");
  job = job_of("gpt2");
  job.lora = (plim_lora){.rank = 8, .targets = "q_proj"};
  CHECK(estimate(&job, PLIM_UNKNOWN, &e, &error) == PLIM_ERR_ARGUMENT, "adapters on nothing");
  CHECK(strstr(error.message, "nothing would be trained"), "%s", error.message);
}

// ---- rounds that repeat -----------------------------------------------------------------------------

static bool same_seconds(double a, double b) {
  double difference = a > b ? a - b : b - a;
  return difference <= 1e-6 * a;
}

static bool same_times(const plim_step_time *a, const plim_step_time *b) {
  return same_seconds(a->seconds, b->seconds) && same_seconds(a->pass_seconds, b->pass_seconds) &&
         same_seconds(a->busy_seconds, b->busy_seconds) && same_seconds(a->flops, b->flops) &&
         same_seconds(a->recomputed_flops, b->recomputed_flops) && a->kernels == b->kernels;
}

static bool same_but_for_time(const plim_prediction *a, const plim_prediction *b) {
  return a->peak_allocated_bytes == b->peak_allocated_bytes &&
         a->peak_reserved_bytes == b->peak_reserved_bytes && a->peak_event == b->peak_event &&
         a->loaded_bytes == b->loaded_bytes && a->host_bytes == b->host_bytes &&
         a->events == b->events && a->retries == b->retries && a->runs_out == b->runs_out &&
         memcmp(a->live_bytes, b->live_bytes, sizeof a->live_bytes) == 0;
}

// The number of events that were simulated shows whether rounds were skipped.
static void count(void *context, const plim_tape *t, const plim_allocator *a, plim_stream_kind kind,
                  uint32_t id, uint64_t bytes) {
  (void)t, (void)a, (void)kind, (void)id, (void)bytes;
  ++*(uint64_t *)context;
}

static bool skips_and_agrees(const char *what, const plim_job *job, const char *settings,
                             uint64_t limit) {
  plim_alloc_conf conf;
  uint64_t events = 0;
  plim_observer observer = {.event = count, .context = &events};
  plim_prediction all, some;
  plim_alloc_conf_parse(settings, &conf, NULL);
  plim_predict_request request = {.job = job,
                                  .gpu = plim_gpu_named("H200"),
                                  .conf = &conf,
                                  .limit_bytes = limit,
                                  .observer = &observer};
  bool ok = !plim_predict(&request, &some, NULL) && events < some.events;
  request.runs_all = true;
  request.observer = NULL;
  ok = ok && !plim_predict(&request, &all, NULL) && same_but_for_time(&all, &some) &&
       same_times(&all.step, &some.step);
  printf("  %s: %llu of %llu events, %llu retries\n", what, (unsigned long long)events,
         (unsigned long long)some.events, (unsigned long long)some.retries);
  if (!ok)
    printf(
        "  in full: peaks %llu %llu, events %llu, retries %llu, %.9f s; skipping: %llu %llu, "
        "%llu, %.9f s\n",
        (unsigned long long)all.peak_allocated_bytes, (unsigned long long)all.peak_reserved_bytes,
        (unsigned long long)all.events, (unsigned long long)all.retries, all.step.seconds,
        (unsigned long long)some.peak_allocated_bytes, (unsigned long long)some.peak_reserved_bytes,
        (unsigned long long)some.events, some.step.seconds);
  return ok;
}

TEST(rounds_that_repeat_are_skipped_and_change_nothing) {
  plim_job job = job_of("tiny-llama");
  plim_estimate e;
  job.recipe.accumulate = 20;
  job.recipe.steps = 9;
  CHECK(skips_and_agrees("plain", &job, "", PLIM_UNKNOWN), "plain");
  CHECK(skips_and_agrees("pages", &job, "expandable_segments:True", PLIM_UNKNOWN), "pages");
  CHECK(!estimate(&job, PLIM_UNKNOWN, &e, NULL), "estimate");
  uint64_t tight = e.p.peak_reserved_bytes - 24 * PLIM_MIB;
  CHECK(skips_and_agrees("under a limit", &job, "", tight), "limit");
  job.recipe.is_trainer = true;
  CHECK(skips_and_agrees("Trainer", &job, "", PLIM_UNKNOWN), "trainer");
  job.recipe.is_trainer = false;
  job.recipe.is_bare = true;
  job.sharding = (plim_sharding){.strategy = PLIM_SHARD_ZERO2, .world = 4};
  CHECK(skips_and_agrees("ZeRO-2", &job, "", PLIM_UNKNOWN), "zero2");
  job.sharding.strategy = PLIM_SHARD_ZERO3;
  CHECK(skips_and_agrees("ZeRO-3", &job, "", PLIM_UNKNOWN), "zero3");
  job.sharding.strategy = PLIM_SHARD_FSDP2;
  CHECK(skips_and_agrees("FSDP2", &job, "", PLIM_UNKNOWN), "fsdp2");
  job.sharding.strategy = PLIM_SHARD_DDP;
  CHECK(skips_and_agrees("DDP", &job, "", PLIM_UNKNOWN), "ddp");
}

static bool doubts_liger(const plim_job *job) {
  const char *reasons[PLIM_MAX_REASONS];
  size_t count = plim_job_unverified(job, reasons, PLIM_MAX_REASONS);
  for (size_t i = 0; i < count && i < PLIM_MAX_REASONS; i++)
    if (strstr(reasons[i], "Liger-Kernel's modules")) return true;
  return false;
}

// What is not modelled is a note of its own, and not called unverified as well.
TEST(modules_that_are_not_modelled_are_not_unverified) {
  plim_job modelled = job_of("qwen3-0.6b"), other = job_of("stablelm-2-1.6b");
  modelled.recipe.uses_liger = other.recipe.uses_liger = true;
  CHECK(!plim_config_whole(&other.model)->has_liger && !doubts_liger(&other), "stablelm");
  CHECK(plim_config_whole(&modelled.model)->has_liger, "qwen3");
}

TEST(a_card_needs_what_loading_takes) {
  plim_estimate e = {.device_bytes = 100, .context_bytes = 10, .p.loading_bytes = 80};
  CHECK(plim_needed_bytes(&e) == 100, "training needs more");
  e.p.loading_bytes = 200;
  CHECK(plim_needed_bytes(&e) == 210, "loading needs more");
  // What loading left behind is not what a step needs, if loading is what does not fit.
  e.capped = (plim_prediction){.runs_out = true, .runs_out_at.phase = PLIM_PHASE_LOAD};
  e.device_bytes = 300;
  e.component_bytes[PLIM_COMPONENT_FRAGMENTATION] = 180;
  CHECK(plim_step_bytes(&e) == 120 && plim_needed_bytes(&e) == 210, "loading, not its leftovers");
}

// A model whose peak is at the end of backward, where all gradients would be there.
TEST(an_optimizer_steps_in_backward_under_fsdp2) {
  plim_job job = job_of("smollm2-135m");
  plim_estimate stepping, plain;
  job.recipe.is_bare = job.recipe.skips_clipping = true;
  job.sharding = (plim_sharding){.strategy = PLIM_SHARD_FSDP2, .world = 2};
  CHECK(!estimate(&job, PLIM_UNKNOWN, &plain, NULL), "plain");
  job.recipe.steps_in_backward = true;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &stepping, NULL), "in backward");
  CHECK(stepping.p.peak_allocated_bytes < plain.p.peak_allocated_bytes, "less memory");
  job.sharding.offloads_parameters = true;
  CHECK(estimate(&job, PLIM_UNKNOWN, &stepping, NULL), "refused with parameters on the host");
}

// With SGD, the host has the parameters and their gradients; of the reference only the parameters.
TEST(a_reference_is_offloaded_with_the_model) {
  plim_job job = job_of("smollm2-135m");
  plim_estimate alone, both;
  job.recipe.optimizer = plim_optimizer_named("sgd");
  job.sharding =
      (plim_sharding){.strategy = PLIM_SHARD_FSDP2, .world = 2, .offloads_parameters = true};
  CHECK(!estimate(&job, PLIM_UNKNOWN, &alone, NULL), "alone");
  job.recipe.method = PLIM_METHOD_DPO;
  CHECK(!estimate(&job, PLIM_UNKNOWN, &both, NULL), "with a reference");
  CHECK_U64(2 * both.p.host_bytes, 3 * alone.p.host_bytes);
}

TEST_MAIN
