// The memory of a machine is read correctly, in any kind of container.
#include "machine.h"

#include "folder.h"
#include "test.h"

static plim_machine m;

static void make(const char *cgroup) {
  folder_make();
  folder_write_text("proc/meminfo", "MemTotal:       65536000 kB\nMemFree:         1000000 kB\n"
                                    "MemAvailable:   48000000 kB\nSwapTotal:       2097148 kB\n"
                                    "SwapFree:        2000000 kB\n");
  folder_write_text("proc/self/cgroup", cgroup);
  folder_write_text("proc/self/limits",
                    "Limit                     Soft Limit           Hard Limit           Units\n"
                    "Max locked memory         8388608              unlimited            bytes\n");
}

static void read_and_remove(void) {
  plim_machine_read(folder_path(""), &m);
  folder_remove();
}

TEST(machine_memory) {
  make("");
  read_and_remove();
  CHECK_U64(m.total_bytes, 65536000ull * 1024);
  CHECK_U64(m.available_bytes, 48000000ull * 1024);
  CHECK_U64(m.swap_total_bytes, 2097148ull * 1024);
  CHECK_U64(m.swap_free_bytes, 2000000ull * 1024);
  CHECK_U64(m.locked_bytes, 8388608);
  CHECK_U64(m.limit_bytes, PLIM_UNKNOWN);
  CHECK_U64(plim_machine_room(&m), m.available_bytes);
  CHECK(!m.is_container && !m.is_wsl, "a plain machine");
}

// The tightest limit of the parent groups counts, and page cache is counted as free.
TEST(machine_cgroup_2) {
  make("0::/user.slice/job\n");
  folder_write_text("sys/fs/cgroup/user.slice/memory.max", "max\n");
  folder_write_text("sys/fs/cgroup/user.slice/memory.current", "9000000000\n");
  folder_write_text("sys/fs/cgroup/user.slice/job/memory.max", "17179869184\n");
  folder_write_text("sys/fs/cgroup/user.slice/job/memory.current", "3221225472\n");
  folder_write_text("sys/fs/cgroup/user.slice/job/memory.stat",
                    "anon 1\ninactive_file 1073741824\n");
  folder_write_text("sys/fs/cgroup/user.slice/memory.events", "oom 9\noom_kill 8\n");
  folder_write_text("sys/fs/cgroup/user.slice/job/memory.events", "low 0\noom 4\noom_kill 3\n");
  read_and_remove();
  CHECK_U64(m.oom_kills, 3); // of its own group
  CHECK_U64(m.limit_bytes, 16 * PLIM_GIB);
  CHECK_U64(m.limit_used_bytes, 2 * PLIM_GIB);
  CHECK_U64(plim_machine_room(&m), 14 * PLIM_GIB);
}

// Inside a container, its own group is the root, or a path that exists only outside.
TEST(machine_cgroup_of_a_container) {
  static const char *const groups[] = {"0::/\n", "0::/docker/0123456789ab\n"};
  for (int i = 0; i < 2; i++) {
    make(groups[i]);
    folder_write_text("sys/fs/cgroup/memory.max", "8589934592\n");
    folder_write_text("sys/fs/cgroup/memory.current", "1073741824\n");
    folder_write_text(".dockerenv", "");
    read_and_remove();
    CHECK_U64(m.limit_bytes, 8 * PLIM_GIB);
    CHECK(m.is_container, "it is one");
  }
}

TEST(machine_cgroup_1) {
  make("11:cpu,cpuacct:/job\n4:memory:/slurm/job_7\n1:name=systemd:/x\n");
  folder_write_text("sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "9223372036854771712\n");
  folder_write_text("sys/fs/cgroup/memory/slurm/memory.usage_in_bytes", "5\n");
  folder_write_text("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "34359738368\n");
  folder_write_text("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "4294967296\n");
  folder_write_text("sys/fs/cgroup/memory/slurm/job_7/memory.stat",
                    "total_inactive_file 2147483648\n");
  read_and_remove();
  CHECK_U64(m.limit_bytes, 32 * PLIM_GIB);
  CHECK_U64(m.limit_used_bytes, 2 * PLIM_GIB);
}

TEST(machine_shared_memory) {
  static const struct {
    const char *mounts;
    uint64_t bytes;
  } cases[] = {
      {"shm /dev/shm tmpfs rw,nosuid,relatime,size=65536k,inode64 0 0\n", 64 * PLIM_MIB},
      {"tmpfs /dev/shm tmpfs rw,nosuid 0 0\n", 65536000ull * 512},
      {"tmpfs /dev/shm tmpfs rw,size=8g 0 0\ntmpfs /run tmpfs rw,size=1m 0 0\n", 8 * PLIM_GIB},
      {"tmpfs /run tmpfs rw 0 0\n", PLIM_UNKNOWN},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    make("");
    folder_write_text("proc/self/mounts", cases[i].mounts);
    read_and_remove();
    CHECK_U64(m.shm_total_bytes, cases[i].bytes);
    CHECK_U64(m.shm_free_bytes, PLIM_UNKNOWN);
  }
}

TEST(machine_without_any_information) {
  plim_machine_read("/nonexistent", &m);
  CHECK_U64(m.total_bytes, PLIM_UNKNOWN);
  CHECK_U64(plim_machine_room(&m), PLIM_UNKNOWN);
}

TEST(machine_processes_have_names) {
  char name[32], path[512];
  make("");
  folder_write_text("proc/4100/comm", "python3\n");
  snprintf(path, sizeof path, "%s", folder_path(""));
  bool is_named = plim_process_name(path, 4100, name, sizeof name);
  bool is_seen = plim_process_name(path, 4101, name, 1);
  folder_remove();
  CHECK(is_named, "no name");
  CHECK_STR(name, "python3");
  CHECK(!is_seen, "one that is not there");
}

TEST(machine_is_wsl) {
  make("");
  folder_write_text("proc/version", "Linux version 5.15.90.1-microsoft-standard-WSL2\n");
  read_and_remove();
  CHECK(m.is_wsl, "not seen");
}

// Reading the real machine must not fail, whatever it is.
TEST(machine_itself) {
  plim_machine_read("", &m);
  printf("  %llu MiB, %llu of them available, limit %llu, /dev/shm %llu MiB\n",
         (unsigned long long)(m.total_bytes >> 20), (unsigned long long)(m.available_bytes >> 20),
         (unsigned long long)(m.limit_bytes >> 20), (unsigned long long)(m.shm_total_bytes >> 20));
  CHECK(m.total_bytes != PLIM_UNKNOWN && m.available_bytes <= m.total_bytes, "memory");
}

TEST_MAIN
