// Axolotl's kernels for LoRA: which of them a run has, whether it stops with them, and what they save; those for attention; the
// loss of Liger-Kernel in LLaMA-Factory v1.
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

// matmul_lora (kernels/lora.py) adds in place the product of bf16 that autocast made and a matrix in the dtype of the hidden
// states. These become float32 if the activation returns float32, as that of transformers without its package does under
// autocast (activations.py, _xielu_python): bitsandbytes' Linear4bit returns the dtype of its input.
static bool has_wide_states(const plim_job *job) {
  bool is_four_bit = job->weights != PLIM_WEIGHTS_PLAIN && job->weights != PLIM_WEIGHTS_INT8;
  return is_four_bit && job->recipe.autocast != PLIM_BOOL &&
         job->model.activation == PLIM_ACT_XIELU;
}

// apply_lora_kernel_patches takes only PeftModelForCausalLM; loaders/adapter.py gives heads with labels another class.
const char *job_kernels_stop(const job_args *args, const plim_job *job) {
  unsigned kernels = kernels_of(args, job);
  plim_lora_kernels theirs = plim_config_whole(&job->model)->axolotl_lora_kernels;
  if (!kernels) return NULL;
  if (kernels & JOB_KERNELS_ATTENTION && theirs != PLIM_LORA_KERNELS_WORK)
    return "do not know the attention of this architecture";
  if (theirs == PLIM_LORA_KERNELS_FAIL) return "do not find the layers of this architecture";
  if (has_wide_states(job))
    return "fail on float32 hidden states, which xIELU leaves behind 4-bit layers unless the "
           "package xielu is installed";
  bool has_labels = job->model.head == PLIM_HEAD_TEXTS || job->model.head == PLIM_HEAD_TOKENS;
  return has_labels ? "take only language models, not heads with labels" : NULL;
}

// find_self_attn_in_layer passes over attention that lacks one of these layers, adapted or not.
static bool finds_attention(const plim_job *job) {
  static const plim_paths layers[] = {
      {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"}};
  plim_lora everywhere = {.targets = PLIM_ALL_LINEAR};
  return plim_lora_adapts(&job->model, &everywhere, layers, 1) != 0;
}

enum { MLP = 1, QKV = 2, OUTPUT = 4, DELTA = 8 };

// A kernel replaces the linear layers of a set only if all of them have adapters.
static unsigned replaced_by(unsigned kernels, const plim_job *job) {
  static const plim_paths sets[] = {{"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"},
                                    {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                                    {"self_attn.o_proj"},
                                    {"linear_attn.in_proj_qkv"}};
  unsigned found = plim_lora_adapts(&job->model, &job->lora, sets, sizeof sets / sizeof *sets);
  if (found & (QKV | OUTPUT) && !finds_attention(job)) found &= ~(unsigned)(QKV | OUTPUT);
  if (!(kernels & JOB_KERNELS_MLP)) found &= ~(unsigned)MLP;
  return kernels & JOB_KERNELS_ATTENTION ? found : found & MLP;
}

bool job_kernels_run(const job_args *args, const plim_job *job) {
  unsigned kernels = kernels_of(args, job);
  return kernels && !job_kernels_stop(args, job) && replaced_by(kernels, job);
}

// The kernel takes the place of the MLP's forward (apply_lora_kernel_patches), which may end in a dropout.
static bool drops_dropout(unsigned kernels, const plim_job *job) {
  return replaced_by(kernels, job) & MLP && job->model.dropout > 0;
}

static void note_fused_attention(const job_args *args, job_request *r) {
  if (args->is_axolotl && plim_config_whole(&r->job.model)->axolotl_fuses_attention)
    plim_note_add(&r->notes, "unmodelled.fused_attention", "attention",
                  "in this architecture, Axolotl runs the norms and rotary positions of the "
                  "attention in kernels of its own, which are not modelled; the run needs a little "
                  "less memory and time than predicted");
}

// require_logits (v1/plugins/model_plugins/kernels/liger_kernel_ops.py) puts cross_entropy, which writes the gradient over the
// logits, in the place of fused_linear_cross_entropy.
static void note_liger_loss(const job_args *args, job_request *r) {
  if (!args->is_factory_1 || !r->job.recipe.uses_liger) return;
  plim_note_add(&r->notes, "unmodelled.liger_loss", "liger",
                "LLaMA-Factory v1 also computes the loss by Liger's cross entropy, which keeps no "
                "log-probabilities and is not modelled; the run needs less memory than predicted");
  plim_note_errs_high(&r->notes);
}

// They keep fewer activations.
void job_note_kernels(const job_args *args, job_request *r) {
  note_fused_attention(args, r);
  note_liger_loss(args, r);
  unsigned kernels = kernels_of(args, &r->job);
  const char *why = job_kernels_stop(args, &r->job);
  const char *by_itself = kernels & JOB_KERNELS_BY_ITSELF ? ", which it turns on by itself," : "";
  if (why)
    plim_note_add(&r->notes, "reads.lora_kernels", NULL,
                  "Axolotl's LoRA kernels%s %s: the run stops before it trains; set "
                  "lora_qkv_kernel: false, lora_o_kernel: false and lora_mlp_kernel: false",
                  by_itself, why);
  else if (job_kernels_run(args, &r->job))
    plim_note_add(&r->notes, "unmodelled.lora_kernels", NULL,
                  "Axolotl's LoRA kernels%s are not modelled; the run needs less memory and "
                  "usually less time than predicted%s",
                  by_itself,
                  drops_dropout(kernels, &r->job)
                      ? ", and the MLP loses its dropout (lora_mlp_kernel: false keeps it)"
                      : "");
}
