// Real training configurations of five projects are recognised, read as knobs, and changed in one line.
#include <stdlib.h>

#include "project_change.h"
#include "projects.h"
#include "run_settings.h"

#define CONFIGS TEST_ROOT "/../../shared/configs/"

// ---- real files -------------------------------------------------------------------------------------

typedef struct {
  const char *file;
  plim_dialect dialect;
  const char *says;
  const char *refusal; // why it is not a training; NULL: it is one
} real_file;

#define LAUNCHES " configures how a run is launched, not what is trained"

static const real_file real_files[] = {
    {"accelerate__config_yaml_templates__deepspeed.yaml", PLIM_DIALECT_ACCELERATE,
     "world=2 strategy=unknown precision=unknown", LAUNCHES},
    {"accelerate__config_yaml_templates__fp8.yaml", PLIM_DIALECT_ACCELERATE,
     "precision=fp8 strategy=none world=unknown", LAUNCHES},
    {"accelerate__config_yaml_templates__multi_gpu.yaml", PLIM_DIALECT_ACCELERATE,
     "precision=bf16 strategy=ddp world=2", LAUNCHES},
    {"accelerate__config_yaml_templates__single_accelerator.yaml", PLIM_DIALECT_ACCELERATE,
     "precision=bf16 strategy=none", LAUNCHES},
    {"axolotl__archived__dbrx__16bit-lora.yaml", PLIM_DIALECT_AXOLOTL,
     "model=LnL-AI/dbrx-base-converted-v2 micro_batch=1 accumulate=1 sequence=512 packing=off "
     "lora_rank=8 lora_alpha=16 lora_dropout=0.05 lora_targets=q_proj,k_proj,v_proj,out_proj,layer "
     "optimizer=paged-adamw-8bit precision=bf16 dtype=bf16 checkpoint=on attention=flash "
     "strategy=fsdp offload=none epochs=1 quantisation=plain",
     NULL},
    {"axolotl__archived__mpt-7b__config.yml", PLIM_DIALECT_AXOLOTL,
     "micro_batch=1 sequence=2048 lora_rank=0 optimizer=adamw-8bit checkpoint=off attention=sdpa "
     "epochs=4 precision=bf16 quantisation=plain",
     NULL},
    {"axolotl__archived__stablelm-2__1.6b__fft.yml", PLIM_DIALECT_AXOLOTL,
     "sequence=4096 packing=on lora_rank=0 optimizer=adamw-8bit checkpoint=on attention=flash "
     "strategy=unknown",
     NULL},
    {"axolotl__deepseek-v2__fft-fsdp-16b.yaml", PLIM_DIALECT_AXOLOTL,
     "micro_batch=1 accumulate=8 sequence=2048 optimizer=adamw strategy=fsdp offload=parameters "
     "checkpoint=on lora_rank=0 packing=on",
     NULL},
    {"axolotl__distributed-parallel__qwen3-8b-fsdp-tp-cp.yaml", PLIM_DIALECT_AXOLOTL,
     "micro_batch=1 sequence=8192 context_parallel=2 tensor_parallel=2 strategy=fsdp2 reshard=on "
     "offload=none chunked_loss=fused epochs=2",
     NULL},
    {"axolotl__ebft__llama-3b-ebft-strided-fft.yaml", PLIM_DIALECT_AXOLOTL,
     "lora_rank=32 lora_alpha=64 lora_targets=all-linear checkpoint=reentrant dtype=bf16 "
     "compile=on "
     "accumulate=4 loss_kind=other sequence=1024",
     NULL},
    {"axolotl__gpt-oss__gpt-oss-120b-fft-fsdp2-offload.yaml", PLIM_DIALECT_AXOLOTL,
     "strategy=fsdp2 offload=parameters+activations optimizer=adamw attention=flash "
     "chunked_loss=fused accumulate=2 sequence=4096 checkpoint=on",
     NULL},
    {"axolotl__llama-3__qlora-fsdp-70b.yaml", PLIM_DIALECT_AXOLOTL,
     "quantisation=nf4-double lora_rank=8 checkpoint=reentrant offload=parameters strategy=fsdp "
     "accumulate=4 sequence=512 lora_targets=all-linear",
     NULL},
    {"axolotl__llama-4__do-no-use-fa2__maverick-qlora-fsdp1.yaml", PLIM_DIALECT_AXOLOTL,
     "quantisation=nf4-double lora_rank=32 checkpoint=on offload=parameters+activations liger=on "
     "strategy=fsdp "
     "lora_targets=self_attn.q_proj,self_attn.k_proj,self_attn.v_proj,self_attn.o_proj,"
     "shared_expert.gate_proj,shared_expert.up_proj,shared_expert.down_proj",
     NULL},
    {"axolotl__mistral-small__mistral-small-3.1-24B-lora.yml", PLIM_DIALECT_AXOLOTL,
     "quantisation=int8 micro_batch=2 lora_rank=32 lora_alpha=16 precision=bf16 packing=off", NULL},
    {"axolotl__nemotron-h__nano-30b-a3b-qlora-cp.yaml", PLIM_DIALECT_AXOLOTL,
     "context_parallel=2 optimizer=adamw-torchao-4bit attention=flash liger=on chunked_loss=fused "
     "quantisation=nf4-double lora_dropout=0 accumulate=2",
     NULL},
    {"axolotl__pixtral__lora-12b.yml", PLIM_DIALECT_AXOLOTL,
     "sequence=8192 lora_rank=32 optimizer=adamw-8bit accumulate=4 quantisation=plain", NULL},
    {"axolotl__qat_nvfp4__Math-Gemma3-12B_baseline.yml", PLIM_DIALECT_AXOLOTL,
     "micro_batch=8 checkpoint=on liger=on chunked_loss=fused strategy=fsdp2 reshard=on", NULL},
    {"axolotl__qwen3-next__qwen3-next-80b-a3b-nvfp4-lora.yaml", PLIM_DIALECT_AXOLOTL,
     "micro_batch=1 lora_rank=16 sequence=2048 packing=on checkpoint=on", NULL},
    {"llama-factory__accelerate__fsdp2_config.yaml", PLIM_DIALECT_ACCELERATE,
     "strategy=fsdp2 world=2 reshard=on offload=none precision=bf16", LAUNCHES},
    {"llama-factory__deepspeed__ds_z2_config.json", PLIM_DIALECT_DEEPSPEED,
     "strategy=zero2 micro_batch=unknown accumulate=unknown precision=unknown offload=unknown",
     LAUNCHES},
    {"llama-factory__deepspeed__ds_z2_offload_config.json", PLIM_DIALECT_DEEPSPEED,
     "strategy=zero2 offload=optimizer clip=unknown", LAUNCHES},
    {"llama-factory__deepspeed__ds_z3_offload_config.json", PLIM_DIALECT_DEEPSPEED,
     "strategy=zero3 offload=parameters", LAUNCHES},
    {"llama-factory__extras__llama_pro__llama3_freeze_sft.yaml", PLIM_DIALECT_LLAMA_FACTORY,
     "lora_rank=0 micro_batch=1 accumulate=8 sequence=2048 checkpoint=reentrant workers=4 epochs=3 "
     "precision=bf16 optimizer=adamw",
     NULL},
    {"llama-factory__ktransformers__accelerate__fsdp2_kt_int8.yaml", PLIM_DIALECT_ACCELERATE,
     "strategy=fsdp2 world=4", LAUNCHES},
    {"llama-factory__megatron__qwen3_moe_full.yaml", PLIM_DIALECT_LLAMA_FACTORY,
     "lora_rank=0 dtype=fp32 checkpoint=on strategy=zero1 tensor_parallel=1 sequence=4096 "
     "accumulate=8",
     NULL},
    {"llama-factory__megatron_bridge__llama3_sft.yaml", PLIM_DIALECT_LLAMA_FACTORY,
     "lora_rank=8 strategy=zero1 checkpoint=off model=meta-llama/Llama-3.2-1B-Instruct "
     "dtype=auto clip=1",
     NULL},
    {"llama-factory__train_lora__qwen3_lora_sft.yaml", PLIM_DIALECT_LLAMA_FACTORY,
     "lora_rank=8 lora_targets=all-linear dtype=auto micro_batch=1 accumulate=8 quantisation=plain "
     "attention=sdpa liger=off",
     NULL},
    {"llama-factory__v1__train_batching_strategy__train_full_fsdp2_batching_normal.yaml",
     PLIM_DIALECT_LLAMA_FACTORY_V1,
     "micro_batch=2 sequence=2048 strategy=fsdp2 lora_rank=0 precision=bf16 checkpoint=on "
     "optimizer=adamw-foreach clip=1 model=Qwen/Qwen3-0.6B",
     NULL},
    {"llama-factory__v1__train_full__train_full_ulysses_cp.yaml", PLIM_DIALECT_LLAMA_FACTORY_V1,
     "attention=flash context_parallel=2 precision=none micro_batch=1", NULL},
    {"llama-factory__v1__train_lora__train_lora_sft.yaml", PLIM_DIALECT_LLAMA_FACTORY_V1,
     "lora_rank=16 lora_alpha=32 lora_dropout=0.05 lora_targets=all-linear", NULL},
    {"torchtune__gemma2__2B_lora.yaml", PLIM_DIALECT_TORCHTUNE,
     "micro_batch=4 accumulate=1 lora_rank=64 lora_alpha=128 "
     "lora_targets=q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj optimizer=adamw dtype=bf16 "
     "checkpoint=on offload=none chunked_loss=eighths packing=off clip=0 model=gemma2-2b",
     NULL},
    {"torchtune__gemma2__9B_full.yaml", PLIM_DIALECT_TORCHTUNE,
     "micro_batch=1 lora_rank=0 optimizer=adamw quantisation=plain", NULL},
    {"torchtune__gemma__2B_full.yaml", PLIM_DIALECT_TORCHTUNE,
     "micro_batch=2 lora_rank=0 compile=off precision=none", NULL},
    {"torchtune__llama2__1B_qat_single_device.yaml", PLIM_DIALECT_TORCHTUNE,
     "micro_batch=1 sequence=2048 optimizer=paged-adamw accumulate=1", NULL},
    {"torchtune__llama3_1__8B_full.yaml", PLIM_DIALECT_TORCHTUNE,
     "micro_batch=2 sequence=unknown optimizer=adamw epochs=1", NULL},
    {"torchtune__llama3_2__3B_qat_lora.yaml", PLIM_DIALECT_TORCHTUNE,
     "micro_batch=4 accumulate=8 lora_rank=64 checkpoint=off", NULL},
    {"torchtune__llama3_2__evaluation.yaml", PLIM_DIALECT_TORCHTUNE, "micro_batch=8 dtype=bf16",
     " only evaluates a model: it configures no optimizer"},
    {"torchtune__llama3__8B_qlora_single_device.yaml", PLIM_DIALECT_TORCHTUNE,
     "quantisation=nf4-double lora_rank=8 micro_batch=2 accumulate=8 "
     "lora_targets=q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj",
     NULL},
    {"torchtune__qwen2_5__0.5B_lora_single_device.yaml", PLIM_DIALECT_TORCHTUNE,
     "lora_rank=32 lora_alpha=64 checkpoint=off micro_batch=2 quantisation=plain", NULL},
    {"torchtune__qwen3__1.7B_full.yaml", PLIM_DIALECT_TORCHTUNE,
     "micro_batch=2 checkpoint=off lora_rank=0 optimizer=adamw", NULL},
};
enum { REAL_FILES = sizeof real_files / sizeof *real_files };

static plim_err read_real(const real_file *file) {
  char path[1024];
  snprintf(path, sizeof path, CONFIGS "%s", file->file);
  return READ(path);
}

static bool is_understood(const real_file *file) {
  plim_run_settings run;
  if (read_real(file)) {
    printf("%s\n", error.message);
    return false;
  }
  const plim_recognition *is = &project.files.at[0]->is;
  bool is_right = is->dialect == file->dialect && *is->reason;
  if (!is_right) printf("taken for %d: %s\n", (int)is->dialect, is->reason);
  plim_err err = plim_run_settings_of(&project, &run, &error);
  bool is_refused = file->refusal ? err && strstr(error.message, file->refusal) : !err;
  if (!is_refused) printf("%s\n", err ? error.message : "it is not refused");
  return is_right && is_refused && says(file->says);
}

TEST(real_files_are_recognised_and_read) {
  if (!plim_is_folder(CONFIGS)) SKIP("the real files are not here: ../shared/configs");
  for (int i = 0; i < REAL_FILES; i++)
    test_count(real_files[i].file, is_understood(&real_files[i]));
}

// ---- changing real files ----------------------------------------------------------------------------

static size_t line_count(const char *from, const char *to) {
  size_t count = 0;
  for (; from < to; from++) count += *from == '\n';
  return count;
}

// The number of lines from the first to the last difference, in the longer text.
static size_t lines_that_differ(const char *a, const char *b) {
  size_t n = strlen(a), m = strlen(b), front = 0, back = 0;
  while (front < n && front < m && a[front] == b[front]) front++;
  while (back < n - front && back < m - front && a[n - back - 1] == b[m - back - 1]) back++;
  size_t mine = line_count(a + front, a + n - back), other = line_count(b + front, b + m - back);
  return 1 + (mine > other ? mine : other) - (mine != other);
}

static bool knobs_are_as(const plim_project *now, const plim_project *then, plim_knob changed,
                         const plim_value *value) {
  for (int i = 0; i < PLIM_KNOBS; i++) {
    const plim_project_knob *a = &now->knobs[i], *b = &then->knobs[i];
    const plim_value *want = i == (int)changed ? value : &b->value;
    bool is_of_way = i == PLIM_KNOB_STRATEGY || i == PLIM_KNOB_OFFLOAD || i == PLIM_KNOB_RESHARD;
    if (plim_value_same(&a->value, want)) continue;
    if (changed == PLIM_KNOB_STRATEGY && is_of_way && a->origin == PLIM_ABSENT) continue; // plain
    printf("%s is not what it should be\n", plim_knob_table[i].name);
    return false;
  }
  return true;
}

// Whether the change is one line, or a declared set of keys, and all other knobs read back unchanged.
static bool is_changed_well(plim_knob knob, const plim_value *value, const plim_edit_set *edits) {
  plim_project again = {0};
  char *text;
  size_t size;
  if (edits->files.len) return true; // tests/cli/golden/apply_share_*
  if (plim_project_text(&project, 0, edits, &text, &size, &error)) return false;
  size_t lines = lines_that_differ(project.files.at[0]->text, text);
  bool ok = lines == 1 || keys_set_together(project.files.at[0]->is.dialect, knob);
  if (!ok) printf("%zu edits, %zu lines\n", edits->at.len, lines);
  ok = ok && !plim_project_add(&again, project.files.at[0]->path, text, size, &error) &&
       !plim_project_finish(&again, &error) && knobs_are_as(&again, &project, knob, value);
  plim_project_clear(&again);
  free(text);
  return ok;
}

static bool changes_or_says_why(plim_knob knob, const char *to) {
  plim_edit_set edits;
  plim_value value = value_from(to);
  error = (plim_error){0};
  plim_err err = plim_project_set(&project, &(plim_knob_change){knob, value}, 1, &edits, &error);
  if (err) return error.message[0] != 0;
  bool ok = is_changed_well(knob, &value, &edits);
  plim_edit_set_clear(&edits);
  return ok;
}

static bool all_knobs_change(void) {
  bool ok = true;
  for (size_t i = 0; i < OTHERS; i++) {
    if (project.knobs[others[i].knob].origin != PLIM_EXPLICIT) continue;
    for (int k = 0; k < 4 && others[i].values[k]; k++) {
      if (strcmp(value_of(others[i].knob), others[i].values[k]) == 0) continue;
      bool is_well = changes_or_says_why(others[i].knob, others[i].values[k]);
      if (!is_well) printf("%s to %s\n", plim_knob_table[others[i].knob].name, others[i].values[k]);
      ok = ok && is_well;
    }
  }
  return ok;
}

TEST(real_files_change_in_one_line) {
  if (!plim_is_folder(CONFIGS)) SKIP("the real files are not here: ../shared/configs");
  for (int i = 0; i < REAL_FILES; i++) {
    bool ok = !read_real(&real_files[i]) && all_knobs_change();
    test_count(real_files[i].file, ok);
  }
}

TEST(common_knobs_of_real_files_can_be_written) {
  if (!plim_is_folder(CONFIGS)) SKIP("the real files are not here: ../shared/configs");
  CHECK(!READ(CONFIGS "axolotl__llama-3__qlora-fsdp-70b.yaml"), "%s", error.message);
  CHECK(changes("micro_batch", "2") && changes("sequence", "1024"), "numbers");
  CHECK(changes("checkpoint", "off") && changes("checkpoint", "on"), "checkpointing");
  CHECK(changes("optimizer", "paged-adamw-8bit"), "optimizer");
  CHECK(changes("empty_cache", "50"), "a key that is not there");
  CHECK(!READ(CONFIGS "llama-factory__train_lora__qwen3_lora_sft.yaml"), "%s", error.message);
  CHECK(changes("checkpoint", "off"), "an inverted key that is not there");
  CHECK(changes("checkpoint", "on"), "reentrant by default");
  CHECK(changes("attention", "flash") && changes("quantisation", "int8"), "words");
  CHECK(!READ(CONFIGS "llama-factory__deepspeed__ds_z2_offload_config.json"), "%s", error.message);
  CHECK(changes("strategy", "zero3") && changes("offload", "none"), "DeepSpeed");
  CHECK(!READ(CONFIGS "torchtune__llama2__1B_qat_single_device.yaml"), "%s", error.message);
  CHECK(changes("optimizer", "paged-adamw-8bit"), "by class");
  CHECK(!READ(CONFIGS "torchtune__llama3__8B_qlora_single_device.yaml"), "%s", error.message);
  CHECK(changes("optimizer", "paged-adamw-8bit"), "a key that stays behind is taken out");
  CHECK(changes("offload", "activations") && changes("lora_rank", "16"), "torchtune");
}

TEST(forbidden_changes_are_refused_with_the_reason) {
  if (!plim_is_folder(CONFIGS)) SKIP("the real files are not here: ../shared/configs");
  CHECK(!READ(CONFIGS "axolotl__distributed-parallel__qwen3-8b-fsdp-tp-cp.yaml"), "%s",
        error.message);
  CHECK(refuses("micro_batch", "2", "must be 1"), "context parallel");
  CHECK(!READ(CONFIGS "axolotl__qwen3-next__qwen3-next-80b-a3b-nvfp4-lora.yaml"), "%s",
        error.message);
  CHECK(refuses("micro_batch", "2", "must be 1"), "a comment at the top");
  CHECK(!READ(CONFIGS "axolotl__gpt-oss__gpt-oss-120b-fft-fsdp2-offload.yaml"), "%s",
        error.message);
  CHECK(refuses("optimizer", "adamw-8bit", "do not work with FSDP2"), "a comment beside it");
  CHECK(!READ(CONFIGS "torchtune__llama2__1B_qat_single_device.yaml"), "%s", error.message);
  CHECK(refuses("accumulate", "2", "optimizer steps during backward"), "optimizer_in_bwd");
  CHECK(!READ(CONFIGS "llama-factory__megatron__qwen3_moe_full.yaml"), "%s", error.message);
  CHECK(refuses("micro_batch", "2", "pipeline"), "pipeline");
  CHECK(!READ(CONFIGS "accelerate__config_yaml_templates__single_accelerator.yaml"), "%s",
        error.message);
  CHECK(refuses("strategy", "zero3", "strategy"), "it takes more than one key");
  CHECK(!READ(CONFIGS "axolotl__archived__mpt-7b__config.yml"), "%s", error.message);
  CHECK(refuses("lora_rank", "16", "lora_rank"), "no adapter");
}

TEST_MAIN
