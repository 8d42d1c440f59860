// A sample has what the driver, the machine and the runs say, and a driver that hangs holds nothing up.
#include "watch.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "test.h"

static watch *w;

// The driver's thread reads the environment, and may outlive its test. Changing a variable that exists moves nothing, so
// all of them exist before the first thread does.
__attribute__((constructor)) static void make_variables(void) {
  static const char *const names[] = {"PLIMSOLL_NVML",    "XDG_STATE_HOME",  "FAKE_NVML_BUSY",
                                      "FAKE_NVML_BROKEN", "FAKE_NVML_HANGS", "FAKE_NVML_LOST"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) setenv(names[i], "", 1);
}

static void begin(const char *library, double silent_seconds) {
  folder_make();
  setenv("PLIMSOLL_NVML", library, 1);
  setenv("XDG_STATE_HOME", folder_path(""), 1);
  if (watch_new(&(watch_options){"", silent_seconds}, &w, NULL)) abort();
}

static void end(void) {
  watch_free(w);
  w = NULL;
  folder_remove();
}

#define FOREVER 600 // a busy machine may be slow

// ---- the driver -------------------------------------------------------------------------------------

TEST(cards_are_sampled) {
  setenv("FAKE_NVML_BUSY", "2", 1);
  begin(FAKE_NVML, FOREVER);
  watch_take(w, FOREVER);
  watch_take(w, FOREVER);
  watch_cards *c = malloc(sizeof *c);
  *c = w->cards;
  size_t kept = w->histories[0].memory.count;
  end();
  setenv("FAKE_NVML_BUSY", "", 1);
  bool is_right = c->state == WATCH_DRIVER_HERE && c->count == 2 && c->at[0].process_count == 3 &&
                  c->at[0].lists_processes && c->at[0].activity.busy_percent == 97;
  free(c);
  CHECK(is_right, "the first card");
  CHECK(kept == 2, "%zu samples kept", kept);
}

TEST(why_there_are_no_cards_is_known) {
  begin("/nonexistent/libnvidia-ml.so", FOREVER);
  watch_take(w, FOREVER);
  watch_driver_state absent = w->cards.state;
  end();
  setenv("FAKE_NVML_BROKEN", "1", 1);
  begin(FAKE_NVML, FOREVER);
  watch_take(w, FOREVER);
  watch_driver_state failed = w->cards.state;
  end();
  setenv("FAKE_NVML_BROKEN", "", 1);
  CHECK(absent == WATCH_DRIVER_ABSENT && failed == WATCH_DRIVER_FAILED, "%d, %d", absent, failed);
}

TEST(a_driver_that_was_loaded_again_is_opened_again) {
  watch_driver_state states[3];
  begin(FAKE_NVML, FOREVER);
  for (int i = 0; i < 3; i++) {
    if (i == 1) setenv("FAKE_NVML_LOST", "1", 1);
    else setenv("FAKE_NVML_LOST", "", 1);
    watch_take(w, FOREVER);
    states[i] = w->cards.state;
  }
  end();
  CHECK(states[0] == WATCH_DRIVER_HERE && states[1] == WATCH_DRIVER_FAILED &&
            states[2] == WATCH_DRIVER_HERE,
        "%d, %d, %d", states[0], states[1], states[2]);
}

// The driver hangs while a file exists. It must be silent then, and answer again afterwards.
TEST(a_driver_that_hangs_is_silent_until_it_answers) {
  char file[PATH_MAX];
  begin(FAKE_NVML, 0.2);
  snprintf(file, sizeof file, "%s", folder_path("hangs"));
  setenv("FAKE_NVML_HANGS", file, 1);
  while (w->cards.state != WATCH_DRIVER_HERE) watch_take(w, FOREVER); // slow is not silent for long
  folder_write_text("hangs", "");
  while (w->cards.state != WATCH_DRIVER_SILENT) watch_take(w, FOREVER);
  bool is_known = w->cards.at[0].card.used_bytes != PLIM_UNKNOWN || w->cards.at[0].lists_processes;
  size_t named = w->cards.count;
  double waited = w->cards.silent_seconds;
  watch_take(w, FOREVER); // returns though the driver hangs
  unlink(file);
  while (w->cards.state != WATCH_DRIVER_HERE) watch_take(w, FOREVER);
  setenv("FAKE_NVML_HANGS", "", 1);
  end();
  CHECK(!is_known && named == 2, "%zu cards", named);
  CHECK(waited >= 0.2, "%.1f s", waited);
}

TEST(a_driver_that_hangs_does_not_hold_up_the_end) {
  char file[PATH_MAX];
  begin(FAKE_NVML, 0.1);
  folder_write_text("hangs", "");
  snprintf(file, sizeof file, "%s", folder_path("hangs"));
  setenv("FAKE_NVML_HANGS", file, 1);
  watch_take(w, FOREVER);
  watch_driver_state state = w->cards.state;
  end(); // removes the file, so that the thread ends too
  setenv("FAKE_NVML_HANGS", "", 1);
  CHECK(state == WATCH_DRIVER_SILENT, "state %d", state);
}

// ---- runs -------------------------------------------------------------------------------------------

static void write_run(const char *name, const char *more) {
  char path[128], text[256];
  snprintf(path, sizeof path, "plimsoll/run/%s/run.json", name);
  snprintf(text, sizeof text, "{\"pid\": %d, \"command\": \"python train.py\", \"started\": %ld%s}",
           (int)getpid(), (long)time(NULL), more);
  folder_write_text(path, text);
}

typedef struct {
  const char *phase;
  double live_mib, grows_mib, swing_mib;
} shape;

// A file with 200 steps, two per second.
static void write_steps(const char *name, int pid, int rank, shape s) {
  char path[128];
  snprintf(path, sizeof path, "plimsoll/run/%s/%d.live", name, pid);
  folder_write_text(path, "");
  FILE *file = fopen(folder_path(path), "a");
  for (int i = 0; i < 200; i++) {
    double live = s.live_mib + s.grows_mib * i, peak = live + 1024 + (i % 3) * s.swing_mib;
    fprintf(file,
            "{\"t\": %.1f, \"step\": %d, \"rank\": %d, \"phase\": \"%s\", \"uuid\": \"GPU-1\", "
            "\"allocated\": %.0f, "
            "\"reserved\": %.0f, \"peak_allocated\": %.0f, \"free\": %.0f, \"total\": %llu}\n",
            1000 + i * 0.5, i, rank, s.phase, live * 1048576, 16384.0 * 1048576, peak * 1048576,
            7168.0 * 1048576, 24 * PLIM_GIB);
  }
  fclose(file);
}

TEST(a_run_has_its_step_pace_and_headroom) {
  begin("/nonexistent", FOREVER);
  write_run("a", ", \"steps\": 5000");
  write_steps("a", (int)getpid(), 0, (shape){"training", 12288, 0, 0});
  watch_take(w, FOREVER);
  CHECK(w->runs.len == 1 && w->runs.at[0]->worst, "%zu runs", w->runs.len);
  live_rank r = *w->runs.at[0]->worst;
  bool is_found = watch_run_of(w, (unsigned)getpid()) == w->runs.at[0];
  end();
  CHECK(r.last.step == 199 && r.steps_per_second > 1.99 && r.steps_per_second < 2.01, "%.2f",
        r.steps_per_second);
  CHECK_U64(r.limit_bytes, 23 * PLIM_GIB); // 16 reserved and 7 free: another process has one
  CHECK_U64(r.headroom_bytes, (23 - 13) * PLIM_GIB);
  CHECK(is_found, "by its process");
}

TEST(the_limit_of_the_run_counts) {
  begin("/nonexistent", FOREVER);
  write_run("a", ", \"limit_bytes\": 15032385536"); // 14 GiB
  write_steps("a", (int)getpid(), 0, (shape){"training", 12288, 0, 0});
  watch_take(w, FOREVER);
  CHECK(w->runs.len == 1 && w->runs.at[0]->worst, "%zu runs", w->runs.len);
  uint64_t headroom = w->runs.at[0]->worst->headroom_bytes;
  end();
  CHECK_U64(headroom, PLIM_GIB);
}

// The rank that grows is the worst, though another has less headroom now.
TEST(the_worst_rank_rules) {
  begin("/nonexistent", FOREVER);
  write_run("a", "");
  write_steps("a", (int)getpid(), 0, (shape){"training", 20480, 0, 0});
  write_steps("a", (int)getppid(), 1, (shape){"training", 8192, 10, 0});
  watch_take(w, FOREVER);
  CHECK(w->runs.len == 1 && w->runs.at[0]->ranks.len == 2, "%zu runs", w->runs.len);
  uint64_t rank = w->runs.at[0]->worst->last.rank;
  bool warns = watch_has_warning(w);
  char text[PLIM_TREND_TEXT];
  snprintf(text, sizeof text, "%s", w->signs.len ? w->signs.at[0].text : "");
  end();
  CHECK_U64(rank, 1);
  CHECK(warns, "no warning");
  CHECK_STR(text, "memory grows by 10.0 MiB per step; full at about step 1,433");
}

TEST(growth_in_an_evaluation_is_not_a_trend) {
  begin("/nonexistent", FOREVER);
  write_run("a", "");
  write_steps("a", (int)getpid(), 0, (shape){"evaluation", 8192, 10, 0});
  watch_take(w, FOREVER);
  bool warns = watch_has_warning(w);
  plim_trend_kind kind = w->runs.at[0]->worst->trend.kind;
  end();
  CHECK(!warns && kind == PLIM_TREND_UNCLEAR, "kind %d", kind);
}

TEST(swings_and_low_use_are_signs) {
  begin("/nonexistent", FOREVER);
  write_run("low", "");
  write_steps("low", (int)getpid(), 0, (shape){"training", 2048, 0, 0});
  write_run("swings", "");
  write_steps("swings", (int)getpid(), 0, (shape){"training", 12288, 0, 2048});
  watch_take(w, FOREVER);
  size_t count = w->signs.len;
  watch_sign_kind first = count ? w->signs.at[0].kind : 0,
                  second = count > 1 ? w->signs.at[1].kind : 0;
  bool warns = watch_has_warning(w);
  char text[PLIM_TREND_TEXT];
  snprintf(text, sizeof text, "%s", count ? w->signs.at[0].text : "");
  end();
  CHECK(count == 2 && first == WATCH_LOW_MEMORY && second == WATCH_SWINGS, "%zu signs", count);
  CHECK(!warns, "warnings");
  CHECK_STR(text,
            "only 13 % of the memory is used (3.00 GiB of 23.0 GiB): a larger micro batch would "
            "probably fit; to choose one: plimsoll plan -- COMMAND");
}

// The second card of the fake driver is busy 3 % of the time. That is a sign only if someone computes on it.
TEST(a_gpu_that_waits_is_a_sign) {
  begin(FAKE_NVML, FOREVER);
  for (int i = 0; i < 31; i++) watch_take(w, FOREVER);
  size_t idle = w->signs.len;
  write_run("a", "");
  write_steps("a", (int)getpid(), 0, (shape){"training", 16384, 0, 0});
  watch_take(w, FOREVER);
  size_t count = w->signs.len, card = count ? w->signs.at[0].card : 0;
  bool is_right = count == 1 && w->signs.at[0].kind == WATCH_LOW_BUSY && !w->signs.at[0].run;
  end();
  CHECK(idle == 0 && is_right && card == 1, "%zu signs, then %zu", idle, count);
}

// Ten minutes of growth on a card; less could be a model that is being loaded.
TEST(a_card_that_fills_up_is_a_sign) {
  size_t counts[2];
  char text[PLIM_TREND_TEXT] = "";
  setenv("FAKE_NVML_BUSY", "2", 1);
  for (int round = 0; round < 2; round++) {
    int samples = round ? 70 : 40;
    begin(FAKE_NVML, FOREVER);
    watch_take(w, FOREVER);
    w->histories[0].history = (plim_history){0};
    for (int i = 0; i < samples; i++)
      plim_history_add(&w->histories[0].history,
                       &(plim_step_memory){.step = PLIM_UNKNOWN,
                                           .seconds = 10 * (i - samples),
                                           .live_bytes = (uint64_t)(1024 + 60 * i) * PLIM_MIB,
                                           .peak_bytes = PLIM_UNKNOWN,
                                           .reserved_bytes = PLIM_UNKNOWN});
    watch_take(w, FOREVER);
    counts[round] = w->signs.len;
    if (w->signs.len) snprintf(text, sizeof text, "%s", w->signs.at[0].text);
    end();
  }
  setenv("FAKE_NVML_BUSY", "", 1);
  CHECK(counts[0] == 0 && counts[1] == 1, "%zu signs, then %zu", counts[0], counts[1]);
  CHECK(strncmp(text, "memory grows by 360 MiB per minute; full in about ", 50) == 0, "%s", text);
}

TEST(a_launcher_is_no_rank) {
  begin("/nonexistent", FOREVER);
  write_run("a", "");
  char path[128];
  snprintf(path, sizeof path, "plimsoll/run/a/%d.live", (int)getppid());
  folder_write_text(path, "{\"t\": 1, \"step\": 0, \"rank\": 0, \"world\": 1}\n");
  snprintf(path, sizeof path, "plimsoll/run/a/%d.live", (int)getpid());
  folder_write_text(path, "{\"t\": 1, \"step\": 0, \"rank\": 1, \"world\": 2}\n");
  watch_take(w, FOREVER);
  watch_take(w, FOREVER);
  size_t ranks = w->runs.len ? w->runs.at[0]->ranks.len : 0;
  uint64_t rank = ranks ? w->runs.at[0]->worst->last.rank : PLIM_UNKNOWN;
  end();
  CHECK(ranks == 1 && rank == 1, "%zu ranks, rank %llu", ranks, (unsigned long long)rank);
}

TEST(a_run_that_is_over_disappears) {
  begin("/nonexistent", FOREVER);
  write_run("a", "");
  write_steps("a", (int)getpid(), 0, (shape){"training", 2048, 0, 0});
  write_steps("a", 0x3ffffff, 1, (shape){"training", 2048, 0, 0}); // has ended
  watch_take(w, FOREVER);
  size_t runs = w->runs.len, ranks = runs ? w->runs.at[0]->ranks.len : 0;
  folder_write_text("plimsoll/run/a/run.json", "{\"pid\": 67108863}");
  watch_take(w, FOREVER);
  size_t left = w->runs.len, signs = w->signs.len;
  end();
  CHECK(runs == 1 && ranks == 1, "%zu runs, %zu ranks", runs, ranks);
  CHECK(left == 0 && signs == 0, "%zu runs, %zu signs", left, signs);
}

TEST(host_memory_is_read_without_a_driver) {
  begin("/nonexistent", FOREVER);
  watch_take(w, FOREVER);
  uint64_t total = w->host.total_bytes;
  end();
  CHECK(total != PLIM_UNKNOWN && total > 0, "host memory");
}

TEST_MAIN
