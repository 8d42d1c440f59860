// Qwen 3 VL: Qwen 3's layers, or those with experts, with three positions for each token; a tower for images, of which
// some layers also feed early layers of the language model.
#include "decoder.h"
#include "experts.h"
#include "families.h"
#include "grid_tower.h"

// The loop over layers has a variable of its own for what a layer returns.
static plim_model *text_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .norm = plim_rms_norm,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
                                         .kept_last_layer_until = UINT16_MAX};
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->outer && c->vision.heads < 1 ? "a vision tower without heads" : NULL;
}

const plim_family plim_family_qwen3_vl_text = {
    .model_type = "qwen3_vl_text",
    .has_other_liger = true,
    .build = text_new,
    .unfollowed = unfollowed,
    .defaults = {.hidden = 4096,
                 .intermediate = 22016,
                 .layers = 32,
                 .heads = 32,
                 .kv_heads = 32,
                 .head_dim = 128,
                 .vocabulary = 151936,
                 .positions = 128000,
                 .activation = PLIM_ACT_SILU},
    .qk_norm = PLIM_QK_NORM_HEADS,
    .has_grid_positions = true,
    .passes_positions_first = true,
    .replaces_mask_argument = true,
    .first_release = PLIM_RELEASE(4, 57),
    .left_out = "the vision tower",
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// Published checkpoints have the matrices transposed: while one is turned, loading needs it twice, which is far below
// what training needs.
static const plim_mixture mixture = {.route = plim_route_softmax, .is_stored_whole = true};

const plim_family plim_family_qwen3_vl_moe_text = {
    .model_type = "qwen3_vl_moe_text",
    .has_other_liger = true,
    .build = text_new,
    .unfollowed = unfollowed,
    .defaults = {.hidden = 2048,
                 .intermediate = 5632,
                 .layers = 24,
                 .heads = 16,
                 .kv_heads = 16,
                 .vocabulary = 151936,
                 .positions = 128000,
                 .activation = PLIM_ACT_SILU,
                 .experts = 60,
                 .experts_per_token = 4,
                 .expert_width = 1408,
                 .sparse_step = 1,
                 .normalises_shares = true},
    .mixture = &mixture,
    .qk_norm = PLIM_QK_NORM_HEADS,
    .has_grid_positions = true,
    .passes_positions_first = true,
    .replaces_mask_argument = true,
    .first_release = PLIM_RELEASE(4, 57),
    .left_out = "the vision tower",
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// ---- with images ----------------------------------------------------------------------------------------

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype dtype) {
  static const plim_grid_tower_kind kind = {.has_patch_bias = true,
                                            .has_position_table = true,
                                            .has_taps = true,
                                            .up = "mlp.linear_fc1",
                                            .down = "mlp.linear_fc2",
                                            .merger = {"linear_fc1", "linear_fc2"}};
  plim_grid_tower_new(t, w, &kind, &c->vision, c->merged_patches, dtype);
}

#define TOWER_DEFAULTS                                                                             \
  {                                                                                                \
    .vision = {.hidden = 1152,                                                                     \
               .intermediate = 4304,                                                               \
               .layers = 27,                                                                       \
               .heads = 16,                                                                        \
               .channels = 3,                                                                      \
               .patch_size = 16,                                                                   \
               .frames = 2,                                                                        \
               .positions = 2304,                                                                  \
               .output = 3584,                                                                     \
               .taps = 3,                                                                          \
               .tapped = {8, 16, 24}},                                                             \
    .merged_patches = 2                                                                            \
  }

const plim_family plim_family_qwen3_vl = {
    .model_type = "qwen3_vl",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .text_types = "qwen3_vl_text",
    .add_towers = add_towers,
    .lacks_loss_kwargs = true,
    .defaults = TOWER_DEFAULTS,
    .first_release = PLIM_RELEASE(4, 57),
    .recorded = PLIM_RECORDED_TRAINING,
};

const plim_family plim_family_qwen3_vl_moe = {
    .model_type = "qwen3_vl_moe",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .text_types = "qwen3_vl_moe_text",
    .add_towers = add_towers,
    .lacks_loss_kwargs = true,
    .defaults = TOWER_DEFAULTS,
    .first_release = PLIM_RELEASE(4, 57),
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
