#include "apart.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIPE_BYTES 65536 // what Linux keeps in a pipe, so that writing the answer waits for nobody

// ---- in the other process ---------------------------------------------------------------------------

// Leaves open only this file, under number 3, and /dev/null under the numbers that a library may print to.
static bool keep_only(int file) {
  int nothing = open("/dev/null", O_RDWR);
  if (nothing < 0) return false;
  for (int i = 0; i < 3; i++)
    if (dup2(nothing, i) < 0) return false;
  if (dup2(file, 3) != 3) return false;
  // Linux has this since 5.9, and glibc since 2.34.
  if (syscall(SYS_close_range, 4u, ~0u, 0u) == 0) return true;
  for (long i = 4, most = sysconf(_SC_OPEN_MAX); i < most; i++) close((int)i);
  return true;
}

// The handlers of the process before are not for this one, and it ends with that process.
static void be_apart(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
}

// ---- in this one ------------------------------------------------------------------------------------

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static plim_apart_end read_answer(int file, char *answer, size_t size, double end) {
  size_t used = 0;
  while (used < size) {
    struct pollfd ready = {.fd = file, .events = POLLIN};
    double left = end - now();
    if (left <= 0) return PLIM_APART_SILENT;
    if (poll(&ready, 1, (int)(left * 1000) + 1) <= 0) continue;
    ssize_t got = read(file, answer + used, size - used);
    if (got == 0 || (got < 0 && errno != EINTR)) return PLIM_APART_FAILED;
    if (got > 0) used += (size_t)got;
  }
  return PLIM_APART_ANSWERED;
}

// A process that is stuck in the kernel ends when the driver lets it go. It is waited for only as long as others need.
static void dismiss(pid_t pid) {
  kill(pid, SIGKILL);
  for (int i = 0; i < 100 && waitpid(pid, NULL, WNOHANG) == 0; i++)
    nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
}

// In the other process, this does not return.
static pid_t start(void (*question)(void *context, void *answer), void *context, char *answer,
                   size_t size, int file) {
  pid_t parent = getpid(), pid = fork();
  if (pid != 0) return pid;
  be_apart(parent);
  if (!keep_only(file)) _exit(1);
  question(context, answer);
  _exit(write(3, answer, size) != (ssize_t)size);
}

plim_apart_end plim_apart(void (*question)(void *context, void *answer), void *context,
                          void *answer, size_t size, double seconds) {
  int ends[2];
  plim_apart_end end = PLIM_APART_FAILED;
  char *given = size <= PIPE_BYTES ? malloc(size) : NULL;
  if (!given || pipe2(ends, O_CLOEXEC) != 0) return free(given), end;
  memcpy(given, answer, size);
  pid_t pid = start(question, context, given, size, ends[1]);
  close(ends[1]);
  if (pid > 0) {
    end = read_answer(ends[0], given, size, now() + seconds);
    dismiss(pid);
  }
  close(ends[0]);
  if (end == PLIM_APART_ANSWERED) memcpy(answer, given, size);
  free(given);
  return end;
}
