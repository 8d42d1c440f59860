// torch_chunk_gated_delta_rule of transformers.
#ifndef PLIM_CORE_DELTA_RULE_H
#define PLIM_CORE_DELTA_RULE_H

#include "tape.h"

// query and key are (B,T,H,K), value is (B,T,H,V), decay ("g") and beta are (B,T,H). Returns (B,T,H,V).
plim_tensor *plim_delta_rule(plim_tape *t, plim_tensor *query, plim_tensor *key, plim_tensor *value,
                             plim_tensor *decay, plim_tensor *beta);

#endif
