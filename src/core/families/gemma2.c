#include "gemma2.h"

#include "decoder.h"
#include "ops.h"

#include "op_names.h"

typedef struct {
  const struct plim_gemma2 *m;
  plim_linear q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj;
  plim_tensor *input_norm, *post_attention_norm, *pre_mlp_norm, *post_mlp_norm;
} layer;

typedef struct plim_gemma2 {
  plim_model model;
  plim_config c;
  plim_tensor *embed_tokens, *embed_scale, *norm;
  plim_rope_buffers rope;
  layer *layers;
  plim_attention_kind attention; // of the batch that runs
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
  layer l = {.m = m};
  l.q_proj = plim_linear_new(t, &m->model, PLIM_Q_PROJ, q, h, biased, d);
  l.k_proj = plim_linear_new(t, &m->model, PLIM_K_PROJ, kv, h, biased, d);
  l.v_proj = plim_linear_new(t, &m->model, PLIM_V_PROJ, kv, h, biased, d);
  l.o_proj = plim_linear_new(t, &m->model, PLIM_O_PROJ, h, q, biased, d);
  l.gate_proj = plim_linear_new(t, &m->model, PLIM_GATE_PROJ, i, h, false, d);
  l.up_proj = plim_linear_new(t, &m->model, PLIM_UP_PROJ, i, h, false, d);
  l.down_proj = plim_linear_new(t, &m->model, PLIM_DOWN_PROJ, h, i, false, d);
  l.input_norm = norm_new(t, m, d);
  l.post_attention_norm = norm_new(t, m, d);
  l.pre_mlp_norm = norm_new(t, m, d);
  l.post_mlp_norm = norm_new(t, m, d);
  return l;
}

static void build(plim_tape *t, plim_gemma2 *m, plim_dtype d) {
  m->embed_tokens = plim_model_parameter(t, &m->model, dims(m->c.vocabulary, m->c.hidden), d);
  set(t, &m->embed_scale, empty(t, (plim_dims){0}, d));
  for (int64_t i = 0; i < m->c.layers; i++) m->layers[i] = layer_new(t, m, d);
  m->norm = norm_new(t, m, d);
  plim_rope_new(t, &m->c, &m->rope);
  m->model.head = plim_decoder_head(t, &m->model, &m->c, m->embed_tokens);
}

static void visit_layer(const layer *l, plim_visit *visit, void *context) {
  visit(context, l->input_norm);
  plim_linear_visit(&l->down_proj, visit, context);
  plim_linear_visit(&l->gate_proj, visit, context);
  plim_linear_visit(&l->up_proj, visit, context);
  visit(context, l->post_attention_norm);
  visit(context, l->post_mlp_norm);
  visit(context, l->pre_mlp_norm);
  plim_linear_visit(&l->k_proj, visit, context);
  plim_linear_visit(&l->o_proj, visit, context);
  plim_linear_visit(&l->q_proj, visit, context);
  plim_linear_visit(&l->v_proj, visit, context);
}

static void in_name_order(plim_model *model, plim_visit *visit, void *context) {
  plim_gemma2 *m = (plim_gemma2 *)model;
  if (model->head != m->embed_tokens) visit(context, model->head);
  visit(context, m->embed_tokens);
  for (int64_t i = 0; i < m->c.layers; i++) visit_layer(&m->layers[i], visit, context);
  visit(context, m->norm);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_gemma2 *m = (plim_gemma2 *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_add_all(t, model, lora, &l->q_proj, &l->k_proj, &l->v_proj, &l->o_proj, &l->gate_proj,
                      &l->up_proj, &l->down_proj);
  }
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *self_attention(plim_tape *t, const layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  int64_t d = c->head_dim;
  plim_attending how = {.kind = l->m->attention,
                        .dropout_p = c->attention_dropout,
                        .is_capped = c->attention_softcap != 0};
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  set(t, &q, plim_split_heads(t, plim_linear_forward(t, &l->q_proj, x), d, NULL));
  set(t, &k, plim_split_heads(t, plim_linear_forward(t, &l->k_proj, x), d, NULL));
  set(t, &v, plim_split_heads(t, plim_linear_forward(t, &l->v_proj, x), d, NULL));
  plim_apply_rope(t, held[PLIM_HELD_COS(c)], held[PLIM_HELD_SIN(c)], &q, &k);
  set(t, &out, plim_attend(t, &how, q, k, v, held[PLIM_HELD_MASK], weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &l->o_proj, out));
  drop_all(t, &q, &k, &v);
  return give(t, &out);
}

static plim_tensor *mlp(plim_tape *t, const layer *l, plim_tensor *x) {
  plim_tensor *gate = gelu(t, plim_linear_forward(t, &l->gate_proj, x));
  plim_tensor *up = plim_linear_forward(t, &l->up_proj, x);
  return plim_linear_forward(t, &l->down_proj, mul(t, gate, up));
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_gemma_norm(t, x, l->input_norm));
  set(t, &hidden, self_attention(t, l, hidden, held, &weights));
  set(t, &hidden, plim_gemma_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_gemma_norm(t, hidden, l->pre_mlp_norm));
  set(t, &hidden, mlp(t, l, hidden));
  set(t, &hidden, plim_gemma_norm(t, hidden, l->post_mlp_norm));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

static plim_tensor *embed(plim_tape *t, const plim_gemma2 *m, const plim_batch *batch) {
  plim_tensor *ids = plim_part_enter(t, PLIM_PART_EMBEDDING, batch->ids);
  plim_module_enter(t, m->embed_tokens, NULL);
  plim_tensor *embedded = embedding(t, m->embed_tokens, ids);
  plim_tensor *scale = to(t, m->embed_scale, (plim_dtype)m->embed_tokens->dtype);
  plim_tensor *out = plim_embed_leave(t, batch, mul(t, embedded, scale));
  return plim_module_leave(t, m->embed_tokens, out);
}

static plim_tensor *last_norm(plim_tape *t, const plim_gemma2 *m, plim_tensor *hidden) {
  plim_tensor *x = plim_part_enter(t, PLIM_PART_NORM, hidden);
  return plim_part_leave(t, PLIM_PART_NORM, plim_gemma_norm(t, x, m->norm));
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_gemma2 *m = (plim_gemma2 *)model;
  plim_decoder_inputs in = {0};
  plim_tensor *hidden = NULL;
  m->attention = batch->attention;
  set(t, &in.embedded, embed(t, m, batch));
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

plim_model *plim_gemma2_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_gemma2 *m =
      plim_model_new(sizeof *m, (plim_model){.forward = plim_causal_forward,
                                             .inner = model_forward,
                                             .add_lora = add_lora,
                                             .in_name_order = in_name_order,
                                             .caps_logits = config->final_softcap != 0});
  if (!m) return NULL;
  m->c = *config;
  m->layers = plim_model_array(&m->model, config->layers, sizeof *m->layers);
  if (m->layers) build(t, m, dtype);
  return plim_model_finish(&m->model);
}
