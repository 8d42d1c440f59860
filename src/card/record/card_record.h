// What a simulated card records while a program runs on it. The record is a file that every process of the run maps. The
// stand-ins write it, and `simulate` can read it at any moment, also after a process was killed.
#ifndef PLIM_CARD_RECORD_H
#define PLIM_CARD_RECORD_H

#include "card_fault.h"

enum {
  CARD_MAX_DEVICES = 64,
  CARD_MAX_PROCESSES = 512,
  CARD_MAX_NAMES = 64,
  CARD_NAME_BYTES = 64,
};

// Added to the recorded name of a collective that did not get what it waited for.
#define CARD_UNANSWERED ": another rank did not answer"

// The memory that one process holds on one device.
typedef struct {
  uint64_t context_bytes; // the CUDA context's own share; 0: the process has no context there
  uint64_t used_bytes;    // cudaMalloc and mapped pages, without the context
  uint64_t refusals;      // requests that did not fit
} card_holding;

// A function that a program called although its result is not modelled.
typedef struct {
  char name[CARD_NAME_BYTES];
  uint64_t calls;
} card_unmodelled;

// The work that a process gave to the card, as far as its time can be computed.
typedef struct {
  uint64_t launches;        // of kernels, products and attention included
  double product_seconds;   // matrix products and convolutions, by their shapes
  double attention_seconds; // in one kernel, by its shape
  double product_bytes;     // written by products
  double listed_bytes;      // moved by the optimizer's kernels, which work on lists of tensors
  double allocated_bytes;   // the sum of all allocations that PyTorch's allocator made
} card_work;

typedef struct {
  int32_t pid; // 0: the slot is free
  int32_t has_ended;
  card_holding devices[CARD_MAX_DEVICES];
  uint64_t requests; // for memory, to the driver
  uint64_t launches; // of kernels
  card_work work;    // since the process began
  card_work at_step; // `work` at the end of the last optimizer step
  card_work step;    // of the last optimizer step; zeros before the second
  uint64_t pinned_bytes, peak_pinned_bytes;
  uint64_t steps;           // optimizer steps that the program finished
  uint64_t allocated_bytes; // by PyTorch's allocator, after the last step
  uint32_t unmodelled_count;
  card_unmodelled unmodelled[CARD_MAX_NAMES];
} card_process;

typedef struct {
  char magic[8]; // CARD_MAGIC
  uint32_t device_count;
  uint32_t process_count;                // slots ever used
  uint64_t total_bytes;                  // of each device, as CUDA reports it
  uint64_t context_bytes;                // of each process on each device that it uses
  char gpu[64];                          // the catalogue's name
  uint64_t peak_bytes[CARD_MAX_DEVICES]; // the most in use at a time, by all processes
  uint32_t fault_count;
  card_fault faults[CARD_MAX_FAULTS];
  card_process processes[CARD_MAX_PROCESSES];
} card_record;

#define CARD_MAGIC "plimcrd4"

// Creates the file and writes a record without processes. The file must not exist.
plim_err card_record_create(const char *path, const char *gpu, uint32_t device_count,
                            uint64_t total_bytes, uint64_t context_bytes, plim_error *error);

// Maps the file of a record, shared with all processes that do so. NULL if it cannot be read or is no record.
card_record *card_record_map(const char *path);
void card_record_unmap(card_record *record);

// Whether a process of the record has not ended.
bool card_process_runs(const card_process *process);
// The bytes in use on a device by all processes that still run, and by those that a fault put there.
uint64_t card_record_used(const card_record *record, int device);
// What processes that are not the program's use on each device: CARD_FAULT_OTHER_PROCESS.
uint64_t card_record_others(const card_record *record);

#endif
