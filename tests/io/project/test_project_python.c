// Python scripts that train: models, variables, values that are set twice, conditional code, manual loops.
#include "project_change.h"
#include "projects.h"

// ---- models and variables of scripts ----------------------------------------------------------------

TEST(the_model_is_the_argument_of_from_pretrained) {
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
  CHECK(refuses("micro_batch", "2", "tune.batch_size is 8"), "which of them");
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
     "micro_batch=4"},
    {"setattr of a name that is computed",
     "p.add_argument('--n', default=8)\nargs = p.parse_args()\nsetattr(args, NAME, 4)\n" ARGS(
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

TEST(values_that_python_sets_twice_are_read_in_order) {
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
    test_count(orders[i].name, !read_text("t.py", orders[i].text) && says(orders[i].says));
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

TEST(conditional_code_counts_if_it_runs) {
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

TEST(an_unknown_condition_leaves_the_knob_open) {
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

#define SCRIPT "from transformers import Trainer, TrainingArguments\n"
#define ARGUMENTS                                                                                  \
  "from transformers import Trainer, TrainingArguments\np = argparse.ArgumentParser()\n"           \
  "p.add_argument('--use_lora', action='store_true')\n"                                            \
  "p.add_argument('--load_in_4bit', action='store_true')\n"                                        \
  "args = p.parse_args()\n"
#define RANK "p.add_argument('--lora_r', type=int, default=8)\n"
#define DATACLASS                                                                                  \
  "from transformers import Trainer, TrainingArguments\n@dataclass\nclass ModelArguments:\n"       \
  "    use_lora: bool = field(default=False)\n    lora_r: int = 8\n"                               \
  "model_args, training_args = HfArgumentParser((ModelArguments, "                                 \
  "T)).parse_args_into_dataclasses()\n"
#define MODEL                                                                                      \
  "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-7B')\n"                              \
  "Trainer(model=model, args=TrainingArguments(per_device_train_batch_size=4))\n"

TEST(one_of_two_configurations_counts_by_its_condition) {
  static const char given[] =
      ARGUMENTS "b = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4')\n"
                "m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-7B', quantization_config=b "
                "if args.load_in_4bit else None)\n"
                "Trainer(model=m, args=TrainingArguments(bf16=True), peft_config=LoraConfig(r=16) "
                "if args.use_lora else None)\n";
  CHECK(!read_text("train.py", given), "%s", error.message);
  CHECK(says("lora_rank=0 quantisation=plain"), "neither is given");
  CHECK(!read_two("train.py", given, "run.sh", "python train.py --use_lora --load_in_4bit\n"), "%s",
        error.message);
  CHECK(says("lora_rank=16 quantisation=nf4"), "a command gives both");
}

TEST(a_case_that_may_not_match_leaves_the_knob_open) {
  CHECK(!read_text("train.py",
                   MODEL "match mode:\n    case 'lora':\n        peft = LoraConfig(r=64)\n"
                         "    case _:\n        peft = None\n"),
        "%s", error.message);
  CHECK(says("lora_rank=unclear"), "one of two");
  CHECK(!read_text("train.py", MODEL "match mode:\n    case _:\n        p = LoraConfig(r=64)\n"),
        "%s", error.message);
  CHECK(says("lora_rank=64"), "the only one");
}

TEST(an_unused_rank_is_ignored) {
  CHECK(!read_text("train.py", ARGUMENTS RANK MODEL
                   "if args.use_lora:\n    m = get_peft_model(model, LoraConfig(r=args.lora_r))\n"),
        "%s", error.message);
  CHECK(says("lora_rank=0"), "a default behind an if");
  CHECK(!read_text("train.py", ARGUMENTS RANK MODEL
                   "if sys.argv[5]:\n    m = get_peft_model(model, LoraConfig(r=args.lora_r))\n"),
        "%s", error.message);
  CHECK(says("lora_rank=unclear"), "one that is not known");
  CHECK(!read_text("train.py",
                   ARGUMENTS RANK MODEL "a = LoraConfig(r=args.lora_r)\n"
                                        "if args.use_lora:\n    f(LoraConfig(r=args.lora_r))\n"
                                        "m = get_peft_model(model, a)\n"),
        "%s", error.message);
  CHECK(says("lora_rank=8"), "one of two always counts");
}

TEST(an_unused_rank_of_another_file_is_ignored) {
  static const char script[] = SCRIPT
      "cfg = yaml.safe_load(open('c.yaml'))\n" MODEL
      "if cfg['lora']['on']:\n    m = get_peft_model(model, LoraConfig(r=cfg['lora']['r']))\n";
  CHECK(!read_two("train.py", script, "c.yaml", "lora: {on: false, r: 8}\n"), "%s", error.message);
  CHECK(says("lora_rank=0"), "not turned on");
  CHECK(changes("micro_batch", "2"), "something else is changed");
  CHECK(!read_two("train.py", script, "c.yaml", "lora: {on: true, r: 8}\n"), "%s", error.message);
  CHECK(says("lora_rank=8"), "turned on");
  CHECK(!read_two("train.py", script, "c.yaml", "lora: {on: '${oc.env:LORA}', r: 8}\n"), "%s",
        error.message);
  CHECK(says("lora_rank=unclear"), "not known");
}

TEST(fields_of_dataclasses_decide_conditions) {
  static const char uses[] = "Trainer(model=m, peft_config=LoraConfig(r=model_args.lora_r) if "
                             "model_args.use_lora else None)\n";
  char text[1024];
  snprintf(text, sizeof text, "%s%s", DATACLASS MODEL, uses);
  CHECK(!read_text("train.py", text), "%s", error.message);
  CHECK(says("lora_rank=0"), "the default");
  snprintf(text, sizeof text, "%s%s", DATACLASS MODEL "model_args.use_lora = f()\n", uses);
  CHECK(!read_text("train.py", text), "%s", error.message);
  CHECK(says("lora_rank=unclear"), "it is assigned since");
  snprintf(text, sizeof text, "%s%s", DATACLASS MODEL, uses);
  CHECK(!read_two("train.py", text, "run.sh", "python train.py --use_lora True\n"), "%s",
        error.message);
  CHECK(says("lora_rank=8"), "a flag");
}

TEST(an_unused_dict_contains_no_settings) {
  CHECK(!read_text("train.py",
                   SCRIPT "note = {'fsdp': 'full_shard for large runs'}\n"
                          "ui = {'gradient_checkpointing': True, 'load_in_4bit': True}\n"
                          "ui['per_device_train_batch_size'] = 64\nprint(note, ui)\n" MODEL),
        "%s", error.message);
  CHECK(says("strategy=unknown checkpoint=off quantisation=plain micro_batch=4"), "notes");
  CHECK(!read_text("train.py", SCRIPT "config = {'gradient_checkpointing': True}\n" MODEL), "%s",
        error.message);
  CHECK(says("checkpoint=unclear"), "what sounds like settings is asked for");
  CHECK(!read_text("train.py", SCRIPT "more = {'gradient_checkpointing': True}\n" MODEL
                                      "TrainingArguments(**more)\n"),
        "%s", error.message);
  CHECK(says("checkpoint=on"), "one that is given");
  CHECK(!read_text("presets.py", "presets = {'gradient_checkpointing': True, 'bf16': True,\n"
                                 "           'per_device_train_batch_size': 4}\n"),
        "%s", error.message);
  CHECK(says("checkpoint=on"), "a file that is there for others");
}

TEST(a_dict_that_another_script_uses_contains_settings) {
  static const char settings[] =
      SCRIPT "run = {'gradient_checkpointing': True}\nclass A:\n    b = B(c=1)\n";
  CHECK(!read_two("train.py", SCRIPT MODEL "Trainer(args=TrainingArguments(**run))\n", "run.py",
                  settings),
        "%s", error.message);
  CHECK(says("checkpoint=on"), "it is used there");
  CHECK(!read_two("train.py", SCRIPT MODEL "# run\n", "run.py", settings), "%s", error.message);
  CHECK(says("checkpoint=off"), "a comment uses nothing");
}

TEST(a_notebook_of_unsloth_with_trainers_arguments_is_unsloths) {
  CHECK(!read_text("notebook.py",
                   "m, t = FastLanguageModel.from_pretrained(model_name='unsloth/Qwen2.5-7B', "
                   "max_seq_length=1024)\n"
                   "m = FastLanguageModel.get_peft_model(m, r=16)\n"
                   "SFTTrainer(model=m, args=TrainingArguments(per_device_train_batch_size=2, "
                   "gradient_accumulation_steps=4, num_train_epochs=1, bf16=True))\n"),
        "%s", error.message);
  CHECK(project.files.at[0]->is.dialect == PLIM_DIALECT_UNSLOTH, "transformers' arguments in it");
  CHECK(says("micro_batch=2 accumulate=4 lora_rank=16 sequence=1024"), "both");
}

TEST(a_loop_with_accelerate_sets_its_precision) {
  CHECK(!read_text("train.py",
                   "p = argparse.ArgumentParser()\n"
                   "p.add_argument('--per_device_train_batch_size', type=int, default=8)\n"
                   "p.add_argument('--mixed', default='bf16')\nargs = p.parse_args()\n"
                   "accelerator = Accelerator(mixed_precision=args.mixed)\n"),
        "%s", error.message);
  CHECK(says("micro_batch=8 precision=bf16"), "accelerate's word for it");
}

TEST(lightning_keeps_the_type_in_which_a_model_is_loaded) {
  static const char module[] =
      "m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-7B', torch_dtype=torch.bfloat16)\n"
      "L.Trainer(max_epochs=1, accumulate_grad_batches=4, precision='%s')\n";
  char text[512];
  snprintf(text, sizeof text, module, "bf16-mixed");
  CHECK(!read_text("train.py", text), "%s", error.message);
  CHECK(says("dtype=bf16 precision=bf16"), "mixed precision leaves parameters alone");
}

TEST(a_dict_that_deepspeed_takes_is_read) {
  CHECK(!read_text("train.py",
                   "c = {'train_micro_batch_size_per_gpu': 4, 'gradient_accumulation_steps': 8,\n"
                   "     'bf16': {'enabled': True}, 'zero_optimization': {'stage': 2}}\n"
                   "m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-7B')\n"
                   "engine, *_ = deepspeed.initialize(model=m, config=c)\n"),
        "%s", error.message);
  CHECK(says("micro_batch=4 accumulate=8 strategy=zero2 precision=bf16"), "its keys");
  CHECK(changes("micro_batch", "2"), "in place");
}

TEST(a_dict_of_a_function_counts_where_it_is_unpacked) {
  static const char given[] =
      SCRIPT "def make():\n    kw = dict(per_device_train_batch_size=4, bf16=True)\n%s"
             "    return TrainingArguments(output_dir='o', **kw)\n"
             "def row():\n    r = {'per_device_train_batch_size': 64}\n    return r\n"
             "Trainer(args=make())\n";
  char text[512];
  snprintf(text, sizeof text, given, "");
  CHECK(!read_text("train.py", text), "%s", error.message);
  CHECK(says("micro_batch=4 precision=bf16"), "what is unpacked, not what is handed back");
  CHECK(changes("micro_batch", "2"), "it is changed there");
  snprintf(text, sizeof text, given, "    kw.update(more)\n");
  CHECK(!read_text("train.py", text), "%s", error.message);
  CHECK(says("micro_batch=unclear"), "it may be changed since");
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

TEST(many_trainings_of_one_script_change_together) {
  enum { TRAININGS = 12 };
  char text[TRAININGS * 128] = "";
  for (int i = 0; i < TRAININGS; i++)
    strcat(text, "TrainingArguments('o', per_device_train_batch_size=8, optim='sgd')\n");
  CHECK(!read_text("t.py", text), "%s", error.message);
  CHECK(changes("optimizer", "adafactor"), "all of them: %s", error.message);
  CHECK(changes("checkpoint", "on"), "in all of them: %s", error.message);
}

TEST(manual_loops_with_short_names) {
  static const char script[] = "p.add_argument('--lr', default=1e-4)\n" LOOP("accum");
  CHECK(
      !read_started(script, "B=${B:-16}\npython train.py --bs $B --accum 2 --ctx 1024 --lr 1e-5\n"),
      "%s", error.message);
  CHECK(says("micro_batch=16 accumulate=2 sequence=1024 precision=bf16 optimizer=adamw-foreach"),
        "short names, autocast, and an optimizer that is not its learning rate");
}

TEST(accumulation_under_an_unknown_name_is_unclear) {
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

TEST_MAIN
