#include "runs_show.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "json_writer.h"
#include "process.h"
#include "term.h"
#include "text.h"
#include "units.h"

// ---- words ------------------------------------------------------------------------------------------

const char *runs_end_of(const history_run *run) {
  if (run->end) return run->end;
  bool is_number = run->pid > 0 && run->pid <= INT_MAX;
  return is_number && plim_process_runs("", (unsigned)run->pid, run->began) ? "running" : "killed";
}

// Only the newest logs are kept.
static bool has_log(const history_run *run) { return run->log && access(run->log, F_OK) == 0; }

static void time_text(double seconds, char *text, size_t size) {
  time_t t = (time_t)seconds;
  struct tm local;
  localtime_r(&t, &local);
  strftime(text, size, "%Y-%m-%d %H:%M", &local);
}

static units_text duration_of(const history_run *run) {
  return run->ended > 0 ? units_seconds(run->ended - run->began) : (units_text){"-"};
}

static units_text bytes_of(uint64_t bytes) {
  return bytes == PLIM_UNKNOWN ? (units_text){"-"} : units_bytes(bytes);
}

static units_text count_of(uint64_t count) {
  return count == PLIM_UNKNOWN ? (units_text){"-"} : units_count(count);
}

int64_t runs_fullest_rank(const history_found *found) {
  int64_t rank = -1;
  uint64_t most = 0;
  for (size_t i = 0; i < found->samples.len; i++) {
    const history_sample *s = &found->samples.at[i];
    uint64_t used = s->used_bytes == PLIM_UNKNOWN ? s->reserved_bytes : s->used_bytes;
    bool is_more = used != PLIM_UNKNOWN && used > most;
    if (is_more || rank < 0) rank = s->rank;
    if (is_more) most = used;
  }
  return rank;
}

// " of rank 1" if there are several.
static units_text fullest_of_several(const history_found *found) {
  units_text text = {""};
  for (size_t i = 1; i < found->samples.len; i++)
    if (found->samples.at[i].rank != found->samples.at[0].rank)
      snprintf(text.text, sizeof text.text, " of rank %lld", (long long)runs_fullest_rank(found));
  return text;
}

// ---- text -------------------------------------------------------------------------------------------

void runs_print_list(const history_found *found) {
  static const term_column columns[] = {{"run", .right = true},
                                        {"began"},
                                        {"time", .right = true},
                                        {"end"},
                                        {"steps", .right = true},
                                        {"peak", .right = true},
                                        {"command"}};
  char began[32], command[96];
  if (!found->runs.len) {
    term_say(stdout, "There are no runs yet. To make one: plimsoll run -- python train.py", 0, 0);
    return;
  }
  // The other columns take at most 64 letters.
  int left = term_width(stdout) - 64;
  size_t room = left < 16 ? 16 : left > 60 ? 60 : (size_t)left;
  term_table *t = term_table_new(columns, sizeof columns / sizeof *columns);
  for (size_t i = 0; i < found->runs.len; i++) {
    const history_run *r = &found->runs.at[i];
    time_text(r->began, began, sizeof began);
    picture_shorten(r->command ? r->command : "", command, sizeof command, room);
    plim_text_disarm(command);
    term_table_cell(t, TERM_PLAIN, "%lld", (long long)r->id);
    term_table_cell(t, TERM_PLAIN, "%s", began);
    term_table_cell(t, TERM_PLAIN, "%s", duration_of(r).text);
    term_table_cell(t, TERM_PLAIN, "%s", runs_end_of(r));
    term_table_cell(t, TERM_PLAIN, "%s", count_of(r->steps).text);
    term_table_cell(t, TERM_PLAIN, "%s", bytes_of(r->peak_bytes).text);
    term_table_cell(t, TERM_PLAIN, "%s", command);
  }
  term_table_print(t, stdout);
  term_table_free(t);
  if (found->run_count > found->runs.len)
    printf("the newest %s of %s runs; to list all: plimsoll runs -n %llu\n",
           units_count(found->runs.len).text, units_count(found->run_count).text,
           (unsigned long long)found->run_count);
}

// When it was last heard of, in seconds since its begin.
static double last_seen(const history_found *found) {
  double last = found->runs.at[0].began;
  size_t samples = found->samples.len, events = found->events.len;
  if (samples && found->samples.at[samples - 1].time > last)
    last = found->samples.at[samples - 1].time;
  if (events && found->events.at[events - 1].time > last) last = found->events.at[events - 1].time;
  return last - found->runs.at[0].began;
}

static void print_title(const history_found *found) {
  const history_run *r = &found->runs.at[0];
  char began[64];
  time_text(r->began, began, sizeof began);
  printf("run %lld: %s, began %s", (long long)r->id, runs_end_of(r), began);
  if (r->ended > 0) printf(", took %s\n", duration_of(r).text);
  else if (strcmp(runs_end_of(r), "killed") == 0)
    printf("; plimsoll was killed, the last report came after %s\n",
           units_seconds(last_seen(found)).text);
  else printf("; the last report came after %s\n", units_seconds(last_seen(found)).text);
}

// Paths and words may contain anything that the system allows.
static void print_text(const char *name, const char *text) {
  char *shown = text ? strdup(text) : NULL;
  if (shown) plim_text_disarm(shown);
  printf("  %-7s  %s\n", name, shown ? shown : "");
  free(shown);
}

void runs_print_one(const history_found *found) {
  const history_run *r = &found->runs.at[0];
  print_title(found);
  print_text("command", r->command);
  print_text("folder", r->folder);
  print_text("log", r->log);
  if (!has_log(r)) printf("           (it was removed)\n");
  if (r->card && *r->card) print_text("GPU", r->card);
  if (r->peak_bytes != PLIM_UNKNOWN && r->total_bytes != PLIM_UNKNOWN)
    printf("  memory   at most %s of %s were in use on the GPU%s\n", bytes_of(r->peak_bytes).text,
           bytes_of(r->total_bytes).text, fullest_of_several(found).text);
  else if (r->peak_bytes != PLIM_UNKNOWN)
    printf("  memory   at most %s were in use on the GPU%s\n", bytes_of(r->peak_bytes).text,
           fullest_of_several(found).text);
  if (r->steps != PLIM_UNKNOWN) printf("  steps    %s\n", count_of(r->steps).text);
  for (size_t i = 0; i < found->events.len; i++) {
    const history_event *e = &found->events.at[i];
    printf("%s%10.1f s  %-8s  ", i ? "" : "\nevents\n", e->time - r->began, e->kind);
    term_say(stdout, e->text, 24, 24);
  }
}

// ---- JSON -------------------------------------------------------------------------------------------

static void put_run(json_writer *j, const history_run *r) {
  jsonw_i64(j, "run", r->id);
  jsonw_number(j, "began", r->began);
  if (r->ended > 0) jsonw_number(j, "ended", r->ended);
  else jsonw_null(j, "ended");
  jsonw_string(j, "end", runs_end_of(r));
  jsonw_string(j, "command", r->command);
  jsonw_string(j, "folder", r->folder);
  jsonw_string(j, "log", r->log);
  jsonw_bool(j, "has_log", has_log(r));
  jsonw_string_or_null(j, "gpu", r->card);
  jsonw_bytes(j, "total_bytes", r->total_bytes);
  jsonw_bytes(j, "peak_bytes", r->peak_bytes);
  jsonw_bytes(j, "steps", r->steps);
}

void runs_print_list_json(const history_found *found) {
  json_writer j = jsonw_begin(stdout);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  jsonw_u64(&j, "run_count", found->run_count);
  jsonw_array(&j, "runs");
  for (size_t i = 0; i < found->runs.len; i++) {
    jsonw_object(&j, NULL);
    put_run(&j, &found->runs.at[i]);
    jsonw_end(&j);
  }
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_finish(&j);
}

static void put_sample(json_writer *j, const history_sample *s) {
  jsonw_object(j, NULL);
  jsonw_number(j, "time", s->time);
  jsonw_i64(j, "rank", s->rank);
  jsonw_bytes(j, "step", s->step);
  jsonw_bytes(j, "allocated_bytes", s->allocated_bytes);
  jsonw_bytes(j, "reserved_bytes", s->reserved_bytes);
  jsonw_bytes(j, "used_bytes", s->used_bytes);
  jsonw_bytes(j, "peak_bytes", s->peak_bytes);
  jsonw_end(j);
}

void runs_print_one_json(const history_found *found) {
  json_writer j = jsonw_begin(stdout);
  jsonw_object(&j, NULL);
  jsonw_u64(&j, "format_version", 1);
  put_run(&j, &found->runs.at[0]);
  if (found->samples.len) jsonw_i64(&j, "fullest_rank", runs_fullest_rank(found));
  else jsonw_null(&j, "fullest_rank");
  jsonw_array(&j, "events");
  for (size_t i = 0; i < found->events.len; i++) {
    jsonw_object(&j, NULL);
    jsonw_number(&j, "time", found->events.at[i].time);
    jsonw_string(&j, "kind", found->events.at[i].kind);
    jsonw_string(&j, "text", found->events.at[i].text);
    jsonw_end(&j);
  }
  jsonw_end(&j);
  jsonw_array(&j, "samples");
  for (size_t i = 0; i < found->samples.len; i++) put_sample(&j, &found->samples.at[i]);
  jsonw_end(&j);
  jsonw_end(&j);
  jsonw_finish(&j);
}
