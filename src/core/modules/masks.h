// The attention masks that transformers builds.
#ifndef PLIM_CORE_MASKS_H
#define PLIM_CORE_MASKS_H

#include "tape.h"

typedef enum {
  PLIM_ATTENTION_SDPA,
  PLIM_ATTENTION_EAGER,
  PLIM_ATTENTION_FLASH, // the flash-attn package; its mask is the batch's, as bool
  PLIM_ATTENTION_KINDS
} plim_attention_kind;
typedef enum {
  PLIM_MASK_NONE,    // no attention_mask is given
  PLIM_MASK_ONES,    // a mask of all ones, which transformers detects and drops
  PLIM_MASK_PAD,     // a mask with padding
  PLIM_MASK_LONGEST, // in a recipe: padded to the batch's longest, so a batch of 1 has no padding
  PLIM_MASK_KINDS
} plim_mask_kind;

// Tables of names end with NULL.
extern const char *const plim_attention_names[PLIM_ATTENTION_KINDS + 1]; // "sdpa", "eager", "flash"
extern const char *const plim_mask_names[PLIM_MASK_KINDS + 1]; // "none", "ones", "pad", "longest"

// create_causal_mask: the mask for attention, floating; NULL if none is needed. `given` is the batch's attention_mask
// (or NULL), `positions` the position ids (NULL if the model has none).
plim_tensor *plim_causal_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                              plim_tensor *embedded, plim_tensor *positions, plim_tensor *given);
// create_sliding_window_causal_mask: a query sees `window` keys, including its own position.
plim_tensor *plim_sliding_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                               plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                               int64_t window);

// create_bidirectional_mask for `queries` queries; `keys` gives dtype and batch. Both kinds of attention drop a mask
// without zeros.
plim_tensor *plim_bidirectional_mask(plim_tape *t, plim_attention_kind attention,
                                     plim_mask_kind kind, int64_t queries, const plim_tensor *keys,
                                     const plim_tensor *given);

#endif
