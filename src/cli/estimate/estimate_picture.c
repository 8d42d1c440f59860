#include "estimate_picture.h"

#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "estimate_show.h"
#include "predicted_timeline.h"

// Long-lived memory is at the bottom, short-lived memory on top. Lightness (CIE L*) on a light page, from the bottom:
// 31, 83, 65, 47, 35, 79, 56.
static const picture_layer layers[] = {
    {PLIM_FOR_WEIGHTS, "#264b7a", "#3d6aa3"},   {PLIM_FOR_ADAPTERS, "#a9d6e5", "#b5e0ec"},
    {PLIM_FOR_OPTIMIZER, "#6fa3d8", "#86b4e3"}, {PLIM_FOR_GRADIENTS, "#237c71", "#2f978a"},
    {PLIM_FOR_WORKSPACE, "#5b4590", "#6a52a3"}, {PLIM_FOR_ACTIVATIONS, "#f3bc4e", "#f0b645"},
    {PLIM_FOR_LOGITS, "#d9603b", "#dd6a47"},
};
_Static_assert(sizeof layers / sizeof *layers == PLIM_PURPOSES, "every purpose has a layer");

static void line_name(const void *context, uint32_t line, char *text, size_t size) {
  const plim_predicted_timeline *f = context;
  estimate_holding(&f->lines.at[line], text, size);
}

static void place(const void *context, size_t column, char *text, size_t size) {
  const plim_predicted_timeline *f = context;
  estimate_place(&f->places.at[column], text, size);
}

static const picture_source prediction = {
    .layers = layers,
    .layer_count = sizeof layers / sizeof *layers,
    .part_names = plim_component_names,
    .setup = "loading",
    .entry = "event",
    .line = "tensors",
    .line_name = line_name,
    .place = place,
};

// ---- texts ------------------------------------------------------------------------------------------

enum { TEXT = 256 };

typedef struct {
  char title[TEXT], recipe[TEXT], totals[TEXT], peak[TEXT];
} texts;

enum { LINE = 138 }; // characters that always fit into a line of the picture

static void say_recipe(const estimate_result *r, char *text) {
  job_describe_recipe(&r->request, r->args, text, TEXT);
  size_t used = strlen(text);
  if (!r->args->alloc_conf || used + 12 > LINE) return;
  char conf[TEXT];
  picture_shorten(r->args->alloc_conf, conf, sizeof conf, LINE - used);
  picture_append(text, TEXT, used, ", %s", conf);
}

static void say_verdict(const estimate_result *r, char *text, size_t used) {
  bool is_limited = r->args->limit_bytes != PLIM_UNKNOWN;
  if (!r->e.has_verdict) return;
  used = picture_append(text, TEXT, used, "; %s %s", r->e.fits ? "fits" : "runs out",
                        is_limited ? "under the limit" : "on ");
  if (!is_limited)
    used = picture_append(text, TEXT, used, "%s%s",
                          r->request.is_known_by_size ? "a GPU with " : "", r->request.card);
  if (r->e.fits) return;
  char where[TEXT];
  estimate_place(&r->e.capped.runs_out_at, where, sizeof where);
  picture_append(text, TEXT, used, ": %s", where);
}

static void say(const estimate_result *r, texts *t) {
  const plim_prediction *p = &r->e.p;
  char where[TEXT];
  job_describe_model(&r->request, r->args, t->title, TEXT);
  say_recipe(r, t->recipe);
  size_t used = picture_append(t->totals, TEXT, 0, "%s allocated and %s reserved at most",
                               units_bytes(p->peak_allocated_bytes).text,
                               units_bytes(p->peak_reserved_bytes).text);
  say_verdict(r, t->totals, used);
  estimate_place(&p->peak_at, where, sizeof where);
  picture_append(t->peak, TEXT, 0, "peak %s: %s", units_bytes(p->peak_allocated_bytes).text, where);
}

// ---- the picture ------------------------------------------------------------------------------------

// The phases of the steps. The time before the first step has its name in the row of steps.
static picture_span *name_phases(const plim_predicted_timeline *f, size_t *count) {
  picture_span *spans = cli_alloc((f->phases.len + 1) * sizeof *spans);
  *count = 0;
  for (size_t i = 0; i < f->phases.len; i++) {
    const plim_stretch *s = &f->phases.at[i];
    if (s->phase == PLIM_PHASE_LOAD) continue;
    spans[(*count)++] = (picture_span){s->first, s->end, estimate_phases[s->phase]};
  }
  return spans;
}

static plim_err save(const estimate_result *r, const plim_predicted_timeline *f,
                     const picture_request *wanted, plim_error *error) {
  texts t;
  say(r, &t);
  size_t phase_count;
  picture_span *phases = name_phases(f, &phase_count);
  picture p = {.title = t.title,
               .subtitle = t.recipe,
               .note = t.totals,
               .peak = t.peak,
               .source = &prediction,
               .context = f,
               .timeline = &f->timeline,
               .events = f->events,
               .lines = f->lines.len,
               .steps = f->steps.at,
               .step_count = f->steps.len,
               .phases = phases,
               .phase_count = phase_count,
               .limit_bytes = r->request.target.limit_bytes};
  plim_err err = picture_save(&p, wanted->path, wanted->write, error);
  free(phases);
  return err;
}

plim_err estimate_draw(const void *context, const picture_request *wanted, plim_error *error) {
  const estimate_result *r = context;
  plim_predict_request request = estimate_request(r);
  plim_predicted_timeline f;
  if (!plim_predicted_timeline_make(&request, &r->e.p, wanted->columns, &f))
    return plim_fail(error, PLIM_ERR_NOMEM, "not enough memory to draw %s", wanted->path);
  plim_err err = save(r, &f, wanted, error);
  plim_predicted_timeline_clear(&f);
  return err;
}
