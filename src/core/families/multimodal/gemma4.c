// Gemma 4 with images and sound: a tower for each, and the language model of gemma4_text.
#include "families.h"
#include "rope.h"
#include "towers.h"

#include "op_names.h"

// Gemma4ClippableLinear: a linear layer and four bounds.
static void add_clippable(plim_tape *t, plim_towers *w, const char *place, int64_t layer,
                          const char *path, plim_dims shape, bool is_clipped, plim_dtype d) {
  plim_tower_linear_new(t, w, place, layer, path, shape, false, d);
  for (int i = 0; is_clipped && i < 4; i++) plim_tower_buffer_new(t, w, (plim_dims){0}, d);
}

static void add_norms(plim_tape *t, plim_towers *w, int count, int64_t width, plim_dtype d) {
  while (count-- > 0) plim_model_parameter(t, w->model, dims(width), d);
}

// ---- images -----------------------------------------------------------------------------------------

static void add_vision_layer(plim_tape *t, plim_towers *w, const plim_tower_config *v, int64_t i,
                             plim_dtype d) {
  static const char place[] = "model.vision_tower.encoder.layers";
  int64_t h = v->hidden, wide = v->intermediate;
  int64_t q = v->heads * v->head_dim, kv = v->kv_heads * v->head_dim;
  add_clippable(t, w, place, i, "self_attn.q_proj.linear", dims(q, h), v->is_clipped, d);
  add_clippable(t, w, place, i, "self_attn.k_proj.linear", dims(kv, h), v->is_clipped, d);
  add_clippable(t, w, place, i, "self_attn.v_proj.linear", dims(kv, h), v->is_clipped, d);
  add_clippable(t, w, place, i, "self_attn.o_proj.linear", dims(h, q), v->is_clipped, d);
  add_norms(t, w, 2, v->head_dim, d);
  add_clippable(t, w, place, i, "mlp.gate_proj.linear", dims(wide, h), v->is_clipped, d);
  add_clippable(t, w, place, i, "mlp.up_proj.linear", dims(wide, h), v->is_clipped, d);
  add_clippable(t, w, place, i, "mlp.down_proj.linear", dims(h, wide), v->is_clipped, d);
  add_norms(t, w, 4, h, d);
}

static void add_vision(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  const plim_tower_config *v = &c->vision;
  int64_t n = v->head_dim / 4, patch = 3 * v->patch_size * v->patch_size;
  plim_tensor *inv_freq = NULL, *original = NULL; // buffers
  if (!v->hidden) return;
  plim_tower_linear_new(t, w, "model.vision_tower.patch_embedder", -1, "input_proj",
                        dims(v->hidden, patch), false, d);
  plim_model_parameter(t, w->model, dims(2, v->positions, v->hidden), d);
  set(t, &inv_freq, plim_inverse_frequencies(t, n));
  set(t, &original, empty(t, dims(n), PLIM_FP32));
  for (int64_t i = 0; i < v->layers; i++) add_vision_layer(t, w, v, i, d);
  for (int i = 0; v->is_standardised && i < 2; i++) plim_tower_buffer_new(t, w, dims(v->hidden), d);
  plim_consume(t, plim_inverse_frequencies(t, n)); // again when weights are initialised
}

// ---- sound ------------------------------------------------------------------------------------------

static const char audio_layers[] = "model.audio_tower.layers";

static void add_feed_forward(plim_tape *t, plim_towers *w, const plim_tower_config *a, int64_t i,
                             const char *const paths[2], plim_dtype d) {
  int64_t h = a->hidden;
  add_clippable(t, w, audio_layers, i, paths[0], dims(4 * h, h), a->is_clipped, d);
  add_clippable(t, w, audio_layers, i, paths[1], dims(h, 4 * h), a->is_clipped, d);
  add_norms(t, w, 2, h, d);
}

static void add_audio_attention(plim_tape *t, plim_towers *w, const plim_tower_config *a, int64_t i,
                                plim_dtype d) {
  static const char *const paths[] = {"self_attn.q_proj.linear", "self_attn.k_proj.linear",
                                      "self_attn.v_proj.linear", "self_attn.post.linear"};
  plim_dims square = dims(a->hidden, a->hidden);
  plim_tensor *softcap = NULL; // a buffer
  for (size_t k = 0; k < sizeof paths / sizeof *paths; k++)
    add_clippable(t, w, audio_layers, i, paths[k], square, a->is_clipped, d);
  plim_tower_linear_new(t, w, audio_layers, i, "self_attn.relative_k_proj", square, false, d);
  plim_model_parameter(t, w->model, dims(a->heads ? a->hidden / a->heads : 0), d);
  set(t, &softcap, empty(t, (plim_dims){0}, d));
}

static void add_audio_layer(plim_tape *t, plim_towers *w, const plim_tower_config *a, int64_t i,
                            plim_dtype d) {
  static const char *const first[] = {"feed_forward1.ffw_layer_1.linear",
                                      "feed_forward1.ffw_layer_2.linear"};
  static const char *const second[] = {"feed_forward2.ffw_layer_1.linear",
                                       "feed_forward2.ffw_layer_2.linear"};
  int64_t h = a->hidden;
  add_feed_forward(t, w, a, i, first, d);
  add_feed_forward(t, w, a, i, second, d);
  add_audio_attention(t, w, a, i, d);
  add_clippable(t, w, audio_layers, i, "lconv1d.linear_start.linear", dims(2 * h, h), a->is_clipped,
                d);
  add_clippable(t, w, audio_layers, i, "lconv1d.linear_end.linear", dims(h, h), a->is_clipped, d);
  plim_model_parameter(t, w->model, dims(h, 1, a->kernel), d);
  add_norms(t, w, 2 + 3, h, d);
}

// exp(arange(n) * -increment) * 1.0
static plim_tensor *time_scales(plim_tape *t, int64_t n, plim_dtype d) {
  plim_tensor *steps = empty(t, dims(n), PLIM_I64), *scaled = empty(t, dims(n), d);
  plim_consume(t, steps);
  plim_tensor *raised = empty(t, dims(n), d);
  plim_consume(t, scaled);
  plim_tensor *out = empty(t, dims(n), d);
  plim_consume(t, raised);
  return out;
}

static void add_audio(plim_tape *t, plim_towers *w, const plim_tower_config *a, plim_dtype d) {
  enum { CHANNELS_0 = 128, CHANNELS_1 = 32 }; // subsampling_conv_channels
  plim_tensor *scales = NULL;                 // a buffer
  plim_model_parameter(t, w->model, dims(CHANNELS_0, 1, 3, 3), d);
  add_norms(t, w, 1, CHANNELS_0, d);
  plim_model_parameter(t, w->model, dims(CHANNELS_1, CHANNELS_0, 3, 3), d);
  add_norms(t, w, 1, CHANNELS_1, d);
  plim_tower_linear_new(t, w, "model.audio_tower.subsample_conv_projection", -1,
                        "input_proj_linear", dims(a->hidden, CHANNELS_0 / 4 * CHANNELS_1), false,
                        d);
  set(t, &scales, time_scales(t, a->hidden / 2, d));
  for (int64_t i = 0; i < a->layers; i++) add_audio_layer(t, w, a, i, d);
  plim_tower_linear_new(t, w, "model.audio_tower", -1, "output_proj", dims(a->output, a->hidden),
                        true, d);
  plim_consume(t, time_scales(t, a->hidden / 2, d)); // again when weights are initialised
}

static void add_behind(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  const plim_tower_config *v = &c->vision, *a = &c->audio;
  if (a->hidden) add_audio(t, w, a, d);
  if (v->hidden)
    plim_tower_linear_new(t, w, "model.embed_vision", -1, "embedding_projection",
                          dims(c->hidden, v->hidden), false, d);
  if (a->hidden)
    plim_tower_linear_new(t, w, "model.embed_audio", -1, "embedding_projection",
                          dims(c->hidden, a->output), false, d);
}

const plim_family plim_family_gemma4 = {
    .model_type = "gemma4",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .axolotl_fuses_attention = true,
    .text_types = "gemma4_text",
    .axolotl_avoids_reentrant = true,
    .add_towers = add_vision,
    .add_towers_behind = add_behind,
    .may_lack_towers = true,
    .defaults = {.has_padding_row = true,
                 .vision = {.hidden = 768,
                            .intermediate = 3072,
                            .layers = 16,
                            .heads = 12,
                            .kv_heads = 12,
                            .head_dim = 64,
                            .patch_size = 16,
                            .positions = 10240},
                 .audio = {.hidden = 1024,
                           .layers = 12,
                           .heads = 8,
                           .kernel = 5,
                           .output = 1536,
                           .is_clipped = true},
                 .ties_embeddings = true},
    .lora_targets = "q_proj,v_proj",
    .recorded = PLIM_RECORDED_TRAINING,
};

// ---- without towers ---------------------------------------------------------------------------------

// pos_embedding is a parameter of the module that has the layers.
static void add_embedders(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  const plim_tower_config *v = &c->vision, *a = &c->audio;
  int64_t side = v->patch_size * v->kernel, patch = 3 * side * side;
  plim_dims table = dims(v->positions, 2, v->hidden);
  size_t first = w->model->parameters.len;
  bool is_moved = plim_tape_is_on_host(t);
  if (v->hidden) {
    plim_norm_new(t, w->model, patch, d);
    plim_tower_linear_new(t, w, "model.embed_vision", -1, "patch_dense", dims(v->hidden, patch),
                          true, d);
    plim_norm_new(t, w->model, v->hidden, d);
    if (!is_moved) plim_tower_own_parameter(t, w, first, table, d);
    plim_norm_new(t, w->model, v->hidden, d);
    plim_tower_linear_new(t, w, "model.embed_vision.multimodal_embedder", -1,
                          "embedding_projection", dims(c->hidden, v->output), false, d);
    if (is_moved) plim_tower_own_parameter(t, w, first, table, d);
  }
  if (a->hidden)
    plim_tower_linear_new(t, w, "model.embed_audio", -1, "embedding_projection",
                          dims(c->hidden, a->hidden), false, d);
}

const plim_family plim_family_gemma4_unified = {
    .model_type = "gemma4_unified",
    .text_types = "gemma4_unified_text",
    .axolotl_avoids_reentrant = true,
    .add_towers_behind = add_embedders,
    .masks_blocks = true,
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .axolotl_fuses_attention = true,
    .may_lack_towers = true,
    .defaults = {.has_padding_row = true,
                 .vision = {.hidden = 3840,
                            .patch_size = 16,
                            .kernel = 3,
                            .positions = 1120,
                            .output = 3840},
                 .audio = {.hidden = 640},
                 .ties_embeddings = true},
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
};
