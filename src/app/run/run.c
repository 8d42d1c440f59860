#include "run.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "machine.h"
#include "quoting.h"
#include "run_impl.h"
#include "text.h"

enum { KEPT_LOGS = 200, TURN_MILLISECONDS = 500 };

static const char *const event_names[] = {"start",    "warning", "failure",
                                          "recovery", "end",     "detail"};

double run_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// ---- the run ----------------------------------------------------------------------------------------

static void do_nothing(int number) { (void)number; }

// If nobody reads what we say any more, the run goes on. A handler, unlike SIG_IGN, is not passed on to the program.
static void survive_readers(bool begins) {
  struct sigaction now, quiet = {.sa_handler = begins ? do_nothing : SIG_DFL};
  if (sigaction(SIGPIPE, NULL, &now)) return;
  if (now.sa_handler == (begins ? SIG_DFL : do_nothing)) sigaction(SIGPIPE, &quiet, NULL);
}

// For `plimsoll watch`, which finds runs by this file (live.h). JSON has no bytes that are not UTF-8.
static void announce(const run *r, const char *command) {
  char path[PLIM_PATH_BYTES];
  char *shown = strdup(command ? command : "");
  if (shown) plim_text_disarm(shown);
  json_t *about = json_pack("{s:i, s:s, s:f}", "pid", (int)getpid(), "command", shown ? shown : "",
                            "started", r->began);
  if (about && plim_path_join(path, r->folder.path, "run.json"))
    (void)!json_dump_file(about, path, JSON_COMPACT);
  json_decref(about);
  free(shown);
}

// A run goes on without its record.
static void begin_history(run *r, char *command) {
  char path[PLIM_PATH_BYTES], folder[PLIM_PATH_BYTES] = "";
  plim_error error = {0};
  history *h = NULL;
  history_run about = {
      .began = r->began, .pid = getpid(), .command = command, .log = r->folder.log};
  about.total_bytes = PLIM_UNKNOWN;
  about.folder = getcwd(folder, sizeof folder) ? folder : NULL;
  plim_err err = simulate_state_path("runs.sqlite", path, &error);
  if (!err) err = history_open(path, true, &h, &error);
  if (!err) err = history_begin(h, &about, &r->id, &error);
  if (err) history_close(h);
  else r->record = run_record_new(h, r->id, &error);
  if (!r->record) snprintf(r->no_history, sizeof r->no_history, "%s", error.message);
}

plim_err run_open(run *r, const run_options *options, plim_error *error) {
  *r = (run){.options = *options, .log = -1, .began = run_clock()};
  r->peak_bytes = r->total_bytes = r->steps = r->peak_rank = PLIM_UNKNOWN;
  survive_readers(true);
  plim_err err = PLIM_OK;
  if (options->modules) snprintf(r->modules, sizeof r->modules, "%s", options->modules);
  else err = simulate_find_stand_ins(r->modules, error);
  if (!err) err = simulate_folder_make(&r->folder, "run", KEPT_LOGS, NULL, error);
  if (err) return err;
  r->log = open(r->folder.log, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
  if (r->log < 0)
    return plim_fail(error, PLIM_ERR_IO, "cannot write %.200s: %s", r->folder.log, strerror(errno));
  char *command = plim_shell_line(options->command);
  announce(r, command);
  begin_history(r, command);
  free(command);
  return options->has_hook ? run_hook_begin(r, error) : PLIM_OK;
}

// Removes the files whose names have this end.
static void remove_files(const char *folder, const char *end) {
  char path[PLIM_PATH_BYTES];
  DIR *open = opendir(folder);
  for (struct dirent *e; open && (e = readdir(open));) {
    size_t n = strlen(e->d_name), m = strlen(end);
    bool is_one = n >= m && strcmp(e->d_name + n - m, end) == 0 && *e->d_name != '.';
    if (is_one && plim_path_join(path, folder, e->d_name)) unlink(path);
  }
  if (open) closedir(open);
}

// What the processes of the last start left. Their lines are in the record.
static void forget_processes(const run *r) {
  remove_files(r->folder.path, ".live");
  remove_files(r->folder.out, "");
}

void run_close(run *r, int status, const char *how) {
  plim_error error;
  history_run end = {.ended = run_clock(), .status = status, .end = (char *)how, .card = r->card};
  end.total_bytes = r->total_bytes, end.peak_bytes = r->peak_bytes, end.steps = r->steps;
  run_hook_end(r);
  run_record *record = r->record;
  r->record = NULL;
  if (run_record_end(record, &end, &error))
    run_tell(r, RUN_WARNING, "the record of this run is not complete: %s", error.message);
  run_notify_end(r);
  survive_readers(false);
  if (r->log >= 0) close(r->log);
  if (!*r->folder.path) return;
  simulate_folder_remove(r->folder.path, true);
  if (r->folder.lock >= 0) close(r->folder.lock);
}

// False: it does not fit, or memory ran out.
static bool json_line(const run *r, const char *event, const char *text, char *line, size_t size) {
  json_t *about = json_pack("{s:f, s:I, s:s, s:s}", "time", run_clock(), "run", (json_int_t)r->id,
                            "event", event, "text", text);
  size_t length = about ? json_dumpb(about, line, size - 1, JSON_COMPACT) : size;
  json_decref(about);
  if (length >= size - 1) return false;
  line[length] = 0;
  return true;
}

void run_tell(run *r, run_event event, const char *format, ...) {
  char text[1024], line[2400];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  plim_text_disarm(text); // it may quote the program, and may be cut inside a character
  if (!r->options.is_json || !json_line(r, event_names[event], text, line, sizeof line))
    snprintf(line, sizeof line, "plimsoll: %s", text);
  char *folded = r->options.fold && !r->options.is_json ? r->options.fold(line) : NULL;
  const char *shown = folded ? folded : line;
  if (r->launched) launch_say_folded(r->launched, line, shown);
  else {
    const char *begin = r->is_line_open ? "\n" : "";
    dprintf(STDERR_FILENO, "%s%s\n", begin, shown);
    if (r->log >= 0) dprintf(r->log, "%s%s\n", begin, line);
    r->is_line_open = false;
  }
  free(folded);
  run_record_add_event(r->record, run_clock(), event_names[event], text);
  r->warnings += event == RUN_WARNING;
  if (event != RUN_DETAIL) run_notify(r, event_names[event], text);
}

// ---- once -------------------------------------------------------------------------------------------

// Once for each start: the disk is full.
static void tell_of_log(run *r, bool *is_told) {
  int why = launch_log_error(r->launched);
  if (!why || *is_told) return;
  *is_told = true;
  run_tell(r, RUN_WARNING, "the log ends here: %s (%s)", strerror(why), r->folder.log);
}

static plim_err go(run *r, const run_settings *settings, char **environment, run_end *end,
                   plim_error *error) {
  launch_request request = {.command = settings->command,
                            .environment = (const char *const *)environment,
                            .log = r->log,
                            .not_started = &end->not_started,
                            .before = settings->before,
                            .after = settings->after,
                            .context = settings->context};
  plim_err err = launch_start(&request, &r->launched, error);
  if (err) return err;
  bool is_told = false;
  for (double next = 0; !launch_turn(r->launched, TURN_MILLISECONDS, &end->status);) {
    if (run_clock() < next) continue; // a program that prints much must not be slowed down
    run_follow(r, end);
    tell_of_log(r, &is_told);
    next = run_clock() + TURN_MILLISECONDS / 1000.0;
  }
  run_follow_last(r, end);
  run_inquire_last(r, end);
  tell_of_log(r, &is_told);
  end->asked = launch_was_asked(r->launched);
  if (*launch_problem(r->launched)) run_tell(r, RUN_WARNING, "%s", launch_problem(r->launched));
  r->is_line_open = launch_is_line_open(r->launched);
  launch_end(r->launched);
  r->launched = NULL;
  return PLIM_OK;
}

plim_err run_once(run *r, const run_settings *settings, run_end *end, plim_error *error) {
  *end = (run_end){.began = run_clock(), .steps = PLIM_UNKNOWN};
  end->log_begin = lseek(r->log, 0, SEEK_END);
  plim_machine machine;
  plim_machine_read("", &machine);
  r->oom_kills = machine.oom_kills;
  forget_processes(r);
  char *command = plim_shell_line(settings->command);
  announce(r, command);
  free(command);
  char **environment =
      live_environment(settings->variables, settings->savers, &r->folder, r->modules);
  if (!environment) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  plim_err err = go(r, settings, environment, end, error);
  simulate_environment_free(environment);
  end->seconds = run_clock() - end->began;
  if (err) return err;
  for (size_t i = 0; i < end->processes.len; i++) {
    if (!end->processes.at[i].rank->has_sample) continue;
    uint64_t step = end->processes.at[i].rank->last.step;
    if (step != PLIM_UNKNOWN && (end->steps == PLIM_UNKNOWN || step > end->steps))
      end->steps = step;
  }
  return simulate_read_processes(r->folder.out, &end->observed, error);
}

void run_end_clear(run_end *end) {
  for (size_t i = 0; i < end->processes.len; i++) free(end->processes.at[i].rank);
  vec_free(&end->processes);
  simulate_result_clear(&end->observed);
}

const live_rank *run_failed(const run_end *end, uint64_t rank) {
  const live_rank *first = NULL;
  for (size_t i = 0; i < end->processes.len; i++) {
    const live_rank *p = end->processes.at[i].rank;
    bool has_failed = p->has_oom && p->last.step == p->oom.step;
    if (!has_failed || (rank != PLIM_UNKNOWN && p->oom.rank != rank)) continue;
    if (!first || p->oom.seconds < first->oom.seconds) first = p;
  }
  return first;
}

const simulate_process *run_observed(const run_end *end, const live_rank *rank) {
  for (size_t i = 0; rank && i < end->observed.processes.len; i++)
    if (end->observed.processes.at[i].pid == rank->pid) return &end->observed.processes.at[i];
  return simulate_fullest(&end->observed);
}

const live_rank *run_fullest(const run_end *end) {
  const live_rank *found = NULL;
  for (size_t i = 0; i < end->processes.len; i++) {
    const live_rank *rank = end->processes.at[i].rank;
    uint64_t room = live_room(rank->total_bytes, rank->used_bytes);
    if (room == PLIM_UNKNOWN) continue;
    if (!found || room < live_room(found->total_bytes, found->used_bytes)) found = rank;
  }
  return found;
}
