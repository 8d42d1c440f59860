// MPT: ALiBi in place of positions, eager attention, LayerNorms without biases.
#include "families.h"
#include "layered.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum { WQKV, OUT_PROJ, UP_PROJ, DOWN_PROJ }; // linear layers
enum { NORM_1, NORM_2 };

static void add_layer(plim_tape *t, plim_layered *m, plim_layered_layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  l->norms[NORM_1] = plim_layered_norm(t, m, d);
  l->linears[WQKV] = plim_linear_new(t, &m->model, "attn.Wqkv", 3 * h, h, false, d);
  l->linears[OUT_PROJ] = plim_linear_new(t, &m->model, "attn.out_proj", h, h, false, d);
  l->norms[NORM_2] = plim_layered_norm(t, m, d);
  l->linears[UP_PROJ] = plim_linear_new(t, &m->model, "ffn.up_proj", i, h, false, d);
  l->linears[DOWN_PROJ] = plim_linear_new(t, &m->model, "ffn.down_proj", h, i, false, d);
  l->norm_paths[NORM_1] = "norm_1";
  l->norm_paths[NORM_2] = "norm_2";
}

// ---- forward --------------------------------------------------------------------------------------

// In the order in which the arguments of a layer are released.
enum { HELD_MASK, HELD_BIAS };

// softmax(q @ k.T * scale + bias, masked) @ v, with the bias in float32
static plim_tensor *attended(plim_tape *t, const plim_config *c, plim_tensor *const *qkv,
                             plim_tensor *const *held, plim_tensor **scores,
                             plim_tensor **weights) {
  plim_tape_at(t, "attention");
  set(t, scores, mul_scalar(t, matmul(t, qkv[0], transpose(t, qkv[1], 2, 3))));
  int64_t kept = qkv[1]->shape.at[2], all = held[HELD_BIAS]->shape.at[2];
  set(t, scores, add(t, *scores, slice(t, held[HELD_BIAS], 2, all - kept, all)));
  set(t, scores, masked_fill(t, *scores, held[HELD_MASK]));
  set(t, weights, to(t, softmax(t, *scores, PLIM_FP32), (plim_dtype)qkv[2]->dtype));
  set(t, weights, dropout(t, *weights, c->attention_dropout));
  return matmul(t, *weights, qkv[2]);
}

static plim_tensor *self_attention(plim_tape *t, const plim_layered_layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_tensor *mixed = NULL, *qkv[3] = {NULL}, *scores = NULL, *out = NULL;
  set(t, &mixed, plim_linear_forward(t, &l->linears[WQKV], x));
  split(t, mixed, &qkv[0], &qkv[1], &qkv[2]);
  for (int i = 0; i < 3; i++) set(t, &qkv[i], plim_split_heads(t, qkv[i], c->head_dim, NULL));
  set(t, &out, attended(t, c, qkv, held, &scores, weights));
  set(t, &out, contiguous(t, transpose(t, out, 1, 2)));
  set(t, &out, view(t, out, x->shape));
  plim_tensor *result = plim_linear_forward(t, &l->linears[OUT_PROJ], out);
  drop_all(t, &mixed, &qkv[0], &qkv[1], &qkv[2], &scores, &out);
  return result;
}

// dropout(down(gelu(up(x)))) + residual
static plim_tensor *feed(plim_tape *t, const plim_layered_layer *l, plim_tensor *x,
                         plim_tensor *residual) {
  plim_tensor *hidden = NULL, *fed = NULL, *out = NULL;
  set(t, &hidden, gelu(t, plim_linear_forward(t, &l->linears[UP_PROJ], x)));
  set(t, &fed, plim_linear_forward(t, &l->linears[DOWN_PROJ], hidden));
  set(t, &out, dropout(t, fed, l->m->c.attention_dropout));
  set(t, &out, add(t, out, residual));
  drop_all(t, &hidden, &fed);
  return give(t, &out);
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_layered_layer *l = context;
  plim_tensor *hidden = NULL, *normed = NULL, *paid = NULL, *weights = NULL;
  set(t, &normed, plim_norm_forward(t, &l->norms[NORM_1], x));
  set(t, &paid, self_attention(t, l, normed, held, &weights));
  set(t, &hidden, add(t, dropout(t, paid, l->m->c.attention_dropout), x));
  set(t, &normed, plim_norm_forward(t, &l->norms[NORM_2], hidden));
  plim_tensor *out = feed(t, l, normed, hidden);
  drop_all(t, &normed, &hidden, &paid);
  set(t, &l->m->results[0], give(t, &weights));
  return out;
}

// build_mpt_alibi_tensor: (H,1,P), of all positions that the model has. In float32.
static plim_tensor *alibi_new(plim_tape *t, int64_t heads, int64_t positions) {
  plim_tensor *distances = empty(t, dims(positions), PLIM_I32), *base = NULL, *slopes = NULL;
  plim_tensor *numbers = empty(t, dims(heads), PLIM_I64);
  set(t, &base, to(t, numbers, PLIM_FP32));
  set(t, &base, mul_scalar(t, base));
  plim_tensor *powers = empty(t, dims(heads), PLIM_FP32);
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_I64));
  plim_tensor *inverse = empty(t, dims(heads), PLIM_FP32);
  set(t, &slopes, empty(t, dims(heads), PLIM_FP32));
  consume_all(t, inverse, powers);
  plim_tensor *out = empty(t, dims(heads, 1, positions), PLIM_FP32);
  plim_consume(t, distances);
  drop_all(t, &base, &slopes);
  return out;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_layered *m = (plim_layered *)model;
  plim_tensor *embedded = NULL, *hidden = NULL, *bias = NULL, *mask = NULL, *weights = NULL;
  plim_tensor *last = NULL;
  set(t, &embedded, plim_embed(t, batch, m->words, batch->ids));
  set(t, &hidden, embedded);
  set(t, &bias, alibi_new(t, m->c.heads, m->c.positions));
  set(t, &mask,
      to(t,
         plim_causal_mask(t, PLIM_ATTENTION_EAGER, batch->mask_kind, embedded, NULL, batch->mask),
         PLIM_BOOL));
  plim_closure call = {run_layer, NULL, {mask, bias}};
  plim_layered_run(t, m, batch, call, &hidden, &weights);
  set(t, &last, hidden);
  set(t, &hidden, plim_layered_last_norm(t, m, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &embedded, &bias, &mask, &weights, &last);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *mpt_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_layered_code code = {.layers = "transformer.blocks",
                                         .add_layer = add_layer,
                                         .forward = model_forward,
                                         .has_unbiased_norms = true};
  return plim_layered_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  if (c->qkv_bound != 0) return "clipped queries, keys and values";
  return c->heads & (c->heads - 1) ? "a number of heads that is not a power of two" : NULL;
}

const plim_family plim_family_mpt = {
    .model_type = "mpt",
    .has_no_padding_row = true,
    .build = mpt_new,
    .defaults = {.hidden = 2048,
                 .layers = 24,
                 .heads = 16,
                 .vocabulary = 50368,
                 .positions = 2048,
                 .activation = PLIM_ACT_GELU,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .divides_width = true,
    .lacks_sdpa = true,
    .is_refused_flash = true,
    .lora_targets = "Wqkv",
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .ships_code = true,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_BREAKS,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
