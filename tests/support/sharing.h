// Changes the sharding strategy, for tests.
#ifndef PLIM_TESTS_SHARING_H
#define PLIM_TESTS_SHARING_H

#include "projects.h"

// Sets strategy and offload; `offload` NULL: none.
static inline bool shares(const char *strategy, const char *offload, plim_edit_set *edits) {
  plim_knob_change both[] = {{PLIM_KNOB_STRATEGY, value_from(strategy)},
                             {PLIM_KNOB_OFFLOAD, value_from(offload ? offload : "none")}};
  error = (plim_error){0};
  bool ok = !plim_project_set(&project, both, 2, edits, &error);
  if (!ok) printf("%s: %s\n", strategy, error.message);
  return ok;
}

static inline bool cannot(const char *strategy, const char *reason) {
  plim_edit_set edits;
  if (!shares(strategy, NULL, &edits)) return strstr(error.message, reason) != NULL;
  plim_edit_set_clear(&edits);
  return false;
}

#endif
