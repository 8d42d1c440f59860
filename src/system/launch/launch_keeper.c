#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "launch_impl.h"
#include "sandbox.h"

#define LEFT_SECONDS 2   // that processes which the program left behind have to end by themselves
#define GRACE_SECONDS 10 // between the request to end and the end by force

static void tell(const launch_keeper *k, const launch_report *report) {
  while (write(k->report, report, sizeof *report) < 0 && errno == EINTR) continue;
}

// ---- the program ------------------------------------------------------------------------------------

// The keeper leads the session, and the program is a group in it: a group whose parent is in another session could not be
// stopped by Ctrl-Z.
noreturn static void become_program(const launch_keeper *k, int failed) {
  setpgid(0, 0);
  if (k->terminal >= 0) tcsetpgrp(k->terminal, getpid());
  for (int i = 0; i < 3; i++) dup2(k->files[i], i);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigaction(SIGPIPE, k->pipe_action, NULL);
  sigprocmask(SIG_SETMASK, k->mask, NULL);
  environ = (char **)k->request->environment; // execvp searches its PATH
  execvp(k->request->command[0], (char *const *)k->request->command);
  int why = errno;
  while (write(failed, &why, sizeof why) < 0 && errno == EINTR) continue;
  _exit(127);
}

static plim_err start_program(const launch_keeper *k, launch_report *report) {
  plim_error *error = &report->error;
  pid_t *program = &report->program;
  int failed[2], why = 0;
  if (pipe2(failed, O_CLOEXEC) != 0)
    return plim_fail(error, PLIM_ERR_IO, "cannot make a pipe: %s", strerror(errno));
  *program = fork();
  if (*program == 0) become_program(k, failed[1]);
  if (*program < 0) why = errno;
  close(failed[1]);
  while (*program > 0 && read(failed[0], &why, sizeof why) < 0 && errno == EINTR) continue;
  close(failed[0]);
  report->status = why ? launch_exit_status(why) : 0;
  return why ? plim_sandbox_not_started(k->request->command[0], why, error) : PLIM_OK;
}

// ---- its end ----------------------------------------------------------------------------------------

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// Sends a signal to every child, 0: to none; returns how many children there are.
static int signal_children(int number) {
  char path[64];
  int child, count = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  FILE *children = fopen(path, "re");
  while (children && fscanf(children, "%d", &child) == 1) {
    count++;
    if (kill(child, number) == 0 && number)
      kill(child, SIGCONT); // a stopped process would not see it
  }
  if (children) fclose(children);
  return count;
}

static void reap(void) {
  while (waitpid(-1, NULL, WNOHANG) > 0) continue;
}

// The parent of those whose own parent ends is this process, a subreaper, so that after some rounds none is left.
void launch_end_descendants(double wait_seconds) {
  double begin = now(), asked = begin + wait_seconds, forced = asked + GRACE_SECONDS;
  bool has_asked = false;
  for (;;) {
    double at = now();
    bool must_ask = at >= asked && !has_asked;
    reap();
    if (!signal_children(at >= forced ? SIGKILL : must_ask ? SIGTERM : 0)) return;
    if (at >= forced + GRACE_SECONDS) return;
    has_asked = has_asked || must_ask;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  }
}

// ---- the keeper -------------------------------------------------------------------------------------

// Waits until the program has ended, and tells when it is stopped. False: the caller wants it to end, or is gone.
static bool wait_for_end(const launch_keeper *k, pid_t program, launch_report *last) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  struct pollfd events[] = {{.fd = k->life, .events = POLLIN},
                            {.fd = signalfd(-1, &child, SFD_CLOEXEC), .events = POLLIN}};
  for (bool is_stopped = false;;) {
    int status;
    pid_t changed;
    while ((changed = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
      if (changed != program) continue;
      *last = (launch_report){.news = LAUNCH_ENDED, .status = status};
      bool has_ended = WIFEXITED(status) || WIFSIGNALED(status);
      if (is_stopped) kill(getppid(), SIGCONT); // somebody continued or killed the program alone
      is_stopped = WIFSTOPPED(status);
      if (has_ended) return true;
      last->news = LAUNCH_STOPPED;
      if (is_stopped) tell(k, last);
    }
    if (poll(events, 2, -1) < 0 && errno != EINTR) return false;
    if (events[0].revents) return false;
    struct signalfd_siginfo info;
    if (events[1].revents) (void)!read(events[1].fd, &info, sizeof info);
  }
}

static void keep_only(const launch_keeper *k) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL); // what ends the caller must not end the one that cleans up
  signal(SIGCHLD, SIG_DFL);
  setsid();
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  if (k->terminal >= 0) ioctl(k->terminal, TIOCSCTTY, 0);
}

// The caller sees the end of the output only when nobody has its other end any more.
static void leave_files(const launch_keeper *k) {
  int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int i = 0; i < 3; i++) {
    dup2(nothing, i);
    if (k->files[i] > 2 && k->files[i] != k->terminal) close(k->files[i]);
  }
  if (k->terminal > 2) close(k->terminal);
}

// Waits for the caller's last word. Without it, the caller was killed, and the user's terminal is still as it left it.
static void restore_terminal(const launch_keeper *k) {
  char byte;
  if (read(k->life, &byte, 1) != 1 && k->users >= 0) tcsetattr(k->users, TCSANOW, k->mode);
}

noreturn void launch_keep(const launch_keeper *k) {
  launch_report report = {.news = LAUNCH_STARTED};
  const launch_request *request = k->request;
  keep_only(k);
  plim_err err = request->before ? request->before(request->context, &report.error) : PLIM_OK;
  if (!err) err = start_program(k, &report);
  if (err) report.news = LAUNCH_FAILED;
  leave_files(k);
  tell(k, &report);
  plim_error ignored;
  if (err && request->after) (void)!request->after(request->context, &ignored);
  if (err) _exit(1);
  bool has_ended = wait_for_end(k, report.program, &report);
  if (!has_ended) restore_terminal(k); // at once: the shell has the terminal again
  launch_end_descendants(has_ended ? LEFT_SECONDS : 0);
  if (request->after) (void)!request->after(request->context, &report.error);
  if (has_ended) tell(k, &report);
  if (has_ended) restore_terminal(k);
  _exit(0);
}
