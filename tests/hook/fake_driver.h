// What tests ask the driver of fake_driver.c beside CUDA's own functions.
#ifndef PLIM_TESTS_FAKE_DRIVER_H
#define PLIM_TESTS_FAKE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

// CUmemAllocationProp
typedef struct {
  int type, handle_types, location_type, location;
  void *security;
  uint8_t compression, is_rdma_capable;
  uint16_t usage;
  uint8_t reserved[4];
} fake_properties;

const char *
fake_log(void); // the names of some functions that were called, each with a blank behind it
void fake_clear_log(void);
uint64_t fake_used(int device); // bytes; -1: pinned memory of the host
const fake_properties *fake_last_properties(void);

#endif
