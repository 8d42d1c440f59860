// Several files changed all or none, with a way back. What `plimsoll apply` and `plimsoll undo` stand on.
//
//   plim_file_change change = {"conf/train.yaml", plim_content_of(old, old_size), new, new_size};
//   plim_changeset_result result;
//   plim_err err = plim_changeset_apply(".", &change, 1, NULL, &result, &error);
//   ... result.done.files: what was changed, and where the backup is ...
//   plim_changeset_result_clear(&result);
//
// Promises:
// - At every moment, through any crash, each file is whole: it has its old content or its new one.
// - After an error, all files are as they were and nothing else is left behind. If that is not
//   possible (the disk is gone), the hint says so and the next call puts things in order.
// - After a kill or a power cut, the next apply, undo or recover completes what was interrupted, or
//   takes it back: all files are new, or all are old.
// - Nothing that someone else wrote is overwritten: a file that is not what was expected is refused,
//   and with it the whole set. Between the last look at a file and its replacement lie microseconds in
//   which another program could still write to it; two calls on the same project exclude each other.
//
// How: `root` is the project's folder, for the command line the current one. In it, .plimsoll/ holds
//   lock       flock()ed while a call is at work; a second call is refused, it does not wait
//   journal    what is being done, on the disk before anything else is
//   applied.N  the N-th set that was applied: the journal, renamed when all was done; undo's record
// The folder goes when there is nothing to undo any more.
// Next to a changed NAME lie, for a while, NAME.plimsoll-ID (the new content) and
// NAME.plimsoll-ID-old (the old one), and afterwards the backup: NAME.backup, or if that exists
// NAME.backup.1, NAME.backup.2, ...: the one without a number is the oldest. Undo removes the backup
// it restored.
//
// A symbolic link is followed, the file it leads to is replaced. Permissions, owner (where permitted)
// and access lists stay. Files with several hard links are refused, since replacing would separate
// them, and so are write-protected files and everything that is no regular file.
#ifndef PLIM_SYSTEM_CHANGESET_H
#define PLIM_SYSTEM_CHANGESET_H

#include "disk.h"
#include "plimsoll.h"
#include "sha256.h"

// What a file holds, without the bytes.
typedef struct {
  bool exists; // false: there is no such file
  uint64_t size;
  uint8_t sha256[PLIM_SHA256_BYTES];
} plim_content;

// Of these bytes; NULL: of no file.
plim_content plim_content_of(const void *data, size_t size);

typedef struct {
  const char *path;    // absolute, or from the current folder
  plim_content before; // what it must hold now
  const void *after;   // what it shall hold; NULL: the file goes
  size_t after_size;
} plim_file_change;

typedef struct {
  bool force;            // see undo and recover
  bool outside;          // see recover
  const plim_disk *disk; // NULL: the real one
} plim_changeset_options;

typedef enum { PLIM_CHANGES_APPLY, PLIM_CHANGES_UNDO } plim_changes_kind;

typedef enum {
  PLIM_CHANGES_DONE,        // now
  PLIM_CHANGES_COMPLETED,   // was interrupted earlier, is now done
  PLIM_CHANGES_ROLLED_BACK, // was interrupted earlier, is now as if it had never begun
  PLIM_CHANGES_INTERRUPTED  // and still is
} plim_changes_way;

typedef enum {
  PLIM_FILE_OLD,  // as before the interrupted call
  PLIM_FILE_NEW,  // as after it
  PLIM_FILE_OTHER // someone has changed it since: left alone
} plim_file_side;

typedef struct {
  char *path;           // from the project's folder if it lies in there, else absolute
  char *backup;         // likewise: what it held before; NULL if nothing is kept
  bool created, gone;   // the file was not there before; is not there any more
  bool left;            // it is as it was
  plim_file_side found; // of an interrupted call: how the file was found
} plim_changed_file;

typedef struct {
  plim_changes_kind kind;
  plim_changes_way way;
  plim_changed_file *files;
  size_t count; // 0: nothing was done
} plim_changes;

typedef struct {
  plim_changes earlier; // an interrupted call that was completed or rolled back first
  plim_changes done;    // what this call did
} plim_changeset_result;

// Fine on those that are {0} or were cleared.
void plim_changes_clear(plim_changes *changes);
void plim_changeset_result_clear(plim_changeset_result *result);

// All functions may get NULL for `options`, and fill *result also when they fail (`earlier` may have
// been dealt with by then); clear it in any case. PLIM_ERR_UNSUPPORTED is a refusal, PLIM_ERR_IO a
// call that failed; error->file names the file.

// Changes that change nothing are left out of the set. Recovers first, so a caller that reads files
// and then applies should call plim_changeset_recover before it reads.
plim_err plim_changeset_apply(const char *root, const plim_file_change *changes, size_t count,
                              const plim_changeset_options *options, plim_changeset_result *result,
                              plim_error *error);

// Takes back the last set that was applied and not yet undone: content and permissions are exactly as
// before, and its backups are gone. A file that changed since is refused; with `force` it is restored
// too, and what it held is kept as a backup. So is one whose backup is gone, unless it was restored by
// hand; with `force` it is left as it is. If the last call was interrupted, undo means that one:
// after an apply that was rolled back, or an undo that was completed, it goes no further (done.count
// is 0).
plim_err plim_changeset_undo(const char *root, const plim_changeset_options *options,
                             plim_changeset_result *result, plim_error *error);

// Deals with a call that was interrupted, if there was one: result->earlier. A file that someone has
// changed since is refused; with `force` it is left as it is (its backup stays), and the others are
// completed or rolled back.
//
// Undo and recover do what .plimsoll says, and apply what a plan says: either may have come from someone else. So
// files outside `root` are touched only with `outside`; without, what names one is refused as a whole.
plim_err plim_changeset_recover(const char *root, const plim_changeset_options *options,
                                plim_changeset_result *result, plim_error *error);

// Whether a file holds what the last apply that was not undone gave it.
bool plim_changeset_made(const char *root, const char *path, const plim_content *now);
// Where what it held before that lies, which the caller frees; NULL: it does not hold that, or nothing is kept.
char *plim_changeset_backup(const char *root, const char *path, const plim_content *now);

// Whether a call was interrupted and not dealt with yet, and how its files are now; changes nothing. A
// call that is at work is not interrupted. out->count is 0 if there is none; clear it.
plim_err plim_changeset_look(const char *root, plim_changes *out, plim_error *error);

#endif
