// Findings of the pre-flight list about settings without effect, models that are whole on every process, and commands
// that end early: they appear only if they are true, with the place and what to type.
#include "checking.h"

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

TEST(check_of_arguments_that_axolotl_does_not_pass_on) {
  begin();
  given("a.yaml",
        "base_model: NousResearch/Llama-3.2-1B\nmicro_batch_size: 1\nsample_packing: true\n"
        "attn_implementation: flex_attention\nflex_attn_compile_kwargs:\n  dynamic: false\n");
  GO();
  CHECK_FOUND("idle.flex", CHECK_NOTE);
  CHECK(found("idle.flex")->line == 6, "line %d", found("idle.flex")->line);
}

TEST(check_of_lora_keys_with_an_adapter) {
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

TEST(check_of_4_bit_keys_without_effect) {
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
  given("train.py", IMPORTS LOADS ARGUMENTS); // nothing is sharded
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
      {"python train.py --bf16 true \\ \n  --max_steps 5\n", "a space after a backslash", 1},
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

TEST_MAIN
