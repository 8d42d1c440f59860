// DeepSpeed's bucket sizes, whether memory on the host is pinned, and whether a sharded model is ever complete on one GPU.
#include <stddef.h>
#include <string.h>

#include "project_job.h"

// "auto" is replaced by transformers and accelerate when the model is known.
static int64_t size_said(const plim_value *v) {
  if (v->kind == PLIM_VALUE_TEXT && strcmp(v->text, "auto") == 0) return JOB_AUTO_SIZE;
  bool is_real = v->kind == PLIM_VALUE_REAL && v->real >= 0 && v->real < 1e15;
  bool is_count = v->kind == PLIM_VALUE_INTEGER && v->integer >= 0;
  int64_t size = is_real ? (int64_t)v->real : is_count ? v->integer : 0;
  return size ? size : is_real || is_count ? -1 : 0;
}

static const plim_value *value_of(const project_job *p, const char *part, const char *key) {
  const plim_setting *s = project_job_setting(p, part, key);
  if (!s) return NULL;
  return s->value.kind == PLIM_VALUE_DERIVED ? &s->computed : &s->value;
}

static bool is_explicit(const project_job *p, const char *part, const char *key, bool flag) {
  const plim_value *v = value_of(p, part, key);
  return v && v->kind == PLIM_VALUE_BOOL && v->flag == flag;
}

// The last four have an alias that begins with stage3_ (zero/config.py); DeepSpeed takes either name.
static void fill_sizes(const project_job *p, job_args *a) {
  static const struct {
    const char *key;
    size_t at; // of plim_zero_sizes
  } sizes[] = {
      {".reduce_bucket_size", offsetof(plim_zero_sizes, reduce_bucket)},
      {".sub_group_size", offsetof(plim_zero_sizes, sub_group)},
      {"prefetch_bucket_size", offsetof(plim_zero_sizes, prefetch)},
      {"max_live_parameters", offsetof(plim_zero_sizes, live)},
      {"max_reuse_distance", offsetof(plim_zero_sizes, reuse)},
      {"param_persistence_threshold", offsetof(plim_zero_sizes, persistent)},
  };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const plim_value *v = value_of(p, "zero_optimization", sizes[i].key);
    if (v) *(int64_t *)((char *)&a->zero_sizes + sizes[i].at) = size_said(v);
  }
  a->overlaps = is_explicit(p, "zero_optimization", ".overlap_comm", true);
  a->syncs_passes = is_explicit(p, "accelerator_config", "sync_each_batch", true);
  a->sends_in_turn = is_explicit(p, "zero_optimization", ".overlap_comm", false);
}

// Memory on the host is pinned unless a key says otherwise: DeepSpeed 0.19 (zero/offload_config.py), CPUOffloadPolicy of
// FSDP2, which takes the key of LLaMA-Factory v1 (distributed/fsdp2.py) or of Axolotl's patch of accelerate.
static void fill_pinning(const project_job *p, job_args *a) {
  a->pages_optimizer = is_explicit(p, "zero_optimization", "offload_optimizer.pin_memory", false);
  a->pages_parameters = is_explicit(p, "zero_optimization", "offload_param.pin_memory", false);
  a->pages_all = is_explicit(p, "dist_config", ".pin_memory", false) ||
                 is_explicit(p, "fsdp_config", "cpu_offload_pin_memory", false);
}

// zero3_init_flag of accelerate's file; a script's own HfDeepSpeedConfig, or zero.Init.
static void fill_load(const project_job *p, job_args *a) {
  bool is_cut =
      a->strategy == PLIM_SHARD_ZERO3; // otherwise the flag is turned on together with the stage
  a->loads_whole =
      (is_cut && is_explicit(p, "", "zero3_init_flag", false)) || project_job_loads_early(p, NULL);
  bool is_in_code =
      project_job_calls(p, "HfDeepSpeedConfig(") || project_job_calls(p, "zero.Init(");
  if (is_in_code && !job_is_typed(a, &a->load)) a->load = JOB_LOAD_SHARDED;
}

static bool is_of_deepspeed(const project_job *p) {
  const plim_project_knob *k = &p->project.knobs[PLIM_KNOB_OPTIMIZER];
  return k->place_count &&
         p->project.files.at[k->places[0].file]->is.dialect == PLIM_DIALECT_DEEPSPEED;
}

// The optimizer that the files name, if another one trains because DeepSpeed keeps the states on the host.
void project_job_fill_host_optimizer(project_job *p, job_args *a) {
  const plim_optimizer *o = plim_optimizer_named(a->optimizer);
  bool is_sent = a->offload == JOB_OFFLOAD_OPTIMIZER || a->offload == JOB_OFFLOAD_PARAMETERS;
  a->keeps_host_optimizer = is_explicit(p, "", "zero_force_ds_cpu_optimizer", false);
  if (!is_sent || a->strategy < PLIM_SHARD_ZERO1 || !a->through_accelerate || is_of_deepspeed(p) ||
      a->keeps_host_optimizer || (o && plim_optimizer_is_in_deepspeed(o)))
    return;
  plim_note_add(&p->notes, "reads.optimizer", "optimizer",
                "DeepSpeed keeps the optimizer's states on the host, so accelerate replaces %s by "
                "DeepSpeed's Adam: the run learns with Adam and needs host memory for its two "
                "states; \"zero_force_ds_cpu_optimizer\": false in DeepSpeed's file avoids it, if "
                "DeepSpeed can run %s on the host",
                a->optimizer, a->optimizer);
}

void project_job_fill_engine(const project_job *p, job_args *a) {
  fill_sizes(p, a);
  fill_pinning(p, a);
  fill_load(p, a);
}
