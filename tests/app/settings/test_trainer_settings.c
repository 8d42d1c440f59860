// Runs written for trainers: what the texts leave out, that the text of each is read as it was meant, and names that could
// break a file. What plans and estimates make of the texts is tested in tests/app/library/library_check.py.
#include <stdlib.h>

#include "model_names.h"
#include "plimsoll.h"
#include "settings_text.h"
#include "test.h"
#include "torchtune_builders.h"

static plim_error error;

static plim_err make(settings_result *s, const job_args *args, const char *dialect) {
  const char *source;
  *s = (settings_result){.args = args};
  plim_err err = settings_dialect_named(dialect, &s->dialect, &error);
  return err ? err : settings_make(s, &source, &error);
}

static const char *left_out(const settings_result *s) {
  static char text[400];
  *text = 0;
  for (size_t i = 0; i < s->left_out_count; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "",
             s->left_out[i]->name);
  return text;
}

static int amp_named(const char *name) {
  int i = 0;
  while (strcmp(job_amps[i], name) != 0) i++;
  return i;
}

// ---- the templates ----------------------------------------------------------------------------------

static void check_words(const char *name, const char *text) {
  for (const char *at = text; (at = strchr(at, '<')); at++) {
    size_t n = strcspn(at + 1, ">");
    CHECK(settings_word_is_known(at + 1, n), "%s: <%.*s>", name, (int)n, at + 1);
  }
}

TEST(every_word_of_the_templates_is_known) {
  for (const settings_dialect *d = settings_dialects; d->name; d++) {
    check_words(d->name, d->text);
    check_words(d->name, d->command);
  }
  CHECK(!settings_word_is_known("bath", 4) && !settings_word_is_known("?bath", 5), "it can fail");
}

TEST(torchtunes_functions_build_the_models_they_are_listed_for) {
  size_t found = 0;
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    char builder[128], function[160], built[128];
    const plim_catalogue_model *m = &plim_catalogue[i];
    for (int adapts = 0; adapts < 2; adapts++) {
      if (!torchtune_builder(m->name, adapts, builder, sizeof builder)) continue;
      snprintf(function, sizeof function, "torchtune.models.%s", builder);
      CHECK(plim_model_of_builder(function, built, sizeof built), "%s", function);
      CHECK(plim_catalogue_named(built) == m, "%s builds %s, not %s", function, built, m->name);
      CHECK(torchtune_tokenizer(m->name) && torchtune_type(m->name), "%s", m->name);
      found++;
    }
  }
  CHECK(found > 60, "%zu", found);
}

// ---- what is left out -------------------------------------------------------------------------------

static const struct {
  const char *dialect, *left_out;
} plain_runs[] = {
    {"axolotl", ""},
    {"llama-factory", ""},
    {"transformers", ""},
    {"trl", ""},
    {"unsloth", "weights"},
    {"lightning", "loop"},
    {"torchtune", "amp weights loop"},
    {"plimsoll", ""},
    {"deepspeed", "seq lora-rank checkpoint optimizer weights loop"},
    {"accelerate", "batch seq lora-rank checkpoint optimizer accumulate weights loop"},
};

TEST(options_that_a_trainer_has_are_in_its_file) {
  job_args args = JOB_DEFAULTS;
  args.model = "qwen2.5-0.5b", args.batch = 3, args.accumulate = 4, args.seq = 768;
  args.lora_rank = 8, args.weights = PLIM_WEIGHTS_NF4, args.checkpoint = true;
  args.amp = amp_named("bf16"), args.loop = 1, args.optimizer = "paged-adamw-8bit";
  for (size_t i = 0; i < sizeof plain_runs / sizeof *plain_runs; i++) {
    settings_result s;
    plim_err err = make(&s, &args, plain_runs[i].dialect);
    CHECK(!err, "%s: %s", plain_runs[i].dialect, error.message);
    bool is_lightning = strcmp(plain_runs[i].dialect, "lightning") == 0; // the optimizer is code
    const char *want = is_lightning ? "optimizer loop" : plain_runs[i].left_out;
    CHECK(strcmp(left_out(&s), want) == 0, "%s: %s", plain_runs[i].dialect, left_out(&s));
    bool is_train = s.dialect->kind == SETTINGS_TRAIN;
    CHECK(s.is_read == is_train, "%s", plain_runs[i].dialect);
    CHECK(!is_train || (s.read.batch == 3 && s.read.accumulate == 4 && s.read.seq == 768), "%s",
          s.text);
    settings_clear(&s);
  }
}

static bool is_left_out(const settings_result *s, const char *option) {
  for (size_t i = 0; i < s->left_out_count; i++)
    if (strcmp(s->left_out[i]->name, option) == 0) return true;
  return false;
}

TEST(a_strategy_is_written_with_the_files_that_it_needs) {
  job_args args = JOB_DEFAULTS;
  args.model = "qwen2.5-0.5b", args.seq = 512, args.amp = amp_named("bf16"), args.loop = 1;
  args.strategy = PLIM_SHARD_ZERO3, args.world = 8, args.offload = JOB_OFFLOAD_PARAMETERS;
  static const char *const dialects[] = {"axolotl", "llama-factory", "transformers", "trl"};
  for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++) {
    settings_result s;
    CHECK(!make(&s, &args, dialects[i]), "%s: %s", dialects[i], error.message);
    CHECK(s.files.files.len == 1 && strstr(s.text, s.files.files.at[0].path), "%s", s.text);
    CHECK(strstr(s.files.files.at[0].text, "\"offload_param\""), "%s", s.files.files.at[0].text);
    CHECK(!s.left_out_count && s.read.strategy == PLIM_SHARD_ZERO3, "%s", left_out(&s));
    settings_clear(&s);
  }
  settings_result s;
  CHECK(!make(&s, &args, "unsloth"), "%s", error.message);
  CHECK(is_left_out(&s, "strategy") && is_left_out(&s, "offload"), "%s", left_out(&s));
  settings_clear(&s);
}

// ---- names ------------------------------------------------------------------------------------------

TEST(a_name_that_could_end_a_string_is_not_written) {
  job_args args = JOB_DEFAULTS;
  args.model = "{\"model_type\": \"llama\", \"hidden_size\": 256, \"num_hidden_layers\": 2,"
               " \"num_attention_heads\": 4, \"vocab_size\": 1000}";
  args.seq = 128, args.lora_rank = 4, args.loop = 1;
  args.lora_excluded = "o_proj\"]), print(1) #";
  for (const settings_dialect *d = settings_dialects; d->kind == SETTINGS_TRAIN; d++) {
    settings_result s;
    if (d->dialect == PLIM_DIALECT_TORCHTUNE) continue;
    CHECK(!make(&s, &args, d->name), "%s: %s", d->name, error.message);
    CHECK(strstr(s.text, "path/to/your-model") && !strstr(s.text, "print(1)"), "%s", s.text);
    CHECK(is_left_out(&s, "lora-exclude"), "%s: %s", d->name, left_out(&s));
    settings_clear(&s);
  }
  args.lora_excluded = NULL;
  settings_result s;
  CHECK(make(&s, &args, "torchtune") == PLIM_ERR_UNSUPPORTED, "torchtune cannot build it");
  CHECK(strstr(error.message, "no function that builds"), "%s", error.message);
  settings_clear(&s);
  CHECK(make(&s, &args, "axolotll") == PLIM_ERR_ARGUMENT && strstr(error.hint, "axolotl"), "%s",
        error.hint);
  settings_clear(&s);
}

TEST_MAIN
