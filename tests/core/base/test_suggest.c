#include "suggest.h"
#include "test.h"

static const char *const names[] = {"replay",     "plan",       "help", "version",
                                    "completion", "alloc-conf", NULL,   "max_split_size_mb"};

static const char *near(const char *word) {
  const char *found = plim_suggest(word, names, sizeof names / sizeof *names);
  return found ? found : "(nothing)";
}

TEST(distances) {
  CHECK_U64(plim_edit_distance("", ""), 0u);
  CHECK_U64(plim_edit_distance("", "abc"), 3u);
  CHECK_U64(plim_edit_distance("abc", ""), 3u);
  CHECK_U64(plim_edit_distance("kitten", "sitting"), 3u);
  CHECK_U64(plim_edit_distance("ab", "ba"), 1u);
  CHECK_U64(plim_edit_distance("ca", "abc"), 3u); // alignment: a swapped pair is not edited again
  CHECK_U64(plim_edit_distance("REPLAY", "replay"), 0u);
}

TEST(distance_is_symmetric) {
  for (size_t i = 0; i < 6; i++)
    for (size_t k = 0; k < 6; k++)
      CHECK(plim_edit_distance(names[i], names[k]) == plim_edit_distance(names[k], names[i]),
            "%s and %s", names[i], names[k]);
}

TEST(one_typo_of_each_kind) {
  CHECK_STR(near("rplay"), "replay");
  CHECK_STR(near("repplay"), "replay");
  CHECK_STR(near("reploy"), "replay");
  CHECK_STR(near("repaly"), "replay");
  CHECK_STR(near("Replay"), "replay");
}

TEST(long_words_may_have_more_typos) {
  CHECK_STR(near("alocconf"), "alloc-conf");
  CHECK_STR(near("max_split_size"), "max_split_size_mb");
  CHECK_STR(near("maxsplitsizemb"), "max_split_size_mb");
}

TEST(a_prefix_suggests_the_word) {
  CHECK_STR(near("comp"), "completion");
  CHECK_STR(near("alloc"), "alloc-conf");
  CHECK_STR(near("ve"), "version");
}

TEST(distant_words_suggest_nothing) {
  CHECK_STR(near("frobnicate"), "(nothing)");
  CHECK_STR(near("x"), "(nothing)");
  CHECK_STR(near(""), "(nothing)");
  CHECK_STR(near("zz"), "(nothing)");
}

TEST(words_of_any_length_are_safe) {
  char long_word[500];
  memset(long_word, 'a', sizeof long_word - 1);
  long_word[sizeof long_word - 1] = '\0';
  CHECK_STR(near(long_word), "(nothing)");
  CHECK(plim_suggest("replay", NULL, 0) == NULL, "suggested out of nothing");
}

TEST_MAIN
