#include "gpt2.h"

#include <stdlib.h>

#include "modules.h"
#include "ops.h"

typedef struct {
  plim_tensor *weight, *bias;
} pair; // of a LayerNorm

typedef struct {
  pair ln_1, ln_2;
  plim_linear c_attn, attn_proj, c_fc, mlp_proj; // Conv1D
} block;

typedef struct block_call {
  const struct plim_gpt2 *m;
  const block *b;
  plim_attention_kind attention;
} block_call;

typedef struct plim_gpt2 {
  plim_model model;
  plim_config c;
  plim_tensor *wte, *wpe;
  block *blocks;
  block_call *calls; // one per block
  pair ln_f;
} plim_gpt2;

// ---- construction ---------------------------------------------------------------------------------

static pair norm_new(plim_tape *t, plim_gpt2 *m, plim_dtype d) {
  pair p = {.weight = plim_model_parameter(t, &m->model, dims(m->c.hidden), d)};
  p.bias = plim_model_parameter(t, &m->model, dims(m->c.hidden), d);
  return p;
}

static block block_new(plim_tape *t, plim_gpt2 *m, plim_dtype d) {
  int64_t h = m->c.hidden;
  block b = {.ln_1 = norm_new(t, m, d)};
  b.c_attn = plim_conv1d_new(t, &m->model, h, 3 * h, d);
  b.attn_proj = plim_conv1d_new(t, &m->model, h, h, d);
  b.ln_2 = norm_new(t, m, d);
  b.c_fc = plim_conv1d_new(t, &m->model, h, m->c.intermediate, d);
  b.mlp_proj = plim_conv1d_new(t, &m->model, m->c.intermediate, h, d);
  return b;
}

static void build(plim_tape *t, plim_gpt2 *m, plim_dtype d) {
  plim_dims table = dims(m->c.vocabulary, m->c.hidden);
  m->wte = plim_model_parameter(t, &m->model, table, d);
  m->wpe = plim_model_parameter(t, &m->model, dims(m->c.positions, m->c.hidden), d);
  for (int64_t i = 0; i < m->c.layers; i++) m->blocks[i] = block_new(t, m, d);
  m->ln_f = norm_new(t, m, d);
  plim_consume(t, empty(t, table, d)); // lm_head's own weight, gone when it is tied
}

static void visit_pair(plim_tensor *bias, plim_tensor *weight, void (*visit)(void *, plim_tensor *),
                       void *context) {
  visit(context, bias);
  visit(context, weight);
}

static void in_name_order(plim_model *model, void (*visit)(void *, plim_tensor *), void *context) {
  plim_gpt2 *m = (plim_gpt2 *)model;
  for (int64_t i = 0; i < m->c.layers; i++) {
    const block *b = &m->blocks[i];
    visit_pair(b->c_attn.bias, b->c_attn.weight, visit, context);
    visit_pair(b->attn_proj.bias, b->attn_proj.weight, visit, context);
    visit_pair(b->ln_1.bias, b->ln_1.weight, visit, context);
    visit_pair(b->ln_2.bias, b->ln_2.weight, visit, context);
    visit_pair(b->c_fc.bias, b->c_fc.weight, visit, context);
    visit_pair(b->mlp_proj.bias, b->mlp_proj.weight, visit, context);
  }
  visit_pair(m->ln_f.bias, m->ln_f.weight, visit, context);
  visit(context, m->wpe);
  visit(context, m->wte);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_gpt2 *m = (plim_gpt2 *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    block *b = &m->blocks[i];
    plim_lora_target(t, model, &b->c_attn, PLIM_C_ATTN, lora);
    plim_lora_target(t, model, &b->attn_proj, PLIM_C_PROJ, lora);
    plim_lora_target(t, model, &b->c_fc, PLIM_C_FC, lora);
    plim_lora_target(t, model, &b->mlp_proj, PLIM_C_PROJ, lora);
  }
  plim_lora_end(t, model, lora);
}

static void destroy(plim_model *model) {
  plim_gpt2 *m = (plim_gpt2 *)model;
  free(m->blocks);
  free(m->calls);
  free(m);
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *norm(plim_tape *t, const pair *p, plim_tensor *x) {
  return layer_norm(t, x, p->weight, p->bias);
}

static plim_tensor *split_heads(plim_tape *t, plim_tensor *x, int64_t heads) { // (B,H,T,D)
  plim_dims shape = dims(x->shape.at[0], x->shape.at[1], heads, -1);
  return transpose(t, view(t, x, shape), 1, 2);
}

// Its own: the softmax is taken in the scores' dtype, and the result is not made contiguous.
static plim_tensor *eager_attention(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                    plim_tensor *mask, double dropout_p, plim_tensor **kept) {
  plim_tensor *weights = NULL, *out = NULL;
  set(t, &weights, mul_scalar(t, matmul(t, q, transpose(t, k, 2, 3))));
  if (mask) set(t, &weights, add(t, weights, mask));
  plim_dtype wide = plim_autocast_is_on(t) ? PLIM_FP32 : (plim_dtype)weights->dtype;
  set(t, &weights, softmax(t, weights, wide));
  set(t, &weights, to(t, weights, (plim_dtype)v->dtype));
  set(t, &weights, dropout(t, weights, dropout_p));
  set(t, &out, matmul(t, weights, v));
  set(t, &out, transpose(t, out, 1, 2));
  set(t, kept, give(t, &weights));
  return give(t, &out);
}

static plim_tensor *self_attention(plim_tape *t, const plim_gpt2 *m, const block *b, plim_tensor *x,
                                   plim_attention_kind kind, plim_tensor *mask,
                                   plim_tensor **weights) {
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  split(t, plim_linear_forward(t, &b->c_attn, x), (plim_tensor * *[]){&q, &k, &v}, 3);
  set(t, &k, split_heads(t, k, m->c.heads));
  set(t, &v, split_heads(t, v, m->c.heads));
  set(t, &q, split_heads(t, q, m->c.heads));
  double p = m->c.attention_dropout;
  set(t, &out,
      kind == PLIM_ATTENTION_EAGER ? eager_attention(t, q, k, v, mask, p, weights)
                                   : plim_attend(t, kind, q, k, v, mask, p, weights));
  set(t, &out, contiguous(t, reshape(t, out, dims(batch, length, -1))));
  set(t, &out, plim_linear_forward(t, &b->attn_proj, out));
  set(t, &out, dropout(t, out, m->c.dropout));
  drop(t, &q);
  drop(t, &k);
  drop(t, &v);
  return give(t, &out);
}

static plim_tensor *mlp(plim_tape *t, const plim_gpt2 *m, const block *b, plim_tensor *x) {
  plim_tensor *hidden = NULL;
  set(t, &hidden, plim_linear_forward(t, &b->c_fc, x));
  set(t, &hidden, plim_new_gelu(t, hidden));
  set(t, &hidden, plim_linear_forward(t, &b->mlp_proj, hidden));
  set(t, &hidden, dropout(t, hidden, m->c.dropout));
  return give(t, &hidden);
}

enum { HELD_MASK, HELD_POSITIONS };

static plim_tensor *run_block(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const block_call *call = context;
  plim_tensor *hidden = NULL, *residual = NULL, *part = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, norm(t, &call->b->ln_1, x));
  set(t, &part,
      self_attention(t, call->m, call->b, hidden, call->attention, held[HELD_MASK], &weights));
  set(t, &hidden, add(t, part, residual));
  set(t, &residual, hidden);
  set(t, &hidden, norm(t, &call->b->ln_2, hidden));
  plim_tensor *fed = NULL;
  set(t, &fed, mlp(t, call->m, call->b, hidden));
  set(t, &hidden, add(t, residual, fed));
  plim_tensor *out = give(t, &hidden);
  drop(t, &residual);
  drop(t, &part);
  drop(t, &weights);
  drop(t, &fed);
  return out;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_gpt2 *m = (plim_gpt2 *)model;
  int64_t length = batch->ids->shape.at[1];
  plim_tensor *ids = NULL, *embedded = NULL, *positions = NULL, *placed = NULL, *hidden = NULL;
  plim_tensor *mask = NULL;
  set(t, &ids, view(t, batch->ids, dims(-1, length)));
  set(t, &embedded, embedding(t, m->wte, ids));
  if (batch->checkpoint) embedded->requires_grad = true; // enable_input_require_grads
  set(t, &positions, add_scalar(t, empty(t, dims(length), PLIM_I64)));
  set(t, &positions, unsqueeze(t, positions, 0));
  set(t, &placed, embedding(t, m->wpe, positions));
  set(t, &hidden, add(t, embedded, placed));
  set(t, &mask,
      plim_causal_mask(t, batch->attention, batch->mask_kind, embedded, positions, batch->mask));
  set(t, &hidden, dropout(t, hidden, m->c.embedding_dropout));
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->calls[i] = (block_call){m, &m->blocks[i], batch->attention};
    plim_closure call = {run_block, &m->calls[i], {mask, positions}, .positional = 1};
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
  }
  set(t, &hidden, norm(t, &m->ln_f, hidden));
  set(t, &hidden, view(t, hidden, hidden->shape));
  plim_tensor *out = give(t, &hidden);
  plim_tensor **gone[] = {&ids, &positions, &embedded, &placed, &mask};
  for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) drop(t, gone[i]);
  return out;
}

static plim_tensor *forward(plim_tape *t, plim_model *model, const plim_batch *batch,
                            plim_tensor **logits) {
  plim_gpt2 *m = (plim_gpt2 *)model;
  return plim_causal_head(t, model_forward(t, model, batch), m->wte, batch, logits);
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_gpt2_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_gpt2 *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->model = (plim_model){.forward = forward,
                          .inner = model_forward,
                          .add_lora = add_lora,
                          .in_name_order = in_name_order,
                          .destroy = destroy,
                          .has_aligned_labels = true};
  m->c = *config;
  m->blocks = calloc((size_t)config->layers, sizeof *m->blocks);
  m->calls = calloc((size_t)config->layers, sizeof *m->calls);
  if (m->blocks && m->calls) build(t, m, dtype);
  else m->model.failed = true;
  m->model.head = m->wte;
  return plim_model_finish(&m->model);
}
