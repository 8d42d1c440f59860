// Each finding of the pre-flight list appears where it is true, with the place and what to type, and
// does not where it is not. The 40 real files have none that would fail.
#include "check.h"

#include <dirent.h>
#include <stdlib.h>

#include "folder.h"
#include "test.h"

#define CONFIGS TEST_ROOT "/../../shared/configs/"

// ---- a machine and its files ------------------------------------------------------------------------

static check c;
static plim_error error;
static const char *cuda_conf, *conf, *visible;
static char paths[8][256];
static const char *files[8];
static size_t file_count;

static char *environment(const char *name) {
  const char *value = strcmp(name, "PYTORCH_CUDA_ALLOC_CONF") == 0 ? cuda_conf
                      : strcmp(name, "PYTORCH_ALLOC_CONF") == 0    ? conf
                      : strcmp(name, "CUDA_VISIBLE_DEVICES") == 0  ? visible
                                                                   : NULL;
  return (char *)value;
}

// 64 GiB of memory, half of it as /dev/shm, no card, nothing set.
static void begin(void) {
  check_clear(&c);
  c = (check){.root = "",
              .environment = environment,
              .machine = {.total_bytes = 64 * PLIM_GIB,
                          .available_bytes = 60 * PLIM_GIB,
                          .limit_bytes = PLIM_UNKNOWN,
                          .limit_used_bytes = PLIM_UNKNOWN,
                          .shm_total_bytes = 32 * PLIM_GIB,
                          .shm_free_bytes = 32 * PLIM_GIB,
                          .locked_bytes = PLIM_UNKNOWN}};
  cuda_conf = conf = visible = NULL;
  file_count = 0;
  folder_make();
}

static void given(const char *name, const char *text) {
  folder_write_text(name, text);
  snprintf(paths[file_count], sizeof paths[0], "%s", folder_path(name));
  files[file_count] = paths[file_count];
  file_count++;
}

static bool go(void) {
  plim_err err = check_read(&c, files, file_count, NULL, &error);
  if (!err) check_all(&c);
  else printf("%s: %s\n", error.file, error.message);
  folder_remove();
  return !err;
}

static const check_finding *found(const char *id) {
  for (size_t i = 0; i < c.findings.len; i++)
    if (strcmp(c.findings.at[i].id, id) == 0) return &c.findings.at[i];
  return NULL;
}

static void print_findings(void) {
  for (size_t i = 0; i < c.findings.len; i++)
    printf("  %d %s: %s\n", c.findings.at[i].severity, c.findings.at[i].id, c.findings.at[i].what);
}

#define GO() CHECK(go(), "not read")
#define CHECK_FOUND(id_, severity_)                                                                \
  do {                                                                                             \
    const check_finding *f_ = found(id_);                                                          \
    if (!f_ || f_->severity != (severity_)) print_findings();                                      \
    CHECK(f_ != NULL, "no %s", id_);                                                               \
    CHECK(f_->severity == (severity_), "%s: severity %d", id_, f_->severity);                      \
    bool is_explained_ = f_->severity < CHECK_WARNING || *f_->why;                                 \
    CHECK(is_explained_, "%s does not say why it matters", id_);                                   \
    CHECK(f_->severity < CHECK_WARNING || *f_->fix, "%s does not say what to type", id_);          \
  } while (0)
#define CHECK_NOT_FOUND(id_)                                                                       \
  do {                                                                                             \
    if (found(id_)) print_findings();                                                              \
    CHECK(!found(id_), "there is %s", id_);                                                        \
  } while (0)
#define CHECK_SAYS(text_, part_)                                                                   \
  CHECK(strstr(text_, part_) != NULL, "\"%s\" does not say \"%s\"", text_, part_)

static const char trainer[] = "from transformers import TrainingArguments\n"
                              "args = TrainingArguments(output_dir='o',\n"
                              "    per_device_train_batch_size=2, gradient_accumulation_steps=8,\n"
                              "    bf16=True, learning_rate=1e-5)\n";

// ---- the machine ------------------------------------------------------------------------------------

static void put_card(uint64_t free_mib) {
  c.cards[c.card_count] = (plim_card){.index = (unsigned)c.card_count,
                                      .name = "NVIDIA GeForce RTX 4090",
                                      .total_bytes = 24564 * PLIM_MIB,
                                      .free_bytes = free_mib * PLIM_MIB,
                                      .used_bytes = (24564 - free_mib) * PLIM_MIB};
  c.card_count++;
}

static void put_process(unsigned pid, const char *name, uint64_t mib) {
  check_process p = {.process = {pid, mib == PLIM_UNKNOWN ? mib : mib * PLIM_MIB}};
  snprintf(p.name, sizeof p.name, "%s", name);
  if (!vec_push(&c.processes, p)) abort();
}

TEST(check_without_a_card_is_a_note) {
  begin();
  GO();
  CHECK_FOUND("card.none", CHECK_NOTE);
  CHECK(!check_count(&c, CHECK_FAILS), "failures");
}

TEST(check_names_who_is_on_the_card) {
  begin();
  put_card(20000);
  put_card(24000);
  put_process(4100, "python3", 4000);
  put_process(900, "", PLIM_UNKNOWN);
  GO();
  CHECK_FOUND("card", CHECK_OK);
  CHECK_FOUND("card.processes", CHECK_WARNING);
  CHECK_SAYS(found("card.processes")->what, "python3 (4100) with 3.91 GiB");
  CHECK_SAYS(found("card.processes")->what, "not visible from here (900)");
  CHECK_SAYS(found("card.processes")->fix, "CUDA_VISIBLE_DEVICES=1");
}

TEST(check_of_a_desktop_is_a_note) {
  begin();
  put_card(24000);
  put_process(900, "Xorg", 300);
  GO();
  CHECK_FOUND("card.processes", CHECK_NOTE);
}

TEST(check_sees_memory_that_nobody_seems_to_hold) {
  begin();
  put_card(10000);
  GO();
  CHECK_FOUND("card.processes", CHECK_WARNING);
  CHECK_SAYS(found("card.processes")->what, "cannot be seen from here");
}

TEST(check_counts_cards) {
  begin();
  put_card(24000);
  given("train.py", trainer);
  given("run.sh", "torchrun --nproc_per_node=4 train.py\n");
  GO();
  CHECK_FOUND("card.count", CHECK_WARNING);
  CHECK_SAYS(found("card.count")->fix, "32 passes instead of 8: 64 sequences per optimizer step");
  begin();
  for (int i = 0; i < 3; i++) put_card(24000); // 8 x 4 passes are no multiple of 3
  given("train.py", trainer);
  given("run.sh", "torchrun --nproc_per_node=4 train.py\n");
  GO();
  CHECK_SAYS(found("card.count")->fix, "with accumulation raised to keep the batch");
  begin();
  put_card(24000);
  given("train.py", trainer);
  given("run.sh", "torchrun --nproc_per_node=1 --nnodes=4 train.py\n");
  GO();
  CHECK_NOT_FOUND("card.count");
}

TEST(check_of_no_visible_card) {
  begin();
  visible = "";
  GO();
  CHECK_FOUND("environment.no_card", CHECK_WARNING);
}

TEST(check_of_a_card_that_is_not_there) {
  begin();
  put_card(24000);
  put_card(24000);
  visible = "0,1,2";
  GO();
  CHECK_FOUND("environment.missing_card", CHECK_WARNING);
  CHECK_SAYS(found("environment.missing_card")->why, "the run sees 2");
  CHECK_SAYS(found("environment.missing_card")->fix, "CUDA_VISIBLE_DEVICES=0,1");
  begin();
  put_card(24000);
  given("train.py", trainer);
  given("run.sh", "CUDA_VISIBLE_DEVICES=3 python train.py\n");
  GO();
  CHECK_FOUND("environment.missing_card", CHECK_WARNING);
  CHECK(found("environment.missing_card")->line == 1, "no line");
  static const char *const fine[] = {"0", "1,0", "GPU-8932f937-d72c", "MIG-1"};
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    begin();
    put_card(24000);
    put_card(24000);
    visible = fine[i];
    GO();
    CHECK_NOT_FOUND("environment.missing_card");
  }
}

// A crowded card that the run does not see is not its business; the card it sees is.
TEST(check_looks_at_the_cards_that_the_run_sees) {
  begin();
  put_card(2000);
  put_card(24000);
  put_process(4100, "python3", 22000);
  visible = "1";
  GO();
  CHECK_NOT_FOUND("card.processes");
  CHECK_SAYS(found("card")->what, "card 1");
  CHECK(c.card_count == 1 && check_gpu(&c), "%zu cards", c.card_count);
  begin();
  put_card(2000);
  put_card(24000);
  put_process(4100, "python3", 22000);
  visible = "0";
  GO();
  CHECK_FOUND("card.processes", CHECK_WARNING);
  CHECK_SAYS(found("card.processes")->fix, "CUDA_VISIBLE_DEVICES=1");
}

// Of different cards CUDA counts the fastest first, unless told otherwise.
TEST(check_of_cards_that_are_not_alike) {
  begin();
  put_card(24000);
  put_card(24000);
  snprintf(c.cards[1].name, sizeof c.cards[1].name, "NVIDIA H200");
  visible = "1";
  GO();
  CHECK(c.card_count == 2, "%zu cards", c.card_count);
}

static const char zero3[] = "{\"zero_optimization\": {\"stage\": 3, \"offload_param\": "
                            "{\"device\": \"cpu\"}}, \"bf16\": {\"enabled\": \"auto\"},\n"
                            " \"train_micro_batch_size_per_gpu\": \"auto\"}\n";

static void given_offload(void) {
  given("train.py", trainer);
  given("ds.json", zero3);
  given("run.sh", "torchrun --nproc_per_node=2 train.py --deepspeed ds.json\n");
  c.model = "llama-3.1-8b";
  c.gpu = "80GiB";
}

TEST(check_holds_offload_against_memory) {
  begin();
  given_offload();
  c.machine.available_bytes = c.machine.total_bytes = 512 * PLIM_GIB;
  GO();
  CHECK_FOUND("host.offload", CHECK_OK);
  begin();
  given_offload();
  GO();
  CHECK_FOUND("host.offload", CHECK_FAILS);
  CHECK_SAYS(found("host.offload")->what, "60.0 GiB can be had");
}

// A container's limit counts even where the machine has more, and is what to raise.
TEST(check_holds_offload_against_a_limit) {
  begin();
  given_offload();
  c.machine.available_bytes = c.machine.total_bytes = 512 * PLIM_GIB;
  c.machine.limit_bytes = 32 * PLIM_GIB;
  c.machine.limit_used_bytes = 2 * PLIM_GIB;
  GO();
  CHECK_FOUND("host.offload", CHECK_FAILS);
  CHECK_SAYS(found("host.offload")->what, "30.0 GiB can be had");
  CHECK_SAYS(found("host.offload")->fix, "docker run --memory=");
  CHECK_SAYS(found("host.memory")->what, "limited to 32.0 GiB");
}

TEST(check_of_locked_memory) {
  begin();
  given_offload();
  c.machine.locked_bytes = 8 * PLIM_MIB;
  GO();
  CHECK_FOUND("host.locked", CHECK_WARNING);
  begin();
  given_offload();
  GO();
  CHECK_NOT_FOUND("host.locked");
}

static void given_workers(const char *length) {
  char text[512];
  snprintf(text, sizeof text,
           "base_model: gpt2\nsequence_len: %s\nmicro_batch_size: 4\n"
           "gradient_accumulation_steps: 2\ndatasets:\n  - path: x\n"
           "dataloader_num_workers: 8\n",
           length);
  given("train.yaml", text);
}

TEST(check_of_shared_memory) {
  begin();
  given_workers("1024");
  GO();
  CHECK_FOUND("host.shared_memory", CHECK_OK);
  begin();
  given_workers("1024");
  c.machine.shm_total_bytes = c.machine.shm_free_bytes = 64 * PLIM_MIB;
  c.machine.is_container = true;
  GO();
  CHECK_FOUND("host.shared_memory", CHECK_WARNING);
  CHECK_SAYS(found("host.shared_memory")->fix, "--shm-size");
  begin();
  given_workers("131072"); // 4 x 131072 tokens x 3 tensors x 2 ahead x 8 workers
  c.machine.shm_total_bytes = c.machine.shm_free_bytes = 64 * PLIM_MIB;
  GO();
  CHECK_FOUND("host.shared_memory", CHECK_FAILS);
}

// ---- the allocator ----------------------------------------------------------------------------------

TEST(check_of_an_unset_allocator) {
  begin();
  GO();
  CHECK_FOUND("allocator", CHECK_OK);
  CHECK_SAYS(found("allocator")->fix, "expandable_segments:True");
}

TEST(check_points_at_the_byte_in_the_environment) {
  begin();
  cuda_conf = "max_split_size_mb:8";
  GO();
  CHECK_FOUND("allocator.invalid", CHECK_FAILS);
  const check_finding *f = found("allocator.invalid");
  CHECK_STR(f->excerpt, "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:8");
  CHECK(f->excerpt[f->caret] == '8', "the caret is below '%c'", f->excerpt[f->caret]);
  CHECK_SAYS(f->fix, "max_split_size_mb:128");
}

TEST(check_points_at_the_byte_in_files) {
  static const struct {
    const char *name, *text;
    int line;
  } cases[] = {
      {"run.sh", "#!/bin/sh\nexport PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:true\"\n", 2},
      {"Dockerfile", "FROM x\nENV PYTORCH_ALLOC_CONF=expandable_segments:true\n", 2},
      {"train.py",
       "import os\nos.environ['PYTORCH_CUDA_ALLOC_CONF'] = 'expandable_segments:true'\n", 2},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    given(cases[i].name, cases[i].text);
    GO();
    CHECK_FOUND("allocator.invalid", CHECK_FAILS);
    const check_finding *f = found("allocator.invalid");
    CHECK(f->line == cases[i].line, "%s:%d", cases[i].name, f->line);
    CHECK(strncmp(f->excerpt + f->caret, "true", 4) == 0, "%s", f->excerpt + f->caret);
  }
}

// What a script sets counts, not what it replaces; setdefault replaces nothing.
TEST(check_knows_which_setting_is_in_force) {
  begin();
  cuda_conf = "max_split_size_mb:8";
  given("run.sh", "export PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:64\n");
  GO();
  CHECK_FOUND("allocator.invalid", CHECK_WARNING);
  begin();
  cuda_conf = "max_split_size_mb:8";
  given("train.py",
        "import os\nos.environ.setdefault('PYTORCH_CUDA_ALLOC_CONF', 'max_split_size_mb:64')\n");
  GO();
  CHECK_FOUND("allocator.invalid", CHECK_FAILS);
}

TEST(check_of_both_names) {
  begin();
  cuda_conf = "expandable_segments:True";
  conf = "max_split_size_mb:64";
  GO();
  CHECK_FOUND("allocator.both", CHECK_WARNING);
  begin();
  cuda_conf = "expandable_segments:True";
  conf = " expandable_segments : True ";
  GO();
  CHECK_NOT_FOUND("allocator.both");
  begin();
  conf = "expandable_segments:True";
  GO();
  CHECK_FOUND("allocator.name", CHECK_WARNING);
  CHECK_STR(found("allocator.name")->fix,
            "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}

TEST(check_of_allocator_settings_that_fight) {
  static const struct {
    const char *text, *part;
  } cases[] = {
      {"expandable_segments:True,max_split_size_mb:128", "with max_split_size_mb"},
      {"expandable_segments:True,garbage_collection_threshold:0.8", "with expandable_segments"},
      {"garbage_collection_threshold:0.8", "without a memory limit"},
      {"garbage_collection_threshold:0.8,per_process_memory_fraction:0.9", NULL},
      {"expandable_segments:True", NULL},
      {"max_split_size_mb:128,roundup_power2_divisions:8", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    cuda_conf = cases[i].text;
    GO();
    const check_finding *f = found("allocator.fight");
    CHECK(!f == !cases[i].part, "%s: %s", cases[i].text, f ? f->what : "nothing");
    if (f) CHECK_SAYS(f->what, cases[i].part);
  }
}

TEST(check_of_another_backend) {
  begin();
  cuda_conf = "backend:cudaMallocAsync";
  GO();
  CHECK_FOUND("allocator.backend", CHECK_NOTE);
  CHECK_NOT_FOUND("allocator.invalid");
}

TEST(check_of_expandable_segments_on_wsl) {
  begin();
  c.machine.is_wsl = true;
  cuda_conf = "expandable_segments:True";
  GO();
  CHECK_FOUND("allocator.fight", CHECK_WARNING);
}

// ---- the batch --------------------------------------------------------------------------------------

TEST(check_multiplies_the_batch) {
  begin();
  given("train.py", trainer);
  given("run.sh", "torchrun --nproc_per_node=4 train.py\n");
  GO();
  CHECK_FOUND("batch", CHECK_OK);
  CHECK_STR(found("batch")->what, "batch: 2 x 8 on 4 GPUs = 64 sequences per optimizer step");
  CHECK_U64((uint64_t)c.effective_batch, 64);
}

TEST(check_of_a_batch_on_unknown_gpus) {
  begin();
  given("train.py", trainer);
  GO();
  CHECK_SAYS(found("batch")->what, "16 sequences per GPU");
  CHECK_SAYS(found("batch")->fix, "--world");
}

TEST(check_of_deepspeed_that_differs) {
  begin();
  given("train.py", trainer);
  given("ds.json", "{\"zero_optimization\": {\"stage\": 2},\n"
                   " \"train_micro_batch_size_per_gpu\": 4,\n"
                   " \"gradient_accumulation_steps\": \"auto\"}\n");
  given("run.sh", "torchrun --nproc_per_node=4 train.py --deepspeed ds.json\n");
  GO();
  CHECK_FOUND("deepspeed.mismatch", CHECK_FAILS);
  const check_finding *f = found("deepspeed.mismatch");
  CHECK_SAYS(f->what, "train_micro_batch_size_per_gpu is 4");
  CHECK_SAYS(f->why, "64 with one and 128 with the other");
  CHECK(f->line == 2, "line %d", f->line);
  CHECK_STR(f->fix, "\"train_micro_batch_size_per_gpu\": \"auto\"");
}

TEST(check_of_a_global_batch_that_does_not_multiply_out) {
  begin();
  given("train.py", trainer);
  given("ds.json", "{\"zero_optimization\": {\"stage\": 2}, \"train_batch_size\": 32,\n"
                   " \"train_micro_batch_size_per_gpu\": \"auto\"}\n");
  given("run.sh", "torchrun --nproc_per_node=4 train.py --deepspeed ds.json\n");
  GO();
  CHECK_FOUND("batch.mismatch", CHECK_FAILS);
  CHECK_SAYS(found("batch.mismatch")->what, "says 32");
  CHECK_SAYS(found("batch.mismatch")->what, "make 64");
}

static void given_megatron(int global) {
  char text[256];
  snprintf(text, sizeof text,
           "torchrun --nproc_per_node=4 pretrain_gpt.py --micro-batch-size 3 "
           "--global-batch-size %d --seq-length 2048 --num-layers 12 --hidden-size 768 "
           "--num-attention-heads 12\n",
           global);
  given("run.sh", text);
}

TEST(check_of_a_global_batch_that_does_not_divide) {
  begin();
  given_megatron(32);
  GO();
  CHECK_FOUND("batch.indivisible", CHECK_FAILS);
  CHECK_SAYS(found("batch.indivisible")->fix, "36");
  begin();
  given_megatron(36);
  GO();
  CHECK_NOT_FOUND("batch.indivisible");
  CHECK_U64((uint64_t)c.accumulate, 3);
}

TEST(check_of_a_batch_that_changes_by_itself) {
  begin();
  given("train.yaml", "per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\n"
                      "output_dir: o\nnum_train_epochs: 1\nauto_find_batch_size: true\n");
  c.world = 2;
  GO();
  CHECK_FOUND("batch.auto", CHECK_WARNING);
  CHECK_SAYS(found("batch.auto")->why, "28 sequences per step instead of 32");
}

// ---- options ----------------------------------------------------------------------------------------

TEST(check_of_both_kinds_of_checkpointing) {
  static const char accelerate[] = "distributed_type: FSDP\nnum_processes: 2\nfsdp_config:\n"
                                   "  fsdp_activation_checkpointing: true\n  fsdp_version: 2\n";
  begin();
  given("train.py", "from transformers import TrainingArguments\nargs = TrainingArguments('o', "
                    "per_device_train_batch_size=2, gradient_checkpointing=True)\n");
  given("accelerate.yaml", accelerate);
  GO();
  CHECK_FOUND("conflict.both_checkpoints", CHECK_FAILS);
  begin();
  given("train.py", trainer);
  given("accelerate.yaml", accelerate);
  GO();
  CHECK_NOT_FOUND("conflict.both_checkpoints");
  CHECK_FOUND("conflict.none", CHECK_OK);
}

static const char adapters[] =
    "from transformers import TrainingArguments, AutoModelForCausalLM\n"
    "from peft import LoraConfig, get_peft_model\n"
    "model = AutoModelForCausalLM.from_pretrained('gpt2')\n"
    "%s\n"
    "model = get_peft_model(model, LoraConfig(r=8))\n"
    "args = TrainingArguments('o', per_device_train_batch_size=2, gradient_checkpointing=True,\n"
    "    gradient_checkpointing_kwargs={'use_reentrant': %s})\n";

static void given_adapters(const char *line, const char *reentrant) {
  char text[1024];
  snprintf(text, sizeof text, adapters, line, reentrant);
  given("train.py", text);
}

TEST(check_of_reentrant_checkpointing_with_adapters) {
  begin();
  given_adapters("# model.enable_input_require_grads()", "True");
  GO();
  CHECK_FOUND("conflict.reentrant", CHECK_FAILS);
  static const struct {
    const char *line, *reentrant;
  } fine[] = {
      {"model.enable_input_require_grads()", "True"},
      {"model.gradient_checkpointing_enable()", "True"}, // peft sees it
      {"", "False"},
  };
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    begin();
    given_adapters(fine[i].line, fine[i].reentrant);
    GO();
    CHECK_NOT_FOUND("conflict.reentrant");
  }
}

TEST(check_of_device_map_with_several_processes) {
  static const char code[] = "from transformers import AutoModelForCausalLM, TrainingArguments\n"
                             "model = AutoModelForCausalLM.from_pretrained('gpt2', "
                             "device_map='auto')\n"
                             "args = TrainingArguments('o', per_device_train_batch_size=2)\n";
  begin();
  given("train.py", code);
  given("run.sh", "torchrun --nproc_per_node=2 train.py\n");
  GO();
  CHECK_FOUND("conflict.device_map", CHECK_FAILS);
  CHECK(found("conflict.device_map")->line == 2, "line %d", found("conflict.device_map")->line);
  begin();
  given("train.py", code);
  given("run.sh", "CUDA_VISIBLE_DEVICES=0,1 python train.py\n"); // spread over two cards: fine
  GO();
  CHECK_NOT_FOUND("conflict.device_map");
}

TEST(check_of_quantised_weights_without_adapters) {
  static const char head[] = "base_model: gpt2\nmicro_batch_size: 1\nsequence_len: 512\n"
                             "datasets:\n  - path: x\nload_in_4bit: true\n";
  char text[512];
  begin();
  given("train.yaml", head);
  GO();
  CHECK_FOUND("conflict.kbit", CHECK_FAILS);
  begin();
  snprintf(text, sizeof text, "%sadapter: qlora\nlora_r: 8\n", head);
  given("train.yaml", text);
  GO();
  CHECK_NOT_FOUND("conflict.kbit");
}

TEST(check_of_both_half_precisions) {
  begin();
  given("train.py", trainer);
  given("run.sh", "python train.py --fp16 --bf16 true\n");
  GO();
  CHECK_FOUND("conflict.fp16_bf16", CHECK_FAILS);
  begin();
  given("train.py", trainer);
  given("ds.json", "{\"zero_optimization\": {\"stage\": 2}, \"fp16\": {\"enabled\": true},\n"
                   " \"bf16\": {\"enabled\": true}}\n");
  GO();
  CHECK_FOUND("conflict.fp16_bf16", CHECK_FAILS);
  begin();
  given("train.py", trainer);
  GO();
  CHECK_NOT_FOUND("conflict.fp16_bf16");
}

static const char sharded[] = "base_model: gpt2\nmicro_batch_size: %d\nsequence_len: 512\n"
                              "datasets:\n  - path: x\n%s";

static void given_axolotl(int micro, const char *rest) {
  char text[512];
  snprintf(text, sizeof text, sharded, micro, rest);
  given("train.yaml", text);
}

TEST(check_of_8bit_optimizers_with_offload) {
  begin();
  given_axolotl(1, "optimizer: adamw_bnb_8bit\nfsdp_version: 2\n"
                   "fsdp_config:\n  offload_params: true\n");
  GO();
  CHECK_FOUND("conflict.8bit_offload", CHECK_FAILS);
  begin();
  given_axolotl(1, "optimizer: adamw_torch_fused\nfsdp_version: 2\n"
                   "fsdp_config:\n  offload_params: true\n");
  GO();
  CHECK_NOT_FOUND("conflict.8bit_offload");
}

TEST(check_of_context_parallel) {
  begin();
  given_axolotl(2, "context_parallel_size: 2\n");
  GO();
  CHECK_FOUND("conflict.context_parallel", CHECK_FAILS);
  begin();
  given_axolotl(1, "context_parallel_size: 2\n");
  GO();
  CHECK_NOT_FOUND("conflict.context_parallel");
}

static void given_torchtune(int steps) {
  char text[512];
  snprintf(text, sizeof text,
           "model:\n  _component_: torchtune.models.llama3.llama3_8b\n"
           "optimizer:\n  _component_: torch.optim.AdamW\n  lr: 2e-5\n"
           "batch_size: 2\ngradient_accumulation_steps: %d\noptimizer_in_bwd: True\n",
           steps);
  given("full.yaml", text);
}

TEST(check_of_the_optimizer_in_backward) {
  begin();
  given_torchtune(4);
  GO();
  CHECK_FOUND("conflict.optimizer_in_bwd", CHECK_FAILS);
  begin();
  given_torchtune(1);
  GO();
  CHECK_NOT_FOUND("conflict.optimizer_in_bwd");
}

TEST(check_of_lightning_with_deepspeed) {
  begin();
  given("config.yaml",
        "trainer:\n  accumulate_grad_batches: 4\n  devices: 2\n  precision: 16-mixed\n"
        "  strategy: deepspeed_stage_2\n  max_epochs: 1\ndata:\n  batch_size: 2\n");
  given("ds.json", "{\"zero_optimization\": {\"stage\": 2}, \"gradient_accumulation_steps\": 4}\n");
  GO();
  CHECK_FOUND("conflict.lightning_accumulation", CHECK_FAILS);
  begin();
  given("config.yaml",
        "trainer:\n  accumulate_grad_batches: 4\n  devices: 2\n  precision: 16-mixed\n"
        "  strategy: deepspeed_stage_2\n  max_epochs: 1\ndata:\n  batch_size: 2\n");
  given("ds.json", "{\"zero_optimization\": {\"stage\": 2}}\n");
  GO();
  CHECK_NOT_FOUND("conflict.lightning_accumulation");
}

static void given_padding_free(const char *attention) {
  char text[512];
  snprintf(text, sizeof text,
           "model_name_or_path: gpt2\nper_device_train_batch_size: 2\nmax_length: 512\n"
           "packing: false\npadding_free: true\nattn_implementation: %s\n"
           "dataset_name: x\noutput_dir: o\n",
           attention);
  given("train.yaml", text);
}

TEST(check_of_padding_free) {
  begin();
  given_padding_free("sdpa");
  GO();
  CHECK_FOUND("conflict.padding_free", CHECK_WARNING);
  begin();
  given_padding_free("flash_attention_2");
  GO();
  CHECK_NOT_FOUND("conflict.padding_free");
}

TEST(check_of_keys_that_are_gone) {
  begin();
  given("train.yaml", "per_device_train_batch_size: 8\noutput_dir: o\nnum_train_epochs: 1\n"
                      "group_by_length: true\nno_cuda: false\n");
  GO();
  CHECK_FOUND("values.old_keys", CHECK_NOTE);
  CHECK_SAYS(found("values.old_keys")->what, "group_by_length, no_cuda");
  begin();
  given("train.yaml", "per_device_train_batch_size: 8\noutput_dir: o\nnum_train_epochs: 1\n"
                      "eval_strategy: steps\nwarmup_steps: 10\n");
  GO();
  CHECK_NOT_FOUND("values.old_keys");
}

// ---- settings that do nothing -----------------------------------------------------------------------

TEST(check_of_lora_keys_without_an_adapter) {
  begin();
  given_axolotl(1, "lora_r: 16\nlora_alpha: 32\n");
  GO();
  CHECK_FOUND("idle.adapter", CHECK_WARNING);
  CHECK_SAYS(found("idle.adapter")->fix, "adapter: lora");
  begin();
  given("run.sh", "trl sft --model_name_or_path gpt2 --dataset_name x --lora_r 16 --output_dir o "
                  "--per_device_train_batch_size 2\n");
  GO();
  CHECK_FOUND("idle.adapter", CHECK_WARNING);
  CHECK_SAYS(found("idle.adapter")->fix, "--use_peft");
}

TEST(check_of_lora_keys_that_count) {
  static const char *const axolotl[] = {"lora_r: 16\nadapter: lora\n",
                                        "lora_r: 16\nadapter:\n", // deliberately none
                                        "lora_r:\n", ""};
  for (size_t i = 0; i < sizeof axolotl / sizeof *axolotl; i++) {
    begin();
    given_axolotl(1, axolotl[i]);
    GO();
    CHECK_NOT_FOUND("idle.adapter");
  }
  begin();
  given("run.sh", "trl sft --model_name_or_path gpt2 --dataset_name x --use_peft --lora_r 16 "
                  "--output_dir o --per_device_train_batch_size 2\n");
  GO();
  CHECK_NOT_FOUND("idle.adapter");
}

static void given_quantised(const char *arguments) {
  char text[1024];
  snprintf(text, sizeof text,
           "from transformers import AutoModelForCausalLM, BitsAndBytesConfig, TrainingArguments\n"
           "bnb = BitsAndBytesConfig(%s)\n"
           "model = AutoModelForCausalLM.from_pretrained('gpt2', quantization_config=bnb)\n"
           "args = TrainingArguments('o', per_device_train_batch_size=2)\n",
           arguments);
  given("train.py", text);
}

TEST(check_of_4_bits_that_are_not_turned_on) {
  begin();
  given_quantised("bnb_4bit_quant_type='nf4', bnb_4bit_compute_dtype='bfloat16'");
  GO();
  CHECK_FOUND("idle.4bit", CHECK_WARNING);
  CHECK_STR(found("idle.4bit")->fix, "load_in_4bit=True");
  CHECK(found("idle.4bit")->line == 2, "line %d", found("idle.4bit")->line);
  static const char *const fine[] = {"load_in_4bit=True, bnb_4bit_quant_type='nf4'",
                                     "load_in_4bit=FLAGS.small, bnb_4bit_quant_type='nf4'",
                                     "load_in_8bit=True"};
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    begin();
    given_quantised(fine[i]);
    GO();
    CHECK_NOT_FOUND("idle.4bit");
  }
}

TEST(check_of_checkpointing_that_is_not_turned_on) {
  static const char kwargs[] = "gradient_checkpointing_kwargs={'use_reentrant': False}";
  static const struct {
    const char *call, *more;
    bool is_idle;
  } cases[] = {
      {"TrainingArguments", "", true},
      {"TrainingArguments", ", gradient_checkpointing=True", false},
      {"TrainingArguments", ", gradient_checkpointing=False", false}, // deliberately
      {"SFTConfig", "", false},                                       // TRL turns it on
      {"TrainingArguments", ")\nmodel.gradient_checkpointing_enable(", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    begin();
    snprintf(text, sizeof text,
             "from %s import %s\nargs = %s('o', per_device_train_batch_size=2, %s%s)\n",
             *cases[i].call == 'S' ? "trl" : "transformers", cases[i].call, cases[i].call, kwargs,
             cases[i].more);
    given("train.py", text);
    GO();
    if (cases[i].is_idle) CHECK_FOUND("idle.checkpointing", CHECK_WARNING);
    else CHECK_NOT_FOUND("idle.checkpointing");
  }
}

// ---- whole on every process -------------------------------------------------------------------------

static void given_zero3(const char *flag) {
  char text[512];
  snprintf(text, sizeof text,
           "distributed_type: DEEPSPEED\nnum_processes: 4\ndeepspeed_config:\n  zero_stage: 3\n"
           "  zero3_init_flag: %s\n  gradient_accumulation_steps: 8\n",
           flag);
  given("accelerate.yaml", text);
}

TEST(check_of_zero3_without_its_init) {
  begin();
  given("train.py", trainer);
  given_zero3("false");
  GO();
  CHECK_FOUND("loading.init_flag", CHECK_WARNING);
  begin();
  given("train.py", trainer);
  given_zero3("true");
  GO();
  CHECK_NOT_FOUND("loading.init_flag");
}

#define LOADS "model = AutoModelForCausalLM.from_pretrained('gpt2')\n"
#define ARGUMENTS "args = TrainingArguments('o', per_device_train_batch_size=2)\n"
#define IMPORTS "from transformers import AutoModelForCausalLM, TrainingArguments\n"

TEST(check_of_a_model_loaded_too_early_for_zero3) {
  begin();
  given("train.py", IMPORTS LOADS ARGUMENTS);
  given_zero3("true");
  GO();
  CHECK_FOUND("loading.order", CHECK_WARNING);
  CHECK(found("loading.order")->line == 2, "line %d", found("loading.order")->line);
  static const char *const fine[] = {
      IMPORTS ARGUMENTS LOADS, IMPORTS "accelerator = Accelerator()\n" LOADS ARGUMENTS,
      IMPORTS "def load():\n    " LOADS "\ndef main():\n    " ARGUMENTS, // called in any order
  };
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    begin();
    given("train.py", fine[i]);
    given_zero3("true");
    GO();
    CHECK_NOT_FOUND("loading.order");
  }
  begin();
  given("train.py", IMPORTS LOADS ARGUMENTS); // nothing is divided
  GO();
  CHECK_NOT_FOUND("loading.order");
}

static void given_evaluation(const char *strategy, const char *metrics) {
  char text[1024];
  snprintf(text, sizeof text,
           IMPORTS "model = AutoModelForCausalLM.from_pretrained('gpt2')\n"
                   "args = TrainingArguments('o', per_device_train_batch_size=2, "
                   "eval_strategy='%s')\ntrainer = Trainer(model, args, %s)\n",
           strategy, metrics);
  given("train.py", text);
}

TEST(check_of_logits_that_stay_on_the_card) {
  begin();
  given_evaluation("steps", "compute_metrics=accuracy");
  GO();
  CHECK_FOUND("loading.logits", CHECK_WARNING);
  static const char *const fine[][2] = {
      {"no", "compute_metrics=accuracy"},
      {"steps", "eval_dataset=data"},
      {"steps", "compute_metrics=None"},
      {"steps", "compute_metrics=accuracy, preprocess_logits_for_metrics=first"},
  };
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    begin();
    given_evaluation(fine[i][0], fine[i][1]);
    GO();
    CHECK_NOT_FOUND("loading.logits");
  }
}

// ---- commands that end early ------------------------------------------------------------------------

TEST(check_of_commands_that_end_early) {
  static const struct {
    const char *text, *what;
    int line;
  } cut[] = {
      {"python train.py --bf16 true \\\n  # more than before\n  --max_steps 5\n",
       "a comment inside a command", 2},
      {"python train.py --bf16 true \\ \n  --max_steps 5\n", "a blank behind a backslash", 1},
      {"python train.py \\\r\n  # no\r\n  --max_steps 5\r\n", "a comment inside a command", 2},
  };
  for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
    begin();
    given("train.py", trainer);
    given("run.sh", cut[i].text);
    GO();
    CHECK_FOUND("shell.cut", CHECK_FAILS);
    CHECK_STR(found("shell.cut")->what, cut[i].what);
    CHECK(found("shell.cut")->line == cut[i].line, "line %d", found("shell.cut")->line);
  }
}

TEST(check_of_commands_that_go_on) {
  static const char *const fine[] = {
      "python train.py \\\n  --bf16 true \\\n  --max_steps 5\n",
      "# python train.py \\\n# --bf16 true\npython train.py\n",
      "python train.py --bf16 true \\\n  --max_steps 5\n# done\n-- \n",
      "python train.py --bf16 true \\\n# the last\necho done\n",
      "echo 'a \\\\ '\n- b\n",
      "python train.py \\",
      "",
  };
  for (size_t i = 0; i < sizeof fine / sizeof *fine; i++) {
    begin();
    given("train.py", trainer);
    given("run.sh", fine[i]);
    GO();
    CHECK_NOT_FOUND("shell.cut");
  }
}

// ---- YAML -------------------------------------------------------------------------------------------

#define TRAINER_YAML "per_device_train_batch_size: 8\noutput_dir: o\nnum_train_epochs: 1\n"

TEST(check_of_values_that_read_otherwise) {
  static const struct {
    const char *line, *what, *fix;
  } cases[] = {
      {"learning_rate: 1e-5", "learning_rate: 1e-5 reads as text", "learning_rate: 1.0e-5"},
      {"learning_rate: 2E4", "reads as text", "learning_rate: 2.0e+4"},
      {"weight_decay: 1.5e3", "reads as text", "weight_decay: 1.5e+3"},
      {"seed: 010", "reads as 8", "seed: 10"},
      {"seed: 08", "reads as text", "seed: 8"},
      {"max_steps: 1,000", "reads as text", "max_steps: 1000"},
      {"time_limit: 12:30", "reads as 750", "time_limit: \"12:30\""},
      {"save_strategy: no", "reads as false", "save_strategy: \"no\""},
      {"max_steps: None", "reads as the text \"None\"", "max_steps: null"},
      {"fp16: \"False\"", "reads as text", "fp16: false"},
      {"fp16: n", "reads as text", "fp16: false"},
      {"bf16: Y", "reads as text", "bf16: true"},
      {"learning_rate: \"0.0001\"", "reads as text", "learning_rate: 0.0001"},
      {"run_name: 2024-05-01", "reads as a date", "run_name: \"2024-05-01\""},
      {"revision: 1.10", "reads as the number 1.1", "revision: \"1.10\""},
      {"data_version: 2.0", "reads as the number 2", "data_version: \"2.0\""},
      {"model_revision: 1234567", "reads as the number 1234567", "model_revision: \"1234567\""},
      {"run_name: on", "reads as true", "run_name: \"on\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    begin();
    snprintf(text, sizeof text, TRAINER_YAML "%s\n", cases[i].line);
    given("train.yaml", text);
    GO();
    CHECK_FOUND("yaml.type", CHECK_WARNING);
    const check_finding *f = found("yaml.type");
    CHECK_SAYS(f->what, cases[i].what);
    CHECK_STR(f->fix, cases[i].fix);
    CHECK(f->line == 4, "line %d", f->line);
  }
}

TEST(check_of_values_that_read_as_meant) {
  static const char *const lines[] = {
      "learning_rate: 1.0e-5",
      "learning_rate: 0.00001",
      "max_steps: 1_000",
      "seed: 0",
      "run_name: 12e5",
      "save_strategy: \"no\"",
      "bf16: yes",
      "logging_dir: runs/None",
      "cuda: 0,1,2",
      "seed: 7",
      "run_name: 'learning: 1e-5'",
      "gradient_checkpointing: off",
      "run_name: may-2024",
      "run_name: '2024-05-01'",
      "data_version: 2",
      "data_version: 2.1",
      "revision: 3f1c9ab",
      "revision: main",
      "initial: y",
      "run_name: \"7\"",
      "seed: null",
      "max_steps: -1",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char text[256];
    begin();
    snprintf(text, sizeof text, TRAINER_YAML "%s\n", lines[i]);
    given("train.yaml", text);
    GO();
    CHECK(!found("yaml.type"), "%s: %s", lines[i], found("yaml.type")->what);
    CHECK_FOUND("yaml", CHECK_OK);
  }
}

// accelerate reads `mixed_precision: no` as meant, and distributed_type not.
TEST(check_of_accelerate_words) {
  begin();
  given("accelerate.yaml", "distributed_type: NO\nmixed_precision: no\nnum_processes: 1\n");
  GO();
  CHECK_FOUND("yaml.type", CHECK_WARNING);
  CHECK_STR(found("yaml.type")->fix, "distributed_type: \"NO\"");
  CHECK(check_count(&c, CHECK_WARNING) == 1, "%zu warnings", check_count(&c, CHECK_WARNING));
}

// OmegaConf reads them as numbers.
TEST(check_knows_who_reads_exponents) {
  begin();
  given_torchtune(1);
  GO();
  CHECK_NOT_FOUND("yaml.type");
  static const char *const readers[] = {"import yaml\ncfg = yaml.safe_load(open('c.yaml'))\n",
                                        "from omegaconf import OmegaConf\n"
                                        "cfg = OmegaConf.load('c.yaml')\n"};
  for (size_t i = 0; i < 2; i++) {
    begin();
    given("c.yaml", "per_device_train_batch_size: 4\nlearning_rate: 1e-4\n");
    given("train.py", readers[i]);
    GO();
    if (i) CHECK_NOT_FOUND("yaml.type");
    else CHECK_FOUND("yaml.type", CHECK_WARNING);
  }
}

// ---- whether it fits --------------------------------------------------------------------------------

static void given_lora(void) {
  given("train.yaml", "base_model: Qwen/Qwen2.5-7B\nmicro_batch_size: 2\nsequence_len: 2048\n"
                      "gradient_accumulation_steps: 8\nadapter: lora\nlora_r: 16\n"
                      "lora_target_linear: true\ndatasets:\n  - path: x\n");
}

TEST(check_says_whether_it_fits) {
  begin();
  given_lora();
  c.gpu = "80GiB";
  GO();
  CHECK_FOUND("fit", CHECK_OK);
  begin();
  given_lora();
  c.gpu = "16GiB";
  GO();
  CHECK_FOUND("fit", CHECK_FAILS);
  CHECK_SAYS(found("fit")->fix, "plimsoll plan ");
  CHECK_SAYS(found("fit")->fix, "--gpu \"16GiB\"");
  begin();
  given_lora();
  c.gpu = "8GiB";
  c.world = 8;
  GO();
  CHECK_SAYS(found("fit")->fix, "--world 8");
}

// Where the length is assumed, it is not sure.
TEST(check_of_a_length_that_is_not_said) {
  begin();
  given("train.py", trainer);
  c.model = "llama-3.1-8b";
  c.gpu = "16GiB";
  GO();
  CHECK_FOUND("fit", CHECK_WARNING);
}

TEST(check_of_a_model_that_is_not_known) {
  begin();
  given_axolotl(1, "");
  c.model = "no/such-model";
  GO();
  CHECK_FOUND("fit.unknown", CHECK_NOTE);
}

TEST(check_of_sharding_over_unknown_gpus) {
  begin();
  given_axolotl(1, "fsdp_version: 2\nfsdp_config:\n  offload_params: false\n");
  GO();
  CHECK_FOUND("fit.unknown", CHECK_NOTE);
  CHECK_SAYS(found("fit.unknown")->fix, "--world");
}

TEST(check_of_bf16_on_a_card_without_it) {
  begin();
  c.gpu = "T4";
  given("train.py", trainer);
  GO();
  CHECK_FOUND("precision.emulated", CHECK_WARNING);
  CHECK_SAYS(found("precision.emulated")->fix, "fp16");
  CHECK(found("precision.emulated")->line == 4, "where it is said");
}

TEST(check_of_bf16_on_a_card_that_has_it) {
  begin();
  put_card(24000);
  given("train.py", trainer);
  GO();
  CHECK_NOT_FOUND("precision.emulated");
}

// ---- real files -------------------------------------------------------------------------------------

// What the projects themselves publish works: nothing in it may be said to fail.
TEST(check_finds_nothing_wrong_with_real_files) {
  DIR *folder = opendir(CONFIGS);
  if (!folder) SKIP("no %s", CONFIGS);
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (*entry->d_name == '.' || strstr(entry->d_name, ".md")) continue;
    begin();
    snprintf(paths[0], sizeof paths[0], CONFIGS "%.150s", entry->d_name);
    files[file_count++] = paths[0];
    bool is_fine = go() && !check_count(&c, CHECK_FAILS) && !check_count(&c, CHECK_WARNING);
    if (!is_fine) print_findings();
    test_count(entry->d_name, is_fine);
  }
  closedir(folder);
}

// ---- without files ----------------------------------------------------------------------------------

TEST(check_without_files_only_looks_around) {
  begin();
  GO();
  CHECK_NOT_FOUND("batch");
  CHECK_NOT_FOUND("fit");
  CHECK(!check_count(&c, CHECK_FAILS), "failures");
}

// Axolotl's schema sets the accumulation to 1 before its batch_size could count.
TEST(check_asks_what_axolotl_makes_of_a_batch_size) {
  begin();
  given("a.yaml", "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: 2\nbatch_size: 32\n"
                  "sequence_len: 512\nadapter: lora\nlora_r: 8\n");
  given("go.sh", "torchrun --nproc_per_node 1 -m axolotl.cli.train a.yaml\n");
  GO();
  CHECK(!c.accumulate && !c.effective_batch && !project_job_batch(&c.files), "%lld is made up",
        (long long)c.accumulate);
  CHECK_FOUND("batch.unknown", CHECK_NOTE);
  const plim_project_knob *k = &c.files.project.knobs[PLIM_KNOB_ACCUMULATE];
  CHECK(k->said == PLIM_UNCLEAR && strstr(k->why, "batch_size is 32"), "%s", k->why);
}

TEST_MAIN
