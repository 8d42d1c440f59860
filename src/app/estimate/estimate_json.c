#include "estimate_result.h"
#include "job_as_options.h"
#include "notes_json.h"
#include "option_values.h"

static const char *const phases[PLIM_PHASES] = {"load", "forward", "backward", "optimizer"};

static void place(json_writer *j, const char *key, const plim_program_point *p) {
  jsonw_object(j, key);
  jsonw_i64(j, "step", p->step + 1);
  jsonw_string(j, "phase", phases[p->phase]);
  jsonw_bool(j, "is_recomputed", p->is_recomputed);
  if (p->layer >= 0) jsonw_i64(j, "layer", p->layer);
  else jsonw_null(j, "layer");
  jsonw_string(j, "what", p->what);
  jsonw_end(j);
}

void estimate_json_members(json_writer *j, const plim_estimate *e) {
  if (e->has_verdict) jsonw_bool(j, "fits", e->fits);
  else jsonw_null(j, "fits");
  jsonw_bytes(j, "peak_allocated_bytes", e->p.peak_allocated_bytes);
  jsonw_bytes(j, "peak_reserved_bytes", e->p.peak_reserved_bytes);
  jsonw_bytes(j, "loaded_bytes", e->p.loaded_bytes);
  jsonw_bytes(j, "context_bytes", e->context_bytes);
  jsonw_bytes(j, "device_bytes", e->device_bytes);
  jsonw_bytes(j, "needed_bytes", plim_needed_bytes(e)); // loading included
  // With settings under which reserved memory keeps growing, there is no such number; then this is what is in use.
  uint64_t in_use = estimate_is_endless(e) ? estimate_needed_bytes(e) : PLIM_UNKNOWN;
  jsonw_bytes(j, "at_least_bytes", in_use);
  jsonw_bytes(j, "budget_bytes", e->budget_bytes);
  jsonw_array(j, "interval_bytes");
  jsonw_bytes(j, NULL, e->interval_bytes[0]);
  jsonw_bytes(j, NULL, e->interval_bytes[1]);
  jsonw_end(j);
  jsonw_bytes(j, "host_bytes", e->p.host_bytes);
  jsonw_number(j, "step_seconds", e->step_seconds);
  jsonw_number(j, "tokens_per_second", e->tokens_per_second);
  place(j, "peak_at", &e->p.peak_at);
  if (e->has_verdict && !e->fits) place(j, "runs_out_at", &e->capped.runs_out_at);
  else jsonw_null(j, "runs_out_at");
  jsonw_object(j, "components");
  for (int i = 0; i < PLIM_COMPONENTS; i++)
    jsonw_bytes(j, plim_component_names[i], e->component_bytes[i]);
  jsonw_end(j);
  jsonw_bool(j, "runs_math_attention", e->p.ran_math);
  jsonw_u64(j, "retries", e->p.retries);
  jsonw_array(j, "unverified");
  for (size_t i = 0; i < e->unverified_count; i++) jsonw_string(j, NULL, e->unverified[i]);
  jsonw_end(j);
  jsonw_u64(j, "params", e->p.parameters);
  jsonw_u64(j, "trainable", e->p.trainable);
}

static void holders(json_writer *j, const plim_holdings *h) {
  jsonw_array(j, "holders");
  for (size_t i = 0; i < h->len; i++) {
    const plim_holding *x = &h->at[i];
    jsonw_object(j, NULL);
    jsonw_bytes(j, "bytes", x->bytes);
    jsonw_u64(j, "tensors", x->count);
    jsonw_string(j, "component", plim_component_names[x->purpose]);
    jsonw_array(j, "shape");
    for (int k = 0; k < x->shape.n; k++) jsonw_i64(j, NULL, x->shape.at[k]);
    jsonw_end(j);
    place(j, "made_at", &x->place);
    jsonw_end(j);
  }
  jsonw_end(j);
}

// Versions of the libraries, and where each comes from; null: nothing says, and the measured one is assumed.
void estimate_json_versions(json_writer *j, const job_args *args, const plim_versions *versions) {
  jsonw_object(j, "versions");
  for (int i = 0; i < PLIM_LIBRARIES; i++) {
    char place[300];
    plim_library library = (plim_library)i;
    jsonw_object(j, plim_library_names[i]);
    jsonw_string(j, "version", plim_release_words(plim_versions_used(versions, library)).text);
    const char *origin = job_version_origin(args, library, place, sizeof place);
    if (origin) jsonw_string(j, "from", origin);
    else jsonw_null(j, "from");
    jsonw_end(j);
  }
  jsonw_end(j);
}

// The memory with other versions, which the interval holds; empty if the versions are known.
static void other_versions(json_writer *j, const estimate_result *r) {
  jsonw_array(j, "other_versions");
  for (size_t i = 0; i < r->others.count; i++) {
    const plim_version_need *x = &r->others.at[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "transformers", plim_release_words(x->versions.transformers).text);
    jsonw_string(j, "torch", plim_release_words(x->versions.torch).text);
    jsonw_bytes(j, "device_bytes", x->device_bytes);
    jsonw_end(j);
  }
  jsonw_end(j);
}

void estimate_write(json_writer *j, const void *result) {
  const estimate_result *r = result;
  jsonw_object(j, NULL);
  jsonw_u64(j, "format_version", 1);
  jsonw_string(j, "model", job_model_word(r->args));
  jsonw_string_or_null(j, "gpu", r->request.card);
  estimate_json_versions(j, r->args, &r->request.job.versions);
  estimate_json_members(j, &r->e);
  const plim_notes *notes = &r->request.notes;
  bool errs_either = plim_notes_err_either(notes);
  jsonw_bool(j, "errs_low", errs_either || plim_notes_err_low(notes));
  jsonw_bool(j, "errs_high", plim_notes_saved(notes) != 0);
  jsonw_array(j, "notes");
  notes_write(j, notes);
  jsonw_end(j);
  other_versions(j, r);
  if (r->holders.len) holders(j, &r->holders);
  if (r->columns) estimate_json_timeline(j, r);
  jsonw_end(j);
}

// ---- options as a request ----

static void put_member(json_writer *j, const cli_option *o, const void *at) {
  char name[64];
  cli_member_name(o, name, sizeof name);
  switch (o->kind) {
  case CLI_FLAG: jsonw_bool(j, name, true); break;
  case CLI_UINT:
  case CLI_BYTES: jsonw_u64(j, name, *(const uint64_t *)at); break;
  case CLI_NUMBER: jsonw_number(j, name, *(const double *)at); break;
  case CLI_CHOICE: jsonw_string(j, name, o->choices[*(const int *)at]); break;
  default: jsonw_string(j, name, *(const char *const *)at); break;
  }
}

void estimate_json_options(json_writer *j, const char *name, const job_args *a) {
  jsonw_object(j, name);
  for (const cli_option *o = job_own_options; o->name; o++)
    if (!job_option_is_usual(o, a)) put_member(j, o, (const char *)a + o->offset);
  jsonw_end(j);
}
