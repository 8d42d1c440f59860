// What GLM 4 and GLM 4V share.
#ifndef PLIM_CORE_GLM4_H
#define PLIM_CORE_GLM4_H

#include "decoder.h"

// The sandwich, in which the third norm that is built, post_self_attn_layernorm, is behind attention.
plim_checkpointed_fn plim_glm4_layer;

#endif
