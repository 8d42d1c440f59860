// The options of the savers as variables of the program's environment, and what they did as sentences.
#include "savers.h"

#include <stdlib.h>

#include "test.h"

TEST(nothing_wanted_sets_no_variable) {
  savers_args none = {0};
  CHECK_U64(savers_variables_of(&none).count, (size_t)0);
  CHECK_U64(savers_variables_of(NULL).count, (size_t)0);
}

TEST(each_saver_has_its_variable) {
  savers_args args = {.empty_cache_every = 10, .gc_every = 1, .chunked_loss = CLI_LEFT_OUT};
  savers_variables v = savers_variables_of(&args);
  CHECK_U64(v.count, (size_t)3);
  CHECK_STR(v.entries[0], "PLIMSOLL_CHUNKED_LOSS=512");
  CHECK_STR(v.entries[1], "PLIMSOLL_EMPTY_CACHE_EVERY=10");
  CHECK_STR(v.entries[2], "PLIMSOLL_GC_EVERY=1");
  args.chunked_loss = UINT64_MAX - 1; // the longest number
  CHECK_STR(savers_variables_of(&args).entries[0], "PLIMSOLL_CHUNKED_LOSS=18446744073709551614");
}

TEST(what_was_not_wanted_is_not_told) {
  savers_done done = {.emptied = PLIM_UNKNOWN, .collected = PLIM_UNKNOWN};
  plim_notes notes = {0};
  savers_describe(&done, &notes);
  CHECK_U64(notes.list.len, (size_t)0);
}

TEST(a_saver_without_effect_says_why) {
  savers_done done = {.wants_chunks = true,
                      .why_off = strdup("the program does not use transformers"),
                      .emptied = 1,
                      .collected = 0};
  plim_notes notes = {0};
  savers_describe(&done, &notes);
  CHECK_U64(notes.list.len, (size_t)3);
  CHECK_STR(notes.list.at[0].message,
            "--chunked-loss had no effect: the program does not use transformers");
  CHECK_STR(notes.list.at[1].message,
            "--empty-cache-every: torch.cuda.empty_cache() was called 1 time");
  CHECK_STR(notes.list.at[2].message, "--gc-every: gc.collect() was called 0 times");
  plim_notes_clear(&notes);
  savers_done_clear(&done);
  CHECK(!done.why_off && done.emptied == PLIM_UNKNOWN, "not cleared");
}

TEST_MAIN
