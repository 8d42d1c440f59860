// mamba2_chunk_scan of transformers: the state space of Mamba 2 in PyTorch, chunk by chunk, as it runs without mamba-ssm.
#ifndef PLIM_CORE_STATE_SCAN_H
#define PLIM_CORE_STATE_SCAN_H

#include "tape.h"

// x is (B,T,H,P), steps ("dt") is (B,T,H), rates ("A"), skip ("D") and step_bias are (H); to_state ("B") and from_state
// ("C") are (B,T,G,S). Returns (B,T,H,P) in float32.
typedef struct {
  plim_tensor *x, *steps, *rates, *to_state, *from_state, *skip, *step_bias;
  int64_t chunk; // tokens
} plim_state_inputs;

plim_tensor *plim_state_scan(plim_tape *t, const plim_state_inputs *in);

#endif
