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
// - Files of other users that the program may write to (through a group, for example) can only be read, and folders of
//   other users only get new files if the program starts in them. Root is not limited in this way.
// - /proc shows its own processes, /sys is read-only, /dev has the harmless devices, /run has symbolic links alone.
// - UNIX sockets in an overlay refuse connections. Sockets on a file system that is only read-only do not: the kernel
//   cannot be told to.
#ifndef PLIM_SYSTEM_SANDBOX_H
#define PLIM_SYSTEM_SANDBOX_H

#include <sys/types.h>

#include "plimsoll.h"

typedef struct {
  const char *const *
      arguments; // of the program; ends with NULL; arguments[0] is looked up in the environment's PATH
  const char *const *environment; // ends with NULL
  const char *folder;             // where it starts; NULL: the current folder
  const char *const *writable;    // folders in which changes are kept
  size_t writable_count;
  const char *
      scratch; // an existing folder for what the program writes elsewhere; what was put there is removed at the end
  bool has_network; // otherwise the program has a loopback device of its own and nothing else
  bool is_open; // run it without a sandbox; plim_sandbox_end still ends everything that it started
  int output; // file descriptor for standard output and standard error; standard input is /dev/null
} plim_sandbox;

typedef struct {
  pid_t watcher; // ends the program and cleans up, also when the caller is killed
  int life;      // the watcher acts when this is closed
  int report;    // from the program's first process: errors and the exit status
  bool has_ended;
  int status;
  char read_only
      [320]; // folders that the program sees, but cannot write to; separated by ", ", empty if there are none
} plim_sandbox_run;

// Returns when the program runs. Every run that was started must be ended; one that failed must not.
plim_err plim_sandbox_start(const plim_sandbox *box, plim_sandbox_run *run, plim_error *error);

// Waits at most that long; a negative number waits without a limit. True: the program has ended, and *status is as waitpid
// gives it. Processes that it left behind are ended too.
bool plim_sandbox_wait(plim_sandbox_run *run, int milliseconds, int *status);

// Ends the program and everything it started, and removes what it wrote. Returns when that is done.
void plim_sandbox_end(plim_sandbox_run *run);

// Whether the kernel allows it, found by making a sandbox without a program; *why says why not and may be NULL.
bool plim_sandbox_is_possible(plim_error *why);

#endif
