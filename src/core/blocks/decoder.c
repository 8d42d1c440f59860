#include "decoder.h"

#include <stdlib.h>
#include <string.h>

#include "heads.h"
#include "listed_experts.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

// ---- construction -----------------------------------------------------------------------------------

static const char *layers_place(const plim_decoder *m) {
  if (!m->c.outer) return m->code->place ? m->code->place : "model.layers";
  return m->c.outer->text_place ? m->c.outer->text_place : "model.language_model.layers";
}

// A parameter of self_attn itself: model.parameters() lists it before those of the projections.
static plim_tensor *sinks_new(plim_tape *t, plim_decoder *m, size_t first, plim_dtype d) {
  plim_tensor *sinks = plim_model_parameter(t, &m->model, dims(m->c.heads), d);
  sinks->decay = PLIM_DECAY_ALWAYS;
  plim_model_name(&m->model, "self_attn.sinks", "");
  for (size_t i = m->model.parameters.len - 1; !m->model.failed && i > first; i--)
    m->model.parameters.at[i] = m->model.parameters.at[i - 1];
  if (!m->model.failed) m->model.parameters.at[first] = sinks;
  return sinks;
}

static const plim_decoder_paths *paths_of(const plim_decoder *m) {
  static const plim_decoder_paths usual = {.o_proj = "self_attn.o_proj",
                                           .gate_proj = "mlp.gate_proj",
                                           .up_proj = "mlp.up_proj",
                                           .down_proj = "mlp.down_proj"};
  return m->code->paths ? m->code->paths : &usual;
}

static void add_projections(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype d) {
  const plim_config *c = &m->c;
  int64_t h = c->hidden, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  bool biased = c->has_attention_bias,
       qkv_biased = biased || c->family->has_qkv_bias || c->has_qkv_bias;
  size_t first = m->model.parameters.len;
  int64_t gated = c->family->has_gated_attention ? 2 * q : q;
  const plim_decoder_paths *paths = paths_of(m);
  const char *q_path = paths->q_proj ? paths->q_proj : "self_attn.q_proj";
  const char *k_path = paths->k_proj ? paths->k_proj : "self_attn.k_proj";
  const char *v_path = paths->v_proj ? paths->v_proj : "self_attn.v_proj";
  l->q_proj = plim_linear_new(t, &m->model, q_path, gated, h, qkv_biased, d);
  l->k_proj = plim_linear_new(t, &m->model, k_path, kv, h, qkv_biased, d);
  l->v_proj = plim_linear_new(t, &m->model, v_path, kv, h, qkv_biased, d);
  l->o_proj = plim_linear_new(t, &m->model, paths->o_proj, h, q,
                              biased && !c->family->has_unbiased_output, d);
  if (c->family->has_sinks) l->sinks = sinks_new(t, m, first, d);
  bool is_wide = c->family->qk_norm == PLIM_QK_NORM_WIDTH;
  if (c->family->qk_norm == PLIM_QK_NORM_NONE) return;
  if (c->family->qk_norm == PLIM_QK_NORM_ASKED && !c->has_qk_norm) return;
  l->q_norm = plim_model_parameter(t, &m->model, dims(is_wide ? q : c->head_dim), d);
  plim_model_name(&m->model, "self_attn.q_norm", "weight");
  l->k_norm = plim_model_parameter(t, &m->model, dims(is_wide ? kv : c->head_dim), d);
  plim_model_name(&m->model, "self_attn.k_norm", "weight");
}

static void add_fused_projections(plim_tape *t, plim_decoder *m, plim_decoder_layer *l,
                                  plim_dtype d) {
  int64_t h = m->c.hidden, q = m->c.heads * m->c.head_dim, kv = m->c.kv_heads * m->c.head_dim;
  l->o_proj = plim_linear_new(t, &m->model, "self_attn.o_proj", h, q, false, d);
  l->qkv_proj = plim_linear_new(t, &m->model, "self_attn.qkv_proj", q + 2 * kv, h, false, d);
}

static const char *fused_path(const plim_decoder *m) {
  return m->code->paths ? m->code->paths->gate_proj : "mlp.gate_up_proj";
}

static int64_t mlp_width(const plim_decoder *m) {
  if (m->code->has_shared_mlp) return m->c.shared_width;
  return m->c.dense_width ? m->c.dense_width : m->c.intermediate;
}

void plim_decoder_add_mlp(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, i = mlp_width(m);
  bool biased = m->c.has_mlp_bias;
  bool fused = m->c.family->has_fused_projections || m->c.family->has_fused_gate;
  if (fused) l->gate_up_proj = plim_linear_new(t, &m->model, fused_path(m), 2 * i, h, false, d);
  else {
    if (!m->code->has_plain_mlp)
      l->gate_proj = plim_linear_new(t, &m->model, paths_of(m)->gate_proj, i, h, biased, d);
    l->up_proj = plim_linear_new(t, &m->model, paths_of(m)->up_proj, i, h, biased, d);
  }
  l->down_proj = plim_linear_new(t, &m->model, paths_of(m)->down_proj, h, i, biased && !fused, d);
  if (m->code->add_activation) m->code->add_activation(t, m, l, d);
}

static const char *norm_path(unsigned which) {
  return which == PLIM_INPUT_NORM            ? "input_layernorm"
         : which == PLIM_POST_ATTENTION_NORM ? "post_attention_layernorm"
         : which == PLIM_PRE_MLP_NORM        ? "pre_feedforward_layernorm"
                                             : "post_feedforward_layernorm";
}

plim_tensor *plim_decoder_norm_new(plim_tape *t, plim_decoder *m, unsigned which, plim_dtype d) {
  if (!(m->code->norms & which) || m->code->biased_norm || m->code->has_bare_norms) return NULL;
  plim_tensor *norm = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  plim_model_name(&m->model, norm_path(which), "weight");
  return norm;
}

static plim_norm layer_norm_new(plim_tape *t, plim_decoder *m, unsigned which, plim_dtype d) {
  bool is_there = m->code->biased_norm && m->code->norms & which && !m->code->has_bare_norms;
  return is_there ? plim_norm_new(t, &m->model, m->c.hidden, d) : (plim_norm){0};
}

static void add_mixer(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype d) {
  l->mixer = plim_model_array(&m->model, 1, m->code->mixer->bytes);
  if (l->mixer) m->code->mixer->build(t, &m->model, &m->c, l->mixer, d);
}

static void add_attention(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, plim_dtype d) {
  if (m->c.family->has_latent_attention) plim_latent_new(t, &m->model, &m->c, d, l);
  else if (m->c.family->has_fused_projections) add_fused_projections(t, m, l, d);
  else add_projections(t, m, l, d);
}

// What mixes tokens: attention, what stands in place of it, or both.
static void add_mixing(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, int64_t i,
                       plim_dtype d) {
  if (plim_config_mixes(&m->c, i)) add_mixer(t, m, l, d);
  if (plim_config_attends(&m->c, i)) add_attention(t, m, l, d);
  if (!plim_transformers_from(t, 4, 48) && m->c.family->old_rotary != PLIM_OLD_ROTARY_MODEL)
    plim_rope_new(t, m->c.rope, plim_config_rotary_width(&m->c), &l->rope);
  if (l->rope.inv_freq && m->c.family->old_rotary == PLIM_OLD_ROTARY_CACHED)
    plim_rope_cache(t, &l->rope, m->c.positions, d);
}

static bool is_built_last(const plim_decoder *m, int64_t i) {
  return plim_config_is_sparse(&m->c, i) && m->c.family->mixture->is_built_last;
}

// An MLP or experts; some families have both.
static void add_feeding(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, int64_t i,
                        plim_dtype d) {
  bool is_sparse = plim_config_is_sparse(&m->c, i);
  if (!plim_config_feeds(&m->c, i)) return;
  if (is_sparse && !is_built_last(m, i)) l->experts = plim_experts_new(t, &m->model, &m->c, d);
  if (!is_sparse || m->code->has_shared_mlp) plim_decoder_add_mlp(t, m, l, d);
}

static void add_norms(plim_tape *t, plim_decoder *m, plim_decoder_layer *l, int64_t i,
                      plim_dtype d) {
  l->input_norm = plim_decoder_norm_new(t, m, PLIM_INPUT_NORM, d);
  l->post_attention_norm = plim_decoder_norm_new(t, m, PLIM_POST_ATTENTION_NORM, d);
  l->pre_mlp_norm = plim_decoder_norm_new(t, m, PLIM_PRE_MLP_NORM, d);
  l->post_mlp_norm = plim_decoder_norm_new(t, m, PLIM_POST_MLP_NORM, d);
  l->input_layer_norm = layer_norm_new(t, m, PLIM_INPUT_NORM, d);
  l->post_attention_layer_norm = layer_norm_new(t, m, PLIM_POST_ATTENTION_NORM, d);
  if (is_built_last(m, i)) l->experts = plim_experts_new(t, &m->model, &m->c, d);
}

static const plim_layer_part *order_of(const plim_decoder *m) {
  static const plim_layer_part usual[PLIM_LAYER_PARTS] = {PLIM_BUILDS_MIXING, PLIM_BUILDS_FEEDING,
                                                          PLIM_BUILDS_NORMS};
  return m->code->order[0] ? m->code->order : usual;
}

static plim_decoder_layer layer_new(plim_tape *t, plim_decoder *m, int64_t i, plim_dtype d) {
  const plim_layer_part *order = order_of(m);
  plim_decoder_layer l = {.m = m, .is_idle = plim_config_crosses(&m->c, i)};
  if (l.is_idle) {
    m->code->add_cross_layer(t, m, &l, d);
    return l;
  }
  for (int part = 0; part < PLIM_LAYER_PARTS; part++) {
    if (order[part] == PLIM_BUILDS_MIXING) add_mixing(t, m, &l, i, d);
    if (order[part] == PLIM_BUILDS_FEEDING) add_feeding(t, m, &l, i, d);
    if (order[part] == PLIM_BUILDS_NORMS) add_norms(t, m, &l, i, d);
  }
  return l;
}

// The weight of lm_head: the embedding's, if they are tied.
static plim_tensor *head_new(plim_tape *t, plim_decoder *m) {
  plim_tensor *table = m->embed_tokens;
  plim_dtype dtype = (plim_dtype)table->dtype;
  if (!m->c.ties_embeddings) {
    plim_tensor *own =
        plim_model_parameter(t, &m->model, dims(m->c.vocabulary, m->c.hidden), dtype);
    plim_model_name(&m->model, "lm_head", "weight");
    return own;
  }
  plim_consume(t, empty(t, table->shape, dtype)); // its own weight, gone when it is tied
  return table;
}

static void initialise_mixers(plim_tape *t, plim_decoder *m, plim_dtype dtype) {
  for (int64_t i = 0; i < m->c.layers; i++)
    if (m->layers[i].mixer && m->code->mixer->initialise)
      m->code->mixer->initialise(t, m->layers[i].mixer, dtype);
}

static void initialise(plim_tape *t, plim_model *model, plim_dtype dtype) {
  plim_decoder *m = (plim_decoder *)model;
  if (m->code->mixer && !m->code->mixer->is_initialised_on_host) initialise_mixers(t, m, dtype);
}

static bool has_layer(const plim_config *c, bool slides) {
  for (int64_t i = 0; i < c->layers; i++)
    if (plim_config_slides(c, i) == slides) return true;
  return false;
}

static bool has_local_rotary(const plim_config *c) {
  return c->family->has_local_rotary && has_layer(c, true);
}

// Whether any layer uses the frequencies that are not local.
static bool has_rotary(const plim_config *c) {
  return !c->has_no_rotary && (!c->family->has_local_rotary || has_layer(c, false));
}

static void add_last_norm(plim_tape *t, plim_decoder *m, plim_dtype d) {
  if (m->code->has_bare_norms) return;
  if (m->code->biased_norm) m->layer_norm = plim_norm_new(t, &m->model, m->c.hidden, d);
  else m->norm = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  if (m->code->decays_last_norm) m->norm->decay = PLIM_DECAY_ALWAYS;
}

// A buffer of each mixer, cloned from one that the model's constructor makes. Returns that one.
static plim_tensor *add_scales(plim_tape *t, plim_decoder *m, plim_dtype d) {
  const plim_mixer *mixer = m->code->mixer;
  plim_tensor *scale = empty(t, dims(1, 1, mixer->scale_width(&m->c)), d);
  for (int64_t i = 0; i < m->c.layers; i++)
    if (m->layers[i].mixer) mixer->set_scale(t, m->layers[i].mixer, empty(t, scale->shape, d));
  return scale;
}

static void add_rotary(plim_tape *t, plim_decoder *m, plim_dtype d) {
  if (plim_decoder_turns_in_layers(t, &m->c)) return;
  int64_t width = plim_config_rotary_width(&m->c);
  plim_tensor *again = NULL;
  bool is_plain = m->c.family->initialises_rotary_again && m->c.rope_alpha != 0;
  if (has_rotary(&m->c))
    plim_rope_new(t, is_plain ? PLIM_ROPE_DEFAULT : m->c.rope, width, &m->rope);
  if (has_local_rotary(&m->c)) plim_rope_new(t, PLIM_ROPE_DEFAULT, width, &m->local_rope);
  if (m->code->builds_norm_last) add_last_norm(t, m, d);
  plim_tensor *scale = m->c.family->scales_states ? add_scales(t, m, d) : NULL;
  initialise_mixers(t, m, d);
  if (has_rotary(&m->c)) plim_rope_init(t, m->c.rope, &m->rope, &again);
  if (has_local_rotary(&m->c)) plim_rope_init(t, PLIM_ROPE_DEFAULT, &m->local_rope, &again);
  drop(t, &again);
  if (m->c.family->initialises_rotary_again) plim_rope_init(t, m->c.rope, &m->rope, &again);
  drop(t, &again);
  if (scale) plim_consume(t, empty(t, scale->shape, (plim_dtype)scale->dtype)); // _init_weights
  plim_consume(t, scale);
}

// Layers are numbered in the order in which they run (plim_tensor.layer); those that never run come last, so that each is
// sharded on its own and never gathered.
static void number_idle_layer(plim_decoder *m, int64_t i, size_t first) {
  int64_t number = 0;
  for (int64_t k = 0; k < m->c.layers; k++) number += !plim_config_crosses(&m->c, k) || k <= i;
  for (size_t k = first; k < m->model.parameters.len; k++)
    m->model.parameters.at[k]->layer = (uint32_t)number;
}

static void add_layers(plim_tape *t, plim_decoder *m, plim_dtype d) {
  for (int64_t i = 0; i < m->c.layers; i++) {
    size_t first = m->model.parameters.len;
    m->model.spot = 1 + i;
    m->layers[i] = layer_new(t, m, i, d);
    if (m->layers[i].is_idle) number_idle_layer(m, i, first);
  }
  m->model.spot = PLIM_SPOT_BESIDE;
}

static void build(plim_tape *t, plim_decoder *m, plim_dtype d) {
  m->towers.model = &m->model;
  if (m->c.outer) m->c.outer->add_towers(t, &m->towers, &m->c, d);
  plim_towers_pause(&m->towers);
  int64_t tokens = m->c.vocabulary + m->c.family->more_tokens;
  m->model.place = layers_place(m);
  m->model.spot = PLIM_SPOT_BESIDE;
  m->embed_tokens =
      plim_model_table(t, &m->model, dims(tokens, m->c.hidden), d, m->c.has_padding_row);
  plim_model_name(&m->model, m->code->table ? m->code->table : "embed_tokens", "weight");
  if (m->code->has_embed_scale) set(t, &m->embed_scale, empty(t, (plim_dims){0}, d));
  m->model.table_scale = m->embed_scale;
  add_layers(t, m, d);
  if (!m->code->builds_norm_last) add_last_norm(t, m, d);
  add_rotary(t, m, d);
  m->model.spot = PLIM_SPOT_UNKNOWN;
  plim_towers_resume(&m->towers);
  if (m->c.outer && m->c.outer->add_towers_behind)
    m->c.outer->add_towers_behind(t, &m->towers, &m->c, d);
  plim_towers_end(&m->towers);
  m->model.spot = PLIM_SPOT_OUTSIDE;
  bool is_causal = m->c.head == PLIM_HEAD_CAUSAL;
  if (is_causal) m->model.head = head_new(t, m);
  else plim_label_head_new(t, &m->model, &m->c, d);
  if (is_causal && m->code->has_head_bias)
    m->model.head_bias = plim_model_parameter(t, &m->model, dims(m->c.vocabulary), d);
}

// ---- loading ----------------------------------------------------------------------------------------

static void visit_norm(plim_tensor *norm, plim_visit *visit, void *context) {
  if (norm) visit(context, norm);
}

static void visit_layer_norm(const plim_norm *norm, plim_visit *visit, void *context) {
  if (norm->weight) plim_norm_visit(norm, visit, context);
}

static void visit_last_norm(const plim_decoder *m, plim_visit *visit, void *context) {
  visit_norm(m->norm, visit, context);
  visit_layer_norm(&m->layer_norm, visit, context);
}

// Whether the name of a is before that of b.
static bool precedes(const plim_linear *a, const plim_linear *b) {
  return a->path && b->path && strcmp(a->path, b->path) < 0;
}

static void visit_mlp(const plim_decoder_layer *l, plim_visit *visit, void *context) {
  bool is_up_first = precedes(&l->up_proj, &l->down_proj);
  visit_norm(l->slopes[1], visit, context); // alpha_n, alpha_p, beta, eps
  visit_norm(l->slopes[0], visit, context);
  visit_norm(l->constants[0], visit, context);
  visit_norm(l->constants[1], visit, context);
  if (is_up_first) plim_linear_visit(&l->up_proj, visit, context);
  plim_linear_visit(&l->down_proj, visit, context);
  plim_linear_visit(&l->gate_proj, visit, context);
  plim_linear_visit(&l->gate_up_proj, visit, context);
  if (!is_up_first) plim_linear_visit(&l->up_proj, visit, context);
}

// cross_attn and its gates come before the norms.
static void visit_cross_layer(const plim_decoder_layer *l, plim_visit *visit, void *context) {
  visit(context, l->k_norm);
  plim_linear_visit(&l->k_proj, visit, context);
  plim_linear_visit(&l->o_proj, visit, context);
  visit(context, l->q_norm);
  plim_linear_visit(&l->q_proj, visit, context);
  plim_linear_visit(&l->v_proj, visit, context);
  visit(context, l->attention_gate);
  visit(context, l->mlp_gate);
  visit(context, l->input_norm);
  plim_linear_visit(&l->down_proj, visit, context);
  plim_linear_visit(&l->gate_proj, visit, context);
  plim_linear_visit(&l->up_proj, visit, context);
  visit(context, l->post_attention_norm);
}

static void visit_layer(const plim_decoder_layer *l, plim_visit *visit, void *context) {
  if (l->is_idle) {
    visit_cross_layer(l, visit, context);
    return;
  }
  bool has_block =
      l->experts.kind && (l->experts.kind->is_block_sparse_moe || l->experts.kind->is_named_first);
  bool is_mlp_first = l->down_proj.path && strcmp(l->down_proj.path, "input_layernorm") < 0;
  if (has_block) plim_experts_visit(&l->experts, visit, context);
  if (is_mlp_first) visit_mlp(l, visit, context);
  bool is_output_first = precedes(&l->o_proj, &l->k_proj);
  visit_norm(l->input_norm, visit, context);
  visit_layer_norm(&l->input_layer_norm, visit, context);
  if (l->mixer) l->m->code->mixer->visit(l->mixer, visit, context);
  if (!has_block) plim_experts_visit(&l->experts, visit, context); // mlp
  bool is_norm_first = l->m->code->names_norms_first;
  if (is_norm_first) visit_norm(l->post_attention_norm, visit, context);
  if (!is_mlp_first) visit_mlp(l, visit, context);
  if (!is_norm_first) visit_norm(l->post_attention_norm, visit, context);
  visit_layer_norm(&l->post_attention_layer_norm, visit, context);
  visit_norm(l->post_mlp_norm, visit, context); // post_feedforward_layernorm
  visit_norm(l->pre_mlp_norm, visit, context);
  if (is_output_first) plim_linear_visit(&l->o_proj, visit, context);
  bool is_norm_late = l->m->c.family->qk_norm == PLIM_QK_NORM_LATE; // key_layernorm
  if (!is_norm_late) visit_norm(l->k_norm, visit, context);
  plim_linear_visit(&l->k_proj, visit, context);
  if (is_norm_late) visit_norm(l->k_norm, visit, context);
  plim_latent_visit(&l->latent, false, visit, context);
  if (!is_output_first) plim_linear_visit(&l->o_proj, visit, context);
  plim_latent_visit(&l->latent, true, visit, context);
  if (!is_norm_late) visit_norm(l->q_norm, visit, context);
  plim_linear_visit(&l->q_proj, visit, context);
  if (is_norm_late) visit_norm(l->q_norm, visit, context);
  plim_linear_visit(&l->qkv_proj, visit, context);
  visit_norm(l->sinks, visit, context);
  plim_linear_visit(&l->v_proj, visit, context);
}

static void visit_head(const plim_decoder *m, plim_visit *visit, void *context) {
  visit_norm(m->model.head_bias, visit, context);
  if (m->model.head && m->model.head != m->embed_tokens) visit(context, m->model.head);
}

static void in_name_order(plim_model *model, plim_visit *visit, void *context) {
  plim_decoder *m = (plim_decoder *)model;
  if (!m->code->names_head_last) visit_head(m, visit, context);
  visit(context, m->embed_tokens);
  if (m->code->names_norm_first) visit_last_norm(m, visit, context);
  for (int64_t i = 0; i < m->c.layers; i++) visit_layer(&m->layers[i], visit, context);
  if (!m->code->names_norm_first) visit_last_norm(m, visit, context);
  plim_towers_visit(&m->towers, true, visit, context);
  plim_towers_visit(&m->towers, false, visit, context);
  if (m->code->names_head_last) visit_head(m, visit, context);
  plim_label_head_visit(model, visit, context);
}

static bool assemble(plim_tape *t, plim_model *model, plim_tensor *p) {
  plim_decoder *m = (plim_decoder *)model;
  if (p->shape.n != 3) return false;
  for (int64_t i = 0; i < m->c.layers; i++)
    if (plim_experts_assemble(t, model, &m->layers[i].experts, p)) return true;
  return false;
}

// ---- adapters ---------------------------------------------------------------------------------------

// Adapters of modules and of parameters were made one kind after the other; in model.parameters(), each layer's are
// together, and those of a shared expert's gate, the last module of a mixture, come last. `ends` has the number of
// adapters after each layer, of one kind and then of the other.
static void sort_by_layer(plim_decoder *d, size_t first, const size_t *ends, size_t layers) {
  plim_model *m = &d->model;
  plim_tensor **was = malloc((m->parameters.len + 1) * sizeof *was);
  m->failed |= !was;
  for (size_t i = 0; was && i < m->parameters.len; i++) was[i] = m->parameters.at[i];
  for (size_t layer = 0, to = first; was && layer < layers; layer++) {
    const plim_tensor *last = d->layers[layer].experts.shared_share.weight;
    size_t from = layer ? ends[layer - 1] : first, end = ends[layer], at = layers + layer;
    size_t late = end;
    while (ends[at] > ends[at - 1] && last && late > from && was[late - 1]->behind == last) late--;
    for (size_t i = from; i < late; i++) m->parameters.at[to++] = was[i];
    for (size_t i = ends[at - 1]; i < ends[at]; i++) m->parameters.at[to++] = was[i];
    for (size_t i = late; i < end; i++) m->parameters.at[to++] = was[i];
  }
  free(was);
}

static void add_lora_to_mixing(plim_tape *t, plim_decoder *m, const plim_lora *lora,
                               int64_t index) {
  plim_decoder_layer *l = &m->layers[index];
  plim_linear *layers[PLIM_MIXER_LINEARS];
  size_t count = l->mixer ? m->code->mixer->linears(l->mixer, layers) : 0;
  plim_lora_add(t, &m->model, lora, layers_place(m), index, layers, count);
  plim_lora_add_all(t, &m->model, lora, layers_place(m), index, &l->q_proj, &l->latent.q_a_proj,
                    &l->latent.q_b_proj, &l->latent.kv_a_proj, &l->latent.kv_b_proj, &l->k_proj,
                    &l->v_proj, &l->o_proj, &l->qkv_proj);
}

static void add_lora_to_feeding(plim_tape *t, plim_decoder *m, const plim_lora *lora,
                                int64_t index) {
  plim_decoder_layer *l = &m->layers[index];
  const plim_mixture *mixture = m->c.experts ? m->c.family->mixture : NULL;
  if (!mixture || !mixture->former)
    plim_lora_add_all(t, &m->model, lora, layers_place(m), index, &l->gate_proj, &l->up_proj,
                      &l->gate_up_proj, &l->down_proj, &l->experts.shared_gate,
                      &l->experts.shared_up, &l->experts.shared_down, &l->experts.latent_in,
                      &l->experts.latent_out);
  plim_lora_add_all(t, &m->model, lora, layers_place(m), index, &l->experts.shared_share);
  plim_linear *const linears[] = {l->experts.gates, l->experts.ups, l->experts.downs};
  for (size_t kind = 0; kind < sizeof linears / sizeof *linears; kind++)
    for (int64_t k = 0; linears[kind] && k < m->c.experts; k++)
      plim_lora_add_all(t, &m->model, lora, layers_place(m), index, &linears[kind][k]);
  if (l->experts.listed)
    plim_listed_experts_add_lora(t, &m->model, lora, &l->experts, layers_place(m), index);
}

static void add_lora_to_layer(plim_tape *t, plim_decoder *m, const plim_lora *lora, int64_t index) {
  const plim_layer_part *order = order_of(m);
  for (int part = 0; part < PLIM_LAYER_PARTS; part++) {
    if (order[part] == PLIM_BUILDS_MIXING) add_lora_to_mixing(t, m, lora, index);
    if (order[part] == PLIM_BUILDS_FEEDING) add_lora_to_feeding(t, m, lora, index);
  }
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_decoder *m = (plim_decoder *)model;
  size_t layers = (size_t)m->c.layers, *ends = calloc(2 * layers, sizeof *ends);
  plim_lora_begin(model);
  plim_towers_add_lora(t, &m->towers, false, lora);
  size_t first = model->parameters.len;
  for (size_t i = 0; ends && i < layers; i++) {
    add_lora_to_layer(t, m, lora, (int64_t)i);
    ends[i] = model->parameters.len;
  }
  for (size_t i = 0; ends && i < layers; i++) {
    plim_experts_add_lora(t, model, &m->layers[i].experts, lora);
    ends[layers + i] = model->parameters.len;
  }
  if (ends) sort_by_layer(m, first, ends, layers);
  model->failed |= !ends;
  free(ends);
  plim_towers_add_lora(t, &m->towers, true, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward ----------------------------------------------------------------------------------------

// Variables of the model's forward.
typedef struct {
  plim_tensor *embedded, *dropped, *positions, *full_mask, *sliding_mask, *padding_mask;
  plim_tensor *cos, *sin, *local_cos, *local_sin;
} inputs;

static plim_tensor *embed(plim_tape *t, const plim_decoder *m, const plim_batch *batch) {
  if (m->code->embed) return m->code->embed(t, m, batch);
  if (!m->embed_scale) return plim_embed(t, batch, m->embed_tokens, batch->ids);
  return plim_embed_scaled(t, batch, m->embed_tokens, m->embed_scale, batch->ids);
}

// One mask for all layers, or one for each kind of layer, of which the one without a window is made
// even if no layer asks for it.
static void make_masks(plim_tape *t, const plim_decoder *m, const plim_batch *b, inputs *in) {
  const plim_config *c = &m->c;
  plim_tensor *positions = c->family->masks_lack_positions ? NULL : in->positions;
  bool slides = has_layer(c, true) || c->family->has_idle_mask;
  if (!slides || !plim_config_slides_everywhere(c))
    set(t, &in->full_mask,
        plim_causal_mask(t, m->attention, b->mask_kind, in->embedded, positions, b->mask));
  if (!slides) return;
  int64_t window = c->sliding_window ? c->sliding_window : 1;
  plim_tensor *(*make)(plim_tape *, plim_attention_kind, plim_mask_kind, plim_tensor *,
                       plim_tensor *, plim_tensor *, int64_t) =
      c->family->has_chunks ? plim_chunked_mask : plim_sliding_mask;
  set(t, &in->sliding_mask,
      make(t, m->attention, b->mask_kind, in->embedded, positions, b->mask, window));
}

static void make_angles(plim_tape *t, const plim_decoder *m, const plim_batch *batch,
                        plim_dtype dtype, inputs *in) {
  int64_t b = batch->ids->shape.at[0], length = batch->ids->shape.at[1];
  plim_tensor *frequencies = m->rope.inv_freq;
  if (m->c.family->has_grid_positions)
    plim_grid_rotary(t, frequencies, b, length, m->c.family->has_grid_sections, dtype, &in->cos,
                     &in->sin);
  else plim_rotary(t, frequencies, length, dtype, m->c.family->has_half_rotary, &in->cos, &in->sin);
}

static bool has_masks_first(const plim_config *c) {
  return c->outer && c->outer->makes_masks_first;
}

// Everything but `embedded`, which is there: positions, masks, cos and sin.
static void prepare(plim_tape *t, plim_decoder *m, const plim_batch *batch, inputs *in) {
  int64_t length = batch->ids->shape.at[1];
  plim_dtype dtype = m->c.family->has_wide_rotary ? PLIM_FP32 : (plim_dtype)in->embedded->dtype;
  if (m->c.family->has_only_mixers) {
    set(t, &in->padding_mask, plim_padding_mask(t, batch->mask_kind, batch->mask));
    return;
  }
  if (has_masks_first(&m->c)) make_masks(t, m, batch, in); // without positions
  set(t, &in->positions,
      m->code->counts_from_zero ? unsqueeze(t, empty(t, dims(length), PLIM_I64), 0)
                                : plim_position_ids(t, length));
  if (!has_masks_first(&m->c)) make_masks(t, m, batch, in);
  if (m->code->scales_embedded_late) set(t, &in->embedded, mul_scalar(t, in->embedded));
  if (m->code->drops_embedded) {
    set(t, &in->dropped, dropout(t, in->embedded, m->c.embedding_dropout));
    if (!m->code->keeps_embedded) set(t, &in->embedded, in->dropped);
  }
  if (m->code->mixer)
    set(t, &in->padding_mask, plim_padding_mask(t, batch->mask_kind, batch->mask));
  if (plim_decoder_turns_in_layers(t, &m->c)) return;
  if (has_rotary(&m->c)) plim_rope_update(t, &m->c, &m->rope, length);
  if (m->c.family->has_complex_rotary) plim_complex_rotary(t, m->rope.inv_freq, length, &in->cos);
  else if (has_rotary(&m->c)) {
    make_angles(t, m, batch, dtype, in);
  }
  if (has_local_rotary(&m->c))
    plim_rotary(t, m->local_rope.inv_freq, length, dtype, false, &in->local_cos, &in->local_sin);
}

static plim_tensor *call_layer(plim_tape *t, const plim_decoder *m, const plim_batch *batch,
                               const inputs *in, int64_t i, plim_tensor *hidden) {
  const plim_config *c = &m->c;
  plim_closure call = {.function = m->code->layer, .context = &m->layers[i]};
  bool slides = plim_config_slides(c, i), is_local = slides && c->family->has_local_rotary;
  plim_tensor *attention_mask = slides ? in->sliding_mask : in->full_mask;
  call.held[PLIM_HELD_MASK] = plim_config_attends(c, i) ? attention_mask
                              : m->layers[i].mixer      ? in->padding_mask
                                                        : NULL;
  if (c->family->mixes_beside_attention) call.held[PLIM_HELD_PADDING] = in->padding_mask;
  call.held[PLIM_HELD_SIN(c)] = is_local ? in->local_sin : in->sin;
  call.held[PLIM_HELD_COS(c)] = is_local ? in->local_cos : in->cos;
  if (!c->family->layers_lack_positions) call.held[PLIM_HELD_POSITIONS(c)] = in->positions;
  // Checkpointing passed all arguments by position; the reentrant kind saves only tensors, not a tuple of them.
  if (!plim_transformers_since(t, m->code->passed_rotary_first ? PLIM_RELEASE(4, 53)
                                                               : PLIM_RELEASE(4, 52)))
    call.positional =
        batch->checkpoint == PLIM_CHECKPOINT_REENTRANT ? PLIM_HELD_SIN(c) : PLIM_MAX_HELD;
  if (m->code->passed_rotary_first && !plim_transformers_from(t, 5, 0))
    call.first = 1u << PLIM_HELD_SIN(c) | 1u << PLIM_HELD_COS(c);
  return plim_call_layer(t, batch->checkpoint, call, hidden);
}

static plim_tensor *last_norm(plim_tape *t, const plim_decoder *m, plim_tensor *hidden) {
  plim_tensor *x = plim_part_enter(t, PLIM_PART_NORM, hidden);
  return plim_part_leave(t, PLIM_PART_NORM,
                         m->norm ? m->code->norm(t, x, m->norm)
                                 : m->code->biased_norm(t, &m->layer_norm, x));
}

// Lets go of the inputs in the order in which the forward's frame does. A dict of the masks' arguments may
// hold two of them to the end, and lets them go in its own order. Before 5.4 the positions are in cache_position, an
// argument behind the embedded tokens. The frame of a multimodal model ends last.
static void release(plim_tape *t, const plim_config *c, bool is_outside, inputs *in,
                    plim_tensor **last) {
  bool keeps = c->family->keeps_mask_arguments && !has_masks_first(c);
  if (c->family->replaces_mask_argument) drop(t, &in->full_mask);
  if (!keeps && !is_outside && !plim_transformers_from(t, 5, 4)) drop(t, &in->embedded);
  if (!keeps || c->family->masks_lack_positions) drop(t, &in->positions);
  if (!keeps && !is_outside) drop(t, &in->embedded);
  if (!has_masks_first(c)) drop_all(t, &in->full_mask, &in->sliding_mask, &in->padding_mask);
  if (!is_outside) drop(t, &in->embedded);
  drop_all(t, &in->positions, &in->sin, &in->cos, &in->local_sin, &in->local_cos);
  drop(t, last);
  drop_all(t, &in->full_mask, &in->sliding_mask, &in->embedded);
}

// Whether the model around the language model embeds the tokens. A chunked loss calls a model with an inner head by the
// innermost one.
static bool embeds_outside(const plim_config *c, const plim_batch *batch) {
  if (!c->outer || c->outer->passes_ids_on) return false;
  return !c->outer->has_inner_head || batch->loss != PLIM_LOSS_CHUNKED;
}

static uint16_t kept_until(const plim_decoder_code *code) {
  return code->kept_last_layer_until ? code->kept_last_layer_until : PLIM_RELEASE(4, 54);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_decoder *m = (plim_decoder *)model;
  inputs in = {0};
  plim_tensor *hidden = NULL, *last = NULL;
  m->attention = plim_family_attention(m->c.family, batch->attention);
  set(t, &in.embedded, embed(t, m, batch));
  prepare(t, m, batch, &in);
  set(t, &hidden, m->code->scales_embedded ? mul_scalar(t, in.embedded) : in.embedded);
  if (in.dropped) set(t, &hidden, in.dropped);
  drop(t, &in.dropped);
  for (int64_t i = 0; i < m->c.layers && !plim_tape_failed(t); i++)
    if (!m->layers[i].is_idle) set(t, &hidden, call_layer(t, m, batch, &in, i, hidden));
  if (!plim_transformers_since(t, kept_until(m->code))) set(t, &last, hidden);
  set(t, &hidden, last_norm(t, m, hidden));
  plim_tensor *out = give(t, &hidden);
  bool is_outside = embeds_outside(&m->c, batch);
  if (is_outside && model->has_inner_head) set(t, &model->embedded, in.embedded);
  release(t, &m->c, is_outside, &in, &last);
  return out;
}

plim_model *plim_decoder_new(plim_tape *t, const plim_config *c, plim_dtype dtype,
                             const plim_decoder_code *code) {
  plim_logits logits = code->divides_logits         ? PLIM_LOGITS_DIVIDED
                       : c->final_softcap != 0      ? PLIM_LOGITS_CAPPED
                       : c->family->has_wide_logits ? PLIM_LOGITS_WIDE
                                                    : PLIM_LOGITS_PLAIN;
  plim_decoder *m = plim_model_new(sizeof *m, (plim_model){.forward = plim_causal_forward,
                                                           .inner = model_forward,
                                                           .add_lora = add_lora,
                                                           .in_name_order = in_name_order,
                                                           .assemble = assemble,
                                                           .initialise = initialise,
                                                           .logits = logits});
  if (!m) return NULL;
  m->c = *c;
  m->c.passes_positions_first =
      c->family->passes_positions_first || !plim_transformers_from(t, 5, 0);
  m->model.narrows_hidden = c->family->narrows_hidden;
  m->model.has_inner_head = c->outer && c->outer->has_inner_head;
  m->model.takes_no_items = c->outer && c->outer->lacks_loss_kwargs;
  m->code = code;
  m->layers = plim_model_array(&m->model, c->layers, sizeof *m->layers);
  if (m->layers) build(t, m, dtype);
  return plim_model_finish(&m->model);
}
