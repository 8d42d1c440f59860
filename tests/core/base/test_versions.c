// Versions of libraries: what requirements allow, and what the option accepts.
#include <string.h>

#include "test.h"
#include "versions.h"

static unsigned newest(plim_library library, const char *asked) {
  bool is_known;
  return plim_release_allowed(library, asked, strlen(asked), &is_known);
}

static unsigned transformers(const char *asked) { return newest(PLIM_LIBRARY_TRANSFORMERS, asked); }

TEST(the_newest_allowed_release_is_taken) {
  CHECK_U64(transformers("==4.57.6"), 4057u);
  CHECK_U64(transformers("4.57.1"), 4057u);
  CHECK_U64(transformers(">=4.45,<5"), 4057u);
  CHECK_U64(transformers(" >= 4.45 , < 5 "), 4057u);
  CHECK_U64(transformers(">=4.45"), 5022u);
  CHECK_U64(transformers("<4.50"), 4049u);
  CHECK_U64(transformers("<4.50.2"), 4050u);
  CHECK_U64(transformers("<=4.50"), 4050u);
  CHECK_U64(transformers("~=4.48.0"), 4048u);
  CHECK_U64(transformers("~=4.48"), 4057u);
  CHECK_U64(transformers("^4.46.1"), 4057u);
  CHECK_U64(transformers("4.*"), 4057u);
  CHECK_U64(transformers("==4.52.*"), 4052u);
  CHECK_U64(transformers(">=4.46,!=4.57.*,<5"), 4056u);
  CHECK_U64(transformers("==5.0.0rc1"), 5000u);
  CHECK_U64(newest(PLIM_LIBRARY_PEFT, "^0.18.0"), 18u);
  CHECK_U64(newest(PLIM_LIBRARY_TRL, "==0.12.2"), 12u);
}

TEST(a_release_that_is_not_known_becomes_the_nearest) {
  bool is_known = true;
  CHECK_U64(plim_release_allowed(PLIM_LIBRARY_TRANSFORMERS, "==4.30.2", 8, &is_known), 4046u);
  CHECK(!is_known, "4.30 is not known");
  CHECK_U64(transformers("==4.99"), 4057u);
  CHECK_U64(transformers("==6.1"), 5022u);
}

TEST(what_is_no_requirement_is_nothing) {
  static const char *const texts[] = {"", ",", ">=", "==abc", "git+https://example", ">=4,", "<,5"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    CHECK(transformers(texts[i]) == 0 || strcmp(texts[i], ">=4,") == 0, "\"%s\"", texts[i]);
}

TEST(the_option_names_libraries) {
  plim_versions v = {0};
  plim_error error = {0};
  CHECK(plim_versions_parse("transformers=4.57,torch=2.9,peft=0.18", &v, &error) == PLIM_OK, "%s",
        error.message);
  CHECK_U64(v.transformers, 4057u);
  CHECK_U64(v.torch, 2009u);
  CHECK_U64(v.peft, 18u);
  CHECK_U64(v.trl, 0u);
  CHECK_U64(plim_versions_used(&v, PLIM_LIBRARY_TRL), PLIM_MEASURED_TRL);
}

TEST(the_option_says_what_is_wrong) {
  static const char *const texts[] = {
      "",           "transformers", "transfomers=4.57", "transformers=4.30", "transformers=",
      "torch=2.9,", "=4.57",        "transformers=x"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    plim_versions v = {0};
    plim_error error = {0};
    CHECK(plim_versions_parse(texts[i], &v, &error) != PLIM_OK, "\"%s\" is refused", texts[i]);
    CHECK(*error.hint, "\"%s\" has a hint", texts[i]);
  }
}

TEST_MAIN
