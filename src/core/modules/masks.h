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
  PLIM_MASK_PACKED,  // in a recipe: none is given, and position ids begin again with each sample
  PLIM_MASK_KINDS
} plim_mask_kind;

// Tables of names end with NULL.
extern const char *const plim_attention_names[PLIM_ATTENTION_KINDS + 1]; // "sdpa", "eager", "flash"
extern const char *const plim_mask_names[PLIM_MASK_KINDS + 1];           // "none", "ones", ...

// create_causal_mask: the mask for attention, floating; NULL if none is needed. `given` is the batch's attention_mask
// (or NULL), `positions` the position ids (NULL if the model has none).
plim_tensor *plim_causal_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                              plim_tensor *embedded, plim_tensor *positions, plim_tensor *given);
// The same, but never left out (allow_is_causal_skip=False).
plim_tensor *plim_whole_causal_mask(plim_tape *t, plim_attention_kind attention,
                                    const plim_tensor *embedded, const plim_tensor *given);
// The same, where the tokens of an image also see each other. It is made even if nothing is masked.
plim_tensor *plim_block_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                             plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                             int64_t window);
// create_sliding_window_causal_mask: a query sees `window` keys, including its own position.
plim_tensor *plim_sliding_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                               plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                               int64_t window);

// create_chunked_causal_mask: a query sees the keys of its own chunk, up to itself.
plim_tensor *plim_chunked_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                               plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                               int64_t chunk);

// create_bidirectional_mask for `queries` queries; `keys` gives dtype and batch. Both kinds of attention drop a mask
// without zeros.
plim_tensor *plim_bidirectional_mask(plim_tape *t, plim_attention_kind attention,
                                     plim_mask_kind kind, int64_t queries, const plim_tensor *keys,
                                     const plim_tensor *given);

// create_bidirectional_sliding_window_mask: a query sees `window` keys on each side.
plim_tensor *plim_bidirectional_window_mask(plim_tape *t, plim_attention_kind attention,
                                            plim_mask_kind kind, const plim_tensor *embedded,
                                            const plim_tensor *given, int64_t window);

// Before transformers 5.0: get_extended_attention_mask, or _prepare_4d_attention_mask_for_sdpa, which drops a mask
// without zeros. The result has the dtype of the model.
plim_tensor *plim_extended_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                                plim_dtype dtype, plim_tensor *given);
// The mask of layers that carry a state: the given one (B,T), or NULL if there is no padding.
plim_tensor *plim_padding_mask(plim_tape *t, plim_mask_kind kind, plim_tensor *given);

// _update_causal_mask of eager attention for a mask that is given: (B,1,T,T).
plim_tensor *plim_updated_mask(plim_tape *t, plim_tensor *embedded, plim_tensor *given);

#endif
