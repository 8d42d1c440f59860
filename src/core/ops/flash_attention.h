// flash-attn's own package, version 2, as transformers calls it: attn_implementation="flash_attention_2".
#ifndef PLIM_CORE_FLASH_ATTENTION_H
#define PLIM_CORE_FLASH_ATTENTION_H

#include "tape.h"

typedef struct {
  plim_tensor *mask;  // (B,T), bool; NULL where nothing is padding
  bool has_positions; // the model hands its position ids on, to be searched for packed sequences
  bool is_causal;
  double dropout_p;
} plim_flash_options;

// So many positions at the end of every row are padding: they are taken out before the kernel runs.
void plim_tape_set_padding(plim_tape *t, int64_t positions);

// Attention of (B,H,T,D) tensors: (B,T,H,D).
plim_tensor *plim_flash_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                  plim_flash_options options);

#endif
