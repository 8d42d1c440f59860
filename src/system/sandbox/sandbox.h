// Runs a program that may read everything and change nothing: its writes go to a scratch folder and are removed at the end,
// it has no network, and everything it started ends with it. Linux only, without privileges, by namespaces and overlay
// file systems (Linux 5.12 or newer).
//
//   plim_sandbox box = {.arguments = arguments, .environment = environ, .scratch = folder, .output = 1};
//   plim_sandbox_run run;
//   if (plim_sandbox_start(&box, &run, &error) != PLIM_OK) ...
//   while (!plim_sandbox_wait(&run, 100, &status)) ...;
//   plim_sandbox_end(&run);
//
// What the program sees:
// - Every folder is an overlay: it can be changed, and the changes are visible to the program alone. A file system that
//   cannot be overlaid is read-only. A folder that contains mount points cannot be overlaid as a whole: its folders are
//   overlaid one by one, its small files are copies, and its large files (over 16 MiB) are read-only.
// - Files that belong to other users, or to a group that is not the user's primary one, can be removed and replaced, but
//   not changed in place. Folders of that kind can be changed only in and below the folder where the program starts. Elsewhere
//   the kernel returns EOVERFLOW. Root is not limited in this way.
// - /proc shows its own processes, /sys is read-only, /dev has only harmless devices, /run has only symbolic links.
// - Without a network, the machine's name has the address of the loopback device (/etc/hosts).
// - UNIX sockets in an overlay refuse connections. Sockets on a read-only file system that is not overlaid do not, because the
//   kernel has no option for that.
#ifndef PLIM_SYSTEM_SANDBOX_H
#define PLIM_SYSTEM_SANDBOX_H

#include <sys/types.h>

#include "plimsoll.h"

// A file that the program sees at another path, with its own permissions. In place of a file that exists, the program
// cannot change it. If there is none at `path`, the program gets a copy and the folders above it; that fails below a
// `writable` folder, where the copy would stay.
typedef struct {
  const char *path, *with; // `with` exists
} plim_sandbox_replaced;

typedef struct {
  const char *const *arguments;   // ends with NULL; the first is looked up in PATH of `environment`
  const char *const *environment; // ends with NULL
  const char *folder;             // where it starts; NULL: the current folder
  const char *const *writable;    // folders in which changes are kept
  size_t writable_count;
  const plim_sandbox_replaced *replaced; // not if is_open
  size_t replaced_count;
  const char *scratch; // an existing folder; holds what the program writes elsewhere until the end
  bool has_network;    // otherwise it has a loopback device of its own and nothing else
  bool is_open;        // run it without a sandbox; everything that it started is still ended
  int output;          // for standard output and standard error; standard input is /dev/null
} plim_sandbox;

typedef struct {
  pid_t watcher; // ends the program and cleans up, also when the caller is killed
  int life;      // the watcher acts when this is closed
  int report;    // from the program's first process: errors and the exit status
  bool has_ended;
  int status;
  char read_only[320]; // paths that the program cannot change even for itself; separated by ", "
} plim_sandbox_run;

// Returns when the program runs. Every run that was started must be ended; one that failed must not.
plim_err plim_sandbox_start(const plim_sandbox *box, plim_sandbox_run *run, plim_error *error);

// Waits at most that long; a negative number waits without a limit. True: the program has ended, and *status is as waitpid
// gives it. Processes that it left behind are ended too.
bool plim_sandbox_wait(plim_sandbox_run *run, int milliseconds, int *status);

// Ends the program and everything it started, and removes what it wrote. Returns when that is done.
void plim_sandbox_end(plim_sandbox_run *run);

// Fails if the program of that name cannot be run, and leaves the reason in errno. It is looked up in PATH unless it has a
// slash.
plim_err plim_sandbox_find_program(const char *name, plim_error *error);
// Fails with why a program could not be started (an errno of exec), and with what to type instead.
plim_err plim_sandbox_not_started(const char *name, int why, plim_error *error);

// Whether the kernel allows a sandbox: makes one without a program. If not, *why has the reason; `why` may be NULL.
bool plim_sandbox_is_possible(plim_error *why);

#endif
