// Memory and addresses apart, as PyTorch's expandable segments use them. Memory lives as long as a handle or a mapping of it.
#include "hook_functions.h"
#include "hook_memory.h"

// The grain in which mappings are looked for behind one that is not ours: no driver maps in smaller pieces.
#define SMALLEST_MAPPING (64u << 10)

// ---- under the lock -----------------------------------------------------------------------------

static void add_reference(uint64_t backing, int by) {
  hook_piece *found = hook_table_find(HOOK_SPACE_BACKING, backing);
  if (found) found->references += (uint32_t)by;
}

static void add_handle(uint64_t handle, uint64_t backing) {
  hook_piece *known = hook_table_find(HOOK_SPACE_HANDLE, handle);
  hook_piece new = {.space = HOOK_SPACE_HANDLE, .key = handle, .other = backing, .references = 1};
  if (known) known->references++;
  else if (!hook_table_put(&new)) return;
  add_reference(backing, 1);
}

// The backing of a handle, which has one reference less; 0: the handle is not ours.
static uint64_t drop_handle(uint64_t handle) {
  hook_piece piece, *known = hook_table_find(HOOK_SPACE_HANDLE, handle);
  uint64_t backing = known ? known->other : 0;
  if (known && --known->references == 0) hook_table_take(HOOK_SPACE_HANDLE, handle, &piece);
  return backing;
}

// True: nothing refers to it any more, and *piece was the memory.
static bool drop_backing(uint64_t backing, hook_piece *piece) {
  hook_piece *known = hook_table_find(HOOK_SPACE_BACKING, backing);
  if (!known || --known->references > 0) return false;
  return hook_table_take(HOOK_SPACE_BACKING, backing, piece);
}

// ---- memory -------------------------------------------------------------------------------------

// Drivers before CUDA 12.2 have no place "host", only the parts of it.
static int create_on_host(hook_type_cuMemCreate *real, uint64_t *handle, size_t bytes,
                          const hook_allocation_properties *properties, unsigned long long flags) {
  hook_allocation_properties host = hook_spill_properties(properties, CU_ON_HOST);
  if (real(handle, bytes, &host, flags) == CU_OK) return CU_OK;
  host = hook_spill_properties(properties, CU_ON_HOST_NODE);
  return real(handle, bytes, &host, flags);
}

int cuMemCreate(uint64_t *handle, size_t bytes, const hook_allocation_properties *properties,
                unsigned long long flags) {
  static uint64_t last_backing;
  FIND_REAL(cuMemCreate);
  uint32_t device;
  bool is_on_device = handle && properties && properties->location_type == CU_ON_DEVICE;
  if (!is_on_device || !hook_device_of(properties->location, &device))
    return real(handle, bytes, properties, flags);
  uint64_t backing = __atomic_add_fetch(&last_backing, 1, __ATOMIC_RELAXED);
  hook_attempt attempt = hook_begin(device, bytes, true);
  int result = attempt.is_counted ? real(handle, bytes, properties, flags) : CU_OUT_OF_MEMORY;
  if (hook_end(&attempt, result, HOOK_SPACE_BACKING, backing, true)) {
    result = create_on_host(real, handle, bytes, properties, flags);
    result = hook_end_spill(&attempt, result, HOOK_SPACE_BACKING, backing, 0);
  }
  if (result != CU_OK) return result;
  hook_lock();
  add_handle(*handle, backing);
  hook_unlock();
  return result;
}

int cuMemRelease(uint64_t handle) {
  FIND_REAL(cuMemRelease);
  if (!hook_is_on()) return real(handle);
  hook_piece piece;
  hook_lock();
  uint64_t backing = drop_handle(handle);
  hook_unlock();
  int result = real(handle);
  hook_lock();
  if (backing && result != CU_OK) {
    add_handle(handle, backing);
    add_reference(backing, -1);
  }
  bool is_gone = result == CU_OK && backing && drop_backing(backing, &piece);
  hook_unlock();
  if (is_gone) hook_forget(&piece);
  return result;
}

int cuMemRetainAllocationHandle(uint64_t *handle, void *address) {
  FIND_REAL(cuMemRetainAllocationHandle);
  int result = real(handle, address);
  if (result != CU_OK || !hook_is_on()) return result;
  hook_lock();
  const hook_piece *mapping = hook_table_containing((uint64_t)address);
  if (mapping && mapping->space == HOOK_SPACE_MAPPING) add_handle(*handle, mapping->other);
  hook_unlock();
  return result;
}

// ---- addresses ----------------------------------------------------------------------------------

int cuMemMap(uint64_t address, size_t bytes, size_t offset, uint64_t handle,
             unsigned long long flags) {
  FIND_REAL(cuMemMap);
  int result = real(address, bytes, offset, handle, flags);
  if (result != CU_OK || !hook_is_on()) return result;
  hook_lock();
  const hook_piece *known = hook_table_find(HOOK_SPACE_HANDLE, handle);
  const hook_piece *backing = known ? hook_table_find(HOOK_SPACE_BACKING, known->other) : NULL;
  hook_piece mapping = {.space = HOOK_SPACE_MAPPING, .key = address, .bytes = bytes};
  if (backing) {
    mapping.other = backing->key;
    mapping.device = backing->device;
    mapping.place = backing->place;
    if (hook_table_put(&mapping)) add_reference(mapping.other, 1);
  }
  hook_unlock();
  return result;
}

// Takes one mapping; *bytes is how far it goes. True: its memory is gone as well.
static bool unmap_at(uint64_t address, uint64_t *bytes, hook_piece *memory) {
  hook_piece mapping;
  hook_lock();
  bool is_ours = hook_table_take(HOOK_SPACE_MAPPING, address, &mapping);
  bool is_gone = is_ours && drop_backing(mapping.other, memory);
  hook_unlock();
  *bytes = is_ours && mapping.bytes ? mapping.bytes : SMALLEST_MAPPING;
  return is_gone;
}

// One call may end several mappings.
int cuMemUnmap(uint64_t address, size_t bytes) {
  FIND_REAL(cuMemUnmap);
  int result = real(address, bytes);
  if (result != CU_OK || !hook_is_on()) return result;
  uint64_t step;
  hook_piece memory;
  for (uint64_t done = 0; done < bytes; done += step)
    if (unmap_at(address + done, &step, &memory)) hook_forget(&memory);
  return result;
}

// The last call for the memory of a tensor: a failure after it is a new one.
int cuMemSetAccess(uint64_t address, size_t bytes, const void *descriptions, size_t count) {
  FIND_REAL(cuMemSetAccess);
  int result = real(address, bytes, descriptions, count);
  if (result == CU_OK) hook_spill_mapped();
  return result;
}
