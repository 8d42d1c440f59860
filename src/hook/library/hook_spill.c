#include "hook_spill.h"

#include "hook_functions.h"
#include "hook_state.h"

// The last failure of this thread that was passed on.
static __thread struct {
  hook_request request;
  bool is_pending; // the same request again is its second try
} last;

static bool is_same(const hook_request *a, const hook_request *b) {
  return a->device == b->device && a->bytes == b->bytes && a->is_virtual == b->is_virtual;
}

bool hook_spill_may(const hook_request *request) {
  bool is_second = last.is_pending && is_same(&last.request, request);
  if (!is_second && hook_phase_now() != HOOK_PHASE_COLD) {
    last.request = *request;
    last.is_pending = true;
    return false;
  }
  bool may = hook_count_spill(request->device, request->bytes);
  // Memory of cuMemCreate is made page by page, all of one size: the rest of a tensor's follows.
  if (!request->is_virtual) last.is_pending = false;
  return may;
}

void hook_spill_succeeded(const hook_request *request) {
  if (!request->is_virtual) last.is_pending = false;
}

void hook_spill_mapped(void) { last.is_pending = false; }
void hook_spill_forget(void) { hook_spill_mapped(); }

int hook_spill_alloc(size_t bytes, uint64_t *address, uint64_t *host) {
  void *pointer = NULL;
  hook_type_cuMemHostAlloc *allocate = REAL(cuMemHostAlloc);
  hook_type_cuMemHostGetDevicePointer_v2 *get = REAL(cuMemHostGetDevicePointer_v2);
  hook_type_cuMemFreeHost *release = REAL(cuMemFreeHost);
  if (!allocate || !get || !release) return CU_OUT_OF_MEMORY;
  if (allocate(&pointer, bytes, CU_HOST_PORTABLE | CU_HOST_DEVICEMAP) != CU_OK)
    return CU_OUT_OF_MEMORY;
  if (get(address, pointer, 0) != CU_OK) {
    release(pointer);
    return CU_OUT_OF_MEMORY;
  }
  *host = (uint64_t)pointer;
  return CU_OK;
}

// Memory of the host cannot be shared between processes by handle, nor be reached by other devices directly.
hook_allocation_properties hook_spill_properties(const hook_allocation_properties *properties,
                                                 int place) {
  hook_allocation_properties host = *properties;
  host.location_type = place;
  host.location = 0;
  host.handle_types = 0;
  host.security = NULL;
  host.is_rdma_capable = 0;
  return host;
}
