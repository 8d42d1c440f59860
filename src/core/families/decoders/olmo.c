// OLMo: llama's forward between norms without weights; rotary positions in float32.
#include "decoder.h"
#include "families.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// layer_norm(x.float()).to(dtype)
static plim_tensor *norm(plim_tape *t, const plim_norm *none, plim_tensor *x) {
  (void)none;
  plim_work_modules(t, 1);
  plim_tape_at(t, "norm");
  bool was = hold(x);
  plim_tensor *out = layer_norm(t, to(t, x, PLIM_FP32), NULL, NULL);
  out = to(t, out, (plim_dtype)x->dtype);
  let_go(t, x, was);
  return out;
}

static plim_model *olmo_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .biased_norm = norm,
                                         .has_bare_norms = true,
                                         .projects_first = true};
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_olmo = {
    .model_type = "olmo",
    .build = olmo_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 50304,
                 .positions = 2048,
                 .activation = PLIM_ACT_SILU},
    .has_wide_rotary = true,
    .lacks_heads = 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
