#include "knobs.h"

#define ROW(NAME, name, kind, what) {name, what, PLIM_KNOB_##kind},
const plim_knob_info plim_knob_table[PLIM_KNOBS] = {PLIM_KNOB_LIST(ROW)};
#undef ROW

static bool is_same(const char *a, const char *b) {
  for (; *a && *b; a++, b++)
    if ((*a == '-' ? '_' : *a) != (*b == '-' ? '_' : *b)) return false;
  return *a == *b;
}

// Names of the corresponding flags, and other spellings.
static const struct {
  const char *name, *knob;
} aliases[] = {
    {"batch", "micro_batch"},      {"seq", "sequence"},
    {"loss", "chunked_loss"},      {"amp", "precision"},
    {"weights", "quantisation"},   {"quantization", "quantisation"},
    {"batch_size", "micro_batch"}, {"mini_batch_size", "cached_batch"},
    {"length", "sequence"},        {"rank", "lora_rank"},
};

plim_knob plim_knob_named(const char *name) {
  int i = 0;
  for (size_t k = 0; k < sizeof aliases / sizeof *aliases; k++)
    if (is_same(aliases[k].name, name)) name = aliases[k].knob;
  while (i < PLIM_KNOBS && !is_same(plim_knob_table[i].name, name)) i++;
  return (plim_knob)i;
}
