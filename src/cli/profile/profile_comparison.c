// The difference between what was predicted and what was measured, and its reasons.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profile_report.h"
#include "term.h"
#include "units.h"

static void sentence(const char *text) {
  term_wrap(stdout, text, 0, 2, (size_t)term_width(stdout));
}

// "+1.20 GiB (+3.1 %)", "equal".
static void difference_text(uint64_t predicted, uint64_t measured, char *text, size_t size) {
  if (predicted == PLIM_UNKNOWN || measured == PLIM_UNKNOWN) {
    snprintf(text, size, "unknown");
    return;
  }
  uint64_t distance = measured > predicted ? measured - predicted : predicted - measured;
  if (!distance) {
    snprintf(text, size, "equal");
    return;
  }
  char sign = measured > predicted ? '+' : '-';
  int used = snprintf(text, size, "%c%s", sign, units_bytes(distance).text);
  if (predicted)
    snprintf(text + used, size - (size_t)used, " (%c%.1f %%)", sign,
             100 * (double)distance / (double)predicted);
}

static void row(term_table *t, const char *name, uint64_t predicted, uint64_t measured) {
  char text[80];
  difference_text(predicted, measured, text, sizeof text);
  term_table_cell(t, TERM_PLAIN, "%s", name);
  term_table_cell(t, TERM_PLAIN, "%s", units_bytes(predicted).text);
  term_table_cell(t, TERM_PLAIN, "%s", units_bytes(measured).text);
  term_table_cell(t, TERM_PLAIN, "%s", text);
}

static void time_row(term_table *t, double predicted, double measured) {
  if (isnan(predicted) || isnan(measured)) return;
  term_table_cell(t, TERM_PLAIN, "time per step");
  term_table_cell(t, TERM_PLAIN, "%s", units_seconds(predicted).text);
  term_table_cell(t, TERM_PLAIN, "%s", units_seconds(measured).text);
  term_table_cell(t, TERM_PLAIN, "%+.1f %%",
                  predicted > 0 ? 100 * (measured - predicted) / predicted : 0);
}

static void kind_rows(term_table *t, const compare_side *a, const compare_side *b) {
  bool has_kinds = a->has_kinds && b->has_kinds && a->allocated_bytes != b->allocated_bytes;
  for (size_t i = 0; i < COMPARE_KINDS && has_kinds; i++) {
    char name[64];
    snprintf(name, sizeof name, "  %s", compare_kind_names[i]);
    if (a->kind_bytes[i] || b->kind_bytes[i]) row(t, name, a->kind_bytes[i], b->kind_bytes[i]);
  }
}

static void print_totals(const compare_side *a, const compare_side *b) {
  const term_column columns[] = {
      {""}, {a->made, .right = true}, {b->made, .right = true}, {"difference", .right = true}};
  term_table *t = term_table_new(columns, 4);
  row(t, "peak allocated", a->allocated_bytes, b->allocated_bytes);
  kind_rows(t, a, b);
  row(t, "peak reserved", a->reserved_bytes, b->reserved_bytes);
  row(t, "CUDA and its libraries", a->outside_bytes, b->outside_bytes);
  time_row(t, a->step_seconds, b->step_seconds);
  term_table_print(t, stdout);
  term_table_free(t);
}

static void print_lines(const profile_report *r) {
  const compare_side *a = &r->predicted, *b = &r->measured;
  const comparison *c = &r->difference;
  const term_column columns[] = {{"difference", .right = true},
                                 {a->made, .right = true},
                                 {b->made, .right = true},
                                 {"line that holds it at the peak", .shrinks = true}};
  if (a->allocated_bytes == b->allocated_bytes || !c->rows.len) return;
  term_table *t = term_table_new(columns, 4);
  for (size_t i = 0; i < c->rows.len && i < r->top; i++) {
    const compare_row *x = &c->rows.at[i];
    bool is_more = x->measured_bytes > x->predicted_bytes;
    uint64_t distance =
        is_more ? x->measured_bytes - x->predicted_bytes : x->predicted_bytes - x->measured_bytes;
    term_table_cell(t, TERM_PLAIN, "%c%s", is_more ? '+' : '-', units_bytes(distance).text);
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(x->predicted_bytes).text);
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(x->measured_bytes).text);
    term_table_cell(t, TERM_PLAIN, "%s", x->where);
  }
  printf("\n");
  term_table_print(t, stdout);
  term_table_free(t);
  if (c->rows.len > r->top)
    printf("and %zu more: --top %zu\n", c->rows.len - (size_t)r->top, c->rows.len);
}

// ---- reasons ----------------------------------------------------------------------------------------

// Counts as people read them.
static units_text readable(const char *value) {
  units_text text;
  uint64_t count;
  if (!units_parse_u64(value, &count, NULL)) return units_count(count);
  snprintf(text.text, sizeof text.text, "%s", value);
  return text;
}

static void print_others(const compare_others *others, const compare_side *a,
                         const compare_side *b) {
  char line[400];
  for (size_t i = 0; i < others->len; i++) {
    const compare_other *x = &others->at[i];
    snprintf(line, sizeof line, "- %.60s: %s %s, %s %s", x->name, a->made,
             readable(x->predicted).text, b->made, readable(x->measured).text);
    sentence(line);
  }
}

static void print_steps(const compare_side *a, const compare_side *b) {
  char line[240];
  if (!a->steps || !b->steps || a->steps == b->steps) return;
  snprintf(line, sizeof line,
           "- steps: %s %llu, %s %llu; with more steps, a longer batch or a leak can appear",
           a->made, (unsigned long long)a->steps, b->made, (unsigned long long)b->steps);
  sentence(line);
}

static void print_peak_at(const compare_side *a, const compare_side *b) {
  char line[600];
  if (!a->peak_at || !b->peak_at || strcmp(a->peak_at, b->peak_at) == 0) return;
  snprintf(line, sizeof line, "- the peak of allocated memory: %s at %.200s; %s at %.200s", a->made,
           a->peak_at, b->made, b->peak_at);
  sentence(line);
}

// With the same requests PyTorch allocates the same; what it reserves also depends on where free blocks lie.
static void print_reserved(const compare_side *a, const compare_side *b) {
  if (a->allocated_bytes != b->allocated_bytes || a->reserved_bytes == b->reserved_bytes) return;
  if (a->retries != b->retries && a->retries != PLIM_UNKNOWN && b->retries != PLIM_UNKNOWN)
    sentence("- reserved memory: PyTorch returned cached memory to the driver in only one of the "
             "two, because the GPU was full (retries)");
  else
    sentence("- reserved memory: the program allocated the same, but the driver placed segments at "
             "other addresses, so free blocks were reused differently (fragmentation)");
}

static bool is_other(uint64_t a, uint64_t b) {
  return a != b && a != PLIM_UNKNOWN && b != PLIM_UNKNOWN;
}

static void print_reasons(const profile_report *r) {
  const compare_side *a = &r->predicted, *b = &r->measured;
  const comparison *c = &r->difference;
  bool is_equal =
      a->allocated_bytes == b->allocated_bytes && a->reserved_bytes == b->reserved_bytes;
  bool has_outside = is_other(a->outside_bytes, b->outside_bytes);
  bool has_reason =
      c->versions.len || c->observed.len || (a->steps && b->steps && a->steps != b->steps);
  printf("\n");
  if (is_equal) sentence("PyTorch allocated and reserved the same, to the byte.");
  if (is_equal && !has_outside && !has_reason) return;
  printf("What differs:\n");
  print_others(&c->versions, a, b);
  print_others(&c->observed, a, b);
  print_steps(a, b);
  if (a->allocated_bytes != b->allocated_bytes) print_peak_at(a, b);
  print_reserved(a, b);
  if (has_outside)
    sentence("- CUDA and its libraries: what they use depends on the driver, on the kernels that "
             "were loaded and on NCCL's buffers; a prediction uses a typical value for the GPU");
  if (a->allocated_bytes != b->allocated_bytes && !has_reason)
    sentence("- allocated memory: versions, model, batch and steps are the same, as far as both "
             "results show them; the lines above show where the difference comes from");
}

void profile_print_comparison(const profile_report *r) {
  char line[700];
  printf("\n");
  term_print(stdout, TERM_BOLD, "Comparison\n");
  snprintf(line, sizeof line, "%s: %s", r->predicted.made, r->against);
  sentence(line);
  print_totals(&r->predicted, &r->measured);
  print_lines(r);
  print_reasons(r);
}
