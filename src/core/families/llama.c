#include "llama.h"

#include "decoder.h"
#include "liger.h"
#include "mixtral.h"
#include "ops.h"

#include "op_names.h"

typedef struct {
  const struct plim_llama *m;
  plim_linear q_proj, k_proj, v_proj, o_proj;
  plim_linear gate_proj, up_proj, down_proj;
  plim_linear qkv_proj, gate_up_proj; // of phi3, in place of those they are named after
  plim_experts experts;               // of mixtral, in place of gate, up and down
  plim_tensor *q_norm, *k_norm;       // NULL if there are none
  plim_tensor *input_norm, *post_attention_norm;
} layer;

typedef struct plim_llama {
  plim_model model;
  plim_config c;
  plim_tensor *embed_tokens, *norm;
  plim_rope_buffers rope;
  layer *layers;
  plim_attention_kind attention; // of the batch that runs
} plim_llama;

// ---- construction ---------------------------------------------------------------------------------

static void add_projections(plim_tape *t, plim_llama *m, layer *l, plim_dtype d) {
  const plim_config *c = &m->c;
  int64_t h = c->hidden, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  bool biased = c->has_attention_bias, qkv_biased = biased || c->has_qkv_bias;
  l->q_proj = plim_linear_new(t, &m->model, PLIM_Q_PROJ, q, h, qkv_biased, d);
  l->k_proj = plim_linear_new(t, &m->model, PLIM_K_PROJ, kv, h, qkv_biased, d);
  l->v_proj = plim_linear_new(t, &m->model, PLIM_V_PROJ, kv, h, qkv_biased, d);
  l->o_proj = plim_linear_new(t, &m->model, PLIM_O_PROJ, h, q, biased, d);
  if (!c->has_qk_norm) return;
  l->q_norm = plim_model_parameter(t, &m->model, dims(c->head_dim), d);
  l->k_norm = plim_model_parameter(t, &m->model, dims(c->head_dim), d);
}

static void add_fused_projections(plim_tape *t, plim_llama *m, layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, q = m->c.heads * m->c.head_dim, kv = m->c.kv_heads * m->c.head_dim;
  l->o_proj = plim_linear_new(t, &m->model, PLIM_O_PROJ, h, q, false, d);
  l->qkv_proj = plim_linear_new(t, &m->model, PLIM_QKV_PROJ, q + 2 * kv, h, false, d);
}

static void add_mlp(plim_tape *t, plim_llama *m, layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  bool biased = m->c.has_mlp_bias, fused = m->c.has_fused_projections;
  if (fused) l->gate_up_proj = plim_linear_new(t, &m->model, PLIM_GATE_UP_PROJ, 2 * i, h, false, d);
  else {
    l->gate_proj = plim_linear_new(t, &m->model, PLIM_GATE_PROJ, i, h, biased, d);
    l->up_proj = plim_linear_new(t, &m->model, PLIM_UP_PROJ, i, h, biased, d);
  }
  l->down_proj = plim_linear_new(t, &m->model, PLIM_DOWN_PROJ, h, i, biased && !fused, d);
}

static layer layer_new(plim_tape *t, plim_llama *m, plim_dtype d) {
  layer l = {.m = m};
  if (m->c.has_fused_projections) add_fused_projections(t, m, &l, d);
  else add_projections(t, m, &l, d);
  if (m->c.experts) l.experts = plim_experts_new(t, &m->model, &m->c, d);
  else add_mlp(t, m, &l, d);
  l.input_norm = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  l.post_attention_norm = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  return l;
}

static void build(plim_tape *t, plim_llama *m, plim_dtype d) {
  m->embed_tokens = plim_model_parameter(t, &m->model, dims(m->c.vocabulary, m->c.hidden), d);
  for (int64_t i = 0; i < m->c.layers; i++) m->layers[i] = layer_new(t, m, d);
  m->norm = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  plim_rope_new(t, &m->c, &m->rope);
  m->model.head = plim_decoder_head(t, &m->model, &m->c, m->embed_tokens);
}

static void visit_experts(const plim_experts *e, plim_visit *visit, void *context) {
  if (!e->router) return;
  visit(context, e->gate_up);
  visit(context, e->down);
  visit(context, e->router);
}

static void visit_layer(const layer *l, plim_visit *visit, void *context) {
  visit_experts(&l->experts, visit, context);
  visit(context, l->input_norm);
  plim_linear_visit(&l->down_proj, visit, context);
  plim_linear_visit(&l->gate_proj, visit, context);
  plim_linear_visit(&l->gate_up_proj, visit, context);
  plim_linear_visit(&l->up_proj, visit, context);
  visit(context, l->post_attention_norm);
  if (l->k_norm) visit(context, l->k_norm);
  plim_linear_visit(&l->k_proj, visit, context);
  plim_linear_visit(&l->o_proj, visit, context);
  if (l->q_norm) visit(context, l->q_norm);
  plim_linear_visit(&l->q_proj, visit, context);
  plim_linear_visit(&l->qkv_proj, visit, context);
  plim_linear_visit(&l->v_proj, visit, context);
}

static bool assemble(plim_tape *t, plim_model *model, plim_tensor *p) {
  const plim_config *c = &((plim_llama *)model)->c;
  bool has_halves = p->shape.at[1] == 2 * c->intermediate && p->shape.at[2] == c->hidden;
  if (p->shape.n != 3) return false;
  plim_experts_assemble(t, model, p, has_halves);
  return true;
}

static void in_name_order(plim_model *model, plim_visit *visit, void *context) {
  plim_llama *m = (plim_llama *)model;
  if (model->head != m->embed_tokens) visit(context, model->head);
  visit(context, m->embed_tokens);
  for (int64_t i = 0; i < m->c.layers; i++) visit_layer(&m->layers[i], visit, context);
  visit(context, m->norm);
}

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

static void add_lora_to_experts(plim_tape *t, plim_llama *m, const plim_lora *lora) {
  size_t modules = m->model.parameters.len;
  for (int64_t i = 0; i < m->c.layers; i++)
    plim_experts_add_lora(t, &m->model, &m->layers[i].experts, lora->rank);
  sort_by_layer(&m->model, modules, (size_t)m->c.layers);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_llama *m = (plim_llama *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_add_all(t, model, lora, &l->q_proj, &l->k_proj, &l->v_proj, &l->o_proj, &l->qkv_proj,
                      &l->gate_proj, &l->up_proj, &l->gate_up_proj, &l->down_proj);
  }
  if (m->c.experts && lora->targets == PLIM_ALL_LINEAR) add_lora_to_experts(t, m, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

// One product, and three slices of it.
static void project_fused(plim_tape *t, const layer *l, plim_tensor *x, plim_tensor **q,
                          plim_tensor **k, plim_tensor **v) {
  const plim_config *c = &l->m->c;
  int64_t d = c->head_dim, queries = c->heads * d, keys = queries + c->kv_heads * d;
  plim_tensor *all = NULL;
  set(t, &all, plim_linear_forward(t, &l->qkv_proj, x));
  set(t, q, slice(t, all, 2, 0, queries));
  set(t, k, slice(t, all, 2, queries, keys));
  set(t, v, slice(t, all, 2, keys, all->shape.at[2]));
  set(t, q, plim_split_heads(t, *q, d, NULL));
  set(t, k, plim_split_heads(t, *k, d, NULL));
  set(t, v, plim_split_heads(t, *v, d, NULL));
  drop(t, &all);
}

static void project(plim_tape *t, const layer *l, plim_tensor *x, plim_tensor **q, plim_tensor **k,
                    plim_tensor **v) {
  int64_t d = l->m->c.head_dim;
  if (l->m->c.has_fused_projections) {
    project_fused(t, l, x, q, k, v);
    return;
  }
  set(t, q, plim_split_heads(t, plim_linear_forward(t, &l->q_proj, x), d, l->q_norm));
  set(t, k, plim_split_heads(t, plim_linear_forward(t, &l->k_proj, x), d, l->k_norm));
  set(t, v, plim_split_heads(t, plim_linear_forward(t, &l->v_proj, x), d, NULL));
}

static void turn(plim_tape *t, const plim_config *c, plim_tensor *const *held, plim_tensor **q,
                 plim_tensor **k) {
  plim_tensor *cos = held[PLIM_HELD_COS(c)], *sin = held[PLIM_HELD_SIN(c)];
  if (plim_tape_uses_liger(t)) plim_liger_rope(t, q, k, cos, sin);
  else if (c->has_fused_projections) plim_apply_rope_parts(t, cos, sin, false, q, k);
  else plim_apply_rope(t, cos, sin, q, k);
}

static plim_tensor *self_attention(plim_tape *t, const layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_attending how = {.kind = l->m->attention, .dropout_p = c->attention_dropout};
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  project(t, l, x, &q, &k, &v);
  turn(t, c, held, &q, &k);
  set(t, &out, plim_attend(t, &how, q, k, v, held[PLIM_HELD_MASK], weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &l->o_proj, out));
  drop_all(t, &q, &k, &v);
  return give(t, &out);
}

static plim_tensor *mlp_fused(plim_tape *t, const layer *l, plim_tensor *x) {
  plim_tensor *up = NULL, *gate = NULL;
  plim_tensor *both = plim_linear_forward(t, &l->gate_up_proj, x);
  split(t, both, &gate, &up);
  set(t, &up, mul(t, up, silu(t, gate)));
  plim_tensor *out = plim_linear_forward(t, &l->down_proj, up);
  drop_all(t, &up, &gate);
  return out;
}

static plim_tensor *mlp(plim_tape *t, const layer *l, plim_tensor *x) {
  if (l->experts.router) return plim_experts_forward(t, &l->experts, x);
  if (l->gate_up_proj.weight) return mlp_fused(t, l, x);
  bool is_fused = plim_tape_uses_liger(t);
  plim_tensor *gate = plim_linear_forward(t, &l->gate_proj, x);
  if (!is_fused) gate = silu(t, gate);
  plim_tensor *up = plim_linear_forward(t, &l->up_proj, x);
  plim_tensor *product = is_fused ? plim_liger_swiglu(t, gate, up) : mul(t, gate, up);
  return plim_linear_forward(t, &l->down_proj, product);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer *l = context;
  const plim_config *c = &l->m->c;
  double dropped = c->has_fused_projections ? c->dropout : 0; // phi3: resid_pdrop
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_rms_norm(t, x, l->input_norm));
  set(t, &hidden, self_attention(t, l, hidden, held, &weights));
  set(t, &hidden, add(t, residual, dropout(t, hidden, dropped)));
  set(t, &residual, hidden);
  set(t, &hidden, plim_rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, dropout(t, hidden, dropped)));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

static plim_tensor *last_norm(plim_tape *t, const plim_llama *m, plim_tensor *hidden) {
  plim_tensor *x = plim_part_enter(t, PLIM_PART_NORM, hidden);
  return plim_part_leave(t, PLIM_PART_NORM, plim_rms_norm(t, x, m->norm));
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_llama *m = (plim_llama *)model;
  plim_decoder_inputs in = {0};
  plim_tensor *hidden = NULL;
  m->attention = batch->attention;
  set(t, &in.embedded, plim_embed(t, batch, m->embed_tokens, batch->ids));
  plim_decoder_prepare(t, &m->c, batch, &m->rope, &in);
  set(t, &hidden, in.embedded);
  for (int64_t i = 0; i < m->c.layers; i++)
    set(t, &hidden, plim_decoder_call(t, &m->c, batch, &in, i, run_layer, &m->layers[i], hidden));
  set(t, &hidden, last_norm(t, m, hidden));
  plim_tensor *out = give(t, &hidden);
  plim_decoder_release(t, &m->c, &in);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_llama_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_llama *m = plim_model_new(sizeof *m, (plim_model){.forward = plim_causal_forward,
                                                         .inner = model_forward,
                                                         .add_lora = add_lora,
                                                         .in_name_order = in_name_order,
                                                         .assemble = assemble});
  if (!m) return NULL;
  m->c = *config;
  m->layers = plim_model_array(&m->model, config->layers, sizeof *m->layers);
  if (m->layers) build(t, m, dtype);
  return plim_model_finish(&m->model);
}
