#include "findings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot.h"
#include "units.h"

// ---- words ------------------------------------------------------------------------------------------

// Within a hundredth: blocks are rounded.
static bool is_twice(uint64_t bytes, uint64_t smaller) {
  uint64_t twice = 2 * smaller, off = bytes > twice ? bytes - twice : twice - bytes;
  return off <= twice / 100;
}

// Weights in 16 bits and in 32 are a copy and one of twice the size.
void findings_duplicate_text(const plim_duplicate *d, char *text, size_t size) {
  char sizes[96] = "";
  uint64_t smallest = UINT64_MAX;
  size_t doubled = 0;
  for (size_t c = 0; c < d->copies.len; c++)
    if (d->copies.at[c].bytes < smallest) smallest = d->copies.at[c].bytes;
  for (size_t c = 0; c < d->copies.len; c++) doubled += is_twice(d->copies.at[c].bytes, smallest);
  if (doubled == 1)
    snprintf(sizes, sizeof sizes, " (one copy is twice as large, probably float32)");
  else if (doubled)
    snprintf(sizes, sizeof sizes, " (%zu copies are twice as large, probably float32)", doubled);
  char times[32] = "twice";
  if (d->copies.len != 2) snprintf(times, sizeof times, "%zu times", d->copies.len);
  snprintf(text, size,
           "%s tensors are in memory %s%s; keeping only the smallest copy would free %s",
           units_count(d->tensors).text, times, sizes, units_bytes(d->wasted_bytes).text);
}

static void leak_text(const plim_leak *leak, size_t steps, const char *line, char *text,
                      size_t size) {
  snprintf(
      text, size,
      "%s leaves %s in memory after each step (in %zu of %zu recorded steps, %s in %s tensor%s "
      "so far)",
      line, units_bytes(leak->bytes_per_step).text, leak->steps, steps,
      units_bytes(leak->bytes).text, units_count(leak->count).text, leak->count == 1 ? "" : "s");
}

// If other events have Python stacks, one without a stack is from autograd: backward runs in its own thread.
static void line_name(const plim_trace *trace, uint32_t frame, char *text, size_t size) {
  if (frame == PLIM_NO_LINE && trace->frames.len)
    snprintf(text, size, "autograd's backward thread");
  else plim_line_name(trace, frame, text, size);
}

// ---- collecting -------------------------------------------------------------------------------------

typedef struct {
  plim_trace trace;
  plim_trace_analysis analysis;
} reading;

static void clear_finding(finding *f) {
  for (size_t i = 0; i < f->lines.len; i++) free(f->lines.at[i].name);
  vec_free(&f->lines);
  free(f->message);
}

void findings_clear(findings *found) {
  if (!found) return;
  for (size_t i = 0; i < found->list.len; i++) clear_finding(&found->list.at[i]);
  vec_free(&found->list);
  *found = (findings){0};
}

static bool add_line(finding *f, const plim_trace *trace, uint32_t frame, uint64_t bytes) {
  char text[256];
  line_name(trace, frame, text, sizeof text);
  findings_line line = {strdup(text), bytes};
  if (line.name && vec_push(&f->lines, line)) return true;
  free(line.name);
  return false;
}

// Takes over the finding, whatever the outcome.
static bool add_finding(findings *out, finding f, const char *message, bool ok) {
  f.message = ok ? strdup(message) : NULL;
  if (f.message && vec_push(&out->list, f)) return true;
  clear_finding(&f);
  return false;
}

static bool add_duplicates(const reading *r, findings *out) {
  plim_duplicates duplicates;
  char text[320];
  bool ok = plim_find_duplicates(&r->trace, &r->analysis, &duplicates);
  if (!ok) return false;
  for (size_t i = 0; ok && i < duplicates.len; i++) {
    const plim_duplicate *d = &duplicates.at[i];
    finding f = {.bytes = d->wasted_bytes};
    for (size_t c = 0; ok && c < d->copies.len; c++)
      ok = add_line(&f, &r->trace, d->copies.at[c].line, d->copies.at[c].bytes);
    findings_duplicate_text(d, text, sizeof text);
    ok = add_finding(out, f, text, ok);
  }
  plim_duplicates_clear(&duplicates);
  return ok;
}

static bool add_leaks(const reading *r, findings *out) {
  plim_leaks leaks;
  char line[256], text[640];
  bool ok = plim_find_leaks(&r->trace, &r->analysis, &leaks);
  if (!ok) return false;
  for (size_t i = 0; ok && i < leaks.len; i++) {
    const plim_leak *leak = &leaks.at[i];
    uint32_t caller = r->analysis.user_line.at[leak->stack];
    finding f = {.bytes = leak->bytes_per_step};
    ok = add_line(&f, &r->trace, leak->line, leak->bytes);
    if (ok && caller != PLIM_NO_LINE && caller != leak->line)
      ok = add_line(&f, &r->trace, caller, leak->bytes);
    line_name(&r->trace, leak->line, line, sizeof line);
    leak_text(leak, r->analysis.steps.len, line, text, sizeof text);
    ok = add_finding(out, f, text, ok);
  }
  vec_free(&leaks);
  return ok;
}

static plim_err find(const char *snapshot, bool (*add)(const reading *, findings *), findings *out,
                     plim_error *error) {
  reading r = {0};
  *out = (findings){0};
  plim_err err = plim_snapshot_read(snapshot, -1, &r.trace, NULL, error);
  if (err) return err;
  bool ok = plim_trace_link(&r.trace) && plim_trace_analysis_read(&r.trace, &r.analysis);
  if (ok) out->steps = r.analysis.steps.len;
  ok = ok && add(&r, out);
  plim_trace_analysis_clear(&r.analysis);
  plim_trace_clear(&r.trace);
  if (ok) return PLIM_OK;
  findings_clear(out);
  return plim_fail(error, PLIM_ERR_NOMEM,
                   "this machine does not have enough memory for the snapshot");
}

plim_err findings_of_duplicates(const char *snapshot, findings *out, plim_error *error) {
  return find(snapshot, add_duplicates, out, error);
}

plim_err findings_of_leaks(const char *snapshot, findings *out, plim_error *error) {
  return find(snapshot, add_leaks, out, error);
}
