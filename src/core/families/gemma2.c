#include "gemma2.h"

#include <stdlib.h>

#include "decoder.h"
#include "ops.h"

typedef struct {
  plim_linear proj[PLIM_PROJECTIONS];
  plim_tensor *input_norm, *post_attention_norm, *pre_mlp_norm, *post_mlp_norm;
} layer;

// What a checkpoint needs to run a layer again.
typedef struct layer_call {
  const struct plim_gemma2 *m;
  const layer *l;
  plim_attention_kind attention;
} layer_call;

typedef struct plim_gemma2 {
  plim_model model;
  plim_config c;
  plim_tensor *embed_tokens, *embed_scale, *norm, *lm_head;
  plim_rope_buffers rope;
  layer *layers;
  struct layer_call *calls; // one per layer
} plim_gemma2;

// ---- construction ---------------------------------------------------------------------------------

static plim_tensor *norm_new(plim_tape *t, plim_gemma2 *m, plim_dtype d) {
  return plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
}

static layer layer_new(plim_tape *t, plim_gemma2 *m, plim_dtype d) {
  const plim_config *c = &m->c;
  int64_t h = c->hidden, i = c->intermediate;
  int64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  bool biased = c->has_attention_bias;
  layer l = {0};
  l.proj[PLIM_Q_PROJ] = plim_linear_new(t, &m->model, q, h, biased, d);
  l.proj[PLIM_K_PROJ] = plim_linear_new(t, &m->model, kv, h, biased, d);
  l.proj[PLIM_V_PROJ] = plim_linear_new(t, &m->model, kv, h, biased, d);
  l.proj[PLIM_O_PROJ] = plim_linear_new(t, &m->model, h, q, biased, d);
  l.proj[PLIM_GATE_PROJ] = plim_linear_new(t, &m->model, i, h, false, d);
  l.proj[PLIM_UP_PROJ] = plim_linear_new(t, &m->model, i, h, false, d);
  l.proj[PLIM_DOWN_PROJ] = plim_linear_new(t, &m->model, h, i, false, d);
  l.input_norm = norm_new(t, m, d);
  l.post_attention_norm = norm_new(t, m, d);
  l.pre_mlp_norm = norm_new(t, m, d);
  l.post_mlp_norm = norm_new(t, m, d);
  plim_projections_name(l.proj);
  return l;
}

static void build(plim_tape *t, plim_gemma2 *m, plim_dtype d) {
  m->embed_tokens = plim_model_parameter(t, &m->model, dims(m->c.vocabulary, m->c.hidden), d);
  set(t, &m->embed_scale, empty(t, (plim_dims){0}, d));
  for (int64_t i = 0; i < m->c.layers; i++) m->layers[i] = layer_new(t, m, d);
  m->norm = norm_new(t, m, d);
  plim_rope_new(t, &m->c, &m->rope);
  m->lm_head = plim_decoder_head(t, &m->model, &m->c, m->embed_tokens);
}

static void destroy(plim_model *model) {
  plim_gemma2 *m = (plim_gemma2 *)model;
  free(m->layers);
  free(m->calls);
  free(m);
}

static void visit_layer(const layer *l, void (*visit)(void *, plim_tensor *), void *context) {
  static const plim_projection mlp[] = {PLIM_DOWN_PROJ, PLIM_GATE_PROJ, PLIM_UP_PROJ};
  static const plim_projection attention[] = {PLIM_K_PROJ, PLIM_O_PROJ, PLIM_Q_PROJ, PLIM_V_PROJ};
  visit(context, l->input_norm);
  for (size_t i = 0; i < sizeof mlp / sizeof *mlp; i++) visit(context, l->proj[mlp[i]].weight);
  visit(context, l->post_attention_norm);
  visit(context, l->post_mlp_norm);
  visit(context, l->pre_mlp_norm);
  for (size_t i = 0; i < sizeof attention / sizeof *attention; i++) {
    const plim_linear *p = &l->proj[attention[i]];
    if (p->bias) visit(context, p->bias);
    visit(context, p->weight);
  }
}

static void in_name_order(plim_model *model, void (*visit)(void *, plim_tensor *), void *context) {
  plim_gemma2 *m = (plim_gemma2 *)model;
  if (m->lm_head != m->embed_tokens) visit(context, m->lm_head);
  visit(context, m->embed_tokens);
  for (int64_t i = 0; i < m->c.layers; i++) visit_layer(&m->layers[i], visit, context);
  visit(context, m->norm);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_gemma2 *m = (plim_gemma2 *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++)
    plim_projections_add_lora(t, model, m->layers[i].proj, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

// Kernels know nothing of caps: scaled_dot_product_attention goes without.
static plim_tensor *attend(plim_tape *t, const layer_call *call, plim_tensor *q, plim_tensor *k,
                           plim_tensor *v, plim_tensor *mask, plim_tensor **weights) {
  const plim_config *c = &call->m->c;
  if (call->attention != PLIM_ATTENTION_EAGER)
    return plim_attend(t, call->attention, q, k, v, mask, c->attention_dropout, weights);
  bool is_capped = c->attention_softcap != 0;
  return plim_attend_eagerly(t, q, k, v, mask, is_capped, c->attention_dropout, weights);
}

static plim_tensor *self_attention(plim_tape *t, const layer_call *call, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_linear *proj = call->l->proj;
  const plim_config *c = &call->m->c;
  int64_t batch = x->shape.at[0], length = x->shape.at[1], d = c->head_dim;
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  set(t, &q, plim_split_heads(t, plim_linear_forward(t, &proj[PLIM_Q_PROJ], x), d, NULL));
  set(t, &k, plim_split_heads(t, plim_linear_forward(t, &proj[PLIM_K_PROJ], x), d, NULL));
  set(t, &v, plim_split_heads(t, plim_linear_forward(t, &proj[PLIM_V_PROJ], x), d, NULL));
  plim_turn(t, held[PLIM_HELD_COS(c)], held[PLIM_HELD_SIN(c)], &q, &k);
  set(t, &out, attend(t, call, q, k, v, held[PLIM_HELD_MASK], weights));
  set(t, &out, contiguous(t, reshape(t, out, dims(batch, length, -1))));
  set(t, &out, plim_linear_forward(t, &proj[PLIM_O_PROJ], out));
  drop(t, &q);
  drop(t, &k);
  drop(t, &v);
  return give(t, &out);
}

static plim_tensor *mlp(plim_tape *t, const plim_linear *proj, plim_tensor *x) {
  plim_tensor *gate = gelu(t, plim_linear_forward(t, &proj[PLIM_GATE_PROJ], x));
  plim_tensor *up = plim_linear_forward(t, &proj[PLIM_UP_PROJ], x);
  return plim_linear_forward(t, &proj[PLIM_DOWN_PROJ], mul(t, gate, up));
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer_call *call = context;
  const layer *l = call->l;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_gemma_norm(t, x, l->input_norm));
  set(t, &hidden, self_attention(t, call, hidden, held, &weights));
  set(t, &hidden, plim_gemma_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_gemma_norm(t, hidden, l->pre_mlp_norm));
  set(t, &hidden, mlp(t, l->proj, hidden));
  set(t, &hidden, plim_gemma_norm(t, hidden, l->post_mlp_norm));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop(t, &residual);
  drop(t, &weights);
  return out;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_gemma2 *m = (plim_gemma2 *)model;
  plim_decoder_inputs in = {0};
  plim_tensor *hidden = NULL;
  plim_tensor *embedded = embedding(t, m->embed_tokens, batch->ids);
  plim_tensor *scale = to(t, m->embed_scale, (plim_dtype)m->embed_tokens->dtype);
  set(t, &in.embedded, mul(t, embedded, scale));
  plim_decoder_prepare(t, &m->c, batch, &m->rope, &in);
  set(t, &hidden, in.embedded);
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->calls[i] = (layer_call){m, &m->layers[i], batch->attention};
    set(t, &hidden, plim_decoder_call(t, &m->c, batch, &in, i, run_layer, &m->calls[i], hidden));
  }
  set(t, &hidden, plim_gemma_norm(t, hidden, m->norm));
  plim_tensor *out = give(t, &hidden);
  plim_decoder_release(t, &m->c, &in);
  return out;
}

static plim_tensor *forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                            plim_tensor **logits) {
  plim_gemma2 *m = (plim_gemma2 *)model;
  plim_tensor *hidden = model_forward(t, model, batch);
  if (m->c.final_softcap == 0) return plim_causal_head(t, hidden, m->lm_head, batch, logits);
  return plim_causal_head_capped(t, hidden, m->lm_head, batch, logits);
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_gemma2_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_gemma2 *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->model = (plim_model){.forward = forward,
                          .inner = model_forward,
                          .add_lora = add_lora,
                          .in_name_order = in_name_order,
                          .destroy = destroy};
  m->c = *config;
  m->layers = calloc((size_t)config->layers, sizeof *m->layers);
  m->calls = calloc((size_t)config->layers, sizeof *m->calls);
  if (m->layers && m->calls) build(t, m, dtype);
  else m->model.failed = true;
  m->model.head = m->lm_head;
  return plim_model_finish(&m->model);
}
