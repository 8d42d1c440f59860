// Faults of a simulated card: what the user asks for with `simulate --fault`, and what came of it.
//
//   card_fault f;
//   err = card_fault_parse("refuse=all@step=3", &f, &error);
//
// A fault is written KIND, KIND=AMOUNT, KIND@MOMENT or KIND=AMOUNT@MOMENT. Once a process of the program has reached the
// moment, the fault is there for all of them, also for those that start later.
#ifndef PLIM_CARD_FAULT_H
#define PLIM_CARD_FAULT_H

#include "plimsoll.h"

typedef enum {
  CARD_FAULT_REFUSE,        // requests for memory fail; `amount`: how many, CARD_FAULT_ALL
  CARD_FAULT_OTHER_PROCESS, // another process takes `amount` bytes of each device
  CARD_FAULT_LEAK, // in each step, `amount` bytes more are in use outside PyTorch's allocator
  CARD_FAULT_DRIVER_HANGS, // NVML's functions do not return
  CARD_FAULT_DRIVER_FAILS, // NVML's functions and cudaMemGetInfo return an error
  CARD_FAULT_KINDS
} card_fault_kind;

// When it begins.
typedef enum {
  CARD_MOMENT_START,
  CARD_MOMENT_STEP,       // in optimizer step `at`, counted from 1
  CARD_MOMENT_ALLOCATION, // at the process's request number `at` to the driver, counted from 1
  CARD_MOMENT_USED,       // when a request takes the process's memory on a device to `at` bytes
  CARD_MOMENTS
} card_moment;

#define CARD_FAULT_ALL UINT64_MAX
enum { CARD_MAX_FAULTS = 8 };

typedef struct {
  char text[64]; // as it was typed
  card_fault_kind kind;
  card_moment moment;
  uint64_t amount, at;
  // Written by the card.
  uint32_t has_begun;
  uint64_t times; // requests refused, calls not answered; bytes leaked
} card_fault;

plim_err card_fault_parse(const char *text, card_fault *out, plim_error *error);

#endif
