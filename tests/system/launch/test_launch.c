// A launched program has the user's terminal, signals and exit status, and leaves nothing behind. Each test has a process of
// its own as the caller, which is what `plimsoll run` would be.
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "test.h"

#define MOST_SECONDS 60 // that anything here may take on a busy machine

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void nap(void) { nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL); }

// ---- the caller -------------------------------------------------------------------------------------

static char log_path[4096], before_path[4096], after_path[4096], go_path[4096];

static plim_err write_before(void *context, plim_error *error) {
  (void)context;
  if (access(before_path, F_OK) == 0) return plim_fail(error, PLIM_ERR_IO, "it is there already");
  int fd = open(before_path, O_WRONLY | O_CREAT, 0600);
  if (fd >= 0) close(fd);
  return PLIM_OK;
}

static plim_err write_after(void *context, plim_error *error) {
  unlink(before_path);
  int fd = open(context, O_WRONLY | O_CREAT, 0600);
  if (fd >= 0) close(fd);
  return plim_fail(error, PLIM_ERR_IO, "a problem");
}

// Runs a shell command as `plimsoll run` does, and ends as it does.
static void call(const char *command) {
  const char *words[] = {"sh", "-c", command, NULL};
  int status = 0, log = open(log_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  plim_error error;
  launch *l;
  launch_request request = {.command = words,
                            .environment = (const char *const *)environ,
                            .log = log,
                            .before = write_before,
                            .after = write_after,
                            .context = after_path};
  if (launch_start(&request, &l, &error)) _exit(99);
  while (!launch_turn(l, 1000, &status)) continue;
  if (getenv("LATE")) raise(SIGTERM);
  launch_say(l, "said");
  launch_say(l, launch_problem(l));
  if (launch_log_error(l) == ENOSPC) launch_say(l, "the log is full");
  if (launch_was_asked(l)) launch_say(l, "asked to end");
  launch_end(l);
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

typedef struct {
  pid_t pid;
  int in, out; // its standard input and output; or one terminal
} caller;

static caller start_with(const char *command, const char *log) {
  int in[2], out[2];
  unlink(after_path);
  unlink(log_path);
  if (log && symlink(log, log_path)) return (caller){.pid = -1};
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) return (caller){.pid = -1};
  caller c = {fork(), in[1], out[0]};
  if (c.pid == 0) {
    dup2(in[0], 0), dup2(out[1], 1), dup2(out[1], 2);
    close(in[1]), close(out[0]);
    call(command);
  }
  close(in[0]), close(out[1]);
  return c;
}

static caller start(const char *command) { return start_with(command, NULL); }

static caller start_on_terminal(const char *command, const struct winsize *size) {
  unlink(after_path);
  unlink(log_path);
  caller c = {0};
  c.pid = forkpty(&c.in, NULL, NULL, size);
  if (c.pid == 0) call(command);
  c.out = c.in;
  return c;
}

// Waits for the end of the caller, whose output is taken meanwhile; returns its exit status, -1: it did not end.
static int end(caller *c, char *text, size_t size) {
  size_t used = 0;
  int status = 0;
  ssize_t got = 1;
  while (used + 1 < size && (got = read(c->out, text + used, size - used - 1)) != 0) {
    if (got > 0) used += (size_t)got;
    else if (errno != EINTR) break; // a terminal whose other end is closed
  }
  text[used] = 0;
  close(c->out);
  if (c->in != c->out) close(c->in);
  if (waitpid(c->pid, &status, 0) != c->pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Reads until a word has come.
static bool await(const caller *c, const char *word) {
  char text[4096] = "";
  size_t used = 0;
  while (used + 1 < sizeof text && !strstr(text, word)) {
    ssize_t got = read(c->out, text + used, sizeof text - used - 1);
    if (got <= 0) return false;
    text[used += (size_t)got] = 0;
  }
  return strstr(text, word) != NULL;
}

static char *contents(const char *path) {
  static char text[4096];
  FILE *in = fopen(path, "rb");
  size_t size = in ? fread(text, 1, sizeof text - 1, in) : 0;
  text[size] = 0;
  if (in) fclose(in);
  return text;
}

// Waits until a process is gone, or a zombie that somebody else has to reap.
static bool is_gone(pid_t pid) {
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  for (double until = seconds() + MOST_SECONDS; seconds() < until; nap()) {
    FILE *in = fopen(path, "r");
    if (!in) return true;
    bool is_read = fscanf(in, "%*d (%*[^)]) %c", &state) == 1;
    fclose(in);
    if (!is_read || state == 'Z') return true;
  }
  return false;
}

static bool exists(const char *path) {
  for (double until = seconds() + MOST_SECONDS; seconds() < until; nap())
    if (access(path, F_OK) == 0) return true;
  return false;
}

// ---- without a terminal -----------------------------------------------------------------------------

TEST(output_and_status_are_those_of_the_program) {
  char text[4096];
  caller c = start("echo out; echo err >&2; exit 7");
  CHECK(end(&c, text, sizeof text) == 7, "%s", text);
  CHECK(strstr(text, "out\n") && strstr(text, "err\n") && strstr(text, "said\n"), "%s", text);
  char *log = contents(log_path);
  CHECK(strstr(log, "out\n") && strstr(log, "err\n") && strstr(log, "said\n"), "%s", log);
  CHECK(access(after_path, F_OK) == 0 && access(before_path, F_OK) != 0, "what follows the end");
  CHECK(strstr(text, "a problem\n"), "%s", text);
}

TEST(large_output_is_whole) {
  static char text[1 << 20];
  caller c =
      start("head -c 500000 /dev/zero | tr '\\0' x; printf end; head -c 500000 /dev/zero | tr "
            "'\\0' y >&2");
  CHECK(end(&c, text, sizeof text) == 0, "status");
  CHECK_U64(strlen(text), 1000003 + strlen("\nsaid\na problem\n"));
}

TEST(input_reaches_the_program) {
  char text[256];
  caller c = start("read line; echo got $line");
  CHECK(write(c.in, "hello\n", 6) == 6, "write");
  CHECK(end(&c, text, sizeof text) == 0 && strstr(text, "got hello"), "%s", text);
}

TEST(a_killed_program_is_seen_as_killed) {
  char text[256];
  caller c = start("kill -9 $$");
  CHECK(end(&c, text, sizeof text) == 128 + SIGKILL, "%s", text);
}

TEST(signals_are_passed_on) {
  static const int all[] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char text[256];
    caller c =
        start("trap 'echo usr; exit 3' TERM INT USR1 HUP; echo ready; while :; do sleep 0.01; "
              "done");
    CHECK(await(&c, "ready"), "it starts");
    kill(c.pid, all[i]);
    CHECK(end(&c, text, sizeof text) == 3 && strstr(text, "usr"), "signal %d: %s", all[i], text);
  }
}

TEST(signals_are_passed_on_while_nobody_reads) {
  caller c =
      start("trap 'touch \"$GO\"; exit 3' TERM; echo ready; yes & while :; do sleep 0.01; done");
  CHECK(await(&c, "ready"), "it starts");
  nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL); // until the pipes are full
  kill(c.pid, SIGTERM);
  CHECK(exists(go_path), "the signal has reached the program");
  char *text = malloc(1 << 20);
  CHECK(end(&c, text, 1 << 20) == 3, "its status");
  free(text);
  unlink(go_path);
}

// The caller is still at work for a program that has ended. It is not killed, and knows that it is to stop.
TEST(a_signal_after_the_end_is_not_lost) {
  char text[256];
  setenv("LATE", "1", 1);
  caller c = start("exit 3");
  unsetenv("LATE");
  CHECK(end(&c, text, sizeof text) == 3 && strstr(text, "asked to end"), "%s", text);
}

// As nohup does. A program that a signal does not reach was not asked to end by it.
TEST(an_ignored_signal_is_not_passed_on) {
  char text[256];
  signal(SIGHUP, SIG_IGN);
  caller c = start("echo ready; read line; echo got $line; exit 3");
  signal(SIGHUP, SIG_DFL);
  CHECK(await(&c, "ready"), "it starts");
  kill(c.pid, SIGHUP);
  CHECK(write(c.in, "hello\n", 6) == 6, "write");
  CHECK(end(&c, text, sizeof text) == 3 && strstr(text, "got hello"), "%s", text);
  CHECK(!strstr(text, "asked"), "%s", text);
}

TEST(a_program_that_somebody_stops_and_continues_goes_on) {
  char text[256];
  int status, program;
  caller c = start("echo $$; read line; echo got $line; exit 3");
  ssize_t got = read(c.out, text, sizeof text - 1);
  text[got > 0 ? got : 0] = 0;
  program = atoi(text);
  CHECK(program > 0 && kill(program, SIGSTOP) == 0, "%s", text);
  CHECK(waitpid(c.pid, &status, WUNTRACED) == c.pid && WIFSTOPPED(status), "it stops, too");
  kill(program, SIGCONT);
  CHECK(write(c.in, "hello\n", 6) == 6, "write");
  CHECK(end(&c, text, sizeof text) == 3 && strstr(text, "got hello"), "%s", text);
}

TEST(a_stopped_program_that_somebody_kills_has_ended) {
  char text[256];
  int status, program;
  caller c = start("echo $$; read line");
  ssize_t got = read(c.out, text, sizeof text - 1);
  text[got > 0 ? got : 0] = 0;
  program = atoi(text);
  CHECK(program > 0 && kill(program, SIGSTOP) == 0, "%s", text);
  CHECK(waitpid(c.pid, &status, WUNTRACED) == c.pid && WIFSTOPPED(status), "it stops, too");
  kill(program, SIGKILL);
  CHECK(end(&c, text, sizeof text) == 128 + SIGKILL, "%s", text);
}

TEST(a_full_disk_ends_the_log_and_not_the_program) {
  char text[256];
  caller c = start_with("echo out; echo again; exit 3", "/dev/full");
  CHECK(end(&c, text, sizeof text) == 3 && strstr(text, "again\n"), "%s", text);
  CHECK(strstr(text, "the log is full"), "%s", text);
}

TEST(a_reader_that_goes_away_is_noticed_by_the_program) {
  caller c = start("trap '' INT; echo ready; yes 2>/dev/null; exit 5");
  CHECK(await(&c, "ready"), "it starts");
  char text[16];
  close(c.out);
  c.out = open("/dev/null", O_RDONLY);
  CHECK(end(&c, text, sizeof text) == 5, "yes ended, and the shell after it");
}

TEST(what_the_program_leaves_behind_is_ended) {
  char text[256];
  caller c =
      start("setsid sleep 1000 >/dev/null 2>&1 & echo $!; (setsid sh -c 'trap \"\" TERM; sleep "
            "1000' & ) ; exit 0");
  CHECK(end(&c, text, sizeof text) == 0, "%s", text);
  pid_t left = atoi(text);
  CHECK(left > 0 && is_gone(left), "process %d", left);
}

TEST(all_ends_when_the_caller_is_killed) {
  caller c = start("setsid sleep 1000 & echo $! $$ ready; wait");
  char text[256] = "";
  int left = 0, program = 0;
  size_t used = 0;
  while (!strstr(text, "ready")) {
    ssize_t got = read(c.out, text + used, sizeof text - used - 1);
    CHECK(got > 0, "it starts");
    text[used += (size_t)got] = 0;
  }
  CHECK(sscanf(text, "%d %d", &left, &program) == 2, "%s", text);
  kill(c.pid, SIGKILL);
  CHECK(end(&c, text, sizeof text) == 128 + SIGKILL, "killed");
  CHECK(is_gone(left) && is_gone(program), "processes %d and %d", left, program);
  CHECK(exists(after_path) && access(before_path, F_OK) != 0, "what follows the end");
}

// The process between the caller and the program.
static pid_t parent_of(pid_t pid) {
  char path[64];
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *in = fopen(path, "r");
  if (in && fscanf(in, "%*d (%*[^)]) %*c %d", &parent) != 1) parent = 0;
  if (in) fclose(in);
  return parent;
}

TEST(all_ends_when_the_keeper_is_killed) {
  caller c = start("setsid sleep 1000 & echo $! $$ ready; wait");
  char text[256] = "";
  int left = 0, program = 0;
  size_t used = 0;
  while (!strstr(text, "ready")) {
    ssize_t got = read(c.out, text + used, sizeof text - used - 1);
    CHECK(got > 0, "it starts");
    text[used += (size_t)got] = 0;
  }
  CHECK(sscanf(text, "%d %d", &left, &program) == 2, "%s", text);
  pid_t keeper = parent_of(program);
  CHECK(parent_of(keeper) == c.pid, "the keeper, %d", keeper);
  kill(keeper, SIGKILL);
  CHECK(end(&c, text, sizeof text) == 128 + SIGKILL, "%s", text);
  CHECK(is_gone(left) && is_gone(program), "processes %d and %d", left, program);
  CHECK(exists(after_path) && access(before_path, F_OK) != 0, "what follows the end");
}

TEST(nothing_starts_if_what_comes_before_fails) {
  char text[256];
  int fd = open(before_path, O_WRONLY | O_CREAT, 0600);
  caller c = start("echo started");
  CHECK(end(&c, text, sizeof text) == 99 && !strstr(text, "started"), "%s", text);
  CHECK(exists(after_path), "what follows the end");
  close(fd);
}

TEST(a_program_that_is_missing_is_an_error) {
  const char *words[] = {"no-such-program-at-all", NULL};
  plim_error error;
  launch *l;
  launch_request request = {
      .command = words, .environment = (const char *const *)environ, .log = -1};
  CHECK(launch_start(&request, &l, &error) == PLIM_ERR_IO, "no error");
  CHECK(strstr(error.message, "no-such-program-at-all") && *error.hint, "%s (%s)", error.message,
        error.hint);
}

// ---- with a terminal --------------------------------------------------------------------------------

static const struct winsize size = {.ws_row = 33, .ws_col = 77};

TEST(the_program_has_a_terminal_of_the_same_size) {
  char text[4096];
  caller c = start_on_terminal("test -t 0 && test -t 1 && test -t 2 && stty size; exit 4", &size);
  CHECK(end(&c, text, sizeof text) == 4 && strstr(text, "33 77"), "%s", text);
  CHECK(strstr(contents(log_path), "33 77"), "%s", contents(log_path));
}

TEST(what_is_typed_reaches_the_program) {
  char text[4096];
  caller c = start_on_terminal("echo ready; read line; echo got $line", &size);
  CHECK(await(&c, "ready"), "it starts");
  CHECK(write(c.in, "hello\r", 6) == 6, "write");
  CHECK(end(&c, text, sizeof text) == 0 && strstr(text, "got hello"), "%s", text);
}

TEST(ctrl_c_interrupts_the_program) {
  char text[4096];
  caller c =
      start_on_terminal("trap 'echo caught; exit 6' INT; echo ready; while :; do sleep 0.01; "
                        "done",
                        &size);
  CHECK(await(&c, "ready"), "it starts");
  CHECK(write(c.in, "\003", 1) == 1, "write");
  CHECK(end(&c, text, sizeof text) == 6 && strstr(text, "caught"), "%s", text);
}

TEST(ctrl_z_stops_the_caller_and_fg_continues_it) {
  char text[4096];
  int status = 0;
  caller c = start_on_terminal("echo ready; read line; echo got $line", &size);
  CHECK(await(&c, "ready"), "it starts");
  struct termios raw, cooked;
  tcgetattr(c.in, &raw);
  CHECK(!(raw.c_lflag & ICANON), "the user's terminal is in raw mode");
  CHECK(write(c.in, "\032", 1) == 1, "write");
  CHECK(waitpid(c.pid, &status, WUNTRACED) == c.pid && WIFSTOPPED(status), "status %x", status);
  tcgetattr(c.in, &cooked);
  CHECK(cooked.c_lflag & ICANON, "a stopped caller has given the terminal back");
  kill(c.pid, SIGCONT);
  CHECK(write(c.in, "again\r", 6) == 6, "write");
  CHECK(end(&c, text, sizeof text) == 0 && strstr(text, "got again"), "%s", text);
}

TEST(the_terminal_is_restored_when_the_caller_is_killed) {
  caller c = start_on_terminal("echo ready; read line", &size);
  CHECK(await(&c, "ready"), "it starts");
  int status;
  kill(c.pid, SIGKILL);
  CHECK(waitpid(c.pid, &status, 0) == c.pid, "killed");
  CHECK(exists(after_path), "the keeper cleans up");
  struct termios mode;
  CHECK(tcgetattr(c.in, &mode) == 0 && mode.c_lflag & ICANON, "the mode is as before");
  close(c.in);
}

// The keeper waits for the program, but not before it has restored the terminal: the shell has it again.
TEST(the_terminal_is_restored_before_the_program_ends) {
  struct termios mode;
  char text[64];
  int status, program;
  caller c =
      start_on_terminal("trap '' TERM HUP; echo $$ ready; while :; do sleep 0.1; done", &size);
  ssize_t got = read(c.out, text, sizeof text - 1);
  text[got > 0 ? got : 0] = 0;
  program = atoi(text);
  CHECK(program > 0, "%s", text);
  kill(c.pid, SIGKILL);
  CHECK(waitpid(c.pid, &status, 0) == c.pid, "killed");
  bool is_restored = false;
  for (double until = seconds() + MOST_SECONDS; seconds() < until && !is_restored; nap())
    is_restored = tcgetattr(c.in, &mode) == 0 && mode.c_lflag & ICANON;
  CHECK(is_restored && kill(program, 0) == 0, "the mode is as before, and the program there");
  CHECK(exists(after_path) && is_gone(program), "the keeper cleans up");
  close(c.in);
}

TEST(output_goes_on_while_nobody_reads_what_is_typed) {
  char text[4096], typed[1024];
  memset(typed, 'x', sizeof typed);
  caller c = start_on_terminal("stty raw -echo; echo ready; while [ ! -e \"$GO\" ]; do sleep 0.01; "
                               "done; echo done; exit 4",
                               &size);
  CHECK(await(&c, "ready"), "it starts");
  fcntl(c.in, F_SETFL, fcntl(c.in, F_GETFL) | O_NONBLOCK);
  for (int full = 0; full < 50; nap()) // nothing was taken for half a second
    full = write(c.in, typed, sizeof typed) > 0 ? 0 : full + 1;
  fcntl(c.in, F_SETFL, fcntl(c.in, F_GETFL) & ~O_NONBLOCK);
  close(open(go_path, O_WRONLY | O_CREAT, 0600));
  CHECK(end(&c, text, sizeof text) == 4 && strstr(text, "done"), "%s", text);
  unlink(go_path);
}

int main(int argc, char **argv) {
  folder_make();
  snprintf(log_path, sizeof log_path, "%s", folder_path("log"));
  snprintf(before_path, sizeof before_path, "%s", folder_path("before"));
  snprintf(after_path, sizeof after_path, "%s", folder_path("after"));
  snprintf(go_path, sizeof go_path, "%s", folder_path("go"));
  setenv("GO", go_path, 1);
  int result = test_main(argc, argv);
  folder_remove();
  return result;
}
