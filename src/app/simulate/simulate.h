// Runs the user's program on a simulated card and collects what it did there.
//
//   simulate_request request = {.command = words, .gpu = gpu, .total_bytes = ..., .gpus = 1, .steps = 3};
//   simulate_result result;
//   plim_err err = simulate_run(&request, NULL, NULL, &result, &error);
//   ... result.processes: each with PyTorch's own snapshot, which io/snapshot reads ...
//   simulate_result_clear(&result); // the snapshots are gone then; the log stays
#ifndef PLIM_APP_SIMULATE_H
#define PLIM_APP_SIMULATE_H

#include "gpu.h"
#include "plimsoll.h"
#include "sandbox.h"
#include "text_file.h"
#include "vec.h"

typedef struct {
  const char *const *command; // ends with NULL
  const char *stand_ins;      // the folder with libplimsoll-card.so; NULL: beside this program
  const plim_gpu *gpu;        // what the program sees: name, compute capability, multiprocessors
  uint64_t total_bytes;       // of each card, as CUDA reports it
  uint64_t context_bytes;     // of each process on each card that it uses
  uint32_t gpus;
  uint64_t steps; // optimizer steps after which the program is ended; 0: it ends by itself
  const char *const *writable; // folders in which the program's changes are kept
  size_t writable_count;
  const plim_sandbox_replaced *replaced; // files that the program sees in place of others
  size_t replaced_count;
  bool has_network;
  bool is_unsandboxed; // the program may change everything that its user may
} simulate_request;

// What is to be seen while the program runs.
typedef struct {
  uint64_t steps;           // optimizer steps that are finished
  uint64_t used_bytes;      // on the fullest card
  uint64_t allocated_bytes; // by PyTorch, after the last step
  double seconds;           // since the start
  const char *log;          // what the program has printed
} simulate_moment;

// Called several times a second.
typedef void simulate_watch(void *context, const simulate_moment *now);

#define SIMULATE_KEPT_LOGS 20 // of the newest runs; older ones are removed when a run begins
#define SIMULATE_LARGE_ENOUGH (1ull << 40) // bytes; more than any card

// A line at which a router chose among experts by floats that nobody computed.
typedef struct {
  char *file; // owned
  int line;
  uint64_t times, choices, chosen;
} simulate_route;

// A line of the program that looked at a value which nobody computed.
typedef struct {
  char *file; // owned, like the other texts
  int line;
  uint64_t times;
  char *type; // "float32"
  char *told; // what the program was told: "0", "true"
} simulate_look;

typedef struct {
  char *name, *version;
} simulate_version;

// What the program really does, read off the running process. Texts are NULL and numbers 0 where it was not seen.
typedef struct {
  char *model;     // its class: "Qwen2ForCausalLM"
  char *type;      // model_type of its configuration
  char *attention; // "sdpa"
  uint64_t parameters, trained;
  char *adapters; // "LORA"
  uint64_t rank;  // of the adapters
  char *autocast; // "bfloat16"; "none"
  char *optimizer;
  char *strategy; // "none", "ddp", "fsdp2", "deepspeed zero3"
  bool checkpoints;
  uint64_t accumulation;
  uint64_t batch
      [2]; // the first sizes of the largest batch: with has_tokens sequences, and tokens of each
  bool has_tokens; // the batch is of integers
  uint64_t shapes; // how many shapes the batches had
} simulate_observed;

typedef struct {
  uint64_t time_us; // of the clock that the snapshot uses
  char *name;       // "loading", "training", "optimizer", "evaluation", "saving"
} simulate_phase;

// One process that imported PyTorch.
typedef struct {
  int64_t pid, rank, world;
  uint64_t steps;
  uint64_t peak_allocated_bytes, peak_reserved_bytes; // PyTorch's counters, of its fullest card
  uint64_t ooms, retries; // errors that the program saw; requests repeated after freeing
  uint64_t host_bytes;    // the most host memory it had resident
  char *error;            // the exception that ended it: "OutOfMemoryError"; NULL: none
  bool uses_card;
  bool is_without_cuda; // its PyTorch is a build without CUDA
  bool has_values;      // integers and booleans were computed
  simulate_observed observed;
  vec(simulate_phase) phases; // in the order in which they began
  char *snapshot;             // path of PyTorch's snapshot; NULL: the process did not use a card
  vec(simulate_look) looks;
  vec(simulate_route) routes;
  bool is_without_triton; // libraries that look for Triton take other paths
  vec(simulate_version) versions;
} simulate_process;

// A function of CUDA's that was called and whose result is not modelled.
typedef struct {
  char name[64];
  uint64_t calls;
} simulate_unmodelled;

typedef enum {
  SIMULATE_RAN,           // it made the steps that were asked for, or ended well
  SIMULATE_OUT_OF_MEMORY, // it ended with an out-of-memory error of the card
  SIMULATE_FAILED,        // it ended with another error, which its log tells
} simulate_end;

typedef struct {
  simulate_end end;
  int status;     // of the program, as waitpid gives it
  double seconds; // that it took here
  char log[PLIM_PATH_BYTES];
  char folder[PLIM_PATH_BYTES];    // with the snapshots; removed by simulate_result_clear
  vec(simulate_process) processes; // by rank
  vec(simulate_unmodelled) unmodelled;
  char read_only[320]; // folders that the program could not write to, in the sandbox; empty if none
  uint64_t pinned_bytes; // the most pinned host memory, of all processes together
  uint64_t peak_bytes;   // the most memory in use on any card, contexts included
  uint64_t launches;     // of kernels
} simulate_result;

// Fails if the program cannot be started. A program that fails is a result. Whatever the outcome, clear the result.
plim_err simulate_run(const simulate_request *request, simulate_watch *watch, void *context,
                      simulate_result *result, plim_error *error);
void simulate_result_clear(simulate_result *result);

// The process that needs the most memory of a card; NULL if none used one.
const simulate_process *simulate_fullest(const simulate_result *result);
// Optimizer steps of the process that made most.
uint64_t simulate_steps(const simulate_result *result);

#endif
