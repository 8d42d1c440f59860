// Where new segments go: models of the CUDA driver's choice of addresses.
#ifndef PLIM_CORE_DRIVER_H
#define PLIM_CORE_DRIVER_H

#include "allocator.h"
#include "vec.h"

// The driver as recorded addresses show it (one machine, driver 580): address space is taken in
// ranges of 32 MiB multiples, from the top down, each in the highest gap larger than it; a segment
// takes the start of its range; what is left of a range, or comes free in it, serves later segments,
// lowest address first; a range that is empty again is given up.
//
// The error of peak reserved when it stands in for the recorded addresses of the training runs in
// tests/truth, same settings, same machine that it was read off; measured by
// tests/core/allocator/test_address_model.c, which fails if it changes.
#define PLIM_ADDRESS_MODEL_MEAN_PERCENT 0.04
#define PLIM_ADDRESS_MODEL_WORST_PERCENT 2.2

typedef struct {
  uint64_t start, bytes, used_bytes;
} plim_address_range;

typedef struct {
  uint64_t addr, bytes;
} plim_address_hole;

typedef struct {
  vec(plim_address_range) ranges; // by address, each with a segment in it
  vec(plim_address_hole) holes;   // by address; unused parts of ranges
  bool has_failed;                // this machine was out of memory: no addresses from here on
} plim_address_model;

void plim_address_model_init(plim_address_model *model);
void plim_address_model_clear(plim_address_model *model);

// A copy in the same state; false when memory is out.
bool plim_address_model_copy(plim_address_model *to, const plim_address_model *from);

// The model as an allocator's driver; it must outlive the allocator.
plim_driver plim_address_model_driver(plim_address_model *model);

#endif
