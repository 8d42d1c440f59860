// The code to paste into a user's script to turn a setting on.
#include <stdio.h>
#include <string.h>

#include "manual_steps.h"

// VALUE in a line is replaced by the value.
static const struct {
  plim_knob knob;
  const char *value; // NULL: any value except 0
  const char *where, *lines;
} rows[] = {
    {PLIM_KNOB_CHECKPOINT, "on", "add after from_pretrained",
     "model.gradient_checkpointing_enable(\n"
     "    gradient_checkpointing_kwargs={\"use_reentrant\": False})\n"},
    {PLIM_KNOB_CHECKPOINT, "reentrant", "add after from_pretrained",
     "model.gradient_checkpointing_enable(\n"
     "    gradient_checkpointing_kwargs={\"use_reentrant\": True})\n"},
    // The defaults of this class are those of Trainer's use_liger_kernel (liger-kernel 0.6, transformers/auto_model.py).
    {PLIM_KNOB_LIGER, "on", "load the model with",
     "from liger_kernel.transformers import AutoLigerKernelForCausalLM\n"
     "model = AutoLigerKernelForCausalLM.from_pretrained(...)\n"},
    {PLIM_KNOB_PRECISION, "bf16", "put around forward and loss",
     "with torch.autocast(\"cuda\", dtype=torch.bfloat16):\n"},
    {PLIM_KNOB_PRECISION, "fp16", "put around forward and loss, and add a torch.amp.GradScaler",
     "with torch.autocast(\"cuda\", dtype=torch.float16):\n"},
    {PLIM_KNOB_OFFLOAD, "activations", "put around forward and loss",
     "with torch.autograd.graph.save_on_cpu(pin_memory=True):\n"},
    {PLIM_KNOB_OPTIMIZER, "adamw", "replace your optimizer with",
     "torch.optim.AdamW(..., fused=True)\n"},
    {PLIM_KNOB_OPTIMIZER, "adamw-foreach", "replace your optimizer with",
     "torch.optim.AdamW(..., foreach=True)\n"},
    {PLIM_KNOB_OPTIMIZER, "adamw-8bit", "replace your optimizer with",
     "bitsandbytes.optim.AdamW8bit(...)\n"},
    {PLIM_KNOB_OPTIMIZER, "paged-adamw", "replace your optimizer with",
     "bitsandbytes.optim.PagedAdamW(...)\n"},
    {PLIM_KNOB_OPTIMIZER, "paged-adamw-8bit", "replace your optimizer with",
     "bitsandbytes.optim.PagedAdamW8bit(...)\n"},
    {PLIM_KNOB_ATTENTION, "sdpa", "pass to from_pretrained", "attn_implementation=\"sdpa\"\n"},
    {PLIM_KNOB_ATTENTION, "flash", "pass to from_pretrained",
     "attn_implementation=\"flash_attention_2\"\n"},
    {PLIM_KNOB_ATTENTION, "eager", "pass to from_pretrained", "attn_implementation=\"eager\"\n"},
    {PLIM_KNOB_DTYPE, "fp32", "pass to from_pretrained", "dtype=torch.float32\n"},
    {PLIM_KNOB_DTYPE, "bf16", "pass to from_pretrained", "dtype=torch.bfloat16\n"},
    {PLIM_KNOB_DTYPE, "fp16", "pass to from_pretrained", "dtype=torch.float16\n"},
    {PLIM_KNOB_QUANTISATION, "nf4", "pass to from_pretrained",
     "quantization_config=BitsAndBytesConfig(\n"
     "    load_in_4bit=True, bnb_4bit_quant_type=\"nf4\")\n"},
    {PLIM_KNOB_QUANTISATION, "nf4-double", "pass to from_pretrained",
     "quantization_config=BitsAndBytesConfig(\n"
     "    load_in_4bit=True, bnb_4bit_quant_type=\"nf4\",\n"
     "    bnb_4bit_use_double_quant=True)\n"},
    {PLIM_KNOB_QUANTISATION, "int8", "pass to from_pretrained",
     "quantization_config=BitsAndBytesConfig(load_in_8bit=True)\n"},
    // The cached loss of sentence-transformers.
    {PLIM_KNOB_CACHED_BATCH, NULL, "replace your loss with",
     "losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=VALUE)\n"},
    // The file that was measured: docs/chunked-loss.md.
    {PLIM_KNOB_CHUNKED_LOSS, NULL,
     "run plimsoll help chunked_loss > chunked_loss.py beside your script, then add after "
     "from_pretrained",
     "from chunked_loss import use_chunked_loss\n"
     "use_chunked_loss(model, VALUE)\n"},
};

// Lines of a framework's own file, for settings of several keys.
static const struct {
  plim_dialect dialect;
  plim_knob knob;
  const char *value, *lines;
} files[] = {
    {PLIM_DIALECT_TORCHTUNE, PLIM_KNOB_OPTIMIZER, "adamw",
     "optimizer:\n"
     "  _component_: torch.optim.AdamW\n"
     "  fused: True\n"},
    {PLIM_DIALECT_TORCHTUNE, PLIM_KNOB_CHECKPOINT, "on",
     "ac_mode: null\n"
     "enable_activation_checkpointing: True\n"},
    // loaders/model.py, _set_quantization_config: 4 bits only with qlora, 8 bits also with lora.
    {PLIM_DIALECT_AXOLOTL, PLIM_KNOB_QUANTISATION, "nf4",
     "adapter: qlora\n"
     "load_in_8bit: false\n"
     "load_in_4bit: true\n"
     "bnb_config_kwargs:\n"
     "  bnb_4bit_use_double_quant: false\n"},
    {PLIM_DIALECT_AXOLOTL, PLIM_KNOB_QUANTISATION, "nf4-double",
     "adapter: qlora\n"
     "load_in_8bit: false\n"
     "load_in_4bit: true\n"},
    {PLIM_DIALECT_AXOLOTL, PLIM_KNOB_QUANTISATION, "int8",
     "adapter: lora\n"
     "load_in_8bit: true\n"
     "load_in_4bit: false\n"},
    // v1/plugins/model_plugins/quantization.py: the packed weights have compute_dtype, float16 unless it is set, and FSDP2
    // casts what is not bf16.
    {PLIM_DIALECT_LLAMA_FACTORY_V1, PLIM_KNOB_QUANTISATION, "nf4",
     "quant_config:\n"
     "  name: bnb\n"
     "  quantization_bit: 4\n"
     "  compute_dtype: bfloat16\n"
     "  double_quantization: false\n"},
    {PLIM_DIALECT_LLAMA_FACTORY_V1, PLIM_KNOB_QUANTISATION, "nf4-double",
     "quant_config:\n"
     "  name: bnb\n"
     "  quantization_bit: 4\n"
     "  compute_dtype: bfloat16\n"},
    {PLIM_DIALECT_LLAMA_FACTORY_V1, PLIM_KNOB_QUANTISATION, "int8",
     "quant_config:\n"
     "  name: bnb\n"
     "  quantization_bit: 8\n"},
};

const char *file_lines_for(plim_dialect dialect, plim_knob knob, const plim_value *value) {
  char text[96];
  plim_value_print(value, text, sizeof text);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (files[i].dialect == dialect && files[i].knob == knob && strcmp(files[i].value, text) == 0)
      return files[i].lines;
  return NULL;
}

static void fill_in(const char *lines, const char *value, char *out, size_t size) {
  static const char blank[] = "VALUE";
  const char *at = strstr(lines, blank);
  if (!at) snprintf(out, size, "%s", lines);
  else snprintf(out, size, "%.*s%s%s", (int)(at - lines), lines, value, at + sizeof blank - 1);
}

bool code_lines_for(plim_knob knob, const plim_value *value, const char **where, char *lines,
                    size_t size) {
  char text[96];
  plim_value_print(value, text, sizeof text);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool is_value = rows[i].value ? strcmp(rows[i].value, text) == 0 : strcmp(text, "0") != 0;
    if (rows[i].knob != knob || !is_value) continue;
    *where = rows[i].where;
    fill_in(rows[i].lines, text, lines, size);
    return true;
  }
  return false;
}
