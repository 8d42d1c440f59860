#include "job_needs.h"

#include <stdio.h>

#include "units.h"

// With expandable segments, max_split_size never reuses its large blocks: reserved memory grows until a limit is
// reached. Then only the memory in use can be reported.
bool estimate_is_endless(const plim_estimate *e) {
  bool is_too_much = e->has_verdict && !e->fits;
  return is_too_much && e->p.peak_reserved_bytes > 2 * e->p.peak_allocated_bytes;
}

plim_estimate estimate_shown(const plim_estimate *e) {
  plim_estimate shown = *e;
  if (!estimate_is_endless(e)) return shown;
  shown.device_bytes -= shown.component_bytes[PLIM_COMPONENT_FRAGMENTATION];
  shown.component_bytes[PLIM_COMPONENT_FRAGMENTATION] = 0;
  return shown;
}

void estimate_needs(const plim_estimate *e, char *text, size_t size) {
  plim_estimate shown = estimate_shown(e);
  uint64_t needed = plim_needed_bytes(e);
  bool is_loading = needed > e->device_bytes;
  snprintf(text, size, "%s%s%s", estimate_is_endless(e) ? "at least " : "",
           units_bytes(is_loading ? needed : shown.device_bytes).text,
           is_loading ? " while the model is loaded" : "");
}
