// Models are found by other names than their own.
#include <string.h>

#include "model_config.h"
#include "model_names.h"
#include "test.h"

static bool is(const char *what, const char *id) {
  const plim_catalogue_model *found = plim_model_called(what);
  return id ? found && strcmp(found->id, id) == 0 : !found;
}

TEST(mirrors_and_folders_are_found_by_their_names) {
  CHECK(is("unsloth/Llama-3.2-1B", "meta-llama/Llama-3.2-1B"), "a mirror");
  CHECK(is("NousResearch/Meta-Llama-3-8B", "meta-llama/Meta-Llama-3-8B"), "a mirror");
  CHECK(is("/tmp/gemma-2-2b/", "google/gemma-2-2b"), "a folder");
  CHECK(is("models/base/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B"), "below others");
  CHECK(is("Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-4B"), "of another month");
  CHECK(is("x/llama-3-70b-fp16", "meta-llama/Meta-Llama-3-70B"), "another type");
  CHECK(is("unsloth/llama-3.2-1b-unsloth-bnb-4bit", "meta-llama/Llama-3.2-1B"), "in 4 bits");
  CHECK(is("unsloth/phi-4-unsloth-bnb-4bit", "unsloth/phi-4"), "the owner's own version");
  CHECK(is("unsloth/mistral-7b-bnb-4bit", "mistralai/Mistral-7B-v0.1"), "the owner's own version");
  CHECK(is("x/Llama-2-7B-GPTQ", "meta-llama/Llama-2-7b-hf"), "quantised");
  CHECK(is("x/Meta-Llama-3.1-405B-BNB-NF4-BF16", "meta-llama/Llama-3.1-405B"), "two endings");
  CHECK(is("Qwen/Qwen3-4B-Thinking-2507", "Qwen/Qwen3-4B"), "of another month");
  CHECK(is("unsloth/Mistral-Small-Instruct-2409", "mistralai/Mistral-Small-Instruct-2409"),
        "not that of 2501");
  CHECK(is("unsloth/Mistral-Small-Instruct-2602", NULL), "of no known size");
  CHECK(is("models/llama3-8b-pro", NULL), "more layers than the base");
  CHECK(is("Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B"), "with experts");
  CHECK(is("Qwen/Qwen3-VL-30B-A3B-Instruct", "Qwen/Qwen3-VL-30B-A3B-Instruct"), "with vision");
  CHECK(is("Qwen/Qwen3-VL-7B-A1B-Instruct", NULL), "not in the catalogue");
  CHECK(is("/", NULL) && is("", NULL), "nothing");
}

TEST(quantised_checkpoints_are_known_by_their_names) {
  static const struct {
    const char *name, *method;
    int bits;
  } cases[] = {
      {"unsloth/llama-3.2-1b-unsloth-bnb-4bit", "bitsandbytes", 4},
      {"hugging-quants/Meta-Llama-3.1-405B-BNB-NF4-BF16", "bitsandbytes", 4},
      {"TechxGenus/Meta-Llama-3-8B-Instruct-GPTQ", "gptq", 4},
      {"x/Qwen2.5-7B-Instruct-GPTQ-Int8", "gptq", 8},
      {"x/Qwen2.5-7B-Instruct-AWQ", "awq", 4},
      {"x/llama-3-70b-fp16", NULL, 0},
      {"Qwen/Qwen2.5-7B", NULL, 0},
      {"", NULL, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int bits;
    const char *method = plim_model_quantization(cases[i].name, &bits), *want = cases[i].method;
    CHECK(want ? method && strcmp(method, want) == 0 : !method, "%s: %s", cases[i].name,
          method ? method : "none");
    CHECK(bits == cases[i].bits, "%s: %d bits", cases[i].name, bits);
  }
}

TEST(a_fine_tune_is_a_question) {
  plim_model_source source;
  plim_error error = {0};
  CHECK(plim_model_find("someone/Llama-3.1-8B-Stories", &source, &error), "it is assumed");
  CHECK(strstr(error.hint, "same shape as meta-llama/Llama-3.1-8B? then add --model llama-3.1-8b"),
        "%s", error.hint);
  CHECK(strstr(error.hint, "add --fetch to download its config.json"), "%s", error.hint);
  CHECK(plim_model_find("models/llama3-8b-pro", &source, &error), "it is assumed");
  CHECK(strstr(error.hint, "same shape as meta-llama/Meta-Llama-3-8B?"), "%s", error.hint);
  CHECK(!strstr(error.hint, "download"), "%s", error.hint);
}

TEST(the_note_names_the_assumed_model) {
  plim_model_source source;
  plim_error error = {0};
  CHECK(!plim_model_find("unsloth/llama-3.2-1b-bnb-4bit", &source, &error), "%s", error.message);
  CHECK(strstr(source.note, "the shape of meta-llama/Llama-3.2-1B, by its name"), "%s",
        source.note);
  CHECK(source.quantized_bits == 4, "%d", source.quantized_bits);
  CHECK(plim_model_find("/no/such/folder", &source, &error), "it is not here");
  CHECK(!strstr(error.hint, "download"), "%s", error.hint);
  CHECK(plim_model_find("google/recurrentgemma-9b-it", &source, &error), "another model");
  CHECK(!strstr(error.message, "did you mean"), "%s", error.message);
  CHECK(strstr(error.message, "not supported yet: recurrent_gemma"), "%s", error.message);
  CHECK(plim_model_find("models/llama3-8b-pro", &source, &error), "it is not here");
  CHECK(!strstr(error.hint, "download"), "a folder: %s", error.hint);
}

TEST(the_note_names_adapters_that_the_checkpoint_has) {
  plim_model_source source;
  CHECK(!plim_model_find("alignment-handbook/zephyr-7b-sft-qlora", &source, NULL), "known");
  CHECK(strstr(source.note, "checkpoint of adapters for mistralai/Mistral-7B-v0.1"), "%s",
        source.note);
  CHECK(!plim_model_find("alignment-handbook/zephyr-7b-sft-full", &source, NULL) && !*source.note,
        "%s", source.note);
}

TEST(the_note_says_what_is_not_confirmed) {
  plim_model_source source;
  plim_error error = {0};
  CHECK(!plim_model_find("glm-4.7", &source, &error), "%s", error.message);
  CHECK(strstr(source.note, "not every size of zai-org/GLM-4.7 is confirmed"), "%s", source.note);
  CHECK(!plim_model_find("someone/GLM-4.7-bnb-4bit", &source, &error), "%s", error.message);
  CHECK(strstr(source.note, "by its name, of which not every size is confirmed"), "%s",
        source.note);
  CHECK(!plim_model_find("glm-4.5", &source, &error), "%s", error.message);
  CHECK(!*source.note, "%s", source.note);
}

TEST(keys_called_model_mean_only_models_of_transformers) {
  static const char *const meant[] = {"Qwen/Qwen2.5-7B", "bert-large-uncased", "nobody/knows",
                                      "gemma-2b", "/tmp/gemma-2-2b/"};
  static const char *const others[] = {
      "llama", "nets.Encoder", "resnet50", "model.yaml", "checkpoints/last.pt",
      "",      "models/x",     "a b/c",    "/data/mine"};
  for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
    CHECK(plim_model_is_meant(meant[i]), "%s is one", meant[i]);
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    CHECK(!plim_model_is_meant(others[i]), "\"%s\" is none", others[i]);
}

static bool builds(const char *function, const char *model) {
  char name[96];
  bool ok = plim_model_of_builder(function, name, sizeof name);
  return model ? ok && strcmp(name, model) == 0 : !ok;
}

TEST(builders_name_models) {
  CHECK(builds("torchtune.models.llama3_1.lora_llama3_1_8b", "llama3.1-8b"), "adapters");
  CHECK(builds("torchtune.models.llama3.qlora_llama3_8b", "llama3-8b"), "in 4 bits");
  CHECK(builds("torchtune.models.qwen2_5.qwen2_5_0_5b", "qwen2.5-0.5b"), "points");
  CHECK(builds("torchtune.models.qwen3.qwen3_1_7b_instruct", "qwen3-1.7b-instruct"), "instruct");
  CHECK(builds("torchtune.models.phi4.qlora_phi4_14b", "torchtune/phi4_14b"), "split layers");
  CHECK(builds("torchtune.models.phi3.lora_phi3_mini", "torchtune/phi3_mini"), "split layers");
  CHECK(builds("torchtune.models.smol.smollm2_1_7b", "smollm2-1.7b"), "another name");
  CHECK(builds("torchtune.models.llama2.llama2", NULL), "of any size");
  CHECK(builds("my.models.llama3.llama3_8b", NULL), "one's own");
  CHECK(builds("torchtune.models.x", NULL) && builds("", NULL), "none");
}

static bool has_tables(const char *function, int64_t positions, int64_t widths, bool each) {
  plim_builder_tables t;
  plim_tables_of_builder(function, &t);
  return t.positions == positions && t.widths == widths && t.is_of_each_layer == each;
}

// Counted in the buffers of torchtune 0.7's models.
TEST(builders_say_which_tables_of_positions_there_are) {
#define TUNE "torchtune.models."
  CHECK(has_tables(TUNE "qwen3.lora_qwen3_8b_instruct", 40960, 2, true), "one for each layer");
  CHECK(has_tables(TUNE "qwen3.qlora_qwen3_8b_base", 32768, 2, true), "a shorter one");
  CHECK(has_tables(TUNE "qwen3.qwen3_8b_instruct", 40960, 2, false), "one for all layers");
  CHECK(has_tables(TUNE "qwen2_5.lora_qwen2_5_14b_base", 131072, 2, true), "base is longer");
  CHECK(has_tables(TUNE "qwen2_5.lora_qwen2_5_3b", 32768, 2, true), "but not here");
  CHECK(has_tables(TUNE "llama3_1.lora_llama3_1_8b", 131072, 1, false), "shared by all layers");
  CHECK(has_tables(TUNE "llama3.lora_llama3_8b", 8192, 1, true), "not before 3.1");
  CHECK(has_tables(TUNE "llama4.lora_llama4_scout_17b_16e", 10485760, 1, false), "llama4");
  CHECK(has_tables(TUNE "phi4.lora_phi4_14b", 16384, 2, true), "phi4");
  CHECK(has_tables("my.models.llama3.lora_llama3_8b", 0, 0, false), "one's own");
#undef TUNE
}

// Every builder of a language model of torchtune 0.6 is a model that is known, or one of a family that is refused by name.
TEST(all_builders_of_torchtune_are_known) {
  static const char *const builders[] = {"gemma.gemma_2b",
                                         "gemma.gemma_7b",
                                         "gemma2.gemma2_2b",
                                         "gemma2.gemma2_9b",
                                         "gemma2.gemma2_27b",
                                         "llama2.llama2_7b",
                                         "llama2.llama2_13b",
                                         "llama2.llama2_70b",
                                         "llama3.llama3_8b",
                                         "llama3.llama3_70b",
                                         "llama3_1.llama3_1_8b",
                                         "llama3_1.llama3_1_70b",
                                         "llama3_1.llama3_1_405b",
                                         "llama3_2.llama3_2_1b",
                                         "llama3_2.llama3_2_3b",
                                         "llama3_2_vision.llama3_2_vision_11b",
                                         "llama3_2_vision.llama3_2_vision_90b",
                                         "llama4.llama4_scout_17b_16e",
                                         "llama4.llama4_maverick_17b_128e",
                                         "mistral.mistral_7b",
                                         "phi3.phi3_mini",
                                         "phi4.phi4_14b",
                                         "qwen2.qwen2_7b",
                                         "qwen2.qwen2_0_5b",
                                         "qwen2.qwen2_1_5b",
                                         "qwen2_5.qwen2_5_0_5b",
                                         "qwen2_5.qwen2_5_1_5b_base",
                                         "qwen2_5.qwen2_5_1_5b_instruct",
                                         "qwen2_5.qwen2_5_3b",
                                         "qwen2_5.qwen2_5_7b_base",
                                         "qwen2_5.qwen2_5_7b_instruct",
                                         "qwen2_5.qwen2_5_14b_base",
                                         "qwen2_5.qwen2_5_14b_instruct",
                                         "qwen2_5.qwen2_5_32b_base",
                                         "qwen2_5.qwen2_5_32b_instruct",
                                         "qwen2_5.qwen2_5_72b_base",
                                         "qwen2_5.qwen2_5_72b_instruct",
                                         "qwen3.qwen3_0_6b_base",
                                         "qwen3.qwen3_0_6b_instruct",
                                         "qwen3.qwen3_1_7b_base",
                                         "qwen3.qwen3_1_7b_instruct",
                                         "qwen3.qwen3_4b_base",
                                         "qwen3.qwen3_4b_instruct",
                                         "qwen3.qwen3_8b_base",
                                         "qwen3.qwen3_8b_instruct",
                                         "qwen3.qwen3_14b_base",
                                         "qwen3.qwen3_14b_instruct",
                                         "qwen3.qwen3_32b",
                                         "smol.smollm2_135m",
                                         "smol.smollm2_360m",
                                         "smol.smollm2_1_7b"};
  for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
    char function[96], name[96];
    plim_model_source source;
    plim_error error = {0};
    snprintf(function, sizeof function, "torchtune.models.%s", builders[i]);
    CHECK(plim_model_of_builder(function, name, sizeof name), "%s", function);
    plim_err err = plim_model_find(name, &source, &error);
    CHECK(!err || strstr(error.message, "not supported yet"), "%s: %s", name, error.message);
  }
}

TEST_MAIN
