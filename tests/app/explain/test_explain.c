// One log for each form of message, with the verdict that it must get; and what a caller knows beside the log.
#include "explain.h"
#include "test.h"

#define LIB "/opt/conda/lib/python3.11/site-packages/"
#define TRACE "Traceback (most recent call last):\n"
#define FRAME(file, function) "  File \"" file "\", line 7, in " function "\n    x()\n"
#define NEW(wanted, total, free, process, allocated, stranded)                                     \
  "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " wanted                          \
  ". GPU 0 has a total capacity of " total " of which " free                                       \
  " is free. Including non-PyTorch memory, this process has " process                              \
  " memory in use. Of the allocated memory " allocated " is allocated by PyTorch, and " stranded   \
  " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try "      \
  "setting "                                                                                       \
  "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "   \
  "for Memory "                                                                                    \
  "Management\n"
#define FULL NEW("512.00 MiB", "23.65 GiB", "212.00 MiB", "23.10 GiB", "22.30 GiB", "180.00 MiB")
#define BAR(step) " 3%|▎         | " step "/1000 [00:12<06:40,  2.43it/s]\n"
#define TRAINING FRAME("train.py", "<module>") FRAME(LIB "transformers/trainer.py", "training_step")

typedef struct {
  const char *name, *log;
  plim_oom_kind kind;
  explain_verdict verdict;
  explain_surety surety;
  explain_cure_kind first; // the cure to try first; EXPLAIN_CURES: none
  bool allows_batch;       // a smaller batch may be suggested
} shape;

static const shape shapes[] = {
    // ---- PyTorch's allocator, all generations
    {"torch 1.3, much free",
     "RuntimeError: CUDA out of memory. Tried to allocate 14.50 MiB (GPU 1; 10.92 GiB total "
     "capacity; 9.57 MiB already "
     "allocated; 9.18 GiB free; 5.68 MiB cached)\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_TRANSIENT, EXPLAIN_LIKELY, EXPLAIN_CURE_RETRY, false},
    {"a quantized model that does not fit",
     "ValueError: Some modules are dispatched on the CPU or the disk. Make sure you have enough "
     "GPU "
     "RAM to fit the quantized model.\n",
     PLIM_OOM_DISPATCHED, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_STATE, false},
    {"what plimsoll run says about a kill",
     "plimsoll: the process was killed (signal 9), but the kernel counted no out-of-memory kill\n",
     PLIM_OOM_NONE, EXPLAIN_NO_OOM, EXPLAIN_CERTAIN, EXPLAIN_CURES, false},
    {"a little more than the request is free, but less than a page of an expandable segment",
     NEW("126.00 MiB", "1.83 GiB", "138.00 MiB", "1.69 GiB", "920.00 MiB", "8.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"torch 1.3, fragmented",
     "RuntimeError: CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; 10.92 GiB total "
     "capacity; 5.00 GiB already "
     "allocated; 200.00 MiB free; 4.90 GiB cached)\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_FRAGMENTATION, EXPLAIN_CERTAIN, EXPLAIN_CURE_EXPANDABLE_SEGMENTS,
     false},
    {"torch 1.8, full",
     "RuntimeError: CUDA out of memory. Tried to allocate 226.00 MiB (GPU 0; 6.00 GiB total "
     "capacity; 4.59 GiB already "
     "allocated; 3.03 MiB free; 4.64 GiB reserved in total by PyTorch)\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"torch 1.8, most of the GPU used outside",
     "RuntimeError: CUDA out of memory. Tried to allocate 50.00 MiB (GPU 0; 15.90 GiB total "
     "capacity; 1.20 GiB already "
     "allocated; 31.75 MiB free; 1.30 GiB reserved in total by PyTorch)\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_OTHER_PROCESS, EXPLAIN_LIKELY, EXPLAIN_CURE_OTHER_PROCESS, false},
    {"torch 2.0",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 120.00 MiB (GPU 0; 23.68 "
     "GiB total capacity; 21.77 "
     "GiB already allocated; 75.06 MiB free; 22.01 GiB reserved in total by PyTorch) If reserved "
     "memory is >> allocated "
     "memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory "
     "Management and "
     "PYTORCH_CUDA_ALLOC_CONF\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_EXPANDABLE_SEGMENTS, true},
    {"torch 2.1, capacty, fragmented",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.10 GiB. GPU 0 has a "
     "total capacty of 23.65 GiB "
     "of which 1.66 GiB is free. Including non-PyTorch memory, this process has 21.71 GiB memory "
     "in use. Of the allocated "
     "memory 15.99 GiB is allocated by PyTorch, and 4.84 GiB is reserved by PyTorch but "
     "unallocated. If reserved but "
     "unallocated memory is large try setting max_split_size_mb to avoid fragmentation.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_FRAGMENTATION, EXPLAIN_CERTAIN, EXPLAIN_CURE_EXPANDABLE_SEGMENTS,
     false},
    {"torch 2.3, full",
     NEW("22.00 MiB", "23.65 GiB", "11.06 MiB", "23.63 GiB", "22.90 GiB", "150.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"torch 2.6, half stranded",
     NEW("21.78 GiB", "31.47 GiB", "12.73 GiB", "18.73 GiB", "9.08 GiB", "9.35 GiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_FRAGMENTATION, EXPLAIN_CERTAIN, EXPLAIN_CURE_EXPANDABLE_SEGMENTS,
     false},
    {"another process listed",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total "
     "capacity of 79.11 GiB of which "
     "177.38 MiB is free. Process 3894014 has 9.37 GiB memory in use. Including non-PyTorch "
     "memory, this process has 69.50 GiB "
     "memory in use. Of the allocated memory 43.07 GiB is allocated by PyTorch, and 25.44 GiB is "
     "reserved by PyTorch but "
     "unallocated.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_OTHER_PROCESS, EXPLAIN_CERTAIN, EXPLAIN_CURE_OTHER_PROCESS, false},
    {"another process not listed",
     NEW("1.00 GiB", "24.00 GiB", "0.20 GiB", "15.00 GiB", "14.00 GiB", "100.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_OTHER_PROCESS, EXPLAIN_LIKELY, EXPLAIN_CURE_OTHER_PROCESS, false},
    {"a rank twice on one GPU",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total "
     "capacity of 23.65 GiB of which "
     "0 bytes is free. Process 71 has 11.70 GiB memory in use. Including non-PyTorch memory, this "
     "process has 11.80 GiB memory "
     "in use. Of the allocated memory 11.00 GiB is allocated by PyTorch, and 100.00 MiB is "
     "reserved by PyTorch but "
     "unallocated.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_OTHER_PROCESS, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, false},
    {"contexts of other ranks",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total "
     "capacity of 39.49 GiB of which "
     "301.31 MiB is free. Process 37216 has 420.00 MiB memory in use. Including non-PyTorch "
     "memory, this process has 37.46 GiB "
     "memory in use. Process 13747 has 420.00 MiB memory in use. Process 13748 has 420.00 MiB "
     "memory in use. Of the allocated "
     "memory 36.04 GiB is allocated by PyTorch, and 321.37 MiB is reserved by PyTorch but "
     "unallocated.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_OTHER_PROCESS, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, false},
    {"in a container, the process itself under the host's pid",
     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total "
     "capacity of 23.65 GiB of which "
     "200.00 MiB is free. Process 812345 has 23.40 GiB memory in use. Of the allocated memory "
     "22.60 GiB is allocated by PyTorch, "
     "and 120.00 MiB is reserved by PyTorch but unallocated.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"libraries", NEW("1.00 GiB", "79.11 GiB", "0.20 GiB", "78.50 GiB", "70.00 GiB", "200.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_LIBRARIES, EXPLAIN_CERTAIN, EXPLAIN_CURE_HEADROOM, false},
    {"a memory fraction",
     "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total "
     "capacity of 255.98 GiB of which "
     "246.65 GiB is free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by "
     "PyTorch, with 17.00 MiB allocated "
     "in private pools (e.g., HIP Graphs), and 37.99 MiB is reserved by PyTorch but unallocated.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_CAP, EXPLAIN_CERTAIN, EXPLAIN_CURE_LIFT_CAP, false},
    {"free memory left",
     NEW("1.00 GiB", "24.00 GiB", "3.00 GiB", "20.50 GiB", "19.90 GiB", "100.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_TRANSIENT, EXPLAIN_LIKELY, EXPLAIN_CURE_RETRY, false},
    {"less free than PyTorch asks for",
     NEW("128.00 MiB", "24.00 GiB", "134.00 MiB", "23.80 GiB", "23.00 GiB", "100.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"WSL's impossible number",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a "
     "total capacity of 8.00 GiB of which "
     "0 bytes is free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in "
     "use. Of the allocated memory "
     "7.10 GiB is allocated by PyTorch, and 72.00 MiB is reserved by PyTorch but unallocated.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"one tensor larger than the GPU",
     NEW("48.00 GiB", "44.40 GiB", "8.00 GiB", "36.00 GiB", "35.00 GiB", "100.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_IMPOSSIBLE_TENSOR, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, false},
    {"full logits larger than the GPU",
     TRACE TRAINING FRAME(LIB "torch/nn/functional.py", "cross_entropy")
         NEW("26.00 GiB", "23.65 GiB", "8.00 GiB", "15.00 GiB", "14.50 GiB", "100.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_IMPOSSIBLE_TENSOR, EXPLAIN_CERTAIN, EXPLAIN_CURE_CHUNKED_LOSS,
     false},
    {"a shape that is wrong",
     NEW("130206.04 GiB", "79.14 GiB", "61.76 GiB", "17.37 GiB", "14.34 GiB", "2.53 GiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_IMPOSSIBLE_TENSOR, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, false},
    {"NPU",
     "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 3; 60.97 GiB total "
     "capacity; 58.20 GiB already allocated; "
     "58.20 GiB current active; 1.10 GiB free; 58.90 GiB reserved in total by PyTorch)\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_EXPANDABLE_SEGMENTS, true},
    {"XPU without numbers of use",
     "RuntimeError: XPU out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of "
     "15.91 GiB. Please use "
     "`empty_cache` to release all unoccupied cached memory.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"XPU that is almost empty",
     "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total "
     "capacity of 15.11 GiB. Of the "
     "allocated memory 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch but "
     "unallocated.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"Ascend's own message",
     "2026-04-09 Memory_Allocation_Failure(EL0004): Failed to allocate memory requested by GE "
     "module.\n",
     PLIM_OOM_DRIVER, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"more than an exabyte",
     "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_IMPOSSIBLE_TENSOR, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, false},
    {"no numbers at all", "RuntimeError: CUDA out of memory.\n", PLIM_OOM_ALLOCATOR,
     EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"cudaMallocAsync",
     "RuntimeError: Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently "
     "allocated     : 20.66 GiB\n"
     "Requested               : 31.27 MiB\nDevice limit            : 22.13 GiB\nFree (according to "
     "CUDA): 4.62 MiB\n"
     "PyTorch limit (set by user-supplied memory fraction)\n                        : "
     "17179869184.00 GiB\n",
     PLIM_OOM_ASYNC, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    // ---- phases
    {"loading",
     TRACE FRAME("train.py", "main") FRAME(LIB "transformers/modeling_utils.py", "from_pretrained")
         FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_STATE, false},
    {"the optimizer's first step",
     BAR("0") TRACE FRAME("train.py", "main") FRAME(LIB "torch/optim/adamw.py", "step")
         FRAME(LIB "torch/optim/adamw.py", "_init_group") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_STATE, false},
    {"a late step of the optimizer",
     BAR("40") TRACE FRAME("train.py", "main")
         FRAME(LIB "torch/optim/adamw.py", "_multi_tensor_adamw") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_STATE, false},
    {"memory that plimsoll run saw growing",
     "plimsoll: memory grows by 64.0 MiB per step; full at about step 310\n" BAR("306")
         TRACE TRAINING FRAME(LIB "torch/_tensor.py", "backward") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_LEAK, EXPLAIN_LIKELY, EXPLAIN_CURE_FIX_CODE, false},
    {"a leak whose line plimsoll run has found",
     "plimsoll: memory grows by 64.0 MiB per step; full at about step 310\n"
     "plimsoll: train.py:6 (main) leaves 64.0 MiB in memory after each step (in 20 of 20 recorded "
     "steps, 1.25 GiB in 20 tensors so far)\n" BAR("306") TRACE FRAME("train.py", "main")
         FRAME(LIB "torch/optim/adamw.py", "step") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_LEAK, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, false},
    {"growth that is too little to matter",
     "plimsoll: memory grows by 1.00 MiB per step; full at about step 4,310\n" BAR("2")
         TRACE TRAINING FRAME(LIB "torch/_tensor.py", "backward") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_LONG_SAMPLE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"the first step", BAR("0") TRACE TRAINING FRAME(LIB "torch/_tensor.py", "backward") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"a late step", BAR("306") TRACE TRAINING FRAME(LIB "torch/_tensor.py", "backward") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_LONG_SAMPLE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"a late step with batch 1",
     "  Instantaneous batch size per device = 1\n" BAR("306")
         TRACE TRAINING FRAME(LIB "torch/_tensor.py", "backward") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_LONG_SAMPLE, EXPLAIN_LIKELY, EXPLAIN_CURE_SHORTER_SAMPLES, false},
    {"evaluation",
     BAR("500") TRACE TRAINING FRAME(LIB "transformers/trainer.py", "evaluation_loop")
         FRAME(LIB "transformers/trainer_pt_utils.py", "nested_concat")
             NEW("14.61 GiB", "15.78 GiB", "3.13 GiB", "12.50 GiB", "12.00 GiB", "100.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_EVALUATION, EXPLAIN_LIKELY, EXPLAIN_CURE_EVALUATION, false},
    {"evaluation, one tensor larger than the GPU",
     TRACE FRAME(LIB "transformers/trainer.py", "evaluation_loop")
         NEW("24.61 GiB", "15.78 GiB", "3.13 GiB", "12.50 GiB", "12.00 GiB", "100.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_EVALUATION, EXPLAIN_LIKELY, EXPLAIN_CURE_EVALUATION, false},
    {"saving",
     BAR("500") TRACE TRAINING FRAME(LIB "transformers/trainer.py", "_save_checkpoint")
         FRAME(LIB "torch/fsdp.py", "state_dict") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SAVING, EXPLAIN_LIKELY, EXPLAIN_CURE_SAVING, false},
    {"resuming",
     TRACE FRAME("train.py", "main")
         FRAME(LIB "transformers/trainer.py", "_load_optimizer_and_scheduler") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_RESUMING, EXPLAIN_LIKELY, EXPLAIN_CURE_RESUMING, false},
    {"eager attention",
     BAR("0") TRACE TRAINING FRAME(LIB "transformers/models/x.py", "eager_attention_forward") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_FUSED_ATTENTION, true},
    {"checkpointing that saves nothing",
     "UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n" BAR("0")
         TRACE TRAINING FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, true},
    // ---- outside the allocator
    {"asynchronous",
     "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported "
     "at some other API call, so the "
     "stacktrace below might be incorrect.\nFor debugging consider passing "
     "CUDA_LAUNCH_BLOCKING=1\n",
     PLIM_OOM_DRIVER, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"newest class", "torch.AcceleratorError: CUDA error: out of memory\n", PLIM_OOM_DRIVER,
     EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"pinned memory",
     TRACE FRAME(LIB "torch/utils/data/_utils/pin_memory.py",
                 "pin_memory") "RuntimeError: CUDA error: out of memory\n",
     PLIM_OOM_DRIVER, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"a full GPU at the start",
     TRACE FRAME("train.py", "main") FRAME(
         LIB "torch/cuda/__init__.py", "_lazy_init") "RuntimeError: CUDA error: out of memory\n",
     PLIM_OOM_DRIVER, EXPLAIN_OTHER_PROCESS, EXPLAIN_LIKELY, EXPLAIN_CURE_OTHER_PROCESS, false},
    {"ROCm's runtime",
     "HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed to allocate the necessary resources. "
     "Available Free mem : 24 MB\n",
     PLIM_OOM_DRIVER, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"MPS",
     "RuntimeError: MPS backend out of memory (MPS allocated: 14.29 GiB, other allocations: 3.65 "
     "GiB, max allowed: 20.13 GiB). Tried "
     "to allocate 2.67 GiB on shared pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable "
     "upper limit for memory allocations\n",
     PLIM_OOM_MPS, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"MPS, mostly outside PyTorch",
     "RuntimeError: MPS backend out of memory (MPS allocated: 9.57 GiB, other allocations: 17.35 "
     "GiB, max allowed: 27.20 GiB). Tried "
     "to allocate 292.50 MiB on private pool.\n",
     PLIM_OOM_MPS, EXPLAIN_LIBRARIES, EXPLAIN_CERTAIN, EXPLAIN_CURE_OTHER_PROCESS, false},
    {"cuBLAS",
     "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`\n",
     PLIM_OOM_BLAS, EXPLAIN_LIBRARIES, EXPLAIN_LIKELY, EXPLAIN_CURE_LOOK, false},
    {"cuBLAS not initialized",
     "RuntimeError: CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling "
     "`cublasCreate(handle)`\n",
     PLIM_OOM_BLAS_MAYBE, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"cuDNN",
     "RuntimeError: cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed "
     "in a non-contiguous input.\n",
     PLIM_OOM_BLAS_MAYBE, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"NCCL through PyTorch",
     "torch.distributed.DistBackendError: NCCL error in: "
     "../torch/csrc/distributed/c10d/NCCLUtils.hpp:275, unhandled cuda error (run "
     "with NCCL_DEBUG=INFO for details), NCCL version 2.20.5\nncclUnhandledCudaError: Call to CUDA "
     "function failed.\nLast error:\n"
     "Failed to CUDA calloc async 2432 bytes\n",
     PLIM_OOM_NCCL, EXPLAIN_LIBRARIES, EXPLAIN_CERTAIN, EXPLAIN_CURE_HEADROOM, false},
    {"NCCL's own warning",
     "node3:1234:5678 [2] enqueue.cc:1085 NCCL WARN Cuda failure 2 'out of memory'\n",
     PLIM_OOM_NCCL, EXPLAIN_LIBRARIES, EXPLAIN_CERTAIN, EXPLAIN_CURE_HEADROOM, false},
    {"bitsandbytes, paged memory",
     "Error out of memory at line 380 in file /src/csrc/pythonInterface.c\n", PLIM_OOM_BITSANDBYTES,
     EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"bitsandbytes, a kernel", "Error out of memory at line 88 in file D:\\bnb\\csrc\\ops.cu\n",
     PLIM_OOM_BITSANDBYTES, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    // ---- the host
    {"a CPU tensor",
     "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't "
     "allocate memory: you tried to allocate "
     "2359296 bytes. Error code 12 (Cannot allocate memory)\n",
     PLIM_OOM_HOST_REQUEST, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"NumPy",
     "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 14.2 GiB for an array with "
     "shape (12, 4) and data type float32\n",
     PLIM_OOM_HOST_REQUEST, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"Python", TRACE FRAME("prepare.py", "main") "MemoryError\n", PLIM_OOM_HOST_REQUEST,
     EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"C++", "terminate called after throwing an instance of 'std::bad_alloc'\n",
     PLIM_OOM_HOST_REQUEST, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"fork", "OSError: [Errno 12] Cannot allocate memory\n", PLIM_OOM_HOST_REQUEST,
     EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"Killed", "loading\nKilled\n", PLIM_OOM_SIGKILL, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY,
     EXPLAIN_CURE_HOST_MEMORY, false},
    {"Killed in a script", "run.sh: line 12: 48123 Killed                  python train.py\n",
     PLIM_OOM_SIGKILL, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"torchrun",
     "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 "
     "(pid: 2657) of binary: /usr/bin/python\n",
     PLIM_OOM_SIGKILL, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"torchrun's summary",
     "  exitcode  : -9 (pid: 14750)\n  traceback : Signal 9 (SIGKILL) received by PID 14750\n",
     PLIM_OOM_SIGKILL, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"DeepSpeed",
     "[2026-01-01 00:00:00,000] [INFO] [launch.py:318:sigkill_handler] Killing subprocess "
     "80\n[2026-01-01 00:00:00,000] [ERROR] "
     "[launch.py:324:sigkill_handler] ['/usr/bin/python', '-u', 'train.py'] exits with return code "
     "= -9\n",
     PLIM_OOM_SIGKILL, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"Kubernetes", "    Reason:       OOMKilled\n    Exit Code:    137\n", PLIM_OOM_HOST_KILLER,
     EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"the kernel",
     "[1234.5] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)\n[1234.6] Memory cgroup out of "
     "memory: Killed process 23793 "
     "(python) total-vm:2623712kB, anon-rss:506500kB, file-rss:1268kB, shmem-rss:0kB\n",
     PLIM_OOM_HOST_KILLER, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"Slurm",
     "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1460.batch cgroup. Some of your "
     "processes may have been killed by the "
     "cgroup out-of-memory handler.\nsrun: error: o0616: task 0: Out Of Memory\n",
     PLIM_OOM_HOST_KILLER, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"shared memory",
     "RuntimeError: DataLoader worker (pid 46794) is killed by signal: Bus error. It is possible "
     "that dataloader's workers are out of "
     "shared memory. Please try to raise your shared memory limit.\n",
     PLIM_OOM_SHARED_MEMORY, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_SHARED_MEMORY,
     false},
    {"shared memory, the worker's own words",
     "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient "
     "shared memory (shm).\n",
     PLIM_OOM_SHARED_MEMORY, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_SHARED_MEMORY,
     false},
    {"SIGBUS", "exits with return code = -7\n", PLIM_OOM_SHARED_MEMORY, EXPLAIN_HOST_MEMORY,
     EXPLAIN_LIKELY, EXPLAIN_CURE_SHARED_MEMORY, false},
    {"a worker killed", "RuntimeError: DataLoader worker (pid 8544) is killed by signal: Killed.\n",
     PLIM_OOM_WORKER_KILLED, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"Windows",
     "OSError: [WinError 1455] The paging file is too small for this operation to complete.\n",
     PLIM_OOM_PAGING_FILE, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    // ---- other frameworks
    {"JAX",
     "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
     "allocate 4770354232 bytes.\n"
     "BufferAssignment OOM Debugging.\n             parameter allocation:  372.76MiB\n        "
     "maybe_live_out allocation:    9.64GiB\n"
     "     preallocated temp allocation:    4.44GiB\n                 total allocation:   "
     "14.44GiB\n",
     PLIM_OOM_XLA, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"TPU",
     "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. "
     "Used 20.93G of 15.48G hbm. Exceeded "
     "hbm capacity by 5.45G.\n",
     PLIM_OOM_XLA_COMPILE, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"TensorFlow",
     "ResourceExhaustedError: OOM when allocating tensor with shape[128,3,8,128,8,128] and type "
     "float on "
     "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n",
     PLIM_OOM_TENSORFLOW, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"TensorFlow on the host",
     "ResourceExhaustedError: OOM when allocating tensor with shape[1000,1000,1000] and type float "
     "on "
     "/job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu\n",
     PLIM_OOM_TENSORFLOW, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"llama.cpp",
     "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 9866.00 MiB on device 1: cudaMalloc "
     "failed: out of memory\n",
     PLIM_OOM_GGML, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_STATE, false},
    {"vLLM wakes up", "CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:62\n",
     PLIM_OOM_VLLM, EXPLAIN_LIBRARIES, EXPLAIN_LIKELY, EXPLAIN_CURE_HEADROOM, false},
    {"accelerate", "RuntimeError: No executable batch size found, reached zero.\n",
     PLIM_OOM_BATCH_ZERO, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_STATE, false},
    {"accelerate after the errors",
     BAR("0") FULL "RuntimeError: No executable batch size found, reached zero.\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_STATE, false},
    {"Triton",
     "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 135168, "
     "Hardware limit: 101376. Reducing block "
     "sizes or `num_stages` may help.\n",
     PLIM_OOM_ON_CHIP, EXPLAIN_ON_CHIP, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, false},
    {"an unknown library", "FooError: out of memory in pool 3\n", PLIM_OOM_OTHER, EXPLAIN_UNCLEAR,
     EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    // ---- other words for the same causes
    {"vLLM, no room for the cache",
     "ValueError: No available memory for the cache blocks. Try increasing "
     "`gpu_memory_utilization` when initializing the engine.\n",
     PLIM_OOM_VLLM_CACHE, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_STATE, false},
    {"vLLM, a context that is too long",
     "ERROR 08-20 10:00:00 [core.py:700] ValueError: To serve at least one request with the "
     "models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the "
     "available KV cache memory (4.89 GiB).\n",
     PLIM_OOM_VLLM_CACHE, EXPLAIN_SHORTAGE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_STATE, false},
    {"vLLM, too large a share",
     "ValueError: Free memory on device (3.21/23.53 GiB) on startup is less than desired GPU "
     "memory utilization (0.9, 21.18 GiB).\n",
     PLIM_OOM_VLLM, EXPLAIN_LIBRARIES, EXPLAIN_LIKELY, EXPLAIN_CURE_HEADROOM, false},
    {"Triton, tensor memory",
     "triton.runtime.errors.OutOfResources: out of resource: tensor memory, Required: 640, "
     "Hardware limit: 512. Reducing block sizes or `num_stages` may help.\n",
     PLIM_OOM_ON_CHIP, EXPLAIN_ON_CHIP, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, false},
    {"RAPIDS' bad_alloc is the GPU's",
     "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: rmm/cuda_memory_resource.hpp:60: "
     "cudaErrorMemoryAllocation out of memory\n",
     PLIM_OOM_DRIVER, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"cudaMallocAsync, short", "torch.OutOfMemoryError: Allocation on device \n", PLIM_OOM_ASYNC,
     EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"cuDNN 9", "RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED\n",
     PLIM_OOM_BLAS, EXPLAIN_LIBRARIES, EXPLAIN_LIKELY, EXPLAIN_CURE_LOOK, false},
    {"cuDNN finds no engine",
     "RuntimeError: FIND was unable to find an engine to execute this computation\n",
     PLIM_OOM_BLAS_MAYBE, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"/dev/shm is full",
     "RuntimeError: unable to write to file </torch_3453_1234567890_12>: No space left on device "
     "(28)\n",
     PLIM_OOM_SHARED_MEMORY, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_SHARED_MEMORY,
     false},
    {"NCCL's shared memory",
     "node1:123:456 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-abc "
     "(size 9637888)\n",
     PLIM_OOM_SHARED_MEMORY, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_SHARED_MEMORY,
     false},
    {"Rust", "memory allocation of 68719476736 bytes failed\nAborted (core dumped)\n",
     PLIM_OOM_HOST_REQUEST, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"ENOMEM of a library",
     "SafetensorError: Error while deserializing header: Cannot allocate memory (os error 12)\n",
     PLIM_OOM_HOST_REQUEST, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"locked memory",
     "node1:12:34 [0] NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory\n",
     PLIM_OOM_HOST_REQUEST, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"an old kernel",
     "[123.4] Out of memory: Kill process 1234 (python) score 900 or sacrifice child\n",
     PLIM_OOM_HOST_KILLER, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"systemd-oomd",
     "systemd-oomd[812]: Killed /user.slice/session-2.scope due to memory pressure for /user.slice "
     "being 85.1% > 50%\n",
     PLIM_OOM_HOST_KILLER, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"Kubernetes evicts",
     "Message: The node was low on resource: memory. Container trainer was using 120Gi\n",
     PLIM_OOM_HOST_KILLER, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"LSF",
     "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code "
     "137.\n",
     PLIM_OOM_HOST_KILLER, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"PBS", "=>> PBS: job killed: mem 33554480kb exceeded limit 33554432kb\n", PLIM_OOM_HOST_KILLER,
     EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"Colab", "Your session crashed after using all available RAM.\n", PLIM_OOM_HOST_KILLER,
     EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"srun alone", "srun: error: node01: task 3: Out Of Memory\n", PLIM_OOM_HOST_KILLER,
     EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_HOST_MEMORY, false},
    {"srun, killed", "srun: error: node01: tasks 0-3: Killed\n", PLIM_OOM_SIGKILL,
     EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"mpirun",
     "mpirun noticed that process rank 3 with PID 123 on node x exited on signal 9 (Killed).\n",
     PLIM_OOM_SIGKILL, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"a process that is killed after another error",
     TRACE FRAME("train.py", "main") "ValueError: no\nKilled\n", PLIM_OOM_SIGKILL, EXPLAIN_UNCLEAR,
     EXPLAIN_NOT_SURE, EXPLAIN_CURE_FIX_CODE, false},
    {"a process that is killed long after an error that was caught",
     TRACE FRAME("hub.py", "get") "ConnectionError: no\n" BAR("306") BAR("307") "Killed\n",
     PLIM_OOM_SIGKILL, EXPLAIN_HOST_MEMORY, EXPLAIN_LIKELY, EXPLAIN_CURE_HOST_MEMORY, false},
    {"Slurm's time limit",
     "slurmstepd: error: *** JOB 1234 ON node1 CANCELLED AT 2025-01-01T10:00:00 DUE TO TIME LIMIT "
     "***\nKilled\n",
     PLIM_OOM_NONE, EXPLAIN_NO_OOM, EXPLAIN_CERTAIN, EXPLAIN_CURES, false},
    {"a failure in one's own words", "ERROR: could not allocate: CUDA out of memory\n",
     PLIM_OOM_ALLOCATOR, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"logits, computed by a linear layer",
     TRACE TRAINING "  File \"" LIB "transformers/models/llama/modeling_llama.py\", line 842, in "
                    "forward\n    logits = self.lm_head(hidden_states)\n" FRAME(
                        LIB "torch/nn/modules/module.py", "_call_impl")
                        FRAME(LIB "torch/nn/modules/linear.py", "forward") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_CHUNKED_LOSS, true},
    {"logits, copied",
     TRACE TRAINING "  File \"" LIB "transformers/models/llama/modeling_llama.py\", line 842, in "
                    "forward\n    logits = logits.float()\n" FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_CHUNKED_LOSS, true},
    {"gradients are clipped",
     BAR("0") TRACE TRAINING FRAME(LIB "torch/nn/utils/clip_grad.py", "clip_grad_norm_") FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_STATE, false},
    {"adapters are merged",
     TRACE FRAME("merge.py", "main") FRAME(LIB "peft/tuners/lora/model.py", "merge_and_unload")
         FULL,
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_STATE, false},
    {"metrics on the host",
     TRACE FRAME("run.py", "main") FRAME(
         LIB "transformers/trainer.py",
         "evaluation_loop") "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 117. GiB "
                            "for an array with shape (20000, 512, 3072) and data type float32\n",
     PLIM_OOM_HOST_REQUEST, EXPLAIN_HOST_MEMORY, EXPLAIN_CERTAIN, EXPLAIN_CURE_EVALUATION, false},
    {"Gaudi",
     "RuntimeError: FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::1073741824 "
     "(1024)MB\n",
     PLIM_OOM_DRIVER, EXPLAIN_UNCLEAR, EXPLAIN_NOT_SURE, EXPLAIN_CURE_LOOK, false},
    {"no error", "epoch 1\nepoch 2\ndone\n", PLIM_OOM_NONE, EXPLAIN_NO_OOM, EXPLAIN_CERTAIN,
     EXPLAIN_CURES, false},
    {"another error", TRACE FRAME("train.py", "main") "ValueError: no\n", PLIM_OOM_NONE,
     EXPLAIN_NO_OOM, EXPLAIN_CERTAIN, EXPLAIN_CURES, false},
};

// ---- running them -----------------------------------------------------------------------------------

static plim_oom_log read_text(const char *text) {
  plim_oom_log log;
  plim_error error = {0};
  if (plim_oom_log_read_memory(text, strlen(text), &log, &error))
    printf("%s\n", error.message), abort();
  return log;
}

static explanation explain(const plim_oom_log *log, const explain_facts *facts) {
  explanation e;
  plim_error error = {0};
  if (explain_log(log, facts, &e, &error)) printf("%s\n", error.message), abort();
  return e;
}

static bool has_cure(const explanation *e, explain_cure_kind kind) {
  for (size_t i = 0; i < e->cures.len; i++)
    if (e->cures.at[i].kind == kind) return true;
  return false;
}

static bool is_right(const shape *s) {
  plim_oom_log log = read_text(s->log);
  explanation e = explain(&log, NULL);
  explain_cure_kind first = e.cures.len ? e.cures.at[0].kind : EXPLAIN_CURES;
  bool is_sure = e.surety == s->surety;
  bool has_reason = (e.surety == EXPLAIN_CERTAIN) == (e.why_not_sure == NULL);
  bool right = log.message.kind == s->kind && e.verdict == s->verdict && is_sure &&
               first == s->first && has_reason &&
               has_cure(&e, EXPLAIN_CURE_SMALLER_BATCH) == s->allows_batch;
  if (!right)
    printf("%s: %s, %s (%s), first %s, batch %d\n  %s\n", s->name,
           plim_oom_kind_name(log.message.kind), explain_verdict_name(e.verdict),
           explain_surety_name(e.surety),
           first == EXPLAIN_CURES ? "none" : explain_cure_name(first),
           has_cure(&e, EXPLAIN_CURE_SMALLER_BATCH), e.summary);
  explanation_clear(&e);
  return right;
}

TEST(every_form_of_message_gets_its_verdict) {
  bool all = true;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    bool right = is_right(&shapes[i]);
    test_count(shapes[i].name, right);
    all = all && right;
  }
  CHECK(all, "a form of message is misunderstood");
}

// The rows of root causes against which a smaller batch does nothing.
TEST(a_smaller_batch_is_suggested_only_where_it_helps) {
  static const explain_verdict without[] = {EXPLAIN_FRAGMENTATION,
                                            EXPLAIN_OTHER_PROCESS,
                                            EXPLAIN_LIBRARIES,
                                            EXPLAIN_HOST_MEMORY,
                                            EXPLAIN_IMPOSSIBLE_TENSOR,
                                            EXPLAIN_EVALUATION,
                                            EXPLAIN_SAVING,
                                            EXPLAIN_RESUMING,
                                            EXPLAIN_CAP,
                                            EXPLAIN_TRANSIENT,
                                            EXPLAIN_ON_CHIP,
                                            EXPLAIN_UNCLEAR,
                                            EXPLAIN_NO_OOM,
                                            EXPLAIN_LEAK};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (size_t j = 0; j < sizeof without / sizeof *without; j++) {
      if (shapes[i].verdict != without[j]) continue;
      plim_oom_log log = read_text(shapes[i].log);
      explanation e = explain(&log, NULL);
      bool suggests = has_cure(&e, EXPLAIN_CURE_SMALLER_BATCH);
      explanation_clear(&e);
      CHECK(!suggests, "%s", shapes[i].name);
    }
}

// ---- what the caller knows --------------------------------------------------------------------------

TEST(an_exit_status_alone_tells_that_the_process_was_killed) {
  plim_oom_log log = read_text("step 1 loss 2.0\n");
  explain_facts facts = explain_nothing_known;
  facts.exit_status = 137;
  explanation e = explain(&log, &facts);
  explain_verdict verdict = e.verdict;
  explain_surety surety = e.surety;
  explanation_clear(&e);
  CHECK(verdict == EXPLAIN_HOST_MEMORY && surety == EXPLAIN_LIKELY, "%s",
        explain_verdict_name(verdict));
  facts.has_oom_kill = EXPLAIN_YES;
  e = explain(&log, &facts);
  surety = e.surety;
  explanation_clear(&e);
  CHECK(surety == EXPLAIN_CERTAIN, "%s", explain_surety_name(surety));
  facts.has_oom_kill = EXPLAIN_NO;
  e = explain(&log, &facts);
  verdict = e.verdict;
  explanation_clear(&e);
  CHECK(verdict == EXPLAIN_UNCLEAR, "%s", explain_verdict_name(verdict));
}

// After counted optimizer steps, the optimizer's step fails only if something else has grown.
TEST(a_late_step_of_the_optimizer_is_a_leak_if_optimizer_steps_were_counted) {
  plim_oom_log log =
      read_text(TRACE FRAME("train.py", "main") FRAME(LIB "torch/optim/adamw.py", "step") FULL);
  explain_facts facts = explain_nothing_known;
  facts.step = 78;
  explanation e = explain(&log, &facts);
  bool is_leak = e.verdict == EXPLAIN_LEAK && e.surety == EXPLAIN_LIKELY;
  bool suggests_state = has_cure(&e, EXPLAIN_CURE_SMALLER_STATE);
  explanation_clear(&e);
  CHECK(is_leak && !suggests_state, "leak %d, smaller state %d", is_leak, suggests_state);
}

TEST(the_users_command_is_the_one_to_plan) {
  plim_oom_log log = read_text(FULL);
  explain_facts facts = explain_nothing_known;
  facts.command = "python train.py --name 'two words'";
  explanation e = explain(&log, &facts);
  bool is_said = false;
  for (size_t i = 0; i < e.cures.len; i++)
    is_said |= e.cures.at[i].command && strstr(e.cures.at[i].command, "plimsoll plan --gpu ") &&
               strstr(e.cures.at[i].command, " -- python train.py --name 'two words'");
  explanation_clear(&e);
  CHECK(is_said, "the command is not in the cures");
}

// The command to type has the user's own command in it, as far as it is known.
TEST(a_chunked_loss_has_a_command) {
  static const char *const commands[] = {NULL, "python train.py"};
  static const char *const wanted[] = {"plimsoll run --chunked-loss -- COMMAND",
                                       "plimsoll run --chunked-loss -- python train.py"};
  plim_oom_log log =
      read_text(TRACE TRAINING FRAME(LIB "torch/nn/functional.py", "cross_entropy") FULL);
  explain_facts facts = explain_nothing_known;
  for (size_t i = 0; i < 2; i++) {
    facts.command = commands[i];
    explanation e = explain(&log, &facts);
    const char *found = "";
    for (size_t k = 0; k < e.cures.len; k++)
      if (e.cures.at[k].kind == EXPLAIN_CURE_CHUNKED_LOSS) found = e.cures.at[k].command;
    CHECK_STR(found, wanted[i]);
    explanation_clear(&e);
  }
}

TEST(one_step_is_not_several) {
  plim_oom_log log = read_text(FULL);
  explain_facts facts = explain_nothing_known;
  facts.step = facts.accumulation = 1;
  facts.micro_batch = 4;
  explanation e = explain(&log, &facts);
  int said = 0;
  for (size_t i = 0; i < e.evidence.list.len; i++) {
    const char *text = e.evidence.list.at[i].message;
    said += strcmp(text, "1 step was completed before.") == 0 ||
            strcmp(text, "The micro batch is 4, with 1 accumulation step.") == 0;
  }
  explanation_clear(&e);
  CHECK(said == 2, "%d of 2", said);
}

TEST(what_plimsoll_run_has_set_is_in_force) {
  plim_oom_log log =
      read_text("plimsoll: set for this run: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:"
                "True, PYTORCH_ALLOC_CONF=expandable_segments:True, "
                "TOKENIZERS_PARALLELISM=false\n" FULL);
  CHECK(strcmp(log.facts.alloc_conf, "expandable_segments:True") == 0, "%s", log.facts.alloc_conf);
}

TEST(other_processes_are_named) {
  plim_oom_log log = read_text(FULL);
  explain_process other = {4711, "jupyter-lab", 6 * PLIM_GIB};
  explain_facts facts = explain_nothing_known;
  facts.others = &other;
  facts.other_count = 1;
  explanation e = explain(&log, &facts);
  bool is_named = false;
  for (size_t i = 0; i < e.evidence.list.len; i++)
    is_named |= strstr(e.evidence.list.at[i].message, "jupyter-lab") != NULL;
  explain_verdict verdict = e.verdict;
  explanation_clear(&e);
  CHECK(verdict == EXPLAIN_OTHER_PROCESS && is_named, "%s", explain_verdict_name(verdict));
}

// The message and the driver list the same process: it uses its memory once.
TEST(a_process_that_is_listed_twice_counts_once) {
  plim_oom_log log = read_text(
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
      "capacity of 24.00 GiB of which 1.00 GiB is free. Process 4711 has 6.00 GiB memory in use. "
      "Including non-PyTorch memory, this process has 17.00 GiB memory in use. Of the allocated "
      "memory 16.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but "
      "unallocated.");
  explain_process other = {4711, "jupyter-lab", 6 * PLIM_GIB};
  explain_facts facts = explain_nothing_known;
  facts.others = &other;
  facts.other_count = 1;
  explanation e = explain(&log, &facts);
  int lines = 0, names = 0;
  for (size_t i = 0; i < e.evidence.list.len; i++) {
    lines += strstr(e.evidence.list.at[i].message, "4711") != NULL;
    names += strstr(e.evidence.list.at[i].message, "jupyter-lab") != NULL;
  }
  bool is_right = strstr(e.summary, "use 6.00 GiB") != NULL;
  explanation_clear(&e);
  CHECK(is_right && lines == 1 && names == 1, "%d lines, %d names", lines, names);
}

// Memory that was seen to grow is the cause if the request would have fitted without it; a smaller batch only delays that.
TEST(growth_that_was_seen_is_the_cause) {
  plim_oom_log log =
      read_text(NEW("2.00 GiB", "24.00 GiB", "1.00 GiB", "23.00 GiB", "22.00 GiB", "100.00 MiB"));
  explain_growth growth = {false, 100 * PLIM_MIB, 8 * PLIM_GIB, "train.py:13 (<module>)"};
  explain_facts facts = explain_nothing_known;
  facts.step = 80;
  facts.growth = &growth;
  explanation e = explain(&log, &facts);
  bool names_line = strstr(e.summary, "train.py:13") != NULL;
  bool shrinks = has_cure(&e, EXPLAIN_CURE_SMALLER_BATCH);
  explain_verdict inside = e.verdict;
  explanation_clear(&e);
  growth.lines = NULL; // plimsoll run has not found it, and would not find it the next time
  e = explain(&log, &facts);
  bool says_run = has_cure(&e, EXPLAIN_CURE_LOOK);
  explanation_clear(&e);
  growth.is_outside = true;
  e = explain(&log, &facts);
  shrinks |= has_cure(&e, EXPLAIN_CURE_SMALLER_BATCH);
  explain_verdict outside = e.verdict;
  explanation_clear(&e);
  growth.grown_bytes = 200 * PLIM_MIB; // too little to be the cause
  e = explain(&log, &facts);
  explain_verdict little = e.verdict;
  explanation_clear(&e);
  CHECK(inside == EXPLAIN_LEAK && names_line && !shrinks, "%s", explain_verdict_name(inside));
  CHECK(!says_run, "plimsoll run is advised to somebody who uses it");
  CHECK(outside == EXPLAIN_LIBRARIES, "%s", explain_verdict_name(outside));
  CHECK(little == EXPLAIN_LONG_SAMPLE, "%s", explain_verdict_name(little));
}

TEST(settings_that_are_on_are_not_suggested_again) {
  plim_oom_log log =
      read_text(NEW("3.00 GiB", "24.00 GiB", "1.00 GiB", "22.00 GiB", "15.00 GiB", "6.00 GiB"));
  explain_facts facts = explain_nothing_known;
  explanation e = explain(&log, &facts);
  bool before = has_cure(&e, EXPLAIN_CURE_EXPANDABLE_SEGMENTS);
  explanation_clear(&e);
  facts.alloc_conf = "expandable_segments:True";
  e = explain(&log, &facts);
  bool after = has_cure(&e, EXPLAIN_CURE_EXPANDABLE_SEGMENTS);
  explanation_clear(&e);
  CHECK(before && !after, "before %d, after %d", before, after);
}

TEST(the_callers_step_phase_and_lengths_decide) {
  plim_oom_log log = read_text(FULL);
  explain_facts facts = explain_nothing_known;
  facts.step = 800;
  facts.sample_tokens = 8000;
  facts.usual_tokens = 2000;
  explanation e = explain(&log, &facts);
  bool is_long = e.verdict == EXPLAIN_LONG_SAMPLE && e.surety == EXPLAIN_CERTAIN;
  CHECK(strstr(e.summary, "8000 tokens per sample, at most 2000 before"), "%s", e.summary);
  explanation_clear(&e);
  facts.sample_tokens = 2000;
  e = explain(&log, &facts);
  CHECK(e.verdict == EXPLAIN_SHORTAGE && e.surety == EXPLAIN_LIKELY, "%s", e.summary);
  CHECK(strstr(e.summary, "not longer") && strstr(e.why_not_sure, "leak"), "%s", e.summary);
  explanation_clear(&e);
  facts.phase = PLIM_RUN_EVALUATION;
  e = explain(&log, &facts);
  bool is_evaluation = e.verdict == EXPLAIN_EVALUATION && e.surety == EXPLAIN_CERTAIN;
  explanation_clear(&e);
  CHECK(is_long && is_evaluation, "%d %d", is_long, is_evaluation);
}

TEST(steps_that_went_well_without_a_number_count) {
  plim_oom_log log = read_text(FULL);
  explain_facts facts = explain_nothing_known;
  facts.had_steps = EXPLAIN_YES;
  explanation e = explain(&log, &facts);
  explain_verdict verdict = e.verdict;
  explanation_clear(&e);
  CHECK(verdict == EXPLAIN_LONG_SAMPLE, "%s", explain_verdict_name(verdict));
}

TEST(the_hosts_memory_is_evidence_against_the_host_only) {
  plim_machine machine = {.total_bytes = 64 * PLIM_GIB,
                          .available_bytes = PLIM_UNKNOWN,
                          .limit_bytes = 16 * PLIM_GIB,
                          .limit_used_bytes = 15 * PLIM_GIB,
                          .shm_total_bytes = 64 * PLIM_MIB,
                          .shm_free_bytes = 0};
  explain_facts facts = explain_nothing_known;
  facts.machine = &machine;
  static const struct {
    const char *log, *words;
    bool is_said;
  } cases[] = {
      {"Killed\n", "64.0 GiB of memory, unknown of it available", true},
      {"Killed\n", "The container or job may use 16.0 GiB", true},
      {"exits with return code = -7\n", "/dev/shm has 64.0 MiB, 0 B of it free", true},
      {FULL, "64.0 GiB of memory", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    plim_oom_log log = read_text(cases[i].log);
    explanation e = explain(&log, &facts);
    bool is_said = false;
    for (size_t j = 0; j < e.evidence.list.len; j++)
      is_said |= strstr(e.evidence.list.at[j].message, cases[i].words) != NULL;
    explanation_clear(&e);
    CHECK(is_said == cases[i].is_said, "%s", cases[i].words);
  }
}

TEST(the_batch_is_halved_and_the_effective_batch_kept) {
  plim_oom_log log = read_text(FULL);
  explain_facts facts = explain_nothing_known;
  facts.micro_batch = 8;
  facts.accumulation = 4;
  explanation e = explain(&log, &facts);
  bool is_said = false;
  for (size_t i = 0; i < e.cures.len; i++)
    is_said |= strstr(e.cures.at[i].text, "from 8 to 4 and use 8 accumulation steps") != NULL;
  explanation_clear(&e);
  CHECK(is_said, "the numbers are missing");
}

// ---- the next command -------------------------------------------------------------------------------

static void check_command(const char *text, const char *wanted) {
  plim_oom_log log = read_text(text);
  explanation e = explain(&log, NULL);
  bool is_there = false;
  for (size_t i = 0; i < e.cures.len; i++)
    is_there |= e.cures.at[i].command && strcmp(e.cures.at[i].command, wanted) == 0;
  if (!is_there)
    for (size_t i = 0; i < e.cures.len; i++)
      printf("  %s\n", e.cures.at[i].command ? e.cures.at[i].command : "-");
  explanation_clear(&e);
  CHECK(is_there, "%s is missing", wanted);
}

TEST(the_next_command_has_what_the_log_shows) {
  check_command(TRACE FRAME("my train.py", "<module>") FULL,
                "plimsoll plan 'my train.py' --gpu 23.65GiB");
  check_command(FULL, "plimsoll plan FILES --gpu 23.65GiB");
  check_command("+ torchrun --nproc_per_node=4 train.py --lr 1e-4\n" FULL,
                "plimsoll plan --gpu 23.65GiB -- torchrun --nproc_per_node=4 train.py --lr 1e-4");
  check_command("RuntimeError: NPU out of memory. Tried to allocate 5.03 GiB (NPU 3; 60.96 GiB "
                "total capacity; 49.47 GiB already "
                "allocated; 49.47 GiB current active; 1.32 GiB free; 57.55 GiB reserved in total "
                "by PyTorch)\n",
                "export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True");
  // A log is not to be trusted: what a shell would run is not repeated.
  check_command("+ python train.py; rm -rf $HOME\n" FULL, "plimsoll plan FILES --gpu 23.65GiB");
  check_command("Saved snapshot to oom_snapshot.pickle\n" NEW("3.00 GiB", "24.00 GiB", "1.00 GiB",
                                                              "22.00 GiB", "15.00 GiB", "6.00 GiB"),
                "plimsoll replay oom_snapshot.pickle --limit 22.00GiB --tune");
}

// ---- the five stories -------------------------------------------------------------------------------

// The failures that the five users told of, as PyTorch would have printed them.
static const shape stories[] = {
    {"a 7B model with LoRA, batch 2 x 2048 on 24 GB",
     "  Instantaneous batch size per device = 2\n  Gradient Accumulation steps = 8\n" BAR("0")
         TRACE FRAME("train_baseline.py", "main") FRAME(LIB "transformers/trainer.py",
                                                        "training_step")
             FRAME(LIB "torch/nn/functional.py", "cross_entropy")
                 NEW("2.32 GiB", "23.68 GiB", "1.41 GiB", "22.20 GiB", "21.10 GiB", "520.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_CHUNKED_LOSS, true},
    {"ZeRO-3 with fragments and a cache that is cleared",
     "+ export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:64\n" BAR("210")
         TRACE FRAME("src/train.py", "main") FRAME(LIB "transformers/trainer.py", "training_step")
             FRAME(LIB "torch/_tensor.py", "backward")
                 NEW("1.95 GiB", "79.15 GiB", "1.02 GiB", "78.00 GiB", "75.90 GiB", "600.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_LONG_SAMPLE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"micro batch 8 x 2048: 51 GB in one piece on 44 GB",
     TRACE FRAME("training/train.py", "train") FRAME("models/attention.py", "forward")
         NEW("51.20 GiB", "44.40 GiB", "28.00 GiB", "16.00 GiB", "15.20 GiB", "200.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_IMPOSSIBLE_TENSOR, EXPLAIN_CERTAIN, EXPLAIN_CURE_FIX_CODE, false},
    {"contrastive training, memory that varies between steps",
     BAR("128") TRACE FRAME("naics.py", "main") FRAME(LIB "pytorch_lightning/trainer/trainer.py",
                                                      "fit")
         FRAME(LIB "pytorch_lightning/core/module.py", "training_step") FRAME("model.py", "forward")
             NEW("774.00 MiB", "23.65 GiB", "301.00 MiB", "23.20 GiB", "22.10 GiB", "402.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_LONG_SAMPLE, EXPLAIN_LIKELY, EXPLAIN_CURE_SMALLER_BATCH, true},
    {"a model loaded twice on 32 GB",
     TRACE FRAME("cli/complete_optimized_training.py", "main")
         FRAME(LIB "transformers/modeling_utils.py", "_load_pretrained_model")
             FRAME(LIB "torch/nn/modules/module.py", "to")
                 NEW("40.00 MiB", "31.36 GiB", "9.00 MiB", "31.20 GiB", "30.50 GiB", "60.00 MiB"),
     PLIM_OOM_ALLOCATOR, EXPLAIN_SHORTAGE, EXPLAIN_CERTAIN, EXPLAIN_CURE_SMALLER_STATE, false},
};

TEST(the_five_stories_get_the_right_verdict) {
  bool all = true;
  for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
    bool right = is_right(&stories[i]);
    test_count(stories[i].name, right);
    all = all && right;
  }
  CHECK(all, "a story is misunderstood");
}

TEST_MAIN
