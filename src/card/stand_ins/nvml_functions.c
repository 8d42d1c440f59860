// NVML: what programs and PyTorch ask the driver's management library.
#include <stdio.h>
#include <string.h>

#include "card.h"
#include "layouts.h"

enum {
  NVML_OK = 0,
  NVML_INVALID = 2,
  NVML_NOT_SUPPORTED = 3,
  NVML_NOT_FOUND = 6,
  NVML_TOO_SMALL = 7,
  NVML_UNKNOWN = 999
};

static void *device_handle(unsigned number) { return (void *)(uintptr_t)(0x8000 + number * 16); }
// NVML counts the machine's devices, whatever CUDA_VISIBLE_DEVICES says.
static unsigned count(void) { return card_record_here() ? card_record_here()->device_count : 0; }

// -1: no handle of a device.
static int number_of(const void *handle) {
  uintptr_t at = (uintptr_t)handle - (uintptr_t)device_handle(0);
  return at % 16 == 0 && at / 16 < count() ? (int)(at / 16) : -1;
}

// For functions that ask the driver.
static int ask(void) {
  card_faults_hang();
  return card_faults_fail() ? NVML_UNKNOWN : NVML_OK;
}

STAND_IN int nvmlDeviceGetCount_v2(unsigned *out) {
  *out = count();
  return ask();
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
  if (ask()) return NVML_UNKNOWN;
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

// The process that CARD_FAULT_OTHER_PROCESS stands for: Linux gives no process a number as high as this (PID_MAX_LIMIT).
enum { OTHER_PID = 1 << 22 };

typedef struct {
  unsigned pid;
  unsigned long long bytes;
} process_v1; // of the first version of the function, which PyTorch calls

typedef struct {
  process_v1 process;
  unsigned gpu_instance, compute_instance; // all ones: the card is not divided
} process_v2;

static unsigned list_processes(int device, process_v1 *out, unsigned room) {
  const card_record *record = card_record_here();
  unsigned found = 0;
  for (uint32_t i = 0; i < record->process_count && i < CARD_MAX_PROCESSES; i++) {
    const card_process *p = &record->processes[i];
    const card_holding *h = &p->devices[device];
    if (!h->context_bytes || !card_process_runs(p)) continue;
    if (found++ < room)
      out[found - 1] = (process_v1){(unsigned)p->pid, h->context_bytes + h->used_bytes};
  }
  uint64_t others = card_record_others(record);
  if (others && found++ < room) out[found - 1] = (process_v1){OTHER_PID, others};
  return found;
}

// With too little room, the answer is how much is needed.
static int running(void *device, unsigned *processes, process_v1 *out) {
  int number = number_of(device);
  if (number < 0) return NVML_INVALID;
  if (ask()) return NVML_UNKNOWN;
  unsigned room = *processes;
  *processes = list_processes(number, out, room);
  return *processes <= room ? NVML_OK : NVML_TOO_SMALL;
}

STAND_IN int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *processes, void *out) {
  return running(device, processes, out);
}

STAND_IN int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *processes,
                                                     process_v2 *out) {
  process_v1 list[CARD_MAX_PROCESSES + 1];
  unsigned room = *processes < CARD_MAX_PROCESSES + 1 ? *processes : CARD_MAX_PROCESSES + 1;
  int result = running(device, &room, list);
  for (unsigned i = 0; result == NVML_OK && i < room; i++)
    out[i] = (process_v2){list[i], UINT32_MAX, UINT32_MAX};
  *processes = room;
  return result;
}

STAND_IN int nvmlDeviceGetComputeRunningProcesses_v2(void *device, unsigned *processes,
                                                     process_v2 *out) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, processes, out);
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
  case NVML_TOO_SMALL: return "Insufficient Size";
  case NVML_UNKNOWN: return "Unknown Error";
  default: return "Not Supported";
  }
}
