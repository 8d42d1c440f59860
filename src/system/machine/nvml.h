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

typedef enum {
  PLIM_NVML_OPEN,
  PLIM_NVML_ABSENT, // there is no such library: no driver is installed
  PLIM_NVML_FAILED, // the library does not start, as when the kernel module has another version
  PLIM_NVML_SILENT, // the driver does not answer
} plim_nvml_state;

// Fills `cards` and returns how many there are, in the driver's order. Without a driver, or if it does not answer, there
// are none; `state`, which may be NULL, says why. A driver that hangs holds this up for at most $PLIMSOLL_NVML_SECONDS
// (default: 30; without persistence mode, starting a machine full of GPUs takes many seconds).
// PLIMSOLL_NVML names another library to load instead of libnvidia-ml.so.1.
size_t plim_nvml_cards(plim_card cards[PLIM_MAX_CARDS], plim_nvml_state *state);

typedef struct {
  unsigned pid;        // the host's process id, also inside a container
  uint64_t used_bytes; // PLIM_UNKNOWN: not reported
  bool computes;       // otherwise it only draws
} plim_card_process;

// The processes that use memory of a card, for compute or graphics, each once; returns how many. Otherwise as above.
size_t plim_nvml_processes(const plim_card *card, plim_card_process out[PLIM_MAX_PROCESSES],
                           plim_nvml_state *state);

// ---- asking again and again -------------------------------------------------------------------------

// The driver's library, loaded and initialised once. A call may take long, or never return if the driver hangs: call it
// on a thread of its own where that matters.
typedef struct plim_nvml plim_nvml;

plim_nvml *
plim_nvml_open(plim_nvml_state *state); // NULL unless PLIM_NVML_OPEN; the caller closes it
void plim_nvml_close(plim_nvml *nvml);  // NULL is fine

// As above. False if the driver fails, which is not the same as no cards or no processes.
bool plim_nvml_list(plim_nvml *nvml, plim_card cards[PLIM_MAX_CARDS], size_t *count);
bool plim_nvml_users(plim_nvml *nvml, const plim_card *card,
                     plim_card_process out[PLIM_MAX_PROCESSES], size_t *count);

// What a card does at this moment. PLIM_UNKNOWN: the driver does not say.
typedef struct {
  uint64_t busy_percent; // of the last sample period, in which at least one kernel ran
  uint64_t temperature_celsius;
  uint64_t power_milliwatts, power_limit_milliwatts;
} plim_card_activity;

plim_card_activity plim_nvml_activity(plim_nvml *nvml, const plim_card *card);

#endif
