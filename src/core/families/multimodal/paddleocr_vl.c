// PaddleOCR-VL: a tower for images, and Ernie 4.5's layers with three positions for each token.
#include "decoder.h"
#include "families.h"

#include "op_names.h"

static plim_model *text_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {.layer = plim_decoder_prenorm_layer,
                                         .norm = plim_rms_norm,
                                         .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
                                         .projects_first = true};
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  if (c->has_attention_bias) return "biases";
  return c->outer && c->vision.heads < 1 ? "a vision tower without heads" : NULL;
}

const plim_family plim_family_paddleocr_vl_text = {
    .model_type = "paddleocr_vl_text",
    .build = text_new,
    .unfollowed = unfollowed,
    .defaults = {.has_padding_row = true,
                 .hidden = 1024,
                 .intermediate = 3072,
                 .layers = 18,
                 .heads = 16,
                 .kv_heads = 2,
                 .head_dim = 128,
                 .vocabulary = 103424,
                 .positions = 131072,
                 .activation = PLIM_ACT_SILU,
                 .ties_embeddings = true},
    .has_grid_positions = true,
    .has_grid_sections = true,
    .masks_lack_positions = true,
    .layers_lack_positions = true,
    .left_out = "the vision tower",
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

static void add_tower(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const plim_tower_layers layers = {.place = "model.visual.vision_model.encoder.layers"};
  const plim_tower_config *v = &c->vision;
  int64_t side = plim_tower_side(v);
  plim_rope_buffers rope = {0};
  plim_tensor *again = NULL;
  plim_tower_patches_new(t, w, v, true, d);
  plim_model_parameter(t, w->model, dims(side * side, v->hidden), d);
  plim_tower_positions_new(t, side * side);
  for (int64_t i = 0; i < v->layers; i++) plim_tower_layer_new(t, w, &layers, v, i, d);
  plim_rope_new(t, PLIM_ROPE_DEFAULT, v->hidden / v->heads / 2, &rope);
  plim_norm_new(t, w->model, v->hidden, d);
  plim_tower_positions_init(t, side * side);
  plim_rope_init(t, PLIM_ROPE_DEFAULT, &rope, &again);
  drop(t, &again);
}

static void add_projector(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const char place[] = "model.projector";
  int64_t merged = c->vision.hidden * c->merged_patches * c->merged_patches;
  plim_norm_new(t, w->model, c->vision.hidden, d);
  plim_tower_linear_new(t, w, place, -1, "linear_1", dims(merged, merged), true, d);
  plim_tower_linear_new(t, w, place, -1, "linear_2", dims(c->hidden, merged), true, d);
}

const plim_family plim_family_paddleocr_vl = {
    .model_type = "paddleocr_vl",
    .axolotl_loss = PLIM_AXOLOTL_LOSS_REFUSED,
    .text_types = "paddleocr_vl_text",
    .add_towers = add_tower,
    .add_towers_behind = add_projector,
    .defaults = {.has_padding_row = true,
                 .vision = {.hidden = 1152,
                            .intermediate = 4304,
                            .layers = 27,
                            .heads = 16,
                            .channels = 3,
                            .image_size = 384,
                            .patch_size = 14},
                 .merged_patches = 2,
                 .ties_embeddings = true},
    .first_release = PLIM_RELEASE(5, 0),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_OFF,
    .factory_adapts_towers = true,
};
