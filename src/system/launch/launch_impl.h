// Between the files of this folder.
#ifndef PLIM_SYSTEM_LAUNCH_IMPL_H
#define PLIM_SYSTEM_LAUNCH_IMPL_H

#include <signal.h>
#include <stdnoreturn.h>
#include <sys/types.h>
#include <termios.h>

#include "launch.h"

// What the keeper tells the caller.
typedef enum { LAUNCH_STARTED, LAUNCH_FAILED, LAUNCH_STOPPED, LAUNCH_ENDED } launch_news;

typedef struct {
  launch_news news;
  pid_t program;    // of STARTED
  int status;       // of STOPPED and ENDED; of FAILED: as launch_request.not_started
  plim_error error; // of FAILED; of ENDED: what request.after failed with
} launch_report;

_Static_assert(sizeof(launch_report) <= 4096, "a report larger than PIPE_BUF may arrive in parts");

// The keeper: a process between the caller and the program. It starts the program, is the parent of whatever the program
// leaves behind, and ends all of it when the caller is gone.
typedef struct {
  const launch_request *request;
  int files[3]; // the program's standard input, output and error
  int terminal; // the program's own; -1: none
  int life;     // the caller is gone when this is at its end
  int report;   // for the caller
  int users;    // the user's terminal, to restore if the caller is killed; -1: it is not changed
  const struct termios *mode; // of the user's terminal, before
  const sigset_t *mask;       // of the caller, before; likewise what it did about SIGPIPE
  const struct sigaction *pipe_action;
} launch_keeper;

// Starts as a copy of the process that calls it.
noreturn void launch_keep(const launch_keeper *keeper);

// Ends all children of this process and what they have started: at once or, with `wait_seconds`, if they do not end by
// themselves in that time. One that may not be killed (sudo) is left alone.
void launch_end_descendants(double wait_seconds);

#endif
