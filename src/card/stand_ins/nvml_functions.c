// NVML: what programs and PyTorch ask the driver's management library.
#include <stdio.h>
#include <string.h>

#include "card.h"
#include "layouts.h"

enum { NVML_OK = 0, NVML_INVALID = 2, NVML_NOT_SUPPORTED = 3, NVML_NOT_FOUND = 6 };

static void *device_handle(unsigned number) { return (void *)(uintptr_t)(0x8000 + number * 16); }
// NVML counts the machine's devices, whatever CUDA_VISIBLE_DEVICES says.
static unsigned count(void) { return card_record_here() ? card_record_here()->device_count : 0; }

// -1: no handle of a device.
static int number_of(const void *handle) {
  uintptr_t at = (uintptr_t)handle - (uintptr_t)device_handle(0);
  return at % 16 == 0 && at / 16 < count() ? (int)(at / 16) : -1;
}

STAND_IN int nvmlDeviceGetCount_v2(unsigned *out) {
  *out = count();
  return NVML_OK;
}

STAND_IN int nvmlDeviceGetHandleByIndex_v2(unsigned number, void **out) {
  *out = device_handle(number);
  return number < count() ? NVML_OK : NVML_INVALID;
}

STAND_IN int nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, void **out) {
  unsigned domain, bus;
  bool is_one = sscanf(bus_id, "%x:%x", &domain, &bus) == 2 && bus >= 1 && bus <= count();
  if (is_one) *out = device_handle(bus - 1);
  return is_one ? NVML_OK : NVML_INVALID;
}

STAND_IN int nvmlDeviceGetIndex(void *device, unsigned *out) {
  int number = number_of(device);
  if (number >= 0) *out = (unsigned)number;
  return number >= 0 ? NVML_OK : NVML_INVALID;
}

STAND_IN int nvmlDeviceGetName(void *device, char *out, unsigned size) {
  (void)device;
  snprintf(out, size, "%s", card()->name);
  return NVML_OK;
}

STAND_IN int nvmlDeviceGetUUID(void *device, char *out, unsigned size) {
  int number = number_of(device);
  if (number >= 0) card_uuid(number, out, size);
  return number >= 0 ? NVML_OK : NVML_INVALID;
}

STAND_IN int nvmlDeviceGetHandleByUUID(const char *wanted, void **out) {
  char uuid[64];
  for (unsigned i = 0; i < count(); i++) {
    card_uuid((int)i, uuid, sizeof uuid);
    if (strcmp(uuid, wanted) == 0) return *out = device_handle(i), NVML_OK;
  }
  return NVML_NOT_FOUND;
}

typedef struct {
  unsigned long long total, left, used;
} memory_info;

STAND_IN int nvmlDeviceGetMemoryInfo(void *device, memory_info *out) {
  int number = number_of(device);
  if (number < 0) return NVML_INVALID;
  uint64_t total = card()->total_bytes, used = card_record_used(card_record_here(), number);
  *out = (memory_info){total, used < total ? total - used : 0, used};
  return NVML_OK;
}

STAND_IN int nvmlSystemGetCudaDriverVersion_v2(int *version) {
  *version = CARD_DRIVER_VERSION;
  return NVML_OK;
}

STAND_IN int nvmlSystemGetDriverVersion(char *out, unsigned size) {
  snprintf(out, size, "580.0");
  return NVML_OK;
}

STAND_IN int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
  (void)device;
  *major = card()->major, *minor = card()->minor;
  return NVML_OK;
}

STAND_IN int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *processes, void *out) {
  (void)device, (void)out;
  *processes = 0;
  return NVML_OK;
}

// No fabric of NVSwitches: the call succeeds, and the state behind the version is 0, "not supported". torch 2.13 stops if the
// call itself fails. The lower bytes of the version are the structure's size.
STAND_IN int nvmlDeviceGetGpuFabricInfoV(void *device, unsigned *version) {
  (void)device;
  size_t bytes = *version & 0xffffff;
  if (bytes > sizeof *version) memset(version + 1, 0, bytes - sizeof *version);
  return NVML_OK;
}

// No NVLink: PyTorch asks for one link after the other until one is refused.
STAND_IN int nvmlDeviceGetNvLinkRemoteDeviceType(void) { return NVML_NOT_SUPPORTED; }
STAND_IN int nvmlDeviceGetNvLinkRemotePciInfo_v2(void) { return NVML_NOT_SUPPORTED; }

// Peers reach each other, as cudaDeviceCanAccessPeer says.
STAND_IN int nvmlDeviceGetP2PStatus(void *device, void *peer, int index, int *status) {
  (void)device, (void)peer, (void)index;
  *status = 0; // NVML_P2P_STATUS_OK
  return NVML_OK;
}

STAND_IN const char *nvmlErrorString(int code) {
  switch (code) {
  case NVML_OK: return "Success";
  case NVML_INVALID: return "Invalid Argument";
  case NVML_NOT_FOUND: return "Not Found";
  default: return "Not Supported";
  }
}
