#include "gpu.h"

// ---- the table --------------------------------------------------------------------------------------
//
// memory_mib: the total that nvidia-smi prints with drivers from 510 on (older ones subtract what the driver reserves:
// 11,178 for a GTX 1080 Ti, 15,109 for a T4), with the default ECC mode: on for data centre cards, off for the others.
// With ECC on, GDDR cards report 1/16 less (a Quadro RTX 8000 46,080).
//
// cuda_mib: total_memory of torch.cuda.get_device_properties in published Linux logs, with the newest driver found;
// every driver branch reserves a little more (RTX 4090: 24,217 in 2023, 24,081 in 2025). The PRO 6000's value is that
// of a Server Edition; those of the A100 80GB SXM, the A100 40GB PCIe and the V100 PCIe are those of their sister
// models.
//
// Rates: dense, float32 accumulation. GeForce cards from Turing on and the L40 accumulate in float32 at half the rate
// of float16, which is the advertised figure; workstation and other data centre cards do not. Where a paper gives
// rates at the reference clock and at that of a Founders Edition, the former is used. Rates that no paper prints are 2
// x fp32 (GeForce from Ampere on) or 4 x fp32 (workstation), the ratio of the tensor cores of one multiprocessor to
// its lanes in the architecture's paper.
//
// What was confirmed, and where (`seen`; a row without a bit was not confirmed in that respect):
// - MEMORY: memory_mib beside the card's name in published nvidia-smi outputs.
// - SHAPE: multiprocessors, capability, bandwidth and fp32 in TechPowerUp's table of cards (a copy of 2025) and in
//   Wikipedia's list of NVIDIA cards; L4 (58) and A10G (80 multiprocessors) by deviceQuery and PyTorch in published
//   logs, where TechPowerUp has 60 and 72.
// - RATES: the tensor rate in Wikipedia's list or in Lightning's table of NVIDIA's papers, converted to dense and
//   float32 accumulation as above. For the L40, NVIDIA's sheet and Lightning have 181, Wikipedia has 362; the smaller is
//   used. For the A10G, some tables repeat the A10's 125. RTX PRO 6000 and B200: as quoted elsewhere from NVIDIA's
//   papers.

// Measured on an H200 with torch 2.11 (docs/measurements.md): 526 MiB when CUDA starts, 770 MiB once the kernels of a
// training step are loaded. No other card was measured; the same value is assumed for them, unverified.
#define MEASURED 770, true
#define ASSUMED 770, false

#define SEEN (PLIM_SEEN_MEMORY | PLIM_SEEN_SHAPE | PLIM_SEEN_RATES)
#define LESS(what) (SEEN & ~PLIM_SEEN_##what)

const plim_gpu plim_gpus[] = {
    // name, also, driver's MiB, CUDA's MiB, context, capability, multiprocessors, GB/s, bf16, fp16, fp32, tf32, seen

    // GeForce: Pascal (GTX 1080 Ti's page), Turing (whitepaper WP-09183-001, reference clocks)
    {"GTX 1080 Ti", "", 11264, 11172, ASSUMED, 61, 28, 484, 0, 0, 11.3, 0, SEEN},
    {"RTX 2060", "", 6144, 0, ASSUMED, 75, 30, 336, 0, 25.8, 6.5, 0, LESS(MEMORY)},
    {"RTX 2070", "", 8192, 0, ASSUMED, 75, 36, 448, 0, 29.9, 7.5, 0, LESS(MEMORY)},
    {"RTX 2080", "", 8192, 0, ASSUMED, 75, 46, 448, 0, 40.3, 10.1, 0, LESS(MEMORY)},
    {"RTX 2080 Ti", "", 11264, 10825, ASSUMED, 75, 68, 616, 0, 53.8, 13.4, 0, SEEN},
    {"Titan RTX", "", 24576, 24212, ASSUMED, 75, 72, 672, 0, 130.5, 16.3, 0, SEEN},

    // GeForce: Ampere (GA102 whitepaper; 3060, 3080 12GB, 3080 Ti, 3090 Ti from their pages' clocks)
    {"RTX 3060 12GB", "RTX 3060", 12288, 11910, ASSUMED, 86, 28, 360, 25.5, 25.5, 12.7, 12.7, SEEN},
    {"RTX 3070", "", 8192, 7753, ASSUMED, 86, 46, 448, 40.6, 40.6, 20.3, 20.3, LESS(MEMORY)},
    {"RTX 3080 10GB", "RTX 3080", 10240, 10009, ASSUMED, 86, 68, 760, 59.5, 59.5, 29.8, 29.8, SEEN},
    {"RTX 3080 12GB", "RTX 3080", 12288, 0, ASSUMED, 86, 70, 912, 61.3, 61.3, 30.6, 30.6,
     LESS(MEMORY)},
    {"RTX 3080 Ti", "", 12288, 11910, ASSUMED, 86, 80, 912, 68.2, 68.2, 34.1, 34.1, LESS(MEMORY)},
    {"RTX 3090", "", 24576, 24139, ASSUMED, 86, 82, 936, 71.2, 71.2, 35.6, 35.6, SEEN},
    {"RTX 3090 Ti", "", 24564, 0, ASSUMED, 86, 84, 1008, 80, 80, 40, 40, SEEN},

    // GeForce: Ada (whitepaper for 4080 and 4090; the others from their pages' clocks)
    {"RTX 4060 Ti 16GB", "RTX 4060 Ti", 16380, 0, ASSUMED, 89, 34, 288, 44.1, 44.1, 22.1, 22.1,
     SEEN},
    {"RTX 4060 Ti 8GB", "RTX 4060 Ti", 8188, 7806, ASSUMED, 89, 34, 288, 44.1, 44.1, 22.1, 22.1,
     SEEN},
    {"RTX 4070", "", 12282, 11994, ASSUMED, 89, 46, 504, 58.3, 58.3, 29.1, 29.1, SEEN},
    {"RTX 4070 Super", "", 12282, 0, ASSUMED, 89, 56, 504, 71, 71, 35.5, 35.5, SEEN},
    {"RTX 4070 Ti", "", 12282, 0, ASSUMED, 89, 60, 504, 80.2, 80.2, 40.1, 40.1, SEEN},
    {"RTX 4070 Ti Super", "", 16376, 16069, ASSUMED, 89, 66, 672, 88.2, 88.2, 44.1, 44.1,
     LESS(MEMORY)},
    {"RTX 4080", "", 16376, 16049, ASSUMED, 89, 76, 717, 97.5, 97.5, 48.7, 48.7, LESS(MEMORY)},
    {"RTX 4080 Super", "", 16376, 15944, ASSUMED, 89, 80, 736, 104.4, 104.4, 52.2, 52.2,
     LESS(MEMORY)},
    {"RTX 4090", "", 24564, 24081, ASSUMED, 89, 128, 1008, 165.2, 165.2, 82.6, 82.6, SEEN},

    // GeForce: Blackwell (RTX Blackwell whitepaper; 5060 Ti from its page's clock)
    {"RTX 5060 Ti 16GB", "RTX 5060 Ti", 16311, 15848, ASSUMED, 120, 36, 448, 47.4, 47.4, 23.7, 23.7,
     SEEN},
    {"RTX 5070", "", 12227, 0, ASSUMED, 120, 48, 672, 61.7, 61.7, 30.9, 30.9, SEEN},
    {"RTX 5070 Ti", "", 16303, 0, ASSUMED, 120, 70, 896, 87.9, 87.9, 43.9, 43.9, SEEN},
    {"RTX 5080", "", 16303, 15840, ASSUMED, 120, 84, 960, 112.6, 112.6, 56.3, 56.3, SEEN},
    {"RTX 5090", "", 32607, 32102, ASSUMED, 120, 170, 1792, 209.5, 209.5, 104.8, 104.8, SEEN},

    // Workstation: data sheets, which give sparse tensor rates: halved here (FP8 rates, from Ada on: a quarter)
    {"Quadro RTX 6000", "", 24576, 0, ASSUMED, 75, 72, 672, 0, 130.5, 16.3, 0, LESS(MEMORY)},
    {"Quadro RTX 8000", "", 49152, 48380, ASSUMED, 75, 72, 672, 0, 130.5, 16.3, 0, SEEN},
    {"RTX A2000 12GB", "RTX A2000", 12282, 12017, ASSUMED, 86, 26, 288, 31.9, 31.9, 8, 16,
     LESS(MEMORY)},
    {"RTX A4000", "", 16376, 16117, ASSUMED, 86, 48, 448, 76.7, 76.7, 19.2, 38.3, SEEN},
    {"RTX A4500", "", 20470, 0, ASSUMED, 86, 56, 640, 94.6, 94.6, 23.7, 47.3, SEEN},
    {"RTX A5000", "", 24564, 24114, ASSUMED, 86, 64, 768, 111.1, 111.1, 27.8, 55.6, LESS(MEMORY)},
    {"RTX A5500", "", 24564, 0, ASSUMED, 86, 80, 768, 136.4, 136.4, 34.1, 68.2, LESS(MEMORY)},
    {"RTX A6000", "", 49140, 48676, ASSUMED, 86, 84, 768, 154.8, 154.8, 38.7, 77.4, SEEN},
    // RTX 4000 Ada: its sheet prints 327.6 for FP8, but 16 x fp32, which holds for every other Ada card, is
    // 427.6, and Wikipedia has that, too. Treated as a misprint.
    {"RTX 4000 Ada", "", 20475, 0, ASSUMED, 89, 48, 360, 106.9, 106.9, 26.7, 53.5, SEEN},
    {"RTX 5000 Ada", "", 32760, 0, ASSUMED, 89, 100, 576, 261.1, 261.1, 65.3, 130.6, SEEN},
    {"RTX 6000 Ada", "", 49140, 48497, ASSUMED, 89, 142, 960, 364.2, 364.2, 91.1, 182.1, SEEN},
    {"RTX PRO 6000 Blackwell", "RTX PRO 6000;RTX PRO 6000 Blackwell Workstation Edition", 97887,
     97250, ASSUMED, 120, 188, 1792, 503.8, 503.8, 126, 251.9, SEEN},

    // Data centre: Pascal (P100 data sheet), Volta (V100 data sheet), Turing (T4 data sheet)
    {"P100 16GB", "P100;P100 PCIe", 16384, 16269, ASSUMED, 60, 56, 732, 0, 0, 9.3, 0, LESS(MEMORY)},
    {"V100 16GB SXM", "V100 16GB", 16384, 16130, ASSUMED, 70, 80, 900, 0, 125, 15.7, 0,
     LESS(MEMORY)},
    {"V100 32GB SXM", "V100 32GB", 32768, 32494, ASSUMED, 70, 80, 900, 0, 125, 15.7, 0, SEEN},
    {"V100 16GB PCIe", "", 16384, 16130, ASSUMED, 70, 80, 900, 0, 112, 14, 0, LESS(MEMORY)},
    {"V100 32GB PCIe", "", 32768, 32494, ASSUMED, 70, 80, 900, 0, 112, 14, 0, LESS(MEMORY)},
    {"T4", "", 15360, 14912, ASSUMED, 75, 40, 320, 0, 65, 8.1, 0, SEEN},

    // Data centre: Ampere (A100 whitepaper, data sheets; A10G: data sheet, half the A10's tensor rate)
    {"A2", "", 15356, 0, ASSUMED, 86, 10, 200, 18, 18, 4.5, 9, SEEN},
    {"A10", "", 23028, 0, ASSUMED, 86, 72, 600, 125, 125, 31.2, 62.5, SEEN},
    {"A10G", "", 23028, 22587, ASSUMED, 86, 80, 600, 70, 70, 35, 35, LESS(RATES)},
    {"A30", "", 24576, 24164, ASSUMED, 80, 56, 933, 165, 165, 10.3, 82, SEEN},
    {"A40", "", 46068, 45416, ASSUMED, 86, 84, 696, 149.7, 149.7, 37.4, 74.8, SEEN},
    {"A100 40GB SXM", "A100 40GB", 40960, 40339, ASSUMED, 80, 108, 1555, 312, 312, 19.5, 156, SEEN},
    {"A100 40GB PCIe", "", 40960, 40339, ASSUMED, 80, 108, 1555, 312, 312, 19.5, 156, SEEN},
    {"A100 80GB SXM", "A100 80GB", 81920, 81154, ASSUMED, 80, 108, 2039, 312, 312, 19.5, 156, SEEN},
    {"A100 80GB PCIe", "", 81920, 81154, ASSUMED, 80, 108, 1935, 312, 312, 19.5, 156, SEEN},

    // Data centre: Ada (L4, L40, L40S data sheets)
    {"L4", "", 23034, 22563, ASSUMED, 89, 58, 300, 121, 121, 30.3, 60, SEEN},
    {"L40", "", 46068, 0, ASSUMED, 89, 142, 864, 181, 181, 90.5, 90.5, LESS(MEMORY) & LESS(RATES)},
    {"L40S", "", 46068, 45495, ASSUMED, 89, 142, 864, 362, 362, 91.6, 183, SEEN},

    // Data centre: Hopper (H100 whitepaper; H100 NVL, GH200, H200 data sheets), Blackwell (HGX B200
    // data sheet). H200: memory, CUDA's total and context measured.
    {"H100 SXM", "H100;H100 HBM3", 81559, 81082, ASSUMED, 90, 132, 3352, 989, 989, 66.9, 494, SEEN},
    {"H100 PCIe", "", 81559, 81008, ASSUMED, 90, 114, 2039, 756, 756, 51.2, 378, SEEN},
    {"H100 NVL", "", 95830, 95320, ASSUMED, 90, 132, 3938, 835, 835, 60, 417, SEEN},
    {"GH200", "GH200 480GB;GH200 120GB", 97871, 0, ASSUMED, 90, 132, 4000, 989, 989, 67, 494,
     LESS(SHAPE) & LESS(RATES)},
    {"H200", "H200 SXM", 143771, 143155, MEASURED, 90, 132, 4800, 989, 989, 67, 494, SEEN},
    {"B200", "B200 SXM", 183359, 182631, ASSUMED, 100, 148, 7700, 2250, 2250, 75, 1125, SEEN},
};

const size_t plim_gpu_count = sizeof plim_gpus / sizeof *plim_gpus;
_Static_assert(sizeof plim_gpus / sizeof *plim_gpus <= PLIM_MAX_GPUS,
               "more cards than lists of them hold");

uint64_t plim_gpu_usable_bytes(const plim_gpu *gpu) {
  uint32_t total = gpu->cuda_mib ? gpu->cuda_mib : gpu->memory_mib;
  return (uint64_t)(total - gpu->context_mib) * PLIM_MIB;
}

// From CUDA's programming guide, technical specifications per compute capability.
int plim_gpu_threads(const plim_gpu *gpu) {
  switch (gpu->capability) {
  case 75: return 1024;
  case 86:
  case 87:
  case 89:
  case 120:
  case 121: return 1536;
  default: return 2048;
  }
}

// ECC in GDDR takes a sixteenth, drivers and chips a little more, so this returns the next larger size that is sold.
uint32_t plim_gpu_size_gb(const plim_gpu *gpu) {
  static const uint32_t sold[] = {6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 80, 94, 96, 141, 180};
  uint32_t gib = (gpu->memory_mib + 1023) / 1024;
  size_t i = 0;
  while (i + 1 < sizeof sold / sizeof *sold && sold[i] < gib) i++;
  return sold[i];
}
