// What the lines say.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "units.h"
#include "watch_show.h"

enum { LABEL = 12, BAR = 30 }; // columns

// ---- pieces -----------------------------------------------------------------------------------------

// Starts a line "  label   "; what follows it begins with two blanks.
static void begin_labelled(page *p, const char *label) {
  page_line_begin(p);
  page_put(p, TERM_DIM, "  %-*s", LABEL - 4, label);
}

// Adds a field, on the next line if there is no room; fields are two blanks apart.
static void put_field(page *p, term_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void put_field(page *p, term_style style, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = cli_vformat(format, args);
  va_end(args);
  const page_line *line = &p->lines.at[p->lines.len - 1];
  if (line->columns + 2 + term_text_width(text) > p->width && line->columns > LABEL) {
    page_line_begin(p);
    page_put(p, TERM_PLAIN, "%*s", LABEL - 2, "");
  }
  page_put(p, style, "  %s", text);
  free(text);
}

static double share_of(uint64_t part, uint64_t whole) {
  if (part == PLIM_UNKNOWN || whole == PLIM_UNKNOWN || !whole) return -1;
  return (double)part / (double)whole;
}

// "5.06 GiB of 24.0 GiB", or "unknown".
static void put_bar(page *p, const char *label, uint64_t used, uint64_t whole) {
  size_t columns = p->width < LABEL + BAR + 24 ? p->width / 4 : p->width / 2 - LABEL;
  begin_labelled(p, label);
  page_put(p, TERM_PLAIN, "  ");
  page_bar(p, columns, share_of(used, whole));
  if (used == PLIM_UNKNOWN && whole == PLIM_UNKNOWN) put_field(p, TERM_PLAIN, "unknown");
  else put_field(p, TERM_PLAIN, "%s of %s", units_bytes(used).text, units_bytes(whole).text);
}

static void put_history(page *p, const char *label, const watch_ring *ring) {
  if (!p->has_history || ring->count < 2) return;
  begin_labelled(p, label);
  page_put(p, TERM_PLAIN, "  ");
  page_history(p, p->width - LABEL, ring);
}

static void put_note(page *p, const watch_sign *s) {
  page_line_begin(p);
  page_put(p, TERM_CYAN, "  note:");
  page_put(p, TERM_PLAIN, " ");
  page_say(p, 8, s->text);
}

// Warnings come first, so that they are seen on a small terminal too.
static void put_warnings(page *p, const watch *w) {
  for (size_t i = 0; i < w->signs.len && w->signs.at[i].is_warning; i++) {
    const watch_sign *s = &w->signs.at[i];
    char *subject = s->run ? cli_format("run %s:", s->run->run.name)
                           : cli_format("GPU %u:", w->cards.at[s->card].card.index);
    page_line_begin(p);
    page_put(p, TERM_RED, "WARNING");
    page_put(p, TERM_PLAIN, " ");
    page_say(p, 8, subject);
    page_say(p, 8, s->text);
    free(subject);
  }
}

// ---- host -------------------------------------------------------------------------------------------

static void put_host(page *p, const plim_machine *m) {
  bool has_limit = m->limit_bytes != PLIM_UNKNOWN && m->limit_used_bytes != PLIM_UNKNOWN;
  bool is_known = m->total_bytes != PLIM_UNKNOWN && m->available_bytes != PLIM_UNKNOWN;
  uint64_t used = is_known ? m->total_bytes - m->available_bytes : PLIM_UNKNOWN;
  page_line_begin(p);
  page_put(p, TERM_BOLD, "host");
  if (has_limit) put_bar(p, "memory", m->limit_used_bytes, m->limit_bytes);
  else put_bar(p, "memory", used, m->total_bytes);
  if (has_limit) put_field(p, TERM_DIM, "(limit of this container or job)");
  if (m->swap_total_bytes == PLIM_UNKNOWN || m->swap_free_bytes == PLIM_UNKNOWN) return;
  uint64_t swapped = m->swap_total_bytes - m->swap_free_bytes;
  if (swapped) put_field(p, TERM_PLAIN, "swapped out %s", units_bytes(swapped).text);
}

// ---- cards ------------------------------------------------------------------------------------------

const char *watch_driver_says(const watch_cards *cards, char *text, size_t size) {
  static const char *const states[WATCH_DRIVER_STATES] = {
      [WATCH_DRIVER_ASKED] = "GPUs: unknown (the driver has not answered yet)",
      [WATCH_DRIVER_ABSENT] = "GPUs: unknown (no NVIDIA driver was found here)",
      [WATCH_DRIVER_FAILED] = "GPUs: unknown (the NVIDIA driver reports an error; nvidia-smi may "
                              "show which)",
  };
  if (cards->state == WATCH_DRIVER_SILENT)
    snprintf(text, size, "GPUs: unknown (the driver has not answered for %.0f s)",
             floor(cards->silent_seconds));
  else if (states[cards->state]) snprintf(text, size, "%s", states[cards->state]);
  else if (!cards->count) snprintf(text, size, "GPUs: none (the NVIDIA driver lists none)");
  else return NULL;
  return text;
}

static void put_activity(page *p, const plim_card_activity *a) {
  if (a->busy_percent == PLIM_UNKNOWN) put_field(p, TERM_PLAIN, "busy unknown");
  else put_field(p, TERM_PLAIN, "%u %% busy", (unsigned)a->busy_percent);
  if (a->temperature_celsius != PLIM_UNKNOWN)
    put_field(p, TERM_PLAIN, "%u %sC", (unsigned)a->temperature_celsius,
              p->is_utf8 ? "\u00b0" : "");
  if (a->power_milliwatts == PLIM_UNKNOWN) return;
  double watts = (double)a->power_milliwatts / 1000,
         most = (double)a->power_limit_milliwatts / 1000;
  if (a->power_limit_milliwatts == PLIM_UNKNOWN) put_field(p, TERM_PLAIN, "%.0f W", watts);
  else put_field(p, TERM_PLAIN, "%.0f of %.0f W", watts, most);
}

// On a narrow terminal the user stands last, where it may be cut.
static bool is_narrow(const page *p) { return p->width < 70; }

static void put_process(page *p, const watch *w, const watch_process *u) {
  const watch_run *run = watch_run_of(w, u->process.pid);
  const char *user = *u->is.user ? u->is.user : "unknown";
  const char *name = *u->is.name ? u->is.name : "unknown (not visible from here)";
  page_line_begin(p);
  page_put(p, TERM_PLAIN, "  %8u", u->process.pid);
  if (!is_narrow(p)) page_put(p, TERM_PLAIN, "  %-10.10s", user);
  page_put(p, TERM_PLAIN, "  %10s  %s", units_bytes(u->process.used_bytes).text, name);
  if (is_narrow(p) && *u->is.user) page_put(p, TERM_PLAIN, "  %s", user);
  if (run) page_put(p, TERM_CYAN, "  run %s", run->run.name);
}

static void put_processes(page *p, const watch *w, const watch_card *c) {
  if (!c->lists_processes) {
    begin_labelled(p, "used by");
    page_put(p, TERM_PLAIN, "  unknown");
    return;
  }
  if (!c->process_count) return;
  page_line_begin(p);
  page_put(p, TERM_DIM, "  %8s", "PID");
  if (!is_narrow(p)) page_put(p, TERM_DIM, "  %-10s", "USER");
  page_put(p, TERM_DIM, "  %10s  PROCESS", "MEMORY");
  for (size_t i = 0; i < c->process_count; i++) put_process(p, w, &c->processes[i]);
}

static void put_card(page *p, const watch *w, size_t index) {
  const watch_card *c = &w->cards.at[index];
  page_line_begin(p);
  page_line_begin(p);
  page_put(p, TERM_BOLD, "GPU %u", c->card.index);
  page_put(p, TERM_PLAIN, "  %s", *c->card.name ? c->card.name : "unknown");
  if (w->cards.state == WATCH_DRIVER_SILENT) {
    put_field(p, TERM_PLAIN, "unknown");
    return;
  }
  put_activity(p, &c->activity);
  put_bar(p, "memory", c->card.used_bytes, c->card.total_bytes);
  put_history(p, "memory", &w->histories[index].memory);
  put_history(p, "busy", &w->histories[index].busy);
  put_processes(p, w, c);
  for (size_t i = 0; i < w->signs.len; i++)
    if (!w->signs.at[i].run && !w->signs.at[i].is_warning && w->signs.at[i].card == index)
      put_note(p, &w->signs.at[i]);
}

static void put_cards(page *p, const watch *w) {
  char text[160];
  const char *says = watch_driver_says(&w->cards, text, sizeof text);
  if (says) {
    page_line_begin(p);
    page_line_begin(p);
    page_say(p, 0, says);
  }
  for (size_t i = 0; i < w->cards.count; i++) put_card(p, w, i);
}

// ---- runs -------------------------------------------------------------------------------------------

static void put_progress(page *p, const live_run *run, const live_rank *r, size_t ranks) {
  begin_labelled(p, "progress");
  if (r->last.step == PLIM_UNKNOWN) put_field(p, TERM_PLAIN, "step unknown");
  else if (run->steps == PLIM_UNKNOWN)
    put_field(p, TERM_PLAIN, "step %s", units_count(r->last.step).text);
  else
    put_field(p, TERM_PLAIN, "step %s of %s", units_count(r->last.step).text,
              units_count(run->steps).text);
  if (r->steps_per_second > 0) put_field(p, TERM_PLAIN, "%.3g steps/s", r->steps_per_second);
  bool has_end = r->steps_per_second > 0 && run->steps != PLIM_UNKNOWN && run->steps > r->last.step;
  if (has_end)
    put_field(p, TERM_PLAIN, "%s left",
              units_seconds((double)(run->steps - r->last.step) / r->steps_per_second).text);
  if (r->last.phase != LIVE_PHASE_UNKNOWN)
    put_field(p, TERM_PLAIN, "%s", live_phase_names[r->last.phase]);
  if (ranks > 1)
    put_field(p, TERM_PLAIN, "rank %s, the fullest of %zu", units_count(r->last.rank).text, ranks);
}

// The peaks of the last steps.
static void put_peaks(page *p, const live_rank *r) {
  watch_ring ring = {0};
  for (size_t i = 0; i < r->history.recent_count; i++) {
    const plim_step_memory *m = &r->history.recent[i];
    bool has_peak = m->peak_bytes != PLIM_UNKNOWN;
    ring.at[ring.count++] = share_of(has_peak ? m->peak_bytes : m->live_bytes, r->limit_bytes);
  }
  put_history(p, "peaks", &ring);
}

static void put_rank(page *p, const watch *w, const watch_run *run) {
  const live_rank *r = run->worst;
  put_progress(p, &run->run, r, run->ranks.len);
  double age = r->last.seconds < 0 ? 0 : w->unix_seconds - r->last.seconds;
  if (age > 60) put_field(p, TERM_YELLOW, "no report for %s", units_seconds(age).text);
  put_bar(p, "peak", r->peak_bytes, r->limit_bytes);
  put_field(p, TERM_PLAIN, "headroom %s", units_bytes(r->headroom_bytes).text);
  begin_labelled(p, "now");
  put_field(p, TERM_PLAIN, "allocated %s", units_bytes(r->last.allocated_bytes).text);
  put_field(p, TERM_PLAIN, "reserved %s", units_bytes(r->last.reserved_bytes).text);
  put_peaks(p, r);
}

// Whether a note has the text of the trend.
static bool is_told(const watch *w, const watch_run *run) {
  for (size_t i = 0; i < w->signs.len; i++) {
    const watch_sign *s = &w->signs.at[i];
    if (s->run == run && !s->is_warning && s->kind != WATCH_LOW_MEMORY) return true;
  }
  return false;
}

static void put_trend(page *p, const watch *w, const watch_run *run) {
  char text[PLIM_TREND_TEXT];
  if (!is_told(w, run)) {
    plim_trend_say(&run->worst->trend, text, sizeof text);
    begin_labelled(p, "trend");
    page_put(p, TERM_PLAIN, "  ");
    page_say(p, LABEL, text);
  }
  for (size_t i = 0; i < w->signs.len; i++)
    if (w->signs.at[i].run == run && !w->signs.at[i].is_warning) put_note(p, &w->signs.at[i]);
}

static void put_run(page *p, const watch *w, const watch_run *run) {
  page_line_begin(p);
  page_line_begin(p);
  page_put(p, TERM_BOLD, "run %s", run->run.name);
  double age = run->run.started_seconds < 0 ? -1 : w->unix_seconds - run->run.started_seconds;
  if (age >= 0) put_field(p, TERM_PLAIN, "for %s", units_seconds(floor(age)).text);
  if (*run->run.command) {
    begin_labelled(p, "command");
    page_put(p, TERM_PLAIN, "  %s", run->run.command);
  }
  if (!run->worst) {
    begin_labelled(p, "progress");
    put_field(p, TERM_PLAIN, "nothing reported yet");
    return;
  }
  put_rank(p, w, run);
  put_trend(p, w, run);
}

static void put_runs(page *p, const watch *w) {
  for (size_t i = 0; i < w->runs.len; i++) put_run(p, w, w->runs.at[i]);
  if (w->runs.len) return;
  page_line_begin(p);
  page_line_begin(p);
  if (*w->folder) page_say(p, 0, "no training is running under plimsoll run");
  else page_say(p, 0, "runs: unknown (neither HOME nor XDG_STATE_HOME is a path)");
}

void page_fill(page *p, const watch *w) {
  page_clear(p);
  put_warnings(p, w);
  put_host(p, &w->host);
  put_cards(p, w);
  put_runs(p, w);
}

void watch_print_text(const watch *w, bool is_utf8) {
  page p = {.width = (size_t)term_width(stdout), .is_utf8 = is_utf8, .has_history = w->samples > 1};
  page_fill(&p, w);
  for (size_t i = 0; i < p.lines.len; i++) {
    for (size_t k = 0; k < p.lines.at[i].spans.len; k++)
      term_print(stdout, p.lines.at[i].spans.at[k].style, "%s", p.lines.at[i].spans.at[k].text);
    printf("\n");
  }
  page_clear(&p);
}
