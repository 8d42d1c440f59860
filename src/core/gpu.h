// Cards: what decides which kernels run on them, how much they hold and how fast they are.
#ifndef PLIM_CORE_GPU_H
#define PLIM_CORE_GPU_H

#include "plimsoll.h"

typedef struct {
  const char *name;         // as users write it: "RTX 4090"
  uint32_t memory_mib;      // total, as the driver reports it
  uint32_t context_mib;     // what the process holds outside the allocator once kernels are loaded
  uint16_t capability;      // compute capability: 89 is 8.9
  uint16_t multiprocessors; //
  double bandwidth_gbs;     // 10^9 bytes per second
  double bf16_tflops;       // dense, tensor cores; 0: the card has none for bf16
  double fp16_tflops;       // dense, tensor cores, float32 accumulation
  double fp32_tflops;       // without tensor cores
  double tf32_tflops;       // dense, tensor cores; 0: none
} plim_gpu;

extern const plim_gpu plim_gpus[];
extern const size_t plim_gpu_count;

// By name, without regard to case, spaces and dashes, "NVIDIA" and "GeForce" left out. NULL if none.
const plim_gpu *plim_gpu_named(const char *name);

#endif
