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
  CHECK(is("models/llama3-8b-pro", NULL), "more layers than the base");
  CHECK(is("Qwen/Qwen3-30B-A3B-Instruct-2507", NULL), "not in the catalogue");
  CHECK(is("/", NULL) && is("", NULL), "nothing");
}

TEST(the_note_names_the_assumed_model) {
  plim_model_source source;
  plim_error error = {0};
  CHECK(!plim_model_find("unsloth/llama-3.2-1b-bnb-4bit", &source, &error), "%s", error.message);
  CHECK(strstr(source.note, "is meta-llama/Llama-3.2-1B, by its name"), "%s", source.note);
  CHECK(source.quantized_bits == 4, "%d", source.quantized_bits);
  CHECK(plim_model_find("/no/such/folder", &source, &error), "it is not here");
  CHECK(!strstr(error.hint, "download"), "%s", error.hint);
  CHECK(plim_model_find("google/gemma-3-12b-it", &source, &error), "another model");
  CHECK(!strstr(error.message, "did you mean"), "%s", error.message);
  CHECK(strstr(error.message, "not supported yet: gemma3"), "%s", error.message);
  CHECK(plim_model_find("models/llama3-8b-pro", &source, &error), "it is not here");
  CHECK(!strstr(error.hint, "download"), "a folder: %s", error.hint);
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
  CHECK(builds("torchtune.models.llama2.llama2", NULL), "of any size");
  CHECK(builds("my.models.llama3.llama3_8b", NULL), "one's own");
  CHECK(builds("torchtune.models.x", NULL) && builds("", NULL), "none");
}

TEST_MAIN
