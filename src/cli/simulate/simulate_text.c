#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cli_alloc.h"
#include "quoting.h"
#include "show_notes.h"
#include "simulate_report.h"
#include "term.h"
#include "units.h"
#include "value.h"

static void sentence(const char *text) {
  term_wrap(stdout, text, 0, 2, (size_t)term_width(stdout));
}

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

// ---- what ran ---------------------------------------------------------------------------------------

static void print_command(const simulate_report *r) {
  char *line = NULL;
  size_t size;
  FILE *out = open_memstream(&line, &size);
  if (!out) cli_out_of_memory();
  for (const char *const *word = r->request->command; *word; word++) {
    if (word != r->request->command) fputc(' ', out);
    plim_shell_quote(out, *word);
  }
  if (!plim_stream_end(out, &line)) cli_out_of_memory();
  term_print(stdout, TERM_BOLD, "%s\n", line);
  free(line);
}

static void print_where(const simulate_report *r) {
  const simulate_process *p = simulate_fullest(&simulate_whole(r)->run);
  char line[512];
  int used = snprintf(line, sizeof line, "on ");
  if (r->request->gpus > 1)
    used += snprintf(line + used, sizeof line - used, "%u simulated cards: %s", r->request->gpus,
                     r->card);
  else used += snprintf(line + used, sizeof line - used, "a simulated card: %s", r->card);
  for (size_t i = 0; p && i < p->versions.len && (size_t)used < sizeof line; i++)
    used += snprintf(line + used, sizeof line - used, "%s%s %s", i ? ", " : "; ",
                     p->versions.at[i].name, p->versions.at[i].version);
  sentence(line);
}

// ---- what the program does ------------------------------------------------------------------------

static void print_model(const simulate_observed *o) {
  char line[400];
  int used = snprintf(line, sizeof line, "observed: %.80s", o->model);
  if (o->type) used += snprintf(line + used, sizeof line - used, " (%.40s)", o->type);
  used += snprintf(line + used, sizeof line - used, ", %s parameters, ",
                   units_count(o->parameters).text);
  if (o->trained == o->parameters) used += snprintf(line + used, sizeof line - used, "all trained");
  else
    used += snprintf(line + used, sizeof line - used, "%s trained", units_count(o->trained).text);
  if (o->adapters)
    used += snprintf(line + used, sizeof line - used, " (%.20s, rank %llu)", o->adapters,
                     (unsigned long long)o->rank);
  if (o->attention) snprintf(line + used, sizeof line - used, ", attention %.40s", o->attention);
  sentence(line);
}

static void print_recipe(const simulate_observed *o) {
  char line[400] = "  ";
  int used = 2;
  if (o->batch[0])
    used += snprintf(line + used, sizeof line - used, "micro batch %llu",
                     (unsigned long long)o->batch[0]);
  if (o->batch[1])
    used += snprintf(line + used, sizeof line - used, " x %llu%s", (unsigned long long)o->batch[1],
                     o->has_tokens ? " tokens" : "");
  if (o->shapes > 1)
    used += snprintf(line + used, sizeof line - used, " (the largest of %llu shapes)",
                     (unsigned long long)o->shapes);
  if (o->accumulation)
    used += snprintf(line + used, sizeof line - used, ", accumulation %llu",
                     (unsigned long long)o->accumulation);
  if (o->autocast)
    used += snprintf(line + used, sizeof line - used, ", autocast %.20s", o->autocast);
  used += snprintf(line + used, sizeof line - used, ", %s gradient checkpointing",
                   o->checkpoints ? "with" : "without");
  if (o->optimizer) used += snprintf(line + used, sizeof line - used, ", %.60s", o->optimizer);
  if (o->strategy && strcmp(o->strategy, "none") != 0)
    snprintf(line + used, sizeof line - used, ", %.40s", o->strategy);
  sentence(line);
}

void simulate_print_observed(const simulate_process *p) {
  if (!p || !p->observed.model) return;
  print_model(&p->observed);
  print_recipe(&p->observed);
}

static void print_phases(const simulate_part *part) {
  simulate_phase_peak peaks[SIMULATE_PHASES];
  size_t count = simulate_phase_peaks(part, peaks);
  char line[320];
  int used = snprintf(line, sizeof line, "peak allocated in each phase:");
  for (size_t i = 0; i < count; i++)
    used += snprintf(line + used, sizeof line - used, "%s %.20s %s", i ? "," : "", peaks[i].name,
                     units_bytes(peaks[i].peak_bytes).text);
  if (count > 1) sentence(line);
}

// ---- whether it fits --------------------------------------------------------------------------------

static void print_steps(const simulate_part *part) {
  uint64_t steps = simulate_steps(&part->run);
  if (steps)
    printf("%s optimizer step%s, %s here\n", units_count(steps).text, plural(steps),
           units_seconds(part->run.seconds).text);
  else if (part->run.end == SIMULATE_RAN && simulate_fullest(&part->run))
    sentence("the program ended without an optimizer step: the figures are those of the part that "
             "ran");
}

static void print_needs(const simulate_part *part, char *text, size_t size) {
  const simulate_process *p = simulate_fullest(&part->run);
  uint64_t needs = simulate_needs(part), reserved = p->peak_reserved_bytes;
  snprintf(text, size, "%s (%s reserved by PyTorch, %s by CUDA and its libraries)",
           units_bytes(needs).text, units_bytes(reserved).text,
           units_bytes(needs > reserved ? needs - reserved : 0).text);
}

static void print_no_use(const simulate_result *run) {
  bool is_without_cuda = false;
  for (size_t i = 0; i < run->processes.len; i++)
    is_without_cuda |= run->processes.at[i].is_without_cuda;
  if (is_without_cuda)
    sentence("The program did not use the card: its PyTorch is a build without CUDA. Install the "
             "CUDA build (pip install torch on Linux); it needs no GPU here.");
  else if (run->processes.len) sentence("The program imported PyTorch, but did not use the card.");
  else if (run->peak_bytes)
    sentence("The program used the card, but was not observed: it does not import PyTorch, or its "
             "Python was started with -I, -E or -S. Start it without these options.");
  else
    sentence("No process of the program imported PyTorch, so nothing is known about its memory.");
}

static void print_verdict(const simulate_report *r) {
  const simulate_part *whole = simulate_whole(r);
  char needs[240], line[480];
  uint64_t bytes = simulate_needs(whole);
  if (!simulate_fullest(&whole->run)) {
    print_no_use(&whole->run);
    return;
  }
  print_needs(whole, needs, sizeof needs);
  if (!r->has_limit) {
    snprintf(line, sizeof line, "needs %s; name your card to know whether it fits: --gpu 4090",
             needs);
    sentence(line);
    return;
  }
  bool fits = r->capped.run.end == SIMULATE_RAN;
  term_print(stdout, fits ? TERM_GREEN : TERM_RED, fits ? "FITS:" : "DOES NOT FIT:");
  if (fits)
    snprintf(line, sizeof line, " needs %s of %s, %s to spare", needs,
             units_bytes(r->budget_bytes).text,
             units_bytes(r->budget_bytes > bytes ? r->budget_bytes - bytes : 0).text);
  else if (r->has_large && whole->run.end == SIMULATE_RAN)
    snprintf(line, sizeof line, " needs %s, and %s are available", needs,
             units_bytes(r->budget_bytes).text);
  else
    snprintf(line, sizeof line, " ran out of the %s that are available",
             units_bytes(r->budget_bytes).text);
  term_wrap(stdout, line, fits ? 5 : 13, 2, (size_t)term_width(stdout));
}

static void print_peaks(const simulate_part *part) {
  const simulate_process *p = simulate_fullest(&part->run);
  if (!p) return;
  printf("peak allocated %s, peak reserved %s", units_bytes(p->peak_allocated_bytes).text,
         units_bytes(p->peak_reserved_bytes).text);
  if (p->retries) printf(", %s retries", units_count(p->retries).text);
  printf("\n");
  printf("host memory: %s", units_bytes(p->host_bytes).text);
  if (part->run.pinned_bytes) printf(", pinned %s", units_bytes(part->run.pinned_bytes).text);
  printf("\n");
}

// The line at which the first run failed; its other findings are those of an unfinished run.
static void print_failure(const simulate_report *r) {
  const replay_result *x = &r->capped.replay;
  if (!r->has_large || !r->capped.has_replay || !x->oom_count) return;
  const replay_oom *oom = &x->ooms[x->oom_count - 1];
  char line[256];
  uint64_t step = simulate_steps(&r->capped.run) + 1;
  uint32_t frame = x->analysis.line.at[x->trace.events.at[oom->event].stack];
  plim_line_name(&x->trace, frame, line, sizeof line);
  printf("out of memory when requesting %s in step %s", units_bytes(oom->request_bytes).text,
         units_count(step).text);
  printf(", in\n  %s\n", frame == PLIM_NO_LINE ? "(autograd's backward thread)" : line);
}

// ---- ranks, values, functions -----------------------------------------------------------------------

static void print_ranks(const simulate_part *part) {
  static const term_column columns[] = {{"rank", .right = true},
                                        {"steps", .right = true},
                                        {"allocated", .right = true},
                                        {"reserved", .right = true},
                                        {"host", .right = true}};
  size_t count = 0;
  for (size_t i = 0; i < part->run.processes.len; i++) count += part->run.processes.at[i].uses_card;
  if (count < 2) return;
  term_table *t = term_table_new(columns, 5);
  for (size_t i = 0; i < part->run.processes.len; i++) {
    const simulate_process *p = &part->run.processes.at[i];
    if (!p->uses_card) continue;
    term_table_cell(t, TERM_PLAIN, "%lld", (long long)p->rank);
    term_table_cell(t, TERM_PLAIN, "%s", units_count(p->steps).text);
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(p->peak_allocated_bytes).text);
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(p->peak_reserved_bytes).text);
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(p->host_bytes).text);
  }
  printf("\n");
  term_table_print(t, stdout);
  term_table_free(t);
}

// Installed files start at their package.
static const char *short_path(const char *file) {
  static const char *const folders[] = {"site-packages/", "dist-packages/"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    const char *at = strstr(file, folders[i]);
    if (at) return at + strlen(folders[i]);
  }
  return file;
}

static void print_looks(const simulate_part *part) {
  enum { SHOWN = 6 };
  const simulate_process *p = simulate_fullest(&part->run);
  if (!p) return;
  if (!p->has_values)
    sentence("note: this PyTorch does not allow integers to be kept true, so everything that the "
             "program read from the card was 0");
  if (!p->looks.len) return;
  printf("\n");
  term_print(stdout, TERM_BOLD, "Values that nobody computed\n");
  sentence("The simulated card computes integers and booleans, but no floating-point numbers. "
           "These lines looked at one and were told:");
  for (size_t i = 0; i < p->looks.len && i < SHOWN; i++) {
    const simulate_look *look = &p->looks.at[i];
    printf("  %s  %s:%d  (%s, %s time%s)\n", look->told, short_path(look->file), look->line,
           look->type, units_count(look->times).text, plural(look->times));
  }
  if (p->looks.len > SHOWN) printf("  and %zu more (--json lists them)\n", p->looks.len - SHOWN);
}

static void print_routes(const simulate_part *part) {
  const simulate_process *p = simulate_fullest(&part->run);
  char line[320];
  for (size_t i = 0; p && i < p->routes.len; i++) {
    const simulate_route *route = &p->routes.at[i];
    snprintf(line, sizeof line,
             "note: %.120s:%d chooses %s of %s experts by floats that nobody computed; the choices "
             "are as uneven as those of an untrained router",
             short_path(route->file), route->line, units_count(route->chosen).text,
             units_count(route->choices).text);
    sentence(line);
  }
  if (p && p->is_without_triton)
    sentence(
        "note: Triton is not installed here; where it is, libraries such as TRL run other code, "
        "which needs other amounts of memory");
}

static void print_unmodelled(const simulate_part *part) {
  if (*part->run.read_only) {
    char line[480];
    snprintf(line, sizeof line, "note: in the sandbox the program could not write to %s",
             part->run.read_only);
    sentence(line);
  }
  for (size_t i = 0; i < part->run.unmodelled.len; i++) {
    const simulate_unmodelled *u = &part->run.unmodelled.at[i];
    char line[240];
    snprintf(line, sizeof line,
             "note: not modelled exactly: %s (%s call%s); memory that depends on it may differ",
             u->name, units_count(u->calls).text, plural(u->calls));
    sentence(line);
  }
}

// ---- all of it --------------------------------------------------------------------------------------

void simulate_print_text(const simulate_report *r) {
  const simulate_part *whole = simulate_whole(r);
  print_command(r);
  print_where(r);
  notes_print(stdout, r->notes);
  print_steps(whole);
  simulate_print_observed(simulate_fullest(&whole->run));
  printf("\n");
  print_verdict(r);
  print_failure(r);
  print_peaks(whole);
  print_phases(whole);
  print_ranks(whole);
  if (whole->has_replay) replay_print_findings(&whole->replay);
  print_looks(whole);
  print_routes(whole);
  print_unmodelled(whole);
  printf("\nlog: %s\n", r->capped.run.log);
}

void simulate_print_log(const char *path) {
  enum { LINES = 20, BYTES = 8192 };
  char text[BYTES + 1];
  FILE *in = fopen(path, "r");
  if (!in) return;
  long size = fseek(in, 0, SEEK_END) ? 0 : ftell(in);
  if (size > BYTES) fseek(in, -BYTES, SEEK_END);
  else rewind(in);
  size_t got = fread(text, 1, BYTES, in);
  fclose(in);
  text[got] = 0;
  const char *from = text + got;
  for (int lines = 0; from > text && lines <= LINES; from--) lines += from[-1] == '\n';
  if (from > text) from++;
  fprintf(stderr, "%s", from);
}
