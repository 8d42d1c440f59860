// Predicts every recording of a training run and prints, tab-separated: its name, its strategy, how many
// reasons there are to call the prediction unverified, and the error of the device's memory (reserved and context) in percent.
// tools/accuracy.py writes docs/accuracy.md from it, to check the margin for unverified predictions.
#include <math.h>
#include <stdlib.h>

#include "cases.h"
#include "estimate.h"
#include "test.h"
#include "truth.h"
#include "unverified.h"

static const char *const folders[] = {
    "accelerate", "bare",    "contrastive", "decoders", "encoders", "experts", "families",
    "flash",      "kernels", "more",        "programs", "saving",   "sharded", "zero_init"};

static void begin(void *context, plim_tape *t) { case_begin(context, t); }

static void empty_cache(void *context, plim_tape *t) {
  const plim_job *job = context;
  const plim_sharding *how = &job->sharding;
  bool is_built = job->load == PLIM_LOAD_INIT && !how->is_by_accelerate;
  if (how->strategy != PLIM_SHARD_NONE && is_built) plim_tape_empty_cache(t);
}

static bool predict(plim_job *job, plim_prediction *p) {
  plim_observer around = {.begins = begin, .is_loaded = empty_cache, .context = job};
  plim_predict_request request = {.job = job, .limit_bytes = PLIM_UNKNOWN, .observer = &around};
  return !plim_predict(&request, p, NULL);
}

static void print_row(const char *name, const json_t *row, const json_t *config) {
  const char *reasons[PLIM_MAX_REASONS];
  plim_job job;
  plim_prediction p;
  int64_t reserved = case_integer(row, "peak_reserved", 0), context = PLIM_CONTEXT_MIB * PLIM_MIB;
  if (!reserved) return;
  if (!case_job(json_object_get(row, "case"), config, &job) || !predict(&job, &p)) return;
  printf("%s\t%s\t%zu\t%.4f\n", name, plim_strategy_names[job.sharding.strategy],
         plim_job_unverified(&job, reasons, PLIM_MAX_REASONS),
         100 * ((double)p.peak_reserved_bytes - (double)reserved) / (double)(reserved + context));
}

static void print_recordings(void) {
  truth_files files = truth_list(folders, sizeof folders / sizeof *folders);
  for (size_t i = 0; i < files.len; i++) {
    const char *text = truth_json(files.at[i].name);
    json_t *row = text ? json_loads(text, 0, NULL) : NULL;
    print_row(files.at[i].name, row, json_object_get(row, "config"));
    json_decref(row);
  }
  vec_free(&files);
}

static void print_rows(const char *name, const json_t *models) {
  char path[512], id[128];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  json_t *rows = json_load_file(path, 0, NULL);
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    const char *model = case_text(json_object_get(row, "case"), "model", "");
    snprintf(id, sizeof id, "%s/%s", name, case_text(row, "id", "?"));
    print_row(id, row, json_object_get(models, model));
  }
  json_decref(rows);
}

int main(void) {
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  print_recordings();
  print_rows("sharded", models);
  print_rows("sharded_more", models);
  print_rows("sharded_ddp", models);
  print_rows("zero_one_gpu", models);
  json_decref(models);
  return 0;
}
