// Findings of the pre-flight list about the effective batch and about options that do not go together: they appear only
// if they are true, with the place and what to type.
#include "checking.h"

// ---- the batch --------------------------------------------------------------------------------------

TEST(check_multiplies_the_batch) {
  begin();
  given("train.py", trainer);
  given("run.sh", "torchrun --nproc_per_node=4 train.py\n");
  GO();
  CHECK_FOUND("batch", CHECK_OK);
  CHECK_STR(found("batch")->what,
            "batch: micro batch 2 x accumulation 8 x 4 GPUs = 64 sequences per optimizer step");
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
  CHECK_SAYS(found("batch.mismatch")->what, "is 32");
  CHECK_SAYS(found("batch.mismatch")->what, "is 64");
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
  CHECK_SAYS(found("batch.auto")->why,
             "(here 8 -> 7), but accumulation stays: 28 sequences per step instead of 32");
}

// ---- what the framework refuses ---------------------------------------------------------------------

TEST(check_of_settings_that_the_framework_refuses) {
  static const char file[] = "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: 2\n"
                             "sequence_len: 2048\ngradient_accumulation_steps: 8\n"
                             "datasets:\n  - path: x\n%s";
  static const struct {
    const char *more, *says; // NULL: nothing is refused
  } cases[] = {
      {"early_stopping_patience: 3\nsave_steps: 10\n", "without eval_steps"},
      {"early_stopping_patience: 3\nsave_steps: 10\neval_steps: 10\n", NULL},
      {"early_stopping_patience:\n", NULL},
      {"s2_attention: true\n", "Axolotl 0.19 refuses s2_attention, so the run will not start"},
      {"dpo_norm_loss: false\n", "refuses dpo_norm_loss"}, // whatever its value
      {"val_set_size: 0\neval_steps: 10\n", "refuses eval_steps with val_set_size: 0"},
      {"val_set_size: 0.1\neval_steps: 10\n", NULL},
      {"rl: simpo\nwarmup_ratio: 0.1\n", "refuses rl: simpo with warmup_ratio"},
      {"save_strategy: epoch\nsave_steps: 10\n", "refuses save_steps with save_strategy"},
      {"save_strategy: steps\nsave_steps: 10\n", NULL},
      {"gradient_checkpointing: true\nfsdp_config:\n  activation_checkpointing: true\n",
       "refuses gradient_checkpointing: true with fsdp_config.activation_checkpointing"},
      {"gradient_checkpointing: true\nactivation_offloading: true\nfsdp_config:\n"
       "  activation_checkpointing: true\n",
       NULL}, // gradient_checkpointing: false reaches Trainer
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text, file, cases[i].more);
    begin();
    given("train.yaml", text);
    c.gpu = "80GiB";
    GO();
    if (!cases[i].says) CHECK_NOT_FOUND("stops.setting");
    if (!cases[i].says) continue;
    CHECK_FOUND("stops.setting", CHECK_FAILS);
    CHECK_SAYS(found("stops.setting")->what, cases[i].says);
    CHECK_NOT_FOUND("conflict.none");
  }
}

// Bloom's class lacks _supports_flash_attn, and the table of Falcon's has no xformers.
TEST(check_of_attention_that_transformers_refuses) {
  static const char file[] = "base_model: %s\nmicro_batch_size: 2\nsequence_len: 2048\n"
                             "gradient_accumulation_steps: 8\nattn_implementation: %s\n"
                             "datasets:\n  - path: x\n";
  static const struct {
    const char *model, *attention, *id;
  } cases[] = {
      {"bigscience/bloom-560m", "flash_attention_2", "conflict.refused_flash"},
      {"tiiuae/falcon-7b", "xformers", "stops.attention"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[512];
    snprintf(text, sizeof text, file, cases[i].model, cases[i].attention);
    begin();
    given("train.yaml", text);
    c.gpu = "80GiB";
    GO();
    CHECK_FOUND(cases[i].id, CHECK_FAILS);
  }
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
      {"model.gradient_checkpointing_enable()", "True"}, // peft detects it
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

TEST(check_of_lora_kernels_that_stop) {
  static const char head[] = "base_model: gpt2\nmicro_batch_size: 1\nsequence_len: 512\n"
                             "datasets:\n  - path: x\nadapter: lora\nlora_r: 8\n"
                             "lora_target_modules: [c_attn]\n";
  char text[512];
  begin();
  given("train.yaml", head);
  GO();
  CHECK_FOUND("conflict.lora_kernels", CHECK_FAILS);
  begin();
  snprintf(text, sizeof text, "%slora_qkv_kernel: false\n", head);
  given("train.yaml", text);
  GO();
  CHECK_NOT_FOUND("conflict.lora_kernels");
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

TEST(check_of_removed_keys) {
  begin();
  given("train.yaml", "per_device_train_batch_size: 8\noutput_dir: o\nnum_train_epochs: 1\n"
                      "group_by_length: true\nno_cuda: false\n");
  GO();
  CHECK_FOUND("values.old_keys", CHECK_NOTE);
  CHECK_SAYS(found("values.old_keys")->what, "removed in transformers 5.2: group_by_length (");
  CHECK_SAYS(found("values.old_keys")->what,
             "train.yaml:4); use train_sampling_strategy: group_by_length");
  begin();
  given("train.yaml", "per_device_train_batch_size: 8\noutput_dir: o\nnum_train_epochs: 1\n"
                      "eval_strategy: steps\nwarmup_steps: 10\n");
  GO();
  CHECK_NOT_FOUND("values.old_keys");
}

// The data loader accepts only whole numbers of at least 1.
TEST(check_refuses_invalid_batches) {
  static const char *const values[] = {"0", "-2", "2.5", ".nan", "-0.5"};
  char text[256];
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    for (int k = 0; k < 2; k++) {
      begin();
      snprintf(text, sizeof text,
               "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: %s\n"
               "gradient_accumulation_steps: %s\nsequence_len: 512\nadapter: lora\nlora_r: 8\n",
               k ? "2" : values[i], k ? values[i] : "2");
      given("a.yaml", text);
      GO();
      CHECK_FOUND("batch.invalid", CHECK_FAILS);
      CHECK(found("batch.invalid")->line == 2 + k, "line %d", found("batch.invalid")->line);
    }
}

TEST_MAIN

// ---- values and keys that nothing reads -------------------------------------------------------------

#define FACTORY                                                                                    \
  "stage: sft\ndo_train: true\nmodel_name_or_path: Qwen/Qwen2.5-0.5B\nfinetuning_type: lora\n"     \
  "cutoff_len: 1024\ngradient_accumulation_steps: 8\n"

static check_verdict verdict_of(const char *name, const char *text) {
  const char *why_not;
  begin();
  given(name, text);
  c.gpu = "80GiB";
  return go() ? check_decide(&c, &why_not) : CHECK_VERDICTS;
}

TEST(check_of_values_that_no_key_takes) {
  CHECK(verdict_of("f.yaml", FACTORY "per_device_train_batch_size: 2\nbf16: yess\n") ==
            CHECK_NOT_CHECKED,
        "a value that is neither on nor off");
  CHECK_FOUND("values.unreadable", CHECK_WARNING);
  CHECK_SAYS(found("values.unreadable")->what, "bf16: plimsoll does not understand the value yess");
  CHECK_SAYS(found("values.unreadable")->fix, "true");
  CHECK(found("values.unreadable")->line == 8, "line %d", found("values.unreadable")->line);
  CHECK(verdict_of("f.yaml", FACTORY "per_device_train_batch_size: two\nbf16: true\n") ==
            CHECK_NOT_CHECKED,
        "no number");
  CHECK_FOUND("values.unreadable", CHECK_WARNING);
  CHECK_SAYS(found("values.unreadable")->fix, "number");
  CHECK(verdict_of("run.sh",
                   "torchrun train.py --output_dir o --per_device_train_batch_size 2 "
                   "--model_name_or_path Qwen/Qwen2.5-0.5B --bf16 maybe\n") != CHECK_READY,
        "a flag of a command");
  CHECK_FOUND("values.unreadable", CHECK_WARNING);
  verdict_of("a.yaml", "base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 512\nmicro_batch_size: 1\n"
                       "datasets: []\nbf16: treu\n");
  CHECK_FOUND("values.unreadable", CHECK_WARNING);
  CHECK_SAYS(found("values.unreadable")->fix, "write true");
  verdict_of("home.yaml",
             "model: Qwen/Qwen2.5-0.5B\nbatch_size: 4\nmax_len: 512\nprecision: bf61\n");
  CHECK_FOUND("values.unreadable", CHECK_WARNING);
  CHECK_SAYS(found("values.unreadable")->fix, "write bf16");
  verdict_of("acc.yaml", "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\n"
                         "mixed_precision: bf61\nnum_processes: 2\n");
  CHECK_NOT_FOUND("values.unreadable"); // it trains nothing
}

TEST(check_of_values_that_are_spelled_otherwise) {
  static const char *const values[] = {"1", "yes", "Y", "True"};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    char text[256];
    snprintf(text, sizeof text,
             "torchrun train.py --output_dir o --per_device_train_batch_size 2 "
             "--model_name_or_path Qwen/Qwen2.5-0.5B --bf16 %s\n",
             values[i]);
    verdict_of("run.sh", text);
    CHECK_NOT_FOUND("values.unreadable");
    CHECK(check_says(&c, PLIM_KNOB_PRECISION, "bf16"), "--bf16 %s", values[i]);
  }
}

TEST(check_of_misspelled_keys) {
  check_verdict verdict =
      verdict_of("f.yaml", FACTORY "per_device_train_batchsize: 2\nbf16: true\n");
  CHECK(verdict == CHECK_READY, "verdict %d", verdict);
  CHECK_FOUND("keys.unknown", CHECK_WARNING);
  CHECK_SAYS(found("keys.unknown")->what, "did you mean per_device_train_batch_size?");
  CHECK(found("keys.unknown")->line == 7, "line %d", found("keys.unknown")->line);
  CHECK(check_count(&c, CHECK_WARNING) == 1, "%zu", check_count(&c, CHECK_WARNING));
}
