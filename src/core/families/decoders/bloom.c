// BLOOM: ALiBi, which is added in the product of queries and keys; eager attention; a GELU of its own.
#include "alibi.h"
#include "families.h"
#include "layered.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum { QUERY_KEY_VALUE, DENSE, WIDEN, NARROW }; // linear layers
enum { INPUT_NORM, POST_NORM };

static void add_layer(plim_tape *t, plim_layered *m, plim_layered_layer *l, plim_dtype d) {
  int64_t h = m->c.hidden;
  plim_model *model = &m->model;
  l->norms[INPUT_NORM] = plim_layered_norm(t, m, d);
  l->linears[QUERY_KEY_VALUE] =
      plim_linear_new(t, model, "self_attention.query_key_value", 3 * h, h, true, d);
  l->linears[DENSE] = plim_linear_new(t, model, "self_attention.dense", h, h, true, d);
  l->norms[POST_NORM] = plim_layered_norm(t, m, d);
  l->linears[WIDEN] = plim_linear_new(t, model, "mlp.dense_h_to_4h", 4 * h, h, true, d);
  l->linears[NARROW] = plim_linear_new(t, model, "mlp.dense_4h_to_h", h, 4 * h, true, d);
  l->norm_paths[INPUT_NORM] = "input_layernorm";
  l->norm_paths[POST_NORM] = "post_attention_layernorm";
}

// ---- forward --------------------------------------------------------------------------------------

// In the order in which the arguments of a layer are released.
enum { HELD_MASK, HELD_ALIBI };

// The queries, keys or values of a fused projection (B,T,H,3,D), as (B*H,T,D).
static plim_tensor *part_of(plim_tape *t, const plim_config *c, plim_tensor *fused) {
  plim_tensor *part = transpose(t, select_index(t, fused, 3), 1, 2);
  return reshape(t, part, dims(-1, fused->shape.at[1], c->head_dim));
}

// residual + dropout(x)
static plim_tensor *added(plim_tape *t, const plim_config *c, plim_tensor *x,
                          plim_tensor *residual) {
  return add(t, residual, dropout(t, x, c->dropout));
}

static plim_tensor *self_attention(plim_tape *t, const plim_layered_layer *l, plim_tensor *x,
                                   plim_tensor *residual, plim_tensor *const *held,
                                   plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  int64_t batch = x->shape.at[0], length = x->shape.at[1];
  plim_tensor *fused = NULL, *heads = NULL, *q = NULL, *k = NULL, *v = NULL, *scores = NULL;
  plim_tensor *masked = NULL, *out = NULL;
  set(t, &fused, plim_linear_forward(t, &l->linears[QUERY_KEY_VALUE], x));
  set(t, &heads, view(t, fused, dims(batch, length, c->heads, 3, c->head_dim)));
  set(t, &q, part_of(t, c, heads));
  set(t, &k, part_of(t, c, heads));
  set(t, &v, part_of(t, c, heads));
  drop(t, &heads);
  plim_tape_at(t, "attention");
  set(t, &k, transpose(t, k, 1, 2));
  set(t, &scores, add_product(t, held[HELD_ALIBI], q, k));
  set(t, &masked, view(t, scores, dims(batch, c->heads, length, length)));
  set(t, &masked, add(t, masked, held[HELD_MASK]));
  set(t, weights, to(t, softmax(t, masked, PLIM_FP32), (plim_dtype)q->dtype));
  set(t, weights, dropout(t, *weights, c->attention_dropout));
  set(t, &out, bmm(t, view(t, *weights, dims(-1, length, length)), v));
  set(t, &out, view(t, out, dims(batch, c->heads, length, c->head_dim)));
  set(t, &out, reshape(t, transpose(t, out, 1, 2), dims(batch, length, c->hidden)));
  plim_tensor *sum = NULL;
  set(t, &sum, plim_linear_forward(t, &l->linears[DENSE], out));
  set(t, &sum, added(t, c, sum, residual));
  drop_all(t, &fused, &q, &k, &v, &scores, &masked, &out);
  return give(t, &sum);
}

static plim_tensor *feed(plim_tape *t, const plim_layered_layer *l, plim_tensor *x,
                         plim_tensor *residual) {
  plim_tensor *hidden = NULL, *narrow = NULL;
  set(t, &hidden, written_gelu(t, plim_linear_forward(t, &l->linears[WIDEN], x)));
  set(t, &narrow, plim_linear_forward(t, &l->linears[NARROW], hidden));
  plim_tensor *out = added(t, &l->m->c, narrow, residual);
  drop_all(t, &hidden, &narrow);
  return out;
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_layered_layer *l = context;
  plim_tensor *normed = NULL, *attended = NULL, *weights = NULL;
  set(t, &normed, plim_norm_forward(t, &l->norms[INPUT_NORM], x));
  set(t, &attended, self_attention(t, l, normed, x, held, &weights));
  set(t, &normed, plim_norm_forward(t, &l->norms[POST_NORM], attended));
  plim_tensor *out = feed(t, l, normed, attended);
  drop_all(t, &normed, &attended);
  set(t, &l->m->results[0], give(t, &weights));
  return out;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_layered *m = (plim_layered *)model;
  plim_tensor *embedded = NULL, *ones = NULL, *alibi = NULL, *mask = NULL, *hidden = NULL;
  plim_tensor *weights = NULL, *last = NULL;
  set(t, &embedded, plim_embed(t, batch, m->words, batch->ids));
  set(t, &hidden, plim_norm_forward(t, &m->word_norm, embedded));
  set(t, &ones, batch->mask ? batch->mask : empty(t, batch->ids->shape, PLIM_FP32));
  set(t, &alibi, plim_alibi_wide(t, ones, m->c.heads, (plim_dtype)hidden->dtype));
  plim_mask_kind kind = batch->mask ? batch->mask_kind : PLIM_MASK_ONES;
  set(t, &mask, plim_causal_mask(t, PLIM_ATTENTION_EAGER, kind, embedded, NULL, ones));
  plim_closure call = {run_layer, NULL, {mask, alibi}};
  plim_layered_run(t, m, batch, call, &hidden, &weights);
  set(t, &last, hidden);
  set(t, &hidden, plim_layered_last_norm(t, m, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &ones, &embedded, &alibi, &mask, &weights, &last);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *bloom_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_layered_code code = {.layers = "transformer.h",
                                         .add_layer = add_layer,
                                         .forward = model_forward,
                                         .has_word_norm = true};
  return plim_layered_new(t, c, dtype, &code);
}

const plim_family plim_family_bloom = {
    .model_type = "bloom",
    .has_no_padding_row = true,
    .build = bloom_new,
    .defaults = {.hidden = 64,
                 .layers = 2,
                 .heads = 8,
                 .vocabulary = 250880,
                 .activation = PLIM_ACT_GELU,
                 .ties_embeddings = true},
    .divides_width = true,
    .lacks_sdpa = true,
    .is_refused_flash = true,
    .lora_targets = "query_key_value",
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_BREAKS,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
