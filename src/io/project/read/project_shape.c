#include "project_shape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "project_impl.h"

enum { MAX_EXTENT = 1 << 30 }; // so that products do not overflow

// ---- a shape as a text ------------------------------------------------------------------------------

void plim_shape_add(plim_shape *s, const char *key, long long value) {
  size_t used = strlen(s->text);
  snprintf(s->text + used, sizeof s->text - used, " %s=%lld", key, value);
}

void plim_shape_add_real(plim_shape *s, const char *key, double value) {
  size_t used = strlen(s->text);
  snprintf(s->text + used, sizeof s->text - used, " %s=%g", key, value);
}

void plim_shape_refuse(plim_shape *s, const char *hint, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(s->origin, sizeof s->origin, format, args);
  va_end(args);
  snprintf(s->hint, sizeof s->hint, "%s", hint);
  *s->text = 0;
}

bool plim_shape_number(const plim_project *p, size_t file, const plim_setting *setting,
                       long long *out) {
  plim_reading r;
  plim_settings *s = &p->files.at[file]->settings;
  if (plim_reading_of(s, setting, &plim_natural_keys[PLIM_KNOB_SEQUENCE], &r, NULL)) return false;
  *out = r.value.kind == PLIM_VALUE_INTEGER ? r.value.integer : 0;
  return r.origin == PLIM_EXPLICIT && *out > 0 && *out <= MAX_EXTENT;
}

// ---- torchtune's builders ---------------------------------------------------------------------------

// torchtune.models.llama2.llama2 and similar builders, with or without adapters; all have these arguments.
static const char *const builders[] = {"llama2.llama2", "llama3.llama3", "llama3_1.llama3_1"};

static const struct {
  const char *key, *config;
} arguments[] = {
    {"model.vocab_size", "vocab_size"},         {"model.num_layers", "num_hidden_layers"},
    {"model.num_heads", "num_attention_heads"}, {"model.num_kv_heads", "num_key_value_heads"},
    {"model.embed_dim", "hidden_size"},         {"model.max_seq_len", "max_position_embeddings"},
};

static bool builds_any_size(const plim_setting *component) {
  static const char start[] = "torchtune.models.";
  static const char *const adapters[] = {"", "lora_", "qlora_", "dora_"};
  if (!component || component->value.kind != PLIM_VALUE_TEXT) return false;
  for (size_t i = 0; i < sizeof builders / sizeof *builders; i++)
    for (size_t k = 0; k < sizeof adapters / sizeof *adapters; k++) {
      char name[96];
      int family = (int)strcspn(builders[i], ".") + 1;
      snprintf(name, sizeof name, "%s%.*s%s%s", start, family, builders[i], adapters[k],
               builders[i] + family);
      if (strcmp(component->value.text, name) == 0) return true;
    }
  return false;
}

// torchtune's scale_hidden_dim_for_mlp: two thirds of four times the width, in steps of 256.
static long long scaled_width(long long width) { return (4 * (2 * width / 3) + 255) / 256 * 256; }

static void read_arguments(const plim_project *p, plim_shape *out) {
  const plim_settings *s = &p->files.at[out->file]->settings;
  long long value, width = 0, layers = 0;
  snprintf(out->text, sizeof out->text, "model_type=llama");
  for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
    const plim_setting *setting = plim_settings_find(s, arguments[i].key);
    if (!setting || !plim_shape_number(p, out->file, setting, &value)) {
      plim_shape_refuse(out, "write a number there, or name the model: --model NAME",
                        "%s, which the model's builder needs, is %s", arguments[i].key,
                        setting ? "not a known number" : "missing");
      return;
    }
    plim_shape_add(out, arguments[i].config, value);
    if (strcmp(arguments[i].config, "hidden_size") == 0) width = value;
    if (strcmp(arguments[i].config, "num_hidden_layers") == 0) layers = value;
  }
  const plim_setting *inner = plim_settings_find(s, "model.intermediate_dim");
  if (!inner || !plim_shape_number(p, out->file, inner, &value)) value = scaled_width(width);
  plim_shape_add(out, "intermediate_size", value);
  plim_shape_add(out, "tie_word_embeddings", 0);
  snprintf(out->origin, sizeof out->origin,
           "the model is built by model._component_ in %.100s: %lld layers, hidden size %lld",
           p->files.at[out->file]->path, layers, width);
}

void plim_shape_of_torchtune(const plim_project *p, plim_shape *out) {
  for (size_t i = 0; i < p->files.len && !out->is_there; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->is.dialect != PLIM_DIALECT_TORCHTUNE) continue;
    out->is_there = builds_any_size(plim_settings_find(&f->settings, "model._component_"));
    out->file = i;
  }
  if (out->is_there) read_arguments(p, out);
}

// ---- in a project -----------------------------------------------------------------------------------

static plim_shape shape_of(const plim_project *p) {
  plim_shape shape = {0};
  plim_shape_of_torchtune(p, &shape);
  if (!shape.is_there) plim_shape_of_megatron(p, &shape);
  return shape;
}

void plim_project_take_shape(plim_project *p) {
  plim_project_knob *k = &p->knobs[PLIM_KNOB_MODEL];
  plim_shape shape = shape_of(p);
  bool is_named = k->origin == PLIM_EXPLICIT && p->dialect != PLIM_DIALECT_TORCHTUNE;
  if (!*shape.text || is_named) return;
  const char *text =
      plim_settings_keep(&p->files.at[shape.file]->settings, shape.text, strlen(shape.text));
  if (!text) return;
  *k = (plim_project_knob){.origin = PLIM_DEFAULTED,
                           .value = {.kind = PLIM_VALUE_TEXT, .text = text}};
  memcpy(k->why, shape.origin, sizeof k->why);
}

plim_err plim_project_refuse_shape(const plim_project *p, plim_error *error) {
  plim_shape shape = shape_of(p);
  if (!shape.is_there || *shape.text) return PLIM_OK;
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s", shape.origin);
  plim_error_hint(error, "%s", shape.hint);
  return plim_error_file_of(p, shape.file, err, error);
}
