// The NVIDIA cards of this machine, through the driver's own library, which is loaded when asked for.
#ifndef PLIM_SYSTEM_NVML_H
#define PLIM_SYSTEM_NVML_H

#include "plimsoll.h"

#define PLIM_MAX_CARDS 64
#define PLIM_MAX_PROCESSES 64

typedef struct {
  unsigned index;       // by which the driver knows it
  char name[96];        // as the driver has it: "NVIDIA GeForce RTX 4090"
  uint64_t total_bytes; // PLIM_UNKNOWN: the driver did not say, as for the two below
  uint64_t free_bytes;  //
  uint64_t used_bytes;  // by processes; what the driver keeps for itself is in neither
} plim_card;

// Fills `cards` and returns how many there are, in the driver's order. Without a driver there are none.
// PLIMSOLL_NVML names another library to load instead of libnvidia-ml.so.1.
size_t plim_nvml_cards(plim_card cards[PLIM_MAX_CARDS]);

typedef struct {
  unsigned pid;        // as the machine counts them, also inside a container
  uint64_t used_bytes; // PLIM_UNKNOWN: the driver did not say
} plim_card_process;

// The processes that hold memory of a card, computing or drawing, each once; returns how many.
size_t plim_nvml_processes(const plim_card *card, plim_card_process out[PLIM_MAX_PROCESSES]);

#endif
