#include "job_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "family.h"
#include "job_contrast.h"
#include "job_effects.h"
#include "job_fetch.h"
#include "job_lengths.h"
#include "job_method.h"
#include "suggest.h"
#include "units.h"

const char *const job_dtypes[] = {"auto", "bf16", "fp16", "fp32", NULL};
const char *const job_amps[] = {"none", "bf16", "fp16", NULL};
const char *const job_lora_dtypes[] = {"fp32", "bf16", "bf16-cast", NULL};
const char *const job_loops[] = {"manual", "trainer", "bare", "loss-only", NULL};
const char *const job_reduce_dtypes[] = {"fp32", "bf16", NULL};
const char *const job_offloads[] = {"none",      "activations", "checkpoints",
                                    "optimizer", "parameters",  NULL};
const char *const job_offloaders[] = {
    "save_on_cpu",    "trl",           "trl-inline", "torchtune", "torchtune-inline", "axolotl",
    "axolotl-inline", "hidden-states", NULL};
_Static_assert(sizeof job_offloaders / sizeof *job_offloaders == PLIM_SAVINGS,
               "one name for each way but PLIM_SAVED_HERE");
const char *const job_prepares[] = {"default", "peft", "none", "axolotl", NULL};
const char *const job_heads[] = {"default", "causal",  "masked",  "none", "sequence",
                                 "tokens",  "answers", "choices", NULL};
const char *const job_trained_by[] = {"loop", "inputs", "llama-factory", NULL};
const char *const job_links[] = {"default", "nvlink", "pcie", NULL};
const char *const job_loads[] = {"pretrained", "device-map", "init", "sharded", NULL};

static const plim_dtype dtypes[] = {PLIM_DTYPE_COUNT, PLIM_BF16, PLIM_FP16, PLIM_FP32};
static const plim_dtype amps[] = {PLIM_BOOL, PLIM_BF16, PLIM_FP16};
static const plim_load loads[] = {PLIM_LOAD_PRETRAINED, PLIM_LOAD_DEVICE_MAP,
                                  PLIM_LOAD_INIT, [JOB_LOAD_SHARDED] = PLIM_LOAD_SHARDED};

enum { DEFAULT_LENGTH = 2048, DEFAULT_CHUNK = 512 };

const char *job_model_word(const job_args *args) {
  return args->model && *args->model == '{' ? "config.json" : args->model;
}

bool job_is_typed(const job_args *args, const void *field) {
  size_t at = (size_t)((const char *)field - (const char *)args);
  return args->typed && cli_was_given(args->typed, args->typed_at + at);
}

static const char *dtype_name(plim_dtype dtype) {
  return dtype == PLIM_BF16 ? "bf16" : dtype == PLIM_FP16 ? "fp16" : "fp32";
}

static plim_err check_count(const char *option, uint64_t value, uint64_t most, plim_error *error) {
  if (value >= 1 && value <= most) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_ARGUMENT, "%s %llu: it must be between 1 and %llu", option,
                   (unsigned long long)value, (unsigned long long)most);
}

// ---- the model --------------------------------------------------------------------------------------

// The dtype that was given; else that of the file; else, for a model of the catalogue, that of its checkpoint.
// Random weights have no checkpoint.
static plim_dtype chosen_dtype(const job_args *args, const job_request *r) {
  plim_dtype asked = dtypes[args->dtype];
  bool is_random = loads[args->load] == PLIM_LOAD_INIT;
  if (asked != PLIM_DTYPE_COUNT) return asked;
  return r->source.origin == PLIM_ORIGIN_CATALOGUE && is_random ? PLIM_DTYPE_COUNT
                                                                : r->source.dtype;
}

static void understand_dtype(const job_args *args, job_request *r) {
  r->job.widens_but_stage_3 = args->widens_but_stage_3;
  if (args->widens_all && !args->lora_rank)
    r->job.loaded_dtype = r->source.dtype == PLIM_DTYPE_COUNT ? PLIM_BF16 : r->source.dtype;
  r->job.dtype = chosen_dtype(args, r);
  if (r->job.dtype != PLIM_DTYPE_COUNT) return;
  r->job.dtype = PLIM_BF16;
  // Checkpoints of these families are mostly older than bf16.
  if (r->job.model.family->has_position_table || r->job.model.family->is_encoder_decoder)
    plim_note_add(
        &r->notes, "assumed.dtype", "dtype",
        "assuming bf16; checkpoints of this architecture are often float32 (--dtype fp32)");
}

// T5 1.1 and Flan-T5 ("tie_word_embeddings": false) have a separate head in their checkpoints, which is kept.
// If they are built from a configuration, transformers 5 ties the head (modeling_utils.py, tie_weights).
static plim_err understand_head(const job_args *args, job_request *r, plim_error *error) {
  plim_config *c = &r->job.model;
  if (c->family->is_encoder_decoder)
    c->has_own_head = !c->ties_embeddings && loads[args->load] != PLIM_LOAD_INIT;
  if (args->labels || job_is_typed(args, &args->labels)) {
    plim_err err = check_count("--labels", args->labels, 1 << 20, error);
    if (err) return err;
    c->labels = (int64_t)args->labels;
  }
  return args->head ? plim_config_set_head(c, (plim_head)(args->head - 1), error) : PLIM_OK;
}

// The kind of weights that a checkpoint of bitsandbytes has; plain if it is none, or if no adapters train on it.
static plim_weights_kind stored_weights(const job_args *args, const plim_model_source *s) {
  if (strcmp(s->quantization, "bitsandbytes") != 0 || !args->lora_rank) return PLIM_WEIGHTS_PLAIN;
  if (s->quantized_bits == 8) return PLIM_WEIGHTS_INT8;
  if (s->quantized_bits != 4) return PLIM_WEIGHTS_PLAIN;
  return s->is_quantized_twice ? PLIM_WEIGHTS_NF4_DOUBLE : PLIM_WEIGHTS_NF4;
}

// transformers cannot train mxfp4: Trainer refuses it, and Mxfp4Config(dequantize=True) is what its documentation uses.
// LLaMA-Factory does that for fp8, too (model_utils/quantization.py).
static bool is_dequantised(const job_args *args, const plim_model_source *s) {
  return strcmp(s->quantization, "mxfp4") == 0 ||
         (args->is_factory && strcmp(s->quantization, "fp8") == 0);
}

// How much less memory the weights of linear layers need than was predicted; their scales add a few percent.
static void describe_bits(const job_request *r, char *text, size_t size) {
  int bits = r->source.quantized_bits;
  *text = 0;
  if (bits > 0 && bits < 16)
    snprintf(text, size, ": the weights of linear layers have %d bits there, not 16", bits);
}

// Kernels for these unpack the weights in every pass; others multiply in 8 or 4 bits.
static bool is_unpacked(const plim_model_source *s) {
  static const char *const methods[] = {"awq", "gptq", "aqlm"};
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (strcmp(s->quantization, methods[i]) == 0) return true;
  return false;
}

// What transformers 5.17 needs to load such a checkpoint (quantizers/quantizer_awq.py and quantizer_gptq.py), and AWQ's
// update_dtype.
static const char *needs_of(const job_args *args, const job_request *r) {
  uint16_t release = job_release(args, PLIM_LIBRARY_TRANSFORMERS);
  const char *method = r->source.quantization;
  if (release && release < PLIM_RELEASE(5, 0)) return "";
  if (strcmp(method, "gptq") == 0)
    return ". transformers 5 needs two packages for it: pip install optimum gptqmodel";
  if (strcmp(method, "awq") != 0) return "";
  return r->job.dtype == PLIM_BF16
             ? ". transformers 5 needs gptqmodel for it, and loads the other weights in fp16"
             : ". transformers 5 needs gptqmodel for it";
}

static void understand_stored_weights(const job_args *args, job_request *r) {
  char bits[96];
  r->job.weights = stored_weights(args, &r->source);
  if (is_dequantised(args, &r->source))
    plim_note_add(&r->notes, "assumed.checkpoint_quantization", "quantisation",
                  "the checkpoint has %s weights, which transformers converts to %s for training "
                  "(%s(dequantize=True))",
                  r->source.quantization, dtype_name(r->job.dtype),
                  strcmp(r->source.quantization, "fp8") == 0 ? "FineGrainedFP8Config"
                                                             : "Mxfp4Config");
  else if (r->job.weights != PLIM_WEIGHTS_PLAIN)
    plim_note_add(&r->notes, "assumed.checkpoint_quantization", "quantisation",
                  "the checkpoint is quantised: predicted with %s weights",
                  plim_weights_names[r->job.weights]);
  else {
    describe_bits(r, bits, sizeof bits);
    plim_note_add(
        &r->notes, "unmodelled.checkpoint_quantization", "quantisation",
        "the checkpoint is quantised (%s), which is not modelled: predicted as if it were "
        "stored in %s, which needs more memory than the run%s%s%s",
        r->source.quantization, dtype_name(r->job.dtype), bits,
        is_unpacked(&r->source) ? "; the run takes longer, because it unpacks them" : "",
        needs_of(args, r));
    plim_note_errs_high(&r->notes);
  }
}

// bitsandbytes replaces nn.Linear alone (transformers' replace_with_bnb_linear); stacked experts are parameters.
static void mention_experts(const job_args *args, job_request *r) {
  bool is_skipped = r->job.returns_ends &&
                    (args->strategy == PLIM_SHARD_FSDP2 || args->strategy == PLIM_SHARD_ZERO3);
  bool is_widened = r->job.prepares_kbit && !is_skipped;
  uint64_t experts = plim_config_expert_parameters(&r->job.model);
  if (r->job.weights == PLIM_WEIGHTS_PLAIN || !experts || args->quantises_experts) return;
  const char *cure =
      args->is_axolotl ? "quantize_moe_experts: true quantises them" : "--prepare none: without it";
  char then[128];
  if (is_widened)
    snprintf(then, sizeof then, "become float32 in peft's prepare_model_for_kbit_training (%s)",
             cure);
  else snprintf(then, sizeof then, "stay %s", dtype_name(r->job.dtype));
  plim_note_add(&r->notes, "reads.quantisation", "quantisation",
                "bitsandbytes quantises linear layers, not stacked experts: their %.1f billion "
                "parameters %s",
                (double)experts / 1e9, then);
}

// Whether the files' own quantisation has no effect on a checkpoint that is quantised already: transformers takes the
// checkpoint's where both are of one class (quantizers/auto.py, merge_quantization_configs); LLaMA-Factory passes none
// (model_utils/quantization.py), nor does Axolotl for these (_set_quantization_config of loaders/model.py).
static bool leaves_stored(const job_args *args, const plim_model_source *s) {
  static const char *const of_axolotl[] = {"gptq", "awq"};
  bool is_left = args->is_factory || strcmp(s->quantization, "bitsandbytes") == 0;
  for (size_t i = 0; args->is_axolotl && i < sizeof of_axolotl / sizeof *of_axolotl; i++)
    is_left |= strcmp(s->quantization, of_axolotl[i]) == 0;
  return is_left;
}

// Otherwise transformers refuses it.
static void note_second_quantisation(job_request *r) {
  plim_note_add(&r->notes, "stops.checkpoint_quantization", NULL,
                "the checkpoint has %s weights, and transformers refuses to quantise them again "
                "(ValueError), so the run will not start; use a checkpoint with 16-bit weights, or "
                "leave the quantisation out",
                r->source.quantization);
}

// A quantised checkpoint stays quantised, whatever the other settings are. What the user types is for another checkpoint.
static void understand_weights(const job_args *args, job_request *r) {
  r->job.weights = (plim_weights_kind)args->weights;
  bool is_typed = job_is_typed(args, &args->weights);
  if (!*r->source.quantization || is_typed || args->is_torchtune) return;
  if (!args->weights || leaves_stored(args, &r->source)) understand_stored_weights(args, r);
  else note_second_quantisation(r);
}

static plim_err understand_model(const job_args *args, job_request *r, plim_error *error) {
  if (!args->model) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT, "no model is given");
    plim_error_hint(error, "--model qwen2.5-7b, or --model path/to/config.json; plimsoll help "
                           "models lists the names");
    return err;
  }
  plim_err err = job_find_model(args->model, args->may_fetch, &r->source, error);
  if (err) return err;
  r->job.model = r->source.config;
  understand_dtype(args, r);
  err = understand_head(args, r, error);
  if (err) return err;
  if (r->source.origin == PLIM_ORIGIN_FETCHED)
    plim_note_add(&r->notes, "reads.fetched", "model",
                  "uses the config.json of %.96s that --fetch downloaded; it is kept in %.300s",
                  args->model, r->source.folder);
  if (*r->source.note) plim_note_add(&r->notes, "assumed.model", "model", "%s", r->source.note);
  understand_weights(args, r);
  return PLIM_OK;
}

// ---- the recipe -------------------------------------------------------------------------------------

// Samples of different lengths: the longest decides.
static plim_err understand_lengths(const job_args *args, job_request *r, uint64_t most,
                                   plim_error *error) {
  if (args->seq && args->seq < most) most = args->seq;
  plim_err err = job_read_lengths(args->lengths, &r->lengths, error);
  if (err) return err;
  int64_t longest = r->lengths.at[r->lengths.count - 1];
  if (!args->seq && longest > (int64_t)most) {
    err = plim_fail(error, PLIM_ERR_ARGUMENT,
                    "%.160s has a sample of %lld tokens, and the model supports at most %llu",
                    args->lengths, (long long)longest, (unsigned long long)most);
    plim_error_hint(error, "--seq %llu, if longer samples are cut", (unsigned long long)most);
    return err;
  }
  r->most_tokens = (int64_t)most;
  r->job.lengths = &r->lengths;
  r->job.recipe.length = plim_lengths_longest(&r->lengths, (int64_t)most);
  bool is_padded = args->batch > 1 && r->lengths.at[0] < r->job.recipe.length;
  if (is_padded && r->job.recipe.mask == PLIM_MASK_NONE && !job_is_typed(args, &args->mask))
    r->job.recipe.mask = PLIM_MASK_LONGEST;
  return PLIM_OK;
}

// Models with a position table cannot exceed its length.
static plim_err understand_length(const job_args *args, job_request *r, plim_error *error) {
  const plim_config *c = &r->job.model;
  int64_t positions = c->positions - c->family->position_offset;
  bool is_bounded = c->family->has_position_table && positions > 0;
  uint64_t most = is_bounded ? (uint64_t)positions : 1 << 20;
  uint64_t length = args->seq ? args->seq : most < DEFAULT_LENGTH ? most : DEFAULT_LENGTH;
  if (!args->seq && !args->lengths)
    plim_note_add(&r->notes, "assumed.length", "sequence",
                  "no sequence length is given: assuming %llu tokens; give that of your longest "
                  "sample with --seq N",
                  (unsigned long long)length);
  bool is_typed_zero = !args->seq && job_is_typed(args, &args->seq);
  plim_err err = check_count("--seq", is_typed_zero ? 0 : length, most, error);
  if (err && args->seq > most && most < 1 << 20)
    plim_error_hint(error, "the model supports at most %llu tokens", (unsigned long long)most);
  r->job.recipe.length = (int64_t)length;
  if (!err && args->lengths) err = understand_lengths(args, r, most, error);
  length = (uint64_t)r->job.recipe.length;
  if (!err && args->batch * length > 1ull << 31)
    err =
        plim_fail(error, PLIM_ERR_ARGUMENT, "%llu sequences of %llu tokens are too many to predict",
                  (unsigned long long)args->batch, (unsigned long long)length);
  return err;
}

// transformers' names for optimizers that step during backward, such as galore_adamw_layerwise. What is left to clip is nothing.
static bool is_layerwise(const job_args *args) {
  const plim_optimizer *o = plim_optimizer_named(args->optimizer);
  return strstr(args->optimizer, "_layerwise") || (o && plim_optimizer_lags(o));
}

// bitsandbytes 0.50, backends/cuda/ops.py, str2optimizer32bit: RMSprop has no kernel for bf16 gradients. Parameters of fewer
// than 4096 elements use it with 8 bits too (optim/optimizer.py, min_8bit_size).
static void note_rmsprop(const job_args *args, job_request *r) {
  const plim_optimizer *o = r->job.recipe.optimizer;
  bool is_theirs =
      o == plim_optimizer_named("rmsprop-bnb") || o == plim_optimizer_named("rmsprop-8bit");
  if (!is_theirs || r->job.dtype != PLIM_BF16 || args->lora_rank) return;
  plim_note_add(&r->notes, "stops.optimizer", "optimizer",
                "bitsandbytes stops with a ValueError: its RMSprop does not take bf16 gradients; "
                "load the model in float32, or use another optimizer");
}

static plim_err understand_optimizer(const job_args *args, job_request *r, plim_error *error) {
  r->job.recipe.optimizer = plim_optimizer_named(args->optimizer);
  note_rmsprop(args, r);
  if (r->job.recipe.optimizer) return PLIM_OK;
  const char *names[64];
  size_t count = 0;
  char list[900] = "";
  for (const char *name; count < 64 && (name = plim_optimizer_name(count)); count++) {
    names[count] = name;
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", count ? ", " : "", name);
  }
  const char *close = plim_suggest(args->optimizer, names, count);
  plim_err err = close ? plim_fail(error, PLIM_ERR_ARGUMENT, "there is no optimizer \"%.64s\"",
                                   args->optimizer)
                       : plim_fail(error, PLIM_ERR_ARGUMENT,
                                   "the optimizer \"%.64s\" is not supported yet", args->optimizer);
  if (close) plim_error_hint(error, "did you mean %s?", close);
  else plim_error_hint(error, "supported: %s", list);
  return err;
}

// Indices in job_loops.
enum { LOOP_TRAINER = 1, LOOP_BARE, LOOP_LOSS_ONLY = JOB_LOOP_LOSS_ONLY };
enum { PREPARE_PEFT = 1, PREPARE_AXOLOTL = 3 }; // in job_prepares

static plim_checkpoint_kind checkpoint_of(const job_args *args, const plim_family *f) {
  bool is_refused = args->is_axolotl && f->axolotl_avoids_reentrant;
  return args->offload == JOB_OFFLOAD_CHECKPOINTS ? PLIM_CHECKPOINT_OFFLOADED
         : args->reentrant && !is_refused         ? PLIM_CHECKPOINT_REENTRANT
         : args->checkpoint || args->reentrant    ? PLIM_CHECKPOINT_ON
                                                  : PLIM_CHECKPOINT_OFF;
}

// integrations/deepspeed.py of transformers 5.17, trainer_config_finalize; accelerate's _prepare_deepspeed.
static plim_zero_sizes zero_sizes_of(const job_args *args, int64_t hidden) {
  plim_zero_sizes s = args->zero_sizes;
  if (s.reduce_bucket == JOB_AUTO_SIZE) s.reduce_bucket = hidden * hidden;
  if (s.prefetch == JOB_AUTO_SIZE) s.prefetch = (int64_t)(0.9 * (double)(hidden * hidden));
  if (s.persistent == JOB_AUTO_SIZE) s.persistent = 10 * hidden;
  return s;
}

// Trainer and accelerate run from_pretrained under zero.Init with stage 3.
static plim_load load_of(const job_args *args, bool by_accelerate) {
  plim_load origin = loads[args->load];
  bool is_in_parts = origin == PLIM_LOAD_PRETRAINED && by_accelerate && !args->loads_whole;
  return is_in_parts ? PLIM_LOAD_SHARDED : origin;
}

// llm_int8_skip_modules replaces the list of what bitsandbytes leaves as it is, which has the head.
static void leave_plain(const job_args *args, job_request *r) {
  const char *name = r->job.model.family->axolotl_leaves;
  if (!args->is_axolotl || !name) return;
  r->job.left_plain = name;
  if (!args->weights) return;
  bool is_widened = r->job.prepares_kbit && r->job.returns_ends && args->strategy <= PLIM_SHARD_DDP;
  plim_note_add(&r->notes, "unmodelled.skipped", "quantisation",
                "in this architecture, Axolotl does not quantise %s: it is in %s%s", name,
                is_widened ? "float32, which peft's prepare_model_for_kbit_training makes it"
                           : "16 bits",
                r->job.model.ties_embeddings
                    ? ""
                    : "; Axolotl quantises the head instead, which is predicted in 16 bits: the "
                      "run needs a little less memory than predicted");
}

// torchtune's shard_model (training/_distributed.py) makes a unit of each module called layers.N, also in encoders
// (get_shard_conditions), and never reshards what is outside of them: its losses use the head after the model's forward. Only
// its recipes have these losses and methods.
static bool is_of_tune(const job_args *args) {
  return args->loss == PLIM_LOSS_EIGHTHS || args->loss == PLIM_LOSS_LISTED ||
         args->method == PLIM_METHOD_DPO_TUNE || args->teacher;
}

// A head that is tied to the embedding reads its weight outside of the embedding's forward (modules/tied_linear.py), when
// a unit of the embedding's own is sharded again.
static unsigned own_parts_of(const job_args *args, job_request *r) {
  bool is_tied = r->job.model.ties_embeddings;
  if (args->own_parts && is_tied && args->strategy == PLIM_SHARD_FSDP2)
    plim_note_add(&r->notes, "stops.custom_sharded", NULL,
                  "the head of this model uses the embedding's weight, which is sharded whenever "
                  "the embedding itself does not run: the run will not start; remove "
                  "tok_embeddings from custom_sharded_layers");
  return is_tied ? 0 : args->own_parts;
}

static void note_own_code(const job_args *args, job_request *r) {
  if (!args->trusts_code || !r->job.model.family->ships_code) return;
  plim_note_add(&r->notes, "unmodelled.own_code", NULL,
                "trust_remote_code is on, and checkpoints of this architecture often bring code "
                "of their own; transformers' code is predicted, so the run may need more or less "
                "memory and time than predicted");
  plim_note_errs_either(&r->notes);
}

// FSDP2 sets the compute dtype with its own policy, not with autocast. Its CPUOffloadPolicy offloads parameters
// and optimizer together.
static void understand_sharding(const job_args *args, job_request *r) {
  bool is_fsdp = args->strategy == PLIM_SHARD_FSDP2;
  bool offloads = args->offload == JOB_OFFLOAD_PARAMETERS;
  bool by_accelerate = args->through_accelerate || args->loop == LOOP_TRAINER;
  r->job.sharding = (plim_sharding){
      .strategy = (plim_strategy)args->strategy,
      .world = (int64_t)args->world,
      .nodes = (int64_t)args->nodes,
      .link = (plim_link_kind)args->link,
      .network_gbs = args->network,
      // accelerate before 1.11 calls no_sync for FSDP2, which has none (accelerator.py; changed by accelerate#3762).
      .syncs_passes =
          args->syncs_passes ||
          (is_fsdp && by_accelerate && !args->is_fsdp_1 &&
           plim_versions_used(&r->job.versions, PLIM_LIBRARY_ACCELERATE) < PLIM_RELEASE(1, 11)),
      .has_bucket_views = args->bucket_views,
      .keeps_full = args->no_reshard,
      .keeps_root = is_of_tune(args),
      .own_parts = own_parts_of(args, r),
      .shards_towers = args->is_torchtune,
      .cuts_adapters = args->is_factory_1, // distributed/fsdp2.py, prepare_model
      .is_by_accelerate = by_accelerate,
      .is_version_1 = args->is_fsdp_1,
      .packs_in_bytes = args->packs_in_bytes,
      .is_patched = args->is_patched,
      .sizes = zero_sizes_of(args, r->job.model.hidden),
      .overlaps = args->overlaps,
      .sends_in_turn = args->sends_in_turn,
      .pages_all = args->pages_all,
      .pages_optimizer = args->pages_optimizer,
      .pages_parameters = args->pages_parameters,
      .offloads_optimizer = offloads || args->offload == JOB_OFFLOAD_OPTIMIZER,
      .offloads_parameters = offloads || (is_fsdp && args->offload == JOB_OFFLOAD_OPTIMIZER)};
  r->job.mapped_under = job_is_typed(args, &args->load) ? 0 : args->mapped_under;
  r->job.load = r->job.mapped_under ? plim_job_usual_load(&r->job) : load_of(args, by_accelerate);
  r->job.quantises_on_host = args->quantises_on_host;
  r->job.is_torchtune = r->job.copies_heads = args->is_torchtune;
  r->job.left_plain = args->left_plain;
  leave_plain(args, r);
  note_own_code(args, r);
  if (is_fsdp && args->offload == JOB_OFFLOAD_OPTIMIZER)
    plim_note_add(&r->notes, "assumed.offload", "offload",
                  "FSDP2 offloads parameters together with the optimizer");
  if (args->strategy && args->loop == 0 && !is_of_tune(args))
    plim_note_add(&r->notes, "assumed.outputs", NULL,
                  "assuming your loop frees the model's outputs after computing the loss; if it "
                  "keeps them, the logits stay in memory too");
  if (!is_fsdp || r->job.recipe.autocast == PLIM_BOOL) return;
  r->job.sharding.compute_dtype = r->job.recipe.autocast;
  r->job.sharding.reduce_dtype = by_accelerate        ? r->job.recipe.autocast
                                 : args->reduce_dtype ? PLIM_BF16
                                                      : PLIM_FP32;
  r->job.recipe.autocast = PLIM_BOOL;
}

static plim_err refuse_nodes(const job_args *args, plim_error *error) {
  unsigned long long world = args->world, nodes = args->nodes;
  plim_err err =
      plim_fail(error, PLIM_ERR_ARGUMENT, "%llu GPU%s cannot be split evenly over %llu machines",
                world, world == 1 ? "" : "s", nodes);
  unsigned long long rounded = nodes ? (world + nodes - 1) / nodes * nodes : 0;
  if (nodes)
    plim_error_hint(error, "--world counts all GPUs: --nodes %llu --world %llu", nodes, rounded);
  else plim_error_hint(error, "--nodes 1");
  return err;
}

static plim_err check_wiring(const job_args *args, plim_error *error) {
  if (!args->nodes || args->world % args->nodes) return refuse_nodes(args, error);
  if (args->network < 0 || args->network > 1e6) {
    plim_err err = plim_fail(error, PLIM_ERR_ARGUMENT,
                             "--network %g: it must be between 0 and 1000000 GB/s", args->network);
    plim_error_hint(error, "--network 50 means 400 Gbit/s");
    return err;
  }
  return PLIM_OK;
}

static plim_err check_sharding(const job_args *args, plim_error *error) {
  plim_err err = check_count("--world", args->world, 1 << 16, error);
  if (!err) err = check_wiring(args, error);
  bool is_sharded = args->strategy != PLIM_SHARD_NONE;
  bool needs_it = args->offload >= JOB_OFFLOAD_OPTIMIZER;
  if (!err && args->world > 1 && !is_sharded) {
    err = plim_fail(error, PLIM_ERR_ARGUMENT,
                    "--world %llu needs a strategy that divides the work between GPUs",
                    (unsigned long long)args->world);
    plim_error_hint(error, "--strategy ddp, or fsdp2, zero1, zero2, zero3");
  }
  if (!err && needs_it && args->strategy < PLIM_SHARD_FSDP2) {
    err = plim_fail(error, PLIM_ERR_ARGUMENT, "--offload %s needs a strategy that supports it",
                    job_offloads[args->offload]);
    plim_error_hint(error, "--strategy fsdp2, or zero2, zero3");
  }
  return err;
}

static uint64_t chunk_of(const job_args *args) {
  return args->loss_chunk == PLIM_UNKNOWN ? DEFAULT_CHUNK : args->loss_chunk;
}

// The manual loop on several GPUs is the one that was measured, which keeps only the loss.
static bool is_bare(const job_args *args) {
  return args->loop == LOOP_BARE || (args->strategy && args->loop != LOOP_TRAINER);
}

static plim_saving offloading_of(const job_args *args) {
  bool is_open = !args->offload_with && !job_is_typed(args, &args->offload_with);
  return is_open ? args->offloading : (plim_saving)(PLIM_SAVED_ON_HOST + args->offload_with);
}

// Whether the trainer has kernels of Liger for the model at all: transformers' integrations and Axolotl take the library's list,
// LLaMA-Factory has its own.
bool job_knows_liger(const job_args *args, const plim_config *c) {
  const plim_family *f = plim_config_whole(c);
  bool is_left = (args->is_factory && f->factory_lacks_liger) ||
                 (args->is_factory_1 && !f->factory_1_has_liger);
  return (f->has_liger || f->has_other_liger) && !is_left;
}

// The loss that use_liger_kernel turns on, where it does.
static plim_loss_kind own_loss(const job_args *args, const job_request *r) {
  bool is_idle = args->loss_is_ligers && !job_knows_liger(args, &r->job.model);
  return is_idle ? PLIM_LOSS_FULL : (plim_loss_kind)args->loss;
}

static plim_err understand_recipe(const job_args *args, job_request *r, plim_error *error) {
  plim_recipe *recipe = &r->job.recipe;
  *recipe =
      (plim_recipe){.batch = (int64_t)args->batch,
                    .steps = (int)args->steps,
                    .accumulate = (int)args->accumulate,
                    .attention = (plim_attention_kind)args->attention,
                    .mask = (plim_mask_kind)args->mask,
                    .autocast = amps[args->amp],
                    .checkpoint = checkpoint_of(args, plim_config_whole(&r->job.model)),
                    .wraps_layers = args->wraps_layers || is_of_tune(args),
                    .scores_again = args->scores_again && args->loss == PLIM_LOSS_FULL,
                    .target_length = (int64_t)args->target_seq,
                    .loss = own_loss(args, r),
                    .loss_chunk = (int64_t)chunk_of(args),
                    .uses_liger = args->liger && plim_config_has_liger(&r->job.model) &&
                                  job_knows_liger(args, &r->job.model),
                    .offloading = offloading_of(args),
                    .checkpoint_beside = args->checkpoint_beside,
                    .wraps_beside = args->wraps_beside,
                    .is_trainer = args->loop == LOOP_TRAINER,
                    .uses_accelerator = args->through_accelerate && args->loop != LOOP_TRAINER,
                    .is_bare = is_bare(args),
                    .adds_noise = args->noise,
                    .skips_clipping = args->no_clip || is_layerwise(args),
                    .steps_in_backward = args->in_backward || is_layerwise(args),
                    .projection = {args->projected, (int64_t)args->projection_rank},
                    .keeps_only_loss = args->loop == LOOP_LOSS_ONLY,
                    .reaches_towers = args->reaches_towers,
                    .deletes_outputs = args->delete_outputs};
  plim_recipe_offload(recipe, args->offload == JOB_OFFLOAD_ACTIVATIONS);
  r->job.returns_ends = args->prepare ? args->prepare == PREPARE_AXOLOTL : args->returns_ends;
  r->job.leaves_tables = r->job.returns_ends && args->leaves_tables;
  r->job.returns_tables = args->returns_tables && !args->prepare;
  r->job.prepares_kbit =
      args->prepare ? args->prepare == PREPARE_PEFT || r->job.returns_ends : !args->leaves_kbit;
  r->job.widens_ends = args->widens_ends;
  mention_experts(args, r);
  understand_sharding(args, r);
  plim_err err = check_count("--batch", args->batch, 1 << 20, error);
  if (!err) err = check_count("--accumulate", args->accumulate, 1 << 16, error);
  if (!err) err = check_count("--steps", args->steps, 1000, error);
  if (!err && args->projection_rank)
    err = check_count("--projection-rank", args->projection_rank, 1 << 20, error);
  if (!err) err = check_count("--loss-chunk", chunk_of(args), 1 << 20, error);
  if (!err && (args->target_seq || job_is_typed(args, &args->target_seq)))
    err = check_count("--target-seq", args->target_seq, 1 << 20, error);
  if (!err) err = check_sharding(args, error);
  if (!err) err = understand_length(args, r, error);
  if (!err) err = understand_optimizer(args, r, error);
  return err;
}

plim_err job_understand(const job_args *args, const job_args *typed, job_request *out,
                        const char **source, plim_error *error) {
  *out = (job_request){.load_help = args->load_help};
  *source = NULL;
  plim_err err = job_understand_versions(args, out, error);
  if (!err) err = understand_model(args, out, error);
  if (!err) err = job_check_release(out, error);
  if (!err) err = job_understand_packages(args, out, error);
  if (!err) err = job_understand_lora(args, out, error);
  if (!err) err = understand_recipe(args, out, error);
  if (!err) err = job_fit_attention(args, out, error);
  if (!err) err = job_understand_contrast(args, typed, out, error);
  if (!err) err = job_understand_method(args, out, error);
  if (!err) err = job_understand_tables(args, out, error);
  if (!err) err = job_understand_trained(args, out, error);
  if (!err) err = job_understand_qat(args, out, error);
  if (!err) err = job_understand_target(args, out, source, error);
  if (!err) err = job_understand_link(args, out, error);
  if (!err) err = job_check_effects(args, typed, out, error);
  if (!err) job_note_assumptions(args, out);
  if (!err && out->notes.has_no_memory) err = plim_no_memory(error);
  if (err) job_request_clear(out);
  return err;
}

// ---- in words ---------------------------------------------------------------------------------------

void job_request_clear(job_request *r) {
  plim_notes_clear(&r->notes);
  free(r->lengths.at);
  r->lengths = (plim_lengths){0};
}

// Other heads than that of a language model are named.
static void describe_head(const plim_job *job, char *text, size_t size) {
  const plim_config *c = &job->model;
  bool scores = job->recipe.method == PLIM_METHOD_REWARD;
  static const char *const names[PLIM_HEADS] = {
      [PLIM_HEAD_TOKENS] = " for token classification",
      [PLIM_HEAD_ANSWERS] = " for question answering",
      [PLIM_HEAD_CHOICES] = " for multiple choice",
  };
  if (c->head == PLIM_HEAD_TEXTS && c->labels == 1)
    snprintf(text, size, "%s", scores ? " with a head for scores" : " for regression");
  else if (c->head == PLIM_HEAD_TEXTS) snprintf(text, size, " for sequence classification");
  else snprintf(text, size, "%s", names[c->head] ? names[c->head] : "");
}

void job_describe_model(const job_request *r, const job_args *args, char *text, size_t size) {
  char shape[96];
  const plim_config *m = &r->job.model;
  plim_job runs = plim_job_in_effect(&r->job);
  bool is_nameless = args->is_observed || *args->model == '{' || plim_model_is_shape(args->model);
  snprintf(shape, sizeof shape, "%s with %d layers, hidden size %d",
           plim_config_whole(m)->model_type, (int)m->layers, (int)m->hidden);
  char head[64] = "";
  describe_head(&r->job, head, sizeof head);
  int used = snprintf(text, size, "%s%s, %s", is_nameless ? shape : args->model, head,
                      dtype_name(r->job.dtype));
  if (runs.recipe.autocast != PLIM_BOOL && used < (int)size)
    used += snprintf(text + used, size - (size_t)used, " with %s autocast",
                     dtype_name(runs.recipe.autocast));
  else if (runs.sharding.strategy == PLIM_SHARD_FSDP2 && runs.sharding.compute_dtype != PLIM_BOOL &&
           runs.sharding.compute_dtype != runs.dtype && used < (int)size)
    used += snprintf(text + used, size - (size_t)used, " with %s mixed precision (FSDP2)",
                     dtype_name(runs.sharding.compute_dtype));
  if (runs.dtype != r->job.dtype && used < (int)size)
    used += snprintf(text + used, size - (size_t)used, ", which %s converts to %s",
                     args->is_megatron ? "Megatron" : "DeepSpeed", dtype_name(runs.dtype));
  if (r->job.weights != PLIM_WEIGHTS_PLAIN && used < (int)size)
    used += snprintf(text + used, size - (size_t)used, ", %s weights",
                     plim_weights_names[r->job.weights]);
  if (r->job.qat.kind && used < (int)size)
    used += snprintf(text + used, size - (size_t)used, ", quantisation-aware (%s, groups of %d)",
                     plim_qat_table[r->job.qat.kind].name, (int)r->job.qat.group);
  if (r->trained_share > 0 && used < (int)size)
    snprintf(text + used, size - (size_t)used, ", %.3g %% of the parameters trained",
             100 * r->trained_share);
  if (!r->job.lora.rank || used >= (int)size) return;
  int commas = 0;
  for (const char *c = job_lora_targets(args, r); *c; c++) commas += *c == ',';
  used += snprintf(text + used, size - (size_t)used, ", %s rank %d on ",
                   r->job.lora.uses_dora ? "DoRA" : "LoRA", (int)r->job.lora.rank);
  if (used >= (int)size) return;
  if (r->unmatched_targets)
    used += snprintf(text + used, size - (size_t)used, "%d of %d named module types",
                     commas + 1 - r->unmatched_targets, commas + 1);
  else if (commas > 2)
    used += snprintf(text + used, size - (size_t)used, "%d module types", commas + 1);
  else used += snprintf(text + used, size - (size_t)used, "%s", job_lora_targets(args, r));
  if (r->job.lora.saved && used < (int)size)
    snprintf(text + used, size - (size_t)used, " (%s trained in full)", r->job.lora.saved);
}

void job_describe_recipe(const job_request *r, const job_args *args, char *text, size_t size) {
  const plim_recipe *c = &r->job.recipe;
  static const char *const checkpoints[] = {"no checkpointing", "checkpointing",
                                            "reentrant checkpointing",
                                            "checkpoints offloaded to the host"};
  char times[32] = "", shared[64] = "", loss[96];
  job_describe_loss(r, loss, sizeof loss);
  if (c->accumulate > 1) snprintf(times, sizeof times, ", accumulation %d", c->accumulate);
  if (args->strategy)
    snprintf(shared, sizeof shared, ", %s on %d GPU%s", plim_strategy_names[args->strategy],
             (int)args->world, args->world == 1 ? "" : "s");
  snprintf(text, size, "batch %d%s%s, %d tokens per sequence, %s, %s, %s attention, %s, %s%s",
           (int)c->batch, job_samples_of(c->method), times, (int)c->length, args->optimizer,
           checkpoints[c->checkpoint],
           plim_attention_names[plim_family_attention(r->job.model.family, c->attention)], loss,
           c->is_trainer        ? "Trainer"
           : c->is_bare         ? "manual loop without gradient clipping (--loop bare)"
           : c->keeps_only_loss ? "manual loop that keeps only the loss"
                                : "manual loop",
           shared);
}
