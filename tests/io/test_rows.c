// Full-size training runs, measured: the tape behind the allocator must predict bytes after load,
// peak allocated and peak reserved. The rows of steps.json, seeds.json, seeds_chunked.json and timing.json whose model and
// recipe are programs on the tape today; the others are counted and left out.
#include <math.h>

#include "allocator.h"
#include "cases.h"
#include "driver.h"
#include "test.h"

typedef struct {
  plim_allocator *a;
} card;

static void follow(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  card *c = context;
  if (kind == PLIM_STREAM_ALLOC) plim_allocator_malloc(c->a, id, bytes, 0, 0);
  else plim_allocator_free(c->a, id);
}

static void empty_cache(void *context) { plim_allocator_empty_cache(((card *)context)->a); }

// ---- predicting one ---------------------------------------------------------------------------------

typedef struct {
  uint64_t loaded, allocated, reserved, trainable, retries;
  bool runs_out;
} prediction;

static uint64_t limit_of(const json_t *c) {
  const json_t *cap = json_object_get(c, "cap_gb");
  return json_is_number(cap) ? (uint64_t)(json_number_value(cap) * (double)PLIM_GIB) : PLIM_UNKNOWN;
}

// The measuring program makes and frees one block and empties the cache before it builds the model.
static prediction predict(const json_t *c, const plim_job *job) {
  prediction p = {0};
  plim_address_model addresses;
  plim_address_model_init(&addresses);
  plim_allocator_options options = {.driver = plim_address_model_driver(&addresses),
                                    .limit_bytes = limit_of(c),
                                    .capacity_bytes = PLIM_UNKNOWN,
                                    .range_bytes = PLIM_UNKNOWN};
  if (plim_alloc_conf_parse(case_text(c, "alloc_conf", ""), &options.conf, NULL))
    test_failed = true;
  card here = {plim_allocator_new(&options)};
  plim_tape *t = plim_tape_new((plim_tape_sink){follow, &here, empty_cache});
  plim_model *model = t && here.a ? plim_job_load(t, job) : NULL;
  if (model) {
    for (size_t i = 0; i < model->parameters.len; i++)
      p.trainable += (uint64_t)plim_numel(&model->parameters.at[i]->shape);
    p.loaded = plim_allocator_stats(here.a)->now.allocated_bytes;
    if (job->recipe.is_trainer) plim_allocator_empty_cache(here.a);
    plim_allocator_reset_peaks(here.a);
    if (!plim_train(t, model, &job->recipe)) test_failed = true;
    p.allocated = plim_allocator_stats(here.a)->peak.allocated_bytes;
    p.reserved = plim_allocator_stats(here.a)->peak.reserved_bytes;
    p.retries = plim_allocator_stats(here.a)->retries;
    p.runs_out = plim_allocator_stats(here.a)->ooms > 0;
  }
  plim_model_delete(model);
  plim_tape_delete(t);
  plim_allocator_delete(here.a);
  plim_address_model_clear(&addresses);
  return p;
}

// ---- all of them ------------------------------------------------------------------------------------

typedef struct {
  size_t rows, left_out, allocated_equal, reserved_equal, exact, verdicts, verdicts_right;
  double worst;
} score;

static double error_percent(uint64_t predicted, int64_t measured) {
  return 100 * fabs((double)predicted - (double)measured) / (double)measured;
}

// A program that runs out of memory ends there, so of those rows only the verdict is compared.
static void judge(const json_t *row, const prediction *p, score *s) {
  bool ran_out = case_is(row, "status", "oom");
  s->verdicts++;
  s->verdicts_right += p->runs_out == ran_out;
  if (p->runs_out != ran_out)
    printf("  %s: %s, measured %s\n", case_text(row, "id", "?"), p->runs_out ? "runs out" : "fits",
           ran_out ? "runs out" : "fits");
  if (ran_out || p->runs_out) return;
  int64_t allocated = case_integer(row, "peak_allocated", 0),
          reserved = case_integer(row, "peak_reserved", 0);
  double off_a = error_percent(p->allocated, allocated),
         off_r = error_percent(p->reserved, reserved);
  s->rows++;
  s->allocated_equal += off_a == 0;
  s->reserved_equal += off_r == 0;
  s->exact += !json_object_get(row, "trainable") ||
              ((int64_t)p->loaded == case_integer(row, "loaded_allocated", 0) &&
               (int64_t)p->trainable == case_integer(row, "trainable", 0));
  s->worst = fmax(s->worst, fmax(off_a, off_r));
  if (off_a == 0 && off_r == 0) return;
  printf("  %s: allocated %" PRIu64 " measured %" PRIi64 ", reserved %" PRIu64 " measured %" PRIi64
         "\n",
         case_text(row, "id", "?"), p->allocated, allocated, p->reserved, reserved);
}

static void judge_file(const char *name, int steps, const json_t *models, score *s) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  json_t *rows = json_load_file(path, 0, NULL);
  if (!rows) test_failed = true;
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i), *c = json_object_get(row, "case");
    const json_t *m = json_object_get(models, case_text(c, "model", ""));
    plim_job job;
    if (!case_job(c, m, &job)) {
      s->left_out++;
      continue;
    }
    if (!json_object_get(c, "steps")) job.recipe.steps = steps;
    prediction p = predict(c, &job);
    judge(row, &p, s);
  }
  json_decref(rows);
}

TEST(full_size_runs_are_predicted_to_the_byte) {
  score s = {0};
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  CHECK(models, "models.json");
  judge_file("steps", 3, models, &s);
  judge_file("seeds", 3, models, &s);
  judge_file("seeds_chunked", 3, models, &s);
  judge_file("timing", 5, models, &s);
  json_decref(models);
  printf("  %zu rows (%zu left out): allocated equal in %zu, reserved in %zu, worst error %.4f %%\n"
         "  %zu of %zu verdicts right\n",
         s.rows, s.left_out, s.allocated_equal, s.reserved_equal, s.worst, s.verdicts_right,
         s.verdicts);
  CHECK(s.rows >= 80, "%zu rows", s.rows);
  CHECK(s.verdicts_right == s.verdicts, "%zu of %zu verdicts right", s.verdicts_right, s.verdicts);
  CHECK(s.exact == s.rows, "bytes after load and trained parameters exact in %zu", s.exact);
  CHECK((double)s.allocated_equal >= 0.95 * (double)s.rows, "allocated");
  CHECK((double)s.reserved_equal >= 0.90 * (double)s.rows, "reserved");
  CHECK(s.worst <= 0.3, "worst %f %%", s.worst);
}

// ---- ways to save memory ----------------------------------------------------------------------------

// Recorded with stacks, two layers and two steps; test_tape.c compares every event of them.
// clang-format off
static const char *const savers[] = {
    "adamw-8bit-llama", "adamw-8bit-lora", "adamw-bnb-8bit-trainer", "int8-lora-qwen2",
    "liger-ce-llama-amp", "liger-ce-llama-bf16", "liger-ce-llama-lora-ckpt", "lion-8bit-llama",
    "lion-pytorch-llama", "offload-layers-llama", "offload-llama-bf16", "offload-llama-ckpt",
    "offload-llama-lora-amp", "paged-adamw-32bit-llama", "paged-adamw-8bit-llama",
    "qlora-double-amp-prep", "qlora-double-amp-prep-ckpt", "qlora-double-b4s512-amp",
    "qlora-double-mistral-paged8", "qlora-double-qwen2-amp-prep-ckpt", "qlora-double-trainer",
    "qlora-nf4",
};
// clang-format on

TEST(peaks_of_memory_savers) {
  for (size_t i = 0; i < sizeof savers / sizeof *savers; i++) {
    char path[512];
    snprintf(path, sizeof path, TEST_ROOT "/truth/saving/%s.json", savers[i]);
    json_t *row = json_load_file(path, 0, NULL);
    const json_t *c = json_object_get(row, "case");
    plim_job job;
    bool ok = case_job(c, json_object_get(row, "config"), &job);
    prediction p = ok ? predict(c, &job) : (prediction){0};
    int64_t allocated = case_integer(row, "peak_alloc", 0),
            reserved = case_integer(row, "peak_reserved", 0);
    ok = (int64_t)p.allocated == allocated && (int64_t)p.reserved == reserved &&
         (int64_t)p.loaded == case_integer(row, "loaded_alloc", 0);
    if (!ok)
      printf("  allocated %" PRIu64 " measured %" PRIi64 ", reserved %" PRIu64 " measured %" PRIi64
             ", loaded %" PRIu64 " measured %" PRIi64 "\n",
             p.allocated, allocated, p.reserved, reserved, p.loaded,
             case_integer(row, "loaded_alloc", 0));
    test_count(savers[i], ok);
    json_decref(row);
  }
}

TEST_MAIN
