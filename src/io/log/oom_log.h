// Reads the log of a training run and finds the first out-of-memory error in it, of any library and in any of the forms
// that PyTorch's releases have printed.
//
//   plim_oom_log log;
//   err = plim_oom_log_read("train.log", &log, &error);    // or "-", or plim_oom_log_read_memory
//   if (!err && log.message.kind != PLIM_OOM_NONE) log.message.bytes[PLIM_OOM_WANTED]
//
// The log is read as a stream, in memory that does not grow with it; gzip and xz are decompressed. Colours, carriage
// returns, prefixes of ranks, hosts and loggers are removed, and a message that a terminal has wrapped is put together
// again. Nothing has to be freed: every text is in the struct, cut if it is long.
#ifndef PLIM_IO_OOM_LOG_H
#define PLIM_IO_OOM_LOG_H

#include "plimsoll.h"

// Who reported that memory ran out.
typedef enum {
  PLIM_OOM_NONE,
  PLIM_OOM_ALLOCATOR,     // PyTorch's caching allocator: "CUDA out of memory. Tried to allocate"
  PLIM_OOM_ASYNC,         // its cudaMallocAsync backend
  PLIM_OOM_MPS,           // Apple's GPU
  PLIM_OOM_DRIVER,        // "CUDA error: out of memory": outside the allocator, without numbers
  PLIM_OOM_BLAS,          // cuBLAS, cuDNN and the like could not get their workspace
  PLIM_OOM_BLAS_MAYBE,    // an error of theirs that is often, but not always, a lack of memory
  PLIM_OOM_NCCL,          // a communication buffer
  PLIM_OOM_BITSANDBYTES,  //
  PLIM_OOM_HOST_REQUEST,  // a request for host memory was refused: a CPU tensor, NumPy, new, fork
  PLIM_OOM_HOST_KILLER,   // the kernel, Slurm, Kubernetes or Ray says that it killed a process
  PLIM_OOM_SIGKILL,       // a process was killed by signal 9, and the log does not say by whom
  PLIM_OOM_SHARED_MEMORY, // /dev/shm was full: bus error
  PLIM_OOM_WORKER_KILLED, // a worker of the data loader was killed
  PLIM_OOM_PAGING_FILE,   // Windows' limit of committed memory
  PLIM_OOM_XLA,           // JAX at run time
  PLIM_OOM_XLA_COMPILE,   // XLA knew it when it compiled the program
  PLIM_OOM_TENSORFLOW,    //
  PLIM_OOM_GGML,          // llama.cpp
  PLIM_OOM_VLLM,          // it could not take the memory that it was told to take
  PLIM_OOM_VLLM_CACHE,    // that memory leaves too little for its KV cache
  PLIM_OOM_DISPATCHED, // accelerate put parts of a quantized model on the host, where they cannot be
  PLIM_OOM_BATCH_ZERO, // accelerate tried ever smaller batches, and none fitted
  PLIM_OOM_ON_CHIP,    // a kernel needs more shared memory on the chip than there is
  PLIM_OOM_OTHER,      // some other error that says "out of memory"
  PLIM_OOM_KINDS
} plim_oom_kind;

// The numbers of a message. Which of them a message has depends on its kind.
typedef enum {
  PLIM_OOM_WANTED,     // X: the request that failed; of PyTorch's allocator, the segment
  PLIM_OOM_TOTAL,      // T: of the device
  PLIM_OOM_FREE,       // F: on the device
  PLIM_OOM_PROCESS,    // P: what the driver counts for this process
  PLIM_OOM_ALLOCATED,  // A: in use by PyTorch's tensors
  PLIM_OOM_STRANDED,   // R: reserved by PyTorch, but not allocated
  PLIM_OOM_RESERVED,   // A + R, where the message has it
  PLIM_OOM_ALLOWED,    // a limit that was set below the device's size
  PLIM_OOM_POOLS,      // of A, in private pools (CUDA graphs)
  PLIM_OOM_OUTSIDE,    // MPS: Metal's memory outside PyTorch
  PLIM_OOM_RESIDENT,   // host memory of the process that the kernel killed
  PLIM_OOM_PARAMETERS, // XLA: inputs of the program, mostly weights
  PLIM_OOM_OUTPUTS,    // XLA: outputs
  PLIM_OOM_TEMPORARY,  // XLA: activations and workspace
  PLIM_OOM_PROGRAM,    // XLA: all of these
  PLIM_OOM_FIELDS
} plim_oom_field;

typedef enum {
  PLIM_OOM_UNKNOWN_DEVICE,
  PLIM_OOM_CUDA,
  PLIM_OOM_HIP,
  PLIM_OOM_XPU,
  PLIM_OOM_METAL,
  PLIM_OOM_TPU,
  PLIM_OOM_ACCELERATOR, // another device of PyTorch's
  PLIM_OOM_HOST,
  PLIM_OOM_DEVICES
} plim_oom_device;

// What the program was doing, as its stack or the log shows it.
typedef enum {
  PLIM_RUN_UNKNOWN,
  PLIM_RUN_LOADING,
  PLIM_RUN_TRAINING,
  PLIM_RUN_EVALUATION,
  PLIM_RUN_SAVING,
  PLIM_RUN_RESUMING, // loading a training checkpoint
  PLIM_RUN_PHASES
} plim_run_phase;

// The part of that phase, from the innermost calls.
typedef enum {
  PLIM_RUN_IN_UNKNOWN,
  PLIM_RUN_IN_FORWARD,
  PLIM_RUN_IN_ATTENTION, // scores of an attention that is computed without a fused kernel
  PLIM_RUN_IN_LOSS,      // logits and cross entropy
  PLIM_RUN_IN_BACKWARD,
  PLIM_RUN_IN_OPTIMIZER, // the optimizer's step
  PLIM_RUN_IN_DATA,      // the data loader
  PLIM_RUN_IN_PINNING,   // pinned host memory
  PLIM_RUN_IN_CONTEXT,   // the first use of the GPU: creating the CUDA context
  PLIM_RUN_MOMENTS
} plim_run_moment;

enum { PLIM_OOM_MAX_PROCESSES = 16, PLIM_OOM_TEXT_BYTES = 1536 };

typedef struct {
  uint64_t pid;
  uint64_t bytes; // PLIM_UNKNOWN: the value is impossible
} plim_oom_process;

typedef struct {
  char file[256]; // empty: there is none
  uint64_t line;
  char function[96];
  char code[160]; // the source line, if the traceback shows it
} plim_oom_frame;

typedef struct {
  plim_oom_frame script; // the outermost frame of the user's code
  plim_oom_frame own;    // the innermost frame of the user's code
  plim_oom_frame sign;   // the frame that tells the phase
  plim_oom_frame part;   // the frame that tells the moment
  plim_run_phase phase;
  plim_run_moment moment;
  bool is_loose; // the name of `sign` only suggests the phase
} plim_oom_stack;

typedef struct {
  plim_oom_kind kind;
  plim_oom_device device;
  uint64_t line;                       // of the log, from 1
  uint64_t rank;                       // PLIM_UNKNOWN: the log does not say
  uint64_t index;                      // of the device
  uint64_t bytes[PLIM_OOM_FIELDS];     // PLIM_UNKNOWN: not in the message, or impossible
  bool is_impossible[PLIM_OOM_FIELDS]; // the message has a number that cannot be: 2^64 bytes
  plim_oom_process processes[PLIM_OOM_MAX_PROCESSES]; // as far as the message lists them
  size_t process_count;
  plim_oom_stack stack;           // of the rank that failed
  char text[PLIM_OOM_TEXT_BYTES]; // the message on one line
} plim_oom_message;

// What else the log shows. Counts are PLIM_UNKNOWN if it does not.
typedef struct {
  uint64_t step, total_steps; // progress when the message was printed
  uint64_t later_step;        // the step that was reached after the message; PLIM_UNKNOWN: none
  uint64_t micro_batch, accumulation, effective_batch; // as transformers' Trainer prints them
  uint64_t sample_tokens, sample_limit; // "sequence length is longer than ... (5000 > 2048)"
  uint64_t deepspeed_allocated_bytes, deepspeed_reserved_bytes; // the last see_memory_usage
  uint64_t failed_ranks; // ranks that reported a lack of memory; 0 if the log does not number them
  uint64_t survived;     // earlier messages after which the training went on
  uint64_t growth_bytes; // per step, as plimsoll run has warned
  char leak[320];        // the line that it found to leave memory behind at each step; else empty
  char alloc_conf[160];  // allocator settings, if the log shows them; else empty
  char snapshot[256];    // a memory snapshot that the log names; else empty
  char command[512];     // the training command, if the log shows it; else empty
  bool is_evaluating;    // the last progress bar before the message is that of an evaluation
  bool has_batch_zero;   // accelerate gave up at batch size zero
  bool has_memcg;        // the kernel names the limit of a control group (container, Slurm)
  bool has_vllm, has_wsl;
  bool has_idle_checkpointing; // "None of the inputs have requires_grad=True"
} plim_oom_facts;

typedef struct {
  plim_oom_message message;
  plim_oom_facts facts;
  uint64_t lines;              // in the log
  char last_error[320];        // the last error of another kind; empty: none was seen
  uint64_t last_error_line;    //
  char earlier_error[320];     // another error shortly before a process was killed; else empty
  uint64_t earlier_error_line; //
  char consequence[320];       // the first error after the message that follows from it; else empty
  uint64_t consequence_line;   //
} plim_oom_log;

// Reads a file, or standard input for "-". Fails if it cannot be read or memory runs out; *log is then not filled.
plim_err plim_oom_log_read(const char *path, plim_oom_log *log, plim_error *error);
// The same for a log in memory, such as the last part of one.
plim_err plim_oom_log_read_memory(const void *data, size_t size, plim_oom_log *log,
                                  plim_error *error);

// Names for programs: "allocator", "wanted", "cuda", "evaluation", "backward".
const char *plim_oom_kind_name(plim_oom_kind kind);
const char *plim_oom_field_name(plim_oom_field field);
const char *plim_oom_device_name(plim_oom_device device);
const char *plim_run_phase_name(plim_run_phase phase);
const char *plim_run_moment_name(plim_run_moment moment);

#endif
