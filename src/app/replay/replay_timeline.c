#include <stdlib.h>

#include "replay_result.h"
#include "timeline.h"

typedef struct {
  json_writer *j;
  const replay_result *r;
  const plim_timeline *t;
} sheet;

typedef uint64_t quantity(const plim_timeline_column *c);

static uint64_t instant(const plim_timeline_column *c) { return c->instant; }
static uint64_t entry(const plim_timeline_column *c) { return c->entry; }
static uint64_t step(const plim_timeline_column *c) { return c->step; }
static uint64_t reserved(const plim_timeline_column *c) { return c->reserved_bytes; }
static uint64_t highest(const plim_timeline_column *c) { return c->peak_reserved_bytes; }
static uint64_t allocated(const plim_timeline_column *c) { return c->allocated_bytes; }

static void put_numbers(const sheet *s, const char *key, quantity *of) {
  jsonw_array(s->j, key);
  for (size_t i = 0; i < s->t->columns.len; i++) jsonw_u64(s->j, NULL, of(&s->t->columns.at[i]));
  jsonw_end(s->j);
}

// Seconds since the first event of the recording; null where no times were recorded.
static void put_seconds(const sheet *s) {
  jsonw_array(s->j, "seconds");
  for (size_t i = 0; i < s->t->columns.len; i++) {
    size_t done = s->t->columns.at[i].instant;
    jsonw_number(s->j, NULL, replay_seconds_at(s->r, done ? done - 1 : 0));
  }
  jsonw_end(s->j);
}

static void put_parts(const sheet *s) {
  jsonw_object(s->j, "parts");
  for (int kind = 0; kind < PLIM_KIND_COUNT; kind++) {
    jsonw_array(s->j, plim_kind_names[kind]);
    for (size_t i = 0; i < s->t->columns.len; i++)
      jsonw_u64(s->j, NULL, s->t->columns.at[i].part_bytes[kind]);
    jsonw_end(s->j);
  }
  jsonw_end(s->j);
}

static void put_marks(const sheet *s) {
  jsonw_array(s->j, "marks");
  for (size_t i = 0; i < s->t->columns.len; i++) {
    const plim_timeline_column *c = &s->t->columns.at[i];
    if (!c->ooms && !c->retries && !c->empty_caches) continue;
    jsonw_object(s->j, NULL);
    jsonw_u64(s->j, "column", i);
    jsonw_u64(s->j, "ooms", c->ooms);
    jsonw_u64(s->j, "retries", c->retries);
    jsonw_u64(s->j, "empty_caches", c->empty_caches);
    jsonw_end(s->j);
  }
  jsonw_end(s->j);
}

// The lines of code that hold the most, in each column; each line is named once, in the order of first use.
static void put_holders(const sheet *s) {
  size_t frames = s->r->trace.frames.len, named = 0;
  uint32_t *number_of = calloc(frames + 1, sizeof *number_of); // 0: not named yet
  uint32_t *lines = calloc(frames + 1, sizeof *lines);
  if (!number_of || !lines) jsonw_no_memory(s->j);
  jsonw_array(s->j, "holders");
  for (size_t i = 0; number_of && lines && i < s->t->columns.len; i++) {
    const plim_holder *top = s->t->columns.at[i].holders;
    jsonw_array(s->j, NULL);
    for (size_t k = 0; k < PLIM_TIMELINE_HOLDERS && top[k].bytes; k++) {
      uint32_t *number = &number_of[top[k].line < frames ? top[k].line : frames];
      if (!*number) lines[named++] = top[k].line, *number = (uint32_t)named;
      jsonw_object(s->j, NULL);
      jsonw_u64(s->j, "line", *number - 1);
      jsonw_bytes(s->j, "bytes", top[k].bytes);
      jsonw_end(s->j);
    }
    jsonw_end(s->j);
  }
  jsonw_end(s->j);
  jsonw_array(s->j, "lines");
  for (size_t i = 0; i < named; i++) {
    char name[160];
    plim_line_name(&s->r->trace, lines[i], name, sizeof name);
    jsonw_string(s->j, NULL, name);
  }
  jsonw_end(s->j);
  free(number_of);
  free(lines);
}

// The column in which an event is, with a fraction; within the timeline.
static double place_of(const replay_part *part, const plim_timeline *t, size_t event) {
  size_t at = event < part->first ? part->first : event > part->end ? part->end : event;
  return (double)(at - part->first) * (double)t->columns.len / (double)(part->end - part->first);
}

static void put_steps(const sheet *s, const replay_part *part) {
  jsonw_array(s->j, "steps");
  for (size_t i = 0; i < s->r->analysis.steps.len; i++) {
    const plim_trace_step *x = &s->r->analysis.steps.at[i];
    if (x->end <= part->first || x->first >= part->end) continue;
    jsonw_object(s->j, NULL);
    jsonw_u64(s->j, "step", i + 1);
    jsonw_number(s->j, "first", place_of(part, s->t, x->first));
    jsonw_number(s->j, "end", place_of(part, s->t, x->end));
    jsonw_end(s->j);
  }
  jsonw_end(s->j);
}

void replay_write_timeline(json_writer *j, const void *context) {
  const replay_part *part = context;
  const replay_result *r = part->r;
  plim_timeline t;
  bool ok = plim_timeline_build_part(
      &r->trace, &r->analysis, r->is_what_if ? &r->options : &r->recorded_options,
      r->is_what_if ? &r->guided : NULL, part->first, part->end, part->columns, &t);
  sheet s = {j, r, &t};
  jsonw_object(j, NULL);
  if (!ok) jsonw_no_memory(j);
  jsonw_u64(j, "format_version", 1);
  jsonw_u64(j, "events", r->trace.events.len);
  jsonw_u64(j, "first", part->first);
  jsonw_u64(j, "end", part->end);
  jsonw_u64(j, "columns", t.columns.len);
  jsonw_u64(j, "peak", t.peak);
  jsonw_bytes(j, "limit_bytes", r->options.limit_bytes);
  jsonw_string(j, "shows", r->is_what_if ? "simulated" : "recorded");
  put_numbers(&s, "event", instant);
  put_numbers(&s, "entry", entry);
  put_numbers(&s, "step", step);
  put_seconds(&s);
  put_numbers(&s, "reserved_bytes", reserved);
  put_numbers(&s, "highest_reserved_bytes", highest);
  put_numbers(&s, "allocated_bytes", allocated);
  put_parts(&s);
  put_marks(&s);
  put_holders(&s);
  if (t.columns.len) put_steps(&s, part);
  jsonw_end(j);
  plim_timeline_clear(&t);
}
