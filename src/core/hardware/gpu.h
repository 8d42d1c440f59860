// The catalogue of cards: what decides which kernels run on them, how much memory they have, and how fast they are.
#ifndef PLIM_CORE_GPU_H
#define PLIM_CORE_GPU_H

#include "plimsoll.h"

typedef struct {
  const char *name;     // as users write it: "RTX 4090"
  const char *also;     // other names, separated by ';': that of nvidia-smi, the usual short one
  uint32_t memory_mib;  // total, as the driver reports it
  uint32_t cuda_mib;    // total, as CUDA reports it on Linux, usable by programs; 0: not known
  uint32_t context_mib; // held by the process outside the allocator once kernels are loaded
  bool context_is_measured; // false: assumed equal to the card that was measured
  uint16_t capability;      // compute capability: 89 is 8.9
  uint16_t multiprocessors; //
  double bandwidth_gbs;     // 10^9 bytes per second
  double bf16_tflops;       // dense, tensor cores; 0: no tensor cores for bf16
  double fp16_tflops;       // dense, tensor cores, float32 accumulation; 0: none
  double fp32_tflops;       // without tensor cores
  double tf32_tflops;       // dense, tensor cores; 0: none
  uint8_t seen;             // PLIM_SEEN_ bits: what was confirmed by published sources
} plim_gpu;

enum { PLIM_SEEN_MEMORY = 1, PLIM_SEEN_SHAPE = 2, PLIM_SEEN_RATES = 4 };

// Measured on an H200 (docs/measurements.md); assumed for unknown cards.
#define PLIM_CONTEXT_MIB 770ull

extern const plim_gpu plim_gpus[];
extern const size_t plim_gpu_count;

enum { PLIM_MAX_GPUS = 128 };

// Finds a card by a name that a user typed. Case, spaces and dashes do not matter; "NVIDIA", "GeForce", "Tesla", "RTX"
// may be missing; a size may be added ("RTX 3090 24GB") and is then checked. If no card has exactly that name, it
// means the only card whose names contain all of its words ("RTX 8000"). NULL if there is none, or more than one.
const plim_gpu *plim_gpu_named(const char *name);

// All cards that a name could mean, at most PLIM_MAX_GPUS; returns how many.
size_t plim_gpu_candidates(const char *name, const plim_gpu *out[PLIM_MAX_GPUS]);

// The other cards that a short name could have meant: "H100" means the SXM card, but PCIe and NVL are possible. None if
// the name is the card's own.
size_t plim_gpu_others(const char *name, const plim_gpu *meant, const plim_gpu *out[PLIM_MAX_GPUS]);

// Finds an installed card by the driver's name for it. The memory decides between cards of the same name.
const plim_gpu *plim_gpu_present(const char *name, uint64_t memory_mib);

// Like plim_gpu_named, but reports an error: for an unknown name with the closest one, for an ambiguous name with all
// cards that it could mean.
plim_err plim_gpu_find(const char *name, const plim_gpu **out, plim_error *error);

// The size as it is sold, in GB: 24 for 24,564 MiB.
uint32_t plim_gpu_size_gb(const plim_gpu *gpu);

// Memory that PyTorch's allocator can get on an idle card: CUDA's total minus the context. If CUDA's total is not
// known, the driver's is used, which is up to 5 % too much on small cards.
uint64_t plim_gpu_usable_bytes(const plim_gpu *gpu);

int plim_gpu_threads(const plim_gpu *gpu); // threads that a multiprocessor holds

#endif
