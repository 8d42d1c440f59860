// A heap whose N-th request fails, or that one and all after it; of this process, libraries included.
#ifndef PLIM_TESTS_FAULT_MEMORY_H
#define PLIM_TESTS_FAULT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#define FAULT_NEVER ((size_t)-1)

// Starts counting anew: request `at`, counted from 0, fails; `stays`: so do all after it.
void fault_memory_set(size_t at, bool stays);
size_t fault_memory_count(void); // requests since

#endif
