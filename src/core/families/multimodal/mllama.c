// Llama 3.2 with images: Llama's layers, between which others attend to the image. A text without an image passes those
// by: they are built, loaded and may have adapters, as the tower for images does.
#include "decoder.h"
#include "families.h"
#include "towers.h"

#include "op_names.h"

// ---- layers that attend to the image ----------------------------------------------------------------

static void add_cross_layer(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, q = m->c.heads * m->c.head_dim, kv = m->c.kv_heads * m->c.head_dim;
  l->q_proj = plim_linear_new(t, &m->model, "cross_attn.q_proj", q, h, false, d);
  l->k_proj = plim_linear_new(t, &m->model, "cross_attn.k_proj", kv, h, false, d);
  l->v_proj = plim_linear_new(t, &m->model, "cross_attn.v_proj", kv, h, false, d);
  l->o_proj = plim_linear_new(t, &m->model, "cross_attn.o_proj", h, q, false, d);
  l->q_norm = plim_model_parameter(t, &m->model, dims(m->c.head_dim), d);
  l->k_norm = plim_model_parameter(t, &m->model, dims(m->c.head_dim), d);
  l->input_norm = plim_decoder_norm_new(t, m, PLIM_INPUT_NORM, d);
  l->attention_gate = plim_model_parameter(t, &m->model, dims(1), d);
  plim_decoder_add_mlp(t, m, l, d);
  l->post_attention_norm = plim_decoder_norm_new(t, m, PLIM_POST_ATTENTION_NORM, d);
  l->mlp_gate = plim_model_parameter(t, &m->model, dims(1), d);
  // model.to() moves the parts of a module before its own parameters; 1 and 2 are for adapters.
  plim_tape_move_behind(l->attention_gate, l->post_attention_norm, 3);
}

static plim_model *text_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_decoder_code code = {
      .layer = plim_decoder_prenorm_layer,
      .norm = plim_rms_norm,
      .norms = PLIM_INPUT_NORM | PLIM_POST_ATTENTION_NORM,
      .add_cross_layer = add_cross_layer,
      .projects_first = true,
  };
  return plim_decoder_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  if (!c->outer) return "no vision tower"; // MllamaForCausalLM returns float32 logits
  if (c->ties_embeddings) return "a tied head";
  if (c->dropout != 0) return "dropout";
  return c->vision.tiles != 4 ? "max_num_tiles other than 4" : NULL;
}

const plim_family plim_family_mllama_text_model = {
    .model_type = "mllama_text_model",
    .has_other_liger = true,
    .build = text_new,
    .unfollowed = unfollowed,
    .defaults = {.has_padding_row = true,
                 .hidden = 4096,
                 .intermediate = 14336,
                 .layers = 40,
                 .heads = 32,
                 .kv_heads = 8,
                 .vocabulary = 128256,
                 .positions = 131072,
                 .activation = PLIM_ACT_SILU,
                 .crosses = {[3] = true,
                             [8] = true,
                             [13] = true,
                             [18] = true,
                             [23] = true,
                             [28] = true,
                             [33] = true,
                             [38] = true}},
    .divides_width = true,
    .passes_positions_first = true,
    .has_cross_layers = true,
    .more_tokens = 8,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};

// ---- the tower ----------------------------------------------------------------------------------------

enum { RATIOS = 8 }; // in which 4 tiles can lie side by side

static void position_embedding_new(plim_tape *t, plim_towers *w, const plim_tower_config *v,
                                   int64_t patches, plim_dtype d) {
  int64_t h = v->hidden;
  plim_tensor *gate = plim_model_parameter(t, w->model, dims(1), d);
  plim_tensor *random = empty(t, dims(patches, h), d); // a variable of the constructor
  plim_tensor *table = plim_model_parameter(t, w->model, dims(patches, h), d);
  plim_tensor *tiles =
      plim_model_parameter(t, w->model, dims(RATIOS + 1, v->tiles * patches * h), d);
  plim_consume(t, random);
  plim_tape_move_behind(gate, tiles, 1);
  plim_tape_move_behind(table, tiles, 2);
}

static void ratio_embedding_new(plim_tape *t, plim_towers *w, const plim_tower_config *v,
                                plim_dtype d) {
  plim_model_parameter(t, w->model, dims(RATIOS + 1, v->tiles * v->hidden), d);
  plim_model_parameter(t, w->model, dims(1), d); // gate
}

// torch.ones(1) * math.pi / 4
static void gate_new(plim_tape *t, plim_towers *w, plim_dtype d) {
  plim_tensor *one = empty(t, dims(1), d), *product = empty(t, dims(1), d);
  plim_consume(t, one);
  plim_model_parameter(t, w->model, dims(1), d);
  plim_consume(t, product);
}

static void encoder_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, const char *place,
                        int64_t layers, bool is_gated, plim_dtype d) {
  static const char *const attention[] = {"self_attn.q_proj", "self_attn.k_proj",
                                          "self_attn.v_proj", "self_attn.o_proj"};
  int64_t h = v->hidden, wide = v->intermediate;
  for (int64_t i = 0; i < layers; i++) {
    for (size_t k = 0; k < sizeof attention / sizeof *attention; k++)
      plim_tower_linear_new(t, w, place, i, attention[k], dims(h, h), false, d);
    plim_tower_linear_new(t, w, place, i, "mlp.fc1", dims(wide, h), true, d);
    plim_tower_linear_new(t, w, place, i, "mlp.fc2", dims(h, wide), true, d);
    plim_norm_new(t, w->model, h, d);
    plim_norm_new(t, w->model, h, d);
    for (int gate = 0; is_gated && gate < 2; gate++) gate_new(t, w, d);
  }
}

static void add_towers(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  const plim_tower_config *v = &c->vision;
  int64_t side = v->patch_size ? v->image_size / v->patch_size : 0, patches = side * side + 1;
  plim_dims patch = dims(v->hidden, v->channels, v->patch_size, v->patch_size);
  plim_model_parameter(t, w->model, patch, d);
  plim_tensor *random = empty(t, dims(v->hidden), d);
  plim_tensor *of_class = plim_model_parameter(t, w->model, dims(v->hidden), d);
  plim_consume(t, random);
  position_embedding_new(t, w, v, patches, d);
  ratio_embedding_new(t, w, v, d);
  ratio_embedding_new(t, w, v, d);
  plim_norm_new(t, w->model, v->hidden, d);
  plim_norm_new(t, w->model, v->hidden, d);
  encoder_new(t, w, v, "model.vision_model.transformer.layers", v->layers, false, d);
  encoder_new(t, w, v, "model.vision_model.global_transformer.layers", v->global_layers, true, d);
  plim_tape_move_behind(of_class, w->model->parameters.at[w->model->parameters.len - 1], 3);
}

static void add_towers_behind(plim_tape *t, plim_towers *w, const plim_config *c, plim_dtype d) {
  plim_dims shape = dims(c->hidden, c->vision.output);
  plim_tower_linear_new(t, w, "model", -1, "multi_modal_projector", shape, true, d);
}

const plim_family plim_family_mllama = {
    .model_type = "mllama",
    .has_other_liger = true,
    .text_types = "mllama_text_model",
    .add_towers = add_towers,
    .add_towers_behind = add_towers_behind,
    .passes_ids_on = true,
    .defaults = {.has_padding_row = true,
                 .vision = {.hidden = 1280,
                            .intermediate = 5120,
                            .layers = 32,
                            .global_layers = 8,
                            .heads = 16,
                            .channels = 3,
                            .image_size = 448,
                            .patch_size = 14,
                            .tiles = 4,
                            .output = 7680}},
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL_IN_ATTENTION,
};
