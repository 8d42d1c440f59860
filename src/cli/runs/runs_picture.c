// Memory over time of a recorded run, as a picture.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_alloc.h"
#include "runs_show.h"

enum { MOST_STARTS = 16 }; // that are named

// The picture has one column for each equally long part of the time between the run's begin and its last sample.
typedef struct {
  const history_found *found;
  int64_t rank; // that is drawn
  size_t columns;
  double seconds;
  const history_sample **shown; // of each column, the sample with the highest peak; NULL: none yet
  picture_span starts[MOST_STARTS];
  char names[MOST_STARTS][32];
  size_t start_count; // 0: the program was started once
} drawn;

static const char *const part_names[PLIM_TIMELINE_PARTS] = {"kept after a step", "during a step"};
static const picture_layer layers[] = {{0, "#264b7a", "#3d6aa3"}, {1, "#8fb4dc", "#a9c7e8"}};

static double seconds_at(const void *context, size_t event) {
  const drawn *d = context;
  return d->seconds * (double)event / (double)d->columns;
}

static void place(const void *context, size_t column, char *text, size_t size) {
  const drawn *d = context;
  const history_sample *s = d->shown[column < d->columns ? column : d->columns - 1];
  if (!s || s->step == PLIM_UNKNOWN || !s->step) snprintf(text, size, "before the first step");
  else snprintf(text, size, "step %llu", (unsigned long long)s->step);
}

static const picture_source recorded = {
    .layers = layers,
    .layer_count = 2,
    .part_names = part_names,
    .setup = "loading",
    .entry = "sample",
    .line = "line",
    .seconds_at = seconds_at,
    .place = place,
};

static uint64_t known(uint64_t bytes) { return bytes == PLIM_UNKNOWN ? 0 : bytes; }

static uint64_t peak_of(const history_sample *s) {
  uint64_t kept = known(s->allocated_bytes), peak = known(s->peak_bytes);
  return peak > kept ? peak : kept;
}

// ---- columns ----------------------------------------------------------------------------------------

static size_t column_at(const drawn *d, double time) {
  double share = (time - d->found->runs.at[0].began) / d->seconds;
  double column = share * (double)d->columns;
  if (!(column > 0)) return 0;
  return column < (double)d->columns ? (size_t)column : d->columns - 1;
}

// When the program was started that a sample is of; 0: with the run.
static double start_before(const drawn *d, double time) {
  double start = 0;
  for (size_t i = 0; i < d->found->events.len; i++) {
    const history_event *e = &d->found->events.at[i];
    if (strcmp(e->kind, "recovery") == 0 && e->time <= time) start = e->time;
  }
  return start;
}

// A sample stands for the time since the one before, of the same start.
static void show_samples(drawn *d) {
  const history_sample *before = NULL;
  for (size_t i = 0; i < d->found->samples.len; i++) {
    const history_sample *s = &d->found->samples.at[i];
    if (s->rank != d->rank) continue;
    size_t last = column_at(d, s->time), first = last;
    if (before && before->time >= start_before(d, s->time)) first = column_at(d, before->time) + 1;
    for (size_t k = first < last ? first : last; k <= last; k++)
      if (!d->shown[k] || peak_of(s) > peak_of(d->shown[k])) d->shown[k] = s;
    before = s;
  }
}

static plim_timeline timeline_of(const drawn *d) {
  plim_timeline t = {.first_oom_event = PLIM_UNKNOWN};
  if (!vec_reserve(&t.columns, d->columns)) cli_out_of_memory();
  for (size_t i = 0; i < d->columns; i++) {
    plim_timeline_column c = {
        .first_event = i, .end_event = i + 1, .instant = i + 1, .entry = i + 1};
    const history_sample *s = d->shown[i];
    if (s) {
      c.allocated_bytes = peak_of(s);
      c.part_bytes[0] = known(s->allocated_bytes);
      c.part_bytes[1] = c.allocated_bytes - c.part_bytes[0];
      c.reserved_bytes = known(s->reserved_bytes);
      if (c.reserved_bytes < c.allocated_bytes) c.reserved_bytes = c.allocated_bytes;
      c.peak_reserved_bytes = c.reserved_bytes;
    }
    t.columns.at[t.columns.len++] = c;
    if (c.reserved_bytes > t.peak_reserved_bytes) t.peak_reserved_bytes = c.reserved_bytes;
    if (c.allocated_bytes > t.columns.at[t.peak].allocated_bytes) t.peak = i;
  }
  return t;
}

// ---- starts -----------------------------------------------------------------------------------------

static void add_start(drawn *d, size_t first) {
  if (d->start_count == MOST_STARTS) return;
  if (d->start_count) d->starts[d->start_count - 1].end = first;
  char *name = d->names[d->start_count];
  snprintf(name, sizeof *d->names, "start %zu", d->start_count + 1);
  d->starts[d->start_count++] = (picture_span){first, d->columns, name};
}

static void find_starts(drawn *d) {
  for (size_t i = 0; i < d->found->events.len; i++) {
    const history_event *e = &d->found->events.at[i];
    if (strcmp(e->kind, "recovery") != 0) continue;
    if (!d->start_count) add_start(d, 0);
    add_start(d, column_at(d, e->time));
  }
}

// ---- the picture ------------------------------------------------------------------------------------

static plim_err save(drawn *d, const picture_request *wanted, plim_error *error) {
  const history_run *run = &d->found->runs.at[0];
  plim_timeline t = timeline_of(d);
  char title[64], note[160], peak[160], where[64];
  snprintf(title, sizeof title, "run %lld", (long long)run->id);
  snprintf(note, sizeof note, "%s; rank %lld%s%s", runs_end_of(run), (long long)d->rank,
           run->card && *run->card ? ", " : "", run->card ? run->card : "");
  place(d, t.peak, where, sizeof where);
  snprintf(peak, sizeof peak, "peak: %s, %s",
           units_bytes(t.columns.at[t.peak].allocated_bytes).text, where);
  picture p = {.title = title,
               .subtitle = run->command ? run->command : "",
               .note = note,
               .peak = peak,
               .source = &recorded,
               .context = d,
               .timeline = &t,
               .events = d->columns,
               .phases = d->starts,
               .phase_count = d->start_count,
               .limit_bytes = run->total_bytes};
  plim_err err = picture_save(&p, wanted->path, wanted->write, error);
  plim_timeline_clear(&t);
  return err;
}

plim_err runs_draw(const void *context, const picture_request *wanted, plim_error *error) {
  drawn d = {.found = context, .columns = wanted->columns, .rank = runs_fullest_rank(context)};
  const history_run *run = &d.found->runs.at[0];
  bool has_memory = false;
  for (size_t i = 0; i < d.found->samples.len; i++)
    has_memory |= d.found->samples.at[i].rank == d.rank && peak_of(&d.found->samples.at[i]);
  if (!has_memory)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "run %lld cannot be drawn: memory is recorded after each optimizer step, and "
                     "it made none",
                     (long long)run->id);
  d.seconds = d.found->samples.at[d.found->samples.len - 1].time - run->began;
  if (!(d.seconds > 0)) d.seconds = 1;
  d.shown = cli_alloc(d.columns * sizeof *d.shown);
  memset(d.shown, 0, d.columns * sizeof *d.shown);
  show_samples(&d);
  find_starts(&d);
  plim_err err = save(&d, wanted, error);
  free(d.shown);
  return err;
}
