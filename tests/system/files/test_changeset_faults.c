// Whichever call fails or ends the process, every file stays intact, and in the end all are old or all are new.
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fault_disk.h"
#include "scene.h"
#include "test.h"

// STRIDE: every n-th call is interrupted, and then every call of the recovery. STEP: every n-th call fails if only one
// failure is tried.
#ifdef TEST_SANITIZED // a fork takes ten times as long
enum { STRIDE = 101, SEEDS = 1, STEP = 7 };
#else
enum { STRIDE = 11, SEEDS = 8, STEP = 1 };
#endif

typedef plim_err action(const plim_disk *disk, plim_error *error);

// Runs it in a child process. Returns 0: done, 1: an error, FAULT_EXIT: died, 3: the call was not reached.
static int in_child(action *act, fault f) {
  pid_t child = fork();
  if (child == 0) {
    fault_set(f, scene_shadow());
    plim_err err = act(&fault_disk, NULL);
    _exit(!fault_struck() ? 3 : err ? 1 : 0);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void prepare(bool is_applied) {
  scene_reset();
  fault_set((fault){0}, scene_shadow()); // does not sync, which is fast
  if (is_applied && scene_apply(&fault_disk, NULL)) abort();
}

static bool is_whole(void) { return !strchr(scene_sides(), 'x'); }

typedef struct {
  action *act;
  bool starts_applied;
  const char *before, *after; // the states of the files, as in scene_sides
} deed;

static const deed apply = {scene_apply, false, "ooooo", "nnnnn"};
static const deed undo = {scene_undo, true, "nnnnn", "ooooo"};

static const char *describe(fault f, int ended) {
  static char text[128];
  snprintf(text, sizeof text, "fault %d at call %d, error %d, cut %d, seed %llu: ended with %d, %s",
           f.kind, f.at, f.number, f.cut, (unsigned long long)f.seed, ended, scene_sides());
  return text;
}

// If the operation returned, the files must be right without a recovery, as far as possible.
static void check_ended(const deed *d, fault f, int ended) {
  CHECK(ended == 0 || ended == 1 || ended == FAULT_EXIT, "%s", describe(f, ended));
  CHECK(is_whole(), "%s", describe(f, ended));
  if (ended == 0) CHECK_STR(scene_sides(), d->after);
  if (ended == 1 && f.kind != FAULT_FAIL_ON)
    CHECK(strcmp(scene_sides(), d->before) == 0, "%s", describe(f, ended));
}

static void check_recovered(fault f, int ended) {
  plim_error error = {0};
  CHECK(!scene_recover(&fault_disk, &error), "%s: %s", describe(f, ended), error.message);
  CHECK(!*scene_fault(), "%s: %s", describe(f, ended), scene_fault());
}

static void try_every_call(const deed *d, fault f) {
  int ended = 0;
  for (f.at = 0; ended != 3 && !test_failed; f.at += STEP) {
    prepare(d->starts_applied);
    ended = in_child(d->act, f);
    if (ended == 3) CHECK(f.at > 40, "only %d calls", f.at);
    if (ended == 3) break;
    check_ended(d, f, ended);
    if (!test_failed) check_recovered(f, ended);
  }
}

static void try_everything(const deed *d) {
  static const int numbers[] = {ENOSPC, EIO};
  scene_make();
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !test_failed; i++) {
    try_every_call(d, (fault){.kind = FAULT_FAIL, .number = numbers[i]});
    if (!test_failed) try_every_call(d, (fault){.kind = FAULT_FAIL_ON, .number = numbers[i]});
  }
  for (fault_kind kind = FAULT_SHORT; kind < FAULT_KINDS && !test_failed; kind++)
    try_every_call(d, (fault){.kind = kind});
  scene_remove();
}

TEST(changeset_apply_survives_a_failing_call) { try_everything(&apply); }
TEST(changeset_undo_survives_a_failing_call) { try_everything(&undo); }

// One call fails and all others work: after an error, nothing is left to clean up.
static void try_alone(const deed *d) {
  bool is_struck = true;
  scene_make();
  for (int at = 0; is_struck; at++) {
    prepare(d->starts_applied);
    fault_set((fault){.kind = FAULT_FAIL, .at = at, .number = EIO}, scene_shadow());
    plim_error error = {0};
    plim_err err = d->act(&fault_disk, &error);
    is_struck = fault_struck();
    CHECK(!err || !*scene_fault(), "%s at call %d: %s", fault_call(), at, scene_fault());
    CHECK(!err || (error.message[0] && error.hint[0]), "an error without words at %s",
          fault_call());
    CHECK_STR(scene_sides(), err ? d->before : d->after);
  }
  scene_remove();
}

TEST(changeset_errors_leave_nothing_behind) {
  try_alone(&apply);
  try_alone(&undo);
}

static void try_power_cuts(const deed *d) {
  scene_make();
  for (fault_cut cut = CUT_PROJECT; cut <= CUT_BOTH; cut++)
    for (fault_kind kind = FAULT_DIE_BEFORE; kind < FAULT_KINDS && !test_failed; kind++)
      try_every_call(d, (fault){.kind = kind, .cut = cut});
  scene_remove();
}

// Unsynced changes are lost in part: the second change of a folder may survive without the first.
static void try_ragged_cuts(const deed *d) {
  scene_make();
  for (uint64_t seed = 1; seed <= SEEDS && !test_failed; seed++)
    try_every_call(d, (fault){.kind = FAULT_DIE_WITHIN, .cut = CUT_BOTH, .seed = seed});
  scene_remove();
}

TEST(changeset_apply_survives_a_ragged_power_cut) { try_ragged_cuts(&apply); }
TEST(changeset_undo_survives_a_ragged_power_cut) { try_ragged_cuts(&undo); }

TEST(changeset_apply_survives_a_power_cut) { try_power_cuts(&apply); }
TEST(changeset_undo_survives_a_power_cut) { try_power_cuts(&undo); }

// The recovery may be interrupted too, at any call.
static void try_twice(const deed *d, fault first) {
  for (fault f = {.kind = FAULT_DIE_WITHIN, .cut = first.cut, .seed = first.seed};; f.at++) {
    prepare(d->starts_applied);
    int ended = in_child(d->act, first);
    if (ended == 3) return;
    ended = in_child(scene_recover, f);
    CHECK(is_whole(), "first at %d; then %s", first.at, describe(f, ended));
    plim_error error = {0};
    CHECK(!scene_recover(&fault_disk, &error), "first at %d; then %s: %s", first.at,
          describe(f, ended), error.message);
    CHECK(!*scene_fault(), "first at %d; then %s: %s", first.at, describe(f, ended), scene_fault());
    if (ended == 3) return;
  }
}

static void try_all_twice(const deed *d, fault_kind kind, fault_cut cut, uint64_t seed) {
  scene_make();
  for (int at = 0; at < 120 && !test_failed; at += STRIDE)
    try_twice(d, (fault){.kind = kind, .at = at, .number = EIO, .cut = cut, .seed = seed});
  scene_remove();
}

TEST(changeset_recovery_survives_being_killed) {
  static const deed *const deeds[] = {&apply, &undo};
  for (int i = 0; i < 2 && !test_failed; i++) {
    try_all_twice(deeds[i], FAULT_DIE_WITHIN, CUT_NOTHING, 0);
    if (!test_failed) try_all_twice(deeds[i], FAULT_DIE_WITHIN, CUT_BOTH, 0);
    if (!test_failed) try_all_twice(deeds[i], FAULT_DIE_WITHIN, CUT_BOTH, 1);
    if (!test_failed) try_all_twice(deeds[i], FAULT_FAIL_ON, CUT_NOTHING, 0);
  }
}

// ---- real processes ---------------------------------------------------------------------------

static void back_and_forth(void) {
  for (;;) {
    if (scene_apply(NULL, NULL)) _exit(1);
    if (scene_undo(NULL, NULL)) _exit(1);
  }
}

TEST(changeset_survives_kills) {
  scene_make();
  for (int i = 0; i < 40; i++) {
    pid_t child = fork();
    if (child == 0) back_and_forth();
    usleep((useconds_t)(rand() % 20000));
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child, "kill");
    CHECK(is_whole(), "round %d: %s", i, scene_sides());
    plim_error error = {0};
    CHECK(!scene_recover(NULL, &error), "%s", error.message);
    CHECK(!*scene_fault(), "round %d: %s, %s", i, scene_sides(), scene_fault());
    if (scene_sides()[0] == 'n') CHECK(!scene_undo(NULL, &error), "%s", error.message);
  }
  scene_remove();
}

TEST_MAIN
