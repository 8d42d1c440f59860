#include "run_show.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "cli_alloc.h"
#include "nvml.h"
#include "quoting.h"
#include "term.h"
#include "units.h"

// Commands to paste are indented, and stay in one piece.
char *run_show_folded(const char *line) {
  static const char command[] = "plimsoll:   ";
  bool is_command = strncmp(line, command, sizeof command - 1) == 0;
  char *text = NULL;
  size_t size = 0;
  FILE *out = isatty(STDERR_FILENO) && !is_command ? open_memstream(&text, &size) : NULL;
  if (!out) return NULL;
  term_wrap(out, line, 0, 2, (size_t)term_width(stderr));
  if (fclose(out)) return free(text), NULL;
  text[size - 1] = 0; // the last line end
  return text;
}

// ---- before -----------------------------------------------------------------------------------------

void run_show_start(run *r) {
  if (r->id) run_tell(r, RUN_START, "run %lld, log: %s", (long long)r->id, r->folder.log);
  else
    run_tell(r, RUN_START, "log: %s (this run will not be listed by plimsoll runs: %s)",
             r->folder.log, r->no_history);
}

void run_show_variables(run *r, const run_variables *helpful) {
  char list[512] = "";
  for (size_t i = 0; i < helpful->len; i++) {
    size_t used = strlen(list);
    snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", helpful->at[i].setting);
  }
  if (*list) run_tell(r, RUN_DETAIL, "set for this run: %s", list);
  const char *isolated = run_isolated_python(r->options.command);
  if (isolated)
    run_tell(r, RUN_WARNING,
             "Python's option %s keeps it from loading plimsoll's module, so plimsoll sees neither "
             "steps nor "
             "their memory, and --chunked-loss, --empty-cache-every and --gc-every do nothing",
             isolated);
}

plim_err run_show_check(run *r, const char *const *words, const cli_strings *sets, uint64_t *cards,
                        plim_error *error) {
  plim_error unread = {0};
  check *c = cli_alloc(sizeof *c);
  *c = (check){.environment = getenv, .root = ""};
  check_look(c);
  plim_err err = check_read_command(c, words, sets, &unread);
  if (!err) err = check_all(c, error);
  for (size_t i = 0; !err && i < c->findings.len; i++) {
    const check_finding *f = &c->findings.at[i];
    bool is_silence = strcmp(f->id, "driver.silent") == 0;
    if (f->severity == CHECK_FAILS || is_silence)
      run_tell(r, RUN_WARNING, "check: %s%s%s", f->what, *f->fix ? "; " : "", f->fix);
  }
  if (!err && c->ranks > 0) *cards = (uint64_t)c->ranks;
  check_clear(c);
  free(c);
  return err == PLIM_ERR_NOMEM ? err : PLIM_OK;
}

// ---- why it failed ----------------------------------------------------------------------------------

enum { MOST_LOG = 64 << 20, MOST_OTHERS = 16 };

// The last part of what this start has printed.
static plim_err read_log(const run *r, const run_end *end, plim_oom_log *log, plim_error *error) {
  struct stat file;
  int fd = open(r->folder.log, O_RDONLY | O_CLOEXEC);
  plim_err err = PLIM_OK;
  *log = (plim_oom_log){0};
  if (fd < 0 || fstat(fd, &file)) {
    if (fd >= 0) close(fd);
    return plim_oom_log_read_memory("", 0, log, error); // no log: the exit status still tells
  }
  off_t begin = end->log_begin > 0 ? end->log_begin : 0;
  if (file.st_size - begin > MOST_LOG) begin = file.st_size - MOST_LOG;
  size_t size = file.st_size > begin ? (size_t)(file.st_size - begin) : 0;
  char *text = cli_alloc(size + 1);
  size_t used = 0;
  for (ssize_t got; used < size; used += (size_t)got) {
    got = pread(fd, text + used, size - used, begin + (off_t)used);
    if (got <= 0) break;
  }
  err = plim_oom_log_read_memory(text, used, log, error);
  free(text);
  close(fd);
  return err;
}

// Processes that are on the program's card now, when the program has ended. PLIM_UNKNOWN: the driver does not answer.
static uint64_t find_others(const run_end *end, explain_process *out, char names[][64]) {
  plim_card cards[PLIM_MAX_CARDS];
  plim_card_process processes[PLIM_MAX_PROCESSES];
  const live_rank *fullest = run_fullest(end);
  plim_nvml_state state;
  size_t count = plim_nvml_cards(cards, &state), found = 0;
  for (size_t i = 0; i < count; i++) {
    bool is_the_one =
        count == 1 || (fullest && *fullest->last.uuid && strstr(cards[i].uuid, fullest->last.uuid));
    size_t users = is_the_one ? plim_nvml_processes(&cards[i], processes, &state) : 0;
    for (size_t k = 0; k < users && found < MOST_OTHERS; k++, found++) {
      bool has_name = plim_process_name("", processes[k].pid, names[found], 64);
      out[found] = (explain_process){processes[k].pid, has_name ? names[found] : NULL,
                                     processes[k].used_bytes};
    }
  }
  return state == PLIM_NVML_SILENT ? PLIM_UNKNOWN : found;
}

// Of the process whose memory was heading for the limit first.
static bool find_growth(const run_end *end, explain_growth *out) {
  const live_rank *worst = NULL;
  for (size_t i = 0; i < end->processes.len; i++)
    if (!worst || live_rank_is_worse(end->processes.at[i].rank, worst))
      worst = end->processes.at[i].rank;
  bool is_growth = worst && (worst->trend.kind == PLIM_TREND_CREEPING ||
                             worst->trend.kind == PLIM_TREND_OUTSIDE);
  if (!is_growth) return false;
  const plim_history *h = &worst->history;
  const plim_step_memory *first = &h->older[0], *last = &h->recent[h->recent_count - 1];
  bool is_outside = worst->trend.kind == PLIM_TREND_OUTSIDE;
  uint64_t before = is_outside ? first->outside_bytes : first->live_bytes;
  uint64_t after = is_outside ? last->outside_bytes : last->live_bytes;
  if (before == PLIM_UNKNOWN || after == PLIM_UNKNOWN || after <= before) return false;
  *out = (explain_growth){is_outside, (uint64_t)worst->trend.bytes_per_step, after - before,
                          *end->leak_lines ? end->leak_lines : NULL};
  return true;
}

plim_err run_explain(run *r, const run_end *end, const char *conf, run_explained *out,
                     plim_error *error) {
  plim_oom_log log;
  plim_machine machine;
  explain_process others[MOST_OTHERS];
  char names[MOST_OTHERS][64];
  explain_facts facts = explain_nothing_known;
  plim_err err = read_log(r, end, &log, error);
  if (err) return err;
  plim_machine_read("", &machine);
  facts.signal = WIFSIGNALED(end->status) ? WTERMSIG(end->status) : 0;
  facts.exit_status =
      WIFEXITED(end->status) ? WEXITSTATUS(end->status) : 128 + WTERMSIG(end->status);
  const live_rank *failed = run_failed(end, log.message.rank);
  bool has_ranks = failed && live_rank_has_others(failed);
  out->rank = has_ranks ? failed->oom.rank : log.message.rank;
  out->seen = run_observed(end, failed);
  facts.step = failed ? failed->last.step : end->steps;
  facts.machine = &machine;
  facts.alloc_conf = conf;
  if (machine.oom_kills != PLIM_UNKNOWN && r->oom_kills != PLIM_UNKNOWN)
    facts.has_oom_kill = machine.oom_kills > r->oom_kills ? EXPLAIN_YES : EXPLAIN_NO;
  if (failed && failed->has_oom) facts.sample_tokens = failed->oom.sample_tokens;
  if (failed && failed->has_oom) facts.usual_tokens = failed->oom.longest_tokens;
  char *command = plim_shell_line(r->options.command);
  facts.command = command;
  uint64_t count = find_others(end, others, names);
  if (count != PLIM_UNKNOWN) facts.others = others, facts.other_count = count;
  else
    run_tell(r, RUN_DETAIL,
             "the NVIDIA driver does not answer, so it is not known which other processes use the "
             "GPU");
  explain_growth growth;
  if (find_growth(end, &growth)) facts.growth = &growth;
  const simulate_process *seen = out->seen;
  if (seen && seen->observed.batch[0]) facts.micro_batch = seen->observed.batch[0];
  if (seen && seen->observed.accumulation) facts.accumulation = seen->observed.accumulation;
  err = explain_log(&log, &facts, &out->cause, error);
  free(command);
  return err;
}

void run_show_failure(run *r, const run_end *end, const char *changed) {
  if (WIFSIGNALED(end->status))
    run_tell(r, RUN_FAILURE, "the program was killed by signal %d (%s)", WTERMSIG(end->status),
             strsignal(WTERMSIG(end->status)));
  else if (WEXITSTATUS(end->status) && *changed)
    run_tell(r, RUN_FAILURE,
             "the program failed with exit status %d, but not because of memory; plimsoll had "
             "started it with %s, so that may be the cause",
             WEXITSTATUS(end->status), changed);
  else if (WEXITSTATUS(end->status))
    run_tell(r, RUN_FAILURE, "the program failed with exit status %d, but not because of memory%s",
             WEXITSTATUS(end->status),
             r->has_nodes ? " on this machine; the cause may be on another one" : "");
  else
    run_tell(r, RUN_FAILURE,
             "the program failed, but not because of memory: %s (the script that started it "
             "returned exit status 0)",
             simulate_first_failed(&end->observed)->failure.text);
}

void run_show_cause(run *r, const run_explained *x, bool is_memory) {
  const explanation *e = &x->cause;
  char who[32] = "";
  if (x->rank != PLIM_UNKNOWN)
    snprintf(who, sizeof who, " on rank %llu", (unsigned long long)x->rank);
  run_tell(r, RUN_FAILURE, "%s%s%s%s%s%s", is_memory ? "out of memory" : "", is_memory ? who : "",
           is_memory ? ": " : "", e->summary, e->why_not_sure ? "; not certain, because " : "",
           e->why_not_sure ? e->why_not_sure : "");
}

void run_show_cures(run *r, const explanation *e, bool has_retried, const char *why,
                    const run_end *end) {
  if (*why) run_tell(r, RUN_DETAIL, "the program is not started again: %s", why);
  for (size_t i = 0; i < e->cures.len && i < 3; i++) {
    const explain_cure *c = &e->cures.at[i];
    if (c->kind == EXPLAIN_CURE_RETRY && has_retried) continue; // that did not help
    run_tell(r, RUN_DETAIL, "what to do: %s", c->text);
    if (c->command) run_tell(r, RUN_DETAIL, "  %s", c->command);
  }
  if (e->is_by_growth && r->id)
    run_tell(r, RUN_DETAIL, "to draw memory over time: plimsoll runs show %lld --svg memory.svg",
             (long long)r->id);
  else if (!WIFSIGNALED(end->status))
    run_tell(r, RUN_DETAIL, "for all evidence: plimsoll explain %s", r->folder.log);
  else if (e->verdict != EXPLAIN_UNCLEAR) // the log does not say how the process ended
    run_tell(r, RUN_DETAIL, "for all evidence: plimsoll explain %s --exit-status %d", r->folder.log,
             128 + WTERMSIG(end->status));
}

void run_show_recovery(run *r, const char *text, uint64_t number, uint64_t most) {
  run_tell(r, RUN_RECOVERY, "starting again with %s (%llu of at most %llu times)", text,
           (unsigned long long)number, (unsigned long long)most);
}

void run_show_end(run *r, const char *how) {
  char peak[128] = "";
  if (r->peak_bytes != PLIM_UNKNOWN && r->total_bytes != PLIM_UNKNOWN)
    snprintf(peak, sizeof peak, "; peak %s of %s on the fullest GPU",
             units_bytes(r->peak_bytes).text, units_bytes(r->total_bytes).text);
  char rank[32] = "";
  if (*peak && r->peak_rank != PLIM_UNKNOWN)
    snprintf(rank, sizeof rank, " (rank %llu)", (unsigned long long)r->peak_rank);
  char steps[80] = "; no optimizer step was seen";
  if (r->steps != PLIM_UNKNOWN)
    snprintf(steps, sizeof steps, " after %s optimizer step%s", units_count(r->steps).text,
             r->steps == 1 ? "" : "s");
  char warnings[80] = "";
  if (r->warnings && r->id)
    snprintf(warnings, sizeof warnings, "; %s warning%s: plimsoll runs show %lld",
             units_count(r->warnings).text, r->warnings == 1 ? "" : "s", (long long)r->id);
  run_tell(r, RUN_END, "%s%s%s%s%s", how, steps, peak, rank, warnings);
}
