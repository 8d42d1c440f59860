// Findings of the pre-flight list about whether the run fits, and what is needed to know it: they appear only if they
// are true, with the place and what to type.
#include "checking.h"

static void given_lora(void) {
  given("train.yaml", "base_model: Qwen/Qwen2.5-7B\nmicro_batch_size: 2\nsequence_len: 2048\n"
                      "gradient_accumulation_steps: 8\nadapter: lora\nlora_r: 16\n"
                      "lora_target_linear: true\ndatasets:\n  - path: x\n");
}

TEST(check_says_whether_it_fits) {
  begin();
  given_lora();
  c.gpu = "80GiB";
  GO();
  CHECK_FOUND("fit", CHECK_OK);
  begin();
  given_lora();
  c.gpu = "16GiB";
  GO();
  CHECK_FOUND("fit", CHECK_FAILS);
  CHECK_SAYS(found("fit")->fix, "plimsoll plan ");
  CHECK_SAYS(found("fit")->fix, "--gpu \"16GiB\"");
  begin();
  given_lora();
  c.gpu = "8GiB";
  c.world = 8;
  GO();
  CHECK_SAYS(found("fit")->fix, "--world 8");
}

// If the length is assumed, the verdict is not certain, unless the shortest texts do not fit either.
TEST(check_of_an_unknown_length) {
  begin();
  given("train.py", trainer);
  c.model = "llama-3.1-8b";
  c.gpu = "16GiB";
  GO();
  CHECK_FOUND("fit", CHECK_FAILS);
  CHECK_SAYS(found("fit")->what, "does not fit at any sequence length: with 16 tokens");
  begin();
  given("train.py", trainer);
  c.model = "llama-3.1-8b";
  c.gpu = "64GiB";
  GO();
  CHECK_FOUND("fit", CHECK_WARNING);
  CHECK_SAYS(found("fit")->what, "would not fit with the assumed 2048 tokens: needs ");
  CHECK_SAYS(found("fit")->fix,
             "set the sequence length (--set sequence=FILE:KEY), or plimsoll plan");
  CHECK_STR(c.fit, "sequence length unknown");
}

// The command has every file and option that was typed, whole and quoted, and no file that is found from them.
TEST(check_suggests_a_whole_command) {
  char name[2][200], want[2048], set[512];
  for (int i = 0; i < 2; i++) {
    memset(name[i], 'a' + i, sizeof name[i]);
    strcpy(name[i] + sizeof name[i] - 11, " name.yaml");
  }
  begin();
  given("import.py", "import found\n");
  given("found.py", "x = 1\n");
  file_count--;
  given(name[0], "per_device_train_batch_size: 64\nmax_length: 8192\noutput_dir: o\n"
                 "learning_rate: 1.0e-4\nmodel_name_or_path: qwen2.5-7b\n");
  given(name[1], "x: 1\n");
  snprintf(set, sizeof set, "micro_batch=%s:per_device_train_batch_size", files[1]);
  const char *typed[] = {set};
  c.model = "qwen2.5-7b";
  c.gpu = "24GiB";
  snprintf(
      want, sizeof want,
      "plimsoll plan %s '%s' '%s' --set '%s' --model qwen2.5-7b --gpu \"24GiB\" --out plan.json",
      files[0], files[1], files[2], set);
  const cli_strings sets = {.at = typed, .len = 1};
  const project_input in = {.files = files, .count = file_count, .sets = &sets};
  CHECK(!check_read(&c, &in, &error), "%s", error.message);
  CHECK(!check_all(&c, NULL), "out of memory");
  CHECK_FOUND("fit", CHECK_FAILS);
  CHECK_STR(found("fit")->fix, want);
  folder_remove();
}

TEST(check_names_settings_without_effect) {
  begin();
  given("train.yaml", "model_name_or_path: microsoft/mpnet-base\noutput_dir: o\nmax_length: 128\n"
                      "learning_rate: 1.0e-4\nper_device_train_batch_size: 2\n"
                      "gradient_checkpointing: true\n");
  c.gpu = "24GiB";
  GO();
  CHECK_FOUND("fit.no_effect", CHECK_NOTE);
  CHECK_SAYS(found("fit.no_effect")->what, "checkpoint, which your files set, has no effect");
  CHECK(found("fit.no_effect")->line == 6, "line %d", found("fit.no_effect")->line);
}

TEST(check_of_an_unknown_model) {
  begin();
  given_axolotl(1, "");
  c.model = "no/such-model";
  GO();
  CHECK_FOUND("fit.unknown", CHECK_NOTE);
}

TEST(check_of_sharding_over_unknown_gpus) {
  begin();
  given_axolotl(1, "fsdp_version: 2\nfsdp_config:\n  offload_params: false\n");
  GO();
  CHECK_FOUND("fit.assumed", CHECK_NOTE);
  CHECK_SAYS(found("fit.assumed")->what, "assuming 8");
}

TEST(check_of_bf16_on_a_card_without_it) {
  begin();
  c.gpu = "T4";
  given("train.py", trainer);
  GO();
  CHECK_FOUND("precision.emulated", CHECK_WARNING);
  CHECK_SAYS(found("precision.emulated")->fix, "fp16");
  CHECK(found("precision.emulated")->line == 4, "where it is said");
}

TEST(check_of_bf16_on_a_card_that_has_it) {
  begin();
  put_card(24000);
  given("train.py", trainer);
  GO();
  CHECK_NOT_FOUND("precision.emulated");
}

TEST_MAIN
