// The steps of a changeset and the journal that records them. Internal to changeset.h, which documents the
// guarantees.
#ifndef PLIM_SYSTEM_TRANSACTION_H
#define PLIM_SYSTEM_TRANSACTION_H

#include "changeset.h"
#include "vec.h"

#define PLIM_NO_BACKUP (-1)

// Changes one file from one content to another.
typedef struct {
  char *path; // in the project, or absolute; symbolic links resolved
  plim_content from, to;
  int kept;        // number of the backup that keeps `from`, or PLIM_NO_BACKUP
  int dropped;     // number of the backup that has `to` and is removed at the end, likewise
  bool is_skipped; // an undo leaves it as it is, because its backup is lost

  // Paths; see plim_transaction_name.
  char *target;
  char *staged;       // has `to`, until it is renamed to target
  char *copy;         // has `from`, until it is renamed to the backup or removed at the end
  char *kept_path;    // NULL: none
  char *dropped_path; // NULL: none

  char *old_data, *new_data; // the contents while they are needed; owned
} plim_file_step;

typedef struct {
  plim_changes_kind kind;
  bool is_lent;    // of an apply: until the process that made it ends
  bool is_ready;   // all staged files and backups are on the disk; from now on files are replaced
  uint32_t id;     // in the names of temporary files
  unsigned record; // the number N of applied.N
  vec(plim_file_step) steps;
} plim_transaction;

void plim_transaction_clear(plim_transaction *t);
void plim_step_clear(plim_file_step *s);
plim_file_side plim_step_side(const plim_file_step *s); // the present state of its file

// Describes a transaction for the caller of the changeset. `found` may be NULL.
void plim_changes_describe(const plim_transaction *t, plim_changes_way way,
                           const plim_file_side *found, plim_changes *out);

// Fills in the paths of a step from its `path` and numbers; false if memory runs out.
bool plim_transaction_name(const plim_transaction *t, const char *root, plim_file_step *step);

// "NAME.backup" or "NAME.backup.N", which the caller frees.
char *plim_backup_name(const char *path, int number);

bool plim_content_equal(const plim_content *a, const plim_content *b);

// Reads the content at a path; a missing file is a content too. Returns 0 or an errno; EINVAL: not a regular file.
int plim_content_at(const char *path, plim_content *out);

// ---- the journal ------------------------------------------------------------------------------

// The transaction as text, which the caller frees; NULL if memory runs out.
char *plim_journal_write(const plim_transaction *t, size_t *size);

// Parses a text written by plim_journal_write; refuses any other. Paths are not filled in.
plim_err plim_journal_read(const char *text, size_t size, plim_transaction *out, plim_error *error);

// ---- the project's folder -----------------------------------------------------------------------

typedef struct {
  const plim_disk *disk;
  char *root;   // resolved
  char *folder; // root/.plimsoll
  char *lock, *journal, *journal_new;
  int lock_fd;
  bool trusts_outside; // see plim_changeset_options.outside
  bool waits;          // for a lock that is taken
} plim_change_store;

// Opens the folder and takes its lock; fails if the lock is taken and, with `waits`, stays taken.
plim_err plim_store_open(plim_change_store *p, const char *root,
                         const plim_changeset_options *options, plim_error *error);
// The same without the lock, for reading only; close it too.
plim_err plim_store_peek(plim_change_store *p, const char *root, plim_error *error);
// Whether another process has the lock.
bool plim_store_is_busy(const plim_change_store *p);
// Releases the lock and removes the folder if it is empty. May be called after a failed open.
void plim_store_close(plim_change_store *p);

// Whether the project has a folder .plimsoll.
bool plim_store_exists(const char *root);

// Writes the transaction to the journal and syncs it to the disk.
plim_err plim_store_write_journal(const plim_change_store *p, const plim_transaction *t,
                                  plim_error *error);

// Loads a journal or a record and fills in paths. If the file does not exist, there are no steps. Fails if it
// names files outside the project, unless trusts_outside is set: the folder may come from someone else.
plim_err plim_store_load(const plim_change_store *p, const char *path, plim_transaction *out,
                         plim_error *error);

// The highest number of a record; 0: none. The second: of those below a number.
unsigned plim_store_last_record(const plim_change_store *p);
unsigned plim_store_record_below(const plim_change_store *p, unsigned limit);
char *plim_store_record_path(const plim_change_store *p, unsigned number); // the caller frees it
plim_err plim_store_load_record(const plim_change_store *p, unsigned number, plim_transaction *out,
                                plim_error *error);
plim_err plim_store_load_last(const plim_change_store *p, plim_transaction *out, plim_error *error);

// A lent set belongs to the process that has its record open and locked. `hold` returns the descriptor; -1: it cannot be
// opened.
int plim_store_hold(const plim_change_store *p, unsigned number);
bool plim_store_is_held(const plim_change_store *p, unsigned number);

// ---- running ----------------------------------------------------------------------------------

// Runs all steps or, on an error, none.
plim_err plim_transaction_run(const plim_change_store *p, plim_transaction *t, plim_error *error);

// Completes or rolls back the transaction of the journal. `found` must have room for each step.
plim_err plim_transaction_recover(const plim_change_store *p, plim_transaction *t, bool force,
                                  plim_file_side *found, plim_changes_way *way, plim_error *error);

// Removes the files that an undo left behind, its record last.
int plim_transaction_clean(const plim_change_store *p, const plim_transaction *t);

#endif
