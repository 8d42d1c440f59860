// Which ecosystem a file belongs to and what its keys set: one small file of each.
#include "project_change.h"
#include "projects.h"

// ---- recognition ------------------------------------------------------------------------------------

TEST(a_file_that_could_be_of_two_ecosystems_is_not_guessed) {
  CHECK(!read_text("a.yaml", "train:\n  micro_batch_size: 2\n  global_batch_size: 8\n"), "%s",
        error.message);
  const plim_recognition *is = &project.files.at[0]->is;
  CHECK(is->dialect == PLIM_DIALECTS && is->rival != PLIM_DIALECTS, "%s", is->reason);
  CHECK(project.notes.list.len == 1 && strstr(project.notes.list.at[0].message, "could be"), "%s",
        is->reason);
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

// No item is lost: neither the last of many nor one that is a part of another.
TEST(long_lists_are_whole) {
  enum { ITEMS = 200 };
  static char text[ITEMS * 40];
  size_t n = (size_t)snprintf(text, sizeof text,
                              "base_model: a/b\nsequence_len: 512\nmicro_batch_size: 1\n"
                              "adapter: lora\nlora_r: 8\nlora_target_modules:\n");
  for (int i = 0; i < ITEMS; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "  - layers.%d.q_proj\n", i);
  snprintf(text + n, sizeof text - n, "  - proj\n");
  CHECK(!read_text("a.yaml", text), "%s", error.message);
  const char *all = project.knobs[PLIM_KNOB_LORA_TARGETS].value.text;
  CHECK(all && strstr(all, ",layers.199.q_proj,proj"), "%s", all ? all : "none");
}

TEST(the_last_of_equal_keys_takes_effect) {
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

TEST(a_default_that_a_root_replaces_has_no_effect) {
  CHECK(!read_text("t.py", "C = {'n': 8}\n"
                           "TrainingArguments(per_device_train_batch_size=C.get('n', 3))\n"),
        "%s", error.message);
  CHECK(says("micro_batch=8"), "the dict has it");
}

TEST(gpus_that_share_a_batch_count_as_one) {
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
                                     "only works with 8",
                                     "batch size must be 8",
                                     "you must not change this",
                                     "never increase the batch size",
                                     "it is pinned to 8"};
  static const char *const remarks[] = {"keeps global_batch_size at 256",
                                        "lora_r must be 8",
                                        "fixed a bug here",
                                        "change if it does not fit",
                                        "twice what it was",
                                        "do what you want. Not to be forgotten",
                                        "needs to be tuned",
                                        "you must have downloaded the dataset first",
                                        "the dataset must be there",
                                        "must be downloaded first",
                                        "do not change the tokenizer",
                                        "eval_batch_size must be 4",
                                        ""};
  for (size_t i = 0; i < sizeof bans / sizeof *bans; i++)
    CHECK(comment_forbids(bans[i]), "%s", bans[i]);
  for (size_t i = 0; i < sizeof remarks / sizeof *remarks; i++)
    CHECK(!comment_forbids(remarks[i]), "%s", remarks[i]);
}

TEST(two_values_for_one_knob_are_unclear) {
  CHECK(!read_text("c.yaml", "a:\n  batch_size: 8\nb:\n  batch_size: 16\n"), "%s", error.message);
  CHECK(says("micro_batch=unclear"), "not guessed");
  CHECK(
      refuses("micro_batch", "4", "a.batch_size is 8 in line 2, but b.batch_size is 16 in line 4"),
      "both are named");
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
  CHECK(refuses("micro_batch", "2", "which would be 32, and plimsoll does not rewrite"), "alone");
  CHECK(refuses("accumulate", "8", "computes accumulate"), "a computed value");
  plim_knob_change both[] = {{PLIM_KNOB_MICRO_BATCH, value_from("2")},
                             {PLIM_KNOB_ACCUMULATE, value_from("32")}};
  plim_edit_set edits;
  CHECK(!plim_project_set(&project, both, 2, &edits, &error), "%s", error.message);
  CHECK(edits.at.len == 1, "the root alone is edited");
  plim_edit_set_clear(&edits);
}

TEST_MAIN
