// Runs a program as a shell would: it has the user's terminal, signals reach it, and its exit status comes back. A copy of
// its output goes to a log. Everything that it started ends with it, also when the caller is killed.
//
//   launch *l;
//   err = launch_start(&(launch_request){.command = words, .environment = environ, .log = fd}, &l, &error);
//   while (!err && !launch_turn(l, 1000, &status)) ...; // copies output, input and signals meanwhile
//   if (!err) launch_end(l);
//
// With a terminal as standard input, output and error, the program gets a terminal of its own (a pty), and the user's is in
// raw mode: Ctrl-C and Ctrl-Z go to the program's terminal, which sends the signals. Otherwise standard input is the
// caller's, and the caller's signals are passed on.
#ifndef PLIM_SYSTEM_LAUNCH_H
#define PLIM_SYSTEM_LAUNCH_H

#include "plimsoll.h"

typedef struct {
  const char *const *command;     // ends with NULL; the first is looked up in PATH
  const char *const *environment; // ends with NULL
  int log;                        // gets a copy of the output; -1: none
  // Or NULL. If the program cannot be started, gets the exit status that a shell has then: 127 if there is no such program,
  // otherwise 126.
  int *not_started;
  // Called in another process: before the program starts, and when everything has ended, also if the caller was killed. If
  // that process is killed instead, the caller calls `after`. Each may be NULL. If `before` fails, nothing is started; what
  // `after` says is in launch_problem.
  plim_err (*before)(void *context, plim_error *error);
  plim_err (*after)(void *context, plim_error *error);
  void *context; // until launch_end
} launch_request;

typedef struct launch launch; // one at a time in a process

// Signals of the caller are passed on to the program until launch_end.
plim_err launch_start(const launch_request *request, launch **out, plim_error *error);

// Copies for at most that long. True: the program has ended, all of its output is copied, and *status is as waitpid gives it.
bool launch_turn(launch *l, int milliseconds, int *status);

// Writes a line to standard error and to the log, between the lines of the program.
void launch_say(launch *l, const char *line);
// The same for a line that is folded on the user's terminal, and whole in the log.
void launch_say_folded(launch *l, const char *line, const char *folded);

// The exit status that a shell has if a program cannot be started: 127 if there is no such program, 126 otherwise.
int launch_exit_status(int why); // an errno

// Sends a signal to the program, as kill does.
void launch_signal(launch *l, int signal);

// The last signal that asks a program to end and was passed on to it, typed as a key (Ctrl-C), or has come after its end:
// SIGINT, SIGTERM, SIGHUP or SIGQUIT; 0: none.
int launch_was_asked(launch *l);

// Whether the last line of the program's output has no end yet.
bool launch_is_line_open(const launch *l);

// The errno with which the log ended before the output did (the disk is full); 0: it has everything so far.
int launch_log_error(const launch *l);

// What `after` of the request failed with, or that the program was killed together with our own process beside it; "": nothing.
// For a program that has ended.
const char *launch_problem(const launch *l);

// Ends what the program left behind, and restores terminal and signals.
void launch_end(launch *l);

#endif
