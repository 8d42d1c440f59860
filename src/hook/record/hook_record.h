// What the hook library writes down about a program's GPU memory. The record is a file that the launcher makes and every
// process of the run maps; it can be read at any moment, also after a process was killed.
//
//   hook_options options = {.cap_bytes = 24 * PLIM_GIB};
//   hook_variable variables[HOOK_VARIABLES];
//   size_t count;
//   err = hook_record_create("/run/1/hook", &error);
//   err = hook_environment(".../libplimsoll_hook.so", "/run/1/hook", &options, variables, &count, &error);
//   ... put the variables into the program's environment and start it ...
//   hook_record *record = hook_record_map("/run/1/hook");
//   uint64_t used = hook_record_used(record, 0);
//   while ((read = hook_record_read(record, &next, &lost, events, 64))) ...
//   hook_record_unmap(record);
#ifndef PLIM_HOOK_RECORD_H
#define PLIM_HOOK_RECORD_H

#include "plimsoll.h"

enum {
  HOOK_MAX_DEVICES = 64,
  HOOK_MAX_PROCESSES = 512,
  HOOK_RING = 1 << 16, // events that are kept: a power of two
  HOOK_VARIABLES = 5,
  HOOK_VALUE_BYTES = 4096,
};

// ---- events -------------------------------------------------------------------------------------

typedef enum {
  HOOK_EVENT_NONE,
  HOOK_EVENT_ALLOC,   // memory of the device
  HOOK_EVENT_FREE,    // the same
  HOOK_EVENT_REFUSED, // a request that failed, at the cap or in the driver
  HOOK_EVENT_SPILL,   // memory of the host in place of the device's
  HOOK_EVENT_UNSPILL, // such memory was freed
  HOOK_EVENT_MANAGED, // managed memory, which the driver moves: it does not count as the device's
  HOOK_EVENT_MANAGED_FREE,
  HOOK_EVENT_GRAPH, // a node of a graph that allocates when the graph is launched; it is not counted
  HOOK_EVENT_PHASE, // the program said what it does next: `bytes` is a hook_phase, `address` what is to be left free
  HOOK_EVENT_COUNT
} hook_event_kind;

// What the program is doing, as the Python module says by plimsoll_hook_phase().
typedef enum {
  HOOK_PHASE_OTHER,
  HOOK_PHASE_COLD, // it allocates what is used once a step, such as the optimizer's state
} hook_phase;

typedef struct {
  uint64_t time_ns; // since 1970
  uint64_t address; // or a number for memory of cuMemCreate, the handle of an array
  uint64_t bytes;
  int32_t pid, thread;
  uint32_t device; // of hook_record.devices
  hook_event_kind kind;
} hook_event;

// An event as it lies in the ring. Several processes write without locks and may be killed at any moment, so a slot counts
// only if its check agrees with its words.
typedef struct {
  uint64_t number; // of the event, from 1
  uint64_t time_ns, address, bytes;
  uint64_t who;  // pid << 32 | thread
  uint64_t what; // kind << 32 | device
  uint64_t unused;
  uint64_t check;
} hook_slot;

// ---- counters -----------------------------------------------------------------------------------

// What one process has on one device.
typedef struct {
  uint64_t current_bytes, peak_bytes; // device memory that it asked for, without the CUDA context
  uint64_t managed_bytes;
  uint64_t refusals;                          // requests that failed
  uint64_t largest_refused_bytes;             // the largest of them
  uint64_t spills;                            // requests served from the host's memory
  uint64_t spilled_bytes, peak_spilled_bytes; // of the host's memory
} hook_holding;

typedef struct {
  int32_t pid; // 0: the slot is free
  int32_t has_ended;
  uint64_t phase; // hook_phase
  hook_holding devices[HOOK_MAX_DEVICES];
} hook_process;

// A card. Processes may see it under different numbers (CUDA_VISIBLE_DEVICES); its identity is that of the driver.
typedef struct {
  uint64_t identity; // a hash of the UUID; 0: the slot is free
  uint8_t uuid[16];
  uint64_t total_bytes; // as the driver says; 0: not known
} hook_device;

typedef struct {
  char magic[8]; // HOOK_MAGIC
  uint64_t process_count;
  uint64_t events; // ever written, of which the ring has the last
  hook_device devices[HOOK_MAX_DEVICES];
  hook_process processes[HOOK_MAX_PROCESSES];
  hook_slot ring[HOOK_RING];
} hook_record;

#define HOOK_MAGIC "plimhok1"

// ---- for the launcher ---------------------------------------------------------------------------

typedef struct {
  uint64_t cap_bytes;   // of each device, all processes of the run together; 0: no cap
  uint64_t spill_bytes; // of the host's memory, for each process; 0: nothing is spilled
  bool
      has_no_cold_rule; // what is cold is spilled like anything else: to measure what the rule gains
} hook_options;

typedef struct {
  const char *name;
  char value[HOOK_VALUE_BYTES];
} hook_variable;

// Makes the file, of about 6 MiB. It must not exist.
plim_err hook_record_create(const char *path, plim_error *error);

// The variables of the program's environment, at most HOOK_VARIABLES: LD_PRELOAD with the library in front of what this
// process's environment has there, and PLIMSOLL_HOOK*. Both paths must be absolute, and the library's must have neither blanks nor
// colons.
plim_err hook_environment(const char *library, const char *record, const hook_options *options,
                          hook_variable *variables, size_t *count, plim_error *error);

// Maps the file of a record. NULL if it cannot be read or is not one.
hook_record *hook_record_map(const char *path);
void hook_record_unmap(hook_record *record);

// The device memory that all living processes have.
uint64_t hook_record_used(const hook_record *record, uint32_t device);
// Whether a process of the record still runs.
bool hook_process_lives(const hook_process *process);
// How many slots of `processes` may be in use.
uint32_t hook_record_processes(const hook_record *record);

// Reads events in their order, from number *next on; the first is number 0. Sets *next behind the last one and adds to *lost
// those that were overwritten before they were read, or that a killed process left unfinished. Returns how many `events`
// were read, 0 if there are no newer ones.
size_t hook_record_read(const hook_record *record, uint64_t *next, uint64_t *lost,
                        hook_event *events, size_t most);

// ---- for the library ----------------------------------------------------------------------------

// Without locks and without memory of its own; from any process and thread.
void hook_record_write(hook_record *record, const hook_event *event);

// The device with this UUID, which gets a slot now; HOOK_MAX_DEVICES if there are none left.
uint32_t hook_record_device(hook_record *record, const uint8_t uuid[16], uint64_t total_bytes);

// A slot for this process; NULL if there are none left.
hook_process *hook_record_process(hook_record *record);

#endif
