// Decides what the cause is: for messages with numbers by the numbers, in a fixed order; for the others by who reported
// it and what the program was doing.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "explain_impl.h"

#define OTHER_SHARE 0.05      // of the GPU: below it, display and driver
#define FRAGMENTED_SHARE 0.10 // of the GPU: stranded memory that certainly matters
// Stranded memory that would have served the request is the cause only if it is more than this share of the GPU;
// otherwise the GPU is full, and the next request would fail.
#define STRANDED_SHARE 0.03
#define LIBRARY_BYTES (2 * PLIM_GIB) // a CUDA context with cuBLAS and cuDNN takes less than 1 GiB
#define OUTSIDE_SHARE                                                                              \
  0.15 // of the GPU: libraries and others, where a message does not separate them
// Of the GPU: memory that grew by less is not what filled it; by judgement.
#define GROWN_SHARE 0.10
#define LARGEST_GPU (1024 * PLIM_GIB) // for messages that do not say how large the GPU is
// An expandable segment grows by whole pages of this size, so a request may fail although a little more than it asks for
// is free; PyTorch kLargeBuffer.
#define PAGE_BYTES (20 * PLIM_MIB)
#define ABSURD_FACTOR 16 // a request of so many times the GPU is a mistake in a shape

void explain_conclude(explain_case *c, explain_verdict verdict, explain_surety surety,
                      const char *format, ...) {
  va_list args;
  va_start(args, format);
  free(c->out->summary);
  c->out->verdict = verdict;
  c->out->surety = surety;
  if (vasprintf(&c->out->summary, format, args) < 0)
    c->out->summary = NULL, c->out->has_no_memory = true;
  va_end(args);
}

void explain_doubt(explain_case *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  free(c->out->why_not_sure);
  if (vasprintf(&c->out->why_not_sure, format, args) < 0)
    c->out->why_not_sure = NULL, c->out->has_no_memory = true;
  va_end(args);
}

// ---- by the phase -----------------------------------------------------------------------------------

// Evaluation, saving and resuming have cures of their own. Returns false for other phases.
static bool decide_phase(explain_case *c) {
  explain_surety surety = c->facts->phase != PLIM_RUN_UNKNOWN ? EXPLAIN_CERTAIN : EXPLAIN_LIKELY;
  switch (c->out->phase) {
  case PLIM_RUN_EVALUATION:
    explain_conclude(c, EXPLAIN_EVALUATION, surety,
                     "evaluation needs more memory than training does");
    break;
  case PLIM_RUN_SAVING:
    explain_conclude(c, EXPLAIN_SAVING, surety,
                     "saving a checkpoint needs more memory than training leaves free");
    break;
  case PLIM_RUN_RESUMING:
    explain_conclude(c, EXPLAIN_RESUMING, surety,
                     "a checkpoint was loaded to the GPU while the model was already there");
    break;
  default: return false;
  }
  const char *sign = c->message->stack.sign.function;
  if (surety != EXPLAIN_CERTAIN && *sign)
    explain_doubt(c, "the phase is concluded from the function %s in the traceback", sign);
  else if (surety != EXPLAIN_CERTAIN)
    explain_doubt(c, "the phase is concluded from the last progress bar before the message");
  return true;
}

// ---- by the numbers ---------------------------------------------------------------------------------

static bool is_impossible(const explain_case *c) {
  if (!explain_is_known(c->total) && explain_exceeds(c->wanted, LARGEST_GPU, 1)) return true;
  return explain_exceeds(c->wanted, c->total, 1) || c->message->is_impossible[PLIM_OOM_WANTED];
}

bool explain_is_absurd(const explain_case *c) {
  return c->message->is_impossible[PLIM_OOM_WANTED] ||
         explain_exceeds(c->wanted, c->total, ABSURD_FACTOR) ||
         (!explain_is_known(c->total) && explain_exceeds(c->wanted, LARGEST_GPU, 1));
}

static void decide_impossible(explain_case *c) {
  bool is_absurd = explain_is_absurd(c);
  if (!is_absurd && decide_phase(c)) return;
  explain_conclude(
      c, EXPLAIN_IMPOSSIBLE_TENSOR, EXPLAIN_CERTAIN,
      is_absurd ? "one tensor of an absurd size was requested: this looks like a mistake in a shape"
                : "one tensor alone is larger than the whole GPU");
}

static uint64_t listed_bytes(const explain_case *c) {
  uint64_t sum = 0;
  for (size_t i = 0; i < c->message->process_count; i++)
    if (!c->is_own_process[i] && explain_is_known(c->message->processes[i].bytes))
      sum += c->message->processes[i].bytes;
  for (size_t i = 0; i < c->facts->other_count; i++) {
    const explain_process *p = &c->facts->others[i];
    if (explain_is_known(p->used_bytes) && !explain_is_listed(c, p->pid)) sum += p->used_bytes;
  }
  return sum;
}

// Other processes matter if they take a real share of the GPU, or if this request would have fitted without them.
static bool decide_other_process(explain_case *c) {
  uint64_t others = c->out->other_bytes, listed = listed_bytes(c);
  bool was_short = explain_is_known(c->wanted) && explain_is_known(c->free) &&
                   c->wanted > c->free && listed >= c->wanted - c->free &&
                   explain_exceeds(listed, c->total, 0.01);
  bool is_listed = was_short || explain_exceeds(listed, c->total, OTHER_SHARE);
  if (!is_listed && !explain_exceeds(others, c->total, OTHER_SHARE)) return false;
  explain_conclude(c, EXPLAIN_OTHER_PROCESS, is_listed ? EXPLAIN_CERTAIN : EXPLAIN_LIKELY,
                   "other processes use %s of this GPU", BYTES(is_listed ? listed : others));
  if (!is_listed)
    explain_doubt(c,
                  "the message does not list the processes; the amount is what the GPU has minus "
                  "what is free and what this process uses");
  return true;
}

// Without the growth this request would have fitted. Whether another process grew is decided before.
static bool decide_growth(explain_case *c) {
  const explain_growth *g = &c->growth;
  bool has_sum = explain_is_known(g->grown_bytes);
  uint64_t room = (has_sum ? g->grown_bytes : 0) + (explain_is_known(c->free) ? c->free : 0);
  if (!explain_is_known(g->per_step_bytes) || !explain_is_known(c->wanted)) return false;
  if (has_sum && (!explain_exceeds(g->grown_bytes, c->total, GROWN_SHARE) || room < c->wanted))
    return false;
  c->out->is_by_growth = true;
  bool is_certain = has_sum && (c->facts->growth || g->lines);
  char sum[64] = "";
  if (has_sum) snprintf(sum, sizeof sum, ", by %s in all", BYTES(g->grown_bytes));
  explain_conclude(
      c, g->is_outside ? EXPLAIN_LIBRARIES : EXPLAIN_LEAK,
      is_certain ? EXPLAIN_CERTAIN : EXPLAIN_LIKELY, "%s grew by %s with each step%s%s%s",
      g->is_outside ? "GPU memory outside PyTorch's allocator" : "a leak filled the GPU: memory",
      BYTES(g->per_step_bytes), sum, g->lines ? "; it is allocated at " : "",
      g->lines ? g->lines : "");
  if (!is_certain)
    explain_doubt(c, has_sum ? "no line was found that leaves memory behind at every step"
                             : "the log does not say how many steps were made");
  return true;
}

static bool decide_fragmentation(explain_case *c) {
  bool is_spilled =
      explain_exceeds(c->allocated, c->total, 1); // then pieces are the least of the problem
  if (!explain_is_known(c->stranded) || !explain_is_known(c->wanted) || is_spilled) return false;
  uint64_t room = c->stranded + (explain_is_known(c->free) ? c->free : 0);
  bool is_large = explain_exceeds(c->stranded, c->total, FRAGMENTED_SHARE);
  bool is_enough =
      c->stranded > c->wanted && explain_exceeds(c->stranded, c->total, STRANDED_SHARE);
  if (room < c->wanted || (!is_large && !is_enough)) return false;
  explain_conclude(c, EXPLAIN_FRAGMENTATION, is_large ? EXPLAIN_CERTAIN : EXPLAIN_LIKELY,
                   "%s of the memory that PyTorch reserved lies in pieces that are too small",
                   BYTES(c->stranded));
  if (!is_large)
    explain_doubt(c,
                  "it would have been enough for this request, but it is only %.0f %% of the GPU",
                  100 * (double)c->stranded / (double)c->total);
  return true;
}

static bool decide_libraries(explain_case *c) {
  uint64_t bytes = c->out->library_bytes;
  if (!explain_is_known(bytes) || bytes <= LIBRARY_BYTES) return false;
  explain_conclude(c, EXPLAIN_LIBRARIES, EXPLAIN_CERTAIN,
                   "%s of this process's GPU memory are used outside PyTorch's allocator",
                   BYTES(bytes));
  return true;
}

// PyTorch before 2.1 does not tell this process's memory from others'.
static bool decide_outside(explain_case *c) {
  bool is_separate =
      explain_is_known(c->process) || explain_is_known(c->message->bytes[PLIM_OOM_ALLOWED]);
  if (is_separate || !explain_exceeds(c->outside, c->total, OUTSIDE_SHARE) ||
      c->outside <= LIBRARY_BYTES)
    return false;
  explain_conclude(c, EXPLAIN_OTHER_PROCESS, EXPLAIN_LIKELY,
                   "%s of the GPU are used outside PyTorch's allocator", BYTES(c->outside));
  explain_doubt(
      c, "the message does not say whether another process or a library of this process uses it");
  return true;
}

static bool decide_cap(explain_case *c) {
  if (!explain_is_known(c->message->bytes[PLIM_OOM_ALLOWED])) return false;
  uint64_t allowed = c->message->bytes[PLIM_OOM_ALLOWED];
  if (explain_is_known(c->total) && allowed >= c->total) return false;
  explain_conclude(c, EXPLAIN_CAP, EXPLAIN_CERTAIN,
                   "a limit was set: PyTorch may use only %s of the GPU", BYTES(allowed));
  return true;
}

static bool decide_transient(explain_case *c) {
  if (!explain_is_known(c->free) || !explain_is_known(c->wanted) ||
      c->free < c->wanted + PAGE_BYTES)
    return false;
  explain_conclude(
      c, EXPLAIN_TRANSIENT, EXPLAIN_LIKELY,
      "%s were free when the message was written, more than the %s that were requested",
      BYTES(c->free), BYTES(c->wanted));
  explain_doubt(
      c, "another process may have freed memory in between, or the system limits what one process "
         "may use (WSL and Windows do)");
  return true;
}

// ---- a real shortage --------------------------------------------------------------------------------

// The lengths of the samples are known.
static void decide_by_lengths(explain_case *c, const char *steps) {
  unsigned long long tokens = c->facts->sample_tokens, before = c->facts->usual_tokens;
  if (tokens > before) {
    explain_conclude(c, EXPLAIN_LONG_SAMPLE, EXPLAIN_CERTAIN,
                     "%s steps fitted, then a batch was longer than all before it: %llu tokens per "
                     "sample, at most %llu before",
                     steps, tokens, before);
    return;
  }
  explain_conclude(c, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY,
                   "%s steps fitted, then one needed more memory although its samples are not "
                   "longer: %llu tokens, at most %llu before",
                   steps, tokens, before);
  explain_doubt(c, "memory that grows from step to step (a leak) ends in the same way");
}

// The optimizer's step needs the same memory each time. Only the caller knows that optimizer steps were counted, and not
// the micro batches of one.
static bool decide_late_optimizer(explain_case *c) {
  if (c->out->moment != PLIM_RUN_IN_OPTIMIZER || explain_had_steps(c) != EXPLAIN_YES) return false;
  if (!explain_is_known(c->facts->step)) {
    explain_conclude(
        c, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY,
        "the optimizer's step needs more memory than weights and gradients leave free");
    explain_doubt(c, "if optimizer steps were completed before this one, memory has grown since "
                     "then (a leak)");
    return true;
  }
  explain_conclude(
      c, EXPLAIN_LEAK, EXPLAIN_LIKELY,
      "%llu optimizer steps fitted and the next one did not: memory has grown since then",
      (unsigned long long)c->out->step);
  explain_doubt(c, "the log does not show how memory grew; layers that are trained only from this "
                   "step on need new optimizer state too");
  return true;
}

static bool decide_long_sample(explain_case *c) {
  bool is_training = c->out->phase == PLIM_RUN_TRAINING || c->out->phase == PLIM_RUN_UNKNOWN;
  bool depends_on_batch = c->out->moment != PLIM_RUN_IN_OPTIMIZER;
  char steps[32] = "earlier";
  if (!is_training || !depends_on_batch || explain_had_steps(c) != EXPLAIN_YES) return false;
  if (explain_is_known(c->out->step))
    snprintf(steps, sizeof steps, "%llu", (unsigned long long)c->out->step);
  if (explain_is_known(c->facts->sample_tokens) && explain_is_known(c->facts->usual_tokens)) {
    decide_by_lengths(c, steps);
    return true;
  }
  explain_conclude(c, EXPLAIN_LONG_SAMPLE, EXPLAIN_LIKELY,
                   "%s steps fitted, then a batch needed more memory than those before it", steps);
  explain_doubt(
      c, "the log does not show the lengths of the samples; memory that grows from step to step (a "
         "leak) ends in the same way");
  return true;
}

// Some devices do not report free memory. If what PyTorch holds and asks for is far below the device's size, something
// else takes the rest, or the driver limits a single allocation.
static bool decide_missing(explain_case *c) {
  if (explain_is_known(c->free) || !explain_is_known(c->allocated) || !explain_is_known(c->wanted))
    return false;
  uint64_t needed = c->allocated + c->wanted + (explain_is_known(c->stranded) ? c->stranded : 0);
  if (!explain_exceeds(c->total, needed, 1.25)) return false;
  explain_conclude(c, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE,
                   "PyTorch would have needed only %s of the %s that the GPU has", BYTES(needed),
                   BYTES(c->total));
  explain_doubt(c, "the message does not say what is free: other processes may use the rest, or "
                   "the driver may limit the "
                   "size of one allocation");
  return true;
}

static void decide_shortage(explain_case *c) {
  bool has_numbers = explain_is_known(c->allocated) && explain_is_known(c->total);
  if (decide_missing(c) || decide_phase(c) || decide_late_optimizer(c) || decide_long_sample(c))
    return;
  const char *what = "the program needs more memory than the GPU has";
  if (c->out->phase == PLIM_RUN_LOADING) what = "the model does not fit in the memory of the GPU";
  else if (c->out->moment == PLIM_RUN_IN_OPTIMIZER)
    what = "the optimizer's step needs more memory than weights and gradients leave free";
  explain_conclude(c, EXPLAIN_SHORTAGE, has_numbers ? EXPLAIN_CERTAIN : EXPLAIN_LIKELY, "%s", what);
  if (!has_numbers) explain_doubt(c, "the message does not say how the memory was used");
}

// Apple's limit is shared with the rest of the system.
static void decide_mps(explain_case *c) {
  uint64_t allowed = c->message->bytes[PLIM_OOM_ALLOWED],
           outside = c->message->bytes[PLIM_OOM_OUTSIDE];
  if (explain_exceeds(c->wanted, allowed, 1)) {
    explain_conclude(c, EXPLAIN_IMPOSSIBLE_TENSOR, EXPLAIN_CERTAIN,
                     "one tensor alone is larger than the %s that PyTorch may use", BYTES(allowed));
  } else if (explain_exceeds(outside, allowed, 0.5)) {
    explain_conclude(c, EXPLAIN_LIBRARIES, EXPLAIN_CERTAIN,
                     "%s are used outside PyTorch's allocator on the GPU", BYTES(outside));
  } else if (!decide_phase(c) && !decide_growth(c) && !decide_long_sample(c)) {
    explain_conclude(c, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN,
                     "the program needs more than the %s that PyTorch may use here",
                     BYTES(allowed));
  }
}

static void decide_by_numbers(explain_case *c) {
  bool has_numbers = explain_is_known(c->wanted) || c->message->is_impossible[PLIM_OOM_WANTED];
  if (!has_numbers && !explain_is_known(c->total)) {
    if (decide_phase(c)) return;
    explain_conclude(c, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE,
                     "the GPU ran out of memory; the log does not say why");
    explain_doubt(c, "the message has no numbers");
    return;
  }
  if (is_impossible(c)) decide_impossible(c);
  else if (decide_other_process(c) || decide_growth(c) || decide_fragmentation(c) ||
           decide_libraries(c) || decide_outside(c) || decide_cap(c) || decide_transient(c))
    return;
  else decide_shortage(c);
}

// ---- without numbers --------------------------------------------------------------------------------

// "CUDA error: out of memory": outside the allocator.
static void decide_driver(explain_case *c) {
  if (c->out->moment == PLIM_RUN_IN_PINNING) {
    explain_conclude(c, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY,
                     "pinned host memory could not be allocated");
    explain_doubt(c, "the stack of such an error may be that of a later call");
  } else if (c->out->moment == PLIM_RUN_IN_CONTEXT) {
    explain_conclude(c, EXPLAIN_OTHER_PROCESS, EXPLAIN_LIKELY,
                     "the GPU was already full when this process used it for the first time");
    explain_doubt(c, "the message has no numbers; plimsoll check shows what uses the GPU now");
  } else if (explain_is_known(c->wanted)) {
    decide_by_numbers(c);
  } else if (!decide_phase(c)) {
    explain_conclude(
        c, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE,
        "an allocation outside PyTorch's allocator failed; the log does not say which");
    explain_doubt(c, "the message has no numbers, and the stack may be that of a later call");
  }
}

static void decide_blas(explain_case *c) {
  if (c->kind == PLIM_OOM_BLAS) {
    explain_conclude(c, EXPLAIN_LIBRARIES, EXPLAIN_LIKELY,
                     "no GPU memory was left for the workspace of a CUDA library");
    explain_doubt(
        c, "an index out of range or libraries of different CUDA versions end in the same error");
  } else {
    explain_conclude(c, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE,
                     "a CUDA library failed, perhaps for lack of memory");
    explain_doubt(
        c,
        "this error has other causes too: an index out of range, or a size that is not supported");
  }
}

static void decide_nccl(explain_case *c) {
  explain_conclude(c, EXPLAIN_LIBRARIES, EXPLAIN_CERTAIN,
                   "no GPU memory was left for a buffer of NCCL");
}

static void decide_bitsandbytes(explain_case *c) {
  bool is_managed = strstr(c->message->text, "pythonInterface") != NULL;
  explain_conclude(c, is_managed ? EXPLAIN_HOST_MEMORY : EXPLAIN_UNCLEAR,
                   is_managed ? EXPLAIN_LIKELY : EXPLAIN_NOT_SURE,
                   is_managed
                       ? "bitsandbytes could not allocate paged memory, which lies in host memory"
                       : "bitsandbytes could not allocate memory");
  explain_doubt(c, "bitsandbytes prints neither sizes nor whether it asked the GPU or the host");
}

static void decide_killed(explain_case *c) {
  bool is_said = c->kind == PLIM_OOM_HOST_KILLER || c->facts->has_oom_kill == EXPLAIN_YES;
  bool is_denied = c->facts->has_oom_kill == EXPLAIN_NO;
  if (is_said) {
    explain_conclude(c, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN,
                     "the host ran out of memory, so the system killed a process");
  } else if (*c->log->earlier_error) {
    explain_conclude(
        c, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE,
        "a process was killed (signal 9) after another error, most likely because of it");
    explain_doubt(c, "the log does not say who killed it");
  } else if (is_denied) {
    explain_conclude(
        c, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE,
        "the process was killed (signal 9), but the kernel counted no out-of-memory kill in its "
        "container");
    explain_doubt(c, "a person, a time limit or the machine's own out-of-memory killer may have "
                     "killed it");
  } else {
    explain_conclude(
        c, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY,
        "the process was killed (signal 9), most likely because the host ran out of memory");
    explain_doubt(
        c, "the log does not say who killed it; a time limit or a person may have done it too");
  }
}

static void decide_shared_memory(explain_case *c) {
  bool is_said =
      c->message->kind == PLIM_OOM_SHARED_MEMORY &&
      (strstr(c->message->text, "shared memory") || strstr(c->message->text, "No space left"));
  explain_conclude(c, EXPLAIN_HOST_MEMORY, is_said ? EXPLAIN_CERTAIN : EXPLAIN_LIKELY,
                   "shared memory (/dev/shm) ran out");
  if (!is_said)
    explain_doubt(c, "a bus error (signal 7) can also come from a damaged or truncated file");
}

// Network adapters need memory that stays in place, of which a process may have only a little.
static void decide_locked(explain_case *c) {
  explain_conclude(c, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, "InfiniBand could not lock host memory");
  explain_doubt(c, "the limit on locked memory (ulimit -l) is the usual cause, but a host without "
                   "free memory fails in the same way");
}

static void decide_host(explain_case *c) {
  if (strstr(c->message->text, "ibv_")) {
    decide_locked(c);
    return;
  }
  bool is_worker = c->kind == PLIM_OOM_WORKER_KILLED;
  explain_conclude(
      c, EXPLAIN_HOST_MEMORY, is_worker ? EXPLAIN_LIKELY : EXPLAIN_CERTAIN,
      c->kind == PLIM_OOM_PAGING_FILE
          ? "Windows could not reserve memory: the paging file is too small"
      : is_worker
          ? "a worker of the data loader was killed, most likely because the host ran out of memory"
          : "the host had no memory for a request");
  if (is_worker) explain_doubt(c, "the log does not say who killed the worker");
}

static void decide_xla(explain_case *c) {
  if (c->kind == PLIM_OOM_XLA_COMPILE)
    explain_conclude(c, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN,
                     "the compiled program needs more memory than the device has");
  else if (is_impossible(c)) decide_impossible(c);
  else decide_shortage(c);
}

static void decide_tensorflow(explain_case *c) {
  if (c->message->device == PLIM_OOM_HOST) decide_host(c);
  else if (is_impossible(c)) decide_impossible(c);
  else decide_shortage(c);
}

static void decide_ggml(explain_case *c) {
  explain_conclude(c, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY,
                   "llama.cpp needs more memory than the GPU has free");
  explain_doubt(c, "cudaMalloc also fails if the host has little memory left");
}

static void decide_vllm(explain_case *c) {
  explain_conclude(c, EXPLAIN_LIBRARIES, EXPLAIN_LIKELY,
                   "vLLM could not get the share of the GPU that it was told to take");
  explain_doubt(c, "the message does not say what else used the GPU");
}

static void decide_vllm_cache(explain_case *c) {
  explain_conclude(c, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY,
                   "vLLM's share of the GPU leaves too little for its KV cache");
  explain_doubt(c, "the message does not say what else uses the GPU");
}

static void decide_dispatched(explain_case *c) {
  explain_conclude(c, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY,
                   "the quantized model does not fit in the GPU memory that was free, so "
                   "device_map put a part of it on the CPU");
  explain_doubt(c, "the message does not say what else used the GPU, such as another process or a "
                   "model that was loaded before; a device_map of your own has the same effect");
}

static void decide_batch_zero(explain_case *c) {
  explain_conclude(
      c, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY,
      "no batch size fits, not even 1: weights, gradients and optimizer state are too large");
  explain_doubt(c, "accelerate counts some other errors of cuDNN as a lack of memory");
}

static void decide_on_chip(explain_case *c) {
  explain_conclude(c, EXPLAIN_ON_CHIP, EXPLAIN_CERTAIN,
                   "a Triton kernel needs more on-chip resources (shared memory, threads) than "
                   "this GPU has; this "
                   "is not GPU memory");
}

static void decide_other(explain_case *c) {
  explain_conclude(c, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE,
                   "an out-of-memory error that plimsoll does not know");
  explain_doubt(c, "the message has no numbers that plimsoll can read");
}

static void decide_none(explain_case *c) {
  explain_conclude(c, EXPLAIN_NO_OOM, EXPLAIN_CERTAIN, "the log has no out-of-memory error");
}

static void (*const deciders[PLIM_OOM_KINDS])(explain_case *) = {
    [PLIM_OOM_NONE] = decide_none,
    [PLIM_OOM_ALLOCATOR] = decide_by_numbers,
    [PLIM_OOM_ASYNC] = decide_by_numbers,
    [PLIM_OOM_MPS] = decide_mps,
    [PLIM_OOM_DRIVER] = decide_driver,
    [PLIM_OOM_BLAS] = decide_blas,
    [PLIM_OOM_BLAS_MAYBE] = decide_blas,
    [PLIM_OOM_NCCL] = decide_nccl,
    [PLIM_OOM_BITSANDBYTES] = decide_bitsandbytes,
    [PLIM_OOM_HOST_REQUEST] = decide_host,
    [PLIM_OOM_HOST_KILLER] = decide_killed,
    [PLIM_OOM_SIGKILL] = decide_killed,
    [PLIM_OOM_SHARED_MEMORY] = decide_shared_memory,
    [PLIM_OOM_WORKER_KILLED] = decide_host,
    [PLIM_OOM_PAGING_FILE] = decide_host,
    [PLIM_OOM_XLA] = decide_xla,
    [PLIM_OOM_XLA_COMPILE] = decide_xla,
    [PLIM_OOM_TENSORFLOW] = decide_tensorflow,
    [PLIM_OOM_GGML] = decide_ggml,
    [PLIM_OOM_VLLM] = decide_vllm,
    [PLIM_OOM_VLLM_CACHE] = decide_vllm_cache,
    [PLIM_OOM_DISPATCHED] = decide_dispatched,
    [PLIM_OOM_BATCH_ZERO] = decide_batch_zero,
    [PLIM_OOM_ON_CHIP] = decide_on_chip,
    [PLIM_OOM_OTHER] = decide_other,
};

void explain_decide(explain_case *c) { deciders[c->kind](c); }
