// Memory over time of a recorded run, as a picture.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "runs_show.h"

typedef struct {
  const history_found *found;
  vec(const history_sample *) samples; // of the rank that is drawn
} drawn;

static const char *const part_names[PLIM_TIMELINE_PARTS] = {"allocated after a step"};
static const picture_layer layers[] = {{0, "#264b7a", "#3d6aa3"}};

static double seconds_at(const void *context, size_t event) {
  const drawn *d = context;
  size_t last = d->samples.len - 1;
  return d->samples.at[event < last ? event : last]->time - d->found->runs.at[0].began;
}

static const history_sample *sample_of(const drawn *d, size_t columns, size_t column) {
  return d->samples.at[column * d->samples.len / columns];
}

static void place(const void *context, size_t column, char *text, size_t size) {
  const drawn *d = context;
  size_t columns = d->samples.len < SVG_COLUMNS ? d->samples.len : SVG_COLUMNS;
  const history_sample *s = sample_of(d, columns, column < columns ? column : columns - 1);
  if (s->step == PLIM_UNKNOWN || !s->step) snprintf(text, size, "before the first step");
  else snprintf(text, size, "step %llu", (unsigned long long)s->step);
}

static const picture_source recorded = {
    .layers = layers,
    .layer_count = 1,
    .part_names = part_names,
    .setup = "loading",
    .entry = "sample",
    .line = "line",
    .seconds_at = seconds_at,
    .place = place,
};

static uint64_t known(uint64_t bytes) { return bytes == PLIM_UNKNOWN ? 0 : bytes; }

// Each column has the sample with the most allocated memory of those that it stands for.
static plim_timeline timeline_of(const drawn *d, size_t columns) {
  plim_timeline t = {.first_oom_event = PLIM_UNKNOWN};
  size_t count = d->samples.len < columns ? d->samples.len : columns;
  for (size_t i = 0; i < count; i++) {
    plim_timeline_column c = {.first_event = i * d->samples.len / count,
                              .end_event = (i + 1) * d->samples.len / count};
    for (size_t k = c.first_event; k < c.end_event; k++) {
      const history_sample *s = d->samples.at[k];
      if (known(s->reserved_bytes) > c.peak_reserved_bytes)
        c.peak_reserved_bytes = known(s->reserved_bytes);
      if (k > c.first_event && known(s->allocated_bytes) <= c.allocated_bytes) continue;
      c.instant = c.entry = k;
      c.allocated_bytes = c.part_bytes[0] = known(s->allocated_bytes);
      c.reserved_bytes = known(s->reserved_bytes);
    }
    if (c.peak_reserved_bytes > t.peak_reserved_bytes)
      t.peak_reserved_bytes = c.peak_reserved_bytes;
    if (t.columns.len && c.allocated_bytes > t.columns.at[t.peak].allocated_bytes)
      t.peak = t.columns.len;
    if (!vec_push(&t.columns, c)) cli_out_of_memory();
  }
  return t;
}

plim_err runs_draw(const void *context, const picture_request *wanted, plim_error *error) {
  const history_found *found = context;
  const history_run *run = &found->runs.at[0];
  drawn d = {.found = found};
  int64_t rank = runs_fullest_rank(found);
  for (size_t i = 0; i < found->samples.len; i++)
    if (found->samples.at[i].rank == rank && !vec_push(&d.samples, &found->samples.at[i]))
      cli_out_of_memory();
  bool has_memory = false;
  for (size_t i = 0; i < d.samples.len; i++)
    has_memory |= known(d.samples.at[i]->reserved_bytes) || known(d.samples.at[i]->allocated_bytes);
  if (!has_memory) {
    vec_free(&d.samples);
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "run %lld cannot be drawn: memory is recorded after each optimizer step, and "
                     "it made none",
                     (long long)run->id);
  }
  plim_timeline t = timeline_of(&d, wanted->columns);
  char title[64], note[160], peak[160], where[64];
  snprintf(title, sizeof title, "run %lld", (long long)run->id);
  snprintf(note, sizeof note, "%s; rank %lld%s%s", runs_end_of(run), (long long)rank,
           run->card && *run->card ? ", " : "", run->card ? run->card : "");
  place(&d, t.peak, where, sizeof where);
  snprintf(peak, sizeof peak, "most after a step: %s, %s",
           units_bytes(t.columns.at[t.peak].allocated_bytes).text, where);
  picture p = {.title = title,
               .subtitle = run->command ? run->command : "",
               .note = note,
               .peak = peak,
               .source = &recorded,
               .context = &d,
               .timeline = &t,
               .events = d.samples.len,
               .limit_bytes = run->total_bytes};
  plim_err err = picture_save(&p, wanted->path, wanted->write, error);
  plim_timeline_clear(&t);
  vec_free(&d.samples);
  return err;
}
