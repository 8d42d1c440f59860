#include "towers.h"

#include "rope.h"

#include "op_names.h"

void plim_tower_linear_new(plim_tape *t, plim_towers *w, const char *place, int64_t index,
                           const char *path, plim_dims shape, bool has_bias, plim_dtype dtype) {
  plim_tower_linear l = {.place = place, .index = index};
  l.linear = plim_linear_new(t, w->model, path, shape.at[0], shape.at[1], has_bias, dtype);
  if (index >= 0) l.linear.weight->parts |= 1u << PLIM_PART_TOWERS;
  if (index >= 0 && has_bias) l.linear.bias->parts |= 1u << PLIM_PART_TOWERS;
  if (!vec_push(&w->linears, l)) w->model->failed = true;
}

void plim_tower_buffer_new(plim_tape *t, plim_towers *w, plim_dims shape, plim_dtype dtype) {
  plim_tensor *buffer = NULL;
  set(t, &buffer, empty(t, shape, dtype));
  if (!vec_push(&w->buffers, buffer)) w->model->failed = true;
}

void plim_towers_pause(plim_towers *w) {
  w->first_parameters = w->model->parameters.len;
  w->first_linears = w->linears.len;
}

void plim_towers_resume(plim_towers *w) { w->behind = w->model->parameters.len; }

void plim_towers_end(plim_towers *w) {
  w->end = w->model->parameters.len;
  void *const owned[] = {w->linears.at, w->buffers.at};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
    if (owned[i] && !vec_push(&w->model->arrays, owned[i])) w->model->failed = true;
}

void plim_towers_visit(const plim_towers *w, bool behind, plim_visit *visit, void *context) {
  size_t end = behind ? w->end : w->first_parameters;
  for (size_t i = behind ? w->behind : 0; i < end; i++) visit(context, w->model->parameters.at[i]);
}

void plim_towers_add_lora(plim_tape *t, plim_towers *w, bool behind, const plim_lora *lora) {
  size_t end = behind ? w->linears.len : w->first_linears;
  if (lora->leaves_towers) return;
  for (size_t i = behind ? w->first_linears : 0; i < end; i++) {
    plim_tower_linear *l = &w->linears.at[i];
    plim_lora_add_all(t, w->model, lora, l->place, l->index, &l->linear);
  }
}

// ---- layers of encoders -----------------------------------------------------------------------------

void plim_tower_layer_new(plim_tape *t, plim_towers *w, const plim_tower_layers *kind,
                          const plim_tower_config *v, int64_t i, plim_dtype d) {
  static const char *const attention[] = {"self_attn.k_proj", "self_attn.v_proj",
                                          "self_attn.q_proj", "self_attn.out_proj"};
  int64_t h = v->hidden;
  if (!kind->builds_norms_last) plim_norm_new(t, w->model, h, d);
  for (size_t k = 0; k < sizeof attention / sizeof *attention; k++)
    plim_tower_linear_new(t, w, kind->place, i, attention[k], dims(h, h),
                          k > 0 || !kind->has_plain_keys, d);
  plim_norm_new(t, w->model, h, d);
  plim_tower_linear_new(t, w, kind->place, i, kind->up ? kind->up : "mlp.fc1",
                        dims(v->intermediate, h), true, d);
  plim_tower_linear_new(t, w, kind->place, i, kind->down ? kind->down : "mlp.fc2",
                        dims(h, v->intermediate), true, d);
  if (kind->builds_norms_last) plim_norm_new(t, w->model, h, d);
}

void plim_tower_patches_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, bool has_bias,
                            plim_dtype d) {
  plim_model_parameter(t, w->model, dims(v->hidden, v->channels, v->patch_size, v->patch_size), d);
  if (has_bias) plim_model_parameter(t, w->model, dims(v->hidden), d);
}

void plim_tower_own_parameter(plim_tape *t, plim_towers *w, size_t first, plim_dims shape,
                              plim_dtype d) {
  plim_model *m = w->model;
  plim_tensor *own = plim_model_parameter(t, m, shape, d);
  for (size_t i = m->parameters.len - 1; !m->failed && i > first; i--)
    m->parameters.at[i] = m->parameters.at[i - 1];
  if (!m->failed) m->parameters.at[first] = own;
}

void plim_tower_positions_new(plim_tape *t, int64_t positions) {
  plim_tensor *buffer = NULL;
  set(t, &buffer, empty(t, dims(positions), PLIM_I64));
}

void plim_tower_positions_init(plim_tape *t, int64_t positions) {
  plim_consume(t, empty(t, dims(positions), PLIM_I64));
}

int64_t plim_tower_side(const plim_tower_config *v) {
  return v->patch_size ? v->image_size / v->patch_size : 0;
}

// ---- CLIP -------------------------------------------------------------------------------------------

void plim_clip_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, plim_dtype d) {
  static const plim_tower_layers layers = {.place = "model.vision_tower.encoder.layers",
                                           .builds_norms_last = true};
  int64_t side = plim_tower_side(v), positions = side * side + 1;
  size_t first = w->model->parameters.len;
  bool is_moved = plim_tape_is_on_host(t);
  if (!is_moved) plim_model_parameter(t, w->model, dims(v->hidden), d); // class_embedding
  plim_tower_patches_new(t, w, v, false, d);
  plim_model_parameter(t, w->model, dims(positions, v->hidden), d);
  if (is_moved) plim_tower_own_parameter(t, w, first, dims(v->hidden), d);
  plim_tower_positions_new(t, positions);
  plim_norm_new(t, w->model, v->hidden, d);
  for (int64_t i = 0; i < v->layers; i++) plim_tower_layer_new(t, w, &layers, v, i, d);
  plim_norm_new(t, w->model, v->hidden, d);
  plim_tower_positions_init(t, positions);
}

// ---- SigLIP -----------------------------------------------------------------------------------------

// SiglipMultiheadAttentionPoolingHead; peft cannot adapt the projections of nn.MultiheadAttention one by one.
static void siglip_head_new(plim_tape *t, plim_towers *w, const plim_tower_config *v,
                            plim_dtype d) {
  static const char place[] = "model.vision_tower.head";
  int64_t h = v->hidden;
  plim_model_parameter(t, w->model, dims(1, 1, h), d);
  plim_model_parameter(t, w->model, dims(3 * h, h), d);
  plim_model_parameter(t, w->model, dims(3 * h), d);
  plim_tower_linear_new(t, w, place, -1, "attention.out_proj", dims(h, h), true, d);
  plim_norm_new(t, w->model, h, d);
  plim_tower_linear_new(t, w, place, -1, "mlp.fc1", dims(v->intermediate, h), true, d);
  plim_tower_linear_new(t, w, place, -1, "mlp.fc2", dims(h, v->intermediate), true, d);
}

void plim_siglip_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, plim_dtype d) {
  static const plim_tower_layers layers = {.place = "model.vision_tower.encoder.layers"};
  int64_t side = plim_tower_side(v);
  plim_tower_patches_new(t, w, v, true, d);
  plim_model_parameter(t, w->model, dims(side * side, v->hidden), d);
  plim_tower_positions_new(t, side * side);
  for (int64_t i = 0; i < v->layers; i++) plim_tower_layer_new(t, w, &layers, v, i, d);
  plim_norm_new(t, w->model, v->hidden, d);
  if (v->has_head) siglip_head_new(t, w, v, d);
  plim_tower_positions_init(t, side * side);
}

// ---- Pixtral ----------------------------------------------------------------------------------------

static const char pixtral_layers[] = "model.vision_tower.transformer.layers";

static void pixtral_layer_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, int64_t i,
                              plim_dtype d) {
  static const char *const attention[] = {"attention.k_proj", "attention.v_proj",
                                          "attention.q_proj", "attention.o_proj"};
  int64_t h = v->hidden, wide = v->intermediate;
  plim_model_parameter(t, w->model, dims(h), d);
  plim_tower_linear_new(t, w, pixtral_layers, i, "feed_forward.gate_proj", dims(wide, h), false, d);
  plim_tower_linear_new(t, w, pixtral_layers, i, "feed_forward.up_proj", dims(wide, h), false, d);
  plim_tower_linear_new(t, w, pixtral_layers, i, "feed_forward.down_proj", dims(h, wide), false, d);
  for (size_t k = 0; k < sizeof attention / sizeof *attention; k++)
    plim_tower_linear_new(t, w, pixtral_layers, i, attention[k], dims(h, h), false, d);
  plim_model_parameter(t, w->model, dims(h), d);
}

// Frequencies of both directions, concatenated.
static plim_tensor *axial_frequencies(plim_tape *t, int64_t n) {
  plim_tensor *both = plim_inverse_frequencies(t, n), *out = empty(t, dims(n), PLIM_FP32);
  plim_consume(t, both);
  return out;
}

void plim_pixtral_new(plim_tape *t, plim_towers *w, const plim_tower_config *v, plim_dtype d) {
  plim_tensor *inv_freq = NULL, *original = NULL; // buffers
  int64_t n = (v->head_dim ? v->head_dim : v->heads ? v->hidden / v->heads : 0) / 2;
  plim_tower_patches_new(t, w, v, false, d);
  plim_model_parameter(t, w->model, dims(v->hidden), d); // a norm
  for (int64_t i = 0; i < v->layers; i++) pixtral_layer_new(t, w, v, i, d);
  set(t, &inv_freq, axial_frequencies(t, n));
  set(t, &original, empty(t, dims(n), PLIM_FP32));
  plim_consume(t, axial_frequencies(t, n)); // again when weights are initialised
}
