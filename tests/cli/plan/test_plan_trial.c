// What plan -- COMMAND tells the user about its result.
#include "plan_trial.h"

#include "test.h"

static trial_program program;
static trial_search search;
static trial_run runs[4];
static plan_trial_report report = {.program = &program, .search = &search};

// A program with a micro batch of 2 that fits, and the plan's, which fits too.
static void make(int64_t planned, trial_accumulation how, int64_t effective) {
  program = (trial_program){
      .micro = 2, .accumulation = 4, .ranks = 1, .gpus = 1, .how = how, .effective = effective};
  search = (trial_search){.program = &program, .best = 1, .is_exact = true};
  memset(runs, 0, sizeof runs);
  runs[0] = (trial_run){.micro = 2, .accumulation = 4, .verdict = TRIAL_FITS, .steps = 3};
  runs[1] = runs[0];
  runs[1].micro = planned;
  runs[1].accumulation = trial_accumulation_of(&program, planned);
  search.runs.at = runs;
  search.runs.len = 2;
}

static bool is_said(const char *part) {
  char text[400];
  for (size_t i = 0; plan_trial_remark(&report, i, text, sizeof text); i++)
    if (strstr(text, part)) return true;
  return false;
}

TEST(a_batch_that_changes_is_said) {
  make(3, TRIAL_ACCUMULATION_KEPT, 0);
  CHECK(is_said("the effective batch becomes 12 (now 8), which changes what the model learns: your "
                "program has no accumulation that plimsoll can change"),
        "not said");
  make(4, TRIAL_ACCUMULATION_WRITTEN, 8);
  CHECK(!is_said("the effective batch becomes"), "said, and it stays");
  make(2, TRIAL_ACCUMULATION_KEPT, 0);
  CHECK(!is_said("the effective batch") && !is_said("what the model learns"), "nothing changes");
}

TEST(an_accumulation_that_is_not_known_is_said) {
  make(3, TRIAL_ACCUMULATION_KEPT, 0);
  program.accumulation = runs[0].accumulation = runs[1].accumulation = 0;
  CHECK(is_said("plimsoll did not find the program's accumulation"), "not said");
}

TEST(retries_are_said_with_what_fits_without_them) {
  make(3, TRIAL_ACCUMULATION_KEPT, 0);
  CHECK(!is_said("its cache"), "there were none");
  runs[1].retries = 1;
  CHECK(is_said("PyTorch had to empty its cache 1 time in 3 steps"), "not said");
  CHECK(is_said("micro batch 2, which was tried too, fits without that"), "not said");
}

TEST(little_free_memory_is_said) {
  make(3, TRIAL_ACCUMULATION_KEPT, 0);
  report.budget_bytes = 24 * PLIM_GIB;
  report.is_whole_card = true;
  runs[1].needs_bytes = 22 * PLIM_GIB;
  CHECK(!is_said("leaves only"), "a twelfth is free");
  runs[1].needs_bytes = 23 * PLIM_GIB;
  CHECK(is_said("the plan leaves only 1.00 GiB free"), "not said");
  report.is_whole_card = false; // --limit: CUDA's own memory is not part of it
  CHECK(!is_said("leaves only"), "said of a limit for PyTorch");
}

TEST(why_nothing_larger_is_planned) {
  make(8, TRIAL_ACCUMULATION_WRITTEN, 8);
  CHECK(is_said("this is the whole effective batch"), "not said");
  make(3, TRIAL_ACCUMULATION_KEPT, 0);
  search.is_exact = false;
  CHECK(is_said("the search ended after 2 runs, and 4 was not tried"), "not said");
  search.is_exact = true;
  runs[2] = (trial_run){.micro = 4, .verdict = TRIAL_NO_DATA};
  search.runs.len = 3;
  CHECK(is_said("too little data for a larger micro batch"), "not said");
}

TEST(no_batch_is_said_if_nothing_fits) {
  make(3, TRIAL_ACCUMULATION_KEPT, 0);
  CHECK(is_said("effective batch"), "not said");
  search.best = SIZE_MAX;
  CHECK(!is_said("effective batch"), "nothing is planned");
}

TEST_MAIN
