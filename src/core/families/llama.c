#include "llama.h"

#include <stdlib.h>

#include "attention.h"
#include "kernels.h"
#include "loss.h"
#include "masks.h"
#include "ops.h"

typedef struct {
  plim_tensor *weight, *bias;   // bias: NULL if there is none
  plim_tensor *lora_a, *lora_b; // NULL if it has no adapter
  double dropout;
} projection;

typedef struct {
  projection proj[PLIM_PROJECTIONS];
  plim_tensor *q_norm, *k_norm; // NULL if there are none
  plim_tensor *input_norm, *post_attention_norm;
} layer;

// What a checkpoint needs to run a layer again.
typedef struct layer_call {
  const plim_llama *m;
  const layer *l;
  plim_attention_kind attention;
} layer_call;

struct plim_llama {
  plim_llama_config c;
  plim_tensor *embed_tokens, *norm, *lm_head, *inv_freq, *original_inv_freq;
  layer *layers;
  struct layer_call *calls; // one per layer
  vec(plim_tensor *) parameters;
  bool failed;
};

// ---- construction ---------------------------------------------------------------------------------

static plim_tensor *parameter(plim_tape *t, plim_llama *m, plim_dims shape, plim_dtype dtype) {
  plim_tensor *p = NULL;
  set(t, &p, empty(t, shape, dtype));
  p->requires_grad = true;
  if (!vec_push(&m->parameters, p)) m->failed = true;
  return p;
}

static projection project(plim_tape *t, plim_llama *m, int64_t out, int64_t in, bool has_bias,
                          plim_dtype d) {
  projection p = {.weight = parameter(t, m, dims(out, in), d)};
  if (has_bias) p.bias = parameter(t, m, dims(out), d);
  return p;
}

static layer layer_new(plim_tape *t, plim_llama *m, plim_dtype d) {
  const plim_llama_config *c = &m->c;
  int64_t h = c->hidden, i = c->intermediate, q = c->heads * c->head_dim;
  int64_t kv = c->kv_heads * c->head_dim;
  layer l = {0};
  l.proj[PLIM_Q_PROJ] = project(t, m, q, h, c->has_qkv_bias, d);
  l.proj[PLIM_K_PROJ] = project(t, m, kv, h, c->has_qkv_bias, d);
  l.proj[PLIM_V_PROJ] = project(t, m, kv, h, c->has_qkv_bias, d);
  l.proj[PLIM_O_PROJ] = project(t, m, h, q, false, d);
  if (c->has_qk_norm) {
    l.q_norm = parameter(t, m, dims(c->head_dim), d);
    l.k_norm = parameter(t, m, dims(c->head_dim), d);
  }
  l.proj[PLIM_GATE_PROJ] = project(t, m, i, h, false, d);
  l.proj[PLIM_UP_PROJ] = project(t, m, i, h, false, d);
  l.proj[PLIM_DOWN_PROJ] = project(t, m, h, i, false, d);
  l.input_norm = parameter(t, m, dims(h), d);
  l.post_attention_norm = parameter(t, m, dims(h), d);
  return l;
}

// 1 / (base ** (arange(0, dim, 2) / dim)), with the temporaries of that line.
static plim_tensor *inverse_frequencies(plim_tape *t, int64_t n) {
  plim_tensor *steps = empty(t, dims(n), PLIM_FP32), *shares = empty(t, dims(n), PLIM_FP32);
  plim_consume(t, steps);
  plim_tensor *powers = empty(t, dims(n), PLIM_FP32);
  plim_consume(t, scratch(t, 8));
  plim_consume(t, shares);
  plim_tensor *inverse = empty(t, dims(n), PLIM_FP32), *scaled = empty(t, dims(n), PLIM_FP32);
  plim_consume(t, inverse);
  plim_consume(t, powers);
  return scaled;
}

plim_llama *plim_llama_new(plim_tape *t, const plim_llama_config *config, plim_dtype d) {
  plim_llama *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->c = *config;
  m->layers = calloc((size_t)config->layers, sizeof *m->layers);
  m->calls = calloc((size_t)config->layers, sizeof *m->calls);
  if (!m->layers || !m->calls) {
    plim_llama_delete(m);
    return NULL;
  }
  plim_dims table = dims(config->vocabulary, config->hidden);
  m->embed_tokens = parameter(t, m, table, d);
  for (int64_t i = 0; i < config->layers; i++) m->layers[i] = layer_new(t, m, d);
  m->norm = parameter(t, m, dims(config->hidden), d);
  int64_t half = config->head_dim / 2;
  set(t, &m->inv_freq, inverse_frequencies(t, half));
  set(t, &m->original_inv_freq, empty(t, dims(half), PLIM_FP32));
  plim_consume(t, inverse_frequencies(t, half)); // made again when weights are initialised
  if (config->ties_embeddings) {
    plim_consume(t, empty(t, table, d)); // lm_head's own weight, gone when it is tied
    m->lm_head = m->embed_tokens;
  } else m->lm_head = parameter(t, m, table, d);
  if (!m->failed) return m;
  plim_llama_delete(m);
  return NULL;
}

void plim_llama_delete(plim_llama *m) {
  if (!m) return;
  free(m->layers);
  free(m->calls);
  vec_free(&m->parameters);
  free(m);
}

bool plim_llama_add_lora(plim_tape *t, plim_llama *m, const plim_lora *lora) {
  plim_dtype d = (plim_dtype)m->embed_tokens->dtype;
  for (size_t i = 0; i < m->parameters.len; i++) m->parameters.at[i]->requires_grad = false;
  m->parameters.len = 0;
  for (int64_t i = 0; i < m->c.layers; i++)
    for (int k = 0; k < PLIM_PROJECTIONS; k++) {
      projection *p = &m->layers[i].proj[k];
      if (!(lora->targets >> k & 1)) continue;
      p->lora_a = parameter(t, m, dims(lora->rank, p->weight->shape.at[1]), d);
      p->lora_b = parameter(t, m, dims(p->weight->shape.at[0], lora->rank), d);
      p->dropout = lora->dropout;
    }
  if (!lora->keeps_dtype && d != PLIM_FP32)
    for (size_t i = 0; i < m->parameters.len; i++) plim_retype(t, m->parameters.at[i], PLIM_FP32);
  return !m->failed;
}

plim_tensor **plim_llama_parameters(plim_llama *m, size_t *count) {
  *count = m->parameters.len;
  return m->parameters.at;
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *rms_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_tensor *hidden = NULL, *variance = NULL;
  bool was = hold(x);
  set(t, &hidden, to(t, x, PLIM_FP32));
  set(t, &variance, mean_last(t, square(t, hidden)));
  set(t, &hidden, mul(t, hidden, rsqrt(t, add_scalar(t, variance))));
  plim_tensor *out = mul(t, weight, to(t, hidden, (plim_dtype)x->dtype));
  drop(t, &hidden);
  drop(t, &variance);
  let_go(t, x, was);
  return out;
}

static plim_tensor *rotate_half(plim_tape *t, plim_tensor *x) {
  int64_t d = x->shape.at[3];
  plim_tensor *x1 = NULL, *x2 = NULL;
  set(t, &x1, slice(t, x, 3, 0, d / 2));
  set(t, &x2, slice(t, x, 3, d / 2, d));
  plim_tensor *out = cat2(t, neg(t, x2), x1, 3);
  drop(t, &x1);
  drop(t, &x2);
  return out;
}

static plim_tensor *rope(plim_tape *t, plim_tensor *x, plim_tensor *cos, plim_tensor *sin) {
  plim_tensor *straight = mul(t, x, cos);
  plim_tensor *turned = mul(t, rotate_half(t, x), sin);
  return add(t, straight, turned);
}

static plim_tensor *apply(plim_tape *t, const projection *p, plim_tensor *x) {
  if (!p->lora_a) return linear(t, x, p->weight, p->bias);
  plim_tensor *result = NULL, *input = NULL;
  bool was = hold(x);
  set(t, &result, linear(t, x, p->weight, p->bias));
  plim_dtype dtype = (plim_dtype)result->dtype;
  set(t, &input, to(t, x, (plim_dtype)p->lora_a->dtype));
  plim_tensor *inner = linear(t, dropout(t, input, p->dropout), p->lora_a, NULL);
  plim_tensor *delta = mul_scalar(t, linear(t, inner, p->lora_b, NULL));
  set(t, &result, add(t, result, delta));
  set(t, &result, to(t, result, dtype));
  drop(t, &input);
  plim_tensor *out = give(t, &result);
  let_go(t, x, was);
  return out;
}

// (B,T,H*D) -> (B,H,T,D), each head normed if there is a norm.
static plim_tensor *split_heads(plim_tape *t, plim_tensor *x, int64_t head_dim, plim_tensor *norm) {
  plim_dims shape = dims(x->shape.at[0], x->shape.at[1], -1, head_dim);
  plim_tensor *heads = view(t, x, shape);
  return transpose(t, norm ? rms_norm(t, heads, norm) : heads, 1, 2);
}

static plim_tensor *repeat_kv(plim_tape *t, plim_tensor *x, int64_t times) { // (B,K*times,T,D)
  if (times == 1) return x;
  int64_t b = x->shape.at[0], k = x->shape.at[1], length = x->shape.at[2], d = x->shape.at[3];
  plim_tensor *spread = expand(t, unsqueeze(t, x, 2), dims(b, k, times, length, d));
  return reshape(t, spread, dims(b, k * times, length, d));
}

static plim_tensor *eager_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                    plim_tensor *mask) {
  int64_t groups = q->shape.at[1] / k->shape.at[1];
  plim_tensor *keys = NULL, *values = NULL, *weights = NULL, *out = NULL;
  set(t, &keys, repeat_kv(t, k, groups));
  set(t, &values, repeat_kv(t, v, groups));
  set(t, &weights, mul_scalar(t, matmul(t, q, transpose(t, keys, 2, 3))));
  if (mask) set(t, &weights, add(t, weights, mask));
  set(t, &weights, to(t, softmax(t, weights, PLIM_FP32), (plim_dtype)q->dtype));
  set(t, &out, matmul(t, weights, values));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  drop(t, &keys);
  drop(t, &values);
  drop(t, &weights);
  return give(t, &out);
}

// With a mask, keys and values are repeated for every head; without, the kernel does that itself.
static plim_tensor *sdpa_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                   plim_tensor *mask) {
  int64_t groups = q->shape.at[1] / k->shape.at[1];
  plim_tensor *keys = NULL, *values = NULL;
  set(t, &keys, mask ? repeat_kv(t, k, groups) : k);
  set(t, &values, mask ? repeat_kv(t, v, groups) : v);
  plim_tensor *out = contiguous(t, transpose(t, attention(t, q, keys, values, mask), 1, 2));
  drop(t, &keys);
  drop(t, &values);
  return out;
}

// What every layer gets beside its input.
typedef struct {
  plim_attention_kind attention;
  plim_tensor *mask, *cos, *sin;
} surroundings;

static plim_tensor *self_attention(plim_tape *t, const plim_llama *m, const layer *l,
                                   plim_tensor *x, const surroundings *with) {
  int64_t d = m->c.head_dim, batch = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL, *cos1 = NULL, *sin1 = NULL;
  set(t, &q, split_heads(t, apply(t, &l->proj[PLIM_Q_PROJ], x), d, l->q_norm));
  set(t, &k, split_heads(t, apply(t, &l->proj[PLIM_K_PROJ], x), d, l->k_norm));
  set(t, &v, split_heads(t, apply(t, &l->proj[PLIM_V_PROJ], x), d, NULL));
  set(t, &cos1, unsqueeze(t, with->cos, 1));
  set(t, &sin1, unsqueeze(t, with->sin, 1));
  plim_tensor *turned_q = rope(t, q, cos1, sin1), *turned_k = NULL;
  turned_k = rope(t, k, cos1, sin1);
  drop(t, &cos1);
  drop(t, &sin1);
  set(t, &q, turned_q);
  set(t, &k, turned_k);
  set(t, &out,
      with->attention == PLIM_ATTENTION_EAGER ? eager_attention(t, q, k, v, with->mask)
                                              : sdpa_attention(t, q, k, v, with->mask));
  set(t, &out, contiguous(t, reshape(t, out, dims(batch, length, -1))));
  set(t, &out, apply(t, &l->proj[PLIM_O_PROJ], out));
  drop(t, &q);
  drop(t, &k);
  drop(t, &v);
  return give(t, &out);
}

static plim_tensor *mlp(plim_tape *t, const layer *l, plim_tensor *x) {
  plim_tensor *gate = silu(t, apply(t, &l->proj[PLIM_GATE_PROJ], x));
  plim_tensor *up = apply(t, &l->proj[PLIM_UP_PROJ], x);
  return apply(t, &l->proj[PLIM_DOWN_PROJ], mul(t, gate, up));
}

static plim_tensor *layer_forward(plim_tape *t, const plim_llama *m, const layer *l, plim_tensor *x,
                                  const surroundings *with) {
  plim_tensor *hidden = NULL, *residual = NULL;
  set(t, &residual, x);
  set(t, &hidden, rms_norm(t, x, l->input_norm));
  set(t, &hidden, self_attention(t, m, l, hidden, with));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &residual, hidden);
  set(t, &hidden, rms_norm(t, hidden, l->post_attention_norm));
  set(t, &hidden, mlp(t, l, hidden));
  set(t, &hidden, add(t, residual, hidden));
  plim_tensor *out = give(t, &hidden);
  drop(t, &residual);
  return out;
}

// In the order they go: the pair of cos and sin is a tuple, which lets go of its last item first.
enum { HELD_MASK, HELD_SIN, HELD_COS };

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer_call *call = context;
  surroundings with = {call->attention, held[HELD_MASK], held[HELD_COS], held[HELD_SIN]};
  return layer_forward(t, call->m, call->l, x, &with);
}

static plim_tensor *call_layer(plim_tape *t, plim_checkpoint_kind kind, plim_closure call,
                               plim_tensor *x) {
  switch (kind) {
  case PLIM_CHECKPOINT_ON: return checkpoint(t, call, x);
  case PLIM_CHECKPOINT_REENTRANT: return checkpoint_reentrant(t, call, x);
  default: return call.function(t, call.context, call.held, x);
  }
}

static void rotary(plim_tape *t, const plim_llama *m, plim_tensor *positions, plim_dtype dtype,
                   plim_tensor **cos, plim_tensor **sin) {
  bool was = set_grad_mode(t, false);
  int64_t length = positions->shape.at[1], half = m->inv_freq->shape.at[0];
  plim_tensor *angles = NULL, *both = NULL, *wide = NULL, *c = NULL, *s = NULL;
  set(t, &wide, empty(t, dims(1, 1, length), PLIM_FP32));
  set(t, &angles, empty(t, dims(1, half, length), PLIM_FP32));
  k_cublas(t);
  set(t, &both, empty(t, dims(1, length, 2 * half), PLIM_FP32));
  set(t, &c, mul_scalar(t, k_unary(t, both)));
  set(t, &s, mul_scalar(t, k_unary(t, both)));
  plim_tensor *low_c = to(t, c, dtype), *low_s = NULL;
  set(t, cos, low_c);
  low_s = to(t, s, dtype);
  set(t, sin, low_s);
  drop(t, &wide);
  drop(t, &angles);
  drop(t, &both);
  drop(t, &c);
  drop(t, &s);
  set_grad_mode(t, was);
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
  rotary(t, m, positions, (plim_dtype)embedded->dtype, &with.cos, &with.sin);
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->calls[i] = (layer_call){m, &m->layers[i], batch->attention};
    plim_closure call = {run_layer, &m->calls[i], {with.mask, with.sin, with.cos, positions}};
    set(t, &hidden, call_layer(t, batch->checkpoint, call, hidden));
  }
  set(t, &hidden, rms_norm(t, hidden, m->norm));
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

plim_tensor *plim_llama_forward(plim_tape *t, plim_llama *m, const plim_batch *batch,
                                plim_tensor **logits) {
  plim_tensor *hidden = NULL, *scores = NULL;
  set(t, &hidden, model_forward(t, m, batch));
  set(t, &scores, linear(t, slice(t, hidden, 1, 0, hidden->shape.at[1]), m->lm_head, NULL));
  plim_tensor *loss = causal_loss(t, scores, batch->labels, batch->items);
  set(t, logits, give(t, &scores));
  drop(t, &hidden);
  return loss;
}
