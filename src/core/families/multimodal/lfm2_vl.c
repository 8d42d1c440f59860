// LFM2-VL: SigLIP 2's tower, and the language model of lfm2.
#include "families.h"
#include "towers.h"

#include "tape_names.h"

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const plim_tower_layers layers = {.place = "model.vision_tower.encoder.layers"};
  static const char place[] = "model.multi_modal_projector";
  const plim_tower_config *v = &c->vision;
  int64_t patch = v->channels * v->patch_size * v->patch_size, wide = c->projector_width;
  int64_t merged = v->hidden * c->merged_patches * c->merged_patches;
  bool biased = c->has_projector_bias;
  plim_tower_linear_new(t, w, "model.vision_tower.embeddings", -1, "patch_embedding",
                        dims(v->hidden, patch), true, d);
  plim_model_parameter(t, w->model, dims(v->positions, v->hidden), d);
  for (int64_t i = 0; i < v->layers; i++) plim_tower_layer_new(t, w, &layers, v, i, d);
  plim_norm_new(t, w->model, v->hidden, d);
  if (c->has_projector_norm) plim_norm_new(t, w->model, merged, d);
  plim_tower_linear_new(t, w, place, -1, "linear_1", dims(wide, merged), biased, d);
  plim_tower_linear_new(t, w, place, -1, "linear_2", dims(c->hidden, wide), biased, d);
}

static const char *unfollowed(const plim_config *c) {
  return c->vision.has_head ? "a vision tower with a head" : NULL;
}

const plim_family plim_family_lfm2_vl = {
    .model_type = "lfm2_vl",
    .text_types = "lfm2",
    .add_towers = add_towers,
    .unfollowed = unfollowed,
    .defaults = {.has_padding_row = true,
                 .vision = {.hidden = 768,
                            .intermediate = 3072,
                            .layers = 12,
                            .heads = 12,
                            .channels = 3,
                            .patch_size = 16,
                            .positions = 256},
                 .merged_patches = 2,
                 .projector_width = 2560,
                 .has_projector_bias = true,
                 .has_projector_norm = true,
                 .ties_embeddings = true},
    .first_release = PLIM_RELEASE(4, 57),
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
    .factory_adapts_towers = true,
};
