// Derives what a message does not say outright.
#include <stdio.h>
#include <string.h>

#include "explain_impl.h"

bool explain_is_known(uint64_t value) { return value != PLIM_UNKNOWN; }

bool explain_exceeds(uint64_t a, uint64_t b, double factor) {
  return explain_is_known(a) && explain_is_known(b) && (double)a > (double)b * factor;
}

// a - b, not below 0; PLIM_UNKNOWN if either is.
static uint64_t minus(uint64_t a, uint64_t b) {
  if (!explain_is_known(a) || !explain_is_known(b)) return PLIM_UNKNOWN;
  return a > b ? a - b : 0;
}

// In a container the message lists this very process under the host's pid, and then has no "this process has" part: it is
// the process that holds at least what PyTorch has reserved.
static void find_own_process(explain_case *c) {
  const plim_oom_message *m = c->message;
  if (explain_is_known(c->process) || !explain_is_known(c->allocated) ||
      m->is_impossible[PLIM_OOM_PROCESS])
    return;
  uint64_t reserved = c->allocated + (explain_is_known(c->stranded) ? c->stranded : 0);
  size_t own = m->process_count;
  for (size_t i = 0; i < m->process_count; i++) {
    uint64_t bytes = m->processes[i].bytes;
    bool is_enough =
        explain_is_known(bytes) && bytes + 64 * PLIM_MIB >= reserved; // printed rounded
    if (is_enough && (own == m->process_count || bytes < m->processes[own].bytes)) own = i;
  }
  if (own == m->process_count) return;
  c->process = m->processes[own].bytes;
  c->is_own_process[own] = true;
}

static void derive_outside(explain_case *c) {
  explanation *e = c->out;
  uint64_t reserved = explain_is_known(c->allocated) && explain_is_known(c->stranded)
                          ? c->allocated + c->stranded
                          : PLIM_UNKNOWN;
  e->library_bytes = minus(c->process, reserved);
  e->other_bytes = minus(minus(c->total, c->free), c->process);
  c->outside = minus(minus(c->total, c->free), reserved);
}

static void derive_settings(explain_case *c) {
  const explain_facts *f = c->facts;
  const plim_oom_facts *seen = &c->log->facts;
  c->micro_batch = explain_is_known(f->micro_batch) ? f->micro_batch : seen->micro_batch;
  c->accumulation = explain_is_known(f->accumulation) ? f->accumulation : seen->accumulation;
  c->sample_tokens = explain_is_known(f->sample_tokens) ? f->sample_tokens : seen->sample_tokens;
  c->alloc_conf = f->alloc_conf ? f->alloc_conf : *seen->alloc_conf ? seen->alloc_conf : NULL;
  c->out->step = explain_is_known(f->step) ? f->step : seen->step;
  c->out->phase = f->phase != PLIM_RUN_UNKNOWN ? f->phase : c->message->stack.phase;
  if (c->out->phase == PLIM_RUN_UNKNOWN && seen->is_evaluating) c->out->phase = PLIM_RUN_EVALUATION;
  c->out->moment = c->message->stack.moment;
}

// What the caller has measured, or else what plimsoll run has written into the log.
static void derive_growth(explain_case *c) {
  const plim_oom_facts *seen = &c->log->facts;
  const char *end = strstr(seen->leak, " leaves ");
  explain_growth *g = &c->growth;
  if (c->facts->growth) {
    *g = *c->facts->growth;
    return;
  }
  *g = (explain_growth){.per_step_bytes = seen->growth_bytes, .grown_bytes = PLIM_UNKNOWN};
  if (!explain_is_known(seen->growth_bytes)) return;
  if (explain_is_known(c->out->step) && c->out->step < UINT64_MAX / (seen->growth_bytes + 1))
    g->grown_bytes = seen->growth_bytes * c->out->step;
  if (!end) return;
  snprintf(c->leaking_lines, sizeof c->leaking_lines, "%.*s", (int)(end - seen->leak), seen->leak);
  g->lines = c->leaking_lines;
}

// A process that only its exit status tells about.
static plim_oom_kind kind_of(const explain_case *c) {
  const explain_facts *f = c->facts;
  if (c->message->kind != PLIM_OOM_NONE) return c->message->kind;
  if (f->has_oom_kill == EXPLAIN_YES) return PLIM_OOM_HOST_KILLER;
  if (f->signal == 9 || f->exit_status == 137) return PLIM_OOM_SIGKILL;
  if (f->signal == 7 || f->exit_status == 135) return PLIM_OOM_SHARED_MEMORY;
  return PLIM_OOM_NONE;
}

void explain_derive(explain_case *c) {
  const uint64_t *bytes = c->message->bytes;
  c->kind = kind_of(c);
  c->wanted = bytes[PLIM_OOM_WANTED];
  c->total = bytes[PLIM_OOM_TOTAL];
  c->free = bytes[PLIM_OOM_FREE];
  c->process = bytes[PLIM_OOM_PROCESS];
  c->allocated = bytes[PLIM_OOM_ALLOCATED];
  c->stranded = bytes[PLIM_OOM_STRANDED];
  if (!explain_is_known(c->stranded)) c->stranded = minus(bytes[PLIM_OOM_RESERVED], c->allocated);
  find_own_process(c);
  derive_outside(c);
  derive_settings(c);
  derive_growth(c);
}

explain_answer explain_had_steps(const explain_case *c) {
  if (c->facts->had_steps != EXPLAIN_UNKNOWN) return c->facts->had_steps;
  if (!explain_is_known(c->out->step)) return EXPLAIN_UNKNOWN;
  return c->out->step >= 2 ? EXPLAIN_YES : EXPLAIN_NO;
}

bool explain_is_listed(const explain_case *c, unsigned pid) {
  for (size_t i = 0; i < c->message->process_count; i++)
    if (c->message->processes[i].pid == pid) return true;
  return false;
}

bool explain_is_expandable(const explain_case *c) {
  return c->alloc_conf && (strcasestr(c->alloc_conf, "expandable_segments:true") != NULL);
}
