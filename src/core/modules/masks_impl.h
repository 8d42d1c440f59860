// Parts of masks that several versions of transformers have in common.
#ifndef PLIM_CORE_MASKS_IMPL_H
#define PLIM_CORE_MASKS_IMPL_H

#include "masks.h"

// result & other; both are temporaries.
plim_tensor *mask_both(plim_tape *t, plim_tensor *result, plim_tensor *other, plim_dims shape);
// Values of a table (B,T), looked up by index: (B,1,1,T). Broadcast indices are copied.
plim_tensor *mask_look_up(plim_tape *t, int64_t batch, int64_t length, plim_dtype dtype);
// Eager attention adds its mask to the scores: takes two scalars and the values.
plim_tensor *mask_additive(plim_tape *t, plim_tensor *mask, int64_t batch, plim_dtype dtype);
// A kernel needs no explicit mask if attention is plainly causal. It needs one if the window is not longer than the
// sequence; transformers checks that before it looks for padding.
bool mask_needs_window(int64_t length, int64_t window);
// transformers searches the positions for packed sequences: it takes differences and their running sum, which
// numbers the sequences (B,T). If it `checks`, it looks whether there is only one in each row.
plim_tensor *mask_sequence_numbers(plim_tape *t, const plim_tensor *positions, int64_t batch,
                                   bool checks);
// flash-attn gets no built mask: padding is looked up when attention runs.
plim_tensor *mask_for_flash(plim_tape *t, plim_mask_kind kind, plim_tensor *as_bool);

// plim_sliding_mask of transformers 4.53 to 4.57 (masks_4.c).
plim_tensor *mask_by_vmap(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                          plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                          int64_t window);

// The same of transformers 4.46 to 4.52, where every model has a method _update_causal_mask.
plim_tensor *mask_by_update(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                            plim_tensor *embedded, plim_tensor *given, int64_t window);

#endif
