// Sharding strategies that are not written, and the reason: the ecosystem has its own keys for it, something else
// decides it, or the run would change.
#include "project_share.h"
#include "sharing.h"

#define BRIDGE                                                                                     \
  "train:\n  micro_batch_size: 1\n  global_batch_size: 8\n  train_iters: 9\n"                      \
  "dataset:\n  sequence_length: 512\n"
#define NEMO                                                                                       \
  "model:\n  micro_batch_size: 1\n  global_batch_size: 8\n  tensor_model_parallel_size: 1\n"
#define TITAN                                                                                      \
  "[training]\nlocal_batch_size = 1\nseq_len = 8192\n\n[parallelism]\n"                            \
  "tensor_parallel_degree = 1\ndata_parallel_shard_degree = 1\n"
#define TUNE                                                                                       \
  "model: {_component_: torchtune.models.llama2.llama2_7b}\nbatch_size: 2\n"                       \
  "tokenizer: {_component_: torchtune.models.llama2.llama2_tokenizer, max_seq_len: 512}\n"
#define LITGPT                                                                                     \
  "checkpoint_dir: checkpoints/a/b\nprecision: bf16-true\ndevices: 1\ntrain:\n"                    \
  "  global_batch_size: 8\n  micro_batch_size: 2\n  max_seq_length: 512\n"
#define LIGHTNING "trainer:\n  accumulate_grad_batches: 4\n  devices: 2\n"
#define FOUNDRY "max_seq_len: 2048\nglobal_train_batch_size: 256\ndevice_train_microbatch_size: 8\n"
#define MEGATRON                                                                                   \
  "torchrun --nproc_per_node 8 pretrain_gpt.py --micro-batch-size 2 --global-batch-size 16 "       \
  "--seq-length 2048 --tensor-model-parallel-size 1\n"

static const struct {
  const char *path, *text, *strategy, *reason;
} refused[] = {
    // Ecosystems with their own keys.
    {"run.sh", MEGATRON, "zero1", "it is turned on by --use-distributed-optimizer"},
    {"run.sh", MEGATRON, "fsdp2", "it is turned on by --use-torch-fsdp2"},
    {"run.sh", MEGATRON, "zero3", "does not support it"},
    {"a.yaml", BRIDGE, "zero1", "on by optimizer.use_distributed_optimizer: true"},
    {"a.yaml", BRIDGE, "fsdp2", "on by ddp.use_torch_fsdp2: true"},
    {"a.yaml", NEMO, "zero1", "on by model.optim.name: distributed_fused_adam"},
    {"a.yaml", NEMO, "fsdp2", "on by model.fsdp: true"},
    {"a.toml", TITAN, "fsdp2", "on by parallelism.data_parallel_shard_degree = -1"},
    {"a.toml", TITAN, "zero2", "does not support it"},
    {"a.yaml", TUNE, "fsdp2", "on by a recipe with a name ending in _distributed"},
    {"a.yaml", LITGPT, "fsdp2", "on by devices above 1"},
    {"a.yaml", LIGHTNING, "zero1", "on by Trainer(strategy=\"deepspeed_stage_1\")"},
    {"a.yaml", LIGHTNING, "zero2", "on by Trainer(strategy=\"deepspeed_stage_2\")"},
    {"a.yaml", LIGHTNING, "zero3", "on by Trainer(strategy=\"deepspeed_stage_3\")"},
    {"a.yaml", LIGHTNING, "fsdp2", "on by Trainer(strategy=ModelParallelStrategy())"},
    {"a.yaml", FOUNDRY, "fsdp2", "on by fsdp_config.sharding_strategy: FULL_SHARD"},
    {"a.yaml", FOUNDRY, "zero3", "does not support it"},
    // accelerate's file.
    {"accelerate.yaml",
     "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
     "num_machines: 1\nnum_processes: 8\n",
     "zero2", "accelerate's file refers to a DeepSpeed file, which decides the strategy"},
    {"accelerate.yaml",
     "compute_environment: LOCAL_MACHINE\nnum_machines: 1\nnum_processes: 8\nmixed_precision: "
     "bf16\n",
     "zero2", "accelerate's file has no distributed_type"},
    {"accelerate.yaml", "distributed_type: NO\nnum_machines: 1\nnum_processes: 1\n", "zero2",
     "distributed_type is read as false: write \"NO\" in quotes"},
    {"accelerate.yaml", "distributed_type: 'NO'\nnum_machines: 1\nnum_processes: 1\n", "zero2",
     "accelerate's file is set up for one GPU"},
    {"accelerate.yaml", "distributed_type: TP\nnum_machines: 1\nnum_processes: 8\n", "zero2",
     "accelerate's file is set up for another kind of distributed training"},
    // Trainers and manual loops.
    {"train.yaml", "per_device_train_batch_size: 4\nbf16: true\n", "fsdp",
     "FSDP 1 is deprecated; plimsoll writes fsdp2 instead"},
    {"sft.yaml",
     "model_name_or_path: a/b\nstage: sft\nfinetuning_type: full\ncutoff_len: 512\n"
     "per_device_train_batch_size: 4\n",
     "fsdp2", "it needs an accelerate configuration file, and there is none"},
    {"sft.yaml",
     "model_name_or_path: a/b\nstage: sft\nfinetuning_type: full\ncutoff_len: 512\n"
     "per_device_train_batch_size: 4\nuse_distributed_optimizer: true\n",
     "zero3", "use_distributed_optimizer decides it and depends on other keys"},
    {"axolotl.yaml",
     "base_model: a/b\nmicro_batch_size: 4\nfsdp:\n  - full_shard\nfsdp_config:\n"
     "  fsdp_offload_params: true\n",
     "fsdp2", "fsdp_config is set up for FSDP 1"},
    {"ds.json", "{\"zero_optimization\": {\"stage\": 2}, \"train_micro_batch_size_per_gpu\": 4}",
     "fsdp2", "DeepSpeed has to be turned off where its file is named"},
    {"plain.py", "batch_size = 4\nsequence_length = 2048\n", "ddp",
     "no key sets it: the training loop and its launch command decide it"},
    {"plain.py", "batch_size = 4\nsequence_length = 2048\n", "zero2",
     "none of these files can refer to a DeepSpeed file"},
    {"plain.py", "batch_size = 4\nsequence_length = 2048\n", "fsdp2",
     "it needs an accelerate configuration file, and there is none"},
};

TEST(unsupported_strategies_are_refused_with_the_reason) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    bool ok = !read_text(refused[i].path, refused[i].text) &&
              cannot(refused[i].strategy, refused[i].reason);
    if (!ok) printf("%s\n", error.message);
    test_count(refused[i].reason, ok);
    CHECK(strstr(error.hint, "plan again with --fix strategy="), "row %zu: %s", i, error.hint);
  }
}

TEST(a_way_back_that_would_change_another_knob_is_refused) {
  static const char yaml[] = "per_device_train_batch_size: 4\nbf16: true\ndeepspeed: ds.json\n";
  static const char clips[] = "{\"zero_optimization\": {\"stage\": 2}, \"gradient_clipping\": 0.5}";
  CHECK(!read_two("train.yaml", yaml, "ds.json", clips), "%s", error.message);
  CHECK(cannot("ddp", "clip would be 1, not 0.5"), "clipping");
  CHECK(!read_text("ds.json", clips), "%s", error.message);
  CHECK(cannot("ddp", "where its file is named"), "alone");
  plim_project_clear(&project);
}

// fsdp_config has no effect without fsdp; with fsdp, Trainer would not start.
TEST(runs_that_would_not_start_or_have_another_choice_are_refused) {
  CHECK(!read_text("train.yaml",
                   "per_device_train_batch_size: 4\nbf16: true\ngradient_checkpointing: true\n"
                   "fsdp_config:\n  version: 2\n  activation_checkpointing: true\n"),
        "%s", error.message);
  CHECK(cannot("fsdp2", "activation_checkpointing and gradient_checkpointing together"), "both");
  CHECK(
      !read_text("train.yaml", "per_device_train_batch_size: 4\nbf16: true\nfsdp: hybrid_shard\n"),
      "%s", error.message);
  CHECK(cannot("fsdp2", "a strategy other than full_shard"), "what was chosen");
  plim_project_clear(&project);
}

TEST(lightning_names_the_strategy_that_offloads) {
  static const char script[] =
      "import lightning as L\nloader = DataLoader(ds, batch_size=1)\n"
      "trainer = L.Trainer(devices=2, precision=\"bf16-true\", accumulate_grad_batches=8)\n"
      "trainer.fit(model, loader)\n";
  CHECK(!read_text("train.py", script), "%s", error.message);
  CHECK(project.dialect == PLIM_DIALECT_LIGHTNING, "%d", project.dialect);
  CHECK_STR(plim_project_own_sharding(&project, "zero3", "none"),
            "Trainer(strategy=\"deepspeed_stage_3\")");
  CHECK_STR(plim_project_own_sharding(&project, "zero3", "parameters"),
            "Trainer(strategy=\"deepspeed_stage_3_offload\")");
  CHECK_STR(plim_project_own_sharding(&project, "zero2", "optimizer"),
            "Trainer(strategy=\"deepspeed_stage_2_offload\")");
  plim_project_clear(&project);
}

TEST_MAIN
