// Settings in users' own scripts are read where they take effect: adapters where they are applied, functions where they
// are called, autocast by the position of its arguments, conditions by the files that decide them.
#include <string.h>

#include "projects.h"
#include "python_code.h"

typedef struct {
  const char *path, *text;
} file;

static plim_err read_all(const file *files) {
  plim_project_clear(&project);
  project = (plim_project){0};
  error = (plim_error){0};
  plim_err err = PLIM_OK;
  for (; files->path && !err; files++)
    err = plim_project_add(&project, files->path, files->text, strlen(files->text), &error);
  return err ? err : plim_project_finish(&project, &error);
}

#define READ_TEXTS(...) read_all((const file[]){__VA_ARGS__, {NULL, NULL}})

#define SWITCHES                                                                                   \
  "p.add_argument('--lora', action='store_true')\n"                                                \
  "p.add_argument('--full', action='store_true')\n"                                                \
  "args = p.parse_args()\n"                                                                        \
  "targs = TrainingArguments('o', per_device_train_batch_size=4)\n"

// ---- adapters ---------------------------------------------------------------------------------------

static const struct {
  const char *what, *text, *without, *with; // the rank, without and with --lora
} adapters[] = {
    {"applied under an if", "c = LoraConfig(r=16)\nif args.lora:\n    m = get_peft_model(m, c)\n",
     "0", "16"},
    {"given under a condition",
     "c = LoraConfig(r=16)\nSFTTrainer(m, peft_config=c if args.lora else None)\n", "0", "16"},
    {"given unless", "c = LoraConfig(r=16)\nSFTTrainer(m, peft_config=None if args.full else c)\n",
     "16", "16"},
    {"given in any case", "c = LoraConfig(r=16)\nprint(c)\nSFTTrainer(m, peft_config=c)\n", "16",
     "16"},
    {"shown in any case, applied under an if",
     "c = LoraConfig(r=16)\nprint(c)\nif args.lora:\n    m = get_peft_model(m, c)\n", "0", "16"},
    {"applied under what nobody knows",
     "c = LoraConfig(r=16)\nif WANTED:\n    m = get_peft_model(m, c)\n", "unclear", "unclear"},
    {"made in a function that is called under an if",
     "def adapt(m):\n    c = LoraConfig(r=16)\n    return get_peft_model(m, c)\n"
     "def main():\n    if args.lora:\n        adapt(load())\nmain()\n",
     "0", "16"},
    {"made in a function that is called twice",
     "def adapt(m):\n    return get_peft_model(m, LoraConfig(r=16))\n"
     "if args.lora:\n    adapt(a)\nadapt(b)\n",
     "16", "16"},
    {"made in a function that nobody calls here",
     "def adapt(m):\n    return get_peft_model(m, LoraConfig(r=16))\n", "16", "16"},
    {"behind a return",
     "def adapt(m):\n    if not args.lora:\n        return m\n"
     "    return get_peft_model(m, LoraConfig(r=16))\nadapt(m)\n",
     "0", "16"},
    {"behind a return on one line",
     "def adapt(m):\n    if not args.lora: return m\n"
     "    return get_peft_model(m, LoraConfig(r=16))\nadapt(m)\n",
     "0", "16"},
    {"behind a return that hangs on a parameter",
     "def adapt(m, wanted):\n    if not wanted:\n        return m\n"
     "    return get_peft_model(m, LoraConfig(r=16))\nadapt(m, yes)\n",
     "unclear", "unclear"},
    {"behind the end of a run that nobody knows about",
     "def main():\n    if done():\n        return\n    get_peft_model(m, "
     "LoraConfig(r=16))\nmain()\n",
     "16", "16"},
};

TEST(adapters_count_if_they_are_applied) {
  for (size_t i = 0; i < sizeof adapters / sizeof *adapters; i++) {
    char text[1024], want[32];
    snprintf(text, sizeof text, SWITCHES "%s", adapters[i].text);
    CHECK(!READ_TEXTS({"train.py", text}, {"run.sh", "python train.py\n"}), "%s", error.message);
    snprintf(want, sizeof want, "lora_rank=%s", adapters[i].without);
    CHECK(says(want), "%s, without --lora", adapters[i].what);
    CHECK(!READ_TEXTS({"train.py", text}, {"run.sh", "python train.py --lora\n"}), "%s",
          error.message);
    snprintf(want, sizeof want, "lora_rank=%s", adapters[i].with);
    CHECK(says(want), "%s, with --lora", adapters[i].what);
  }
}

// ---- values that are one of two ---------------------------------------------------------------------

TEST(choices_between_two_values_are_decided) {
  static const char text[] = SWITCHES
      "m = AutoModel.from_pretrained('a/b', dtype=torch.bfloat16 if args.lora else 'float32')\n"
      "t = TrainingArguments('o', gradient_checkpointing=not args.lora,\n"
      "    bf16=is_bfloat16_supported(), fp16=not is_bfloat16_supported())\n";
  CHECK(!READ_TEXTS({"train.py", text}, {"run.sh", "python train.py\n"}), "%s", error.message);
  CHECK(says("dtype=fp32 checkpoint=on precision=bf16"), "without --lora");
  CHECK(!READ_TEXTS({"train.py", text}, {"run.sh", "python train.py --lora\n"}), "%s",
        error.message);
  CHECK(says("dtype=bf16 checkpoint=off precision=bf16"), "with --lora");
}

// ---- autocast ---------------------------------------------------------------------------------------

static const struct {
  const char *call, *precision;
} autocasts[] = {
    {"torch.autocast('cuda', torch.bfloat16)", "bf16"},
    {"torch.amp.autocast('cuda', torch.float16)", "fp16"},
    {"torch.cuda.amp.autocast()", "fp16"},
    {"autocast()", "fp16"},
    {"autocast(device_type='cuda')", "fp16"},
    {"autocast(device.type, torch.bfloat16)", "bf16"},
    {"torch.cuda.amp.autocast(True, torch.bfloat16)", "bf16"},
    {"torch.cuda.amp.autocast(enabled=not args.full)", "fp16"},
    {"torch.cuda.amp.autocast(args.full)", "unknown"},
    {"torch.autocast('cuda', torch.bfloat16, args.full)", "unknown"},
    {"torch.autocast('cuda', dtype=torch.bfloat16, enabled=False)", "unknown"},
    {"torch.autocast('cuda', dtype=torch.bfloat16, enabled=WANTED)", "unclear"},
    {"torch.autocast('cpu')", "unknown"},
    {"accelerator.autocast()", "unknown"},
};

TEST(autocast_computes_in_what_it_is_given) {
  for (size_t i = 0; i < sizeof autocasts / sizeof *autocasts; i++) {
    char text[512], want[32];
    snprintf(text, sizeof text,
             "p.add_argument('--full', action='store_true')\nargs = p.parse_args()\n"
             "DataLoader(data, batch_size=4)\nwith %s:\n    loss = model(x)\n",
             autocasts[i].call);
    CHECK(!READ_TEXTS({"train.py", text}), "%s", error.message);
    snprintf(want, sizeof want, "precision=%s", autocasts[i].precision);
    CHECK(says(want), "%s", autocasts[i].call);
  }
}

// ---- what other files decide ------------------------------------------------------------------------

#define GUARDED(condition)                                                                         \
  "DataLoader(data, batch_size=4)\nif " condition ":\n    get_peft_model(m, LoraConfig(r=16))\n"

static const struct {
  const char *what, *load, *condition,
      *rank; // with train.yaml: lora: true, train: {lora: false, deep: {}}
} loads[] = {
    {"a subscript", "cfg = yaml.safe_load(open('train.yaml'))", "cfg['lora']", "16"},
    {"below another", "cfg = yaml.safe_load(open('train.yaml'))", "cfg['train']['lora']",
     "unknown"},
    {"a file by its handle", "with open('train.yaml') as f:\n    cfg = yaml.safe_load(f)",
     "cfg['lora']", "16"},
    {"attributes", "cfg = OmegaConf.load('train.yaml')", "cfg.train.lora", "unknown"},
    {"a function of one's own", "cfg = load_config('conf/train.yaml')", "cfg['lora']", "16"},
    {"made into something else",
     "raw = yaml.safe_load(open('train.yaml'))\ncfg = SimpleNamespace(**raw)", "cfg.lora", "16"},
    {"a part", "cfg = yaml.safe_load(open('train.yaml'))\nt = cfg['train']", "t['lora']",
     "unknown"},
    {"a default that is not needed", "cfg = yaml.safe_load(open('train.yaml'))",
     "cfg.get('lora', False)", "16"},
    {"a default that is", "cfg = yaml.safe_load(open('train.yaml'))", "cfg.get('peft', True)",
     "16"},
    {"no default", "cfg = yaml.safe_load(open('train.yaml'))", "cfg.get('peft')", "unknown"},
    {"a key that is not there", "cfg = yaml.safe_load(open('train.yaml'))", "cfg['peft']",
     "unclear"},
    {"a mapping", "cfg = yaml.safe_load(open('train.yaml'))", "cfg.get('train')", "16"},
    {"a path from the command line", "cfg = yaml.safe_load(open(sys.argv[1]))", "cfg['lora']",
     "16"},
    {"a path that is an argument",
     "p.add_argument('--config', default='train.yaml')\nargs = p.parse_args()\n"
     "cfg = load_config(args.config)",
     "cfg['lora']", "16"},
    {"a file that is not here", "cfg = yaml.safe_load(open('other.yaml'))", "cfg['lora']",
     "unclear"},
    {"what is changed", "cfg = yaml.safe_load(open('train.yaml'))\ncfg.update(more)", "cfg['lora']",
     "unclear"},
};

// However many parts a script takes out before.
TEST(a_condition_on_the_last_of_many_parts) {
  enum { PARTS = 400 };
  static char text[PARTS * 32 + 256];
  size_t n = (size_t)snprintf(text, sizeof text, "cfg = yaml.safe_load(open('train.yaml'))\n");
  for (int i = 0; i < PARTS; i++)
    n += (size_t)snprintf(text + n, sizeof text - n, "p%d = cfg['train']\n", i);
  snprintf(text + n, sizeof text - n, GUARDED("p399['lora']"));
  CHECK(!READ_TEXTS({"train.py", text}, {"conf/train.yaml", "lora: false\ntrain:\n  lora: true\n"}),
        "%s", error.message);
  CHECK(says("lora_rank=16"), "the last part");
}

TEST(conditions_on_values_of_a_configuration) {
  for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
    char text[1024], want[32];
    snprintf(text, sizeof text,
             "%s\nDataLoader(data, batch_size=4)\nif %s:\n"
             "    get_peft_model(m, LoraConfig(r=16))\n",
             loads[i].load, loads[i].condition);
    CHECK(
        !READ_TEXTS({"train.py", text}, {"conf/train.yaml", "lora: true\ntrain:\n  lora: false\n"}),
        "%s", error.message);
    snprintf(want, sizeof want, "lora_rank=%s", loads[i].rank);
    CHECK(says(want), "%s", loads[i].what);
  }
}

TEST(a_command_chooses_the_configuration) {
  static const char script[] =
      "p.add_argument('--config', default='a.yaml')\nargs = p.parse_args()\n"
      "cfg = load(args.config)\n" GUARDED("cfg['lora']");
  static const char a[] = "lora: false\n", b[] = "lora: true\n";
  CHECK(!READ_TEXTS({"train.py", script}, {"a.yaml", a}, {"b.yaml", b}), "%s", error.message);
  CHECK(says("lora_rank=unknown"), "the default");
  CHECK(!READ_TEXTS({"train.py", script}, {"a.yaml", a}, {"b.yaml", b},
                    {"run.sh", "python train.py --config b.yaml\n"}),
        "%s", error.message);
  CHECK(says("lora_rank=16"), "the other");
}

TEST(conditions_on_fields_and_on_arguments_of_other_modules) {
  static const char script[] = "from options import args\n" GUARDED("args.use_lora");
  static const char options[] = "p.add_argument('--use-lora', action='store_true')\n"
                                "args = p.parse_args()\n";
  CHECK(!READ_TEXTS({"train.py", script}, {"options.py", options}), "%s", error.message);
  CHECK(says("lora_rank=unknown"), "the default");
  CHECK(!READ_TEXTS({"train.py", script}, {"options.py", options},
                    {"run.sh", "python train.py --use-lora\n"}),
        "%s", error.message);
  CHECK(says("lora_rank=16"), "given");
  static const char fields[] = "@dataclass\nclass ModelArguments:\n"
                               "    use_lora: bool = field(default=False)\n";
  static const char parsed[] =
      "from fields import ModelArguments\n"
      "model_args, targs = HfArgumentParser((ModelArguments, TrainingArguments))"
      ".parse_args_into_dataclasses()\n" GUARDED("model_args.use_lora");
  CHECK(!READ_TEXTS({"train.py", parsed}, {"fields.py", fields}), "%s", error.message);
  CHECK(says("lora_rank=unknown"), "a field's default");
  CHECK(!READ_TEXTS({"train.py", parsed}, {"fields.py", fields},
                    {"run.sh", "python train.py --use_lora True\n"}),
        "%s", error.message);
  CHECK(says("lora_rank=16"), "a field by its flag");
}

TEST(hydra_decides_conditions) {
  static const char script[] =
      "@hydra.main(config_path='conf', config_name='config')\n"
      "def main(cfg):\n    DataLoader(data, batch_size=4)\n"
      "    if cfg.model.lora:\n        get_peft_model(m, LoraConfig(r=16))\n"
      "main()\n";
  static const char config[] = "defaults:\n  - model: small\nseed: 1\n";
  CHECK(!READ_TEXTS({"train.py", script}, {"conf/config.yaml", config},
                    {"conf/model/small.yaml", "lora: true\n"}),
        "%s", error.message);
  CHECK(says("lora_rank=16"), "a group's file");
  CHECK(!READ_TEXTS({"train.py", script}, {"conf/config.yaml", config},
                    {"conf/model/small.yaml", "lora: true\n"},
                    {"run.sh", "python train.py model.lora=false\n"}),
        "%s", error.message);
  CHECK(says("lora_rank=unknown"), "the command line's word");
}

TEST(values_that_a_script_copies_from_a_configuration) {
  CHECK(!READ_TEXTS({"train.py", "cfg = yaml.safe_load(open('run.yaml'))\n"
                                 "TrainingArguments('o', per_device_train_batch_size=cfg['n'],\n"
                                 "    gradient_checkpointing=cfg['save'], bf16=cfg['half'])\n"},
                    {"run.yaml", "n: 6\nsave: true\nhalf: false\n"}),
        "%s", error.message);
  CHECK(says("micro_batch=6 checkpoint=on precision=none"), "names of one's own");
  plim_edit_set edits;
  plim_knob_change change = {PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 3}};
  CHECK(!plim_project_set(&project, &change, 1, &edits, &error), "%s", error.message);
  CHECK(edits.at.len == 1 && edits.at.at[0].file == 1, "it is changed where it stands");
  plim_edit_set_clear(&edits);
}

// ---- what is so without being said ------------------------------------------------------------------

#define TRAINER "TrainingArguments('o', per_device_train_batch_size=4)\n"

TEST(what_peft_does_by_default) {
  CHECK(!READ_TEXTS({"train.py", TRAINER "SFTTrainer(m, peft_config=LoraConfig(lora_alpha=16))\n"}),
        "%s", error.message);
  CHECK(says("lora_rank=8 lora_targets=unknown"), "its own rank");
  CHECK(!READ_TEXTS(
            {"train.py", TRAINER "def adapt(n):\n    return LoraConfig(r=n, lora_alpha=16)\n"}),
        "%s", error.message);
  CHECK(says("lora_rank=unclear"), "another that is not known");
  CHECK(!READ_TEXTS({"train.py", TRAINER "SFTTrainer(m, peft_config=LoraConfig(**cfg))\n"}), "%s",
        error.message);
  CHECK(says("lora_rank=unclear"), "what is unpacked may have it");
  CHECK(!READ_TEXTS({"train.py", TRAINER "m = prepare_model_for_kbit_training(m)\n"}), "%s",
        error.message);
  CHECK(says("checkpoint=on"), "it checkpoints");
  CHECK(!READ_TEXTS({"train.py", TRAINER "m = prepare_model_for_kbit_training(m, False)\n"}), "%s",
        error.message);
  CHECK(says("checkpoint=off"), "unless it is told not to");
  CHECK(!READ_TEXTS(
            {"train.py", TRAINER "m = PeftModel.from_pretrained(m, 'a/b', is_trainable=True)\n"}),
        "%s", error.message);
  CHECK(says("lora_rank=unclear"), "adapters of which nothing is known");
}

TEST(short_flags_are_flags) {
  static const char script[] = "p.add_argument('-b', '--batch-size', type=int, default=32)\n"
                               "p.add_argument('--len', '-l', type=int, default=512)\n"
                               "args = p.parse_args()\nDataLoader(d, batch_size=args.batch_size)\n"
                               "tokenizer(t, max_length=args.len)\n";
  CHECK(!READ_TEXTS({"train.py", script}, {"run.sh", "python train.py -b 8 -l 128\n"}), "%s",
        error.message);
  CHECK(says("micro_batch=8 sequence=128"), "what the command gives");
  CHECK(!READ_TEXTS({"train.py", script}, {"run.sh", "python train.py\n"}), "%s", error.message);
  CHECK(says("micro_batch=32 sequence=512"), "the defaults");
}

static void add_module(void *context, const plim_python_module *module) {
  char *found = context;
  for (int i = 0; i < module->dots; i++) strcat(found, ".");
  strncat(found, module->name, module->size);
  strcat(found, " ");
}

TEST(modules_are_those_of_import_statements) {
  static const char script[] =
      "'''\nimport notes\n'''\nimport a, b.c as d\nfrom ..config.base import (x,\n  y as z)\n"
      "def f():\n    from . import inner\ntext = 'import other'\n# import comment\n"
      "import e; from g import h\ntry: import i\nexcept: pass\nimport\nfrom\nfrom import import\n";
  char found[256] = "";
  plim_python_code code;
  CHECK(!plim_python_code_read(script, strlen(script), &code), "out of memory");
  CHECK(!plim_python_modules(&code, add_module, found), "out of memory");
  plim_python_code_clear(&code);
  CHECK(!strcmp(found, "a b.c ..config.base ..config.base.x ..config.base.y .inner e g g.h i "),
        "%s", found);
}

TEST(comments_strings_and_imports_are_not_code) {
  static const char script[] = "import torch.utils.checkpoint\nfrom x import PeftModel\n"
                               "# PeftModel.from_pretrained(m, 'a', is_trainable=True)\n"
                               "f(a,  # fully_shard(m)\n  MyPeftModel(b))\ns = 'model.half()'\n"
                               "model.to(torch.bfloat16)\n";
  static const char *const absent[] = {"torch.utils.checkpoint", "PeftModel", "fully_shard(",
                                       "model.half()", "is_trainable=True"};
  plim_python_code code;
  CHECK(!plim_python_code_read(script, strlen(script), &code), "out of memory");
  for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
    CHECK(!plim_python_has(&code, absent[i]), "%s", absent[i]);
  CHECK(plim_python_has(&code, ".to(torch.bfloat16)"), "code");
  CHECK(plim_python_has(&code, "MyPeftModel("), "in a bracket");
  CHECK(plim_python_has(&code, "*PeftModel("), "the end of a name");
  CHECK(plim_python_has(&code, "MyPeft*"), "the beginning of one");
  CHECK(!plim_python_has(&code, "MyPeft"), "a name is compared whole");
  plim_python_code_clear(&code);
  CHECK(!READ_TEXTS({"train.py", "class PreferenceArguments:\n    model: str = 'Qwen/Qwen2.5-7B'\n"
                                 "class RefArguments:\n    model: str = 'Qwen/Qwen2.5-1.5B'\n"
                                 "DataLoader(d, batch_size=4)\n"}),
        "%s", error.message);
  CHECK(says("model=Qwen/Qwen2.5-7B"), "a preference is no reference");
}

TEST(code_is_found_between_two_bytes) {
  static const char script[] = "m = load(name, device_map = 'auto')\nok = device_map == 1\n"
                               "x = [1, [2, 3], f(4, 5),]\nm2 = load(device_map='cpu')\n";
  plim_python_code code;
  CHECK(!plim_python_code_read(script, strlen(script), &code), "out of memory");
  size_t second = (size_t)(strstr(script, "device_map='cpu'") - script);
  CHECK(plim_python_find(&code, "device_map=", 0, SIZE_MAX) == 15, "blanks do not matter");
  CHECK(plim_python_find(&code, "device_map=", 16, SIZE_MAX) == second,
        "a comparison is no argument");
  CHECK(plim_python_find(&code, "device_map=", 16, second) == SIZE_MAX, "it begins at the end");
  CHECK(plim_python_find(&code, "device_map=", 16, second + 1) == second, "one byte further");
  CHECK(plim_python_find(&code, "device_map=", 15, 16) == 15, "a single byte");
  CHECK(plim_python_find(&code, "device_map=", second, sizeof script - 1) == second, "to the end");
  CHECK(plim_python_find(&code, "load(", sizeof script - 1, SIZE_MAX) == SIZE_MAX, "at the end");
  CHECK(plim_python_items(&code, (size_t)(strstr(script, "x =") - script)) == 3, "items");
  plim_python_code_clear(&code);
}

// None is not a batch size: a command must set it, otherwise it is unclear.
TEST(arguments_without_a_default) {
  static const char *const ends[] = {"", ", required=True"};
  for (size_t i = 0; i < 2; i++) {
    char script[512];
    snprintf(script, sizeof script,
             "p.add_argument('--bs', type=int%s)\np.add_argument('--resume'%s)\n"
             "args = p.parse_args()\n"
             "targs = TrainingArguments('o', per_device_train_batch_size=args.bs)\n"
             "if args.resume is None:\n    m.gradient_checkpointing_enable()\n",
             ends[i], ends[i]);
    CHECK(!READ_TEXTS({"train.py", script}, {"run.sh", "python train.py --bs 2\n"}), "%s",
          error.message);
    CHECK(says("micro_batch=2"), "what the command gives");
    CHECK(says(i ? "checkpoint=unclear" : "checkpoint=on"), "None, unless it must be given");
    CHECK(!READ_TEXTS({"train.py", script}), "%s", error.message);
    CHECK(says("micro_batch=unclear"), "nobody gives it");
    CHECK(strstr(project.knobs[PLIM_KNOB_MICRO_BATCH].why, "--bs has no default"), "why: %s",
          project.knobs[PLIM_KNOB_MICRO_BATCH].why);
  }
}

TEST(types_by_their_names) {
  static const char script[] = "DTYPE = torch.bfloat16\ndef main():\n"
                               "    m = AutoModel.from_pretrained('a/b', torch_dtype=DTYPE)\n"
                               "    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)\n"
                               "    m, optimizer = accelerator.prepare(m, optimizer)\n"
                               "    DataLoader(d, batch_size=4)\n";
  CHECK(!READ_TEXTS({"train.py", script}), "%s", error.message);
  CHECK(says("dtype=bf16 optimizer=sgd"), "a constant, and an optimizer's class");
  static const char local[] =
      "p.add_argument('--dtype', default='fp32')\ndef main():\n    args = p.parse_args()\n"
      "    kind = torch.bfloat16 if args.dtype == 'bf16' else torch.float32\n"
      "    m = AutoModel.from_pretrained('a/b', torch_dtype=kind)\n"
      "    DataLoader(d, batch_size=4)\n";
  CHECK(!READ_TEXTS({"train.py", local}), "%s", error.message);
  CHECK(says("dtype=fp32"), "a local one of two");
  CHECK(!READ_TEXTS({"train.py", local}, {"run.sh", "python train.py --dtype bf16\n"}), "%s",
        error.message);
  CHECK(says("dtype=bf16"), "the other");
}

// ---- what is not followed ----------------------------------------------------------------------------

#define IMPORT "import argparse, dataclasses, sys, yaml\nfrom dataclasses import dataclass\n"
#define BATCH "per_device_train_batch_size"
#define ARGS(text) "a = TrainingArguments('o', " BATCH "=" text ")\n"
#define PARSER "p = argparse.ArgumentParser()\np.add_argument('--n', type=int, default=8)\n"
#define OBJECT "a = TrainingArguments('o', " BATCH "=8)\n"
#define DICT "c = {'" BATCH "': 8}\n"
#define UNPACKED "a = TrainingArguments('o', **c)\n"

static const struct {
  const char *what, *text, *says;
} later_changes[] = {
    {"setattr", OBJECT "setattr(a, '" BATCH "', 64)\n", "micro_batch=64"},
    {"an attribute", OBJECT "a." BATCH " = 64\n", "micro_batch=64"},
    {"an attribute under a condition", OBJECT "if X:\n    a." BATCH " = 64\n",
     "micro_batch=unclear"},
    {"setattr in a loop", OBJECT "for k, v in x.items():\n    setattr(a, k, v)\n",
     "micro_batch=unclear accumulate=unclear"},
    {"replace", OBJECT "a = dataclasses.replace(a, " BATCH "=64)\n", "micro_batch=unclear"},
    {"vars of an object", OBJECT "vars(a).update(x)\n", "micro_batch=unclear accumulate=unclear"},
    {"set_defaults", PARSER "p.set_defaults(n=16)\nargs = p.parse_args()\n" ARGS("args.n"),
     "micro_batch=unclear"},
    {"parse_args of a list", PARSER "args = p.parse_args(['--n', '16'])\n" ARGS("args.n"),
     "micro_batch=unclear"},
    {"parse_args of what the function is given",
     "def main(argv=None):\n    p = argparse.ArgumentParser()\n    p.add_argument('--n', "
     "default=8)\n"
     "    args = p.parse_args(argv)\n    " ARGS("args.n"),
     "micro_batch=8"},
    {"__dict__", PARSER "args = p.parse_args()\nargs.__dict__['n'] = 3\n" ARGS("args.n"),
     "micro_batch=3"},
    {"another namespace",
     PARSER "args = p.parse_args()\nargs = N(**{**vars(args), 'n': 3})\n" ARGS("args.n"),
     "micro_batch=unclear"},
    {"a union", DICT "c = c | {'" BATCH "': 64}\n" UNPACKED, "micro_batch=unclear"},
    {"a union in place", DICT "c |= {'" BATCH "': 64}\n" UNPACKED, "micro_batch=unclear"},
    {"a union in place below", "c = {'t': {'n': 8}}\nc['t'] |= {'n': 64}\n" ARGS("c['t']['n']"),
     "micro_batch=unclear"},
    {"del", DICT "del c['" BATCH "']\n" UNPACKED, "micro_batch=unclear"},
    {"pop of another key", DICT "c.pop('seed')\n" UNPACKED, "micro_batch=8"},
    {"update", DICT "c.update(x)\n" UNPACKED, "micro_batch=unclear accumulate=unclear"},
    {"a computed key", DICT "c[k] = 64\n" UNPACKED, "micro_batch=unclear"},
    {"another name of it", DICT "d = c\nd['" BATCH "'] = 64\n" UNPACKED, "micro_batch=unclear"},
    {"a function that changes it", DICT "def f(x):\n    x['" BATCH "'] = 64\nf(c)\n" UNPACKED,
     "micro_batch=unclear"},
    {"a function that hands it on",
     "c = {'n': 8}\ndef f(x):\n    g(x)\ndef g(y):\n    y['n'] = 64\nf(c)\n" ARGS("c['n']"),
     "micro_batch=unclear"},
    {"a function that only reads it",
     "c = {'n': 8}\ndef f(x):\n    return x['n']\nf(c)\n" ARGS("c['n']"), "micro_batch=8"},
    {"an entry of a function's own dict",
     "def f():\n    c = {'" BATCH "': 8}\n    c['" BATCH "'] = 64\n    TrainingArguments(**c)\n",
     "micro_batch=unclear"},
    {"__post_init__",
     "@dataclass\nclass C:\n    n: int = 8\n    def __post_init__(self):\n        self.n = 64\n"
     "c = C()\n" ARGS("c.n"),
     "micro_batch=unclear"},
    {"a class of what is not known", "class C:\n    n: int = 8\nc = C(**x)\n" ARGS("c.n"),
     "micro_batch=unclear"},
    {"globals", "N = 8\nglobals()['N'] = 64\n" ARGS("N"), "micro_batch=unclear"},
    {"another of the globals", "N = 8\nglobals()['M'] = 64\n" ARGS("N"), "micro_batch=8"},
    {"exec", "N = 8\nexec(x)\n" ARGS("N"), "micro_batch=unclear"},
    {"an operator", "N = 8\nN *= 2\n" ARGS("N"), "micro_batch=unclear"},
    {"a walrus", "N = 8\nprint(N := 64)\n" ARGS("N"), "micro_batch=unclear"},
    {"a global of a function", "N = 8\ndef f():\n    global N\n    N = 64\nf()\n" ARGS("N"),
     "micro_batch=unclear"},
    {"a function of the value", "batch_size = 8\n" ARGS("twice(batch_size)"),
     "micro_batch=unclear"},
    {"unknown arguments", "a = TrainingArguments('o', **yaml.safe_load(open(sys.argv[1])))\n",
     "micro_batch=unclear accumulate=unclear checkpoint=unclear strategy=unclear"},
    {"unknown arguments beside one",
     "a = TrainingArguments('o', " BATCH "=8, **yaml.safe_load(open(sys.argv[1])))\n",
     "micro_batch=8 accumulate=unclear"},
    {"unknown arguments of a model",
     "m = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B', **x)\n" OBJECT,
     "micro_batch=8 attention=unclear quantisation=unclear"},
    {"known arguments", DICT UNPACKED, "micro_batch=8 accumulate=1"},
    {"known arguments with one more",
     DICT "a = TrainingArguments(**{**c, 'gradient_accumulation_steps': 2})\n",
     "micro_batch=8 accumulate=2"},
};

TEST(later_changes_are_followed_or_unclear) {
  for (size_t i = 0; i < sizeof later_changes / sizeof *later_changes; i++) {
    char text[1024];
    snprintf(text, sizeof text, IMPORT "%s", later_changes[i].text);
    bool is_read = !READ_TEXTS({"train.py", text});
    test_count(later_changes[i].what, is_read && says(later_changes[i].says));
  }
}

TEST(a_file_that_is_loaded_and_changed_is_unclear) {
  static const char yaml[] = BATCH ": 8\n";
#define LOAD IMPORT "c = yaml.safe_load(open('c.yaml'))\n"
  CHECK(!READ_TEXTS({"train.py", LOAD UNPACKED}, {"c.yaml", yaml}), "%s", error.message);
  CHECK(says("micro_batch=8 accumulate=1"), "the file has all of it");
  CHECK(!READ_TEXTS({"train.py", LOAD "c.update(x)\n" UNPACKED}, {"c.yaml", yaml}), "%s",
        error.message);
  CHECK(says("micro_batch=unclear accumulate=unclear"), "what is put on top is not known");
  CHECK(!READ_TEXTS(
            {"train.py", IMPORT "c = OmegaConf.merge(OmegaConf.load('c.yaml'), x)\n" UNPACKED},
            {"c.yaml", yaml}),
        "%s", error.message);
  CHECK(says("micro_batch=unclear"), "merged with something else");
  CHECK(!READ_TEXTS(
            {"train.py", IMPORT
             "c = OmegaConf.merge(OmegaConf.load('c.yaml'), OmegaConf.from_cli())\n" UNPACKED},
            {"c.yaml", yaml}),
        "%s", error.message);
  CHECK(says("micro_batch=8"), "the command line is known");
}

TEST(a_flag_of_store_false_turns_off) {
  static const char script[] = IMPORT
      "p = argparse.ArgumentParser()\np.add_argument('--plain', action='store_false')\n"
      "args = p.parse_args()\na = TrainingArguments('o', gradient_checkpointing=args.plain)\n";
  CHECK(!READ_TEXTS({"train.py", script}) && says("checkpoint=on"), "%s", error.message);
  CHECK(!READ_TEXTS({"train.py", script}, {"run.sh", "python train.py --plain\n"}), "%s",
        error.message);
  CHECK(says("checkpoint=off"), "given");
}

// ---- more than there is room for -----------------------------------------------------------------------

static char *repeat(const char *front, const char *copy, int copies, const char *back) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) return NULL;
  fputs(front, out);
  for (int i = 0; i < copies; i++) fprintf(out, "%s", copy);
  fputs(back, out);
  fclose(out);
  return text;
}

TEST(values_beyond_a_limit_are_unclear) {
  char *many = repeat("", "if x:\n    y = 1\n", 50000, "if z:\n    " OBJECT);
  CHECK(many && !READ_TEXTS({"train.py", many}), "%s", error.message);
  CHECK(says("micro_batch=unclear"), "conditions");
  free(many);
  many = repeat("def f():\n    " OBJECT, "if x:\n    f()\n", 100, "");
  CHECK(many && !READ_TEXTS({"train.py", many}), "%s", error.message);
  CHECK(says("micro_batch=unclear"), "calls under a condition");
  free(many);
  many = repeat("f()\ndef f():\n    " OBJECT, "if x:\n    f()\n", 100, "");
  CHECK(many && !READ_TEXTS({"train.py", many}), "%s", error.message);
  CHECK(says("micro_batch=8"), "one of them is not");
  free(many);
  many =
      repeat("", OBJECT, 9, "TrainingArguments('o', " BATCH "=8, gradient_accumulation_steps=2)\n");
  CHECK(many && !READ_TEXTS({"train.py", many}), "%s", error.message);
  CHECK(says("micro_batch=8 accumulate=unclear"), "trainings");
  free(many);
}

TEST(a_knob_of_too_many_places_does_not_change) {
  file files[20] = {0};
  char names[19][16];
  for (int i = 0; i < 19; i++) {
    snprintf(names[i], sizeof names[i], "c%d.yaml", i);
    files[i] = (file){names[i], BATCH ": 8\n"};
  }
  CHECK(!read_all(files) && says("micro_batch=8"), "%s", error.message);
  CHECK(project.knobs[PLIM_KNOB_MICRO_BATCH].is_fixed, "not in some of them alone");
}

TEST_MAIN
