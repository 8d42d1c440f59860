// InternVL 3 and 3.5: a tower whose layers scale what they add, and the language model of qwen2 or qwen3.
#include "families.h"
#include "towers.h"

#include "op_names.h"

static const char layers[] = "model.vision_tower.encoder.layer";

// init_values * torch.ones(...)
static void add_scale(plim_tape *t, plim_towers *w, int64_t width, plim_dtype d) {
  plim_tensor *ones = empty(t, dims(width), d);
  plim_model_parameter(t, w->model, dims(width), d);
  plim_consume(t, ones);
}

static void add_norm(plim_tape *t, plim_towers *w, const plim_tower_config *v, plim_dtype d) {
  if (v->has_rms_norms) plim_model_parameter(t, w->model, dims(v->hidden), d);
  else plim_norm_new(t, w->model, v->hidden, d);
}

static void add_layer(plim_tape *t, plim_towers *w, const plim_tower_config *v, int64_t i,
                      plim_dtype d) {
  static const char *const attention[] = {"attention.q_proj", "attention.k_proj",
                                          "attention.v_proj"};
  int64_t h = v->hidden;
  plim_dims square = dims(h, h);
  for (size_t k = 0; k < sizeof attention / sizeof *attention; k++)
    plim_tower_linear_new(t, w, layers, i, attention[k], square, v->has_attention_bias, d);
  plim_tower_linear_new(t, w, layers, i, "attention.projection_layer", square, true, d);
  for (int k = 0; v->has_qk_norm && k < 2; k++) plim_model_parameter(t, w->model, dims(h), d);
  plim_tower_linear_new(t, w, layers, i, "mlp.fc1", dims(v->intermediate, h), true, d);
  plim_tower_linear_new(t, w, layers, i, "mlp.fc2", dims(h, v->intermediate), true, d);
  add_norm(t, w, v, d);
  add_norm(t, w, v, d);
  add_scale(t, w, h, d);
  add_scale(t, w, h, d);
}

// cls_token, mask_token and position_embeddings are parameters of the module that has the convolution.
static void add_embeddings(plim_tape *t, plim_towers *w, const plim_tower_config *v, plim_dtype d) {
  int64_t side = plim_tower_side(v), tokens = v->has_mask_token ? 2 : 1;
  size_t first = w->model->parameters.len;
  bool is_moved = plim_tape_is_on_host(t);
  plim_dims token = dims(1, 1, v->hidden), table = dims(1, side * side + 1, v->hidden);
  for (int64_t i = 0; !is_moved && i < tokens; i++) plim_model_parameter(t, w->model, token, d);
  plim_tower_patches_new(t, w, v, true, d);
  for (int64_t i = 0; is_moved && i < tokens; i++)
    plim_tower_own_parameter(t, w, first + (size_t)i, token, d);
  if (v->has_position_table) plim_tower_own_parameter(t, w, first + (size_t)tokens, table, d);
}

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const char place[] = "model.multi_modal_projector";
  const plim_tower_config *v = &c->vision;
  int64_t shrink = (int64_t)(1 / c->shrinking);
  int64_t merged = v->hidden * shrink * shrink;
  add_embeddings(t, w, v, d);
  for (int64_t i = 0; i < v->layers; i++) add_layer(t, w, v, i, d);
  if (!v->has_mean_pooling) plim_norm_new(t, w->model, v->hidden, d);
  plim_norm_new(t, w->model, merged, d);
  plim_tower_linear_new(t, w, place, -1, "linear_1", dims(c->hidden, merged), true, d);
  plim_tower_linear_new(t, w, place, -1, "linear_2", dims(c->hidden, c->hidden), true, d);
}

static const char *unfollowed(const plim_config *c) {
  return c->shrinking * 256 < 1 ? "this downsample_ratio" : NULL;
}

const plim_family plim_family_internvl = {
    .model_type = "internvl",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .text_types = "qwen2,qwen3,llama",
    .add_towers = add_towers,
    .unfollowed = unfollowed,
    .defaults = {.vision = {.hidden = 1024,
                            .intermediate = 4096,
                            .layers = 24,
                            .heads = 16,
                            .channels = 3,
                            .image_size = 448,
                            .patch_size = 14,
                            .has_position_table = true,
                            .has_mean_pooling = true},
                 .ties_embeddings = true,
                 .shrinking = 0.5},
    .first_release = PLIM_RELEASE(4, 52),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
