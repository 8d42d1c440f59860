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

// If the length is assumed, the verdict is not certain.
TEST(check_of_an_unknown_length) {
  begin();
  given("train.py", trainer);
  c.model = "llama-3.1-8b";
  c.gpu = "16GiB";
  GO();
  CHECK_FOUND("fit", CHECK_WARNING);
  CHECK_SAYS(found("fit")->what, "would not fit with the assumed 2048 tokens: needs ");
  CHECK_SAYS(found("fit")->fix,
             "set the sequence length (--set sequence=FILE:KEY), or plimsoll plan");
  CHECK_STR(c.fit, "sequence length unknown");
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
  CHECK_FOUND("fit.unknown", CHECK_NOTE);
  CHECK_SAYS(found("fit.unknown")->fix, "--world");
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
