// Applies what an ecosystem does by default, and notes what its files leave open.
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "key_names.h"
#include "project_job.h"
#include "units.h"

#define note(p, ...) plim_note_add(&(p)->notes, __VA_ARGS__)

enum { DTYPE_AUTO, DTYPE_FP32 = 3 }; // of job_dtypes

static bool is_flag(const plim_setting *s, bool flag) {
  return s && s->value.kind == PLIM_VALUE_BOOL && s->value.flag == flag;
}

static const char *text_of(const plim_setting *s) {
  return s->value.kind == PLIM_VALUE_TEXT && *s->value.text ? s->value.text : NULL;
}

static bool is_true(const project_job *p, const char *key) {
  return is_flag(project_job_setting(p, key, key), true);
}

// Also for LLaMA-Factory's files with Megatron's keys.
static bool is_megatron(const project_job *p) {
  plim_dialect dialect = p->project.dialect;
  return dialect == PLIM_DIALECT_MEGATRON || dialect == PLIM_DIALECT_MEGATRON_BRIDGE ||
         project_job_setting(p, "tensor_model_parallel_size", "");
}

// Megatron computes in 16 bits with float32 parameters, gradients and moments, and reduces gradients in place. Float32
// under autocast with bucket views needs the same memory, including the cast weights. If its optimizer is sharded,
// DeepSpeed's is the closest, with float32 parameters only in the optimizer.
static void fill_megatron(project_job *p, job_args *a) {
  p->is_megatron = a->is_megatron = is_megatron(p);
  if (!p->is_megatron) return;
  bool is_shared = a->strategy > PLIM_SHARD_DDP;
  bool is_open = !a->dtype && !a->lora_rank && !job_is_typed(a, &a->dtype);
  if (is_open && a->amp && !is_shared) a->dtype = DTYPE_FP32;
  if (a->strategy == PLIM_SHARD_DDP) a->bucket_views = true;
  note(p, "unmodelled.megatron", NULL,
       "Megatron's own kernels and optimizer are not modelled: predicted with PyTorch's, so the "
       "run may need more or less memory and time%s",
       a->amp && is_shared && !a->lora_rank
           ? ". Not included: 2 bytes per parameter for float32 gradients"
           : "");
  plim_note_errs_either(&p->notes);
}

// LLaMA-Factory converts no parameters under ZeRO 3 (model/adapter.py, init_adapter).
static void fill_stage_3(project_job *p, job_args *a) {
  a->widens_but_stage_3 = p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY && !p->is_megatron &&
                          !a->weights && !a->lora_rank && a->dtype == DTYPE_FP32 &&
                          !job_is_typed(a, &a->dtype);
  bool is_left = p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY &&
                 a->strategy == PLIM_SHARD_ZERO3 && !a->weights;
  if (is_left && !job_is_typed(a, &a->dtype)) a->dtype = DTYPE_AUTO;
}

static void fill_attention(const project_job *p, job_args *a) {
  const plim_setting *s = project_job_setting(p, "flash_attn", "flash_attn");
  bool is_auto = s && s->value.kind == PLIM_VALUE_TEXT && strcmp(s->value.text, "auto") == 0;
  a->is_torchtune = p->project.dialect == PLIM_DIALECT_TORCHTUNE;
  a->is_factory = p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY;
  a->is_factory_1 = p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY_V1;
  a->leaves_attention = a->is_factory && (!s || is_auto) && !job_is_typed(a, &a->attention);
}

// LLaMA-Factory v1 loads the model to the current GPU unless init_config names another device; under ZeRO 3, in parts
// (core/model_engine.py, _init_model). FSDP2 shards it afterwards.
static void fill_factory_load(const project_job *p, job_args *a) {
  const plim_setting *s = project_job_setting(p, "init_config.name", "");
  bool is_default = !s || !s->value.text || strcmp(s->value.text, "init_on_default") == 0;
  if (job_is_typed(a, &a->load)) return;
  bool is_in_parts = !is_default || a->strategy == PLIM_SHARD_ZERO3;
  a->load = is_in_parts ? JOB_LOAD_SHARDED : JOB_LOAD_DEVICE_MAP;
  if (is_default) a->mapped_under = ~(1u << PLIM_SHARD_ZERO3);
  if (is_default && a->strategy == PLIM_SHARD_FSDP2 && !a->weights)
    a->load_help = "Without init_config, LLaMA-Factory v1 puts the whole model on every GPU before "
                   "FSDP2 shards it; with init_config: {name: init_on_rank0}, each GPU gets only "
                   "its part";
}

// Both versions train all parameters in float32, and keep those under adapters as they were loaded (model/adapter.py;
// v1/core/model_engine.py).
static void fill_frozen_type(const project_job *p, job_args *a) {
  plim_dialect d = p->project.dialect;
  bool is_theirs = d == PLIM_DIALECT_LLAMA_FACTORY || d == PLIM_DIALECT_LLAMA_FACTORY_V1;
  a->widens_all = is_theirs && !a->lora_rank && a->dtype == DTYPE_FP32 &&
                  !job_is_typed(a, &a->dtype) && !p->is_megatron;
}

// data/loader.py, get_dataset; a folder that does not exist is written, and the training goes on.
static void note_tokenized(project_job *p) {
  const plim_setting *s = project_job_setting(p, "tokenized_path", "tokenized_path");
  if (p->project.dialect != PLIM_DIALECT_LLAMA_FACTORY || !s || !text_of(s)) return;
  note(p, "reads.tokenized", "sequence",
       "tokenized_path: if %.120s exists when the training starts, LLaMA-Factory takes the samples "
       "in it as they are, so cutoff_len, packing and the other settings of the data have no "
       "effect; predicted as if it does not exist",
       text_of(s));
}

// v1/trainers/dpo_trainer.py: the logits in float32, a shifted copy of them and their log-probabilities, of the policy and of
// the reference; both answers of a pair are one sequence (rendering.py), which is cut to cutoff_len.
static void note_factory_method(project_job *p, const job_args *a) {
  const char *data = plim_project_pairs_of_answers(&p->project);
  if (a->method != PLIM_METHOD_TEXTS) {
    note(
        p, "unmodelled.method", NULL,
        "LLaMA-Factory v1 puts both answers into cutoff_len tokens, so give half of it with --seq; "
        "and it keeps a shifted copy of the logits in float32, which is not modelled: the run "
        "needs more memory and time than predicted");
    plim_note_errs_low(&p->notes);
  } else if (data) {
    note(p, "assumed.method", NULL,
         "%s has pairs of answers, which are data for llamafactory-cli dpo; predicted as "
         "supervised fine-tuning, which llamafactory-cli train does. DPO holds the logits of the "
         "policy and of the reference at once and needs more memory: the closest prediction is "
         "--method dpo-llamafactory --seq %llu",
         data, (unsigned long long)(a->seq / 2));
    plim_note_errs_low(&p->notes);
  } else
    note(p, "assumed.method", NULL,
         "predicted as supervised fine-tuning (llamafactory-cli sft, or train): the command "
         "decides that, not these files; dpo needs more memory, rm less");
}

// Rows without padding have no attention mask; without flash-attn, transformers 5.8 (masking_utils.py,
// _preprocess_mask_arguments) finds the samples in them by their positions and makes one.
static void note_factory_rows(project_job *p, const job_args *a) {
  if (!project_job_packs(p) || strncmp(p->run.attention.text, "flash", 5) == 0) return;
  if (job_is_typed(a, &a->attention)) return;
  note(
      p, "unmodelled.packed_mask", "attention",
      "without flash_attn: flash_attention_2, transformers makes a mask that separates the samples "
      "of a row, which is not modelled; the run needs more memory and time than predicted");
  plim_note_errs_low(&p->notes);
}

// LLaMA-Factory v1 trains all parameters in float32; bf16 is used only by FSDP, without autocast (model_engine.py,
// distributed/fsdp2.py). Its trainer keeps only the loss, for which it takes the logits (core/base_trainer.py).
static void fill_factory(project_job *p, job_args *a) {
  if (p->project.dialect != PLIM_DIALECT_LLAMA_FACTORY_V1) return;
  if (!a->loop && !job_is_typed(a, &a->loop)) a->loop = JOB_LOOP_LOSS_ONLY;
  a->scores_again = a->loop == JOB_LOOP_LOSS_ONLY;
  note_factory_method(p, a);
  note_factory_rows(p, a);
  if (!a->lora_rank && !a->dtype && !job_is_typed(a, &a->dtype)) a->dtype = DTYPE_FP32;
  fill_factory_load(p, a);
  if (a->strategy <= PLIM_SHARD_DDP && !job_is_typed(a, &a->amp)) a->amp = 0;
}

// ---- quantised weights ------------------------------------------------------------------------------

// Ecosystems that quantise on their own and keep the dtype of the other parameters: TRL's SFT and reward training since 0.26
// (sft_trainer.py, reward_trainer.py), its DPO since 0.29 (dpo_trainer.py), the others since 0.27; LLaMA-Factory (model_utils/
// checkpointing.py: only norms, if upcast_layernorm is set); torchtune (NF4 tensors of torchao, no cast); Unsloth (its
// own function, unsloth_zoo's prepare_model_for_training, converts only adapters and norms to float32).
static const plim_dialect leaving[] = {
    PLIM_DIALECT_TRL,       PLIM_DIALECT_LLAMA_FACTORY, PLIM_DIALECT_LLAMA_FACTORY_V1,
    PLIM_DIALECT_TORCHTUNE, PLIM_DIALECT_UNSLOTH,
};

static uint16_t leaving_trl(const job_args *a) {
  bool is_early = a->method == PLIM_METHOD_TEXTS || a->method == PLIM_METHOD_REWARD;
  return a->method == PLIM_METHOD_DPO ? PLIM_RELEASE(0, 29)
         : is_early                   ? PLIM_RELEASE(0, 26)
                                      : PLIM_RELEASE(0, 27);
}

// peft_module_casting_to_bf16 (trainer/utils.py, later models/utils.py): TRL's trainers call it with bf16 where they prepare
// quantised weights, those of rewards since 0.22.
static bool returns_tables(const project_job *p, const job_args *a) {
  bool is_of_rewards = a->method == PLIM_METHOD_REWARD || a->method == PLIM_METHOD_PRM;
  bool calls = !is_of_rewards || job_release(a, PLIM_LIBRARY_TRL) >= PLIM_RELEASE(0, 22);
  return p->project.dialect == PLIM_DIALECT_TRL && calls && !a->leaves_kbit &&
         strcmp(job_amps[a->amp], "bf16") == 0;
}

static bool leaves_by_itself(const project_job *p, const job_args *a) {
  uint16_t trl = job_release(a, PLIM_LIBRARY_TRL);
  if (p->project.dialect == PLIM_DIALECT_TRL && trl && trl < leaving_trl(a)) return false;
  for (size_t i = 0; i < sizeof leaving / sizeof *leaving; i++)
    if (p->project.dialect == leaving[i]) return true;
  return false;
}

static bool upcasts_norms(const project_job *p) {
  const plim_setting *norms = project_job_setting(p, "upcast_layernorm", "");
  return norms && norms->value.kind == PLIM_VALUE_BOOL && norms->value.flag;
}

// A script that quantises without calling it keeps the dtype of the other parameters. For a script that is missing, or
// that does not quantise yet, this is not known.
static void fill_kbit(project_job *p, job_args *a) {
  bool is_called = project_job_calls(p, "prepare_model_for_kbit_training(");
  bool is_left = leaves_by_itself(p, a) || (plim_project_has_script(&p->project) && a->weights);
  a->leaves_kbit = !is_called && is_left && !upcasts_norms(p);
  a->returns_tables = returns_tables(p, a);
}

// Axolotl (loaders/model.py, _prepare_model_for_quantization) calls it, and converts norms, embeddings and head back; not
// for experts that it quantised itself, nor with LoftQ.
static void fill_axolotl_kbit(const project_job *p, job_args *a) {
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL) return;
  bool has_loftq = project_job_setting(p, "loftq_bits", "loftq_bits") != NULL;
  a->returns_ends = true;
  a->leaves_tables = is_true(p, "embeddings_skip_upcast");
  a->quantises_experts = is_true(p, "quantize_moe_experts");
  a->leaves_kbit = a->quantises_experts || has_loftq;
}

static void note_kbit(project_job *p, const job_args *a) {
  if (!a->weights || a->prepare) return;
  if (upcasts_norms(p))
    note(p, "unmodelled.upcast_layernorm", NULL,
         "upcast_layernorm is predicted as peft's prepare_model_for_kbit_training, which converts "
         "more parameters to float32 and so needs more memory than the run");
  else if (p->project.dialect == PLIM_DIALECT_TRL && a->leaves_kbit && a->dtype != DTYPE_FP32 &&
           !job_release(a, PLIM_LIBRARY_TRL))
    note(p, "assumed.trl_version", NULL,
         "assuming TRL 0.%d or newer; older versions convert unquantised parameters to float32, "
         "which needs more memory: add --prepare peft",
         leaving_trl(a) % 1000);
  else if (p->project.dialect != PLIM_DIALECT_TRL && p->project.dialect != PLIM_DIALECT_AXOLOTL &&
           !leaves_by_itself(p, a) && !plim_project_has_script(&p->project))
    note(p, "assumed.prepare_kbit", NULL,
         "the files do not show whether prepare_model_for_kbit_training is called: predicted with "
         "it (--prepare none predicts without)");
}

// ---- quantised weights under FSDP -------------------------------------------------------------------

// Ecosystems that store 4-bit weights in 16 bits: Axolotl (loaders/model.py), LLaMA-Factory (model_utils/
// quantization.py, "crucial for fsdp+qlora"); torchtune has tensors of torchao instead.
static bool packs_in_16_bits(const project_job *p) {
  static const plim_dialect those[] = {PLIM_DIALECT_AXOLOTL, PLIM_DIALECT_LLAMA_FACTORY,
                                       PLIM_DIALECT_LLAMA_FACTORY_V1, PLIM_DIALECT_TORCHTUNE};
  for (size_t i = 0; i < sizeof those / sizeof *those; i++)
    if (p->project.dialect == those[i]) return true;
  return false;
}

// Axolotl then loads the model to the host of the first rank; with FSDP 1, to every GPU.
static bool loads_on_one_host(const project_job *p) {
  const plim_setting *s = project_job_setting(p, "cpu_ram_efficient_loading", "");
  return s && s->value.kind == PLIM_VALUE_BOOL && s->value.flag;
}

static bool has_word(const plim_setting *s, const char *word) {
  return s && s->value.text && strstr(s->value.text, word);
}

// None means uint8, too.
static void fill_packing(project_job *p, job_args *a) {
  const plim_setting *storage = project_job_setting(p, "quant_storage", "");
  bool is_none = storage && (!storage->value.text || has_word(storage, "None"));
  a->packs_in_bytes = storage ? is_none || has_word(storage, "int8") : !packs_in_16_bits(p);
  if (storage && a->weights && !a->packs_in_bytes && !has_word(storage, "float"))
    note(p, "assumed.quant_storage", "quantisation",
         "the files do not show the value of bnb_4bit_quant_storage: assuming a 16-bit type, which "
         "FSDP "
         "can shard");
  a->is_axolotl = p->project.dialect == PLIM_DIALECT_AXOLOTL;
  a->is_patched = p->project.dialect == PLIM_DIALECT_AXOLOTL && !a->is_fsdp_1;
  if (a->is_axolotl && a->weights && a->is_fsdp_1)
    a->load_help = loads_on_one_host(p)
                       ? "With FSDP 1, cpu_ram_efficient_loading does not keep a quantised model "
                         "off the GPUs; with fsdp_version: 2, each GPU gets only its part"
                       : "With fsdp_version: 2 and fsdp_config.cpu_ram_efficient_loading: true, "
                         "each GPU gets only its part";
  a->quantises_on_host =
      p->project.dialect == PLIM_DIALECT_TORCHTUNE || (a->is_patched && loads_on_one_host(p));
}

static bool is_moved_whole(const project_job *p) {
  return !loads_on_one_host(p) && !is_true(p, "experimental_skip_move_to_device") &&
         !is_flag(project_job_setting(p, "ddp", "ddp"), false);
}

// Axolotl loads the model with a device_map if there are several GPUs (normalize_config of utils/config/__init__.py), and
// under ZeRO 3 in parts. Under FSDP2 it loads it on the host and moves all of it to each GPU afterwards, unless
// cpu_ram_efficient_loading is on (loaders/model.py, _build_model, _apply_post_lora_load_setup); a plan that adds FSDP turns
// that on. On one GPU `axolotl train` is accelerate launch, with which it leaves the model on the host (choose_device).
static void fill_axolotl_load(const project_job *p, job_args *a) {
  bool is_fsdp = a->strategy == PLIM_SHARD_FSDP2 && !job_is_typed(a, &a->strategy);
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL || a->world <= 1) return;
  a->mapped_under = 1u << PLIM_SHARD_DDP | 1u << PLIM_SHARD_ZERO1 | 1u << PLIM_SHARD_ZERO2;
  if (!is_fsdp || a->is_fsdp_1 || !is_moved_whole(p)) return;
  a->mapped_under |= 1u << PLIM_SHARD_FSDP2;
  if (!a->load_help)
    a->load_help = "Axolotl puts the whole model on every GPU before FSDP2 shards it; with "
                   "fsdp_config.cpu_ram_efficient_loading: true, each GPU gets only its part";
}

// While it loads 4-bit weights, _configure_embedding_dtypes converts the embedding and the head, and back.
static void help_with_tables(const project_job *p, job_args *a) {
  bool is_4_bit = a->weights == PLIM_WEIGHTS_NF4 || a->weights == PLIM_WEIGHTS_NF4_DOUBLE;
  bool is_converted = p->project.dialect == PLIM_DIALECT_AXOLOTL && is_4_bit && !a->leaves_tables &&
                      a->strategy != PLIM_SHARD_FSDP2 && !a->quantises_experts;
  if (is_converted && !a->load_help)
    a->load_help = "With embeddings_skip_upcast: true, Axolotl leaves embeddings and head in 16 "
                   "bits, so loading needs less memory; it changes nothing that is learned";
}

static void note_packing(project_job *p, const job_args *a) {
  if (!a->weights || a->strategy != PLIM_SHARD_FSDP2) return;
  if (p->project.dialect == PLIM_DIALECT_AXOLOTL && !a->is_fsdp_1)
    note(p, "unmodelled.axolotl_units", "strategy",
         "predicted as accelerate does it, which shards the embedding on its own; Axolotl shards "
         "everything outside the layers as one unit, so the run may need more memory than "
         "predicted, by up to the size of the embedding");
  if (a->packs_in_bytes && a->weights != PLIM_WEIGHTS_INT8)
    note(p, "reads.quant_storage", "quantisation",
         "bnb_4bit_quant_storage is uint8, its default, so accelerate leaves the 4-bit weights "
         "whole on each GPU; with bnb_4bit_quant_storage=torch.bfloat16 it shards them");
  if (p->project.dialect == PLIM_DIALECT_TORCHTUNE)
    note(p, "unmodelled.torchao", "quantisation",
         "torchao shards the scales of 4-bit weights together with them; predicted with all scales "
         "on each GPU, which needs a little more memory than the run");
}

// TRL's ModelConfig: dtype is None before 0.27, float32 since then, and None if a file sets it to null.
static bool leaves_dtype_of_trl(const project_job *p, const job_args *a) {
  static const char *const keys[] = {"dtype", "torch_dtype"};
  uint16_t trl = job_release(a, PLIM_LIBRARY_TRL);
  if (p->project.dialect != PLIM_DIALECT_TRL || plim_project_has_script(&p->project)) return false;
  if (trl && trl < PLIM_RELEASE(0, 27)) return true;
  for (size_t i = 0; i < p->project.files.len; i++)
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
      const plim_setting *s = plim_project_setting(p->project.files.at[i], keys[k]);
      if (s && s->value.kind == PLIM_VALUE_NULL) return true;
    }
  return false;
}

bool project_job_leaves_dtype(const project_job *p, const job_args *a) {
  bool is_called = project_job_setting(p, "Model", ".pretrained_model_name_or_path") != NULL;
  bool is_example = p->project.dialect == PLIM_DIALECT_HF && !plim_project_has_script(&p->project);
  return is_called || is_example || leaves_dtype_of_trl(p, a);
}

// Without a dtype, from_pretrained of transformers 4 loads float32; version 5 takes the checkpoint's.
static void fill_old_dtype(project_job *p, job_args *a) {
  uint16_t release = job_release(a, PLIM_LIBRARY_TRANSFORMERS);
  bool is_open = p->run.dtype.origin <= PLIM_DEFAULTED && !job_is_typed(a, &a->dtype);
  if (is_open && leaves_dtype_of_trl(p, a)) a->dtype = 0;
  is_open = is_open && !a->dtype;
  if (release && release < PLIM_RELEASE(5, 0) && is_open && project_job_leaves_dtype(p, a))
    a->dtype = DTYPE_FP32;
}

// ---- adapters ---------------------------------------------------------------------------------------

// The trainers of TRL that cast all that is trained of a quantised model to bf16, and since when (read from the wheels of
// 0.19 to 1.16: sft_trainer.py and the others, "converted to bf16").
static const struct {
  plim_method method;
  uint16_t since;
} casting[] = {
    {PLIM_METHOD_TEXTS, PLIM_RELEASE(0, 26)},
    {PLIM_METHOD_REWARD, PLIM_RELEASE(0, 26)},
    {PLIM_METHOD_DPO, PLIM_RELEASE(0, 29)},
    {PLIM_METHOD_KTO, PLIM_RELEASE(1, 4)},
};

// Axolotl's trainers for preferences and rewards are subclasses of TRL's (core/trainers/trl.py, dpo/trainer.py); those
// for texts are transformers'. LLaMA-Factory's subclasses do not call TRL's constructor (train/dpo/trainer.py).
static bool is_trainer_of_trl(const project_job *p, const job_args *a) {
  plim_dialect d = p->project.dialect;
  bool is_texts = a->method == PLIM_METHOD_TEXTS;
  return d == PLIM_DIALECT_TRL ||
         (!is_texts && (d == PLIM_DIALECT_AXOLOTL || d == PLIM_DIALECT_HF));
}

static bool casts_what_is_trained(const project_job *p, const job_args *a) {
  uint16_t trl = job_release(a, PLIM_LIBRARY_TRL);
  if (!a->weights || !is_trainer_of_trl(p, a)) return false;
  for (size_t i = 0; i < sizeof casting / sizeof *casting; i++)
    if ((int)casting[i].method == a->method) return !trl || trl >= casting[i].since;
  return false;
}

// peft's autocast_adapter_dtype=False, which Axolotl calls peft_autocast_adapter_dtype, leaves adapters in the dtype of
// the weights.
static void fill_adapter_type(const project_job *p, job_args *a) {
  const plim_setting *casts = project_job_setting(p, "autocast_adapter_dtype", "");
  if (!a->lora_rank || job_is_typed(a, &a->lora_dtype)) return;
  if (casts_what_is_trained(p, a)) a->lora_dtype = ADAPTERS_CAST;
  else if (is_flag(casts, false)) a->lora_dtype = ADAPTERS_KEPT;
}

// LLaMA-Factory: new tokens turn resize_vocab on (model/patcher.py), which with adapters and without additional_target
// trains the embedding and the head (model/adapter.py).
static void fill_new_tokens(project_job *p, job_args *a) {
  static const char *const keys[] = {"resize_vocab", "add_tokens", "add_special_tokens",
                                     "new_special_tokens_config"};
  if (p->project.dialect != PLIM_DIALECT_LLAMA_FACTORY || !a->lora_rank || a->lora_saved) return;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const plim_setting *s = project_job_setting(p, keys[i], "");
    bool is_on = s && s->value.kind != PLIM_VALUE_NULL && !is_flag(s, false);
    if (!is_on || strcmp(s->key, keys[i]) != 0) continue;
    a->lora_saved = "embed_tokens,lm_head";
    note(p, "reads.new_tokens", NULL,
         "%s makes LLaMA-Factory train the embedding and the head beside the adapters", keys[i]);
    return;
  }
}

// transformers' run_summarization.py and run_translation.py: the length of an encoder-decoder's labels.
static void fill_targets(const project_job *p, job_args *a) {
  const plim_setting *s = project_job_setting(p, "max_target_length", "");
  if (s && !plim_key_is_called(s->key, "max_target_length")) s = NULL; // val_max_target_length
  bool is_open = p->project.dialect == PLIM_DIALECT_HF && !a->target_seq;
  if (is_open && s && s->value.kind == PLIM_VALUE_INTEGER && s->value.integer > 0)
    a->target_seq = (uint64_t)s->value.integer;
}

// The plugin that replaces the loss; its backward has neither logits nor chunks of them. Its key is true unless the file says
// otherwise (integrations/cut_cross_entropy/args.py).
static const plim_setting *cut_cross_entropy(const project_job *p) {
  const plim_project_knob *k = &p->project.knobs[PLIM_KNOB_CHUNKED_LOSS];
  const plim_setting *s = k->place_count ? k->places[0].setting : NULL;
  bool is_cut = s && s->value.kind == PLIM_VALUE_TEXT && strstr(s->value.text, "cut_cross_entropy");
  bool is_off = is_flag(project_job_setting(p, "cut_cross_entropy", "cut_cross_entropy"), false);
  return p->project.dialect == PLIM_DIALECT_AXOLOTL && is_cut && !is_off ? s : NULL;
}

static void note_at_loss(const project_job *p, const plim_setting *s, plim_notes *notes) {
  size_t file = p->project.knobs[PLIM_KNOB_CHUNKED_LOSS].places[0].file;
  plim_note_at(notes, p->project.files.at[file]->path, s->line);
}

bool project_job_cuts_loss(const project_job *p) { return cut_cross_entropy(p) != NULL; }

// Axolotl converts embeddings, head and norms to float32, and back to 16 bits only for adapters, Cut Cross Entropy and
// attention other than these two (_configure_embedding_dtypes of loaders/model.py, ATTN_IMPLS_WITHOUT_DTYPE_CAST).
static void fill_ends(const project_job *p, job_args *a) {
  const char *attention = p->run.attention.text;
  bool is_usual = strcmp(attention, "sdpa") == 0 || strcmp(attention, "eager") == 0;
  a->widens_ends = p->project.dialect == PLIM_DIALECT_AXOLOTL && is_usual && a->amp &&
                   a->dtype != DTYPE_FP32 && !cut_cross_entropy(p);
}

static void note_ends(project_job *p, const job_args *a) {
  bool is_whole = !a->lora_rank && a->strategy <= PLIM_SHARD_DDP;
  if (!a->widens_ends || !is_whole || a->attention == PLIM_ATTENTION_FLASH) return;
  note(
      p, "reads.wide_ends", "attention",
      "without adapters and with sdpa or eager attention, Axolotl keeps embeddings, head and norms "
      "in float32, and so the hidden states; attn_implementation: flash_attention_2 keeps them in "
      "16 bits, which needs less memory");
}

// Axolotl's check_auto_enable_lora_kernels (utils/schemas/config.py) turns its fused kernels on if none of these keys is set,
// unless the model brings its own code or nvfp4_merge_aware is on. job_kernels.c has the conditions of the job.
static void fill_lora_kernels(const project_job *p, job_args *a) {
  static const struct {
    const char *key;
    unsigned kernels;
  } keys[] = {{"lora_mlp_kernel", JOB_KERNELS_MLP},
              {"lora_qkv_kernel", JOB_KERNELS_ATTENTION},
              {"lora_o_kernel", JOB_KERNELS_ATTENTION},
              {"lora_embedding_kernel", 0}};
  bool is_set = false;
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL) return;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const plim_setting *s = project_job_setting(p, keys[i].key, "");
    is_set |= s && s->value.kind != PLIM_VALUE_NULL;
    if (is_flag(s, true)) a->lora_kernels |= keys[i].kernels;
  }
  if (!is_set && !is_true(p, "trust_remote_code") && !is_true(p, "nvfp4_merge_aware"))
    a->lora_kernels = JOB_KERNELS_ATTENTION | JOB_KERNELS_MLP | JOB_KERNELS_BY_ITSELF;
}

// loaders/patch_manager.py, _apply_llama_flash_attn_patches.
static void fill_fused_mlp(const project_job *p, job_args *a) {
  bool is_on = is_true(p, "flash_attn_fuse_mlp") && !a->trusts_code && !is_true(p, "gptq");
  a->fuses_mlp =
      p->project.dialect == PLIM_DIALECT_AXOLOTL && is_on && a->attention == PLIM_ATTENTION_FLASH;
}

// Axolotl depends on flash-linear-attention (pyproject.toml), and its code for packed samples runs the convolution in it
// (monkeypatch/models/qwen3_5/modeling.py, qwen3_next/modeling.py). It also depends on kernels.
static void fill_packages(const project_job *p, job_args *a) {
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL) return;
  bool is_packed = strcmp(p->run.packing.text, "on") == 0;
  a->required = 1u << PLIM_PACKAGE_FLA | 1u << PLIM_PACKAGE_KERNELS;
  if (is_packed) a->required |= 1u << PLIM_PACKAGE_FLA_CONV1D;
}

// With a processor, Axolotl's batches have images (core/builders/causal.py), and nothing else freezes towers (train.py).
static void fill_towers(const project_job *p, job_args *a) {
  const plim_setting *processor = project_job_setting(p, "processor_type", "processor_type");
  a->reaches_towers = p->project.dialect == PLIM_DIALECT_AXOLOTL && processor &&
                      processor->value.kind == PLIM_VALUE_TEXT && !is_true(p, "freeze_mm_modules");
}

void project_job_fill_ecosystem(project_job *p, job_args *a) {
  fill_towers(p, a);
  a->sees_images = project_job_sees_images(p);
  a->trusts_code = is_true(p, "trust_remote_code");
  a->is_of_trl = p->project.dialect == PLIM_DIALECT_TRL;
  // freeze_vision_tower of hparams/finetuning_args.py is true by default.
  a->freezes_towers = p->project.dialect == PLIM_DIALECT_LLAMA_FACTORY &&
                      !is_flag(project_job_setting(p, "freeze_vision_tower", ""), false);
  fill_targets(p, a);
  fill_adapter_type(p, a);
  fill_new_tokens(p, a);
  fill_megatron(p, a);
  fill_factory(p, a);
  fill_stage_3(p, a);
  fill_frozen_type(p, a);
  fill_attention(p, a);
  fill_kbit(p, a);
  fill_axolotl_kbit(p, a);
  fill_packing(p, a);
  fill_axolotl_load(p, a);
  help_with_tables(p, a);
  fill_ends(p, a);
  fill_old_dtype(p, a);
  fill_lora_kernels(p, a);
  fill_packages(p, a);
  fill_fused_mlp(p, a);
}

// "mamba" and "attention" are "linear_attention" and "full_attention" in transformers 5.14; what attention returns is then
// added to the residual as a tuple.
static void note_old_names(const project_job *p, const plim_job *job, plim_notes *notes) {
  bool is_renamed =
      plim_versions_used(&job->versions, PLIM_LIBRARY_TRANSFORMERS) >= PLIM_RELEASE(5, 14);
  bool is_packed = p->project.dialect == PLIM_DIALECT_AXOLOTL && project_job_packs(p);
  if (!is_packed || !is_renamed || !job->model.family->axolotl_packs_by_old_names) return;
  plim_note_add(notes, "stops.packing", NULL,
                "Axolotl's code for packed samples of this architecture does not know the names "
                "that its layers have in transformers 5.14, so the run stops with a TypeError; set "
                "sample_packing: false and gradient_checkpointing: false");
}

// patched_cuda_kernels_forward of monkeypatch/models/granitemoehybrid/modeling.py.
static void note_split_kernels(const project_job *p, const plim_job *job, plim_notes *notes) {
  bool is_packed = p->project.dialect == PLIM_DIALECT_AXOLOTL && project_job_packs(p);
  bool are_fetched = PLIM_HAS_PACKAGE(job->packages, PLIM_PACKAGE_KERNELS);
  if (!is_packed || !are_fetched || !job->model.family->axolotl_splits_kernels) return;
  plim_note_add(notes, "unmodelled.split_kernels", NULL,
                "with packed samples, Axolotl runs the parts of Mamba's fused kernel one by one, "
                "which is not modelled; the run needs more memory and time than predicted");
  plim_note_errs_low(notes);
}

// monkeypatch/gemma4_hybrid_mask.py makes transformers build all masks of create_causal_mask for sdpa. Where tokens of an image
// see each other, that is also the mask of the layers with a sliding window (create_masks_for_vision_model of transformers
// 5.14; core/trainers/base.py gives texts the types of tokens that lead there), which stay with FlashAttention 2; its
// _upad_input takes a mask of two dimensions.
static void note_hybrid_masks(const project_job *p, const plim_job *job, plim_notes *notes) {
  bool sees_images =
      job->model.outer && job->model.has_image_blocks &&
      plim_versions_used(&job->versions, PLIM_LIBRARY_TRANSFORMERS) >= PLIM_RELEASE(5, 14);
  bool is_hybrid =
      p->project.dialect == PLIM_DIALECT_AXOLOTL && is_true(p, "gemma4_hybrid_attn_impl");
  if (!is_hybrid || !sees_images) return;
  plim_note_add(notes, "stops.attention", "attention",
                "with gemma4_hybrid_attn_impl, FlashAttention gets a mask of four dimensions in "
                "this model, which it cannot take, so the run stops at its first layer; set "
                "gemma4_hybrid_attn_impl: false and attn_implementation: sdpa");
}

// monkeypatch/moe_quant.py: stacked experts are quantised one by one while they are loaded, to the bits of the other weights.
// Computing copies of them for a moment, of one layer at least, so they save less than their size.
static void note_quantised_experts(const project_job *p, const plim_job *job, plim_notes *notes) {
  const plim_setting *s = project_job_setting(p, "quantize_moe_experts", "quantize_moe_experts");
  uint64_t experts = plim_config_expert_parameters(&job->model);
  bool is_plain = job->weights == PLIM_WEIGHTS_PLAIN;
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL || !is_flag(s, true) || is_plain || !experts)
    return;
  uint64_t now = experts * (job->dtype == PLIM_FP32 ? 4 : 2);
  uint64_t then = job->weights == PLIM_WEIGHTS_INT8 ? experts : experts / 2;
  plim_note_add(
      notes, "unmodelled.experts", "quantisation",
      "quantize_moe_experts is not modelled: the %.1f billion parameters of the experts are "
      "predicted in %d bits; quantised, they take up to %s less",
      (double)experts / 1e9, job->dtype == PLIM_FP32 ? 32 : 16, units_bytes(now - then).text);
  plim_note_errs_high_by(notes, now - then);
  for (size_t i = 0; i < p->project.files.len; i++)
    if (plim_project_setting(p->project.files.at[i], "quantize_moe_experts") == s)
      plim_note_at(notes, p->project.files.at[i]->path, s->line);
}

static bool leaves_projection(const project_job *p, const plim_job *job) {
  if (job->left_plain && strstr(job->left_plain, "out_proj")) return true;
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_settings *s = &p->project.files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++)
      if (strstr(s->at.at[k].key, "llm_int8_skip_modules")) return true;
  }
  return false;
}

// Mamba 2 in training: mamba_split_conv1d_scan_combined gets out_proj's weight and multiplies with it (transformers 5,
// modeling_mamba2.py and its siblings), which a quantised weight cannot serve. For Nemotron-H, Axolotl then runs the parts of that
// kernel (guard_nemotron_h_fused_scan of monkeypatch/models/nemotron_h/modeling.py), for packed Granite always.
static void note_packed_projection(const project_job *p, const plim_job *job, plim_notes *notes) {
  const plim_family *f = job->model.family;
  uint16_t release = plim_versions_used(&job->versions, PLIM_LIBRARY_TRANSFORMERS);
  bool are_fetched =
      PLIM_HAS_PACKAGE(job->packages, PLIM_PACKAGE_KERNELS) && release >= PLIM_RELEASE(5, 0);
  bool is_axolotl = p->project.dialect == PLIM_DIALECT_AXOLOTL;
  bool is_split = is_axolotl && f->axolotl_splits_kernels && project_job_packs(p);
  if (job->weights == PLIM_WEIGHTS_PLAIN || !are_fetched || is_split || leaves_projection(p, job))
    return;
  if (is_axolotl && f->axolotl_guards_kernels) {
    plim_note_add(notes, "unmodelled.split_kernels", NULL,
                  "with quantised weights, Axolotl runs the parts of Mamba's fused kernel one by "
                  "one, which is not modelled; the run needs more memory and time than predicted");
    plim_note_errs_low(notes);
    return;
  }
  plim_note_add(notes, "stops.kernels", "quantisation",
                "the fused kernels of mamba-ssm, which transformers fetches with the package "
                "kernels, read the weight of out_proj directly, which fails if it is "
                "quantised, so the run stops at its first step; set the environment variable "
                "USE_HUB_KERNELS=0 (the run then needs more memory: --packages none), or leave "
                "out_proj as it is with llm_int8_skip_modules");
}

static bool has_plugin(const project_job *p, const char *name) {
  for (size_t i = 0; i < p->project.files.len; i++) {
    const plim_settings *s = &p->project.files.at[i]->settings;
    for (size_t k = 0; k < s->at.len; k++)
      if (strncmp(s->at.at[k].key, "plugins", 7) == 0 && has_word(&s->at.at[k], name))
        return p->project.dialect == PLIM_DIALECT_AXOLOTL;
  }
  return false;
}

static bool has_liger_key(const project_job *p) {
  static const char *const keys[] = {"liger_rope",
                                     "liger_rms_norm",
                                     "liger_layer_norm",
                                     "liger_glu_activation",
                                     "liger_cross_entropy",
                                     "liger_rms_norm_gated",
                                     "liger_use_token_scaling",
                                     "liger_fused_linear_cross_entropy"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (is_true(p, keys[i])) return true;
  return false;
}

// Losses that Axolotl's plugins cannot put into the model (plim_axolotl_loss). The patches are made before the model is loaded,
// and are used by its first forward pass.
static void note_losses(const project_job *p, const plim_job *job, plim_notes *notes) {
  const plim_family *f = plim_config_whole(&job->model);
  bool breaks = f->axolotl_loss == PLIM_AXOLOTL_LOSS_BREAKS;
  bool is_refused = f->axolotl_loss == PLIM_AXOLOTL_LOSS_REFUSED;
  bool has_none = is_refused || f->axolotl_loss == PLIM_AXOLOTL_LOSS_NONE;
  const plim_setting *cut = cut_cross_entropy(p);
  bool is_fused = breaks && is_true(p, "liger_fused_linear_cross_entropy");
  bool has_liger = has_plugin(p, "LigerPlugin") && (is_fused || (is_refused && has_liger_key(p)));
  const char *when = breaks ? "stops in its first step" : "will not start";
  if (cut && (breaks || has_none))
    plim_note_add(notes, "stops.loss", NULL,
                  "Axolotl's Cut Cross Entropy does not work with models of the type %s, so the "
                  "run %s; remove CutCrossEntropyPlugin",
                  f->model_type, when),
        note_at_loss(p, cut, notes);
  if (has_liger)
    plim_note_add(notes, "stops.loss", NULL,
                  "Axolotl's Liger-Kernel does not work with models of the type %s, so the run %s; "
                  "remove LigerPlugin",
                  f->model_type, when);
}

void project_job_note_patches(const project_job *p, const plim_job *job, plim_notes *notes) {
  note_losses(p, job, notes);
  note_packed_projection(p, job, notes);
  project_job_note_split(p, job, notes);
  note_quantised_experts(p, job, notes);
  note_old_names(p, job, notes);
  note_split_kernels(p, job, notes);
  note_hybrid_masks(p, job, notes);
}

// core/trainers/dpo/__init__.py passes it to TRL's DPOConfig as use_liger_kernel; check_dpo_use_liger_kernel refuses it for ipo,
// TRL with a precomputed reference (trainer/dpo_trainer.py).
void project_job_note_fused_dpo(const project_job *p, const plim_job *job, uint64_t logits,
                                plim_notes *notes) {
  const plim_setting *loss = project_job_setting(p, "dpo_loss_type", "");
  bool is_ipo = has_word(loss, "ipo") || has_word(project_job_setting(p, "rl", "rl"), "ipo");
  bool is_dpo =
      job->recipe.method == PLIM_METHOD_DPO && job->recipe.reference != PLIM_REFERENCE_PRECOMPUTED;
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL || !is_dpo || is_ipo ||
      project_job_setting(p, "dpo_use_liger_kernel", ""))
    return;
  plim_note_add(notes, "reads.fused_dpo", "chunked_loss",
                "dpo_use_liger_kernel: true computes the same loss without all logits, which take "
                "%s of the peak now; plans do not predict it yet",
                units_bytes(logits).text);
}

// Axolotl's check_fp8_config (utils/schemas/validation.py).
void project_job_note_fp8(const project_job *p, const plim_job *own, const plim_job *planned,
                          plim_notes *notes) {
  bool has_now = own->recipe.checkpoint != PLIM_CHECKPOINT_OFF;
  bool has_then = planned->recipe.checkpoint != PLIM_CHECKPOINT_OFF;
  bool is_theirs = p->project.dialect == PLIM_DIALECT_AXOLOTL &&
                   strcmp(p->run.precision.text, "fp8") == 0 &&
                   planned->sharding.strategy == PLIM_SHARD_FSDP2;
  if (!is_theirs || !has_then) return;
  plim_note_add(notes, "reads.fp8", "checkpoint",
                "%s: Axolotl warns that with fp8 and FSDP2 this may be slower than bf16, which the "
                "times do not include",
                has_now ? "checkpointing is on" : "the plan turns checkpointing on");
}

// The number of GPUs is set by the launch command, which is not in these files.
void project_job_note_one(project_job *p, const job_args *a) {
  plim_dialect d = p->project.dialect;
  bool is_of_launcher = d == PLIM_DIALECT_TRL || d == PLIM_DIALECT_AXOLOTL ||
                        d == PLIM_DIALECT_LLAMA_FACTORY || d == PLIM_DIALECT_LLAMA_FACTORY_V1;
  if (!is_of_launcher || p->run.world.origin != PLIM_ABSENT || a->world != 1) return;
  if (job_is_typed(a, &a->world)) return;
  for (size_t i = 0; i < p->project.files.len; i++)
    if (p->project.files.at[i]->settings.format > PLIM_FORMAT_TOML) return;
  note(p, "assumed.gpus", "world",
       "the files do not set the number of GPUs: assuming one (--world N for more)");
}

// torchtune's files do not set the number of GPUs.
static void note_open(project_job *p, const job_args *a) {
  if (p->project.dialect != PLIM_DIALECT_TORCHTUNE) return;
  if (p->run.world.origin == PLIM_ABSENT && a->world == 1 && !job_is_typed(a, &a->world))
    note(p, "assumed.gpus", "world",
         "assuming one GPU; torchtune's distributed recipes shard with FSDP2 (--world N)");
}

// Axolotl's check_fsdp2_w_8bit_optimizer and check_fsdp_offload_w_8bit_optimizer (utils/schemas/validation.py).
static void note_refused_optimizer(project_job *p, const job_args *a) {
  const plim_setting *s = project_job_setting(p, "optimizer", "optimizer");
  bool is_sharded = a->strategy == PLIM_SHARD_FSDP2 && !job_is_typed(a, &a->strategy);
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL || !is_sharded || !has_word(s, "8bit")) return;
  bool is_of_bitsandbytes =
      strcmp(s->value.text, "adamw_8bit") == 0 || strcmp(s->value.text, "adamw_bnb_8bit") == 0;
  bool is_sent = a->offload == JOB_OFFLOAD_PARAMETERS;
  if (a->is_fsdp_1 ? !is_sent : !is_of_bitsandbytes) return;
  note(p, "stops.optimizer", "optimizer",
       "Axolotl refuses %s with %s, so the run will not start; %s", s->value.text,
       a->is_fsdp_1 ? "fsdp_config.offload_params" : "FSDP2",
       a->is_fsdp_1 ? "set offload_params: false, or an optimizer without 8-bit states"
                    : "set optimizer: adamw_torch_8bit");
}

// transformers 4.57 and 5.17, _get_galore_optimizer: only galore_adafactor without layerwise gets relative_step=False, and
// Adafactor refuses a learning rate with relative_step.
static void note_projected_adafactor(project_job *p) {
  if (strcmp(p->run.optimizer.text, "galore_adafactor_layerwise") != 0) return;
  note(p, "stops.optimizer", "optimizer",
       "transformers stops with a ValueError (\"Cannot combine manual `lr` and "
       "`relative_step=True` options\"): galore_adafactor_layerwise does not work with a learning "
       "rate; use galore_adafactor, or galore_adamw_layerwise");
}

// v1/plugins/model_plugins/quantization.py stores 4-bit weights as numbers of compute_dtype, float16 unless it is set;
// FSDP2 casts all that are not bf16 (get_mp_policy of fsdp2.py).
static void note_factory_storage(project_job *p, const job_args *a) {
  const plim_setting *s = project_job_setting(p, "quant_config.compute_dtype", "");
  bool is_4_bit = a->weights == PLIM_WEIGHTS_NF4 || a->weights == PLIM_WEIGHTS_NF4_DOUBLE;
  bool is_packed = is_4_bit && a->strategy == PLIM_SHARD_FSDP2 && p->run.precision.text &&
                   strcmp(p->run.precision.text, "bf16") == 0;
  if (p->project.dialect != PLIM_DIALECT_LLAMA_FACTORY_V1 || !is_packed) return;
  if (s && has_word(s, "bfloat16")) return;
  note(p, "reads.compute_dtype", "quantisation",
       "LLaMA-Factory v1 stores the 4-bit weights as float16 and FSDP2 casts them to bf16, which "
       "destroys them; set quant_config.compute_dtype: bfloat16");
}

// peft's loftq_init (tuners/lora/layer.py) takes the int8 numbers of such a layer for its weight; bitsandbytes keeps another
// reference to them, with which it computes.
static void note_loftq(project_job *p, const job_args *a) {
  bool has_loftq = project_job_setting(p, "loftq_bits", "loftq_bits") ||
                   has_word(project_job_setting(p, "peft_init_lora_weights", ""), "loftq");
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL || a->weights != PLIM_WEIGHTS_INT8 || !has_loftq)
    return;
  note(p, "reads.loftq", "quantisation",
       "peft's LoftQ takes the numbers of 8-bit weights for the weights, so the adapters begin "
       "with wrong values; remove loftq_config, or load_in_8bit");
}

// Axolotl's loaders/adapter.py, _build_peft_lora_config: no layers are the default.
static void note_targets(project_job *p, const job_args *a) {
  bool is_open = p->run.lora_targets.origin == PLIM_ABSENT && !job_is_typed(a, &a->lora_targets);
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL || !a->lora_rank || !is_open) return;
  note(p, "assumed.targets", "lora_targets",
       "neither lora_target_modules nor lora_target_linear is set, so Axolotl adapts no linear "
       "layer; predicted as with lora_target_linear: true, which needs more memory and time");
}

bool project_job_diffuses(const project_job *p) { return has_plugin(p, "DiffusionPlugin"); }

// loaders/patch_manager.py, _apply_sdpa_varlen_patch; where it does not apply, transformers makes a mask of the positions.
static void note_packed_sdpa(project_job *p, const job_args *a) {
  const plim_run_settings *r = &p->run;
  bool is_packed = strcmp(r->packing.text, "on") == 0;
  bool is_sdpa = r->attention.origin == PLIM_EXPLICIT && strcmp(r->attention.text, "sdpa") == 0;
  if (p->project.dialect != PLIM_DIALECT_AXOLOTL || !is_packed || !is_sdpa || a->attention) return;
  if (project_job_diffuses(p)) return; // its mask is of ones
  note(p, "unmodelled.packed_sdpa", "attention",
       "with sdpa, Axolotl separates packed samples by PyTorch's varlen_attn, which copies "
       "queries, keys and values (models with sliding windows: by a mask); neither is modelled: "
       "the run needs a little more memory than predicted");
}

static void note_cut_cross_entropy(project_job *p, const job_args *a) {
  const plim_setting *s = cut_cross_entropy(p);
  if (!s || a->loss != PLIM_LOSS_FUSED) return;
  note(p, "assumed.loss", "chunked_loss",
       "Cut Cross Entropy is predicted as Liger-Kernel's cross entropy, whose chunks of logits "
       "need a little more memory than the run");
  note_at_loss(p, s, &p->notes);
}

// TRL's pull request 5846 made chunks the default of SFTConfig.loss_type, in 1.7.
static bool leaves_loss_to_trl(const project_job *p) {
  return p->project.dialect == PLIM_DIALECT_TRL && p->run.loss.origin == PLIM_DEFAULTED;
}

bool project_job_is_before_chunks(const project_job *p, const job_args *a) {
  uint16_t trl = job_release(a, PLIM_LIBRARY_TRL);
  return leaves_loss_to_trl(p) && trl && trl < PLIM_RELEASE(1, 7);
}

bool project_job_is_before_checkpoints(const project_job *p, const job_args *a) {
  uint16_t trl = job_release(a, PLIM_LIBRARY_TRL);
  bool is_left =
      p->project.dialect == PLIM_DIALECT_TRL && p->run.checkpoint.origin == PLIM_DEFAULTED;
  return is_left && trl && trl < PLIM_RELEASE(0, 22);
}

static void note_loss(project_job *p, const job_args *a) {
  bool is_open = leaves_loss_to_trl(p) && !job_release(a, PLIM_LIBRARY_TRL);
  if (is_open && a->loss == PLIM_LOSS_CHUNKED)
    note(p, "assumed.trl_version", "chunked_loss",
         "no loss_type is set: assuming TRL 1.7 or newer, which computes the loss in chunks; older "
         "versions materialise all logits: add --loss full");
}

void project_job_note_ecosystem(project_job *p, const job_args *a) {
  note_loss(p, a);
  note_kbit(p, a);
  note_packing(p, a);
  note_ends(p, a);
  note_refused_optimizer(p, a);
  note_projected_adafactor(p);
  note_factory_storage(p, a);
  note_loftq(p, a);
  note_tokenized(p);
  note_targets(p, a);
  note_packed_sdpa(p, a);
  note_cut_cross_entropy(p, a);
  note_open(p, a);
}
