// The masks of transformers 4.53 to 4.57 (masking_utils.py): torch.vmap evaluates a function of one query and one key.
// Without an attention_mask, the positions are searched for packed sequences; their numbers always become part of the
// mask, even if nothing is packed. So attention has an explicit mask, and keys and values are repeated for it.
#include "kernels.h"
#include "masks_impl.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// q_idx.new_ones(()): vmap gives every query its own.
static plim_tensor *ones(plim_tape *t, int64_t length) { return empty(t, dims(length), PLIM_BOOL); }

static plim_tensor *pattern(plim_tape *t, int64_t length, int64_t window) {
  plim_dims square = dims(1, 1, length, length);
  if (!window) return empty(t, square, PLIM_BOOL);
  plim_tensor *result = ones(t, length), *edge = empty(t, dims(length), PLIM_I64);
  plim_tensor *inside = empty(t, square, PLIM_BOOL);
  plim_consume(t, edge);
  result = mask_both(t, result, inside, square);
  return mask_both(t, result, empty(t, square, PLIM_BOOL), square);
}

// numbers[batch, query] == numbers[batch, key]
static plim_tensor *is_same_sequence(plim_tape *t, int64_t batch, int64_t length) {
  plim_tensor *of_query = mask_look_up(t, batch, length, PLIM_I64);
  plim_tensor *of_key = mask_look_up(t, batch, length, PLIM_I64);
  plim_tensor *out = empty(t, dims(batch, 1, length, length), PLIM_BOOL);
  plim_consume(t, of_query);
  plim_consume(t, of_key);
  return out;
}

static plim_tensor *evaluate(plim_tape *t, int64_t batch, int64_t length, int64_t window,
                             bool is_padded, bool is_packed) {
  plim_tensor *key = empty(t, dims(length), PLIM_I64), *row = empty(t, dims(batch), PLIM_I64);
  plim_tensor *head = empty(t, dims(1), PLIM_I64), *result = NULL;
  plim_dims square = dims(1, 1, length, length), full = dims(batch, 1, length, length);
  if (is_padded || is_packed) {
    result = ones(t, length);
    result = mask_both(t, result, pattern(t, length, window), square);
    result = mask_both(t, result,
                       is_padded ? mask_look_up(t, batch, length, PLIM_BOOL)
                                 : is_same_sequence(t, batch, length),
                       full);
  } else result = expand(t, pattern(t, length, window), full);
  consume_all(t, key, row, head);
  return result;
}

static plim_tensor *build(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                          const plim_tensor *embedded, plim_tensor *as_bool, bool is_packed,
                          int64_t window) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  bool is_eager = attention == PLIM_ATTENTION_EAGER;
  if (!is_eager && !is_packed && !mask_needs_window(length, window)) {
    if (as_bool) plim_consume(t, k_all(t, as_bool));
    if (!as_bool || kind == PLIM_MASK_ONES) return NULL;
  }
  plim_tensor *mask = evaluate(t, batch, length, window, as_bool != NULL, is_packed);
  return is_eager ? mask_additive(t, mask, batch, (plim_dtype)embedded->dtype) : mask;
}

plim_tensor *mask_by_vmap(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                          plim_tensor *embedded, plim_tensor *positions, plim_tensor *given,
                          int64_t window) {
  plim_tensor *as_bool = given ? empty(t, given->shape, PLIM_BOOL) : NULL, *numbers = NULL;
  if (!given && positions)
    numbers = mask_sequence_numbers(t, positions, embedded->shape.at[0], false);
  plim_tensor *mask = NULL;
  if (attention != PLIM_ATTENTION_FLASH)
    mask = build(t, attention, kind, embedded, as_bool, numbers != NULL, window);
  else if (given) return mask_for_flash(t, kind, as_bool);
  plim_consume(t, as_bool);
  plim_consume(t, numbers);
  return mask;
}

// ---- transformers 4.46 to 4.52 --------------------------------------------------------------------

// _prepare_4d_causal_attention_mask_with_cache_position without padding: (T,K). A model with a window marks what is
// before it as well.
static plim_tensor *lowest_above_diagonal(plim_tape *t, int64_t length, int64_t keys,
                                          plim_dtype dtype, int64_t window) {
  plim_dims shape = dims(length, keys);
  plim_tensor *out = empty(t, shape, dtype), *is_before = NULL;
  if (!window) { // triu
    plim_tensor *upper = empty(t, shape, dtype);
    plim_consume(t, out);
    out = upper;
  }
  plim_tensor *range = empty(t, dims(keys), PLIM_I64), *is_behind = empty(t, shape, PLIM_BOOL);
  plim_consume(t, range);
  if (window) {
    range = empty(t, dims(keys), PLIM_I64);
    plim_tensor *edge = empty(t, dims(length), PLIM_I64);
    is_before = empty(t, shape, PLIM_BOOL);
    plim_consume(t, range);
    plim_consume(t, edge);
  }
  plim_consume(t, is_behind);
  plim_consume(t, is_before);
  return out;
}

// A copy for every sequence, in which padding has the lowest value too: (B,1,T,T).
static plim_tensor *lowest_at_padding(plim_tape *t, plim_tensor *mask, const plim_tensor *given) {
  int64_t length = mask->shape.at[0];
  plim_dims shape = dims(given->shape.at[0], 1, length, length);
  plim_dtype dtype = (plim_dtype)mask->dtype;
  plim_dtype promoted = given->dtype == PLIM_FP32 ? PLIM_FP32 : dtype;
  plim_tensor *out = empty(t, shape, dtype);
  plim_consume(t, mask);
  plim_tensor *sum = empty(t, shape, promoted), *is_padding = empty(t, shape, PLIM_BOOL);
  plim_consume(t, sum);
  plim_consume(t, empty(t, shape, dtype)); // masked_fill, written back
  plim_consume(t, is_padding);
  return out;
}

// _unmask_unattended: rows without any key attend to all.
static plim_tensor *unmasked(plim_tape *t, plim_tensor *mask) {
  plim_dims rows = mask->shape;
  rows.at[3] = 1;
  plim_tensor *is_lowest = empty(t, mask->shape, PLIM_BOOL), *all = empty(t, rows, PLIM_BOOL);
  plim_consume(t, is_lowest);
  plim_tensor *any = empty(t, rows, PLIM_BOOL);
  plim_consume(t, all);
  plim_tensor *out = empty(t, mask->shape, (plim_dtype)mask->dtype);
  plim_consume(t, any);
  plim_consume(t, mask);
  return out;
}

plim_tensor *mask_by_update(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                            plim_tensor *embedded, plim_tensor *given, int64_t window) {
  int64_t batch = embedded->shape.at[0], length = embedded->shape.at[1];
  bool is_sdpa = attention == PLIM_ATTENTION_SDPA;
  if (attention == PLIM_ATTENTION_FLASH) return kind == PLIM_MASK_PAD ? given : NULL;
  if (is_sdpa && given) {
    plim_tensor *is_one = empty(t, given->shape, PLIM_BOOL), *all = k_all(t, is_one);
    plim_consume(t, is_one);
    plim_consume(t, all);
  }
  bool has_padding = given && kind != PLIM_MASK_ONES;
  if (is_sdpa && !has_padding && !mask_needs_window(length, window)) return NULL;
  plim_tensor *mask = lowest_above_diagonal(t, length, given ? length : length + 1,
                                            (plim_dtype)embedded->dtype, window);
  if (given) mask = lowest_at_padding(t, mask, given);
  else
    mask = expand(t, view(t, mask, dims(1, 1, length, length + 1)),
                  dims(batch, 1, length, length + 1));
  return is_sdpa && given ? unmasked(t, mask) : mask;
}

plim_tensor *plim_updated_mask(plim_tape *t, plim_tensor *embedded, plim_tensor *given) {
  return mask_by_update(t, PLIM_ATTENTION_EAGER, PLIM_MASK_PAD, embedded, given, 0);
}

// ---- encoders -------------------------------------------------------------------------------------

// (1 - mask) * lowest, for every query alike: (B,1,1,T).
static plim_tensor *extended(plim_tape *t, plim_tensor *given, plim_dtype dtype) {
  plim_dims shape = dims(given->shape.at[0], 1, 1, given->shape.at[1]);
  plim_tensor *low = given->dtype == dtype ? NULL : empty(t, shape, dtype);
  plim_tensor *inverted = empty(t, shape, dtype), *out = empty(t, shape, dtype);
  plim_consume(t, inverted);
  plim_consume(t, low);
  return out;
}

// The same for every pair of query and key: (B,1,T,T).
static plim_tensor *expanded(plim_tape *t, const plim_tensor *given, plim_dtype dtype) {
  int64_t length = given->shape.at[1];
  plim_dims shape = dims(given->shape.at[0], 1, length, length);
  plim_tensor *low = empty(t, shape, dtype), *inverted = empty(t, shape, dtype);
  plim_tensor *is_masked = empty(t, shape, PLIM_BOOL), *out = empty(t, shape, dtype);
  consume_all(t, is_masked, low, inverted);
  return out;
}

plim_tensor *plim_extended_mask(plim_tape *t, plim_attention_kind attention, plim_mask_kind kind,
                                plim_dtype dtype, plim_tensor *given) {
  if (attention == PLIM_ATTENTION_EAGER) return extended(t, given, dtype);
  plim_tensor *is_one = empty(t, given->shape, PLIM_BOOL), *all = k_all(t, is_one);
  plim_consume(t, is_one);
  plim_consume(t, all);
  return kind == PLIM_MASK_ONES ? NULL : expanded(t, given, dtype);
}
