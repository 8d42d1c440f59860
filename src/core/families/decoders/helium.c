// Helium: llama's forward, with neighbours rotated and norms that multiply with their weight in float32.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// (weight.to(float32) * x).to(dtype)
static plim_tensor *norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *hidden = NULL, *variance = NULL;
  plim_work_modules(t, 1);
  plim_tape_at(t, "norm");
  plim_module_enter(t, weight, NULL);
  bool was = hold(x);
  set(t, &hidden, to(t, x, PLIM_FP32));
  set(t, &variance, mean_last(t, square(t, hidden)));
  set(t, &hidden, mul(t, hidden, rsqrt(t, add_scalar(t, variance))));
  plim_tensor *out = to(t, mul(t, to(t, weight, PLIM_FP32), hidden), (plim_dtype)x->dtype);
  drop_all(t, &hidden, &variance);
  let_go(t, x, was);
  return plim_module_leave(t, weight, out);
}

static plim_model *helium_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .norm = norm,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM};
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->heads * c->head_dim == c->hidden ? NULL
                                             : "heads that together are not as wide as hidden_size";
}

const plim_family plim_family_helium = {
    .model_type = "helium",
    .build = helium_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 2560,
                 .intermediate = 7040,
                 .layers = 24,
                 .heads = 20,
                 .kv_heads = 20,
                 .head_dim = 128,
                 .vocabulary = 48000,
                 .positions = 4096,
                 .activation = PLIM_ACT_SILU},
    .unfollowed = unfollowed,
    .turns_all_neighbours = true,
    .has_unbiased_output = true,
    .lacks_heads = 1u << PLIM_HEAD_ANSWERS,
    .first_release = PLIM_RELEASE(4, 49),
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_GENERIC,
};
