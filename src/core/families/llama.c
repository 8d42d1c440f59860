#include "llama.h"

#include <stdlib.h>

#include "decoder.h"
#include "liger.h"
#include "mixtral.h"
#include "ops.h"

typedef struct {
  plim_linear proj[PLIM_PROJECTIONS];
  plim_experts experts;         // of mixtral, in place of gate, up and down
  plim_tensor *q_norm, *k_norm; // NULL if there are none
  plim_tensor *input_norm, *post_attention_norm;
} layer;

// What a checkpoint needs to run a layer again.
typedef struct layer_call {
  const struct plim_llama *m;
  const layer *l;
  plim_attention_kind attention;
} layer_call;

typedef struct plim_llama {
  plim_model model;
  plim_config c;
  plim_tensor *embed_tokens, *norm, *lm_head;
  plim_rope_buffers rope;
  layer *layers;
  struct layer_call *calls; // one per layer
} plim_llama;

// ---- construction ---------------------------------------------------------------------------------

static void add_projections(plim_tape *t, plim_llama *m, layer *l, plim_dtype d) {
  const plim_config *c = &m->c;
  int64_t h = c->hidden, q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  bool biased = c->has_attention_bias, qkv_biased = biased || c->has_qkv_bias;
  l->proj[PLIM_Q_PROJ] = plim_linear_new(t, &m->model, q, h, qkv_biased, d);
  l->proj[PLIM_K_PROJ] = plim_linear_new(t, &m->model, kv, h, qkv_biased, d);
  l->proj[PLIM_V_PROJ] = plim_linear_new(t, &m->model, kv, h, qkv_biased, d);
  l->proj[PLIM_O_PROJ] = plim_linear_new(t, &m->model, h, q, biased, d);
  if (!c->has_qk_norm) return;
  l->q_norm = plim_model_parameter(t, &m->model, dims(c->head_dim), d);
  l->k_norm = plim_model_parameter(t, &m->model, dims(c->head_dim), d);
}

static void add_fused_projections(plim_tape *t, plim_llama *m, layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, q = m->c.heads * m->c.head_dim, kv = m->c.kv_heads * m->c.head_dim;
  l->proj[PLIM_O_PROJ] = plim_linear_new(t, &m->model, h, q, false, d);
  l->proj[PLIM_QKV_PROJ] = plim_linear_new(t, &m->model, q + 2 * kv, h, false, d);
}

static void add_mlp(plim_tape *t, plim_llama *m, layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  bool biased = m->c.has_mlp_bias, fused = m->c.has_fused_projections;
  if (fused) l->proj[PLIM_GATE_UP_PROJ] = plim_linear_new(t, &m->model, 2 * i, h, false, d);
  else {
    l->proj[PLIM_GATE_PROJ] = plim_linear_new(t, &m->model, i, h, biased, d);
    l->proj[PLIM_UP_PROJ] = plim_linear_new(t, &m->model, i, h, biased, d);
  }
  l->proj[PLIM_DOWN_PROJ] = plim_linear_new(t, &m->model, h, i, biased && !fused, d);
}

static layer layer_new(plim_tape *t, plim_llama *m, plim_dtype d) {
  layer l = {0};
  if (m->c.has_fused_projections) add_fused_projections(t, m, &l, d);
  else add_projections(t, m, &l, d);
  if (m->c.experts) l.experts = plim_experts_new(t, &m->model, &m->c, d);
  else add_mlp(t, m, &l, d);
  l.input_norm = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  l.post_attention_norm = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  plim_projections_name(l.proj);
  return l;
}

static void destroy(plim_model *model) {
  plim_llama *m = (plim_llama *)model;
  free(m->layers);
  free(m->calls);
  free(m);
}

static void build(plim_tape *t, plim_llama *m, plim_dtype d) {
  plim_dims table = dims(m->c.vocabulary, m->c.hidden);
  m->embed_tokens = plim_model_parameter(t, &m->model, table, d);
  for (int64_t i = 0; i < m->c.layers; i++) m->layers[i] = layer_new(t, m, d);
  m->norm = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  plim_rope_new(t, &m->c, &m->rope);
  m->lm_head = plim_decoder_head(t, &m->model, &m->c, m->embed_tokens);
}

static void visit_linear(const plim_linear *l, void (*visit)(void *, plim_tensor *),
                         void *context) {
  if (l->bias) visit(context, l->bias);
  if (l->weight) visit(context, l->weight);
}

static void visit_experts(const plim_experts *e, void (*visit)(void *, plim_tensor *),
                          void *context) {
  if (!e->router) return;
  visit(context, e->gate_up);
  visit(context, e->down);
  visit(context, e->router);
}

static void visit_layer(const layer *l, void (*visit)(void *, plim_tensor *), void *context) {
  visit_experts(&l->experts, visit, context);
  visit(context, l->input_norm);
  visit_linear(&l->proj[PLIM_DOWN_PROJ], visit, context);
  visit_linear(&l->proj[PLIM_GATE_PROJ], visit, context);
  visit_linear(&l->proj[PLIM_GATE_UP_PROJ], visit, context);
  visit_linear(&l->proj[PLIM_UP_PROJ], visit, context);
  visit(context, l->post_attention_norm);
  if (l->k_norm) visit(context, l->k_norm);
  visit_linear(&l->proj[PLIM_K_PROJ], visit, context);
  visit_linear(&l->proj[PLIM_O_PROJ], visit, context);
  if (l->q_norm) visit(context, l->q_norm);
  visit_linear(&l->proj[PLIM_Q_PROJ], visit, context);
  visit_linear(&l->proj[PLIM_QKV_PROJ], visit, context);
  visit_linear(&l->proj[PLIM_V_PROJ], visit, context);
}

static bool assemble(plim_tape *t, plim_model *model, plim_tensor *p) {
  const plim_config *c = &((plim_llama *)model)->c;
  bool has_halves = p->shape.at[1] == 2 * c->intermediate && p->shape.at[2] == c->hidden;
  if (p->shape.n != 3) return false;
  plim_experts_assemble(t, model, p, has_halves);
  return true;
}

static void in_name_order(plim_model *model, void (*visit)(void *, plim_tensor *), void *context) {
  plim_llama *m = (plim_llama *)model;
  if (m->lm_head != m->embed_tokens) visit(context, m->lm_head);
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
  for (int64_t i = 0; i < m->c.layers; i++)
    plim_projections_add_lora(t, model, m->layers[i].proj, lora);
  if (m->c.experts && lora->targets == PLIM_ALL_LINEAR) add_lora_to_experts(t, m, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

// What every layer gets beside its input.
typedef struct {
  plim_attention_kind attention;
  plim_tensor *mask, *cos, *sin;
} surroundings;

// One product, and three slices of it.
static void project_fused(plim_tape *t, const plim_llama *m, const layer *l, plim_tensor *x,
                          plim_tensor **q, plim_tensor **k, plim_tensor **v) {
  int64_t d = m->c.head_dim, queries = m->c.heads * d, keys = queries + m->c.kv_heads * d;
  plim_tensor *all = NULL;
  set(t, &all, plim_linear_forward(t, &l->proj[PLIM_QKV_PROJ], x));
  set(t, q, slice(t, all, 2, 0, queries));
  set(t, k, slice(t, all, 2, queries, keys));
  set(t, v, slice(t, all, 2, keys, all->shape.at[2]));
  set(t, q, plim_split_heads(t, *q, d, NULL));
  set(t, k, plim_split_heads(t, *k, d, NULL));
  set(t, v, plim_split_heads(t, *v, d, NULL));
  drop(t, &all);
}

static void project(plim_tape *t, const plim_llama *m, const layer *l, plim_tensor *x,
                    plim_tensor **q, plim_tensor **k, plim_tensor **v) {
  int64_t d = m->c.head_dim;
  if (m->c.has_fused_projections) {
    project_fused(t, m, l, x, q, k, v);
    return;
  }
  set(t, q, plim_split_heads(t, plim_linear_forward(t, &l->proj[PLIM_Q_PROJ], x), d, l->q_norm));
  set(t, k, plim_split_heads(t, plim_linear_forward(t, &l->proj[PLIM_K_PROJ], x), d, l->k_norm));
  set(t, v, plim_split_heads(t, plim_linear_forward(t, &l->proj[PLIM_V_PROJ], x), d, NULL));
}

// phi3 turns the first part of each head and puts the rest, which may be nothing, behind it. All
// slices come before the first product: backward runs them in that order.
static void turn_parts(plim_tape *t, plim_tensor *cos, plim_tensor *sin, plim_tensor **q,
                       plim_tensor **k) {
  int64_t width = cos->shape.at[2], head_dim = (*q)->shape.at[3];
  plim_tensor *c = NULL, *s = NULL, *q_part = NULL, *q_rest = NULL, *k_part = NULL, *k_rest = NULL;
  set(t, &c, unsqueeze(t, cos, 1));
  set(t, &s, unsqueeze(t, sin, 1));
  set(t, &q_part, slice(t, *q, 3, 0, width));
  set(t, &q_rest, slice(t, *q, 3, width, head_dim));
  set(t, &k_part, slice(t, *k, 3, 0, width));
  set(t, &k_rest, slice(t, *k, 3, width, head_dim));
  plim_tensor *new_q = cat2(t, plim_rope(t, q_part, c, s), q_rest, 3), *new_k = NULL;
  new_k = cat2(t, plim_rope(t, k_part, c, s), k_rest, 3);
  plim_tensor **gone[] = {&c, &s, &q_part, &q_rest, &k_part, &k_rest};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) drop(t, gone[i]);
  set(t, q, new_q);
  set(t, k, new_k);
}

static void turn(plim_tape *t, const plim_llama *m, const surroundings *with, plim_tensor **q,
                 plim_tensor **k) {
  if (plim_tape_uses_liger(t)) plim_liger_rope(t, q, k, with->cos, with->sin);
  else if (m->c.has_fused_projections) turn_parts(t, with->cos, with->sin, q, k);
  else plim_turn(t, with->cos, with->sin, q, k);
}

static plim_tensor *self_attention(plim_tape *t, const plim_llama *m, const layer *l,
                                   plim_tensor *x, const surroundings *with,
                                   plim_tensor **weights) {
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  project(t, m, l, x, &q, &k, &v);
  turn(t, m, with, &q, &k);
  set(t, &out,
      plim_attend(t, with->attention, q, k, v, with->mask, m->c.attention_dropout, weights));
  set(t, &out, contiguous(t, reshape(t, out, dims(batch, length, -1))));
  set(t, &out, plim_linear_forward(t, &l->proj[PLIM_O_PROJ], out));
  drop(t, &q);
  drop(t, &k);
  drop(t, &v);
  return give(t, &out);
}

static plim_tensor *mlp_fused(plim_tape *t, const layer *l, plim_tensor *x) {
  plim_tensor *up = NULL, *gate = NULL;
  plim_tensor *both = plim_linear_forward(t, &l->proj[PLIM_GATE_UP_PROJ], x);
  split(t, both, (plim_tensor * *[]){&gate, &up}, 2);
  set(t, &up, mul(t, up, silu(t, gate)));
  plim_tensor *out = plim_linear_forward(t, &l->proj[PLIM_DOWN_PROJ], up);
  drop(t, &up);
  drop(t, &gate);
  return out;
}

static plim_tensor *mlp(plim_tape *t, const layer *l, plim_tensor *x) {
  if (l->experts.router) return plim_experts_forward(t, &l->experts, x);
  if (l->proj[PLIM_GATE_UP_PROJ].weight) return mlp_fused(t, l, x);
  bool is_fused = plim_tape_uses_liger(t);
  plim_tensor *gate = plim_linear_forward(t, &l->proj[PLIM_GATE_PROJ], x);
  if (!is_fused) gate = silu(t, gate);
  plim_tensor *up = plim_linear_forward(t, &l->proj[PLIM_UP_PROJ], x);
  plim_tensor *product = is_fused ? plim_liger_swiglu(t, gate, up) : mul(t, gate, up);
  return plim_linear_forward(t, &l->proj[PLIM_DOWN_PROJ], product);
}

static plim_tensor *layer_forward(plim_tape *t, const plim_llama *m, const layer *l, plim_tensor *x,
                                  const surroundings *with) {
  double dropped = m->c.has_fused_projections ? m->c.dropout : 0; // phi3: resid_pdrop
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_rms_norm(t, x, l->input_norm));
  set(t, &hidden, self_attention(t, m, l, hidden, with, &weights));
  set(t, &hidden, add(t, residual, dropout(t, hidden, dropped)));
  set(t, &residual, hidden);
  set(t, &hidden, plim_rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, dropout(t, hidden, dropped)));
  plim_tensor *out = give(t, &hidden);
  drop(t, &residual);
  drop(t, &weights);
  return out;
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer_call *call = context;
  const plim_config *c = &call->m->c;
  surroundings with = {call->attention, held[PLIM_HELD_MASK], held[PLIM_HELD_COS(c)],
                       held[PLIM_HELD_SIN(c)]};
  return layer_forward(t, call->m, call->l, x, &with);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_llama *m = (plim_llama *)model;
  plim_decoder_inputs in = {0};
  plim_tensor *hidden = NULL;
  set(t, &in.embedded, embedding(t, m->embed_tokens, batch->ids));
  plim_decoder_prepare(t, &m->c, batch, &m->rope, &in);
  set(t, &hidden, in.embedded);
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->calls[i] = (layer_call){m, &m->layers[i], batch->attention};
    set(t, &hidden, plim_decoder_call(t, &m->c, batch, &in, i, run_layer, &m->calls[i], hidden));
  }
  set(t, &hidden, plim_rms_norm(t, hidden, m->norm));
  plim_tensor *out = give(t, &hidden);
  plim_decoder_release(t, &m->c, &in);
  return out;
}

static plim_tensor *forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                            plim_tensor **logits) {
  plim_llama *m = (plim_llama *)model;
  return plim_causal_head(t, model_forward(t, model, batch), m->lm_head, batch, logits);
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_llama_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_llama *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->model = (plim_model){.forward = forward,
                          .inner = model_forward,
                          .add_lora = add_lora,
                          .in_name_order = in_name_order,
                          .assemble = assemble,
                          .destroy = destroy};
  m->c = *config;
  m->layers = calloc((size_t)config->layers, sizeof *m->layers);
  m->calls = calloc((size_t)config->layers, sizeof *m->calls);
  if (m->layers && m->calls) build(t, m, dtype);
  else m->model.failed = true;
  m->model.head = m->lm_head;
  return plim_model_finish(&m->model);
}
