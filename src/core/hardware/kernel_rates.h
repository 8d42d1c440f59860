// How long kernels take on a card. The rates are fractions of the data sheet's figures, so that they carry over from the
// H200 on which they were measured (torch 2.11; docs/measurements.md, "The clock") to other cards.
#ifndef PLIM_CORE_KERNEL_RATES_H
#define PLIM_CORE_KERNEL_RATES_H

#include "gpu.h"

// ---- the host: a Xeon, virtual machine, with Python 3.12 ----------------------------------------------
// Mid-range values of several runs (timing.json, timing_again.json), which differ by up to a factor of two.

#define PLIM_OPERATOR_SECONDS 10e-6 // Python, the dispatcher and the creation of a node
#define PLIM_NODE_SECONDS 14.5e-6   // of a backward pass: the engine and a node's function
#define PLIM_LAUNCH_SECONDS 10e-6   // launching a kernel and allocating its result

// ---- the card -----------------------------------------------------------------------------------------

#define PLIM_KERNEL_SECONDS 3e-6 // from the end of one kernel to the first result of the next

typedef enum { PLIM_COMPUTE_FP32, PLIM_COMPUTE_BF16, PLIM_COMPUTE_FP16 } plim_compute;

typedef enum {
  PLIM_SDPA_CUDNN,     // chosen on Hopper
  PLIM_SDPA_FLASH,     // chosen on Ampere and Ada
  PLIM_SDPA_EFFICIENT, // for older cards, float32 and masks
  PLIM_SDPA_MATH       // the fallback
} plim_sdpa_kernel;

// An elementwise kernel on plain tensors that moves so many bytes.
double plim_stream_seconds(const plim_gpu *gpu, double bytes);
// Matrix products that move so many bytes. `odd` says where rows begin: 0 at multiples of 16 bytes, 1 of 4, 2 of fewer.
double plim_product_seconds(const plim_gpu *gpu, plim_compute compute, double flops, double bytes,
                            int odd);
// Attention in one kernel: so many pairs of query and key, heads of this width.
double plim_attention_seconds(const plim_gpu *gpu, plim_compute compute, plim_sdpa_kernel kernel,
                              double pairs, double width, bool is_backward, bool has_dropout);
// Matrix products in it, each with two operations per pair and element of a head.
double plim_attention_flops(double pairs, double width, bool is_backward);

#endif
