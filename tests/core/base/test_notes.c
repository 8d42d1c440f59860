#include "notes.h"
#include "test.h"

static void add(plim_notes *n) { plim_note_add(n, "unmodelled.x", NULL, "something"); }

// What the notes of two lists save adds up, also in a copy; one that may save any amount leaves the sum open.
TEST(what_notes_save_adds_up) {
  plim_notes n = {0}, copy = {0};
  add(&n);
  CHECK_U64(plim_notes_saved(&n), 0u);
  plim_note_errs_high_by(&n, 3);
  add(&n), plim_note_errs_high_by(&n, 4);
  add(&n), plim_note_errs_low(&n);
  CHECK_U64(plim_notes_saved(&n), 7u);
  plim_notes_append(&copy, &n);
  CHECK_U64(plim_notes_saved(&copy), 7u);
  CHECK(plim_notes_err_low(&copy), "the mark of the last is lost");
  CHECK_U64(plim_saved_sum(plim_notes_saved(&n), 5), 12u);
  add(&n), plim_note_errs_high(&n);
  CHECK_U64(plim_notes_saved(&n), PLIM_UNKNOWN);
  CHECK_U64(plim_saved_sum(5, PLIM_UNKNOWN), PLIM_UNKNOWN);
  plim_notes_clear(&n), plim_notes_clear(&copy);
}

// A run that may need more or less may need much less.
TEST(notes_that_err_either_way_leave_open_what_is_saved) {
  plim_notes n = {0}, copy = {0};
  add(&n), plim_note_errs_high_by(&n, 3);
  add(&n), plim_note_errs_either(&n);
  plim_notes_append(&copy, &n);
  CHECK(plim_notes_err_either(&copy) && !plim_notes_err_low(&copy), "another mark");
  CHECK_U64(plim_notes_saved(&copy), PLIM_UNKNOWN);
  plim_notes_clear(&n), plim_notes_clear(&copy);
}

TEST_MAIN
