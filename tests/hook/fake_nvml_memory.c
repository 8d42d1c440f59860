// libnvidia-ml.so.1 for the tests of the hook library: a device of 1 GiB, of which 300 MiB are in use.
#include "fake_driver.h"

typedef struct {
  unsigned long long total, left, used;
} memory;

typedef struct {
  unsigned version;
  unsigned long long total, reserved, left, used;
} memory_v2;

#define MIB (1ull << 20)

EXPORT int nvmlDeviceGetMemoryInfo(void *device, memory *out);
EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *out);

EXPORT int nvmlDeviceGetMemoryInfo(void *device, memory *out) {
  *out = (memory){1024 * MIB, 724 * MIB, 300 * MIB};
  return device ? 0 : 2;
}

EXPORT int nvmlDeviceGetMemoryInfo_v2(void *device, memory_v2 *out) {
  *out = (memory_v2){out->version, 1024 * MIB, 24 * MIB, 700 * MIB, 300 * MIB};
  return device ? 0 : 2;
}
