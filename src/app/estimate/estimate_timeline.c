#include "estimate_result.h"
#include "predicted_timeline.h"

typedef uint64_t quantity(const plim_timeline_column *column);

static uint64_t instant(const plim_timeline_column *c) { return c->instant; }
static uint64_t step(const plim_timeline_column *c) { return c->step; }
static uint64_t reserved(const plim_timeline_column *c) { return c->reserved_bytes; }
static uint64_t allocated(const plim_timeline_column *c) { return c->allocated_bytes; }

static void put_numbers(json_writer *j, const char *key, const plim_timeline *t, quantity *of) {
  jsonw_array(j, key);
  for (size_t i = 0; i < t->columns.len; i++) jsonw_u64(j, NULL, of(&t->columns.at[i]));
  jsonw_end(j);
}

static void put_parts(json_writer *j, const plim_timeline *t) {
  jsonw_object(j, "parts");
  for (int part = 0; part < PLIM_PURPOSES; part++) {
    jsonw_array(j, plim_component_names[part]);
    for (size_t i = 0; i < t->columns.len; i++)
      jsonw_u64(j, NULL, t->columns.at[i].part_bytes[part]);
    jsonw_end(j);
  }
  jsonw_end(j);
}

static void put_places(json_writer *j, const plim_predicted_timeline *f) {
  char text[160];
  jsonw_array(j, "place");
  for (size_t i = 0; i < f->places.len; i++) {
    estimate_place(&f->places.at[i], text, sizeof text);
    jsonw_string(j, NULL, text);
  }
  jsonw_end(j);
}

// The phases of the steps: the columns in which they begin and end, with fractions.
static void put_phases(json_writer *j, const plim_predicted_timeline *f) {
  double scale = f->events ? (double)f->timeline.columns.len / (double)f->events : 0;
  jsonw_array(j, "phases");
  for (size_t i = 0; i < f->phases.len; i++) {
    const plim_stretch *s = &f->phases.at[i];
    jsonw_object(j, NULL);
    jsonw_string(j, "phase", estimate_phases[s->phase]);
    jsonw_number(j, "first", (double)s->first * scale);
    jsonw_number(j, "end", (double)s->end * scale);
    jsonw_end(j);
  }
  jsonw_end(j);
}

void estimate_json_timeline(json_writer *j, const estimate_result *r) {
  plim_predict_request request = estimate_request(r);
  plim_predicted_timeline f;
  if (!plim_predicted_timeline_make(&request, &r->e.p, r->columns, &f)) {
    jsonw_no_memory(j);
    return;
  }
  const plim_timeline *t = &f.timeline;
  jsonw_object(j, "timeline");
  jsonw_u64(j, "events", f.events);
  jsonw_u64(j, "columns", t->columns.len);
  jsonw_u64(j, "peak", t->peak);
  jsonw_bytes(j, "limit_bytes", r->request.target.limit_bytes);
  put_numbers(j, "event", t, instant);
  put_numbers(j, "step", t, step);
  put_numbers(j, "reserved_bytes", t, reserved);
  put_numbers(j, "allocated_bytes", t, allocated);
  put_parts(j, t);
  put_places(j, &f);
  put_phases(j, &f);
  jsonw_end(j);
  plim_predicted_timeline_clear(&f);
}
