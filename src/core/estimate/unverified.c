#include "unverified.h"

#include <string.h>

#include "family.h"
#include "heads.h"
#include "modules.h"

// Whether a family's runs of a kind were recorded: one of the PLIM_RECORDED_... bits.
static bool is_recorded(const plim_job *job, unsigned kind) {
  return plim_config_whole(&job->model)->recorded & kind;
}

static bool is_of_new_family(const plim_job *job) {
  return !is_recorded(job, PLIM_RECORDED_TRAINING);
}

static bool is_of_unrecorded_release(const plim_job *job) {
  uint16_t release = plim_versions_used(&job->versions, PLIM_LIBRARY_TRANSFORMERS);
  if (release == PLIM_MEASURED_TRANSFORMERS) return false;
  if (release > PLIM_MEASURED_TRANSFORMERS) return !is_recorded(job, PLIM_RECORDED_5_22);
  if (release == PLIM_RELEASE(4, 57)) return !is_recorded(job, PLIM_RECORDED_4_57);
  return release != PLIM_RELEASE(4, 46) || !is_recorded(job, PLIM_RECORDED_4_46);
}

// Since 5.0 all experts are computed at once.
static bool runs_experts_one_by_one(const plim_job *job) {
  return job->model.experts &&
         plim_versions_used(&job->versions, PLIM_LIBRARY_TRANSFORMERS) < PLIM_RELEASE(5, 0);
}

static bool is_of_other_torch(const plim_job *job) {
  return plim_versions_used(&job->versions, PLIM_LIBRARY_TORCH) != PLIM_MEASURED_TORCH;
}

static bool is_of_unrecorded_torch(const plim_job *job) {
  return is_of_other_torch(job) && !is_recorded(job, PLIM_RECORDED_TORCH);
}

// masking_utils.py: sdpa_mask_older_torch.
static bool makes_masks_for_old_torch(const plim_job *job) {
  return plim_versions_used(&job->versions, PLIM_LIBRARY_TORCH) < PLIM_RELEASE(2, 6) &&
         plim_versions_used(&job->versions, PLIM_LIBRARY_TRANSFORMERS) >= PLIM_RELEASE(4, 53);
}

static bool shards_with_other_torch(const plim_job *job) {
  return is_of_other_torch(job) && job->sharding.strategy != PLIM_SHARD_NONE;
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
  bool is_modelled = plim_config_whole(&job->model)->has_liger; // a note says where it is not
  return job->recipe.uses_liger && is_modelled && !is_recorded(job, PLIM_RECORDED_LIGER);
}

static bool offloads_with_trainer(const plim_job *job) {
  return job->recipe.is_trainer && (job->recipe.saving == PLIM_SAVED_ON_HOST ||
                                    job->recipe.checkpoint == PLIM_CHECKPOINT_OFFLOADED);
}

// record_stream: the allocator frees such a tensor only when the GPU has done what was issued before its last use ended. The
// recordings are of a simulated GPU, which is always done.
static bool frees_when_done(const plim_job *job) {
  return job->recipe.saving > PLIM_SAVED_ON_HOST && job->recipe.checkpoint != PLIM_CHECKPOINT_OFF;
}

static bool trains_offloaded_layers_under_autocast(const plim_job *job) {
  return job->recipe.checkpoint == PLIM_CHECKPOINT_OFFLOADED && job->recipe.autocast != PLIM_BOOL &&
         !job->lora.rank;
}

static bool uses_flash(const plim_job *job) {
  return job->recipe.attention == PLIM_ATTENTION_FLASH;
}

static bool loops_over_experts(const plim_job *job) {
  uint16_t version = job->versions.transformers;
  return job->model.experts && version && version < PLIM_RELEASE(5, 0);
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

static bool shards_as_patched(const plim_job *job) {
  return plim_is_accelerates(&job->sharding) && job->sharding.is_patched && !is_quantised(job);
}

static bool shards_int8(const plim_job *job) {
  return is_int8(job) && job->sharding.strategy == PLIM_SHARD_FSDP2;
}

static bool shards_what_it_quantises(const plim_job *job) {
  return is_quantised(job) && plim_job_loads_in_parts(job);
}

static bool scales_under_fsdp(const plim_job *job) {
  return plim_is_accelerates(&job->sharding) && job->sharding.compute_dtype == PLIM_FP16;
}

static bool has_no_logits_under_fsdp(const plim_job *job) {
  return plim_is_accelerates(&job->sharding) && job->recipe.loss != PLIM_LOSS_FULL;
}

// tests/truth/tune_models.json: torchtune's own models on one GPU.
static bool is_in_eighths(const plim_job *job) {
  bool is_listed = job->recipe.loss == PLIM_LOSS_LISTED && !job->recipe.distils;
  return (job->recipe.loss == PLIM_LOSS_EIGHTHS && !job->is_torchtune) || is_listed;
}

// tests/truth/two_models, parts-*: the loss in eighths on one rank of FSDP2.
static bool shares_eighths(const plim_job *job) {
  plim_strategy strategy = job->sharding.strategy;
  return job->recipe.loss == PLIM_LOSS_EIGHTHS && job->is_torchtune &&
         strategy != PLIM_SHARD_NONE && strategy != PLIM_SHARD_FSDP2;
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

static bool shards_labels(const plim_job *job) {
  return plim_returns_labels(job->model.head) && job->sharding.strategy != PLIM_SHARD_NONE;
}

static bool trains_more_elsewhere(const plim_job *job) {
  const plim_lora *l = &job->lora;
  bool trains_others = l->rank && (l->saved || l->bias || plim_lora_names_head(l));
  bool is_recorded = job->is_torchtune || !is_quantised(job); // DoRA
  bool is_shared = job->sharding.strategy != PLIM_SHARD_NONE;
  return (trains_others && (is_quantised(job) || is_shared)) ||
         (l->rank && l->uses_dora && (!is_recorded || is_shared));
}

static bool trains_part_elsewhere(const plim_job *job) {
  return job->trained.names && !job->lora.rank && job->sharding.strategy != PLIM_SHARD_NONE;
}

static bool compares_elsewhere(const plim_job *job) {
  bool is_recorded =
      job->recipe.method == PLIM_METHOD_DPO_TUNE && job->sharding.strategy == PLIM_SHARD_FSDP2;
  bool is_shared = job->sharding.strategy != PLIM_SHARD_NONE && !is_recorded;
  return plim_method_compares(job->recipe.method) &&
         (is_quantised(job) || job->recipe.uses_liger || is_shared);
}

static bool compares_narrow_logits(const plim_job *job) {
  bool has_logits = plim_method_compares(job->recipe.method) &&
                    job->recipe.method != PLIM_METHOD_REWARD &&
                    job->recipe.method != PLIM_METHOD_DPO_TUNE;
  return has_logits && job->recipe.loss == PLIM_LOSS_FULL && job->recipe.autocast == PLIM_BOOL &&
         job->dtype != PLIM_FP32;
}

static bool is_of_torchtune(const plim_job *job) {
  return job->recipe.distils || job->recipe.method == PLIM_METHOD_DPO_TUNE;
}

static bool has_other_layers_of_torchtune(const plim_job *job) {
  return job->copies_heads && !job->model.family->was_run_in_torchtune;
}

static bool tunes_on_several(const plim_job *job) {
  return is_of_torchtune(job) && job->sharding.strategy != PLIM_SHARD_NONE;
}

static bool shares_answers(const plim_job *job) {
  return plim_method_compares(job->recipe.method) && !is_of_torchtune(job) &&
         job->sharding.strategy > PLIM_SHARD_DDP;
}

static bool steps_others_in_backward(const plim_job *job) {
  const plim_optimizer *o = job->recipe.optimizer;
  bool is_recorded =
      o == plim_optimizer_named("adamw") || o == plim_optimizer_named("adamw-foreach") ||
      ((plim_optimizer_projects(o) || plim_optimizer_lags(o)) && job->recipe.is_trainer);
  return job->recipe.steps_in_backward && !is_recorded;
}

static bool has_compiled_step(const plim_job *job) {
  return plim_optimizer_is_compiled(job->recipe.optimizer);
}

static bool orthogonalises(const plim_job *job) {
  bool is_recorded = !job->recipe.is_trainer && job->sharding.strategy == PLIM_SHARD_NONE;
  return job->recipe.optimizer == plim_optimizer_named("muon") && !is_recorded;
}

static bool divides_shards(const plim_job *job) {
  return plim_optimizer_divides_blocks(job->recipe.optimizer) &&
         job->sharding.strategy > PLIM_SHARD_DDP;
}

static bool steps_by_another_package(const plim_job *job) {
  return plim_optimizer_is_alone(job->recipe.optimizer) &&
         job->sharding.strategy != PLIM_SHARD_NONE;
}

static bool decomposes_gradients(const plim_job *job) {
  return plim_optimizer_projects(job->recipe.optimizer) &&
         !plim_optimizer_draws_projection(job->recipe.optimizer);
}

static bool fetches_kernels(const plim_job *job) {
  return PLIM_HAS_PACKAGE(job->packages, PLIM_PACKAGE_KERNELS);
}

static bool projects_elsewhere(const plim_job *job) {
  bool is_recorded = job->recipe.is_trainer && job->sharding.strategy == PLIM_SHARD_NONE;
  return plim_optimizer_projects(job->recipe.optimizer) && !is_recorded;
}

static bool distils_quantised(const plim_job *job) {
  return job->recipe.distils && is_quantised(job);
}

// tests/truth/qat: one GPU and FSDP2.
static bool rounds_elsewhere(const plim_job *job) {
  plim_strategy strategy = job->sharding.strategy;
  bool is_recorded = strategy == PLIM_SHARD_NONE ||
                     (strategy == PLIM_SHARD_FSDP2 && !plim_is_accelerates(&job->sharding));
  return job->qat.kind && (!is_recorded || job->recipe.uses_liger);
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
    {is_of_unrecorded_release,
     "this architecture was not checked against a measurement with this version of transformers"},
    {runs_experts_one_by_one,
     "how many tokens each expert gets depends on the data; the prediction assumes counts that "
     "differ by up to a fifth from their mean"},
    {is_of_unrecorded_torch,
     "this architecture was not checked with versions of PyTorch other than "
     "2.11; the run may need more or less memory than predicted"},
    {makes_masks_for_old_torch,
     "transformers 4.53 and later makes attention masks in another way with PyTorch before 2.6, "
     "which is not modelled; the run may need a little more or less memory than predicted"},
    {shards_with_other_torch, "several GPUs were not checked with versions of PyTorch other than "
                              "2.11; the run may need more or less memory than predicted"},
    {shards_elsewhere, "this architecture on several GPUs was not checked against a measurement"},
    {shards_with_trainer, "Trainer on several GPUs was not checked against a measurement"},
    {waits_for_host, "with ZeRO 3 and parameters on the host, the moment at which memory is freed "
                     "depends on how busy the GPU is"},
    {has_sizes,
     "bucket sizes other than DeepSpeed's defaults are modelled from its source code and "
     "were not checked against a measurement"},
    {is_fsdp_1, "FSDP 1 was not checked against a measurement"},
    {shards_as_patched,
     "Axolotl's own way to shard with FSDP2 is modelled from its source code and "
     "was not checked against a measurement"},
    {shards_int8, "8-bit weights under FSDP2, which only Axolotl's patches to PyTorch allow, were "
                  "not checked against a measurement"},
    {shards_what_it_quantises,
     "quantised weights that are sharded while they are loaded were not checked against a "
     "measurement"},
    {scales_under_fsdp, "float16 under accelerate's FSDP2 is predicted without the GradScaler"},
    {has_no_logits_under_fsdp,
     "a loss that never materialises the logits was not checked against a measurement under "
     "accelerate's FSDP2"},
    {shards_labels,
     "a head for classification on several GPUs was not checked against a measurement"},
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
    {shares_eighths,
     "torchtune's loss in eight chunks was checked against recordings only on one GPU and "
     "with FSDP2"},
    {trains_more_elsewhere, "DoRA, biases, adapters on the head and modules trained in full "
                            "beside adapters were not checked against a measurement with quantised "
                            "weights or on several GPUs"},
    {trains_part_elsewhere,
     "training only a part of the parameters on several GPUs was not checked "
     "against a measurement"},
    {compares_elsewhere, "training from preferences with quantised weights, with Liger-Kernel or "
                         "on several GPUs was not checked against a measurement"},
    {has_other_layers_of_torchtune,
     "torchtune's norms and rotary positions are predicted as those of transformers, which was not "
     "checked for this architecture"},
    {is_of_torchtune, "torchtune's loop and losses were checked against recordings, but only with "
                      "models of transformers"},
    {tunes_on_several,
     "on several GPUs, torchtune 0.7 keeps the embedding and the head gathered after the forward "
     "pass; 0.6 does not, and needs less memory than predicted"},
    {shares_answers,
     "preference training under FSDP and ZeRO is predicted without the metrics that TRL gathers, "
     "and the head may stay gathered for too long: the run may need a little more or less memory"},
    {steps_others_in_backward,
     "an optimizer step in backward was checked against recordings only for torch.optim.AdamW"},
    {has_compiled_step,
     "torchao compiles its optimizer step, and what the step allocates for a moment is not "
     "modelled: the run may need more memory than predicted, by up to 12 bytes per element of the "
     "largest trained parameter"},
    {orthogonalises,
     "Muon is predicted as torch.optim.Muon for the matrices of the layers and AdamW for the rest; "
     "a trainer's own Muon was not checked against a measurement and may need more or less memory"},
    {divides_shards, "Adam-mini under FSDP or DeepSpeed is predicted with a second moment for "
                     "every element: the run needs less memory than predicted"},
    {steps_by_another_package, "this optimizer was checked against recordings only on one GPU; the "
                               "run may need a little more "
                               "or less memory than predicted"},
    {decomposes_gradients,
     "GaLore's decompositions need a cuSOLVER workspace of undocumented size; neither it nor their "
     "time is included: the run may need more memory and time than predicted"},
    {fetches_kernels,
     "the kernels of mamba-ssm were modelled from their source code and not checked against a "
     "measurement"},
    {projects_elsewhere,
     "GaLore and APOLLO were checked against recordings only under Trainer on one GPU"},
    {rounds_elsewhere, "quantisation-aware training was checked against recordings only on one GPU "
                       "and with fully_shard, without Liger-Kernel"},
    {distils_quantised, "distillation into a model with quantised weights was not checked against "
                        "a measurement"},
    {compares_narrow_logits,
     "preference training that keeps all logits is predicted with float32 logits; without autocast "
     "they have 16 bits, so the run may need less memory than predicted"},
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
    {frees_when_done,
     "offloaded layer inputs are freed only when the GPU is done with them; the prediction assumes "
     "that the GPU never lags behind, so the run may need more memory than predicted"},
    {trains_offloaded_layers_under_autocast,
     "checkpoint offload under autocast without adapters was not checked against a measurement"},
    {uses_flash, "the memory of flash-attn's kernels was not measured; other builds (Hugging Face "
                 "kernels, newer "
                 "versions) may differ"},
    {loops_over_experts,
     "before transformers 5, experts are linear layers that run one after another, on as many "
     "tokens as each is given; the prediction is for the stacked experts of version 5"},
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

bool plim_job_copies_pageable(const plim_job *job) {
  const plim_sharding *how = &job->sharding;
  bool has_frozen = job->lora.rank || job->trained.names; // ZeRO pins what it trains
  if (how->strategy == PLIM_SHARD_FSDP2) return how->offloads_parameters && how->pages_all;
  return (how->offloads_optimizer && how->pages_optimizer) ||
         (how->offloads_parameters && how->pages_parameters && has_frozen);
}

bool plim_job_moves_to_host(const plim_job *job) {
  return job->sharding.offloads_optimizer || job->sharding.offloads_parameters ||
         job->recipe.saving || job->recipe.checkpoint == PLIM_CHECKPOINT_OFFLOADED ||
         plim_optimizer_is_paged(job->recipe.optimizer);
}
