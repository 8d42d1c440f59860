// How the functions of plimsoll.h read a request: by the table of options of the command of the same name.
#ifndef PLIM_APP_LIBRARY_H
#define PLIM_APP_LIBRARY_H

#include <locale.h>

#include "option_values.h"
#include "tree.h"

// A member of a request that is not an option of the command. Its value is a path or a list of paths.
typedef struct {
  const char *name; // "files"
  bool is_needed;
} library_words;

typedef struct {
  plim_tree tree; // the request; texts of the call point into it
  cli_call call;  // what a command line with these options would be
} library_request;

// Reads the request into *r by the option table of `command`; options that the request does not set have their defaults.
// `left_out` names options of the command that the library does not have, separated by spaces; NULL: none. `words` may be
// NULL. Clear *r whatever the result.
plim_err library_read(const char *text, const cli_command *command, const char *left_out,
                      const library_words *words, library_request *r, plim_error *error);
void library_clear(library_request *r);

// Every function of plimsoll.h works between these two, which leave nothing of it in the thread that calls. Numbers have a
// point, whatever locale the caller has set: 0.05 would otherwise be read as 0 where a comma is usual. `before` is what
// library_enter returned.
locale_t library_enter(void);
void library_leave(locale_t before);

// Forgets the byte of an error if it counts in an option's text (`source`, which may be NULL) and not in the request.
void library_forget_byte(plim_err err, const char *source, plim_error *error);

#endif
