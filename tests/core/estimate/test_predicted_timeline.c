// The timeline of a predicted run: whatever the number of columns, the purposes add up, no peak is lost, and the
// numbers are those of the prediction.
#include "catalogue.h"
#include "predicted_timeline.h"
#include "test.h"

// A step of gpt2 in ways that allocate differently.
typedef struct {
  const char *name;
  int64_t lora_rank;
  int accumulate;
  plim_checkpoint_kind checkpoint;
  bool is_trainer;
  const char *conf;
  plim_sharding sharding;
} variant;

static const variant variants[] = {
    {"plain", 0, 1, PLIM_CHECKPOINT_OFF, false, ""},
    {"accumulated", 0, 3, PLIM_CHECKPOINT_ON, false, "expandable_segments:True"},
    {"trainer", 0, 1, PLIM_CHECKPOINT_OFF, true, ""},
    {"adapters", 8, 2, PLIM_CHECKPOINT_REENTRANT, true, "max_split_size_mb:64"},
    // Gathered parameters take up storage again, which is not that of the last allocation's purpose.
    {"sharded", 0, 1, PLIM_CHECKPOINT_ON, false, "", {.strategy = PLIM_SHARD_FSDP2, .world = 4}},
};
enum { VARIANTS = sizeof variants / sizeof *variants, STEPS = 3 };

typedef struct {
  plim_job job;
  plim_alloc_conf conf;
  plim_predict_request request;
  plim_prediction p;
} run;

static bool run_variant(run *r, const variant *v) {
  *r = (run){0};
  const char *name = v->lora_rank ? "qwen2.5-0.5b" : "gpt2";
  if (plim_catalogue_config(plim_catalogue_named(name), &r->job.model, NULL)) return false;
  r->job.dtype = PLIM_BF16;
  r->job.load = PLIM_LOAD_PRETRAINED;
  r->job.lora = (plim_lora){.rank = v->lora_rank, .targets = "q_proj"};
  r->job.sharding = v->sharding;
  r->job.recipe = (plim_recipe){.batch = 2,
                                .length = 64,
                                .steps = STEPS,
                                .accumulate = v->accumulate,
                                .optimizer = plim_optimizer_named("adamw"),
                                .checkpoint = v->checkpoint,
                                .is_trainer = v->is_trainer};
  if (plim_alloc_conf_parse(v->conf, &r->conf, NULL)) return false;
  r->request =
      (plim_predict_request){.job = &r->job, .conf = &r->conf, .limit_bytes = PLIM_UNKNOWN};
  return !plim_predict(&r->request, &r->p, NULL);
}

// ---- what holds for every forecast ------------------------------------------------------------------

static uint64_t sum_of_parts(const plim_timeline_column *c) {
  uint64_t sum = 0;
  for (size_t i = 0; i < PLIM_TIMELINE_PARTS; i++) sum += c->part_bytes[i];
  return sum;
}

static bool holders_are_sound(const plim_predicted_timeline *f, const plim_timeline_column *c) {
  uint64_t sum = 0;
  for (size_t i = 0; i < PLIM_TIMELINE_HOLDERS && c->holders[i].bytes; i++) {
    if (i && c->holders[i].bytes > c->holders[i - 1].bytes) return false;
    if (c->holders[i].line >= f->lines.len) return false;
    sum += c->holders[i].bytes;
  }
  return sum && sum <= c->allocated_bytes;
}

static const char *fault_of_columns(const plim_predicted_timeline *f) {
  size_t expected_first = 0;
  for (size_t i = 0; i < f->timeline.columns.len; i++) {
    const plim_timeline_column *c = &f->timeline.columns.at[i];
    if (c->first_event != expected_first) return "events are skipped between columns";
    expected_first = c->end_event;
    if (c->instant <= c->first_event || c->instant > c->end_event) return "an instant is outside";
    if (c->allocated_bytes && !holders_are_sound(f, c)) return "holders are wrong";
    if (sum_of_parts(c) != c->allocated_bytes) return "purposes do not add up";
    if (c->allocated_bytes > c->reserved_bytes) return "more is allocated than reserved";
    if (c->reserved_bytes > c->peak_reserved_bytes) return "reserved is above its peak";
    const plim_program_point *place = &f->places.at[i];
    size_t step = place->phase == PLIM_PHASE_LOAD ? 0 : (size_t)place->step + 1;
    if (c->step != step) return "the step is not that of the place";
  }
  return expected_first == f->events ? NULL : "the last events are missing";
}

static const char *fault_of_steps(const plim_predicted_timeline *f) {
  if (f->steps.len != STEPS) return "steps are missing";
  for (size_t i = 1; i < f->steps.len; i++)
    if (f->steps.at[i].first != f->steps.at[i - 1].end) return "a gap between steps";
  if (f->steps.at[STEPS - 1].end != f->events) return "the last step does not end";
  if (f->phases.at[0].first || f->phases.at[0].phase != PLIM_PHASE_LOAD) return "no loading";
  for (size_t i = 1; i < f->phases.len; i++)
    if (f->phases.at[i].first != f->phases.at[i - 1].end) return "a gap between phases";
  return f->phases.at[f->phases.len - 1].end == f->events ? NULL : "the last phase does not end";
}

static bool is_same_place(const plim_program_point *a, const plim_program_point *b) {
  return a->step == b->step && a->phase == b->phase && a->layer == b->layer &&
         a->is_recomputed == b->is_recomputed;
}

// Whether the size of blocks is plausible: they are a little larger than the requests.
static bool is_rounded(uint64_t block_bytes, uint64_t live_bytes) {
  return block_bytes >= live_bytes && (block_bytes == 0) == (live_bytes == 0);
}

static const char *fault_of_peak(const plim_predicted_timeline *f, const plim_prediction *p) {
  const plim_timeline *t = &f->timeline;
  const plim_timeline_column *peak = &t->columns.at[t->peak];
  if (peak->allocated_bytes != p->peak_allocated_bytes) return "another peak of allocated bytes";
  if (t->peak_reserved_bytes != p->peak_reserved_bytes) return "another peak of reserved bytes";
  if (peak->instant != p->peak_event + 1) return "the peak is at another event";
  if (!is_same_place(&f->places.at[t->peak], &p->peak_at)) return "the peak is at another place";
  for (size_t i = 0; i < PLIM_PURPOSES; i++)
    if (!is_rounded(peak->part_bytes[i], p->live_bytes[i])) return "another purpose at the peak";
  return NULL;
}

static bool is_sound(const run *r, size_t columns) {
  plim_predicted_timeline f;
  if (!plim_predicted_timeline_make(&r->request, &r->p, columns, &f)) return false;
  const char *fault = fault_of_columns(&f);
  if (!fault) fault = fault_of_steps(&f);
  if (!fault) fault = fault_of_peak(&f, &r->p);
  if (fault) printf("%zu columns: %s\n", columns, fault);
  plim_predicted_timeline_clear(&f);
  return !fault;
}

TEST(forecasts_agree_with_the_prediction) {
  for (size_t i = 0; i < VARIANTS; i++) {
    run r;
    bool ok = run_variant(&r, &variants[i]);
    for (size_t columns = 1; ok && columns <= 1000000; columns *= 10) ok = is_sound(&r, columns);
    test_count(variants[i].name, ok);
  }
}

// ---- what is said of the program ----------------------------------------------------------------------

static uint64_t most_in(const plim_predicted_timeline *f, plim_phase phase, plim_purpose purpose) {
  uint64_t most = 0;
  for (size_t i = 0; i < f->timeline.columns.len; i++) {
    uint64_t bytes = f->timeline.columns.at[i].part_bytes[purpose];
    if (f->places.at[i].phase == phase && bytes > most) most = bytes;
  }
  return most;
}

TEST(gradients_are_those_of_all_parameters) {
  run r;
  plim_predicted_timeline f;
  CHECK(run_variant(&r, &variants[0]), "no prediction");
  CHECK(plim_predicted_timeline_make(&r.request, &r.p, SIZE_MAX, &f), "no memory");
  uint64_t weights = most_in(&f, PLIM_PHASE_OPTIMIZER, PLIM_FOR_WEIGHTS);
  CHECK_U64(most_in(&f, PLIM_PHASE_LOAD, PLIM_FOR_GRADIENTS), 0u);
  uint64_t gradients = most_in(&f, PLIM_PHASE_OPTIMIZER, PLIM_FOR_GRADIENTS);
  CHECK(gradients > weights - weights / 50 && gradients < weights + weights / 50, // in whole blocks
        "%" PRIu64 " for %" PRIu64, gradients, weights);
  plim_predicted_timeline_clear(&f);
}

TEST(a_phase_per_forward_backward_and_step) {
  run r;
  plim_predicted_timeline f;
  CHECK(run_variant(&r, &variants[1]), "no prediction");
  CHECK(plim_predicted_timeline_make(&r.request, &r.p, 100, &f), "no memory");
  CHECK_U64(f.phases.len, 1u + STEPS * (2u * 3u + 1u));
  plim_predicted_timeline_clear(&f);
}

TEST(the_largest_at_the_peak_are_the_holders) {
  run r;
  plim_predicted_timeline f;
  plim_holdings h = {0};
  CHECK(run_variant(&r, &variants[2]), "no prediction");
  CHECK(plim_predicted_timeline_make(&r.request, &r.p, 50, &f), "no memory");
  CHECK(plim_holdings_find(&r.request, &r.p, &h), "no memory");
  const plim_holder *top = f.timeline.columns.at[f.timeline.peak].holders;
  for (size_t i = 0; i < PLIM_TIMELINE_HOLDERS; i++) {
    const plim_holding *line = &f.lines.at[top[i].line];
    CHECK(line->purpose == h.at[i].purpose && plim_same(&line->shape, &h.at[i].shape) &&
              is_rounded(top[i].bytes, h.at[i].bytes),
          "holder %zu", i);
  }
  vec_free(&h);
  plim_predicted_timeline_clear(&f);
}

TEST_MAIN
