// This process in the record: what it holds, what it may have, and what each piece of memory is.
#ifndef PLIM_HOOK_STATE_H
#define PLIM_HOOK_STATE_H

#include <stdbool.h>

#include "hook_record.h"

// Starts recording, as the variables of hook_environment() say when a program starts; a second call starts anew. The texts
// are those of the variables and may be NULL. False: nothing is recorded, and every call goes to the driver as it is.
bool hook_start(const char *record_path, const char *cap, const char *spill);
bool hook_is_on(void);

// 0: there is no cap.
uint64_t hook_cap(void);

// ---- devices ------------------------------------------------------------------------------------

// The record's number of a device of the program, or of the one whose context this thread has. False: it is not known, and
// the call should go to the driver as it is.
bool hook_device_of(int ordinal, uint32_t *device);
bool hook_device_here(uint32_t *device);
// The program's number of it; 0 if it is not known.
int hook_ordinal_of(uint32_t device);

// The device memory of all processes of the run.
uint64_t hook_used(uint32_t device);

// ---- what memory is -----------------------------------------------------------------------------

typedef enum { HOOK_ON_DEVICE, HOOK_SPILLED, HOOK_MANAGED } hook_place;

// What a key of the table is.
typedef enum {
  HOOK_SPACE_NONE,
  HOOK_SPACE_ADDRESS, // of cuMemAlloc and the like
  HOOK_SPACE_HANDLE,  // of cuMemCreate: `other` is its backing
  HOOK_SPACE_MAPPING, // an address of cuMemMap: `other` is its backing
  HOOK_SPACE_BACKING, // memory of cuMemCreate, by a number of ours: handles may be used again while it is still mapped
  HOOK_SPACE_ARRAY,
  HOOK_SPACE_POOL,
} hook_space;

typedef struct {
  uint64_t key, bytes;
  uint64_t other; // the host's pointer of spilled memory; the backing of a handle or mapping
  uint32_t device;
  uint32_t
      references; // of a backing: its handles and mappings; of a handle: how often it must be released
  hook_space space;
  hook_place place;
} hook_piece;

void hook_lock(void);
void hook_unlock(void);

// Under the lock. Pointers are valid until the next put or take. `put` replaces what has the same key; false: no memory.
bool hook_table_put(const hook_piece *piece);
hook_piece *hook_table_find(hook_space space, uint64_t key);
bool hook_table_take(hook_space space, uint64_t key, hook_piece *out);
// The piece of memory with an address that contains this one; NULL: none.
const hook_piece *hook_table_containing(uint64_t address);
// Calls `is_gone` for every piece and removes those for which it is true.
void hook_table_sweep(bool (*is_gone)(const hook_piece *piece, void *context), void *context);
void hook_table_clear(void);

// ---- counting -----------------------------------------------------------------------------------

// Counts bytes as held; false: the cap does not allow it, or what is cold should rather go to the host. Uncount what the
// driver refused.
bool hook_count(uint32_t device, uint64_t bytes);
void hook_uncount(uint32_t device, uint64_t bytes);
// More than was counted turned out to be held.
void hook_count_more(uint32_t device, uint64_t bytes);
// The driver has agreed to what was counted: only that can be a peak.
void hook_count_peak(uint32_t device);

// Likewise of the host's memory: false if so much may not be spilled. Uncount what the host refused, and say so.
bool hook_count_spill(uint32_t device, uint64_t bytes);
void hook_host_refused(void);
void hook_uncount_spill(uint32_t device, uint64_t bytes);

void hook_count_managed(uint32_t device, int64_t bytes);
void hook_count_refusal(uint32_t device, uint64_t bytes);

// Whether any memory of this process is spilled.
bool hook_has_spilled(void);
hook_phase hook_phase_now(void);

void hook_event_now(hook_event_kind kind, uint32_t device, uint64_t address, uint64_t bytes);

// Called by the Python module when the program's phase changes. What is cold leaves so many bytes of the card free, as long as
// it can go to the host.
__attribute__((visibility("default"))) void plimsoll_hook_phase(int phase, uint64_t spare_bytes);

#endif
