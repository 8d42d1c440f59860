// Plans by simulated runs. The program that is planned is this test itself: a link named python leads to it, and it takes
// its batch from the flags or from the text of its script, as a real script does, and needs memory for it.
#include "trial.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"
#include "plan_edits.h"
#include "test.h"

// ---- the program ------------------------------------------------------------------------------------

typedef int malloc_function(void **pointer, size_t bytes);

// The number after `name` in a text; 0: none.
static int number_after(const char *text, const char *name) {
  const char *found = strstr(text, name);
  return found ? atoi(found + strlen(name)) : 0;
}

static int setting(int argc, char **argv, const char *flag, const char *in_script) {
  static char text[4096];
  FILE *in = fopen(argv[1], "r");
  size_t size = in ? fread(text, 1, sizeof text - 1, in) : 0;
  if (in) fclose(in);
  text[size] = 0;
  for (int i = 2; i + 1 < argc; i++)
    if (strcmp(argv[i], flag) == 0) return atoi(argv[i + 1]);
  return number_after(text, in_script);
}

static int of_environment(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

static void write_observed(int batch, uint64_t bytes) {
  char path[PLIM_PATH_BYTES];
  snprintf(path, sizeof path, "%s/%d.json", getenv("PLIMSOLL_OUT"), (int)getpid());
  FILE *out = fopen(path, "w");
  fprintf(out,
          "{\"steps\": %d, \"devices\": [{\"allocated_bytes.all.peak\": %llu,"
          "\"reserved_bytes.all.peak\": %llu}], \"observed\": {\"batch\": [%d, 16]}}",
          of_environment("FAKE_STEPS", 3), (unsigned long long)bytes, (unsigned long long)bytes,
          batch);
  fclose(out);
}

// A GiB for the model and 256 MiB for each sample. With FAKE_DATA samples, batches do not become larger.
static int train(int argc, char **argv) {
  int batch = setting(argc, argv, "--batch-size", "BATCH = ");
  if (!batch) batch = setting(argc, argv, "", "per_device_train_batch_size=");
  int data = of_environment("FAKE_DATA", batch), base = of_environment("FAKE_GIB", 1);
  void *pointer;
  malloc_function *allocate =
      (malloc_function *)(uintptr_t)dlsym(RTLD_DEFAULT, "cudaMalloc"); // of the simulated card
  if (!allocate) return 3;
  printf("a batch of %d\n", batch);
  if (batch > of_environment("FAKE_FAILS_ABOVE", 1 << 30)) return 7;
  const char *conf = getenv("PYTORCH_CUDA_ALLOC_CONF"), *wanted = getenv("FAKE_CONF");
  if (wanted && (!conf || strcmp(conf, wanted) != 0)) return 8;
  if (data < batch) batch = data;
  uint64_t bytes = (uint64_t)base * PLIM_GIB + (uint64_t)batch * 256 * PLIM_MIB;
  if (allocate(&pointer, bytes) != 0) return 1;
  write_observed(batch, bytes);
  return 0;
}

// ---- scripts ----------------------------------------------------------------------------------------

#define LOOP                                                                                       \
  "optimizer = torch.optim.AdamW(model.parameters())\n"                                            \
  "for x in loader:\n"                                                                             \
  "    model(x).sum().backward()\n"                                                                \
  "    optimizer.step()\n"

static const char by_flag[] = "import argparse, torch\n"
                              "from torch.utils.data import DataLoader\n"
                              "parser = argparse.ArgumentParser()\n"
                              "parser.add_argument('--batch-size', type=int, default=4)\n"
                              "args = parser.parse_args()\n"
                              "model = torch.nn.Linear(8, 8).cuda()\n"
                              "loader = DataLoader(data, batch_size=args.batch_size)\n" LOOP;
static const char by_constant[] = "import torch\n"
                                  "from torch.utils.data import DataLoader\n"
                                  "BATCH = 4\n"
                                  "model = torch.nn.Linear(8, 8).cuda()\n"
                                  "loader = DataLoader(data, batch_size=BATCH)\n" LOOP;
static const char by_trainer[] =
    "from transformers import Trainer, TrainingArguments\n"
    "args = TrainingArguments(output_dir='out', per_device_train_batch_size=8,\n"
    "                         gradient_accumulation_steps=15)\n"
    "Trainer(model, args, train_dataset=data).train()\n";
static const char by_both[] =
    "import argparse\n"
    "from transformers import Trainer, TrainingArguments\n"
    "parser = argparse.ArgumentParser()\n"
    "parser.add_argument('--batch-size', type=int, default=4)\n"
    "flags = parser.parse_args()\n"
    "args = TrainingArguments(output_dir='out', per_device_train_batch_size=flags.batch_size)\n"
    "Trainer(model, args, train_dataset=data).train()\n";
static const char without_batch[] = "import torch\n"
                                    "model = torch.nn.Linear(8, 8).cuda()\n" LOOP;

// ---- running it -------------------------------------------------------------------------------------

static char python[PLIM_PATH_BYTES];
static trial_program program;
static trial_search search;
static plim_error error;

static void begin(const char *script) {
  char me[PLIM_PATH_BYTES];
  folder_make();
  folder_write_text("train.py", script);
  mkdir(folder_path("tmp"), 0700);
  snprintf(python, sizeof python, "%s", folder_path("python"));
  if (!realpath("/proc/self/exe", me) || symlink(me, python) || chdir(folder_path("."))) abort();
  setenv("XDG_STATE_HOME", folder_path("state"), 1);
  setenv("TMPDIR", folder_path("tmp"), 1);
  error = (plim_error){0};
}

static plim_err open_program(const char *flag, const char *value) {
  static const char *words[5];
  memcpy(words, (const char *[]){python, "train.py", flag, value, NULL}, sizeof words);
  return trial_program_open(&program, &(trial_options){.words = words}, &error);
}

static simulate_request card_of(uint64_t gib) {
  return (simulate_request){.stand_ins = TEST_CARD,
                            .gpu = plim_gpu_named("4090"),
                            .total_bytes = gib * PLIM_GIB,
                            .context_bytes = 512 * PLIM_MIB,
                            .steps = 3};
}

static plim_err run_search(uint64_t gib) {
  search = (trial_search){.program = &program, .request = card_of(gib), .most_runs = 14};
  plim_err err = trial_search_first(&search, NULL, NULL, &error);
  return err ? err : trial_search_rest(&search, NULL, NULL, &error);
}

static const trial_run *best(void) {
  return search.best == SIZE_MAX ? NULL : &search.runs.at[search.best];
}

static bool is_empty(const char *path) {
  DIR *folder = opendir(path);
  int entries = 0;
  while (folder && readdir(folder)) entries++;
  if (folder) closedir(folder);
  return entries == 2;
}

static void end(void) {
  trial_search_clear(&search);
  trial_program_clear(&program);
  CHECK(is_empty(folder_path("tmp")), "edited copies were left behind");
  if (chdir("/")) abort();
  unsetenv("TMPDIR");
  folder_remove();
}

#define NEED_SANDBOX                                                                               \
  do {                                                                                             \
    plim_error why;                                                                                \
    if (!plim_sandbox_is_possible(&why)) SKIP("no sandbox here: %s", why.message);                 \
  } while (0)

#define CHECK_PLANS(gib, wanted_micro, wanted_accumulation)                                        \
  do {                                                                                             \
    CHECK(!run_search(gib), "%s", error.message);                                                  \
    CHECK(best(), "nothing fits");                                                                 \
    CHECK(best()->is_on_card &&search.is_exact, "not proved");                                     \
    CHECK(best()->micro == (wanted_micro) && best()->accumulation == (wanted_accumulation),        \
          "planned %lld x %lld", (long long)best()->micro, (long long)best()->accumulation);       \
  } while (0)

// ---- what is found ----------------------------------------------------------------------------------

// 24 GiB are 512 MiB of context, 1 GiB and 90 samples.
TEST(the_batch_is_a_flag_of_the_command) {
  NEED_SANDBOX;
  trial_diff diff;
  char wanted[PLIM_PATH_BYTES + 64];
  begin(by_flag);
  CHECK(!open_program("--batch-size", "6"), "%s", error.message);
  CHECK(program.micro == 6 && program.how == TRIAL_ACCUMULATION_KEPT && !program.effective,
        "micro batch %lld", (long long)program.micro);
  CHECK_PLANS(24, 90, 1);
  CHECK(search.runs.len <= 5, "%zu runs for a straight line", search.runs.len);
  CHECK(search.runs.at[0].micro == 6 && search.runs.at[0].verdict == TRIAL_FITS, "the first run");
  CHECK(!trial_program_diff(&program, 90, &diff, &error), "%s", error.message);
  snprintf(wanted, sizeof wanted, "%s train.py --batch-size 90", python);
  CHECK_STR(diff.command, wanted);
  CHECK(!diff.files.len, "a file would change");
  trial_diff_clear(&diff);
  end();
}

TEST(the_batch_is_the_default_of_a_flag) {
  NEED_SANDBOX;
  begin(by_flag);
  CHECK(!open_program(NULL, NULL), "%s", error.message);
  CHECK(program.micro == 4, "micro batch %lld", (long long)program.micro);
  end();
}

TEST(accumulation_follows_from_a_global_batch) {
  begin("from megatron.training import pretrain\npretrain(provider)\n");
  const char *const words[] = {python, "train.py", "--micro-batch-size", "4", "--global-batch-size",
                               "24",   NULL};
  CHECK(!trial_program_open(&program, &(trial_options){.words = words}, &error), "%s",
        error.message);
  CHECK(program.how == TRIAL_ACCUMULATION_DIVIDED && program.effective == 24, "effective %lld",
        (long long)program.effective);
  CHECK(trial_accumulation_of(&program, 8) == 3 && !trial_accumulation_of(&program, 5),
        "of 8 and 5");
  CHECK(trial_next_micro(&program, 4) == 6 && trial_micro_at_most(&program, 11) == 8, "divisors");
  end();
}

TEST(the_program_is_a_module) {
  begin(by_constant);
  folder_write_text("pkg/__main__.py", by_flag);
  const char *const module[] = {python, "-m", "train", NULL};
  const char *const package[] = {python, "-m", "pkg", "--batch-size", "6", NULL};
  CHECK(!trial_program_open(&program, &(trial_options){.words = module}, &error), "%s",
        error.message);
  CHECK(program.micro == 4, "micro batch %lld", (long long)program.micro);
  trial_program_clear(&program);
  CHECK(!trial_program_open(&program, &(trial_options){.words = package}, &error), "%s",
        error.message);
  CHECK(program.micro == 6, "micro batch %lld", (long long)program.micro);
  end();
}

TEST(the_batch_is_a_constant_and_the_original_stays) {
  NEED_SANDBOX;
  struct stat before, after;
  trial_diff diff;
  char text[sizeof by_constant] = "";
  begin(by_constant);
  CHECK(stat("train.py", &before) == 0, "no script");
  CHECK(!open_program(NULL, NULL), "%s", error.message);
  CHECK_PLANS(24, 90, 1);
  CHECK(!trial_program_diff(&program, 90, &diff, &error), "%s", error.message);
  CHECK(!diff.command && memmem(diff.files.at, diff.files.len, "+BATCH = 90\n", 12), "%.*s",
        (int)diff.files.len, diff.files.at);
  trial_diff_clear(&diff);
  FILE *in = fopen("train.py", "r");
  CHECK(in && fread(text, 1, sizeof text - 1, in) == sizeof text - 1, "it is shorter");
  fclose(in);
  CHECK_STR(text, by_constant);
  CHECK(stat("train.py", &after) == 0 && after.st_mtim.tv_sec == before.st_mtim.tv_sec &&
            after.st_mtim.tv_nsec == before.st_mtim.tv_nsec && after.st_ino == before.st_ino,
        "its time changed");
  end();
}

// 120 = 8 x 15: the largest divisor up to 90 is 60.
TEST(accumulation_keeps_the_effective_batch) {
  NEED_SANDBOX;
  trial_diff diff;
  begin(by_trainer);
  CHECK(!open_program(NULL, NULL), "%s", error.message);
  CHECK(program.how == TRIAL_ACCUMULATION_WRITTEN && program.effective == 120,
        "effective batch %lld", (long long)program.effective);
  CHECK_PLANS(24, 60, 2);
  for (size_t i = 0; i < search.runs.len; i++)
    CHECK(search.runs.at[i].micro * search.runs.at[i].accumulation == 120, "run %zu", i);
  CHECK(!trial_program_diff(&program, 60, &diff, &error), "%s", error.message);
  CHECK(memmem(diff.files.at, diff.files.len, "batch_size=60", 13) &&
            memmem(diff.files.at, diff.files.len, "steps=2", 7),
        "%.*s", (int)diff.files.len, diff.files.at);
  trial_diff_clear(&diff);
  end();
}

// The program's own micro batch, 8, does not divide the batch that is asked for: it is measured and not planned.
TEST(another_effective_batch_is_asked_for) {
  NEED_SANDBOX;
  begin(by_trainer);
  const char *const words[] = {python, "train.py", NULL};
  CHECK(!trial_program_open(&program, &(trial_options){.words = words, .effective = 100}, &error),
        "%s", error.message);
  CHECK_PLANS(24, 50, 2);
  CHECK(search.runs.at[0].micro == 8, "the first run is not the program's own");
  end();
}

TEST(a_huge_effective_batch_has_no_huge_micro_batch) {
  NEED_SANDBOX;
  begin(by_trainer);
  const char *const words[] = {python, "train.py", NULL};
  const trial_options huge = {.words = words, .effective = 1ull << 40};
  CHECK(!trial_program_open(&program, &huge, &error), "%s", error.message);
  CHECK(trial_micro_at_most(&program, 1 << 20) == 1 << 16, "a search would take for ever");
  end();
}

TEST(the_whole_effective_batch_fits) {
  NEED_SANDBOX;
  begin(by_trainer);
  CHECK(!open_program(NULL, NULL), "%s", error.message);
  CHECK_PLANS(80, 120, 1);
  CHECK(search.runs.len == 3, "%zu runs", search.runs.len); // 8, 15 and 120
  end();
}

TEST(a_batch_that_does_not_fit_becomes_smaller) {
  NEED_SANDBOX;
  begin(by_flag);
  CHECK(!open_program("--batch-size", "500"), "%s", error.message);
  CHECK_PLANS(24, 90, 1);
  CHECK(search.runs.at[0].verdict == TRIAL_DOES_NOT_FIT, "the first run fits");
  end();
}

TEST(nothing_fits) {
  NEED_SANDBOX;
  begin(by_flag);
  setenv("FAKE_GIB", "30", 1);
  CHECK(!open_program("--batch-size", "6"), "%s", error.message);
  CHECK(!run_search(24), "%s", error.message);
  CHECK(!best(), "planned %lld", (long long)best()->micro);
  unsetenv("FAKE_GIB");
  end();
}

TEST(the_data_ends_the_search) {
  NEED_SANDBOX;
  begin(by_flag);
  setenv("FAKE_DATA", "20", 1);
  CHECK(!open_program("--batch-size", "6"), "%s", error.message);
  CHECK_PLANS(24, 20, 1);
  unsetenv("FAKE_DATA");
  end();
}

// ---- a plan by prediction ---------------------------------------------------------------------------

// With FAKE_CONF, the program fails unless the allocator's settings came with its environment.
TEST(a_plan_is_proved_with_an_edited_file_and_an_environment) {
  NEED_SANDBOX;
  trial_run run;
  begin(by_trainer);
  setenv("FAKE_CONF", "expandable_segments:True", 1);
  CHECK(!open_program(NULL, NULL), "%s", error.message);
  search = (trial_search){.program = &program, .request = card_of(24), .most_runs = 14};
  CHECK(trial_search_first(&search, NULL, NULL, &error), "the settings are there already");
  unsetenv("FAKE_CONF");
  CHECK(!trial_search_first(&search, NULL, NULL, &error), "%s", error.message);
  setenv("FAKE_CONF", "expandable_segments:True", 1);
  plim_knob_change changes[] = {
      {PLIM_KNOB_MICRO_BATCH, {.kind = PLIM_VALUE_INTEGER, .integer = 60}},
      {PLIM_KNOB_ACCUMULATE, {.kind = PLIM_VALUE_INTEGER, .integer = 2}},
      {PLIM_KNOB_ALLOC_CONF, {.kind = PLIM_VALUE_TEXT, .text = "expandable_segments:True"}}};
  CHECK(!trial_prove(&search, changes, 3, 60, NULL, NULL, &run, &error), "%s", error.message);
  CHECK(run.verdict == TRIAL_FITS && run.is_on_card && run.batch[0] == 60, "batch %llu",
        (unsigned long long)run.batch[0]);
  CHECK(run.needs_bytes == (512 + 1024 + 60 * 256) * PLIM_MIB, "%llu bytes",
        (unsigned long long)run.needs_bytes);
  changes[0].value.integer = 120, changes[1].value.integer = 1;
  CHECK(!trial_prove(&search, changes, 3, 120, NULL, NULL, &run, &error), "%s", error.message);
  CHECK(run.verdict == TRIAL_DOES_NOT_FIT && search.runs.len == 1, "120 samples fit");
  unsetenv("FAKE_CONF");
  end();
}

TEST(without_a_sandbox_no_plan_that_edits_files_is_proved) {
  trial_run run;
  begin(by_both);
  const char *const words[] = {python, "train.py", "--batch-size", "6", NULL};
  trial_options any = {.words = words, .is_any_batch = true};
  CHECK(!trial_program_open(&program, &any, &error), "%s", error.message);
  search = (trial_search){.program = &program, .request = card_of(24), .most_runs = 14};
  search.request.is_unsandboxed = true;
  CHECK(!trial_search_first(&search, NULL, NULL, &error), "%s", error.message);
  plim_knob_change checkpoint = {PLIM_KNOB_CHECKPOINT, {.kind = PLIM_VALUE_TEXT, .text = "on"}};
  CHECK(trial_prove(&search, &checkpoint, 1, 6, NULL, NULL, &run, &error) == PLIM_ERR_UNSUPPORTED &&
            strstr(error.message, "only the sandbox"),
        "%s", error.message);
  end();
}

static simulate_process seen_of_lora(void) {
  return (simulate_process){.config = "config.json",
                            .observed = {.parameters = 100,
                                         .trained = 10,
                                         .frozen_dtype = "bfloat16",
                                         .trained_dtype = "float32",
                                         .adapters = "LORA",
                                         .rank = 8,
                                         .dropout = 0.5,
                                         .targets = "q_proj,v_proj",
                                         .attention = "flash_attention_2",
                                         .autocast = "none",
                                         .optimizer_name = "adamw_torch",
                                         .strategy = "none",
                                         .checkpoints = true,
                                         .is_reentrant = true,
                                         .clips = true,
                                         .accumulation = 15,
                                         .batch = {8, 777},
                                         .has_tokens = true}};
}

// What was observed counts as typed, also where it is an option's default.
TEST(what_was_observed_becomes_options) {
  begin(by_trainer);
  CHECK(!open_program(NULL, NULL), "%s", error.message);
  simulate_process seen = seen_of_lora();
  job_args args = JOB_DEFAULTS_WITH(JOB_UNSET);
  cli_call typed = {0};
  CHECK(!trial_observed_fill(&program, &seen, &args, &typed, &error), "%s", error.message);
  CHECK_STR(args.model, "config.json");
  CHECK_STR(args.optimizer, "adamw-foreach");
  CHECK_STR(args.lora_targets, "q_proj,v_proj");
  CHECK_STR(job_dtypes[args.dtype], "bf16");
  CHECK_STR(plim_attention_names[args.attention], "flash");
  CHECK(args.batch == 8 && args.accumulate == 15 && args.world == 1 && args.seq == 777, "counts");
  CHECK(args.lora_rank == 8 && args.lora_dropout == 0.5 && !args.no_clip, "adapters");
  CHECK(args.reentrant && !args.checkpoint, "checkpointing");
  CHECK(job_is_typed(&args, &args.amp) && job_is_typed(&args, &args.mask), "defaults");
  vec_free(&typed.given);
  end();
}

TEST(what_is_not_predicted_is_said) {
  begin(by_trainer);
  CHECK(!open_program(NULL, NULL), "%s", error.message);
  job_args args = JOB_DEFAULTS_WITH(JOB_UNSET);
  cli_call typed = {0};
  simulate_process seen = seen_of_lora();
  seen.config = NULL;
  CHECK(trial_observed_fill(&program, &seen, &args, &typed, &error), "no configuration");
  seen = seen_of_lora(), seen.observed.adapters = "IA3";
  CHECK(trial_observed_fill(&program, &seen, &args, &typed, &error) &&
            strstr(error.message, "IA3 adapters"),
        "%s", error.message);
  seen = seen_of_lora(), seen.observed.accumulation = 4;
  CHECK(trial_observed_fill(&program, &seen, &args, &typed, &error) &&
            strstr(error.message, "ran 4 backward passes for each optimizer step"),
        "%s", error.message);
  vec_free(&typed.given);
  end();
}

// As in a plan that somebody made by hand.
TEST(a_command_without_the_usual_lines_around_it) {
  plim_project project = {0};
  plim_knob_change conf = {PLIM_KNOB_ALLOC_CONF,
                           {.kind = PLIM_VALUE_TEXT, .text = "expandable_segments:True"}};
  char *command = NULL;
  CHECK(!plim_project_add_typed(&project, "#!/bin/bash\ntorchrun train.py", &error), "%s",
        error.message);
  CHECK(!plim_project_finish(&project, &error), "%s", error.message);
  plim_err err = plan_command_of(&project, &conf, 1, &command, &error);
  CHECK(!err && command && strstr(command, "torchrun train.py"), "%s",
        command ? command : error.message);
  free(command);
  plim_project_clear(&project);
}

// ---- what is refused --------------------------------------------------------------------------------

TEST(a_program_that_fails_ends_the_search) {
  NEED_SANDBOX;
  begin(by_flag);
  setenv("FAKE_FAILS_ABOVE", "6", 1);
  CHECK(!open_program("--batch-size", "6"), "%s", error.message);
  CHECK(run_search(24) == PLIM_ERR_UNSUPPORTED, "it was planned");
  CHECK(strstr(error.message, "micro batch of 12 the program failed"), "%s", error.message);
  CHECK(access(search.failed_log, R_OK) == 0, "no log: %s", search.failed_log);
  unsetenv("FAKE_FAILS_ABOVE");
  end();
}

TEST(a_program_without_steps_is_not_planned) {
  NEED_SANDBOX;
  begin(by_flag);
  setenv("FAKE_STEPS", "0", 1);
  CHECK(!open_program("--batch-size", "6"), "%s", error.message);
  CHECK(run_search(24) && strstr(error.message, "without an optimizer step"), "%s", error.message);
  unsetenv("FAKE_STEPS");
  end();
}

TEST(a_knob_without_effect_is_refused) {
  NEED_SANDBOX;
  begin(by_flag);
  setenv("FAKE_DATA", "3", 1);
  CHECK(!open_program("--batch-size", "6"), "%s", error.message);
  CHECK(run_search(24) && strstr(error.message, "batches stayed the same: 3 x 16"), "%s",
        error.message);
  CHECK(strstr(error.hint, "--set micro_batch="), "%s", error.hint);
  unsetenv("FAKE_DATA");
  end();
}

TEST(a_batch_that_is_not_found_is_asked_for) {
  begin(without_batch);
  CHECK(open_program(NULL, NULL) == PLIM_ERR_ARGUMENT, "micro batch %lld",
        (long long)program.micro);
  CHECK(strstr(error.message, "did not find where"), "%s", error.message);
  CHECK(strstr(error.hint, "--set micro_batch="), "%s", error.hint);
  end();
}

// ---- settings that the user names -------------------------------------------------------------------

static trial_with with;

static plim_err make_with(const char *flag, const char *value, const char *first,
                          const char *second) {
  static const char *words[5];
  cli_strings texts = {0};
  memcpy(words, (const char *[]){python, "train.py", flag, value, NULL}, sizeof words);
  vec_push(&texts, first);
  if (second) vec_push(&texts, second);
  plim_err err = trial_with_make(&with, &(trial_options){.words = words}, &texts, &error);
  vec_free(&texts);
  return err;
}

#define CHECK_CHANGED(i, wanted_where, wanted_key, wanted_from, wanted_to)                         \
  do {                                                                                             \
    CHECK(with.changed.len > (i), "%zu changes", with.changed.len);                                \
    CHECK(with.changed.at[i].where == (wanted_where), "where %d", with.changed.at[i].where);       \
    CHECK_STR(with.changed.at[i].key, wanted_key);                                                 \
    CHECK_STR(with.changed.at[i].from, wanted_from);                                               \
    CHECK_STR(with.changed.at[i].to, wanted_to);                                                   \
  } while (0)

static void end_with(void) {
  trial_with_clear(&with);
  end();
}

TEST(with_changes_a_flag_of_the_command) {
  begin(by_flag);
  CHECK(!make_with("--batch-size", "6", "micro_batch=2", NULL), "%s", error.message);
  CHECK_STR(with.version.words.at[3], "2");
  CHECK(!with.version.replaced.len, "a file would change");
  CHECK_CHANGED(0, TRIAL_IN_COMMAND, "--batch-size", "6", "2");
  CHECK(with.effective_before == 6 && !with.keeping_accumulation, "it has no accumulation");
  end_with();
}

TEST(with_changes_copies_of_files) {
  struct stat before, after;
  char text[4096] = "";
  begin(by_trainer);
  CHECK(stat("train.py", &before) == 0, "no script");
  CHECK(!make_with(NULL, NULL, "batch=2", "checkpoint=on"), "%s", error.message);
  CHECK(with.version.replaced.len == 1, "%zu copies", with.version.replaced.len);
  FILE *in = fopen(with.version.replaced.at[0].with, "r");
  CHECK(in && fread(text, 1, sizeof text - 1, in), "no copy");
  fclose(in);
  CHECK(strstr(text, "per_device_train_batch_size=2") &&
            strstr(text, "gradient_checkpointing=True"),
        "%s", text);
  CHECK_CHANGED(0, TRIAL_IN_FILE, "TrainingArguments.per_device_train_batch_size", "8", "2");
  CHECK_CHANGED(1, TRIAL_IN_FILE, "TrainingArguments.gradient_checkpointing", "", "true");
  CHECK_STR(with.changed.at[0].file, "train.py");
  CHECK(with.effective_before == 120 && with.effective_after == 30, "effective %lld",
        (long long)with.effective_after);
  CHECK(with.keeping_accumulation == 60, "accumulation %lld", (long long)with.keeping_accumulation);
  CHECK(stat("train.py", &after) == 0 && after.st_ino == before.st_ino &&
            after.st_size == before.st_size,
        "the original changed");
  CHECK(trial_version_check(&with.version, true, &error) == PLIM_ERR_UNSUPPORTED,
        "copies without a sandbox");
  end_with();
}

TEST(with_adds_a_file) {
  char text[4096] = "";
  begin(by_trainer);
  CHECK(!make_with("--nproc", "2", "strategy=zero2", NULL), "%s", error.message);
  CHECK(with.version.replaced.len == 2, "%zu files", with.version.replaced.len);
  CHECK_STR(with.version.replaced.at[0].path, "ds_zero2.json");
  FILE *in = fopen(with.version.replaced.at[0].with, "r");
  CHECK(in && fread(text, 1, sizeof text - 1, in), "no file");
  fclose(in);
  CHECK(strstr(text, "\"stage\": 2"), "%s", text);
  CHECK_CHANGED(0, TRIAL_IN_ADDED_FILE, "zero_optimization.stage", "", "2");
  CHECK_STR(with.changed.at[0].file, "ds_zero2.json");
  CHECK(trial_version_check(&with.version, true, &error) == PLIM_ERR_UNSUPPORTED &&
            strstr(error.message, "the new file ds_zero2.json"),
        "%s", error.message);
  CHECK(access("ds_zero2.json", F_OK) != 0, "the file was written into the project");
  end_with();
}

TEST(with_sets_the_allocator_in_the_environment) {
  begin(by_trainer);
  unsetenv("PYTORCH_ALLOC_CONF");
  setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64", 1);
  CHECK(!make_with(NULL, NULL, "alloc_conf=expandable_segments:True", NULL), "%s", error.message);
  CHECK_STR(with.variables[0], "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  CHECK_CHANGED(0, TRIAL_IN_ENVIRONMENT, "PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64",
                "expandable_segments:True");
  trial_with_clear(&with);
  setenv("PYTORCH_ALLOC_CONF", "", 1); // the newer name, which PyTorch prefers
  CHECK(!make_with(NULL, NULL, "alloc_conf=max_split_size_mb:128", NULL), "%s", error.message);
  CHECK_STR(with.variables[0], "PYTORCH_ALLOC_CONF=max_split_size_mb:128");
  trial_with_clear(&with);
  CHECK(make_with(NULL, NULL, "alloc_conf=max_split_size_mb:8", NULL) &&
            strstr(error.message, "smallest"),
        "%s", error.message);
  unsetenv("PYTORCH_ALLOC_CONF");
  unsetenv("PYTORCH_CUDA_ALLOC_CONF");
  end_with();
}

TEST(with_refuses_what_the_program_has_no_place_for) {
  begin(without_batch);
  CHECK(make_with(NULL, NULL, "micro_batch=2", NULL) == PLIM_ERR_UNSUPPORTED, "it was changed");
  CHECK(strstr(error.message, "found no key for micro_batch"), "%s", error.message);
  CHECK(strstr(error.hint, "--set micro_batch=FILE:KEY"), "%s", error.hint);
  CHECK(make_with(NULL, NULL, "micro_batch=2", "batch=3") == PLIM_ERR_ARGUMENT, "given twice");
  CHECK(make_with(NULL, NULL, "world=2", NULL) == PLIM_ERR_ARGUMENT, "a fact");
  end_with();
}

int main(int argc, char **argv) {
  const char *name = strrchr(argv[0], '/');
  if (argc > 1 && name && strcmp(name, "/python") == 0) return train(argc, argv);
  return test_main(argc, argv);
}
