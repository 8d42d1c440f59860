// The hook library, preloaded into programs that use a driver in all the ways in which programs use CUDA's.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "hook_record.h"
#include "test.h"

#define MIB (1ull << 20)

// ---- starting programs --------------------------------------------------------------------------

static hook_record *record;

static void begin(void) {
  plim_error error;
  folder_make();
  if (hook_record_create(folder_path("hook"), &error) != PLIM_OK) abort();
  record = hook_record_map(folder_path("hook"));
}

static void end(void) {
  hook_record_unmap(record);
  folder_remove();
}

static const char *in_front = ""; // what is preloaded before the library

static void enter(const hook_options *options, bool is_on) {
  hook_variable variables[HOOK_VARIABLES];
  size_t count;
  plim_error error;
  if (hook_environment(HOOK_LIBRARY, folder_path("hook"), options, variables, &count, &error))
    _exit(99);
  for (size_t i = 0; i < count; i++) setenv(variables[i].name, variables[i].value, 1);
  if (!is_on) unsetenv("PLIMSOLL_HOOK");
  char preloaded[HOOK_VALUE_BYTES];
  snprintf(preloaded, sizeof preloaded, "%s%s", in_front, getenv("LD_PRELOAD"));
  setenv("LD_PRELOAD", preloaded, 1);
  setenv("LD_LIBRARY_PATH", HOOK_DRIVER_FOLDER, 1);
  setenv("HOOK_MODULE", HOOK_MODULE_FILE, 1);
  int file = open(folder_path("output"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(file, 1);
  dup2(file, 2);
}

static pid_t start(const char *program, const char *way, const hook_options *options, bool is_on) {
  pid_t child = fork();
  if (child) return child;
  enter(options, is_on);
  execl(program, program, way, (char *)NULL);
  _exit(98);
}

static int finish(pid_t child) {
  int status = -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int run(const char *way, uint64_t cap_bytes) {
  hook_options options = {.cap_bytes = cap_bytes};
  return finish(start(HOOK_PROGRAM, way, &options, true));
}

static bool printed_nothing(void) {
  struct stat about;
  return stat(folder_path("output"), &about) != 0 || about.st_size == 0;
}

static const hook_holding *held(int process, int device) {
  return &record->processes[process].devices[device];
}

// ---- the ways -----------------------------------------------------------------------------------

static void check_way(const char *way, const char *program) {
  begin();
  int status = finish(start(program, way, &(hook_options){0}, true));
  bool is_met = status == 0 && printed_nothing() && hook_record_processes(record) == 1 &&
                held(0, 0)->current_bytes == 5 * MIB && held(0, 0)->peak_bytes == 8 * MIB &&
                record->events == 3 && record->processes[0].has_ended;
  if (!is_met)
    printf("%s: status %d, %d processes, %" PRIu64 " bytes, %" PRIu64 " events\n", way, status,
           (int)hook_record_processes(record), held(0, 0)->current_bytes, record->events);
  test_count(way, is_met);
  end();
}

TEST(memory_is_seen_however_the_program_finds_the_driver) {
  static const char *const ways[] = {"dlsym", "old-dlsym", "runtime", "module", "default", "close"};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) check_way(ways[i], HOOK_PROGRAM);
  check_way("linked", HOOK_LINKED);
}

TEST(dlsym_means_the_same_to_its_caller) {
  begin();
  int status = run("next", 0);
  CHECK(status == 0, "line %d", status);
  end();
}

TEST(a_program_without_the_card_leaves_no_trace) {
  begin();
  CHECK(run("not", 0) == 0 && printed_nothing(), "it runs");
  CHECK_U64(record->process_count, 0);
  CHECK_U64(record->events, 0);
  end();
}

TEST(without_a_record_the_library_does_nothing) {
  begin();
  int status = finish(start(HOOK_PROGRAM, "off", &(hook_options){.cap_bytes = 1}, false));
  CHECK(status == 0 && printed_nothing(), "line %d", status);
  CHECK_U64(record->process_count, 0);
  end();
}

TEST(behind_another_driver_the_library_does_nothing) {
  begin();
  in_front = HOOK_DRIVER_FOLDER "/libcuda.so.1:";
  int status = run("off", 1);
  in_front = "";
  CHECK(status == 0 && printed_nothing(), "line %d", status);
  CHECK_U64(record->process_count, 0);
  end();
}

TEST(a_record_that_is_not_one_is_ignored) {
  begin();
  CHECK(truncate(folder_path("hook"), 100) == 0, "cut");
  CHECK(run("off", 1) == 0 && printed_nothing(), "it runs, without a cap");
  hook_record_unmap(record);
  record = hook_record_map(folder_path("hook"));
  CHECK(!record, "it is no record");
  end();
}

// ---- processes ----------------------------------------------------------------------------------

TEST(forked_and_replaced_programs_have_slots_of_their_own) {
  begin();
  CHECK(run("fork", 0) == 0, "fork");
  CHECK_U64(hook_record_processes(record), 2);
  CHECK(record->processes[0].pid != record->processes[1].pid, "two processes");
  CHECK_U64(held(1, 0)->peak_bytes, 8 * MIB);
  CHECK(run("exec", 0) == 0, "exec");
  CHECK_U64(hook_record_processes(record), 4);
  CHECK(record->processes[2].pid == record->processes[3].pid, "one process");
  CHECK(record->processes[2].has_ended, "the first program has ended");
  CHECK_U64(hook_record_used(record, 0), 0);
  end();
}

TEST(a_card_is_the_same_under_another_number) {
  begin();
  hook_options options = {.cap_bytes = 100 * MIB};
  setenv("FAKE_FIRST_DEVICE", "1", 1);
  int status = finish(start(HOOK_PROGRAM, "full", &options, true));
  CHECK(status == 0, "line %d", status);
  setenv("FAKE_FIRST_DEVICE", "0", 1);
  CHECK(run("full", 100 * MIB) == 0, "another card");
  setenv("FAKE_FIRST_DEVICE", "1", 1);
  CHECK(run("full", 100 * MIB) == 0, "the first card");
  unsetenv("FAKE_FIRST_DEVICE");
  CHECK(record->devices[0].uuid[0] == 1 && record->devices[1].uuid[0] == 0, "two cards");
  CHECK(!record->devices[2].identity, "and no third");
  CHECK_U64(held(1, 1)->peak_bytes, 60 * MIB);
  CHECK_U64(held(2, 0)->peak_bytes, 60 * MIB);
  CHECK_U64(record->devices[1].total_bytes, 1024 * MIB);
  end();
}

static void wait_for_events(uint64_t count) {
  while (__atomic_load_n(&record->events, __ATOMIC_ACQUIRE) < count) usleep(1000);
}

// Reads all there is and checks each event.
static bool are_sound(uint64_t *next, uint64_t *lost) {
  static hook_event events[1024];
  size_t count;
  while ((count = hook_record_read(record, next, lost, events, 1024)))
    for (size_t i = 0; i < count; i++) {
      bool is_one = events[i].kind == HOOK_EVENT_ALLOC || events[i].kind == HOOK_EVENT_FREE;
      if (!is_one || events[i].bytes != MIB || !events[i].pid || !events[i].thread) return false;
    }
  return true;
}

TEST(a_process_that_is_killed_while_it_writes_harms_nobody) {
  enum { TIMES = 5 };
  for (int i = 0; i < TIMES; i++) {
    uint64_t next = 0, lost = 0;
    begin();
    hook_options options = {.cap_bytes = 100 * MIB};
    pid_t child = start(HOOK_PROGRAM, "forever", &options, true);
    wait_for_events(2000 + (uint64_t)i * 777);
    CHECK(are_sound(&next, &lost), "while it writes");
    kill(child, SIGKILL);
    CHECK(finish(child) == -SIGKILL, "killed");
    CHECK(are_sound(&next, &lost), "after it was killed");
    CHECK_U64(next, record->events);
    CHECK_U64(hook_record_used(record, 0), 0); // whatever it held
    CHECK(run("full", 100 * MIB) == 0, "the next process has the whole card");
    end();
  }
}

TEST(a_reader_that_comes_late_is_told_what_it_missed) {
  begin();
  uint64_t next = 0, lost = 0;
  pid_t child = start(HOOK_PROGRAM, "forever", &(hook_options){0}, true);
  wait_for_events(HOOK_RING + 1000);
  kill(child, SIGKILL);
  finish(child);
  CHECK(are_sound(&next, &lost), "events");
  CHECK(lost >= 1000 && next == record->events, "%" PRIu64 " lost", lost);
  end();
}

// ---- the environment ----------------------------------------------------------------------------

TEST(the_library_comes_in_front_of_what_is_preloaded) {
  hook_variable variables[HOOK_VARIABLES];
  size_t count;
  plim_error error;
  hook_options options = {.cap_bytes = 5, .spill_bytes = 7};
  char *old = getenv("LD_PRELOAD");
  setenv("LD_PRELOAD", "libplimsoll-card.so:b.so", 1);
  plim_err err = hook_environment("/a/hook.so", "/r", &options, variables, &count, &error);
  if (old) setenv("LD_PRELOAD", old, 1);
  else unsetenv("LD_PRELOAD");
  CHECK(err == PLIM_OK && count == HOOK_VARIABLES, "%zu", count);
  CHECK_STR(variables[0].value, "/a/hook.so:libplimsoll-card.so:b.so");
  CHECK_STR(variables[1].value, "/r");
  CHECK_STR(variables[2].value, "5");
  CHECK_STR(variables[3].value, "7");
  CHECK(hook_environment("/a b/hook.so", "/r", &options, variables, &count, &error) ==
            PLIM_ERR_ARGUMENT,
        "a blank");
  CHECK_STR(error.message,
            "the system cannot preload /a b/hook.so: its path contains a blank or a colon");
}

TEST(paths_must_hold_in_every_folder) {
  hook_variable variables[HOOK_VARIABLES];
  size_t count;
  plim_error error;
  hook_options options = {0};
  CHECK(hook_environment("hook.so", "/r", &options, variables, &count, &error), "the library");
  CHECK_STR(error.message, "hook.so is not an absolute path");
  CHECK(hook_environment("/hook.so", "r", &options, variables, &count, &error), "the record");
  CHECK_STR(error.message, "r is not an absolute path");
}

TEST(a_record_is_made_once) {
  plim_error error;
  struct stat about;
  begin();
  CHECK(stat(folder_path("hook"), &about) == 0, "the file");
  CHECK(about.st_blocks * 512 >= (blkcnt_t)sizeof(hook_record), "its space is taken");
  CHECK(hook_record_create(folder_path("hook"), &error) == PLIM_ERR_IO, "%s", error.message);
  CHECK(hook_record_create("/nonexistent/hook", &error) == PLIM_ERR_IO, "%s", error.message);
  CHECK(!hook_record_map("/nonexistent/hook"), "no file");
  end();
}

TEST_MAIN
