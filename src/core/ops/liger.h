// Liger-Kernel's fused modules, beside its cross entropy (loss.h): what use_liger_kernel puts in place
// of transformers' own.
#ifndef PLIM_CORE_LIGER_H
#define PLIM_CORE_LIGER_H

#include "tape.h"

void plim_tape_set_liger(plim_tape *t, bool on);
bool plim_tape_uses_liger(const plim_tape *t);

// RMSNorm that keeps its input and one number per row; its gradient overwrites the incoming one.
plim_tensor *plim_liger_rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight);
// The same with a gradient of its own, as in Gemma 2 and 3 (LigerRMSNormForGemma2, in_place=False).
plim_tensor *plim_liger_rms_norm_apart(plim_tape *t, plim_tensor *x, plim_tensor *weight);
// Rotary positions, (B,H,T,D), in place.
void plim_liger_rope(plim_tape *t, plim_tensor **q, plim_tensor **k, plim_tensor *cos,
                     plim_tensor *sin);
// silu(gate) * up, and gelu(gate) * up in Gemma; gradients overwrite gate and up.
plim_tensor *plim_liger_swiglu(plim_tape *t, plim_tensor *gate, plim_tensor *up);

#endif
