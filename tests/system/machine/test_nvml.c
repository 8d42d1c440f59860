// Cards are read from any version of the driver library; without it, there are none.
#include "nvml.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static plim_card cards[PLIM_MAX_CARDS];

static size_t count_with(const char *library) {
  setenv("PLIMSOLL_NVML", library, 1);
  size_t count = plim_nvml_cards(cards, NULL);
  unsetenv("PLIMSOLL_NVML");
  return count;
}

TEST(nvml_reads_the_cards) {
  size_t count = count_with(FAKE_NVML);
  CHECK(count == 2, "%zu cards", count); // the third cannot be used
  CHECK_STR(cards[1].name, "NVIDIA GeForce RTX 4090");
  CHECK_STR(cards[1].uuid, "GPU-1");
  CHECK_U64(cards[1].total_bytes, 24564 * PLIM_MIB);
  CHECK_U64(cards[1].free_bytes, 23000 * PLIM_MIB);
  CHECK_U64(cards[1].used_bytes, 1081 * PLIM_MIB);
}

TEST(nvml_of_an_old_driver_is_read) {
  size_t count = count_with(FAKE_OLD_NVML);
  CHECK(count == 2, "%zu cards", count);
  CHECK_U64(cards[0].total_bytes, 24564 * PLIM_MIB);
  CHECK_U64(cards[0].used_bytes, 1564 * PLIM_MIB);
  CHECK_STR(cards[0].uuid, "");
}

TEST(nvml_that_does_not_start_has_no_cards) {
  setenv("FAKE_NVML_BROKEN", "1", 1);
  size_t count = count_with(FAKE_NVML);
  unsetenv("FAKE_NVML_BROKEN");
  CHECK(count == 0, "%zu cards", count);
}

TEST(a_missing_nvml_has_no_cards) {
  CHECK(count_with("/nonexistent/libnvidia-ml.so") == 0, "cards");
  CHECK(count_with("libm.so.6") == 0, "cards of a library that is something else");
}

static size_t busy_with(const char *library, size_t card, plim_card_process *processes) {
  setenv("FAKE_NVML_BUSY", "2", 1);
  count_with(library);
  setenv("PLIMSOLL_NVML", library, 1);
  size_t count = plim_nvml_processes(&cards[card], processes, NULL);
  unsetenv("PLIMSOLL_NVML");
  unsetenv("FAKE_NVML_BUSY");
  return count;
}

TEST(nvml_lists_processes_once) {
  plim_card_process p[PLIM_MAX_PROCESSES];
  size_t count = busy_with(FAKE_NVML, 0, p);
  CHECK(count == 3, "%zu processes", count); // one process uses both compute and graphics
  CHECK(p[0].pid == 4100 && p[1].pid == 4101 && p[2].pid == 900, "pid %u", p[2].pid);
  CHECK(p[0].computes && !p[2].computes, "the desktop only draws");
  CHECK_U64(p[1].used_bytes, 2048 * PLIM_MIB);
  CHECK_U64(p[2].used_bytes, PLIM_UNKNOWN);
  CHECK_U64(cards[0].free_bytes, (23000 - 4096) * PLIM_MIB);
  CHECK(busy_with(FAKE_NVML, 1, p) == 0, "processes on the other card");
}

TEST(nvml_that_cannot_list_processes_has_none) {
  plim_card_process p[PLIM_MAX_PROCESSES];
  CHECK(busy_with(FAKE_OLD_NVML, 0, p) == 0, "processes of an old driver");
}

// ---- asking again and again -------------------------------------------------------------------------

static plim_nvml *open_with(const char *library, plim_nvml_state *state) {
  setenv("PLIMSOLL_NVML", library, 1);
  plim_nvml *n = plim_nvml_open(state);
  unsetenv("PLIMSOLL_NVML");
  return n;
}

// What a driver of which these functions fail says about its first card.
static plim_card_activity activity_with(const char *library, const char *failing) {
  plim_nvml_state state;
  size_t count;
  plim_nvml *n = open_with(library, &state);
  setenv("FAKE_NVML_FAILS", failing, 1);
  plim_nvml_list(n, cards, &count);
  plim_card_activity a = plim_nvml_activity(n, &cards[0]);
  unsetenv("FAKE_NVML_FAILS");
  plim_nvml_close(n);
  return a;
}

TEST(nvml_tells_what_a_card_does) {
  plim_card_activity a = activity_with(FAKE_NVML, "none");
  CHECK_U64(a.busy_percent, 97);
  CHECK_U64(a.temperature_celsius, 61);
  CHECK_U64(a.power_milliwatts, 312500);
  CHECK_U64(a.power_limit_milliwatts, 450000);
}

TEST(what_nvml_does_not_tell_is_unknown) {
  plim_card_activity failing = activity_with(FAKE_NVML, "Utilization PowerLimit");
  CHECK_U64(failing.busy_percent, PLIM_UNKNOWN);
  CHECK_U64(failing.power_limit_milliwatts, PLIM_UNKNOWN);
  CHECK_U64(failing.power_milliwatts, 312500);
  plim_card_activity missing = activity_with(FAKE_OLD_NVML, "none");
  CHECK_U64(missing.busy_percent, PLIM_UNKNOWN);
  CHECK_U64(missing.temperature_celsius, PLIM_UNKNOWN);
  activity_with(FAKE_NVML, "Memory");
  CHECK_U64(cards[0].used_bytes, PLIM_UNKNOWN);
}

TEST(a_failing_nvml_is_not_an_empty_one) {
  plim_card_process p[PLIM_MAX_PROCESSES];
  plim_nvml_state state;
  size_t count;
  plim_nvml *n = open_with(FAKE_NVML, &state);
  bool lists = plim_nvml_list(n, cards, &count);
  setenv("FAKE_NVML_FAILS", "Count Processes", 1);
  bool lists_failing = plim_nvml_list(n, cards, &count),
       lists_users = plim_nvml_users(n, cards, p, &count);
  unsetenv("FAKE_NVML_FAILS");
  plim_nvml_close(n);
  CHECK(state == PLIM_NVML_OPEN && lists, "state %d", state);
  CHECK(!lists_failing && !lists_users, "failures are not seen");
}

TEST(nvml_says_why_it_is_not_there) {
  plim_nvml_state state;
  CHECK(!open_with("/nonexistent/libnvidia-ml.so", &state), "open");
  CHECK(state == PLIM_NVML_ABSENT, "state %d", state);
  setenv("FAKE_NVML_BROKEN", "1", 1);
  CHECK(!open_with(FAKE_NVML, &state), "open");
  unsetenv("FAKE_NVML_BROKEN");
  CHECK(state == PLIM_NVML_FAILED, "state %d", state);
}

// Also when nothing can end the thread that asks: the question is asked in another process, which is not waited for.
TEST(an_nvml_that_hangs_is_silent) {
  char path[64];
  plim_nvml_state listed, used;
  plim_card_process p[PLIM_MAX_PROCESSES];
  snprintf(path, sizeof path, "/tmp/plimsoll-hangs-%d", (int)getpid());
  count_with(FAKE_NVML);
  int file = open(path, O_CREAT | O_EXCL | O_WRONLY, 0600);
  close(file);
  setenv("FAKE_NVML_HANGS", path, 1);
  setenv("PLIMSOLL_NVML_SECONDS", "0.1", 1);
  setenv("PLIMSOLL_NVML", FAKE_NVML, 1);
  size_t count = plim_nvml_cards(cards, &listed);
  setenv("FAKE_NVML_HANGS_IN", "Processes", 1);
  plim_nvml_processes(&cards[0], p, &used);
  pid_t left = waitpid(-1, NULL, WNOHANG);
  unlink(path);
  unsetenv("PLIMSOLL_NVML");
  unsetenv("PLIMSOLL_NVML_SECONDS");
  unsetenv("FAKE_NVML_HANGS_IN");
  unsetenv("FAKE_NVML_HANGS");
  CHECK(listed == PLIM_NVML_SILENT && count == 0, "state %d, %zu cards", listed, count);
  CHECK(used == PLIM_NVML_SILENT, "state %d", used);
  CHECK(left < 0, "process %d is left", (int)left);
}

TEST(an_nvml_that_crashes_has_failed) {
  plim_nvml_state state;
  setenv("FAKE_NVML_CRASHES", "1", 1);
  setenv("PLIMSOLL_NVML", FAKE_NVML, 1);
  size_t count = plim_nvml_cards(cards, &state);
  unsetenv("PLIMSOLL_NVML");
  unsetenv("FAKE_NVML_CRASHES");
  CHECK(state == PLIM_NVML_FAILED && count == 0, "state %d, %zu cards", state, count);
}

// Reading the real machine must not fail, whatever it has.
TEST(nvml_of_this_machine) {
  size_t count = plim_nvml_cards(cards, NULL);
  printf("  %zu cards\n", count);
  for (size_t i = 0; i < count; i++) {
    printf("  %s: %llu MiB, %llu free, %llu used\n", cards[i].name,
           (unsigned long long)(cards[i].total_bytes / PLIM_MIB),
           (unsigned long long)(cards[i].free_bytes / PLIM_MIB),
           (unsigned long long)(cards[i].used_bytes / PLIM_MIB));
    CHECK(cards[i].total_bytes >= cards[i].free_bytes, "more is free than there is");
  }
}

TEST_MAIN
