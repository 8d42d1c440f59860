#include "job.h"

#include <string.h>

#include "experts.h"
#include "family.h"
#include "heads.h"
#include "liger.h"
#include "loading.h"
#include "modules.h"
#include "tape_state.h"

// ---- jobs that are not supported --------------------------------------------------------------------

// Adapters on expert parameters are merged into them, so there is no input to apply dropout to; peft 0.21 raises.
static bool drops_experts(const plim_job *job) {
  return job->lora.rank && job->lora.dropout > 0 && !job->lora.is_axolotls &&
         plim_experts_are_targets(&job->model, &job->lora);
}

// peft 0.21, _convert_peft_config_moe: both are stacked in one parameter.
static bool adapts_half_an_expert(const plim_job *job) {
  return job->lora.rank && plim_experts_split_target(&job->model, &job->lora);
}

static bool has_no_causal_head(const plim_job *job) {
  bool is_causal = job->model.head == PLIM_HEAD_CAUSAL && !job->model.family->is_encoder_decoder;
  bool is_of_tokens =
      job->recipe.loss != PLIM_LOSS_FULL && job->recipe.loss != PLIM_LOSS_CONTRASTIVE;
  return is_of_tokens && !is_causal;
}

static bool is_contrastive(const plim_job *job) {
  return job->recipe.loss == PLIM_LOSS_CONTRASTIVE;
}

static bool contrasts_encoder_decoder(const plim_job *job) {
  return is_contrastive(job) && job->model.family->is_encoder_decoder;
}

static bool contrasts_nothing(const plim_job *job) {
  return is_contrastive(job) && job->recipe.columns < (job->recipe.is_pairwise ? 1 : 2);
}

static bool has_too_many_mini_batches(const plim_job *job) {
  return plim_mini_batches(&job->recipe) > PLIM_MOST_MINI_BATCHES;
}

// Wrapped models are called with their head, and only once per pass.
static bool has_pairs(const plim_job *job) { return plim_method_compares(job->recipe.method); }

static bool partitions_reference(const plim_job *job) {
  return plim_method_has_reference(job->recipe.method) &&
         job->recipe.reference == PLIM_REFERENCE_OWN && job->sharding.strategy == PLIM_SHARD_ZERO3;
}

static bool scores_two_stacks(const plim_job *job) {
  plim_method method = job->recipe.method;
  bool scores = method == PLIM_METHOD_REWARD || method == PLIM_METHOD_PRM;
  return scores && job->model.family->is_encoder_decoder;
}

static bool pairs_without_vocabulary(const plim_job *job) {
  bool scores = job->recipe.method == PLIM_METHOD_REWARD;
  return has_pairs(job) && (job->model.head != (scores ? PLIM_HEAD_TEXTS : PLIM_HEAD_CAUSAL) ||
                            job->model.family->is_encoder_decoder);
}

// A model that is not in training mode also keeps its keys and values.
static bool holds_logits_of_answers(const plim_job *job) {
  return job->recipe.method == PLIM_METHOD_KTO && job->recipe.loss == PLIM_LOSS_FULL &&
         job->recipe.reference == PLIM_REFERENCE_OWN;
}

// TRL refuses it.
static bool has_no_other_answer(const plim_job *job) {
  return job->recipe.method == PLIM_METHOD_KTO && !job->recipe.skips_divergence &&
         job->recipe.batch < 2;
}

static bool distils_elsewhere(const plim_job *job) {
  plim_loss_kind loss = job->recipe.loss;
  bool has_loss = loss == PLIM_LOSS_FULL || loss == PLIM_LOSS_LISTED;
  bool has_loop = !job->recipe.is_trainer && job->recipe.mask == PLIM_MASK_NONE;
  return job->recipe.distils && (has_pairs(job) || !has_loop || !has_loss);
}

static bool tunes_under_autocast(const plim_job *job) {
  bool is_tune = job->recipe.distils || job->recipe.method == PLIM_METHOD_DPO_TUNE;
  return is_tune && job->recipe.autocast != PLIM_BOOL;
}

static bool distils_without_vocabulary(const plim_job *job) {
  bool is_causal = job->model.head == PLIM_HEAD_CAUSAL && !job->model.family->is_encoder_decoder &&
                   !job->teacher.family->is_encoder_decoder;
  return !is_causal || job->model.vocabulary != job->teacher.vocabulary;
}

static bool distils_other_words(const plim_job *job) {
  return job->recipe.distils && distils_without_vocabulary(job);
}

static bool shares_teacher(const plim_job *job) {
  return job->recipe.distils && job->sharding.strategy != PLIM_SHARD_NONE &&
         job->sharding.strategy != PLIM_SHARD_FSDP2;
}

// FSDP2 calls the hooks of parameters once their gradients are reduced. It was not recorded with shards on the host.
static bool can_step_in_backward(const plim_sharding *how) {
  return how->strategy == PLIM_SHARD_NONE ||
         (how->strategy == PLIM_SHARD_FSDP2 && !how->offloads_parameters &&
          !how->offloads_optimizer);
}

// A step in backward sees one gradient at a time: nothing can be added up, scaled or clipped over all of them. LOMO steps
// after each micro batch.
static bool steps_too_early(const plim_job *job) {
  const plim_recipe *r = &job->recipe;
  return r->steps_in_backward &&
         ((r->accumulate > 1 && !plim_optimizer_lags(r->optimizer)) || !r->skips_clipping ||
          r->autocast == PLIM_FP16 || !can_step_in_backward(&job->sharding));
}

// GaLore needs whole matrices, and nobody projects the gradients of adapters.
static bool projects_shards(const plim_job *job) {
  return plim_optimizer_projects(job->recipe.optimizer) && job->sharding.strategy > PLIM_SHARD_DDP;
}

static bool projects_adapters(const plim_job *job) {
  return plim_optimizer_projects(job->recipe.optimizer) && job->lora.rank;
}

// These losses take the head's weight, and would leave its adapter out.
static bool passes_over_head(const plim_job *job) {
  plim_loss_kind loss = job->recipe.loss;
  bool takes_weight =
      loss == PLIM_LOSS_CHUNKED || loss == PLIM_LOSS_FUSED || loss == PLIM_LOSS_LOOP;
  return job->lora.rank && takes_weight && plim_lora_names_head(&job->lora);
}

static bool shares_contrast(const plim_job *job) {
  bool has_head = job->model.head != PLIM_HEAD_NONE, is_cached = job->recipe.cached_batch > 0;
  return is_contrastive(job) && ((has_head && job->sharding.strategy != PLIM_SHARD_NONE) ||
                                 (is_cached && job->sharding.strategy > PLIM_SHARD_DDP));
}

static bool calls_without_head(const plim_job *job) {
  return job->recipe.loss == PLIM_LOSS_LOOP &&
         (job->sharding.strategy != PLIM_SHARD_NONE || job->recipe.is_trainer);
}

static bool partitions_quantised(const plim_job *job) {
  return job->weights != PLIM_WEIGHTS_PLAIN && job->sharding.strategy == PLIM_SHARD_ZERO3;
}

static bool is_fsdp_of(const plim_job *job, plim_weights_kind kind) {
  return job->weights == kind && job->sharding.strategy == PLIM_SHARD_FSDP2;
}

static bool shards_int8_unpatched(const plim_job *job) {
  return is_fsdp_of(job, PLIM_WEIGHTS_INT8) && !job->sharding.is_patched;
}

// accelerate's FSDP2 leaves such weights whole; fully_shard and FSDP 1 fail.
static bool shards_bytes(const plim_job *job) {
  bool is_nf4 = is_fsdp_of(job, PLIM_WEIGHTS_NF4) || is_fsdp_of(job, PLIM_WEIGHTS_NF4_DOUBLE);
  return is_nf4 && job->sharding.packs_in_bytes && !plim_is_accelerates(&job->sharding);
}

static bool offloads_two_stacks(const plim_job *job) {
  return job->model.family->is_encoder_decoder &&
         job->recipe.checkpoint == PLIM_CHECKPOINT_OFFLOADED;
}

static bool chunks_nothing(const plim_job *job) {
  bool in_chunks = job->recipe.loss == PLIM_LOSS_CHUNKED || job->recipe.loss == PLIM_LOSS_LOOP;
  return in_chunks && job->recipe.length < 2;
}

static bool flashes(const plim_job *job) { return job->recipe.attention == PLIM_ATTENTION_FLASH; }

// T5 and MPNet add a bias to the scores, which flash-attn's kernels do not support.
bool plim_job_is_refused_flash(const plim_job *job) {
  const plim_family *f = job->model.family;
  return f && flashes(job) && (f->has_relative_positions || f->is_refused_flash);
}

static bool flashes_unmodelled(const plim_job *job) {
  return flashes(job) && job->model.family->lacks_flash;
}

static bool flashes_in_full_precision(const plim_job *job) {
  return flashes(job) && job->dtype == PLIM_FP32 && job->recipe.autocast == PLIM_BOOL &&
         job->sharding.compute_dtype != PLIM_BF16 && job->sharding.compute_dtype != PLIM_FP16;
}

static bool flashes_on_old_card(const plim_job *job) {
  return flashes(job) && job->sdpa == PLIM_SDPA_EFFICIENT; // preferred by cards before Ampere
}

static bool flashes_wide_heads(const plim_job *job) {
  return flashes(job) && job->model.head_dim > 256;
}

static bool decomposes_quantised(const plim_job *job) {
  return job->lora.uses_dora && job->weights != PLIM_WEIGHTS_PLAIN && !job->is_torchtune;
}

static bool trains_quantised(const plim_job *job) {
  return job->weights != PLIM_WEIGHTS_PLAIN && !job->lora.rank;
}

// Axolotl narrows them again for adapters and flash-attn, and leaves them as they are under FSDP; DeepSpeed casts the
// whole model.
static bool has_wide_ends(const plim_job *job) {
  return job->widens_ends && !job->lora.rank && job->recipe.attention != PLIM_ATTENTION_FLASH &&
         job->weights == PLIM_WEIGHTS_PLAIN && job->sharding.strategy <= PLIM_SHARD_DDP;
}

static bool rounds_quantised(const plim_job *job) {
  return job->qat.kind && job->weights != PLIM_WEIGHTS_PLAIN;
}

// prototype/qat/mx.py: assert out.dtype == x.dtype
static bool rounds_wide_inputs(const plim_job *job) {
  bool is_wide = job->dtype == PLIM_FP32 || has_wide_ends(job);
  return job->qat.kind == PLIM_QAT_MXFP4 && job->recipe.autocast != PLIM_BOOL && is_wide;
}

static bool rounds_other_groups(const plim_job *job) {
  return job->qat.kind == PLIM_QAT_MXFP4 && job->qat.group != 32;
}

static bool rounds_decomposed(const plim_job *job) { return job->qat.kind && job->lora.uses_dora; }

static const struct {
  bool (*applies)(const plim_job *job);
  const char *message, *hint;
  // Of what the frameworks run and the tape does not have yet: the setting, as a plan names it.
  const char *unmodelled;
} refusals[] = {
    {drops_experts,
     "these targets also put adapters on the experts, and peft does not allow dropout there",
     "--lora-dropout 0, or --lora-targets q_proj,k_proj,v_proj,o_proj"},
    {adapts_half_an_expert,
     "peft adapts the gates and the inputs of experts only together, and one of them is no target",
     "--lora-targets all-linear, or --lora-targets q_proj,k_proj,v_proj,o_proj"},
    {offloads_two_stacks,
     "offloading checkpoints to the host is not supported yet for encoder-decoders", "--checkpoint",
     "checkpoint offloaded"},
    {projects_shards, "GaLore and APOLLO are not supported with FSDP and DeepSpeed",
     "--strategy ddp, or --optimizer adamw-8bit"},
    {projects_adapters, "GaLore and APOLLO are not supported with adapters",
     "leave --lora-rank out, or --optimizer adamw-8bit"},
    {chunks_nothing, "a chunked loss needs at least two tokens", "--loss full"},
    {trains_quantised, "quantised weights cannot be trained without adapters", "--lora-rank 16"},
    {decomposes_quantised, "DoRA on quantised weights is not supported yet",
     "--weights plain, or leave --dora out", "quantised weights"},
    {rounds_quantised,
     "weights that are already quantised are not supported with quantisation-aware training",
     "--weights plain, or leave --qat out"},
    {rounds_wide_inputs,
     "under autocast, torchao's layers in MXFP4 stop with an AssertionError if their inputs are "
     "float32",
     "--amp none, or --dtype bf16; in Axolotl: attn_implementation: flash_attention_2, which keeps "
     "norms in bf16"},
    {rounds_other_groups, "MXFP4 has groups of 32", "--qat axolotl-mxfp4:32"},
    {rounds_decomposed, "DoRA is not supported with quantisation-aware training",
     "leave --dora out, or leave --qat out"},
    {has_no_causal_head, "chunked and fused losses are supported only for causal language models",
     "--loss full is supported for all architectures"},
    {contrasts_encoder_decoder, "contrastive losses are not supported yet for encoder-decoders",
     "--loss full"},
    {contrasts_nothing, "a contrastive loss compares at least two columns", "--columns 2"},
    {has_too_many_mini_batches, "a cached loss can be predicted with at most 131072 mini batches",
     "use a larger --cached-batch"},
    {shares_contrast,
     "on several GPUs, contrastive losses are supported only for encoders, and cached ones only "
     "with ddp",
     "--strategy ddp"},
    {scores_two_stacks, "reward models are not supported yet for encoder-decoders",
     "run your own program on a simulated GPU: plimsoll simulate --gpu GPU -- python train.py"},
    {pairs_without_vocabulary,
     "training from preferences is supported only for causal language models", "--method sft"},
    {has_no_other_answer,
     "KTO compares the answers of a micro batch with each other, so it needs at least two",
     "--batch 2"},
    {holds_logits_of_answers,
     "KTO with a separate reference model is not supported yet for TRL before 1.15, which keeps "
     "the reference's keys and values",
     "--loss chunked predicts TRL from 1.15 on, which needs less memory"},
    {partitions_reference, "a reference model that ZeRO 3 partitions is not supported yet",
     "--strategy fsdp2, or --reference adapter with --lora-rank, or run your own program on "
     "simulated GPUs: plimsoll simulate --gpu GPU --gpus N -- torchrun ...",
     "strategy zero3"},
    {steps_too_early,
     "stepping the optimizer in backward is supported only on one GPU or with FSDP2, without "
     "offloading, gradient clipping, fp16 autocast or (except LOMO) accumulation",
     "--strategy none, --no-clip, --accumulate 1, --amp bf16 instead of fp16: whichever applies"},
    {passes_over_head,
     "this loss uses the head's weight without its adapter, so an adapter on the head is not "
     "supported with it",
     "--loss full"},
    {distils_elsewhere,
     "distillation is supported only as in torchtune's recipes: texts without a mask, a manual "
     "loop, all logits",
     "--loop manual --mask none --loss full, or --loss eighths-listed"},
    {tunes_under_autocast, "torchtune's recipes do not use autocast", "--amp none --dtype bf16"},
    {distils_other_words,
     "the teacher and the trained model must be causal language models with the same vocabulary",
     "--teacher NAME: a larger model of the same family"},
    {shares_teacher, "distillation on several GPUs is supported only with fsdp2",
     "run your own program on simulated GPUs: plimsoll simulate --gpu GPU --gpus N -- torchrun "
     "..."},
    {calls_without_head, "this loss calls the model without its head, which needs a manual loop",
     "use --loop manual, or --loss chunked, which is computed inside the model"},
    {plim_job_is_refused_flash, "transformers has no flash attention for this architecture",
     "--attention sdpa"},
    {flashes_unmodelled, "flash-attn is not supported yet for this architecture",
     "--attention sdpa", "attention flash"},
    {flashes_in_full_precision, "flash-attn supports only float16 and bfloat16", "--amp bf16"},
    {flashes_on_old_card, "flash-attn needs an Ampere or newer GPU", "--attention sdpa"},
    {flashes_wide_heads, "flash-attn supports head sizes up to 256", "--attention sdpa"},
    {partitions_quantised, "quantised weights partitioned by ZeRO 3 are not supported yet",
     "--strategy fsdp2 shards 4-bit weights; ddp and zero2 keep the whole weights on each GPU",
     "strategy zero3 with quantised weights"},
    {shards_int8_unpatched,
     "FSDP cannot shard 8-bit weights: PyTorch refuses parameters that are not floating-point "
     "numbers",
     "--weights nf4, or --strategy ddp, which keeps the whole weights on each GPU"},
    {shards_bytes,
     "FSDP cannot shard 4-bit weights that are stored as uint8, the default of bitsandbytes",
     "add bnb_4bit_quant_storage=torch.bfloat16 to BitsAndBytesConfig"},
};

plim_err plim_job_check(const plim_job *job, plim_error *error) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    if (!refusals[i].applies(job)) continue;
    plim_err err = plim_fail(error, PLIM_ERR_UNSUPPORTED, "%s", refusals[i].message);
    plim_error_hint(error, "%s", refusals[i].hint);
    return err;
  }
  return PLIM_OK;
}

bool plim_job_is_unmodelled(const plim_job *job, const char **setting, const char **why) {
  plim_job effective = plim_job_in_effect(job);
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
    if (!refusals[i].applies(&effective)) continue;
    *setting = refusals[i].unmodelled;
    *why = refusals[i].message;
    return refusals[i].unmodelled;
  }
  return false;
}

// ---- the job in effect ------------------------------------------------------------------------------

// deepspeed/runtime/engine.py, _configure_distributed_model: module.bfloat16() or module.half(), unless zero.Init has
// already created the model in that dtype; peft's adapters are added later then. accelerate's native_amp is off under
// DeepSpeed.
plim_job plim_job_in_effect(const plim_job *job) {
  plim_job runs = *job;
  bool is_engine = job->sharding.strategy >= PLIM_SHARD_ZERO1;
  if (!is_engine || job->recipe.autocast == PLIM_BOOL) return runs;
  runs.dtype = job->recipe.autocast;
  runs.recipe.autocast = PLIM_BOOL;
  if (plim_job_loads_in_parts(job)) runs.sharding.loads_float32 = job->dtype == PLIM_FP32;
  else if (job->weights != PLIM_WEIGHTS_PLAIN) runs.narrows_on_card = true;
  else runs.lora.keeps_dtype = true;
  return runs;
}

// ---- building ---------------------------------------------------------------------------------------

static bool is_built_on_host(const plim_job *job) {
  return job->load == PLIM_LOAD_PRETRAINED || job->load == PLIM_LOAD_SHARDED;
}

plim_load plim_job_usual_load(const plim_job *job) {
  return job->mapped_under >> job->sharding.strategy & 1 ? PLIM_LOAD_DEVICE_MAP : PLIM_LOAD_SHARDED;
}

bool plim_job_loads_in_parts(const plim_job *job) {
  plim_strategy strategy = job->sharding.strategy;
  bool shares = strategy == PLIM_SHARD_FSDP2 ||
                (strategy == PLIM_SHARD_ZERO3 && job->load == PLIM_LOAD_SHARDED);
  bool is_on_host = job->weights == PLIM_WEIGHTS_PLAIN || job->quantises_on_host;
  return shares && is_built_on_host(job) && is_on_host;
}

// accelerate's prepare_model casts FSDP 1's flat parameters to float32 whenever mixed_precision is not "no". For FSDP2
// see fsdp_units.c.
static plim_dtype built_dtype(const plim_job *job) {
  const plim_sharding *how = &job->sharding;
  bool is_mixed = how->strategy == PLIM_SHARD_FSDP2 && how->compute_dtype != PLIM_BOOL;
  bool is_upcast = is_mixed && how->is_by_accelerate && how->is_version_1 && !job->lora.rank;
  return is_upcast ? PLIM_FP32 : job->dtype;
}

// From the GPU's memory to the GPU's memory; from the host's, only the result counts.
static bool widens_on_card(const plim_job *job) {
  return job->loaded_dtype != PLIM_BOOL && job->load == PLIM_LOAD_DEVICE_MAP && !job->lora.rank;
}

static void add_adapters(plim_tape *t, plim_model *m, const plim_lora *lora) {
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_ADAPTERS);
  m->add_lora(t, m, lora);
  plim_tape_purpose(t, was);
}

typedef struct {
  plim_tape *t;
  plim_dtype dtype;
} conversion;

static void convert(void *context, plim_tensor *p, size_t trained) {
  const conversion *to = context;
  (void)trained;
  if (!p->quant && p->dtype != to->dtype) plim_retype(to->t, p, to->dtype);
}

// Whether one of the names, which commas separate, is the path or its end behind a dot.
static bool ends_path(const char *names, const char *path) {
  size_t whole = strlen(path);
  for (; *names; names += *names == ',') {
    size_t n = strcspn(names, ",");
    bool fits = n <= whole && strncmp(path + whole - n, names, n) == 0;
    if (fits && (n == whole || path[whole - n - 1] == '.')) return true;
    names += n;
  }
  return false;
}

// llm_int8_skip_modules: layers with these names keep their weights.
static void leave_plain(plim_model *m, const char *names) {
  for (size_t i = 0; i < m->names.len; i++) {
    const char *path = m->names.at[i].path;
    if (path && ends_path(names, path)) m->names.at[i].tensor->is_projection = false;
  }
}

// A layer with that weight, and with `bias` unless that is NULL, takes the place of the plain one. It is created with
// parameters of its own, which are dropped at once.
static void round_layer(plim_tape *t, plim_tensor *weight, const plim_tensor *bias, plim_qat how) {
  if (!plim_tape_is_on_host(t) && !weight->storage->is_waiting) {
    plim_tensor *created = plim_empty(t, weight->shape, (plim_dtype)weight->dtype);
    plim_tensor *beside = bias ? plim_empty(t, bias->shape, (plim_dtype)bias->dtype) : NULL;
    plim_consume(t, created);
    plim_consume(t, beside);
  }
  plim_fake_quantise(t, weight, how);
}

// Adapters follow the last parameter of their layer.
static bool has_adapter(const plim_model *m, const plim_tensor *last) {
  for (size_t i = 0; i < m->parameters.len; i++)
    if (m->parameters.at[i]->is_adapter && m->parameters.at[i]->behind == last) return true;
  return false;
}

static bool rounds_all(const plim_job *job) { return plim_qat_table[job->qat.kind].rounds_all; }

// torchtune's tied head is no nn.Linear.
static bool is_rounded(const plim_model *m, const plim_job *job, const plim_tensor *weight,
                       const plim_tensor *last) {
  bool is_head = weight == m->head, is_linear = weight->is_projection && !weight->is_flipped;
  if (!is_head && !is_linear) return false;
  if (weight->shape.at[1] % job->qat.group) return false;
  if (rounds_all(job)) return true;
  if (job->lora.rank) return has_adapter(m, last);
  return !is_head || !job->model.ties_embeddings;
}

// In the order of the modules: the head is the last, also if its weight is the embedding's.
static void round_layers(plim_tape *t, plim_model *m, const plim_job *job) {
  for (size_t i = 0; i < m->names.len; i++) {
    plim_tensor *weight = m->names.at[i].tensor;
    bool has_next = i + 1 < m->names.len;
    const char *path = m->names.at[i].path, *next = has_next ? m->names.at[i + 1].path : NULL;
    bool has_bias = path && next && strcmp(path, next) == 0;
    const plim_tensor *bias = has_bias ? m->names.at[i + 1].tensor : NULL;
    bool is_next = weight != m->head && is_rounded(m, job, weight, bias ? bias : weight);
    if (is_next) round_layer(t, weight, bias, job->qat);
  }
  if (m->head && is_rounded(m, job, m->head, m->head_bias ? m->head_bias : m->head))
    round_layer(t, m->head, m->head_bias, job->qat);
}

static void put_on_device(plim_tape *t, plim_model *m, const plim_job *job) {
  bool is_plain = job->weights == PLIM_WEIGHTS_PLAIN;
  if (plim_job_loads_in_parts(job)) {
    if (!is_plain) plim_quantise_on_host(t, m, job->weights);
    return;
  }
  if (job->load == PLIM_LOAD_DEVICE_MAP || !is_plain) plim_load_to_device(t, m, job->weights);
  else if (is_built_on_host(job)) plim_move_model(t);
}

// Axolotl's _configure_embedding_dtypes (loaders/model.py) with adapters. Under FSDP it converts nothing if the weights have
// 4 bits; with 8 bits, what it converts then is left out. With ZeRO 3 it does not prepare the model. On the host, what is
// converted there and back takes no memory of the GPU.
static bool returns_ends(const plim_job *job) {
  bool is_on_card = job->weights != PLIM_WEIGHTS_PLAIN || job->load == PLIM_LOAD_DEVICE_MAP;
  return job->returns_ends && job->lora.rank && is_on_card &&
         job->sharding.strategy != PLIM_SHARD_FSDP2;
}

static void prepare_kbit(plim_tape *t, plim_model *m, const plim_job *job) {
  bool returns = returns_ends(job), ties = job->model.ties_embeddings;
  bool is_skipped = job->returns_ends && (!returns || job->sharding.strategy == PLIM_SHARD_ZERO3);
  bool is_plain = job->weights == PLIM_WEIGHTS_PLAIN;
  bool is_4_bit = !is_plain && job->weights != PLIM_WEIGHTS_INT8;
  bool prepares = job->prepares_kbit && !is_skipped && !is_plain;
  unsigned tables = job->leaves_tables && is_4_bit ? 0 : PLIM_END_TABLE;
  if (returns) plim_retype_ends(t, m, ties, tables | PLIM_END_NORM | PLIM_END_GATE, PLIM_FP32);
  if (prepares) plim_prepare_kbit(t, m, job->leaves_tables, ties);
  if (returns) plim_retype_ends(t, m, ties, tables | PLIM_END_NORM, job->dtype);
  else if (prepares) plim_tape_empty_cache(t);
}

// Quantised weights always come from a checkpoint.
static plim_model *build(plim_tape *t, const plim_job *job) {
  bool is_plain = job->weights == PLIM_WEIGHTS_PLAIN;
  plim_tape_set_sdpa(t, job->sdpa);
  plim_state(t)->versions = job->versions;
  plim_state(t)->is_torchtune = job->is_torchtune;
  plim_state(t)->copies_heads = job->copies_heads;
  plim_state(t)->packages = job->packages;
  plim_tape_set_liger(t, job->recipe.uses_liger);
  if (job->load != PLIM_LOAD_INIT || !is_plain) plim_tape_begin_host(t);
  plim_config c = job->model;
  c.fills_cache = c.family->is_encoder_decoder && job->load != PLIM_LOAD_INIT;
  plim_dtype first = widens_on_card(job) ? job->loaded_dtype : built_dtype(job);
  plim_model *m = c.family->build(t, &c, first);
  if (m && job->left_plain && !is_plain) leave_plain(m, job->left_plain);
  // Trainer moves the model after adapters are added; a manual loop moves it before.
  bool moves_late = is_built_on_host(job) && job->recipe.is_trainer && is_plain;
  if (m && !moves_late) put_on_device(t, m, job);
  if (m && widens_on_card(job)) plim_each_parameter(m, convert, &(conversion){t, job->dtype});
  if (m) prepare_kbit(t, m, job);
  if (m && has_wide_ends(job))
    plim_retype_ends(t, m, job->model.ties_embeddings, PLIM_ENDS, PLIM_FP32);
  if (m && job->qat.kind && rounds_all(job)) round_layers(t, m, job);
  if (m && job->lora.rank) add_adapters(t, m, &job->lora);
  if (m && job->returns_tables && job->lora.rank && !is_plain && job->weights != PLIM_WEIGHTS_INT8)
    plim_retype_ends(t, m, job->model.ties_embeddings, PLIM_END_TABLE, PLIM_BF16);
  if (m && returns_ends(job)) plim_tape_empty_cache(t); // _apply_post_lora_load_setup
  else if (m && job->trained.names) plim_train_named(t, m, &job->trained);
  if (m && job->narrows_on_card) plim_each_parameter(m, convert, &(conversion){t, job->dtype});
  if (m && moves_late) put_on_device(t, m, job);
  if (m && job->qat.kind && !rounds_all(job)) round_layers(t, m, job);
  for (size_t i = 0; m && i < m->parameters.len; i++)
    m->trainable += (uint64_t)plim_numel(&m->parameters.at[i]->shape);
  if (m && c.heads) m->head_elements = c.hidden * c.hidden / c.heads;
  if (m) m->is_grouped_by_decay = job->recipe.is_trainer;
  if (m) m->loss_function_from = c.family->loss_function_from;
  if (m) m->logits_to_keep_from = c.family->logits_to_keep_from;
  if (m) m->had_wide_logits = c.family->had_wide_logits;
  return m ? plim_model_finish(m) : NULL;
}

// ---- rehearsal --------------------------------------------------------------------------------------

// Live bytes on the rehearsal's tape, indexed by allocation id; 0: freed.
typedef struct {
  vec(uint64_t) bytes;
  bool failed;
} living;

static void follow(void *context, plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  living *l = context;
  if (kind == PLIM_STREAM_EMPTY_CACHE) return;
  if (kind != PLIM_STREAM_ALLOC && id < l->bytes.len) l->bytes.at[id] = 0;
  if (kind == PLIM_STREAM_ALLOC && !vec_push(&l->bytes, bytes)) l->failed = true;
}

static void copy_place(const plim_tensor *from, plim_tensor *to) {
  to->layer = from->layer;
  to->parts = from->parts;
  to->module = from->module;
}

static void copy_layers(const plim_model *from, plim_model *to) {
  for (size_t i = 0; i < to->parameters.len; i++)
    copy_place(from->parameters.at[i], to->parameters.at[i]);
  for (size_t i = 0; i < to->frozen.len; i++) copy_place(from->frozen.at[i], to->frozen.at[i]);
}

// Finds the buffers: what a new model holds in addition to its parameters.
static bool find_buffers(const plim_model *built, living *l, plim_model *m) {
  bool ok = true;
  for (size_t i = 0; i < built->parameters.len; i++)
    l->bytes.at[built->parameters.at[i]->storage->id] = 0;
  for (size_t i = 0; i < built->frozen.len; i++) l->bytes.at[built->frozen.at[i]->storage->id] = 0;
  for (size_t i = 0; i < l->bytes.len; i++)
    if (l->bytes.at[i]) ok = ok && vec_push(&m->buffer_bytes, l->bytes.at[i]);
  return ok;
}

// Finds out which layer uses which parameter, and which buffers there are, by a rehearsal on a separate tape.
static bool rehearse(const plim_job *job, plim_model *m) {
  living l = {0};
  plim_tape *t = plim_tape_new((plim_tape_sink){follow, &l});
  if (t) plim_tape_set_phase(t, PLIM_PHASE_LOAD, 0);
  plim_model *rehearsed = t ? build(t, job) : NULL;
  if (rehearsed && plim_job_loads_in_parts(job)) plim_move_model(t);
  bool ok = rehearsed && !l.failed && !plim_tape_failed(t) && find_buffers(rehearsed, &l, m);
  plim_tensor *logits = NULL;
  plim_batch batch = {.attention = job->recipe.attention};
  if (ok) {
    plim_dims shape = {2, {plim_texts_of_example(rehearsed), 8}};
    plim_set(t, &batch.ids, plim_empty(t, shape, PLIM_I64));
    plim_set(t, &batch.labels, batch.ids);
    plim_set(t, &batch.ends, batch.ids);
    plim_consume(t, rehearsed->forward(t, rehearsed, &batch, &logits));
    copy_layers(rehearsed, m);
  }
  ok = ok && !plim_tape_failed(t) && !l.failed;
  plim_model_delete(rehearsed);
  plim_tape_delete(t);
  vec_free(&l.bytes);
  return ok;
}

// Shards the model; deletes it and returns NULL if memory runs out.
static plim_model *sharded(plim_tape *t, const plim_job *job, plim_model *m) {
  if (!m || job->sharding.strategy == PLIM_SHARD_NONE || plim_tape_failed(t)) return m;
  if (rehearse(job, m) && plim_shard(t, m, &job->sharding)) return m;
  plim_model_delete(m);
  return NULL;
}

// The reference is a model like the trained one, without adapters; a teacher may be another model. TRL does not freeze
// it, torchtune does; it is called under no_grad.
static void add_reference(plim_tape *t, const plim_job *job, plim_model *m) {
  plim_job frozen = *job;
  frozen.lora.rank = 0;
  if (job->recipe.distils) {
    frozen.model = job->teacher;
    frozen.weights = PLIM_WEIGHTS_PLAIN;
  }
  plim_model *second = build(t, &frozen);
  bool is_frozen = !job->recipe.is_trainer;
  for (size_t i = 0; second && is_frozen && i < second->parameters.len; i++)
    second->parameters.at[i]->requires_grad = false;
  bool is_shared = job->sharding.strategy == PLIM_SHARD_FSDP2;
  m->reference = is_shared ? sharded(t, &frozen, second) : second;
  plim_state(t)->shards = m->shards;
  m->failed |= !m->reference;
}

// They live as long as the tape.
static void add_rope_tables(plim_tape *t, const plim_rope_tables *tables) {
  for (int64_t i = 0; i < tables->count; i++) {
    plim_tensor *table = NULL;
    plim_set(t, &table, plim_empty(t, (plim_dims){1, {(int64_t)tables->bytes / 4}}, PLIM_FP32));
  }
}

plim_model *plim_job_load(plim_tape *t, const plim_job *job) {
  plim_tape_set_phase(t, PLIM_PHASE_LOAD, 0);
  plim_tape_purpose(t, PLIM_FOR_WEIGHTS);
  plim_model *m = sharded(t, job, build(t, job));
  for (int i = 0; i < PLIM_MODELS; i++) add_rope_tables(t, &job->rope_tables[i]);
  bool has_reference = job->recipe.distils || (plim_method_has_reference(job->recipe.method) &&
                                               job->recipe.reference == PLIM_REFERENCE_OWN);
  if (m && has_reference) {
    add_reference(t, job, m);
    m = plim_model_finish(m);
  }
  // A program that builds the whole model on the card and shards it there must empty the cache to gain memory. The
  // measured programs do; accelerate does not; DeepSpeed does it itself at another point.
  if (job->sharding.strategy != PLIM_SHARD_NONE && job->sharding.strategy < PLIM_SHARD_ZERO1 &&
      !plim_is_accelerates(&job->sharding) && !plim_job_loads_in_parts(job))
    plim_tape_empty_cache(t);
  plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
  return m;
}
