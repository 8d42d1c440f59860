// What joins a card to others and to the host, and how long a ring over it takes. Copies to the host were measured;
// rates between cards are those that NCCL itself computes with.
#ifndef PLIM_CORE_INTERCONNECT_H
#define PLIM_CORE_INTERCONNECT_H

#include "gpu.h"

typedef enum { PLIM_LINK_OF_CARD, PLIM_LINK_NVLINK, PLIM_LINK_PCIE } plim_link_kind;

// GPUs in a ring. Zeros: one machine, what the card has, PLIM_NETWORK_GBS.
typedef struct {
  int64_t world, nodes;
  plim_link_kind kind;
  double network_gbs; // of one machine to the others, in each direction
} plim_wiring;

#define PLIM_NETWORK_GBS 12.0 // 100 Gbit/s: NCCL's own default, NET_BW in src/graph/topo.h

double plim_gpu_pcie_gbs(const plim_gpu *gpu);   // in each direction, between cards
double plim_gpu_host_gbs(const plim_gpu *gpu);   // the same, to pinned memory of the host
double plim_gpu_nvlink_gbs(const plim_gpu *gpu); // in each direction, all links; 0: it has none

typedef struct {
  int64_t world;
  double gbs;          // that every GPU sends and receives at the same time
  double hops_seconds; // of world - 1 hops
} plim_ring;

plim_ring plim_ring_of(const plim_gpu *gpu, const plim_wiring *wiring);

// An all-gather or a reduce-scatter of `bytes` in all goes round once, an all-reduce twice.
double plim_ring_seconds(const plim_ring *ring, double bytes, int rounds);

#endif
