// Mistral Small 3.1 and later, Ministral 3: Pixtral's tower, and the language model of mistral, ministral3 or mistral4.
#include "families.h"
#include "towers.h"

#include "tape_names.h"

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const char place[] = "model.multi_modal_projector";
  int64_t seen = c->vision.hidden, merged = c->merged_patches * c->merged_patches * seen;
  bool biased = c->has_projector_bias;
  plim_pixtral_new(t, w, &c->vision, d);
  plim_model_parameter(t, w->model, dims(seen), d); // norm
  plim_tower_linear_new(t, w, place, -1, "patch_merger.merging_layer", dims(seen, merged), false,
                        d);
  plim_tower_linear_new(t, w, place, -1, "linear_1", dims(c->hidden, seen), biased, d);
  plim_tower_linear_new(t, w, place, -1, "linear_2", dims(c->hidden, c->hidden), biased, d);
}

const plim_family plim_family_mistral3 = {
    .model_type = "mistral3",
    .text_types = "mistral,ministral3,mistral4",
    .add_towers = add_towers,
    .defaults =
        {.vision = {.hidden = 1024,
                    .intermediate = 4096,
                    .layers = 24,
                    .heads = 16,
                    .channels = 3,
                    .image_size = 1024,
                    .patch_size = 16},
         // The class would tie the head, but checkpoints without the key hold a head of their own, which stays.
         .merged_patches = 2},
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
};
