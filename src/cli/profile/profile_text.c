#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile_report.h"
#include "replay_show.h"
#include "show_notes.h"
#include "term.h"
#include "units.h"

static void sentence(const char *text) {
  term_wrap(stdout, text, 0, 2, (size_t)term_width(stdout));
}

static const char *plural(uint64_t count) { return count == 1 ? "" : "s"; }

// ---- what ran ---------------------------------------------------------------------------------------

static void print_where(const simulate_process *p) {
  char line[512];
  if (!p) return;
  int used = snprintf(line, sizeof line, "on %.100s", p->measured.card ? p->measured.card : "?");
  for (size_t i = 0; i < p->versions.len && (size_t)used < sizeof line; i++)
    used += snprintf(line + used, sizeof line - used, "%s%s %s", i ? ", " : "; ",
                     p->versions.at[i].name, p->versions.at[i].version);
  sentence(line);
}

static void print_steps(const profile_report *r, const simulate_process *p) {
  uint64_t steps = simulate_steps(&r->part.run);
  char line[320];
  if (!p) return;
  if (!steps) {
    sentence("the program ended without an optimizer step, so a training step may need more memory "
             "than shown here");
    return;
  }
  int used = snprintf(line, sizeof line, "%s optimizer step%s, %s", units_count(steps).text,
                      plural(steps), units_seconds(r->part.run.seconds).text);
  if (p->was_ended)
    snprintf(line + used, sizeof line - used,
             "; the program was ended after them (--steps 0 lets it run to its end)");
  else if (r->card.is_interrupted)
    snprintf(line + used, sizeof line - used, "; the program was interrupted");
  sentence(line);
}

static void print_time(const simulate_process *p) {
  profile_time t = profile_step_time(p);
  char line[240];
  if (!p || !p->steps) return;
  if (isnan(t.median)) {
    snprintf(line, sizeof line,
             "time per step: not measured, because the first %d steps are warm-up",
             PROFILE_WARM_UP);
    sentence(line);
    return;
  }
  int used = snprintf(line, sizeof line, "%s per step: median of %zu step%s after %d of warm-up",
                      units_seconds(t.median).text, t.count, plural(t.count), PROFILE_WARM_UP);
  if (t.count > 1)
    snprintf(line + used, sizeof line - used, " (%s to %s)", units_seconds(t.least).text,
             units_seconds(t.most).text);
  sentence(line);
}

// ---- memory -----------------------------------------------------------------------------------------

static void print_use(const profile_report *r, const simulate_process *p) {
  char line[400];
  const profile_card *c = &r->card;
  if (r->part.run.end == SIMULATE_OUT_OF_MEMORY) term_print(stdout, TERM_RED, "OUT OF MEMORY: ");
  int used =
      snprintf(line, sizeof line, "used %s of %s: %s reserved by PyTorch",
               units_bytes(r->part.run.peak_bytes).text, units_bytes(p->measured.total_bytes).text,
               units_bytes(p->peak_reserved_bytes).text);
  if (c->outside_peak_bytes == PLIM_UNKNOWN)
    snprintf(line + used, sizeof line - used,
             "; what CUDA and its libraries use in addition could not be measured");
  else
    snprintf(line + used, sizeof line - used,
             ", %s used by CUDA and its libraries (%s when training began)",
             units_bytes(c->outside_peak_bytes).text, units_bytes(c->outside_first_bytes).text);
  size_t column = r->part.run.end == SIMULATE_OUT_OF_MEMORY ? strlen("OUT OF MEMORY: ") : 0;
  term_wrap(stdout, line, column, 2, (size_t)term_width(stdout));
}

static const uint64_t little = 64 * PLIM_MIB; // the driver's own use varies by a few MiB

static void print_others(const profile_card *c) {
  if (c->others_bytes != PLIM_UNKNOWN && c->others_bytes >= little)
    printf("other processes used %s of this GPU\n", units_bytes(c->others_bytes).text);
}

// What others use counts as ours if it changes during the run.
void profile_add_notes(profile_report *r) {
  uint64_t before = r->card.others_bytes, after = r->card.others_after_bytes;
  bool is_known = before != PLIM_UNKNOWN && after != PLIM_UNKNOWN;
  bool has_changed =
      is_known && (after > before ? after - before >= little : before - after >= little);
  if (!simulate_fullest(&r->part.run)) return;
  if (before == PLIM_UNKNOWN)
    plim_note_add(&r->notes, "others.unknown", NULL,
                  "the driver does not report what other processes use on this GPU, so that is "
                  "counted under CUDA and its libraries");
  if (has_changed)
    plim_note_add(&r->notes, "others.changed", NULL,
                  "other processes used %s of this GPU before the run and %s after it; the "
                  "difference may be counted under CUDA and its libraries",
                  units_bytes(before).text, units_bytes(after).text);
}

static void print_no_use(const simulate_result *run) {
  if (run->processes.len) sentence("The program imported PyTorch, but did not use the GPU.");
  else
    sentence("No process of the program imported PyTorch, so nothing is known about its memory.");
}

// ---- all of it --------------------------------------------------------------------------------------

void profile_print_text(const profile_report *r) {
  const simulate_process *p = simulate_fullest(&r->part.run);
  simulate_print_command(r->request->command);
  print_where(p);
  print_steps(r, p);
  print_time(p);
  simulate_print_observed(p);
  simulate_print_savers(p);
  printf("\n");
  if (!p) {
    print_no_use(&r->part.run);
    return;
  }
  print_use(r, p);
  print_others(&r->card);
  simulate_print_peaks(&r->part, false);
  simulate_print_phases(&r->part);
  simulate_print_ranks(&r->part);
  notes_print(stdout, &r->notes);
  if (r->part.has_replay) replay_print_findings(&r->part.replay);
  if (r->has_comparison) profile_print_comparison(r);
}
