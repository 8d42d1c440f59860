#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model_config.h"
#include "tape_names.h"

// ---- values -----------------------------------------------------------------------------------------

int64_t case_integer(const json_t *object, const char *key, int64_t otherwise) {
  const json_t *value = json_object_get(object, key);
  return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

double case_number(const json_t *object, const char *key, double otherwise) {
  const json_t *value = json_object_get(object, key);
  return json_is_number(value) ? json_number_value(value) : otherwise;
}

const char *case_text(const json_t *object, const char *key, const char *otherwise) {
  const char *value = json_string_value(json_object_get(object, key));
  return value ? value : otherwise;
}

bool case_is(const json_t *object, const char *key, const char *value) {
  return strcmp(case_text(object, key, ""), value) == 0;
}

bool case_flag(const json_t *object, const char *key) {
  return json_is_true(json_object_get(object, key));
}

// ---- parts of a job ---------------------------------------------------------------------------------

// Names of the measuring program; the others are those of Trainer.
static const struct {
  const char *recorded, *ours;
} optimizers[] = {
    {"adamw_fused", "adamw"},     {"adamw_foreach", "adamw-foreach"},
    {"adamw_loop", "adamw-loop"}, {"sgd_momentum", "sgd-momentum"},
    {"lion_pytorch", "lion"},
};

static const plim_optimizer *optimizer_of(const json_t *c) {
  const char *name = case_text(c, "optim", "adamw_fused");
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
    if (strcmp(name, optimizers[i].recorded) == 0) return plim_optimizer_named(optimizers[i].ours);
  return plim_optimizer_named(name);
}

static bool config_of(const json_t *json, plim_config *c) {
  char *text = json_dumps(json, 0);
  plim_model_source source;
  bool ok = text && !plim_model_config_parse(text, strlen(text), &source, NULL);
  free(text);
  *c = source.config;
  if (case_is(json, "_kind", "mlm")) c->head = PLIM_HEAD_MASKED;
  if (case_is(json, "_kind", "encoder")) c->head = PLIM_HEAD_NONE;
  for (int i = 0; i < PLIM_HEADS; i++)
    if (case_is(json, "_kind", plim_head_names[i])) c->head = (plim_head)i;
  return ok;
}

// A list of names or numbers, separated by commas, which lives as long as the program; a text is kept as it is.
static const char *list_of(const json_t *json, const char *otherwise) {
  static vec(char *) lists;
  size_t items = json_is_array(json) ? json_array_size(json) : json_string_length(json) / 64 + 1;
  char *list = json ? calloc(items + 1, 64) : NULL;
  if (!list || !vec_push(&lists, list)) return otherwise;
  if (json_is_string(json)) strcpy(list, json_string_value(json));
  for (size_t i = 0; i < json_array_size(json); i++) {
    const json_t *item = json_array_get(json, i);
    char *end = list + strlen(list);
    if (json_is_string(item)) sprintf(end, "%s%.62s", i ? "," : "", json_string_value(item));
    else sprintf(end, "%s%d", i ? "," : "", (int)json_integer_value(item));
  }
  return list;
}

// scripts/adapters.py has further arguments of LoraConfig in "options".
static plim_lora lora_of(const json_t *lora) {
  const json_t *options = json_object_get(lora, "options");
  plim_lora out = {.rank = case_integer(lora, "r", 0),
                   .dropout = case_number(lora, "dropout", 0),
                   .targets = list_of(json_object_get(lora, "targets"), PLIM_ALL_LINEAR),
                   .excluded = list_of(json_object_get(options, "exclude_modules"), NULL),
                   .layers = list_of(json_object_get(options, "layers_to_transform"), NULL),
                   .saved = list_of(json_object_get(options, "modules_to_save"), NULL),
                   .uses_dora = case_flag(options, "use_dora"),
                   .keeps_dtype = json_is_false(json_object_get(lora, "fp32_adapters")),
                   .casts_bf16 = case_is(lora, "casts", "bf16")};
  for (int i = 0; i < PLIM_BIASES; i++)
    if (case_is(options, "bias", plim_lora_bias_names[i])) out.bias = (plim_lora_bias)i;
  return out;
}

// A list of texts, separated by blanks, which lives as long as the program; NULL if there is none.
static const char *words_of(const json_t *json) {
  char *words = (char *)list_of(json, NULL);
  for (char *c = words; c && *c; c++)
    if (*c == ',') *c = ' ';
  return words;
}

static plim_dtype dtype_named(const char *name, plim_dtype otherwise) {
  return strcmp(name, "bf16") == 0   ? PLIM_BF16
         : strcmp(name, "fp16") == 0 ? PLIM_FP16
         : strcmp(name, "fp32") == 0 ? PLIM_FP32
                                     : otherwise;
}

static plim_sdpa_kernel kernel_of(const json_t *c) {
  return case_is(c, "sdp", "flash")       ? PLIM_SDPA_FLASH
         : case_is(c, "sdp", "efficient") ? PLIM_SDPA_EFFICIENT
         : case_is(c, "sdp", "math")      ? PLIM_SDPA_MATH
                                          : PLIM_SDPA_CUDNN;
}

// scripts/accelerate_fsdp.py writes the mixed precision of accelerate, "no" if there is none.
static bool is_by_accelerate(const json_t *c) { return json_object_get(c, "mixed") != NULL; }

// scripts/zero_init.py writes who runs DeepSpeed: a loop with its engine, or Trainer. Both load a checkpoint.
static bool is_by_engine(const json_t *c) {
  return case_is(c, "strategy", "zero") && json_object_get(c, "loop") != NULL;
}

static plim_load load_of(const json_t *c) {
  if (is_by_engine(c))
    return case_integer(c, "stage", 1) == 3 ? PLIM_LOAD_SHARDED : PLIM_LOAD_PRETRAINED;
  bool is_on_host =
      case_is(c, "where", "cpu") || (is_by_accelerate(c) && case_is(c, "loop", "trainer"));
  return case_is(c, "load", "device_map")                   ? PLIM_LOAD_DEVICE_MAP
         : json_object_get(c, "load") != NULL || is_on_host ? PLIM_LOAD_PRETRAINED
                                                            : PLIM_LOAD_INIT;
}

// In the first recordings, the training loop itself splits the loss into chunks.
static plim_loss_kind loss_of(const json_t *c) {
  if (json_object_get(c, "columns")) return PLIM_LOSS_CONTRASTIVE;
  return case_is(c, "loss", "chunked")         ? PLIM_LOSS_LOOP
         : case_is(c, "loss", "chunked-model") ? PLIM_LOSS_CHUNKED
         : case_is(c, "loss", "fused")         ? PLIM_LOSS_FUSED
         : case_is(c, "loss", "eighths")       ? PLIM_LOSS_EIGHTHS
                                               : PLIM_LOSS_FULL;
}

static plim_attention_kind attention_of(const json_t *c) {
  return case_is(c, "attn", "eager")               ? PLIM_ATTENTION_EAGER
         : case_is(c, "attn", "flash_attention_2") ? PLIM_ATTENTION_FLASH
                                                   : PLIM_ATTENTION_SDPA;
}

static bool is_checkpointed(const json_t *c) {
  return case_flag(c, "ckpt") || case_flag(c, "fsdp_ckpt") || case_is(c, "ckpt", "trained");
}

// scripts/contrastive.py writes its options as words in a list.
static bool has_option(const json_t *c, const char *word) {
  const json_t *options = json_object_get(c, "options");
  for (size_t i = 0; i < json_array_size(options); i++)
    if (strcmp(json_string_value(json_array_get(options, i)), word) == 0) return true;
  return false;
}

// A tokenizer always returns a mask; with padding, every second row is a quarter shorter.
static void contrast_of(const json_t *c, plim_recipe *r) {
  r->columns = case_integer(c, "columns", 0);
  r->cached_batch = case_integer(c, "mini_batch", 0);
  r->pooling = has_option(c, "cls") ? PLIM_POOL_CLS : PLIM_POOL_MEAN;
  r->normalizes = has_option(c, "norm");
  r->mask = has_option(c, "pad") ? PLIM_MASK_PAD : PLIM_MASK_ONES;
  r->is_trainer = has_option(c, "trainer");
  r->accumulate = has_option(c, "accum") ? 2 : 1;
  if (has_option(c, "ckpt")) r->checkpoint = PLIM_CHECKPOINT_ON;
}

// scripts/offloading.py has the class of TRL, torchtune or Axolotl, with or without a stream of its own.
static plim_saving saving_of(const json_t *c) {
  bool is_inline = json_is_false(json_object_get(c, "streams"));
  if (case_is(c, "offload", "trl")) return is_inline ? PLIM_SAVED_BY_TRL_INLINE : PLIM_SAVED_BY_TRL;
  if (case_is(c, "offload", "torchtune"))
    return is_inline ? PLIM_SAVED_BY_TUNE_INLINE : PLIM_SAVED_BY_TUNE;
  if (case_is(c, "offload", "axolotl"))
    return is_inline ? PLIM_SAVED_BY_AXOLOTL_INLINE : PLIM_SAVED_BY_AXOLOTL;
  if (case_is(c, "offload", "hidden_states")) return PLIM_SAVED_INPUTS;
  return case_is(c, "offload", "save_on_cpu") ? PLIM_SAVED_ON_HOST : PLIM_SAVED_HERE;
}

// TrainingArguments: "rank=64,scale_type=tensor", and a list of modules, all-linear or nothing.
static void arguments_of(const json_t *arguments, plim_recipe *r) {
  const char *options = case_text(arguments, "optim_args", ""), *rank = strstr(options, "rank=");
  const json_t *modules = json_object_get(arguments, "optim_target_modules");
  static char names[64];
  *names = 0;
  for (size_t i = 0; i < json_array_size(modules); i++)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? " " : "",
             json_string_value(json_array_get(modules, i)));
  if (json_is_string(modules)) snprintf(names, sizeof names, ".");
  r->projection = (plim_projection){*names ? names : NULL, rank ? strtol(rank + 5, NULL, 10) : 0};
  if (strstr(case_text(arguments, "optim", ""), "layerwise") || plim_optimizer_lags(r->optimizer))
    r->steps_in_backward = r->skips_clipping = true;
  if (strstr(options, "scale_type=tensor")) r->optimizer = plim_optimizer_named("apollo-mini");
}

static plim_recipe recipe_of(const json_t *c) {
  return (plim_recipe){
      .batch = case_integer(c, "batch", 0),
      .length = case_integer(c, "seq", 0),
      .target_length = case_integer(c, "tgt", 0),
      .steps = (int)case_integer(c, "steps", 3),
      .accumulate = (int)case_integer(c, "accum", 1),
      .optimizer = optimizer_of(c),
      .attention = attention_of(c),
      .padding = case_is(c, "mask", "pad") ? case_integer(c, "seq", 0) / 4 : 0,
      .mask = case_is(c, "mask", "pad")    ? PLIM_MASK_PAD
              : case_is(c, "mask", "ones") ? PLIM_MASK_ONES
                                           : PLIM_MASK_NONE,
      .autocast = is_by_engine(c) ? PLIM_BF16 : dtype_named(case_text(c, "amp", ""), PLIM_BOOL),
      .checkpoint = !is_checkpointed(c)               ? PLIM_CHECKPOINT_OFF
                    : case_is(c, "offload", "layers") ? PLIM_CHECKPOINT_OFFLOADED
                    : case_flag(c, "reentrant")       ? PLIM_CHECKPOINT_REENTRANT
                                                      : PLIM_CHECKPOINT_ON,
      .wraps_layers = case_flag(c, "fsdp_ckpt"),
      .checkpoints_trained = case_is(c, "ckpt", "trained"),
      .adds_noise = json_object_get(json_object_get(c, "arguments"), "neftune_noise_alpha") != NULL,
      .saving = saving_of(c),
      .loss = loss_of(c),
      .loss_chunk = case_integer(c, "chunk", 0),
      .uses_liger = case_is(c, "liger", "all"),
      .is_trainer = case_is(c, "loop", "trainer"),
      .is_bare = !json_is_false(json_object_get(c, "bare")) &&
                 (json_object_get(c, "strategy") != NULL || case_is(c, "loop", "bare")),
      .uses_accelerator = case_is(c, "loop", "accelerate"),
      .drops_batch = case_flag(c, "drops_batch"),
      .clips_bare = json_is_number(json_object_get(c, "clip")),
      .steps_in_backward = case_flag(c, "in_backward"),
      .skips_clipping = json_is_false(json_object_get(c, "clip")),
      .keeps_only_loss = case_is(c, "keep", "loss"),
      .deletes_outputs = case_flag(c, "del_out")};
}

// ---- sharded runs -----------------------------------------------------------------------------------

static plim_strategy strategy_of(const json_t *c) {
  const char *name = case_text(c, "strategy", "none");
  if (strcmp(name, "zero") == 0)
    return (plim_strategy)(PLIM_SHARD_ZERO1 - 1 + case_integer(c, "stage", 1));
  for (int i = 0; i < PLIM_STRATEGIES; i++)
    if (strcmp(name, plim_strategy_names[i]) == 0) return (plim_strategy)i;
  return PLIM_STRATEGIES;
}

// With mixed precision, scripts/dist.py reduces gradients in float32, and accelerate reduces them in the compute type.
static plim_sharding sharding_of(const json_t *c) {
  const char *mixed = case_text(c, "mixed", case_text(c, "mp", ""));
  const char *reduce = is_by_accelerate(c) ? mixed : case_text(c, "reduce", "fp32");
  bool is_mixed = *mixed;
  const json_t *parts = json_object_get(c, "own_parts"); // scripts/tune.py
  unsigned own = 0;
  for (size_t i = 0; i < json_array_size(parts); i++)
    own |= 1u << (strcmp(json_string_value(json_array_get(parts, i)), "lm_head") == 0
                      ? PLIM_PART_HEAD
                      : PLIM_PART_EMBEDDING);
  return (plim_sharding){
      .strategy = strategy_of(c),
      .world = case_integer(c, "world", 1),
      .has_bucket_views = case_flag(c, "bucket_view"),
      .compute_dtype = dtype_named(mixed, PLIM_BOOL),
      .reduce_dtype = is_mixed ? dtype_named(reduce, PLIM_BOOL) : PLIM_BOOL,
      .is_by_accelerate = is_by_accelerate(c),
      .keeps_full = json_is_false(json_object_get(c, "reshard")),
      .keeps_root = own != 0,
      .own_parts = own,
      .packs_in_bytes = case_is(c, "storage", "uint8"),
      .offloads_optimizer = case_flag(c, "offload") || case_flag(c, "offload_optimizer"),
      .offloads_parameters = case_flag(c, "offload") || case_flag(c, "offload_param")};
}

// "4.57.6"
static uint16_t version_of(const json_t *c, const char *library) {
  unsigned major = 0, minor = 0;
  sscanf(case_text(c, library, ""), "%u.%u", &major, &minor);
  return PLIM_RELEASE(major, minor);
}

// scripts/preferences.py: tokens of a prompt and of two answers, each of which gets a token for its end. TRL's trainers
// turn dropout off and run checkpoints that are not reentrant.
static void preferences_of(const json_t *c, plim_job *job) {
  plim_recipe *r = &job->recipe;
  int64_t prompt = case_integer(c, "prompt", 0), longest = 0;
  const char *const answers[] = {"chosen", "rejected"};
  for (int i = 0; i < 2; i++) {
    r->answers[i] = case_integer(c, answers[i], 0) + 1;
    longest = r->answers[i] > longest ? r->answers[i] : longest;
  }
  bool scores = case_is(c, "method", "reward");
  r->length = scores ? longest : prompt + longest; // RewardTrainer's texts have no prompt here
  const json_t *keys = json_object_get(c, "keys");
  r->skips_divergence = keys && case_is(keys, "loss_type", "apo_zero_unpaired");
  if (keys && case_flag(keys, "activation_offloading")) r->saving = PLIM_SAVED_BY_TRL;
  r->centres_rewards = keys && json_object_get(keys, "center_rewards_coefficient");
  r->mask = r->answers[0] == r->answers[1] ? PLIM_MASK_ONES : PLIM_MASK_PAD;
  for (int i = 0; i < PLIM_METHODS; i++)
    if (strcmp(case_text(c, "method", "dpo"), plim_method_names[i]) == 0)
      r->method = (plim_method)i;
  bool labels = case_is(c, "method", "prm"); // of three steps of equal length
  if (labels) r->length = prompt + case_integer(c, "chosen", 0) / 3 * 3;
  bool is_full = scores || labels || plim_method_is_of_factory(r->method);
  r->loss = is_full || case_is(c, "loss", "full") ? PLIM_LOSS_FULL : PLIM_LOSS_CHUNKED;
  r->reference = case_is(c, "reference", "precomputed") ? PLIM_REFERENCE_PRECOMPUTED
                 : job->lora.rank                       ? PLIM_REFERENCE_ADAPTER
                                                        : PLIM_REFERENCE_OWN;
  r->is_trainer = true;
  job->lora.dropout = 0;
}

// scripts/tune.py: the models of two loops of torchtune.
static bool two_models_of(const json_t *c, plim_job *job) {
  plim_recipe *r = &job->recipe;
  bool distils = case_is(c, "method", "distillation");
  r->distils = distils;
  r->method = distils ? PLIM_METHOD_TEXTS : PLIM_METHOD_DPO_TUNE;
  r->loss = case_is(c, "loss", "eighths-listed") ? PLIM_LOSS_LISTED : PLIM_LOSS_FULL;
  r->reference = job->lora.rank && !distils ? PLIM_REFERENCE_ADAPTER : PLIM_REFERENCE_OWN;
  r->skips_clipping = !case_flag(c, "clip");
  return !distils || config_of(json_object_get(c, "teacher"), &job->teacher);
}

bool case_job(const json_t *c, const json_t *config, plim_job *job) {
  const char *dtype = case_text(c, "param_dtype", case_text(c, "param", ""));
  *job = (plim_job){.dtype = dtype_named(dtype, PLIM_BF16),
                    .lora = lora_of(json_object_get(c, "lora")),
                    .trained = {words_of(json_object_get(c, "trained")), case_flag(c, "wide")},
                    .load = load_of(c),
                    .sdpa = kernel_of(c),
                    .sharding = sharding_of(c),
                    .recipe = recipe_of(c),
                    .versions = {.transformers = version_of(c, "transformers"),
                                 .torch = version_of(c, "torch"),
                                 .peft = version_of(c, "peft")}};
  if (plim_packages_parse(case_text(c, "packages", "none"), &job->packages, NULL)) return false;
  for (int i = 0; i < PLIM_WEIGHTS_COUNT; i++)
    if (case_is(c, "weights", plim_weights_names[i])) job->weights = (plim_weights_kind)i;
  for (int i = 0; i < PLIM_QAT_COUNT; i++)
    if (case_is(c, "qat", plim_qat_table[i].name))
      job->qat = (plim_qat){(plim_qat_kind)i, case_integer(c, "group", 0)};
  job->is_torchtune = case_is(c, "layers", "torchtune");
  job->returns_ends = case_is(c, "prepare", "axolotl");
  job->leaves_tables = case_flag(c, "leaves_tables");
  job->prepares_kbit = case_flag(c, "prepare") || job->returns_ends;
  if (json_object_get(c, "skipped")) job->left_plain = "out_proj"; // scripts/axolotl_loading.py
  if (case_is(c, "models", "torchtune")) {                         // scripts/tune_models.py
    const json_t *tables = json_object_get(c, "tables");
    job->copies_heads = true;
    job->recipe.loss = PLIM_LOSS_EIGHTHS;
    job->rope_tables[0] =
        (plim_rope_tables){json_integer_value(json_array_get(tables, 0)),
                           (uint64_t)json_integer_value(json_array_get(tables, 1))};
  }
  if (job->recipe.loss == PLIM_LOSS_CONTRASTIVE) {
    contrast_of(c, &job->recipe);
    job->load = PLIM_LOAD_PRETRAINED;
    job->dtype = PLIM_FP32;
  }
  if (json_object_get(c, "arguments")) arguments_of(json_object_get(c, "arguments"), &job->recipe);
  if (json_object_get(c, "prompt")) preferences_of(c, job);
  else if (json_object_get(c, "method") && !case_is(c, "method", "texts") && !job->is_torchtune &&
           !two_models_of(c, job))
    return false;
  if (job->sharding.strategy == PLIM_STRATEGIES) return false;
  if (!config_of(config, &job->model) || !job->recipe.optimizer) return false;
  if (job->recipe.method == PLIM_METHOD_REWARD)
    job->model.head = PLIM_HEAD_TEXTS, job->model.labels = 1;
  if (job->recipe.method == PLIM_METHOD_PRM)
    job->model.head = PLIM_HEAD_TOKENS, job->model.labels = 2, job->model.drops_no_scores = true;
  return plim_job_check(job, NULL) == PLIM_OK;
}

void case_begin(const plim_job *job, plim_tape *t) {
  plim_tensor *epsilon = NULL;
  bool is_sharded = job->sharding.strategy != PLIM_SHARD_NONE;
  bool is_plain = job->recipe.method == PLIM_METHOD_TEXTS && !job->recipe.distils &&
                  job->recipe.is_bare && !job->qat.kind && !job->sharding.own_parts;
  if (is_sharded && job->load == PLIM_LOAD_INIT && is_plain)
    set(t, &epsilon, empty(t, (plim_dims){0}, PLIM_FP32));
}
