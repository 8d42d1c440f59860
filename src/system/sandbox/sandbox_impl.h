// The processes of a sandbox: the caller starts a watcher, which stays outside; the watcher starts the first process of
// the sandbox, which makes the file tree and starts the program.
#ifndef PLIM_SYSTEM_SANDBOX_IMPL_H
#define PLIM_SYSTEM_SANDBOX_IMPL_H

#include <stdnoreturn.h>

#include "sandbox.h"

// File descriptors of the watcher and of the first process. They have no others, so that the program inherits none.
enum { PLIM_SANDBOX_LIFE = 3, PLIM_SANDBOX_REPORT };

typedef enum { PLIM_SANDBOX_FAILED, PLIM_SANDBOX_STARTED, PLIM_SANDBOX_ENDED } plim_sandbox_news;

// What the caller is told; smaller than PIPE_BUF, so that it arrives whole.
typedef struct {
  plim_sandbox_news news;
  int status;          // of ENDED
  plim_error error;    // of FAILED
  char read_only[320]; // of STARTED
} plim_sandbox_report;

// Where things are, as absolute paths without symbolic links.
typedef struct {
  char *start;     // the folder in which the program starts
  char *scratch;   // the caller's scratch folder
  char *run;       // the folder in there that belongs to this run
  char **writable; // as many as the caller's
  char **
      replaced; // of the caller's pairs: the path, which need not exist, then the file that is shown there
  bool has_files; // all user ids exist in the sandbox, and root may use all files as it may outside
} plim_sandbox_places;

void plim_sandbox_tell(const plim_sandbox_report *report);

// Adds a hint to an error that the kernel's settings cause: what can be done about it.
void plim_sandbox_advise(plim_error *error);

// The watcher and the first process. Both start as a copy of the process that calls them.
noreturn void plim_sandbox_watch(const plim_sandbox *box, int life, int report);
noreturn void plim_sandbox_first(const plim_sandbox *box, const plim_sandbox_places *places);

// Makes the file tree of the sandbox in the calling process's own mount namespace, and makes it the root.
plim_err plim_sandbox_enter(const plim_sandbox *box, const plim_sandbox_places *places,
                            plim_sandbox_report *report);

// Closes standard output, so that its reader sees the end of the file when the program has ended.
void plim_sandbox_leave_output(void);

// A descriptor that becomes readable when a child ends. SIGCHLD must be blocked.
int plim_sandbox_child_signal(void);

// Removes what is in a folder, whatever it is and however deep, but nothing behind symbolic links. False: something is
// left.
bool plim_sandbox_empty(const char *folder);

#endif
