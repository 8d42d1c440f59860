// The rows of families are complete, and tests/truth contains the recordings that they claim.
#include <string.h>

#include "cases.h"
#include "families.h"
#include "test.h"
#include "truth.h"

static const char *const folders[] = {
    "accelerate", "bare",    "contrastive", "decoders", "encoders", "experts",
    "families",   "flash",   "heads",       "kernels",  "more",     "programs",
    "saving",     "sharded", "simulated",   "versions", "zero_init"};

// Measured rows, whose models are in models.json.
static const char *const measured[] = {"steps", "sharded", "sharded_more", "sharded_ddp",
                                       "zero_one_gpu"};

static const struct {
  unsigned bit;
  const char *name;
} kinds[] = {{PLIM_RECORDED_TRAINING, "training"},      {PLIM_RECORDED_QUANTISED, "quantised"},
             {PLIM_RECORDED_FUSED_LOSS, "fused loss"},  {PLIM_RECORDED_LIGER, "Liger"},
             {PLIM_RECORDED_SHARDED, "sharded"},        {PLIM_RECORDED_DEEPSPEED, "DeepSpeed"},
             {PLIM_RECORDED_4_57, "transformers 4.57"}, {PLIM_RECORDED_5_22, "transformers 5.22"},
             {PLIM_RECORDED_TORCH, "other PyTorch"}};

// With 4.46 some programs of other families are recorded too, which does not make all of theirs right.
static const struct {
  uint16_t release;
  unsigned bit;
} releases[] = {{PLIM_RELEASE(4, 57), PLIM_RECORDED_4_57},
                {PLIM_RELEASE(5, 22), PLIM_RECORDED_5_22}};

static unsigned kind_of(const plim_job *job) {
  if (job->sharding.strategy > PLIM_SHARD_FSDP2) return PLIM_RECORDED_DEEPSPEED;
  if (job->sharding.strategy != PLIM_SHARD_NONE) return PLIM_RECORDED_SHARDED;
  unsigned bits = PLIM_RECORDED_TRAINING;
  for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
    if (job->versions.transformers == releases[i].release) bits |= releases[i].bit;
  if (job->versions.torch && job->versions.torch != PLIM_MEASURED_TORCH)
    bits |= PLIM_RECORDED_TORCH;
  if (job->weights != PLIM_WEIGHTS_PLAIN) bits |= PLIM_RECORDED_QUANTISED;
  if (job->recipe.loss == PLIM_LOSS_FUSED) bits |= PLIM_RECORDED_FUSED_LOSS;
  if (job->recipe.uses_liger) bits |= PLIM_RECORDED_LIGER;
  return bits;
}

typedef struct {
  unsigned bits[256]; // by family
} record;

static void mark(record *r, const json_t *row, const json_t *config) {
  plim_job job;
  if (!case_job(json_object_get(row, "case"), config, &job)) return;
  for (size_t i = 0; i < plim_family_count; i++)
    if (plim_families[i] == plim_config_whole(&job.model)) r->bits[i] |= kind_of(&job);
}

static void mark_recordings(record *r) {
  truth_files files = truth_list(folders, sizeof folders / sizeof *folders);
  for (size_t i = 0; i < files.len; i++) {
    const char *text = truth_json(files.at[i].name);
    json_t *row = text ? json_loads(text, 0, NULL) : NULL;
    mark(r, row, json_object_get(row, "config"));
    json_decref(row);
  }
  vec_free(&files);
}

static void mark_measured(record *r, const char *name, const json_t *models) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.json", name);
  json_t *rows = json_load_file(path, 0, NULL);
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    const char *model = case_text(json_object_get(row, "case"), "model", "");
    mark(r, row, json_object_get(models, model));
  }
  json_decref(rows);
}

// Counts the families and kinds of recordings for which the row and tests/truth disagree.
static size_t count_differences(const record *r) {
  size_t differences = 0;
  for (size_t i = 0; i < plim_family_count; i++)
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
      bool is_said = plim_families[i]->recorded & kinds[k].bit,
           is_there = r->bits[i] & kinds[k].bit;
      if (is_said == is_there) continue;
      printf("  %s, %s: the row says %s, tests/truth has %s\n", plim_families[i]->model_type,
             kinds[k].name, is_said ? "recorded" : "not recorded", is_there ? "some" : "none");
      differences++;
    }
  return differences;
}

TEST(recordings_that_a_family_claims_exist) {
  record r = {0};
  json_t *models = json_load_file(TEST_ROOT "/truth/models.json", 0, NULL);
  mark_recordings(&r);
  for (size_t i = 0; i < sizeof measured / sizeof *measured; i++)
    mark_measured(&r, measured[i], models);
  json_decref(models);
  CHECK_U64(count_differences(&r), 0);
}

// A name in C has no dashes.
static bool is_same_name(const char *model_type, const char *name) {
  for (; *name; name++, model_type++)
    if (*model_type != *name && !(*model_type == '-' && *name == '_')) return false;
  return !*model_type;
}

TEST(rows_are_whole_and_listed_by_their_name) {
#define SAME_NAME(name) CHECK(is_same_name(plim_family_##name.model_type, #name), #name);
  PLIM_FAMILIES(SAME_NAME)
  for (size_t i = 0; i < plim_family_count; i++) {
    const plim_family *f = plim_families[i];
    bool is_whole = f->text_types ? f->add_towers || f->add_towers_behind
                                  : f->build && f->defaults.hidden && f->defaults.layers &&
                                        f->defaults.vocabulary;
    CHECK(is_whole, "%s", f->model_type);
    CHECK(i == 0 || strcmp(plim_families[i - 1]->model_type, f->model_type) < 0,
          "%s is out of order", f->model_type);
    CHECK(f->is_encoder == (f->defaults.head == PLIM_HEAD_MASKED), "%s", f->model_type);
  }
}

// The behaviour of a family is declared in its row and not inferred from values that a file may change.
TEST(width_of_heads_follows_the_family) {
  static const struct {
    const char *family;
    double rotary_share;
    int64_t head_dim; // for 512 with 8 heads, if the file sets 96
  } rows[] = {{"phi3", 0.25, 96}, {"phi3", 1, 96}, {"gpt_neox", 0.25, 64}, {"gpt_neox", 1, 64}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plim_config c;
    if (plim_config_init(&c, rows[i].family, NULL)) test_failed = true;
    c.hidden = 512, c.heads = 8, c.kv_heads = 8, c.head_dim = 96;
    c.rotary_share = rows[i].rotary_share;
    CHECK(!plim_config_finish(&c, NULL), "%s", rows[i].family);
    CHECK_U64(c.head_dim, rows[i].head_dim);
  }
}

// Those that model_support/ switches off were not run.
TEST(lora_kernels_do_what_axolotl_does) {
  static const struct {
    const char *word;
    plim_lora_kernels is;
  } words[] = {{"works", PLIM_LORA_KERNELS_WORK},
               {"attention", PLIM_LORA_KERNELS_FAIL_IN_ATTENTION},
               {"layers", PLIM_LORA_KERNELS_FAIL}};
  json_t *ran = json_loads(truth_json("lora_kernels"), 0, NULL);
  json_t *all = json_object_get(ran, "families");
  size_t seen = 0;
  for (size_t i = 0; i < plim_family_count; i++) {
    const char *type = plim_families[i]->model_type;
    const char *word = json_string_value(json_object_get(all, type));
    for (size_t k = 0; word && k < sizeof words / sizeof *words; k++)
      if (strcmp(words[k].word, word) == 0 && ++seen)
        CHECK(plim_families[i]->axolotl_lora_kernels == words[k].is, "%s", type);
  }
  CHECK_U64(seen, json_object_size(all));
  json_decref(ran);
}

TEST_MAIN
