// A driver's library with two cards, for test_nvml. With FAKE_OLD it is one from before the newer
// functions. FAKE_NVML_BROKEN makes it fail as on a machine whose kernel module is another version.
#include <stdio.h>
#include <stdlib.h>

typedef struct {
  unsigned long long total, free, used;
} memory;

typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} memory_v2;

#define MIB (1024ull * 1024)
#define CALL(name, ...)                                                                            \
  int name(__VA_ARGS__);                                                                           \
  int name(__VA_ARGS__)

#ifdef FAKE_OLD
#define VERSIONED(name) name
#else
#define VERSIONED(name) name##_v2
#endif

CALL(VERSIONED(nvmlInit), void) { return getenv("FAKE_NVML_BROKEN") ? 18 : 0; }
CALL(nvmlShutdown, void) { return 0; }
CALL(VERSIONED(nvmlDeviceGetCount), unsigned *count) { return *count = 3, 0; }
CALL(VERSIONED(nvmlDeviceGetHandleByIndex), unsigned index, void **device) {
  static char cards[2];
  if (index >= 2) return 6; // a card that is there but may not be used
  return *device = &cards[index], 0;
}
CALL(nvmlDeviceGetName, void *device, char *name, unsigned size) {
  return (void)device, snprintf(name, size, "NVIDIA GeForce RTX 4090"), 0;
}
CALL(nvmlDeviceGetMemoryInfo, void *device, memory *m) {
  (void)device;
  *m = (memory){24564 * MIB, 23000 * MIB, 1564 * MIB};
  return 0;
}
#ifndef FAKE_OLD
CALL(nvmlDeviceGetMemoryInfo_v2, void *device, memory_v2 *m) {
  (void)device;
  if (m->version != (sizeof *m | 2u << 24)) return 25; // NVML_ERROR_ARGUMENT_VERSION_MISMATCH
  *m = (memory_v2){m->version, 24564 * MIB, 483 * MIB, 23000 * MIB, 1081 * MIB};
  return 0;
}
#endif
