// How a change is written: quotes, new keys, side effects, and arguments of another optimizer.
#include <stdlib.h>

#include "project_change.h"
#include "projects.h"

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

TEST(the_users_quotes_are_kept) {
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
  CHECK(
      refuses("empty_cache", "4", "next to stage1.per_device_train_batch_size or next to stage2."),
      "YAML");
  CHECK(!read_text("c.py", "a = TrainingArguments(per_device_train_batch_size=8)\n"
                           "b = TrainingArguments(per_device_train_batch_size=8)\n"),
        "%s", error.message);
  CHECK(changes("empty_cache", "4"), "trainings that say the same");
  CHECK(!read_text("c.yaml", "stage1:\n  per_device_train_batch_size: 8\nstage2:\n  seed: 1\n"),
        "%s", error.message);
  CHECK(changes("empty_cache", "4"), "one place");
}

// ---- calls that take a key, and calls that do not ---------------------------------------------------

#define ARGUMENTS "p.add_argument('--per_device_train_batch_size', type=int, default=8)\n"

static const struct {
  const char *text, *knob, *to, *refusal; // refusal NULL: it is written
} callees[] = {
    {ARGUMENTS "a = Accelerator(gradient_accumulation_steps=4)\n", "liger", "on",
     "Accelerator(...) may not accept an argument use_liger_kernel"},
    {ARGUMENTS "a = accelerate.Accelerator(gradient_accumulation_steps=4)\n", "checkpoint", "on",
     "Accelerator(...) may not accept an argument gradient_checkpointing"},
    {ARGUMENTS "a = Accelerator(gradient_accumulation_steps=4)\nb = TrainingArguments(bf16=True)\n",
     "liger", "on", NULL},
    {ARGUMENTS "def train(bf16):\n    pass\ntrain(bf16=True)\n", "liger", "on",
     "train(...) may not accept an argument use_liger_kernel"},
    {"a = transformers.Seq2SeqTrainingArguments(per_device_train_batch_size=8)\n", "liger", "on",
     NULL},
    {"c = dict(per_device_train_batch_size=8)\n", "liger", "on", NULL},
    {"c = {'per_device_train_batch_size': 8}\nArgs(**c)\n", "liger", "on", NULL},
};

TEST(a_new_key_goes_only_into_a_call_that_takes_it) {
  for (size_t i = 0; i < sizeof callees / sizeof *callees; i++) {
    bool ok = !read_text("t.py", callees[i].text);
    ok = ok && (callees[i].refusal ? refuses(callees[i].knob, callees[i].to, callees[i].refusal)
                                   : changes(callees[i].knob, callees[i].to));
    test_count(callees[i].text, ok);
  }
}

TEST(refusals_name_what_stands_in_the_way) {
  CHECK(!read_text("c.yaml", "a:\n  per_device_train_batch_size: 8\nb:\n"
                             "  per_device_train_batch_size: 8\n"),
        "%s", error.message);
  CHECK(changes("micro_batch", "2"), "two that agree change together");
  CHECK(!read_text("c.yaml", "a:\n  per_device_train_batch_size: 8\nb:\n"
                             "  per_device_train_batch_size: 4\n"),
        "%s", error.message);
  CHECK(
      refuses("micro_batch", "2", "a.per_device_train_batch_size is 8 in line 2, but b.per_device"),
      "two that do not agree");
  CHECK(!read_text("c.py", "N = 8\nTrainingArguments(per_device_train_batch_size=N,\n"
                           "    dataloader_num_workers=N)\n"),
        "%s", error.message);
  CHECK(refuses("micro_batch", "2", "workers would change to 2 as well"), "another knob");
  CHECK(!read_text("c.py", "batch_size = 8\no = torch.optim.AdamW(model.parameters(), lr=2e-5)\n"),
        "%s", error.message);
  CHECK(refuses("optimizer", "paged-adamw", "the call torch.optim.AdamW(...) decides it") &&
            !error.hint[0],
        "a call: %s", error.hint);
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
     "which would be 32, and plimsoll does not rewrite"},
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

TEST(computed_values_that_stay_are_no_side_effects) {
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

// The classes of bitsandbytes do not accept fused=True of torch.optim.
TEST(arguments_that_another_optimizer_does_not_accept_are_removed) {
  static const char tune[] =
      "model:\n  _component_: torchtune.models.qwen2_5.lora_qwen2_5_0_5b\n  lora_rank: 8\n"
      "tokenizer:\n  _component_: torchtune.models.qwen2_5.qwen2_5_tokenizer\n"
      "  max_seq_len: 64\n"
      "optimizer:\n  _component_: torch.optim.AdamW\n  fused: True  # fast\n  lr: 2e-3\n"
      "batch_size: 2\ngradient_accumulation_steps: 8\n";
  plim_edit_set edits;
  CHECK(!read_text("tune.yaml", tune), "%s", error.message);
  CHECK(project.dialect == PLIM_DIALECT_TORCHTUNE && says("optimizer=adamw"), "as it is");
  CHECK(set("optimizer", "adamw-8bit", &edits), "%s", error.message);
  char *text = text_after(0, &edits);
  CHECK(text && strstr(text, "_component_: bitsandbytes.optim.AdamW8bit\n  lr: 2e-3\n"), "%s",
        text);
  free(text);
  plim_edit_set_clear(&edits);
  CHECK(set("optimizer", "adamw-foreach", &edits), "%s", error.message);
  text = text_after(0, &edits);
  CHECK(text && strstr(text, "torch.optim.AdamW\n  fused: null  # fast\n"), "%s", text);
  free(text);
  plim_edit_set_clear(&edits);
}

TEST(arguments_of_the_old_optimizer_are_removed_with_it) {
  static const char python[] = "args = TrainingArguments(\n    per_device_train_batch_size=2,\n"
                               "    optim=\"galore_adamw\",\n    optim_args=\"rank=64\",\n"
                               "    gradient_accumulation_steps=8,\n)\n";
  plim_edit_set edits;
  CHECK(!read_text("train.py", python), "%s", error.message);
  CHECK(set("optimizer", "adamw-8bit", &edits), "%s", error.message);
  CHECK(becomes(0, &edits,
                "args = TrainingArguments(\n    per_device_train_batch_size=2,\n"
                "    optim=\"adamw_bnb_8bit\",\n    gradient_accumulation_steps=8,\n)\n"),
        "both");
  plim_edit_set_clear(&edits);
}

TEST_MAIN
