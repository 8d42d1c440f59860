#include <math.h>
#include <string.h>

#include "trend.h"

enum {
  WARM_UP = 3
}; // steps; optimizer state, cuBLAS and cuDNN workspaces are allocated in the first

static bool has_steps(const plim_step_memory *m) { return m->step != PLIM_UNKNOWN; }

// Whether this sample cannot come after the one before.
static bool is_new_run(const plim_step_memory *before, const plim_step_memory *m) {
  if (has_steps(before) != has_steps(m)) return true;
  return has_steps(m) ? m->step < before->step : m->seconds < before->seconds;
}

static uint64_t higher(uint64_t a, uint64_t b) {
  if (a == PLIM_UNKNOWN) return b;
  return b == PLIM_UNKNOWN || a > b ? a : b;
}

static void merge(plim_step_memory *into, const plim_step_memory *m) {
  uint64_t peak = higher(into->peak_bytes, m->peak_bytes);
  *into = *m;
  into->peak_bytes = peak;
}

static void add_recent(plim_history *h, const plim_step_memory *m) {
  if (h->recent_count == PLIM_RECENT) {
    memmove(h->recent, h->recent + 1, (PLIM_RECENT - 1) * sizeof *h->recent);
    h->recent_count--;
  }
  h->recent[h->recent_count++] = *m;
}

// Every stride-th sample; when there is no room, every second one goes.
static void add_older(plim_history *h, const plim_step_memory *m) {
  if (h->seen % h->stride) return;
  if (h->older_count == PLIM_OLDER) {
    for (size_t i = 0; i < PLIM_OLDER / 2; i++) h->older[i] = h->older[2 * i];
    h->older_count = PLIM_OLDER / 2;
    h->stride *= 2;
  }
  h->older[h->older_count++] = *m;
}

void plim_history_add(plim_history *h, const plim_step_memory *m) {
  if (!has_steps(m) && !isfinite(m->seconds)) return;
  plim_step_memory *last = h->recent_count ? &h->recent[h->recent_count - 1] : NULL;
  if (last && is_new_run(last, m)) {
    *h = (plim_history){0};
    last = NULL;
  }
  if (!h->stride) h->stride = 1;
  bool is_same = last && (has_steps(m) ? m->step == last->step : m->seconds <= last->seconds);
  if (is_same) {
    merge(last, m);
    return;
  }
  if (h->seen == WARM_UP) h->recent_count = 0;
  add_recent(h, m); // while warming up too, to see a restart
  if (h->seen >= WARM_UP) add_older(h, m);
  h->seen++;
}
