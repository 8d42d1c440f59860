// Lists the NVIDIA cards of this machine, through the driver's library, which is loaded on demand.
#ifndef PLIM_SYSTEM_NVML_H
#define PLIM_SYSTEM_NVML_H

#include "plimsoll.h"

#define PLIM_MAX_CARDS 64
#define PLIM_MAX_PROCESSES 64

typedef struct {
  unsigned index;       // the driver's index
  char name[96];        // the driver's name: "NVIDIA GeForce RTX 4090"
  char uuid[96];        // "GPU-3f1c..."; empty: not reported
  uint64_t total_bytes; // PLIM_UNKNOWN: not reported; likewise the two below
  uint64_t free_bytes;  //
  uint64_t used_bytes;  // by processes; the driver's reserve is in neither
} plim_card;

// Fills `cards` and returns how many there are, in the driver's order. Without a driver there are none.
// PLIMSOLL_NVML names another library to load instead of libnvidia-ml.so.1.
size_t plim_nvml_cards(plim_card cards[PLIM_MAX_CARDS]);

typedef struct {
  unsigned pid;        // the host's process id, also inside a container
  uint64_t used_bytes; // PLIM_UNKNOWN: not reported
} plim_card_process;

// The processes that use memory of a card, for compute or graphics, each once; returns how many.
size_t plim_nvml_processes(const plim_card *card, plim_card_process out[PLIM_MAX_PROCESSES]);

#endif
