#include "decoder.h"

#include "ops.h"

#include "op_names.h"

// One mask for all layers, or one for each kind of layer, of which the one without a window is made
// even if no layer asks for it.
static void make_masks(plim_tape *t, const plim_config *c, const plim_batch *b,
                       plim_decoder_inputs *in) {
  bool slides = false;
  for (int64_t i = 0; i < c->layers; i++) slides = slides || plim_config_slides(c, i);
  if (!slides || c->windows != PLIM_WINDOWS_EVERYWHERE)
    set(t, &in->full_mask,
        plim_causal_mask(t, b->attention, b->mask_kind, in->embedded, in->positions, b->mask));
  if (slides)
    set(t, &in->sliding_mask,
        plim_sliding_mask(t, b->attention, b->mask_kind, in->embedded, in->positions, b->mask,
                          c->sliding_window));
}

void plim_decoder_prepare(plim_tape *t, const plim_config *c, const plim_batch *batch,
                          plim_rope_buffers *rope, plim_decoder_inputs *in) {
  int64_t length = batch->ids->shape.at[1];
  set(t, &in->positions, add_scalar(t, empty(t, dims(length), PLIM_I64)));
  set(t, &in->positions, unsqueeze(t, in->positions, 0));
  make_masks(t, c, batch, in);
  plim_rope_update(t, c, rope, length);
  plim_rotary(t, rope->inv_freq, length, (plim_dtype)in->embedded->dtype, &in->cos, &in->sin);
}

// A dict of the masks' arguments may hold two of them to the end, and lets them go in its own order.
void plim_decoder_release(plim_tape *t, const plim_config *c, plim_decoder_inputs *in) {
  if (!c->keeps_mask_arguments) drop_all(t, &in->positions, &in->embedded);
  drop_all(t, &in->full_mask, &in->sliding_mask);
  if (c->keeps_mask_arguments) drop_all(t, &in->embedded, &in->positions);
  drop_all(t, &in->sin, &in->cos);
}

plim_tensor *plim_decoder_call(plim_tape *t, const plim_config *c, const plim_batch *batch,
                               const plim_decoder_inputs *in, int64_t layer,
                               plim_checkpointed_fn *function, const void *context,
                               plim_tensor *hidden) {
  plim_tensor *mask = plim_config_slides(c, layer) ? in->sliding_mask : in->full_mask;
  plim_closure call = {.function = function, .context = context};
  call.held[PLIM_HELD_MASK] = mask;
  call.held[PLIM_HELD_SIN(c)] = in->sin;
  call.held[PLIM_HELD_COS(c)] = in->cos;
  call.held[PLIM_HELD_POSITIONS(c)] = in->positions;
  return plim_call_layer(t, batch->checkpoint, call, hidden);
}

plim_tensor *plim_decoder_head(plim_tape *t, plim_model *m, const plim_config *c,
                               plim_tensor *embedding) {
  plim_dtype dtype = (plim_dtype)embedding->dtype;
  if (!c->ties_embeddings) return plim_model_parameter(t, m, embedding->shape, dtype);
  plim_consume(t, empty(t, embedding->shape, dtype)); // its own weight, gone when it is tied
  return embedding;
}
