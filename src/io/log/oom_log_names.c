#include "oom_log.h"

static const char *const kinds[PLIM_OOM_KINDS] = {
    [PLIM_OOM_NONE] = "none",
    [PLIM_OOM_ALLOCATOR] = "allocator",
    [PLIM_OOM_ASYNC] = "cuda_malloc_async",
    [PLIM_OOM_MPS] = "mps",
    [PLIM_OOM_DRIVER] = "driver",
    [PLIM_OOM_BLAS] = "library_workspace",
    [PLIM_OOM_BLAS_MAYBE] = "library_maybe",
    [PLIM_OOM_NCCL] = "nccl",
    [PLIM_OOM_BITSANDBYTES] = "bitsandbytes",
    [PLIM_OOM_HOST_REQUEST] = "host_request",
    [PLIM_OOM_HOST_KILLER] = "host_killer",
    [PLIM_OOM_SIGKILL] = "sigkill",
    [PLIM_OOM_SHARED_MEMORY] = "shared_memory",
    [PLIM_OOM_WORKER_KILLED] = "worker_killed",
    [PLIM_OOM_PAGING_FILE] = "paging_file",
    [PLIM_OOM_XLA] = "xla",
    [PLIM_OOM_XLA_COMPILE] = "xla_compile",
    [PLIM_OOM_TENSORFLOW] = "tensorflow",
    [PLIM_OOM_GGML] = "ggml",
    [PLIM_OOM_VLLM] = "vllm",
    [PLIM_OOM_VLLM_CACHE] = "vllm_cache",
    [PLIM_OOM_DISPATCHED] = "dispatched_to_host",
    [PLIM_OOM_BATCH_ZERO] = "batch_size_zero",
    [PLIM_OOM_ON_CHIP] = "on_chip",
    [PLIM_OOM_OTHER] = "other",
};

static const char *const fields[PLIM_OOM_FIELDS] = {
    [PLIM_OOM_WANTED] = "wanted",       [PLIM_OOM_TOTAL] = "total",
    [PLIM_OOM_FREE] = "free",           [PLIM_OOM_PROCESS] = "process",
    [PLIM_OOM_ALLOCATED] = "allocated", [PLIM_OOM_STRANDED] = "stranded",
    [PLIM_OOM_RESERVED] = "reserved",   [PLIM_OOM_ALLOWED] = "allowed",
    [PLIM_OOM_POOLS] = "private_pools", [PLIM_OOM_OUTSIDE] = "outside",
    [PLIM_OOM_RESIDENT] = "resident",   [PLIM_OOM_PARAMETERS] = "parameters",
    [PLIM_OOM_OUTPUTS] = "outputs",     [PLIM_OOM_TEMPORARY] = "temporary",
    [PLIM_OOM_PROGRAM] = "program",
};

static const char *const devices[PLIM_OOM_DEVICES] = {
    [PLIM_OOM_UNKNOWN_DEVICE] = "unknown",
    [PLIM_OOM_CUDA] = "cuda",
    [PLIM_OOM_HIP] = "hip",
    [PLIM_OOM_XPU] = "xpu",
    [PLIM_OOM_METAL] = "mps",
    [PLIM_OOM_TPU] = "tpu",
    [PLIM_OOM_ACCELERATOR] = "accelerator",
    [PLIM_OOM_HOST] = "host",
};

static const char *const phases[PLIM_RUN_PHASES] = {
    [PLIM_RUN_UNKNOWN] = "unknown",   [PLIM_RUN_LOADING] = "loading",
    [PLIM_RUN_TRAINING] = "training", [PLIM_RUN_EVALUATION] = "evaluation",
    [PLIM_RUN_SAVING] = "saving",     [PLIM_RUN_RESUMING] = "resuming",
};

static const char *const moments[PLIM_RUN_MOMENTS] = {
    [PLIM_RUN_IN_UNKNOWN] = "unknown",     [PLIM_RUN_IN_FORWARD] = "forward",
    [PLIM_RUN_IN_ATTENTION] = "attention", [PLIM_RUN_IN_LOSS] = "loss",
    [PLIM_RUN_IN_BACKWARD] = "backward",   [PLIM_RUN_IN_OPTIMIZER] = "optimizer_step",
    [PLIM_RUN_IN_DATA] = "data_loader",    [PLIM_RUN_IN_PINNING] = "pinned_memory",
    [PLIM_RUN_IN_CONTEXT] = "context",
};

const char *plim_oom_kind_name(plim_oom_kind kind) { return kinds[kind]; }
const char *plim_oom_field_name(plim_oom_field field) { return fields[field]; }
const char *plim_oom_device_name(plim_oom_device device) { return devices[device]; }
const char *plim_run_phase_name(plim_run_phase phase) { return phases[phase]; }
const char *plim_run_moment_name(plim_run_moment moment) { return moments[moment]; }
