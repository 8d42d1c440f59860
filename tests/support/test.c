#include "test.h"

test_case *test_cases;
bool test_failed, test_skipped;
static test_case **tail = &test_cases;
static int passed, failed, skipped;

void test_add(test_case *test) {
  *tail = test;
  tail = &test->next;
}

void test_count(const char *name, bool ok) {
  printf("%s %s\n", ok ? "ok  " : "FAIL", name);
  if (ok) passed++;
  else failed++;
}

static const test_exception *find(const char *name, const test_exception *known, size_t count) {
  for (size_t i = 0; i < count; i++) {
    size_t length = strcspn(known[i].name, "*");
    size_t compared = known[i].name[length] ? length : length + 1; // including the terminating zero
    if (strncmp(known[i].name, name, compared) == 0) return &known[i];
  }
  return NULL;
}

bool test_is_known(const char *name, const test_exception *known, size_t count) {
  return find(name, known, count) != NULL;
}

void test_count_unless(const char *name, bool ok, const test_exception *known, size_t count) {
  const test_exception *e = find(name, known, count);
  if (!e) {
    test_count(name, ok);
    return;
  }
  if (ok) printf("FAIL %s passes: \"%s\" is no reason any more\n", name, e->why), failed++;
  else printf("known %s: %s\n", name, e->why), passed++;
}

static bool selected(const char *name, int argc, char **argv) {
  if (argc < 2) return true;
  for (int i = 1; i < argc; i++)
    if (strstr(name, argv[i])) return true;
  return false;
}

int test_main(int argc, char **argv) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  for (test_case *test = test_cases; test; test = test->next) {
    if (!selected(test->name, argc, argv)) continue;
    test_failed = test_skipped = false;
    test->run();
    if (test_skipped) skipped++, printf("skip %s\n", test->name);
    else test_count(test->name, !test_failed);
  }
  if (skipped) printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
  else printf("%d passed, %d failed\n", passed, failed);
  return failed > 0;
}
