// The first process of a sandbox: enters the file tree, gives up its rights, starts the program and reaps what the program
// leaves behind. When it ends, the kernel ends everything in its PID namespace.
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox_impl.h"

noreturn static void fail(plim_sandbox_report *report) {
  report->news = PLIM_SANDBOX_FAILED;
  plim_sandbox_tell(report);
  _exit(1);
}

// Several processes meet over the loopback device, and data loaders use it, too. A new one is down.
static plim_err raise_loopback(plim_error *error) {
  struct ifreq device = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  bool ok = fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &device) == 0;
  int why = errno;
  if (fd >= 0) close(fd);
  if (ok) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_IO, "cannot start the sandbox's loopback device: %s",
                   strerror(why));
}

// The capabilities that root keeps: file permissions do not limit it, as outside. All mounts are behind overlays.
#define ROOTS_FILES                                                                                \
  (1u << CAP_CHOWN | 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_FOWNER |       \
   1u << CAP_FSETID)

static plim_err drop_rights(bool has_files, plim_error *error) {
  unsigned kept = has_files ? ROOTS_FILES : 0;
  bool ok = true;
  for (int i = 0; prctl(PR_CAPBSET_READ, i, 0, 0, 0) >= 0; i++)
    if (i >= 32 || !(kept >> i & 1)) ok = ok && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) == 0;
  ok = ok && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0;
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct rights[2] = {{.effective = kept, .permitted = kept}, {0}};
  ok = ok && syscall(SYS_capset, &header, rights) == 0;
  ok = ok && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  if (ok) return PLIM_OK;
  return plim_fail(error, PLIM_ERR_IO, "cannot give up the sandbox's rights: %s", strerror(errno));
}

// ---- the program ----------------------------------------------------------------------------------

static void reset_signals(void) {
  for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
}

// A crash must not leave a core file with the system's crash reporter. The kernel takes a limit of 1 as the wish to have
// none, while 0 does not stop a reporter that reads from a pipe (fs/coredump.c).
static void forbid_core(void) {
  const struct rlimit one = {1, 1};
  setrlimit(RLIMIT_CORE, &one);
}

// Addresses decide which block PyTorch's allocator reuses. Without random ones a program takes the same memory in every
// run. Where a container forbids it they stay random.
static void fix_addresses(void) {
  int now = personality(0xffffffff); // asks
  if (now >= 0) personality((unsigned long)now | ADDR_NO_RANDOMIZE);
}

noreturn static void become_program(const plim_sandbox *box, int failed) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  fix_addresses();
  setsid();
  reset_signals();
  if (!box->is_open) forbid_core();
  environ = (char **)box->environment; // execvp searches its PATH
  execvp(box->arguments[0], (char *const *)box->arguments);
  int why = errno;
  while (write(failed, &why, sizeof why) < 0 && errno == EINTR) continue;
  _exit(127);
}

plim_err plim_sandbox_not_started(const char *name, int why, plim_error *error) {
  size_t size = strlen(name);
  bool is_python = size > 3 && strcmp(name + size - 3, ".py") == 0 && access(name, F_OK) == 0;
  // EACCES can come from any folder of PATH.
  bool is_of_path = (why == ENOENT || why == EACCES) && !strchr(name, '/');
  plim_err err =
      is_of_path ? plim_fail(error, PLIM_ERR_IO, "PATH has no program %.200s that can be run", name)
                 : plim_fail(error, PLIM_ERR_IO, "cannot run %.200s: %s", name, strerror(why));
  if (is_python) plim_error_hint(error, "python %.200s", name);
  else if (is_of_path && access(name, X_OK) == 0)
    plim_error_hint(error, "for the file in this folder: ./%.200s", name);
  else if (is_of_path)
    plim_error_hint(error, "if it is part of a Python environment, activate that first");
  return err;
}

static int why_not(const char *path) {
  struct stat file;
  if (stat(path, &file)) return errno;
  return S_ISREG(file.st_mode) && access(path, X_OK) == 0 ? 0 : EACCES;
}

plim_err plim_sandbox_find_program(const char *name, plim_error *error) {
  const char *path = getenv("PATH");
  int why = ENOENT;
  if (strchr(name, '/')) why = why_not(name);
  else if (!path) return PLIM_OK; // execvp has a path of its own
  else
    for (size_t size; why && path; path = path[size] ? path + size + 1 : NULL) {
      char *file = NULL;
      size = strcspn(path, ":");
      if (asprintf(&file, "%.*s%s%s", (int)size, path, size ? "/" : "", name) < 0)
        return plim_fail(error, PLIM_ERR_NOMEM, "out of memory");
      why = why_not(file);
      free(file);
    }
  if (!why) return PLIM_OK;
  plim_err err = plim_sandbox_not_started(name, why, error);
  if (strchr(name, ' '))
    plim_error_hint(error, "without the quotes around the command: %.200s", name);
  errno = why;
  return err;
}

static plim_err start_program(const plim_sandbox *box, pid_t *program, plim_error *error) {
  int failed[2], why = 0;
  if (pipe2(failed, O_CLOEXEC) != 0)
    return plim_fail(error, PLIM_ERR_IO, "cannot make a pipe: %s", strerror(errno));
  *program = fork();
  if (*program == 0) become_program(box, failed[1]);
  if (*program < 0) why = errno;
  close(failed[1]);
  while (*program > 0 && read(failed[0], &why, sizeof why) < 0 && errno == EINTR) continue;
  close(failed[0]);
  return why ? plim_sandbox_not_started(box->arguments[0], why, error) : PLIM_OK;
}

// ---- its end --------------------------------------------------------------------------------------

// Without a sandbox: ends all processes that descend from the program. This process is a subreaper: it becomes the parent of
// processes whose own parent ends, so after some rounds none remains. A process that may not be killed (sudo) stays.
static void end_descendants(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
  for (bool is_any = true; is_any;) {
    int child;
    is_any = false;
    FILE *children = fopen(path, "re");
    while (children && fscanf(children, "%d", &child) == 1)
      if (kill(child, SIGKILL) == 0) is_any = true;
    if (children) fclose(children);
    if (is_any) waitpid(-1, NULL, 0);
  }
}

// Reaps until the program has ended. False: the caller is gone.
static bool reap_until(pid_t program, int *status) {
  struct pollfd events[] = {{.fd = PLIM_SANDBOX_LIFE, .events = POLLIN},
                            {.fd = plim_sandbox_child_signal(), .events = POLLIN}};
  for (;;) {
    int state;
    pid_t ended;
    while ((ended = waitpid(-1, &state, WNOHANG)) > 0)
      if (ended == program) return *status = state, true;
    if (poll(events, 2, -1) < 0 && errno != EINTR) return false;
    if (events[0].revents) return false;
    struct signalfd_siginfo signal_info;
    if (events[1].revents) (void)!read(events[1].fd, &signal_info, sizeof signal_info);
  }
}

noreturn void plim_sandbox_first(const plim_sandbox *box, const plim_sandbox_places *places) {
  plim_sandbox_report report = {.news = PLIM_SANDBOX_STARTED};
  plim_err err = PLIM_OK;
  if (box->is_open) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  else err = plim_sandbox_enter(box, places, &report);
  if (!err && !box->is_open && !box->has_network) err = raise_loopback(&report.error);
  if (!err && chdir(places->start) != 0)
    err = plim_fail(&report.error, PLIM_ERR_IO, "the sandbox does not have the folder %s: %s",
                    places->start, strerror(errno));
  if (!err && !box->is_open) {
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); // the program must not trace this process
    err = drop_rights(places->has_files, &report.error);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // with the watcher
  }
  pid_t program = -1;
  if (!err && box->arguments) err = start_program(box, &program, &report.error);
  if (err) fail(&report);
  plim_sandbox_leave_output();
  plim_sandbox_tell(&report);
  if (program > 0 && reap_until(program, &report.status)) {
    report.news = PLIM_SANDBOX_ENDED;
    plim_sandbox_tell(&report);
  }
  if (box->is_open) end_descendants();
  _exit(0);
}
