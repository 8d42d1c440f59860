// The watcher: stays outside the sandbox in a session of its own, starts the first process, and cleans up when that has
// ended, when the caller asks for it and when the caller is killed.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox_impl.h"

void plim_sandbox_tell(const plim_sandbox_report *report) {
  while (write(PLIM_SANDBOX_REPORT, report, sizeof *report) < 0 && errno == EINTR) continue;
}

static bool reads_one(const char *path) {
  char byte = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool is_one = read(fd, &byte, 1) == 1 && byte == '1';
  close(fd);
  return is_one;
}

void plim_sandbox_advise(plim_error *error) {
  bool is_apparmor = reads_one("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
  plim_error_hint(error,
                  "%srun it in a throw-away container and add --unsandboxed, which lets the "
                  "program change files",
                  is_apparmor ? "AppArmor forbids it; to allow it: sudo sysctl "
                                "kernel.apparmor_restrict_unprivileged_userns=0; or "
                              : "");
}

void plim_sandbox_leave_output(void) {
  dup2(STDIN_FILENO, STDOUT_FILENO);
  dup2(STDIN_FILENO, STDERR_FILENO);
}

int plim_sandbox_child_signal(void) {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  return signalfd(-1, &child, SFD_CLOEXEC);
}

// Leaves standard input and output, LIFE and REPORT open and nothing else: a folder that stays open would be a way out of
// the sandbox, and the other end of a pipe would keep another sandbox alive.
static void keep_files(int output, int life, int report) {
  int from[] = {open("/dev/null", O_RDWR), output, output, life, report};
  for (int i = 0; i < 5; i++) from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 5);
  for (int i = 0; i < 5; i++) dup2(from[i], i);
  // glibc has closefrom since 2.34, and Linux this since 5.9; the overlays below need 5.11.
  syscall(SYS_close_range, 5u, ~0u, 0u);
  fcntl(PLIM_SANDBOX_LIFE, F_SETFD, FD_CLOEXEC);
  fcntl(PLIM_SANDBOX_REPORT, F_SETFD, FD_CLOEXEC);
}

// ---- where things are ---------------------------------------------------------------------------

static plim_err find(const char *what, const char *path, char **out, plim_error *error) {
  *out = realpath(path, NULL);
  if (*out) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_IO, "cannot use the %s %s: %s", what, path, strerror(errno));
}

static plim_err find_folder(const char *path, char **out, plim_error *error) {
  return find("folder", path, out, error);
}

// Likewise for a path of which only the first folders exist; the rest is kept as it is.
static plim_err find_new(const char *path, char **out, plim_error *error) {
  char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
  if (!folder) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  const char *name = slash ? path + (slash - folder) + 1 : path;
  if (slash) *slash = '\0';
  char *above = realpath(!slash ? "." : slash == folder ? "/" : folder, NULL);
  bool is_missing = !above && errno == ENOENT && slash && slash != folder;
  plim_err err = PLIM_OK;
  if (is_missing) err = find_new(folder, &above, error);
  else if (!above)
    err = plim_fail(error, PLIM_ERR_IO, "cannot use the file %s: %s", path, strerror(errno));
  free(folder);
  if (!err && asprintf(out, "%s/%s", strcmp(above, "/") == 0 ? "" : above, name) < 0)
    *out = NULL, err = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  free(above);
  return err;
}

static plim_err find_shown(const char *path, char **out, plim_error *error) {
  bool is_there = access(path, F_OK) == 0 || errno != ENOENT;
  return is_there ? find("file", path, out, error) : find_new(path, out, error);
}

static plim_err find_replaced(const plim_sandbox *box, char ***out, plim_error *error) {
  plim_err err = PLIM_OK;
  if (!box->replaced_count) return PLIM_OK;
  if (box->is_open)
    return plim_fail(error, PLIM_ERR_UNSUPPORTED,
                     "without a sandbox, no file can be replaced or added for the program alone");
  char **paths = *out = calloc(2 * box->replaced_count, sizeof *paths);
  if (!paths) return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  for (size_t i = 0; i < box->replaced_count && !err; i++) {
    err = find_shown(box->replaced[i].path, &paths[2 * i], error);
    if (!err) err = find("file", box->replaced[i].with, &paths[2 * i + 1], error);
  }
  return err;
}

static plim_err find_places(const plim_sandbox *box, plim_sandbox_places *out, plim_error *error) {
  plim_err err = find_folder(box->folder ? box->folder : ".", &out->start, error);
  if (!err) err = find_folder(box->scratch, &out->scratch, error);
  out->writable = calloc(box->writable_count + 1, sizeof *out->writable);
  if (!err && !out->writable) err = plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  for (size_t i = 0; i < box->writable_count && !err; i++)
    err = find_folder(box->writable[i], &out->writable[i], error);
  if (!err) err = find_replaced(box, &out->replaced, error);
  if (err) return err;
  if (asprintf(&out->run, "%s/run-XXXXXX", out->scratch) < 0)
    return out->run = NULL, plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
  if (mkdtemp(out->run)) return PLIM_OK;
  return free(out->run), out->run = NULL,
                         plim_fail(error, PLIM_ERR_IO, "cannot write to the folder %s: %s",
                                   out->scratch, strerror(errno));
}

// ---- the first process --------------------------------------------------------------------------

static bool write_file(pid_t process, const char *name, const char *text) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", process, name);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  int why = errno;
  close(fd);
  errno = why;
  return ok;
}

// Gives the process all ids that this one has, each mapped to itself. Root alone may do this.
static bool map_all(pid_t process, const char *name) {
  char path[64], text[4096];
  size_t size = 0;
  unsigned long id, outside, count;
  snprintf(path, sizeof path, "/proc/self/%s", name);
  FILE *own = fopen(path, "re");
  if (!own) return false;
  while (fscanf(own, "%lu %lu %lu", &id, &outside, &count) == 3 && size + 64 < sizeof text)
    size += (size_t)snprintf(text + size, sizeof text - size, "%lu %lu %lu\n", id, id, count);
  fclose(own);
  return size && write_file(process, name, text);
}

static bool map_own(pid_t process, const char *name, unsigned id) {
  char text[64];
  snprintf(text, sizeof text, "%u %u 1\n", id, id);
  return write_file(process, name, text);
}

static plim_err map_ids(pid_t process, bool is_all, plim_error *error) {
  bool ok = is_all ? map_all(process, "uid_map") && map_all(process, "gid_map")
                   : write_file(process, "setgroups", "deny") &&
                         map_own(process, "uid_map", geteuid()) &&
                         map_own(process, "gid_map", getegid());
  if (ok) return PLIM_OK;
  plim_err err =
      plim_fail(error, PLIM_ERR_UNSUPPORTED,
                "this kernel does not allow user namespaces (uid_map: %s)", strerror(errno));
  return plim_sandbox_advise(error), err;
}

// Root may give away all ids unless it lacks the capability, as in some containers.
static bool may_map_all(void) {
  char line[256];
  unsigned long long capabilities = 0;
  FILE *own = geteuid() == 0 ? fopen("/proc/self/status", "re") : NULL;
  if (!own) return false;
  while (fgets(line, sizeof line, own))
    if (sscanf(line, "CapEff: %llx", &capabilities) == 1) break;
  fclose(own);
  const unsigned long long set_ids = 1ull << CAP_SETGID | 1ull << CAP_SETUID;
  return (capabilities & set_ids) == set_ids;
}

static void first_process(const plim_sandbox *box, const plim_sandbox_places *places, int ready) {
  char byte;
  if (box->is_open || read(ready, &byte, 1) == 1) {
    close(ready);
    plim_sandbox_first(box, places);
  }
  _exit(1); // the watcher has failed, or has ended
}

// As fork, into new namespaces.
static pid_t fork_apart(const plim_sandbox *box) {
  if (box->is_open) return fork();
  unsigned long spaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC;
  if (!box->has_network) spaces |= CLONE_NEWNET;
  return (pid_t)syscall(SYS_clone, spaces | SIGCHLD, 0, 0, 0, 0);
}

static plim_err start_first(const plim_sandbox *box, plim_sandbox_places *places, pid_t *first,
                            plim_error *error) {
  int ready[2];
  if (pipe2(ready, O_CLOEXEC) != 0)
    return plim_fail(error, PLIM_ERR_IO, "cannot make a pipe: %s", strerror(errno));
  places->has_files = may_map_all();
  *first = fork_apart(box);
  if (*first == 0) {
    close(ready[1]);
    first_process(box, places, ready[0]);
  }
  plim_err err = PLIM_OK;
  if (*first < 0 && box->is_open)
    err = plim_fail(error, PLIM_ERR_IO, "cannot start a process: %s", strerror(errno));
  else if (*first < 0) {
    err = plim_fail(error, PLIM_ERR_UNSUPPORTED,
                    "this kernel does not allow user namespaces (clone: %s)", strerror(errno));
    plim_sandbox_advise(error);
  } else if (!box->is_open) err = map_ids(*first, places->has_files, error);
  if (!err && !box->is_open && write(ready[1], "", 1) != 1)
    err = plim_fail(error, PLIM_ERR_IO, "the sandbox was killed before the program started");
  close(ready[0]), close(ready[1]);
  return err;
}

// ---- the end --------------------------------------------------------------------------------------

// Waits until the first process has ended or the caller is gone, whatever comes first.
static void wait_for_either(void) {
  struct pollfd events[] = {{.fd = PLIM_SANDBOX_LIFE, .events = POLLIN},
                            {.fd = plim_sandbox_child_signal(), .events = POLLIN}};
  while (poll(events, 2, -1) < 0 && errno == EINTR) continue;
}

static void remove_run(const char *run) {
  plim_sandbox_empty(run);
  rmdir(run);
}

noreturn void plim_sandbox_watch(const plim_sandbox *box, int life, int report) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL); // what ends the caller must not end the one that cleans up
  sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDSTOP}, NULL);
  setsid();
  keep_files(box->output, life, report);
  plim_sandbox_report failure = {.news = PLIM_SANDBOX_FAILED};
  plim_sandbox_places places = {0};
  pid_t first = -1;
  plim_err err = find_places(box, &places, &failure.error);
  if (!err) err = start_first(box, &places, &first, &failure.error);
  if (err) plim_sandbox_tell(&failure);
  close(PLIM_SANDBOX_REPORT); // the caller is to see when the first process has closed it
  plim_sandbox_leave_output();
  if (!err) wait_for_either();
  // The first process of a PID namespace takes all others with it, and has ended only when they have. Without a sandbox
  // it must end them itself, which it does when the caller is gone.
  if (first > 0 && !box->is_open) kill(first, SIGKILL);
  if (first > 0) waitpid(first, NULL, 0);
  if (places.run) remove_run(places.run);
  _exit(0);
}
