// SmolVLM and Idefics 3: SigLIP's layers without a buffer of positions, one linear layer, and the language model of llama.
#include "families.h"
#include "towers.h"

#include "tape_names.h"

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const plim_tower_layers layers = {.place = "model.vision_model.encoder.layers",
                                           .builds_norms_last = true};
  const plim_tower_config *v = &c->vision;
  int64_t side = plim_tower_side(v), merged = v->hidden * c->merged_patches * c->merged_patches;
  plim_tower_patches_new(t, w, v, true, d);
  plim_model_parameter(t, w->model, dims(side * side, v->hidden), d);
  for (int64_t i = 0; i < v->layers; i++) plim_tower_layer_new(t, w, &layers, v, i, d);
  plim_norm_new(t, w->model, v->hidden, d);
  plim_tower_linear_new(t, w, "model.connector.modality_projection", -1, "proj",
                        dims(c->hidden, merged), false, d);
}

#define TOWER_DEFAULTS                                                                             \
  {                                                                                                \
    .vision = {.hidden = 1152,                                                                     \
               .intermediate = 3072,                                                               \
               .layers = 12,                                                                       \
               .heads = 16,                                                                        \
               .channels = 3,                                                                      \
               .image_size = 224,                                                                  \
               .patch_size = 32},                                                                  \
    .merged_patches = 2                                                                            \
  }

const plim_family plim_family_smolvlm = {
    .model_type = "smolvlm",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .text_types = "llama",
    .text_place = "model.text_model.layers",
    .add_towers = add_towers,
    .defaults = TOWER_DEFAULTS,
    .first_release = PLIM_RELEASE(4, 50),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_NONE,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
    .factory_adapts_towers = true,
};

const plim_family plim_family_idefics3 = {
    .model_type = "idefics3",
    .text_types = "llama",
    .text_place = "model.text_model.layers",
    .add_towers = add_towers,
    .defaults = TOWER_DEFAULTS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_NONE,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
    .factory_adapts_towers = true,
};
