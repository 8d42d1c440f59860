#include <string.h>

#include "findings.h"
#include "replay_show.h"
#include "show_notes.h"
#include "term.h"
#include "units.h"

static void heading(const char *text) {
  printf("\n");
  term_print(stdout, TERM_BOLD, "%s\n", text);
}

static void sentence(const char *text) {
  term_wrap(stdout, text, 0, 0, (size_t)term_width(stdout));
}

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static double percent(uint64_t bytes, uint64_t whole) {
  return whole ? 100 * (double)bytes / (double)whole : 0;
}

// If other events have Python stacks, one without a stack is from autograd: backward runs in its own thread.
static void line_of(const replay_result *r, uint32_t frame, char *text, size_t size) {
  if (frame == PLIM_NO_LINE && r->trace.frames.len)
    snprintf(text, size, "(no Python stack: autograd's backward thread)");
  else plim_line_name(&r->trace, frame, text, size);
}

static bool has_stacks(const replay_result *r) { return r->trace.frames.len > 0; }

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

static uint64_t entry_of(const replay_result *r, size_t event) {
  return event < r->trace.events.len ? r->trace.events.at[event].entry : r->trace.entries;
}

// ---- what was read, and whether the replay agrees -------------------------------------------------------

static void print_settings(const char *what, const plim_replay_options *o, bool guessed) {
  char conf[512], limit[96] = "", text[640];
  plim_alloc_conf_print(&o->conf, conf, sizeof conf);
  if (o->limit_bytes != PLIM_UNKNOWN)
    snprintf(limit, sizeof limit, "; limit: %s%s", units_bytes(o->limit_bytes).text,
             guessed ? " at most (inferred from where memory ran out)" : "");
  snprintf(text, sizeof text, "%s %s%s", what, *conf ? conf : "PyTorch's defaults", limit);
  term_wrap(stdout, text, 0, 2, (size_t)term_width(stdout));
}

static void print_subject(const replay_result *r) {
  term_print(stdout, TERM_BOLD, "%s", file_name(r->path));
  printf("  %s %s", units_count(r->trace.entries).text,
         r->trace.entries == 1 ? "entry" : "entries");
  if (r->info.devices > 1)
    printf(" on device %u (of 0 to %u)", r->trace.device, r->info.devices - 1);
  if (r->analysis.steps.len)
    printf(", %zu step%s", r->analysis.steps.len, plural(r->analysis.steps.len));
  double seconds = r->trace.events.len ? replay_seconds_at(r, r->trace.events.len - 1) : -1;
  if (seconds >= 0) printf(", %s", units_seconds(seconds).text);
  printf("\n");
  bool show_guess = r->limit_is_guessed && !r->is_what_if;
  print_settings("settings:", show_guess ? &r->options : &r->recorded_options, show_guess);
}

static void print_exactness(const replay_result *r) {
  const plim_guided *g = &r->guided;
  uint64_t segments = g->recorded.segment_allocs + g->recorded.segment_frees;
  if (!r->trace.entries) return;
  if (g->exact) {
    term_print(stdout, TERM_GREEN, "exact:");
    if (segments)
      printf(" all %s segment event%s and", units_count(segments).text, plural(segments));
    printf(" every address %s with the recording\n", segments ? "agree" : "agrees");
    return;
  }
  term_print(stdout, TERM_YELLOW, "not exact:");
  printf(" %s decision%s differ%s, first at entry %s:\n  %s\n", units_count(g->divergences).text,
         plural(g->divergences), g->divergences == 1 ? "s" : "",
         units_count(entry_of(r, g->first.event)).text, g->first.what);
}

// ---- totals ---------------------------------------------------------------------------------------------

static void total_row(term_table *t, const replay_result *r, const char *name, const char *recorded,
                      const char *simulated) {
  term_table_cell(t, TERM_PLAIN, "%s", name);
  term_table_cell(t, TERM_PLAIN, "%s", recorded);
  if (r->is_what_if) term_table_cell(t, TERM_PLAIN, "%s", simulated);
}

static void print_totals(const replay_result *r) {
  static const term_column columns[] = {
      {""}, {"recorded", .right = true}, {"simulated", .right = true}};
  const plim_replay_totals *a = &r->guided.recorded, *b = &r->simulated;
  bool known = r->guided.recorded_allocated_known;
  term_table *t = term_table_new(columns, r->is_what_if ? 3 : 2);
  total_row(t, r, "peak allocated",
            units_bytes(known ? a->peak_allocated_bytes : PLIM_UNKNOWN).text,
            units_bytes(b->peak_allocated_bytes).text);
  total_row(t, r, "peak reserved", units_bytes(a->peak_reserved_bytes).text,
            units_bytes(b->peak_reserved_bytes).text);
  total_row(t, r, "segments from the driver", units_count(a->segment_allocs).text,
            units_count(b->segment_allocs).text);
  total_row(t, r, "segments returned to the driver", units_count(a->segment_frees).text,
            units_count(b->segment_frees).text);
  total_row(t, r, "retries", units_count(a->retries).text, units_count(b->retries).text);
  total_row(t, r, "out-of-memory errors", units_count(a->ooms).text, units_count(b->ooms).text);
  printf("\n");
  if (r->is_what_if) print_settings("simulated:", &r->options, r->limit_is_guessed);
  term_table_print(t, stdout);
  term_table_free(t);
}

// ---- moments --------------------------------------------------------------------------------------------

static void print_moment(const replay_result *r, size_t event) {
  size_t step = plim_trace_analysis_step_of(&r->analysis, event);
  double seconds = replay_seconds_at(r, event);
  printf("entry %s", units_count(entry_of(r, event)).text);
  if (seconds >= 0) printf(", %s", units_seconds(seconds).text);
  if (step) printf(", step %zu", step);
}

static void print_line_at(const replay_result *r, size_t event) {
  char line[256];
  line_of(r, r->analysis.line.at[r->trace.events.at[event].stack], line, sizeof line);
  if (has_stacks(r)) printf(", in\n  %s", line);
  printf("\n");
}

// ---- does it fit ----------------------------------------------------------------------------------------

static void print_verdict(const replay_result *r) {
  uint64_t limit = r->options.limit_bytes;
  if (limit == PLIM_UNKNOWN) return;
  heading("Does it fit?");
  if (!r->simulated.ooms) {
    term_print(stdout, TERM_GREEN, r->leaks.len ? "FITS SO FAR" : "FITS");
    printf(" in %s with %s to spare", units_bytes(limit).text,
           units_bytes(limit > r->simulated.peak_reserved_bytes
                           ? limit - r->simulated.peak_reserved_bytes
                           : 0)
               .text);
    if (r->simulated.retries) printf(", after %s retries", units_count(r->simulated.retries).text);
    printf("%s\n", r->leaks.len ? ", but memory leaks (see below)" : "");
    return;
  }
  term_print(stdout, TERM_RED, "DOES NOT FIT");
  printf(" in %s: out of memory when requesting %s at\n  ", units_bytes(limit).text,
         units_bytes(r->trace.events.at[r->first_oom_event].bytes).text);
  print_moment(r, (size_t)r->first_oom_event);
  print_line_at(r, (size_t)r->first_oom_event);
}

// ---- what held the peak ---------------------------------------------------------------------------------

static void print_peak(const replay_result *r) {
  heading(r->is_what_if ? "Held at the peak of the simulation" : "Held at the peak");
  printf("%s allocated at ", units_bytes(r->peak.holders.bytes).text);
  if (!r->trace.events.len) {
    printf("the time of the snapshot\n");
    return;
  }
  print_moment(r, r->peak.event);
  print_line_at(r, r->peak.event);
}

static void holder_cells(term_table *t, uint64_t bytes, uint64_t whole) {
  term_table_cell(t, TERM_PLAIN, "%s", units_bytes(bytes).text);
  term_table_cell(t, TERM_PLAIN, "%.1f %%", percent(bytes, whole));
}

static void print_kinds(const replay_result *r) {
  static const term_column columns[] = {{"", .right = true}, {"", .right = true}, {""}};
  const plim_holders *h = &r->peak.holders;
  term_table *t = term_table_new(columns, 3);
  for (size_t k = 0; k < PLIM_KIND_COUNT; k++) {
    if (!h->by_kind[k]) continue;
    holder_cells(t, h->by_kind[k], h->bytes);
    term_table_cell(t, TERM_PLAIN, "%s", plim_kind_names[k]);
  }
  term_table_print(t, stdout);
  term_table_free(t);
}

static void more_row(term_table *t, const plim_held_list *list, size_t shown, uint64_t whole,
                     const char *what) { // `what`: a noun in the singular
  uint64_t rest = 0;
  for (size_t i = shown; i < list->len; i++) rest += list->at[i].bytes;
  if (shown >= list->len) return;
  holder_cells(t, rest, whole);
  term_table_cell(t, TERM_DIM, " ");
  term_table_cell(t, TERM_DIM, "%zu more %s%s: --top %zu", list->len - shown, what,
                  plural(list->len - shown), list->len);
}

static void print_how_to_record_stacks(void) {
  printf("\n");
  sentence("No stacks were recorded, so the lines of code are unknown. To record "
           "them: " REPLAY_HOW_TO_RECORD);
}

static void module_of(const replay_result *r, uint32_t frame, char *text, size_t size) {
  plim_module_name(&r->trace, frame, text, size);
}

static void print_holders(const replay_result *r, const plim_held_list *list, const char *what,
                          void (*name)(const replay_result *r, uint32_t frame, char *text,
                                       size_t size)) {
  const term_column columns[] = {
      {"", .right = true}, {"", .right = true}, {"main kind"}, {what, .shrinks = true}};
  uint64_t whole = r->peak.holders.bytes;
  term_table *t = term_table_new(columns, 4);
  size_t shown = list->len < r->top ? list->len : (size_t)r->top;
  for (size_t i = 0; i < shown; i++) {
    char text[256];
    name(r, list->at[i].frame, text, sizeof text);
    holder_cells(t, list->at[i].bytes, whole);
    term_table_cell(t, TERM_PLAIN, "%s", plim_kind_names[list->at[i].kind]);
    term_table_cell(t, TERM_PLAIN, "%s", text);
  }
  more_row(t, list, shown, whole, what);
  printf("\n");
  term_table_print(t, stdout);
  term_table_free(t);
}

// ---- fragmentation --------------------------------------------------------------------------------------

static void print_stranded(const plim_fragmentation *f, size_t most) {
  static const term_column columns[] = {{"stranded", .right = true},
                                        {"in a segment of", .right = true},
                                        {"largest piece", .right = true},
                                        {"pool"},
                                        {"address"}};
  if (!f->segments.len) return;
  term_table *t = term_table_new(columns, 5);
  for (size_t i = 0; i < f->segments.len && i < most; i++) {
    const plim_stranded *s = &f->segments.at[i];
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(s->free_bytes).text);
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(s->bytes).text);
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(s->largest_free_bytes).text);
    term_table_cell(t, TERM_PLAIN, "%s%s", s->is_large ? "large" : "small",
                    s->is_expandable ? ", expandable" : "");
    term_table_cell(t, TERM_PLAIN, "0x%llx", (unsigned long long)s->addr);
  }
  term_table_print(t, stdout);
  term_table_free(t);
}

static void print_fragmentation_sums(const plim_fragmentation *f) {
  printf("%s reserved = %s allocated", units_bytes(f->usage.reserved_bytes).text,
         units_bytes(f->usage.allocated_bytes).text);
  uint64_t waiting = f->usage.active_bytes - f->usage.allocated_bytes;
  if (waiting) printf(" + %s waiting\n ", units_bytes(waiting).text); // for another stream
  printf(" + %s stranded + %s cached\n", units_bytes(f->stranded_bytes).text,
         units_bytes(f->cached_bytes).text);
}

static void print_fragmentation(const replay_result *r) {
  const plim_fragmentation *f = &r->peak_reserved.fragmentation;
  heading(r->is_what_if ? "Fragmentation at the simulation's peak of reserved memory"
                        : "Fragmentation at the peak of reserved memory");
  print_fragmentation_sums(f);
  if (f->slack_bytes)
    printf("of the allocated memory, %s was not requested: blocks are rounded up\n",
           units_bytes(f->slack_bytes).text);
  if (f->stranded_bytes || f->cached_bytes)
    printf("plimsoll help replay explains stranded and cached memory\n");
  print_stranded(f, 3);
}

// Whether the request failed because of fragmentation.
static void print_cause(const replay_oom *oom) {
  char text[240];
  units_text free = units_bytes(oom->compacted_high_bytes);
  units_text wanted = units_bytes(oom->request_bytes);
  const char *bound = oom->compacted_low_bytes == oom->compacted_high_bytes ? "" : "up to ";
  if (oom->compacted_high_bytes == PLIM_UNKNOWN) return;
  switch (replay_compacted_verdict(oom)) {
  case REPLAY_WOULD_FIT:
    snprintf(text, sizeof text,
             "Without fragmentation %s%s would be free, enough for the %s requested: fragmentation "
             "is the cause.",
             bound, free.text, wanted.text);
    break;
  case REPLAY_WOULD_NOT_FIT:
    snprintf(text, sizeof text,
             "Without fragmentation %s%s would be free, less than the %s requested: fragmentation "
             "is not the cause.",
             bound, free.text, wanted.text);
    break;
  default:
    snprintf(text, sizeof text,
             "Without fragmentation %s%s would be free, so fragmentation may be the cause; --limit "
             "SIZE gives a definite answer.",
             bound, free.text);
  }
  sentence(text);
}

static void print_oom(const replay_result *r, const replay_oom *oom) {
  term_print(stdout, TERM_RED, "OUT OF MEMORY");
  printf(" when requesting %s at ", units_bytes(oom->request_bytes).text);
  print_moment(r, oom->event);
  print_line_at(r, oom->event);
  print_fragmentation_sums(&oom->moment.fragmentation);
  print_cause(oom);
  print_stranded(&oom->moment.fragmentation, 3);
}

static void print_ooms(const replay_result *r) {
  enum { SHOWN = 2 };
  for (size_t i = 0; i < r->oom_count && i < SHOWN; i++) {
    printf("\n");
    print_oom(r, &r->ooms[i]);
  }
  if (r->oom_count > SHOWN)
    printf("and %s more (--json lists them)\n", units_count(r->guided.recorded.ooms - SHOWN).text);
}

// ---- leaks and duplicates -------------------------------------------------------------------------------

static void print_leak(const replay_result *r, const plim_leak *leak) {
  char line[256];
  line_of(r, leak->line, line, sizeof line);
  term_print(stdout, TERM_RED, "LEAK");
  printf("  %s per step, in %zu of %zu steps, %s in %s tensors at the end\n  allocated in %s\n",
         units_bytes(leak->bytes_per_step).text, leak->steps, r->analysis.steps.len,
         units_bytes(leak->bytes).text, units_count(leak->count).text, line);
  uint32_t caller = r->analysis.user_line.at[leak->stack];
  if (caller == PLIM_NO_LINE || caller == leak->line) return;
  line_of(r, caller, line, sizeof line);
  printf("  called from %s\n", line);
}

static void print_leak_outlook(const replay_result *r) {
  uint64_t rate = 0;
  for (size_t i = 0; i < r->leaks.len; i++) rate += r->leaks.at[i].bytes_per_step;
  uint64_t full = replay_full_at_step(r, rate);
  size_t ended = replay_ran_out_at_step(r);
  if (ended) printf("At %s per step, memory ran out at step %zu.\n", units_bytes(rate).text, ended);
  else if (r->simulated.ooms) printf("Memory ran out before the first step.\n");
  else if (full)
    printf("At %s per step, %s would be full at step %s.\n", units_bytes(rate).text,
           r->card_bytes ? "the GPU" : units_bytes(r->options.limit_bytes).text,
           units_count(full).text);
  else if (!r->is_of_run) printf("To see at which step the GPU would be full, add --limit SIZE.\n");
}

static void print_too_few_steps(const replay_result *r) {
  size_t steps = r->analysis.steps.len;
  char line[160], more[24] = ".";
  if (r->is_of_run) snprintf(more, sizeof more, ": --steps %d", PLIM_LEAK_STEPS);
  snprintf(line, sizeof line,
           "Not looked for: that takes at least %d training steps, and there %s %zu%s",
           PLIM_LEAK_STEPS, steps == 1 ? "is" : "are", steps, more);
  if (steps) sentence(line);
  else sentence("No training steps were recognised, so leaks cannot be distinguished from growth.");
}

static void print_leaks(const replay_result *r) {
  enum { MANY = 4 }; // if so many lines leak together, the graph is kept, not single tensors
  size_t steps = r->analysis.steps.len;
  if (steps >= PLIM_LEAK_STEPS && !r->leaks.len) return;
  heading("Leaks");
  if (steps < PLIM_LEAK_STEPS) {
    print_too_few_steps(r);
    return;
  }
  size_t shown = r->leaks.len < r->top ? r->leaks.len : (size_t)r->top;
  for (size_t i = 0; i < shown; i++) print_leak(r, &r->leaks.at[i]);
  if (shown < r->leaks.len)
    printf("%zu more line%s: --top %zu\n", r->leaks.len - shown, plural(r->leaks.len - shown),
           r->leaks.len);
  if (r->leaks.len >= MANY)
    sentence("So many lines leak at once because whole autograd graphs are kept: something stores "
             "the loss or an output of every step together with its graph. Store loss.item() or "
             ".detach() instead.");
  print_leak_outlook(r);
}

static void print_duplicate(const plim_duplicate *d) {
  char text[288];
  findings_duplicate_text(d, text, sizeof text);
  term_print(stdout, TERM_RED, "DUPLICATE");
  printf("  ");
  term_wrap(stdout, text, 11, 11, (size_t)term_width(stdout));
}

static void print_duplicates(const replay_result *r) {
  if (!r->duplicates.len) return;
  heading("Duplicated models");
  for (size_t i = 0; i < r->duplicates.len; i++) {
    const plim_duplicate *d = &r->duplicates.at[i];
    print_duplicate(d);
    for (size_t c = 0; c < d->copies.len; c++) {
      char line[256];
      line_of(r, d->copies.at[c].line, line, sizeof line);
      printf("  %9s  %s\n", units_bytes(d->copies.at[c].bytes).text, line);
    }
  }
}

// What was looked for and not found, in one line.
static void print_not_found(const replay_result *r) {
  bool has_no_leaks = r->analysis.steps.len >= PLIM_LEAK_STEPS && !r->leaks.len;
  bool has_no_copies = !r->duplicates.len;
  if (has_no_leaks || has_no_copies)
    printf("\nNot found: %s%s%s\n", has_no_leaks ? "leaks" : "",
           has_no_leaks && has_no_copies ? ", " : "", has_no_copies ? "duplicated models" : "");
}

// ---- tuning ---------------------------------------------------------------------------------------------

// The position at which settings are broken into two lines: after the first comma, or before a list.
static size_t break_of(const char *conf) {
  size_t at = strcspn(conf, ",[");
  return conf[at] == ',' ? at + 1 : at;
}

static void tune_row_cells(term_table *t, const plim_tune_row *row) {
  term_style style = row->totals.ooms ? TERM_RED : TERM_PLAIN;
  term_table_cell(t, style, "%s", units_bytes(row->totals.peak_reserved_bytes).text);
  term_table_cell(t, TERM_PLAIN, "%s", units_count(row->totals.segment_allocs).text);
  term_table_cell(t, TERM_PLAIN, "%s", units_count(row->totals.retries).text);
  term_table_cell(t, style, "%s", row->totals.ooms ? units_count(row->totals.ooms).text : "-");
  size_t first = break_of(row->conf);
  term_table_cell(t, TERM_PLAIN, "%.*s%s", *row->conf ? (int)first : 20,
                  *row->conf ? row->conf : "(PyTorch's defaults)",
                  row->is_recorded ? "  <- recorded" : "");
  if (!row->conf[first]) return;
  for (int i = 0; i < 4; i++) term_table_cell(t, TERM_PLAIN, " ");
  term_table_cell(t, TERM_PLAIN, "  %s", row->conf + first);
}

static void print_tune(const replay_result *r) {
  static const term_column columns[] = {{"reserved", .right = true},
                                        {"segments", .right = true},
                                        {"retries", .right = true},
                                        {"OOM", .right = true},
                                        {"settings, best first"}};
  if (!r->tune.len) return;
  heading("Settings tried on this trace");
  term_table *t = term_table_new(columns, 5);
  for (size_t i = 0; i < r->tune.len; i++) tune_row_cells(t, &r->tune.at[i]);
  term_table_print(t, stdout);
  term_table_free(t);
  const plim_tune_row *pick = replay_recommended(r);
  if (!pick) {
    printf("The run does not fit with any of these settings.\n");
    return;
  }
  if (pick != r->tune.at)
    sentence("Recommended (needs about as much memory as the first row, with fewer settings or "
             "driver calls):");
  else if (!pick->is_recorded) printf("Recommended:\n");
  if (pick->is_recorded) printf("Keep the recorded settings: no others do better.\n");
  else if (!*pick->conf) printf("unset PYTORCH_CUDA_ALLOC_CONF\n");
  else printf("export PYTORCH_CUDA_ALLOC_CONF=%s\n", pick->conf); // one line, to be copied
  if (strstr(pick->conf, "garbage_collection"))
    sentence("garbage_collection_threshold works only with a limit that the program sets itself: "
             "torch.cuda.set_per_process_memory_fraction(...)");
}

void replay_print_findings(const replay_result *r) {
  print_peak(r);
  print_kinds(r);
  if (has_stacks(r)) {
    print_holders(r, &r->peak.holders.by_line, "line", line_of);
    print_holders(r, &r->peak.holders.by_module, "module", module_of);
  } else print_how_to_record_stacks();
  print_fragmentation(r);
  print_ooms(r);
  print_leaks(r);
  print_duplicates(r);
  print_not_found(r);
}

void replay_print_text(const replay_result *r) {
  print_subject(r);
  print_exactness(r);
  notes_print(stdout, &r->notes);
  print_totals(r);
  print_verdict(r);
  replay_print_findings(r);
  print_tune(r);
}
