// Relative positions as T5 has them: distances in buckets, and a learned bias per bucket and head.
#ifndef PLIM_CORE_RELATIVE_BIAS_H
#define PLIM_CORE_RELATIVE_BIAS_H

#include "tape.h"

// (1,H,queries,keys), floating: a view of rows of `table` (buckets, heads), so the heads are what is
// dense in memory. Decoders look one way only.
plim_tensor *plim_relative_bias(plim_tape *t, plim_tensor *table, int64_t queries, int64_t keys,
                                bool both_ways);

#endif
