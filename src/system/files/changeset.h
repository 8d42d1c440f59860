// Changes several files atomically (all or none) and can undo it. `plimsoll apply` and `plimsoll undo` are built on it.
//
//   plim_file_change change = {"conf/train.yaml", plim_content_of(old, old_size), new, new_size};
//   plim_changeset_result result;
//   plim_err err = plim_changeset_apply(".", &change, 1, NULL, &result, &error);
//   ... result.done.files: what was changed, and where the backup is ...
//   plim_changeset_result_clear(&result);
//
// Promises:
// - At every moment, through any crash, each file is whole: it has its old content or its new one.
// - After an error, all files are as they were and no temporary files remain. If that is not possible
//   (the disk is gone), the hint says so and the next call cleans up.
// - After a kill or a power cut, the next apply, undo or recover completes the interrupted call or rolls
//   it back: all files are new, or all are old.
// - Nothing that someone else wrote is overwritten: if a file does not have the expected content, the whole
//   set is refused. Between the last check of a file and its replacement, another program still has some
//   microseconds to write to it. Two calls on the same project exclude each other.
//
// - A set may be lent (`lend`): it is undone when the process that made it says so or has ended, however that
//   happened. The next call by anybody does it, unless a file has been changed since.
//
// How: `root` is the project's folder; for the command line it is the current folder. It contains .plimsoll/ with
//   lock       flock()ed during a call; a second call fails at once instead of waiting
//   journal    what is being done; it is on the disk before any file is changed
//   applied.N  the N-th set that was applied, for undo: the journal, renamed after the last step; of a lent set,
//              flock()ed by the process to which it belongs
// The folder is removed when there is nothing left to undo.
// During a call, NAME.plimsoll-ID (the new content) and NAME.plimsoll-ID-old (the old content) exist next to
// a changed file NAME. Afterwards the backup remains: NAME.backup, or if that exists NAME.backup.1,
// NAME.backup.2, ...; the one without a number is the oldest. Undo removes the backup that it restored.
//
// Symbolic links are followed: the file a link points to is replaced. Permissions, owner (if permitted) and
// access lists are kept. Files with several hard links are refused, because replacing one would separate
// them; so are write-protected files and everything that is not a regular file.
#ifndef PLIM_SYSTEM_CHANGESET_H
#define PLIM_SYSTEM_CHANGESET_H

#include "disk.h"
#include "plimsoll.h"
#include "sha256.h"

// The content of a file, as size and digest.
typedef struct {
  bool exists; // false: there is no such file
  uint64_t size;
  uint8_t sha256[PLIM_SHA256_BYTES];
} plim_content;

// The content for these bytes; NULL: for a file that does not exist.
plim_content plim_content_of(const void *data, size_t size);

typedef struct {
  const char *path;    // absolute, or from the current folder
  plim_content before; // the content it must have now
  const void *after;   // the new content; NULL: the file is removed
  size_t after_size;
} plim_file_change;

typedef struct {
  bool force;   // see undo and recover
  bool outside; // see recover
  bool waits;   // for another call on the project, some seconds, instead of failing at once
  int *
      lent; // apply: not NULL: the set is lent. Gets a descriptor; closing it returns the set. -1: nothing changed
  const plim_disk *disk; // NULL: the real one
} plim_changeset_options;

typedef enum { PLIM_CHANGES_APPLY, PLIM_CHANGES_UNDO } plim_changes_kind;

typedef enum {
  PLIM_CHANGES_DONE,        // now
  PLIM_CHANGES_COMPLETED,   // was interrupted earlier, is now done
  PLIM_CHANGES_ROLLED_BACK, // was interrupted earlier, is now rolled back
  PLIM_CHANGES_INTERRUPTED  // and still is
} plim_changes_way;

typedef enum {
  PLIM_FILE_OLD,  // as before the interrupted call
  PLIM_FILE_NEW,  // as after it
  PLIM_FILE_OTHER // it has been changed since; left alone
} plim_file_side;

typedef struct {
  char *path;           // from the project's folder if it lies in there, else absolute
  char *backup;         // likewise: the file with the old content; NULL: none is kept
  bool created, gone;   // the file did not exist before; does not exist any more
  bool left;            // it was left unchanged
  bool skipped;         // likewise, because its backup is lost
  plim_file_side found; // of an interrupted call: how the file was found
} plim_changed_file;

typedef struct {
  plim_changes_kind kind;
  plim_changes_way way;
  bool is_lent; // the set was lent
  plim_changed_file *files;
  size_t count; // 0: nothing was done
} plim_changes;

typedef struct {
  plim_changes earlier; // an interrupted call that was completed or rolled back first
  plim_changes done;    // what this call did
} plim_changeset_result;

// Both accept a struct that is {0} or was already cleared.
void plim_changes_clear(plim_changes *changes);
void plim_changeset_result_clear(plim_changeset_result *result);

// `options` may be NULL in all functions. *result is filled also on failure (an earlier call may have been
// completed or rolled back by then); always clear it. PLIM_ERR_UNSUPPORTED is a refusal, PLIM_ERR_IO a failed
// system call; error->file names the file.

// Changes without effect are skipped. Recovers first, so a caller that reads files and then applies changes
// should call plim_changeset_recover before it reads.
plim_err plim_changeset_apply(const char *root, const plim_file_change *changes, size_t count,
                              const plim_changeset_options *options, plim_changeset_result *result,
                              plim_error *error);

// Undoes the last applied set that is not undone yet: content and permissions are exactly as before, and its
// backups are removed. Fails if a file has changed since; with `force` it is restored too, and its present
// content is kept as a backup. Fails if a backup is missing, unless the file has its old content already; with
// `force` that file is left as it is. If the last call was interrupted, undo applies to that call: after
// rolling back an apply or completing an undo, it does nothing more (done.count is 0).
plim_err plim_changeset_undo(const char *root, const plim_changeset_options *options,
                             plim_changeset_result *result, plim_error *error);

// Completes or rolls back an interrupted call, if there is one, and undoes lent sets whose process has ended: see
// result->earlier. Fails if a file of an interrupted call has been
// changed since; with `force` it is left as it is (its backup stays), and the others are completed or rolled
// back.
//
// Undo and recover follow .plimsoll, and apply follows a plan; either may come from someone else. So files outside
// `root` are changed only with `outside`; without it, a set that contains such a file is refused as a whole.
plim_err plim_changeset_recover(const char *root, const plim_changeset_options *options,
                                plim_changeset_result *result, plim_error *error);

// Whether a file still has the content that the last apply (not undone) gave it.
bool plim_changeset_made(const char *root, const char *path, const plim_content *now);
// The path of the backup with its content before that apply, which the caller frees; NULL: the file has changed since, or
// there is no backup.
char *plim_changeset_backup(const char *root, const char *path, const plim_content *now);

// Finds an interrupted call that was not recovered yet, or a lent set whose process has ended, and the state of its
// files; changes nothing. A call that is still running does not count. out->count is 0 if there is none; always clear it.
plim_err plim_changeset_look(const char *root, plim_changes *out, plim_error *error);

#endif
