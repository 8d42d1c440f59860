// Qwen 2 VL and Qwen 2.5 VL: Qwen 2's layers with three positions for each token, and a tower for images.
#include "decoder.h"
#include "families.h"
#include "grid_tower.h"

static plim_model *text_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .norm = plim_rms_norm,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
                                         .projects_first = true};
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->outer && c->vision.heads < 1 ? "a vision tower without heads" : NULL;
}

#define TEXT_DEFAULTS                                                                              \
  {                                                                                                \
    .hidden = 8192, .intermediate = 29568, .layers = 80, .heads = 64, .kv_heads = 8,               \
    .vocabulary = 152064, .positions = 32768, .activation = PLIM_ACT_SILU, .sliding_window = 4096, \
    .first_window_layer = 80                                                                       \
  }

const plim_family plim_family_qwen2_vl_text = {
    .model_type = "qwen2_vl_text",
    .has_other_liger = true,
    .build = text_new,
    .unfollowed = unfollowed,
    .defaults = TEXT_DEFAULTS,
    .windows = PLIM_WINDOWS_LATE,
    .divides_width = true,
    .has_qkv_bias = true,
    .has_grid_positions = true,
    .has_grid_sections = true,
    .keeps_mask_arguments = true,
    .masks_lack_positions = true,
    .layers_lack_positions = true,
    .left_out = "the vision tower",
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

const plim_family plim_family_qwen2_5_vl_text = {
    .model_type = "qwen2_5_vl_text",
    .has_other_liger = true,
    .build = text_new,
    .unfollowed = unfollowed,
    .defaults = TEXT_DEFAULTS,
    .windows = PLIM_WINDOWS_LATE,
    .divides_width = true,
    .has_qkv_bias = true,
    .has_grid_positions = true,
    .has_grid_sections = true,
    .keeps_mask_arguments = true,
    .masks_lack_positions = true,
    .layers_lack_positions = true,
    .first_release = PLIM_RELEASE(4, 49),
    .left_out = "the vision tower",
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// ---- with images ----------------------------------------------------------------------------------------

// "hidden_size" is the width of what its tower returns.
static void add_tower_2(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype dtype) {
  static const plim_grid_tower_kind kind = {
      .up = "mlp.fc1", .down = "mlp.fc2", .merger = {"mlp.0", "mlp.2"}};
  plim_tower_config v = c->vision;
  v.output = v.hidden;
  v.hidden = v.embedding;
  v.intermediate = v.embedding * v.mlp_ratio;
  plim_grid_tower_new(t, w, &kind, &v, c->merged_patches, dtype);
}

static void add_tower_2_5(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype dtype) {
  static const plim_grid_tower_kind kind = {.has_rms_norms = true, .merger = {"mlp.0", "mlp.2"}};
  plim_grid_tower_new(t, w, &kind, &c->vision, c->merged_patches, dtype);
}

const plim_family plim_family_qwen2_vl = {
    .model_type = "qwen2_vl",
    .has_other_liger = true,
    .text_types = "qwen2_vl_text",
    .add_towers = add_tower_2,
    .defaults = {.vision = {.hidden = 3584,
                            .embedding = 1280,
                            .mlp_ratio = 4,
                            .layers = 32,
                            .heads = 16,
                            .channels = 3,
                            .patch_size = 14,
                            .frames = 2},
                 .merged_patches = 2},
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

const plim_family plim_family_qwen2_5_vl = {
    .model_type = "qwen2_5_vl",
    .has_other_liger = true,
    .text_types = "qwen2_5_vl_text",
    .add_towers = add_tower_2_5,
    .lacks_loss_kwargs = true,
    .defaults = {.vision = {.hidden = 3584,
                            .intermediate = 3420,
                            .layers = 32,
                            .heads = 16,
                            .channels = 3,
                            .patch_size = 14,
                            .frames = 2,
                            .output = 3584},
                 .merged_patches = 2},
    .first_release = PLIM_RELEASE(4, 49),
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
