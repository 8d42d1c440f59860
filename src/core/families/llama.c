#include "llama.h"

#include <stdlib.h>

#include "modules.h"
#include "ops.h"

typedef struct {
  plim_linear proj[PLIM_PROJECTIONS];
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
  plim_tensor *embed_tokens, *norm, *lm_head, *inv_freq, *original_inv_freq;
  layer *layers;
  struct layer_call *calls; // one per layer
} plim_llama;

// ---- construction ---------------------------------------------------------------------------------

static layer layer_new(plim_tape *t, plim_llama *m, plim_dtype d) {
  const plim_config *c = &m->c;
  int64_t h = c->hidden, i = c->intermediate, q = c->heads * c->head_dim;
  int64_t kv = c->kv_heads * c->head_dim;
  layer l = {0};
  if (c->has_fused_projections) {
    l.proj[PLIM_O_PROJ] = plim_linear_new(t, &m->model, h, q, false, d);
    l.proj[PLIM_QKV_PROJ] = plim_linear_new(t, &m->model, q + 2 * kv, h, false, d);
    l.proj[PLIM_GATE_UP_PROJ] = plim_linear_new(t, &m->model, 2 * i, h, false, d);
  } else {
    l.proj[PLIM_Q_PROJ] = plim_linear_new(t, &m->model, q, h, c->has_qkv_bias, d);
    l.proj[PLIM_K_PROJ] = plim_linear_new(t, &m->model, kv, h, c->has_qkv_bias, d);
    l.proj[PLIM_V_PROJ] = plim_linear_new(t, &m->model, kv, h, c->has_qkv_bias, d);
    l.proj[PLIM_O_PROJ] = plim_linear_new(t, &m->model, h, q, false, d);
    if (c->has_qk_norm) {
      l.q_norm = plim_model_parameter(t, &m->model, dims(c->head_dim), d);
      l.k_norm = plim_model_parameter(t, &m->model, dims(c->head_dim), d);
    }
    l.proj[PLIM_GATE_PROJ] = plim_linear_new(t, &m->model, i, h, false, d);
    l.proj[PLIM_UP_PROJ] = plim_linear_new(t, &m->model, i, h, false, d);
  }
  l.proj[PLIM_DOWN_PROJ] = plim_linear_new(t, &m->model, h, i, false, d);
  l.input_norm = plim_model_parameter(t, &m->model, dims(h), d);
  l.post_attention_norm = plim_model_parameter(t, &m->model, dims(h), d);
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
  int64_t half = m->c.head_dim / 2;
  set(t, &m->inv_freq, plim_inverse_frequencies(t, half));
  set(t, &m->original_inv_freq, empty(t, dims(half), PLIM_FP32));
  plim_consume(t, plim_inverse_frequencies(t, half)); // made again when weights are initialised
  if (!m->c.ties_embeddings) {
    m->lm_head = plim_model_parameter(t, &m->model, table, d);
    return;
  }
  plim_consume(t, empty(t, table, d)); // lm_head's own weight, gone when it is tied
  m->lm_head = m->embed_tokens;
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_llama *m = (plim_llama *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++)
    for (int k = 0; k < PLIM_PROJECTIONS; k++)
      if (m->layers[i].proj[k].weight && lora->targets >> k & 1)
        plim_linear_add_lora(t, model, &m->layers[i].proj[k], lora);
  plim_lora_end(t, model, lora, (plim_dtype)m->embed_tokens->dtype);
}

// ---- forward --------------------------------------------------------------------------------------

// (B,T,H*D) -> (B,H,T,D), each head normed if there is a norm.
static plim_tensor *split_heads(plim_tape *t, plim_tensor *x, int64_t head_dim, plim_tensor *norm) {
  plim_dims shape = dims(x->shape.at[0], x->shape.at[1], -1, head_dim);
  plim_tensor *heads = view(t, x, shape);
  return transpose(t, norm ? plim_rms_norm(t, heads, norm) : heads, 1, 2);
}

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
  set(t, q, split_heads(t, *q, d, NULL));
  set(t, k, split_heads(t, *k, d, NULL));
  set(t, v, split_heads(t, *v, d, NULL));
  drop(t, &all);
}

static void project(plim_tape *t, const plim_llama *m, const layer *l, plim_tensor *x,
                    plim_tensor **q, plim_tensor **k, plim_tensor **v) {
  int64_t d = m->c.head_dim;
  if (m->c.has_fused_projections) {
    project_fused(t, m, l, x, q, k, v);
    return;
  }
  set(t, q, split_heads(t, plim_linear_forward(t, &l->proj[PLIM_Q_PROJ], x), d, l->q_norm));
  set(t, k, split_heads(t, plim_linear_forward(t, &l->proj[PLIM_K_PROJ], x), d, l->k_norm));
  set(t, v, split_heads(t, plim_linear_forward(t, &l->proj[PLIM_V_PROJ], x), d, NULL));
}

// phi3 turns the first part of each head and puts the rest, which may be nothing, behind it. All
// slices come before the first product: backward runs them in that order.
static void turn_parts(plim_tape *t, plim_tensor **q, plim_tensor **k, plim_tensor *cos,
                       plim_tensor *sin) {
  int64_t width = cos->shape.at[3], head_dim = (*q)->shape.at[3];
  plim_tensor *q_part = NULL, *q_rest = NULL, *k_part = NULL, *k_rest = NULL;
  set(t, &q_part, slice(t, *q, 3, 0, width));
  set(t, &q_rest, slice(t, *q, 3, width, head_dim));
  set(t, &k_part, slice(t, *k, 3, 0, width));
  set(t, &k_rest, slice(t, *k, 3, width, head_dim));
  plim_tensor *new_q = cat2(t, plim_rope(t, q_part, cos, sin), q_rest, 3), *new_k = NULL;
  new_k = cat2(t, plim_rope(t, k_part, cos, sin), k_rest, 3);
  plim_tensor **gone[] = {&q_part, &q_rest, &k_part, &k_rest};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) drop(t, gone[i]);
  set(t, q, new_q);
  set(t, k, new_k);
}

// Queries and keys turned by their positions.
static void turn(plim_tape *t, const plim_llama *m, const surroundings *with, plim_tensor **q,
                 plim_tensor **k) {
  plim_tensor *cos = NULL, *sin = NULL;
  set(t, &cos, unsqueeze(t, with->cos, 1));
  set(t, &sin, unsqueeze(t, with->sin, 1));
  if (m->c.has_fused_projections) turn_parts(t, q, k, cos, sin);
  else {
    plim_tensor *new_q = plim_rope(t, *q, cos, sin), *new_k = NULL;
    new_k = plim_rope(t, *k, cos, sin);
    set(t, q, new_q);
    set(t, k, new_k);
  }
  drop(t, &cos);
  drop(t, &sin);
}

static plim_tensor *self_attention(plim_tape *t, const plim_llama *m, const layer *l,
                                   plim_tensor *x, const surroundings *with,
                                   plim_tensor **weights) {
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  project(t, m, l, x, &q, &k, &v);
  turn(t, m, with, &q, &k);
  set(t, &out, plim_attend(t, with->attention, q, k, v, with->mask, 0, weights));
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
  if (l->proj[PLIM_GATE_UP_PROJ].weight) return mlp_fused(t, l, x);
  plim_tensor *gate = silu(t, plim_linear_forward(t, &l->proj[PLIM_GATE_PROJ], x));
  plim_tensor *up = plim_linear_forward(t, &l->proj[PLIM_UP_PROJ], x);
  return plim_linear_forward(t, &l->proj[PLIM_DOWN_PROJ], mul(t, gate, up));
}

static plim_tensor *layer_forward(plim_tape *t, const plim_llama *m, const layer *l, plim_tensor *x,
                                  const surroundings *with) {
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_rms_norm(t, x, l->input_norm));
  set(t, &hidden, self_attention(t, m, l, hidden, with, &weights));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, plim_rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop(t, &residual);
  drop(t, &weights);
  return out;
}

// In the order they go: the pair of cos and sin is a tuple, which lets go of its last item first.
enum { HELD_MASK, HELD_SIN, HELD_COS };
enum { SIN_BEHIND_POSITIONS = 2, COS_BEHIND_POSITIONS };

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer_call *call = context;
  bool is_behind = call->m->c.names_positions_first;
  plim_tensor *sin = held[is_behind ? SIN_BEHIND_POSITIONS : HELD_SIN];
  plim_tensor *cos = held[is_behind ? COS_BEHIND_POSITIONS : HELD_COS];
  surroundings with = {call->attention, held[HELD_MASK], cos, sin};
  return layer_forward(t, call->m, call->l, x, &with);
}

static plim_tensor *model_forward(plim_tape *t, plim_llama *m, const plim_batch *batch) {
  plim_tensor *embedded = NULL, *positions = NULL, *hidden = NULL;
  surroundings with = {.attention = batch->attention};
  set(t, &embedded, embedding(t, m->embed_tokens, batch->ids));
  if (batch->checkpoint) embedded->requires_grad = true; // enable_input_require_grads
  set(t, &positions, add_scalar(t, empty(t, dims(batch->ids->shape.at[1]), PLIM_I64)));
  set(t, &positions, unsqueeze(t, positions, 0));
  set(t, &with.mask,
      plim_causal_mask(t, batch->attention, batch->mask_kind, embedded, positions, batch->mask));
  set(t, &hidden, embedded);
  plim_rotary(t, m->inv_freq, batch->ids->shape.at[1], (plim_dtype)embedded->dtype, &with.cos,
              &with.sin);
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->calls[i] = (layer_call){m, &m->layers[i], batch->attention};
    plim_closure call = {run_layer, &m->calls[i], {with.mask, with.sin, with.cos, positions}};
    if (m->c.names_positions_first)
      call = (plim_closure){run_layer, &m->calls[i], {with.mask, positions, with.sin, with.cos}};
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
  }
  set(t, &hidden, plim_rms_norm(t, hidden, m->norm));
  plim_tensor *out = give(t, &hidden);
  // A dict of the mask's arguments holds both to the end, and lets them go in its own order.
  if (m->c.keeps_mask_arguments) drop(t, &embedded);
  drop(t, &positions);
  drop(t, &embedded);
  drop(t, &with.mask);
  drop(t, &with.sin);
  drop(t, &with.cos);
  return out;
}

static plim_tensor *forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                            plim_tensor **logits) {
  plim_llama *m = (plim_llama *)model;
  return plim_causal_head(t, model_forward(t, m, batch), m->lm_head, batch, logits);
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_llama_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_llama *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->model = (plim_model){.forward = forward, .add_lora = add_lora, .destroy = destroy};
  m->c = *config;
  m->layers = calloc((size_t)config->layers, sizeof *m->layers);
  m->calls = calloc((size_t)config->layers, sizeof *m->calls);
  if (m->layers && m->calls) build(t, m, dtype);
  else m->model.failed = true;
  return plim_model_finish(&m->model);
}
