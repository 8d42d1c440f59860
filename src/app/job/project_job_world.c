// Finds the number of GPUs of a project's run. Assumes one if nothing depends on it or if plain python starts the run.
#include <string.h>

#include "project_job.h"

static bool is_sharded(const project_job *p, const job_args *a) {
  const char *strategy = p->run.strategy.text;
  bool is_typed = a->strategy || job_is_typed(a, &a->strategy);
  return !is_typed && (strncmp(strategy, "fsdp", 4) == 0 || strncmp(strategy, "zero", 4) == 0);
}

static plim_err ask(plim_error *error) {
  plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                           "the files do not set the number of GPUs, but gradient accumulation "
                           "depends on it (global batch divided by micro batch and GPUs)");
  plim_error_hint(error, "give the number of GPUs, for example --world 8");
  return err;
}

static bool is_command(const plim_project_file *f) {
  return f->settings.format == PLIM_FORMAT_SHELL || f->settings.format == PLIM_FORMAT_DOCKERFILE;
}

// Whether the text has this whole word: --deepspeed is not a launcher.
static bool has_word(const char *text, const char *word) {
  size_t n = strlen(word);
  for (const char *at = text; (at = strstr(at, word)) != NULL; at += n) {
    bool begins = at == text || strchr(" \t\n/\"'(", at[-1]);
    if (begins && strchr(" \t\n\\", at[n])) return true;
  }
  return false;
}

static bool starts_several(const plim_project_file *f) {
  static const char *const launchers[] = {"deepspeed",
                                          "torchrun",
                                          "accelerate",
                                          "srun",
                                          "mpirun",
                                          "torch.distributed.run",
                                          "torch.distributed.launch",
                                          "accelerate.commands.launch",
                                          "deepspeed.launcher.runner"};
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
    if (has_word(f->text, launchers[i])) return true;
  return !has_word(f->text, "python") && !has_word(f->text, "python3");
}

// Without a launcher, DeepSpeed uses one GPU. A configuration without a script is started by its ecosystem, on all GPUs.
static bool is_plain_script(const plim_project *p) {
  bool has_script = false;
  for (size_t i = 0; i < p->files.len; i++) {
    const plim_project_file *f = p->files.at[i];
    if (f->is.dialect == PLIM_DIALECT_ACCELERATE || (is_command(f) && starts_several(f)))
      return false;
    has_script |= f->settings.format == PLIM_FORMAT_PYTHON;
  }
  return has_script;
}

bool project_job_is_plain(const project_job *p) { return is_plain_script(&p->project); }

// Of one machine as data centres have them: what most published configurations of sharded training are made for.
enum { USUAL_GPUS = 8 };

// LLaMA-Factory v1 puts each expert on one of ep_size GPUs, which must divide the number of all (distributed/fsdpturbo.py).
static void assume_usual_gpus(project_job *p, job_args *a) {
  const plim_setting *group = project_job_setting(p, "dist_config.ep_size", "dist_config.ep_size");
  bool is_count = group && group->value.kind == PLIM_VALUE_INTEGER && group->value.integer > 0 &&
                  group->value.integer <= 1 << 16;
  int64_t size = is_count ? group->value.integer : 1;
  bool is_usual = USUAL_GPUS % size == 0;
  a->world = (uint64_t)(is_usual ? USUAL_GPUS : (USUAL_GPUS + size - 1) / size * size);
  plim_note_add(&p->notes, "assumed.gpus", "world",
                "the files shard the model (%s) and do not set the number of GPUs: assuming %d%s%s "
                "(--world N to change)",
                p->run.strategy.text, (int)a->world, is_usual ? "" : ", a multiple of ",
                is_usual ? "" : group->key);
}

plim_err project_job_check_world(project_job *p, job_args *a, plim_error *error) {
  int64_t steps;
  bool is_open = a->world == JOB_UNSET && p->run.world.origin == PLIM_ABSENT;
  if (!is_open) return PLIM_OK;
  const char *distributed = project_job_distributed_key(p);
  if (distributed && !is_sharded(p, a)) {
    a->world = USUAL_GPUS;
    plim_note_add(&p->notes, "assumed.gpus", "world",
                  "%s is a key of torchtune's distributed recipes, which shard with FSDP2: "
                  "assuming %d GPUs (--world N to change)",
                  distributed, USUAL_GPUS);
    return PLIM_OK;
  }
  bool is_zero = strncmp(p->run.strategy.text, "zero", 4) == 0;
  if (is_sharded(p, a) && is_zero && is_plain_script(&p->project))
    plim_note_add(&p->notes, "assumed.gpus", "world",
                  "the files have no launcher: assuming one GPU (--world N for more)");
  else if (is_sharded(p, a)) {
    assume_usual_gpus(p, a);
    return PLIM_OK;
  }
  if (a->accumulate == JOB_UNSET && plim_project_accumulation(&p->project, 1, 1, &steps))
    return ask(error);
  return PLIM_OK;
}

// ---- which cards it sees ----------------------------------------------------------------------------

int64_t project_job_visible(const project_job *p) {
  const plim_setting *s = project_job_setting(p, "cuda_visible_devices", "cuda_visible_devices");
  bool is_number = s && s->value.kind == PLIM_VALUE_INTEGER;
  if (is_number) return s->value.integer >= 0;
  if (!s || s->value.kind != PLIM_VALUE_TEXT || !*s->value.text) return 0;
  int64_t count = 1;
  for (const char *at = s->value.text; *at; at++) {
    if (strchr("$`-", *at)) return 0; // a shell expression, or no card at all
    count += *at == ',';
  }
  return count;
}

void project_job_note_visible(project_job *p, const job_args *a) {
  int64_t visible = project_job_visible(p);
  uint64_t local = a->nodes > 1 ? a->world / a->nodes : a->world;
  if (a->world == JOB_UNSET || !visible || (uint64_t)visible >= local) return;
  plim_note_add(&p->notes, "conflict.visible_devices", "world",
                "CUDA_VISIBLE_DEVICES in the files lists %lld of the %llu GPUs: a process without "
                "a GPU fails with \"invalid device ordinal\"",
                (long long)visible, (unsigned long long)local);
}

// If another number of GPUs was typed, the number of machines in the files does not count.
static void drop_nodes(job_args *a) {
  bool is_split = a->nodes && a->world % a->nodes == 0;
  if (!is_split && !job_is_typed(a, &a->nodes)) a->nodes = 1;
}

uint64_t project_job_own_batch(const project_job *p, uint64_t world) {
  int64_t own = project_job_count(p, PLIM_KNOB_WORLD);
  int64_t ranks = plim_project_ranks(&p->project, own ? own : (int64_t)world);
  int64_t steps = project_job_count(p, PLIM_KNOB_ACCUMULATE);
  if (p->run.accumulate.origin == PLIM_ABSENT) steps = 1;
  if (project_job_batch(p)) return project_job_batch(p);
  return (uint64_t)(project_job_count(p, PLIM_KNOB_MICRO_BATCH) * steps * ranks);
}

plim_err project_job_divide(const project_job *p, job_args *a, bool is_open, plim_error *error) {
  int64_t steps, world = (int64_t)a->world, micro = (int64_t)a->batch;
  drop_nodes(a);
  if (!is_open || !plim_project_accumulation(&p->project, micro, world, &steps)) return PLIM_OK;
  if (steps) a->accumulate = (uint64_t)steps;
  if (steps) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT,
                "the global batch of %lld is not a multiple of micro batch %lld x %lld GPUs",
                (long long)p->run.global_batch.count, (long long)micro, (long long)world);
  plim_error_hint(error, "choose --batch and --world so that accumulation is a whole number");
  return err;
}
