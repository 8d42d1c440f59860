#include "estimate_result.h"
#include "show_notes.h"

static const char *const phases[PLIM_PHASES] = {"load", "forward", "backward", "optimizer"};

static void place(json_writer *j, const char *key, const plim_program_point *p) {
  json_object(j, key);
  json_i64(j, "step", p->step + 1);
  json_string(j, "phase", phases[p->phase]);
  json_bool(j, "is_recomputed", p->is_recomputed);
  if (p->layer >= 0) json_i64(j, "layer", p->layer);
  else json_null(j, "layer");
  json_string(j, "what", p->what);
  json_end(j);
}

void estimate_json_members(json_writer *j, const plim_estimate *e) {
  if (e->has_verdict) json_bool(j, "fits", e->fits);
  else json_null(j, "fits");
  json_bytes(j, "peak_allocated_bytes", e->p.peak_allocated_bytes);
  json_bytes(j, "peak_reserved_bytes", e->p.peak_reserved_bytes);
  json_bytes(j, "loaded_bytes", e->p.loaded_bytes);
  json_bytes(j, "context_bytes", e->context_bytes);
  json_bytes(j, "device_bytes", e->device_bytes);
  json_bytes(j, "budget_bytes", e->budget_bytes);
  json_array(j, "interval_bytes");
  json_bytes(j, NULL, e->interval_bytes[0]);
  json_bytes(j, NULL, e->interval_bytes[1]);
  json_end(j);
  json_bytes(j, "host_bytes", e->p.host_bytes);
  json_number(j, "step_seconds", e->step_seconds);
  json_number(j, "tokens_per_second", e->tokens_per_second);
  place(j, "peak_at", &e->p.peak_at);
  if (e->has_verdict && !e->fits) place(j, "runs_out_at", &e->capped.runs_out_at);
  else json_null(j, "runs_out_at");
  json_object(j, "components");
  for (int i = 0; i < PLIM_COMPONENTS; i++)
    json_bytes(j, plim_component_names[i], e->component_bytes[i]);
  json_end(j);
  json_bool(j, "runs_math_attention", e->p.ran_math);
  json_u64(j, "retries", e->p.retries);
  json_array(j, "unverified");
  for (size_t i = 0; i < e->unverified_count; i++) json_string(j, NULL, e->unverified[i]);
  json_end(j);
  json_u64(j, "params", e->p.parameters);
  json_u64(j, "trainable", e->p.trainable);
}

static void holders(json_writer *j, const plim_holders *h) {
  json_array(j, "holders");
  for (size_t i = 0; i < h->len; i++) {
    const plim_holding *x = &h->at[i];
    json_object(j, NULL);
    json_bytes(j, "bytes", x->bytes);
    json_u64(j, "tensors", x->count);
    json_string(j, "component", plim_component_names[x->purpose]);
    json_array(j, "shape");
    for (int k = 0; k < x->shape.n; k++) json_i64(j, NULL, x->shape.at[k]);
    json_end(j);
    place(j, "made_at", &x->place);
    json_end(j);
  }
  json_end(j);
}

void estimate_print_json(const estimate_result *r) {
  json_writer j = json_begin(stdout);
  json_object(&j, NULL);
  json_u64(&j, "format_version", 1);
  json_string(&j, "model", r->args->model);
  json_string_or_null(&j, "gpu", r->request.card);
  estimate_json_members(&j, &r->e);
  json_array(&j, "notes");
  notes_write(&j, &r->request.notes);
  json_end(&j);
  if (r->holders.len) holders(&j, &r->holders);
  json_end(&j);
  json_finish(&j);
}
