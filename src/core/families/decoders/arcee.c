// AFM: llama's forward, with squared ReLU and without a gate.
#include "decoder.h"
#include "families.h"

static plim_model *arcee_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .norm = plim_rms_norm,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
                                         .has_plain_mlp = true};
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_arcee = {
    .model_type = "arcee",
    .build = arcee_new,
    .defaults = {.hidden = 2560,
                 .intermediate = 18432,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 32000,
                 .positions = 4096,
                 .activation = PLIM_ACT_SQUARED_RELU},
    .first_release = PLIM_RELEASE(4, 53),
    .recorded = PLIM_RECORDED_TRAINING,
};
