// Puts an allocator into the state at the start of a trace's recording.
#ifndef PLIM_CORE_TRACE_START_H
#define PLIM_CORE_TRACE_START_H

#include "allocator.h"
#include "trace.h"

// Returns false when out of memory or if the recorded pieces contradict each other (*consistent says which).
bool plim_start_seed(const plim_trace *trace, const plim_alloc_conf *conf, plim_allocator *a,
                     bool *consistent);

#endif
