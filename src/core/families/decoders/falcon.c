// Falcon 7B, 40B, 180B, 11B and the RefinedWeb models: one head of keys and values for all or for groups of queries, attention and
// MLP side by side or one after the other, rotary positions or ALiBi.
#include "alibi.h"
#include "families.h"
#include "layered.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum { QUERY_KEY_VALUE, DENSE, H_TO_4H, ONE_H }; // linear layers
enum { FIRST_NORM, MLP_NORM };

// ---- construction ---------------------------------------------------------------------------------

static bool has_two_norms(const plim_config *c) {
  return c->is_new_architecture && c->parallel_norms != 1;
}

static int64_t key_heads(const plim_config *c) {
  return c->is_new_architecture || !c->has_one_key_head ? c->kv_heads : 1;
}

static plim_linear linear_new(plim_tape *t, plim_layered *m, const char *path, int64_t out,
                              int64_t in, plim_dtype d) {
  plim_linear l = plim_linear_new(t, &m->model, path, out, in, m->c.has_attention_bias, d);
  l.is_product = true;
  return l;
}

static void add_layer(plim_tape *t, plim_layered *m, plim_layered_layer *l, plim_dtype d) {
  const plim_config *c = &m->c;
  int64_t h = c->hidden, i = c->intermediate, width = (c->heads + 2 * key_heads(c)) * c->head_dim;
  bool is_sequential = !c->has_parallel_residual;
  l->linears[QUERY_KEY_VALUE] = linear_new(t, m, "self_attention.query_key_value", width, h, d);
  l->linears[DENSE] = linear_new(t, m, "self_attention.dense", h, h, d);
  l->linears[H_TO_4H] = linear_new(t, m, "mlp.dense_h_to_4h", i, h, d);
  l->linears[ONE_H] = linear_new(t, m, "mlp.dense_4h_to_h", h, i, d);
  if (is_sequential) l->norms[MLP_NORM] = plim_layered_norm(t, m, d);
  l->norms[FIRST_NORM] = plim_layered_norm(t, m, d);
  if (has_two_norms(c) && !is_sequential) l->norms[MLP_NORM] = plim_layered_norm(t, m, d);
  l->norm_paths[FIRST_NORM] = has_two_norms(c) ? "ln_attn" : "input_layernorm";
  if (l->norms[MLP_NORM].weight)
    l->norm_paths[MLP_NORM] = is_sequential ? "post_attention_layernorm" : "ln_mlp";
}

// ---- attention ------------------------------------------------------------------------------------

// Groups of queries, behind each of which are its key and its value, which are repeated for them.
static void split_groups(plim_tape *t, const plim_config *c, plim_tensor *fused, plim_tensor **q,
                         plim_tensor **k, plim_tensor **v) {
  int64_t b = fused->shape.at[0], length = fused->shape.at[1], d = c->head_dim;
  int64_t groups = c->kv_heads, each = c->heads / groups;
  plim_tensor *parts = NULL, *query = NULL, *key = NULL, *value = NULL;
  plim_dims shape = dims(b, length, groups, each, d), flat = dims(b, length, c->heads, d);
  set(t, &parts, view(t, fused, dims(b, length, groups, each + 2, d)));
  set(t, &query, slice(t, parts, 3, 0, each));
  set(t, &key, index_one(t, parts, 3));
  set(t, &value, index_one(t, parts, 3));
  set(t, &key, expand(t, key, shape));
  set(t, &value, expand(t, value, shape));
  set(t, q, reshape(t, query, flat));
  set(t, k, reshape(t, key, flat));
  set(t, v, reshape(t, value, flat));
  drop_all(t, &query, &key, &value, &parts);
}

// (B,T,...) -> query, key and value as (B,T,H,D)
static void split_heads(plim_tape *t, const plim_config *c, plim_tensor *fused, plim_tensor **q,
                        plim_tensor **k, plim_tensor **v) {
  int64_t b = fused->shape.at[0], length = fused->shape.at[1], d = c->head_dim;
  plim_tensor *parts = NULL;
  if (c->is_new_architecture) {
    split_groups(t, c, fused, q, k, v);
    return;
  }
  if (c->has_one_key_head) {
    set(t, &parts, view(t, fused, dims(b, length, c->heads + 2, d)));
    set(t, q, slice(t, parts, 2, 0, c->heads));
    set(t, k, index_one(t, parts, 2));
    set(t, v, index_one(t, parts, 2));
  } else {
    set(t, &parts, view(t, fused, dims(b, length, c->heads, 3, d)));
    set(t, q, select_index(t, parts, 3));
    set(t, k, select_index(t, parts, 3));
    set(t, v, select_index(t, parts, 3));
  }
  drop(t, &parts);
}

static void put_heads_first(plim_tape *t, plim_tensor **x) {
  plim_dims shape =
      dims((*x)->shape.at[0], (*x)->shape.at[2], (*x)->shape.at[1], (*x)->shape.at[3]);
  set(t, x, reshape(t, transpose(t, *x, 1, 2), shape));
}

// softmax(q @ k.T / scale + mask) @ v, without dropout
static plim_tensor *attend_eagerly(plim_tape *t, plim_tensor *q, plim_tensor *k, plim_tensor *v,
                                   plim_tensor *mask, plim_dtype dtype, plim_tensor **scores) {
  plim_tape_at(t, "attention");
  set(t, scores, matmul(t, q, transpose(t, k, 2, 3)));
  set(t, scores, mul_scalar_in_place(t, *scores));
  set(t, scores, softmax(t, add(t, *scores, mask), dtype));
  return matmul(t, *scores, v);
}

// The variables of attention with ALiBi, in the order in which they are released.
typedef struct {
  plim_tensor *scores, *product, *logits;
} alibi_variables;

// The same with ALiBi, in float32.
static plim_tensor *attend_with_alibi(plim_tape *t, const plim_config *c, plim_tensor *const *qkv,
                                      plim_tensor *alibi, plim_tensor *mask, plim_dtype dtype,
                                      alibi_variables *kept, plim_tensor **weights) {
  plim_tensor *sum = NULL;
  int64_t b = mask->shape.at[0], length = mask->shape.at[3];
  plim_tape_at(t, "attention");
  set(t, &kept->product, matmul(t, qkv[0], transpose(t, qkv[1], 2, 3)));
  set(t, &kept->scores, to(t, view(t, kept->product, kept->product->shape), PLIM_FP32));
  set(t, &kept->logits, add(t, kept->scores, view(t, alibi, dims(b, c->heads, 1, length))));
  set(t, &kept->logits, mul_scalar_in_place(t, kept->logits));
  set(t, &sum, add(t, kept->logits, mask));
  set(t, weights, softmax(t, sum, dtype));
  drop(t, &sum);
  set(t, weights, dropout(t, *weights, c->attention_dropout));
  return matmul(t, view(t, *weights, (*weights)->shape), qkv[2]);
}

// In the order in which the arguments of a layer are released.
enum { HELD_MASK, HELD_POSITIONS, HELD_ALIBI, HELD_SIN, HELD_COS };

static plim_tensor *attended(plim_tape *t, const plim_layered_layer *l, plim_tensor *const *qkv,
                             plim_tensor *const *held, plim_dtype dtype, alibi_variables *kept,
                             plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_tensor *mask = held[HELD_MASK], *alibi = held[HELD_ALIBI];
  bool is_eager = l->m->attention == PLIM_ATTENTION_EAGER;
  if (is_eager && alibi) return attend_with_alibi(t, c, qkv, alibi, mask, dtype, kept, weights);
  if (is_eager) return attend_eagerly(t, qkv[0], qkv[1], qkv[2], mask, dtype, weights);
  if (qkv[1]->shape.at[1] < c->heads) return broadcast_attention(t, qkv[0], qkv[1], qkv[2], mask);
  return full_attention(t, qkv[0], qkv[1], qkv[2], mask, alibi ? c->attention_dropout : 0);
}

static plim_tensor *self_attention(plim_tape *t, const plim_layered_layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_tensor *fused = NULL, *qkv[3] = {NULL}, *out = NULL;
  alibi_variables kept = {0};
  bool was = hold(x);
  set(t, &fused, plim_linear_forward(t, &l->linears[QUERY_KEY_VALUE], x));
  split_heads(t, c, fused, &qkv[0], &qkv[1], &qkv[2]);
  for (int i = 0; i < 3; i++) put_heads_first(t, &qkv[i]);
  if (!held[HELD_ALIBI]) plim_apply_rope(t, held[HELD_COS], held[HELD_SIN], &qkv[0], &qkv[1]);
  set(t, &out, attended(t, l, qkv, held, (plim_dtype)x->dtype, &kept, weights));
  plim_dims joined = dims(x->shape.at[0], x->shape.at[1], c->heads * c->head_dim);
  set(t, &out, reshape(t, transpose(t, out, 1, 2), joined));
  set(t, &out, plim_linear_forward(t, &l->linears[DENSE], out));
  drop_all(t, &fused, &qkv[0], &qkv[1], &qkv[2], &kept.scores, &kept.product, &kept.logits);
  plim_tensor *result = give(t, &out);
  let_go(t, x, was);
  return result;
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *mlp(plim_tape *t, const plim_layered_layer *l, plim_tensor *x) {
  plim_tensor *hidden = NULL;
  bool was = hold(x);
  set(t, &hidden, plim_linear_forward(t, &l->linears[H_TO_4H], x));
  set(t, &hidden, plim_activate(t, l->m->c.activation, hidden));
  set(t, &hidden, plim_linear_forward(t, &l->linears[ONE_H], hidden));
  plim_tensor *out = give(t, &hidden);
  let_go(t, x, was);
  return out;
}

// residual + dropout(x)
static plim_tensor *dropout_add(plim_tape *t, plim_tensor *x, plim_tensor *residual, double p) {
  plim_tensor *out = NULL;
  set(t, &out, dropout(t, x, p));
  set(t, &out, add(t, residual, out));
  return give(t, &out);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_layered_layer *l = context;
  const plim_config *c = &l->m->c;
  bool is_parallel = c->is_new_architecture || c->has_parallel_residual;
  plim_tensor *residual = NULL, *normed = NULL, *mlp_input = NULL, *paid = NULL, *weights = NULL;
  plim_tensor *fed = NULL;
  set(t, &residual, x);
  set(t, &normed, plim_norm_forward(t, &l->norms[FIRST_NORM], x));
  if (is_parallel && l->norms[MLP_NORM].weight)
    set(t, &mlp_input, plim_norm_forward(t, &l->norms[MLP_NORM], x));
  else set(t, &mlp_input, normed);
  set(t, &paid, self_attention(t, l, normed, held, &weights));
  if (!is_parallel) {
    set(t, &residual, dropout_add(t, paid, residual, c->attention_dropout));
    set(t, &mlp_input, plim_norm_forward(t, &l->norms[MLP_NORM], residual));
  }
  set(t, &fed, mlp(t, l, mlp_input));
  if (is_parallel) add_in_place(t, fed, paid);
  plim_tensor *out = dropout_add(t, fed, residual, c->dropout);
  drop_all(t, &residual, &normed, &mlp_input, &paid);
  set(t, &l->m->results[0], give(t, &weights));
  drop(t, &fed);
  return out;
}

// masked_fill(alibi / scale, mask < -1, lowest), of a mask that is no longer bool
static void add_alibi(plim_tape *t, const plim_layered *m, plim_tensor **alibi, plim_tensor **mask,
                      plim_dtype dtype) {
  int64_t b = (*mask)->shape.at[0], length = (*mask)->shape.at[3], heads = m->c.heads;
  if ((*mask)->dtype == PLIM_BOOL) {
    plim_tensor *zero = empty(t, (plim_dims){0}, dtype), *lowest = empty(t, (plim_dims){0}, dtype);
    plim_tensor *wide = empty(t, dims(b, 1, length, length), dtype);
    consume_all(t, lowest, zero);
    set(t, mask, wide);
  }
  set(t, alibi, view(t, *alibi, dims(b, heads, 1, length)));
  plim_tensor *scaled = div_scalar(t, *alibi);
  plim_tensor *is_masked = empty(t, dims(b, 1, length, length), PLIM_BOOL);
  plim_tensor *filled = empty(t, dims(b, heads, length, length), dtype);
  consume_all(t, scaled, is_masked);
  set(t, mask, filled);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_layered *m = (plim_layered *)model;
  int64_t length = batch->ids->shape.at[1];
  plim_tensor *embedded = NULL, *ones = NULL, *alibi = NULL, *positions = NULL, *mask = NULL;
  plim_tensor *hidden = NULL, *cos = NULL, *sin = NULL, *weights = NULL, *last = NULL;
  m->attention = batch->attention;
  set(t, &embedded, plim_embed(t, batch, m->words, batch->ids));
  plim_dtype dtype = (plim_dtype)embedded->dtype;
  if (m->c.has_alibi) {
    set(t, &ones, batch->mask ? batch->mask : empty(t, batch->ids->shape, PLIM_I64));
    set(t, &alibi, plim_alibi(t, ones, m->c.heads, dtype));
  }
  set(t, &positions, plim_position_ids(t, length));
  set(t, &mask, plim_whole_causal_mask(t, batch->attention, embedded, batch->mask));
  if (alibi) add_alibi(t, m, &alibi, &mask, dtype);
  plim_rotary(t, m->rope.inv_freq, length, dtype, false, &cos, &sin);
  set(t, &hidden, embedded);
  plim_closure call = {run_layer, NULL, {mask, positions, alibi, sin, cos}};
  plim_layered_run(t, m, batch, call, &hidden, &weights);
  set(t, &last, hidden);
  set(t, &hidden, plim_layered_last_norm(t, m, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &positions, &embedded, &alibi, &ones, &mask, &sin, &cos, &weights, &last);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *falcon_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_layered_code code = {.layers = "transformer.h",
                                         .add_layer = add_layer,
                                         .forward = model_forward,
                                         .has_rotary = true};
  return plim_layered_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  if (c->is_new_architecture && !c->has_parallel_residual)
    return "new_decoder_architecture but without parallel attention";
  return NULL;
}

const plim_family plim_family_falcon = {
    .model_type = "falcon",
    .has_no_padding_row = true,
    .build = falcon_new,
    .defaults = {.hidden = 4544,
                 .layers = 32,
                 .heads = 71,
                 .vocabulary = 65024,
                 .positions = 2048,
                 .activation = PLIM_ACT_GELU,
                 .has_one_key_head = true,
                 .has_parallel_residual = true,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .divides_width = true,
    .lacks_flash = true,
    .lists_attention = true,
    .lora_targets = "query_key_value",
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .ships_code = true,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_BREAKS,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
