// Nemotron 3 and 4, Minitron: LayerNorms that scale by 1 + weight, squared ReLU without a gate; part of each head is
// rotated.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// layer_norm(x, weight + 1, bias), with all three in the dtype of autocast.
static plim_tensor *layer_norm_1p(plim_tape *t, const plim_norm *n, plim_tensor *x) {
  plim_module_enter(t, n->weight, n->bias);
  plim_tensor *wide = NULL, *input = NULL, *scale = NULL, *bias = NULL;
  plim_dtype dtype = (plim_dtype)plim_state(t)->autocast;
  if (dtype == PLIM_BOOL) dtype = (plim_dtype)x->dtype;
  set(t, &wide, add_scalar(t, n->weight));
  set(t, &input, to(t, x, dtype));
  set(t, &scale, to(t, wide, dtype));
  set(t, &bias, to(t, n->bias, dtype));
  drop(t, &wide);
  uint8_t was = plim_state(t)->autocast;
  plim_state(t)->autocast = PLIM_BOOL; // off, without freeing the casts it keeps
  plim_tensor *out = layer_norm(t, input, scale, bias);
  plim_state(t)->autocast = was;
  drop_all(t, &bias, &scale, &input);
  return plim_module_leave(t, n->weight, out);
}

static plim_model *nemotron_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .biased_norm = layer_norm_1p,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
                                         .has_plain_mlp = true,
                                         .joins_at_once = true};
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_nemotron = {
    .model_type = "nemotron",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .build = nemotron_new,
    .defaults = {.hidden = 6144,
                 .intermediate = 24576,
                 .layers = 32,
                 .heads = 48,
                 .vocabulary = 256000,
                 .positions = 4096,
                 .activation = PLIM_ACT_SQUARED_RELU,
                 .rotary_share = 0.5},
    .turns_part_of_head = true,
    .passes_positions_first = true,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_GENERIC,
};
