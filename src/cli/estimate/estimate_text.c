#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "estimate_show.h"
#include "show_notes.h"
#include "term.h"
#include "units.h"

static double percent(uint64_t bytes, uint64_t whole) {
  return whole ? 100 * (double)bytes / (double)whole : 0;
}

// ---- the verdict ------------------------------------------------------------------------------------

static void print_subject(const estimate_result *r) {
  char text[256];
  size_t width = (size_t)term_width(stdout);
  job_describe_model(&r->request, r->args, text, sizeof text);
  if (strlen(text) > width) term_wrap(stdout, text, 0, 0, width);
  else term_print(stdout, TERM_BOLD, "%s\n", text);
  job_describe_recipe(&r->request, r->args, text, sizeof text);
  term_wrap(stdout, text, 0, 0, width);
  notes_print_assumptions(stdout, &r->request.notes);
  notes_print(stdout, &r->request.notes);
}

static void print_fit(const plim_estimate *e, const char *card, bool errs_low) {
  char text[384], spare[128] = "", tight[96] = "";
  if (e->budget_bytes > e->device_bytes)
    snprintf(
        spare, sizeof spare, ", %s to spare%s",
        units_bytes(errs_low ? estimate_spare_bytes(e) : e->budget_bytes - e->device_bytes).text,
        errs_low ? " for what is not modelled (see the notes)" : "");
  if (e->budget_bytes <
      e->device_bytes) // only with --limit, which PyTorch compares before rounding
    snprintf(spare, sizeof spare,
             ", and %s more: PyTorch checks the limit before it rounds up to whole pages",
             units_bytes(e->device_bytes - e->budget_bytes).text);
  else if (e->interval_bytes[1] > e->budget_bytes)
    snprintf(tight, sizeof tight, "; with the error margin it may need %s, so it may not fit",
             units_bytes(e->interval_bytes[1]).text);
  snprintf(text, sizeof text, "%s of the %s available%s%s%s", units_bytes(e->device_bytes).text,
           units_bytes(e->budget_bytes).text, card, spare, tight);
  term_print(stdout, TERM_GREEN, "FITS");
  printf("  ");
  term_say(stdout, text, 6, 6);
}

// "RTX 4090 has 23.5 GiB available", or "24.0 GiB are available" for a card known by its size.
static void available_text(const estimate_result *r, char *text, size_t size) {
  units_text budget = units_bytes(r->e.budget_bytes);
  const job_request *request = &r->request;
  bool is_limited = r->args->limit_bytes != PLIM_UNKNOWN;
  if (!*request->card || request->is_known_by_size || is_limited)
    snprintf(text, size, "%s are available", budget.text);
  else snprintf(text, size, "%s has %s available", request->card, budget.text);
}

static bool errs_low(const plim_notes *notes) {
  return plim_notes_err_low(notes) || plim_notes_err_either(notes);
}

static void print_misfit(const estimate_result *r) {
  const plim_estimate *e = &r->e;
  char text[512], needs[ESTIMATE_NEEDS_SIZE], available[192], short_by[64] = "";
  char loading[ESTIMATE_LOADING_SIZE], growth[ESTIMATE_LOADING_SIZE];
  uint64_t needed = estimate_needed_bytes(e);
  estimate_needs(e, needs, sizeof needs);
  available_text(r, available, sizeof available);
  if (needed > e->budget_bytes && !estimate_is_endless(e))
    snprintf(short_by, sizeof short_by, " (%s short)", units_bytes(needed - e->budget_bytes).text);
  bool errs_high = estimate_may_fit(e, plim_notes_saved(&r->request.notes));
  char other[80] = "";
  if (errs_high)
    snprintf(other, sizeof other, "; but the run may need %s than predicted (see the notes)",
             estimate_other(errs_low(&r->request.notes)));
  snprintf(text, sizeof text, "%sneeds %s; %s%s%s", errs_high ? "as predicted: " : "", needs,
           available, short_by, other);
  term_print(stdout, TERM_RED, "DOES NOT FIT");
  printf("  ");
  term_say(stdout, text, 14, 14);
  estimate_loading(e, &r->request.job, r->request.load_help, loading, sizeof loading);
  if (*loading) term_say(stdout, loading, 0, 0);
  estimate_growth(e, growth, sizeof growth);
  if (*growth) term_say(stdout, growth, 0, 0);
}

static void print_verdict(const estimate_result *r) {
  const plim_estimate *e = &r->e;
  char card[160] = "";
  if (*r->request.card && !r->request.is_known_by_size)
    snprintf(card, sizeof card, " on %s", r->request.card);
  printf("\n");
  if (!e->has_verdict)
    printf("needs %s; to see whether it fits, name a GPU: --gpu 4090\n",
           units_bytes(e->device_bytes).text);
  else if (e->fits) print_fit(e, card, errs_low(&r->request.notes));
  else print_misfit(r);
}

// ---- the bar ----------------------------------------------------------------------------------------

// One letter per line of the budget, so that the bar reads without colour.
static const char letters[PLIM_COMPONENTS + 1] = "WAGOalw~C";

static void print_bar(const plim_estimate *estimate) {
  const plim_estimate shown = estimate_shown(estimate), *e = &shown;
  int width = term_width(stdout) - 4;
  if (width > 76) width = 76;
  bool is_known = e->budget_bytes != PLIM_UNKNOWN;
  uint64_t whole =
      is_known && e->budget_bytes > e->device_bytes ? e->budget_bytes : e->device_bytes;
  double scale = (double)width / (double)whole, end = 0;
  int at = 0, mark = is_known ? (int)((double)e->budget_bytes * scale) : width;
  printf("\n");
  if (plim_fails_loading(estimate)) term_print(stdout, TERM_BOLD, "in a training step\n");
  printf("  [");
  for (int i = 0; i < PLIM_COMPONENTS; i++) {
    end += (double)e->component_bytes[i] * scale;
    for (; at < (int)(end + 0.5) && at < width; at++) putchar(at == mark ? '|' : letters[i]);
  }
  for (; at < width; at++) putchar('.');
  printf("]\n");
}

// ---- the budget -------------------------------------------------------------------------------------

static void about(const estimate_result *r, int component, char *text, size_t size) {
  const plim_estimate *e = &r->e;
  *text = 0;
  switch (component) {
  case PLIM_FOR_WEIGHTS:
    snprintf(text, size, "%s parameters",
             units_count(e->p.parameters - (r->request.job.lora.rank ? e->p.trainable : 0)).text);
    break;
  case PLIM_FOR_ADAPTERS:
    snprintf(text, size, "%s trained parameters", units_count(e->p.trainable).text);
    break;
  case PLIM_COMPONENT_FRAGMENTATION:
    snprintf(text, size, "reserved by the allocator, unused at the peak");
    break;
  case PLIM_COMPONENT_CONTEXT: snprintf(text, size, "CUDA and its kernels"); break;
  default: break;
  }
}

static void print_budget(const estimate_result *r) {
  static const term_column columns[] = {
      {""}, {""}, {"", .right = true}, {"", .right = true}, {"", .wraps = true}};
  const plim_estimate shown = estimate_shown(&r->e), *e = &shown;
  term_table *t = term_table_new(columns, 5);
  for (int i = 0; i < PLIM_COMPONENTS; i++) {
    char text[96];
    about(r, i, text, sizeof text);
    bool is_small = e->component_bytes[i] < PLIM_MIB; // such as a loss alone
    if (!e->component_bytes[i] || (is_small && !*text)) continue;
    term_table_cell(t, TERM_DIM, " %c", letters[i]);
    term_table_cell(t, TERM_PLAIN, "%s", plim_component_names[i]);
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(e->component_bytes[i]).text);
    term_table_cell(t, TERM_DIM, "%.0f %%", percent(e->component_bytes[i], e->device_bytes));
    term_table_cell(t, TERM_DIM, "%s", text);
  }
  term_table_cell(t, TERM_PLAIN, "%s", "");
  term_table_cell(t, TERM_BOLD, "total");
  term_table_cell(t, TERM_BOLD, "%s", units_bytes(e->device_bytes).text);
  term_table_cell(t, TERM_DIM, "%s", "");
  if (estimate_is_endless(&r->e))
    term_table_cell(t, TERM_DIM, "in use; reserved memory keeps growing");
  else if (e->device_bytes < r->e.device_bytes)
    term_table_cell(t, TERM_DIM, "in a training step; loading needs more");
  else
    term_table_cell(t, TERM_DIM, "between %s and %s", units_bytes(e->interval_bytes[0]).text,
                    units_bytes(e->interval_bytes[1]).text);
  printf("\n");
  term_table_print(t, stdout);
  term_table_free(t);
}

// ---- other facts ------------------------------------------------------------------------------------

// Prints a line that is wrapped on a narrow terminal.
__attribute__((format(printf, 1, 2))) static void print_fact(const char *format, ...) {
  char line[ESTIMATE_LOADING_SIZE];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  term_say(stdout, line, 0, 2);
}

static void print_facts(const estimate_result *r) {
  const plim_estimate *e = &r->e;
  char text[128];
  estimate_place(&e->p.peak_at, text, sizeof text);
  printf("\n");
  bool runs_out = e->has_verdict && !e->fits;
  print_fact("peak%s: %s allocated, %s reserved, %s %s",
             runs_out ? " on a GPU with enough memory" : "",
             units_bytes(e->p.peak_allocated_bytes).text,
             units_bytes(e->p.peak_reserved_bytes).text, estimate_place_word(&e->p.peak_at), text);
  if (e->p.host_bytes) print_fact("host memory: %s per GPU", units_bytes(e->p.host_bytes).text);
  if (e->p.retries)
    print_fact(
        "allocation retries: %s; each releases cached memory to the driver, which costs time",
        units_count(e->p.retries).text);
  if (runs_out) {
    estimate_place(&e->capped.runs_out_at, text, sizeof text);
    print_fact("out of memory on this GPU: %s %s, which requests another %s",
               estimate_place_word(&e->capped.runs_out_at), text,
               units_bytes(e->capped.runs_out_bytes).text);
  }
  if (!isnan(e->step_seconds))
    print_fact("time: %s per step, %s tokens per second%s", units_seconds(e->step_seconds).text,
               units_count((uint64_t)e->tokens_per_second).text,
               r->request.target.gpu && (r->request.is_known_by_size || !*r->request.card)
                   ? " (for an H200)"
                   : "");
}

// The fused kernels need Ampere (compute capability 8.0) for bf16.
static bool is_too_old_for_bf16(const job_request *request) {
  plim_job runs = plim_job_in_effect(&request->job);
  plim_dtype computes =
      runs.recipe.autocast != PLIM_BOOL ? runs.recipe.autocast : (plim_dtype)runs.dtype;
  return request->target.gpu && request->target.gpu->capability < 80 && computes == PLIM_BF16;
}

static void print_warnings(const estimate_result *r) {
  char line[320];
  if (!r->e.p.ran_math) return;
  bool is_bf16 = is_too_old_for_bf16(&r->request);
  snprintf(line, sizeof line,
           "PyTorch has no fused attention kernel for %s%s, so the whole score matrix is kept in "
           "memory%s",
           is_bf16 ? "bf16 on " : "this combination of head size, dtype and attention bias",
           is_bf16 ? r->request.target.gpu->name : "",
           is_bf16 ? "; fp16 has one: --dtype fp16 or --amp fp16" : "");
  term_print(stdout, TERM_YELLOW, "warning: ");
  term_wrap(stdout, line, 9, 9, (size_t)term_width(stdout));
}

static void print_unverified(const plim_estimate *e) {
  for (size_t i = 0; i < e->unverified_count; i++) {
    term_print(stdout, TERM_YELLOW, "unverified: ");
    term_wrap(stdout, e->unverified[i], 12, 12, (size_t)term_width(stdout));
  }
}

// ---- what holds the peak ----------------------------------------------------------------------------

enum { SHOWN = 20 };

static void shape_text(const plim_holding *h, char *text, size_t size) {
  static const char *const names[PLIM_DTYPE_COUNT] = {"bool", "uint8", "int32", "int64",
                                                      "bf16", "fp16",  "fp32",  "fp64"};
  *text = 0;
  if (!h->shape.n) return; // the tensors have several shapes
  size_t used = (size_t)snprintf(text, size, "%s (", names[h->dtype]);
  for (int i = 0; i < h->shape.n && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%" PRIi64, i ? ", " : "", h->shape.at[i]);
  if (used < size) snprintf(text + used, size - used, ")");
}

static void holder_text(const plim_holding *h, char *text, size_t size) {
  const char *what = h->place.what ? h->place.what : plim_component_names[h->purpose];
  if (h->is_in_layers) snprintf(text, size, "%s of the layers", what);
  else if (h->place.layer >= 0) snprintf(text, size, "%s of layer %d", what, (int)h->place.layer);
  else snprintf(text, size, "%s", what);
}

void estimate_holding(const plim_holding *h, char *text, size_t size) {
  char name[96], shape[96];
  holder_text(h, name, sizeof name);
  shape_text(h, shape, sizeof shape);
  snprintf(text, size, "%s%s%s", name, *shape ? ", " : "", shape);
}

static void print_holders(const estimate_result *r) {
  static const term_column columns[] = {{"bytes", .right = true},
                                        {"tensors", .right = true},
                                        {"purpose"},
                                        {"dtype and shape"},
                                        {"allocated by", .wraps = true}};
  if (!r->holders.len) return;
  term_table *t = term_table_new(columns, 5);
  for (size_t i = 0; i < r->holders.len && i < SHOWN; i++) {
    const plim_holding *h = &r->holders.at[i];
    char shape[96], place[96];
    shape_text(h, shape, sizeof shape);
    holder_text(h, place, sizeof place);
    term_table_cell(t, TERM_PLAIN, "%s", units_bytes(h->bytes).text);
    term_table_cell(t, TERM_PLAIN, "%s", units_count(h->count).text);
    term_table_cell(t, TERM_PLAIN, "%s", plim_component_names[h->purpose]);
    term_table_cell(t, TERM_PLAIN, "%s", shape);
    term_table_cell(t, TERM_PLAIN, "%s", place);
  }
  printf("\n");
  term_print(stdout, TERM_BOLD, "largest tensors at the peak\n");
  term_table_print(t, stdout);
  term_table_free(t);
}

void estimate_print_text(const estimate_result *r) {
  print_subject(r);
  print_verdict(r);
  print_bar(&r->e);
  print_budget(r);
  print_facts(r);
  print_warnings(r);
  print_unverified(&r->e);
  print_holders(r);
}
