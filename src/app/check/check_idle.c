// Checks for settings without effect because the setting that turns them on is missing.
#include <string.h>

#include "check.h"

static bool is_set(const check *c, const char *key, check_place *at) {
  return check_find(c, key, at) && at->value.kind != PLIM_VALUE_NULL;
}

// ---- adapters ---------------------------------------------------------------------------------------

// Axolotl's `adapter`, which means no adapter if it has no value; TRL's ModelConfig, unless the user's script reads a key
// of the same name.
static const char *missing_adapter(const check *c) {
  check_place at;
  plim_dialect d = c->files.project.dialect;
  if (d == PLIM_DIALECT_AXOLOTL) return check_find(c, "adapter", &at) ? NULL : "adapter: lora";
  if (d != PLIM_DIALECT_TRL || plim_project_has_script(&c->files.project)) return NULL;
  return check_find(c, "use_peft", &at) ? NULL : "--use_peft, or use_peft: true";
}

static void check_adapter(check *c) {
  check_place at;
  const char *missing = missing_adapter(c);
  if (!missing || !(is_set(c, "lora_r", &at) || is_set(c, "lora_alpha", &at))) return;
  check_finding *f = check_add(c, "idle.adapter", CHECK_WARNING,
                               "%.60s is set, but nothing turns an adapter on", at.setting->key);
  check_at(f, &at);
  check_why(f, "so all parameters are trained: gradients and optimizer states of the whole model "
               "need many times the memory of an adapter");
  check_fix(f, "%s; or remove the lora_ keys", missing);
}

// ---- quantisation -----------------------------------------------------------------------------------

// Unsloth loads 4 bits by default; LLaMA-Factory has a key of its own.
static bool may_quantise(const check *c) {
  static const char *const keys[] = {"load_in_4bit", "load_in_8bit", "quantization_bit"};
  check_place at;
  plim_dialect d = c->files.project.dialect;
  if (d == PLIM_DIALECT_UNSLOTH || d == PLIM_DIALECT_LLAMA_FACTORY) return true;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (check_find(c, keys[i], &at)) return true;
  return false;
}

static void check_4bit(check *c) {
  static const char *const keys[] = {"bnb_4bit_quant_type", "bnb_4bit_compute_dtype",
                                     "bnb_4bit_use_double_quant"};
  check_place at;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (!check_find(c, keys[i], &at) || may_quantise(c)) continue;
    check_finding *f =
        check_add(c, "idle.4bit", CHECK_WARNING, "%s is set, but load_in_4bit is not", keys[i]);
    check_at(f, &at);
    check_why(f,
              "without load_in_4bit the weights are not quantised and need four times the memory");
    bool is_python = at.file->settings.format == PLIM_FORMAT_PYTHON;
    check_fix(f, is_python ? "load_in_4bit=True" : "load_in_4bit: true");
    return;
  }
}

// ---- checkpointing ----------------------------------------------------------------------------------

static void check_checkpointing(check *c) {
  check_place at, on;
  plim_dialect d = c->files.project.dialect;
  bool is_plain =
      d == PLIM_DIALECT_HF || d == PLIM_DIALECT_SENTENCE; // other ecosystems turn it on by default
  bool has_kwargs = check_find(c, "gradient_checkpointing_kwargs", &at) ||
                    check_find(c, "gradient_checkpointing_kwargs.use_reentrant", &at);
  if (!is_plain || !has_kwargs || check_find(c, "gradient_checkpointing", &on)) return;
  if (check_code(c, "gradient_checkpointing_enable(", NULL)) return;
  check_finding *f =
      check_add(c, "idle.checkpointing", CHECK_WARNING,
                "gradient_checkpointing_kwargs is set, but gradient_checkpointing is not");
  check_at(f, &at);
  check_why(f, "it only sets how to checkpoint: checkpointing stays off, and all activations are "
               "kept");
  bool is_python = at.file->settings.format == PLIM_FORMAT_PYTHON;
  check_fix(f, is_python                   ? "gradient_checkpointing=True"
               : check_is_command(at.file) ? "--gradient_checkpointing true"
                                           : "gradient_checkpointing: true");
}

// ---- attention --------------------------------------------------------------------------------------

// Axolotl's loaders/patch_manager.py does not call _apply_flex_attention_patches, the only reader of these keys; older releases
// do, with an effect only with PyTorch 2.6.
static void check_flex(check *c) {
  static const char *const keys[] = {"flex_attn_compile_kwargs.dynamic",
                                     "flex_attn_compile_kwargs.mode"};
  check_place at;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    if (!is_set(c, keys[i], &at)) continue;
    check_finding *f =
        check_add(c, "idle.flex", CHECK_NOTE, "flex_attn_compile_kwargs has no effect");
    check_at(f, &at);
    check_why(f, "Axolotl leaves compiling flex attention to transformers");
    return;
  }
}

void check_idle(check *c) {
  if (!c->trains) return;
  check_adapter(c);
  check_4bit(c);
  check_checkpointing(c);
  check_flex(c);
}
