// The table of cards is plausible, and a card is found by all of its names.
#include <stdlib.h>

#include "gpu.h"
#include "test.h"

#define EACH_GPU(gpu) for (const plim_gpu *gpu = plim_gpus; gpu < plim_gpus + plim_gpu_count; gpu++)

TEST(gpu_names_are_unique) {
  CHECK(plim_gpu_count >= 45, "%zu cards", plim_gpu_count);
  EACH_GPU(gpu) {
    const plim_gpu *found = plim_gpu_named(gpu->name);
    CHECK(found == gpu, "%s finds %s", gpu->name, found ? found->name : "none");
  }
}

TEST(gpu_memory_is_plausible) {
  EACH_GPU(gpu) {
    double gib = gpu->memory_mib / 1024.0;
    CHECK(gib > 5.9 && gib < 200, "%s: %f GiB", gpu->name, gib);
    CHECK(!gpu->cuda_mib || gpu->cuda_mib < gpu->memory_mib, "%s: CUDA's total", gpu->name);
    CHECK(!gpu->cuda_mib || gpu->cuda_mib > 0.93 * gpu->memory_mib, "%s: CUDA's total", gpu->name);
    CHECK(plim_gpu_usable_bytes(gpu) < gpu->memory_mib * PLIM_MIB, "%s: usable", gpu->name);
  }
}

// The clock that the float32 rate implies, with 64 lanes per multiprocessor (Pascal's GP100, Volta, Turing, GA100)
// or 128.
static double implied_ghz(const plim_gpu *gpu) {
  bool has_64 = gpu->capability == 60 || gpu->capability == 70 || gpu->capability == 75 ||
                gpu->capability == 80;
  return gpu->fp32_tflops * 1000 / (gpu->multiprocessors * (has_64 ? 64.0 : 128.0) * 2);
}

TEST(gpu_clocks_are_plausible) {
  EACH_GPU(gpu) {
    double ghz = implied_ghz(gpu);
    CHECK(ghz > 1.2 && ghz < 2.7, "%s: %f GHz", gpu->name, ghz);
  }
}

// Per multiprocessor and clock, tensor cores do 2 (GeForce) to 32 (B200) times what the lanes do.
TEST(gpu_tensor_rates_follow_the_architecture) {
  EACH_GPU(gpu) {
    double share = gpu->fp16_tflops / gpu->fp32_tflops;
    bool has_bf16 = gpu->capability >= 80, has_tensor_cores = gpu->capability >= 70;
    CHECK(has_tensor_cores == (gpu->fp16_tflops > 0), "%s: fp16", gpu->name);
    CHECK(has_bf16 == (gpu->bf16_tflops > 0) && has_bf16 == (gpu->tf32_tflops > 0), "%s: bf16",
          gpu->name);
    CHECK(!has_bf16 || gpu->bf16_tflops == gpu->fp16_tflops, "%s: bf16 is not fp16", gpu->name);
    CHECK(!has_tensor_cores || (share > 1.9 && share < 33), "%s: fp16 is %f of fp32", gpu->name,
          share);
    double tf32 = has_bf16 ? gpu->tf32_tflops / gpu->bf16_tflops : 0.5;
    CHECK(tf32 > 0.48 && tf32 < 0.51, "%s: tf32 is %f of bf16", gpu->name, tf32);
  }
}

TEST(gpu_geforce_accumulates_at_half_rate) {
  static const char *const names[] = {"RTX 3090", "RTX 4090", "RTX 5090", "RTX 4070 Super"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const plim_gpu *gpu = plim_gpu_named(names[i]);
    double share = gpu->bf16_tflops / gpu->fp32_tflops;
    CHECK(share > 1.95 && share < 2.05, "%s: %f", names[i], share);
  }
}

TEST(gpu_bandwidth_grows_with_the_series) {
  static const char *const series[][4] = {{"RTX 2080", "RTX 3080 10GB", "RTX 5080"},
                                          {"RTX 3090", "RTX 4090", "RTX 5090"},
                                          {"V100 16GB", "A100 40GB", "H100 SXM", "H200"},
                                          {"T4", "A10", "L40S", "A30"}};
  for (size_t i = 0; i < sizeof series / sizeof *series; i++)
    for (size_t k = 1; k < 4 && series[i][k]; k++)
      CHECK(plim_gpu_named(series[i][k - 1])->bandwidth_gbs <
                plim_gpu_named(series[i][k])->bandwidth_gbs,
            "%s", series[i][k]);
}

TEST(gpu_is_found_by_nvidia_smi_names) {
  static const struct {
    const char *said, *name;
  } cases[] = {
      {"NVIDIA GeForce RTX 4090", "RTX 4090"},
      {"NVIDIA GeForce RTX 3080 Ti", "RTX 3080 Ti"},
      {"NVIDIA GeForce RTX 4070 Ti SUPER", "RTX 4070 Ti Super"},
      {"NVIDIA TITAN RTX", "Titan RTX"},
      {"NVIDIA A100-SXM4-80GB", "A100 80GB SXM"},
      {"NVIDIA A100-SXM4-40GB", "A100 40GB SXM"},
      {"NVIDIA A100-PCIE-40GB", "A100 40GB PCIe"},
      {"NVIDIA A100 80GB PCIe", "A100 80GB PCIe"},
      {"NVIDIA H100 80GB HBM3", "H100 SXM"},
      {"NVIDIA H100 PCIe", "H100 PCIe"},
      {"NVIDIA H100 NVL", "H100 NVL"},
      {"NVIDIA GH200 480GB", "GH200"},
      {"NVIDIA H200", "H200"},
      {"Tesla T4", "T4"},
      {"Tesla V100-SXM2-16GB", "V100 16GB SXM"},
      {"Tesla V100-PCIE-32GB", "V100 32GB PCIe"},
      {"Tesla P100-PCIE-16GB", "P100 16GB"},
      {"Quadro RTX 8000", "Quadro RTX 8000"},
      {"NVIDIA RTX A6000", "RTX A6000"},
      {"NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"},
      {"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 Blackwell"},
      {"NVIDIA A10G", "A10G"},
      {"NVIDIA L40S", "L40S"},
      // spellings that people use
      {"rtx4090", "RTX 4090"},
      {"4090", "RTX 4090"},
      {"a6000", "RTX A6000"},
      {"a100-80gb", "A100 80GB SXM"},
      {"h100", "H100 SXM"},
      {"RTX_3060", "RTX 3060 12GB"},
      {"RTX 3090 24GB", "RTX 3090"},
      {"rtx3090-24g", "RTX 3090"},
      {"RTX 8000", "Quadro RTX 8000"},
      {"rtx8000", "Quadro RTX 8000"},
      {"A100 80GB", "A100 80GB SXM"},
      {"a100-40g", "A100 40GB SXM"},
      {"A100 80 GB PCIe", "A100 80GB PCIe"},
      {"PCIe A100 80GB", "A100 80GB PCIe"},
      {"H100 PCIe", "H100 PCIe"},
      {"H100 80GB", "H100 SXM"},
      {"h100-sxm5-80gb", "H100 SXM"},
      {"4060 Ti 16 GB", "RTX 4060 Ti 16GB"},
      {"6000 ada", "RTX 6000 Ada"},
      {"pro 6000", "RTX PRO 6000 Blackwell"},
      {"A10 24GB", "A10"},
      {"T4 16GB", "T4"},
      {"L40S 48GB", "L40S"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const plim_gpu *gpu = plim_gpu_named(cases[i].said);
    CHECK(gpu, "%s is not found", cases[i].said);
    CHECK_STR(gpu->name, cases[i].name);
  }
}

TEST(gpu_memory_decides_between_cards_of_one_name) {
  CHECK_STR(plim_gpu_present("NVIDIA GeForce RTX 4060 Ti", 8188)->name, "RTX 4060 Ti 8GB");
  CHECK_STR(plim_gpu_present("NVIDIA GeForce RTX 4060 Ti", 16380)->name, "RTX 4060 Ti 16GB");
  CHECK_STR(plim_gpu_present("NVIDIA GeForce RTX 3080", 12288)->name, "RTX 3080 12GB");
  CHECK(!plim_gpu_present("Radeon", 16384), "found");
}

TEST(gpu_other_cards_are_not_found) {
  static const char *const names[] = {
      "",  "-",     "NVIDIA",        "RTX",  "RTX 6000", "NVIDIA GeForce RTX 4090 Laptop GPU",
      "4", "A1000", "RTX 3090 32GB", "24GB", "24 GiB",   "A100 MIG 5GB 40GB"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    CHECK(!plim_gpu_named(names[i]), "%s finds %s", names[i], plim_gpu_named(names[i])->name);
  char long_name[300];
  memset(long_name, 'x', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  CHECK(!plim_gpu_named(long_name), "found");
}

TEST(gpu_typos_get_suggestions) {
  const plim_gpu *gpu;
  plim_error error;
  CHECK(plim_gpu_find("RTX 4900", &gpu, &error) == PLIM_ERR_ARGUMENT && !gpu, "found");
  CHECK_STR(error.message, "unknown GPU \"RTX 4900\"; did you mean \"RTX 4090\"?");
  CHECK_STR(error.hint, "plimsoll help gpus lists the names; or give a size such as 24GiB");
  CHECK(plim_gpu_find("Voodoo2", &gpu, &error) == PLIM_ERR_ARGUMENT, "found");
  CHECK_STR(error.message, "unknown GPU \"Voodoo2\"");
  CHECK(plim_gpu_find("tesla t4", &gpu, &error) == PLIM_OK, "not found");
}

TEST(ambiguous_gpu_names_are_refused_with_candidates) {
  const plim_gpu *gpu;
  plim_error error;
  CHECK(plim_gpu_find("A100", &gpu, &error) == PLIM_ERR_ARGUMENT && !gpu, "found");
  CHECK_STR(error.message, "\"A100\" could be A100 40GB SXM, A100 40GB PCIe, A100 80GB SXM or "
                           "A100 80GB PCIe");
  CHECK(plim_gpu_find("RTX 4060 Ti", &gpu, &error) == PLIM_ERR_ARGUMENT, "found");
  CHECK_STR(error.message, "\"RTX 4060 Ti\" could be RTX 4060 Ti 16GB or RTX 4060 Ti 8GB");
  CHECK(plim_gpu_find("RTX 6000", &gpu, &error) == PLIM_ERR_ARGUMENT, "found");
  CHECK_STR(error.message, "\"RTX 6000\" could be Quadro RTX 6000, RTX 6000 Ada or RTX PRO 6000 "
                           "Blackwell");
  CHECK(plim_gpu_find("rtx", &gpu, &error) == PLIM_ERR_ARGUMENT, "found");
  CHECK(strstr(error.message, "RTX 2060, RTX 2070, ") && strstr(error.message, " more"), "%s",
        error.message);
}

// If a card exists in several sizes, its name contains the size. The driver reports at most that much, and at least
// fifteen sixteenths of it because of ECC.
TEST(gpu_memory_is_that_of_the_size_sold) {
  EACH_GPU(gpu) {
    uint32_t sold = plim_gpu_size_gb(gpu);
    const char *gb = strstr(gpu->name, "GB");
    CHECK(gpu->memory_mib <= sold * 1024, "%s: %u MiB of %u GB", gpu->name, gpu->memory_mib, sold);
    CHECK(gpu->memory_mib >= 0.93 * sold * 1024, "%s: %u MiB", gpu->name, gpu->memory_mib);
    if (!gb) continue;
    while (gb > gpu->name && gb[-1] >= '0' && gb[-1] <= '9') gb--;
    CHECK(strtoul(gb, NULL, 10) == sold, "%s is sold with %u GB", gpu->name, sold);
  }
}

TEST(gpu_capabilities_are_known) {
  static const int known[] = {60, 61, 70, 75, 80, 86, 89, 90, 100, 120};
  EACH_GPU(gpu) {
    bool is_known = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      is_known = is_known || known[i] == gpu->capability;
    CHECK(is_known, "%s: %d", gpu->name, gpu->capability);
  }
}

// HBM has at least 700 GB/s and GDDR less than 1.8 TB/s; every value has a source.
TEST(gpu_bandwidth_is_plausible) {
  EACH_GPU(gpu) {
    bool has_hbm = gpu->capability == 60 || gpu->capability == 70 || gpu->capability == 80 ||
                   gpu->capability == 90 || gpu->capability == 100;
    double least = has_hbm ? 700 : 190, most = has_hbm ? 8000 : 1800;
    CHECK(gpu->bandwidth_gbs >= least && gpu->bandwidth_gbs <= most, "%s: %f GB/s", gpu->name,
          gpu->bandwidth_gbs);
    CHECK(gpu->seen, "%s: no source", gpu->name);
  }
}

// Workstation cards since Ampere: four times the rate of the lanes, whatever the data sheet says.
TEST(gpu_workstation_rates_are_four_times_the_lanes) {
  static const char *const names[] = {"RTX A2000",    "RTX A6000",    "RTX 4000 Ada",
                                      "RTX 5000 Ada", "RTX 6000 Ada", "RTX PRO 6000"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    const plim_gpu *gpu = plim_gpu_named(names[i]);
    double share = gpu->bf16_tflops / gpu->fp32_tflops;
    CHECK(share > 3.95 && share < 4.05, "%s: %f", names[i], share);
  }
}

TEST(gpu_context_says_whether_it_was_measured) {
  CHECK(plim_gpu_named("H200")->context_is_measured, "H200");
  CHECK(!plim_gpu_named("RTX 4090")->context_is_measured, "RTX 4090");
  CHECK_U64(plim_gpu_usable_bytes(plim_gpu_named("H200")), (143155 - 770) * PLIM_MIB);
}

TEST_MAIN
