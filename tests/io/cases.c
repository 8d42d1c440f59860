#include "cases.h"

#include <string.h>

#include "family.h"

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

static const struct {
  const char *recorded, *ours;
} optimizers[] = {
    {"adamw_fused", "adamw"},           {"adamw_torch_fused", "adamw"},
    {"adamw_foreach", "adamw-foreach"}, {"adamw_torch", "adamw-foreach"},
    {"adamw_loop", "adamw-loop"},       {"sgd", "sgd"},
    {"sgd_momentum", "sgd-momentum"},   {"adafactor", "adafactor"},
};

static const plim_optimizer *optimizer_of(const json_t *c) {
  const char *name = case_text(c, "optim", "adamw_fused");
  for (size_t i = 0; i < sizeof optimizers / sizeof *optimizers; i++)
    if (strcmp(name, optimizers[i].recorded) == 0) return plim_optimizer_named(optimizers[i].ours);
  return NULL;
}

static void read_keys(const json_t *json, plim_config *c) {
  const char *key;
  const json_t *value;
  json_object_foreach((json_t *)json, key, value) {
    if (json_is_object(value)) read_keys(value, c);
    else if (json_is_string(value)) plim_config_text(c, key, json_string_value(value));
    else plim_config_number(c, key, json_is_true(value) ? 1 : json_number_value(value));
  }
}

static bool config_of(const json_t *json, plim_config *c) {
  if (plim_config_init(c, case_text(json, "model_type", "?"), NULL)) return false;
  read_keys(json, c);
  if (case_is(json, "_kind", "mlm")) c->head = PLIM_HEAD_MASKED;
  if (case_is(json, "_kind", "encoder")) c->head = PLIM_HEAD_NONE;
  return !plim_config_finish(c, NULL);
}

static uint32_t targets_of(const json_t *lora) {
  const json_t *targets = json_object_get(lora, "targets");
  uint32_t bits = 0;
  if (json_is_string(targets)) return (1u << PLIM_PROJECTIONS) - 1; // all-linear
  for (size_t i = 0; i < json_array_size(targets); i++)
    for (int k = 0; k < PLIM_PROJECTIONS; k++)
      if (strcmp(json_string_value(json_array_get(targets, i)), plim_projection_names[k]) == 0)
        bits |= 1u << k;
  return bits;
}

static plim_lora lora_of(const json_t *lora) {
  return (plim_lora){.rank = case_integer(lora, "r", 0),
                     .dropout = case_number(lora, "dropout", 0),
                     .targets = targets_of(lora),
                     .keeps_dtype = json_is_false(json_object_get(lora, "fp32_adapters"))};
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

static plim_load load_of(const json_t *c) {
  return case_is(c, "load", "device_map")     ? PLIM_LOAD_DEVICE_MAP
         : json_object_get(c, "load") != NULL ? PLIM_LOAD_PRETRAINED
                                              : PLIM_LOAD_INIT;
}

static plim_recipe recipe_of(const json_t *c) {
  return (plim_recipe){.batch = case_integer(c, "batch", 0),
                       .length = case_integer(c, "seq", 0),
                       .steps = (int)case_integer(c, "steps", 3),
                       .accumulate = (int)case_integer(c, "accum", 1),
                       .optimizer = optimizer_of(c),
                       .attention =
                           case_is(c, "attn", "eager") ? PLIM_ATTENTION_EAGER : PLIM_ATTENTION_SDPA,
                       .mask = case_is(c, "mask", "pad")    ? PLIM_MASK_PAD
                               : case_is(c, "mask", "ones") ? PLIM_MASK_ONES
                                                            : PLIM_MASK_NONE,
                       .autocast = dtype_named(case_text(c, "amp", ""), PLIM_BOOL),
                       .checkpoint = !case_flag(c, "ckpt")       ? PLIM_CHECKPOINT_OFF
                                     : case_flag(c, "reentrant") ? PLIM_CHECKPOINT_REENTRANT
                                                                 : PLIM_CHECKPOINT_ON,
                       .is_trainer = case_is(c, "loop", "trainer"),
                       .skips_clipping = json_is_false(json_object_get(c, "clip")),
                       .deletes_outputs = case_flag(c, "del_out")};
}

bool case_job(const json_t *c, const json_t *config, plim_job *job) {
  *job = (plim_job){.dtype = dtype_named(case_text(c, "param_dtype", ""), PLIM_BF16),
                    .lora = lora_of(json_object_get(c, "lora")),
                    .load = load_of(c),
                    .sdpa = kernel_of(c),
                    .recipe = recipe_of(c)};
  if (!config_of(config, &job->model) || !job->recipe.optimizer) return false;
  if (plim_job_check(job, NULL)) return false;
  // What the tape has no program for yet.
  const char *family = job->model.family->model_type;
  bool is_gpt = strncmp(family, "gpt", 3) == 0;
  bool is_eager = job->recipe.attention == PLIM_ATTENTION_EAGER;
  return !(is_gpt && job->lora.rank) && !(is_eager && strcmp(family, "gpt_neox") == 0);
}
