// The caller's side: starts the watcher, listens to what the sandbox reports.
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox_impl.h"

_Static_assert(sizeof(plim_sandbox_report) <= 4096,
               "a report larger than PIPE_BUF may arrive in parts");

static bool next_report(int fd, plim_sandbox_report *out) {
  ssize_t size;
  do size = read(fd, out, sizeof *out);
  while (size < 0 && errno == EINTR);
  return size == (ssize_t)sizeof *out;
}

static plim_err start_failed(const plim_sandbox_report *report, plim_error *error) {
  if (error) *error = report->error;
  return report->error.code;
}

plim_err plim_sandbox_start(const plim_sandbox *box, plim_sandbox_run *run, plim_error *error) {
  *run = (plim_sandbox_run){.watcher = -1, .life = -1, .report = -1};
  int life[2], report[2] = {-1, -1};
  if (pipe2(life, O_CLOEXEC) != 0)
    return plim_fail(error, PLIM_ERR_IO, "cannot make a pipe: %s", strerror(errno));
  pid_t watcher = pipe2(report, O_CLOEXEC) == 0 ? fork() : -1;
  if (watcher == 0) plim_sandbox_watch(box, life[0], report[1]);
  int why = errno;
  close(life[0]);
  if (report[1] >= 0) close(report[1]);
  *run = (plim_sandbox_run){.watcher = watcher, .life = life[1], .report = report[0]};
  plim_sandbox_report first;
  if (watcher < 0)
    plim_fail(&first.error, PLIM_ERR_IO, "cannot start a process: %s", strerror(why));
  else if (!next_report(run->report, &first))
    plim_fail(&first.error, PLIM_ERR_IO, "the sandbox was killed before the program started");
  else if (first.news == PLIM_SANDBOX_STARTED) {
    memcpy(run->read_only, first.read_only, sizeof run->read_only);
    return PLIM_OK;
  }
  plim_sandbox_end(run);
  return start_failed(&first, error);
}

bool plim_sandbox_wait(plim_sandbox_run *run, int milliseconds, int *status) {
  struct pollfd reported = {.fd = run->report, .events = POLLIN};
  if (!run->has_ended && poll(&reported, 1, milliseconds) > 0) {
    plim_sandbox_report last;
    run->has_ended = true;
    run->status = next_report(run->report, &last) ? last.status : SIGKILL;
  }
  if (run->has_ended) *status = run->status;
  return run->has_ended;
}

void plim_sandbox_end(plim_sandbox_run *run) {
  if (run->life >= 0) close(run->life);
  while (run->watcher > 0 && waitpid(run->watcher, NULL, 0) < 0 && errno == EINTR) continue;
  if (run->report >= 0) close(run->report);
  *run = (plim_sandbox_run){.watcher = -1, .life = -1, .report = -1};
}

bool plim_sandbox_is_possible(plim_error *why) {
  const char *parent = getenv("TMPDIR");
  char *scratch = NULL;
  if (asprintf(&scratch, "%s/plimsoll-XXXXXX", parent && *parent ? parent : "/tmp") < 0)
    return plim_fail(why, PLIM_ERR_NOMEM, "out of memory"), false;
  plim_err err = PLIM_OK;
  if (!mkdtemp(scratch))
    err = plim_fail(why, PLIM_ERR_IO, "cannot make %s: %s", scratch, strerror(errno));
  else {
    plim_sandbox_run run;
    const plim_sandbox box = {.folder = "/", .scratch = scratch, .output = STDERR_FILENO};
    err = plim_sandbox_start(&box, &run, why);
    if (!err) plim_sandbox_end(&run);
    rmdir(scratch);
  }
  free(scratch);
  return !err;
}
