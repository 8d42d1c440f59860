// Ways to share a run among GPUs that no single key turns on: DeepSpeed's own file, which the trainer's
// settings then name, and accelerate's type with the block that goes with it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_impl.h"
#include "text_file.h"

typedef struct {
  const char *strategy, *offload; // as knobs say them
} way;

static bool offloads(const way *w, const char *what) {
  return strstr(w->offload, what) != NULL || strcmp(w->offload, "parameters") == 0;
}

// 1 to 3; 0: it is no ZeRO.
static int stage_of(const way *w) {
  return strncmp(w->strategy, "zero", 4) == 0 ? w->strategy[4] - '0' : 0;
}

static plim_err refuse(const way *w, const char *why, plim_error *error) {
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED, "strategy cannot become %.16s: %s", w->strategy, why);
  plim_error_hint(error, "set it up by hand, and plan again with --fix strategy=%.16s",
                  w->strategy);
  return err;
}

static plim_err no_memory(plim_error *error) {
  return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
}

static plim_err keep_edit(plim_edit_set *out, size_t file, plim_edit edit, plim_error *error) {
  if (vec_push(&out->at, (plim_file_edit){file, edit})) return PLIM_OK;
  free(edit.text);
  return no_memory(error);
}

// ---- DeepSpeed's file -------------------------------------------------------------------------------

#define ON_HOST "{\"device\": \"cpu\", \"pin_memory\": true}"

// "auto" is what transformers fills in from its own arguments, so that the two cannot disagree.
static char *deepspeed_text(const way *w) {
  char *text = NULL;
  int stage = stage_of(w);
  int size =
      asprintf(&text,
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
               stage, offloads(w, "optimizer") ? ",\n    \"offload_optimizer\": " ON_HOST : "",
               stage == 3 && offloads(w, "parameters") ? ",\n    \"offload_param\": " ON_HOST : "",
               stage == 3 ? ",\n    \"stage3_gather_16bit_weights_on_model_save\": true" : "");
  return size < 0 ? NULL : text;
}

// What a run's own name for it could be: ds_zero3_offload.json.
static void deepspeed_name(const way *w, char name[64]) {
  bool is_offloaded = strcmp(w->offload, "none") != 0;
  snprintf(name, 64, "ds_%.8s%s.json", w->strategy, is_offloaded ? "_offload" : "");
}

// transformers' trainers, and those that hand this key on to them.
static bool names_deepspeed_file(plim_dialect d) {
  return d == PLIM_DIALECT_HF || d == PLIM_DIALECT_TRL || d == PLIM_DIALECT_SENTENCE ||
         d == PLIM_DIALECT_AXOLOTL || d == PLIM_DIALECT_LLAMA_FACTORY;
}

static bool is_last_name(const char *key, const char *name) {
  const char *last = strrchr(key, '.');
  last = last ? last + 1 : key + strspn(key, "-");
  return strcmp(last, name) == 0;
}

static const plim_setting *naming_key(const plim_project_file *f) {
  for (size_t i = f->settings.at.len; i-- > 0;)
    if (is_last_name(f->settings.at.at[i].key, "deepspeed")) return &f->settings.at.at[i];
  return NULL;
}

static bool is_nested(plim_dialect at) {
  for (; at != PLIM_DIALECTS; at = plim_dialect_table[at].base)
    if (plim_dialect_table[at].is_nested) return true;
  return false;
}

static plim_err name_file(const plim_project_file *f, const char *name, plim_edit *edit,
                          plim_error *error) {
  plim_value value = {.kind = PLIM_VALUE_TEXT, .text = name};
  const plim_setting *setting = naming_key(f);
  char key[PLIM_KEY_BYTES];
  if (setting) return plim_settings_change(&f->settings, setting, &value, edit, error);
  if (plim_project_place(f, "deepspeed", is_nested(f->recipe.dialect), key))
    return plim_settings_insert(&f->settings, key, &value, edit, error);
  return plim_fail(error, PLIM_ERR_UNSUPPORTED, "there is no sure place for deepspeed");
}

static plim_err create(plim_edit_set *out, const char *path, char *text, plim_error *error) {
  plim_new_file file = {strdup(path), text};
  if (file.path && text && vec_push(&out->files, file)) return PLIM_OK;
  free(file.path);
  free(text);
  return no_memory(error);
}

static plim_err refuse_taken(const way *w, const char *path, plim_error *error) {
  plim_err err = refuse(w, "there is a file of the name that it would get", error);
  plim_error_hint(error, "name it in your settings, or move it away: %s", path);
  return err;
}

// Beside the file that names it, by the name that it has from where the run is started.
static plim_err add_deepspeed(const plim_project *p, const way *w, plim_edit_set *out,
                              plim_error *error) {
  char plain[64], path[PLIM_PATH_BYTES], name[PLIM_PATH_BYTES];
  plim_error why = {0};
  deepspeed_name(w, plain);
  for (int order = 0; order < 2; order++)
    for (size_t i = 0; i < p->files.len; i++) {
      const plim_project_file *f = p->files.at[i];
      plim_edit edit;
      if (plim_project_rank(p, i) != order || !names_deepspeed_file(f->recipe.dialect)) continue;
      if (!plim_path_beside(f->path, plain, path) || !plim_path_from_run(p, path, name)) continue;
      if (name_file(f, name, &edit, &why)) continue;
      plim_err err = keep_edit(out, i, edit, error);
      if (!err && plim_is_file(path)) return refuse_taken(w, path, error);
      return err ? err : create(out, path, deepspeed_text(w), error);
    }
  return refuse(w, *why.message ? why.message : "nothing here names a DeepSpeed file", error);
}

// ---- accelerate's file ------------------------------------------------------------------------------

// Whatever is left out is accelerate's own default: nothing on the host, parameters let go again.
static char *accelerate_block(const way *w, const char *before) {
  char *text = NULL;
  int stage = stage_of(w), size;
  bool has_parameters = offloads(w, "parameters");
  if (!stage)
    size = asprintf(&text,
                    "%sfsdp_config:\n"
                    "  fsdp_version: 2\n"
                    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                    "  fsdp_state_dict_type: SHARDED_STATE_DICT\n%s",
                    before, has_parameters ? "  fsdp_offload_params: true\n" : "");
  else
    size = asprintf(&text, "%sdeepspeed_config:\n  zero_stage: %d\n%s%s%s", before, stage,
                    stage == 3 ? "  zero3_init_flag: true\n  zero3_save_16bit_model: true\n" : "",
                    offloads(w, "optimizer") ? "  offload_optimizer_device: cpu\n" : "",
                    stage == 3 && has_parameters ? "  offload_param_device: cpu\n" : "");
  return size < 0 ? NULL : text;
}

static bool has_block(const plim_project_file *f) {
  for (size_t i = 0; i < f->settings.at.len; i++) {
    const char *key = f->settings.at.at[i].key;
    if (strncmp(key, "deepspeed_config", 16) == 0 || strncmp(key, "fsdp_config", 11) == 0)
      return true;
  }
  return false;
}

static size_t accelerate_file(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->recipe.dialect == PLIM_DIALECT_ACCELERATE &&
        p->files.at[i]->settings.format == PLIM_FORMAT_YAML)
      return i;
  return SIZE_MAX;
}

// The type, and the block behind the last line.
static plim_err change_accelerate(const plim_project *p, size_t file, const way *w,
                                  plim_edit_set *out, plim_error *error) {
  const plim_project_file *f = p->files.at[file];
  const plim_setting *type = plim_settings_find(&f->settings, "distributed_type");
  bool is_plain = type && type->value.kind == PLIM_VALUE_TEXT && !has_block(f) &&
                  strcmp(type->value.text, "MULTI_GPU") == 0;
  if (!is_plain) return refuse(w, "accelerate's file is set up for another way to share", error);
  plim_value value = {.kind = PLIM_VALUE_TEXT, .text = stage_of(w) ? "DEEPSPEED" : "FSDP"};
  plim_edit edit;
  plim_err err = plim_settings_change(&f->settings, type, &value, &edit, error);
  if (!err) err = keep_edit(out, file, edit, error);
  if (err) return err;
  bool ends_in_line = !f->size || f->text[f->size - 1] == '\n';
  edit = (plim_edit){{f->size, f->size}, accelerate_block(w, ends_in_line ? "" : "\n")};
  return edit.text ? keep_edit(out, file, edit, error) : no_memory(error);
}

// ---- ecosystems with ways of their own --------------------------------------------------------------

static const struct {
  plim_dialect dialect;
  const char *strategy, *words;
} own_ways[] = {
    {PLIM_DIALECT_MEGATRON, "zero1", "--use-distributed-optimizer"},
    {PLIM_DIALECT_MEGATRON, "fsdp2", "--use-torch-fsdp2"},
    {PLIM_DIALECT_MEGATRON_BRIDGE, "zero1", "optimizer.use_distributed_optimizer: true"},
    {PLIM_DIALECT_MEGATRON_BRIDGE, "fsdp2", "ddp.use_torch_fsdp2: true"},
    {PLIM_DIALECT_NEMO, "zero1", "model.optim.name: distributed_fused_adam"},
    {PLIM_DIALECT_NEMO, "fsdp2", "model.fsdp: true"},
    {PLIM_DIALECT_TORCHTITAN, "fsdp2", "parallelism.data_parallel_shard_degree = -1"},
    {PLIM_DIALECT_TORCHTUNE, "fsdp2", "a recipe whose name ends in _distributed"},
    {PLIM_DIALECT_LITGPT, "fsdp2", "devices, above 1"},
    {PLIM_DIALECT_LLM_FOUNDRY, "fsdp2", "fsdp_config.sharding_strategy: FULL_SHARD"},
};

const char *plim_project_own_way(const plim_project *p, const char *strategy) {
  for (size_t i = 0; i < sizeof own_ways / sizeof *own_ways; i++)
    if (own_ways[i].dialect == p->dialect && strcmp(own_ways[i].strategy, strategy) == 0)
      return own_ways[i].words;
  return NULL;
}

static bool has_deepspeed(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == PLIM_DIALECT_DEEPSPEED) return true;
  return false;
}

static plim_err refuse_own(const way *w, const char *words, plim_error *error) {
  char why[160];
  snprintf(why, sizeof why, "it is turned on by %s", words);
  return refuse(w, why, error);
}

plim_err plim_project_share(const plim_project *p, const char *strategy, const char *offload,
                            plim_edit_set *out, plim_error *error) {
  way w = {strategy, offload};
  size_t file = accelerate_file(p);
  const char *words = plim_project_own_way(p, strategy);
  if (words) return refuse_own(&w, words, error);
  bool is_fsdp = strcmp(strategy, "fsdp2") == 0;
  if (!stage_of(&w) && !is_fsdp) return refuse(&w, "other keys would have to go", error);
  if (file != SIZE_MAX) return change_accelerate(p, file, &w, out, error);
  if (!is_fsdp && has_deepspeed(p))
    return refuse(&w, "the DeepSpeed file that is there is set up for another", error);
  if (is_fsdp) return refuse(&w, "it takes a file of accelerate's, and there is none", error);
  return add_deepspeed(p, &w, out, error);
}
