// Models of how the CUDA driver chooses the addresses of new segments.
#ifndef PLIM_CORE_DRIVER_H
#define PLIM_CORE_DRIVER_H

#include "allocator.h"
#include "vec.h"

// The driver as recorded addresses show it (one machine, driver 580). Address space is taken in ranges of multiples of
// 32 MiB, from the top down, each in the highest gap larger than it. A segment takes the start of its range; the rest
// of a range, and memory freed in it, serves later segments: the newest range that has room, and in it the lowest address.
// An empty range is given up.
//
// The error of the reserved peak when this model replaces the recorded addresses of the training runs in tests/truth,
// with the same settings and on the same machine. Measured by tests/core/allocator/test_address_model.c, which fails if
// it changes.
#define PLIM_ADDRESS_MODEL_MEAN_PERCENT 0.04
#define PLIM_ADDRESS_MODEL_WORST_PERCENT 2.2

typedef struct {
  uint64_t start, bytes, used_bytes;
  uint64_t number; // ranges are counted as they are made
} plim_address_range;

typedef struct {
  uint64_t addr, bytes;
} plim_address_hole;

#define PLIM_ADDRESS_STEP (32 * PLIM_MIB) // recorded: 16 segments of 2 MiB share a range of 32 MiB

// Where ranges come from. The model has an address space of its own, unless `take` is set.
typedef struct {
  uint64_t (*take)(uint64_t bytes); // multiples of PLIM_ADDRESS_STEP; 0: there is no room
  void (*give_back)(uint64_t start, uint64_t bytes);
} plim_address_space;

typedef struct {
  vec(plim_address_range) ranges; // by address; each contains a segment
  vec(plim_address_hole) holes;   // by address; unused parts of ranges
  bool has_failed;                // out of memory: no more addresses
  uint64_t ranges_made;
  plim_address_space space;
} plim_address_model;

void plim_address_model_init(plim_address_model *model);
void plim_address_model_clear(plim_address_model *model);

// Copies the state of a model with an address space of its own. Returns false when out of memory.
bool plim_address_model_copy(plim_address_model *to, const plim_address_model *from);

// Whether an address is in one of the ranges.
bool plim_address_model_contains(const plim_address_model *model, uint64_t addr);

// The model as an allocator's driver; it must outlive the allocator.
plim_driver plim_address_model_driver(plim_address_model *model);

#endif
