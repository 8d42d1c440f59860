// What the functions of the list have in common: a request is counted, given to the driver, and remembered or taken back.
#ifndef PLIM_HOOK_MEMORY_H
#define PLIM_HOOK_MEMORY_H

#include "hook_spill.h"
#include "hook_state.h"

typedef struct {
  hook_request request;
  bool is_counted; // false: the cap refuses it
} hook_attempt;

// Before the driver is asked; ask it only if the attempt is counted.
hook_attempt hook_begin(uint32_t device, uint64_t bytes, bool is_virtual);

// After it was asked. Remembers the memory under its key; takes the count back if the result is an error, and writes a refusal
// down. True: the request is to be spilled, which hook_end_spill() ends.
bool hook_end(const hook_attempt *attempt, int result, hook_space space, uint64_t key,
              bool can_spill);
// `host` is the host's pointer. Returns what the program gets.
int hook_end_spill(const hook_attempt *attempt, int result, hook_space space, uint64_t key,
                   uint64_t host);

// Writes down memory that the program has now, or has no more.
void hook_remember(const hook_piece *piece);
void hook_forget(const hook_piece *piece);

// What a device's context had is gone, other than the memory of cuMemCreate.
void hook_forget_context(uint32_t device);

#endif
