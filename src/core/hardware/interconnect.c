#include "interconnect.h"

#include <math.h>
#include <string.h>

// ---- cards ------------------------------------------------------------------------------------------

// GB/s in each direction that NCCL 2.2x assumes, after protocol overhead: SM60_NVLINK_BW and similar constants and
// PCI_BW in src/graph/topo.h, kvDictPciGen in topo.cc.
static const struct {
  uint16_t capability; // and newer
  double link_gbs;     // of one NVLink
  int pcie;            // PCIe generation
} generations[] = {
    {60, 18, 3}, {70, 20, 3}, {75, 20, 3},   {80, 20, 4},
    {86, 12, 4}, {87, 20, 4}, {90, 20.6, 5}, {100, 40.1, 5},
};
#define PCIE3_X16_GBS 12.0 // doubles with each generation

// The same for copies of pinned memory, which have no NCCL overhead: of the 63.0 GB/s of PCIe 5 x16, 54.8 to an H200
// and 54.9 back were measured (tests/truth/timing_offload.json).
#define PCIE3_X16_COPY_GBS (54.85 / 4)

// Cards on boards that connect all cards by NVLink, and their number of links, from public tables of NVLink
// generations. A bridge connects at most two cards and is sold separately: cards that could have one are assumed to
// use PCIe, and so is a GH200, which is usually alone in its machine.
static const struct {
  const char *name;
  int links;
} joined[] = {
    {"V100 16GB SXM", 6}, {"V100 32GB SXM", 6}, {"A100 40GB SXM", 12}, {"A100 80GB SXM", 12},
    {"H100 SXM", 18},     {"H200", 18},         {"B200", 18},
};

// Cards with eight PCIe lanes, from public tables; all others have sixteen.
static const char *const narrow[] = {"RTX 4060 Ti 16GB", "RTX 4060 Ti 8GB", "RTX 5060 Ti 16GB",
                                     "A2"};

static size_t generation_of(const plim_gpu *gpu) {
  size_t i = sizeof generations / sizeof *generations - 1;
  while (i && generations[i].capability > gpu->capability) i--;
  return i;
}

static double pcie_gbs(const plim_gpu *gpu, double third_generation_gbs) {
  double gbs = ldexp(third_generation_gbs, generations[generation_of(gpu)].pcie - 3);
  for (size_t i = 0; i < sizeof narrow / sizeof *narrow; i++)
    if (strcmp(narrow[i], gpu->name) == 0) gbs /= 2;
  return gbs;
}

double plim_gpu_pcie_gbs(const plim_gpu *gpu) { return pcie_gbs(gpu, PCIE3_X16_GBS); }
double plim_gpu_host_gbs(const plim_gpu *gpu) { return pcie_gbs(gpu, PCIE3_X16_COPY_GBS); }

double plim_gpu_nvlink_gbs(const plim_gpu *gpu) {
  for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
    if (strcmp(joined[i].name, gpu->name) == 0)
      return joined[i].links * generations[generation_of(gpu)].link_gbs;
  return 0;
}

// ---- rings ------------------------------------------------------------------------------------------

// Seconds: NCCL's baseLatencies and hwLatencies for a ring with the protocol for large messages (Simple),
// src/graph/tuning.cc.
static const struct {
  double start, nvlink_hop, pcie_hop, network_hop;
} latency = {8.4e-6, 3.4e-6, 5.7e-6, 14e-6};

static bool has_nvlink(const plim_gpu *gpu, const plim_wiring *w) {
  return w->kind != PLIM_LINK_PCIE && plim_gpu_nvlink_gbs(gpu) > 0;
}

// A ring through all machines crosses each machine's network once in each direction.
plim_ring plim_ring_of(const plim_gpu *gpu, const plim_wiring *w) {
  bool is_nvlink = has_nvlink(gpu, w);
  double gbs = is_nvlink ? plim_gpu_nvlink_gbs(gpu) : plim_gpu_pcie_gbs(gpu);
  double network = w->network_gbs > 0 ? w->network_gbs : PLIM_NETWORK_GBS;
  int64_t outside = w->nodes > 1 ? w->nodes - 1 : 0, inside = w->world - 1 - outside;
  return (plim_ring){.world = w->world,
                     .gbs = outside ? fmin(gbs, network) : gbs,
                     .hops_seconds =
                         (double)inside * (is_nvlink ? latency.nvlink_hop : latency.pcie_hop) +
                         (double)outside * latency.network_hop};
}

double plim_ring_seconds(const plim_ring *r, double bytes, int rounds) {
  if (r->world < 2 || !(bytes > 0)) return 0;
  double share = (double)(r->world - 1) / (double)r->world;
  return latency.start + rounds * (r->hops_seconds + share * bytes / (r->gbs * 1e9));
}
