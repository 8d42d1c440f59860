#include <stdio.h>
#include <string.h>

#include "plan_show.h"
#include "plan_trial.h"
#include "quoting.h"
#include "show_notes.h"
#include "simulate_report.h"
#include "term.h"
#include "units.h"

static void sentence(const char *text) {
  term_wrap(stdout, text, 0, 0, (size_t)term_width(stdout));
}

// ---- what was tried ---------------------------------------------------------------------------------

static void print_subject(const plan_trial_report *r) {
  char line[320];
  bool has_name = *r->card, is_kept = r->program->effective;
  uint64_t batch = plan_trial_effective(r, &r->search->runs.at[0]);
  if (r->program->gpus > 1)
    snprintf(line, sizeof line, "%u GPUs with %s each", r->program->gpus,
             units_bytes(r->budget_bytes).text);
  else snprintf(line, sizeof line, "GPU: %s available", units_bytes(r->budget_bytes).text);
  size_t used = strlen(line);
  if (has_name) used += (size_t)snprintf(line + used, sizeof line - used, " on %.100s", r->card);
  if (is_kept && (uint64_t)r->program->effective == batch)
    snprintf(line + used, sizeof line - used, "; effective batch %s, unchanged",
             units_count(batch).text);
  else if (is_kept)
    snprintf(line + used, sizeof line - used, "; effective batch %s, as requested (now %s)",
             units_count((uint64_t)r->program->effective).text, units_count(batch).text);
  sentence(line);
}

static const char *result_text(const trial_run *run) {
  if (run->verdict == TRIAL_NO_DATA) return "the program has too little data for it";
  if (run->verdict == TRIAL_OPEN) return "may fit";
  if (run->verdict == TRIAL_DOES_NOT_FIT) return "DOES NOT FIT";
  return run->retries ? "FITS, with retries" : "FITS";
}

static void run_cells(term_table *t, const plan_trial_report *r, const trial_run *run) {
  bool is_known = run->needs_bytes != PLIM_UNKNOWN;
  uint64_t batch = plan_trial_effective(r, run);
  term_table_cell(t, TERM_PLAIN, "%s", units_count((uint64_t)run->micro).text);
  term_table_cell(t, TERM_PLAIN, "%s",
                  run->accumulation ? units_count((uint64_t)run->accumulation).text : "?");
  term_table_cell(t, TERM_PLAIN, "%s", batch ? units_count(batch).text : "?");
  term_table_cell(t, TERM_PLAIN, "%s%s", is_known ? "" : "> ",
                  units_bytes(is_known ? run->needs_bytes : r->budget_bytes).text);
  term_table_cell(t, TERM_PLAIN, "%s", result_text(run));
}

// The last run with the smallest micro batch above this one; 0 for the first. NULL: none.
static const trial_run *next_larger(const trial_search *s, int64_t micro) {
  const trial_run *found = NULL;
  for (size_t i = 0; i < s->runs.len; i++) {
    const trial_run *run = &s->runs.at[i];
    if (run->micro > micro && (!found || run->micro <= found->micro)) found = run;
  }
  return found;
}

static void print_runs(const plan_trial_report *r) {
  static const term_column columns[] = {{"micro batch", .right = true},
                                        {"accumulation", .right = true},
                                        {"effective batch", .right = true},
                                        {"needs", .right = true},
                                        {"", .wraps = true}};
  term_table *t = term_table_new(columns, 5);
  for (const trial_run *run = NULL; (run = next_larger(r->search, run ? run->micro : 0));)
    run_cells(t, r, run);
  plan_heading("simulated runs");
  term_table_print(t, stdout);
  term_table_free(t);
}

// ---- now and planned --------------------------------------------------------------------------------

static void print_now(const plan_trial_report *r) {
  const trial_run *first = &r->search->runs.at[0], *best = plan_trial_best(r);
  const trial_run *last = plan_trial_run_of(r->search, first->micro);
  bool is_proved = best && best->micro >= first->micro && last->verdict == TRIAL_OPEN;
  printf("\nnow:      micro batch %s needs %s: %s\n", units_count((uint64_t)first->micro).text,
         units_bytes(first->needs_bytes).text, is_proved ? "FITS" : result_text(last));
}

static void print_planned(const plan_trial_report *r) {
  const trial_run *best = plan_trial_best(r);
  if (!best) {
    char line[200];
    snprintf(line, sizeof line,
             "NOTHING FITS: the program runs out of memory with the smallest micro batch, %s",
             units_count((uint64_t)trial_next_micro(r->program, 0)).text);
    sentence(line);
    return;
  }
  term_print(stdout, TERM_GREEN, "planned:");
  printf("  micro batch %s", units_count((uint64_t)best->micro).text);
  if (r->program->effective) printf(" x %s", units_count((uint64_t)best->accumulation).text);
  printf(" needs %s: FITS, proved by a simulated run\n", units_bytes(best->needs_bytes).text);
}

static void print_remarks(const plan_trial_report *r) {
  char text[PLAN_TRIAL_REMARK];
  for (size_t i = 0; plan_trial_remark(r, i, text, sizeof text); i++) term_notes(stdout, text);
}

static void print_changes(const plan_trial_report *r) {
  const plim_diff *files = &r->diff.files;
  if (!plan_trial_best(r)) return;
  plan_heading("changes");
  if (!r->diff.command && !files->len) printf("none: this is already your micro batch\n");
  if (r->diff.command) printf("%s\n", r->diff.command);
  if (!files->len) return;
  if (r->diff.command) printf("\n");
  fwrite(files->at, 1, files->len, stdout);
  printf("\n");
  if (!r->out)
    sentence("to write them: run plan with --out plan.json, then plimsoll apply plan.json");
}

static void print_saved(const plan_trial_report *r) {
  if (!r->out) return;
  printf("\nsaved to ");
  plim_shell_quote(stdout, r->out);
  if (plan_trial_best(r)) printf("; to write the changes: plimsoll apply ");
  if (plan_trial_best(r)) plim_shell_quote(stdout, r->out);
  printf("\n");
}

void plan_trial_print_text(const plan_trial_report *r) {
  const trial_run *best = plan_trial_best(r);
  print_subject(r);
  notes_print(stdout, r->notes);
  simulate_print_observed(simulate_fullest(&r->search->first));
  print_runs(r);
  print_now(r);
  print_planned(r);
  print_remarks(r);
  print_changes(r);
  print_saved(r);
  printf("\nlog: %s\n", best ? best->log : r->search->runs.at[0].log);
}
