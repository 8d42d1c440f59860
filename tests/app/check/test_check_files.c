// Findings of the pre-flight list about values that readers of files misread: they appear only if they are true, with
// the place and what to type. Real files have none that fail.
#include "checking.h"

#include <dirent.h>

#define CONFIGS TEST_ROOT "/../../shared/configs/"

// ---- YAML -------------------------------------------------------------------------------------------

#define TRAINER_YAML "per_device_train_batch_size: 8\noutput_dir: o\nnum_train_epochs: 1\n"

TEST(check_of_values_that_are_misread) {
  static const struct {
    const char *line, *what, *fix;
  } cases[] = {
      {"learning_rate: 1e-5", "learning_rate: 1e-5 is read as text", "learning_rate: 1.0e-5"},
      {"learning_rate: 2E4", "is read as text", "learning_rate: 2.0e+4"},
      {"weight_decay: 1.5e3", "is read as text", "weight_decay: 1.5e+3"},
      {"seed: 010", "is read as 8", "seed: 10"},
      {"seed: 08", "is read as text", "seed: 8"},
      {"max_steps: 1,000", "is read as text", "max_steps: 1000"},
      {"time_limit: 12:30", "is read as 750", "time_limit: \"12:30\""},
      {"save_strategy: no", "is read as false", "save_strategy: \"no\""},
      {"max_steps: None", "is read as the text \"None\"", "max_steps: null"},
      {"fp16: \"False\"", "is read as text", "fp16: false"},
      {"fp16: n", "is read as text", "fp16: false"},
      {"bf16: Y", "is read as text", "bf16: true"},
      {"learning_rate: \"0.0001\"", "is read as text", "learning_rate: 0.0001"},
      {"run_name: 2024-05-01", "is read as a date", "run_name: \"2024-05-01\""},
      {"revision: 1.10", "is read as the number 1.1", "revision: \"1.10\""},
      {"data_version: 2.0", "is read as the number 2", "data_version: \"2.0\""},
      {"model_revision: 1234567", "is read as the number 1234567", "model_revision: \"1234567\""},
      {"run_name: on", "is read as true", "run_name: \"on\""},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[256];
    begin();
    snprintf(text, sizeof text, TRAINER_YAML "%s\n", cases[i].line);
    given("train.yaml", text);
    GO();
    CHECK_FOUND("yaml.type", CHECK_WARNING);
    const check_finding *f = found("yaml.type");
    CHECK_SAYS(f->what, cases[i].what);
    CHECK_STR(f->fix, cases[i].fix);
    CHECK(f->line == 4, "line %d", f->line);
  }
}

TEST(check_of_values_that_are_read_correctly) {
  static const char *const lines[] = {
      "learning_rate: 1.0e-5",
      "learning_rate: 0.00001",
      "max_steps: 1_000",
      "seed: 0",
      "run_name: 12e5",
      "save_strategy: \"no\"",
      "bf16: yes",
      "logging_dir: runs/None",
      "cuda: 0,1,2",
      "seed: 7",
      "run_name: 'learning: 1e-5'",
      "gradient_checkpointing: off",
      "run_name: may-2024",
      "run_name: '2024-05-01'",
      "data_version: 2",
      "data_version: 2.1",
      "revision: 3f1c9ab",
      "revision: main",
      "initial: y",
      "run_name: \"7\"",
      "seed: null",
      "max_steps: -1",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    char text[256];
    begin();
    snprintf(text, sizeof text, TRAINER_YAML "%s\n", lines[i]);
    given("train.yaml", text);
    GO();
    CHECK(!found("yaml.type"), "%s: %s", lines[i], found("yaml.type")->what);
    CHECK_FOUND("yaml", CHECK_OK);
  }
}

// accelerate reads `mixed_precision: no` as intended, but not `distributed_type: no`.
TEST(check_of_no_in_accelerate_files) {
  begin();
  given("accelerate.yaml", "distributed_type: NO\nmixed_precision: no\nnum_processes: 1\n");
  GO();
  CHECK_FOUND("yaml.type", CHECK_WARNING);
  CHECK_STR(found("yaml.type")->fix, "distributed_type: \"NO\"");
  CHECK(check_count(&c, CHECK_WARNING) == 1, "%zu warnings", check_count(&c, CHECK_WARNING));
}

// OmegaConf reads numbers such as 1e-4 as numbers; PyYAML reads them as text.
TEST(check_knows_who_reads_exponents) {
  begin();
  given_torchtune(1);
  GO();
  CHECK_NOT_FOUND("yaml.type");
  static const char *const readers[] = {"import yaml\ncfg = yaml.safe_load(open('c.yaml'))\n",
                                        "from omegaconf import OmegaConf\n"
                                        "cfg = OmegaConf.load('c.yaml')\n"};
  for (size_t i = 0; i < 2; i++) {
    begin();
    given("c.yaml", "per_device_train_batch_size: 4\nlearning_rate: 1e-4\n");
    given("train.py", readers[i]);
    GO();
    if (i) CHECK_NOT_FOUND("yaml.type");
    else CHECK_FOUND("yaml.type", CHECK_WARNING);
  }
}

// ---- real files -------------------------------------------------------------------------------------

// Examples that the frameworks have kept although they refuse them now; the folder of one says so itself.
static bool is_refused_now(const char *name, const char *id) {
  static const struct {
    const char *name, *id;
  } refused[] = {
      {"axolotl__archived__falcon__config-7b-qlora.yml", "stops.setting"},
      {"axolotl__archived__jeopardy-bot__config.yml", "stops.setting"},
      {"axolotl__archived__mpt-7b__config.yml", "stops.setting"},
      {"axolotl__archived__stablelm-2__1.6b__fft.yml", "stops.setting"},
      {"axolotl__gemma4__26b-a4b-moe-bnb-lora.yaml", "stops.attention"},
      {"axolotl__gemma4__26b-a4b-moe-nvfp4-lora.yaml", "stops.attention"},
      {"axolotl__llama-3__3b-qat-nvfp4.yaml", "stops.qat"},
      {"axolotl__llama-4__do-no-use-fa2__maverick-qlora-fsdp1.yaml", "conflict.refused_flash"},
      {"axolotl__qwen3.5__27b-fft.yaml", "stops.setting"},
      {"handbook__zephyr-7b-beta__dpo__config_qlora.yaml", "stops.dataset_mixer"},
      {"torchtune__dev__8B_full_experimental.yaml", "stops.setting"},
      {"torchtune__llama3_2__3B_qat_lora.yaml", "stops.qat"},
      {"torchtune__qwen3__4B_qat_lora.yaml", "stops.qat"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (strcmp(refused[i].name, name) == 0 && strcmp(refused[i].id, id) == 0) return true;
  return false;
}

// The files that the projects publish work: check must report no failure and no doubt, except that a file they refer
// to is not in the folder, that this host has too little memory, and that three of Axolotl's examples stop with the kernels
// that it turns on by itself since it has them (tests/truth/lora_kernels.json).
static bool is_fine(const char *name) {
  for (size_t i = 0; i < c.findings.len; i++) {
    const check_finding *f = &c.findings.at[i];
    bool is_of_place = strcmp(f->id, "files.missing") == 0 || strcmp(f->id, "host.offload") == 0 ||
                       strcmp(f->id, "conflict.lora_kernels") == 0;
    bool is_known = is_of_place || is_refused_now(name, f->id);
    if (f->severity >= CHECK_WARNING && !is_known) return false;
  }
  return true;
}

TEST(check_finds_nothing_wrong_with_real_files) {
  DIR *folder = opendir(CONFIGS);
  if (!folder) SKIP("no %s", CONFIGS);
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (*entry->d_name == '.' || strstr(entry->d_name, ".md")) continue;
    begin();
    snprintf(paths[0], sizeof paths[0], CONFIGS "%.150s", entry->d_name);
    files[file_count++] = paths[0];
    bool ok = go() && is_fine(entry->d_name);
    if (!ok) print_findings();
    test_count(entry->d_name, ok);
  }
  closedir(folder);
}

// ---- without files ----------------------------------------------------------------------------------

TEST(check_without_files_only_looks_around) {
  begin();
  GO();
  CHECK_NOT_FOUND("batch");
  CHECK_NOT_FOUND("fit");
  CHECK(!check_count(&c, CHECK_FAILS), "failures");
}

// Axolotl's schema sets the accumulation to 1 before batch_size can have an effect.
TEST(check_of_batch_size_in_axolotl) {
  begin();
  given("a.yaml", "base_model: Qwen/Qwen2.5-0.5B\nmicro_batch_size: 2\nbatch_size: 32\n"
                  "sequence_len: 512\nadapter: lora\nlora_r: 8\n");
  given("go.sh", "torchrun --nproc_per_node 1 -m axolotl.cli.train a.yaml\n");
  GO();
  const plim_project_knob *k = &c.files.project.knobs[PLIM_KNOB_ACCUMULATE];
  CHECK(c.accumulate == 1 && c.effective_batch == 2, "%lld", (long long)c.accumulate);
  CHECK(k->is_fixed && strstr(k->why, "together with batch_size"), "%s", k->why);
}

// The path of a finding is whole: programs open it.
TEST(check_names_a_file_in_deep_folders) {
  char name[300];
  for (size_t i = 0; i < sizeof name; i++) name[i] = i % 50 == 49 ? '/' : 'd';
  strcpy(name + sizeof name - 8, "/run.sh");
  begin();
  folder_write_text(name, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\npython train.py\n");
  const char *path = folder_path(name);
  CHECK(!check_read(&c, &(project_input){.files = &path, .count = 1}, &error), "%s", error.message);
  check_all(&c, NULL);
  CHECK_FOUND("shell.unexported", CHECK_WARNING);
  CHECK_STR(found("shell.unexported")->file, path);
  folder_remove();
}

TEST_MAIN
