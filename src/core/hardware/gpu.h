// Cards: what decides which kernels run on them, how much they hold and how fast they are.
#ifndef PLIM_CORE_GPU_H
#define PLIM_CORE_GPU_H

#include "plimsoll.h"

typedef struct {
  const char *name;     // as users write it: "RTX 4090"
  const char *also;     // other names, ';' between them: what nvidia-smi says, the usual short one
  uint32_t memory_mib;  // total, as the driver reports it
  uint32_t cuda_mib;    // total, as CUDA reports it on Linux: what programs can have; 0: not known
  uint32_t context_mib; // what the process holds outside the allocator once kernels are loaded
  bool context_is_measured; // false: taken over from the card it was measured on
  uint16_t capability;      // compute capability: 89 is 8.9
  uint16_t multiprocessors; //
  double bandwidth_gbs;     // 10^9 bytes per second
  double bf16_tflops;       // dense, tensor cores; 0: the card has none for bf16
  double fp16_tflops;       // dense, tensor cores, float32 accumulation; 0: none
  double fp32_tflops;       // without tensor cores
  double tf32_tflops;       // dense, tensor cores; 0: none
  uint8_t seen;             // PLIM_SEEN_ bits: what was confirmed by published sources
} plim_gpu;

enum { PLIM_SEEN_MEMORY = 1, PLIM_SEEN_SHAPE = 2, PLIM_SEEN_RATES = 4 };

// Measured on an H200 (docs/measurements.md); of a card that is not known, the same.
#define PLIM_CONTEXT_MIB 770ull

extern const plim_gpu plim_gpus[];
extern const size_t plim_gpu_count;

enum { PLIM_MAX_GPUS = 128 };

// By what a user typed. Case, spaces and dashes do not matter; "NVIDIA", "GeForce", "Tesla", "RTX" may be
// missing; a size may be added ("RTX 3090 24GB") and is then checked. Where no card has that very name, the
// only one whose names have all of its words is meant ("RTX 8000"). NULL if there is none, or more than one.
const plim_gpu *plim_gpu_named(const char *name);

// All cards that a name could stand for, at most PLIM_MAX_GPUS; returns how many.
size_t plim_gpu_candidates(const char *name, const plim_gpu *out[PLIM_MAX_GPUS]);

// The other cards that a short name could have meant: PCIe and NVL of "H100", which is the SXM's. None where
// the name is the card's own.
size_t plim_gpu_others(const char *name, const plim_gpu *meant, const plim_gpu *out[PLIM_MAX_GPUS]);

// The same for a card that is there, by the driver's name for it. Its memory decides between cards of one
// name.
const plim_gpu *plim_gpu_present(const char *name, uint64_t memory_mib);

// The same as plim_gpu_named: a name that is none is refused with the closest, one that could be several
// with those.
plim_err plim_gpu_find(const char *name, const plim_gpu **out, plim_error *error);

// Its size as it is sold, in GB: 24 for 24,564 MiB.
uint32_t plim_gpu_size_gb(const plim_gpu *gpu);

// What PyTorch's allocator can get on an idle card: what CUDA offers less the context. Where CUDA's
// total is not known, the driver's stands for it, which is up to 5 % too much on small cards.
uint64_t plim_gpu_usable_bytes(const plim_gpu *gpu);

int plim_gpu_threads(const plim_gpu *gpu); // that a multiprocessor holds

#endif
