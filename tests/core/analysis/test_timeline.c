// The timeline of real recordings: whatever the number of columns, the kinds add up, no peak is lost, and the totals
// are those of the replay.
#include "snapshot.h"
#include "test.h"
#include "timeline.h"

#ifndef TEST_ROOT
#define TEST_ROOT "tests"
#endif

typedef struct {
  plim_trace trace;
  plim_trace_analysis analysis;
  plim_replay_options options;
  plim_guided guided;
} recording;

static bool recording_open(recording *r, const char *name) {
  char path[512];
  snprintf(path, sizeof path, TEST_ROOT "/truth/%s.pickle.xz", name);
  *r = (recording){.options.limit_bytes = PLIM_UNKNOWN};
  if (plim_snapshot_read(path, -1, &r->trace, NULL, NULL)) return false;
  return plim_trace_link(&r->trace) && plim_trace_analysis_read(&r->trace, &r->analysis) &&
         plim_replay_recorded_conf(&r->trace, &r->options.conf) &&
         plim_replay_guided(&r->trace, &r->options, NULL, &r->guided);
}

static void recording_close(recording *r) {
  plim_guided_clear(&r->guided);
  plim_trace_analysis_clear(&r->analysis);
  plim_trace_clear(&r->trace);
}

// ---- what holds for every timeline -----------------------------------------------------------------

static uint64_t sum_of_kinds(const plim_timeline_column *c) {
  uint64_t sum = 0;
  for (size_t i = 0; i < PLIM_KIND_COUNT; i++) sum += c->part_bytes[i];
  return sum;
}

static bool holders_are_sound(const plim_timeline_column *c) {
  uint64_t sum = 0;
  for (size_t i = 0; i < PLIM_TIMELINE_HOLDERS; i++) {
    if (i && c->holders[i].bytes > c->holders[i - 1].bytes) return false;
    sum += c->holders[i].bytes;
  }
  return sum <= c->allocated_bytes;
}

// NULL if the timeline is correct, else what is wrong.
static const char *fault_of(const plim_timeline *t, size_t events) {
  size_t expected_first = 0;
  for (size_t i = 0; i < t->columns.len; i++) {
    const plim_timeline_column *c = &t->columns.at[i];
    if (sum_of_kinds(c) != c->allocated_bytes) return "kinds do not add up to allocated bytes";
    if (!holders_are_sound(c)) return "holders are out of order or hold too much";
    if (c->allocated_bytes > c->reserved_bytes) return "more is allocated than reserved";
    if (c->reserved_bytes > c->peak_reserved_bytes) return "reserved is above its peak";
    if (c->first_event != expected_first) return "events are skipped between columns";
    if (c->end_event <= c->first_event) return "a column has no events";
    if (i && c->instant < t->columns.at[i - 1].instant) return "time runs backwards";
    expected_first = c->end_event;
  }
  return expected_first == events ? NULL : "the last events are missing";
}

static uint64_t marked_ooms(const plim_timeline *t) {
  uint64_t ooms = 0;
  for (size_t i = 0; i < t->columns.len; i++) ooms += t->columns.at[i].ooms;
  return ooms;
}

static bool shows(const plim_timeline *t, const plim_replay_totals *totals) {
  bool same = t->columns.at[t->peak].allocated_bytes == totals->peak_allocated_bytes &&
              t->peak_reserved_bytes == totals->peak_reserved_bytes &&
              marked_ooms(t) == totals->ooms;
  if (!same)
    printf("allocated %" PRIu64 " for %" PRIu64 ", reserved %" PRIu64 " for %" PRIu64
           ", ooms %" PRIu64 " for %" PRIu64 "\n",
           t->columns.at[t->peak].allocated_bytes, totals->peak_allocated_bytes,
           t->peak_reserved_bytes, totals->peak_reserved_bytes, marked_ooms(t), totals->ooms);
  return same;
}

static bool is_sound(const recording *r, const plim_guided *guided, size_t columns,
                     const plim_replay_totals *totals) {
  plim_timeline t;
  if (!plim_timeline_build(&r->trace, &r->analysis, &r->options, guided, columns, &t)) return false;
  const char *fault = fault_of(&t, r->trace.events.len);
  if (fault) printf("%zu columns: %s\n", columns, fault);
  bool sound = !fault && shows(&t, totals);
  plim_timeline_clear(&t);
  return sound;
}

static const size_t widths[] = {1, 7, 1200, 4000, SIZE_MAX};

static const char *const names[] = {
    "snapshots/tiny-default",
    "snapshots/tiny-expandable",
    "snapshots/stacks-leak-logits",
    "snapshots/stacks-duplicate-model",
    "snapshots/varlen-default",
    "snapshots/varlen-expandable",
    "snapshots/varlen-roundup16",
    "snapshots/varlen-cap-oom",
    "snapshots/lora-ckpt-stream",
    "families/llama-lora-drop-amp-ckpt",
    "allocator/cap2",
    "allocator/expandable-cap2",
    "allocator/gc0.5-cap2",
};

static bool recording_is_sound(const char *name) {
  recording r;
  bool sound = recording_open(&r, name);
  for (size_t i = 0; sound && i < sizeof widths / sizeof *widths; i++)
    sound = is_sound(&r, NULL, widths[i], &r.guided.recorded);
  recording_close(&r);
  return sound;
}

TEST(timeline_shows_what_the_guided_replay_found) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    test_count(names[i], recording_is_sound(names[i]));
}

// ---- other settings ----------------------------------------------------------------------------------

static bool what_if_is_sound(const char *name, const char *conf, uint64_t limit_bytes) {
  recording r;
  plim_what_if result = {0};
  bool sound = recording_open(&r, name) && !plim_alloc_conf_parse(conf, &r.options.conf, NULL);
  r.options.limit_bytes = limit_bytes;
  sound = sound && plim_replay_what_if(&r.trace, &r.guided, &r.options, PLIM_ADDRESSES_MODEL, NULL,
                                       NULL, NULL, &result);
  for (size_t i = 0; sound && i < sizeof widths / sizeof *widths; i++)
    sound = is_sound(&r, &r.guided, widths[i], &result.totals);
  recording_close(&r);
  return sound;
}

TEST(timeline_shows_what_other_settings_would_have_done) {
  CHECK(what_if_is_sound("snapshots/varlen-default", "expandable_segments:True", PLIM_UNKNOWN),
        "expandable segments");
  CHECK(what_if_is_sound("snapshots/varlen-default", "max_split_size_mb:64", 8 * PLIM_GIB),
        "a limit that the run does not fit in");
}

TEST(timeline_marks_the_first_failure) {
  recording r;
  CHECK(recording_open(&r, "snapshots/varlen-cap-oom"), "cannot be read");
  plim_timeline t;
  CHECK(plim_timeline_build(&r.trace, &r.analysis, &r.options, NULL, 500, &t), "no memory");
  CHECK(t.first_oom_event < r.trace.events.len, "no failure is marked");
  CHECK_U64(r.trace.events.at[t.first_oom_event].action, (uint64_t)PLIM_EV_OOM);
  plim_timeline_clear(&t);
  recording_close(&r);
}

TEST(timeline_of_nothing_is_empty) {
  recording r = {.options.limit_bytes = PLIM_UNKNOWN};
  CHECK(plim_trace_init(&r.trace) && plim_trace_link(&r.trace), "no memory");
  CHECK(plim_trace_analysis_read(&r.trace, &r.analysis), "no memory");
  plim_timeline t;
  CHECK(plim_timeline_build(&r.trace, &r.analysis, &r.options, NULL, 100, &t), "no memory");
  CHECK_U64(t.columns.len, 0u);
  plim_timeline_clear(&t);
  recording_close(&r);
}

TEST_MAIN
