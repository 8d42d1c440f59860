// The steps behind a changeset, and what is written down about them. Internal to changeset.h, which
// says what is promised.
#ifndef PLIM_SYSTEM_TRANSACTION_H
#define PLIM_SYSTEM_TRANSACTION_H

#include "changeset.h"
#include "vec.h"

#define PLIM_NO_BACKUP (-1)

// One file goes from one content to another.
typedef struct {
  char *path; // in the project, or absolute; symbolic links resolved
  plim_content from, to;
  int kept;    // the number of the backup that stays and holds `from`, or PLIM_NO_BACKUP
  int dropped; // the number of the backup that holds `to` and goes when all is done, likewise

  // Where things lie; see plim_transaction_name.
  char *target;
  char *staged;       // `to`, until it is renamed to target
  char *copy;         // `from`, until it is renamed to the backup, or until all is done
  char *kept_path;    // NULL: none
  char *dropped_path; // NULL: none

  char *old_data, *new_data; // the bytes, while they are needed; owned
} plim_file_step;

typedef struct {
  plim_changes_kind kind;
  bool is_ready;   // all staged files and backups are on the disk: from here on, files are replaced
  uint32_t id;     // in the names of temporary files
  unsigned record; // the number it is, or was, applied under
  vec(plim_file_step) steps;
} plim_transaction;

void plim_transaction_clear(plim_transaction *t);
void plim_step_clear(plim_file_step *s);
plim_file_side plim_step_side(const plim_file_step *s); // how its file is now

// `found` may be NULL.
void plim_changes_describe(const plim_transaction *t, plim_changes_way way,
                           const plim_file_side *found, plim_changes *out);

// Fills in the paths of a step from its `path` and numbers; false when memory is out.
bool plim_transaction_name(const plim_transaction *t, const char *root, plim_file_step *step);

// "NAME.backup" or "NAME.backup.N", which the caller frees.
char *plim_backup_name(const char *path, int number);

bool plim_content_equal(const plim_content *a, const plim_content *b);

// What is at a path now: 0 or an errno; nothing there is a content too. EINVAL: no regular file.
int plim_content_at(const char *path, plim_content *out);

// ---- written down -----------------------------------------------------------------------------

// As text, which the caller frees; NULL when memory is out.
char *plim_journal_write(const plim_transaction *t, size_t *size);

// From text. Anything but what plim_journal_write makes is refused. Paths are not filled in.
plim_err plim_journal_read(const char *text, size_t size, plim_transaction *out, plim_error *error);

// ---- the project's folder -----------------------------------------------------------------------

typedef struct {
  const plim_disk *disk;
  char *root;   // resolved
  char *folder; // root/.plimsoll
  char *lock, *journal, *journal_new;
  int lock_fd;
  bool trusts_outside; // see plim_changeset_options.outside
} plim_change_store;

// Takes the lock, which must be free.
plim_err plim_store_open(plim_change_store *p, const char *root, const plim_disk *disk,
                         plim_error *error);
// The same without the lock, for looking alone; close it too.
plim_err plim_store_peek(plim_change_store *p, const char *root, plim_error *error);
// Whether someone else has the lock.
bool plim_store_is_busy(const plim_change_store *p);
// Lets it go, and removes the folder if it is empty. Fine after a failed open.
void plim_store_close(plim_change_store *p);

// Whether anything was ever written down; false leaves nothing to open.
bool plim_store_exists(const char *root);

// Puts the transaction into the journal, on the disk.
plim_err plim_store_write_journal(const plim_change_store *p, const plim_transaction *t,
                                  plim_error *error);

// What a journal or a record says, with paths filled in. No such file: no steps. One that names files
// outside the project is refused unless it is trusted: it may have come with the folder.
plim_err plim_store_load(const plim_change_store *p, const char *path, plim_transaction *out,
                         plim_error *error);

// The highest number of a record; 0: none.
unsigned plim_store_last_record(const plim_change_store *p);
char *plim_store_record_path(const plim_change_store *p, unsigned number); // the caller frees it
plim_err plim_store_load_last(const plim_change_store *p, plim_transaction *out, plim_error *error);

// ---- doing it ---------------------------------------------------------------------------------

// All steps or, on an error, none.
plim_err plim_transaction_run(const plim_change_store *p, plim_transaction *t, plim_error *error);

// Completes or takes back what was found in the journal. `found` has room for each step.
plim_err plim_transaction_recover(const plim_change_store *p, plim_transaction *t, bool force,
                                  plim_file_side *found, plim_changes_way *way, plim_error *error);

// Removes what an undo has left behind, its record last.
int plim_transaction_clean(const plim_change_store *p, const plim_transaction *t);

#endif
