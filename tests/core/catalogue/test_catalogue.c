// Every model of the catalogue has exactly the published number of parameters when it is built on the tape, and is
// found by the names people use.
#include "catalogue_impl.h"
#include "family.h"
#include "test.h"

static void ignore(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  (void)context, (void)kind, (void)id, (void)bytes;
}

static uint64_t built_parameters(const plim_config *c) {
  plim_tape *t = plim_tape_new((plim_tape_sink){ignore, NULL});
  plim_model *m = t ? c->family->build(t, c, PLIM_BF16) : NULL;
  uint64_t count = 0;
  for (size_t i = 0; m && i < m->parameters.len; i++)
    count += (uint64_t)plim_numel(&m->parameters.at[i]->shape);
  plim_model_delete(m);
  plim_tape_delete(t);
  return count;
}

// Models of families that are not supported yet are skipped; the test prints how many.
TEST(catalogue_parameters_are_those_published) {
  size_t left_out = 0;
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    const plim_catalogue_model *model = &plim_catalogue[i];
    plim_config c;
    plim_error error = {0};
    plim_err err = plim_catalogue_config(model, &c, &error);
    bool has_no_program = err == PLIM_ERR_UNSUPPORTED && strstr(error.message, "model_type");
    left_out += has_no_program;
    if (has_no_program) continue;
    CHECK(!err, "%s: %s", model->name, error.message);
    uint64_t built = built_parameters(&c);
    CHECK(built == model->parameters, "%s: built %" PRIu64 ", published %" PRIu64, model->name,
          built, model->parameters);
  }
  printf("  %zu models, %zu of families without a program\n", plim_catalogue_count, left_out);
  CHECK(plim_catalogue_count >= 45 && left_out < plim_catalogue_count / 2, "%zu left out",
        left_out);
}

// Elements of the parameters that adapters leave to be trained; 0: there are no adapters for this family.
static uint64_t trained_elements(const plim_config *c, const plim_lora *lora) {
  plim_tape *t = plim_tape_new((plim_tape_sink){ignore, NULL});
  plim_model *m = t ? c->family->build(t, c, PLIM_BF16) : NULL;
  uint64_t count = 0;
  if (m && m->add_lora) m->add_lora(t, m, lora);
  for (size_t i = 0; m && m->add_lora && i < m->parameters.len; i++)
    count += (uint64_t)plim_numel(&m->parameters.at[i]->shape);
  plim_model_delete(m);
  plim_tape_delete(t);
  return count;
}

// Also where a tower for images or sound is built before the language model.
TEST(modules_to_save_embed_tokens_trains_the_table_of_tokens) {
  static const char *const multimodal[] = {"llama4-scout-17b-16e", "gemma-3-4b",
                                           "qwen2.5-vl-3b",        "qwen3-vl-4b",
                                           "pixtral-12b",          "llama-3.2-11b-vision"};
  static const char *const others[] = {"llama-3.2-1b", "gpt2", "pythia-160m", "t5-small"};
  static const struct {
    const char *const *names;
    size_t count;
  } groups[] = {{multimodal, sizeof multimodal / sizeof *multimodal},
                {others, sizeof others / sizeof *others}};
  for (size_t g = 0; g < 2; g++)
    for (size_t i = 0; i < groups[g].count; i++) {
      const char *name = groups[g].names[i];
      const plim_catalogue_model *model = plim_catalogue_named(name);
      plim_config c;
      plim_error error = {0};
      CHECK(model && !plim_catalogue_config(model, &c, &error), "%s: %s", name, error.message);
      plim_lora lora = {.rank = 8, .targets = PLIM_ALL_LINEAR};
      uint64_t without = trained_elements(&c, &lora);
      lora.saved = "embed_tokens";
      uint64_t rows = (uint64_t)c.vocabulary + (uint64_t)c.family->more_tokens;
      uint64_t more = trained_elements(&c, &lora) - without, table = rows * (uint64_t)c.hidden;
      CHECK(without && more == table, "%s: %" PRIu64 " more, a table of %" PRIu64, name, more,
            table);
    }
}

TEST(catalogue_names_are_unique) {
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    const plim_catalogue_model *model = &plim_catalogue[i];
    CHECK(plim_catalogue_named(model->id) == model, "%s", model->id);
    CHECK(plim_catalogue_named(model->name) == model, "%s", model->name);
  }
}

TEST(catalogue_is_found_by_what_people_type) {
  static const struct {
    const char *typed, *name;
  } cases[] = {
      {"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
      {"Llama-3.1-8B", "llama-3.1-8b"},
      {"LLAMA-3.1-8b", "llama-3.1-8b"},
      {"meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"},
      {"Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"},
      {"Qwen/Qwen3-8B-Base", "qwen3-8b"},
      {"mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"},
      {"mistralai/Mistral-7B-Instruct-v0.2", "mistral-7b"},
      {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
      {"bert-base-uncased", "bert-base"},
      {"all-MiniLM-L6-v2", "minilm-l6"},
      {"gpt2", "gpt2"},
      {"GPT-2", "gpt2"},
      {"tinyllama", "tinyllama-1.1b"},
      {"tiny llama", "tinyllama-1.1b"},
      {"TinyLlama-1.1B", "tinyllama-1.1b"},
      {"llama3.1-8b", "llama-3.1-8b"},
      {"llama3.1:8b", "llama-3.1-8b"},
      {"Llama 3.1 8B", "llama-3.1-8b"},
      {"llama3:8b", "llama-3-8b"},
      {"llama-3-8b", "llama-3-8b"},
      {"Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"},
      {"llama-3.3", "llama-3.3-70b"},
      {"qwen2.5:7b", "qwen2.5-7b"},
      {"qwen-2.5-7b-instruct", "qwen2.5-7b"},
      {"mistral 7b", "mistral-7b"},
      {"mistral:7b-instruct", "mistral-7b"},
      {"mixtral:8x7b", "mixtral-8x7b"},
      {"code-llama-7b", "codellama-7b"},
      {"Qwen/Qwen3-4B-Thinking", "qwen3-4b"},
      {"EleutherAI/pythia-1.4b-deduped", "pythia-1.4b"},
      {"Qwen/Qwen2-1.5B-Instruct", "qwen2-1.5b"},
      {"Qwen/Qwen2.5-Coder-7B-Instruct", "qwen2.5-7b"}, // published under another name
      {"qwen2.5-coder-7b", "qwen2.5-7b"},
      {"Qwen/Qwen2.5-7B-Instruct-1M", "qwen2.5-7b"},
      {"01-ai/Yi-1.5-9B-Chat", "yi-9b"},
      {"alignment-handbook/zephyr-7b-sft-full", "mistral-7b-v0.1"},
      {"deepcogito/cogito-v1-preview-llama-3B", "llama-3.2-3b"},
      {"unsloth/phi-4", "unsloth/phi-4"}, // with its owner only
      {"phi-4", "phi-4"},
      {"unsloth/mistral-7b", "mistral-7b-v0.1"},
      {"mistral-7b", "mistral-7b"},
      {"mistralai/Mistral-Small-Instruct-2409", "mistral-small-22b"},
      {"mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo"},
      {"Mistral-Small-24B-Instruct-2501", "mistral-small-24b"},
      {"phi3-mini", "phi-3-mini"},
      {"google/gemma-2-9b-it", "gemma-2-9b-it"},
      {"gemma2:9b", "gemma-2-9b"},
      {"bge-small-en", "bge-small"},
      {"tiny-llama", "tiny-llama"}, // a model of the tests, found by its exact name only
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const plim_catalogue_model *model = plim_catalogue_named(cases[i].typed);
    CHECK(model, "%s is not found", cases[i].typed);
    CHECK_STR(model->name, cases[i].name);
  }
}

TEST(catalogue_refuses_unknown_names) {
  static const char *const names[] = {"",
                                      "-",
                                      "instruct",
                                      "someone/llama-3.1-8b",
                                      "llama",
                                      "qwen2.5",
                                      "bert",
                                      "flan-t5",
                                      "phi-3",
                                      "deepseek-r1-distill",
                                      "mistralai/Mistral-7B-Instruct",
                                      "qwen2.5-7",
                                      "mixtral",
                                      "codellama",
                                      "Mistral-Small-Instruct",
                                      "Qwen2.5-Coder",
                                      "mixtral tiny"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    CHECK(!plim_catalogue_named(names[i]), "%s", names[i]);
  char long_name[300];
  memset(long_name, 'x', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  CHECK(!plim_catalogue_named(long_name) && !plim_catalogue_suggest(long_name), "found");
}

TEST(catalogue_lists_candidates_of_a_name) {
  const plim_catalogue_model *found[PLIM_MAX_MODELS];
  CHECK_U64(plim_catalogue_candidates("llama3", found), 2);
  CHECK_STR(found[0]->name, "llama-3-8b");
  CHECK_STR(found[1]->name, "llama-3-70b");
  CHECK_U64(plim_catalogue_candidates("phi-3-m", found), 3); // not phi-3.5
  CHECK_U64(plim_catalogue_candidates("flan-t5", found), 5);
  CHECK_U64(plim_catalogue_candidates("qwen2.5-7", found), 2);
  CHECK_U64(plim_catalogue_candidates("deepseek-r1-d", found), 2);
  CHECK_U64(plim_catalogue_candidates("", found), 0);
}

// The type that dtype="auto" loads, the default since transformers 5.
TEST(catalogue_types_are_those_loaded) {
  static const struct {
    const char *name;
    plim_dtype dtype;
  } cases[] = {{"llama-3.1-8b", PLIM_BF16}, {"llama-2-7b", PLIM_FP16},    {"pythia-12b", PLIM_FP16},
               {"gemma-2-2b", PLIM_FP32},   {"gemma-2-2b-it", PLIM_BF16}, {"gpt2", PLIM_FP32},
               {"flan-t5-xl", PLIM_FP32},   {"bert-base", PLIM_FP32},     {"qwen3-8b", PLIM_BF16}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    CHECK(plim_catalogue_named(cases[i].name)->dtype == cases[i].dtype, "%s", cases[i].name);
  for (size_t i = 0; i < plim_catalogue_count; i++)
    CHECK(plim_catalogue_is_public(&plim_catalogue[i]) ==
              (plim_catalogue[i].dtype != PLIM_DTYPE_COUNT),
          "%s", plim_catalogue[i].name);
}

TEST(catalogue_suggests_names_for_typos) {
  CHECK_STR(plim_catalogue_suggest("lama-3.1-8b"), "llama-3.1-8b");
  CHECK_STR(plim_catalogue_suggest("Qwen/Qwen2.5-7"), "Qwen/Qwen2.5-7B");
  CHECK(!plim_catalogue_suggest("stable-diffusion-xl-base-1.0"), "suggested");
}

// The longest name of a base wins; a name without one has none.
TEST(catalogue_finds_bases_in_names_of_fine_tunes) {
  static const struct {
    const char *name, *base;
  } cases[] = {
      {"someone/Llama-3.1-8B-Stories", "llama-3.1-8b"},
      {"someone/my-qwen2.5-7b-instruct-dpo-v2", "qwen2.5-7b"},
      {"models/llama3-8b-pro", "llama-3-8b"},
      {"x/Dolphin-2.9-Llama-3-8B", "llama-3-8b"},
      {"x/Mistral-7B-v0.1-tales", "mistral-7b-v0.1"},
      {"x/Llama-3.1-Tales-8B", "llama-3.1-8b"},
      {"x/Llama-3.1-Tales-9B", NULL},
      {"HuggingFaceH4/starchat2-15b-sft-v0.1", "starcoder2-15b"},
      {"x/llama-3.1-80b", NULL}, // not the 8b
      {"x/tales", NULL},
      {"", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const plim_catalogue_model *base = plim_catalogue_within(cases[i].name);
    CHECK(cases[i].base ? base && strcmp(base->name, cases[i].base) == 0 : !base, "%s: %s",
          cases[i].name, base ? base->name : "none");
    CHECK(!plim_catalogue_named(cases[i].name), "%s is assumed", cases[i].name);
  }
}

// Each name of a published model leads to a row, and no row has it.
TEST(catalogue_aliases_lead_to_rows) {
  for (size_t i = 0; i < plim_catalogue_alias_count; i++) {
    const plim_catalogue_alias *alias = &plim_catalogue_aliases[i];
    const plim_catalogue_model *model = plim_catalogue_named(alias->id);
    CHECK(model, "%s is not found", alias->id);
    CHECK_STR(model->name, alias->name);
    CHECK(!plim_catalogue_unfollowed(alias->id), "%s", alias->id);
  }
}

TEST(catalogue_knows_unsupported_families) {
  static const struct {
    const char *name, *family;
  } cases[] = {
      {"recurrentgemma-2b", "recurrent_gemma"},
      {"google/paligemma-3b-pt-224", "paligemma"},
      {"google/gemma-3-12b-it", NULL},
      {"google/gemma-2-2b", NULL},
      {"models/Mistral-Small-3.1-24B-Instruct-2503", NULL},
      {"mistralai/Mistral-Small-24B-Base-2501", NULL},
      {"stabilityai/stablelm-2-12b", "stablelm with norms of queries and keys"},
      {"stabilityai/stablelm-base-alpha-7b", NULL}, // gpt_neox
      {"deepseek-ai/DeepSeek-R1", NULL},
      {"deepseek-ai/DeepSeek-R1-Distill-Qwen-14B", NULL},
      {"tiiuae/falcon-7b", NULL},
      {"tiiuae/falcon-mamba-7b", "falcon_mamba"},
      {"microsoft/phi-1_5", NULL},
      {"x/phi-20b", NULL},
      {"facebook/opt-1.3b", NULL},
      {"facebook/opt-350m", "opt with norms after attention and MLP"},
      {"x/opt-out", NULL},
      {"EleutherAI/gpt-neo-125m", NULL},
      {"ai21labs/AI21-Jamba-1.5-Large", "jamba"},
      {"google/bigbird-roberta-base", "big_bird"},
      {"microsoft/deberta-v3-large", NULL},
      {"microsoft/deberta-v2-xlarge", "deberta-v2 with a convolution"},
      {"EleutherAI/gpt-neox-20b", NULL},
      {"/tmp/jamba-v0.1/", "jamba"},
      {"", NULL},
      {"/", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *family = plim_catalogue_unfollowed(cases[i].name), *want = cases[i].family;
    CHECK(want ? family && strcmp(family, want) == 0 : !family, "%s: %s", cases[i].name,
          family ? family : "none");
  }
}

TEST(catalogue_models_are_supported) {
  for (size_t i = 0; i < plim_catalogue_count; i++) {
    CHECK(!plim_catalogue_unfollowed(plim_catalogue[i].id), "%s", plim_catalogue[i].id);
    CHECK(!plim_catalogue_unfollowed(plim_catalogue[i].name), "%s", plim_catalogue[i].name);
  }
}

TEST(catalogue_keys_reach_the_configuration) {
  plim_config c;
  CHECK(!plim_catalogue_config(plim_catalogue_named("qwen3-4b"), &c, NULL), "qwen3-4b");
  CHECK(c.head_dim == 128 && c.kv_heads == 8 && c.ties_embeddings && !plim_config_slides(&c, 0),
        "qwen3-4b");
  CHECK(!plim_catalogue_config(plim_catalogue_named("Mistral-7B-v0.1"), &c, NULL), "mistral");
  CHECK(c.sliding_window == 4096, "mistral: window of %d", (int)c.sliding_window);
  CHECK(!plim_catalogue_config(plim_catalogue_named("mistral-7b"), &c, NULL), "mistral");
  CHECK(c.sliding_window == 0 && c.intermediate == 14336, "mistral");
  CHECK(!plim_catalogue_config(plim_catalogue_named("phi-4-mini"), &c, NULL), "phi");
  CHECK(c.rotary_share == 0.75, "phi: %f", c.rotary_share);
}

TEST(catalogue_refuses_an_unsupported_family) {
  static const plim_catalogue_model other = {
      "a/b", "b", 1, PLIM_HEAD_CAUSAL, PLIM_BF16, "model_type=mamba hidden_size=8"};
  plim_config c;
  plim_error error;
  CHECK(plim_catalogue_config(&other, &c, &error) == PLIM_ERR_UNSUPPORTED, "accepted");
  CHECK(strstr(error.message, "\"mamba\""), "%s", error.message);
}

TEST_MAIN
