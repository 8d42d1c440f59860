// A heap on which the N-th allocation of this process, including libraries, fails, or that one and all after it.
#ifndef PLIM_TESTS_FAULT_MEMORY_H
#define PLIM_TESTS_FAULT_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#define FAULT_NEVER ((size_t)-1)

// Restarts the count: allocation `at`, counted from 0, fails; if `stays`, so do all after it.
void fault_memory_set(size_t at, bool stays);
size_t fault_memory_count(void); // allocations since then

#endif
