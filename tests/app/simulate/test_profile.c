// Programs that profile starts on a machine with two cards (a fake driver's library). The programs are in this file: the
// test starts itself with --act NAME, and they leave what the Python modules would.
#include "profile.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "test.h"

static char me[PLIM_PATH_BYTES]; // this program

// ---- programs ---------------------------------------------------------------------------------------

// A process that reserved 5 GiB on the card with this UUID.
static void leave(const char *uuid, int ooms, const char *steps) {
  char path[PLIM_PATH_BYTES];
  snprintf(path, sizeof path, "%s/%d.json", getenv("PLIMSOLL_OUT"), (int)getpid());
  FILE *out = fopen(path, "w");
  fprintf(out,
          "{\"steps\": 5, \"was_ended\": true, \"cuda\": \"13.0\", \"devices\": "
          "[{\"reserved_bytes.all.peak\": 5368709120, \"num_ooms\": %d}], \"measured\": "
          "{\"step_seconds\": [%s], \"devices\": [{\"name\": \"Card\", \"uuid\": \"%s\", "
          "\"total_bytes\": 25757220864, \"outside_first_bytes\": 1717567488, "
          "\"outside_peak_bytes\": 2242904064}]}}",
          ooms, steps, uuid);
  fclose(out);
}

static int act(const char *what) {
  if (strcmp(what, "train") == 0) leave("1", 0, "9, 0.5, 0.25, 1");
  if (strcmp(what, "unknown") == 0) leave("somewhere else", 0, "");
  if (strcmp(what, "full") == 0) return leave("1", 1, ""), 1;
  if (strcmp(what, "recover") == 0) leave("1", 1, "");
  if (strcmp(what, "interrupt") == 0) leave("1", 0, ""), raise(SIGINT);
  if (strcmp(what, "fail") == 0) return leave("1", 0, ""), 7;
  if (strcmp(what, "two") == 0) {
    leave("1", 0, "");
    if (fork() == 0) leave("1", 0, ""), _exit(0);
    wait(NULL);
  }
  if (strcmp(what, "environment") == 0) {
    const char *path = getenv("PYTHONPATH");
    bool ok = strcmp(getenv("PLIMSOLL_STEPS"), "5") == 0 && getenv("PLIMSOLL_PROFILE") && path &&
              strncmp(path, "/modules/python:/own", 20) == 0 && !getenv("LD_PRELOAD");
    return ok ? 0 : 7;
  }
  return 0;
}

// ---- running them -----------------------------------------------------------------------------------

static simulate_result result;
static profile_card card;
static plim_error error;

// The caller clears the result.
static plim_err profile(const char *what) {
  const char *const command[] = {me, "--act", what, NULL};
  profile_request request = {.command = command, .modules = "/modules", .steps = 5};
  error = (plim_error){0};
  setenv("PLIMSOLL_NVML", FAKE_NVML, 1);
  plim_err err = profile_run(&request, &result, &card, &error);
  unsetenv("PLIMSOLL_NVML");
  return err;
}

static void begin(void) {
  folder_make();
  setenv("XDG_STATE_HOME", folder_path("state"), 1);
}

static void end(void) {
  simulate_result_clear(&result);
  folder_remove();
}

TEST(memory_beside_pytorch_is_measured_without_that_of_others) {
  begin();
  CHECK(!profile("train") && result.end == SIMULATE_RAN, "%s, end %d", error.message, result.end);
  CHECK_U64(card.gpus, 2);
  CHECK_U64(card.others_bytes, 1081 * PLIM_MIB); // of the second card
  CHECK_U64(card.outside_first_bytes, (1638 - 1081) * PLIM_MIB);
  CHECK_U64(card.outside_peak_bytes, (2139 - 1081) * PLIM_MIB);
  CHECK_U64(result.peak_bytes, (5 * 1024 + 2139 - 1081) * PLIM_MIB);
  const simulate_process *p = simulate_fullest(&result);
  CHECK(p && p->was_ended, "the process");
  CHECK_STR(p->measured.card, "Card");
  end();
}

TEST(a_card_that_the_driver_does_not_name_is_unknown) {
  begin();
  CHECK(!profile("unknown"), "%s", error.message);
  CHECK_U64(card.others_bytes, PLIM_UNKNOWN);
  CHECK_U64(card.outside_peak_bytes, 2139 * PLIM_MIB);
  end();
}

TEST(what_processes_on_one_card_use_beside_pytorch_is_unknown) {
  begin();
  CHECK(!profile("two") && result.processes.len == 2, "%s", error.message);
  CHECK_U64(card.outside_peak_bytes, PLIM_UNKNOWN);
  CHECK_U64(result.peak_bytes, 5 * PLIM_GIB);
  end();
}

TEST(the_end_of_a_program_is_told) {
  static const struct {
    const char *what;
    simulate_end end;
    bool is_interrupted;
  } cases[] = {{"full", SIMULATE_OUT_OF_MEMORY, false},
               {"recover", SIMULATE_RAN, false},
               {"interrupt", SIMULATE_RAN, true},
               {"fail", SIMULATE_FAILED, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begin();
    CHECK(!profile(cases[i].what), "%s", error.message);
    CHECK(result.end == cases[i].end, "%s: end %d", cases[i].what, result.end);
    CHECK(card.is_interrupted == cases[i].is_interrupted, "%s", cases[i].what);
    end();
  }
}

TEST(the_environment_has_the_modules_and_no_stand_ins) {
  begin();
  setenv("PYTHONPATH", "/own", 1);
  CHECK(!profile("environment") && result.end == SIMULATE_RAN, "%s, end %d", error.message,
        result.end);
  unsetenv("PYTHONPATH");
  end();
}

TEST(warm_up_does_not_count) {
  begin();
  CHECK(!profile("train"), "%s", error.message);
  profile_time t = profile_step_time(simulate_fullest(&result));
  CHECK(t.median == 0.5 && t.least == 0.25 && t.most == 1 && t.count == 3, "%g", t.median);
  simulate_result_clear(&result);
  CHECK(!profile("fail"), "%s", error.message);
  CHECK(isnan(profile_step_time(simulate_fullest(&result)).median), "no steps, but a time");
  CHECK(isnan(profile_step_time(NULL).median), "no process, but a time");
  end();
}

TEST(nothing_is_left_behind) {
  begin();
  CHECK(!profile("train") && *result.folder, "%s", error.message);
  char path[PLIM_PATH_BYTES];
  snprintf(path, sizeof path, "%s", result.folder);
  CHECK(access(path, F_OK) == 0, "no folder %s", path);
  simulate_result_clear(&result);
  CHECK(access(path, F_OK) != 0, "%s is there", path);
  end();
}

TEST(without_a_card_nothing_runs) {
  const char *const command[] = {"true", NULL};
  profile_request request = {.command = command};
  setenv("PLIMSOLL_NVML", "/nowhere", 1);
  CHECK(profile_find_gpu(&error) && strstr(error.hint, "simulate"), "%s", error.hint);
  CHECK(profile_run(&request, &result, &card, &error) == PLIM_ERR_UNSUPPORTED, "it ran");
  unsetenv("PLIMSOLL_NVML");
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "--act") == 0) return act(argv[2]);
  if (!realpath("/proc/self/exe", me)) return 1;
  return test_main(argc, argv);
}
