// Reads calls whose omitted or positional arguments matter: torch.autocast and its older names, and peft's
// prepare_model_for_kbit_training.
#include <string.h>

#include "python_reader.h"

// torch.autocast, torch.amp.autocast, torch.cuda.amp.autocast, or one of them by its name alone. The methods of
// accelerate and Fabric use the precision that they were configured with.
static bool is_autocast(const plim_py_reader *r, size_t first, size_t last) {
  if (!plim_py_is_text(r, last, "autocast")) return false;
  for (size_t i = first; i < last; i += 2) {
    static const char *const parts[] = {"torch", "cuda", "amp"};
    bool is_part = false;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
      is_part |= plim_py_is_text(r, i, parts[k]);
    if (!is_part) return false;
  }
  return true;
}

static bool is_keyword(const plim_py_reader *r, size_t i, size_t stop) {
  return plim_py_is_name(r, i, stop) && plim_py_is(r, i + 1, stop, '=');
}

// The tokens of an argument's value; 0 if the call does not have the argument.
typedef struct {
  size_t begin, end;
} argument;

static argument find(const plim_py_reader *r, size_t open, const char *name, size_t place) {
  size_t close = plim_py_at(r, open)->match, at = 0;
  for (size_t i = open + 1, stop; i < close; i = stop + 1) {
    stop = plim_py_find(r, i, close, ',');
    bool is_named = is_keyword(r, i, stop);
    if (is_named && plim_py_is_text(r, i, name)) return (argument){i + 2, stop};
    if (!is_named && at++ == place) return (argument){i, stop};
  }
  return (argument){0};
}

// 1 if the first positional argument is the device, else 0. torch.cuda.amp.autocast takes no device; for the bare name
// autocast, the first argument decides.
static size_t skipped(const plim_py_reader *r, size_t first, size_t last, size_t open) {
  size_t begin = open + 1, stop = plim_py_find(r, begin, plim_py_at(r, open)->match, ',');
  for (size_t i = first; i < last; i += 2)
    if (plim_py_is_text(r, i, "cuda")) return 0;
  if (last > first || stop == begin || is_keyword(r, begin, stop)) return 1;
  bool is_text = plim_py_at(r, begin)->kind == PLIM_PY_STRING;
  bool is_device = plim_py_is_name(r, begin, stop) && plim_py_size(r, begin) >= 6 &&
                   memcmp(plim_py_text(r, begin), "device", 6) == 0;
  return is_text || is_device;
}

static uint32_t condition_of(plim_py_reader *r, size_t first, size_t last, size_t open) {
  size_t device = skipped(r, first, last, open);
  argument enabled = find(r, open, "enabled", device ? 2 : 0);
  uint32_t around = r->condition ? r->condition : r->block->condition;
  if (!enabled.end || enabled.begin >= enabled.end) return around;
  return plim_py_both(r, around, plim_py_condition(r, enabled.begin, enabled.end));
}

// The default on a GPU is float16: torch.get_autocast_dtype("cuda").
static void add_type(plim_py_reader *r, size_t first, size_t last, size_t open) {
  argument type = find(r, open, "dtype", 1);
  size_t close = plim_py_at(r, open)->match;
  bool is_named = type.end && type.begin > open + 1 && plim_py_is(r, type.begin - 1, close, '=');
  argument device = find(r, open, "device_type", skipped(r, first, last, open) ? 0 : SIZE_MAX);
  bool is_of_host = device.end &&
                    memchr(plim_py_text(r, device.begin), 'p', plim_py_size(r, device.begin)) &&
                    plim_py_at(r, device.begin)->kind == PLIM_PY_STRING; // "cpu", "mps"
  if (is_named || is_of_host) return;
  size_t before = plim_py_push(r, "dtype", 5);
  if (type.end) plim_py_value(r, type.begin, type.begin, type.end);
  else
    plim_py_add_flag(r, plim_py_at(r, close)->begin, last, close,
                     (plim_value){.kind = PLIM_VALUE_TEXT, .text = "torch.float16"});
  plim_py_pop(r, before);
}

// Defaults of calls that matter for memory: peft's rank is 8 (peft/tuners/lora/config.py), and its preparation turns
// checkpointing on (peft/utils/other.py).
static const struct {
  const char *call, *name;
  size_t place;
  plim_value otherwise;
} defaults[] = {
    {"prepare_model_for_kbit_training",
     "use_gradient_checkpointing",
     1,
     {.kind = PLIM_VALUE_BOOL, .flag = true}},
    {"LoraConfig", "r", SIZE_MAX, {.kind = PLIM_VALUE_INTEGER, .integer = 8}},
};

static bool unpacks(const plim_py_reader *r, size_t open) {
  size_t close = plim_py_at(r, open)->match;
  for (size_t i = open + 1; i < close; i = plim_py_skip(r, i))
    if (plim_py_is(r, i, close, PLIM_PY_POWER)) return true;
  return false;
}

static void add_default(plim_py_reader *r, size_t last, size_t open, size_t k) {
  argument given = find(r, open, defaults[k].name, defaults[k].place);
  size_t close = plim_py_at(r, open)->match;
  bool is_named = given.end && plim_py_is(r, given.begin - 1, close, '=');
  if (is_named) return;
  size_t before = plim_py_push(r, defaults[k].name, strlen(defaults[k].name));
  if (unpacks(r, open))
    plim_py_add_derived(r, open, close + 1, NULL); // the unpacked mapping may contain it
  else if (given.end) plim_py_value(r, given.begin, given.begin, given.end);
  else plim_py_add_flag(r, plim_py_at(r, close)->begin, last, close, defaults[k].otherwise);
  plim_py_pop(r, before);
}

void plim_py_add_defaults(plim_py_reader *r, size_t last, size_t open) {
  for (size_t k = 0; k < sizeof defaults / sizeof *defaults; k++)
    if (plim_py_is_text(r, last, defaults[k].call)) add_default(r, last, open, k);
}

bool plim_py_autocast(plim_py_reader *r, size_t first, size_t last, size_t open) {
  uint32_t outer = r->condition;
  if (!is_autocast(r, first, last)) return false;
  r->condition = condition_of(r, first, last, open);
  plim_py_arguments(r, open);
  add_type(r, first, last, open);
  r->condition = outer;
  return true;
}
