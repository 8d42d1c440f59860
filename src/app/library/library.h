// How the functions of plimsoll.h read a request: by the table of options of the command of the same name.
#ifndef PLIM_APP_LIBRARY_H
#define PLIM_APP_LIBRARY_H

#include <locale.h>

#include "option_values.h"
#include "tree.h"

// A member of a request that is no option of the command: its value is a list of paths, or a path.
typedef struct {
  const char *name; // "files"
  bool is_needed;
} library_words;

typedef struct {
  plim_tree tree; // the request; texts of the call point into it
  cli_call call;  // what a command line with these options would be
} library_request;

// Reads the request into *r, by the options of `command`, whose defaults the options that are left out have. `left_out`
// names options that a library does not have, separated by spaces; NULL: none. `words` may be NULL. Clear *r whatever the
// result.
plim_err library_read(const char *text, const cli_command *command, const char *left_out,
                      const library_words *words, library_request *r, plim_error *error);
void library_clear(library_request *r);

// Every function of plimsoll.h works between these two, which leave nothing of it in the thread that calls. Numbers have a
// point, whatever locale the caller has set: 0.05 would otherwise be read as 0 where a comma is usual. `before` is what
// library_enter returned.
locale_t library_enter(void);
void library_leave(locale_t before);

// An error at a byte of an option's text (`source`, which may be NULL) is not one at a byte of the request.
void library_forget_byte(plim_err err, const char *source, plim_error *error);

#endif
