// Recordings of programs with a known mistake: the sentences name the lines and the bytes.
#include "findings.h"

#include "test.h"

#define RECORDING(name) TEST_ROOT "/truth/" name ".pickle.xz"

static findings found;
static plim_error error;

TEST(a_duplicated_model_is_told_with_the_line_of_each_copy) {
  CHECK(!findings_of_duplicates(RECORDING("snapshots/stacks-duplicate-model"), &found, &error),
        "%s", error.message);
  CHECK_U64(found.list.len, (size_t)1);
  const finding *f = &found.list.at[0];
  CHECK(strstr(f->message, "tensors are in memory") && strstr(f->message, "would free"), "%s",
        f->message);
  CHECK(f->lines.len >= 2 && f->bytes > 0, "%zu lines", f->lines.len);
  uint64_t total = 0, smallest = UINT64_MAX;
  for (size_t i = 0; i < f->lines.len; i++) {
    CHECK(strstr(f->lines.at[i].name, ".py:"), "%s", f->lines.at[i].name);
    total += f->lines.at[i].bytes;
    if (f->lines.at[i].bytes < smallest) smallest = f->lines.at[i].bytes;
  }
  CHECK_U64(f->bytes, total - smallest);
  findings_clear(&found);
}

TEST(a_leak_is_told_with_its_line_and_its_bytes_per_step) {
  CHECK(!findings_of_leaks(RECORDING("snapshots/stacks-leak-logits"), &found, &error), "%s",
        error.message);
  CHECK_U64(found.steps, (size_t)25);
  CHECK_U64(found.list.len, (size_t)1);
  const finding *f = &found.list.at[0];
  CHECK_U64(f->bytes, 2 * 256 * 32000 * 2ull);
  CHECK(f->lines.len && strstr(f->message, f->lines.at[0].name), "%s", f->message);
  CHECK(strstr(f->message, "leaves 31.2 MiB in memory after each step"), "%s", f->message);
  CHECK(strstr(f->message, "in 25 of 25 recorded steps"), "%s", f->message);
  findings_clear(&found);
}

TEST(a_program_without_mistakes_gives_no_sentence) {
  CHECK(!findings_of_leaks(RECORDING("snapshots/stacks-tiny"), &found, &error), "%s",
        error.message);
  CHECK(!found.list.len && found.steps, "%zu leaks", found.list.len);
  findings_clear(&found);
  CHECK(!findings_of_duplicates(RECORDING("snapshots/stacks-tiny"), &found, &error), "%s",
        error.message);
  CHECK(!found.list.len, "%zu duplicates", found.list.len);
  findings_clear(&found);
}

TEST(a_missing_snapshot_is_an_error) {
  CHECK(findings_of_leaks("/nowhere/1.pickle", &found, &error), "it was read");
  CHECK(strstr(error.message, "/nowhere/1.pickle"), "%s", error.message);
  CHECK(!found.list.len && !found.steps, "something was found");
  findings_clear(NULL);
}

TEST_MAIN
