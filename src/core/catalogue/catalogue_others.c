// Models that are well known, and whose family is no program on the tape: a name is enough to say so.
#include <string.h>

#include "catalogue.h"

enum { NAME_BYTES = 96 };

// How their names begin, without the owner: small letters, "-" between words, # for a digit. The family is
// the model_type that transformers loads them as; NULL: one that is followed, in spite of the rows below.
static const struct {
  const char *begins, *family;
} others[] = {
    {"gemma-2b", "gemma"},
    {"gemma-7b", "gemma"},
    {"gemma-1.1-", "gemma"},
    {"codegemma-", "gemma"},
    {"recurrentgemma-", "recurrent_gemma"},
    {"gemma-3-270m", "gemma3_text"},
    {"gemma-3-1b", "gemma3_text"},
    {"gemma-3-", "gemma3"},
    {"gemma3-", "gemma3"},
    {"gemma-3n-", "gemma3n"},
    {"paligemma", "paligemma"},
    {"llama-4-", "llama4"},
    {"llama4-", "llama4"},
    {"llama-3.2-11b-vision", "mllama"},
    {"llama-3.2-90b-vision", "mllama"},
    {"llama3.2-vision", "mllama"},
    {"mistral-small-3.1-", "mistral3"},
    {"mistral-small-3.2-", "mistral3"},
    {"pixtral-12b", "llava"},
    {"qwen1.5-moe-", "qwen2_moe"},
    {"qwen2-57b-a14b", "qwen2_moe"},
    {"qwen2-vl-", "qwen2_vl"},
    {"qwen2.5-vl-", "qwen2_5_vl"},
    {"qwen2.5-omni-", "qwen2_5_omni"},
    {"qwen3-30b-a3b", "qwen3_moe"},
    {"qwen3-235b-a22b", "qwen3_moe"},
    {"qwen3-coder-30b-a3b", "qwen3_moe"},
    {"qwen3-coder-480b-a35b", "qwen3_moe"},
    {"qwen3-next-", "qwen3_next"},
    {"qwen3-vl-30b-a3b", "qwen3_vl_moe"},
    {"qwen3-vl-235b-a22b", "qwen3_vl_moe"},
    {"qwen3-vl-", "qwen3_vl"},
    {"deepseek-r1-distill-", NULL},
    {"deepseek-r1-0528-qwen3-", NULL},
    {"deepseek-r1", "deepseek_v3"},
    {"deepseek-v3", "deepseek_v3"},
    {"deepseek-v2", "deepseek_v2"},
    {"deepseek-coder-v2", "deepseek_v2"},
    {"gpt-oss-", "gpt_oss"},
    {"dbrx-", "dbrx"},
    {"mpt-#", "mpt"},
    {"stablelm-2-", "stablelm"},
    {"stablelm-3b-4e1t", "stablelm"},
    {"stablelm-zephyr-3b", "stablelm"},
    {"nemotron-h-", "nemotron_h"},
    {"nvidia-nemotron-nano-", "nemotron_h"},
    {"nvidia-nemotron-3-nano-", "nemotron_h"},
    {"phi-1", "phi"},
    {"phi-2", "phi"},
    {"phi-3.5-moe", "phimoe"},
    {"phi-3-vision", "phi3_v"},
    {"phi-3.5-vision", "phi3_v"},
    {"smollm3-", "smollm3"},
    {"falcon-7b", "falcon"},
    {"falcon-40b", "falcon"},
    {"falcon-180b", "falcon"},
    {"bloom-#", "bloom"},
    {"bloomz", "bloom"},
    {"opt-#", "opt"},
    {"gpt-j-6b", "gptj"},
    {"gpt-neo-#", "gpt_neo"},
    {"starcoder2-", "starcoder2"},
    {"starcoder", "gpt_bigcode"},
    {"starcoderbase", "gpt_bigcode"},
    {"jamba-", "jamba"},
    {"distilbert-", "distilbert"},
    {"deberta-v3-", "deberta-v2"},
    {"modernbert-", "modernbert"},
    {"xlm-roberta-", "xlm-roberta"},
    {"electra-", "electra"},
    {"bart-", "bart"},
    {"mt5-", "mt5"},
};

static char plain(char c) {
  if (c >= 'A' && c <= 'Z') return (char)(c - 'A' + 'a');
  return c == '_' || c == ' ' || c == ':' ? '-' : c;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_of_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z'); }

// "phi-2" begins "phi-2-chat" and not "phi-20": a row that ends in a word ends with it.
static bool begins(const char *name, const char *row) {
  for (; *row; row++, name++)
    if (*row == '#' ? !is_digit(*name) : *row != *name) return false;
  bool is_open = row[-1] == '-' || row[-1] == '#';
  return is_open || !is_of_word(*name);
}

const char *plim_catalogue_unfollowed(const char *model) {
  char name[NAME_BYTES];
  size_t size = strlen(model);
  while (size && model[size - 1] == '/') size--;
  size_t first = size;
  while (first && model[first - 1] != '/') first--;
  if (size - first >= sizeof name) return NULL;
  for (size_t i = first; i < size; i++) name[i - first] = plain(model[i]);
  name[size - first] = '\0';
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (begins(name, others[i].begins)) return others[i].family;
  return NULL;
}
