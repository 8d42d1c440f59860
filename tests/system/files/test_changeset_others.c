// Other people's files: folders that come with their own .plimsoll, programs that write at the same time, files of
// another owner. Nothing of theirs is overwritten, and nothing outside the folder is changed.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "folder.h"
#include "sets.h"
#include "test.h"
#include "transaction.h"

// ---- a .plimsoll that came with the folder --------------------------------------------------------

// Writes a journal or record of a change of `path` from one text to another; NULL: no file.
static void write_down(const char *name, plim_changes_kind kind, const char *path, const char *from,
                       const char *to) {
  plim_transaction t = {.kind = kind, .is_ready = true, .id = 7, .record = 1};
  bool keeps = kind == PLIM_CHANGES_APPLY && from, drops = kind == PLIM_CHANGES_UNDO && to;
  plim_file_step step = {.path = strdup(path),
                         .from = plim_content_of(from, from ? strlen(from) : 0),
                         .to = plim_content_of(to, to ? strlen(to) : 0),
                         .kept = keeps ? 0 : PLIM_NO_BACKUP,
                         .dropped = drops ? 0 : PLIM_NO_BACKUP};
  size_t size;
  if (!vec_push(&t.steps, step)) abort();
  char *text = plim_journal_write(&t, &size);
  folder_write(name, text, size);
  free(text);
  plim_transaction_clear(&t);
}

static plim_err undo_in(const char *name, bool outside) {
  plim_changeset_result_clear(&set_result);
  set_error = (plim_error){0};
  return plim_changeset_undo(set_path_of(name), &(plim_changeset_options){.outside = outside},
                             &set_result, &set_error);
}

static void check_refused(const char *why) {
  CHECK(undo_in("repo", false) == PLIM_ERR_UNSUPPORTED, "%s: not refused", why);
  CHECK(strstr(set_error.message, "outside") && strstr(set_error.hint, "--outside"), "%s: %s", why,
        set_error.message);
  CHECK_STR(set_content("victim"), "precious");
  plim_file_change change = {set_path_of("repo/a"), plim_content_of("a", 1), "A", 1};
  CHECK(plim_changeset_apply(set_path_of("repo"), &change, 1, NULL, &set_result, &set_error) ==
            PLIM_ERR_UNSUPPORTED,
        "%s: apply was not refused", why);
  CHECK_STR(set_content("victim"), "precious");
  CHECK_STR(set_content("repo/a"), "a");
}

static void make_repository(void) {
  set_begin();
  folder_write_text("victim", "precious");
  folder_write_text("repo/a", "a");
}

TEST(changeset_does_not_follow_a_journal_out_of_the_folder) {
  make_repository();
  write_down("repo/.plimsoll/journal", PLIM_CHANGES_UNDO, set_path_of("victim"), "precious", NULL);
  check_refused("absolute path in a journal");
  set_end();
}

TEST(changeset_does_not_follow_a_record_out_of_the_folder) {
  make_repository();
  write_down("repo/.plimsoll/applied.1", PLIM_CHANGES_APPLY, set_path_of("victim"), NULL,
             "precious");
  CHECK(undo_in("repo", false) == PLIM_ERR_UNSUPPORTED, "a record was not refused");
  CHECK_STR(set_content("victim"), "precious");
  set_end();
}

TEST(changeset_does_not_follow_links_out_of_the_folder) {
  make_repository();
  CHECK(symlink("..", folder_path("repo/link")) == 0, "symlink");
  write_down("repo/.plimsoll/journal", PLIM_CHANGES_UNDO, "link/victim", "precious", NULL);
  check_refused("path through a link");
  set_end();
}

TEST(changeset_undoes_outside_when_told_so) {
  make_repository();
  plim_file_change change = set_change_of("victim", "precious", "changed");
  const plim_changeset_options outside = {.outside = true};
  CHECK(plim_changeset_apply(set_path_of("repo"), &change, 1, NULL, &set_result, &set_error) ==
            PLIM_ERR_UNSUPPORTED,
        "applied outside");
  CHECK_STR(set_content("victim"), "precious");
  CHECK(!plim_changeset_apply(set_path_of("repo"), &change, 1, &outside, &set_result, &set_error),
        "%s", set_error.message);
  CHECK(undo_in("repo", false) == PLIM_ERR_UNSUPPORTED, "was not refused");
  CHECK_STR(set_content("victim"), "changed");
  CHECK(!undo_in("repo", true), "%s", set_error.message);
  CHECK_STR(set_content("victim"), "precious");
  CHECK(!set_is_there("victim.backup") && !set_is_there("repo/.plimsoll"), "something is left");
  set_end();
}

TEST(changeset_does_not_write_records_elsewhere) {
  make_repository();
  folder_write_text("elsewhere/lock", "theirs");
  folder_write_text("elsewhere/journal.new", "theirs");
  CHECK(symlink("../elsewhere", folder_path("repo/.plimsoll")) == 0, "symlink");
  plim_file_change change = {set_path_of("repo/a"), plim_content_of("a", 1), "A", 1};
  CHECK(plim_changeset_apply(set_path_of("repo"), &change, 1, NULL, &set_result, &set_error) ==
                PLIM_ERR_UNSUPPORTED &&
            strstr(set_error.message, "is not a folder"),
        "%s", set_error.message);
  CHECK_STR(set_content("elsewhere/lock"), "theirs");
  CHECK_STR(set_content("elsewhere/journal.new"), "theirs");
  set_end();
}

TEST(changeset_does_not_lock_elsewhere) {
  make_repository();
  folder_write_text("repo/.plimsoll/x", "");
  CHECK(symlink("../../made", folder_path("repo/.plimsoll/lock")) == 0, "symlink");
  CHECK(undo_in("repo", false) != PLIM_OK && !set_is_there("made"), "a file was made elsewhere");
  set_end();
}

TEST(changeset_reads_no_journal_whose_digest_is_wrong) {
  set_begin();
  folder_write_text("a", "new");
  write_down(".plimsoll/journal", PLIM_CHANGES_UNDO, "b", "new", NULL);
  char *text;
  size_t size;
  CHECK(plim_disk_read_file(folder_path(".plimsoll/journal"), &text, &size) == 0, "read");
  char *path = strstr(text, "file b");
  CHECK(path != NULL, "no path");
  path[5] = 'a'; // everything else is a valid journal
  folder_write(".plimsoll/journal", text, size);
  free(text);
  CHECK(set_undo(false) == PLIM_ERR_PARSE, "was read");
  CHECK_STR(set_content("a"), "new");
  set_end();
}

// ---- looking --------------------------------------------------------------------------------------

TEST(changeset_look_says_what_was_interrupted_and_changes_nothing) {
  set_begin();
  plim_changes changes;
  CHECK(!plim_changeset_look(set_path_of("."), &changes, &set_error) && !changes.count,
        "of nothing");
  CHECK(!set_is_there(".plimsoll"), "a folder was made");
  CHECK(set_interrupt(), "never in the middle");
  CHECK(!plim_changeset_look(set_path_of("."), &changes, &set_error), "%s", set_error.message);
  CHECK(changes.count == 2 && changes.way == PLIM_CHANGES_INTERRUPTED &&
            changes.kind == PLIM_CHANGES_APPLY,
        "the result");
  CHECK(changes.files[0].found == PLIM_FILE_NEW && changes.files[1].found == PLIM_FILE_OLD,
        "sides");
  plim_changes_clear(&changes);
  CHECK_STR(set_content("a"), "A");
  CHECK_STR(set_content("b"), "b");
  CHECK(set_is_there(".plimsoll/journal"), "the journal is gone");
  set_end();
}

// ---- at the same time -----------------------------------------------------------------------------

static const char *others_file, *others_text; // what another program writes, one time
static const char *before_renaming_to;        // the call before which it writes

static bool ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

static void meddle(const char *to) {
  if (!others_file || !ends_with(to, before_renaming_to)) return;
  folder_write_text(others_file, others_text);
  others_file = NULL;
}

static int meddling_rename(const char *from, const char *to) {
  meddle(to);
  return plim_real_disk.rename(from, to);
}

static int meddling_rename_new(const char *from, const char *to) {
  meddle(to);
  return plim_real_disk.rename_new(from, to);
}

static plim_err apply_meddled(const plim_file_change *changes, size_t count) {
  plim_disk disk = plim_real_disk;
  disk.rename = meddling_rename;
  disk.rename_new = meddling_rename_new;
  plim_changeset_result_clear(&set_result);
  set_error = (plim_error){0};
  return plim_changeset_apply(set_path_of("."), changes, count,
                              &(plim_changeset_options){.disk = &disk}, &set_result, &set_error);
}

TEST(changeset_leaves_alone_what_another_program_writes_meanwhile) {
  set_begin();
  folder_write_text("a", "a");
  folder_write_text("b", "b");
  plim_file_change changes[] = {set_change_of("a", "a", "A"), set_change_of("b", "b", "B")};
  others_file = "b", others_text = "theirs", before_renaming_to = "/a"; // a is replaced before b
  CHECK(apply_meddled(changes, 2) == PLIM_ERR_UNSUPPORTED &&
            strstr(set_error.message, "another program"),
        "%s", set_error.message);
  CHECK_STR(set_content("a"), "a");
  CHECK_STR(set_content("b"), "theirs");
  CHECK(!set_is_there(".plimsoll"), "something is left");
  set_end();
}

TEST(changeset_never_replaces_a_file_that_was_not_there) {
  set_begin();
  plim_file_change change = set_change_of("new", NULL, "ours");
  others_file = "new", others_text = "theirs", before_renaming_to = "/new";
  CHECK(apply_meddled(&change, 1) == PLIM_ERR_IO, "%s", set_error.message);
  CHECK_STR(set_content("new"), "theirs");
  set_end();
}

static bool is_lock_stolen;

// The process that had the lock ends now and removes the lock file.
static int open_and_lose(const char *path, int flags, mode_t mode) {
  int fd = plim_real_disk.open(path, flags, mode);
  if (!is_lock_stolen && ends_with(path, "/lock") && fd >= 0) {
    is_lock_stolen = true;
    if (unlink(path)) abort();
  }
  return fd;
}

static plim_err other_err;
static bool is_taken_for_interrupted;

static int fsync_and_compete(int fd) {
  (void)fd;
  plim_changeset_result other;
  other_err = plim_changeset_recover(set_path_of("."), NULL, &other, NULL);
  plim_changeset_result_clear(&other);
  plim_changes seen;
  if (plim_changeset_look(set_path_of("."), &seen, NULL)) abort();
  if (seen.count) is_taken_for_interrupted = true;
  plim_changes_clear(&seen);
  return 0;
}

TEST(changeset_holds_the_lock_that_others_see) {
  set_begin();
  folder_write_text("a", "a");
  plim_disk disk = plim_real_disk;
  disk.open = open_and_lose;
  plim_file_change change = set_change_of("a", "a", "A");
  CHECK(!plim_changeset_apply(set_path_of("."), &change, 1,
                              &(plim_changeset_options){.disk = &disk}, &set_result, &set_error),
        "%s", set_error.message);
  CHECK(is_lock_stolen, "nothing was tried");
  plim_changeset_result_clear(&set_result);
  disk.fsync = fsync_and_compete;
  is_lock_stolen = false, other_err = PLIM_OK;
  change = set_change_of("a", "A", "B");
  CHECK(!plim_changeset_apply(set_path_of("."), &change, 1,
                              &(plim_changeset_options){.disk = &disk}, &set_result, &set_error),
        "%s", set_error.message);
  CHECK(other_err == PLIM_ERR_UNSUPPORTED, "another was let in");
  CHECK(!is_taken_for_interrupted, "a call at work is not an interrupted one");
  set_end();
}

// ---- someone else's ---------------------------------------------------------------------------------

// Runs `act` as a user other than root, in a folder of that user. Returns 0 if it returns true.
static int as_nobody(bool (*act)(void)) {
  pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) || setuid(65534))) _exit(2);
    _exit(act() ? 0 : 1);
  }
  int status;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void give_away(const char *name) {
  if (geteuid() == 0 && chown(folder_path(name), 65534, 65534)) abort();
}

static bool is_refused_as_protected(void) {
  return set_apply_one("a", "old", "new") == PLIM_ERR_UNSUPPORTED &&
         strstr(set_error.message, "write-protected");
}

// The group may write the file, but the owner may not.
TEST(changeset_refuses_what_this_user_may_not_write) {
  set_begin();
  folder_write_text("a", "old");
  CHECK(chmod(folder_path("a"), 0464) == 0, "chmod");
  give_away("."), give_away("a");
  CHECK(as_nobody(is_refused_as_protected) == 0, "was not refused");
  CHECK_STR(set_content("a"), "old");
  set_end();
}

static int refuse_owner(int fd, uid_t owner, gid_t group) {
  (void)fd, (void)owner, (void)group;
  errno = EPERM;
  return -1;
}

TEST(changeset_gives_no_rights_of_another_owner) {
  if (geteuid() != 0) SKIP("only root gives files away");
  struct stat found;
  set_begin();
  folder_write_text("a", "old");
  CHECK(chown(folder_path("a"), 1234, 2345) == 0 && chmod(folder_path("a"), 06755) == 0, "chmod");
  plim_disk disk = plim_real_disk;
  disk.fchown = refuse_owner;
  plim_file_change change = set_change_of("a", "old", "new");
  CHECK(!plim_changeset_apply(set_path_of("."), &change, 1,
                              &(plim_changeset_options){.disk = &disk}, &set_result, &set_error),
        "%s", set_error.message);
  CHECK(stat(folder_path("a"), &found) == 0 && (found.st_mode & 07777) == 0755, "mode %o",
        found.st_mode & 07777);
  set_end();
}

// ---- after an interruption --------------------------------------------------------------------------

static void remove_staged(const char *name) {
  char command[600];
  snprintf(command, sizeof command, "rm '%s'/%s.plimsoll-????????", folder_path("."), name);
  CHECK(system(command) == 0, "there is no staged file");
}

TEST(changeset_rolled_back_by_force_keeps_the_backup_of_what_changed) {
  set_begin();
  CHECK(set_interrupt(), "never in the middle");
  remove_staged("b"); // so that it cannot be completed
  folder_write_text("a", "edited");
  CHECK(!set_recover(true) && set_result.earlier.way == PLIM_CHANGES_ROLLED_BACK, "%s",
        set_error.message);
  CHECK_STR(set_content("a"), "edited");
  CHECK_STR(set_content("a.backup"), "a");
  CHECK(!set_is_there("b.backup"), "b has its backup still");
  set_end();
}

TEST(changeset_completing_an_undo_keeps_a_backup_that_changed) {
  set_begin();
  CHECK(set_interrupt_undo(), "never in the middle");
  folder_write_text("a.backup", "edited");
  CHECK(!set_recover(false), "%s", set_error.message);
  CHECK_STR(set_content("a"), "a");
  CHECK_STR(set_content("b"), "b");
  CHECK_STR(set_content("a.backup"), "edited");
  CHECK(!set_is_there("b.backup"), "b has its backup still");
  set_end();
}

TEST(changeset_completing_an_undo_by_force_keeps_the_backup_of_what_changed) {
  set_begin();
  CHECK(set_interrupt_undo(), "never in the middle");
  folder_write_text("b", "edited");
  CHECK(!set_recover(true), "%s", set_error.message);
  CHECK_STR(set_content("b"), "edited");
  CHECK_STR(set_content("b.backup"), "b");
  CHECK(!set_is_there("a.backup"), "a has its backup still");
  set_end();
}

// A file that cannot be read now may still have to be restored.
static bool keeps_its_journal(void) {
  if (!set_interrupt()) return false;
  remove_staged("b");
  if (chmod(folder_path("a"), 0)) return false;
  if (!set_recover(true) || !set_is_there(".plimsoll/journal")) return false;
  if (chmod(folder_path("a"), 0644) || set_recover(false)) return false;
  return !strcmp(set_content("a"), "a") && !strcmp(set_content("b"), "b");
}

TEST(changeset_keeps_its_journal_while_a_file_cannot_be_read) {
  CHECK(as_nobody(keeps_its_journal) == 0, "the journal is gone");
}

TEST(changeset_undo_goes_no_further_than_what_was_rolled_back) {
  set_begin();
  CHECK(set_interrupt(), "never in the middle");
  remove_staged("b");
  write_down(".plimsoll/applied.1", PLIM_CHANGES_APPLY, "c", NULL, "c");
  folder_write_text("c", "c");
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK(set_result.earlier.way == PLIM_CHANGES_ROLLED_BACK && !set_result.done.count, "the result");
  CHECK_STR(set_content("a"), "a");
  CHECK_STR(set_content("c"), "c");
  set_end();
}

TEST(changeset_undo_of_a_created_file_that_is_gone) {
  set_begin();
  folder_write_text("a", "a");
  plim_file_change changes[] = {set_change_of("new", NULL, "x"), set_change_of("a", "a", "A")};
  CHECK(!set_apply(changes, 2) && unlink(folder_path("new")) == 0, "%s", set_error.message);
  CHECK(!set_undo(false), "%s", set_error.message);
  CHECK_STR(set_content("a"), "a");
  CHECK(!set_is_there("new") && !set_is_there(".plimsoll") && !set_is_there("a.backup"),
        "something is left");
  set_end();
}

TEST_MAIN
