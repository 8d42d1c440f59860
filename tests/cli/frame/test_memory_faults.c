// Whichever allocation fails, a command reports it or gives the same answer as without the failure. It never ends by a
// signal and never prints another number.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault_memory.h"
#include "folder.h"
#include "program.h"
#include "sort.h"
#include "test.h"

#ifdef TEST_SANITIZED
enum { MAX_RUNS = 20, MAX_EACH = 40 }; // in a process of its own, each run takes ten times as long
#else
enum { MAX_RUNS = 200, MAX_EACH = 100000 };
#endif
enum { MAX_WORDS = 16, MAX_OUTPUT = 1 << 16 };

typedef struct {
  int status; // exit code; -1: a signal
  size_t requests;
  char out[MAX_OUTPUT], err[MAX_OUTPUT];
} run_result;

static FILE *out_file, *err_file;

static void read_back(FILE *file, char *text) {
  rewind(file);
  text[fread(text, 1, MAX_OUTPUT - 1, file)] = 0;
}

static void child(const char *const *words, size_t at, bool stays) {
  char *argv[MAX_WORDS + 1] = {"plimsoll"};
  int argc = 1;
  while (argc < MAX_WORDS && words[argc - 1]) argc++;
  for (int i = 1; i < argc; i++) argv[i] = (char *)words[i - 1];
  dup2(fileno(out_file), STDOUT_FILENO);
  dup2(fileno(err_file), STDERR_FILENO);
  fault_memory_set(at, stays);
  int status = plimsoll_main(argc, argv);
  size_t requests = fault_memory_count();
  fault_memory_set(FAULT_NEVER, false);
  fflush(stdout);
  if (write(fileno(err_file), &requests, sizeof requests) < 0) _exit(99);
  _exit(status);
}

// Runs a command; the last line on stderr is the number of allocations.
static void run(const char *const *words, size_t at, bool stays, run_result *r) {
  int status;
  if (!out_file) out_file = tmpfile(), err_file = tmpfile();
  if (ftruncate(fileno(out_file), 0) || ftruncate(fileno(err_file), 0)) abort();
  rewind(out_file), rewind(err_file);
  fflush(stdout);
  pid_t pid = fork();
  if (pid == 0) child(words, at, stays);
  if (pid < 0 || waitpid(pid, &status, 0) != pid) abort();
  *r = (run_result){.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1};
  read_back(out_file, r->out);
  rewind(err_file);
  size_t length = fread(r->err, 1, MAX_OUTPUT - 1, err_file);
  if (r->status < 0 || length < sizeof r->requests) return;
  memcpy(&r->requests, r->err + length - sizeof r->requests, sizeof r->requests);
  r->err[length - sizeof r->requests] = 0;
}

static run_result undisturbed, disturbed;

static bool is_right(const run_result *r) {
  if (r->status == 2) return strstr(r->err, "error: ") != NULL;
  return r->status == undisturbed.status && strcmp(r->out, undisturbed.out) == 0 &&
         strcmp(r->err, undisturbed.err) == 0;
}

static size_t try_one(const char *const *words, size_t at, bool stays) {
  run(words, at, stays, &disturbed);
  if (is_right(&disturbed)) return 0;
  printf("  request %zu%s fails: exit %d, %.200s%.200s\n", at, stays ? " and all after it" : "",
         disturbed.status, disturbed.err,
         disturbed.status == undisturbed.status ? "another answer" : "");
  return 1;
}

// Fails every allocation of a small command; of a larger one, at most `most`, evenly distributed.
static void try_requests(const char *const *words, size_t most) {
  run(words, FAULT_NEVER, false, &undisturbed);
  CHECK(undisturbed.status == 0 || undisturbed.status == 1, "exit %d: %s", undisturbed.status,
        undisturbed.err);
  bool all = getenv("FAULT_EVERY"); // however long it takes
  size_t step = all ? 1 : undisturbed.requests / most + 1, wrong = 0;
  for (size_t at = 0; at < undisturbed.requests; at += step)
    wrong += try_one(words, at, false) + try_one(words, at, true);
  printf("  %zu requests, every %zu\n", undisturbed.requests, step);
  CHECK(undisturbed.requests > 50, "%zu requests", undisturbed.requests);
  CHECK(!wrong, "%zu wrong ends", wrong);
}

#define TRY(...) try_requests((const char *const[]){__VA_ARGS__, NULL}, MAX_RUNS)
// For small files: each request, except under a sanitizer, where that takes minutes.
#define TRY_EACH(...) try_requests((const char *const[]){__VA_ARGS__, NULL}, MAX_EACH)

static int by_tens(const void *x, const void *y) {
  int a = *(const int *)x / 10, b = *(const int *)y / 10;
  return (a > b) - (a < b);
}

// Elements of the same ten keep their order.
TEST(sorting) {
  enum { COUNT = 1000 };
  static int numbers[COUNT];
  for (int i = 0; i < COUNT; i++) numbers[i] = (i * 7 % 100) * 10 + i / 100;
  fault_memory_set(0, true);
  plim_sort(numbers, COUNT, sizeof *numbers, by_tens);
  size_t requests = fault_memory_count();
  fault_memory_set(FAULT_NEVER, false);
  CHECK(requests > 0, "it needed no memory");
  for (int i = 0; i < COUNT; i++) CHECK(numbers[i] == i, "%d at %d", numbers[i], i);
}

TEST(estimate) { TRY("estimate", "-m", "tiny-llama", "-b", "2", "-s", "128", "--steps", "2"); }

TEST(estimate_under_a_limit_as_json) {
  TRY("estimate", "-m", "tiny-llama", "-b", "2", "-s", "128", "--steps", "2", "--limit", "1200MiB",
      "--explain", "--json");
}

TEST(estimate_on_several_gpus) {
  TRY("estimate", "-m", "tiny-llama", "-s", "64", "--steps", "1", "--strategy", "zero3", "--world",
      "2");
}

TEST(estimate_of_a_contrastive_loss) {
  TRY("estimate", "-m", "minilm-l6", "-b", "48", "-s", "64", "--steps", "1", "--loss",
      "contrastive", "--loop", "trainer", "--cached-batch", "2");
}

TEST(explain) { TRY_EACH("explain", TEST_ROOT "/fixtures/logs/late.log"); }

TEST(replay) { TRY("replay", TEST_ROOT "/truth/recorded/poll-order.pickle.xz"); }

// Creates a project, and fixes the description of the machine.
static void make_project(void) {
  folder_make();
  folder_write_text("train.yaml", "model_name_or_path: tiny-llama\n"
                                  "per_device_train_batch_size: 2\n"
                                  "gradient_accumulation_steps: 2\n"
                                  "max_length: 64\n"
                                  "gradient_checkpointing: true  # to be safe\n"
                                  "output_dir: out\n"
                                  "learning_rate: 1.0e-4\n");
  setenv("PLIMSOLL_ROOT", TEST_ROOT "/fixtures/check/machine", 1);
}

TEST(plan_for_a_script) {
  folder_make();
  folder_write_text("train.py",
                    "def load(name):\n    return AutoModel.from_pretrained(name)\n"
                    "def main(args):\n    lr = 1e-4\n    m = load('tiny-llama')\n"
                    "    if args.lora:\n        m = get_peft_model(m, LoraConfig(r=8))\n"
                    "    a = TrainingArguments('o', per_device_train_batch_size=2)\n"
                    "    Trainer(m, a).train()\n"
                    "p.add_argument('--lora', action='store_true')\n"
                    "main(p.parse_args())\n");
  TRY("plan", folder_path("train.py"), "-m", "tiny-llama", "-s", "64", "--gpu", "4GiB");
  folder_remove();
}

// The command that starts the plan on several machines, with the words of the user's own command.
TEST(plan_for_two_machines) {
  make_project();
  folder_write_text("run.sh", "python train.py --config train.yaml --model_name_or_path tiny-llama "
                              "--per_device_train_batch_size 2 --bf16\n");
  folder_write_text("train.py", "TrainingArguments('o', per_device_train_batch_size=2)\n");
  TRY("plan", folder_path("run.sh"), "-s", "64", "--world", "4", "--nodes", "2", "--gpu", "4GiB",
      "--try", "micro_batch=2");
  folder_remove();
}

TEST(check) {
  make_project();
  TRY("check", folder_path("train.yaml"), "--gpu", "4GiB");
  folder_remove();
}

// Files that others refer to, a module that cannot be read, a duplicate key, a tab.
TEST(check_of_files_that_others_refer_to) {
  make_project();
  folder_write_text("run.sh", "torchrun --nproc_per_node 1 train.py --config more.yaml "
                              "--deepspeed ds.json --per_device_train_batch_size 2\n");
  folder_write_text("train.py", "import settings\nfrom helpers import x, y\n"
                                "TrainingArguments('o', per_device_train_batch_size=2)\n");
  folder_write_text("settings.py", "X = (\n");
  folder_write_text("helpers.py", "x = 1\n");
  folder_write_text("more.yaml", "a: 1\t\na: 2\n");
  TRY("check", folder_path("run.sh"), "--gpu", "4GiB");
  folder_remove();
}

// Names for the result of a call and for other settings, changed keys of both, adapters, code that is searched for.
static const char script_of_names[] =
    "import os, helpers\n"
    "from transformers import AutoModelForCausalLM, Trainer, TrainingArguments\n"
    "os.environ.setdefault('PYTORCH_CUDA_ALLOC_CONF', 'expandable_segments:True')\n"
    "RANK = 8\nDEFAULTS = {'r': RANK, 'lr': 1e-4}\n"
    "class Settings:\n    length: int = 64\n"
    "    def __init__(self):\n        self.length = 32\n        self.rate['x'] = 1\n"
    "def main(args):\n"
    "    config = TrainingArguments('o', per_device_train_batch_size=2,\n"
    "        gradient_checkpointing=True, bf16=True, learning_rate=DEFAULTS['lr'])\n"
    "    config.gradient_accumulation_steps = 2\n"
    "    config.extra['a'], other = 1, 2\n"
    "    DEFAULTS['lr'] = 2e-4\n"
    "    setattr(config, 'max_steps', 3)\n"
    "    DEFAULTS.pop('lr')\n"
    "    model = AutoModelForCausalLM.from_pretrained('tiny-llama')\n"
    "    model = get_peft_model(model, LoraConfig(r=DEFAULTS['r']))\n"
    "    model.gradient_checkpointing_enable({'use_reentrant': True})\n"
    "    Trainer(model, config, train_dataset=load_dataset('x', 'pair')).train()\n"
    "p.add_argument('--length', type=int, default=64)\n"
    "main(p.parse_args())\n";

TEST(check_of_a_script_with_many_names) {
  make_project();
  folder_write_text("train.py", script_of_names);
  folder_write_text("helpers.py", "from . import more\nfully_shard(model)\n");
  TRY_EACH("check", folder_path("train.py"), "--gpu", "4GiB");
  folder_remove();
}

// An image whose command is an array, beside a shell script with a list and a variable.
TEST(check_of_an_image) {
  make_project();
  folder_write_text("Dockerfile", "FROM a AS build\nFROM build\nENV LENGTH=64 PYTORCH_ALLOC_CONF="
                                  "expandable_segments:True\n"
                                  "ENTRYPOINT [\"torchrun\", \"--nproc_per_node\", \"1\"]\n"
                                  "CMD [\"train.py\", \"--config\", \"train.yaml\", "
                                  "\"--per_device_train_batch_size\", \"2\"]\n");
  folder_write_text("train.py", "TrainingArguments('o', per_device_train_batch_size=2)\n");
  folder_write_text("run.sh", "set -e -a\nARGS=(--bf16 --max_length $LENGTH)\nset +a\n"
                              "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:8\n"
                              "python train.py \"${ARGS[@]}\" --config train.yaml\n");
  TRY_EACH("check", folder_path("Dockerfile"), folder_path("run.sh"), "--gpu", "4GiB");
  folder_remove();
}

TEST(check_of_a_folder) {
  make_project();
  char before[4096];
  CHECK(getcwd(before, sizeof before) && !chdir(folder_path("")), "no folder");
  TRY("check");
  CHECK(!chdir(before), "no way back");
  folder_remove();
}

TEST(replay_of_other_settings) {
  TRY("replay", TEST_ROOT "/truth/recorded/poll-order.pickle.xz", "--tune");
}

TEST(plan) {
  TRY("plan", "-m", "tiny-llama", "-b", "2", "-s", "64", "--gpu", "4GiB", "--try", "micro_batch=1");
}

TEST(apply) {
  make_project();
  const char *file = folder_path("train.yaml"), *saved = folder_path("plan.json");
  run((const char *const[]){"plan", file, "--gpu", "4GiB", "--try", "checkpoint=off", "--out",
                            saved, NULL},
      FAULT_NEVER, false, &undisturbed);
  if (undisturbed.status == 0) TRY("apply", saved, "--dry-run");
  CHECK(undisturbed.status == 0, "exit %d: %s", undisturbed.status, undisturbed.err);
  folder_remove();
}

TEST_MAIN
