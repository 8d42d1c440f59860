// How long a step would take on the real card, by the clock's rates. The shapes of products and attention are known, and the
// number of kernels. What the other kernels move is not known and follows a rule.
#include <math.h>

#include "kernel_rates.h"
#include "simulate_impl.h"

// Each byte that PyTorch's allocator hands out in a step is the result of a kernel: it is written once, read by the next
// kernel and read again in the backward pass. What products write is part of their time. The number of passes was chosen
// among 2, 3 and 4 by six of the recorded runs that tests/torch/times.py measures.
static double moved_bytes(const card_work *w) {
  enum { PASSES = 3 };
  double by_kernels = fmax(0, w->allocated_bytes - w->product_bytes);
  return PASSES * by_kernels + w->listed_bytes;
}

// For each kernel, the host runs an operator or a node of the backward pass, and another one that launches nothing (a view),
// with Python between them. Chosen by the same runs.
static double host_seconds(const card_work *w) {
  return (double)w->launches * (PLIM_LAUNCH_SECONDS + PLIM_OPERATOR_SECONDS + PLIM_NODE_SECONDS);
}

simulate_step simulate_step_of(const plim_gpu *gpu, const card_work *w) {
  simulate_step s = {0};
  bool has_rates = gpu->bandwidth_gbs > 0 && gpu->fp32_tflops > 0;
  if (!w->launches || !has_rates) return s;
  s.kernels = w->launches;
  s.product_seconds = w->product_seconds;
  s.attention_seconds = w->attention_seconds;
  s.memory_seconds =
      plim_stream_seconds(gpu, moved_bytes(w)) + (double)w->launches * PLIM_KERNEL_SECONDS;
  s.host_seconds = host_seconds(w);
  s.seconds = fmax(s.host_seconds, s.product_seconds + s.attention_seconds + s.memory_seconds);
  return s;
}
