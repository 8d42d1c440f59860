// ALiBi: a bias on the scores of attention that grows with the distance between query and key, by a slope of each head.
#ifndef PLIM_CORE_ALIBI_H
#define PLIM_CORE_ALIBI_H

#include "tape.h"

// Falcon's build_alibi_tensor: (B*H,1,T), from a mask (B,T). The product is bfloat16, then cast to `dtype`.
plim_tensor *plim_alibi(plim_tape *t, plim_tensor *mask, int64_t heads, plim_dtype dtype);

// The same, but the product is float32.
plim_tensor *plim_alibi_wide(plim_tape *t, plim_tensor *mask, int64_t heads, plim_dtype dtype);

#endif
