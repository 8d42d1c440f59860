// Memory of the host in place of the device's, where the user allows it.
#ifndef PLIM_HOOK_SPILL_H
#define PLIM_HOOK_SPILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hook_layouts.h"

typedef struct {
  uint32_t device;
  uint64_t bytes;
  bool is_virtual; // cuMemCreate: many calls of one size make up a tensor's memory
} hook_request;

// Whether a request that failed may be served from the host, whose memory is then counted. PyTorch answers a failure by
// releasing its cached memory and asking again: the first failure is passed on, the second try is served. What is cold is
// served at once, so that the cached memory, which the next step needs again, stays on the card.
bool hook_spill_may(const hook_request *request);

// A request succeeded on the device; the memory of cuMemCreate got its addresses. Failures before it are forgotten.
void hook_spill_succeeded(const hook_request *request);
void hook_spill_mapped(void);
void hook_spill_forget(void);

// Pinned memory of the host that the device can use. CU_OK or CU_OUT_OF_MEMORY.
int hook_spill_alloc(size_t bytes, uint64_t *address, uint64_t *host);

// The same request for cuMemCreate, with the host as its place.
hook_allocation_properties hook_spill_properties(const hook_allocation_properties *properties,
                                                 int place);

#endif
