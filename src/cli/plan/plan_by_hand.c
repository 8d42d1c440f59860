// What a script of one's own needs for a setting that files have no place for: the line of code.
#include <stdio.h>
#include <string.h>

#include "plan_show.h"

static const struct {
  plim_knob knob;
  const char *value, *where, *line;
} lines[] = {
    {PLIM_KNOB_CHECKPOINT, "on", "behind from_pretrained",
     "model.gradient_checkpointing_enable(\n"
     "        gradient_checkpointing_kwargs={\"use_reentrant\": False})"},
    {PLIM_KNOB_PRECISION, "bf16", "around forward and loss",
     "with torch.autocast(\"cuda\", dtype=torch.bfloat16):"},
    {PLIM_KNOB_PRECISION, "fp16", "around forward and loss, with a torch.amp.GradScaler",
     "with torch.autocast(\"cuda\", dtype=torch.float16):"},
    {PLIM_KNOB_OFFLOAD, "activations", "around forward and loss",
     "with torch.autograd.graph.save_on_cpu(pin_memory=True):"},
    {PLIM_KNOB_OPTIMIZER, "adamw", "instead of yours", "torch.optim.AdamW(..., fused=True)"},
    {PLIM_KNOB_OPTIMIZER, "adamw-foreach", "instead of yours",
     "torch.optim.AdamW(..., foreach=True)"},
    {PLIM_KNOB_OPTIMIZER, "adamw-8bit", "instead of yours", "bitsandbytes.optim.AdamW8bit(...)"},
    {PLIM_KNOB_OPTIMIZER, "paged-adamw", "instead of yours", "bitsandbytes.optim.PagedAdamW(...)"},
    {PLIM_KNOB_OPTIMIZER, "paged-adamw-8bit", "instead of yours",
     "bitsandbytes.optim.PagedAdamW8bit(...)"},
    {PLIM_KNOB_ATTENTION, "sdpa", "in from_pretrained", "attn_implementation=\"sdpa\""},
    {PLIM_KNOB_ATTENTION, "flash", "in from_pretrained",
     "attn_implementation=\"flash_attention_2\""},
    {PLIM_KNOB_DTYPE, "bf16", "in from_pretrained", "dtype=torch.bfloat16"},
    {PLIM_KNOB_DTYPE, "fp16", "in from_pretrained", "dtype=torch.float16"},
    {PLIM_KNOB_QUANTISATION, "nf4", "in from_pretrained",
     "quantization_config=BitsAndBytesConfig(\n"
     "        load_in_4bit=True, bnb_4bit_quant_type=\"nf4\")"},
    {PLIM_KNOB_QUANTISATION, "nf4-double", "in from_pretrained",
     "quantization_config=BitsAndBytesConfig(\n"
     "        load_in_4bit=True, bnb_4bit_quant_type=\"nf4\",\n"
     "        bnb_4bit_use_double_quant=True)"},
    {PLIM_KNOB_QUANTISATION, "int8", "in from_pretrained",
     "quantization_config=BitsAndBytesConfig(load_in_8bit=True)"},
};

// CachedMultipleNegativesRankingLoss is sentence-transformers' own.
static void print_cached(const char *value, FILE *out) {
  fprintf(out,
          "cached_batch, instead of your loss:\n"
          "    losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=%s)\n",
          value);
}

void plan_print_code_of(const plan_edits *edits, size_t at, bool is_checkpointed, FILE *out) {
  char value[96];
  plim_knob knob = edits->by_hand[at].knob;
  if (is_checkpointed && knob == PLIM_KNOB_CHECKPOINT) {
    fprintf(out, "checkpoint: accelerate.yaml above turns it on\n");
    return;
  }
  plim_value_print(&edits->by_hand[at].value, value, sizeof value);
  if (knob == PLIM_KNOB_CACHED_BATCH) print_cached(value, out);
  for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
    if (lines[k].knob == knob && strcmp(lines[k].value, value) == 0)
      fprintf(out, "%s, %s:\n    %s\n", plim_knob_table[knob].name, lines[k].where, lines[k].line);
}

void plan_print_code(const plan_edits *edits, bool is_checkpointed, FILE *out) {
  for (size_t i = 0; i < edits->by_hand_count; i++)
    plan_print_code_of(edits, i, is_checkpointed, out);
}
