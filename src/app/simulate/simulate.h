// Runs the user's program on a simulated card and collects what it did there.
//
//   simulate_request request = {.command = words, .gpu = gpu, .total_bytes = ..., .gpus = 1, .steps = 3};
//   simulate_result result;
//   plim_err err = simulate_run(&request, NULL, NULL, &result, &error);
//   ... result.processes: each with PyTorch's own snapshot, which io/snapshot reads ...
//   simulate_result_clear(&result); // the snapshots are gone then; the log stays
#ifndef PLIM_APP_SIMULATE_H
#define PLIM_APP_SIMULATE_H

#include "card_fault.h"
#include "gpu.h"
#include "plimsoll.h"
#include "sandbox.h"
#include "savers.h"
#include "text_file.h"
#include "vec.h"

typedef struct {
  const char *const *command; // ends with NULL
  const char *stand_ins;      // the folder with libplimsoll-card.so; NULL: beside this program
  const plim_gpu *gpu;        // what the program sees: name, compute capability, multiprocessors
  uint64_t total_bytes;       // of each card, as CUDA reports it
  uint64_t context_bytes;     // of each process on each card that it uses
  uint32_t gpus;
  uint32_t
      world; // ranks that the program is told of, although it starts fewer; 0: as many as it starts
  uint64_t steps; // optimizer steps after which the program is ended; 0: it ends by itself
  const char *const *writable; // folders in which the program's changes are kept
  size_t writable_count;
  const plim_sandbox_replaced *replaced; // files that the program sees in place of others
  size_t replaced_count;
  const char *const
      *variables;            // "NAME=VALUE" of the program's environment; ends with NULL; or NULL
  const savers_args *savers; // or NULL
  const card_fault *faults;  // of the card, at most CARD_MAX_FAULTS
  size_t fault_count;
  bool has_network;
  bool is_unsandboxed; // the program may change everything that its user may
} simulate_request;

// The state of a running program.
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

// A line at which a router chose among experts by floating-point scores, which are not computed.
typedef struct {
  char *file; // owned
  int line;
  uint64_t times, choices, chosen;
} simulate_route;

// A line of the program that read a value which was not computed.
typedef struct {
  char *file; // owned, like the other texts
  int line;
  uint64_t times;
  char *type; // "float32"
  char *told; // the value that the program got: "0", "true"
} simulate_look;

typedef struct {
  char *name, *version;
} simulate_version;

// What the program does, as observed in the running process. NULL or 0: not observed.
typedef struct {
  char *model;     // its class: "Qwen2ForCausalLM"
  char *type;      // model_type of its configuration
  char *attention; // "sdpa"
  uint64_t parameters, trained;
  char *frozen_dtype, *trained_dtype; // of most of those parameters: "float32"
  char *adapters;                     // "LORA"
  uint64_t rank;                      // of the adapters
  double dropout;                     // likewise
  char *targets;                      // the layers that have adapters: "k_proj,q_proj"
  char *autocast;                     // "bfloat16"; "none"
  char *optimizer;
  char *optimizer_name; // one that plim_optimizer_named knows
  char *strategy;       // "none", "ddp", "fsdp2", "deepspeed zero3"
  bool checkpoints, is_reentrant;
  bool has_mask; // the model was given an attention mask
  bool clips;    // gradients, by torch.nn.utils.clip_grad_norm_
  bool scales;   // gradients, by torch.amp.GradScaler
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

// What `profile` measured on a real card. Bytes are PLIM_UNKNOWN and texts NULL if they were not measured.
typedef struct {
  vec(double) step_seconds; // from the end of each step to the end of the next one
  char *card, *uuid;        // of the card on which the process reserved the most
  uint64_t total_bytes;
  // In use on the card and not reserved by this process's PyTorch, other processes included: when training began, and the most.
  uint64_t outside_first_bytes, outside_peak_bytes;
} simulate_measured;

// The exception that ended a process. The text is NULL if there was none.
typedef struct {
  char *text; // "ValueError: no such column"
  char *file; // the line of the program's own files that it passed through last; NULL: not known
  int line;
  uint64_t time_us;
} simulate_failure;

// The time of the last optimizer step on the real card, computed with the clock's rates; all 0 if it is not known. The card
// and the host work at the same time, so the slower one decides.
typedef struct {
  double seconds;
  double product_seconds, attention_seconds; // by their shapes
  double memory_seconds;                     // of the other kernels, by what PyTorch allocated
  double host_seconds;                       // of Python and PyTorch, by the number of kernels
  uint64_t kernels;
} simulate_step;

// One process that imported PyTorch.
typedef struct {
  int64_t pid, rank, world;
  int64_t local_rank; // which of the machine's processes it is: usually that of its card
  simulate_failure failure;
  uint64_t steps;
  uint64_t peak_allocated_bytes, peak_reserved_bytes; // PyTorch's counters, of its fullest card
  simulate_step step;
  uint64_t ooms, retries; // errors that the program saw; requests repeated after freeing
  uint64_t host_bytes;    // the most host memory it had resident
  bool uses_card;
  bool is_grouped;      // with `world`: it made a process group
  bool is_without_cuda; // its PyTorch is a build without CUDA
  bool has_values;      // integers and booleans were computed
  bool was_ended;       // after the steps that were asked for, not by itself
  simulate_measured measured;
  simulate_observed observed;
  savers_done savers;
  vec(simulate_phase) phases; // in the order in which they began
  char *snapshot;             // path of PyTorch's snapshot; NULL: the process did not use a card
  char *config;               // path of the model's own config.json; NULL: it has none
  vec(simulate_look) looks;
  vec(simulate_route) routes;
  bool has_liger, has_bitsandbytes, has_deepspeed; // installed
  bool is_without_triton; // libraries that look for Triton run different code
  vec(simulate_version) versions;
} simulate_process;

// A CUDA function that was called although its result is not modelled.
typedef struct {
  char name[64];
  uint64_t calls;
} simulate_unmodelled;

typedef enum {
  SIMULATE_RAN,           // it made the steps that were asked for, or ended well
  SIMULATE_OUT_OF_MEMORY, // it ended with an out-of-memory error of the card
  SIMULATE_FAILED,        // it ended with another error, which is in its log
} simulate_end;

typedef struct {
  simulate_end end;
  int status;     // of the program, as waitpid gives it
  double seconds; // that it took here
  char log[PLIM_PATH_BYTES];
  char folder[PLIM_PATH_BYTES];    // with the snapshots; removed by simulate_result_clear
  int lock;                        // of that folder; -1: none
  vec(simulate_process) processes; // by rank
  vec(simulate_unmodelled) unmodelled;
  char read_only[320]; // folders that the program could not write to, in the sandbox; empty if none
  uint64_t pinned_bytes;              // the most pinned host memory, of all processes together
  uint64_t peak_bytes;                // the most memory in use on any card, contexts included
  uint32_t sharing;                   // processes that used that card
  uint64_t launches;                  // of kernels
  card_fault faults[CARD_MAX_FAULTS]; // those of the request, and what came of them
  size_t fault_count;
} simulate_result;

// The CUDA_VISIBLE_DEVICES of our own environment if it does not name simulated cards by their numbers: it is about the cards
// of this machine, and the program does not get it. NULL: the program gets what there is.
const char *simulate_other_cards(const simulate_request *request);

// Fails if the program cannot be started. If the program itself fails, that is a result. Clear the result in any case.
plim_err simulate_run(const simulate_request *request, simulate_watch *watch, void *context,
                      simulate_result *result, plim_error *error);
void simulate_result_clear(simulate_result *result);

// The process that needs the most memory of a card; NULL if none used one.
const simulate_process *simulate_fullest(const simulate_result *result);
// Whether the program ran out of memory while it evaluated the model.
bool simulate_ran_out_in_evaluation(const simulate_result *result);
// The process that an exception ended first; NULL if none was.
const simulate_process *simulate_first_failed(const simulate_result *result);
// Optimizer steps of the process that made most.
uint64_t simulate_steps(const simulate_result *result);

#endif
