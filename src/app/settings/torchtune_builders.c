#include "torchtune_builders.h"

#include <stdio.h>
#include <string.h>

// torchtune/models/*/_model_builders.py and _tokenizer.py, and training/checkpointing/_utils.py (ModelType).
typedef struct {
  const char *name; // of the module, with a dot
  const char *type, *tokenizer;
} module;

#define ONE_FILE(function)                                                                         \
  "  _component_: torchtune.models." function "\n"                                                 \
  "  path: model/tokenizer.model\n"
#define TWO_FILES(function)                                                                        \
  "  _component_: torchtune.models." function "\n"                                                 \
  "  path: model/vocab.json\n"                                                                     \
  "  merges_file: model/merges.txt\n"

static const module modules[] = {
    {"llama2.", "LLAMA2", ONE_FILE("llama2.llama2_tokenizer")},
    {"llama3.", "LLAMA3", ONE_FILE("llama3.llama3_tokenizer")},
    {"llama3_1.", "LLAMA3", ONE_FILE("llama3.llama3_tokenizer")},
    {"llama3_2.", "LLAMA3_2", ONE_FILE("llama3.llama3_tokenizer")},
    {"gemma.", "GEMMA", ONE_FILE("gemma.gemma_tokenizer")},
    {"gemma2.", "GEMMA2", ONE_FILE("gemma.gemma_tokenizer")},
    {"mistral.", "MISTRAL", ONE_FILE("mistral.mistral_tokenizer")},
    {"phi3.", "PHI3_MINI", ONE_FILE("phi3.phi3_mini_tokenizer")},
    {"phi4.", "PHI4",
     "  _component_: torchtune.models.phi4.phi4_tokenizer\n"
     "  vocab_path: model/vocab.json\n"
     "  merges_path: model/merges.txt\n"},
    {"qwen2.", "QWEN2", TWO_FILES("qwen2.qwen2_tokenizer")},
    {"qwen2_5.", "QWEN2", TWO_FILES("qwen2_5.qwen2_5_tokenizer")},
    {"qwen3.", "QWEN3", TWO_FILES("qwen3.qwen3_tokenizer")},
};

static const struct {
  const char *model, *function;
  bool has_variants; // for base and instruct models, with tables of other lengths
} builders[] = {
    {"llama-2-7b", "llama2.llama2_7b", false},
    {"llama-2-13b", "llama2.llama2_13b", false},
    {"llama-2-70b", "llama2.llama2_70b", false},
    {"llama-3-8b", "llama3.llama3_8b", false},
    {"llama-3-70b", "llama3.llama3_70b", false},
    {"llama-3.1-8b", "llama3_1.llama3_1_8b", false},
    {"llama-3.1-70b", "llama3_1.llama3_1_70b", false},
    {"llama-3.1-405b", "llama3_1.llama3_1_405b", false},
    {"llama-3.2-1b", "llama3_2.llama3_2_1b", false},
    {"llama-3.2-3b", "llama3_2.llama3_2_3b", false},
    {"gemma-2b", "gemma.gemma_2b", false},
    {"gemma-7b", "gemma.gemma_7b", false},
    {"gemma-2-2b", "gemma2.gemma2_2b", false},
    {"gemma-2-9b", "gemma2.gemma2_9b", false},
    {"gemma-2-27b", "gemma2.gemma2_27b", false},
    {"mistral-7b", "mistral.mistral_7b", false},
    {"torchtune/phi3_mini", "phi3.phi3_mini", false},
    {"torchtune/phi4_14b", "phi4.phi4_14b", false},
    {"qwen2-0.5b", "qwen2.qwen2_0_5b", false},
    {"qwen2-1.5b", "qwen2.qwen2_1_5b", false},
    {"qwen2-7b", "qwen2.qwen2_7b", false},
    {"qwen2.5-0.5b", "qwen2_5.qwen2_5_0_5b", false},
    {"qwen2.5-1.5b", "qwen2_5.qwen2_5_1_5b", true},
    {"qwen2.5-3b", "qwen2_5.qwen2_5_3b", false},
    {"qwen2.5-7b", "qwen2_5.qwen2_5_7b", true},
    {"qwen2.5-14b", "qwen2_5.qwen2_5_14b", true},
    {"qwen2.5-32b", "qwen2_5.qwen2_5_32b", true},
    {"qwen2.5-72b", "qwen2_5.qwen2_5_72b", true},
    {"qwen3-0.6b", "qwen3.qwen3_0_6b", true},
    {"qwen3-1.7b", "qwen3.qwen3_1_7b", true},
    {"qwen3-4b", "qwen3.qwen3_4b", true},
    {"qwen3-8b", "qwen3.qwen3_8b", true},
    {"qwen3-14b", "qwen3.qwen3_14b", true},
    {"qwen3-32b", "qwen3.qwen3_32b", false},
};

enum { NONE = -1 };

static int builder_of(const char *model) {
  const plim_catalogue_model *known = plim_catalogue_named(model);
  for (size_t i = 0; known && i < sizeof builders / sizeof *builders; i++)
    if (strcmp(builders[i].model, known->name) == 0) return (int)i;
  return NONE;
}

static const module *module_of(const char *model) {
  int at = builder_of(model);
  for (size_t i = 0; at != NONE && i < sizeof modules / sizeof *modules; i++)
    if (strncmp(modules[i].name, builders[at].function, strlen(modules[i].name)) == 0)
      return &modules[i];
  return NULL;
}

// Qwen3's models without "Base" in their names are the instruct ones; of Qwen2.5 those with "Instruct".
static const char *variant_of(const char *model, int at) {
  if (!builders[at].has_variants) return "";
  const plim_catalogue_model *known = plim_catalogue_named(model);
  bool is_instruct = strcasestr(model, "instruct") != NULL;
  bool is_qwen3 = strncmp(builders[at].function, "qwen3.", 6) == 0;
  if (is_qwen3) is_instruct = !strcasestr(model, "base") && !strcasestr(known->id, "base");
  return is_instruct ? "_instruct" : "_base";
}

bool torchtune_builder(const char *model, bool adapts, char *out, size_t size) {
  int at = builder_of(model);
  if (at == NONE) return false;
  const char *function = builders[at].function, *name = strchr(function, '.') + 1;
  int n = snprintf(out, size, "%.*s%s%s%s", (int)(name - function), function, adapts ? "lora_" : "",
                   name, variant_of(model, at));
  return n >= 0 && (size_t)n < size;
}

const char *torchtune_tokenizer(const char *model) {
  const module *m = module_of(model);
  return m ? m->tokenizer : NULL;
}

const char *torchtune_type(const char *model) {
  const module *m = module_of(model);
  return m ? m->type : NULL;
}
