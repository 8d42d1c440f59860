// Peaks of torchtune's own models, loss and loop on a simulated GPU (tests/truth/tune_models.json): how well the layers of
// transformers, with torchtune's linear layers, copied heads and tables of positions, stand for them.
#include <math.h>

#include "cases.h"
#include "estimate.h"
#include "test.h"
#include "truth.h"

// The order of rotary positions and norms differs, which matters for a moment of one layer.
#define MOST_PERCENT 0.2

TEST(peaks_are_those_of_torchtunes_models) {
  const char *text = truth_json("tune_models");
  json_t *rows = text ? json_loads(text, 0, NULL) : NULL;
  CHECK(json_array_size(rows) >= 18, "%zu rows", json_array_size(rows));
  for (size_t i = 0; i < json_array_size(rows); i++) {
    const json_t *row = json_array_get(rows, i);
    plim_job job;
    plim_estimate e = {0};
    plim_alloc_conf conf;
    CHECK(case_job(json_object_get(row, "case"), json_object_get(row, "config"), &job), "%s",
          case_text(row, "id", "?"));
    CHECK(!plim_alloc_conf_parse("expandable_segments:True", &conf, NULL), "settings");
    plim_target target = {.budget_bytes = PLIM_UNKNOWN, .limit_bytes = PLIM_UNKNOWN, .conf = &conf};
    CHECK(!plim_estimate_make(&job, &target, &e, NULL), "%s", case_text(row, "id", "?"));
    double real = (double)case_integer(row, "peak_allocated", 0);
    double off = 100 * ((double)e.p.peak_allocated_bytes - real) / real;
    printf("  %s: predicted %" PRIu64 ", measured %.0f, %+.2f %%\n", case_text(row, "id", "?"),
           e.p.peak_allocated_bytes, real, off);
    CHECK(fabs(off) <= MOST_PERCENT, "%s: %+.2f %%", case_text(row, "id", "?"), off);
  }
  json_decref(rows);
}

TEST_MAIN
