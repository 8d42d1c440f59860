// How a card is connected to other cards and to the host, and how long a collective over a ring takes. Copies to the
// host were measured; rates between cards are those that NCCL itself assumes.
#ifndef PLIM_CORE_INTERCONNECT_H
#define PLIM_CORE_INTERCONNECT_H

#include "gpu.h"

typedef enum { PLIM_LINK_OF_CARD, PLIM_LINK_NVLINK, PLIM_LINK_PCIE } plim_link_kind;

// GPUs in a ring. Zeros mean: one machine, the card's own link, PLIM_NETWORK_GBS.
typedef struct {
  int64_t world, nodes;
  plim_link_kind kind;
  double network_gbs; // from one machine to the others, in each direction
} plim_wiring;

#define PLIM_NETWORK_GBS 12.0 // 100 Gbit/s: NCCL's default, NET_BW in src/graph/topo.h

double plim_gpu_pcie_gbs(const plim_gpu *gpu);   // between cards, in each direction
double plim_gpu_host_gbs(const plim_gpu *gpu);   // to pinned host memory, in each direction
double plim_gpu_nvlink_gbs(const plim_gpu *gpu); // all links, in each direction; 0: no NVLink

typedef struct {
  int64_t world;
  double gbs;          // sent and received by every GPU at the same time
  double hops_seconds; // latency of world - 1 hops
} plim_ring;

plim_ring plim_ring_of(const plim_gpu *gpu, const plim_wiring *wiring);

// Time of a collective over `bytes` in total: rounds is 1 for an all-gather or a reduce-scatter, 2 for an all-reduce.
double plim_ring_seconds(const plim_ring *ring, double bytes, int rounds);

#endif
