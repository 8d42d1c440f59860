// Gemma 3 with images: SigLIP's tower, and the language model of gemma3_text.
#include "families.h"
#include "towers.h"

#include "tape_names.h"

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype dtype) {
  plim_siglip_new(t, w, &c->vision, dtype);
  plim_model_parameter(t, w->model, dims(c->vision.hidden, c->hidden), dtype); // the projector's
  plim_model_parameter(t, w->model, dims(c->vision.hidden), dtype);
}

const plim_family plim_family_gemma3 = {
    .model_type = "gemma3",
    .has_other_liger = true,
    .text_types = "gemma3_text",
    .add_towers = add_towers,
    .makes_masks_first = true,
    .defaults = {.has_padding_row = true,
                 .vision = {.hidden = 768,
                            .intermediate = 3072,
                            .layers = 12,
                            .heads = 12,
                            .channels = 3,
                            .image_size = 224,
                            .patch_size = 16,
                            .has_head = true},
                 .ties_embeddings = true},
    .recorded = PLIM_RECORDED_TRAINING,
};
