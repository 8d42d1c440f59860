// What only torchtune's recipes and models have.
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "model_names.h"
#include "project_job.h"

#define note(p, ...) plim_note_add(&(p)->notes, __VA_ARGS__)

static const char *text_of(const plim_setting *s) {
  return s && s->value.kind == PLIM_VALUE_TEXT ? s->value.text : "";
}

// The setting with this whole path; NULL: none.
static const plim_setting *setting_at(const project_job *p, const char *path) {
  const plim_setting *s = NULL;
  for (size_t i = 0; i < p->project.files.len && !s; i++)
    if (p->project.files.at[i]->is.dialect == PLIM_DIALECT_TORCHTUNE)
      s = plim_settings_find(&p->project.files.at[i]->settings, path);
  return s;
}

// The teacher of a distillation: the model that its function builds, or the folder of its checkpoint.
static void fill_teacher(project_job *p, job_args *a) {
  const char *builder = text_of(project_job_setting(p, "teacher_model.", "._component_"));
  const char *folder = text_of(project_job_setting(p, "teacher_checkpointer.", ".checkpoint_dir"));
  if (!*builder || job_is_typed(a, &a->teacher)) return;
  bool is_known = plim_model_of_builder(builder, p->teacher, sizeof p->teacher);
  a->teacher = is_known ? p->teacher : *folder ? folder : builder;
  note(p, "assumed.method", NULL, "distillation with %s as the teacher, a second, frozen model",
       a->teacher);
}

// torchtune's recipes: DPO by its loss, distillation by its teacher.
static void fill_recipe(project_job *p, job_args *a) {
  const char *loss = text_of(project_job_setting(p, "loss._component_", "._component_"));
  const char *name = strrchr(loss, '.');
  fill_teacher(p, a);
  if (!name || strcmp(name, ".DPOLoss") != 0 || job_is_typed(a, &a->method)) return;
  a->method = PLIM_METHOD_DPO_TUNE;
  note(p, "assumed.method", NULL, "DPO as in torchtune's recipe; the reference is %s",
       a->lora_rank ? "the model without its adapters" : "a second, frozen model");
}

// Functions that build models of any size are given max_seq_len.
static void fill_tables(const project_job *p, const char *builder, const char *length,
                        plim_builder_tables *out) {
  const plim_setting *s = setting_at(p, length);
  plim_tables_of_builder(text_of(setting_at(p, builder)), out);
  if (out->positions && s && s->value.kind == PLIM_VALUE_INTEGER && s->value.integer > 0)
    out->positions = s->value.integer;
}

// ---- Llama 3.2 with images --------------------------------------------------------------------------

static bool is_frozen(const project_job *p) {
  const plim_setting *s = setting_at(p, "model.decoder_trainable");
  return !s || strcasecmp(text_of(s), "frozen") == 0;
}

// models/llama3_2_vision/_component_builders.py, lora_llama3_2_vision_decoder: a frozen decoder has plain attention, and
// quantises its MLPs. A text without images passes by everything that is trained.
static void fill_frozen_decoder(project_job *p, job_args *a) {
  const char *builder = text_of(setting_at(p, "model._component_"));
  const char *name = strrchr(builder, '.');
  bool has_adapters = name && strstr(name, "lora_llama3_2_vision_");
  if (!has_adapters || !is_frozen(p)) return;
  a->left_plain = "self_attn.q_proj,self_attn.k_proj,self_attn.v_proj,self_attn.o_proj";
  note(p, "assumed.frozen_decoder", "lora_targets",
       "the decoder is frozen (decoder_trainable), so only the layers that attend to images and "
       "the part that sees images have adapters; predicted with adapters on the decoder's layers "
       "as well, which need a little more memory than the run%s",
       a->weights ? "; its attention is not quantised, which is predicted" : "");
  const char *data = text_of(setting_at(p, "dataset._component_"));
  if (!project_job_sees_images(p))
    note(p, "reads.untrained", NULL,
         "%s has no images, so no trained parameter is used and the run stops in backward "
         "(element 0 of tensors does not require grad): use a data set with images, or set "
         "decoder_trainable: lora",
         *data ? data : "dataset");
}

// models/llama3_2_vision/_model_builders.py and models/llama4/_model_builders.py, which have other defaults.
static void fill_towers(const project_job *p, job_args *a) {
  const plim_setting *s = setting_at(p, "model.encoder_trainable");
  bool is_llama4 = fnmatch("*.llama4.*", text_of(setting_at(p, "model._component_")), 0) == 0;
  a->leaves_towers = s ? strcasecmp(text_of(s), "frozen") == 0 : is_llama4;
}

// ---- what is not quantised --------------------------------------------------------------------------

// Families whose functions do not quantise all linear layers of the decoder. ADAPTED: only those with adapters
// (models/qwen2/_component_builders.py, lora_qwen2_self_attention and qwen2_mlp); the others have a FrozenNF4Linear where
// there is no adapter. Llama 4: only attention in the decoder (lora_llama4_moe), and no frozen tower.
#define ADAPTED NULL
static const struct {
  const char *builders, *left;
} plain[] = {
    {"*.qwen2.*", ADAPTED},
    {"*.qwen2_5.*", ADAPTED},
    {"*.qwen3.*", ADAPTED},
    {"*.llama4.*", "gate_proj,up_proj,down_proj,fc1,fc2,linear_1"},
};

// Their names, as plim_job.left_plain takes them.
static void list_unadapted(const char *targets, char *out, size_t size) {
  static const char *const layers[] = {"q_proj",    "k_proj",  "v_proj",   "o_proj",
                                       "gate_proj", "up_proj", "down_proj"};
  size_t used = 0;
  *out = 0;
  for (size_t i = 0; i < sizeof layers / sizeof *layers && used < size; i++)
    if (!strstr(targets, layers[i]))
      used += (size_t)snprintf(out + used, size - used, "%s%s", used ? "," : "", layers[i]);
}

static void fill_unadapted(project_job *p, job_args *a) {
  const char *builder = text_of(setting_at(p, "model._component_"));
  bool is_known = a->lora_rank && a->lora_targets && !job_is_typed(a, &a->lora_targets);
  for (size_t i = 0; is_known && i < sizeof plain / sizeof *plain; i++) {
    if (fnmatch(plain[i].builders, builder, 0) != 0) continue;
    list_unadapted(a->lora_targets, p->unadapted, sizeof p->unadapted);
    a->left_plain = plain[i].left ? plain[i].left : *p->unadapted ? p->unadapted : NULL;
  }
}

// ---- several GPUs -----------------------------------------------------------------------------------

const char *project_job_distributed_key(const project_job *p) {
  static const char *const keys[] = {"tensor_parallel_dim", "data_parallel_shard_dim",
                                     "data_parallel_replicate_dim", "custom_sharded_layers"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const plim_setting *s = project_job_setting(p, keys[i], "");
    bool is_its = p->project.dialect == PLIM_DIALECT_TORCHTUNE && s &&
                  strncmp(s->key, keys[i], strlen(keys[i])) == 0;
    if (is_its) return keys[i];
  }
  return NULL;
}

// training/_distributed.py, get_shard_conditions: a unit for each module whose whole name is in the list. The modules of
// models with images are below "decoder", and a tied head is no module (modules/tied_linear.py).
static void fill_own_parts(const project_job *p, job_args *a) {
  static const struct {
    const char *name;
    plim_part part;
  } modules[] = {{"tok_embeddings", PLIM_PART_EMBEDDING}, {"output", PLIM_PART_HEAD}};
  const char *builder = text_of(setting_at(p, "model._component_"));
  if (strstr(builder, ".llama4.") || strstr(builder, ".llama3_2_vision.")) return;
  const plim_setting *s = NULL;
  char key[48];
  for (int i = 0; !i || s; i++) {
    snprintf(key, sizeof key, "custom_sharded_layers.%d", i);
    s = setting_at(p, key);
    for (size_t k = 0; s && k < sizeof modules / sizeof *modules; k++)
      if (strcmp(text_of(s), modules[k].name) == 0) a->own_parts |= 1u << modules[k].part;
  }
}

// ---- distillation -----------------------------------------------------------------------------------

// knowledge_distillation_*.py: backward is of the mean of each micro batch, and scale_grads then divides the sum of these
// gradients by the tokens of all.
void project_job_note_passes(const plim_job *own, const plim_job *planned, plim_notes *notes) {
  int now = own->recipe.accumulate, next = planned->recipe.accumulate;
  if (!own->recipe.distils || now < 1 || next < 1 || now == next) return;
  plim_note_add(
      notes, "assumed.gradient_scale", "accumulate",
      "torchtune's distillation divides the sum of each micro batch's mean gradient by "
      "all tokens, so with accumulate %d instead of %d gradients are %.3g times as large; "
      "AdamW evens that out, SGD does not (--fix micro_batch=%d to keep them)",
      next, now, (double)next / now, (int)own->recipe.batch);
}

// ---- all of it --------------------------------------------------------------------------------------

void project_job_fill_tune(project_job *p, job_args *a) {
  if (p->project.dialect != PLIM_DIALECT_TORCHTUNE) return;
  fill_recipe(p, a);
  fill_frozen_decoder(p, a);
  fill_unadapted(p, a);
  fill_towers(p, a);
  fill_own_parts(p, a);
  const plim_setting *masks = setting_at(p, "loss.mask_ignored_tokens");
  a->keeps_masked = masks && masks->value.kind == PLIM_VALUE_BOOL && !masks->value.flag;
  if (job_is_typed(a, &a->rope_tables) || job_is_typed(a, &a->model)) return;
  fill_tables(p, "model._component_", "model.max_seq_len", &a->tables[0]);
  fill_tables(p, "teacher_model._component_", "teacher_model.max_seq_len", &a->tables[1]);
}

// The step in backward is modelled on one GPU and under FSDP2, with the optimizer on the GPU.
void project_job_fill_in_backward(project_job *p, job_args *a) {
  const plim_setting *s = project_job_setting(p, "optimizer_in_bwd", "optimizer_in_bwd");
  bool is_on = s && s->value.kind == PLIM_VALUE_BOOL && s->value.flag;
  bool is_offloaded = a->offload == JOB_OFFLOAD_OPTIMIZER || a->offload == JOB_OFFLOAD_PARAMETERS;
  if (!is_on || p->project.dialect != PLIM_DIALECT_TORCHTUNE || job_is_typed(a, &a->in_backward))
    return;
  a->in_backward =
      a->strategy == PLIM_SHARD_NONE || (a->strategy == PLIM_SHARD_FSDP2 && !is_offloaded);
  if (!a->in_backward)
    note(p, "unmodelled.in_backward", NULL,
         "optimizer_in_bwd beside fsdp_cpu_offload is not modelled: the run needs less memory than "
         "predicted"),
        plim_note_errs_high(&p->notes);
}

// torchao's nf4_split (quantization/quantize_/workflows/nf4/nf4_tensor.py of 0.18): the 64 numbers of a block have a scale, and 256
// scales a factor; each GPU has to get as many factors of a weight.
bool project_job_splits_4_bits(const project_job *p, const plim_job *job, int64_t world) {
  enum { BLOCK = 64, FACTOR = 256 };
  const plim_config *c = &job->model;
  const int64_t sizes[] = {c->hidden * c->heads * c->head_dim,
                           c->hidden * c->kv_heads * c->head_dim, c->hidden * c->intermediate};
  bool splits = true;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    splits &= world < 2 || sizes[i] % (BLOCK * FACTOR * world) == 0;
  return p->project.dialect != PLIM_DIALECT_TORCHTUNE || splits;
}

void project_job_note_split(const project_job *p, const plim_job *job, plim_notes *notes) {
  bool is_4_bit = job->weights == PLIM_WEIGHTS_NF4 || job->weights == PLIM_WEIGHTS_NF4_DOUBLE;
  bool is_shared = job->sharding.strategy == PLIM_SHARD_FSDP2;
  if (!is_4_bit || !is_shared || project_job_splits_4_bits(p, job, job->sharding.world)) return;
  plim_note_add(
      notes, "stops.split", "quantisation",
      "torchao cannot divide the 4-bit weights of this model between %lld GPUs (each must "
      "get a multiple of 16,384 elements of every weight), so the run stops with an "
      "AssertionError; use another number of GPUs, or set quantize_base: False",
      (long long)job->sharding.world);
}
