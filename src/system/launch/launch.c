// The caller's side: copies between the user's terminal, the program and the log.
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "launch_impl.h"

enum { INPUT, OUTPUT, ERROR };

struct launch {
  launch_request request;
  pid_t keeper, program;
  int life, report, signals;
  int log, log_error; // the log, -1: none, or not any more; and the errno with which it ended
  int terminal;       // our end of the program's terminal; -1: none
  int pipes[3];       // our ends of what is no terminal; -1: none. The first is not used
  bool is_raw_wanted; // standard input, output and error are all terminals
  bool is_raw, has_input_ended, has_ended;
  char typed[4096]; // what the program's terminal has no room for yet
  size_t typed_size;
  struct termios was; // the mode of the user's terminal, when it was taken
  int status, asked;
  sigset_t mask_was;
  struct sigaction pipe_was;
  char problem[sizeof((plim_error *)0)->message];
  bool is_line_open; // the program's last output did not end its line
};

static const int passed_on[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT,  SIGUSR1,
                                SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGALRM};

// ---- the terminal -----------------------------------------------------------------------------------

static bool is_foreground(void) { return tcgetpgrp(STDIN_FILENO) == getpgrp(); }

static void copy_size(const launch *l) {
  struct winsize size;
  if (l->terminal >= 0 && (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ||
                           ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0))
    ioctl(l->terminal, TIOCSWINSZ, &size);
}

// A program in the background does not have the terminal: its mode is the shell's until then.
static void take_terminal(launch *l) {
  if (!l->is_raw_wanted || l->is_raw || !is_foreground()) return;
  if (tcgetattr(STDIN_FILENO, &l->was) != 0) return;
  struct termios raw = l->was;
  cfmakeraw(&raw);
  l->is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
  copy_size(l);
}

static void give_terminal(launch *l) {
  if (l->is_raw) tcsetattr(STDIN_FILENO, TCSADRAIN, &l->was);
  l->is_raw = false;
}

// ---- signals ----------------------------------------------------------------------------------------

int launch_exit_status(int why) { return why == ENOENT ? 127 : 126; }

void launch_signal(launch *l, int number) { kill(-l->program, number); }

static void pass_signals(launch *l) {
  struct signalfd_siginfo info;
  while (read(l->signals, &info, sizeof info) == (ssize_t)sizeof info) {
    int number = (int)info.ssi_signo;
    if (number == SIGWINCH) copy_size(l);
    else if (number == SIGCONT) take_terminal(l);
    else if (!l->has_ended) launch_signal(l, number);
    if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
      l->asked = number;
  }
}

// The program is stopped: so is the caller, until the shell or the keeper continues it.
static void stop(launch *l) {
  sigset_t pending;
  bool is_over = sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
  give_terminal(l);
  if (!is_over) raise(SIGSTOP); // which would discard that signal
  take_terminal(l);
  launch_signal(l, SIGCONT);
}

// ---- starting ---------------------------------------------------------------------------------------

static plim_err failed(const char *what, plim_error *error) {
  return plim_fail(error, PLIM_ERR_IO, "cannot make a %s: %s", what, strerror(errno));
}

static void close_one(int fd) {
  if (fd > 2) close(fd);
}

// The program's files. Terminals are replaced by the program's own; other outputs by pipes, because a copy goes to the log.
static plim_err make_files(launch *l, launch_keeper *k, plim_error *error) {
  bool is_terminal[3];
  for (int i = 0; i < 3; i++) is_terminal[i] = isatty(i) == 1;
  l->is_raw_wanted = is_terminal[INPUT] && is_terminal[OUTPUT] && is_terminal[ERROR] &&
                     tcgetattr(STDIN_FILENO, &l->was) == 0;
  if (is_terminal[OUTPUT] || is_terminal[ERROR]) {
    bool has_mode = l->is_raw_wanted && is_foreground();
    if (openpty(&l->terminal, &k->terminal, NULL, has_mode ? &l->was : NULL, NULL) != 0)
      return failed("terminal", error);
    fcntl(l->terminal, F_SETFD, FD_CLOEXEC);
    fcntl(l->terminal, F_SETFL, fcntl(l->terminal, F_GETFL) | O_NONBLOCK);
    fcntl(k->terminal, F_SETFD, FD_CLOEXEC);
    copy_size(l);
  }
  k->files[INPUT] = l->is_raw_wanted ? k->terminal : STDIN_FILENO;
  for (int i = OUTPUT; i <= ERROR; i++) {
    int ends[2];
    if (is_terminal[i]) {
      k->files[i] = k->terminal;
      continue;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) return failed("pipe", error);
    l->pipes[i] = ends[0], k->files[i] = ends[1];
  }
  return PLIM_OK;
}

static plim_err make_signals(launch *l, plim_error *error) {
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++) {
    struct sigaction
        now; // one that the user has us ignore (nohup) does not concern the program either
    bool is_ignored = sigaction(passed_on[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN;
    if (!is_ignored) sigaddset(&set, passed_on[i]);
  }
  sigprocmask(SIG_BLOCK, &set, &l->mask_was);
  sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &l->pipe_was);
  l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  return l->signals >= 0 ? PLIM_OK : failed("signalfd", error);
}

static bool next_report(const launch *l, launch_report *out) {
  ssize_t size;
  do size = read(l->report, out, sizeof *out);
  while (size < 0 && errno == EINTR);
  return size == (ssize_t)sizeof *out;
}

static plim_err start_keeper(launch *l, launch_keeper *k, plim_error *error) {
  int life[2] = {-1, -1}, report[2] = {-1, -1};
  if (pipe2(life, O_CLOEXEC) != 0 || pipe2(report, O_CLOEXEC) != 0) return failed("pipe", error);
  l->life = life[1], l->report = report[0];
  k->life = life[0], k->report = report[1];
  l->keeper = fork();
  if (l->keeper == 0) {
    close(life[1]), close(report[0]), close_one(l->terminal);
    for (int i = OUTPUT; i <= ERROR; i++) close_one(l->pipes[i]);
    launch_keep(k);
  }
  int why = errno;
  close(life[0]), close(report[1]);
  launch_report first;
  if (l->keeper < 0)
    return plim_fail(error, PLIM_ERR_IO, "cannot start a process: %s", strerror(why));
  if (!next_report(l, &first))
    return plim_fail(error, PLIM_ERR_IO,
                     "plimsoll's helper process was killed before the program started");
  if (first.news == LAUNCH_FAILED) {
    if (l->request.not_started) *l->request.not_started = first.status;
    return *error = first.error, first.error.code;
  }
  l->program = first.program;
  return PLIM_OK;
}

plim_err launch_start(const launch_request *request, launch **out, plim_error *error) {
  launch *l = *out = malloc(sizeof *l);
  if (!l) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  *l = (launch){.keeper = -1, .life = -1, .report = -1, .signals = -1, .log = request->log};
  l->request = *request;
  l->terminal = l->pipes[0] = l->pipes[1] = l->pipes[2] = -1;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  launch_keeper keeper = {.request = request, .terminal = -1, .users = -1};
  keeper.mode = &l->was, keeper.mask = &l->mask_was, keeper.pipe_action = &l->pipe_was;
  for (int i = 0; i < 3; i++) keeper.files[i] = -1;
  plim_err err = make_files(l, &keeper, error);
  if (l->is_raw_wanted) keeper.users = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
  if (!err) err = make_signals(l, error);
  if (!err) err = start_keeper(l, &keeper, error);
  for (int i = OUTPUT; i <= ERROR; i++)
    if (keeper.files[i] != keeper.terminal) close_one(keeper.files[i]);
  close_one(keeper.terminal);
  close_one(keeper.users);
  if (err) return launch_end(l), *out = NULL, err;
  take_terminal(l);
  return PLIM_OK;
}

// ---- copying ----------------------------------------------------------------------------------------

// False: the disk is full, or the reader is gone. Signals are passed on while the reader does not read: a write of PIPE_BUF
// bytes does not wait when there is room.
static bool write_out(launch *l, int fd, const char *text, size_t size) {
  struct pollfd events[] = {{.fd = fd, .events = POLLOUT}, {.fd = l->signals, .events = POLLIN}};
  while (size) {
    if (poll(events, 2, -1) < 0) continue; // EINTR
    if (events[1].revents) pass_signals(l);
    if (!events[0].revents) continue;
    ssize_t done = write(fd, text, size < PIPE_BUF ? size : PIPE_BUF);
    if (done < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (done > 0) text += done, size -= (size_t)done;
  }
  return true;
}

static void write_log(launch *l, const char *text, size_t size) {
  while (l->log >= 0 && size) {
    ssize_t done = write(l->log, text, size);
    if (done < 0 && errno != EINTR) l->log_error = errno, l->log = -1;
    if (done > 0) text += done, size -= (size_t)done;
  }
}

// False: there is nothing to read now. At its end the descriptor is closed.
static bool copy_output(launch *l, int *from, int to) {
  char text[65536];
  ssize_t size;
  do size = read(*from, text, sizeof text);
  while (size < 0 && errno == EINTR);
  if (size > 0) {
    bool has_reader = write_out(l, to, text, (size_t)size);
    write_log(l, text, (size_t)size);
    l->is_line_open = text[size - 1] != '\n';
    if (has_reader) return true; // otherwise the program is to see that its reader is gone
  }
  if (size < 0 && errno == EAGAIN) return false;
  close(*from); // a terminal says EIO when its other end is closed
  *from = -1;
  return false;
}

// The program's terminal turns Ctrl-C into a signal that only the program gets.
static void look_for_signals(launch *l, const char *keys, size_t size) {
  struct termios mode;
  if (tcgetattr(l->terminal, &mode) != 0 || !(mode.c_lflag & ISIG)) return;
  for (size_t i = 0; i < size; i++) {
    cc_t key = (cc_t)keys[i];
    if (key == _POSIX_VDISABLE) continue;
    if (key == mode.c_cc[VINTR]) l->asked = SIGINT;
    if (key == mode.c_cc[VQUIT]) l->asked = SIGQUIT;
  }
}

// A program that does not read what is typed must not keep us from reading what it prints.
static void write_typed(launch *l) {
  ssize_t done = l->typed_size ? write(l->terminal, l->typed, l->typed_size) : 0;
  if (done < 0 && errno != EINTR && errno != EAGAIN) done = (ssize_t)l->typed_size; // it is gone
  if (done <= 0) return;
  l->typed_size -= (size_t)done;
  memmove(l->typed, l->typed + done, l->typed_size);
}

static void copy_input(launch *l) {
  ssize_t size = read(STDIN_FILENO, l->typed, sizeof l->typed);
  if (size > 0) look_for_signals(l, l->typed, (size_t)size);
  if (size > 0) l->typed_size = (size_t)size;
  else if (size == 0 || (errno != EINTR && errno != EAGAIN)) l->has_input_ended = true;
  write_typed(l);
}

// The keeper was killed, and the program with it. What the keeper would do now is done here, where everything that the program
// has started ends up (PR_SET_CHILD_SUBREAPER).
static launch_report end_without_keeper(launch *l) {
  launch_report last = {.news = LAUNCH_ENDED, .status = SIGKILL};
  plim_fail(&last.error, PLIM_ERR_IO,
            "plimsoll's helper process was killed, and the program ended with it");
  launch_end_descendants(0);
  if (l->request.after) (void)!l->request.after(l->request.context, &last.error);
  return last;
}

static void take_news(launch *l) {
  launch_report news;
  if (!next_report(l, &news)) news = end_without_keeper(l);
  if (news.news == LAUNCH_STOPPED) stop(l);
  if (news.news != LAUNCH_ENDED) return;
  l->has_ended = true;
  l->status = news.status;
  snprintf(l->problem, sizeof l->problem, "%s", news.error.message);
}

// When everything has ended, what is left in pipes and terminal can be read without waiting.
static void drain(launch *l) {
  int *from[] = {&l->terminal, &l->pipes[OUTPUT], &l->pipes[ERROR]};
  const int to[] = {isatty(STDOUT_FILENO) ? STDOUT_FILENO : STDERR_FILENO, STDOUT_FILENO,
                    STDERR_FILENO};
  for (int i = 0; i < 3; i++) {
    if (*from[i] >= 0) fcntl(*from[i], F_SETFL, fcntl(*from[i], F_GETFL) | O_NONBLOCK);
    while (*from[i] >= 0 && copy_output(l, from[i], to[i])) continue;
  }
}

bool launch_turn(launch *l, int milliseconds, int *status) {
  take_terminal(l); // a shell's fg does not tell a program that was running in the background
  bool reads_input = l->is_raw && !l->has_input_ended && l->terminal >= 0 && !l->typed_size;
  struct pollfd events[] = {
      {.fd = l->report, .events = POLLIN},
      {.fd = l->signals, .events = POLLIN},
      {.fd = l->terminal, .events = l->typed_size ? POLLIN | POLLOUT : POLLIN},
      {.fd = l->pipes[OUTPUT], .events = POLLIN},
      {.fd = l->pipes[ERROR], .events = POLLIN},
      {.fd = reads_input ? STDIN_FILENO : -1, .events = POLLIN},
  };
  int terminal_to = isatty(STDOUT_FILENO) ? STDOUT_FILENO : STDERR_FILENO;
  if (!l->has_ended && poll(events, 6, milliseconds) > 0) {
    if (events[1].revents) pass_signals(l);
    if (events[2].revents & POLLOUT) write_typed(l);
    if (events[2].revents & ~POLLOUT) copy_output(l, &l->terminal, terminal_to);
    if (events[3].revents) copy_output(l, &l->pipes[OUTPUT], STDOUT_FILENO);
    if (events[4].revents) copy_output(l, &l->pipes[ERROR], STDERR_FILENO);
    if (events[5].revents) copy_input(l);
    if (events[0].revents) take_news(l);
  }
  if (!l->has_ended) return false;
  drain(l);
  *status = l->status;
  return true;
}

void launch_say(launch *l, const char *line) { launch_say_folded(l, line, line); }

void launch_say_folded(launch *l, const char *line, const char *folded) {
  const char *begin = !l->is_line_open ? "" : isatty(STDERR_FILENO) ? "\r\x1b[K" : "\n";
  const char *end = l->is_raw ? "\r\n" : "\n";
  for (const char *at = folded; at; begin = "") {
    size_t size = strcspn(at, "\n");
    dprintf(STDERR_FILENO, "%s%.*s%s", begin, (int)size, at, end);
    at = at[size] ? at + size + 1 : NULL;
  }
  if (l->log >= 0) dprintf(l->log, "%s%s\n", l->is_line_open ? "\n" : "", line);
  l->is_line_open = false;
}

const char *launch_problem(const launch *l) { return l->problem; }

int launch_log_error(const launch *l) { return l->log_error; }

int launch_was_asked(launch *l) {
  pass_signals(l);
  return l->asked;
}

bool launch_is_line_open(const launch *l) { return l->is_line_open; }

// ---- the end ----------------------------------------------------------------------------------------

void launch_end(launch *l) {
  give_terminal(l);
  if (l->life >= 0) (void)!write(l->life, "", 1), close(l->life);
  while (l->keeper > 0 && waitpid(l->keeper, NULL, 0) < 0 && errno == EINTR) continue;
  close_one(l->report), close_one(l->terminal);
  for (int i = OUTPUT; i <= ERROR; i++) close_one(l->pipes[i]);
  if (l->signals >= 0) {
    close(l->signals);
    sigaction(SIGPIPE, &l->pipe_was, NULL);
    sigprocmask(SIG_SETMASK, &l->mask_was, NULL);
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
  free(l);
}
