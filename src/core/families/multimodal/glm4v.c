// GLM 4.1V and GLM 4.6V Flash: GLM 4's layers with three positions for each token, and a tower for images.
#include "families.h"
#include "glm4.h"

#include "op_names.h"

// The loop over layers has a variable of its own for what a layer returns.
static plim_model *text_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_glm4_layer,
      .norm = plim_rms_norm,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM | PLIM_PRE_MLP_NORM | PLIM_POST_MLP_NORM,
      .projects_first = true,
      .kept_last_layer_until = UINT16_MAX,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  return c->outer && c->vision.heads < 1 ? "a vision tower without heads" : NULL;
}

const plim_family plim_family_glm4v_text = {
    .model_type = "glm4v_text",
    .build = text_new,
    .unfollowed = unfollowed,
    .defaults = {.hidden = 4096,
                 .intermediate = 13696,
                 .layers = 40,
                 .heads = 32,
                 .kv_heads = 2,
                 .vocabulary = 151552,
                 .positions = 32768,
                 .activation = PLIM_ACT_SILU,
                 .rotary_share = 0.5},
    .turns_part_of_head = true,
    .turns_neighbours = true,
    .has_paired_angles = true,
    .has_fused_gate = true,
    .has_qkv_bias = true,
    .has_grid_positions = true,
    .has_grid_sections = true,
    .keeps_mask_arguments = true,
    .masks_lack_positions = true,
    .layers_lack_positions = true,
    .left_out = "the vision tower",
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// ---- with images ----------------------------------------------------------------------------------------

static void add_block(plim_tape *t, plim_towers *w, const plim_tower_config *v, int64_t i,
                      plim_dtype d) {
  static const char place[] = "model.visual.blocks";
  int64_t h = v->hidden, wide = v->output;
  plim_model_parameter(t, w->model, dims(h), d); // two norms
  plim_model_parameter(t, w->model, dims(h), d);
  plim_tower_linear_new(t, w, place, i, "attn.qkv", dims(3 * h, h), v->has_attention_bias, d);
  plim_tower_linear_new(t, w, place, i, "attn.proj", dims(h, h), false, d);
  plim_tower_linear_new(t, w, place, i, "mlp.gate_proj", dims(wide, h), false, d);
  plim_tower_linear_new(t, w, place, i, "mlp.up_proj", dims(wide, h), false, d);
  plim_tower_linear_new(t, w, place, i, "mlp.down_proj", dims(h, wide), false, d);
}

static void add_merger(plim_tape *t, plim_towers *w, const plim_tower_config *v, plim_dtype d) {
  static const char place[] = "model.visual.merger";
  int64_t out = v->output, wide = v->intermediate;
  plim_tower_linear_new(t, w, place, -1, "proj", dims(out, out), false, d);
  plim_norm_new(t, w->model, out, d);
  plim_tower_linear_new(t, w, place, -1, "gate_proj", dims(wide, out), false, d);
  plim_tower_linear_new(t, w, place, -1, "up_proj", dims(wide, out), false, d);
  plim_tower_linear_new(t, w, place, -1, "down_proj", dims(out, wide), false, d);
}

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  const plim_tower_config *v = &c->vision;
  int64_t h = v->hidden, p = v->patch_size, side = plim_tower_side(v), merged = c->merged_patches;
  plim_rope_buffers rope = {0};
  plim_tensor *again = NULL;
  plim_model_parameter(t, w->model, dims(side * side, h), d);
  plim_model_parameter(t, w->model, dims(h, v->channels, v->frames, p, p), d);
  plim_model_parameter(t, w->model, dims(h), d);
  plim_rope_new(t, PLIM_ROPE_DEFAULT, h / v->heads / 2, &rope);
  for (int64_t i = 0; i < v->layers; i++) add_block(t, w, v, i, d);
  add_merger(t, w, v, d);
  plim_model_parameter(t, w->model, dims(h), d); // post_conv_layernorm
  plim_model_parameter(t, w->model, dims(v->output, h, merged, merged), d);
  plim_model_parameter(t, w->model, dims(v->output), d);
  plim_model_parameter(t, w->model, dims(h), d); // post_layernorm
  plim_rope_init(t, PLIM_ROPE_DEFAULT, &rope, &again);
  drop(t, &again);
}

const plim_family plim_family_glm4v = {
    .model_type = "glm4v",
    .has_other_liger = true,
    .text_types = "glm4v_text",
    .add_towers = add_towers,
    .lacks_loss_kwargs = true,
    .defaults = {.vision = {.hidden = 1536,
                            .intermediate = 13696,
                            .layers = 24,
                            .heads = 12,
                            .channels = 3,
                            .image_size = 336,
                            .patch_size = 14,
                            .frames = 2,
                            .output = 4096},
                 .merged_patches = 2},
    .first_release = PLIM_RELEASE(4, 53),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
