// Axolotl's LoRA kernels: which of them a run has, whether it stops with them, and what they save.
#include <string.h>

#include "family.h"
#include "job_options.h"
#include "modules.h"

static bool is_of_reinforcement(plim_method method) { // Axolotl's key rl
  return method != PLIM_METHOD_TEXTS && method != PLIM_METHOD_REWARD && method != PLIM_METHOD_PRM;
}

// check_auto_enable_lora_kernels (utils/schemas/config.py) leaves them off by itself if the weights have 8 bits, several
// GPUs share the model with FSDP 1, or answers are compared. normalize_config undoes them for some models.
static unsigned kernels_of(const job_args *args, const plim_job *job) {
  const plim_sharding *how = &job->sharding;
  bool is_version_1 = how->strategy == PLIM_SHARD_FSDP2 && how->is_version_1 && how->world > 1;
  bool is_left =
      is_version_1 || job->weights == PLIM_WEIGHTS_INT8 || is_of_reinforcement(job->recipe.method);
  plim_lora_kernels theirs = plim_config_whole(&job->model)->axolotl_lora_kernels;
  if (!job->lora.rank || theirs == PLIM_LORA_KERNELS_OFF) return 0;
  return is_left && args->lora_kernels & JOB_KERNELS_BY_ITSELF ? 0 : args->lora_kernels;
}

// apply_lora_kernel_patches takes only PeftModelForCausalLM; loaders/adapter.py gives heads with labels another class.
const char *job_kernels_stop(const job_args *args, const plim_job *job) {
  unsigned kernels = kernels_of(args, job);
  plim_lora_kernels theirs = plim_config_whole(&job->model)->axolotl_lora_kernels;
  if (!kernels) return NULL;
  if (kernels & JOB_KERNELS_ATTENTION && theirs != PLIM_LORA_KERNELS_WORK)
    return "do not know the attention of this architecture";
  if (theirs == PLIM_LORA_KERNELS_FAIL) return "do not find the layers of this architecture";
  bool has_labels = job->model.head == PLIM_HEAD_TEXTS || job->model.head == PLIM_HEAD_TOKENS;
  return has_labels ? "take only language models, not heads with labels" : NULL;
}

// A kernel replaces the linear layers of a set only if all of them have adapters.
static bool replace_any(unsigned kernels, const plim_job *job) {
  static const plim_paths sets[] = {{"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"},
                                    {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                                    {"self_attn.o_proj"},
                                    {"linear_attn.in_proj_qkv"}};
  unsigned found = plim_lora_adapts(&job->model, &job->lora, sets, sizeof sets / sizeof *sets);
  return (kernels & JOB_KERNELS_MLP && found & 1) ||
         (kernels & JOB_KERNELS_ATTENTION && found & ~1u);
}

// They keep fewer activations.
void job_note_kernels(const job_args *args, job_request *r) {
  unsigned kernels = kernels_of(args, &r->job);
  const char *why = job_kernels_stop(args, &r->job);
  const char *by_itself = kernels & JOB_KERNELS_BY_ITSELF ? ", which it turns on by itself," : "";
  if (why)
    plim_note_add(&r->notes, "reads.lora_kernels", NULL,
                  "Axolotl's LoRA kernels%s %s: the run stops before it trains; set "
                  "lora_qkv_kernel: false, lora_o_kernel: false and lora_mlp_kernel: false",
                  by_itself, why);
  else if (kernels && replace_any(kernels, &r->job))
    plim_note_add(&r->notes, "unmodelled.lora_kernels", NULL,
                  "Axolotl's LoRA kernels%s are not modelled; the run needs less memory than "
                  "predicted",
                  by_itself);
}
