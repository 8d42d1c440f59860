// Turns what was observed in a simulated run into the options of a prediction.
#include <string.h>

#include "optimizer.h"
#include "sharding.h"
#include "trial_impl.h"

typedef struct {
  const simulate_observed *seen;
  job_args *args;
  cli_call *typed;
  bool has_no_memory;
} facts;

// Marks an option as typed, so that the files do not change it.
static void say(facts *f, const void *field) {
  size_t at = (size_t)((const char *)field - (const char *)f->args);
  if (!vec_push(&f->typed->given, f->args->typed_at + at)) f->has_no_memory = true;
}

static void say_count(facts *f, uint64_t *field, uint64_t count) {
  *field = count;
  say(f, field);
}

static void say_flag(facts *f, bool *field, bool flag) {
  *field = flag;
  say(f, field);
}

// Sets nothing if the name is not among the choices: the files decide then, and the comparison of peaks shows whether they
// are right.
static void say_choice(facts *f, int *field, const char *const *choices, const char *name) {
  for (int i = 0; name && choices[i]; i++)
    if (strcmp(choices[i], name) == 0) {
      *field = i;
      say(f, field);
    }
}

// ---- names ------------------------------------------------------------------------------------------

// PyTorch's name of a dtype as options have it.
static const char *dtype_of(const char *name) {
  static const char *const names[][2] = {
      {"bfloat16", "bf16"}, {"float16", "fp16"}, {"float32", "fp32"}, {"none", "none"}};
  for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i][0], name) == 0) return names[i][1];
  return NULL;
}

static const char *attention_of(const char *name) {
  return name && strcmp(name, "flash_attention_2") == 0 ? "flash" : name;
}

// "deepspeed zero3" is zero3.
static const char *strategy_of(const char *name) {
  static const char by_deepspeed[] = "deepspeed ";
  bool is_zero = name && strncmp(name, by_deepspeed, strlen(by_deepspeed)) == 0;
  return is_zero ? name + strlen(by_deepspeed) : name;
}

// ---- parts ------------------------------------------------------------------------------------------

static void say_types(facts *f) {
  const simulate_observed *o = f->seen;
  bool has_frozen = o->trained < o->parameters;
  say_choice(f, &f->args->dtype, job_dtypes,
             dtype_of(has_frozen ? o->frozen_dtype : o->trained_dtype));
  if (o->adapters) say_choice(f, &f->args->lora_dtype, job_lora_dtypes, dtype_of(o->trained_dtype));
  // FSDP2 and DeepSpeed convert by themselves.
  if (f->args->strategy <= PLIM_SHARD_DDP)
    say_choice(f, &f->args->amp, job_amps, dtype_of(o->autocast));
}

static void say_adapters(facts *f) {
  const simulate_observed *o = f->seen;
  say_count(f, &f->args->lora_rank, o->adapters ? o->rank : 0);
  if (!o->adapters) return;
  f->args->lora_dropout = o->dropout;
  say(f, &f->args->lora_dropout);
  f->args->lora_targets = o->targets;
  say(f, &f->args->lora_targets);
}

// If the files say the same, nothing is set, because they also say how: FSDP, for example, checkpoints each layer.
static void say_checkpoint(facts *f, const char *in_files) {
  const simulate_observed *o = f->seen;
  const char *seen = !o->checkpoints ? "off" : o->is_reentrant ? "reentrant" : "on";
  if (strcmp(in_files, seen) == 0) return;
  say_flag(f, &f->args->checkpoint, o->checkpoints && !o->is_reentrant);
  say_flag(f, &f->args->reentrant, o->is_reentrant);
}

static void say_optimizer(facts *f) {
  const char *name = f->seen->optimizer_name;
  const char *own = name ? plim_optimizer_own_name(name) : NULL;
  if (!own) return;
  f->args->optimizer = own;
  say(f, &f->args->optimizer);
}

// The values of a mask are not read, since that would allocate. If the files do not say what is masked, an all-ones mask is
// assumed for batches of one length; the comparison of peaks shows whether that is right.
static void say_mask(facts *f, const char *in_files) {
  bool is_said = *in_files && strcmp(in_files, "none") != 0;
  if (!f->seen->has_mask) say_choice(f, &f->args->mask, plim_mask_names, "none");
  else if (!is_said)
    say_choice(f, &f->args->mask, plim_mask_names, f->seen->shapes > 1 ? "longest" : "ones");
}

static void say_batch(facts *f, const trial_program *p) {
  const simulate_observed *o = f->seen;
  say_count(f, &f->args->batch, (uint64_t)p->micro);
  say_count(f, &f->args->accumulate, p->accumulation ? (uint64_t)p->accumulation : o->accumulation);
  say_count(f, &f->args->world, p->gpus);
  if (o->has_tokens && o->batch[1]) say_count(f, &f->args->seq, o->batch[1]);
  say_mask(f, p->files.run.mask.text);
}

// ---- all of it --------------------------------------------------------------------------------------

static plim_err refuse(const trial_program *p, const simulate_process *seen, plim_error *error) {
  const simulate_observed *o = &seen->observed;
  if (!seen->config)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "plimsoll predicts only models of transformers, and %.80s has no transformers "
                     "configuration",
                     o->model ? o->model : "this program's model");
  if (o->adapters && strcmp(o->adapters, "LORA") != 0)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED, "plimsoll does not predict %.40s adapters",
                     o->adapters);
  if (p->accumulation && o->accumulation && o->accumulation != (uint64_t)p->accumulation)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "the program ran %llu backward passes for each optimizer step, but its files "
                     "set the accumulation to %lld",
                     (unsigned long long)o->accumulation, (long long)p->accumulation);
  return PLIM_OK;
}

plim_err trial_observed_fill(trial_program *p, const simulate_process *seen, job_args *args,
                             cli_call *typed, plim_error *error) {
  facts f = {&seen->observed, args, typed, false};
  plim_err err = refuse(p, seen, error);
  if (!err) err = plim_run_settings_of(&p->files.project, &p->files.run, error);
  if (err) return err;
  args->typed = typed;
  args->model = seen->config;
  say(&f, &args->model);
  say_batch(&f, p);
  say_choice(&f, &args->strategy, plim_strategy_names, strategy_of(f.seen->strategy));
  say_types(&f);
  say_adapters(&f);
  say_choice(&f, &args->attention, plim_attention_names, attention_of(f.seen->attention));
  say_checkpoint(&f, p->files.run.checkpoint.text);
  say_optimizer(&f);
  if (args->strategy <= PLIM_SHARD_DDP) say_flag(&f, &args->no_clip, !f.seen->clips);
  return f.has_no_memory ? plim_no_memory(error) : PLIM_OK;
}
