// The flash-attn package, version 2, as transformers calls it: attn_implementation="flash_attention_2".
#ifndef PLIM_CORE_FLASH_ATTENTION_H
#define PLIM_CORE_FLASH_ATTENTION_H

#include "tape.h"

typedef struct {
  plim_tensor *mask;  // (B,T), bool; NULL if nothing is padded
  bool has_positions; // the model passes position ids, which are searched for packed sequences
  bool is_causal;
  double dropout_p;
} plim_flash_options;

// Sets how many positions at the end of every row are padding. They are removed before the kernel runs.
void plim_tape_set_padding(plim_tape *t, int64_t positions);

// Sets whether the position ids begin again with each sample of a row.
void plim_tape_set_packing(plim_tape *t, bool is_packed);

// Takes (B,H,T,D) tensors, returns (B,T,H,D).
plim_tensor *plim_flash_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                  plim_flash_options options);

// Partial results, in float32, if the kernel splits the keys because there are too few blocks of queries (B,T,H,D) for the
// card. Sets parts[0] and parts[1], which the caller consumes, or leaves them NULL.
void plim_flash_take_parts(plim_tape *t, const plim_dims *q, double dropout_p, plim_tensor **parts);

#endif
