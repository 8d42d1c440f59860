// What a run appends is read once, whatever state its files are in.
#include "live.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "live_rank.h"
#include "test.h"

#define LINE                                                                                       \
  "{\"t\": 100.5, \"step\": 7, \"rank\": 1, \"phase\": \"training\", \"allocated\": 1048576}\n"

static live_sample samples[64];
static live_reader reader;

static void append(const char *text, size_t size) {
  FILE *file = fopen(folder_path("1.live"), "a");
  fwrite(text, 1, size, file);
  fclose(file);
}

static void begin(void) {
  folder_make();
  reader = (live_reader){0};
  snprintf(reader.path, sizeof reader.path, "%s", folder_path("1.live"));
}

static size_t read_all(void) {
  size_t count = 0, got;
  while ((got = live_read(&reader, samples, 64))) count += got;
  return count;
}

TEST(a_line_is_read) {
  live_sample s;
  static const char text[] = "{\"t\": 1.5, \"step\": 3, \"rank\": 0, \"local_rank\": 0, \"world\": "
                             "8, \"phase\": \"evaluation\", "
                             "\"device\": 2, \"uuid\": \"GPU-3\", \"allocated\": 5, \"reserved\": "
                             "6, \"peak_allocated\": 7, "
                             "\"peak_reserved\": 8, \"free\": 9, \"total\": 10}";
  CHECK(live_parse(text, strlen(text), &s), "refused");
  CHECK(s.seconds == 1.5 && s.step == 3 && s.rank == 0 && s.world == 8 && s.device == 2, "numbers");
  CHECK(s.phase == LIVE_EVALUATION, "phase %d", s.phase);
  CHECK_STR(s.uuid, "GPU-3");
  CHECK(s.allocated_bytes == 5 && s.reserved_bytes == 6 && s.peak_allocated_bytes == 7 &&
            s.peak_reserved_bytes == 8 && s.free_bytes == 9 && s.total_bytes == 10,
        "bytes");
}

TEST(a_failure_is_read) {
  live_sample s;
  static const char text[] =
      "{\"oom_bytes\": 20, \"sample_tokens\": 512, \"longest_tokens\": null}";
  CHECK(live_parse(text, strlen(text), &s), "refused");
  CHECK(s.oom_bytes == 20 && s.sample_tokens == 512 && s.longest_tokens == PLIM_UNKNOWN, "numbers");
}

TEST(what_is_missing_is_unknown) {
  live_sample s;
  CHECK(live_parse("{}", 2, &s), "refused");
  CHECK(s.seconds < 0 && s.phase == LIVE_PHASE_UNKNOWN && !*s.uuid, "not unknown");
  CHECK_U64(s.step, PLIM_UNKNOWN);
  CHECK_U64(s.free_bytes, PLIM_UNKNOWN);
}

// Each line has the peak since the line before.
TEST(a_process_keeps_its_highest_peak_and_its_failure) {
  live_run run = {.name = "r", .limit_bytes = PLIM_UNKNOWN, .steps = PLIM_UNKNOWN};
  folder_make();
  mkdir(folder_path("r"), 0700);
  folder_write_text("r/1.live",
                    "{\"t\": 1, \"step\": 1, \"allocated\": 5, \"peak_allocated\": 9, "
                    "\"reserved\": 10, \"peak_reserved\": 12, \"free\": 90, \"total\": 100}\n"
                    "{\"t\": 2, \"step\": 2, \"allocated\": 5, \"peak_allocated\": 30, "
                    "\"reserved\": 10, \"peak_reserved\": 40, \"free\": 90, \"total\": 100, "
                    "\"oom_bytes\": 8, \"sample_tokens\": 77}\n"
                    "{\"t\": 3, \"step\": 2, \"allocated\": 4, \"peak_allocated\": 7, "
                    "\"reserved\": 10, \"peak_reserved\": 10, \"free\": 90, \"total\": 100}\n");
  live_rank *r = live_rank_new(folder_path(""), &run, 1);
  CHECK(r, "no memory");
  live_rank_read(r, &run);
  CHECK(r->peak_bytes == 30 && r->recent_peak_bytes == 30, "peaks");
  CHECK(r->used_bytes == 40 && r->total_bytes == 100, "what was in use");
  CHECK_U64(r->headroom_bytes, 70);
  CHECK(r->has_oom && r->oom.sample_tokens == 77 && r->last.oom_bytes == PLIM_UNKNOWN, "failure");
  free(r);
}

TEST(values_that_make_no_sense_are_unknown) {
  static const char *const hostile[] = {
      "{\"step\": -1}", "{\"step\": \"7\"}", "{\"step\": 1.5}",  "{\"step\": null}",
      "{\"step\": []}", "{\"step\": 1e300}", "{\"step\": true}",
  };
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
    live_sample s;
    CHECK(live_parse(hostile[i], strlen(hostile[i]), &s), "%s", hostile[i]);
    CHECK(s.step == PLIM_UNKNOWN, "%s: %" PRIu64, hostile[i], s.step);
  }
  static const char *const refused[] = {"",     "7", "[1]", "{", "{\"step\": 99999999999999999999}",
                                        "{} {}"};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    live_sample s;
    CHECK(!live_parse(refused[i], strlen(refused[i]), &s), "%s", refused[i]);
  }
  live_sample s;
  static const char steering[] = "{\"uuid\": \"\\u001b[2J\"}";
  CHECK(live_parse(steering, strlen(steering), &s), "refused");
  CHECK_STR(s.uuid, "?[2J");
}

TEST(what_was_appended_is_read_once) {
  begin();
  size_t none = read_all();
  append(LINE LINE, 2 * strlen(LINE));
  size_t two = read_all();
  size_t again = read_all();
  append(LINE, strlen(LINE));
  size_t one = read_all();
  folder_remove();
  CHECK(none == 0 && two == 2 && again == 0 && one == 1, "%zu %zu %zu %zu", none, two, again, one);
  CHECK_U64(samples[0].step, 7);
}

TEST(half_a_line_waits_for_its_end) {
  begin();
  append(LINE, 20);
  size_t half = read_all();
  append(&LINE[20], strlen(LINE) - 20);
  size_t whole = read_all();
  folder_remove();
  CHECK(half == 0 && whole == 1, "%zu, then %zu", half, whole);
}

TEST(lines_that_cannot_be_read_are_skipped) {
  begin();
  append("nonsense\n\0\0\n\n{\"step\": \n", 24);
  for (int i = 0; i < 3000; i++)
    append("{\"filler\": \"0123456789012345678901234567890123456789\"", 50);
  append("\n" LINE, 1 + strlen(LINE));
  size_t count = read_all();
  folder_remove();
  CHECK(count == 1, "%zu samples", count);
}

TEST(more_lines_than_room_come_in_parts) {
  begin();
  for (int i = 0; i < 1000; i++) append(LINE, strlen(LINE));
  size_t first = live_read(&reader, samples, 10), rest = read_all();
  folder_remove();
  CHECK(first == 10 && rest == 990, "%zu and %zu", first, rest);
}

TEST(a_file_that_was_cut_or_replaced_is_read_again) {
  begin();
  append(LINE LINE, 2 * strlen(LINE));
  read_all();
  truncate(reader.path, 0);
  append(LINE, strlen(LINE));
  size_t cut = read_all();
  rename(reader.path, folder_path("old"));
  append(LINE LINE LINE, 3 * strlen(LINE));
  size_t replaced = read_all();
  folder_remove();
  CHECK(cut == 1 && replaced == 3, "%zu, %zu", cut, replaced);
}

TEST(only_the_end_of_a_large_file_is_read) {
  begin();
  FILE *file = fopen(reader.path, "w");
  for (int i = 0; i < 100000; i++) fputs(LINE, file);
  fclose(file);
  size_t count = read_all();
  folder_remove();
  CHECK(count < 100000 && count == (4 << 20) / strlen(LINE), "%zu samples", count);
}

// Reading a pipe would wait for ever.
TEST(what_is_no_file_is_not_read) {
  begin();
  mkfifo(reader.path, 0600);
  size_t pipe = read_all();
  unlink(reader.path);
  symlink("/dev/zero", reader.path);
  size_t link = read_all();
  unlink(reader.path);
  mkdir(reader.path, 0700);
  size_t folder = read_all();
  folder_remove();
  CHECK(!pipe && !link && !folder, "%zu %zu %zu", pipe, link, folder);
}

// ---- runs -------------------------------------------------------------------------------------------

static void write_run(const char *name, int pid, const char *more) {
  char path[128], text[256];
  snprintf(path, sizeof path, "%s/run.json", name);
  snprintf(text, sizeof text, "{\"pid\": %d, \"command\": \"python train.py\", \"started\": %ld%s}",
           pid, (long)time(NULL), more);
  folder_write_text(path, text);
}

TEST(runs_that_are_over_are_not_listed) {
  live_run runs[8];
  unsigned pids[8];
  char path[PATH_MAX];
  folder_make();
  write_run("b-running", (int)getpid(), ", \"steps\": 100, \"limit_bytes\": null");
  write_run("a-running", (int)getpid(), "");
  write_run("over", 0x3ffffff, "");
  folder_write_text("no-json/run.json", "{\"pid\": ");
  folder_write_text("no-pid/run.json", "{\"pid\": -4}");
  folder_write_text("stray", "");
  folder_write_text("b-running/20.live", "");
  folder_write_text("b-running/7.live", "");
  folder_write_text("b-running/x.live", "");
  folder_write_text("b-running/99999999999.live", "");
  size_t count = live_runs(folder_path(""), "", runs, 8),
         few = live_runs(folder_path(""), "", runs, 1);
  count = live_runs(folder_path(""), "", runs, 8);
  size_t processes = live_processes(folder_path(""), &runs[1], pids, 8);
  bool has_path = live_path(path, "/x", &runs[1], 7);
  folder_remove();
  CHECK(count == 2 && few == 1, "%zu runs", count);
  CHECK_STR(runs[0].name, "a-running");
  CHECK_STR(runs[1].command, "python train.py");
  CHECK_U64(runs[1].steps, 100);
  CHECK_U64(runs[1].limit_bytes, PLIM_UNKNOWN);
  CHECK(processes == 2 && pids[0] == 7 && pids[1] == 20, "%zu processes", processes);
  CHECK(has_path, "path");
  CHECK_STR(path, "/x/b-running/7.live");
}

// Memory that a process has released again was in use before, and the GPU of which least is left counts.
TEST(the_fullest_moment_of_a_process_is_kept) {
  live_run run = {.name = "run", .limit_bytes = PLIM_UNKNOWN, .steps = PLIM_UNKNOWN};
  folder_make();
  folder_write_text(
      "run/7.live",
      "{\"step\": 1, \"rank\": 3, \"world\": 4, \"local_world\": 2}\n"
      "{\"step\": 1, \"rank\": 3, \"world\": 4, \"reserved\": 20, \"peak_reserved\": 50, "
      "\"free\": 70, \"total\": 100}\n"
      "{\"step\": 1, \"rank\": 3, \"world\": 4, \"reserved\": 20, \"peak_reserved\": 20, "
      "\"free\": 70, \"total\": 100, \"oom_bytes\": 90}\n");
  live_rank *r = live_rank_new(folder_path(""), &run, 7);
  live_rank_read(r, &run);
  folder_remove();
  CHECK(r->used_bytes == 60 && r->total_bytes == 100, "%llu", (unsigned long long)r->used_bytes);
  CHECK(r->has_oom && r->oom.oom_bytes == 90 && r->oom.rank == 3, "the failure is not kept");
  CHECK(live_rank_has_others(r), "it is one of four ranks");
  free(r);
  CHECK_U64(live_room(PLIM_UNKNOWN, PLIM_UNKNOWN), PLIM_UNKNOWN);
  CHECK_U64(live_room(10, 20), 0);
}

TEST(a_missing_folder_has_no_runs) {
  live_run runs[1];
  CHECK(live_runs("/nonexistent", "", runs, 1) == 0, "runs");
}

TEST(the_folder_is_the_users_state_folder) {
  char path[PATH_MAX];
  setenv("HOME", "/home/me", 1);
  unsetenv("XDG_STATE_HOME");
  CHECK(!live_folder(path, NULL), "refused");
  CHECK_STR(path, "/home/me/.local/state/plimsoll/run");
  setenv("XDG_STATE_HOME", "/state", 1);
  CHECK(!live_folder(path, NULL), "refused");
  CHECK_STR(path, "/state/plimsoll/run");
  setenv("XDG_STATE_HOME", "not/absolute", 1);
  setenv("HOME", "", 1);
  CHECK(live_folder(path, NULL) == PLIM_ERR_ARGUMENT, "no folder");
}

TEST_MAIN
