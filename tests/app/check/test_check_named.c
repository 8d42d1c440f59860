// Files that the user's files refer to: a file that cannot be read is always reported.
#include <sys/stat.h>
#include <unistd.h>

#include "checking.h"

#define LAUNCH                                                                                     \
  "torchrun --nproc_per_node 8 train.py --model_name_or_path Qwen/Qwen2.5-0.5B "                   \
  "--per_device_train_batch_size 4 --bf16 true --max_seq_length 512 --deepspeed launch_ds.json\n"
#define SCRIPT                                                                                     \
  "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"                        \
  "args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]\n"                  \
  "Trainer(args=args).train()\n"

static check_verdict verdict(void) {
  const char *why;
  return check_decide(&c, &why);
}

// ---- configurations ---------------------------------------------------------------------------------

static void begin_launch(const char *configuration, size_t size) {
  begin();
  c.gpu = "80GiB";
  given("train.sh", LAUNCH);
  given("train.py", SCRIPT);
  if (configuration) folder_write("launch_ds.json", configuration, size);
}

TEST(a_readable_configuration_is_read) {
  static const char text[] = "{\"zero_optimization\": {\"stage\": 2}}";
  begin_launch(text, sizeof text - 1);
  GO();
  CHECK(c.has_estimate && !check_count(&c, CHECK_FAILS), "%s", c.no_estimate.message);
  CHECK(verdict() == CHECK_READY, "%d", verdict());
}

TEST(a_configuration_that_cannot_be_read_fails) {
  static const struct {
    const char *text;
    size_t size;
  } rows[] = {
      {"{\"zero_optimization\": {\"stage\": 2}", 34},     // no closing brace
      {"{\"a\": \"\xe9\"}", 10},                          // invalid UTF-8
      {"{\"zero_optimization\": {\"stage\": \0 2}}", 37}, // a zero byte
      {"", 0},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    begin_launch(rows[i].text, rows[i].size);
    GO();
    CHECK_FOUND("files.unreadable", CHECK_FAILS);
    CHECK(verdict() == CHECK_NOT_READY && !c.has_estimate, "row %zu", i);
  }
}

TEST(a_configuration_that_is_too_large_fails) {
  enum { SIZE = (4 << 20) + 2 };
  char *text = malloc(SIZE);
  memset(text, ' ', SIZE);
  text[0] = '{', text[SIZE - 1] = '}';
  begin_launch(text, SIZE);
  free(text);
  GO();
  CHECK_FOUND("files.unreadable", CHECK_FAILS);
}

TEST(a_configuration_that_is_missing_fails) {
  begin_launch(NULL, 0);
  GO();
  CHECK_FOUND("files.missing", CHECK_FAILS);
  CHECK(verdict() == CHECK_NOT_READY && !c.has_estimate, "an estimate without it");
  CHECK(strstr(c.no_estimate.hint, "--strategy"), "%s", c.no_estimate.hint);
}

TEST(a_configuration_that_yaml_refers_to_is_checked) {
  begin();
  given("train.yaml", "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: 2\nsequence_len: 512\n"
                      "adapter: lora\nlora_r: 8\ndeepspeed: configs/zero2.json\n");
  folder_write_text("configs/zero2.json", "{\"zero_optimization\": }");
  GO();
  CHECK_FOUND("files.unreadable", CHECK_FAILS);
}

// A data file is not a configuration, so its content does not matter.
TEST(unreadable_data_is_not_reported) {
  static const char text[] = "{\"zero_optimization\": {\"stage\": 2}}";
  begin_launch(text, sizeof text - 1);
  given("train.sh", "# old.yaml\n" LAUNCH " --train_file train.json --data_path data.json\n");
  file_count--;
  folder_write_text("train.json", "{\"a\": 1}\n{\"a\": 2}\n");
  folder_write_text("data.json", "[");
  folder_write_text("old.yaml", "a: [");
  GO();
  CHECK_NOT_FOUND("files.unreadable");
}

// ---- modules ----------------------------------------------------------------------------------------

#define TRAIN(imports)                                                                             \
  "from transformers import Trainer, TrainingArguments, AutoModelForCausalLM\n" imports            \
  "model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-0.5B')\n"                            \
  "args = TrainingArguments(output_dir='x', per_device_train_batch_size=settings.BATCH,\n"         \
  "                         bf16=True)\n"                                                          \
  "Trainer(model=model, args=args).train()\n"

static bool batch_is(int64_t batch) {
  const plim_project_knob *k = &c.files.project.knobs[PLIM_KNOB_MICRO_BATCH];
  bool is = batch ? k->value.integer == batch : k->origin == PLIM_UNCLEAR;
  if (!is) printf("the batch is %lld, origin %d\n", (long long)k->value.integer, (int)k->origin);
  return is;
}

TEST(what_an_unreadable_module_may_decide_is_unclear) {
  static const char *const texts[] = {"# \xe9\nBATCH = 64\n", "BATCH = (64\n", "BATCH = '64\n"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    begin();
    c.gpu = "80GiB";
    given("train.py", "import settings\nfrom transformers import Trainer, TrainingArguments\n"
                      "args = TrainingArguments(output_dir='x', bf16=True)\n"
                      "settings.change(args)\n");
    c.model = "Qwen/Qwen2.5-0.5B";
    folder_write_text("settings.py", texts[i]);
    GO();
    CHECK_FOUND("files.unreadable", CHECK_WARNING);
    CHECK(batch_is(0) && verdict() != CHECK_READY, "row %zu is a guess", i);
    CHECK(strstr(c.no_estimate.hint, "settings.py"), "%s", c.no_estimate.hint);
  }
}

TEST(a_module_in_a_declared_encoding_is_read) {
  begin();
  given("train.py", TRAIN("import settings\n"));
  folder_write_text("settings.py", "# -*- coding: latin-1 -*-\n# \xe9\nBATCH = 64\n");
  GO();
  CHECK(batch_is(64), "not read");
}

TEST(many_modules_are_all_read) {
  enum { COUNT = 200 };
  char text[COUNT * 16 + 1024], name[32];
  size_t used = 0;
  begin();
  for (int i = 0; i < COUNT; i++) {
    used += (size_t)snprintf(text + used, sizeof text - used, "import m%d\n", i);
    snprintf(name, sizeof name, "m%d.py", i);
    folder_write_text(name, "X = 1\n");
  }
  snprintf(text + used, sizeof text - used, "%s", TRAIN("import settings\n"));
  given("train.py", text);
  folder_write_text("settings.py", "BATCH = 64\n");
  GO();
  CHECK(batch_is(64), "the last is not read");
}

// ---- where Python looks -----------------------------------------------------------------------------

static void given_far(const char *script, const char *settings) {
  begin();
  given(script, TRAIN("import settings\n"));
  folder_write_text(settings, "BATCH = 64\n");
}

TEST(modules_are_looked_up_where_python_does) {
  given_far("a/b/proj/train.py", "a/settings.py");
  GO();
  CHECK(batch_is(0), "a folder above is not on the path");
  given_far("a/proj/train.py", "a/proj/settings.py");
  GO();
  CHECK(batch_is(64), "the script's own folder is");
  given_far("a/proj/train.py", "a/settings.py");
  folder_write_text("a/proj/__init__.py", "");
  GO();
  CHECK(batch_is(64), "a module of a package is run from the folder above it");
}

TEST(modules_are_looked_up_where_commands_put_them) {
  static const struct {
    const char *command;
    bool is_there;
  } rows[] = {
      {"python proj/train.py\n", false},
      {"python -m proj.train\n", true},
      {"export PYTHONPATH=.:$PYTHONPATH\npython proj/train.py\n", true},
      {"PYTHONPATH=\"$PWD\" torchrun --nproc_per_node 1 proj/train.py\n", true},
      {"PYTHONPATH=other python proj/train.py\n", false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    given_far("a/proj/train.py", "a/settings.py");
    given("a/run.sh", rows[i].command);
    GO();
    CHECK(batch_is(rows[i].is_there ? 64 : 0), "%s", rows[i].command);
  }
}

TEST(modules_of_modules_are_looked_up_from_the_script) {
  begin();
  given("p/train.py", TRAIN("from conf import settings\n"));
  folder_write_text("p/conf/__init__.py", "");
  folder_write_text("p/conf/settings.py", "from conf.sizes import BATCH\n");
  folder_write_text("p/conf/sizes.py", "from .more import X\nBATCH = 64\n");
  folder_write_text("p/conf/more.py", "X = 1\n");
  GO();
  CHECK(c.files.project.files.len >= 3, "%zu files", c.files.project.files.len);
}

// The result is the same from every folder.
TEST(the_spelling_of_a_path_does_not_matter) {
  char before[4096];
  CHECK(getcwd(before, sizeof before), "no folder");
  for (int i = 0; i < 2; i++) {
    given_far("a/b/proj/train.py", "a/settings.py");
    folder_write_text("a/b/proj/plimsoll.yaml", "knobs: {}\n");
    if (i && !chdir(folder_path("a/b/proj"))) files[0] = "train.py";
    bool is_read = go();
    CHECK(!chdir(before) && is_read && batch_is(0), "spelling %d", i);
  }
}

TEST_MAIN
