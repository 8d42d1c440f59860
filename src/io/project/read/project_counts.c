// Finds invalid counts: a batch of 0, half a step of accumulation, a length of -1. The knob becomes unclear, with
// the reason.
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "project_impl.h"
#include "python_code.h"

static const struct {
  plim_knob knob;
  int64_t least;
} counts[] = {
    {PLIM_KNOB_MICRO_BATCH, 1}, {PLIM_KNOB_ACCUMULATE, 1}, {PLIM_KNOB_GLOBAL_BATCH, 1},
    {PLIM_KNOB_SEQUENCE, 1},    {PLIM_KNOB_LORA_RANK, 0},
};

static void open_knob(plim_project_knob *k) {
  k->origin = PLIM_UNCLEAR, k->is_fixed = true, k->value = (plim_value){0};
}

static const char *key_of(const plim_project_knob *k) {
  return k->place_count && k->places[0].setting ? k->places[0].setting->key : "it";
}

// "per_device_train_batch_size is 2.5; it must be a whole number".
static void doubt_count(plim_project_knob *k, int64_t least) {
  const plim_value *v = &k->value;
  bool is_part = v->kind == PLIM_VALUE_REAL && v->real != floor(v->real);
  bool is_small = (v->kind == PLIM_VALUE_INTEGER && v->integer < least) ||
                  (v->kind == PLIM_VALUE_REAL && v->real < (double)least);
  char value[48];
  if (k->origin != PLIM_EXPLICIT || (!is_part && !is_small)) return;
  plim_value_print(v, value, sizeof value);
  snprintf(k->why, sizeof k->why, "%.80s is %s; %s", key_of(k), value,
           is_small ? "it must be at least 1" : "it must be a whole number");
  open_knob(k);
  k->is_no_count = true;
}

// -1: sequences are not truncated.
static void doubt_endless(plim_project_knob *k) {
  bool is_endless =
      k->origin == PLIM_EXPLICIT && k->value.kind == PLIM_VALUE_INTEGER && k->value.integer == -1;
  if (!is_endless) return;
  snprintf(k->why, sizeof k->why, "%.80s sets no limit, so a sequence is as long as its text",
           key_of(k));
  open_knob(k);
}

// peft refuses a rank of 0. If adapters are requested explicitly, 0 does not mean "no adapters" either.
static void doubt_rank(const plim_project *p, plim_project_knob *k) {
  static const char *const asking[] = {"adapter", "use_peft", "finetuning_type"};
  static const char *const words[] = {"lora", "qlora", "true", "dora"};
  bool is_zero =
      k->origin == PLIM_EXPLICIT && k->value.kind == PLIM_VALUE_INTEGER && k->value.integer == 0;
  if (!is_zero || !k->place_count || k->places[0].key->how != PLIM_AS_NUMBER) return;
  const plim_settings *s = &p->files.at[k->places[0].file]->settings;
  bool asks = strcasestr(key_of(k), "loraconfig.") || strcasestr(key_of(k), "get_peft_model.");
  for (size_t i = 0; i < sizeof asking / sizeof *asking; i++) {
    const plim_setting *setting = plim_settings_find(s, asking[i]);
    char value[48] = "";
    if (setting) plim_value_print(&setting->value, value, sizeof value);
    for (size_t w = 0; w < sizeof words / sizeof *words; w++)
      asks |= strcasecmp(value, words[w]) == 0;
  }
  if (!asks) return;
  snprintf(k->why, sizeof k->why, "%.80s is 0, but peft requires at least 1", key_of(k));
  open_knob(k);
}

// PeftModel.from_pretrained(model, "some/adapter", is_trainable=True): the rank is in the adapter's files.
static void doubt_loaded(const plim_project *p, plim_project_knob *k) {
  static const char loads[] = "PeftModel*", trains[] = "is_trainable=True";
  for (size_t i = 0; i < p->files.len && k->origin != PLIM_EXPLICIT; i++) {
    const plim_project_file *f = p->files.at[i];
    bool is_loaded = f->settings.format == PLIM_FORMAT_PYTHON && plim_python_has(&f->code, loads) &&
                     plim_python_has(&f->code, trains);
    if (!is_loaded) continue;
    snprintf(k->why, sizeof k->why,
             "%.120s continues training adapters that it loads, and their own files set the rank",
             f->path);
    open_knob(k);
    return;
  }
}

// ---- Axolotl's batch_size -------------------------------------------------------------------------------

// Its schema sets gradient_accumulation_steps to 1 before batch_size // micro_batch_size is computed
// (axolotl/utils/schemas/training.py, since 0.4.1), so the run differs from what was intended. Axolotl refuses both
// keys together.
static void doubt_axolotl(plim_project *p, const plim_project_file *f) {
  const plim_setting *batch = plim_settings_find(&f->settings, "batch_size");
  const plim_setting *steps = plim_settings_find(&f->settings, "gradient_accumulation_steps");
  plim_project_knob *k = &p->knobs[PLIM_KNOB_ACCUMULATE];
  char value[48];
  bool is_there = batch && batch->value.kind != PLIM_VALUE_NULL;
  if (f->is.dialect != PLIM_DIALECT_AXOLOTL || !is_there) return;
  plim_value_print(&batch->value, value, sizeof value);
  bool is_both = steps && steps->value.kind != PLIM_VALUE_NULL;
  if (is_both) {
    snprintf(k->why, sizeof k->why,
             "batch_size is %s, but Axolotl does not accept it together with "
             "gradient_accumulation_steps",
             value);
    open_knob(k);
    return;
  }
  k->is_fixed = true;
  snprintf(k->why, sizeof k->why,
           "Axolotl does not accept gradient_accumulation_steps together with batch_size");
  if (!plim_value_same(&batch->value, &p->knobs[PLIM_KNOB_MICRO_BATCH].value)) {
    plim_note_add(&p->notes, "assumed.axolotl_version", "accumulate",
                  "batch_size is %s: assuming Axolotl 0.4.1 or newer, which accumulates 1 step; "
                  "older versions divide it by the micro batch (--accumulate N)",
                  value);
    plim_note_at(&p->notes, f->path, batch->line);
  }
}

void plim_project_doubt_counts(plim_project *p) {
  doubt_endless(&p->knobs[PLIM_KNOB_SEQUENCE]);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    doubt_count(&p->knobs[counts[i].knob], counts[i].least);
  doubt_rank(p, &p->knobs[PLIM_KNOB_LORA_RANK]);
  doubt_loaded(p, &p->knobs[PLIM_KNOB_LORA_RANK]);
  for (size_t i = 0; i < p->files.len; i++) doubt_axolotl(p, p->files.at[i]);
}
