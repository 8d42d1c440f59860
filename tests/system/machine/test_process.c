// Processes have the names of what they run, and no process is taken for another.
#include "process.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "test.h"

static plim_process p;

static const char *root(void) { return folder_path(""); }

static void make(const char *words, size_t size) {
  folder_make();
  folder_write_text("proc/4100/comm", "python3\n");
  folder_write("proc/4100/cmdline", words, size);
}

static void check_name(const char *words, size_t size, const char *want) {
  make(words, size);
  bool is_seen = plim_process_read(root(), 4100, &p);
  folder_remove();
  CHECK(is_seen, "%s", want);
  CHECK_STR(p.name, want);
  CHECK(*p.user, "no user");
}

#define WORDS(text) text, sizeof text

TEST(a_process_has_the_name_of_its_script) {
  check_name(WORDS("/usr/bin/python3\0-u\0/home/me/train.py\0--lr\0001e-4"), "python3 train.py");
  check_name(WORDS("python3\0-m\0torch.distributed.run\0train.py"),
             "python3 torch.distributed.run");
  check_name(WORDS("python3\0-c\0import os"), "python3");
  check_name(WORDS("python3\0-m"), "python3");
  check_name(WORDS("python3\0-X\0dev\0-W\0ignore\0train.py"), "python3 train.py");
  check_name(WORDS("python3\0-X"), "python3");
  check_name(WORDS("/opt/app/Xorg\0:0"), "Xorg");
  check_name("", 0, "python3"); // a kernel thread, or one whose words were overwritten
}

TEST(a_process_that_is_not_there_has_no_name) {
  folder_make();
  bool is_seen = plim_process_read(root(), 4100, &p);
  folder_remove();
  CHECK(!is_seen, "%s", p.name);
}

// In a container the driver's 4100 is a process of the host; the container's own 4100 is another.
TEST(a_process_of_the_host_is_not_one_of_the_container) {
  make(WORDS("bash"));
  folder_write_text("proc/self/ns/x", "");
  folder_write_text("proc/4100/fd/0", "");
  symlink("pid:[4026532900]", folder_path("proc/self/ns/pid"));
  bool is_named = plim_process_read(root(), 4100, &p);
  symlink("/dev/nvidia0", folder_path("proc/4100/fd/7"));
  bool is_user = plim_process_read(root(), 4100, &p);
  folder_remove();
  CHECK(!is_named, "named %s", p.name);
  CHECK(is_user, "a process that has the card open is the one");
}

// A clock tick is 1/100 s on Linux; boot at 1000000, start 50 s later.
TEST(a_number_that_was_used_again_is_another_process) {
  folder_make();
  folder_write_text("proc/stat", "cpu 1 2\nbtime 1000000\n");
  folder_write_text("proc/41/stat",
                    "41 (a) b) S 1 41 41 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 0\n");
  folder_write_text("proc/42/stat", "42 (a) Z 1 41 41 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5000 0 0\n");
  bool same = plim_process_runs(root(), 41, 1000051), any = plim_process_runs(root(), 41, -1);
  bool later = plim_process_runs(root(), 41, 999000);
  bool zombie = plim_process_runs(root(), 42, 1000051),
       none = plim_process_runs(root(), 43, 1000051);
  folder_remove();
  CHECK(same && any, "it runs");
  CHECK(!later, "a process that started 1050 s after the run");
  CHECK(!zombie && !none, "a process that has ended");
}

TEST(this_process_runs) {
  CHECK(plim_process_runs("", (unsigned)getpid(), (double)time(NULL)), "pid %d", (int)getpid());
}

TEST_MAIN
