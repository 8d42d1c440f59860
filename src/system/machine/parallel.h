// Runs independent jobs on all cores.
#ifndef PLIM_SYSTEM_PARALLEL_H
#define PLIM_SYSTEM_PARALLEL_H

#include <stddef.h>

// Calls job(context, i) once for each i below count, on as many threads as there are cores (at most
// count), and returns when all are done. If no thread can be created, it runs the jobs itself.
void plim_parallel(size_t count, void (*job)(void *context, size_t i), void *context);

#endif
