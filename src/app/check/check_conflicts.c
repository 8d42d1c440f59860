// Checks for options that conflict. Each conflict is documented by the library that refuses it.
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "family.h"
#include "python_code.h"

static bool is_trainer(const check *c) {
  plim_dialect d = c->files.project.dialect;
  return d != PLIM_DIALECTS && plim_dialect_table[d].has_trainer;
}

static bool is_fsdp(const check *c) {
  return check_says(c, PLIM_KNOB_STRATEGY, "fsdp") || check_says(c, PLIM_KNOB_STRATEGY, "fsdp2");
}

// ---- checkpointing ----------------------------------------------------------------------------------

static bool is_called(const plim_project_file *f, const char *name) {
  size_t size = strlen(f->path), end = strlen(name);
  return end <= size && strcmp(f->path + size - end, name) == 0 &&
         (end == size || f->path[size - end - 1] == '/');
}

// Finds a key in the file that --fsdp_config refers to.
static bool finds_in_fsdp_file(const check *c, const char *key, check_place *at) {
  const plim_project *p = &c->files.project;
  check_place named;
  if (!check_find(c, "fsdp_config", &named) || named.value.kind != PLIM_VALUE_TEXT) return false;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    const plim_setting *setting =
        is_called(f, named.value.text) ? plim_settings_find(&f->settings, key) : NULL;
    if (setting) *at = (check_place){f, setting, setting->value};
    if (setting) return check_is_on(&setting->value);
  }
  return false;
}

static bool finds_fsdp_checkpointing(const check *c, check_place *at) {
  return check_find_on(c, "fsdp_activation_checkpointing", at) ||
         check_find_on(c, "fsdp_config.activation_checkpointing", at) ||
         finds_in_fsdp_file(c, "activation_checkpointing", at);
}

// TRL turns it on by default.
static bool has_gradient_checkpointing(const check *c) {
  check_place at;
  plim_dialect d = c->files.project.dialect;
  if (check_find(c, "gradient_checkpointing", &at))
    return check_find_on(c, "gradient_checkpointing", &at);
  return d == PLIM_DIALECT_TRL || d == PLIM_DIALECT_UNSLOTH;
}

// Axolotl's files get a note about it (project_refusals.c).
static void check_both_checkpoints(check *c) {
  check_place at;
  bool is_told = c->files.project.dialect == PLIM_DIALECT_AXOLOTL;
  if (is_told || !is_trainer(c) || !is_fsdp(c) || !finds_fsdp_checkpointing(c, &at)) return;
  if (!has_gradient_checkpointing(c)) return;
  check_finding *f =
      check_add(c, "conflict.both_checkpoints", CHECK_FAILS,
                "gradient_checkpointing and FSDP's activation checkpointing are both on");
  check_at(f, &at);
  check_why(f, "Trainer refuses this combination: each layer would be recomputed twice");
  check_fix(f, "gradient_checkpointing: false");
}

static int64_t rank(const check *c) { return check_number(c, PLIM_KNOB_LORA_RANK); }

// peft enables input gradients itself if checkpointing is on before adapters are added.
static bool has_input_gradients(const check *c) {
  size_t enabled, adapted;
  if (check_code(c, "enable_input_require_grads", NULL)) return true;
  if (project_job_calls(&c->files, "prepare_model_for_kbit_training(")) return true;
  const plim_project_file *f = check_code(c, "gradient_checkpointing_enable(", &enabled);
  return f && check_code(c, "get_peft_model(", &adapted) == f && enabled < adapted;
}

// TRL, Unsloth and ecosystems configured in YAML handle it themselves.
static bool wraps_itself(const check *c) {
  plim_dialect d = c->files.project.dialect;
  bool is_plain = d == PLIM_DIALECT_HF || d == PLIM_DIALECT_HOME || d == PLIM_DIALECT_SENTENCE;
  return is_plain && check_code(c, "get_peft_model(", NULL);
}

// Whether use_reentrant is set, in a file or in the JSON of a command line.
static bool sets_reentrant(const check *c) {
  check_place at;
  if (check_find(c, "use_reentrant", &at)) return true;
  return check_find(c, "gradient_checkpointing_kwargs", &at) && at.value.kind == PLIM_VALUE_TEXT &&
         strstr(at.value.text, "use_reentrant");
}

static void check_reentrant(check *c) {
  size_t byte;
  bool is_reentrant = check_says(c, PLIM_KNOB_CHECKPOINT, "reentrant");
  bool is_absent = check_says(c, PLIM_KNOB_CHECKPOINT, "on") && !sets_reentrant(c);
  if (!rank(c) || !(is_reentrant || is_absent) || !wraps_itself(c) || has_input_gradients(c))
    return;
  const plim_project_file *file = check_code(c, "get_peft_model(", &byte);
  check_finding *f =
      check_add(c, "conflict.reentrant", is_reentrant ? CHECK_FAILS : CHECK_WARNING,
                is_reentrant ? "reentrant checkpointing with adapters, but without input gradients"
                             : "checkpointing with adapters is reentrant in transformers 4");
  check_at_byte(f, file, byte);
  check_why(f, "no input of a checkpointed layer requires a gradient, so the adapters in it get "
               "none: backward fails, or the adapters silently stay untrained");
  check_fix(f, "gradient_checkpointing_kwargs={\"use_reentrant\": False}, or "
               "model.enable_input_require_grads() before get_peft_model");
}

// ---- loading ----------------------------------------------------------------------------------------

static bool spreads(const check_place *at) {
  static const char *const maps[] = {"auto", "balanced", "balanced_low_0", "sequential"};
  for (size_t i = 0; at->value.kind == PLIM_VALUE_TEXT && i < sizeof maps / sizeof *maps; i++)
    if (strcmp(at->value.text, maps[i]) == 0) return true;
  return false;
}

// In YAML, device_map belongs to an ecosystem, which handles it itself.
static void check_device_map(check *c) {
  check_place at;
  if (!check_find(c, "device_map", &at) || !spreads(&at) || !check_is_sharded(c)) return;
  if (check_is_single(c)) return; // the model goes onto the only card
  if (at.file->settings.format != PLIM_FORMAT_PYTHON) return;
  bool is_ddp = !is_fsdp(c) && strncmp(c->files.run.strategy.text, "zero", 4) != 0;
  check_finding *f = check_add(c, "conflict.device_map", CHECK_FAILS,
                               "device_map=\"%s\" in a run with several processes", at.value.text);
  check_at(f, &at);
  check_why(f, "each process would spread its model over all GPUs, which accelerate refuses (\"You "
               "can't train a model that has been loaded with device_map='auto' in any distributed "
               "mode\")");
  if (is_ddp) check_fix(f, "device_map={\"\": int(os.environ[\"LOCAL_RANK\"])}");
  else check_fix(f, "remove device_map: sharding places the model");
}

// transformers knows about stage 3 once TrainingArguments exist. If they are created before the model, device_map is an
// error; if after it, device_map is used.
static bool has_arguments_above(const plim_project_file *f, size_t byte) {
  static const char *const words[] = {"*TrainingArguments(", "SFTConfig(", "HfArgumentParser(",
                                      "TrlParser(", "HfDeepSpeedConfig("};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (plim_python_find(&f->code, words[i], 0, byte) != SIZE_MAX) return true;
  return false;
}

static void check_map_of_stage_3(check *c) {
  size_t byte = 0;
  const plim_project_file *file = check_code(c, "device_map=", &byte);
  if (!file || !check_says(c, PLIM_KNOB_STRATEGY, "zero3")) return;
  if (plim_python_find(&file->code, "device_map=None", byte, byte + 1) == byte) return;
  bool fails = has_arguments_above(file, byte);
  check_finding *f = check_add(c, "conflict.zero3_device_map", fails ? CHECK_FAILS : CHECK_WARNING,
                               "device_map with ZeRO-3");
  check_at_byte(f, file, byte);
  check_why(f, fails ? "transformers refuses it: \"DeepSpeed Zero-3 is not compatible with passing "
                       "a `device_map`\""
                     : "the whole model is loaded onto each GPU before DeepSpeed shards it; if "
                       "TrainingArguments are created before the model, transformers refuses it");
  check_fix(f, "remove device_map: sharding places the model");
}

// An import alone does not add adapters.
static bool has_adapter(const check *c) {
  check_place at;
  static const char *const keys[] = {"use_peft", "use_lora", "lora"};
  static const char *const words[] = {"get_peft_model", "PeftModel*", "peft_config", "add_adapter"};
  const plim_project_knob *k = &c->files.project.knobs[PLIM_KNOB_LORA_RANK];
  if (rank(c) || !check_is_known(k->origin)) return true;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (check_find_on(c, keys[i], &at)) return true;
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (project_job_calls(&c->files, words[i])) return true;
  return false;
}

static void check_kbit(check *c) {
  const plim_project_knob *k = &c->files.project.knobs[PLIM_KNOB_QUANTISATION];
  bool is_kbit = k->origin == PLIM_EXPLICIT && k->value.kind == PLIM_VALUE_TEXT &&
                 strcmp(k->value.text, "plain") != 0;
  if (!is_kbit || has_adapter(c)) return;
  check_finding *f =
      check_add(c, "conflict.kbit", CHECK_FAILS, "%s weights without an adapter", k->value.text);
  if (k->place_count)
    check_at(f, &(check_place){c->files.project.files.at[k->places[0].file], k->places[0].setting,
                               k->value});
  check_why(f,
            "quantised weights cannot be trained directly: Trainer refuses them without adapters");
  check_fix(f, "train adapters (LoRA), or load the weights unquantised");
}

// ---- numbers ----------------------------------------------------------------------------------------

// "remove --fp16", "fp16=False", "fp16: false", "set fp16.enabled to false": as the file spells it.
static void print_off(const check_place *at, char *text, size_t size) {
  const char *key = at->setting->key, *dot = strrchr(key, '.');
  const char *own = dot ? dot + 1 : key;
  plim_format format = at->file->settings.format;
  int length = (int)strcspn(key, "#");
  if (check_is_command(at->file))
    snprintf(text, size, "remove %.*s", length < 60 ? length : 60, key);
  else if (format == PLIM_FORMAT_PYTHON) snprintf(text, size, "%.60s=False", own);
  else if (format == PLIM_FORMAT_YAML && !strstr(key, "enabled"))
    snprintf(text, size, "%.60s: false", own);
  else snprintf(text, size, "set %.60s to false", key);
}

static void check_both_halves(check *c) {
  check_place fp16, bf16;
  bool by_deepspeed =
      check_find_on(c, "fp16.enabled", &fp16) && check_find_on(c, "bf16.enabled", &bf16);
  if (!by_deepspeed && !(check_find_on(c, "fp16", &fp16) && check_find_on(c, "bf16", &bf16)))
    return;
  check_finding *f = check_add(c, "conflict.fp16_bf16", CHECK_FAILS, "fp16 and bf16 are both on");
  const plim_gpu *gpu = check_gpu(c);
  bool has_bf16 = gpu && gpu->bf16_tflops > 0;
  char no_fp16[96], no_bf16[96];
  check_at(f, &bf16);
  check_why(f, "only one of them can be on: the run stops with an error");
  print_off(&fp16, no_fp16, sizeof no_fp16);
  print_off(&bf16, no_bf16, sizeof no_bf16);
  if (has_bf16) check_fix(f, "%s (the %s has bf16)", no_fp16, gpu->name);
  else if (gpu) check_fix(f, "%s (the %s has no bf16)", no_bf16, gpu->name);
  else check_fix(f, "%s on Ampere and newer GPUs, %s on older ones", no_fp16, no_bf16);
}

// ---- optimizers and sharding ------------------------------------------------------------------------

static void check_8bit_offload(check *c) {
  const plim_run_settings *run = &c->files.run;
  bool is_8bit = check_is_known(run->optimizer.origin) &&
                 (strstr(run->optimizer.text, "8bit") || strstr(run->optimizer.text, "8-bit"));
  bool is_offloaded =
      check_is_known(run->offload.origin) && strstr(run->offload.text, "parameters");
  if (!is_8bit || !is_offloaded || !check_says(c, PLIM_KNOB_STRATEGY, "fsdp2")) return;
  check_finding *f = check_add(c, "conflict.8bit_offload", CHECK_FAILS,
                               "an 8-bit optimizer (%s) with FSDP2's offload", run->optimizer.text);
  check_why(f, "bitsandbytes' 8-bit optimizers run on the GPU, but offloaded parameters are on the "
               "CPU");
  check_fix(f, "optim: adamw_torch_fused, or turn offload_params off");
}

static void check_fused_backward(check *c) {
  check_place at;
  int64_t steps = check_number(c, PLIM_KNOB_ACCUMULATE);
  if (!check_find_on(c, "optimizer_in_bwd", &at) || steps <= 1) return;
  check_finding *f =
      check_add(c, "conflict.optimizer_in_bwd", CHECK_FAILS,
                "optimizer_in_bwd with accumulation over %lld steps", (long long)steps);
  check_at(f, &at);
  check_why(f, "the optimizer runs during every backward pass, so gradients cannot accumulate: "
               "torchtune refuses it");
  check_fix(f, "gradient_accumulation_steps: 1, or optimizer_in_bwd: False");
}

static void check_context_parallel(check *c) {
  int64_t micro = check_number(c, PLIM_KNOB_MICRO_BATCH);
  bool is_axolotl = c->files.project.dialect == PLIM_DIALECT_AXOLOTL;
  if (!is_axolotl || check_number(c, PLIM_KNOB_CONTEXT_PARALLEL) <= 1 || micro <= 1) return;
  check_finding *f = check_add(c, "conflict.context_parallel", CHECK_FAILS,
                               "micro_batch_size %lld with context parallelism", (long long)micro);
  check_why(f, "Axolotl splits single sequences, so the micro batch must be 1");
  check_fix(f, "micro_batch_size: 1, and gradient_accumulation_steps %lld times as large",
            (long long)micro);
}

static void check_lightning(check *c) {
  const plim_project *p = &c->files.project;
  if (p->dialect != PLIM_DIALECT_LIGHTNING) return;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *file = p->files.at[i];
    const plim_setting *s = plim_settings_find(&file->settings, "gradient_accumulation_steps");
    if (file->is.dialect != PLIM_DIALECT_DEEPSPEED || !s) continue;
    check_finding *f =
        check_add(c, "conflict.lightning_accumulation", CHECK_FAILS,
                  "gradient_accumulation_steps in the DeepSpeed file of a Lightning run");
    check_at(f, &(check_place){file, s, s->value});
    check_why(
        f, "Lightning sets it from accumulate_grad_batches, and refuses a file that sets it too");
    check_fix(f, "remove the key from %.80s", file->path);
  }
}

static void check_padding_free(check *c) {
  check_place at;
  const plim_known_text *attention = &c->files.run.attention;
  if (!check_find_on(c, "padding_free", &at) || !check_is_known(attention->origin)) return;
  if (strncmp(attention->text, "flash", 5) == 0) return;
  check_finding *f = check_add(c, "conflict.padding_free", CHECK_WARNING,
                               "padding_free with %s attention", attention->text);
  check_at(f, &at);
  check_why(f, "only FlashAttention keeps the sequences of a flattened batch separate");
  check_fix(f, "attn_implementation: flash_attention_2");
}

// The first compute capability that FlashAttention 2 has kernels for (its README: Ampere, Ada, Hopper).
enum { AMPERE = 80 };

static void check_flash(check *c) {
  const plim_project_knob *k = &c->files.project.knobs[PLIM_KNOB_ATTENTION];
  const plim_gpu *gpu = check_gpu(c);
  if (!check_says(c, PLIM_KNOB_ATTENTION, "flash") || !gpu || gpu->capability >= AMPERE) return;
  check_finding *f =
      check_add(c, "conflict.flash", CHECK_FAILS, "FlashAttention on the %s", gpu->name);
  if (k->place_count)
    check_at(f, &(check_place){c->files.project.files.at[k->places[0].file], k->places[0].setting,
                               k->value});
  check_why(f,
            "RuntimeError: FlashAttention only supports Ampere GPUs or newer; the %s has compute "
            "capability %d.%d",
            gpu->name, gpu->capability / 10, gpu->capability % 10);
  check_fix(f, "use sdpa attention, which has a kernel for this GPU");
}

static void check_refused_flash(check *c) {
  const plim_project_knob *k = &c->files.project.knobs[PLIM_KNOB_ATTENTION];
  if (!plim_job_is_refused_flash(&c->request.job)) return;
  check_finding *f = check_add(c, "conflict.refused_flash", CHECK_FAILS,
                               "transformers has no flash attention for this architecture");
  if (k->place_count)
    check_at(f, &(check_place){c->files.project.files.at[k->places[0].file], k->places[0].setting,
                               k->value});
  check_why(f, "from_pretrained stops with a ValueError: the model \"does not support Flash "
               "Attention\"");
  check_fix(f, "use %s attention", c->request.job.model.family->lacks_sdpa ? "eager" : "sdpa");
}

// ---- settings that the framework refuses together ----------------------------------------------------

static void check_refused(check *c) {
  plim_plan_request r = {.job = c->request.job};
  if (!c->has_estimate) return;
  r.refused_count = plim_project_refused(&c->files.project, r.refused);
  plim_choice own = plim_plan_own_choice(&r);
  const plim_refused_pair *pair = plim_plan_refused(&r, &own);
  if (!pair) return;
  check_finding *f = check_add(c, "conflict.refused", CHECK_FAILS, "%s", pair->why);
  check_why(f, "the run stops with an error in its first step or before");
  check_fix(f, "%s finds settings that work", check_plan_command(c));
}

// ---- removed keys -----------------------------------------------------------------------------------

// Keys of transformers 4 and the first version whose training_args.py does not have them.
static const struct {
  const char *key, *instead;
  uint16_t since;
} old_keys[] = {
    {"group_by_length", "use train_sampling_strategy: group_by_length", PLIM_RELEASE(5, 2)},
    {"warmup_ratio", "use warmup_steps", PLIM_RELEASE(5, 15)},
    {"overwrite_output_dir", "remove it", PLIM_RELEASE(5, 0)},
    {"no_cuda", "use use_cpu: true", PLIM_RELEASE(5, 0)},
    {"evaluation_strategy", "use eval_strategy", PLIM_RELEASE(5, 0)},
};

static void check_old_keys(check *c) {
  plim_dialect d = c->files.project.dialect;
  bool is_direct = d == PLIM_DIALECT_HF || d == PLIM_DIALECT_TRL || d == PLIM_DIALECT_SENTENCE;
  uint16_t release = c->request.job.versions.transformers; // 0: not known
  check_place at;
  for (size_t i = 0; is_direct && i < sizeof old_keys / sizeof *old_keys; i++) {
    uint16_t since = old_keys[i].since;
    bool is_there = release && release < since;
    if (is_there || !check_find(c, old_keys[i].key, &at)) continue;
    check_finding *f =
        check_add(c, "values.old_keys", CHECK_NOTE,
                  "removed in transformers %d.%d: %s (%.120s:%d); %s", since / 1000, since % 1000,
                  old_keys[i].key, at.file->path, at.setting->line, old_keys[i].instead);
    check_at(f, &at);
  }
}

// ---- all of them ------------------------------------------------------------------------------------

static void (*const conflicts[])(check *) = {
    check_both_checkpoints, check_reentrant,   check_device_map,   check_kbit,
    check_map_of_stage_3,   check_both_halves, check_8bit_offload, check_fused_backward,
    check_context_parallel, check_lightning,   check_padding_free, check_flash,
    check_refused_flash,    check_refused,
};

// What the framework itself refuses was found with the estimate.
static bool is_refused(const check *c) {
  for (size_t i = 0; i < c->findings.len; i++)
    if (strncmp(c->findings.at[i].id, "stops.", 6) == 0) return true;
  return false;
}

void check_conflicts(check *c) {
  if (!c->trains) return;
  size_t before = c->findings.len;
  for (size_t i = 0; i < sizeof conflicts / sizeof *conflicts; i++) conflicts[i](c);
  if (c->findings.len == before && !is_refused(c))
    check_add(c, "conflict.none", CHECK_OK, "options: no conflicts");
  check_old_keys(c);
}
