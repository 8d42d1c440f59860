// Training configurations of other people are recognised, read as knobs, and changed so that they read
// as asked and nothing else reads differently: real files of five projects, and small projects in the
// shapes people use.
#include <stdlib.h>

#include "other_values.h"
#include "run_settings.h"
#include "test.h"
#include "text_file.h"

#define CONFIGS TEST_ROOT "/../../shared/configs/"
#define FIXTURES TEST_ROOT "/fixtures/"

static plim_project project;
static plim_error error;

static plim_err read_files(const char *const *paths, size_t count) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = PLIM_OK;
  for (size_t i = 0; i < count && !err; i++) err = plim_project_read(&project, paths[i], &error);
  return err ? err : plim_project_finish(&project, &error);
}

#define READ(...)                                                                                  \
  read_files((const char *const[]){__VA_ARGS__},                                                   \
             sizeof(const char *const[]){__VA_ARGS__} / sizeof(char *))

// As if it were a file of that name.
static plim_err read_text(const char *path, const char *text) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = plim_project_add(&project, path, text, strlen(text), &error);
  return err ? err : plim_project_finish(&project, &error);
}

static const char *value_of(plim_knob knob) {
  static char text[4][512];
  static int next;
  char *out = text[next++ % 4];
  const plim_project_knob *k = &project.knobs[knob];
  if (k->said == PLIM_UNCLEAR) snprintf(out, sizeof *text, "unclear");
  else plim_value_print(&k->value, out, sizeof *text);
  return out;
}

// "micro_batch=4 checkpoint=on", all of them true. Prints those that are not.
static bool says(const char *expected) {
  bool ok = true;
  for (const char *at = expected; *at;) {
    size_t size = strcspn(at, " "), name_size = strcspn(at, "=");
    char name[64], want[256];
    snprintf(name, sizeof name, "%.*s", (int)name_size, at);
    snprintf(want, sizeof want, "%.*s", (int)(size - name_size - 1), at + name_size + 1);
    plim_knob knob = plim_knob_named(name);
    bool is_right = knob != PLIM_KNOBS && strcmp(value_of(knob), want) == 0;
    if (!is_right)
      printf("%s is %s, not %s\n", name, knob == PLIM_KNOBS ? "?" : value_of(knob), want);
    ok = ok && is_right;
    at += size + (at[size] == ' ');
  }
  return ok;
}

// ---- real files -------------------------------------------------------------------------------------

typedef struct {
  const char *file;
  plim_dialect dialect;
  const char *says;
  const char *refusal; // why it trains nothing; NULL: it does
} real_file;

#define LAUNCHES "it says how a run is started, not what is trained"

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
     "quantisation=nf4-double lora_rank=32 checkpoint=offloaded liger=on strategy=fsdp "
     "lora_targets=self_attn.q_proj,self_attn.k_proj,self_attn.v_proj,self_attn.o_proj,"
     "shared_expert.gate_proj,shared_expert.up_proj,shared_expert.down_proj",
     NULL},
    {"axolotl__mistral-small__mistral-small-3.1-24B-lora.yml", PLIM_DIALECT_AXOLOTL,
     "quantisation=int8 micro_batch=2 lora_rank=32 lora_alpha=16 precision=bf16 packing=off", NULL},
    {"axolotl__nemotron-h__nano-30b-a3b-qlora-cp.yaml", PLIM_DIALECT_AXOLOTL,
     "context_parallel=2 optimizer=adamw_torch_4bit attention=flash liger=on chunked_loss=fused "
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
     "dtype=bf16 clip=1",
     NULL},
    {"llama-factory__train_lora__qwen3_lora_sft.yaml", PLIM_DIALECT_LLAMA_FACTORY,
     "lora_rank=8 lora_targets=all-linear dtype=bf16 micro_batch=1 accumulate=8 quantisation=plain "
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
     "it has no optimizer: it does not train"},
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
  bool is_refused = file->refusal ? err && strcmp(error.message, file->refusal) == 0 : !err;
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

// Lines from the first to the last that differ, in the longer text.
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
    if (changed == PLIM_KNOB_STRATEGY && is_of_way && a->said == PLIM_UNSAID) continue; // plain
    printf("%s is not what it should be\n", plim_knob_table[i].name);
    return false;
  }
  return true;
}

// The change is one line, or of a set of keys that is declared, and reads back with all other knobs the same.
static bool is_changed_well(plim_knob knob, const plim_value *value, const plim_edit_set *edits) {
  plim_project again = {0};
  char *text;
  size_t size;
  if (edits->files.len) return true; // tests/cli/golden/apply_share_*
  if (plim_project_text(&project, 0, edits, &text, &size, &error)) return false;
  size_t lines = lines_that_differ(project.files.at[0]->text, text);
  bool ok = lines == 1 || plim_dialect_set(project.files.at[0]->is.dialect, knob);
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
    if (project.knobs[others[i].knob].said != PLIM_SAID) continue;
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

// Sets one knob of the project; false with the reason in `error`.
static bool set(const char *name, const char *to, plim_edit_set *edits) {
  plim_knob_change change = {plim_knob_named(name), value_from(to)};
  error = (plim_error){0};
  return !plim_project_set(&project, &change, 1, edits, &error);
}

static bool changes(const char *name, const char *to) {
  plim_edit_set edits;
  bool ok = set(name, to, &edits);
  if (!ok) printf("%s: %s\n", name, error.message);
  if (ok) plim_edit_set_clear(&edits);
  return ok;
}

static bool refuses(const char *name, const char *to, const char *reason) {
  plim_edit_set edits;
  bool ok = set(name, to, &edits);
  if (ok) plim_edit_set_clear(&edits);
  if (!ok && strstr(error.message, reason)) return true;
  printf("%s: %s\n", name, ok ? "it was changed" : error.message);
  return false;
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

TEST(what_must_not_change_is_refused_with_its_reason) {
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
  CHECK(refuses("accumulate", "2", "optimizer steps in backward"), "optimizer_in_bwd");
  CHECK(!READ(CONFIGS "llama-factory__megatron__qwen3_moe_full.yaml"), "%s", error.message);
  CHECK(refuses("micro_batch", "2", "pipeline"), "pipeline");
  CHECK(!READ(CONFIGS "accelerate__config_yaml_templates__single_accelerator.yaml"), "%s",
        error.message);
  CHECK(refuses("strategy", "zero3", "strategy"), "it takes more than one key");
  CHECK(!READ(CONFIGS "axolotl__archived__mpt-7b__config.yml"), "%s", error.message);
  CHECK(refuses("lora_rank", "16", "lora_rank"), "no adapter");
}

// ---- models and variables of scripts ----------------------------------------------------------------

TEST(the_model_is_what_from_pretrained_is_given) {
  static const char *const texts[] = {
      "model = AutoModelForCausalLM.from_pretrained('org/m', dtype='auto')\n",
      "MODEL_NAME = 'org/m'\nmodel = AutoModelForCausalLM.from_pretrained(MODEL_NAME)\n",
      "NAME = 'org/m'\ndef load():\n  return AutoModel.from_pretrained(NAME)\n",
      "def main():\n  base = 'org/m'\n  model = AutoModel.from_pretrained(base)\n",
      "p.add_argument('--model', default='org/m')\nargs = p.parse_args()\n"
      "model = LlamaForCausalLM.from_pretrained(args.model)\n",
      "@dataclass\nclass Config:\n  checkpoint: str = 'org/m'\nconfig = Config()\n"
      "model = AutoModel.from_pretrained(config.checkpoint)\n",
      "@dataclass\nclass Config:\n  name: str = field(default='org/m')\nc = Config()\n"
      "model = AutoModel.from_pretrained(c.name)\n",
      "CONFIG = {'path': 'org/m'}\nmodel = AutoModel.from_pretrained(CONFIG['path'])\n",
      "model = SentenceTransformer('org/m')\n",
      "MODEL_NAME = 'org/m'\ndef load(where):\n  return AutoModel.from_pretrained(where)\n",
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    CHECK(!read_text("train.py", texts[i]), "%s", error.message);
    CHECK(says("model=org/m"), "%s", texts[i]);
  }
  CHECK(!read_text("train.py", "a = AutoModel.from_pretrained('org/a')\n"
                               "b = AutoModel.from_pretrained('org/b')\n"),
        "%s", error.message);
  CHECK(says("model=unclear"), "two models");
  CHECK(!read_text("train.py", "MODEL_NAME = 'org/a'\na = AutoModel.from_pretrained(MODEL_NAME)\n"
                               "b = AutoModel.from_pretrained('org/b')\n"),
        "%s", error.message);
  CHECK(says("model=unclear"), "two models, one by its name");
  CHECK(strstr(project.knobs[PLIM_KNOB_MODEL].why, "org/a"), "%s",
        project.knobs[PLIM_KNOB_MODEL].why);
}

TEST(variables_of_one_function_are_knobs_and_of_two_are_refused) {
  CHECK(!read_text("train.py", "def main():\n  batch_size = 4\n  seq_len = 512\n"
                               "  train(batch_size)\nmain()\n"),
        "%s", error.message);
  CHECK(says("micro_batch=4"), "a variable");
  CHECK(changes("micro_batch", "2"), "a variable");
  CHECK(refuses("accumulate", "2", "accumulate"), "there is no place for another");
  CHECK(!read_text("train.py", "def train():\n  batch_size = 4\ndef tune():\n  batch_size = 4\n"),
        "%s", error.message);
  CHECK(refuses("micro_batch", "2", "train.batch_size or tune.batch_size"), "which of them");
  CHECK(!read_text("train.py", "def train():\n  batch_size = 4\ndef tune():\n  batch_size = 8\n"),
        "%s", error.message);
  CHECK(says("micro_batch=unclear"), "which of them");
  CHECK(refuses("micro_batch", "2", "tune.batch_size says 8"), "which of them");
  CHECK(!read_text("train.py", "BATCH_SIZE = 2\ndef tune():\n  batch_size = 8\n"), "%s",
        error.message);
  CHECK(says("micro_batch=2"), "the module's own comes first");
  CHECK(!read_text("train.py",
                   "def main():\n  n = 4\n  TrainingArguments(output_dir='o',\n"
                   "      per_device_train_batch_size=n, gradient_accumulation_steps=2)\n"),
        "%s", error.message);
  CHECK(says("micro_batch=4 accumulate=2"), "by its variable");
  plim_edit_set edits;
  CHECK(set("micro_batch", "1", &edits), "%s", error.message);
  CHECK(edits.at.len == 1 && strcmp(edits.at.at[0].edit.text, "1") == 0, "at its root");
  plim_edit_set_clear(&edits);
}

// ---- several GPUs -----------------------------------------------------------------------------------

static bool shares(const char *strategy, const char *offload, plim_edit_set *edits) {
  plim_knob_change both[] = {{PLIM_KNOB_STRATEGY, value_from(strategy)},
                             {PLIM_KNOB_OFFLOAD, value_from(offload ? offload : "none")}};
  error = (plim_error){0};
  bool ok = !plim_project_set(&project, both, offload ? 2 : 1, edits, &error);
  if (!ok) printf("%s: %s\n", strategy, error.message);
  return ok;
}

// A file is created and named, and the whole reads back as what was asked for.
static bool creates(const char *strategy, const char *offload, const char *path) {
  plim_edit_set edits;
  if (!shares(strategy, offload, &edits)) return false;
  bool ok = edits.files.len == 1 && edits.at.len == 1 &&
            strcmp(edits.files.at[0].path, path) == 0 &&
            strstr(edits.at.at[0].edit.text, path) != NULL;
  plim_settings s;
  ok = ok && !plim_settings_read(PLIM_FORMAT_JSON, edits.files.at[0].text,
                                 strlen(edits.files.at[0].text), &s, &error);
  if (ok) plim_settings_clear(&s);
  plim_edit_set_clear(&edits);
  return ok;
}

TEST(sharding_without_a_key_creates_a_file_that_the_trainer_names) {
  CHECK(!read_text("train.yaml", "per_device_train_batch_size: 4\nbf16: true\noutput_dir: out\n"
                                 "gradient_accumulation_steps: 2\n"),
        "%s", error.message);
  CHECK(creates("zero2", NULL, "ds_zero2.json"), "zero2");
  CHECK(creates("zero3", NULL, "ds_zero3.json"), "zero3");
  CHECK(creates("zero2", "optimizer", "ds_zero2_offload.json"), "offloaded");
  CHECK(creates("zero3", "parameters", "ds_zero3_offload.json"), "offloaded");
  CHECK(!read_text("train.py", "args = TrainingArguments(output_dir='o', bf16=True,\n"
                               "                         per_device_train_batch_size=4)\n"),
        "%s", error.message);
  CHECK(creates("zero3", NULL, "ds_zero3.json"), "a call");
  CHECK(!read_text("train.yaml", "per_device_train_batch_size: 4\nbf16: true\noutput_dir: out\n"
                                 "deepspeed: null\n"),
        "%s", error.message);
  CHECK(creates("zero3", NULL, "ds_zero3.json"), "a key that is empty");
}

TEST(accelerate_gets_its_type_and_its_block_together) {
  static const char file[] = "distributed_type: MULTI_GPU\nmixed_precision: bf16\n"
                             "num_machines: 1\nnum_processes: 8\ndowncast_bf16: 'no'";
  plim_edit_set edits;
  CHECK(!read_text("accelerate.yaml", file), "%s", error.message);
  static const char *const ways[][2] = {{"zero1", NULL},
                                        {"zero3", NULL},
                                        {"zero2", "optimizer"},
                                        {"fsdp2", NULL},
                                        {"fsdp2", "parameters"}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    CHECK(shares(ways[i][0], ways[i][1], &edits), "%s", ways[i][0]);
    CHECK(edits.at.len == 2 && !edits.files.len, "%zu edits", edits.at.len);
    plim_edit_set_clear(&edits);
  }
  CHECK(!read_text("accelerate.yaml", "distributed_type: 'NO'\nmixed_precision: bf16\n"
                                      "num_machines: 1\nnum_processes: 1\n"),
        "%s", error.message);
  CHECK(refuses("strategy", "zero3", "for one GPU"), "one GPU");
}

// ---- recognition ------------------------------------------------------------------------------------

TEST(a_file_that_could_be_of_two_ecosystems_is_not_guessed) {
  CHECK(!read_text("a.yaml", "train:\n  micro_batch_size: 2\n  global_batch_size: 8\n"), "%s",
        error.message);
  const plim_recognition *is = &project.files.at[0]->is;
  CHECK(is->dialect == PLIM_DIALECTS && is->rival != PLIM_DIALECTS, "%s", is->reason);
  CHECK(project.notes.len == 1 && strstr(project.notes.at[0], "could be"), "%s", is->reason);
  CHECK(!read_text("a.yaml", "colour: red\nsize: 3\n"), "%s", error.message);
  CHECK(project.files.at[0]->is.dialect == PLIM_DIALECTS, "nothing known");
}

static const struct {
  const char *path, *text;
  plim_dialect dialect;
  const char *says;
} small_files[] = {
    {"sft.yaml",
     "model_name_or_path: Qwen/Qwen2.5-0.5B\ndataset_name: trl-lib/Capybara\nuse_peft: true\n"
     "lora_r: 32\nmax_length: 2048\nper_device_train_batch_size: 2\n",
     PLIM_DIALECT_TRL,
     "micro_batch=2 lora_rank=32 sequence=2048 checkpoint=on precision=bf16 chunked_loss=256 "
     "accumulate=1 optimizer=adamw model=Qwen/Qwen2.5-0.5B dtype=fp32"},
    {"args.json",
     "{\"per_device_train_batch_size\": 4, \"gradient_checkpointing\": true,\n"
     " \"gradient_checkpointing_kwargs\": {\"use_reentrant\": true}, \"fp16\": true}\n",
     PLIM_DIALECT_HF, "micro_batch=4 checkpoint=reentrant precision=fp16 dtype=auto lora_rank=0"},
    {"qlora.yaml",
     "checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B\nprecision: bf16-true\n"
     "quantize: bnb.nf4\ndevices: 1\nlora_r: 32\nlora_query: true\nlora_key: false\n"
     "lora_value: true\ntrain:\n  global_batch_size: 8\n  micro_batch_size: 2\n"
     "  max_seq_length: 512\noptimizer:\n  class_path: torch.optim.AdamW\n",
     PLIM_DIALECT_LITGPT,
     "micro_batch=2 accumulate=4 global_batch=8 sequence=512 quantisation=nf4 lora_rank=32 "
     "lora_targets=q_proj,v_proj precision=none dtype=bf16 world=1 optimizer=adamw-foreach"},
    {"mpt.yaml",
     "max_seq_len: 2048\nglobal_train_batch_size: 256\ndevice_train_microbatch_size: 8\n"
     "precision: amp_bf16\nfsdp_config:\n  activation_checkpointing: true\n"
     "  activation_checkpointing_reentrant: false\n",
     PLIM_DIALECT_LLM_FOUNDRY,
     "micro_batch=8 global_batch=256 sequence=2048 precision=bf16 checkpoint=on "
     "accumulate=unknown"},
    {"llama3_8b.toml",
     "[training]\nlocal_batch_size = 1\nseq_len = 8192\n\n[parallelism]\n"
     "tensor_parallel_degree = 1\n\n[activation_checkpoint]\nmode = \"full\"\n\n[optimizer]\n"
     "name = \"AdamW\"\n",
     PLIM_DIALECT_TORCHTITAN,
     "micro_batch=1 sequence=8192 checkpoint=on optimizer=adamw precision=bf16 dtype=fp32"},
    {"train_gpt2.py",
     "# config\nbatch_size = 12\nblock_size = 1024\ngradient_accumulation_steps = 5 * 8\n"
     "max_iters = 600000\nn_layer = 12\ndtype = 'bfloat16'\n",
     PLIM_DIALECT_NANOGPT,
     "micro_batch=12 sequence=1024 accumulate=40 precision=bf16 dtype=fp32 compile=on"},
    {"finetune.py",
     "from unsloth import FastLanguageModel\nmax_seq_length = 2048\n"
     "model, tokenizer = FastLanguageModel.from_pretrained(\n"
     "    model_name = \"unsloth/Qwen3-8B\", max_seq_length = max_seq_length,\n"
     "    load_in_4bit = True)\nmodel = FastLanguageModel.get_peft_model(model, r = 16,\n"
     "    target_modules = [\"q_proj\", \"v_proj\"], use_gradient_checkpointing = \"unsloth\")\n"
     "args = SFTConfig(per_device_train_batch_size = 2, optim = \"adamw_8bit\")\n",
     PLIM_DIALECT_UNSLOTH,
     "micro_batch=2 sequence=2048 quantisation=nf4-double lora_rank=16 checkpoint=offloaded "
     "lora_targets=q_proj,v_proj optimizer=adamw-8bit model=unsloth/Qwen3-8B"},
    {"st.py",
     "args = SentenceTransformerTrainingArguments(output_dir=\"x\",\n"
     "    per_device_train_batch_size=64, bf16=True)\nmodel.max_seq_length = 256\n",
     PLIM_DIALECT_SENTENCE, "micro_batch=64 precision=bf16 sequence=256 loss_kind=contrastive"},
    {"pretrain.sh",
     "#!/bin/bash\nGPUS_PER_NODE=8\nTRAINING=(\n  --micro-batch-size 2\n"
     "  --global-batch-size 128\n  --seq-length 4096\n  --bf16\n"
     "  --recompute-granularity full\n  --tensor-model-parallel-size 2\n"
     "  --use-distributed-optimizer\n)\ntorchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py "
     "${TRAINING[@]}\n",
     PLIM_DIALECT_MEGATRON,
     "micro_batch=2 global_batch=128 sequence=4096 precision=bf16 checkpoint=on tensor_parallel=2 "
     "strategy=zero1 world=16 accumulate=8"},
    {"trainer.yaml",
     "trainer:\n  accumulate_grad_batches: 4\n  precision: bf16-mixed\n  devices: 2\n"
     "  strategy: deepspeed_stage_3_offload\n  max_epochs: 3\nmodel:\n  class_path: my.Model\n"
     "data:\n  class_path: my.Data\n  init_args:\n    batch_size: 16\n",
     PLIM_DIALECT_LIGHTNING,
     "micro_batch=16 accumulate=4 precision=bf16 dtype=fp32 world=2 strategy=zero3 "
     "offload=parameters epochs=3"},
    {"finetune.sh",
     "#!/bin/bash\nNUM_GPUS=4\nBATCH_SIZE_PER_GPU=1\nTOTAL_BATCH_SIZE=128\n"
     "GRADIENT_ACC_STEPS=$(($TOTAL_BATCH_SIZE/$NUM_GPUS/$BATCH_SIZE_PER_GPU))\n"
     "accelerate launch --mixed_precision bf16 --num_processes $NUM_GPUS finetune.py \\\n"
     "  --per_device_train_batch_size $BATCH_SIZE_PER_GPU \\\n"
     "  --gradient_accumulation_steps $GRADIENT_ACC_STEPS \\\n"
     "  --gradient_checkpointing --max_seq_length 4096 --lora_rank 64\n",
     PLIM_DIALECT_HF,
     "micro_batch=1 accumulate=32 global_batch=128 world=4 precision=bf16 checkpoint=on "
     "sequence=4096 lora_rank=64"},
    {"trainer/default.yaml",
     "accumulate_grad_batches: 4\nprecision: bf16-mixed\nstrategy: ddp\ngradient_clip_val: 1.0\n",
     PLIM_DIALECT_LIGHTNING, "accumulate=4 precision=bf16 dtype=fp32 strategy=ddp clip=1"},
    {"launch.sh",
     "deepspeed --num_gpus 8 train.py --per_device_train_batch_size 8 --model_max_length 2048 "
     "--gradient_accumulation_steps 1 --bf16 True\n",
     PLIM_DIALECT_HF, "micro_batch=8 sequence=2048 precision=bf16 world=8"},
    {"home.yaml", "batch_size: 4\nmax_len: 128\nlora: {r: 4}\n", PLIM_DIALECT_HOME,
     "micro_batch=4 sequence=128 lora_rank=4 accumulate=unknown"},
};

TEST(other_ecosystems_are_recognised_and_read) {
  for (size_t i = 0; i < sizeof small_files / sizeof *small_files; i++) {
    bool ok = !read_text(small_files[i].path, small_files[i].text);
    const plim_recognition *is = ok ? &project.files.at[0]->is : NULL;
    if (!ok) printf("%s\n", error.message);
    if (ok && is->dialect != small_files[i].dialect) printf("%s\n", is->reason);
    ok = ok && is->dialect == small_files[i].dialect && says(small_files[i].says);
    test_count(small_files[i].path, ok);
  }
}

TEST(of_one_key_the_last_is_in_force) {
  CHECK(!read_text("c.yaml", "per_device_train_batch_size: 8\nper_device_train_batch_size: 4\n"),
        "%s", error.message);
  CHECK(says("micro_batch=4") && changes("micro_batch", "2"), "as PyYAML does");
}

TEST(a_comment_about_another_key_forbids_nothing) {
  CHECK(
      !read_text("c.yaml", "per_device_train_batch_size: 8 # lora_r must be 64 then\nlora_r: 64\n"),
      "%s", error.message);
  CHECK(changes("micro_batch", "2"), "its own key may change");
  CHECK(refuses("lora_rank", "8", "must be 64"), "the one that is meant may not");
}

TEST(a_default_behind_a_root_is_not_in_force) {
  CHECK(!read_text("t.py", "C = {'n': 8}\n"
                           "TrainingArguments(per_device_train_batch_size=C.get('n', 3))\n"),
        "%s", error.message);
  CHECK(says("micro_batch=8"), "the dict has it");
}

TEST(gpus_that_share_a_batch_are_one) {
#define MEGATRON(more)                                                                             \
  "torchrun --nproc_per_node 8 pretrain_gpt.py --micro-batch-size 2 --global-batch-size 64 "       \
  "--seq-length 64 --tensor-model-parallel-size " more "\n"
  CHECK(!read_text("a.sh", MEGATRON("2")) && says("accumulate=8"), "tensor parallel");
  CHECK(!read_text("a.sh", MEGATRON("1 --context-parallel-size 2")) && says("accumulate=8"),
        "context parallel");
  CHECK(!read_text("a.sh", MEGATRON("2 --context-parallel-size 2")) && says("accumulate=16"),
        "both");
  CHECK(!read_text("a.sh", MEGATRON("3")) && says("accumulate=unknown"), "8 GPUs in threes");
}

static bool comment_forbids(const char *comment) {
  char text[256];
  snprintf(text, sizeof text, "batch_size: 8  # %s\nmax_len: 128\n", comment);
  bool is_read = !read_text("c.yaml", text);
  bool is_fixed = is_read && project.knobs[PLIM_KNOB_MICRO_BATCH].is_fixed;
  if (is_fixed) return refuses("micro_batch", "4", "a comment forbids it");
  return false;
}

TEST(comments_forbid_in_many_words) {
  static const char *const bans[] = {"must be 8",
                                     "DO NOT TOUCH",
                                     "do not change! the loader depends on it",
                                     "keep at 8",
                                     "Keep this: sampler",
                                     "leave as is",
                                     "fixed by the paper",
                                     "never change",
                                     "don't modify",
                                     "should not be changed",
                                     "has to be 8",
                                     "only works with 8"};
  static const char *const remarks[] = {"keeps global_batch_size at 256",
                                        "lora_r must be 8",
                                        "fixed a bug here",
                                        "change if it does not fit",
                                        "twice what it was",
                                        "do what you want. Not to be forgotten",
                                        "needs to be tuned",
                                        ""};
  for (size_t i = 0; i < sizeof bans / sizeof *bans; i++)
    CHECK(comment_forbids(bans[i]), "%s", bans[i]);
  for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
    CHECK(!comment_forbids(remarks[i]), "%s", remarks[i]);
}

TEST(two_values_for_one_knob_are_unclear) {
  CHECK(!read_text("c.yaml", "a:\n  batch_size: 8\nb:\n  batch_size: 16\n"), "%s", error.message);
  CHECK(says("micro_batch=unclear"), "not guessed");
  CHECK(refuses("micro_batch", "4", "a.batch_size says 8, b.batch_size says 16"), "both are named");
  CHECK(strstr(error.hint, "--set micro_batch=FILE:KEY"), "%s", error.hint);
  CHECK(!read_text("c.yaml", "train:\n  batch_size: 8\neval:\n  batch_size: 16\n"), "%s",
        error.message);
  CHECK(says("micro_batch=8"), "evaluation's is another");
}

TEST(computed_values_lead_to_their_root) {
  CHECK(!read_text("t.py", "BATCH = 4\nSTEPS = 64 // BATCH\nargs = TrainingArguments(\n"
                           "    per_device_train_batch_size=BATCH,\n"
                           "    gradient_accumulation_steps=STEPS)\n"),
        "%s", error.message);
  CHECK(says("micro_batch=4 accumulate=16"), "values");
  CHECK(strcmp(project.knobs[PLIM_KNOB_MICRO_BATCH].places[0].setting->key, "BATCH") == 0,
        "the root");
  CHECK(refuses("micro_batch", "2", "accumulate is computed, and would become 32"), "alone");
  CHECK(refuses("accumulate", "8", "computed"), "a computed value");
  plim_knob_change both[] = {{PLIM_KNOB_MICRO_BATCH, value_from("2")},
                             {PLIM_KNOB_ACCUMULATE, value_from("32")}};
  plim_edit_set edits;
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  CHECK(edits.at.len == 1, "the root alone is edited");
  plim_edit_set_clear(&edits);
}

// ---- the way it is written --------------------------------------------------------------------------

static const struct {
  const char *path, *text, *knob, *to, *written;
} quoted[] = {
    {"a.yaml", "per_device_train_batch_size: \"8\"\n", "micro_batch", "3",
     "per_device_train_batch_size: \"3\"\n"},
    {"b.py", "TrainingArguments(per_device_train_batch_size='8')\n", "micro_batch", "3",
     "TrainingArguments(per_device_train_batch_size='3')\n"},
    {"c.sh", "python t.py --per_device_train_batch_size '8'\n", "micro_batch", "3",
     "python t.py --per_device_train_batch_size '3'\n"},
    {"d.yaml", "per_device_train_batch_size: 8\ntorch_compile: 'False'\n", "compile", "on",
     "per_device_train_batch_size: 8\ntorch_compile: 'True'\n"},
    {"e.yaml", "per_device_train_batch_size: 8 # how many\n", "micro_batch", "3",
     "per_device_train_batch_size: 3 # how many\n"},
};

static bool is_written(const char *knob, const char *to, const char *written) {
  plim_edit_set edits;
  char *text = NULL;
  size_t size;
  if (!set(knob, to, &edits)) return printf("%s\n", error.message), false;
  bool ok =
      !plim_project_text(&project, 0, &edits, &text, &size, &error) && strcmp(text, written) == 0;
  if (!ok) printf("%s\n", text ? text : error.message);
  free(text);
  plim_edit_set_clear(&edits);
  return ok;
}

TEST(quotes_are_the_users) {
  for (size_t i = 0; i < sizeof quoted / sizeof *quoted; i++) {
    bool ok = !read_text(quoted[i].path, quoted[i].text) &&
              is_written(quoted[i].knob, quoted[i].to, quoted[i].written);
    test_count(quoted[i].path, ok);
  }
}

TEST(a_new_key_goes_to_one_of_several_sections_only_by_hand) {
  CHECK(!read_text("c.yaml", "stage1:\n  per_device_train_batch_size: 8\nstage2:\n"
                             "  per_device_train_batch_size: 8\n"),
        "%s", error.message);
  CHECK(refuses("empty_cache", "4", "beside stage1.per_device_train_batch_size or stage2."),
        "YAML");
  CHECK(!read_text("c.py", "a = TrainingArguments(per_device_train_batch_size=8)\n"
                           "b = TrainingArguments(per_device_train_batch_size=8)\n"),
        "%s", error.message);
  CHECK(changes("empty_cache", "4"), "trainings that say the same");
  CHECK(!read_text("c.yaml", "stage1:\n  per_device_train_batch_size: 8\nstage2:\n  seed: 1\n"),
        "%s", error.message);
  CHECK(changes("empty_cache", "4"), "one place");
}

TEST(refusals_name_what_stands_in_the_way) {
  CHECK(!read_text("c.yaml", "a:\n  per_device_train_batch_size: 8\nb:\n"
                             "  per_device_train_batch_size: 8\n"),
        "%s", error.message);
  CHECK(changes("micro_batch", "2"), "two that agree change together");
  CHECK(!read_text("c.yaml", "a:\n  per_device_train_batch_size: 8\nb:\n"
                             "  per_device_train_batch_size: 4\n"),
        "%s", error.message);
  CHECK(refuses("micro_batch", "2", "a.per_device_train_batch_size says 8, b.per_device"),
        "two that do not agree");
  CHECK(!read_text("c.py", "N = 8\nTrainingArguments(per_device_train_batch_size=N,\n"
                           "    dataloader_num_workers=N)\n"),
        "%s", error.message);
  CHECK(refuses("micro_batch", "2", "workers would become 2 with it"), "another knob");
}

// ---- command lines that could mean several things -------------------------------------------------------

#define MICRO "--per_device_train_batch_size "

static const struct {
  const char *name, *text, *says, *refusal; // refusal: of a micro batch of 2; NULL: it is written
} scripts[] = {
    {"two trainings that differ", "python train.py " MICRO "8\npython train.py " MICRO "4\n",
     "micro_batch=unclear", "says 8"},
    {"two that are the same", "python train.py " MICRO "8\npython train.py " MICRO "8\n",
     "micro_batch=8", "says 2"},
    {"two by one variable",
     "N=8\npython train.py " MICRO "$N --seed 1\npython train.py " MICRO "$N --seed 2\n",
     "micro_batch=8", NULL},
    {"words that differ",
     "python train.py " MICRO "8 --attn_implementation sdpa\n"
     "python train.py " MICRO "8 --attn_implementation eager\n",
     "micro_batch=8 attention=unclear", "says 2"},
    {"a branch each",
     "if [ $A ]; then python train.py " MICRO "8\nelse python train.py " MICRO "4\nfi\n",
     "micro_batch=unclear", "says 8"},
    {"an append under a condition",
     "ARGS=(" MICRO "8)\nif [ $A ]; then ARGS+=(" MICRO "2); fi\npython train.py \"${ARGS[@]}\"\n",
     "micro_batch=unclear", "if a condition holds"},
    {"an append behind &&",
     "ARGS=\"" MICRO "8\"\n[ $A ] && ARGS+=\" " MICRO "2\"\npython train.py $ARGS\n",
     "micro_batch=unclear", "if a condition holds"},
    {"a list for each case",
     "case $A in a) ARGS=(" MICRO "8);; *) ARGS=(" MICRO "4);; esac\npython train.py ${ARGS[@]}\n",
     "micro_batch=unclear", "if a condition holds"},
    {"a training behind &&", "cd x && python train.py " MICRO "8\n", "micro_batch=8", NULL},
    {"a training in a branch", "if [ -d x ]; then python train.py " MICRO "8; fi\n",
     "micro_batch=8", NULL},
    {"in a function", "run() {\n  ARGS+=(" MICRO "8)\n  python train.py \"${ARGS[@]}\"\n}\nrun\n",
     "micro_batch=8", NULL},
    {"what the command gets later", "ARGS=\"" MICRO "8\"\npython train.py " MICRO "4 $ARGS\n",
     "micro_batch=8", NULL},
    {"two spellings", "python train.py " MICRO "8 --per-device-train-batch-size=16\n",
     "micro_batch=16", NULL},
    {"other programs",
     "python prepare_data.py " MICRO "64\npython train.py " MICRO "8\npython -m x.eval " MICRO
     "1\n",
     "micro_batch=8", NULL},
    {"another program by the same variable",
     "N=8\npython train.py " MICRO "$N\npython eval.py " MICRO "$N\n", "micro_batch=8",
     "#2 (line 3)"},
    {"a sourced script before a default", "source vars.sh\npython train.py " MICRO "${N:-8}\n",
     "micro_batch=unclear", "computed"},
    {"the same with :=", ". ./vars.sh\n: ${N:=8}\npython train.py " MICRO "$N\n",
     "micro_batch=unclear", "computed"},
    {"a sourced script behind a value", "N=8\nsource vars.sh\npython train.py " MICRO "$N\n",
     "micro_batch=unclear", "computed"},
    {"a value behind a sourced script", "source vars.sh\nN=8\npython train.py " MICRO "$N\n",
     "micro_batch=8", NULL},
    {"an environment", "source venv/bin/activate\npython train.py " MICRO "${N:-8}\n",
     "micro_batch=8", NULL},
};

TEST(scripts_that_could_mean_several_things_are_not_guessed) {
  for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
    bool ok = !read_text("run.sh", scripts[i].text) && says(scripts[i].says);
    const char *refusal = scripts[i].refusal;
    ok = ok && (refusal ? refuses("micro_batch", "2", refusal) : changes("micro_batch", "2"));
    test_count(scripts[i].name, ok);
  }
}

// ---- Python that says a thing more than once --------------------------------------------------------------

#define ARGS(value) "a = TrainingArguments(per_device_train_batch_size=" value ")\n"

static const struct {
  const char *name, *text, *says;
} orders[] = {
    {"assigned again behind the use", "N = 8\n" ARGS("N") "N = 16\n", "micro_batch=unclear"},
    {"the same under a usual name", "batch_size = 8\n" ARGS("batch_size") "batch_size = 16\n",
     "micro_batch=unclear"},
    {"assigned again before the use", "N = 8\nN = 16\n" ARGS("N"), "micro_batch=16"},
    {"a copy of what is assigned again", "A = 8\nB = A\nA = 2\n" ARGS("B"), "micro_batch=unclear"},
    {"assigned below a function", "def main():\n    " ARGS("N") "\nN = 8\nmain()\n",
     "micro_batch=8"},
    {"assigned twice below a function", "def main():\n    " ARGS("N") "\nN = 8\nmain()\nN = 4\n",
     "micro_batch=unclear"},
    {"used by position in between", "batch_size = 8\nload(data, batch_size)\nbatch_size = 16\n",
     "micro_batch=unclear"},
    {"a dict assigned again behind the use", "C = {'n': 8}\n" ARGS("C['n']") "C = {'n': 4}\n",
     "micro_batch=unclear"},
    {"an entry assigned behind the use", "C = {'n': 8}\n" ARGS("C['n']") "C['n'] = 4\n",
     "micro_batch=unclear"},
    {"an entry assigned before the use", "C = {'n': 8}\nC['n'] = 4\n" ARGS("C['n']"),
     "micro_batch=4"},
    {"update", "C = {'n': 8}\nC.update(n=4)\n" ARGS("C['n']"), "micro_batch=unclear"},
    {"update of a part", "C = {'t': {'n': 8}}\nC['t'].update(o)\n" ARGS("C['t']['n']"),
     "micro_batch=unclear"},
    {"update under a usual name", "C = {'batch_size': 8}\nC.update(batch_size=4)\n",
     "micro_batch=unclear"},
    {"|=", "C = {'n': 8}\nC |= other\n" ARGS("C['n']"), "micro_batch=unclear"},
    {"a progress bar", "N = 8\nbar.update(1)\n" ARGS("N"), "micro_batch=8"},
    {"vars",
     "p.add_argument('--n', default=8)\nargs = p.parse_args()\nvars(args).update(o)\n" ARGS(
         "args.n"),
     "micro_batch=unclear"},
    {"setattr",
     "p.add_argument('--n', default=8)\nargs = p.parse_args()\nsetattr(args, 'n', 4)\n" ARGS(
         "args.n"),
     "micro_batch=unclear"},
    {"unpacked", "B = {'per_device_train_batch_size': 8}\na = TrainingArguments(**B)\n",
     "micro_batch=8"},
    {"merged",
     "B = {'per_device_train_batch_size': 8}\n"
     "a = TrainingArguments(**{**B, 'per_device_train_batch_size': 4})\n",
     "micro_batch=unclear"},
    {"merged by dict",
     "B = {'per_device_train_batch_size': 8}\n"
     "a = TrainingArguments(**dict(B, per_device_train_batch_size=4))\n",
     "micro_batch=unclear"},
    {"merged by |",
     "B = {'per_device_train_batch_size': 8}\n"
     "a = TrainingArguments(**(B | {'per_device_train_batch_size': 4}))\n",
     "micro_batch=unclear"},
    {"merged with what is not known",
     "B = {'per_device_train_batch_size': 8}\n"
     "a = TrainingArguments(**{**B, **other})\n",
     "micro_batch=unclear"},
    {"written in place", "a = TrainingArguments(**{'per_device_train_batch_size': 4})\n",
     "micro_batch=4"},
};

TEST(python_that_says_a_thing_twice_is_read_in_its_order) {
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    test_count(orders[i].name, !read_text("t.py", orders[i].text) && says(orders[i].says));
}

TEST(only_the_image_that_is_built_counts) {
  CHECK(!read_text("Dockerfile",
                   "FROM y AS a\nENV N=64\nCMD python train.py " MICRO "1\nFROM y\n"
                   "CMD python train.py " MICRO "8\nCMD python train.py " MICRO "4\n"),
        "%s", error.message);
  CHECK(says("micro_batch=4") && changes("micro_batch", "2"), "the last CMD of the last stage");
  CHECK(!read_text("Dockerfile", "FROM y AS a\nENV N=64\nFROM y\n"
                                 "CMD python train.py " MICRO "$N\n"),
        "%s", error.message);
  CHECK(says("micro_batch=unclear"), "a variable of another stage");
}

// ---- what else would move ---------------------------------------------------------------------------

static const struct {
  const char *path, *text, *moves; // moves: what would change with the micro batch; NULL: nothing
} shared_roots[] = {
    {"a.sh",
     "N=8\npython train.py --per_device_train_batch_size $N --save_total_limit $N "
     "--learning_rate 1e-$N\n",
     "--save_total_limit (line 2), --learning_rate (line 2)"},
    {"b.sh", "N=8\nM=${N}\npython train.py --per_device_train_batch_size $N --save_steps $M\n",
     "--save_steps (line 3)"},
    {"c.sh", "N=8\nexport KEPT=$((N * 2))\npython train.py --per_device_train_batch_size $N\n",
     "$KEPT (line 2)"},
    {"d.sh",
     "N=8\nACC=$((64 / N))\npython train.py --per_device_train_batch_size $N "
     "--gradient_accumulation_steps $ACC --run_name out-N\n",
     "accumulate is computed, and would become 32"},
    {"e.py", "N = 8\nargs = TrainingArguments(per_device_train_batch_size=N, save_total_limit=N)\n",
     "TrainingArguments.save_total_limit"},
    {"f.py",
     "N = 8\nRATE = 1e-5 * N\nargs = TrainingArguments(per_device_train_batch_size=N,\n"
     "                         learning_rate=RATE)\n",
     "TrainingArguments.learning_rate (line 4)"},
    {"g.py",
     "C = {'size': 8}\nargs = TrainingArguments(per_device_train_batch_size=C['size'],\n"
     "    per_device_eval_batch_size=C['size'])\n",
     "TrainingArguments.per_device_eval_batch_size (line 3)"},
    {"h.py",
     "N = 8\nargs = TrainingArguments(per_device_train_batch_size=N, seed=1)\n"
     "trainer = Trainer(model=model, args=args)\n",
     NULL},
    {"i.yaml", "bs: &bs 8\nper_device_train_batch_size: *bs\nper_device_eval_batch_size: *bs\n",
     "per_device_eval_batch_size (line 3)"},
    {"j.yaml", "per_device_eval_batch_size: &bs 8\nper_device_train_batch_size: *bs\n",
     "per_device_eval_batch_size (line 1)"},
    {"k.yaml", "bs: 8\nper_device_train_batch_size: ${bs}\nper_device_eval_batch_size: ${bs}\n",
     "per_device_eval_batch_size"},
    {"l.yaml", "bs: 8\nper_device_train_batch_size: ${bs}\noutput_dir: out/${bs}\n", "output_dir"},
    {"m.yaml", "bs: &bs 8\nper_device_train_batch_size: *bs\noutput_dir: bs\n", NULL},
};

TEST(what_is_computed_and_stays_does_not_move) {
  CHECK(!read_text("t.py", "N = 8\nM = 2\nTOTAL = N * M\n"
                           "a = TrainingArguments(per_device_train_batch_size=N,\n"
                           "    gradient_accumulation_steps=M, save_steps=TOTAL)\n"),
        "%s", error.message);
  plim_knob_change both[] = {{PLIM_KNOB_MICRO_BATCH, value_from("4")},
                             {PLIM_KNOB_ACCUMULATE, value_from("4")}};
  plim_edit_set edits;
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  plim_edit_set_clear(&edits);
  CHECK(refuses("micro_batch", "4", "TrainingArguments.save_steps"), "alone, the product moves");
}

TEST(a_root_that_decides_more_is_left_alone) {
  for (size_t i = 0; i < sizeof shared_roots / sizeof *shared_roots; i++) {
    bool ok = !read_text(shared_roots[i].path, shared_roots[i].text) && says("micro_batch=8");
    const char *moves = shared_roots[i].moves;
    ok = ok && (moves ? refuses("micro_batch", "2", moves) : changes("micro_batch", "2"));
    test_count(shared_roots[i].path, ok);
  }
}

static plim_err read_two(const char *path, const char *text, const char *second, const char *more) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = plim_project_add(&project, path, text, strlen(text), &error);
  if (!err) err = plim_project_add(&project, second, more, strlen(more), &error);
  return err ? err : plim_project_finish(&project, &error);
}

TEST(a_root_that_decides_more_in_another_file_is_left_alone) {
  const char *uses = "from config import BATCH_SIZE\n"
                     "a = TrainingArguments(per_device_train_batch_size=BATCH_SIZE,\n"
                     "    save_steps=BATCH_SIZE)\n";
  CHECK(!read_two("config.py", "BATCH_SIZE = 8\n", "train.py", uses), "%s", error.message);
  CHECK(says("micro_batch=8"), "the constant of the other file");
  CHECK(refuses("micro_batch", "2", "TrainingArguments.save_steps (line 3)"), "imported");
  CHECK(strcmp(error.file, "train.py") == 0 && strstr(error.hint, "BATCH_SIZE"), "%s", error.hint);
  const char *script = "p.add_argument('--batch-size', type=int, default=4)\n"
                       "args = p.parse_args()\n"
                       "a = TrainingArguments(per_device_train_batch_size=args.batch_size,\n"
                       "    save_steps=args.batch_size)\n";
  CHECK(!read_two("run.sh", "python train.py --batch-size 8\n", "train.py", script), "%s",
        error.message);
  CHECK(says("micro_batch=8"), "the command's");
  CHECK(refuses("micro_batch", "2", "TrainingArguments.save_steps (line 4)"), "an argument");
  CHECK(!read_two("run.sh", "python train.py --batch-size 8\npython train.py --batch-size 2\n",
                  "train.py", script),
        "%s", error.message);
  CHECK(says("micro_batch=unclear"), "two commands");
  CHECK(!read_two("run.sh", "python train.py --batch-size 8\npython eval.py --batch-size 2\n",
                  "train.py", script),
        "%s", error.message);
  CHECK(says("micro_batch=8"), "another program");
}

// ---- several files ----------------------------------------------------------------------------------

static const char hf_yaml[] =
    "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: true\n";
static const char numbers_json[] =
    "{\n  \"train_batch_size\": 16,\n  \"train_micro_batch_size_per_gpu\": 4,\n"
    "  \"gradient_accumulation_steps\": 2,\n  \"bf16\": {\"enabled\": true},\n"
    "  \"zero_optimization\": {\"stage\": 2}\n}\n";

static plim_err read_pair(const char *yaml, const char *json, const char *shell) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = plim_project_add(&project, "train.yaml", yaml, strlen(yaml), &error);
  if (!err) err = plim_project_add(&project, "ds.json", json, strlen(json), &error);
  if (!err && shell) err = plim_project_add(&project, "run.sh", shell, strlen(shell), &error);
  return err ? err : plim_project_finish(&project, &error);
}

TEST(places_that_must_agree_are_changed_together) {
  CHECK(!read_pair(hf_yaml, numbers_json, NULL), "%s", error.message);
  CHECK(says("micro_batch=4 accumulate=2 global_batch=16 strategy=zero2 precision=bf16"), "values");
  CHECK(!project.notes.len, "%s", project.notes.at[0]);
  plim_edit_set edits;
  CHECK(says("world=2"), "two GPUs, as 16 is 4 x 2 on each");
  CHECK(refuses("micro_batch", "2", "multiply out"), "16 would be 2 x 2 on four");
  plim_knob_change both[] = {
      {PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 2}},
      {PLIM_KNOB_ACCUMULATE, {.kind = PLIM_VALUE_INTEGER, .integer = 4}},
  };
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  CHECK(edits.at.len == 4 && edits.at.at[0].file != edits.at.at[1].file, "%zu edits", edits.at.len);
  plim_edit_set_clear(&edits);
}

// ---- machines and GPUs ------------------------------------------------------------------------------

static const struct {
  const char *file, *text, *says;
} worlds[] = {
    {"run.sh", "torchrun --nnodes 2 --nproc_per_node 4 t.py --per_device_train_batch_size 1\n",
     "world=8 nodes=2"},
    {"run.sh",
     "NNODES=2\ntorchrun --nnodes $NNODES --nproc_per_node 4 t.py --per_device_train_batch_size "
     "1\n",
     "world=8 nodes=2"},
    {"run.sh",
     "torchrun --nnodes $SLURM_NNODES --nproc_per_node 4 t.py --per_device_train_batch_size 1\n",
     "world=unclear nodes=unclear"},
    {"run.sh", "torchrun --nnodes 1:4 --nproc_per_node 4 t.py --per_device_train_batch_size 1\n",
     "world=unclear nodes=unclear"},
    {"run.sh", "deepspeed --num_gpus 4 --num_nodes 2 t.py --per_device_train_batch_size 1\n",
     "world=8 nodes=2"},
    {"run.sh",
     "accelerate launch --num_machines 2 --num_processes 8 t.py --per_device_train_batch_size 1\n",
     "world=8 nodes=2"},
    {"run.sh", "CUDA_VISIBLE_DEVICES=0,1 python t.py --per_device_train_batch_size 1\n",
     "world=2 nodes=unknown"},
    {"t.yaml", "trainer:\n  accumulate_grad_batches: 4\n  devices: 4\n  num_nodes: 2\n",
     "world=8 nodes=2"},
    {"t.yaml", "trainer:\n  accumulate_grad_batches: 4\n  devices: -1\n", "world=unclear"},
    {"t.yaml", "base_model: m\nmicro_batch_size: 1\ndp_shard_size: 4\nsequence_len: 8\n",
     "world=4"},
};

TEST(gpus_are_those_of_all_machines) {
  for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++) {
    bool ok = !read_text(worlds[i].file, worlds[i].text) && says(worlds[i].says);
    if (!ok) printf("%s%s\n", worlds[i].text, error.message);
    test_count(worlds[i].says, ok);
  }
}

TEST(a_global_batch_takes_so_many_gpus) {
  static const char json[] = "{\"train_batch_size\": 24, \"zero_optimization\": {\"stage\": 2}}\n";
  static const char odd[] = "{\"train_batch_size\": 20, \"zero_optimization\": {\"stage\": 2}}\n";
  CHECK(!read_pair(hf_yaml, json, NULL) && says("world=3"), "24 is 4 x 2 on three");
  CHECK(!read_pair(hf_yaml, odd, NULL) && says("world=unclear"), "20 is no multiple of 8");
  CHECK(!read_pair(hf_yaml, json, "torchrun --nproc_per_node 2 t.py\n") && says("world=2"),
        "what starts it is sure");
}

// ---- what is not modelled ---------------------------------------------------------------------------

#define SFT "model = AutoModelForCausalLM.from_pretrained('m')\n"
#define CALL "(per_device_train_batch_size=4)\n"

static const struct {
  const char *file, *text, *reason; // NULL: it is modelled
} kinds[] = {
    {"t.py", "from trl import DPOTrainer\n" SFT "args = DPOConfig" CALL,
     "(DPOConfig): both answers"},
    {"t.py", SFT "class Mine(GRPOTrainer):\n  pass\nargs = TrainingArguments" CALL,
     "(GRPOTrainer): answers are generated"},
    {"t.py", "from trl import DPOTrainer, SFTConfig\n" SFT "args = SFTConfig" CALL, NULL},
    {"t.py", "# DPOTrainer(x)\n" SFT "args = TrainingArguments" CALL, NULL},
    {"t.py",
     "m = AutoModelForSequenceClassification.from_pretrained('m')\nargs = TrainingArguments" CALL,
     "AutoModelForSequenceClassification is not modelled"},
    {"t.py",
     "from transformers import AutoModelForTokenClassification\n" SFT
     "args = TrainingArguments" CALL,
     NULL},
    {"t.yaml", "stage: kto\nfinetuning_type: lora\ncutoff_len: 8\n", "(stage kto): both answers"},
    {"t.yaml", "stage: sft\nfinetuning_type: lora\ncutoff_len: 8\n", NULL},
    {"t.yaml", "base_model: m\nrl: grpo\nsequence_len: 8\n", "(rl grpo): answers are generated"},
    {"t.yaml", "base_model: m\nrl:\nsequence_len: 8\n", NULL},
    {"t.yaml", "base_model: m\nreward_model: true\nsequence_len: 8\n", "(reward_model true)"},
    {"t.sh", "trl dpo --use_peft --per_device_train_batch_size 1\n", "(dpo): both answers"},
    {"t.sh", "accelerate launch -m trl.scripts.dpo --per_device_train_batch_size 1\n",
     "(trl.scripts.dpo): both answers"},
    {"t.sh", "python x/run_orpo.py --per_device_train_batch_size 1\n",
     "(x/run_orpo.py): both answers"},
    {"t.sh", "# as trl dpo\npython dpo/sft.py --per_device_train_batch_size 1\n", NULL},
    {"t.yaml", "base_model: m\nsequence_len: 8\ntensor_parallel_size: 2\n", "tensor parallel"},
    {"t.yaml", "base_model: m\nsequence_len: 8\ncontext_parallel_size: 2\n", "context parallel"},
    {"t.yaml", "base_model: m\nsequence_len: 8\ndp_replicate_size: 2\n", "sharding within groups"},
    {"t.sh",
     "torchrun p.py --micro-batch-size 1 --global-batch-size 8 --pipeline-model-parallel-size 2\n",
     "a pipeline"},
};

TEST(what_is_not_modelled_is_refused_with_what_it_is) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const char *reason = kinds[i].reason;
    bool ok = !read_text(kinds[i].file, kinds[i].text);
    bool is_refused = plim_project_refuse_unmodelled(&project, &error) != PLIM_OK;
    ok = ok && is_refused == (reason != NULL) && (!reason || strstr(error.message, reason));
    if (!ok) printf("%s: %s\n", kinds[i].text, error.message);
    test_count(reason ? reason : "modelled", ok);
  }
}

TEST(frozen_parameters_are_noticed) {
  static const char *const freezing[] = {"for p in m.parameters(): p.requires_grad = False\n",
                                         "m.encoder.requires_grad_(False)\n"};
  for (size_t i = 0; i < 2; i++) {
    CHECK(!read_text("t.py", freezing[i]) && plim_project_freezes(&project), "%s", freezing[i]);
  }
  CHECK(!read_text("t.py", "x = torch.zeros(1, requires_grad=False)\n") &&
            !plim_project_freezes(&project),
        "a tensor");
  CHECK(!read_text("t.yaml", "stage: sft\nfinetuning_type: freeze\ncutoff_len: 8\n") &&
            plim_project_freezes(&project),
        "LLaMA-Factory's");
  CHECK(!read_text("t.py", "p.requires_grad = False\nm = get_peft_model(m, LoraConfig(r=8))\n") &&
            !plim_project_freezes(&project),
        "adapters");
}

// Every file that says it, and never both types at once.
static const char accelerate_yaml[] =
    "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\nmixed_precision: bf16\n";

static char *text_after(size_t file, const plim_edit_set *edits) {
  char *text = NULL;
  size_t size;
  if (plim_project_text(&project, file, edits, &text, &size, &error)) test_failed = true;
  return text;
}

static bool becomes(size_t file, const plim_edit_set *edits, const char *expected) {
  char *text = text_after(file, edits);
  bool is = text && strcmp(text, expected) == 0;
  if (!is) printf("%s", text ? text : error.message);
  free(text);
  return is;
}

TEST(precision_is_one_set_over_all_files) {
  CHECK(!read_pair(hf_yaml, numbers_json, NULL), "%s", error.message);
  plim_edit_set edits;
  CHECK(set("precision", "fp16", &edits), "%s", error.message);
  CHECK(becomes(0, &edits,
                "per_device_train_batch_size: 4\ngradient_accumulation_steps: 2\nbf16: false\n"
                "fp16: true\n"),
        "TrainingArguments");
  char *text = text_after(1, &edits);
  CHECK(text && strstr(text, "\"bf16\": {\"enabled\": false}"), "DeepSpeed: %s", text);
  CHECK(text && strstr(text, "\"fp16\": {\"enabled\": true},\n"), "DeepSpeed: %s", text);
  free(text);
  plim_edit_set_clear(&edits);
}

TEST(accelerate_follows_training_arguments) {
  plim_project_clear(&project);
  project = (plim_project){0};
  CHECK(!plim_project_add(&project, "train.yaml", hf_yaml, strlen(hf_yaml), &error) &&
            !plim_project_add(&project, "acc.yaml", accelerate_yaml, strlen(accelerate_yaml),
                              &error) &&
            !plim_project_finish(&project, &error),
        "%s", error.message);
  plim_edit_set edits;
  CHECK(set("precision", "none", &edits), "%s", error.message);
  CHECK(becomes(1, &edits,
                "compute_environment: LOCAL_MACHINE\ndistributed_type: 'NO'\n"
                "mixed_precision: \"no\"\n"),
        "quoted, or it is false");
  plim_edit_set_clear(&edits);
}

// One key that says both: what products are computed in, and what the base is loaded in.
TEST(types_said_by_one_key_change_together) {
  static const char yaml[] = "base_model: x\nadapter: lora\nsequence_len: 64\nmicro_batch_size: 1\n"
                             "bf16: auto  # cluster\nfp16:\n";
  plim_project_clear(&project);
  project = (plim_project){0};
  CHECK(!plim_project_add(&project, "axolotl.yaml", yaml, strlen(yaml), &error) &&
            !plim_project_finish(&project, &error),
        "%s", error.message);
  CHECK(refuses("precision", "fp16", ""), "alone, the other would change unasked");
  plim_knob_change both[] = {{PLIM_KNOB_PRECISION, value_from("fp16")},
                             {PLIM_KNOB_DTYPE, value_from("fp16")}};
  plim_edit_set edits;
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  CHECK(becomes(0, &edits,
                "base_model: x\nadapter: lora\nsequence_len: 64\nmicro_batch_size: 1\n"
                "bf16: false  # cluster\nfp16: true\n"),
        "both");
  plim_edit_set_clear(&edits);
}

static plim_err read_one(const char *path, const char *text) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = plim_project_add(&project, path, text, strlen(text), &error);
  return err ? err : plim_project_finish(&project, &error);
}

// torch.optim's fused=True is no argument of bitsandbytes' classes.
TEST(what_another_optimizer_does_not_know_is_taken_out) {
  static const char tune[] =
      "model:\n  _component_: torchtune.models.qwen2_5.lora_qwen2_5_0_5b\n  lora_rank: 8\n"
      "tokenizer:\n  _component_: torchtune.models.qwen2_5.qwen2_5_tokenizer\n"
      "  max_seq_len: 64\n"
      "optimizer:\n  _component_: torch.optim.AdamW\n  fused: True  # fast\n  lr: 2e-3\n"
      "batch_size: 2\ngradient_accumulation_steps: 8\n";
  plim_edit_set edits;
  CHECK(!read_one("tune.yaml", tune), "%s", error.message);
  CHECK(project.dialect == PLIM_DIALECT_TORCHTUNE && says("optimizer=adamw"), "as it is");
  CHECK(set("optimizer", "adamw-8bit", &edits), "%s", error.message);
  char *text = text_after(0, &edits);
  CHECK(text && strstr(text, "_component_: bitsandbytes.optim.AdamW8bit\n  lr: 2e-3\n"), "%s",
        text);
  free(text);
  plim_edit_set_clear(&edits);
  CHECK(set("optimizer", "adamw-foreach", &edits), "%s", error.message);
  text = text_after(0, &edits);
  CHECK(text && strstr(text, "torch.optim.AdamW\n  fused: False  # fast\n"), "%s", text);
  free(text);
  plim_edit_set_clear(&edits);
}

TEST(arguments_of_the_old_optimizer_go_with_it) {
  static const char python[] = "args = TrainingArguments(\n    per_device_train_batch_size=2,\n"
                               "    optim=\"galore_adamw\",\n    optim_args=\"rank=64\",\n"
                               "    gradient_accumulation_steps=8,\n)\n";
  plim_edit_set edits;
  CHECK(!read_one("train.py", python), "%s", error.message);
  CHECK(set("optimizer", "adamw-8bit", &edits), "%s", error.message);
  CHECK(becomes(0, &edits,
                "args = TrainingArguments(\n    per_device_train_batch_size=2,\n"
                "    optim=\"adamw_bnb_8bit\",\n    gradient_accumulation_steps=8,\n)\n"),
        "both");
  plim_edit_set_clear(&edits);
}

// argparse's store_true has no false: the flag goes.
TEST(a_flag_that_cannot_be_false_goes) {
  static const char shell[] = "torchrun pretrain_gpt.py \\\n  --micro-batch-size 2 \\\n"
                              "  --global-batch-size 16 \\\n  --bf16 \\\n"
                              "  --seq-length 2048 --tensor-model-parallel-size 1\n";
  plim_edit_set edits;
  CHECK(!read_one("run.sh", shell), "%s", error.message);
  CHECK(project.dialect == PLIM_DIALECT_MEGATRON && says("precision=bf16"), "as it is");
  CHECK(set("precision", "none", &edits), "%s", error.message);
  CHECK(becomes(0, &edits,
                "torchrun pretrain_gpt.py \\\n  --micro-batch-size 2 \\\n"
                "  --global-batch-size 16 \\\n"
                "  --seq-length 2048 --tensor-model-parallel-size 1\n"),
        "gone");
  plim_edit_set_clear(&edits);
}

TEST(a_global_batch_must_multiply_out) {
  CHECK(!read_pair(hf_yaml, numbers_json, "torchrun --nproc_per_node 2 train.py train.yaml\n"),
        "%s", error.message);
  CHECK(says("world=2 micro_batch=4"), "values");
  CHECK(refuses("micro_batch", "2", "multiply out"), "half a batch");
  plim_knob_change both[] = {{PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 2}},
                             {PLIM_KNOB_ACCUMULATE, {.kind = PLIM_VALUE_INTEGER, .integer = 4}}};
  plim_edit_set edits;
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  CHECK(edits.at.len == 4, "%zu edits", edits.at.len);
  plim_edit_set_clear(&edits);
}

TEST(a_flag_replaces_the_default_of_the_argument) {
  static const char script[] =
      "parser.add_argument('--bs', type=int, default=16)\n"
      "parser.add_argument('--total', type=int, default=64)\n"
      "args = parser.parse_args()\n"
      "TrainingArguments('o', per_device_train_batch_size=args.bs,\n"
      "                  gradient_accumulation_steps=args.total // args.bs)\n";
  plim_project_clear(&project);
  project = (plim_project){0};
  plim_project_add(&project, "train.py", script, sizeof script - 1, &error);
  static const char command[] = "python train.py --bs 4\n";
  plim_project_add(&project, "run.sh", command, sizeof command - 1, &error);
  CHECK(!plim_project_finish(&project, &error), "%s", error.message);
  CHECK(says("micro_batch=4 accumulate=unclear"), "the command's, and what it leaves open");
  CHECK(changes("micro_batch", "2"), "in the command");
}

TEST(a_command_that_sets_the_variable_leaves_its_default_open) {
  static const char script[] = "BS = int(os.environ.get('BS', 16))\n"
                               "TrainingArguments('o', per_device_train_batch_size=BS)\n";
  static const char config[] = "base_model: x\nsequence_len: 8\nmicro_batch_size: ${oc.env:BS,8}\n";
  static const char command[] = "export BS=4\npython train.py\n";
  const char *names[] = {"train.py", "a.yaml"}, *texts[] = {script, config};
  for (int i = 0; i < 2; i++) {
    plim_project_clear(&project);
    project = (plim_project){0};
    plim_project_add(&project, names[i], texts[i], strlen(texts[i]), &error);
    plim_project_add(&project, "run.sh", command, sizeof command - 1, &error);
    CHECK(!plim_project_finish(&project, &error), "%s", error.message);
    CHECK(says("micro_batch=unclear"), "%s", names[i]);
  }
}

TEST(disagreement_with_deepspeed_is_noted) {
  CHECK(!read_pair("per_device_train_batch_size: 8\n", numbers_json, NULL), "%s", error.message);
  CHECK(project.notes.len && strstr(project.notes.at[0], "would not start"), "a note");
}

TEST(a_command_line_overrides_the_file_it_starts) {
  CHECK(!read_pair(hf_yaml, "{\"zero_optimization\": {\"stage\": 1}}\n",
                   "accelerate launch train.py --per_device_train_batch_size 1 train.yaml\n"),
        "%s", error.message);
  CHECK(says("micro_batch=1 accumulate=2 strategy=zero1"), "values");
  plim_edit_set edits;
  CHECK(set("micro_batch", "2", &edits), "%s", error.message);
  CHECK(edits.at.len == 1 && strcmp(project.files.at[edits.at.at[0].file]->path, "run.sh") == 0,
        "only what is in force");
  plim_edit_set_clear(&edits);
}

TEST(a_file_comes_before_an_arguments_default) {
  CHECK(!read_two("conf.yaml", "train:\n  batch_size: 8\n", "train.py",
                  "p.add_argument('--batch_size', type=int, default=4)\n"),
        "%s", error.message);
  CHECK(says("micro_batch=8") && changes("micro_batch", "2"), "the file's");
}

// ---- names of one's own -----------------------------------------------------------------------------

static plim_err read_named(const char *names, const char *path, const char *text) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = plim_project_add(&project, "plimsoll.yaml", names, strlen(names), &error);
  if (!err) err = plim_project_add(&project, path, text, strlen(text), &error);
  return err ? err : plim_project_finish(&project, &error);
}

TEST(names_of_ones_own_are_bound) {
  CHECK(
      !read_named("knobs:\n  micro_batch: c.yaml:examples_at_once\n"
                  "  checkpoint: {file: c.yaml, key: save_memory, values: {high: on, low: off}}\n",
                  "c.yaml", "examples_at_once: 6\nsave_memory: low\n"),
      "%s", error.message);
  CHECK(says("micro_batch=6 checkpoint=off"), "values");
  CHECK(changes("micro_batch", "3") && changes("checkpoint", "on"), "both change");
}

TEST(wrong_names_are_refused_with_the_closest) {
  CHECK(read_named("knobs:\n  micro_bath: c.yaml:x\n", "c.yaml", "x: 1\n"), "no such knob");
  CHECK(strstr(error.message, "micro_bath") && strcmp(error.hint, "micro_batch") == 0, "%s",
        error.hint);
  CHECK(read_named("knobs:\n  micro_batch: c.yaml:exmples\n", "c.yaml", "examples: 1\n"), "no key");
  CHECK(strcmp(error.hint, "did you mean examples?") == 0 && strcmp(error.file, "c.yaml") == 0,
        "%s", error.message);
  CHECK(read_named("knobs:\n  micro_batch: d.yaml:x\n", "c.yaml", "x: 1\n"), "no file");
  CHECK(strstr(error.message, "d.yaml"), "%s", error.message);
  CHECK(!read_named("files:\n  a.yaml: litgpt\n", "a.yaml",
                    "train:\n  micro_batch_size: 2\n  global_batch_size: 8\n"),
        "%s", error.message);
  CHECK(project.files.at[1]->is.dialect == PLIM_DIALECT_LITGPT && !project.notes.len, "told");
}

// ---- projects in the shapes people use --------------------------------------------------------------

TEST(config_py_with_trainer) {
  CHECK(!READ(FIXTURES "seed0/config/config.py", FIXTURES "seed0/train_baseline.py",
              FIXTURES "seed0/start_baseline.sh"),
        "%s", error.message);
  CHECK(
      says("model=Qwen/Qwen2.5-7B-Instruct micro_batch=2 accumulate=8 sequence=2048 lora_rank=128 "
           "lora_alpha=256 lora_dropout=0.05 "
           "lora_targets=q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj precision=fp16 "
           "dtype=fp16 checkpoint=on optimizer=adamw-foreach workers=4 epochs=15 clip=1 "
           "alloc_conf=max_split_size_mb:128,expandable_segments:True"),
      "values");
  plim_run_settings run;
  CHECK(!plim_run_settings_of(&project, &run, &error), "%s", error.message);
  CHECK(strcmp(run.loop.text, "trainer") == 0 && run.micro_batch.count == 2, "the run");
  CHECK(run.lora_rank.said == PLIM_SAID && run.attention.said == PLIM_DEFAULTED, "who said so");
  CHECK(changes("micro_batch", "1") && changes("accumulate", "16") && changes("sequence", "1536"),
        "the guide's steps");
  CHECK(changes("lora_rank", "64") && changes("optimizer", "adamw"), "more");
  CHECK(changes("alloc_conf", "expandable_segments:True"), "the environment");
  CHECK(changes("liger", "on"), "a key that is not there");
}

TEST(hydra_accelerate_and_deepspeed) {
  CHECK(!READ(FIXTURES "seed1/scripts/experiments.sh",
              FIXTURES "seed1/configs/accelerate/default_config.yaml",
              FIXTURES "seed1/configs/accelerate/zero_stage3.json",
              FIXTURES "seed1/configs/trainer/finetune.yaml"),
        "%s", error.message);
  CHECK(
      says("micro_batch=4 accumulate=4 precision=bf16 checkpoint=on attention=flash sequence=1024 "
           "strategy=zero3 offload=none world=3 optimizer=paged-adamw epochs=10 "
           "alloc_conf=expandable_segments:True,max_split_size_mb:64"),
      "values");
  plim_edit_set edits;
  CHECK(set("micro_batch", "1", &edits), "%s", error.message);
  CHECK(edits.at.len == 2, "the override and DeepSpeed's number: %zu", edits.at.len);
  plim_edit_set_clear(&edits);
  CHECK(changes("accumulate", "8") && changes("offload", "parameters"), "the guide's steps");
}

static plim_err read_and_follow(const char *path) {
  plim_project_clear(&project);
  project = (plim_project){0};
  plim_err err = plim_project_read(&project, path, &error);
  if (!err) err = plim_project_follow(&project, &error);
  return err ? err : plim_project_finish(&project, &error);
}

// ---- conditions -------------------------------------------------------------------------------------

static plim_err read_started(const char *python, const char *shell) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = plim_project_add(&project, "train.py", python, strlen(python), &error);
  if (!err) err = plim_project_add(&project, "run.sh", shell, strlen(shell), &error);
  return err ? err : plim_project_finish(&project, &error);
}

#define SWITCHES                                                                                   \
  "p.add_argument('--bs', type=int, default=4)\n"                                                  \
  "p.add_argument('--grad-ckpt', action='store_true')\n"                                           \
  "p.add_argument('--full', action='store_true')\n"                                                \
  "p.add_argument('--method', default='lora')\n"                                                   \
  "args = p.parse_args()\n"                                                                        \
  "DataLoader(data, batch_size=args.bs)\n"

TEST(code_under_a_condition_counts_where_it_runs) {
  static const char script[] = SWITCHES "if args.grad_ckpt:\n"
                                        "    model.gradient_checkpointing_enable()\n"
                                        "if not args.full and args.method == 'lora':\n"
                                        "    get_peft_model(model, LoraConfig(r=16))\n"
                                        "elif args.full:\n"
                                        "    get_peft_model(model, LoraConfig(r=32))\n"
                                        "else:\n"
                                        "    get_peft_model(model, LoraConfig(r=64))\n";
  CHECK(!read_started(script, "python train.py --bs 8\n"), "%s", error.message);
  CHECK(says("micro_batch=8 checkpoint=unknown lora_rank=16"), "without a flag");
  CHECK(!read_started(script, "python train.py --bs 8 --grad-ckpt --full\n"), "%s", error.message);
  CHECK(says("checkpoint=on lora_rank=32"), "with two");
  CHECK(!read_started(script, "python train.py --bs 8 --method other\n"), "%s", error.message);
  CHECK(says("checkpoint=unknown lora_rank=64"), "with a word");
  CHECK(!read_started(script, "python train.py --bs 8 --method $HOW\n"), "%s", error.message);
  CHECK(says("lora_rank=unclear"), "with a variable that nobody sets");
}

TEST(a_condition_that_is_not_known_leaves_the_knob_open) {
  static const char script[] = SWITCHES "if torch.cuda.get_device_properties(0).total_memory < G:\n"
                                        "    model.gradient_checkpointing_enable()\n"
                                        "    load(torch_dtype='bfloat16', load_in_4bit=True)\n"
                                        "else:\n"
                                        "    load(torch_dtype='bfloat16')\n";
  CHECK(!read_started(script, "python train.py --bs 8\n"), "%s", error.message);
  CHECK(says("checkpoint=unclear quantisation=unclear dtype=bf16"), "what both say is said");
  CHECK(strstr(project.knobs[PLIM_KNOB_CHECKPOINT].why, "depends on torch.cuda.get_device"), "%s",
        project.knobs[PLIM_KNOB_CHECKPOINT].why);
  CHECK(!read_text("t.py", SWITCHES "if torch.cuda.is_available():\n"
                                    "    model.gradient_checkpointing_enable()\n"),
        "%s", error.message);
  CHECK(says("checkpoint=on"), "there is a card");
}

TEST(one_of_two_values_counts_by_its_condition) {
  static const char script[] =
      SWITCHES "Trainer(peft_config=LoraConfig(r=8) if args.full else LoraConfig(r=4))\n";
  CHECK(!read_started(script, "python train.py --bs 8\n"), "%s", error.message);
  CHECK(says("lora_rank=4"), "the second");
  CHECK(!read_started(script, "python train.py --bs 8 --full\n"), "%s", error.message);
  CHECK(says("lora_rank=8"), "the first");
}

TEST(a_change_beside_a_condition_is_made) {
  static const char script[] = SWITCHES "if args.full:\n"
                                        "    model.gradient_checkpointing_enable()\n"
                                        "cfg = LoraConfig(r=16)\n";
  CHECK(!read_started(script, "python train.py --bs 8 --full\n"), "%s", error.message);
  CHECK(says("checkpoint=on") && changes("lora_rank", "8") && changes("micro_batch", "2"), "%s",
        error.message);
}

#define LOOP(name)                                                                                 \
  "def main():\n"                                                                                  \
  "    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)\n"                                  \
  "    for i in range(args." name "):\n"                                                           \
  "        with torch.autocast('cuda', dtype=torch.bfloat16):\n"                                   \
  "            loss = model(x).loss / args." name "\n"                                             \
  "        loss.backward()\n"

TEST(loops_of_ones_own_with_short_names) {
  static const char script[] = "p.add_argument('--lr', default=1e-4)\n" LOOP("accum");
  CHECK(
      !read_started(script, "B=${B:-16}\npython train.py --bs $B --accum 2 --ctx 1024 --lr 1e-5\n"),
      "%s", error.message);
  CHECK(says("micro_batch=16 accumulate=2 sequence=1024 precision=bf16 optimizer=adamw-foreach"),
        "short names, autocast, and an optimizer that is not its learning rate");
}

TEST(an_accumulation_of_an_unknown_name_is_asked_for) {
  CHECK(!read_started(LOOP("pieces"), "python train.py --bs 16 --pieces 2\n"), "%s", error.message);
  CHECK(says("accumulate=unclear"), "what the loss is divided by");
  CHECK(strstr(project.knobs[PLIM_KNOB_ACCUMULATE].why, "divides its loss by args.pieces"), "%s",
        project.knobs[PLIM_KNOB_ACCUMULATE].why);
  CHECK(!read_started("print(sum(losses) / len(losses))\nmean = loss / 2\n",
                      "python train.py --bs 16 --n-accum-passes 2\n"),
        "%s", error.message);
  CHECK(says("accumulate=unclear"), "a flag that sounds like it");
  CHECK(!read_started("mean = total_loss / len(data)\n", "python train.py --bs 16\n"), "%s",
        error.message);
  CHECK(says("accumulate=unknown"), "a mean is none");
}

TEST(targets_that_come_from_a_configuration) {
  static const char script[] =
      "LoraConfig(r=lora['r'], "
      "target_modules=lora['target_modules'])\nload(torch_dtype='bfloat16')\n";
  static const char yaml[] = "lora:\n  r: 8\n  target_modules: [q_proj, v_proj]\nbatch_size: 4\n";
  CHECK(!read_text("t.py", script), "%s", error.message);
  CHECK(says("lora_targets=unclear"), "alone");
  plim_project_clear(&project);
  project = (plim_project){0};
  CHECK(!plim_project_add(&project, "t.py", script, strlen(script), &error) &&
            !plim_project_add(&project, "c.yaml", yaml, strlen(yaml), &error) &&
            !plim_project_finish(&project, &error),
        "%s", error.message);
  CHECK(says("lora_targets=q_proj,v_proj lora_rank=8"), "with what it reads");
}

TEST(files_that_a_script_names_are_found) {
  CHECK(!read_and_follow(FIXTURES "seed0/start_baseline.sh"), "%s", error.message);
  CHECK(project.files.len == 3 && says("micro_batch=2 lora_rank=128"), "%zu files",
        project.files.len);
  CHECK(!read_and_follow(FIXTURES "seed1/scripts/experiments.sh"), "%s", error.message);
  CHECK(project.files.len == 3 && says("strategy=zero3 world=3"), "%zu files", project.files.len);
  CHECK(!read_and_follow(FIXTURES "seed4/Dockerfile.training"), "%s", error.message);
  CHECK(project.files.len == 2 && says("micro_batch=8 dtype=bf16"), "%zu files", project.files.len);
}

TEST(yaml_of_ones_own_with_torchrun) {
  CHECK(!READ(FIXTURES "seed2/configs/pretrain_512m.yaml", FIXTURES "seed2/run.sh"), "%s",
        error.message);
  CHECK(says("micro_batch=2 accumulate=32 global_batch=256 sequence=1024 precision=bf16 "
             "checkpoint=on optimizer=adamw-foreach world=4 workers=4 "
             "alloc_conf=expandable_segments:True"),
        "values");
  CHECK(!project.notes.len, "2 x 32 x 4 is 256");
  plim_knob_change both[] = {{PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 4}},
                             {PLIM_KNOB_ACCUMULATE, {.kind = PLIM_VALUE_INTEGER, .integer = 16}}};
  plim_edit_set edits;
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  plim_edit_set_clear(&edits);
  CHECK(refuses("micro_batch", "3", "multiply out"), "3 x 21 x 4 is 252");
}

TEST(lightning_with_stages) {
  CHECK(!READ(FIXTURES "seed3/conf/config.yaml",
              FIXTURES "seed3/conf/text_curriculum/01_stage.yaml",
              FIXTURES "seed3/conf/text_curriculum/02_stage.yaml", FIXTURES "seed3/plimsoll.yaml"),
        "%s", error.message);
  CHECK(says("micro_batch=45 accumulate=5 n_positives=32 n_negatives=24 precision=fp16 dtype=fp32 "
             "checkpoint=on lora_rank=8 lora_alpha=16 lora_dropout=0.1 world=1 sequence=128 "
             "workers=4 epochs=15 clip=1"),
        "values");
  CHECK(changes("n_negatives", "16") && changes("micro_batch", "15"), "changes");
  CHECK(!READ(FIXTURES "seed3/conf/text_curriculum/01_stage.yaml",
              FIXTURES "seed3/conf/text_curriculum/02_stage.yaml"),
        "%s", error.message);
  CHECK(says("n_negatives=unclear"), "stages differ, and nobody said which");
}

TEST(dockerfile_with_a_loop_of_its_own) {
  CHECK(!READ(FIXTURES "seed4/Dockerfile.training", FIXTURES "seed4/cli/train.py"), "%s",
        error.message);
  CHECK(says("micro_batch=8 accumulate=16 model=google/flan-t5-xl epochs=5 workers=0 dtype=bf16 "
             "checkpoint=on optimizer=adamw empty_cache=10 "
             "alloc_conf=expandable_segments:True,max_split_size_mb:128"),
        "values");
  plim_run_settings run;
  CHECK(!plim_run_settings_of(&project, &run, &error), "%s", error.message);
  CHECK(strcmp(run.loop.text, "manual") == 0, "%s", run.loop.text);
  plim_edit_set edits;
  CHECK(set("micro_batch", "4", &edits), "%s", error.message);
  CHECK(edits.at.len == 1 && edits.at.at[0].file == 0, "what the container starts with");
  plim_edit_set_clear(&edits);
}

TEST_MAIN
