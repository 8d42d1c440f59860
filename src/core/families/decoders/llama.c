#include "llama.h"

#include "decoder.h"
#include "families.h"

plim_model *plim_llama_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_decoder_prenorm_layer,
      .norm = plim_rms_norm,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

const plim_family plim_family_llama = {
    .model_type = "llama",
    .was_run_in_torchtune = true,
    .build = plim_llama_new,
    .defaults = {.hidden = 4096,
                 .intermediate = 11008,
                 .layers = 32,
                 .heads = 32,
                 .vocabulary = 32000,
                 .activation = PLIM_ACT_SILU},
    .lora_targets = "q_proj,v_proj",
    .has_liger = true,
    .axolotl_fuses_mlp = true,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_FUSED_LOSS |
                PLIM_RECORDED_LIGER | PLIM_RECORDED_SHARDED | PLIM_RECORDED_DEEPSPEED |
                PLIM_RECORDED_4_46 | PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
};
