// Settings that belong to ZeRO: the device of its states, which two keys define together, and what stage 3 requires in
// the other files.
#include <stdio.h>
#include <string.h>

#include "project_places.h"
#include "project_share.h"
#include "project_steps.h"

// ---- what is on the host ----------------------------------------------------------------------------

typedef struct {
  const char *optimizer, *parameters; // keys of the devices
} devices;

static const devices of_deepspeed = {"zero_optimization.offload_optimizer.device",
                                     "zero_optimization.offload_param.device"};
static const devices of_accelerate = {"deepspeed_config.offload_optimizer_device",
                                      "deepspeed_config.offload_param_device"};

// The keys for the file that sets the stage; NULL: it is not such a file.
static const devices *devices_of(const plim_project *p, const plim_knob_place *place) {
  const plim_project_file *f = p->files.at[place->file];
  plim_dialect dialect = f->recipe.dialect;
  bool is_stage = place->setting && place->key && strstr(place->key->key, "stage");
  if (is_stage && dialect == PLIM_DIALECT_DEEPSPEED) return &of_deepspeed;
  return is_stage && dialect == PLIM_DIALECT_ACCELERATE ? &of_accelerate : NULL;
}

static bool is_bound(const plim_project_knob *k) {
  return k->place_count && k->places[0].key && !*k->places[0].key->key;
}

static bool is_word(const plim_value *value, const char *word) {
  return value->kind == PLIM_VALUE_TEXT && strcmp(value->text, word) == 0;
}

bool plim_project_takes_devices(const plim_project *p, const plim_knob_change *c) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_STRATEGY];
  bool is_word_of_zero = is_word(&c->value, "none") || is_word(&c->value, "optimizer") ||
                         is_word(&c->value, "parameters");
  if (c->knob != PLIM_KNOB_OFFLOAD || !is_word_of_zero || is_bound(&p->knobs[c->knob]) ||
      !k->place_count)
    return false;
  for (size_t i = 0; i < k->place_count; i++)
    if (!devices_of(p, &k->places[i])) return false;
  return true;
}

// Whether the state stays on the card: the key is missing, or names no other device.
static bool is_on_card(const plim_setting *setting) {
  return !setting || setting->value.kind == PLIM_VALUE_NULL || is_word(&setting->value, "none");
}

static plim_err make_device(const plim_project_file *f, const char *key, const void *what,
                            plim_edit *edit, plim_error *error) {
  plim_value device = {.kind = PLIM_VALUE_TEXT, .text = what};
  const plim_setting *setting = plim_settings_find(&f->settings, key);
  if (setting) return plim_settings_change(&f->settings, setting, &device, edit, error);
  return plim_settings_insert(&f->settings, key, &device, edit, error);
}

// Offload to a disk (nvme) is kept.
static plim_err put(const plim_project *p, size_t file, const char *key, bool on_host,
                    plim_edit_set *out, plim_error *error) {
  const plim_setting *setting = plim_settings_find(&p->files.at[file]->settings, key);
  if (is_on_card(setting) == !on_host) return PLIM_OK;
  return plim_share_set(p, file, make_device, key, on_host ? "cpu" : "none", out, error);
}

plim_err plim_project_put_devices(const plim_project *p, const plim_knob_change *c,
                                  plim_edit_set *out, plim_error *error) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_STRATEGY];
  plim_err err = PLIM_OK;
  bool has_optimizer = !is_word(&c->value, "none"), has_both = is_word(&c->value, "parameters");
  for (size_t i = 0; i < k->place_count && !err; i++) {
    const devices *d = devices_of(p, &k->places[i]);
    err = put(p, k->places[i].file, d->optimizer, has_optimizer, out, error);
    if (!err) err = put(p, k->places[i].file, d->parameters, has_both, out, error);
  }
  return err;
}

// ---- stage 3 ----------------------------------------------------------------------------------------

static bool is_named(const char *key, const char *name) {
  const char *dot = strrchr(key, '.');
  return strcmp(dot ? dot + 1 : key, name) == 0;
}

// If the flag is off, each GPU loads the whole model before DeepSpeed shards it.
static plim_err load_in_parts(const plim_project *p, size_t file, plim_edit_set *out,
                              plim_error *error) {
  static const plim_value on = {.kind = PLIM_VALUE_BOOL, .flag = true};
  const plim_setting *flag = plim_project_setting(p->files.at[file], "zero3_init_flag");
  bool is_off = flag && flag->value.kind == PLIM_VALUE_BOOL && !flag->value.flag;
  return is_off ? plim_share_set(p, file, plim_share_value, "zero3_init_flag", &on, out, error)
                : PLIM_OK;
}

// The key of a device_map, or of an entry if it is a dict.
static const plim_setting *device_map_of(const plim_project_file *f, char roof[PLIM_KEY_BYTES]) {
  static const char name[] = "device_map";
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const plim_setting *setting = &f->settings.at.at[i];
    const char *at = strstr(setting->key, ".device_map");
    if (!at || setting->is_aside || setting->value.kind == PLIM_VALUE_NULL) continue;
    bool is_whole = is_named(setting->key, name);
    if (!is_whole && at[sizeof name] != '.') continue;
    snprintf(roof, PLIM_KEY_BYTES, "%.*s", (int)(at - setting->key + (ptrdiff_t)sizeof name),
             setting->key);
    return setting;
  }
  return NULL;
}

static plim_err refuse_map(const plim_project_file *f, const plim_setting *map, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                           "cannot change strategy to zero3: device_map at %.128s:%d has to be "
                           "removed, and that cannot be done safely",
                           f->path, map->line);
  plim_error_hint(
      error, "remove it yourself, then plan again: transformers refuses device_map with ZeRO-3");
  return err;
}

static plim_err take_map(const plim_project *p, size_t file, plim_edit_set *out,
                         plim_error *error) {
  plim_project_file now;
  char roof[PLIM_KEY_BYTES];
  plim_edit edit;
  plim_err err = plim_step_begin(p, file, out, &now, error);
  if (err) return err;
  const plim_setting *map = device_map_of(&now, roof);
  if (map) {
    bool is_whole = is_named(map->key, "device_map");
    bool is_taken = is_whole ? !plim_settings_remove(&now.settings, map, &edit, NULL)
                             : !plim_settings_remove_all(&now.settings, roof, &edit, NULL);
    err = is_taken ? plim_step_add(&now, file, edit, out, error) : refuse_map(&now, map, error);
  }
  plim_step_end(&now);
  return err;
}

// transformers refuses the combination ("DeepSpeed Zero-3 is not compatible with passing a `device_map`"), or loads the
// whole model onto each GPU if the model is created before its arguments.
static plim_err take_maps(const plim_project *p, size_t file, plim_edit_set *out,
                          plim_error *error) {
  char roof[PLIM_KEY_BYTES];
  enum { MODELS = 8 };
  plim_err err = PLIM_OK;
  if (p->files.at[file]->settings.format != PLIM_FORMAT_PYTHON) return PLIM_OK;
  if (!device_map_of(p->files.at[file], roof)) return PLIM_OK;
  for (int i = 0; i < MODELS && !err; i++) err = take_map(p, file, out, error);
  return err;
}

plim_err plim_project_suit_stage_3(const plim_project *p, plim_edit_set *out, plim_error *error) {
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < p->files.len && !err; i++) {
    err = load_in_parts(p, i, out, error);
    if (!err) err = take_maps(p, i, out, error);
  }
  return err;
}
