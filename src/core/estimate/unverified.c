#include "unverified.h"

#include <string.h>

#include "family.h"

// Whether a family's runs of a kind were recorded: one of the PLIM_RECORDED_... bits.
static bool is_recorded(const plim_job *job, unsigned kind) {
  return job->model.family->recorded & kind;
}

static bool is_of_new_family(const plim_job *job) {
  return !is_recorded(job, PLIM_RECORDED_TRAINING);
}

static bool is_quantised(const plim_job *job) { return job->weights != PLIM_WEIGHTS_PLAIN; }

static bool is_int8(const plim_job *job) { return job->weights == PLIM_WEIGHTS_INT8; }

static bool is_quantised_elsewhere(const plim_job *job) {
  return is_quantised(job) && !is_recorded(job, PLIM_RECORDED_QUANTISED);
}

static bool is_fused_elsewhere(const plim_job *job) {
  return job->recipe.loss == PLIM_LOSS_FUSED && !is_recorded(job, PLIM_RECORDED_FUSED_LOSS);
}

static bool uses_liger_elsewhere(const plim_job *job) {
  return job->recipe.uses_liger && !is_recorded(job, PLIM_RECORDED_LIGER);
}

static bool offloads_with_trainer(const plim_job *job) {
  return job->recipe.is_trainer &&
         (job->recipe.offloads_saved || job->recipe.checkpoint == PLIM_CHECKPOINT_OFFLOADED);
}

static bool trains_offloaded_layers_under_autocast(const plim_job *job) {
  return job->recipe.checkpoint == PLIM_CHECKPOINT_OFFLOADED && job->recipe.autocast != PLIM_BOOL &&
         !job->lora.rank;
}

static bool uses_flash(const plim_job *job) {
  return job->recipe.attention == PLIM_ATTENTION_FLASH;
}

static bool leaves_padding_out(const plim_job *job) {
  return uses_flash(job) && job->recipe.mask == PLIM_MASK_PAD;
}

static bool is_ddp(const plim_job *job) { return job->sharding.strategy == PLIM_SHARD_DDP; }

static bool has_engine(const plim_job *job) { return job->sharding.strategy > PLIM_SHARD_FSDP2; }

static bool shards_elsewhere(const plim_job *job) {
  if (job->sharding.strategy == PLIM_SHARD_NONE) return false;
  return !is_recorded(job, has_engine(job) ? PLIM_RECORDED_DEEPSPEED : PLIM_RECORDED_SHARDED);
}

static bool shards_with_trainer(const plim_job *job) {
  return job->sharding.strategy != PLIM_SHARD_NONE && job->recipe.is_trainer && !has_engine(job) &&
         !plim_is_accelerates(&job->sharding);
}

static bool waits_for_host(const plim_job *job) {
  return job->sharding.strategy == PLIM_SHARD_ZERO3 && job->sharding.offloads_parameters;
}

static bool has_sizes(const plim_job *job) {
  static const plim_zero_sizes none = {0};
  return has_engine(job) && memcmp(&job->sharding.sizes, &none, sizeof none) != 0;
}

static bool is_fsdp_1(const plim_job *job) {
  return job->sharding.strategy == PLIM_SHARD_FSDP2 && job->sharding.is_version_1;
}

static bool scales_under_fsdp(const plim_job *job) {
  return plim_is_accelerates(&job->sharding) && job->sharding.compute_dtype == PLIM_FP16;
}

static bool has_no_logits_under_fsdp(const plim_job *job) {
  return plim_is_accelerates(&job->sharding) && job->recipe.loss != PLIM_LOSS_FULL;
}

static bool is_in_eighths(const plim_job *job) {
  return job->recipe.loss == PLIM_LOSS_EIGHTHS || job->recipe.loss == PLIM_LOSS_LISTED;
}

static bool is_contrastive(const plim_job *job) {
  return job->recipe.loss == PLIM_LOSS_CONTRASTIVE;
}

static bool contrasts_elsewhere(const plim_job *job) {
  bool is_elsewhere = job->model.head != PLIM_HEAD_NONE || job->recipe.pooling == PLIM_POOL_LAST;
  return is_contrastive(job) && (is_elsewhere || job->sharding.strategy != PLIM_SHARD_NONE);
}

static bool is_pairwise(const plim_job *job) {
  return is_contrastive(job) && job->recipe.is_pairwise;
}

static bool has_another_loss(const plim_job *job) {
  bool is_plain = !job->recipe.is_trainer && job->sharding.strategy == PLIM_SHARD_NONE;
  return job->model.head == PLIM_HEAD_NONE && !is_plain && !is_contrastive(job);
}

// Jobs that no recording in tests/truth and no measured row covers.
static const struct {
  bool (*applies)(const plim_job *job);
  const char *reason;
} rows[] = {
    {is_of_new_family,
     "this architecture is modelled from transformers' source code and was not checked against a "
     "measurement"},
    {shards_elsewhere, "this architecture on several GPUs was not checked against a measurement"},
    {shards_with_trainer, "Trainer on several GPUs was not checked against a measurement"},
    {waits_for_host, "with ZeRO 3 and parameters on the host, the moment at which memory is freed "
                     "depends on how busy the GPU is"},
    {has_sizes,
     "bucket sizes other than DeepSpeed's defaults are modelled from its source code and "
     "were not checked against a measurement"},
    {is_fsdp_1, "FSDP 1 is predicted as FSDP2, but accelerate runs FSDP 1 under autocast"},
    {scales_under_fsdp, "float16 under accelerate's FSDP2 is predicted without the GradScaler"},
    {has_no_logits_under_fsdp,
     "a loss that never materialises the logits was not checked against a measurement under "
     "accelerate's FSDP2"},
    {has_another_loss,
     "the loss of an encoder without a head is predicted as the mean of its squared outputs"},
    {contrasts_elsewhere,
     "a contrastive loss with a decoder, with last-token pooling or on several GPUs was not "
     "checked against a measurement"},
    {is_pairwise, "a loss that compares the texts of one sample is predicted as a loss on the "
                  "differences of embeddings"},
    {is_in_eighths,
     "torchtune's losses in eight chunks are modelled from their source code and were not checked "
     "against a measurement"},
    {is_int8, "with LLM.int8(), the number of outlier columns depends on the data; the prediction "
              "assumes none"},
    {is_quantised_elsewhere,
     "quantised weights were not checked against a measurement in this architecture"},
    {is_fused_elsewhere,
     "Liger-Kernel's cross entropy was not checked against a measurement in this architecture"},
    {uses_liger_elsewhere,
     "Liger-Kernel's modules were not checked against a measurement in this architecture"},
    {offloads_with_trainer,
     "activation offload under Trainer was not checked against a measurement"},
    {trains_offloaded_layers_under_autocast,
     "checkpoint offload under autocast without adapters was not checked against a measurement"},
    {uses_flash, "the memory of flash-attn's kernels was not measured; other builds (Hugging Face "
                 "kernels, newer "
                 "versions) may differ"},
    {leaves_padding_out, "flash-attn skips padding, and how many tokens are padding depends on "
                         "the data; the prediction assumes none"},
    {is_ddp, "NCCL may hold the first backward's gradients for a varying time; the prediction "
             "assumes that it holds them until the second backward"},
};

size_t plim_job_unverified(const plim_job *job, const char **reasons, size_t max) {
  size_t found = 0;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!rows[i].applies(job)) continue;
    if (found < max) reasons[found] = rows[i].reason;
    found++;
  }
  return found;
}

bool plim_job_moves_to_host(const plim_job *job) {
  return job->sharding.offloads_optimizer || job->sharding.offloads_parameters ||
         job->recipe.offloads_saved || job->recipe.checkpoint == PLIM_CHECKPOINT_OFFLOADED ||
         plim_optimizer_is_paged(job->recipe.optimizer);
}
