// Voxtral: Whisper's encoder for sound, the language model of llama, and two linear layers between them.
#include "families.h"
#include "towers.h"

#include "tape_names.h"

// A table that is not trained, and that stays float32 if it is loaded (_keep_in_fp32_modules_strict).
static void add_positions(plim_tape *t, plim_towers *w, plim_dims shape, plim_dtype d) {
  bool is_loaded = plim_tape_is_on_host(t);
  plim_tensor *table = plim_model_parameter(t, w->model, shape, is_loaded ? PLIM_FP32 : d);
  table->declared = (uint8_t)d;
  table->requires_grad = false;
}

static void add_tower(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const plim_tower_layers layers = {.place = "model.audio_tower.layers",
                                           .builds_norms_last = true,
                                           .has_plain_keys = true,
                                           .up = "fc1",
                                           .down = "fc2"};
  const plim_tower_config *a = &c->audio;
  enum { KERNEL = 3 }; // of both convolutions
  plim_model_parameter(t, w->model, dims(a->hidden, a->mel_bins, KERNEL), d);
  plim_model_parameter(t, w->model, dims(a->hidden), d);
  plim_model_parameter(t, w->model, dims(a->hidden, a->hidden, KERNEL), d);
  plim_model_parameter(t, w->model, dims(a->hidden), d);
  add_positions(t, w, dims(a->positions, a->hidden), d);
  for (int64_t i = 0; i < a->layers; i++) plim_tower_layer_new(t, w, &layers, a, i, d);
  plim_norm_new(t, w->model, a->hidden, d);
}

static void add_projector(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  static const char place[] = "model.multi_modal_projector";
  plim_dims in = dims(c->hidden, c->audio.intermediate), out = dims(c->hidden, c->hidden);
  plim_tower_linear_new(t, w, place, -1, "linear_1", in, false, d);
  plim_tower_linear_new(t, w, place, -1, "linear_2", out, false, d);
}

const plim_family plim_family_voxtral = {
    .model_type = "voxtral",
    .text_types = "llama",
    .add_towers = add_tower,
    .add_towers_behind = add_projector,
    .defaults = {.audio = {.hidden = 1280,
                           .intermediate = 5120,
                           .layers = 32,
                           .heads = 20,
                           .mel_bins = 128,
                           .positions = 1500}},
    .first_release = PLIM_RELEASE(4, 54),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
    .factory_adapts_towers = true,
};
