#include "families.h"

#include <stdio.h>
#include <string.h>

#include "bert.h"
#include "gemma2.h"
#include "gpt2.h"
#include "gpt_neox.h"
#include "llama.h"
#include "mpnet.h"
#include "suggest.h"
#include "t5.h"

enum { MAX_FAMILIES = 64 };

// Defaults are those of transformers 5.17's configuration classes.
const plim_family plim_families[] = {
    {"bert",
     plim_bert_new,
     {.head = PLIM_HEAD_MASKED,
      .hidden = 768,
      .intermediate = 3072,
      .layers = 12,
      .heads = 12,
      .positions = 512,
      .token_types = 2,
      .vocabulary = 30522,
      .activation = PLIM_ACT_GELU,
      .dropout = 0.1,
      .attention_dropout = 0.1,
      .ties_embeddings = true,
      .has_position_table = true}},
    {"gemma2",
     plim_gemma2_new,
     {.hidden = 2304,
      .intermediate = 9216,
      .layers = 26,
      .heads = 8,
      .kv_heads = 4,
      .head_dim = 256,
      .vocabulary = 256000,
      .positions = 8192,
      .activation = PLIM_ACT_GELU,
      .attention_softcap = 50,
      .final_softcap = 30,
      .sliding_window = 4096,
      .windows = PLIM_WINDOWS_ALTERNATE,
      .ties_embeddings = true,
      .keeps_mask_arguments = true}},
    {"gpt2",
     plim_gpt2_new,
     {.hidden = 768,
      .layers = 12,
      .heads = 12,
      .positions = 1024,
      .vocabulary = 50257,
      .activation = PLIM_ACT_NEW_GELU,
      .dropout = 0.1,
      .attention_dropout = 0.1,
      .embedding_dropout = 0.1,
      .ties_embeddings = true,
      .has_position_table = true}},
    {"gpt_neox",
     plim_gpt_neox_new,
     {.hidden = 6144,
      .intermediate = 24576,
      .layers = 44,
      .heads = 64,
      .vocabulary = 50432,
      .activation = PLIM_ACT_GELU,
      .rotary_share = 0.25,
      .has_attention_bias = true}},
    {"llama",
     plim_llama_new,
     {.hidden = 4096,
      .intermediate = 11008,
      .layers = 32,
      .heads = 32,
      .vocabulary = 32000,
      .activation = PLIM_ACT_SILU}},
    {"mistral",
     plim_llama_new,
     {.hidden = 4096,
      .intermediate = 14336,
      .layers = 32,
      .heads = 32,
      .kv_heads = 8,
      .vocabulary = 32000,
      .activation = PLIM_ACT_SILU,
      .sliding_window = 4096,
      .windows = PLIM_WINDOWS_EVERYWHERE,
      .passes_positions_first = true}},
    {"mixtral",
     plim_llama_new,
     {.hidden = 4096,
      .intermediate = 14336,
      .layers = 32,
      .heads = 32,
      .kv_heads = 8,
      .vocabulary = 32000,
      .activation = PLIM_ACT_SILU,
      .experts = 8,
      .experts_per_token = 2,
      .windows = PLIM_WINDOWS_EVERYWHERE,
      .passes_positions_first = true}},
    {"mpnet",
     plim_mpnet_new,
     {.head = PLIM_HEAD_MASKED,
      .hidden = 768,
      .intermediate = 3072,
      .layers = 12,
      .heads = 12,
      .positions = 512,
      .relative_buckets = 32,
      .vocabulary = 30527,
      .activation = PLIM_ACT_GELU,
      .dropout = 0.1,
      .attention_dropout = 0.1,
      .ties_embeddings = true,
      .position_offset = 2,
      .cannot_checkpoint = true,
      .has_position_table = true}},
    {"phi3",
     plim_llama_new,
     {.hidden = 3072,
      .intermediate = 8192,
      .layers = 32,
      .heads = 32,
      .vocabulary = 32064,
      .activation = PLIM_ACT_SILU,
      .positions = 4096,
      .original_positions = 4096,
      .rotary_share = 1,
      .windows = PLIM_WINDOWS_EVERYWHERE,
      .has_fused_projections = true,
      .passes_positions_first = true}},
    {"qwen2",
     plim_llama_new,
     {.hidden = 4096,
      .intermediate = 22016,
      .layers = 32,
      .heads = 32,
      .kv_heads = 32,
      .vocabulary = 151936,
      .activation = PLIM_ACT_SILU,
      .has_qkv_bias = true,
      .sliding_window = 4096,
      .first_window_layer = 28,
      .windows = PLIM_WINDOWS_LATE,
      .keeps_mask_arguments = true}},
    {"qwen3",
     plim_llama_new,
     {.hidden = 4096,
      .intermediate = 22016,
      .layers = 32,
      .heads = 32,
      .kv_heads = 32,
      .head_dim = 128,
      .vocabulary = 151936,
      .activation = PLIM_ACT_SILU,
      .has_qk_norm = true,
      .sliding_window = 4096,
      .first_window_layer = 28,
      .windows = PLIM_WINDOWS_LATE,
      .keeps_mask_arguments = true}},
    {"roberta",
     plim_bert_new,
     {.head = PLIM_HEAD_MASKED,
      .hidden = 768,
      .intermediate = 3072,
      .layers = 12,
      .heads = 12,
      .positions = 512,
      .token_types = 2,
      .vocabulary = 50265,
      .activation = PLIM_ACT_GELU,
      .dropout = 0.1,
      .attention_dropout = 0.1,
      .ties_embeddings = true,
      .counts_positions = true,
      .position_offset = 2,
      .has_position_table = true}},
    {"t5",
     plim_t5_new,
     {.hidden = 512,
      .intermediate = 2048,
      .layers = 6,
      .heads = 8,
      .head_dim = 64,
      .vocabulary = 32128,
      .relative_buckets = 32,
      .activation = PLIM_ACT_RELU,
      .dropout = 0.1,
      .ties_embeddings = true,
      .is_encoder_decoder = true}},
};

const size_t plim_family_count = sizeof plim_families / sizeof *plim_families;

// gemma and gemma2 are two families, not one and a slip.
static bool has_same_digits(const char *a, const char *b) {
  static const char digits[] = "0123456789";
  for (;; a++, b++) {
    a += strcspn(a, digits), b += strcspn(b, digits);
    if (*a != *b || !*a) return *a == *b;
  }
}

plim_err plim_config_init(plim_config *c, const char *model_type, plim_error *error) {
  const char *names[MAX_FAMILIES];
  char list[sizeof error->hint - 64] = "";
  size_t used = 0;
  for (size_t i = 0; i < plim_family_count && i < MAX_FAMILIES; i++) {
    const plim_family *f = &plim_families[i];
    names[i] = f->model_type;
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", f->model_type);
    if (strcmp(f->model_type, model_type) != 0) continue;
    *c = f->defaults;
    c->family = f;
    return PLIM_OK;
  }
  const char *close = plim_suggest(model_type, names, plim_family_count);
  if (close && !has_same_digits(close, model_type)) close = NULL;
  plim_err err = plim_fail(
      error, PLIM_ERR_UNSUPPORTED, "model_type \"%.64s\" is not supported yet%s%s%s", model_type,
      close ? "; did you mean \"" : "", close ? close : "", close ? "\"?" : "");
  plim_error_hint(
      error, "supported: %s. For other models, record a memory snapshot and run plimsoll replay",
      list);
  return err;
}
