// Any snapshot can be replayed and analysed without harm: hostile addresses, sizes that overflow, frees of nothing,
// segments that overlap.
#include <stdlib.h>

#include "inspect.h"
#include "replay.h"
#include "snapshot.h"
#include "timeline.h"
#include "trace_analysis.h"
#include "tune.h"

static void tell_story(const plim_trace *trace, const plim_replay_options *options,
                       const plim_guided *guided) {
  plim_trace_analysis analysis;
  if (!plim_trace_analysis_read(trace, &analysis)) return;
  plim_leaks leaks = {0};
  plim_duplicates duplicates = {0};
  plim_find_leaks(trace, &analysis, &leaks);
  plim_find_duplicates(trace, &analysis, &duplicates);
  size_t events[] = {guided->peak_event, guided->peak_reserved_event};
  plim_moment moments[2];
  plim_inspect(trace, &analysis, NULL, options, events, 2, moments);
  plim_timeline timeline;
  if (plim_timeline_build(trace, &analysis, options, NULL, 50, &timeline))
    plim_timeline_clear(&timeline);
  plim_moment_clear(&moments[0]);
  plim_moment_clear(&moments[1]);
  plim_duplicates_clear(&duplicates);
  vec_free(&leaks);
  plim_trace_analysis_clear(&analysis);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  plim_trace trace;
  if (plim_snapshot_read_memory(data, size, -1, &trace, NULL, NULL)) return 0;
  plim_replay_options options = {.limit_bytes = size % 3 ? PLIM_UNKNOWN : 64 * PLIM_MIB};
  plim_guided guided;
  plim_replay_recorded_conf(&trace, &options.conf);
  if (plim_trace_link(&trace) && plim_replay_guided(&trace, &options, NULL, &guided)) {
    tell_story(&trace, &options, &guided);
    for (size_t i = 0; i < plim_tune_setting_count; i += 1 + size % 5)
      plim_tune_try(&trace, &guided, &options, plim_tune_settings[i].conf);
    plim_guided_clear(&guided);
  }
  plim_trace_clear(&trace);
  return 0;
}
