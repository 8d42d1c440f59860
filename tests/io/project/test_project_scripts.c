// Scripts that are started by commands: the flags their parsers accept, and how their loops accumulate.
#include "project_change.h"
#include "projects.h"

// ---- parsers ----------------------------------------------------------------------------------------

#define PARSER                                                                                     \
  "p = argparse.ArgumentParser()\n"                                                                \
  "p.add_argument(\"--per_device_train_batch_size\", type=int, default=4)\n"                       \
  "p.add_argument(\"--max_length\", type=int, default=1024)\n"                                     \
  "p.add_argument(\"--lora_r\", type=int, default=16)\n"                                           \
  "args = p.parse_args()\n"
#define CALLS                                                                                      \
  "model = get_peft_model(AutoModelForCausalLM.from_pretrained(\"Qwen/Qwen2.5-7B\"), "             \
  "LoraConfig(r=args.lora_r))\n"                                                                   \
  "targs = TrainingArguments(output_dir=\"o\", bf16=True,\n"                                       \
  "    per_device_train_batch_size=args.per_device_train_batch_size)\n"                            \
  "Trainer(model=model, args=targs, train_dataset=ds).train()\n"
#define IMPORTS                                                                                    \
  "import argparse\nfrom transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"   \
  "from peft import LoraConfig, get_peft_model\n"

static const char command[] = "python train.py --per_device_train_batch_size 8 --max_length 2048 "
                              "--lora_r 32\n";

static bool writes(size_t file, const char *name, const char *to, const char *expected) {
  plim_edit_set edits;
  if (!set(name, to, &edits)) return printf("%s\n", error.message), false;
  char *text = text_after(file, &edits);
  bool is = text && strstr(text, expected);
  if (!is) printf("%s", text ? text : error.message);
  free(text);
  plim_edit_set_clear(&edits);
  return is;
}

TEST(a_parser_of_its_own_takes_no_other_flags) {
  CHECK(!read_two("run.sh", command, "train.py", IMPORTS PARSER CALLS), "%s", error.message);
  CHECK(project.files.at[0]->is.dialect == PLIM_DIALECT_HF, "it speaks what the script does");
  CHECK(says("micro_batch=8 sequence=2048 lora_rank=32"), "its flags");
  CHECK(writes(1, "liger", "on", "use_liger_kernel=True)"), "the call");
  CHECK(writes(0, "liger", "on", "--lora_r 32\n"), "nothing behind the command");
  CHECK(refuses("chunked_loss", "256", ""), "a key that the trainer does not have");
}

TEST(adapters_are_checkpointed_in_the_call) {
  CHECK(!read_two("run.sh", command, "train.py", IMPORTS PARSER CALLS), "%s", error.message);
  CHECK(writes(1, "checkpoint", "on", "gradient_checkpointing_kwargs={\"use_reentrant\": False}"),
        "without reentrance");
  CHECK(writes(0, "checkpoint", "on", "--lora_r 32\n"), "nothing behind the command");
}

TEST(flags_that_a_parser_knows_are_added) {
  static const char knows[] =
      IMPORTS PARSER "p.add_argument('--use-liger-kernel', action='store_true')\n" CALLS;
  CHECK(!read_two("run.sh", command, "train.py", knows), "%s", error.message);
  CHECK(strstr(project.files.at[0]->flags, " use_liger_kernel "), "%s", project.files.at[0]->flags);
  CHECK(!read_two("run.sh", command, "train.py",
                  "parser = HfArgumentParser(TrainingArguments)\nTrainer(model=m).train()\n"),
        "%s", error.message);
  CHECK(!project.files.at[0]->flags, "dataclasses have all");
  CHECK(writes(0, "liger", "on", "--use_liger_kernel"), "a flag");
}

TEST(comments_and_texts_are_not_parsers) {
  static const char knows[] = IMPORTS "# HfArgumentParser would know --use-liger-kernel\n"
                                      "'''\nfrom megatron import x\n"
                                      "p.add_argument('--use_liger_kernel')\n'''\n"
                                      "NOTE = 'LightningCLI'\n" PARSER CALLS;
  CHECK(!read_two("run.sh", command, "train.py", knows), "%s", error.message);
  CHECK(project.files.at[0]->flags, "a parser of its own");
  CHECK(!strstr(project.files.at[0]->flags, "liger"), "%s", project.files.at[0]->flags);
  CHECK(writes(1, "liger", "on", "use_liger_kernel=True)"), "the call");
  static const char none[] = IMPORTS "# p.add_argument('--x')\nHELP = 'argparse.ArgumentParser('\n"
                                     "import os, megatron.core\nTrainer(model=m).train()\n";
  CHECK(!read_two("run.sh", command, "train.py", none), "%s", error.message);
  CHECK(!project.files.at[0]->flags, "none of its own");
}

// ---- loops ------------------------------------------------------------------------------------------

#define HEAD                                                                                       \
  "import torch\nfrom torch.utils.data import DataLoader\n"                                        \
  "from transformers import AutoModelForCausalLM\n"                                                \
  "batch_size = 8\ngrad_accum = 4\n"                                                               \
  "model = AutoModelForCausalLM.from_pretrained(\"Qwen/Qwen2.5-1.5B\").cuda()\n"                   \
  "opt = torch.optim.AdamW(model.parameters(), lr=1e-5)\n"                                         \
  "loader = DataLoader(ds, batch_size=batch_size)\n"
#define BODY                                                                                       \
  "    loss.backward()\n"                                                                          \
  "    if (i + 1) %% grad_accum == 0:\n        opt.step(); opt.zero_grad()\n"

static plim_err read_loop(const char *before, const char *loss) {
  char text[2048];
  snprintf(text, sizeof text, HEAD "%sfor i, batch in enumerate(loader):\n%s" BODY, before, loss);
  return read_text("train.py", text);
}

TEST(names_that_count_passes_are_the_accumulation) {
  static const struct {
    const char *before, *loss;
  } loops[] = {
      {"", "    loss = model(**batch).loss / grad_accum\n"},
      {"", "    loss = model(**batch).loss\n    loss = loss / grad_accum\n"},
      {"", "    loss = model(**batch).loss\n    loss /= grad_accum\n"},
      {"steps = len(loader) // grad_accum\n", "    loss = model(**batch).loss / grad_accum\n"},
      {"updates = math.ceil(len(loader) / grad_accum)\n", "    loss = f(batch) / grad_accum\n"},
  };
  for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
    CHECK(!read_loop(loops[i].before, loops[i].loss), "%s", error.message);
    CHECK(says("micro_batch=8 accumulate=4") && writes(0, "accumulate", "16", "grad_accum = 16\n"),
          "%zu", i);
  }
}

TEST(other_values_computed_from_it_are_reported) {
  CHECK(!read_loop("lr = 1e-5 / grad_accum\n", "    loss = model(**batch).loss / grad_accum\n"),
        "%s", error.message);
  CHECK(refuses("accumulate", "16", "lr (line 9) is computed from it and would change too"),
        "a learning rate");
  CHECK(!strstr(error.message, "loss (line"), "the loss goes with it: %s", error.message);
  CHECK(!strstr(error.hint, "in place of"), "no blind advice: %s", error.hint);
}

TEST(data_are_not_a_micro_batch) {
  static const char *const moves[] = {
      "    batch = {k: v.cuda() for k, v in batch.items()}\n",
      "    batch = batch.to(\"cuda\")\n",
      "    batch = [x.to(0) for x in batch]\n",
      "    batch = tuple(t.to(device) for t in batch)\n",
  };
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
    CHECK(!read_loop("", moves[i]), "%s", error.message);
    CHECK(says("micro_batch=8"), "%s", moves[i]);
  }
  CHECK(!read_text("t.py", "import torch\nfrom transformers import AutoModelForCausalLM\n"
                           "batch = int(sys.argv[1])\nloader = DataLoader(ds, batch)\n"
                           "model = AutoModelForCausalLM.from_pretrained(\"gpt2\")\n"
                           "opt = torch.optim.AdamW(model.parameters())\n"),
        "%s", error.message);
  CHECK(says("micro_batch=unclear"), "a count that is computed");
}

// ---- other programs ---------------------------------------------------------------------------------

TEST(a_sweep_is_not_a_value) {
  static const char sweep[] = "python train.py -m train.per_device_train_batch_size=4,8 "
                              "train.gradient_accumulation_steps=4\n";
  CHECK(!read_two("run.sh", sweep, "base.yaml",
                  "per_device_train_batch_size: 2\ngradient_accumulation_steps: 8\nbf16: true\n"
                  "learning_rate: 1e-4\nnum_train_epochs: 1\n"),
        "%s", error.message);
  CHECK(says("micro_batch=unclear accumulate=4"), "Hydra runs it twice");
  CHECK(strstr(project.knobs[PLIM_KNOB_MICRO_BATCH].why, "4,8"), "%s",
        project.knobs[PLIM_KNOB_MICRO_BATCH].why);
}

static bool is_modelled(const char *script) {
  char text[256];
  snprintf(text, sizeof text,
           "python examples/%s --model_name_or_path google-bert/bert-base-uncased "
           "--per_device_train_batch_size 8 --max_seq_length 128 --output_dir o\n",
           script);
  return !read_text("run.sh", text) && !plim_project_refuse_unmodelled(&project, &error);
}

TEST(examples_with_other_heads_are_refused) {
  static const char *const heads[] = {"run_image_classification.py",
                                      "run_speech_recognition_ctc.py"};
  static const char *const labels[] = {"run_glue.py", "run_qa.py", "run_qa_no_trainer.py",
                                       "run_ner.py", "run_swag.py"};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
    CHECK(!is_modelled(heads[i]), "%s", heads[i]);
    CHECK(strstr(error.message, "head of"), "%s", error.message);
  }
  for (size_t i = 0; i < sizeof labels / sizeof *labels; i++)
    CHECK(is_modelled(labels[i]), "%s: %s", labels[i], error.message);
  CHECK(is_modelled("run_clm.py") && is_modelled("run_mlm.py") &&
            is_modelled("run_clm_no_trainer.py"),
        "language models");
}

TEST(slurm_directives_set_its_variables) {
  static const char script[] =
      "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --gres=gpu:a100:8\n"
      "srun torchrun --nnodes $SLURM_NNODES --nproc_per_node %s train.py "
      "--model_name_or_path Qwen/Qwen2.5-7B --per_device_train_batch_size 2\n";
  static const char *const gpus[] = {"8", "$SLURM_GPUS_ON_NODE"};
  for (size_t i = 0; i < 2; i++) {
    char text[512];
    snprintf(text, sizeof text, script, gpus[i]);
    CHECK(!read_text("run.sh", text), "%s", error.message);
    CHECK(says("nodes=4 world=32"), "%s", gpus[i]);
  }
  CHECK(!read_text("run.sh", "torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 train.py "
                             "--per_device_train_batch_size 2\n"),
        "%s", error.message);
  CHECK(says("world=unclear"), "no directive");
}

TEST(mistyped_keys_are_noted) {
  static const struct {
    const char *key;
    bool is_noted;
  } keys[] = {{"per_device_train_bach_size", true},   {"per_device_eval_batch_size", false},
              {"gradient_accumulation_step", true},   {"gradient_checkpointing_kwargs", false},
              {"gradient_checkpoiting", true},        {"warmup_steps", false},
              {"per_device_train_batch_size", false}, {"lora_t", false}};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    char text[256];
    snprintf(text, sizeof text,
             "model_name_or_path: gpt2\nlearning_rate: 1e-4\nnum_train_epochs: 1\n"
             "dataset_name: x\noutput_dir: o\nbf16: true\nmax_length: 512\n%s: 2\n",
             keys[i].key);
    CHECK(!read_text("a.yaml", text), "%s", error.message);
    plim_project_note_typos(&project);
    CHECK((project.notes.list.len == 1) == keys[i].is_noted, "%s", keys[i].key);
  }
}

#define SENTENCES                                                                                  \
  "from sentence_transformers import SentenceTransformer, losses\n"                                \
  "from torch.utils.data import DataLoader\n"                                                      \
  "model = SentenceTransformer(\"BAAI/bge-large-en-v1.5\")\n"                                      \
  "loss = losses.MultipleNegativesRankingLoss(model)\n"

TEST(the_data_loader_passed_to_fit_sets_the_batch) {
  CHECK(!read_text("train.py", SENTENCES
                   "loader = DataLoader(examples, shuffle=True, batch_size=256)\n"
                   "model.fit(train_objectives=[(loader, loss)], epochs=2, use_amp=True)\n"),
        "%s", error.message);
  CHECK(says("micro_batch=256 precision=fp16 epochs=2"), "the older interface");
  CHECK(!read_text("train.py", SENTENCES
                   "loader = DataLoader(pairs, batch_size=256)\n"
                   "args = SentenceTransformerTrainingArguments(output_dir=\"o\", bf16=True)\n"
                   "SentenceTransformerTrainer(model=model, args=args, loss=loss).train()\n"),
        "%s", error.message);
  CHECK(says("micro_batch=8 precision=bf16"), "the trainer has its own");
}

TEST_MAIN
