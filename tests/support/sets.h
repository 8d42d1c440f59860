// Small sets of changes in a temporary folder, as one line each.
#ifndef PLIM_TESTS_SETS_H
#define PLIM_TESTS_SETS_H

#include "changeset.h"

extern plim_changeset_result set_result; // the result of the last call
extern plim_error set_error;

void set_begin(void); // creates a new folder
void set_end(void);

char *set_path_of(const char *name);       // valid for eight calls
const char *set_content(const char *name); // "(nothing)" if there is no file; valid for four calls
bool set_is_there(const char *name);

// A change from one text to another; NULL: no file.
plim_file_change set_change_of(const char *name, const char *before, const char *after);
plim_err set_apply(const plim_file_change *changes, size_t count);
plim_err set_apply_one(const char *name, const char *before, const char *after);
plim_err set_undo(bool force);
plim_err set_recover(bool force);

// Begins with new files a and b, and interrupts a change of a to A and b to B when a is new and b is old; false if that
// never happens.
bool set_interrupt(void);
// Interrupts the undo of that change when a is old again and b is still B.
bool set_interrupt_undo(void);

#endif
