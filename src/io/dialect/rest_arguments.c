#include "rest_arguments.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "key_names.h"

#define K(NAME) (1ull << PLIM_KNOB_##NAME)
#define TRAINER                                                                                    \
  (K(MICRO_BATCH) | K(ACCUMULATE) | K(CHECKPOINT) | K(OPTIMIZER) | K(PRECISION) | K(LIGER) |       \
   K(STRATEGY) | K(OFFLOAD) | K(EMPTY_CACHE) | K(WORKERS) | K(EPOCHS) | K(CLIP) | K(COMPILE))
#define LOADER (K(DTYPE) | K(ATTENTION) | K(QUANTISATION))
#define ADAPTER                                                                                    \
  (K(LORA_RANK) | K(LORA_ALPHA) | K(LORA_DROPOUT) | K(LORA_TARGETS) | K(LORA_SAVED) |              \
   K(LORA_LAYERS) | K(LORA_EXCLUDED) | K(LORA_BIAS) | K(DORA))

_Static_assert(PLIM_KNOBS <= 64, "a bit for each knob");

// The knobs that the unknown arguments of a call may set, by the end of its name in lower case, with * and ?, and by
// dialect (PLIM_DIALECTS: any).
static const struct {
  const char *call;
  uint64_t knobs;
  plim_dialect dialect;
} calls[] = {
    {"*trainingarguments", TRAINER, PLIM_DIALECTS},
    {"sftconfig", TRAINER | K(SEQUENCE) | K(PACKING) | K(CHUNKED_LOSS), PLIM_DIALECTS},
    {"loraconfig", ADAPTER, PLIM_DIALECTS},
    {"get_peft_model", ADAPTER | K(CHECKPOINT), PLIM_DIALECT_UNSLOTH},
    {"bitsandbytesconfig", K(QUANTISATION), PLIM_DIALECTS},
    {"fast*model.from_pretrained", LOADER | K(SEQUENCE), PLIM_DIALECTS},
    {"*model*.from_pretrained", LOADER, PLIM_DIALECTS},
    {"*for*.from_pretrained", LOADER, PLIM_DIALECTS},
    {"accelerator", K(ACCUMULATE) | K(PRECISION), PLIM_DIALECTS},
    {"dataloader", K(MICRO_BATCH) | K(WORKERS), PLIM_DIALECT_HOME},
    {"trainer",
     K(ACCUMULATE) | K(PRECISION) | K(STRATEGY) | K(WORLD) | K(NODES) | K(CLIP) | K(EPOCHS),
     PLIM_DIALECT_LIGHTNING},
};

// The length of the call's path, which is followed by ".**".
static size_t size_of_call(const plim_setting *rest) { return strlen(rest->key) - strlen(".**"); }

static bool is_called(const char *path, const char *pattern) {
  char end[PLIM_KEY_BYTES + 2];
  if (fnmatch(pattern, path, 0) == 0) return true;
  snprintf(end, sizeof end, "*.%s", pattern);
  return fnmatch(end, path, 0) == 0;
}

bool plim_rest_gives(const plim_setting *rest, plim_dialect dialect, plim_knob knob) {
  char name[PLIM_KEY_BYTES], path[PLIM_KEY_BYTES];
  snprintf(path, sizeof path, "%.*s", (int)size_of_call(rest), rest->key);
  path[strcspn(path, "#")] = 0;
  plim_key_name(path, name);
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    if (calls[i].dialect != PLIM_DIALECTS && calls[i].dialect != dialect) continue;
    if (is_called(name, calls[i].call)) return calls[i].knobs >> knob & 1;
  }
  return false;
}
