// Results of every command can be compared: peaks, kinds, lines, versions. What one of them does not say is unknown.
#include "compare.h"

#include <math.h>

#include "folder.h"
#include "test.h"

static compare_side a, b;
static comparison c;
static plim_error error;

static plim_err read_side(const char *text, compare_side *side) {
  error = (plim_error){0};
  return compare_read_text(text, strlen(text), side, &error);
}

static void clear(void) {
  comparison_clear(&c);
  compare_side_clear(&a);
  compare_side_clear(&b);
}

// A run: the process of rank 1 is the fullest; two lines hold the peak.
#define RUN(version, line, bytes, batch)                                                           \
  "{\"run\": {\"needs_bytes\": 150, \"processes\": [{\"peak_reserved_bytes\": 20},"                \
  "{\"peak_allocated_bytes\": 90, \"peak_reserved_bytes\": 100, \"retries\": 2, \"steps\": 3,"     \
  "\"versions\": {\"torch\": \"2.11.0\", \"lib\": \"" version "\"}, \"has_triton\": true,"         \
  "\"observed\": {\"batch\": [" batch                                                              \
  "], \"attention\": null, \"rank\": 0, \"batch_shapes\": 9}}],"                                   \
  "\"replay\": {\"peak\": {\"step\": 2, \"module\": \"m\", \"line\": 4, \"function\": \"f\"},"     \
  "\"holders_by_kind_bytes\": {\"parameters\": 5, \"activations\": 6, \"temporaries\": 7},"        \
  "\"holders\": [{\"bytes\": " bytes ", \"module\": \"lib.model\", \"line\": " line                \
  ", \"function\": \"forward\"}, {\"bytes\": 30, \"module\": \"train\", \"line\": 7, "             \
  "\"function\": \"main\"}, {\"bytes\": 8, \"module\": null, \"line\": null}]}}}"

TEST(a_simulation_is_read) {
  CHECK(!read_side(RUN("1", "4", "50", "2, 8"), &a), "%s", error.message);
  CHECK_STR(a.made, "simulated");
  CHECK_U64(a.allocated_bytes, 90);
  CHECK_U64(a.reserved_bytes, 100);
  CHECK_U64(a.outside_bytes, 50);
  CHECK_U64(a.kind_bytes[0], 5);
  CHECK_U64(a.kind_bytes[3], 13); // activations and temporaries
  CHECK_STR(a.peak_at, "step 2, in m:4 (f)");
  CHECK(a.lines.len == 3 && a.retries == 2 && a.steps == 3, "%zu lines", a.lines.len);
  CHECK(a.versions.len == 2 && a.observed.len == 2, "%zu facts", a.observed.len);
  CHECK_STR(a.observed.at[0].value, "2 x 8");
  CHECK(isnan(a.step_seconds), "a time");
  clear();
}

TEST(a_measurement_says_itself_what_is_outside) {
  CHECK(
      !read_side("{\"made_by\": \"profile\", \"outside_peak_bytes\": 7, \"seconds_per_step\": 0.5,"
                 "\"run\": {\"needs_bytes\": 150, \"processes\": [{\"peak_allocated_bytes\": 1,"
                 "\"peak_reserved_bytes\": 100}], \"replay\": null}}",
                 &a),
      "%s", error.message);
  CHECK_STR(a.made, "measured");
  CHECK_U64(a.outside_bytes, 7);
  CHECK(a.step_seconds == 0.5 && !a.has_lines && !a.has_kinds && !a.peak_at, "what it lacks");
  clear();
}

TEST(the_run_on_a_large_enough_card_says_what_is_needed) {
  CHECK(!read_side("{\"run\": {\"processes\": [{\"peak_allocated_bytes\": 1,"
                   "\"peak_reserved_bytes\": 2}]}, \"large_enough\": {\"processes\": "
                   "[{\"peak_allocated_bytes\": 11, \"peak_reserved_bytes\": 12}]}}",
                   &a),
        "%s", error.message);
  CHECK_U64(a.allocated_bytes, 11);
  CHECK_U64(a.outside_bytes, PLIM_UNKNOWN);
  clear();
}

TEST(an_estimate_is_read) {
  CHECK(!read_side("{\"peak_allocated_bytes\": 90, \"peak_reserved_bytes\": 100, "
                   "\"context_bytes\": 9, \"step_seconds\": 0.25, \"params\": 7, \"components\": "
                   "{\"weights\": 1, \"adapters\": 2, \"activations\": 3, \"logits\": 4, "
                   "\"fragmentation\": 5}, \"peak_at\": {\"step\": 3, \"phase\": \"backward\", "
                   "\"what\": \"mul\"}}",
                   &a),
        "%s", error.message);
  CHECK_STR(a.made, "estimated");
  CHECK_U64(a.outside_bytes, 9);
  CHECK_U64(a.kind_bytes[0], 3);
  CHECK_U64(a.kind_bytes[3], 7);
  CHECK(a.has_kinds && !a.has_lines && a.step_seconds == 0.25, "what it has");
  CHECK_STR(a.peak_at, "step 3, in backward: mul");
  clear();
}

TEST(a_recording_is_read) {
  CHECK(!read_side("{\"recorded\": {\"peak_allocated_bytes\": 90, \"peak_reserved_bytes\": 100}, "
                   "\"steps\": 4, \"holders\": [{\"bytes\": 5, \"module\": \"m\", \"line\": 1}]}",
                   &a),
        "%s", error.message);
  CHECK_STR(a.made, "recorded");
  CHECK(a.steps == 4 && a.lines.len == 1 && a.outside_bytes == PLIM_UNKNOWN, "what it has");
  clear();
}

TEST(lines_are_compared_where_versions_agree) {
  read_side(RUN("1", "4", "50", "2, 8"), &a);
  read_side(RUN("1", "5", "60", "2, 16"), &b);
  CHECK(!compare(&a, &b, &c, &error), "%s", error.message);
  CHECK(c.rows.len == 2, "%zu rows", c.rows.len); // equal ones are left out
  CHECK_STR(c.rows.at[0].where, "lib.model:5 (forward)");
  CHECK_U64(c.rows.at[0].measured_bytes, 60);
  CHECK_U64(c.rows.at[0].predicted_bytes, 0);
  CHECK_STR(c.rows.at[1].where, "lib.model:4 (forward)");
  CHECK(c.versions.len == 0 && c.observed.len == 1, "%zu observed", c.observed.len);
  CHECK_STR(c.observed.at[0].measured, "2 x 16");
  clear();
}

TEST(functions_are_compared_where_versions_differ) {
  read_side(RUN("1", "4", "50", "2, 8"), &a);
  read_side(RUN("2", "5", "60", "2, 8"), &b);
  CHECK(!compare(&a, &b, &c, &error), "%s", error.message);
  CHECK(c.rows.len == 1 && c.versions.len == 1, "%zu rows", c.rows.len);
  CHECK_STR(c.rows.at[0].where, "lib.model (forward)");
  CHECK_U64(c.rows.at[0].predicted_bytes, 50);
  CHECK_U64(c.rows.at[0].measured_bytes, 60);
  CHECK_STR(c.versions.at[0].name, "lib");
  clear();
}

TEST(what_is_no_result_is_an_error) {
  static const char *const texts[] = {
      "",
      "[]",
      "3",
      "{}",
      "{\"run\": {}}",
      "{\"run\": {\"processes\": 3}}",
      "{\"components\": {}}",
      "{\"recorded\": {\"peak_allocated_bytes\": -1, \"peak_reserved_bytes\": \"x\"}}"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    CHECK(read_side(texts[i], &a) == PLIM_ERR_PARSE, "%s was read", texts[i]);
    clear();
  }
  folder_make();
  folder_write_text("x.json", "{}");
  CHECK(compare_read_file(folder_path("x.json"), &a, &error) == PLIM_ERR_PARSE, "read");
  CHECK(strstr(error.message, "x.json") && strstr(error.hint, "--json"), "%s", error.message);
  CHECK(compare_read_file(folder_path("no.json"), &a, &error) == PLIM_ERR_IO, "read");
  folder_remove();
}

TEST_MAIN
