// Sharding keys of transformers' Trainer and of ecosystems that pass them on: deepspeed, with a DeepSpeed file that is
// created next to the configuration; fsdp and fsdp_config.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_places.h"
#include "project_share.h"
#include "project_steps.h"
#include "text_file.h"

bool plim_share_offloads(const plim_sharing_mode_text *w, const char *what) {
  return strstr(w->offload, what) != NULL || strcmp(w->offload, "parameters") == 0;
}

// 1 to 3; 0: not ZeRO.
int plim_share_stage(const plim_sharing_mode_text *w) {
  return strncmp(w->strategy, "zero", 4) == 0 ? w->strategy[4] - '0' : 0;
}

plim_err plim_share_refuse(const plim_sharing_mode_text *w, const char *why, plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "cannot change strategy to %.16s: %s",
                           w->strategy, why);
  plim_error_hint(error, "set it up yourself, then plan again with --fix strategy=%.16s",
                  w->strategy);
  return err;
}

// ---- DeepSpeed's file -------------------------------------------------------------------------------

#define ON_HOST "{\"device\": \"cpu\", \"pin_memory\": true}"

// transformers replaces "auto" by its own arguments, so that the two cannot disagree.
static char *deepspeed_text(const plim_sharing_mode_text *w) {
  char *text = NULL;
  int stage = plim_share_stage(w);
  int size = asprintf(
      &text,
      "{\n"
      "  \"train_batch_size\": \"auto\",\n"
      "  \"train_micro_batch_size_per_gpu\": \"auto\",\n"
      "  \"gradient_accumulation_steps\": \"auto\",\n"
      "  \"gradient_clipping\": \"auto\",\n"
      "  \"bf16\": {\"enabled\": \"auto\"},\n"
      "  \"fp16\": {\"enabled\": \"auto\"},\n"
      "  \"zero_optimization\": {\n"
      "    \"stage\": %d%s%s%s\n"
      "  }\n"
      "}\n",
      stage, plim_share_offloads(w, "optimizer") ? ",\n    \"offload_optimizer\": " ON_HOST : "",
      stage == 3 && plim_share_offloads(w, "parameters") ? ",\n    \"offload_param\": " ON_HOST
                                                         : "",
      stage == 3 ? ",\n    \"stage3_gather_16bit_weights_on_model_save\": true" : "");
  return size < 0 ? NULL : text;
}

// The name of the new file: ds_zero3_offload.json.
static void deepspeed_name(const plim_sharing_mode_text *w, const char *end, char name[64]) {
  bool is_offloaded = strcmp(w->offload, "none") != 0;
  snprintf(name, 64, "ds_%.8s%s%.16s.json", w->strategy, is_offloaded ? "_offload" : "", end);
}

static bool holds(const char *path, const char *text) {
  char *there = NULL;
  size_t size, limit = strlen(text) + 1;
  bool is_same = plim_is_file(path) && !plim_text_file_read(path, limit, &there, &size, NULL) &&
                 size == strlen(text) && memcmp(there, text, size) == 0;
  free(there);
  return is_same;
}

// A path next to a file that is free, or that has the same text; false: the path is too long, or all names are taken.
static bool deepspeed_path(const plim_sharing_mode_text *w, const char *of, const char *text,
                           char path[PLIM_PATH_BYTES]) {
  static const char *const ends[] = {"", "_plimsoll", "_plimsoll2", "_plimsoll3"};
  char name[64];
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    deepspeed_name(w, ends[i], name);
    if (!plim_path_beside(of, name, path)) return false;
    if (!plim_is_file(path) || holds(path, text)) return true;
  }
  return false;
}

static plim_err create(plim_edit_set *out, const char *path, char *text, plim_error *error) {
  plim_new_file file = {strdup(path), text, text && holds(path, text)};
  if (file.path && text && vec_push(&out->files, file)) return PLIM_OK;
  free(file.path);
  free(text);
  return plim_no_memory(error);
}

// ---- keys of a trainer ------------------------------------------------------------------------------

static bool is_nested(plim_dialect at) {
  for (; at != PLIM_DIALECTS; at = plim_dialect_table[at].base)
    if (plim_dialect_table[at].is_nested) return true;
  return false;
}

static plim_err make_key(const plim_project_file *f, const char *name, const plim_value *value,
                         plim_edit *edit, plim_error *error) {
  const plim_setting *setting = plim_project_setting(f, name);
  char key[PLIM_KEY_BYTES];
  if (setting) return plim_settings_change(&f->settings, setting, value, edit, error);
  if (plim_project_place(f, name, is_nested(f->recipe.dialect), key))
    return plim_settings_insert(&f->settings, key, value, edit, error);
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "it is not clear where to insert %s", name);
}

plim_err plim_share_text(const plim_project_file *f, const char *name, const void *what,
                         plim_edit *edit, plim_error *error) {
  return make_key(f, name, &(plim_value){.kind = PLIM_VALUE_TEXT, .text = what}, edit, error);
}

plim_err plim_share_value(const plim_project_file *f, const char *name, const void *what,
                          plim_edit *edit, plim_error *error) {
  return make_key(f, name, what, edit, error);
}

static bool is_explicit_so(const plim_project_file *f, const plim_edit *edit) {
  size_t size = edit->span.end - edit->span.begin;
  return strlen(edit->text) == size && memcmp(f->text + edit->span.begin, edit->text, size) == 0;
}

plim_err plim_share_set(const plim_project *p, size_t file, plim_share_maker *make,
                        const char *name, const void *what, plim_edit_set *out, plim_error *error) {
  plim_project_file now;
  plim_edit edit;
  plim_err err = plim_step_begin(p, file, out, &now, error);
  if (err) return err;
  err = make(&now, name, what, &edit, error);
  bool is_idle = !err && is_explicit_so(&now, &edit);
  if (is_idle) free(edit.text);
  else if (!err) err = plim_step_add(&now, file, edit, out, error);
  plim_step_end(&now);
  return err;
}

// ---- a mapping below a key --------------------------------------------------------------------------

typedef struct {
  const char *name;
  plim_value value;
  bool is_of_offload; // only if parameters are offloaded
} entry;

#define NUMBER(n)                                                                                  \
  { .kind = PLIM_VALUE_INTEGER, .integer = (n) }
#define WORD(word)                                                                                 \
  { .kind = PLIM_VALUE_TEXT, .text = (word) }
#define TRUE                                                                                       \
  { .kind = PLIM_VALUE_BOOL, .flag = true }

// Without these, transformers 5.0 to 5.8 use version 1, and FSDP2 does not reshard after forward.
static const entry fsdp_config[] = {
    {"version", NUMBER(2), false}, {"reshard_after_forward", TRUE, false}, {0}};

static const entry axolotl_config[] = {{"auto_wrap_policy", WORD("TRANSFORMER_BASED_WRAP"), false},
                                       {"state_dict_type", WORD("FULL_STATE_DICT"), false},
                                       {"reshard_after_forward", TRUE, false},
                                       {"cpu_ram_efficient_loading", TRUE, false},
                                       {"offload_params", TRUE, true},
                                       {0}};

// Writes a mapping such as {"version": 2, "reshard_after_forward": true} as JSON or as Python.
static plim_err mapping_text(const entry *entries, bool is_python, char *out, size_t size) {
  size_t used = 0;
  char value[64];
  for (const entry *e = entries; e->name; e++) {
    bool is_flag = e->value.kind == PLIM_VALUE_BOOL;
    plim_value_print(&e->value, value, sizeof value);
    if (is_flag && is_python) value[0] = 'T';
    used += (size_t)snprintf(out + used, size - used, "%s\"%s\": %s", used ? ", " : "{", e->name,
                             value);
    if (used + 2 > size) return PLIM_ERR_NOMEM;
  }
  strcpy(out + used, "}");
  return PLIM_OK;
}

// Editors can only write plain values, so a False is written first and then replaced by the mapping.
static plim_err put_mapping(const char *mapping, plim_edit *edit, plim_error *error) {
  char *at = strstr(edit->text, "False"), *text = NULL;
  int size = !at ? -1
                 : asprintf(&text, "%.*s%s%s", (int)(at - edit->text), edit->text, mapping,
                            at + sizeof "False" - 1);
  free(edit->text);
  *edit = (plim_edit){edit->span, size < 0 ? NULL : text};
  return edit->text ? PLIM_OK : plim_no_memory(error);
}

// Adds the mapping as one word of a command line, or as a Python dict.
static plim_err make_mapping(const plim_project_file *f, const char *name, const void *what,
                             plim_edit *edit, plim_error *error) {
  bool is_python = f->settings.format == PLIM_FORMAT_PYTHON;
  char text[256];
  plim_value value = {.kind = is_python ? PLIM_VALUE_BOOL : PLIM_VALUE_TEXT, .text = text};
  plim_err err = mapping_text(what, is_python, text, sizeof text);
  if (err) return plim_no_memory(error);
  if (is_python) value.text = NULL;
  err = make_key(f, name, &value, edit, error);
  return err || !is_python ? err : put_mapping(text, edit, error);
}

static plim_err set_entries(const plim_project *p, size_t file, const char *name,
                            const entry *entries, bool is_offloaded, plim_edit_set *out,
                            plim_error *error) {
  char key[96];
  plim_err err = PLIM_OK;
  for (const entry *e = entries; e->name && !err; e++) {
    if (e->is_of_offload && !is_offloaded) continue;
    snprintf(key, sizeof key, "%s.%s", name, e->name);
    err = plim_share_set(p, file, plim_share_value, key, &e->value, out, error);
  }
  return err;
}

static plim_err set_mapping(const plim_project *p, size_t file, const char *name,
                            const entry *entries, bool is_offloaded, plim_edit_set *out,
                            plim_error *error) {
  const plim_project_file *f = p->files.at[file];
  char key[PLIM_KEY_BYTES];
  bool has_place = plim_project_place(f, name, is_nested(f->recipe.dialect), key);
  bool is_word = has_place && *key == '-'; // other words of a command line are Hydra's
  if (f->settings.format != PLIM_FORMAT_PYTHON && !is_word)
    return set_entries(p, file, name, entries, is_offloaded, out, error);
  return plim_share_set(p, file, make_mapping, name, entries, out, error);
}

// ---- the keys of each strategy ----------------------------------------------------------------------

typedef plim_err writer(const plim_project *p, size_t file, const plim_sharing_mode_text *w,
                        plim_edit_set *out, plim_error *error);

// Creates the file next to the one that refers to it; the reference is relative to the folder where the run starts.
static plim_err write_deepspeed(const plim_project *p, size_t file, const plim_sharing_mode_text *w,
                                plim_edit_set *out, plim_error *error) {
  char path[PLIM_PATH_BYTES], name[PLIM_PATH_BYTES], *text = deepspeed_text(w);
  if (!text) return plim_no_memory(error);
  plim_err err = PLIM_OK;
  if (!deepspeed_path(w, p->files.at[file]->path, text, path) || !plim_path_from_run(p, path, name))
    err = plim_share_refuse(w, "it is not clear where to put its file", error);
  if (!err) err = plim_share_set(p, file, plim_share_text, "deepspeed", name, out, error);
  if (!err) return create(out, path, text, error);
  free(text);
  return err;
}

static bool is_on(const plim_project_file *f, const char *name) {
  const plim_setting *setting = plim_project_setting(f, name);
  return setting && setting->value.kind == PLIM_VALUE_BOOL && setting->value.flag;
}

// Whether the user has chosen another strategy, such as shard_grad_op or hybrid_shard, which is not overwritten.
static bool shards_otherwise(const plim_project_file *f) {
  const plim_setting *setting = plim_project_setting(f, "fsdp");
  bool is_text = setting && setting->value.kind == PLIM_VALUE_TEXT && *setting->value.text;
  return is_text && !strstr(setting->value.text, "full_shard");
}

// `True` wraps each layer only in later releases of transformers 5; these words do in all of them. Version 4 does
// not read the FSDP version here and runs FSDP 1.
static plim_err write_fsdp(const plim_project *p, size_t file, const plim_sharing_mode_text *w,
                           plim_edit_set *out, plim_error *error) {
  bool is_offloaded = plim_share_offloads(w, "parameters");
  const char *words = is_offloaded ? "full_shard auto_wrap offload" : "full_shard auto_wrap";
  char roof[PLIM_KEY_BYTES];
  bool has_config = plim_share_roof(p->files.at[file], "fsdp_config", roof) ||
                    plim_project_setting(p->files.at[file], "fsdp_config");
  bool has_both = is_on(p->files.at[file], "activation_checkpointing") &&
                  is_on(p->files.at[file], "gradient_checkpointing");
  if (has_both)
    return plim_share_refuse(
        w, "Trainer does not accept activation_checkpointing and gradient_checkpointing together",
        error);
  if (shards_otherwise(p->files.at[file]))
    return plim_share_refuse(w, "fsdp is set to a strategy other than full_shard", error);
  plim_err err = plim_share_set(p, file, plim_share_text, "fsdp", words, out, error);
  if (err || has_config) return err;
  return set_mapping(p, file, "fsdp_config", fsdp_config, is_offloaded, out, error);
}

static plim_err write_axolotl_fsdp(const plim_project *p, size_t file,
                                   const plim_sharing_mode_text *w, plim_edit_set *out,
                                   plim_error *error) {
  static const plim_value version = NUMBER(2);
  char roof[PLIM_KEY_BYTES];
  if (plim_share_roof(p->files.at[file], "fsdp_config", roof))
    return plim_share_refuse(w, "fsdp_config is set up for FSDP 1", error);
  plim_err err = plim_share_set(p, file, plim_share_value, "fsdp_version", &version, out, error);
  if (err) return err;
  return set_mapping(p, file, "fsdp_config", axolotl_config, plim_share_offloads(w, "parameters"),
                     out, error);
}

// transformers' trainers, and ecosystems that pass these keys on to them.
static const struct {
  plim_dialect dialect;
  writer *zero, *fsdp; // NULL: it has no key for it
} trainers[] = {
    {PLIM_DIALECT_HF, write_deepspeed, write_fsdp},
    {PLIM_DIALECT_TRL, write_deepspeed, write_fsdp},
    {PLIM_DIALECT_SENTENCE, write_deepspeed, write_fsdp},
    {PLIM_DIALECT_AXOLOTL, write_deepspeed, write_axolotl_fsdp},
    {PLIM_DIALECT_LLAMA_FACTORY, write_deepspeed, NULL},
};
enum { TRAINERS = sizeof trainers / sizeof *trainers };

bool plim_share_is_trainer(plim_dialect dialect) {
  for (int i = 0; i < TRAINERS; i++)
    if (trainers[i].dialect == dialect) return true;
  return false;
}

static writer *writer_of(const plim_project_file *f, plim_share_kind kind) {
  for (int i = 0; i < TRAINERS; i++)
    if (trainers[i].dialect == f->recipe.dialect)
      return kind == PLIM_SHARE_ZERO ? trainers[i].zero : trainers[i].fsdp;
  return NULL;
}

const char *const plim_share_lacks[] = {
    [PLIM_SHARE_ZERO] = "none of these files can refer to a DeepSpeed file",
    [PLIM_SHARE_FSDP] = "it needs an accelerate configuration file, and there is none",
};

plim_err plim_share_add(const plim_project *p, const plim_sharing_mode_text *w,
                        plim_share_kind kind, plim_edit_set *out, plim_error *error) {
  plim_error why = {0};
  for (int order = 0; order < 2; order++)
    for (size_t i = 0; i < p->files.len; i++) {
      writer *write = writer_of(p->files.at[i], kind);
      if (plim_project_rank(p, i) != order || !write) continue;
      plim_error origin = {0};
      plim_err err = write(p, i, w, out, &origin);
      bool is_final = !err || err == PLIM_ERR_NOMEM || *origin.hint;
      if (is_final && error) *error = origin;
      if (is_final) return err;
      why = origin;
    }
  return plim_share_refuse(w, *why.message ? why.message : plim_share_lacks[kind], error);
}
