// What the program is told about memory: how much there is, and what a pointer is.
#include "hook_functions.h"
#include "hook_state.h"

// ---- how much there is --------------------------------------------------------------------------

int cuMemGetInfo_v2(size_t *left, size_t *total) {
  FIND_REAL(cuMemGetInfo_v2);
  uint32_t device;
  uint64_t cap = hook_cap();
  int result = real(left, total);
  if (result != CU_OK || !cap || !hook_device_here(&device)) return result;
  uint64_t used = hook_used(device), allowed = used < cap ? cap - used : 0;
  if (left && *left > allowed) *left = allowed;
  if (total && *total > cap) *total = cap;
  return result;
}

int cuDeviceTotalMem_v2(size_t *bytes, int ordinal) {
  FIND_REAL(cuDeviceTotalMem_v2);
  int result = real(bytes, ordinal);
  if (result == CU_OK && hook_cap() && *bytes > hook_cap()) *bytes = hook_cap();
  return result;
}

// NVML knows nothing of our counts, and its devices have other numbers: a smaller card with the same memory in use.
static void shrink(unsigned long long *total, unsigned long long *left, unsigned long long *used) {
  uint64_t cap = hook_cap();
  if (!cap || *total <= cap) return;
  *total = cap;
  if (*used > cap) *used = cap;
  if (*left > cap - *used) *left = cap - *used;
}

int nvmlDeviceGetMemoryInfo(void *device, hook_nvml_memory *out) {
  FIND_REAL(nvmlDeviceGetMemoryInfo);
  int result = real(device, out);
  if (result == CU_OK) shrink(&out->total, &out->left, &out->used);
  return result;
}

int nvmlDeviceGetMemoryInfo_v2(void *device, hook_nvml_memory_v2 *out) {
  FIND_REAL(nvmlDeviceGetMemoryInfo_v2);
  int result = real(device, out);
  if (result == CU_OK) shrink(&out->total, &out->left, &out->used);
  return result;
}

// ---- what a pointer is --------------------------------------------------------------------------

// Spilled memory passes for the device's.
static bool is_spilled(uint64_t address, hook_piece *piece) {
  if (!hook_has_spilled()) return false; // mostly so
  hook_lock();
  const hook_piece *found = hook_table_containing(address);
  bool is = found && found->place == HOOK_SPILLED;
  if (is) *piece = *found;
  hook_unlock();
  return is;
}

static void correct(void *out, int attribute, const hook_piece *piece) {
  if (attribute == CU_POINTER_MEMORY_TYPE) *(unsigned *)out = CU_TYPE_DEVICE;
  if (attribute == CU_POINTER_DEVICE) *(int *)out = hook_ordinal_of(piece->device);
  if (attribute == CU_POINTER_HOST) *(void **)out = NULL;
}

int cuPointerGetAttribute(void *out, int attribute, uint64_t address) {
  FIND_REAL(cuPointerGetAttribute);
  hook_piece piece;
  int result = real(out, attribute, address);
  if (result != CU_OK || !out || !is_spilled(address, &piece)) return result;
  if (attribute == CU_POINTER_HOST) return CU_INVALID_VALUE; // as for the device's memory
  correct(out, attribute, &piece);
  return result;
}

int cuPointerGetAttributes(unsigned count, const int *attributes, void **out, uint64_t address) {
  FIND_REAL(cuPointerGetAttributes);
  hook_piece piece;
  int result = real(count, attributes, out, address);
  if (result != CU_OK || !is_spilled(address, &piece)) return result;
  for (unsigned i = 0; i < count; i++) correct(out[i], attributes[i], &piece);
  return result;
}

int cuMemGetAddressRange_v2(uint64_t *start, size_t *bytes, uint64_t address) {
  FIND_REAL(cuMemGetAddressRange_v2);
  hook_piece piece;
  if (!is_spilled(address, &piece)) return real(start, bytes, address);
  if (start) *start = piece.key;
  if (bytes) *bytes = piece.bytes;
  return CU_OK;
}
