// Versions of the libraries that a training program uses. What they allocate changes from version to version; each such
// condition stands at the operator or module that changed.
#ifndef PLIM_CORE_VERSIONS_H
#define PLIM_CORE_VERSIONS_H

#include <stdint.h>

// 5.22 is 5022. Memory does not depend on the third number.
#define PLIM_RELEASE(major, minor) ((uint16_t)((major)*1000 + (minor)))

typedef struct {
  uint16_t transformers, torch, peft; // 0: the version that was measured
} plim_versions;

// Those that were measured on real GPUs (tests/truth).
#define PLIM_MEASURED_TRANSFORMERS PLIM_RELEASE(5, 17)
#define PLIM_MEASURED_TORCH PLIM_RELEASE(2, 11)
#define PLIM_MEASURED_PEFT PLIM_RELEASE(0, 21)

#endif
