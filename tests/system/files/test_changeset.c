// Apply and undo on a working disk: what they change, what they keep, what they refuse.
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "sets.h"
#include "test.h"

TEST(changeset_changes_and_undoes) {
  set_begin();
  folder_write_text("a", "old");
  CHECK(!set_apply_one("a", "old", "new"), "%s", set_error.message);
  CHECK_STR(set_content("a"), "new");
  CHECK_STR(set_content("a.backup"), "old");
  CHECK_U64(set_result.done.count, 1);
  CHECK_STR(set_result.done.files[0].path, "a");
  CHECK_STR(set_result.done.files[0].backup, "a.backup");
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK_STR(set_content("a"), "old");
  CHECK(!set_is_there("a.backup") && !set_is_there(".plimsoll"), "something is left");
  CHECK(set_result.done.kind == PLIM_CHANGES_UNDO && !set_result.done.files[0].backup,
        "the set_result");
  set_end();
}

TEST(changeset_applied_twice_is_undone_one_at_a_time) {
  set_begin();
  folder_write_text("a", "1");
  CHECK(!set_apply_one("a", "1", "2") && !set_apply_one("a", "2", "3"), "%s", set_error.message);
  CHECK_STR(set_result.done.files[0].backup, "a.backup.1");
  CHECK_STR(set_content("a.backup"), "1");
  CHECK_STR(set_content("a.backup.1"), "2");
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK_STR(set_content("a"), "2");
  CHECK(set_is_there("a.backup") && !set_is_there("a.backup.1"), "backups");
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK_STR(set_content("a"), "1");
  CHECK(!set_undo(false) && !set_result.done.count, "there is nothing to undo: %s",
        set_error.message);
  set_end();
}

TEST(changeset_keeps_backups_of_others) {
  set_begin();
  folder_write_text("a", "old");
  folder_write_text("a.backup", "mine");
  CHECK(!set_apply_one("a", "old", "new"), "%s", set_error.message);
  CHECK_STR(set_content("a.backup"), "mine");
  CHECK_STR(set_content("a.backup.1"), "old");
  CHECK(!set_undo(false) && set_is_there("a.backup") && !set_is_there("a.backup.1"), "%s",
        set_error.message);
  set_end();
}

TEST(changeset_refuses_as_a_whole) {
  set_begin();
  folder_write_text("a", "a");
  folder_write_text("b", "changed");
  plim_file_change changes[] = {set_change_of("a", "a", "A"), set_change_of("b", "b", "B")};
  CHECK(set_apply(changes, 2) == PLIM_ERR_UNSUPPORTED, "was not refused");
  CHECK(strstr(set_error.message, "changed since") && strstr(set_error.file, "/b") &&
            set_error.hint[0],
        "%s", set_error.message);
  CHECK_STR(set_content("a"), "a");
  CHECK(!set_is_there("a.backup") && !set_is_there(".plimsoll"), "something is left");
  set_end();
}

TEST(changeset_that_changes_nothing_leaves_nothing) {
  set_begin();
  folder_write_text("a", "same");
  CHECK(!set_apply_one("a", "same", "same") && set_result.done.count == 0, "%s", set_error.message);
  CHECK(!set_is_there("a.backup") && !set_is_there(".plimsoll"), "something is left");
  set_end();
}

TEST(changeset_creates_and_removes) {
  set_begin();
  folder_write_text("old", "x");
  plim_file_change changes[] = {set_change_of("new", NULL, "y"), set_change_of("old", "x", NULL)};
  CHECK(!set_apply(changes, 2), "%s", set_error.message);
  CHECK(set_result.done.files[0].created && set_result.done.files[1].gone && !set_is_there("old"),
        "the set_result");
  CHECK_STR(set_result.done.files[1].backup, "old.backup");
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK(!set_is_there("new") && !set_is_there("old.backup"), "something is left");
  CHECK_STR(set_content("old"), "x");
  set_end();
}

static mode_t mode_of(const char *name) {
  struct stat found;
  return stat(folder_path(name), &found) ? 0 : found.st_mode & 07777;
}

TEST(changeset_keeps_permissions_and_restores_them) {
  set_begin();
  folder_write_text("a", "old");
  CHECK(chmod(folder_path("a"), 0751) == 0, "chmod");
  CHECK(!set_apply_one("a", "old", "new"), "%s", set_error.message);
  CHECK(mode_of("a") == 0751 && mode_of("a.backup") == 0751, "mode %o", mode_of("a"));
  CHECK(chmod(folder_path("a"), 0600) == 0 && !set_undo(false), "%s", set_error.message);
  CHECK(mode_of("a") == 0751, "mode %o", mode_of("a"));
  set_end();
}

TEST(changeset_keeps_the_owner) {
  if (geteuid() != 0) SKIP("only root gives files away");
  struct stat found;
  set_begin();
  folder_write_text("a", "old");
  CHECK(chown(folder_path("a"), 1234, 2345) == 0, "chown");
  CHECK(!set_apply_one("a", "old", "new"), "%s", set_error.message);
  CHECK(stat(folder_path("a"), &found) == 0 && found.st_uid == 1234 && found.st_gid == 2345,
        "owner");
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK(stat(folder_path("a"), &found) == 0 && found.st_uid == 1234 && found.st_gid == 2345,
        "owner");
  set_end();
}

TEST(changeset_follows_links) {
  struct stat found;
  set_begin();
  folder_write_text("deep/er/real", "old");
  CHECK(symlink("deep/er/real", folder_path("link")) == 0, "symlink");
  CHECK(!set_apply_one("link", "old", "new"), "%s", set_error.message);
  CHECK_STR(set_result.done.files[0].path, "deep/er/real");
  CHECK_STR(set_content("deep/er/real"), "new");
  CHECK(lstat(folder_path("link"), &found) == 0 && S_ISLNK(found.st_mode), "the link was replaced");
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK_STR(set_content("link"), "old");
  plim_file_change both[] = {set_change_of("link", "old", "1"),
                             set_change_of("deep/er/real", "old", "2")};
  CHECK(set_apply(both, 2) == PLIM_ERR_UNSUPPORTED && strstr(set_error.message, "twice"), "%s",
        set_error.message);
  set_end();
}

// ---- what is refused --------------------------------------------------------------------------

static void make_hard_link(void) {
  if (link(folder_path("a"), folder_path("b"))) abort();
}
static void protect(void) {
  if (chmod(folder_path("a"), 0444)) abort();
}
static void make_a_folder(void) {
  if (unlink(folder_path("a")) || mkdir(folder_path("a"), 0700)) abort();
}
static void make_a_dangling_link(void) {
  if (unlink(folder_path("a")) || symlink("nowhere", folder_path("a"))) abort();
}
static void remove_it(void) {
  if (unlink(folder_path("a"))) abort();
}

TEST(changeset_refuses_what_it_cannot_replace) {
  static const struct {
    void (*make)(void);
    const char *word;
  } rows[] = {{make_hard_link, "hard links"},
              {protect, "write-protected"},
              {make_a_folder, "not a regular file"},
              {make_a_dangling_link, "symbolic link"},
              {remove_it, "does not exist any more"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    set_begin();
    folder_write_text("a", "old");
    rows[i].make();
    CHECK(set_apply_one("a", "old", "new") == PLIM_ERR_UNSUPPORTED, "%s", rows[i].word);
    CHECK(strstr(set_error.message, rows[i].word) && set_error.hint[0] && set_error.file[0], "%s",
          set_error.message);
    CHECK(!set_is_there(".plimsoll") && !set_is_there("a.backup"), "something is left");
    set_end();
  }
}

TEST(changeset_says_what_is_missing) {
  set_begin();
  CHECK(set_apply_one("no/such/folder", NULL, "x") == PLIM_ERR_IO &&
            strstr(set_error.hint, "create the folder"),
        "%s", set_error.hint);
  folder_write_text("a", "old");
  CHECK(set_apply_one("a", NULL, "new") && strstr(set_error.message, "exists already"), "%s",
        set_error.message);
  CHECK(!set_is_there(".plimsoll"), "something is left");
  set_end();
}

TEST(changeset_in_a_folder_that_may_not_be_written) {
  set_begin();
  folder_write_text("deep/a", "old");
  pid_t child = fork();
  if (child == 0) {
    if (chmod(folder_path("deep"), 0555) || chmod(folder_path("."), 0777)) _exit(1);
    if (chmod(folder_path("deep/a"), 0666) || (geteuid() == 0 && setuid(65534))) _exit(1);
    plim_err err = set_apply_one("deep/a", "old", "new");
    _exit(err == PLIM_ERR_IO && strstr(set_error.hint, "write permission") &&
                  !set_is_there(".plimsoll")
              ? 0
              : 2);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "status %x", (unsigned)status);
  CHECK_STR(set_content("deep/a"), "old");
  CHECK(chmod(folder_path("deep"), 0755) == 0, "chmod");
  set_end();
}

// ---- what happens in between --------------------------------------------------------------------

TEST(changeset_undo_refuses_what_changed_since) {
  set_begin();
  folder_write_text("a", "a");
  folder_write_text("b", "b");
  plim_file_change changes[] = {set_change_of("a", "a", "A"), set_change_of("b", "b", "B")};
  CHECK(!set_apply(changes, 2), "%s", set_error.message);
  folder_write_text("b", "edited");
  CHECK(set_undo(false) == PLIM_ERR_UNSUPPORTED, "was not refused");
  CHECK(strstr(set_error.message, "b was changed after the plan was applied") &&
            strstr(set_error.hint, "--force"),
        "%s", set_error.message);
  CHECK_STR(set_content("a"), "A");
  CHECK(!set_undo(true), "%s", set_error.message);
  CHECK_STR(set_content("a"), "a");
  CHECK_STR(set_content("b"), "b");
  CHECK_STR(set_result.done.files[1].backup, "b.backup.1");
  CHECK_STR(set_content("b.backup.1"), "edited");
  CHECK(!set_is_there("b.backup") && !set_is_there("a.backup") && !set_is_there(".plimsoll"),
        "something is left");
  set_end();
}

TEST(changeset_undo_brings_back_what_was_removed) {
  set_begin();
  folder_write_text("a", "old");
  CHECK(!set_apply_one("a", "old", "new") && unlink(folder_path("a")) == 0, "%s",
        set_error.message);
  CHECK(set_undo(false) && strstr(set_error.message, "a was deleted after the plan was applied"),
        "%s", set_error.message);
  CHECK(!set_undo(true), "%s", set_error.message);
  CHECK_STR(set_content("a"), "old");
  set_end();
}

TEST(changeset_undo_accepts_what_was_restored_by_hand) {
  set_begin();
  folder_write_text("a", "old");
  CHECK(!set_apply_one("a", "old", "new"), "%s", set_error.message);
  folder_write_text("a", "old");
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK_STR(set_content("a"), "old");
  CHECK(!set_is_there("a.backup") && !set_is_there(".plimsoll"), "something is left");
  set_end();
}

TEST(changeset_undo_needs_its_backups) {
  set_begin();
  folder_write_text("a", "old");
  CHECK(!set_apply_one("a", "old", "new"), "%s", set_error.message);
  folder_write_text("a.backup", "other");
  CHECK(set_undo(false) == PLIM_ERR_UNSUPPORTED &&
            strstr(set_error.message, "a.backup was changed"),
        "%s", set_error.message);
  CHECK(unlink(folder_path("a.backup")) == 0 && set_undo(false) &&
            strstr(set_error.message, "cannot be read"),
        "%s", set_error.message);
  CHECK_STR(set_content("a"), "new");
  CHECK(!set_undo(true) && set_result.done.count == 1 && set_result.done.files[0].skipped,
        "there is no way out: %s", set_error.message);
  CHECK_STR(set_content("a"), "new");
  CHECK(!set_is_there(".plimsoll"), "something is left");
  set_end();
}

TEST(changeset_undo_needs_no_backup_of_what_was_restored_by_hand) {
  set_begin();
  folder_write_text("a", "old");
  CHECK(!set_apply_one("a", "old", "new"), "%s", set_error.message);
  folder_write_text("a", "old");
  CHECK(unlink(folder_path("a.backup")) == 0 && !set_undo(false), "%s", set_error.message);
  CHECK(!set_is_there(".plimsoll"), "something is left");
  set_end();
}

TEST(changeset_reports_a_damaged_record) {
  set_begin();
  folder_write_text("a", "old");
  CHECK(!set_apply_one("a", "old", "new"), "%s", set_error.message);
  folder_write_text(".plimsoll/applied.1", "plimsoll journal 1\nkind apply\n");
  CHECK(set_undo(false) == PLIM_ERR_PARSE && strstr(set_error.file, "applied.1") &&
            set_error.hint[0],
        "%s", set_error.message);
  CHECK_STR(set_content("a"), "new");
  set_end();
}

TEST(changeset_undo_works_after_the_project_moved) {
  set_begin();
  folder_write_text("p/a", "old");
  plim_file_change change = set_change_of("p/a", "old", "new");
  CHECK(!plim_changeset_apply(set_path_of("p"), &change, 1, NULL, &set_result, &set_error), "%s",
        set_error.message);
  plim_changeset_result_clear(&set_result);
  CHECK(rename(set_path_of("p"), set_path_of("q")) == 0, "rename");
  CHECK(!plim_changeset_undo(set_path_of("q"), NULL, &set_result, &set_error), "%s",
        set_error.message);
  CHECK_STR(set_content("q/a"), "old");
  set_end();
}

// ---- interrupted ------------------------------------------------------------------------------

TEST(changeset_recovery_says_what_it_found) {
  set_begin();
  CHECK(set_interrupt(), "never in the middle");
  CHECK(!set_recover(false), "%s", set_error.message);
  CHECK(set_result.earlier.count == 2 && set_result.earlier.way == PLIM_CHANGES_COMPLETED,
        "the set_result");
  CHECK(set_result.earlier.files[0].found == PLIM_FILE_NEW, "a");
  CHECK(set_result.earlier.files[1].found == PLIM_FILE_OLD, "b");
  CHECK_STR(set_content("b"), "B");
  CHECK(!set_recover(false) && set_result.earlier.count == 0, "%s", set_error.message);
  set_end();
}

TEST(changeset_recovery_rolls_back_what_it_cannot_complete) {
  set_begin();
  CHECK(set_interrupt(), "never in the middle");
  char command[600];
  snprintf(command, sizeof command, "rm '%s'/b.plimsoll-*", folder_path("."));
  CHECK(system(command) == 0, "there is no staged file");
  CHECK(!set_recover(false) && set_result.earlier.way == PLIM_CHANGES_ROLLED_BACK, "%s",
        set_error.message);
  CHECK_STR(set_content("a"), "a");
  CHECK(!set_is_there("a.backup") && !set_is_there("b.backup") && !set_is_there(".plimsoll"),
        "something is left");
  set_end();
}

TEST(changeset_recovery_leaves_alone_what_changed_since) {
  set_begin();
  CHECK(set_interrupt(), "never in the middle");
  folder_write_text("b", "edited");
  CHECK(set_recover(false) == PLIM_ERR_UNSUPPORTED && strstr(set_error.hint, "--force"), "%s",
        set_error.message);
  CHECK_STR(set_error.file, "b");
  CHECK(!set_recover(true), "%s", set_error.message);
  CHECK(set_result.earlier.files[1].found == PLIM_FILE_OTHER, "b");
  CHECK_STR(set_content("b"), "edited");
  CHECK_STR(set_content("b.backup"), "b");
  CHECK_STR(set_content("a"), "A");
  set_end();
}

TEST(changeset_undo_after_an_interruption_means_what_was_interrupted) {
  set_begin();
  CHECK(set_interrupt() && !set_undo(false), "%s", set_error.message);
  CHECK(set_result.earlier.way == PLIM_CHANGES_COMPLETED && set_result.done.count == 2,
        "the set_result");
  CHECK_STR(set_content("a"), "a");
  CHECK(!set_is_there(".plimsoll"), "something is left");
  set_end();
}

// ---- two at once ------------------------------------------------------------------------------

static char letter_of(const char *name) { return set_content(name)[0]; }

// Writes a letter into both files while other processes do the same.
static int compete(char letter) {
  char text[] = {letter, '\0'};
  int successes = 0;
  for (int i = 0; i < 30; i++) {
    char a[] = {letter_of("a"), '\0'}, b[] = {letter_of("b"), '\0'};
    plim_file_change changes[] = {set_change_of("a", a, text), set_change_of("b", b, text)};
    if (!set_apply(changes, 2) && set_result.done.count) successes++;
    usleep((useconds_t)(rand() % 500));
  }
  return successes;
}

TEST(changeset_of_two_processes_never_mix) {
  enum { PROCESSES = 4 };
  set_begin();
  folder_write_text("a", "x");
  folder_write_text("b", "x");
  pid_t children[PROCESSES];
  for (int i = 0; i < PROCESSES; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      srand((unsigned)i);
      _exit(compete((char)('A' + i)));
    }
  }
  int successes = 0, status;
  for (int i = 0; i < PROCESSES; i++) {
    CHECK(waitpid(children[i], &status, 0) == children[i] && WIFEXITED(status), "wait");
    successes += WEXITSTATUS(status);
  }
  CHECK(successes > 0 && letter_of("a") == letter_of("b"), "%d, %s and %s", successes,
        set_content("a"), set_content("b"));
  for (int i = 0; i < successes; i++) CHECK(!set_undo(false), "undo %d: %s", i, set_error.message);
  CHECK(letter_of("a") == 'x' && letter_of("b") == 'x' && !set_is_there(".plimsoll"), "%s",
        set_content("a"));
  set_end();
}

static int gate[2]; // the parent closes it after its attempt

static int waiting_fsync(int fd) {
  char byte;
  (void)fd;
  if (!set_is_there(".plimsoll/journal")) return 0;
  if (gate[1] >= 0) close(gate[1]);
  gate[1] = -1;
  return (int)read(gate[0], &byte, 1); // returns 0 when the gate is closed
}

TEST(changeset_is_refused_while_another_is_at_work) {
  set_begin();
  folder_write_text("a", "old");
  CHECK(!pipe(gate), "a pipe");
  pid_t child = fork();
  if (child == 0) {
    plim_disk slow = plim_real_disk;
    slow.fsync = waiting_fsync;
    plim_file_change change = set_change_of("a", "old", "new");
    _exit(plim_changeset_apply(set_path_of("."), &change, 1,
                               &(plim_changeset_options){.disk = &slow}, &set_result, &set_error));
  }
  while (!set_is_there(".plimsoll/journal")) usleep(100);
  CHECK(set_apply_one("a", "old", "other") == PLIM_ERR_UNSUPPORTED, "was let in");
  CHECK(strstr(set_error.message, "another plimsoll") && set_error.hint[0], "%s",
        set_error.message);
  CHECK(set_recover(false) == PLIM_ERR_UNSUPPORTED, "recovery was let in");
  close(gate[0]), close(gate[1]);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "status %x", (unsigned)status);
  CHECK_STR(set_content("a"), "new");
  set_end();
}

// ---- lent sets --------------------------------------------------------------------------------

static plim_err lend(const char *name, const char *before, const char *after, int *lent) {
  plim_file_change change = set_change_of(name, before, after);
  plim_changeset_options options = {.lent = lent, .waits = true};
  plim_changeset_result_clear(&set_result);
  return plim_changeset_apply(folder_path(""), &change, 1, &options, &set_result, &set_error);
}

static plim_err look_after(void) {
  plim_changeset_options options = {.waits = true};
  plim_changeset_result_clear(&set_result);
  return plim_changeset_recover(folder_path(""), &options, &set_result, &set_error);
}

TEST(changeset_lent_is_returned_when_its_process_is_gone) {
  int lent;
  plim_changes left;
  set_begin();
  folder_write_text("a", "old");
  CHECK(!lend("a", "old", "new", &lent) && lent >= 0, "%s", set_error.message);
  CHECK(!look_after() && !set_result.earlier.count, "it is in use");
  CHECK(!plim_changeset_look(folder_path(""), &left, &set_error) && !left.count, "likewise");
  CHECK_STR(set_content("a"), "new");
  close(lent); // as when the process is killed
  CHECK(!plim_changeset_look(folder_path(""), &left, &set_error) && left.count == 1 && left.is_lent,
        "it is seen");
  plim_changes_clear(&left);
  CHECK(!look_after() && set_result.earlier.count == 1 && set_result.earlier.is_lent, "%s",
        set_error.message);
  CHECK_STR(set_content("a"), "old");
  CHECK(!set_is_there("a.backup") && !set_is_there(".plimsoll"), "something is left");
  set_end();
}

TEST(changeset_lent_sets_are_returned_in_any_order) {
  int first, second, third;
  set_begin();
  folder_write_text("a", "1");
  folder_write_text("b", "x");
  CHECK(!lend("a", "1", "2", &first) && !lend("b", "x", "y", &second), "%s", set_error.message);
  CHECK(!lend("a", "2", "3", &third), "%s", set_error.message);
  close(first);
  CHECK(!look_after() && !set_result.earlier.count, "what is in use stays");
  CHECK_STR(set_content("a"), "3");
  close(third);
  CHECK(!look_after(), "%s", set_error.message);
  CHECK_STR(set_content("a"), "1");
  CHECK_STR(set_content("b"), "y");
  close(second);
  CHECK(!look_after(), "%s", set_error.message);
  CHECK_STR(set_content("b"), "x");
  CHECK(!set_is_there("a.backup") && !set_is_there(".plimsoll"), "something is left");
  set_end();
}

TEST(changeset_lent_is_left_alone_once_somebody_has_changed_the_file) {
  int lent;
  set_begin();
  folder_write_text("a", "old");
  folder_write_text("b", "b");
  CHECK(!lend("a", "old", "new", &lent), "%s", set_error.message);
  close(lent);
  folder_write_text("a", "mine");
  CHECK(!set_apply_one("b", "b", "B"), "others are not kept from working: %s", set_error.message);
  CHECK_STR(set_content("a"), "mine");
  CHECK_STR(set_content("a.backup"), "old");
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK_STR(set_content("b"), "b");
  set_end();
}

TEST_MAIN
