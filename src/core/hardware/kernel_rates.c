#include "kernel_rates.h"

#include <math.h>

static const struct {
  double stream;         // fraction of the bandwidth: elementwise kernels on plain tensors
  double matmul_seconds; // filling and draining the pipeline of a matrix product
  double matmul;         // fraction of the tensor cores' peak
  double matmul_stream;  // fraction of the bandwidth, for products limited by it
  double matmul_exposed; // fraction of the time for a product's bytes not hidden by arithmetic
  double odd_rows[3];    // fraction of a product's rate that remains when rows begin at multiples
                         // of 16, 4 and 2 bytes: tensor cores of Hopper, of Ampere, of Turing
} card = {.stream = 0.92,
          .matmul_seconds = 2e-6,
          .matmul = 0.76,
          .matmul_stream = 0.75,
          .matmul_exposed = 0.4,
          .odd_rows = {1, 0.33, 0.15}};

// Pairs of query and key per second, per float32 FLOP/s: exponentials and scaling, and random numbers with dropout.
// The tensor cores compute the matrix products at the same time.
static const struct {
  double forward, backward;
} pairs_rate[] = {
    [PLIM_SDPA_CUDNN] = {2e12 / 66.9e12, 0.8e12 / 66.9e12},
    [PLIM_SDPA_FLASH] = {2e12 / 66.9e12, 0.8e12 / 66.9e12}, // assumed equal to cuDNN; not measured
    [PLIM_SDPA_EFFICIENT] = {0.22e12 / 66.9e12, 0.1e12 / 66.9e12},
};
#define DROPOUT_PAIRS (1e12 / 66.9e12)

static double peak_flops(const plim_gpu *gpu, plim_compute compute) {
  double tflops = compute == PLIM_COMPUTE_BF16   ? gpu->bf16_tflops
                  : compute == PLIM_COMPUTE_FP16 ? gpu->fp16_tflops
                                                 : gpu->fp32_tflops;
  return 1e12 * (tflops > 0 ? tflops : gpu->fp32_tflops);
}

double plim_stream_seconds(const plim_gpu *gpu, double bytes) {
  return bytes / (gpu->bandwidth_gbs * 1e9 * card.stream);
}

double plim_product_seconds(const plim_gpu *gpu, plim_compute compute, double flops, double bytes,
                            int odd) {
  bool is_wide = compute == PLIM_COMPUTE_FP32; // no tensor cores, so alignment does not matter
  double rate = peak_flops(gpu, compute) * card.matmul * (is_wide ? 1 : card.odd_rows[odd]);
  double moving = bytes / (gpu->bandwidth_gbs * 1e9);
  double computing = flops / rate + card.matmul_exposed * moving;
  return card.matmul_seconds + fmax(computing, moving / card.matmul_stream);
}

double plim_attention_flops(double pairs, double width, bool is_backward) {
  double products = is_backward ? 5 : 2;
  return 2 * products * pairs * width;
}

double plim_attention_seconds(const plim_gpu *gpu, plim_compute compute, plim_sdpa_kernel kernel,
                              double pairs, double width, bool is_backward, bool has_dropout) {
  double rate = is_backward ? pairs_rate[kernel].backward : pairs_rate[kernel].forward;
  if (has_dropout) rate = 1 / (1 / rate + 1 / DROPOUT_PAIRS);
  double flops = plim_attention_flops(pairs, width, is_backward);
  double other = pairs / (rate * gpu->fp32_tflops * 1e12);
  return card.matmul_seconds + flops / (peak_flops(gpu, compute) * card.matmul) + other;
}
