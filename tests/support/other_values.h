// Values of knobs for tests that change files.
#ifndef PLIM_TESTS_OTHER_VALUES_H
#define PLIM_TESTS_OTHER_VALUES_H

#include <stdlib.h>
#include <string.h>

#include "dialect.h"

static const struct {
  plim_knob knob;
  const char *values[4];
} others[] = {
    {PLIM_KNOB_MICRO_BATCH, {"3", "5"}},
    {PLIM_KNOB_ACCUMULATE, {"24", "6"}},
    {PLIM_KNOB_CHECKPOINT, {"off", "on"}},
    {PLIM_KNOB_ATTENTION, {"sdpa", "eager"}},
    {PLIM_KNOB_OPTIMIZER, {"adamw-8bit", "paged-adamw-8bit"}},
    {PLIM_KNOB_LIGER, {"off", "on"}},
    {PLIM_KNOB_STRATEGY, {"zero3", "fsdp2", "ddp", "fsdp"}},
    {PLIM_KNOB_OFFLOAD, {"none", "parameters", "activations", "optimizer"}},
    {PLIM_KNOB_RESHARD, {"off", "on"}},
    {PLIM_KNOB_WORKERS, {"1", "2"}},
    {PLIM_KNOB_SEQUENCE, {"768", "1536"}},
    {PLIM_KNOB_LORA_RANK, {"4", "12"}},
    {PLIM_KNOB_LORA_ALPHA, {"7", "9"}},
    {PLIM_KNOB_LORA_DROPOUT, {"0.25", "0.5"}},
    {PLIM_KNOB_EPOCHS, {"7", "9"}},
    {PLIM_KNOB_WORLD, {"16", "32"}},
    {PLIM_KNOB_COMPILE, {"off", "on"}},
    {PLIM_KNOB_PACKING, {"off", "on"}},
    {PLIM_KNOB_PRECISION, {"none", "bf16", "fp16"}},
    {PLIM_KNOB_DTYPE, {"bf16", "fp32"}},
    {PLIM_KNOB_CHUNKED_LOSS, {"0", "256", "eighths", "fused"}},
    {PLIM_KNOB_EMPTY_CACHE, {"0", "50"}},
    {PLIM_KNOB_GLOBAL_BATCH, {"96", "192"}},
    {PLIM_KNOB_CLIP, {"0.25", "0.5"}},
};
enum { OTHERS = sizeof others / sizeof *others };

// The keys that set this knob together, in the dialect or in one that it is based on; NULL if one key sets it.
static inline const char *keys_set_together(plim_dialect dialect, plim_knob knob) {
  for (; dialect != PLIM_DIALECTS; dialect = plim_dialect_table[dialect].base)
    for (const plim_key_set *set = plim_dialect_table[dialect].sets; set && set->keys; set++)
      if (set->knob == knob) return set->keys;
  return NULL;
}

// The value of a text such as "4", "0.25" or "on".
static inline plim_value value_from(const char *text) {
  char *end;
  double number = strtod(text, &end);
  if (*end) return (plim_value){.kind = PLIM_VALUE_TEXT, .text = text};
  if (strchr(text, '.')) return (plim_value){.kind = PLIM_VALUE_REAL, .real = number};
  return (plim_value){.kind = PLIM_VALUE_INTEGER, .integer = (int64_t)number};
}

#endif
