// What apply and undo do when the disk works: what they change, what they keep, what they refuse.
#include "changeset.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../test.h"
#include "fault_disk.h"
#include "folder.h"

static plim_changeset_result result;
static plim_error error;

static char *path_of(const char *name) {
  static char paths[8][512];
  static int turn;
  char *path = paths[turn = (turn + 1) % 8];
  snprintf(path, sizeof paths[0], "%s", folder_path(name));
  return path;
}

static plim_file_change change_of(const char *name, const char *before, const char *after) {
  return (plim_file_change){path_of(name), plim_content_of(before, before ? strlen(before) : 0),
                            after, after ? strlen(after) : 0};
}

static plim_err apply(const plim_file_change *changes, size_t count) {
  plim_changeset_result_clear(&result);
  error = (plim_error){0};
  return plim_changeset_apply(path_of("."), changes, count, NULL, &result, &error);
}

static plim_err apply_one(const char *name, const char *before, const char *after) {
  plim_file_change change = change_of(name, before, after);
  return apply(&change, 1);
}

static plim_err undo(bool force) {
  plim_changeset_result_clear(&result);
  error = (plim_error){0};
  return plim_changeset_undo(path_of("."), &(plim_changeset_options){.force = force}, &result,
                             &error);
}

static plim_err recover(bool force) {
  plim_changeset_result_clear(&result);
  error = (plim_error){0};
  return plim_changeset_recover(path_of("."), &(plim_changeset_options){.force = force}, &result,
                                &error);
}

static const char *content(const char *name) {
  static char text[4][256];
  static int turn;
  char *data;
  size_t size;
  if (plim_disk_read_file(folder_path(name), &data, &size)) return "(nothing)";
  char *to = text[turn = (turn + 1) % 4];
  snprintf(to, sizeof text[0], "%s", data);
  free(data);
  return to;
}

static bool is_there(const char *name) { return access(folder_path(name), F_OK) == 0; }

static void begin(void) {
  umask(022);
  folder_make();
}

static void end(void) {
  plim_changeset_result_clear(&result);
  folder_remove();
}

TEST(changeset_changes_and_undoes) {
  begin();
  folder_write_text("a", "old");
  CHECK(!apply_one("a", "old", "new"), "%s", error.message);
  CHECK_STR(content("a"), "new");
  CHECK_STR(content("a.backup"), "old");
  CHECK_U64(result.done.count, 1);
  CHECK_STR(result.done.files[0].path, "a");
  CHECK_STR(result.done.files[0].backup, "a.backup");
  CHECK(!undo(false), "%s", error.message);
  CHECK_STR(content("a"), "old");
  CHECK(!is_there("a.backup") && !is_there(".plimsoll"), "something is left");
  CHECK(result.done.kind == PLIM_CHANGES_UNDO && !result.done.files[0].backup, "the result");
  end();
}

TEST(changeset_applied_twice_is_undone_one_at_a_time) {
  begin();
  folder_write_text("a", "1");
  CHECK(!apply_one("a", "1", "2") && !apply_one("a", "2", "3"), "%s", error.message);
  CHECK_STR(result.done.files[0].backup, "a.backup.1");
  CHECK_STR(content("a.backup"), "1");
  CHECK_STR(content("a.backup.1"), "2");
  CHECK(!undo(false), "%s", error.message);
  CHECK_STR(content("a"), "2");
  CHECK(is_there("a.backup") && !is_there("a.backup.1"), "backups");
  CHECK(!undo(false), "%s", error.message);
  CHECK_STR(content("a"), "1");
  CHECK(undo(false) == PLIM_ERR_UNSUPPORTED && strstr(error.message, "nothing to undo"), "%s",
        error.message);
  end();
}

TEST(changeset_keeps_backups_of_others) {
  begin();
  folder_write_text("a", "old");
  folder_write_text("a.backup", "mine");
  CHECK(!apply_one("a", "old", "new"), "%s", error.message);
  CHECK_STR(content("a.backup"), "mine");
  CHECK_STR(content("a.backup.1"), "old");
  CHECK(!undo(false) && is_there("a.backup") && !is_there("a.backup.1"), "%s", error.message);
  end();
}

TEST(changeset_refuses_as_a_whole) {
  begin();
  folder_write_text("a", "a");
  folder_write_text("b", "changed");
  plim_file_change changes[] = {change_of("a", "a", "A"), change_of("b", "b", "B")};
  CHECK(apply(changes, 2) == PLIM_ERR_UNSUPPORTED, "was not refused");
  CHECK(strstr(error.message, "changed since") && strstr(error.file, "/b") && error.hint[0], "%s",
        error.message);
  CHECK_STR(content("a"), "a");
  CHECK(!is_there("a.backup") && !is_there(".plimsoll"), "something is left");
  end();
}

TEST(changeset_that_changes_nothing_leaves_nothing) {
  begin();
  folder_write_text("a", "same");
  CHECK(!apply_one("a", "same", "same") && result.done.count == 0, "%s", error.message);
  CHECK(!is_there("a.backup") && !is_there(".plimsoll"), "something is left");
  end();
}

TEST(changeset_creates_and_removes) {
  begin();
  folder_write_text("old", "x");
  plim_file_change changes[] = {change_of("new", NULL, "y"), change_of("old", "x", NULL)};
  CHECK(!apply(changes, 2), "%s", error.message);
  CHECK(result.done.files[0].created && result.done.files[1].gone && !is_there("old"),
        "the result");
  CHECK_STR(result.done.files[1].backup, "old.backup");
  CHECK(!undo(false), "%s", error.message);
  CHECK(!is_there("new") && !is_there("old.backup"), "something is left");
  CHECK_STR(content("old"), "x");
  end();
}

static mode_t mode_of(const char *name) {
  struct stat found;
  return stat(folder_path(name), &found) ? 0 : found.st_mode & 07777;
}

TEST(changeset_keeps_permissions_and_restores_them) {
  begin();
  folder_write_text("a", "old");
  CHECK(chmod(folder_path("a"), 0751) == 0, "chmod");
  CHECK(!apply_one("a", "old", "new"), "%s", error.message);
  CHECK(mode_of("a") == 0751 && mode_of("a.backup") == 0751, "mode %o", mode_of("a"));
  CHECK(chmod(folder_path("a"), 0600) == 0 && !undo(false), "%s", error.message);
  CHECK(mode_of("a") == 0751, "mode %o", mode_of("a"));
  end();
}

TEST(changeset_keeps_the_owner) {
  if (geteuid() != 0) SKIP("only root gives files away");
  struct stat found;
  begin();
  folder_write_text("a", "old");
  CHECK(chown(folder_path("a"), 1234, 2345) == 0, "chown");
  CHECK(!apply_one("a", "old", "new"), "%s", error.message);
  CHECK(stat(folder_path("a"), &found) == 0 && found.st_uid == 1234 && found.st_gid == 2345,
        "owner");
  CHECK(!undo(false), "%s", error.message);
  CHECK(stat(folder_path("a"), &found) == 0 && found.st_uid == 1234 && found.st_gid == 2345,
        "owner");
  end();
}

TEST(changeset_follows_links) {
  struct stat found;
  begin();
  folder_write_text("deep/er/real", "old");
  CHECK(symlink("deep/er/real", folder_path("link")) == 0, "symlink");
  CHECK(!apply_one("link", "old", "new"), "%s", error.message);
  CHECK_STR(result.done.files[0].path, "deep/er/real");
  CHECK_STR(content("deep/er/real"), "new");
  CHECK(lstat(folder_path("link"), &found) == 0 && S_ISLNK(found.st_mode), "the link was replaced");
  CHECK(!undo(false), "%s", error.message);
  CHECK_STR(content("link"), "old");
  plim_file_change both[] = {change_of("link", "old", "1"), change_of("deep/er/real", "old", "2")};
  CHECK(apply(both, 2) == PLIM_ERR_UNSUPPORTED && strstr(error.message, "twice"), "%s",
        error.message);
  end();
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
    begin();
    folder_write_text("a", "old");
    rows[i].make();
    CHECK(apply_one("a", "old", "new") == PLIM_ERR_UNSUPPORTED, "%s", rows[i].word);
    CHECK(strstr(error.message, rows[i].word) && error.hint[0] && error.file[0], "%s",
          error.message);
    CHECK(!is_there(".plimsoll") && !is_there("a.backup"), "something is left");
    end();
  }
}

TEST(changeset_says_what_is_missing) {
  begin();
  CHECK(apply_one("no/such/folder", NULL, "x") == PLIM_ERR_IO &&
            strstr(error.hint, "create the folder"),
        "%s", error.hint);
  folder_write_text("a", "old");
  CHECK(apply_one("a", NULL, "new") && strstr(error.message, "exists already"), "%s",
        error.message);
  CHECK(!is_there(".plimsoll"), "something is left");
  end();
}

TEST(changeset_in_a_folder_that_may_not_be_written) {
  begin();
  folder_write_text("deep/a", "old");
  pid_t child = fork();
  if (child == 0) {
    if (chmod(folder_path("deep"), 0555) || chmod(folder_path("."), 0777)) _exit(1);
    if (chmod(folder_path("deep/a"), 0666) || (geteuid() == 0 && setuid(65534))) _exit(1);
    plim_err err = apply_one("deep/a", "old", "new");
    _exit(err == PLIM_ERR_IO && strstr(error.hint, "writable") && !is_there(".plimsoll") ? 0 : 2);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "status %x", (unsigned)status);
  CHECK_STR(content("deep/a"), "old");
  CHECK(chmod(folder_path("deep"), 0755) == 0, "chmod");
  end();
}

// ---- what happens in between --------------------------------------------------------------------

TEST(changeset_undo_refuses_what_changed_since) {
  begin();
  folder_write_text("a", "a");
  folder_write_text("b", "b");
  plim_file_change changes[] = {change_of("a", "a", "A"), change_of("b", "b", "B")};
  CHECK(!apply(changes, 2), "%s", error.message);
  folder_write_text("b", "edited");
  CHECK(undo(false) == PLIM_ERR_UNSUPPORTED, "was not refused");
  CHECK(strstr(error.message, "b has changed") && strstr(error.hint, "--force"), "%s",
        error.message);
  CHECK_STR(content("a"), "A");
  CHECK(!undo(true), "%s", error.message);
  CHECK_STR(content("a"), "a");
  CHECK_STR(content("b"), "b");
  CHECK_STR(result.done.files[1].backup, "b.backup.1");
  CHECK_STR(content("b.backup.1"), "edited");
  CHECK(!is_there("b.backup") && !is_there("a.backup") && !is_there(".plimsoll"),
        "something is left");
  end();
}

TEST(changeset_undo_brings_back_what_was_removed) {
  begin();
  folder_write_text("a", "old");
  CHECK(!apply_one("a", "old", "new") && unlink(folder_path("a")) == 0, "%s", error.message);
  CHECK(undo(false) && strstr(error.message, "was removed"), "%s", error.message);
  CHECK(!undo(true), "%s", error.message);
  CHECK_STR(content("a"), "old");
  end();
}

TEST(changeset_undo_accepts_what_was_restored_by_hand) {
  begin();
  folder_write_text("a", "old");
  CHECK(!apply_one("a", "old", "new"), "%s", error.message);
  folder_write_text("a", "old");
  CHECK(!undo(false), "%s", error.message);
  CHECK_STR(content("a"), "old");
  CHECK(!is_there("a.backup") && !is_there(".plimsoll"), "something is left");
  end();
}

TEST(changeset_undo_needs_its_backups) {
  begin();
  folder_write_text("a", "old");
  CHECK(!apply_one("a", "old", "new"), "%s", error.message);
  folder_write_text("a.backup", "other");
  CHECK(undo(true) == PLIM_ERR_UNSUPPORTED && strstr(error.message, "a.backup was changed"), "%s",
        error.message);
  CHECK(unlink(folder_path("a.backup")) == 0 && undo(true) &&
            strstr(error.message, "cannot be read"),
        "%s", error.message);
  CHECK_STR(content("a"), "new");
  end();
}

TEST(changeset_says_that_its_record_is_damaged) {
  begin();
  folder_write_text("a", "old");
  CHECK(!apply_one("a", "old", "new"), "%s", error.message);
  folder_write_text(".plimsoll/applied.1", "plimsoll journal 1\nkind apply\n");
  CHECK(undo(false) == PLIM_ERR_PARSE && strstr(error.file, "applied.1") && error.hint[0], "%s",
        error.message);
  CHECK_STR(content("a"), "new");
  end();
}

TEST(changeset_undo_works_after_the_project_moved) {
  begin();
  folder_write_text("p/a", "old");
  plim_file_change change = change_of("p/a", "old", "new");
  CHECK(!plim_changeset_apply(path_of("p"), &change, 1, NULL, &result, &error), "%s",
        error.message);
  plim_changeset_result_clear(&result);
  CHECK(rename(path_of("p"), path_of("q")) == 0, "rename");
  CHECK(!plim_changeset_undo(path_of("q"), NULL, &result, &error), "%s", error.message);
  CHECK_STR(content("q/a"), "old");
  end();
}

// ---- interrupted ------------------------------------------------------------------------------

// Changes a and b, and dies at the n-th call.
static void die_at(int n) {
  pid_t child = fork();
  if (child == 0) {
    plim_file_change changes[] = {change_of("a", "a", "A"), change_of("b", "b", "B")};
    fault_set((fault){.kind = FAULT_DIE_BEFORE, .at = n}, NULL);
    plim_changeset_options options = {.disk = &fault_disk};
    plim_changeset_apply(path_of("."), changes, 2, &options, &result, &error);
    _exit(1);
  }
  waitpid(child, NULL, 0);
}

// Interrupts an apply when a is new and b is old.
static bool interrupt(void) {
  for (int n = 0; n < 200; n++) {
    folder_remove();
    folder_make();
    folder_write_text("a", "a");
    folder_write_text("b", "b");
    die_at(n);
    if (!strcmp(content("a"), "A") && !strcmp(content("b"), "b")) return true;
  }
  return false;
}

TEST(changeset_recovery_says_what_it_found) {
  begin();
  CHECK(interrupt(), "never in the middle");
  CHECK(!recover(false), "%s", error.message);
  CHECK(result.earlier.count == 2 && result.earlier.way == PLIM_CHANGES_COMPLETED, "the result");
  CHECK(result.earlier.files[0].found == PLIM_FILE_NEW, "a");
  CHECK(result.earlier.files[1].found == PLIM_FILE_OLD, "b");
  CHECK_STR(content("b"), "B");
  CHECK(!recover(false) && result.earlier.count == 0, "%s", error.message);
  end();
}

TEST(changeset_recovery_rolls_back_what_it_cannot_complete) {
  begin();
  CHECK(interrupt(), "never in the middle");
  char command[600];
  snprintf(command, sizeof command, "rm '%s'/b.plimsoll-*", folder_path("."));
  CHECK(system(command) == 0, "there is no staged file");
  CHECK(!recover(false) && result.earlier.way == PLIM_CHANGES_ROLLED_BACK, "%s", error.message);
  CHECK_STR(content("a"), "a");
  CHECK(!is_there("a.backup") && !is_there("b.backup") && !is_there(".plimsoll"),
        "something is left");
  end();
}

TEST(changeset_recovery_leaves_alone_what_changed_since) {
  begin();
  CHECK(interrupt(), "never in the middle");
  folder_write_text("b", "edited");
  CHECK(recover(false) == PLIM_ERR_UNSUPPORTED && strstr(error.hint, "--force"), "%s",
        error.message);
  CHECK_STR(error.file, "b");
  CHECK(!recover(true), "%s", error.message);
  CHECK(result.earlier.files[1].found == PLIM_FILE_OTHER, "b");
  CHECK_STR(content("b"), "edited");
  CHECK_STR(content("b.backup"), "b");
  CHECK_STR(content("a"), "A");
  end();
}

TEST(changeset_undo_after_an_interruption_means_what_was_interrupted) {
  begin();
  CHECK(interrupt() && !undo(false), "%s", error.message);
  CHECK(result.earlier.way == PLIM_CHANGES_COMPLETED && result.done.count == 2, "the result");
  CHECK_STR(content("a"), "a");
  CHECK(!is_there(".plimsoll"), "something is left");
  end();
}

// ---- two at once ------------------------------------------------------------------------------

static char letter_of(const char *name) { return content(name)[0]; }

// One of many writes its letter into both files; others may be doing the same.
static int compete(char letter) {
  char text[] = {letter, '\0'};
  int successes = 0;
  for (int i = 0; i < 30; i++) {
    char a[] = {letter_of("a"), '\0'}, b[] = {letter_of("b"), '\0'};
    plim_file_change changes[] = {change_of("a", a, text), change_of("b", b, text)};
    if (!apply(changes, 2) && result.done.count) successes++;
    usleep((useconds_t)(rand() % 500));
  }
  return successes;
}

TEST(changeset_of_two_processes_never_mix) {
  enum { PROCESSES = 4 };
  begin();
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
  CHECK(successes > 0 && letter_of("a") == letter_of("b"), "%d, %s and %s", successes, content("a"),
        content("b"));
  for (int i = 0; i < successes; i++) CHECK(!undo(false), "undo %d: %s", i, error.message);
  CHECK(letter_of("a") == 'x' && letter_of("b") == 'x' && !is_there(".plimsoll"), "%s",
        content("a"));
  end();
}

static int slow_fsync(int fd) {
  (void)fd;
  usleep(20000);
  return 0;
}

TEST(changeset_is_refused_while_another_is_at_work) {
  begin();
  folder_write_text("a", "old");
  pid_t child = fork();
  if (child == 0) {
    plim_disk slow = plim_real_disk;
    slow.fsync = slow_fsync;
    plim_file_change change = change_of("a", "old", "new");
    _exit(plim_changeset_apply(path_of("."), &change, 1, &(plim_changeset_options){.disk = &slow},
                               &result, &error));
  }
  while (!is_there(".plimsoll/journal")) usleep(100);
  CHECK(apply_one("a", "old", "other") == PLIM_ERR_UNSUPPORTED, "was let in");
  CHECK(strstr(error.message, "another plimsoll") && error.hint[0], "%s", error.message);
  CHECK(recover(false) == PLIM_ERR_UNSUPPORTED, "recovery was let in");
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0, "status %x", (unsigned)status);
  CHECK_STR(content("a"), "new");
  end();
}

TEST_MAIN
