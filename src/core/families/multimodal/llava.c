// LLaVA 1.5 and 1.6 and Pixtral: a tower of CLIP or of Pixtral, two linear layers, and any of several language models.
#include "families.h"
#include "towers.h"

#include "op_names.h"

static void add_tower(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  if (c->vision.type == PLIM_TOWER_PIXTRAL) plim_pixtral_new(t, w, &c->vision, d);
  else plim_clip_new(t, w, &c->vision, d);
}

static void add_projector(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const char place[] = "model.multi_modal_projector";
  bool biased = c->has_projector_bias;
  plim_tower_linear_new(t, w, place, -1, "linear_1", dims(c->hidden, c->vision.hidden), biased, d);
  plim_tower_linear_new(t, w, place, -1, "linear_2", dims(c->hidden, c->hidden), biased, d);
}

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  add_tower(t, w, c, d);
  add_projector(t, w, c, d);
}

// image_newline, which stands between rows of patches, is torch.randn(...) * std. It is moved behind the language model.
static void add_next_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  add_towers(t, w, c, d);
  if (plim_tape_is_on_host(t)) return;
  plim_tensor *drawn = empty(t, dims(c->hidden), d);
  plim_model_parameter(t, w->model, dims(c->hidden), d);
  plim_consume(t, drawn);
}

static void add_newline_behind(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  if (plim_tape_is_on_host(t)) plim_model_parameter(t, w->model, dims(c->hidden), d);
}

static const char *unfollowed(const plim_config *c) {
  if (c->vision.type == PLIM_TOWER_OTHER) return "this vision tower";
  return c->lists_feature_layers ? "several layers in vision_feature_layer" : NULL;
}

#define TOWER_DEFAULTS                                                                             \
  {                                                                                                \
    .vision = {.hidden = 1024,                                                                     \
               .intermediate = 4096,                                                               \
               .layers = 24,                                                                       \
               .heads = 16,                                                                        \
               .channels = 3,                                                                      \
               .image_size = 336,                                                                  \
               .patch_size = 14},                                                                  \
    .has_projector_bias = true                                                                     \
  }

const plim_family plim_family_llava = {
    .model_type = "llava",
    .has_other_liger = true,
    .text_types = "llama,mistral,qwen2",
    .add_towers = add_towers,
    .unfollowed = unfollowed,
    .defaults = TOWER_DEFAULTS,
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

const plim_family plim_family_llava_next = {
    .model_type = "llava_next",
    .text_types = "llama,mistral,qwen2",
    .add_towers = add_next_towers,
    .add_towers_behind = add_newline_behind,
    .unfollowed = unfollowed,
    .defaults = TOWER_DEFAULTS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_NONE,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
