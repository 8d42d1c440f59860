// Where the tape's allocations lie, compared with recordings on an H200: in which segment, counted as they were made, and
// how far from its start. PyTorch before 2.13 prefers the lowest of equal free blocks, so this depends on the driver's
// addresses (core/allocator/driver.h and own_memory.h).
#include <stdlib.h>

#include "cases.h"
#include "predict.h"
#include "test.h"
#include "truth.h"

// ---- places -----------------------------------------------------------------------------------------

typedef struct {
  uint64_t addr, bytes;
} segment;

typedef struct {
  size_t segment; // counted from 0; SIZE_MAX: unknown
  uint64_t offset;
} place;

typedef struct {
  vec(segment) segments; // in the order they were made; those that were given back, too
  vec(place) places;     // of each allocation
  uint64_t segment_allocs;
  bool failed;
} course;

static void course_clear(course *c) {
  vec_free(&c->segments);
  vec_free(&c->places);
}

static void note_segment(course *c, uint64_t addr, uint64_t bytes) {
  if (!vec_push(&c->segments, (segment){addr, bytes})) c->failed = true;
}

static void note_allocation(course *c, uint64_t addr) {
  place p = {SIZE_MAX, 0};
  for (size_t i = c->segments.len; i-- > 0 && p.segment == SIZE_MAX;)
    if (addr - c->segments.at[i].addr < c->segments.at[i].bytes)
      p = (place){i, addr - c->segments.at[i].addr};
  if (!vec_push(&c->places, p)) c->failed = true;
}

static bool recorded(const truth_file *file, course *out) {
  plim_trace trace;
  if (!truth_load(file, &trace)) return false;
  out->failed = trace.start_segments.len > 0;
  for (size_t i = 0; i < trace.events.len; i++) {
    const plim_event *e = &trace.events.at[i];
    if (e->action == PLIM_EV_SEGMENT_ALLOC) note_segment(out, e->addr, e->bytes);
    if (e->action == PLIM_EV_ALLOC) note_allocation(out, e->addr);
  }
  plim_trace_clear(&trace);
  return !out->failed;
}

// A block that a new segment was made for is at its start.
static void follow(void *context, const plim_tape *t, const plim_allocator *a,
                   plim_stream_kind kind, uint32_t id, uint64_t bytes) {
  course *c = context;
  (void)t;
  if (kind != PLIM_STREAM_ALLOC) return;
  uint64_t addr = plim_allocator_addr(a, id), made = plim_allocator_stats(a)->segment_allocs;
  if (made > c->segment_allocs) note_segment(c, addr, plim_allocator_segment_request(a, bytes));
  c->segment_allocs = made;
  note_allocation(c, addr);
}

static bool predicted(const plim_job *job, course *out) {
  plim_prediction p;
  plim_observer around = {.event = follow, .context = out};
  plim_predict_request request = {
      .job = job, .limit_bytes = PLIM_UNKNOWN, .observer = &around, .runs_all = true};
  return !plim_predict(&request, &p, NULL) && !out->failed;
}

// ---- recordings -------------------------------------------------------------------------------------

// Whether every allocation is where it was in the recording. The tape has all events of these
// (core/families/test_tape.c).
static bool is_placed_alike(const truth_file *file, const plim_job *job) {
  course truth = {0}, tape = {0};
  bool ok = recorded(file, &truth) && predicted(job, &tape) && tape.places.len <= truth.places.len;
  for (size_t i = 0; ok && i < tape.places.len; i++) {
    const place *a = &truth.places.at[i], *b = &tape.places.at[i];
    ok = a->segment == b->segment && a->offset == b->offset;
  }
  if (getenv("SHOW")) printf("  %s %s\n", file->name, ok ? "alike" : "differs");
  course_clear(&truth);
  course_clear(&tape);
  return ok;
}

// Other threads load to the device in any order; some programs depend on numbers that only their recording knows.
static bool is_decided(const json_t *json, const plim_job *job) {
  return job->load != PLIM_LOAD_DEVICE_MAP && !json_object_get(json, "outliers") &&
         !json_object_get(json, "mini_batch_lengths");
}

typedef struct {
  const char *folder;
  size_t files, alike;
} score;

static score measure(const char *folder) {
  score s = {.folder = folder};
  truth_files files = truth_list(&folder, 1);
  for (size_t i = 0; i < files.len; i++) {
    json_t *json = json_loads(truth_json(files.at[i].name), 0, NULL);
    plim_job job;
    if (case_job(json_object_get(json, "case"), json_object_get(json, "config"), &job) &&
        is_decided(json, &job)) {
      s.files++;
      s.alike += is_placed_alike(&files.at[i], &job);
    }
    json_decref(json);
  }
  vec_free(&files);
  return s;
}

// The others differ in some block: what else the process has on the host decides, too, and the driver takes more memory
// for code with every kernel it loads. Most of them have the recorded peaks.
TEST(blocks_are_where_pytorch_put_them) {
  static const score want[] = {
      {"families", 25, 17}, {"kernels", 15, 11},    {"programs", 75, 46}, {"decoders", 32, 22},
      {"encoders", 15, 11}, {"contrastive", 25, 8}, {"saving", 56, 28},   {"bare", 38, 33},
      {"flash", 38, 35},    {"more", 15, 11},       {"zoo", 4, 4},
  };
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    score got = measure(want[i].folder);
    printf("  %s: all blocks of %zu of %zu\n", got.folder, got.alike, got.files);
    CHECK(got.files == want[i].files && got.alike == want[i].alike, "%s", got.folder);
  }
}

TEST_MAIN
