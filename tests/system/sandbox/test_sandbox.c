// A sandboxed program changes nothing, reaches nobody and leaves nothing behind. The programs that try are in this file too:
// the test starts itself with --act NAME.
#include "sandbox.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "mount_points.h"
#include "sandbox_impl.h"
#include "test.h"

// ---- the state of a folder --------------------------------------------------------------------------

static FILE *state_out;

static uint64_t content_of(const char *path) {
  uint64_t hash = 0;
  FILE *in = fopen(path, "rb");
  if (!in) return 0;
  for (int byte; (byte = getc(in)) != EOF;) hash = hash * 31 + (uint64_t)byte + 1;
  fclose(in);
  return hash;
}

static int add_state(const char *path, const struct stat *found, int kind, struct FTW *walk) {
  (void)walk;
  fprintf(state_out, "%s %o %ld %ld.%09ld %ld.%09ld %" PRIx64 "\n", path, found->st_mode,
          (long)found->st_size, (long)found->st_mtim.tv_sec, found->st_mtim.tv_nsec,
          (long)found->st_ctim.tv_sec, found->st_ctim.tv_nsec,
          kind == FTW_F && S_ISREG(found->st_mode) ? content_of(path) : 0);
  return 0;
}

// Every name, mode, size, time and content in a folder, as text to be freed.
static char *state_of(const char *path) {
  char *text = NULL;
  size_t size;
  state_out = open_memstream(&text, &size);
  nftw(path, add_state, 16, FTW_PHYS);
  fclose(state_out);
  return text;
}

static bool is_same(const char *path, char *before) {
  char *after = state_of(path);
  bool same = strcmp(before, after) == 0;
  if (!same) printf("before:\n%safter:\n%s", before, after);
  free(after);
  return same;
}

static bool is_empty(const char *path) {
  char *state = state_of(path);
  bool empty = strchr(state, '\n') == strrchr(state, '\n');
  if (!empty) printf("left in scratch:\n%s", state);
  free(state);
  return empty;
}

// ---- running one --------------------------------------------------------------------------------------

static char me[512]; // this program

// A home with files to lose, a scratch folder, and one that may be written to.
static void make_scene(void) {
  folder_make();
  folder_write_text("home/overwritten", "a checkpoint\n");
  folder_write_text("home/deleted", "an older checkpoint\n");
  folder_write_text("home/renamed", "a log\n");
  folder_write_text("home/locked", "a script\n");
  folder_write_text("home/train.py", "pass\n");
  folder_write_text("home/sub/old", "old\n");
  mkdir(folder_path("scratch"), 0700);
  mkdir(folder_path("kept"), 0700);
}

typedef struct {
  plim_sandbox box;
  plim_sandbox_run run;
  int output[2];
  int status;
  char said[8192]; // standard output and standard error
  plim_error error;
} trial;

static const char *const *arguments_of(const char *const *words) { return words; }
#define ARGS(...) arguments_of((const char *const[]){__VA_ARGS__, NULL})
#define ACT(...) ARGS(me, "--act", __VA_ARGS__)
#define SHELL(script) ARGS("sh", "-c", script)

static plim_err begin(trial *t, const char *const *arguments) {
  if (pipe2(t->output, O_CLOEXEC) != 0) abort();
  t->box.arguments = arguments;
  if (!t->box.environment) t->box.environment = (const char *const *)environ;
  if (!t->box.folder) t->box.folder = folder_path("home");
  if (!t->box.scratch) t->box.scratch = folder_path("scratch");
  t->box.output = t->output[1];
  plim_err err = plim_sandbox_start(&t->box, &t->run, &t->error);
  close(t->output[1]);
  return err;
}

// Reads all output. That ends when no process has it open any more.
static bool hear(trial *t) {
  size_t size = 0;
  ssize_t more = 1;
  while (more > 0) {
    struct pollfd input = {.fd = t->output[0], .events = POLLIN};
    if (poll(&input, 1, 20000) <= 0) break;
    more = read(t->output[0], t->said + size, sizeof t->said - 1 - size);
    if (more > 0) size += (size_t)more;
  }
  t->said[size] = '\0';
  close(t->output[0]);
  return more == 0;
}

// Runs it to the end.
static bool finish(trial *t) {
  bool ended = plim_sandbox_wait(&t->run, 20000, &t->status);
  plim_sandbox_end(&t->run);
  return hear(t) && ended;
}

static bool is_possible(plim_error *why) {
  static int known = -1;
  static plim_error reason;
  if (known < 0) known = plim_sandbox_is_possible(&reason);
  *why = reason;
  return known;
}
#define NEED_SANDBOX                                                                               \
  do {                                                                                             \
    plim_error why;                                                                                \
    if (!is_possible(&why)) SKIP("no sandbox here: %s", why.message);                              \
  } while (0)

#define CHECK_STARTS(t, arguments)                                                                 \
  CHECK(begin(t, arguments) == PLIM_OK, "%s (%s)", (t)->error.message, (t)->error.hint)
#define CHECK_STATUS(t, wanted)                                                                    \
  do {                                                                                             \
    bool finished = finish(t);                                                                     \
    CHECK(finished, "it does not end, or something is left that has its output: %s", (t)->said);   \
    CHECK((t)->status == (wanted), "status %x, said: %s", (t)->status, (t)->said);                 \
  } while (0)
#define CHECK_EXITS(t, code) CHECK_STATUS(t, (code) << 8)
#define CHECK_EXITS_BY(t, signal) CHECK_STATUS(t, signal)

// Runs a test that changes its process. It returns what is wrong, or NULL.
static bool in_child(const char *(*run)(void)) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    const char *problem = run();
    if (problem) printf("%s\n", problem), fflush(stdout);
    _exit(problem ? 1 : 0);
  }
  int status;
  return waitpid(child, &status, 0) == child && status == 0;
}

// ---- files ----------------------------------------------------------------------------------------

// What the program must see of its own changes, too: exit 0 only if all of them worked.
static const char vandal[] = "set -e\n"
                             "echo zeros > overwritten; rm deleted; mv renamed new-name\n"
                             "chmod 000 locked; touch -d 2001-01-01 sub/old; rm -r sub\n"
                             "mkdir sub; echo other > sub/other\n"
                             "dd if=/dev/zero of=large bs=1M count=50 2>/dev/null\n"
                             "ln -s /etc link; mkfifo pipe; chmod 500 .\n"
                             "[ \"$(cat overwritten sub/other)\" = 'zeros\nother' ]\n"
                             "[ ! -e deleted ] && [ -e new-name ] && [ ! -e sub/old ]\n"
                             "mkdir -p /tmp/plimsoll-made /var/tmp/plimsoll-made\n";

TEST(changes_are_not_kept) {
  NEED_SANDBOX;
  make_scene();
  char *before = state_of(folder_path("home"));
  trial t = {0};
  CHECK_STARTS(&t, SHELL(vandal));
  CHECK_EXITS(&t, 0);
  CHECK(is_same(folder_path("home"), before), "the home was changed");
  CHECK(access("/tmp/plimsoll-made", F_OK) != 0 && access("/var/tmp/plimsoll-made", F_OK) != 0,
        "a folder was made elsewhere");
  CHECK(is_empty(folder_path("scratch")), "scratch");
  free(before);
  folder_remove();
}

TEST(writable_folders_keep_changes) {
  NEED_SANDBOX;
  make_scene();
  char *before = state_of(folder_path("home"));
  char kept[512];
  snprintf(kept, sizeof kept, "%s", folder_path("kept"));
  trial t = {.box = {.writable = (const char *const[]){kept}, .writable_count = 1}};
  CHECK_STARTS(&t, SHELL("echo result > ../kept/result; echo gone > overwritten; ls ../scratch/*"));
  CHECK_EXITS(&t, 0);
  CHECK_STR(t.said, ""); // the layers are hidden
  struct stat found;
  CHECK(stat(folder_path("kept/result"), &found) == 0 && found.st_size == 7, "not kept");
  CHECK(is_same(folder_path("home"), before), "the home was changed");
  free(before);
  folder_remove();
}

TEST(a_file_is_replaced_for_the_program_alone) {
  NEED_SANDBOX;
  make_scene();
  folder_write_text("other", "another script\n");
  char path[512], with[512], *before = state_of(folder_path("home"));
  snprintf(path, sizeof path, "%s", folder_path("home/locked"));
  snprintf(with, sizeof with, "%s", folder_path("other"));
  trial t = {
      .box = {.replaced = (const plim_sandbox_replaced[]){{path, with}}, .replaced_count = 1}};
  CHECK_STARTS(&t, SHELL("cat locked deleted; (echo x > locked) 2>&- || echo refused"));
  CHECK_EXITS(&t, 0);
  CHECK_STR(t.said, "another script\nan older checkpoint\nrefused\n");
  CHECK(is_same(folder_path("home"), before), "the home was changed");
  free(before);
  folder_remove();
}

// In a folder that exists, and in folders that do not; the program may change these files.
TEST(a_file_is_added_for_the_program_alone) {
  NEED_SANDBOX;
  make_scene();
  folder_write_text("other", "a new file\n");
  char with[512], deep[512], *before = state_of(folder_path("home"));
  snprintf(with, sizeof with, "%s", folder_path("other"));
  snprintf(deep, sizeof deep, "%s", folder_path("home/new/deeper/file"));
  const plim_sandbox_replaced added[] = {{"beside", with}, {deep, with}, {"/plimsoll-new", with}};
  char here[512];
  CHECK(getcwd(here, sizeof here) && chdir(folder_path("home")) == 0, "%s", strerror(errno));
  trial t = {.box = {.replaced = added, .replaced_count = 3}};
  CHECK_STARTS(&t, SHELL("cat beside new/deeper/file /plimsoll-new && echo x >> beside && "
                         "cat beside && rm new/deeper/file"));
  CHECK(chdir(here) == 0, "%s", strerror(errno));
  CHECK_EXITS(&t, 0);
  CHECK_STR(t.said, "a new file\na new file\na new file\na new file\nx\n");
  CHECK(is_same(folder_path("home"), before), "the home was changed");
  CHECK(access("/plimsoll-new", F_OK) != 0, "a file was made in /");
  struct stat found;
  CHECK(stat(with, &found) == 0 && found.st_size == 11, "the copied file was changed");
  free(before);
  folder_remove();
}

// There it would stay: the program must not start.
TEST(a_file_is_not_added_where_changes_are_kept) {
  NEED_SANDBOX;
  make_scene();
  char path[512], with[512], kept[512];
  snprintf(path, sizeof path, "%s", folder_path("kept/new"));
  snprintf(with, sizeof with, "%s", folder_path("home/locked"));
  snprintf(kept, sizeof kept, "%s", folder_path("kept"));
  const plim_sandbox_replaced added[] = {{path, with}};
  trial t = {.box = {.replaced = added,
                     .replaced_count = 1,
                     .writable = (const char *const[]){kept},
                     .writable_count = 1}};
  CHECK(begin(&t, SHELL("true")) == PLIM_ERR_UNSUPPORTED && strstr(t.error.message, path), "%s",
        t.error.message);
  CHECK(is_empty(kept), "a file was left");
  folder_remove();
}

TEST(a_file_that_cannot_be_replaced_is_an_error) {
  make_scene();
  char path[512];
  snprintf(path, sizeof path, "%s", folder_path("home/locked"));
  const plim_sandbox_replaced none[] = {{path, "/nowhere/at/all"}}, same[] = {{path, path}};
  trial t = {.box = {.replaced = none, .replaced_count = 1}};
  CHECK(begin(&t, SHELL("true")) == PLIM_ERR_IO && strstr(t.error.message, "/nowhere/at/all"), "%s",
        t.error.message);
  trial open = {.box = {.replaced = same, .replaced_count = 1, .is_open = true}};
  CHECK(begin(&open, SHELL("true")) == PLIM_ERR_UNSUPPORTED, "%s", open.error.message);
  folder_remove();
}

// File permissions do not bind root, in the sandbox as outside.
TEST(root_may_use_files_of_others) {
  NEED_SANDBOX;
  if (geteuid() != 0) SKIP("only for root");
  make_scene();
  CHECK(chmod(folder_path("home/locked"), 0600) == 0 &&
            chown(folder_path("home/locked"), 1234, 1234) == 0 &&
            chown(folder_path("home"), 1234, 1234) == 0,
        "%s", strerror(errno));
  char *before = state_of(folder_path("home"));
  trial t = {0};
  CHECK_STARTS(&t, SHELL("stat -c '%u %a' locked && echo x >> locked && cat locked && echo > new &&"
                         "chown 99 new && stat -c %u new"));
  CHECK_EXITS(&t, 0);
  CHECK_STR(t.said, "1234 600\na script\nx\n99\n");
  CHECK(is_same(folder_path("home"), before), "the home was changed");
  free(before);
  folder_remove();
}

// A project that is shared by a group: its folders belong to a group that a user namespace cannot have.
static const char *run_as_member(void) {
  const gid_t groups[] = {1234, 1235};
  if (setgroups(2, groups) != 0 || setgid(1000) != 0 || setuid(1000) != 0) return "no other user";
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); // as a program has that such a user starts
  char *before = state_of(folder_path("home"));
  trial t = {0};
  static const char script[] = "echo new > new && echo new > sub/new && rm sub/old && rm deleted &&"
                               "mkdir sub/deeper && echo new > sub/deeper/new && cat locked";
  if (begin(&t, SHELL(script)) != PLIM_OK) return strdup(t.error.message);
  if (!finish(&t) || t.status != 0) return strdup(t.said);
  if (!is_same(folder_path("home"), before)) return "the home was changed";
  free(before);
  return NULL;
}

TEST(folders_of_a_group) {
  NEED_SANDBOX;
  if (geteuid() != 0) SKIP("only root can be another user");
  make_scene();
  const char *const shared[] = {"home", "home/sub", "home/sub/old", "home/deleted", "home/locked"};
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++)
    CHECK(chown(folder_path(shared[i]), i % 2 ? 1000 : 1001, 1234) == 0 &&
              chmod(folder_path(shared[i]), 02775) == 0,
          "%s: %s", shared[i], strerror(errno));
  CHECK(chown(folder_path("scratch"), 1000, 1000) == 0 && chmod(folder_path("."), 0755) == 0, "%s",
        strerror(errno));
  CHECK(in_child(run_as_member), "see above");
  folder_remove();
}

// Folders below /run and /dev are hidden, but a program may start in one.
TEST(starting_in_a_folder_that_is_hidden) {
  NEED_SANDBOX;
  char start[] = "/dev/shm/plimsoll-test-XXXXXX", before[64];
  if (!mkdtemp(start)) SKIP("no /dev/shm");
  make_scene();
  snprintf(before, sizeof before, "%s/file", start);
  CHECK(close(open(before, O_WRONLY | O_CREAT, 0600)) == 0, "%s", strerror(errno));
  trial t = {.box.folder = start};
  CHECK_STARTS(&t, SHELL("rm file && echo new > new && ls && ls .. | wc -l"));
  CHECK_EXITS(&t, 0);
  CHECK_STR(t.said, "new\n1\n");
  CHECK(unlink(before) == 0 && rmdir(start) == 0, "changed: %s", strerror(errno));
  folder_remove();
}

// Removing what is left does not depend on depth or permissions, and does not follow links.
TEST(emptying_a_folder) {
  folder_make();
  folder_write_text("other/file", "stays");
  mkdir(folder_path("full"), 0700);
  int at = open(folder_path("full"), O_DIRECTORY | O_RDONLY);
  CHECK(symlinkat(folder_path("other"), at, "link") == 0, "%s", strerror(errno));
  for (int depth = 0; depth < 1100; depth++) {
    CHECK(mkdirat(at, "deep", 0700) == 0, "%s", strerror(errno));
    int next = openat(at, "deep", O_DIRECTORY | O_RDONLY);
    if (depth % 7 == 0) mkdirat(next, "shut", 0);
    fchmod(next, depth % 2 ? 0500 : 0700);
    if (depth % 2) fchmod(next, 0700);
    close(at);
    at = next;
  }
  fchmod(at, 0);
  close(at);
  CHECK(plim_sandbox_empty(folder_path("full")), "something is left");
  CHECK(is_empty(folder_path("full")), "full");
  CHECK(access(folder_path("other/file"), F_OK) == 0, "it went through a link");
  struct stat found;
  CHECK(stat(folder_path("other"), &found) == 0 && (found.st_mode & 0777) == 0700, "mode");
  folder_remove();
}

// ---- other processes ------------------------------------------------------------------------------

static int listen_tcp(uint16_t *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, 5) != 0) abort();
  getsockname(fd, (struct sockaddr *)&address, &size);
  *port = ntohs(address.sin_port);
  return fd;
}

static int connect_tcp(uint16_t port) {
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
}

// A path that starts with @ names an abstract socket.
static struct sockaddr_un unix_address(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
  if (*path == '@') address.sun_path[0] = '\0';
  return address;
}

static int listen_unix(const char *path) {
  struct sockaddr_un address = unix_address(path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0 || listen(fd, 5) != 0) abort();
  return fd;
}

static int connect_unix(const char *path) {
  struct sockaddr_un address = unix_address(path);
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? 0 : errno;
}

// Connects to a port, to a socket by its path and to an abstract one; says how that went.
static int act_connect(char **arguments) {
  uint16_t own;
  listen_tcp(&own);
  printf("tcp %s\n", connect_tcp((uint16_t)atoi(arguments[0])) ? "refused" : "connected");
  printf("unix %s\n", connect_unix(arguments[1]) ? "refused" : "connected");
  printf("abstract %s\n", connect_unix(arguments[2]) ? "refused" : "connected");
  printf("own %s\n", connect_tcp(own) ? "refused" : "connected");
  return 0;
}

static void check_sockets(bool has_network, const char *expected) {
  make_scene();
  uint16_t port;
  char number[16], path[512], name[64];
  int tcp = listen_tcp(&port);
  snprintf(number, sizeof number, "%u", port);
  snprintf(path, sizeof path, "%s", folder_path("home/socket"));
  snprintf(name, sizeof name, "@plimsoll-test-%d", getpid());
  int file = listen_unix(path), abstract = listen_unix(name);
  trial t = {.box.has_network = has_network};
  CHECK_STARTS(&t, ACT("connect", number, path, name));
  CHECK_EXITS(&t, 0);
  CHECK_STR(t.said, expected);
  CHECK(connect_unix(path) == 0, "it does not listen: %s", strerror(errno));
  close(tcp), close(file), close(abstract);
  folder_remove();
}

TEST(sockets_are_refused) {
  NEED_SANDBOX;
  check_sockets(false, "tcp refused\nunix refused\nabstract refused\nown connected\n");
}

TEST(network_if_asked_for) {
  NEED_SANDBOX;
  check_sockets(true, "tcp connected\nunix refused\nabstract connected\nown connected\n");
}

TEST(the_machine_is_found_by_its_name) {
  NEED_SANDBOX;
  if (access("/etc/hosts", F_OK) != 0) SKIP("no /etc/hosts");
  make_scene();
  trial t = {0};
  CHECK_STARTS(&t, SHELL("getent hosts $(uname -n)"));
  CHECK_EXITS(&t, 0);
  CHECK(strncmp(t.said, "127.0.0.1 ", 10) == 0 && strstr(t.said, "localhost"), "%s", t.said);
  folder_remove();
}

// Leaves a process behind that has its own session and writes on.
static int act_daemon(char **arguments) {
  (void)arguments;
  if (fork() > 0) return 0;
  setsid();
  if (fork() > 0) _exit(0);
  signal(SIGTERM, SIG_IGN);
  printf("daemon\n");
  fflush(stdout);
  for (;;) {
    int fd = open("daemon", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(fd, "more", 4) != 4) _exit(1);
    close(fd);
  }
}

TEST(nothing_outlives_the_program) {
  NEED_SANDBOX;
  make_scene();
  char *before = state_of(folder_path("home"));
  trial t = {0};
  CHECK_STARTS(&t, ACT("daemon"));
  CHECK_EXITS(&t, 0); // the daemon's copy of the output is closed
  CHECK(is_same(folder_path("home"), before), "the home was changed");
  CHECK(is_empty(folder_path("scratch")), "scratch");
  free(before);
  folder_remove();
}

TEST(ending_a_program_that_runs) {
  NEED_SANDBOX;
  make_scene();
  trial t = {0};
  CHECK_STARTS(&t, SHELL("trap '' TERM INT; echo x > overwritten; (sleep 1000 &); sleep 1000"));
  CHECK(!plim_sandbox_wait(&t.run, 50, &t.status), "it has ended");
  plim_sandbox_end(&t.run);
  CHECK(hear(&t), "something is left");
  CHECK(is_empty(folder_path("scratch")), "scratch");
  folder_remove();
}

TEST(two_at_once) {
  NEED_SANDBOX;
  make_scene();
  trial a = {0}, b = {0};
  const char *script = "echo $$ > overwritten; read line < overwritten; sleep 0.2; [ $line = $$ ]";
  CHECK_STARTS(&a, SHELL(script));
  CHECK_STARTS(&b, SHELL("echo other > overwritten; sleep 1000"));
  CHECK_EXITS(&a, 0);
  CHECK(!plim_sandbox_wait(&b.run, 0, &b.status), "ending one has ended the other");
  plim_sandbox_end(&b.run);
  CHECK(hear(&b), "something is left");
  CHECK(is_empty(folder_path("scratch")), "scratch");
  folder_remove();
}

// ---- what the program is told and tells -----------------------------------------------------------

TEST(exit_status_and_signals_are_passed_on) {
  NEED_SANDBOX;
  make_scene();
  trial t = {0};
  CHECK_STARTS(&t, SHELL("exit 7"));
  CHECK_EXITS(&t, 7);
  t = (trial){0};
  CHECK_STARTS(&t, SHELL("kill -SEGV $$"));
  CHECK_EXITS_BY(&t, SIGSEGV);
  folder_remove();
}

TEST(a_program_that_is_missing) {
  NEED_SANDBOX;
  make_scene();
  trial t = {0};
  CHECK(begin(&t, ARGS("no-such-program")) == PLIM_ERR_IO, "started");
  CHECK_STR(t.error.message, "PATH has no program no-such-program that can be run");
  CHECK_STR(t.error.hint, "if it is part of a Python environment, activate that first");
  close(t.output[0]);
  CHECK(begin(&t, ARGS("train.py")) == PLIM_ERR_IO, "started");
  CHECK_STR(t.error.message, "PATH has no program train.py that can be run");
  CHECK_STR(t.error.hint, "python train.py");
  close(t.output[0]);
  CHECK(begin(&t, ARGS("./train.py")) == PLIM_ERR_IO, "started");
  CHECK_STR(t.error.hint, "python ./train.py");
  close(t.output[0]);
  CHECK(begin(&t, ARGS("./locked")) == PLIM_ERR_IO, "started");
  CHECK_STR(t.error.message, "cannot run ./locked: Permission denied");
  close(t.output[0]);
  CHECK(is_empty(folder_path("scratch")), "scratch");
  folder_remove();
}

TEST(a_file_of_this_folder_that_is_not_in_PATH) {
  NEED_SANDBOX;
  make_scene();
  trial t = {0};
  chmod(folder_path("home/locked"), 0700);
  CHECK(begin(&t, ARGS("locked")) == PLIM_ERR_IO, "started");
  CHECK_STR(t.error.hint, "for the file in this folder: ./locked");
  close(t.output[0]);
  folder_remove();
}

TEST(a_scratch_folder_that_is_missing) {
  make_scene();
  trial t = {.box.scratch = "/no/such/folder"};
  CHECK(begin(&t, ARGS("true")) == PLIM_ERR_IO, "started");
  CHECK_STR(t.error.message, "cannot use the folder /no/such/folder: No such file or directory");
  close(t.output[0]);
  folder_remove();
}

// Nothing but standard input and output is open, the mask is the caller's, no signal is blocked.
TEST(surroundings_of_the_program) {
  NEED_SANDBOX;
  make_scene();
  int leaked = open("/", O_DIRECTORY | O_RDONLY); // without O_CLOEXEC: a way out
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  mode_t mask = umask(027);
  char path[512];
  snprintf(path, sizeof path, "PATH=%s", getenv("PATH"));
  trial t = {.box.environment = (const char *const[]){path, "COLOUR=blue", NULL}};
  CHECK_STARTS(&t,
               SHELL("umask; echo $COLOUR; readlink /proc/$$/fd/0; grep SigBlk /proc/self/status;"
                     "grep core /proc/self/limits | tr -s ' ';"
                     "ls /proc/$$/fd | tr '\\n' ' '; cat; [ $(pwd) -ef . ]; ls /dev/kmsg /run/*"));
  bool finished = finish(&t);
  umask(mask);
  sigprocmask(SIG_SETMASK, &before, NULL);
  close(leaked);
  CHECK(finished, "%s", t.said);
  const char *expected = "0027\nblue\n/dev/null\nSigBlk:\t0000000000000000\n"
                         "Max core file size 1 1 bytes \n0 1 2 ";
  CHECK(strncmp(t.said, expected, strlen(expected)) == 0, "%s", t.said);
  CHECK(strstr(t.said, "cannot access '/dev/kmsg'"), "%s", t.said);
  folder_remove();
}

// ---- ways out -------------------------------------------------------------------------------------

static bool write_text(const char *path, const char *text) {
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
  close(fd);
  return ok;
}

// Makes a process that has all rights in a new user namespace its root.
static bool map_root(unsigned uid, unsigned gid) {
  char map[64];
  write_text("/proc/self/setgroups", "deny");
  snprintf(map, sizeof map, "0 %u 1", uid);
  if (!write_text("/proc/self/uid_map", map)) return false;
  snprintf(map, sizeof map, "0 %u 1", gid);
  return write_text("/proc/self/gid_map", map);
}

static void try_file(const char *prefix, const char *path) {
  char full[1024];
  snprintf(full, sizeof full, "%s%s", prefix, path);
  int fd = open(full, O_WRONLY | O_TRUNC);
  if (fd >= 0) (void)!write(fd, "broken", 6), close(fd);
}

static void undo_mounts(void) {
  plim_mount_points points = {0};
  FILE *in = fopen("/proc/self/mountinfo", "re");
  if (!in || !plim_mount_points_read(in, &points)) abort();
  fclose(in);
  for (size_t i = points.len; i-- > 0;) {
    const char *path = points.at[i];
    if (mount(NULL, path, NULL, MS_REMOUNT | MS_BIND, NULL) == 0 && strncmp(path, "/sys", 4) == 0)
      printf("%s is writable\n", path);
    if (umount2(path, MNT_DETACH) == 0) printf("%s was unmounted\n", path);
  }
  plim_mount_points_free(&points);
}

static void try_system(void) {
  static const char *const paths[] = {"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern",
                                      "/proc/sys/vm/drop_caches", "/sys/power/state",
                                      "/sys/kernel/mm/ksm/run"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (open(paths[i], O_WRONLY) >= 0) printf("%s can be written to\n", paths[i]);
}

// Tries to change a file with all rights that a program can get. Says what worked that must not.
static int act_escape(char **arguments) {
  const char *file = arguments[0];
  try_system();
  if (mount("none", "/mnt", "tmpfs", 0, NULL) == 0) printf("it may mount\n");
  if (umount2("/", MNT_DETACH) == 0 || umount2("/dev", MNT_DETACH) == 0) printf("it may unmount\n");
  if (chroot("/tmp") == 0) printf("it may change its root\n");
  try_file("/proc/1/root", file);
  if (open("/proc/1/fd/4", O_WRONLY) >= 0) printf("it reaches the first process\n");
  unsigned uid = geteuid(), gid = getegid();
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) printf("no namespaces here\n");
  map_root(uid, gid); // refused to root, which then still has all rights over its mounts
  undo_mounts();
  try_system();
  (void)!mount("proc", "/mnt", "proc", 0, NULL);
  if (access("/mnt/self", F_OK) == 0) printf("a new proc\n");
  try_file("", file);
  try_file("/proc/1/root", file);
  fflush(stdout);
  return 0;
}

TEST(nested_namespaces_are_no_way_out) {
  NEED_SANDBOX;
  make_scene();
  char file[512];
  snprintf(file, sizeof file, "%s", folder_path("home/overwritten"));
  char *before = state_of(folder_path("home"));
  trial t = {0};
  CHECK_STARTS(&t, ACT("escape", file));
  CHECK_EXITS(&t, 0);
  CHECK_STR(t.said, "");
  CHECK(is_same(folder_path("home"), before), "the home was changed");
  free(before);
  folder_remove();
}

// ---- kinds of mounts ------------------------------------------------------------------------------

// Runs a test in a mount namespace of its own, with the right to mount.
static const char *(*run_in_namespace)(void);
static const char *run_as_root(void) {
  unsigned uid = geteuid(), gid = getegid();
  bool is_root = unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 && map_root(uid, gid);
  return is_root ? run_in_namespace() : "no namespace";
}
static bool in_namespace(const char *(*run)(void)) {
  run_in_namespace = run;
  return in_child(run_as_root);
}

static bool stack_overlay(const char *lower, const char *name) {
  char upper[512], work[512], options[2048];
  snprintf(upper, sizeof upper, "%s-upper", folder_path(name));
  snprintf(work, sizeof work, "%s-work", folder_path(name));
  mkdir(upper, 0700), mkdir(work, 0700), mkdir(folder_path(name), 0700);
  snprintf(options, sizeof options, "userxattr,lowerdir=%s,upperdir=%s,workdir=%s", lower, upper,
           work);
  return mount("overlay", folder_path(name), "overlay", 0, options) == 0;
}

// In the home: a file system whose name needs an escape, one that cannot be overlaid (two overlays already, the most that
// the kernel allows), and a file that is a mount point.
static bool mount_kinds(void) {
  char lower[512];
  snprintf(lower, sizeof lower, "%s", folder_path("home/sub"));
  mkdir(folder_path("home/with space"), 0700);
  return mount("tmpfs", folder_path("home/with space"), "tmpfs", 0, "") == 0 &&
         (folder_write_text("home/with space/file", "in memory"), true) &&
         stack_overlay(lower, "once") &&
         (snprintf(lower, sizeof lower, "%s", folder_path("once")), true) &&
         stack_overlay(lower, "home/twice") &&
         mount(folder_path("home/deleted"), folder_path("home/locked"), NULL, MS_BIND, NULL) == 0;
}

static const char *run_among_mounts(void) {
  if (!mount_kinds()) return "cannot mount";
  char *before = state_of(folder_path("home"));
  trial t = {0};
  static const char script[] =
      "set -e; echo zeros > overwritten; rm deleted; mv renamed new-name; echo zeros > locked\n"
      "echo zeros > 'with space/file'; echo new > 'with space/new'; echo new > sub/new\n"
      "grep -q old sub/old twice/old; mkdir results; echo 1 > results/1\n"
      "if echo zeros > twice/old; then exit 9; fi\n"
      "if echo zeros > large; then exit 9; fi; [ $(wc -c < large) = 20971520 ]";
  if (begin(&t, SHELL(script)) != PLIM_OK) return strdup(t.error.message);
  char notes[320];
  snprintf(notes, sizeof notes, "%s", t.run.read_only);
  if (!finish(&t) || t.status != 0) return strdup(t.said);
  if (!strstr(notes, "home/twice") || !strstr(notes, "home/large")) return strdup(notes);
  if (!is_same(folder_path("home"), before)) return "the home was changed";
  if (!is_empty(folder_path("scratch"))) return "something is left";
  free(before);
  return NULL;
}

TEST(every_kind_of_mount_is_protected) {
  NEED_SANDBOX;
  make_scene();
  folder_write_text("home/large", "");
  CHECK(truncate(folder_path("home/large"), 20971520) == 0, "%s", strerror(errno));
  CHECK(in_namespace(run_among_mounts), "see above");
  folder_remove();
}

static const char *run_on_overlay(void) {
  char lower[512], layers[512];
  snprintf(lower, sizeof lower, "%s", folder_path("home/sub"));
  if (!stack_overlay(lower, "over")) return "cannot mount";
  snprintf(layers, sizeof layers, "%s", folder_path("over/layers"));
  mkdir(layers, 0700);
  char *before = state_of(folder_path("home"));
  trial t = {.box.scratch = layers};
  if (begin(&t, SHELL(vandal)) != PLIM_OK) return strdup(t.error.message);
  if (!finish(&t) || t.status != 0) return strdup(t.said);
  if (!is_same(folder_path("home"), before)) return "the home was changed";
  if (!is_empty(layers)) return "something is left";
  free(before);
  return NULL;
}

TEST(scratch_that_cannot_hold_layers) {
  NEED_SANDBOX;
  make_scene();
  CHECK(in_namespace(run_on_overlay), "see above");
  folder_remove();
}

static const char *run_on_full_disk(void) {
  trial t = {0};
  if (mount("tmpfs", folder_path("scratch"), "tmpfs", 0, "size=16k,mode=700") != 0)
    return "cannot mount";
  if (begin(&t, ARGS("true")) == PLIM_OK) return "it started";
  if (!strstr(t.error.message, strerror(ENOSPC))) return strdup(t.error.message);
  return strstr(t.error.hint, "make room there: ") ? NULL : strdup(t.error.hint);
}

TEST(a_scratch_folder_without_room) {
  NEED_SANDBOX;
  make_scene();
  CHECK(in_namespace(run_on_full_disk), "see above");
  folder_remove();
}

// ---- kernels that refuse --------------------------------------------------------------------------

static const char *run_without_namespaces(void) {
  if (!write_text("/proc/sys/user/max_user_namespaces", "0")) return "cannot set the limit";
  plim_error why;
  if (plim_sandbox_is_possible(&why)) return "it is possible";
  if (!strstr(why.message, "this kernel does not allow user namespaces (clone: "))
    return strdup(why.message);
  return strstr(why.hint, "--unsandboxed") ? NULL : strdup(why.hint);
}

TEST(a_kernel_without_user_namespaces) {
  NEED_SANDBOX;
  CHECK(in_namespace(run_without_namespaces), "see above");
}

// As containers do.
static const char *run_with_hidden_proc(void) {
  if (mount("/dev/null", "/proc/meminfo", NULL, MS_BIND, NULL) != 0) return "cannot mount";
  plim_error why;
  if (plim_sandbox_is_possible(&why)) return "it is possible";
  if (strcmp(why.message, "the sandbox cannot mount its own /proc: Operation not permitted") != 0)
    return strdup(why.message);
  return strstr(why.hint, "systempaths=unconfined") ? NULL : strdup(why.hint);
}

TEST(a_container_that_hides_parts_of_proc) {
  NEED_SANDBOX;
  CHECK(in_namespace(run_with_hidden_proc), "see above");
}

TEST(mount_points_are_read) {
  char text[] = "22 27 0:21 / /proc rw,relatime - proc proc rw\n"
                "28 27 0:25 / /a\\040b\\134\\011c ro - tmpfs x ro\n"
                "broken\n";
  FILE *in = fmemopen(text, sizeof text - 1, "r");
  plim_mount_points points = {0};
  CHECK(plim_mount_points_read(in, &points), "out of memory");
  fclose(in);
  CHECK_U64(points.len, 2);
  CHECK_STR(points.at[1], "/a b\\\tc");
  CHECK(plim_mount_points_below(&points, "/"), "/");
  CHECK(!plim_mount_points_below(&points, "/proc"), "not below itself");
  CHECK(!plim_path_is_below("/procedure", "/proc"), "a longer name");
  plim_mount_points_free(&points);
}

// ---- the end of the caller ------------------------------------------------------------------------

// Starts a sandbox with a program that writes and leaves processes behind, and waits for it.
static pid_t start_caller(trial *t) {
  if (pipe2(t->output, O_CLOEXEC) != 0) abort();
  pid_t caller = fork();
  if (caller != 0) return close(t->output[1]), caller;
  setpgid(0, 0);
  t->box = (plim_sandbox){.arguments = SHELL("echo zeros > overwritten; (sleep 1000 &)\n"
                                             "dd if=/dev/zero of=large bs=1M count=50; sleep 1000"),
                          .environment = (const char *const *)environ,
                          .folder = folder_path("home"),
                          .scratch = folder_path("scratch"),
                          .output = t->output[1]};
  if (plim_sandbox_start(&t->box, &t->run, &t->error) != PLIM_OK) _exit(1);
  plim_sandbox_wait(&t->run, -1, &t->status);
  _exit(2);
}

// The watcher cleans up a moment after the last process has ended.
static bool becomes_empty(const char *path) {
  for (int i = 0; i < 500; i++) {
    char *state = state_of(path);
    bool empty = strchr(state, '\n') == strrchr(state, '\n');
    free(state);
    if (empty) return true;
    usleep(10000);
  }
  return is_empty(path);
}

static void check_killed(int how, int milliseconds) {
  char *before = state_of(folder_path("home"));
  trial t = {0};
  pid_t caller = start_caller(&t);
  usleep((useconds_t)milliseconds * 1000);
  int status;
  kill(caller, how);
  CHECK(waitpid(caller, &status, 0) == caller && WIFSIGNALED(status), "%x", status);
  CHECK(hear(&t), "after %d ms: something still runs", milliseconds);
  CHECK(becomes_empty(folder_path("scratch")), "after %d ms", milliseconds);
  CHECK(is_same(folder_path("home"), before), "after %d ms: the home was changed", milliseconds);
  free(before);
}

TEST(a_caller_that_is_killed) {
  NEED_SANDBOX;
  make_scene();
  uint64_t mounts = content_of("/proc/self/mountinfo");
  for (int i = 0; i < 20 && !test_failed; i++) check_killed(SIGKILL, i < 10 ? i * 3 : i * 15);
  CHECK(!test_failed, "see above");
  check_killed(SIGINT, 100);
  CHECK_U64(content_of("/proc/self/mountinfo"), mounts);
  folder_remove();
}

TEST(a_watcher_that_is_killed) {
  NEED_SANDBOX;
  make_scene();
  trial t = {0};
  CHECK_STARTS(&t, SHELL("trap '' TERM; sleep 1000"));
  kill(t.run.watcher, SIGKILL);
  CHECK_EXITS_BY(&t, SIGKILL);
  CHECK(plim_sandbox_empty(folder_path("scratch")), "scratch"); // nobody else is left to do it
  folder_remove();
}

// ---- without a sandbox ----------------------------------------------------------------------------

TEST(an_open_run_changes_files_and_still_ends_everything) {
  make_scene();
  trial t = {.box.is_open = true};
  CHECK_STARTS(&t, SHELL("echo changed > overwritten; exit 3"));
  CHECK_EXITS(&t, 3);
  struct stat found;
  CHECK(stat(folder_path("home/overwritten"), &found) == 0 && found.st_size == 8, "not changed");
  t = (trial){.box.is_open = true};
  CHECK_STARTS(&t, ACT("daemon"));
  CHECK_EXITS(&t, 0);
  t = (trial){.box.is_open = true};
  CHECK_STARTS(&t, SHELL("(setsid sleep 1000 &) ; sleep 1000"));
  usleep(50000);
  plim_sandbox_end(&t.run);
  CHECK(hear(&t), "something still runs");
  CHECK(is_empty(folder_path("scratch")), "scratch");
  folder_remove();
}

int main(int argc, char **argv) {
  if (argc > 2 && strcmp(argv[1], "--act") == 0) {
    int (*act)(char **) = strcmp(argv[2], "connect") == 0  ? act_connect
                          : strcmp(argv[2], "daemon") == 0 ? act_daemon
                                                           : act_escape;
    int code = act(argv + 3);
    fflush(stdout);
    _exit(code);
  }
  if (readlink("/proc/self/exe", me, sizeof me - 1) < 0) return 1;
  return test_main(argc, argv);
}
