// Analyses a trace: lifetimes first, then lines, steps and kinds, each in a few linear passes over the events.
#include "trace_analysis_impl.h"

const char *const plim_kind_names[PLIM_KIND_COUNT] = {
    "parameters", "gradients",   "optimizer state", "activations",
    "workspaces", "temporaries", "other",           "leaked"};

// ---- lifetimes ------------------------------------------------------------------------------------

#define NO_OWNER UINT32_MAX
#define START_OWNER 0x80000000u // an owner that is a start block

typedef struct {
  analysis_reader *r;
  uint32_t *owner; // indexed by slot: the ALLOC event (or start block) that holds it
} lifetimes;

static void end_life(lifetimes *l, uint32_t owner, size_t event) {
  plim_trace_analysis *analysis = l->r->analysis;
  if (owner & START_OWNER) {
    analysis->start_freed_at.at[owner & ~START_OWNER] = (uint32_t)event;
    return;
  }
  const plim_trace *t = l->r->trace;
  analysis->freed_at.at[owner] = (uint32_t)event;
  // Frees without a recorded context have the stack of their allocation.
  if (t->events.at[event].stack && t->events.at[event].stack != t->events.at[owner].stack &&
      !analysis_is_alloc(t, event))
    l->r->frees_have_stacks = true;
}

static void read_event(lifetimes *l, size_t i) {
  const plim_event *e = &l->r->trace->events.at[i];
  if (e->block >= l->r->trace->block_slots) return;
  uint32_t *owner = &l->owner[e->block];
  switch (e->action) {
  case PLIM_EV_ALLOC: // if the slot is still held, its free was not recorded
    if (*owner != NO_OWNER) end_life(l, *owner, i);
    *owner = (uint32_t)i;
    break;
  case PLIM_EV_FREE:
  case PLIM_EV_FREE_REQUESTED:
  case PLIM_EV_FREE_COMPLETED: // the requested free ended the life, unless it was not recorded
    if (*owner != NO_OWNER) end_life(l, *owner, i);
    *owner = NO_OWNER;
    break;
  default: break;
  }
}

static bool read_lifetimes(analysis_reader *r) {
  const plim_trace *t = r->trace;
  plim_trace_analysis *s = r->analysis;
  lifetimes l = {.r = r, .owner = malloc(((size_t)t->block_slots + 1) * sizeof *l.owner)};
  bool ok = l.owner && vec_reserve(&s->freed_at, t->events.len) &&
            vec_reserve(&s->start_freed_at, t->start_blocks.len);
  if (ok) {
    s->freed_at.len = t->events.len;
    s->start_freed_at.len = t->start_blocks.len;
    for (size_t i = 0; i < t->events.len; i++) s->freed_at.at[i] = PLIM_NEVER;
    for (size_t i = 0; i < t->block_slots; i++) l.owner[i] = NO_OWNER;
    for (size_t i = 0; i < t->start_blocks.len; i++) {
      s->start_freed_at.at[i] = PLIM_NEVER;
      uint32_t slot = t->start_blocks.at[i].slot;
      if (slot < t->block_slots) l.owner[slot] = START_OWNER | (uint32_t)i;
    }
    for (size_t i = 0; i < t->events.len; i++) read_event(&l, i);
  }
  free(l.owner);
  return ok;
}

// ---- the analysis ---------------------------------------------------------------------------------

bool plim_trace_analysis_read(const plim_trace *trace, plim_trace_analysis *analysis) {
  *analysis = (plim_trace_analysis){0};
  analysis_reader r = {.trace = trace, .analysis = analysis};
  bool ok = read_lifetimes(&r) && analysis_read_lines(&r) && analysis_read_steps(&r) &&
            analysis_read_kinds(&r);
  vec_free(&r.facts);
  vec_free(&r.spans);
  vec_free(&r.zero_grads);
  if (!ok) plim_trace_analysis_clear(analysis);
  return ok;
}

void plim_trace_analysis_clear(plim_trace_analysis *analysis) {
  if (!analysis) return;
  vec_free(&analysis->steps);
  vec_free(&analysis->freed_at);
  vec_free(&analysis->kind);
  vec_free(&analysis->start_freed_at);
  vec_free(&analysis->start_kind);
  vec_free(&analysis->line);
  vec_free(&analysis->user_line);
  *analysis = (plim_trace_analysis){0};
}

size_t plim_trace_analysis_step_of(const plim_trace_analysis *analysis, size_t event) {
  size_t low = 0, high = analysis->steps.len; // steps that begin at or before the event
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (analysis->steps.at[middle].first <= event) low = middle + 1;
    else high = middle;
  }
  return low;
}
