// A test program in three lines: TEST(what_it_proves) { CHECK(cond, "values %d", x); }, then
// TEST_MAIN. A failing CHECK prints file, line, condition and values and ends that test.
// The last line of the output is "N passed, N failed" or "N passed, N failed, N skipped";
// the exit code is 1 if anything failed.
//
// Arguments select tests: those whose name contains one of them run.
#ifndef PLIM_TESTS_TEST_H
#define PLIM_TESTS_TEST_H

#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct test_case {
  const char *name;
  void (*run)(void);
  struct test_case *next;
} test_case;

extern test_case *test_cases;
extern bool test_failed, test_skipped;

void test_add(test_case *test);
int test_main(int argc, char **argv);

// Counts one more case in addition to the TEST itself, for tests over many files.
void test_count(const char *name, bool passed);

// Cases that are known not to pass, with the reason. A star at the end of a name matches any rest.
typedef struct {
  const char *name, *why;
} test_exception;

// Counts one more case. A case that is known not to pass is shown as such, and fails as soon as it passes, so that the
// list stays up to date.
void test_count_unless(const char *name, bool passed, const test_exception *known, size_t count);
bool test_is_known(const char *name, const test_exception *known, size_t count);

#define TEST(id)                                                                                   \
  static void test_##id(void);                                                                     \
  __attribute__((constructor)) static void test_add_##id(void) {                                   \
    static test_case self = {#id, test_##id, NULL};                                                \
    test_add(&self);                                                                               \
  }                                                                                                \
  static void test_##id(void)

#define CHECK(condition, ...)                                                                      \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      printf("%s:%d: %s is false: ", __FILE__, __LINE__, #condition);                              \
      printf(__VA_ARGS__);                                                                         \
      printf("\n");                                                                                \
      test_failed = true;                                                                          \
      return;                                                                                      \
    }                                                                                              \
  } while (0)

#define CHECK_U64(got, want)                                                                       \
  CHECK((got) == (want), "got %" PRIu64 ", want %" PRIu64, (uint64_t)(got), (uint64_t)(want))
#define CHECK_STR(got, want) CHECK(strcmp(got, want) == 0, "got \"%s\", want \"%s\"", got, want)

// Ends this test as skipped and prints the reason.
#define SKIP(...)                                                                                  \
  do {                                                                                             \
    printf("skipped: ");                                                                           \
    printf(__VA_ARGS__);                                                                           \
    printf("\n");                                                                                  \
    test_skipped = true;                                                                           \
    return;                                                                                        \
  } while (0)

#define TEST_MAIN                                                                                  \
  int main(int argc, char **argv) { return test_main(argc, argv); }

#endif
