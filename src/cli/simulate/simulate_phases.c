// The peak of each phase of a run, from its snapshot and the times at which phases began.
#include <string.h>

#include "simulate_report.h"
#include "timeline.h"

static simulate_phase_peak *peak_named(simulate_phase_peak *peaks, size_t *count,
                                       const char *name) {
  for (size_t i = 0; i < *count; i++)
    if (strcmp(peaks[i].name, name) == 0) return &peaks[i];
  if (*count == SIMULATE_PHASES) return NULL;
  peaks[*count] = (simulate_phase_peak){.name = name};
  return &peaks[(*count)++];
}

size_t simulate_phase_peaks(const simulate_part *part, simulate_phase_peak out[SIMULATE_PHASES]) {
  enum { MOST_COLUMNS = 1 << 18 }; // one for each event, of all but the longest runs
  const simulate_process *p = simulate_fullest(&part->run);
  const replay_result *r = &part->replay;
  size_t count = 0, phase = 0;
  plim_timeline timeline;
  if (!p || !part->has_replay || !p->phases.len) return 0;
  if (!plim_timeline_build(&r->trace, &r->analysis, &r->recorded_options, NULL, MOST_COLUMNS,
                           &timeline))
    return 0;
  for (size_t i = 0; i < timeline.columns.len; i++) {
    const plim_timeline_column *c = &timeline.columns.at[i];
    uint64_t now = r->trace.events.at[c->first_event].time_us;
    while (phase + 1 < p->phases.len && p->phases.at[phase + 1].time_us <= now) phase++;
    simulate_phase_peak *peak = peak_named(out, &count, p->phases.at[phase].name);
    if (peak && c->allocated_bytes > peak->peak_bytes) peak->peak_bytes = c->allocated_bytes;
  }
  plim_timeline_clear(&timeline);
  return count;
}
