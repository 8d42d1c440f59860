// The record of runs keeps what was written, through several writers, and refuses files that are not its own.
#include "run_history.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "test.h"

static history *open_new(const char *name) {
  plim_error error;
  history *h = NULL;
  return history_open(folder_path(name), true, &h, &error) ? NULL : h;
}

static int64_t begin(history *h, char *command) {
  plim_error error;
  int64_t id = -1;
  history_run run = {
      .began = 1000.5, .pid = 42, .command = command, .folder = "/home", .log = "log"};
  run.total_bytes = PLIM_UNKNOWN;
  return history_begin(h, &run, &id, &error) ? -1 : id;
}

TEST(a_run_is_read_as_it_was_written) {
  plim_error error;
  history *h = open_new("whole");
  CHECK(h, "open");
  int64_t id = begin(h, "python 'a b.py' \xc3\xa4");
  history_found news = {0};
  vec_push(&news.samples, (history_sample){1001, 0, 1, 10, 20, 30, 15});
  vec_push(&news.samples, (history_sample){1002, 3, 2, 11, 21, PLIM_UNKNOWN, PLIM_UNKNOWN});
  vec_push(&news.events, (history_event){1003, strdup("warning"), strdup("memory grows")});
  CHECK(!history_add(h, id, &news, &error), "%s", error.message);
  history_found_clear(&news);
  history_run end = {.ended = 1010, .status = 256, .end = "out of memory", .card = "H200"};
  end.total_bytes = 99, end.peak_bytes = 31, end.steps = 2;
  CHECK(!history_end(h, id, &end, &error), "%s", error.message);
  history_close(h);

  CHECK(!history_open(folder_path("whole"), false, &h, &error), "%s", error.message);
  history_found found;
  CHECK(!history_read(h, id, &found, &error), "%s", error.message);
  const history_run *r = &found.runs.at[0];
  CHECK(strcmp(r->command, "python 'a b.py' \xc3\xa4") == 0 && strcmp(r->card, "H200") == 0,
        "texts");
  CHECK(strcmp(r->end, "out of memory") == 0 && r->status == 256 && r->pid == 42, "end");
  CHECK(r->began == 1000.5 && r->ended == 1010, "times");
  CHECK(r->total_bytes == 99 && r->peak_bytes == 31 && r->steps == 2, "numbers");
  CHECK(found.samples.len == 2 && found.samples.at[0].used_bytes == 30, "samples");
  CHECK(found.samples.at[0].peak_bytes == 15 && found.samples.at[1].peak_bytes == PLIM_UNKNOWN,
        "peaks");
  CHECK(found.samples.at[1].rank == 3 && found.samples.at[1].used_bytes == PLIM_UNKNOWN, "samples");
  CHECK(found.events.len == 1 && strcmp(found.events.at[0].text, "memory grows") == 0, "events");
  history_found_clear(&found);
  history_close(h);
}

TEST(the_newest_runs_come_first) {
  plim_error error;
  history *h = open_new("many");
  history_found found;
  char name[16];
  for (int i = 0; i < 9; i++) {
    snprintf(name, sizeof name, "run %d", i);
    CHECK(begin(h, name) == i + 1, "%d", i);
  }
  CHECK(!history_list(h, 3, &found, &error), "%s", error.message);
  CHECK(found.runs.len == 3 && strcmp(found.runs.at[0].command, "run 8") == 0, "three");
  CHECK(found.runs.at[0].ended == 0 && !found.runs.at[0].end, "it has not ended");
  CHECK(found.runs.at[0].peak_bytes == PLIM_UNKNOWN, "not known");
  history_found_clear(&found);
  CHECK(history_read(h, 77, &found, &error) == PLIM_ERR_ARGUMENT, "no such run");
  history_found_clear(&found);
  history_close(h);
}

TEST(several_processes_write_at_the_same_time) {
  enum { WRITERS = 3, RUNS = 5 };
  plim_error error;
  for (int i = 0; i < WRITERS; i++)
    if (fork() == 0) {
      history *h = open_new("shared");
      bool ok = h != NULL;
      for (int k = 0; ok && k < RUNS; k++) {
        history_found news = {0};
        int64_t id = begin(h, "x");
        ok = id > 0 && vec_push(&news.samples, (history_sample){.time = k}) &&
             !history_add(h, id, &news, &error);
        history_found_clear(&news);
      }
      _exit(ok ? 0 : 1);
    }
  for (int i = 0; i < WRITERS; i++) {
    int status;
    wait(&status);
    CHECK(status == 0, "writer %d", i);
  }
  history *h = open_new("shared");
  history_found found;
  CHECK(!history_list(h, 1000, &found, &error), "%s", error.message);
  CHECK_U64(found.runs.len, WRITERS * RUNS);
  history_found_clear(&found);
  history_close(h);
}

TEST(other_files_are_left_alone) {
  plim_error error;
  history *h;
  folder_write_text("text",
                    "this is not a database, and it is longer than a header of one, which has "
                    "one hundred bytes; so it goes on for a while");
  CHECK(history_open(folder_path("text"), true, &h, &error) == PLIM_ERR_IO, "a text");
  CHECK(strstr(error.hint, "move it away"), "%s", error.hint);
  CHECK(history_open(folder_path("missing"), false, &h, &error) == PLIM_ERR_IO, "missing");
  CHECK(history_open(folder_path("no/folder"), true, &h, &error) == PLIM_ERR_IO, "no folder");
  folder_write_text("cut", "");
  CHECK(!history_open(folder_path("cut"), true, &h, &error), "an empty file becomes a record");
  history_close(h);
}

TEST(reading_does_not_wait_for_a_writer) {
  plim_error error = {0};
  history_found found = {0};
  sqlite3 *writer;
  history *h = open_new("written");
  CHECK(begin(h, "one") == 1, "begin");
  history_close(h);
  CHECK(sqlite3_open(folder_path("written"), &writer) == SQLITE_OK, "open");
  CHECK(sqlite3_exec(writer, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK, "lock");
  CHECK(!history_open(folder_path("written"), false, &h, &error), "%s", error.message);
  CHECK(!history_list(h, 9, &found, &error) && found.runs.len == 1, "%s", error.message);
  history_found_clear(&found);
  history_close(h);
  sqlite3_close(writer);
}

int main(int argc, char **argv) {
  folder_make();
  int result = test_main(argc, argv);
  folder_remove();
  return result;
}
