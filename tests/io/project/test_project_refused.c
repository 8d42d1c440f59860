// Unsupported trainings are refused with the reason, and custom names are bound or refused.
#include "project_refusals.h"
#include "projects.h"

// ---- what is not modelled ---------------------------------------------------------------------------

#define SFT "model = AutoModelForCausalLM.from_pretrained('m')\n"
#define CALL "(per_device_train_batch_size=4)\n"

static const struct {
  const char *file, *text, *reason; // reason NULL: it is supported
} kinds[] = {
    {"t.py", "from trl import DPOTrainer\n" SFT "args = DPOConfig" CALL, NULL},
    {"t.py", "from trl import ORPOTrainer\n" SFT "args = ORPOConfig" CALL, NULL},
    {"t.py", "from trl import BCOTrainer\n" SFT "args = BCOConfig" CALL,
     "(BCOConfig): both answers"},
    {"t.py", SFT "class Mine(GRPOTrainer):\n  pass\nargs = TrainingArguments" CALL,
     "(GRPOTrainer): answers are generated"},
    {"t.py", "from trl import DPOTrainer, SFTConfig\n" SFT "args = SFTConfig" CALL, NULL},
    {"t.py", "# DPOTrainer(x)\n" SFT "args = TrainingArguments" CALL, NULL},
    {"t.py",
     "m = AutoModelForSequenceClassification.from_pretrained('m')\nargs = TrainingArguments" CALL,
     NULL},
    {"t.py",
     "from transformers import AutoModelForTokenClassification\n" SFT
     "args = TrainingArguments" CALL,
     NULL},
    {"t.yaml", "stage: kto\nfinetuning_type: lora\ncutoff_len: 8\n",
     "(stage kto): LLaMA-Factory has"},
    {"t.yaml", "stage: sft\nfinetuning_type: lora\ncutoff_len: 8\n", NULL},
    {"t.yaml", "stage: rm\nfinetuning_type: lora\ncutoff_len: 8\n", "(stage rm): LLaMA-Factory's"},
    {"t.yaml", "model_name_or_path: m\nper_device_train_batch_size: 1\nloss_type: grpo\n",
     "scores generated answers"},
    {"t.yaml", "base_model: m\nrl: grpo\nsequence_len: 8\n", "(rl grpo): answers are generated"},
    {"t.yaml", "base_model: m\nrl:\nsequence_len: 8\n", NULL},
    {"t.yaml", "base_model: m\nrl: ebft\nsequence_len: 8\n", "(rl ebft): it generates"},
    {"t.yaml",
     "base_model: m\nmodel_type: AutoModelForSequenceClassification\nreward_model: true\n"
     "sequence_len: 8\n",
     NULL},
    {"t.yaml", "base_model: m\nmodel_type: AutoModelForSequenceClassification\nsequence_len: 8\n",
     "the head of this class"},
    {"t.sh", "trl dpo --use_peft --per_device_train_batch_size 1\n", NULL},
    {"t.sh", "accelerate launch -m trl.scripts.dpo --per_device_train_batch_size 1\n", NULL},
    {"t.sh", "accelerate launch -m trl.scripts.grpo --per_device_train_batch_size 1\n",
     "(trl.scripts.grpo): answers are"},
    {"t.sh", "python x/run_ppo.py --per_device_train_batch_size 1\n",
     "(x/run_ppo.py): answers are"},
    {"t.sh", "trl reward --use_peft --lora_task_type SEQ_CLS --per_device_train_batch_size 1\n",
     NULL},
    {"t.sh", "trl dpo --use_peft --lora_task_type SEQ_CLS --per_device_train_batch_size 1\n",
     "an adapter for this task"},
    {"t.sh", "# as trl dpo\npython dpo/sft.py --per_device_train_batch_size 1\n", NULL},
    {"t.yaml", "base_model: m\nsequence_len: 8\ntensor_parallel_size: 2\n", "tensor parallel"},
    {"t.yaml", "base_model: m\nsequence_len: 8\ncontext_parallel_size: 2\n", "context parallel"},
    {"t.yaml", "base_model: m\nsequence_len: 8\ndp_replicate_size: 2\n", "hybrid sharding"},
    {"t.sh",
     "torchrun p.py --micro-batch-size 1 --global-batch-size 8 --pipeline-model-parallel-size 2\n",
     "pipeline parallelism"},
};

TEST(unsupported_trainings_are_refused_with_the_reason) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    const char *reason = kinds[i].reason;
    bool ok = !read_text(kinds[i].file, kinds[i].text);
    bool is_refused = plim_project_refuse_unmodelled(&project, &error) != PLIM_OK;
    ok = ok && is_refused == (reason != NULL) && (!reason || strstr(error.message, reason));
    if (!ok) printf("%s: %s\n", kinds[i].text, error.message);
    test_count(reason ? reason : "modelled", ok);
  }
}

TEST(files_name_the_method_that_learns_from_preferences) {
#define TRL_FILE "model_name_or_path: m\nper_device_train_batch_size: 1\n"
  static const struct {
    const char *file, *text;
    plim_method method;
    bool holds_logits;
  } files[] = {
      {"t.py", "from trl import ORPOTrainer\n" SFT "args = ORPOConfig" CALL, PLIM_METHOD_ORPO,
       false},
      {"t.py", SFT "args = CPOConfig" CALL, PLIM_METHOD_CPO, false},
      {"t.py", SFT "args = KTOConfig" CALL, PLIM_METHOD_KTO, false},
      {"t.py", SFT "args = RewardConfig" CALL, PLIM_METHOD_REWARD, false},
      {"t.sh", "trl kto --use_peft --per_device_train_batch_size 1\n", PLIM_METHOD_KTO, false},
      {"t.sh", "python x/run_orpo.py --per_device_train_batch_size 1\n", PLIM_METHOD_ORPO, false},
      {"t.yaml", TRL_FILE "loss_type: apo_zero\n", PLIM_METHOD_DPO, false},
      {"t.yaml", TRL_FILE "loss_type: kto\n", PLIM_METHOD_KTO, false},
      {"t.yaml", TRL_FILE "center_rewards_coefficient: 0.01\n", PLIM_METHOD_REWARD, false},
      {"t.yaml", TRL_FILE "beta: 0.1\nmax_prompt_length: 8\noutput_dir: my-orpo\n",
       PLIM_METHOD_ORPO, true},
      {"t.yaml", "base_model: m\nrl: simpo\nsequence_len: 8\n", PLIM_METHOD_SIMPO, true},
      {"t.yaml", "base_model: m\nrl: ipo\nsequence_len: 8\n", PLIM_METHOD_DPO, true},
      {"t.yaml", "base_model: m\nreward_model: true\nsequence_len: 8\n", PLIM_METHOD_REWARD, true},
      {"t.yaml", "base_model: m\nprocess_reward_model: true\nsequence_len: 8\n", PLIM_METHOD_PRM,
       true},
      {"t.yaml", "base_model: m\nsequence_len: 8\n", PLIM_METHOD_TEXTS, false},
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    bool ok = !read_text(files[i].file, files[i].text);
    plim_project_method found = plim_project_trains(&project);
    CHECK(ok && found.method == files[i].method && found.holds_logits == files[i].holds_logits,
          "%s is %s", files[i].text, plim_method_names[found.method]);
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

// ---- what a framework refuses ------------------------------------------------------------------------

#define TUNE(command, builder)                                                                     \
  "# tune run " command " --config t.yaml\nmodel:\n  _component_: torchtune.models.qwen2." builder \
  "\n"
#define FULL TUNE("--nproc_per_node 2 full_finetune_distributed", "m")
#define LORA TUNE("lora_finetune_single_device", "lora_m")
#define KD TUNE("knowledge_distillation_single_device", "lora_m")
#define FACTORY "stage: sft\nfinetuning_type: lora\ncutoff_len: 8\n"
#define AXOLOTL "base_model: m\nsequence_len: 8\n"

// The first refusal; NULL: nothing is refused.
static const char *refusal_of(const char *text) {
  static char message[256];
  plim_notes notes = {0};
  if (read_text("t.yaml", text)) return error.message;
  plim_project_note_refusals(&project, &notes);
  snprintf(message, sizeof message, "%s", notes.list.len ? notes.list.at[0].message : "");
  plim_notes_clear(&notes);
  return *message ? message : NULL;
}

TEST(null_is_not_the_default) {
  static const struct {
    const char *text, *refusal;
  } files[] = {
      {FULL "log_every_n_steps: null\n",
       "with log_every_n_steps: null, torchtune stops with an error at the end of its first step; "
       "set another value, or remove the line for the default, which is 1"},
      {FULL "log_every_n_steps: 0\n", "with log_every_n_steps: 0, torchtune stops"},
      {FULL "log_every_n_steps: 1\n", NULL},
      {FULL "gradient_accumulation_steps:\n", "before its first step; set it to at least 1"},
      {FULL "max_steps_per_epoch: null\nclip_grad_norm: null\nseed: null\ncompile: null\n", NULL},
      {FULL "max_steps_per_epoch: 0\n", "with max_steps_per_epoch: 0"},
      {FULL "lr_scheduler: null\n", NULL},
      {LORA "lr_scheduler: null\n", "with lr_scheduler: null"},
      {FULL "run_val_every_n_steps: 0\n", "with run_val_every_n_steps: 0"},
      {LORA "run_val_every_n_steps: 0\n", NULL},
      {KD "kd_ratio: null\n", "in its first step; set another value"},
      {LORA "kd_ratio: null\n", NULL},
      {"model:\n  _component_: torchtune.models.qwen2.lora_m\n  lora_dropout: null\n",
       "with model.lora_dropout: null and model._component_"},
      {LORA "dataset:\n  packed: True\ntokenizer:\n  max_seq_len: null\n",
       "with dataset.packed, torchtune stops"},
      {LORA "dataset:\n  packed: True\ntokenizer:\n  max_seq_len: 8\n", NULL},
      {FACTORY "gradient_accumulation_steps: null\n", "stops with an error before its first step"},
      {FACTORY "logging_steps: 0\n", "refuses logging_steps: 0"},
      {FACTORY "logging_steps: 0\nlogging_strategy: epoch\n", NULL},
      {FACTORY "lora_rank:\n", "with lora_rank: null"},
      {FACTORY "deepspeed: null\nresume_from_checkpoint: null\n", NULL},
      {AXOLOTL "num_epochs:\n", "Axolotl 0.19 refuses num_epochs: null"},
      {AXOLOTL "gradient_accumulation_steps:\nbatch_size: 8\n", NULL},
      {AXOLOTL "wandb_project:\neval_batch_size:\nlora_dropout:\n", NULL},
  };
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const char *found = refusal_of(files[i].text), *wanted = files[i].refusal;
    CHECK(wanted ? found && strstr(found, wanted) : !found, "%s: %s", files[i].text,
          found ? found : "accepted");
  }
  CHECK(!read_text("t.yaml", FULL "dtype: null\n") && says("dtype=fp32"), "torchtune's get_dtype");
}

TEST(adapters_that_start_from_the_weights_take_plain_ones) {
  static const char *const starts[] = {"peft:\n  loftq_config:\n    loftq_bits: 4\n",
                                       "peft_init_lora_weights: pissa_niter_4\n"};
  char text[256];
  for (size_t i = 0; i < 2; i++) {
    snprintf(text, sizeof text, AXOLOTL "adapter: qlora\nload_in_4bit: true\n%s", starts[i]);
    const char *found = refusal_of(text);
    CHECK(found && strstr(found, " and load_in_4bit, Axolotl stops with an error in its first"),
          "%s", found ? found : "accepted");
    snprintf(text, sizeof text, AXOLOTL "adapter: lora\nlora_r: 8\nload_in_4bit: false\n%s",
             starts[i]);
    CHECK(!refusal_of(text), "plain weights");
    CHECK(strstr(project.knobs[PLIM_KNOB_QUANTISATION].why, "from plain weights"), "%s%s",
          starts[i], project.knobs[PLIM_KNOB_QUANTISATION].why);
  }
  CHECK(!refusal_of(AXOLOTL "adapter: qlora\nload_in_4bit: true\npeft_init_lora_weights: olora\n"),
        "OLoRA computes with the weights that they stand for");
  CHECK(refusal_of(FACTORY "pissa_init: true\nquantization_bit: 4\n"), "LLaMA-Factory");
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

TEST(custom_names_are_bound) {
  CHECK(
      !read_named("knobs:\n  micro_batch: c.yaml:examples_at_once\n"
                  "  checkpoint: {file: c.yaml, key: save_memory, values: {high: on, low: off}}\n",
                  "c.yaml", "examples_at_once: 6\nsave_memory: low\n"),
      "%s", error.message);
  CHECK(says("micro_batch=6 checkpoint=off"), "values");
  CHECK(changes("micro_batch", "3") && changes("checkpoint", "on"), "both change");
}

TEST(names_outside_of_their_section_are_refused) {
  CHECK(read_named("model: c.toml:net.arch\nmicro_batch: c.toml:x\n", "c.toml", "x = 1\n"),
        "model");
  CHECK(strstr(error.message, "model is outside the section knobs:") &&
            strcmp(error.file, "plimsoll.yaml") == 0 && strstr(error.hint, "\"knobs:\""),
        "%s", error.message);
  CHECK(read_named("checkpoint: {file: c.yaml, key: x}\n", "c.yaml", "x: 1\n"), "the long form");
  CHECK(strstr(error.message, "checkpoint is outside the section"), "%s", error.message);
  CHECK(read_named("knob:\n  micro_batch: c.yaml:x\n", "c.yaml", "x: 1\n"), "knob:");
  CHECK(strstr(error.message, "there is no section knob;") && strcmp(error.hint, "knobs:") == 0,
        "%s", error.hint);
  CHECK(!read_named("knobs:\nfiles: {}\n", "c.yaml", "x: 1\n"), "%s", error.message);
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
  CHECK(project.files.at[1]->is.dialect == PLIM_DIALECT_LITGPT && !project.notes.list.len, "told");
}

TEST_MAIN
