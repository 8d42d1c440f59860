// A fake driver library with two cards, for tests. With FAKE_OLD it lacks the newer functions. FAKE_NVML_BROKEN
// makes it fail as on a machine whose kernel module has another version. FAKE_NVML_BUSY=N puts N processes on the
// first card: 4100, 4101, ... with 2 GiB each. FAKE_NVML_FAILS names functions that fail. FAKE_NVML_HANGS names a file:
// while it exists, memory queries do not return; with FAKE_NVML_HANGS_IN=Processes, lists of processes do not instead.
// With FAKE_NVML_CRASHES a memory query ends the process. FAKE_NVML_LOST makes cards disappear until the library is opened
// again.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  unsigned long long total, free, used;
} memory;

typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} memory_v2;

typedef struct {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
} process;

#define MIB (1024ull * 1024)
#define CALL(name, ...)                                                                            \
  int name(__VA_ARGS__);                                                                           \
  int name(__VA_ARGS__)

#ifdef FAKE_OLD
#define VERSIONED(name) name
#else
#define VERSIONED(name) name##_v2
#endif

// A variable that is empty counts as not set: a test in this process can empty one while another thread reads it, and must
// not remove or add one then.
static const char *setting(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

// Whether a call is to fail; hangs first, if asked to.
static int fails(const char *name) {
  const char *names = setting("FAKE_NVML_FAILS");
  return names && strstr(names, name) ? 999 : 0; // NVML_ERROR_UNKNOWN
}
static void hang(const char *name) {
  const char *file = setting("FAKE_NVML_HANGS"), *where = setting("FAKE_NVML_HANGS_IN");
  if (strcmp(where ? where : "Memory", name) != 0) return;
  while (file && access(file, F_OK) == 0) usleep(20000);
}

static int is_lost; // until it is opened again
CALL(VERSIONED(nvmlInit), void) { return is_lost = 0, setting("FAKE_NVML_BROKEN") ? 18 : 0; }
CALL(nvmlShutdown, void) { return 0; }
CALL(VERSIONED(nvmlDeviceGetCount), unsigned *count) {
  if (setting("FAKE_NVML_LOST")) is_lost = 1;
  return *count = 3, is_lost ? 15 : fails("Count");
}
static char cards[2];
CALL(VERSIONED(nvmlDeviceGetHandleByIndex), unsigned index, void **device) {
  if (index >= 2) return 6; // a card that exists but cannot be used
  return *device = &cards[index], 0;
}
CALL(nvmlDeviceGetName, void *device, char *name, unsigned size) {
  return (void)device, snprintf(name, size, "NVIDIA GeForce RTX 4090"), 0;
}
#ifndef FAKE_OLD
CALL(nvmlDeviceGetUUID, void *device, char *uuid, unsigned size) {
  return snprintf(uuid, size, "GPU-%d", device == &cards[1]), 0;
}
#endif
CALL(nvmlDeviceGetMemoryInfo, void *device, memory *m) {
  (void)device;
  hang("Memory");
  *m = (memory){24564 * MIB, 23000 * MIB, 1564 * MIB};
  return fails("Memory");
}
#ifndef FAKE_OLD
typedef struct {
  unsigned gpu, memory;
} utilization;
CALL(nvmlDeviceGetUtilizationRates, void *device, utilization *use) {
  *use = (utilization){device == &cards[1] ? 3 : 97, 40};
  return fails("Utilization");
}
CALL(nvmlDeviceGetTemperature, void *device, int sensor, unsigned *celsius) {
  (void)device;
  return *celsius = 61, sensor ? 2 : fails("Temperature");
}
CALL(nvmlDeviceGetPowerUsage, void *device, unsigned *milliwatts) {
  (void)device;
  return *milliwatts = 312500, fails("PowerUsage");
}
CALL(nvmlDeviceGetEnforcedPowerLimit, void *device, unsigned *milliwatts) {
  (void)device;
  return *milliwatts = 450000, fails("PowerLimit");
}
static unsigned busy(void *device) {
  const char *count = setting("FAKE_NVML_BUSY");
  return count && device == &cards[0] ? (unsigned)atoi(count) : 0;
}
CALL(nvmlDeviceGetComputeRunningProcesses_v3, void *device, unsigned *count, process *out) {
  hang("Processes");
  if (fails("Processes")) return 999;
  if (*count < busy(device)) return 7; // NVML_ERROR_INSUFFICIENT_SIZE
  *count = busy(device);
  for (unsigned i = 0; i < *count; i++)
    out[i] = (process){4100 + i, 2048 * MIB, 0xffffffff, 0xffffffff};
  return 0;
}
// The desktop uses graphics; the first process uses both compute and graphics.
CALL(nvmlDeviceGetGraphicsRunningProcesses_v3, void *device, unsigned *count, process *out) {
  if (fails("Processes")) return 999;
  *count = busy(device) ? 2 : 0;
  if (!*count) return 0;
  out[0] = (process){4100, 2048 * MIB, 0xffffffff, 0xffffffff};
  out[1] = (process){900, ~0ull, 0xffffffff, 0xffffffff}; // its memory is unknown
  return 0;
}
CALL(nvmlDeviceGetMemoryInfo_v2, void *device, memory_v2 *m) {
  if (setting("FAKE_NVML_CRASHES")) _exit(1);
  hang("Memory");
  if (fails("Memory")) return 999;
  if (m->version != (sizeof *m | 2u << 24)) return 25; // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
  unsigned long long held = busy(device) * 2048 * MIB;
  *m = (memory_v2){m->version, 24564 * MIB, 483 * MIB, 23000 * MIB - held, 1081 * MIB + held};
  return 0;
}
#endif
