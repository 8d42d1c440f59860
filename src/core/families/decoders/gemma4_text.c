// Gemma 4's language model: Gemma 3's layers with norms of their own; wider heads in layers without a window; the last
// layers may share keys and values with an earlier one; every layer may get embeddings of its own.
#include "families.h"
#include "gemma4.h"
#include "modules.h"
#include "ops.h"
#include "rope.h"
#include "towers.h"

#include "op_names.h"

typedef struct {
  struct plim_gemma4 *m;
  bool slides, shares_kv, stores_kv;
  int64_t head_dim, kv_heads;
  plim_linear q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj;
  plim_linear input_gate, input_projection; // of the layer's own embeddings
  plim_tensor *q_norm, *k_norm;
  plim_tensor *input_norm, *post_attention_norm, *pre_mlp_norm, *post_mlp_norm, *post_input_norm;
  plim_tensor *scalar; // a buffer
  plim_gemma4_mixture mixture;
} layer;

typedef struct plim_gemma4 {
  plim_model model;
  plim_config c;
  plim_towers towers;
  plim_tensor *embed_tokens, *embed_scale, *norm;
  plim_tensor *layer_table, *layer_scale, *layer_norm; // of the layers' own embeddings
  plim_linear layer_projection;
  plim_rope_buffers rope, local_rope;
  layer *layers;
  // Values and keys of the last layers that do not share them: `shared` is the bag of the forward that ran last; the graph
  // of the one before may still keep the other.
  plim_bag bags[2], *shared;
  plim_attention_kind attention; // of the batch that runs
} plim_gemma4;

// ---- construction -----------------------------------------------------------------------------------

static int64_t first_shared(const plim_config *c) { return c->layers - c->kv_shared_layers; }

// The last layer never has a window.
static bool slides(const plim_config *c, int64_t i) {
  return i + 1 < c->layers && plim_config_slides(c, i);
}

static bool is_last_of_its_kind(const plim_config *c, int64_t i) {
  for (int64_t k = i + 1; k < first_shared(c); k++)
    if (slides(c, k) == slides(c, i)) return false;
  return i < first_shared(c);
}

static plim_tensor *weight(plim_tape *t, plim_gemma4 *m, int64_t width, plim_dtype d) {
  return plim_model_parameter(t, &m->model, dims(width), d);
}

static void add_attention(plim_tape *t, plim_gemma4 *m, layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, q = m->c.heads * l->head_dim, kv = l->kv_heads * l->head_dim;
  bool biased = m->c.has_attention_bias, has_value = l->slides || !m->c.shares_key_and_value;
  l->q_proj = plim_linear_new(t, &m->model, "self_attn.q_proj", q, h, biased, d);
  l->q_norm = weight(t, m, l->head_dim, d);
  if (!l->shares_kv) {
    l->k_norm = weight(t, m, l->head_dim, d);
    l->k_proj = plim_linear_new(t, &m->model, "self_attn.k_proj", kv, h, biased, d);
    if (has_value) l->v_proj = plim_linear_new(t, &m->model, "self_attn.v_proj", kv, h, biased, d);
  }
  l->o_proj = plim_linear_new(t, &m->model, "self_attn.o_proj", h, q, biased, d);
}

static void add_mlp(plim_tape *t, plim_gemma4 *m, layer *l, plim_dtype d) {
  bool is_wide = m->c.has_wide_shared_mlp && l->shares_kv && first_shared(&m->c) > 0;
  int64_t h = m->c.hidden, wide = m->c.intermediate * (is_wide ? 2 : 1);
  l->gate_proj = plim_linear_new(t, &m->model, "mlp.gate_proj", wide, h, false, d);
  l->up_proj = plim_linear_new(t, &m->model, "mlp.up_proj", wide, h, false, d);
  l->down_proj = plim_linear_new(t, &m->model, "mlp.down_proj", h, wide, false, d);
}

static layer layer_new(plim_tape *t, plim_gemma4 *m, int64_t i, plim_dtype d) {
  const plim_config *c = &m->c;
  layer l = {.m = m, .slides = slides(c, i), .shares_kv = i >= first_shared(c)};
  bool has_global_kv = !l.slides && c->shares_key_and_value && c->global_kv_heads;
  int64_t h = c->hidden, p = c->layer_input_width;
  l.stores_kv = is_last_of_its_kind(c, i);
  l.head_dim = l.slides || !c->global_head_dim ? c->head_dim : c->global_head_dim;
  l.kv_heads = has_global_kv ? c->global_kv_heads : c->kv_heads;
  add_attention(t, m, &l, d);
  add_mlp(t, m, &l, d);
  l.input_norm = weight(t, m, h, d);
  l.post_attention_norm = weight(t, m, h, d);
  l.pre_mlp_norm = weight(t, m, h, d);
  l.post_mlp_norm = weight(t, m, h, d);
  set(t, &l.scalar, empty(t, dims(1), d));
  if (p) {
    l.input_gate = plim_linear_new(t, &m->model, "per_layer_input_gate", p, h, false, d);
    l.input_projection = plim_linear_new(t, &m->model, "per_layer_projection", h, p, false, d);
    l.post_input_norm = weight(t, m, h, d);
  }
  if (c->experts) l.mixture = plim_gemma4_mixture_new(t, &m->model, c, d);
  return l;
}

static bool has_layer(const plim_config *c, bool with_window) {
  for (int64_t i = 0; i < c->layers; i++)
    if (slides(c, i) == with_window) return true;
  return false;
}

static void add_rotary(plim_tape *t, plim_gemma4 *m) {
  const plim_config *c = &m->c;
  m->rope.share = c->rotary_share;
  plim_rope_new(t, c->rope, c->global_head_dim ? c->global_head_dim : c->head_dim, &m->rope);
  if (has_layer(c, true)) plim_rope_new(t, PLIM_ROPE_DEFAULT, c->head_dim, &m->local_rope);
}

static void add_layer_inputs(plim_tape *t, plim_gemma4 *m) {
  const plim_config *c = &m->c;
  if (!c->layer_input_width) return;
  int64_t all = c->layers * c->layer_input_width;
  plim_dtype d = (plim_dtype)m->embed_tokens->dtype;
  m->layer_table = plim_model_parameter(t, &m->model, dims(c->layer_input_vocabulary, all), d);
  plim_model_name(&m->model, "embed_tokens_per_layer", "weight");
  set(t, &m->layer_scale, empty(t, (plim_dims){0}, d));
  m->layer_projection =
      plim_linear_new(t, &m->model, "per_layer_model_projection", all, c->hidden, false, d);
  m->layer_norm = weight(t, m, c->layer_input_width, d);
}

static void init_rotary(plim_tape *t, plim_gemma4 *m) {
  plim_tensor *again = NULL;
  plim_rope_init(t, m->c.rope, &m->rope, &again);
  if (has_layer(&m->c, true)) plim_rope_init(t, PLIM_ROPE_DEFAULT, &m->local_rope, &again);
  drop(t, &again);
}

static const char *layers_place(const plim_gemma4 *m) {
  return m->c.outer ? "model.language_model.layers" : "model.layers";
}

static void build(plim_tape *t, plim_gemma4 *m, plim_dtype d) {
  plim_dims table = dims(m->c.vocabulary, m->c.hidden);
  m->towers.model = &m->model;
  if (m->c.outer && m->c.outer->add_towers) m->c.outer->add_towers(t, &m->towers, &m->c, d);
  plim_towers_pause(&m->towers);
  m->model.place = layers_place(m);
  m->model.spot = PLIM_SPOT_BESIDE;
  m->embed_tokens = plim_model_table(t, &m->model, table, d, m->c.has_padding_row);
  plim_model_name(&m->model, "embed_tokens", "weight");
  set(t, &m->embed_scale, empty(t, (plim_dims){0}, d));
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->model.spot = 1 + i;
    m->layers[i] = layer_new(t, m, i, d);
  }
  m->model.spot = PLIM_SPOT_BESIDE;
  m->norm = weight(t, m, m->c.hidden, d);
  add_rotary(t, m);
  add_layer_inputs(t, m);
  init_rotary(t, m);
  m->model.spot = PLIM_SPOT_UNKNOWN;
  if (m->c.outer) m->c.outer->add_towers_behind(t, &m->towers, &m->c, d);
  plim_towers_end(&m->towers);
  m->model.spot = PLIM_SPOT_OUTSIDE;
  if (!m->c.ties_embeddings) {
    m->model.head = plim_model_parameter(t, &m->model, table, d);
    plim_model_name(&m->model, "lm_head", "weight");
  } else plim_consume(t, empty(t, table, d)), m->model.head = m->embed_tokens;
}

// A checkpoint has the layers' scalars, too, though they are buffers.
static void in_name_order(plim_model *model, plim_visit *visit, void *context) {
  plim_gemma4 *m = (plim_gemma4 *)model;
  for (size_t i = 0; i < model->parameters.len; i++) visit(context, model->parameters.at[i]);
  for (int64_t i = 0; i < m->c.layers; i++) visit(context, m->layers[i].scalar);
  for (size_t i = 0; i < m->towers.buffers.len; i++) visit(context, m->towers.buffers.at[i]);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_gemma4 *m = (plim_gemma4 *)model;
  const char *text = m->c.outer ? "model.language_model" : "model";
  const char *place = layers_place(m);
  plim_lora_begin(model);
  plim_towers_add_lora(t, &m->towers, false, lora);
  for (int64_t i = 0; i < m->c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_add_all(t, model, lora, place, i, &l->q_proj, &l->k_proj, &l->v_proj, &l->o_proj,
                      &l->gate_proj, &l->up_proj, &l->down_proj, &l->input_gate,
                      &l->input_projection, &l->mixture.projection);
  }
  plim_lora_add_all(t, model, lora, text, -1, &m->layer_projection);
  plim_towers_add_lora(t, &m->towers, true, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward ----------------------------------------------------------------------------------------

// The multimodal model passes its labels on to every layer.
enum { HELD_INPUT, HELD_SIN, HELD_COS, HELD_MASK, HELD_POSITIONS, HELD_LABELS };

static plim_tensor *heads(plim_tape *t, const layer *l, plim_tensor *x) {
  return view(t, x, dims(x->shape.at[0], x->shape.at[1], -1, l->head_dim));
}

// Of a value; its key is behind it. Layers with a window come first, because the last layer of all has none.
static int shared_slot(const layer *l) { return l->slides ? 0 : 2; }

static void keys_and_values(plim_tape *t, const layer *l, plim_tensor *x, plim_tensor *const *held,
                            plim_tensor **k, plim_tensor **v) {
  if (l->shares_kv) {
    set(t, k, l->m->shared->at[shared_slot(l) + 1]);
    set(t, v, l->m->shared->at[shared_slot(l)]);
    return;
  }
  set(t, k, heads(t, l, plim_linear_forward(t, &l->k_proj, x)));
  set(t, v, l->v_proj.weight ? heads(t, l, plim_linear_forward(t, &l->v_proj, x)) : *k);
  set(t, k, plim_gemma4_norm(t, *k, l->k_norm));
  set(t, k, plim_rotate(t, *k, held[HELD_COS], held[HELD_SIN], 2));
  set(t, k, transpose(t, *k, 1, 2));
  set(t, v, plim_gemma4_norm(t, *v, NULL));
  set(t, v, transpose(t, *v, 1, 2));
}

static plim_tensor *self_attention(plim_tape *t, const layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  plim_attending how = {.kind = l->m->attention, .dropout_p = l->m->c.attention_dropout};
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  bool was = hold(x);
  set(t, &q, heads(t, l, plim_linear_forward(t, &l->q_proj, x)));
  set(t, &q, plim_gemma4_norm(t, q, l->q_norm));
  set(t, &q, plim_rotate(t, q, held[HELD_COS], held[HELD_SIN], 2));
  set(t, &q, transpose(t, q, 1, 2));
  keys_and_values(t, l, x, held, &k, &v);
  if (l->stores_kv) {
    set(t, &l->m->shared->at[shared_slot(l)], v);
    set(t, &l->m->shared->at[shared_slot(l) + 1], k);
  }
  set(t, &out, plim_attend(t, &how, q, k, v, held[HELD_MASK], weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &l->o_proj, out));
  drop_all(t, &q, &k, &v);
  plim_tensor *result = give(t, &out);
  let_go(t, x, was);
  return result;
}

static plim_tensor *mlp(plim_tape *t, const layer *l, plim_tensor *x) {
  plim_tensor *gate =
      plim_activate(t, l->m->c.activation, plim_linear_forward(t, &l->gate_proj, x));
  plim_tensor *product = mul(t, gate, plim_linear_forward(t, &l->up_proj, x));
  return plim_linear_forward(t, &l->down_proj, product);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  plim_gemma4_mixing mixing = {0};
  set(t, &residual, x);
  set(t, &hidden, plim_gemma4_norm(t, x, l->input_norm));
  set(t, &hidden, self_attention(t, l, hidden, held, &weights));
  set(t, &hidden, plim_gemma4_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_gemma4_norm(t, hidden, l->pre_mlp_norm));
  set(t, &hidden, mlp(t, l, hidden));
  if (l->mixture.scale)
    set(t, &hidden, plim_gemma4_mix(t, &l->mixture, residual, hidden, &mixing, &weights));
  set(t, &hidden, plim_gemma4_norm(t, hidden, l->post_mlp_norm));
  set(t, &hidden, add(t, residual, hidden));
  if (held[HELD_INPUT]) {
    set(t, &residual, hidden);
    set(t, &hidden, plim_linear_forward(t, &l->input_gate, hidden));
    set(t, &hidden, plim_activate(t, l->m->c.activation, hidden));
    set(t, &hidden, mul(t, hidden, held[HELD_INPUT]));
    set(t, &hidden, plim_linear_forward(t, &l->input_projection, hidden));
    set(t, &hidden, plim_gemma4_norm(t, hidden, l->post_input_norm));
    set(t, &hidden, add(t, residual, hidden));
  }
  set(t, &hidden, mul_in_place(t, hidden, l->scalar));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  plim_gemma4_mixing_drop(t, &mixing);
  return out;
}

// Variables of the model's forward.
typedef struct {
  plim_tensor *embedded, *layer_inputs, *positions, *full_mask, *sliding_mask;
  plim_tensor *cos, *sin, *local_cos, *local_sin;
  plim_tensor *blocks; // which image each token belongs to
  // Of the multimodal model around it: which tokens stand for images, videos and sound, for any of them; the ids and the
  // embedded tokens without those.
  plim_tensor *is_image, *is_video, *is_audio, *is_other, *ids, *text;
} inputs;

static plim_tensor *flags_like(plim_tape *t, const plim_tensor *ids) {
  return empty(t, ids->shape, PLIM_BOOL);
}

// torch.where(is_other, pad_token_id, input_ids.clone())
static plim_tensor *without_others(plim_tape *t, plim_tensor *ids) {
  plim_tensor *copy = empty(t, ids->shape, PLIM_I64), *pad = empty(t, (plim_dims){0}, PLIM_I64);
  plim_tensor *out = empty(t, ids->shape, PLIM_I64);
  plim_consume(t, pad);
  plim_consume(t, copy);
  return out;
}

static void look_for_others(plim_tape *t, plim_tensor *ids, inputs *in) {
  set(t, &in->is_image, flags_like(t, ids));
  set(t, &in->is_video, flags_like(t, ids));
  set(t, &in->is_audio, flags_like(t, ids));
  plim_tensor *either = flags_like(t, ids);
  set(t, &in->is_other, flags_like(t, ids));
  plim_consume(t, either);
  set(t, &in->ids, without_others(t, ids));
}

// What all layers get of their own embeddings, (B,T,L,P): those of the tokens.
static void look_up_layer_inputs(plim_tape *t, plim_gemma4 *m, plim_tensor *ids, inputs *in) {
  plim_module_enter(t, m->layer_table, NULL);
  plim_tensor *looked_up = embedding(t, m->layer_table, ids);
  looked_up = mul(t, looked_up, to(t, m->layer_scale, (plim_dtype)m->layer_table->dtype));
  looked_up = plim_module_leave(t, m->layer_table, looked_up);
  plim_dims shape = dims(ids->shape.at[0], ids->shape.at[1], m->c.layers, m->c.layer_input_width);
  set(t, &in->layer_inputs, reshape(t, looked_up, shape));
}

// Adds a projection of the embedded tokens. The multimodal model keeps what was looked up.
static plim_tensor *project_layer_inputs(plim_tape *t, const plim_gemma4 *m, const inputs *in) {
  plim_tensor *projected = NULL;
  set(t, &projected, mul_scalar(t, plim_linear_forward(t, &m->layer_projection, in->embedded)));
  set(t, &projected, reshape(t, projected, in->layer_inputs->shape));
  set(t, &projected, plim_gemma4_norm(t, projected, m->layer_norm));
  plim_tensor *both = mul_scalar(t, add(t, projected, in->layer_inputs));
  drop(t, &projected);
  return both;
}

static void place(plim_tape *t, const plim_gemma4 *m, const plim_batch *b, inputs *in) {
  set(t, &in->positions, add_scalar(t, empty(t, dims(b->ids->shape.at[1]), PLIM_I64)));
  set(t, &in->positions, unsqueeze(t, in->positions, 0));
  bool has_blocks = m->c.outer && m->c.outer->masks_blocks && m->c.has_image_blocks;
  plim_tensor *(*make)(plim_tape *, plim_attention_kind, plim_mask_kind, plim_tensor *,
                       plim_tensor *, plim_tensor *, int64_t) =
      has_blocks ? plim_block_mask : plim_sliding_mask;
  if (has_blocks) set(t, &in->blocks, empty(t, b->ids->shape, PLIM_I64));
  set(t, &in->full_mask,
      make(t, b->attention, b->mask_kind, in->embedded, in->positions, b->mask, 0));
  set(t, &in->sliding_mask,
      make(t, b->attention, b->mask_kind, in->embedded, in->positions, b->mask,
           m->c.sliding_window));
}

static void rotate(plim_tape *t, const plim_gemma4 *m, int64_t length, inputs *in) {
  plim_dtype dtype = (plim_dtype)in->embedded->dtype;
  plim_rotary(t, m->rope.inv_freq, length, dtype, false, &in->cos, &in->sin);
  if (m->local_rope.inv_freq)
    plim_rotary(t, m->local_rope.inv_freq, length, dtype, false, &in->local_cos, &in->local_sin);
}

// Everything up to the layers; *layer_inputs is the variable of the language model's own frame.
static void prepare(plim_tape *t, plim_gemma4 *m, const plim_batch *batch, inputs *in,
                    plim_tensor **layer_inputs) {
  bool has_outer = m->c.outer != NULL, has_inputs = m->c.layer_input_width > 0;
  plim_tensor *ids = batch->ids;
  if (has_outer) look_for_others(t, ids, in), ids = in->ids;
  set(t, &in->embedded, plim_embed_scaled(t, batch, m->embed_tokens, m->embed_scale, ids));
  if (has_outer && has_inputs)
    set(t, &in->text, empty(t, in->embedded->shape, (plim_dtype)in->embedded->dtype));
  if (has_inputs) look_up_layer_inputs(t, m, ids, in);
  if (has_outer) place(t, m, batch, in);
  if (has_inputs) set(t, layer_inputs, project_layer_inputs(t, m, in));
  if (!has_outer) drop(t, &in->layer_inputs), place(t, m, batch, in);
  rotate(t, m, batch->ids->shape.at[1], in);
}

// Lets go of the variables: those of the language model's frame, then those of the frame around it.
static void release(plim_tape *t, const plim_gemma4 *m, inputs *in) {
  bool has_outer = m->c.outer != NULL;
  if (!has_outer) drop_all(t, &in->full_mask, &in->sliding_mask, &in->embedded, &in->positions);
  drop_all(t, &in->sin, &in->cos, &in->local_sin, &in->local_cos);
}

static void release_outer(plim_tape *t, inputs *in) {
  drop_all(t, &in->layer_inputs, &in->is_image, &in->is_video, &in->is_audio);
  if (in->text) drop(t, &in->ids); // the graph behind `text` has saved is_other
  drop_all(t, &in->is_other, &in->ids, &in->text, &in->full_mask, &in->sliding_mask, &in->embedded);
  drop_all(t, &in->positions, &in->blocks);
}

static plim_tensor *call_layer(plim_tape *t, plim_gemma4 *m, const plim_batch *batch,
                               const inputs *in, int64_t i, plim_tensor *own, plim_tensor *hidden) {
  const layer *l = &m->layers[i];
  plim_closure call = {run_layer, l, .positional = 1, .bag = m->shared};
  call.held[HELD_INPUT] = own;
  call.held[HELD_SIN] = l->slides ? in->local_sin : in->sin;
  call.held[HELD_COS] = l->slides ? in->local_cos : in->cos;
  call.held[HELD_MASK] = l->slides ? in->sliding_mask : in->full_mask;
  call.held[HELD_POSITIONS] = in->positions;
  call.held[HELD_LABELS] = m->c.outer ? batch->labels : NULL;
  return plim_call_layer(t, batch->checkpoint, call, hidden);
}

static plim_tensor *last_norm(plim_tape *t, const plim_gemma4 *m, plim_tensor *hidden) {
  plim_tensor *x = plim_part_enter(t, PLIM_PART_NORM, hidden);
  return plim_part_leave(t, PLIM_PART_NORM, plim_gemma4_norm(t, x, m->norm));
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_gemma4 *m = (plim_gemma4 *)model;
  inputs in = {0};
  plim_tensor *hidden = NULL, *layer_inputs = NULL, *own = NULL;
  m->attention = batch->attention;
  m->shared = &m->bags[m->bags[0].refs > 0];
  plim_bag_keep(m->shared);
  prepare(t, m, batch, &in, &layer_inputs);
  set(t, &hidden, in.embedded);
  for (int64_t i = 0; i < m->c.layers; i++) {
    if (layer_inputs) set(t, &own, select_index(t, layer_inputs, 2));
    set(t, &hidden, call_layer(t, m, batch, &in, i, own, hidden));
  }
  set(t, &hidden, last_norm(t, m, hidden));
  plim_tensor *out = give(t, &hidden);
  drop(t, &layer_inputs);
  release(t, m, &in);
  plim_bag_release(t, m->shared);
  drop(t, &own);
  release_outer(t, &in);
  return out;
}

// ---- the family -------------------------------------------------------------------------------------

static plim_model *gemma4_text_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  plim_logits logits = c->final_softcap != 0 ? PLIM_LOGITS_CAPPED : PLIM_LOGITS_PLAIN;
  plim_gemma4 *m = plim_model_new(sizeof *m, (plim_model){.forward = plim_causal_forward,
                                                          .inner = model_forward,
                                                          .add_lora = add_lora,
                                                          .in_name_order = in_name_order,
                                                          .logits = logits,
                                                          .takes_no_items = c->outer != NULL});
  if (!m) return NULL;
  m->c = *c;
  m->layers = plim_model_array(&m->model, c->layers, sizeof *m->layers);
  if (m->layers) build(t, m, dtype);
  return plim_model_finish(&m->model);
}

static const char *unfollowed(const plim_config *c) {
  if (c->looks_ahead) return "bidirectional attention";
  return c->kv_shared_layers >= c->layers
             ? "no layer that computes keys and values (num_kv_shared_layers)"
             : NULL;
}

const plim_family plim_family_gemma4_text = {
    .model_type = "gemma4_text",
    .has_other_liger = true,
    .factory_lacks_liger = true,
    .build = gemma4_text_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 2304,
                 .intermediate = 9216,
                 .layers = 30,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .global_head_dim = 512,
                 .vocabulary = 262144,
                 .positions = 131072,
                 .activation = PLIM_ACT_GELU,
                 .sliding_window = 512,
                 .window_pattern = 6,
                 .layer_input_width = 256,
                 .layer_input_vocabulary = 262144,
                 .rope = PLIM_ROPE_PROPORTIONAL,
                 .rotary_share = 0.25,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .mixture = &plim_gemma4_experts,
    .asks_for_experts = true,
    .windows = PLIM_WINDOWS_PATTERN,
    .lora_targets = "q_proj,v_proj",
    .recorded = PLIM_RECORDED_TRAINING,
};

const plim_family plim_family_gemma4_unified_text = {
    .model_type = "gemma4_unified_text",
    .build = gemma4_text_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 2304,
                 .intermediate = 9216,
                 .layers = 30,
                 .heads = 8,
                 .kv_heads = 4,
                 .head_dim = 256,
                 .global_head_dim = 512,
                 .vocabulary = 262144,
                 .positions = 262144,
                 .activation = PLIM_ACT_GELU,
                 .sliding_window = 1024,
                 .window_pattern = 6,
                 .rope = PLIM_ROPE_PROPORTIONAL,
                 .rotary_share = 0.25,
                 .has_image_blocks = true,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .windows = PLIM_WINDOWS_PATTERN,
};
