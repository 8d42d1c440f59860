// Models that are well known, and whose family is no program on the tape: a name is enough to say so.
#include <string.h>

#include "catalogue.h"

enum { NAME_BYTES = 96 };

// How their names begin, without the owner: small letters, "-" between words, # for a digit. The family is
// the model_type that transformers loads them as; NULL: one that is followed, in spite of the rows below.
static const struct {
  const char *begins, *family;
} others[] = {
    {"recurrentgemma-", "recurrent_gemma"},
    {"gemma-3n-", "gemma3n"},
    {"paligemma", "paligemma"},
    {"qwen2.5-omni-", "qwen2_5_omni"},
    {"dbrx-", "dbrx"},
    {"stablelm-2-12b", "stablelm with norms of queries and keys"},
    {"phi-3.5-moe", "phimoe"},
    {"phi-3-vision", "phi3_v"},
    {"phi-3.5-vision", "phi3_v"},
    {"opt-350m", "opt with norms after attention and MLP"},
    {"jamba-", "jamba"},
    {"deberta-v2-", "deberta-v2 with a convolution"},
    {"deberta-base", "deberta"},
    {"deberta-large", "deberta"},
    {"bart-", "bart"},
    {"mt5-", "mt5"},
    {"trinity-", "afmoe"},
    {"mimo-7b", "mimo"},
    {"glm-4.5v", "glm4v_moe"},
    {"glm-4.6v-flash", NULL},
    {"glm-4.6v", "glm4v_moe"},
    {"kimi-linear-", "kimi_linear"},
    {"kimi-k2", "deepseek_v3"},
    {"moss-vl-", "moss_vl"},
    {"c4ai-command-r-plus", "cohere with norms of queries and keys"},
    {"aya-vision-", "aya_vision"},
    {"btlm-", "btlm"},
    {"replit-code-", "replit_lm"},
    {"mamba-#", "mamba"},
    {"qwen-#", "qwen"},
    {"falcon-e-", "bitnet"},
    {"falcon-mamba-", "falcon_mamba"},
    {"internlm", "internlm2"},
    {"baichuan", "baichuan"},
    {"chatglm", "chatglm"},
    {"exaone-4.0-", NULL},
    {"exaone-", "exaone"},
    {"phi-4-multimodal", "phi4_multimodal"},
    {"ai21-jamba-", "jamba"},
    {"deepseek-v4-", "deepseek_v4"},
    {"bigbird-", "big_bird"},
    {"longformer-", "longformer"},
    {"xlnet-", "xlnet"},
    {"pegasus-", "pegasus"},
    {"mbart-", "mbart"},
    {"nllb-", "m2m_100"},
    {"opus-mt-", "marian"},
    {"layoutlmv#", "layoutlm"},
    {"trocr-", "vision-encoder-decoder"},
    {"donut-", "vision-encoder-decoder"},
    {"clip-vit-", "clip"},
    {"siglip", "siglip"},
    {"deit-", "deit"},
    {"beit-", "beit"},
    {"dinov#", "dinov2"},
    {"swin-", "swin"},
    {"swinv#", "swinv2"},
    {"convnext", "convnext"},
    {"resnet-", "resnet"},
    {"detr-", "detr"},
    {"mit-b#", "segformer"},
    {"hubert-", "hubert"},
    {"wavlm-", "wavlm"},
    {"w2v-bert-", "wav2vec2-bert"},
    {"mms-#", "wav2vec2"},
    {"distil-whisper", "whisper"},
    {"distil-large-v#", "whisper"},
    {"whisper-", "whisper"},
    {"wav2vec2-", "wav2vec2"},
    {"vit-", "vit"},
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
