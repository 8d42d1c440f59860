// Programs on the simulated card, as simulate starts them. The programs are in this file: the test starts itself with
// --act NAME, and calls CUDA's functions by name as a library that needs them would.
#include "simulate.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "sandbox.h"
#include "test.h"

static char me[PLIM_PATH_BYTES]; // this program

// ---- programs ---------------------------------------------------------------------------------------

typedef int malloc_function(void **pointer, size_t bytes);
typedef int info_function(size_t *free_bytes, size_t *total);

static void *cuda(const char *name) {
  void *function = dlsym(RTLD_DEFAULT, name);
  if (!function) printf("no %s\n", name), exit(3);
  return function;
}

// Allocates until the card refuses; with `recovers` it goes on afterwards.
static int act_fill(bool recovers) {
  malloc_function *allocate = (malloc_function *)(uintptr_t)cuda("cudaMalloc");
  void *pointer;
  int count = 0;
  while (allocate(&pointer, 1 << 30) == 0) count++;
  printf("%d blocks\n", count);
  return recovers ? 0 : 1;
}

static void write_observed(const char *text) {
  char path[PLIM_PATH_BYTES];
  snprintf(path, sizeof path, "%s/%d.json", getenv("PLIMSOLL_OUT"), (int)getpid());
  FILE *out = fopen(path, "w");
  fprintf(out, "%s", text);
  fclose(out);
}

typedef int product_function(void *handle, int a, int b, int m, int n, int k);
typedef void step_function(uint64_t steps, uint64_t allocated, uint64_t handed_out);

// Two steps of a product each; the second allocates 9.2 GB.
static int act_steps(void) {
  product_function *multiply = (product_function *)(uintptr_t)cuda("cublasSgemm_v2");
  step_function *step = (step_function *)(uintptr_t)cuda("plimsoll_card_step");
  for (uint64_t i = 0; i < 2; i++) {
    multiply(NULL, 0, 0, 4096, 4096, 4096);
    step(i + 1, 0, i * 9200000000ull);
  }
  write_observed("{\"steps\": 2, \"devices\": [{\"reserved_bytes.all.peak\": 20}]}");
  return 0;
}

static int act(const char *what) {
  if (strcmp(what, "fill") == 0) return act_fill(false);
  if (strcmp(what, "recover") == 0) return act_fill(true);
  if (strcmp(what, "fail") == 0) return 7;
  if (strcmp(what, "die") == 0) abort();
  if (strcmp(what, "observed") == 0)
    write_observed(
        "{\"rank\": 1, \"world\": 2, \"local_rank\": 1, \"failure\": {\"text\": \"ValueError: x\","
        "\"file\": \"b.py\", \"line\": 6, \"time_us\": 8}, \"steps\": 3, \"values\": true, "
        "\"cuda\": \"13.0\","
        "\"host_bytes\": 5, \"devices\": [{\"allocated_bytes.all.peak\": 10,"
        "\"reserved_bytes.all.peak\": 20, \"num_ooms\": 1, \"num_alloc_retries\": 2}],"
        "\"phases\": [[1, \"loading\"], [2, \"training\"]],"
        "\"observed\": {\"model\": {\"class\": \"Net\", \"parameters\": 9, \"trained\": 4},"
        "\"batch\": [2, 8], \"has_tokens\": true, \"accumulation\": 4},"
        "\"looked_at\": [{\"file\": \"a.py\", \"line\": 4, \"times\": 2, \"type\": "
        "\"float32\", \"told\": 0}], \"routed\": [{\"file\": \"r.py\", \"line\": 7, \"times\": 1, "
        "\"choices\": 8, \"chosen\": 2}], \"triton\": false, \"versions\": {\"torch\": "
        "\"2.11.0\"}}");
  if (strcmp(what, "lost") == 0) // `python train.py | tee log`
    write_observed("{\"devices\": [{}], \"failure\": {\"text\": \"torch.OutOfMemoryError: CUDA out "
                   "of memory\"}}");
  if (strcmp(what, "lost-otherwise") == 0)
    write_observed("{\"devices\": [{}], \"failure\": {\"text\": \"RuntimeError: an "
                   "OutOfMemoryError is not this\"}}");
  if (strcmp(what, "odd") == 0) // nothing is where it belongs
    write_observed(
        "{\"rank\": \"x\", \"devices\": 3, \"looked_at\": [1, {\"file\": 2}], "
        "\"versions\": [], \"observed\": {\"model\": 1, \"batch\": \"a\"}, \"phases\": [[]]}");
  if (strcmp(what, "steps") == 0) return act_steps();
  if (strcmp(what, "world") == 0) {
    bool is_told = getenv("PLIMSOLL_WORLD") && strcmp(getenv("PLIMSOLL_WORLD"), "64") == 0;
    return is_told && getenv("MINE") && strcmp(getenv("MINE"), "new") == 0 ? 0 : 1;
  }
  if (strcmp(what, "alone") == 0) return getenv("PLIMSOLL_WORLD") ? 1 : 0;
  if (strcmp(what, "broken") == 0) write_observed("{\"rank\": ");
  if (strcmp(what, "write") == 0) {
    FILE *out = fopen(getenv("TO_CHANGE"), "w");
    if (out) fprintf(out, "changed"), fclose(out);
  }
  return 0;
}

// ---- running them -----------------------------------------------------------------------------------

static simulate_result result;
static plim_error error;

// The caller clears the result.
static plim_err simulate(const char *what, uint64_t total_gib) {
  const char *const command[] = {me, "--act", what, NULL};
  simulate_request request = {.command = command,
                              .stand_ins = TEST_CARD,
                              .gpu = plim_gpu_named("4090"),
                              .total_bytes = total_gib * PLIM_GIB,
                              .context_bytes = 512 * PLIM_MIB,
                              .gpus = 1};
  error = (plim_error){0};
  return simulate_run(&request, NULL, NULL, &result, &error);
}

static bool begin(void) {
  if (!plim_sandbox_is_possible(&error)) {
    printf("skipped: %s\n", error.message);
    test_skipped = true;
    return false;
  }
  folder_make();
  setenv("XDG_STATE_HOME", folder_path("state"), 1);
  return true;
}

static size_t files_in(const char *folder) {
  char command[PLIM_PATH_BYTES];
  size_t count = 0;
  snprintf(command, sizeof command, "find '%s' -type f -o -type l | wc -l", folder);
  FILE *in = popen(command, "r");
  if (fscanf(in, "%zu", &count) != 1) count = SIZE_MAX;
  pclose(in);
  return count;
}

TEST(a_program_that_fills_the_card_runs_out_of_memory) {
  if (!begin()) return;
  CHECK(!simulate("fill", 4), "%s", error.message);
  CHECK(result.end == SIMULATE_OUT_OF_MEMORY, "end %d", result.end);
  CHECK_U64(result.peak_bytes, 3 * PLIM_GIB + 512 * PLIM_MIB);
  CHECK(WEXITSTATUS(result.status) == 1, "status %d", result.status);
  simulate_result_clear(&result);
  folder_remove();
}

TEST(a_program_that_recovers_has_run) {
  if (!begin()) return;
  CHECK(!simulate("recover", 4) && result.end == SIMULATE_RAN, "%s, end %d", error.message,
        result.end);
  simulate_result_clear(&result);
  folder_remove();
}

TEST(another_failure_is_not_one_of_memory) {
  if (!begin()) return;
  CHECK(!simulate("fail", 4) && result.end == SIMULATE_FAILED, "%s, end %d", error.message,
        result.end);
  CHECK(WEXITSTATUS(result.status) == 7, "status %d", result.status);
  simulate_result_clear(&result);
  CHECK(!simulate("die", 4) && result.end == SIMULATE_FAILED, "%s, end %d", error.message,
        result.end);
  CHECK(WIFSIGNALED(result.status), "status %d", result.status);
  simulate_result_clear(&result);
  folder_remove();
}

TEST(an_exception_counts_where_a_script_loses_the_exit_status) {
  if (!begin()) return;
  CHECK(!simulate("lost", 4) && result.end == SIMULATE_OUT_OF_MEMORY, "%s, end %d", error.message,
        result.end);
  simulate_result_clear(&result);
  CHECK(!simulate("lost-otherwise", 4) && result.end == SIMULATE_FAILED, "%s, end %d",
        error.message, result.end);
  simulate_result_clear(&result);
  folder_remove();
}

TEST(what_processes_observed_is_read) {
  if (!begin()) return;
  CHECK(!simulate("observed", 4), "%s", error.message);
  CHECK(result.processes.len == 1, "%zu processes", result.processes.len);
  const simulate_process *p = simulate_fullest(&result);
  CHECK(p->rank == 1 && p->world == 2 && p->steps == 3 && p->has_values && !p->is_without_cuda,
        "rank %lld", (long long)p->rank);
  CHECK(p->peak_allocated_bytes == 10 && p->peak_reserved_bytes == 20, "peaks");
  CHECK(p->ooms == 1 && p->retries == 2 && p->host_bytes == 5, "counters");
  CHECK(p->looks.len == 1 && p->looks.at[0].line == 4 && strcmp(p->looks.at[0].told, "0") == 0,
        "looks");
  CHECK(p->routes.len == 1 && p->routes.at[0].line == 7 && p->routes.at[0].choices == 8, "routes");
  CHECK(p->is_without_triton, "Triton");
  CHECK(simulate_first_failed(&result) == p && p->failure.line == 6 && p->local_rank == 1 &&
            strcmp(p->failure.text, "ValueError: x") == 0,
        "failure");
  CHECK(p->phases.len == 2 && strcmp(p->phases.at[1].name, "training") == 0, "phases");
  CHECK(strcmp(p->observed.model, "Net") == 0 && p->observed.trained == 4, "model");
  CHECK(p->observed.batch[1] == 8 && p->observed.accumulation == 4 && p->observed.has_tokens,
        "batch");
  CHECK(!p->snapshot && simulate_steps(&result) == 3, "snapshot");
  simulate_result_clear(&result);
  folder_remove();
}

// An RTX 4090 makes 82.6 TFLOP/s of float32 and moves 1008 GB/s; the clock takes 76 and 92 % of that.
TEST(the_last_step_is_timed) {
  if (!begin()) return;
  CHECK(!simulate("steps", 4) && result.processes.len == 1, "%s", error.message);
  const simulate_step *s = &result.processes.at[0].step;
  const plim_gpu *gpu = plim_gpu_named("4090");
  double product = 2 * 4096.0 * 4096 * 4096 / (gpu->fp32_tflops * 1e12 * 0.76);
  double memory = 3 * (9.2e9 - 4096.0 * 4096 * 4) / (gpu->bandwidth_gbs * 1e9 * 0.92);
  CHECK(s->kernels == 1, "%llu kernels", (unsigned long long)s->kernels);
  CHECK(s->product_seconds > product && s->product_seconds < 1.1 * product, "%g s",
        s->product_seconds);
  CHECK(s->memory_seconds > memory && s->memory_seconds < 1.01 * memory, "%g s", s->memory_seconds);
  CHECK(s->seconds == s->product_seconds + s->memory_seconds && s->host_seconds < 1e-4, "%g s",
        s->seconds);
  simulate_result_clear(&result);
  folder_remove();
}

TEST(the_environment_has_the_world_and_what_was_asked_for) {
  if (!begin()) return;
  const char *const command[] = {me, "--act", "world", NULL};
  const char *const variables[] = {"MINE=new", NULL};
  simulate_request request = {.command = command,
                              .stand_ins = TEST_CARD,
                              .gpu = plim_gpu_named("4090"),
                              .total_bytes = PLIM_GIB,
                              .gpus = 1,
                              .world = 64,
                              .variables = variables};
  setenv("MINE", "old", 1);
  CHECK(!simulate_run(&request, NULL, NULL, &result, &error), "%s", error.message);
  CHECK(result.end == SIMULATE_RAN, "status %d", result.status);
  unsetenv("MINE");
  simulate_result_clear(&result);
  setenv("PLIMSOLL_WORLD", "64", 1);
  CHECK(!simulate("alone", 4) && result.end == SIMULATE_RAN, "the world of another run");
  unsetenv("PLIMSOLL_WORLD");
  simulate_result_clear(&result);
  folder_remove();
}

TEST(odd_observations_do_no_harm) {
  if (!begin()) return;
  CHECK(!simulate("odd", 4) && result.processes.len == 1, "%s", error.message);
  simulate_result_clear(&result);
  CHECK(simulate("broken", 4) == PLIM_ERR_PARSE, "%s", error.message);
  simulate_result_clear(&result);
  folder_remove();
}

TEST(only_the_log_stays) {
  if (!begin()) return;
  folder_write_text("precious", "as it was");
  setenv("TO_CHANGE", folder_path("precious"), 1);
  CHECK(!simulate("write", 4) && result.end == SIMULATE_RAN, "%s", error.message);
  simulate_result_clear(&result);
  char text[32] = "";
  FILE *in = fopen(folder_path("precious"), "r");
  CHECK(in && fgets(text, sizeof text, in) && strcmp(text, "as it was") == 0, "it is: %s", text);
  fclose(in);
  CHECK(files_in(folder_path("state")) == 1, "%zu files", files_in(folder_path("state")));
  folder_remove();
}

static bool write_line(const char *path, const char *line) {
  FILE *out = fopen(path, "w");
  return out && fputs(line, out) >= 0 && fclose(out) == 0;
}

// In a namespace of its own: a folder with a mount point in it, whose files are copied if they are small. Returns what is
// wrong; NULL: nothing.
static const char *run_beside_a_mount(void) {
  char uids[48], gids[48];
  snprintf(uids, sizeof uids, "0 %u 1", geteuid());
  snprintf(gids, sizeof gids, "0 %u 1", getegid());
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) || !write_line("/proc/self/setgroups", "deny") ||
      !write_line("/proc/self/uid_map", uids) || !write_line("/proc/self/gid_map", gids))
    return "no namespace";
  if (mount("tmpfs", folder_path("work/apart"), "tmpfs", 0, "")) return "no mount";
  if (simulate("recover", 4)) return error.message;
  bool is_named = strstr(result.read_only, folder_path("work/large")) != NULL;
  simulate_result_clear(&result);
  return is_named ? NULL : "the large file is not named";
}

TEST(what_the_program_could_not_write_to_is_named) {
  if (!begin()) return;
  folder_write_text("work/large", "");
  folder_write_text("work/apart/file", "");
  CHECK(truncate(folder_path("work/large"), 20 * (off_t)PLIM_MIB) == 0, "a large file");
  pid_t child = fork();
  int status;
  if (child == 0) {
    const char *wrong = run_beside_a_mount();
    if (wrong) printf("%s\n", wrong), fflush(stdout);
    _exit(wrong ? 1 : 0);
  }
  CHECK(waitpid(child, &status, 0) == child && status == 0, "status %d", status);
  folder_remove();
}

TEST(logs_of_old_runs_are_removed) {
  enum { OLD = SIMULATE_KEPT_LOGS + 5 };
  if (!begin()) return;
  char name[80];
  for (int i = 0; i < OLD; i++) {
    snprintf(name, sizeof name, "state/plimsoll/simulate/2001-01-01-%06d/log", i);
    folder_write_text(name, "");
  }
  folder_write_text("state/plimsoll/simulate/2001-01-01-000000/out/record", "");
  int running = open(folder_path("state/plimsoll/simulate/2001-01-01-000000/out"), O_RDONLY);
  CHECK(running >= 0 && !flock(running, LOCK_EX), "it is still running");
  // One that was killed, and is old; and one that is not old.
  folder_write_text("state/plimsoll/simulate/2001-01-01-000001/out/record", "");
  folder_write_text("state/plimsoll/simulate/2001-01-01-000020/out/record", "");
  CHECK(!simulate("recover", 4), "%s", error.message);
  simulate_result_clear(&result);
  // The newest logs, the new one among them, and the two files of the one that is running.
  CHECK_U64(files_in(folder_path("state/plimsoll/simulate")), SIMULATE_KEPT_LOGS + 2);
  CHECK(plim_is_file(folder_path(name)), "%s is gone", name);
  close(running);
  folder_remove();
}

TEST(a_program_that_does_not_exist_is_an_error) {
  if (!begin()) return;
  const char *const command[] = {"/nowhere/at/all", NULL};
  simulate_request request = {.command = command,
                              .stand_ins = TEST_CARD,
                              .gpu = plim_gpu_named("4090"),
                              .total_bytes = PLIM_GIB,
                              .gpus = 1};
  CHECK(simulate_run(&request, NULL, NULL, &result, &error), "it ran");
  CHECK(strstr(error.message, "/nowhere/at/all"), "%s", error.message);
  simulate_result_clear(&result);
  CHECK(files_in(folder_path("state")) <= 1, "%zu files", files_in(folder_path("state")));
  folder_remove();
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--act") == 0) return act(argv[2]);
  if (!realpath("/proc/self/exe", me)) return 2;
  return test_main(argc, argv);
}
