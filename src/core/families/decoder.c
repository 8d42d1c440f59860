#include "decoder.h"

#include <stdlib.h>

#include "ops.h"

#include "op_names.h"

// ---- construction -----------------------------------------------------------------------------------

static void add_projections(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype d) {
  const plim_config *c = &m->c;
  int64_t h = c->hidden, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  bool biased = c->has_attention_bias, qkv_biased = biased || c->family->has_qkv_bias;
  l->q_proj = plim_linear_new(t, &m->model, PLIM_Q_PROJ, q, h, qkv_biased, d);
  l->k_proj = plim_linear_new(t, &m->model, PLIM_K_PROJ, kv, h, qkv_biased, d);
  l->v_proj = plim_linear_new(t, &m->model, PLIM_V_PROJ, kv, h, qkv_biased, d);
  l->o_proj = plim_linear_new(t, &m->model, PLIM_O_PROJ, h, q, biased, d);
  bool is_wide = c->family->qk_norm == PLIM_QK_NORM_WIDTH;
  if (c->family->qk_norm == PLIM_QK_NORM_NONE) return;
  l->q_norm = plim_model_parameter(t, &m->model, dims(is_wide ? q : c->head_dim), d);
  l->k_norm = plim_model_parameter(t, &m->model, dims(is_wide ? kv : c->head_dim), d);
}

static void add_fused_projections(plim_tape *t, plim_decoder *m, plim_decoder_layer *l,
                                  plim_dtype d) {
  int64_t h = m->c.hidden, q = m->c.heads * m->c.head_dim, kv = m->c.kv_heads * m->c.head_dim;
  l->o_proj = plim_linear_new(t, &m->model, PLIM_O_PROJ, h, q, false, d);
  l->qkv_proj = plim_linear_new(t, &m->model, PLIM_QKV_PROJ, q + 2 * kv, h, false, d);
}

static void add_mlp(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  bool biased = m->c.has_mlp_bias, fused = m->c.family->has_fused_projections;
  if (fused) l->gate_up_proj = plim_linear_new(t, &m->model, PLIM_GATE_UP_PROJ, 2 * i, h, false, d);
  else {
    l->gate_proj = plim_linear_new(t, &m->model, PLIM_GATE_PROJ, i, h, biased, d);
    l->up_proj = plim_linear_new(t, &m->model, PLIM_UP_PROJ, i, h, biased, d);
  }
  l->down_proj = plim_linear_new(t, &m->model, PLIM_DOWN_PROJ, h, i, biased && !fused, d);
}

static plim_tensor *norm_new(plim_tape *t, plim_decoder *m, unsigned which, plim_dtype d) {
  if (!(m->code->norms & which)) return NULL;
  return plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
}

static plim_decoder_layer layer_new(plim_tape *t, plim_decoder *m, plim_dtype d) {
  plim_decoder_layer l = {.m = m};
  if (m->c.family->has_fused_projections) add_fused_projections(t, m, &l, d);
  else add_projections(t, m, &l, d);
  if (m->c.experts) l.experts = plim_experts_new(t, &m->model, &m->c, d);
  else add_mlp(t, m, &l, d);
  l.input_norm = norm_new(t, m, PLIM_INPUT_NORM, d);
  l.post_attention_norm = norm_new(t, m, PLIM_POST_ATTENTION_NORM, d);
  l.pre_mlp_norm = norm_new(t, m, PLIM_PRE_MLP_NORM, d);
  l.post_mlp_norm = norm_new(t, m, PLIM_POST_MLP_NORM, d);
  return l;
}

// The weight of lm_head: the embedding's, if they are tied.
static plim_tensor *head_new(plim_tape *t, plim_decoder *m) {
  plim_tensor *table = m->embed_tokens;
  plim_dtype dtype = (plim_dtype)table->dtype;
  if (!m->c.ties_embeddings) return plim_model_parameter(t, &m->model, table->shape, dtype);
  plim_consume(t, empty(t, table->shape, dtype)); // its own weight, gone when it is tied
  return table;
}

static void build(plim_tape *t, plim_decoder *m, plim_dtype d) {
  m->embed_tokens = plim_model_parameter(t, &m->model, dims(m->c.vocabulary, m->c.hidden), d);
  if (m->code->has_embed_scale) set(t, &m->embed_scale, empty(t, (plim_dims){0}, d));
  for (int64_t i = 0; i < m->c.layers; i++) m->layers[i] = layer_new(t, m, d);
  m->norm = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  plim_rope_new(t, &m->c, &m->rope);
  m->model.head = head_new(t, m);
}

// ---- loading ----------------------------------------------------------------------------------------

static void visit_norm(plim_tensor *norm, plim_visit *visit, void *context) {
  if (norm) visit(context, norm);
}

static void visit_experts(const plim_experts *e, plim_visit *visit, void *context) {
  if (!e->router) return;
  visit(context, e->gate_up);
  visit(context, e->down);
  visit(context, e->router);
}

static void visit_layer(const plim_decoder_layer *l, plim_visit *visit, void *context) {
  visit_experts(&l->experts, visit, context); // block_sparse_moe, in a checkpoint
  visit_norm(l->input_norm, visit, context);
  plim_linear_visit(&l->down_proj, visit, context);
  plim_linear_visit(&l->gate_proj, visit, context);
  plim_linear_visit(&l->gate_up_proj, visit, context);
  plim_linear_visit(&l->up_proj, visit, context);
  visit_norm(l->post_attention_norm, visit, context);
  visit_norm(l->post_mlp_norm, visit, context); // post_feedforward_layernorm
  visit_norm(l->pre_mlp_norm, visit, context);
  visit_norm(l->k_norm, visit, context);
  plim_linear_visit(&l->k_proj, visit, context);
  plim_linear_visit(&l->o_proj, visit, context);
  visit_norm(l->q_norm, visit, context);
  plim_linear_visit(&l->q_proj, visit, context);
  plim_linear_visit(&l->qkv_proj, visit, context);
  plim_linear_visit(&l->v_proj, visit, context);
}

static void in_name_order(plim_model *model, plim_visit *visit, void *context) {
  plim_decoder *m = (plim_decoder *)model;
  if (model->head != m->embed_tokens) visit(context, model->head);
  visit(context, m->embed_tokens);
  for (int64_t i = 0; i < m->c.layers; i++) visit_layer(&m->layers[i], visit, context);
  visit(context, m->norm);
}

static bool assemble(plim_tape *t, plim_model *model, plim_tensor *p) {
  const plim_config *c = &((plim_decoder *)model)->c;
  bool has_halves = p->shape.at[1] == 2 * c->intermediate && p->shape.at[2] == c->hidden;
  if (p->shape.n != 3) return false;
  plim_experts_assemble(t, model, p, has_halves);
  return true;
}

// ---- adapters ---------------------------------------------------------------------------------------

// Adapters of all layers' parameters were made behind those of all layers' modules: each layer's come
// behind its own.
static void sort_by_layer(plim_model *m, size_t modules, size_t layers) {
  size_t count = m->parameters.len, of_modules = modules / layers, each = count / layers;
  plim_tensor **was = malloc(count * sizeof *was);
  m->failed |= !was;
  for (size_t i = 0; was && i < count; i++) was[i] = m->parameters.at[i];
  for (size_t i = 0; was && i < count; i++) {
    size_t at = i / each, k = i % each;
    size_t from =
        k < of_modules ? at * of_modules + k : modules + at * (each - of_modules) + k - of_modules;
    m->parameters.at[i] = was[from];
  }
  free(was);
}

static void add_lora_to_experts(plim_tape *t, plim_decoder *m, const plim_lora *lora) {
  size_t modules = m->model.parameters.len;
  for (int64_t i = 0; i < m->c.layers; i++)
    plim_experts_add_lora(t, &m->model, &m->layers[i].experts, lora->rank);
  sort_by_layer(&m->model, modules, (size_t)m->c.layers);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_decoder *m = (plim_decoder *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    plim_decoder_layer *l = &m->layers[i];
    plim_lora_add_all(t, model, lora, &l->q_proj, &l->k_proj, &l->v_proj, &l->o_proj, &l->qkv_proj,
                      &l->gate_proj, &l->up_proj, &l->gate_up_proj, &l->down_proj);
  }
  if (m->c.experts && lora->targets == PLIM_ALL_LINEAR) add_lora_to_experts(t, m, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward ----------------------------------------------------------------------------------------

// Variables of the model's forward.
typedef struct {
  plim_tensor *embedded, *positions, *full_mask, *sliding_mask, *cos, *sin;
} inputs;

// One mask for all layers, or one for each kind of layer, of which the one without a window is made
// even if no layer asks for it.
static void make_masks(plim_tape *t, const plim_config *c, const plim_batch *b, inputs *in) {
  bool slides = false;
  for (int64_t i = 0; i < c->layers; i++) slides = slides || plim_config_slides(c, i);
  if (!slides || c->family->windows != PLIM_WINDOWS_EVERYWHERE)
    set(t, &in->full_mask,
        plim_causal_mask(t, b->attention, b->mask_kind, in->embedded, in->positions, b->mask));
  if (slides)
    set(t, &in->sliding_mask,
        plim_sliding_mask(t, b->attention, b->mask_kind, in->embedded, in->positions, b->mask,
                          c->sliding_window));
}

// Everything but `embedded`, which is there: positions, masks, cos and sin.
static void prepare(plim_tape *t, plim_decoder *m, const plim_batch *batch, inputs *in) {
  int64_t length = batch->ids->shape.at[1];
  plim_dtype dtype = m->c.family->has_wide_rotary ? PLIM_FP32 : (plim_dtype)in->embedded->dtype;
  set(t, &in->positions, add_scalar(t, empty(t, dims(length), PLIM_I64)));
  set(t, &in->positions, unsqueeze(t, in->positions, 0));
  make_masks(t, &m->c, batch, in);
  plim_rope_update(t, &m->c, &m->rope, length);
  plim_rotary(t, m->rope.inv_freq, length, dtype, &in->cos, &in->sin);
}

static plim_tensor *call_layer(plim_tape *t, const plim_decoder *m, const plim_batch *batch,
                               const inputs *in, int64_t i, plim_tensor *hidden) {
  const plim_config *c = &m->c;
  plim_closure call = {.function = m->code->layer, .context = &m->layers[i]};
  call.held[PLIM_HELD_MASK] = plim_config_slides(c, i) ? in->sliding_mask : in->full_mask;
  call.held[PLIM_HELD_SIN(c)] = in->sin;
  call.held[PLIM_HELD_COS(c)] = in->cos;
  call.held[PLIM_HELD_POSITIONS(c)] = in->positions;
  return plim_call_layer(t, batch->checkpoint, call, hidden);
}

static plim_tensor *last_norm(plim_tape *t, const plim_decoder *m, plim_tensor *hidden) {
  plim_tensor *x = plim_part_enter(t, PLIM_PART_NORM, hidden);
  return plim_part_leave(t, PLIM_PART_NORM, m->code->norm(t, x, m->norm));
}

// Lets go of the inputs in the order in which the forward's frame does. A dict of the masks' arguments may
// hold two of them to the end, and lets them go in its own order.
static void release(plim_tape *t, const plim_config *c, inputs *in) {
  bool keeps = c->family->keeps_mask_arguments;
  if (!keeps) drop_all(t, &in->positions, &in->embedded);
  drop_all(t, &in->full_mask, &in->sliding_mask);
  if (keeps) drop_all(t, &in->embedded, &in->positions);
  drop_all(t, &in->sin, &in->cos);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_decoder *m = (plim_decoder *)model;
  inputs in = {0};
  plim_tensor *hidden = NULL;
  m->attention = batch->attention;
  set(t, &in.embedded,
      m->code->embed ? m->code->embed(t, m, batch)
                     : plim_embed(t, batch, m->embed_tokens, batch->ids));
  prepare(t, m, batch, &in);
  set(t, &hidden, in.embedded);
  for (int64_t i = 0; i < m->c.layers; i++)
    set(t, &hidden, call_layer(t, m, batch, &in, i, hidden));
  set(t, &hidden, last_norm(t, m, hidden));
  plim_tensor *out = give(t, &hidden);
  release(t, &m->c, &in);
  return out;
}

plim_model *plim_decoder_new(plim_tape *t, const plim_config *c, plim_dtype dtype,
                             const plim_decoder_code *code) {
  plim_logits logits = code->divides_logits    ? PLIM_LOGITS_DIVIDED
                       : c->final_softcap != 0 ? PLIM_LOGITS_CAPPED
                                               : PLIM_LOGITS_PLAIN;
  plim_decoder *m = plim_model_new(sizeof *m, (plim_model){.forward = plim_causal_forward,
                                                           .inner = model_forward,
                                                           .add_lora = add_lora,
                                                           .in_name_order = in_name_order,
                                                           .assemble = assemble,
                                                           .logits = logits});
  if (!m) return NULL;
  m->c = *c;
  m->code = code;
  m->layers = plim_model_array(&m->model, c->layers, sizeof *m->layers);
  if (m->layers) build(t, m, dtype);
  return plim_model_finish(&m->model);
}
