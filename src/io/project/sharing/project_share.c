// Sharding strategies that no single key turns on: sets the keys of a trainer (project_share_trainer.c), or
// accelerate's distributed_type with its block. The keys of the previous strategy are removed (project_unshare.c).
#include "project_share.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "project_places.h"
#include "project_steps.h"

static bool is_alone(const plim_sharing_mode_text *w) { return strcmp(w->strategy, "none") == 0; }

// PLIM_SHARE_PLAIN is one GPU, or a full copy of the model on each.
static bool kind_of(const plim_sharing_mode_text *w, plim_share_kind *out) {
  *out = plim_share_stage(w) ? PLIM_SHARE_ZERO : PLIM_SHARE_PLAIN;
  if (strcmp(w->strategy, "fsdp2") == 0) *out = PLIM_SHARE_FSDP;
  return *out != PLIM_SHARE_PLAIN || is_alone(w) || strcmp(w->strategy, "ddp") == 0;
}

// ---- accelerate's file ------------------------------------------------------------------------------

static const char *type_of(const plim_sharing_mode_text *w, plim_share_kind kind) {
  static const char *const types[] = {"MULTI_GPU", "DEEPSPEED", "FSDP"};
  return is_alone(w) ? "NO" : types[kind];
}

// Missing keys have accelerate's defaults: no offload, parameters are resharded.
static char *accelerate_block(const plim_sharing_mode_text *w, const char *before) {
  char *text = NULL;
  int stage = plim_share_stage(w), size;
  bool has_parameters = plim_share_offloads(w, "parameters");
  if (!stage)
    size = asprintf(&text,
                    "%sfsdp_config:\n"
                    "  fsdp_version: 2\n"
                    "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
                    "  fsdp_state_dict_type: FULL_STATE_DICT\n%s",
                    before, has_parameters ? "  fsdp_offload_params: true\n" : "");
  else
    size = asprintf(&text, "%sdeepspeed_config:\n  zero_stage: %d\n%s%s%s", before, stage,
                    stage == 3 ? "  zero3_init_flag: true\n  zero3_save_16bit_model: true\n" : "",
                    plim_share_offloads(w, "optimizer") ? "  offload_optimizer_device: cpu\n" : "",
                    stage == 3 && has_parameters ? "  offload_param_device: cpu\n" : "");
  return size < 0 ? NULL : text;
}

// Inserts a block after the last line of the file.
static plim_err make_block(const plim_project_file *f, const char *name, const void *what,
                           plim_edit *edit, plim_error *error) {
  (void)name;
  bool ends_in_line = !f->size || f->text[f->size - 1] == '\n';
  char *block = accelerate_block(what, ends_in_line ? "" : "\n");
  *edit = (plim_edit){{f->size, f->size}, plim_broken_like(f, block)};
  return edit->text ? PLIM_OK : plim_no_memory(error);
}

static size_t accelerate_file(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->recipe.dialect == PLIM_DIALECT_ACCELERATE &&
        p->files.at[i]->settings.format == PLIM_FORMAT_YAML)
      return i;
  return SIZE_MAX;
}

// Whether the present distributed_type can be changed: its blocks must be known; a file for one GPU stays on one GPU.
static bool is_open(const plim_project_file *f, plim_share_kind kind) {
  static const char *const known[] = {"MULTI_GPU", "DEEPSPEED", "FSDP", "NO"};
  const plim_setting *type = plim_settings_find(&f->settings, "distributed_type");
  const char *text = type && type->value.kind == PLIM_VALUE_TEXT ? type->value.text : "";
  size_t count = kind == PLIM_SHARE_PLAIN ? 4 : 3;
  for (size_t i = 0; i < count; i++)
    if (strcmp(text, known[i]) == 0) return i != (size_t)kind || kind == PLIM_SHARE_PLAIN;
  return false;
}

static const char *why_closed(const plim_project_file *f) {
  const plim_setting *type = plim_settings_find(&f->settings, "distributed_type");
  if (plim_project_setting(f, "deepspeed_config_file"))
    return "accelerate's file refers to a DeepSpeed file, which decides the strategy";
  if (!type) return "accelerate's file has no distributed_type";
  if (type->value.kind == PLIM_VALUE_BOOL)
    return "distributed_type is read as false: write \"NO\" in quotes";
  if (type->value.kind == PLIM_VALUE_TEXT && strcmp(type->value.text, "NO") == 0)
    return "accelerate's file is set up for one GPU";
  return "accelerate's file is set up for another kind of distributed training";
}

// Sets the type, removes the old block and adds the new one after the last line.
static plim_err change_accelerate(const plim_project *p, size_t file,
                                  const plim_sharing_mode_text *w, plim_share_kind kind,
                                  plim_edit_set *out, plim_error *error) {
  if (!is_open(p->files.at[file], kind))
    return plim_share_refuse(w, why_closed(p->files.at[file]), error);
  plim_err err =
      plim_share_set(p, file, plim_share_text, "distributed_type", type_of(w, kind), out, error);
  if (!err) err = plim_share_take_blocks(p, file, out, error);
  return err || kind == PLIM_SHARE_PLAIN ? err
                                         : plim_share_set(p, file, make_block, "", w, out, error);
}

// ---- other ecosystems -------------------------------------------------------------------------------

static const struct {
  plim_dialect dialect;
  const char *strategy, *words;
  const char *offload; // NULL: any
} own_ways[] = {
    {PLIM_DIALECT_MEGATRON, "zero1", "--use-distributed-optimizer"},
    {PLIM_DIALECT_MEGATRON, "fsdp2", "--use-torch-fsdp2"},
    {PLIM_DIALECT_MEGATRON_BRIDGE, "zero1", "optimizer.use_distributed_optimizer: true"},
    {PLIM_DIALECT_MEGATRON_BRIDGE, "fsdp2", "ddp.use_torch_fsdp2: true"},
    {PLIM_DIALECT_NEMO, "zero1", "model.optim.name: distributed_fused_adam"},
    {PLIM_DIALECT_NEMO, "fsdp2", "model.fsdp: true"},
    {PLIM_DIALECT_TORCHTITAN, "fsdp2", "parallelism.data_parallel_shard_degree = -1"},
    {PLIM_DIALECT_TORCHTUNE, "fsdp2", "a recipe with a name ending in _distributed"},
    {PLIM_DIALECT_LLAMA_FACTORY_V1, "fsdp2", "dist_config.name: fsdp2"},
    {PLIM_DIALECT_LITGPT, "fsdp2", "devices above 1"},
    {PLIM_DIALECT_LIGHTNING, "zero1", "Trainer(strategy=\"deepspeed_stage_1\")"},
    {PLIM_DIALECT_LIGHTNING, "zero2", "Trainer(strategy=\"deepspeed_stage_2_offload\")",
     "optimizer"},
    {PLIM_DIALECT_LIGHTNING, "zero2", "Trainer(strategy=\"deepspeed_stage_2\")"},
    {PLIM_DIALECT_LIGHTNING, "zero3", "Trainer(strategy=\"deepspeed_stage_3_offload\")",
     "parameters"},
    {PLIM_DIALECT_LIGHTNING, "zero3", "Trainer(strategy=\"deepspeed_stage_3\")"},
    {PLIM_DIALECT_LIGHTNING, "fsdp2",
     "Trainer(strategy=ModelParallelStrategy()), with fully_shard in configure_model"},
    {PLIM_DIALECT_LLM_FOUNDRY, "fsdp2", "fsdp_config.sharding_strategy: FULL_SHARD"},
};

const char *plim_project_own_sharding(const plim_project *p, const char *strategy,
                                      const char *offload) {
  for (size_t i = 0; i < sizeof own_ways / sizeof *own_ways; i++) {
    const char *with = own_ways[i].offload;
    if (own_ways[i].dialect == p->dialect && strcmp(own_ways[i].strategy, strategy) == 0 &&
        (!with || strcmp(with, offload) == 0))
      return own_ways[i].words;
  }
  return NULL;
}

static plim_err refuse_own(const plim_sharing_mode_text *w, const char *words, plim_error *error) {
  char why[160];
  snprintf(why, sizeof why, "it is turned on by %s", words);
  return plim_share_refuse(w, why, error);
}

// ---- all together -----------------------------------------------------------------------------------

static bool has_dialect(const plim_project *p, plim_dialect dialect) {
  for (size_t i = 0; i < p->files.len; i++)
    if (p->files.at[i]->is.dialect == dialect) return true;
  return false;
}

static bool has_trainer(const plim_project *p) {
  for (size_t i = 0; i < p->files.len; i++)
    if (plim_share_is_trainer(p->files.at[i]->recipe.dialect)) return true;
  return false;
}

static const plim_value on = {.kind = PLIM_VALUE_BOOL, .flag = true};
static const plim_value off = {.kind = PLIM_VALUE_BOOL, .flag = false};

static plim_err turn_checkpoint_on(const plim_project *p, size_t file, plim_edit_set *out) {
  plim_err err =
      plim_share_set(p, file, plim_share_value, "gradient_checkpointing", &on, out, NULL);
  bool is_reentrant = p->files.at[file]->recipe.dialect == PLIM_DIALECT_AXOLOTL; // by default
  if (err || !is_reentrant) return err;
  return plim_share_set(p, file, plim_share_value, "gradient_checkpointing_kwargs.use_reentrant",
                        &off, out, NULL);
}

// FSDP's checkpointing is removed with FSDP, so the trainer's checkpointing is turned on instead.
static plim_err keep_checkpoint(const plim_project *p, const plim_sharing_mode_text *w,
                                plim_edit_set *out, plim_error *error) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_CHECKPOINT];
  bool is_of_fsdp = k->place_count && k->places[0].setting &&
                    (strstr(k->places[0].setting->key, "fsdp_config.") != NULL ||
                     p->files.at[k->places[0].file]->is.dialect == PLIM_DIALECT_FSDP);
  if (!is_of_fsdp || strcmp(w->checkpoint, "on") != 0) return PLIM_OK;
  for (int order = 0; order < 2; order++)
    for (size_t i = 0; i < p->files.len; i++) {
      bool is_place =
          plim_project_rank(p, i) == order && plim_share_is_trainer(p->files.at[i]->recipe.dialect);
      if (is_place && !turn_checkpoint_on(p, i, out)) return PLIM_OK;
    }
  return plim_share_refuse(
      w, "checkpointing is enabled in FSDP's settings, and it is not clear where else to enable it",
      error);
}

static plim_err refuse_others(const plim_project *p, const plim_sharing_mode_text *w,
                              plim_share_kind kind, plim_error *error) {
  bool has_file = has_dialect(p, PLIM_DIALECT_DEEPSPEED);
  if (has_file && kind == PLIM_SHARE_ZERO)
    return plim_share_refuse(w, "the existing DeepSpeed file is set up for another stage", error);
  if (has_file)
    return plim_share_refuse(w, "DeepSpeed has to be turned off where its file is named", error);
  if (kind == PLIM_SHARE_PLAIN)
    return plim_share_refuse(
        w, "no key sets it: the training loop and its launch command decide it", error);
  return plim_share_refuse(w, plim_share_lacks[kind], error);
}

// The strategy is set by a key outside these strategies, such as LLaMA-Factory with Megatron.
static plim_err refuse_foreign(const plim_sharing_mode_text *w, const char *key,
                               plim_error *error) {
  char why[160];
  snprintf(why, sizeof why, "%.96s decides it and depends on other keys", key);
  return plim_share_refuse(w, why, error);
}

static const char *foreign_key(const plim_project *p) {
  const plim_project_knob *k = &p->knobs[PLIM_KNOB_STRATEGY];
  const plim_knob_place *place = k->place_count ? &k->places[0] : NULL;
  if (!place || !place->setting) return NULL;
  bool is_trainers = plim_share_is_trainer(p->files.at[place->file]->recipe.dialect);
  return is_trainers && !plim_share_is_key(place->setting->key) ? place->setting->key : NULL;
}

static plim_err write_kind(const plim_project *p, const plim_sharing_mode_text *w,
                           plim_share_kind kind, plim_edit_set *out, plim_error *error) {
  size_t file = accelerate_file(p);
  bool is_named = kind == PLIM_SHARE_ZERO && has_dialect(p, PLIM_DIALECT_DEEPSPEED);
  if (file == SIZE_MAX && (!has_trainer(p) || is_named)) return refuse_others(p, w, kind, error);
  const char *foreign = foreign_key(p);
  if (foreign) return refuse_foreign(w, foreign, error);
  plim_err err = plim_share_take_keys(p, kind, out, error);
  if (!err && file != SIZE_MAX) err = change_accelerate(p, file, w, kind, out, error);
  else if (!err && kind != PLIM_SHARE_PLAIN) err = plim_share_add(p, w, kind, out, error);
  return err || kind == PLIM_SHARE_FSDP ? err : keep_checkpoint(p, w, out, error);
}

// The name of the ecosystem if it is known not to support this strategy; else NULL.
static const char *unsupporting_ecosystem(const plim_project *p, const plim_sharing_mode_text *w) {
  if (p->dialect == PLIM_DIALECTS || is_alone(w)) return NULL;
  const plim_dialect_info *info = &plim_dialect_table[p->dialect];
  return info->shares && !strstr(info->shares, w->strategy) ? info->name : NULL;
}

static plim_err refuse_unknown(const plim_sharing_mode_text *w, const char *who,
                               plim_error *error) {
  char why[96];
  snprintf(why, sizeof why, "%s does not support it", who);
  return plim_share_refuse(w, why, error);
}

plim_err plim_project_share(const plim_project *p, const plim_sharing_mode_text *w,
                            plim_edit_set *out, plim_error *error) {
  const char *words = plim_project_own_sharding(p, w->strategy, w->offload),
             *who = unsupporting_ecosystem(p, w);
  plim_share_kind kind;
  if (words) return refuse_own(w, words, error);
  if (who) return refuse_unknown(w, who, error);
  if (kind_of(w, &kind)) return write_kind(p, w, kind, out, error);
  return plim_share_refuse(w, "FSDP 1 is deprecated; plimsoll writes fsdp2 instead", error);
}
