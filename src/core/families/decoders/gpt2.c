// GPT-2: learned positions, LayerNorm, Conv1D projections, dropout.
#include "families.h"
#include "heads.h"
#include "modules.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

typedef struct {
  const struct plim_gpt2 *m;
  plim_norm ln_1, ln_2;
  plim_linear c_attn, attn_proj, c_fc, mlp_proj; // Conv1D
  plim_tensor *bias, *masked_bias;               // buffers of older versions
} block;

typedef struct plim_gpt2 {
  plim_model model;
  plim_config c;
  plim_tensor *wte, *wpe;
  block *blocks;
  plim_norm ln_f;
  plim_attention_kind attention; // of the batch that runs
} plim_gpt2;

// ---- construction ---------------------------------------------------------------------------------

// Buffers of attention, up to 5.1: tril(ones((positions, positions))); before 5.0 also the value of masked scores.
static void add_bias(plim_tape *t, const plim_gpt2 *m, block *b, plim_dtype d) {
  if (plim_transformers_from(t, 5, 2)) return;
  plim_dims square = dims(m->c.positions, m->c.positions);
  plim_tensor *ones = empty(t, square, PLIM_BOOL);
  set(t, &b->bias, empty(t, square, PLIM_BOOL));
  plim_consume(t, ones);
  if (!plim_transformers_from(t, 5, 0)) set(t, &b->masked_bias, empty(t, (plim_dims){0}, d));
}

static block block_new(plim_tape *t, plim_gpt2 *m, plim_dtype d) {
  int64_t h = m->c.hidden;
  block b = {.m = m, .ln_1 = plim_norm_new(t, &m->model, h, d)};
  add_bias(t, m, &b, d);
  b.c_attn = plim_conv1d_new(t, &m->model, "attn.c_attn", h, 3 * h, d);
  b.attn_proj = plim_conv1d_new(t, &m->model, "attn.c_proj", h, h, d);
  b.attn_proj.name = "attn.c_proj";
  b.ln_2 = plim_norm_new(t, &m->model, h, d);
  b.c_fc = plim_conv1d_new(t, &m->model, "mlp.c_fc", h, m->c.intermediate, d);
  b.mlp_proj = plim_conv1d_new(t, &m->model, "mlp.c_proj", m->c.intermediate, h, d);
  b.mlp_proj.name = "mlp.c_proj";
  return b;
}

static void build(plim_tape *t, plim_gpt2 *m, plim_dtype d) {
  plim_dims table = dims(m->c.vocabulary, m->c.hidden);
  m->model.place = "transformer.h";
  m->model.spot = PLIM_SPOT_BESIDE;
  m->wte = plim_model_table(t, &m->model, table, d, false);
  plim_model_name(&m->model, "wte", "weight");
  if (m->c.head == PLIM_HEAD_CAUSAL) m->model.head = m->wte;
  m->wpe = plim_model_parameter(t, &m->model, dims(m->c.positions, m->c.hidden), d);
  plim_model_name(&m->model, "wpe", "weight");
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->model.spot = 1 + i;
    m->blocks[i] = block_new(t, m, d);
  }
  m->model.spot = PLIM_SPOT_BESIDE;
  m->ln_f = plim_norm_new(t, &m->model, m->c.hidden, d);
  if (m->c.head == PLIM_HEAD_CAUSAL)
    plim_consume(t, empty(t, table, d)); // lm_head's own weight, gone when it is tied
  else plim_label_head_new(t, &m->model, &m->c, d);
}

static void in_name_order(plim_model *model, plim_visit *visit, void *context) {
  plim_gpt2 *m = (plim_gpt2 *)model;
  for (int64_t i = 0; i < m->c.layers; i++) {
    const block *b = &m->blocks[i];
    plim_linear_visit(&b->c_attn, visit, context);
    plim_linear_visit(&b->attn_proj, visit, context);
    plim_norm_visit(&b->ln_1, visit, context);
    plim_norm_visit(&b->ln_2, visit, context);
    plim_linear_visit(&b->c_fc, visit, context);
    plim_linear_visit(&b->mlp_proj, visit, context);
  }
  plim_norm_visit(&m->ln_f, visit, context);
  visit(context, m->wpe);
  visit(context, m->wte);
  plim_label_head_visit(model, visit, context);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_gpt2 *m = (plim_gpt2 *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    block *b = &m->blocks[i];
    plim_lora_add_all(t, model, lora, "transformer.h", i, &b->c_attn, &b->attn_proj, &b->c_fc,
                      &b->mlp_proj);
  }
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

// Eager attention up to 5.1: scores divided by a tensor, and masked by the layer's own buffer too.
static plim_tensor *attend_before(plim_tape *t, const block *b, plim_tensor *q, plim_tensor *k,
                                  plim_tensor *v, plim_tensor *mask, plim_tensor **kept) {
  int64_t length = q->shape.at[2];
  plim_tensor *weights = NULL, *lowest = NULL;
  plim_tape_at(t, "attention");
  set(t, &weights, matmul(t, q, transpose(t, k, 2, 3)));
  plim_dtype dtype = (plim_dtype)weights->dtype;
  set(t, &weights, divide(t, weights, empty(t, (plim_dims){0}, dtype)));
  set(t, &lowest, empty(t, (plim_dims){0}, dtype));
  plim_tensor *is_before = slice(t, slice(t, b->bias, 0, 0, length), 1, 0, length);
  set(t, &weights, where_else(t, is_before, weights, lowest));
  if (mask) set(t, &weights, add(t, weights, mask));
  set(t, &weights, plim_softmax_own(t, weights));
  set(t, &weights, to(t, weights, (plim_dtype)v->dtype));
  set(t, &weights, dropout(t, weights, b->m->c.attention_dropout));
  plim_tape_at(t, "attention");
  plim_tensor *out = transpose(t, matmul(t, weights, v), 1, 2);
  drop(t, &lowest);
  set(t, kept, give(t, &weights));
  return out;
}

static plim_tensor *self_attention(plim_tape *t, const block *b, plim_tensor *x, plim_tensor *mask,
                                   plim_tensor **weights) {
  const plim_config *c = &b->m->c;
  int64_t head_dim = c->hidden / c->heads;
  plim_attending how = {.kind = b->m->attention,
                        .dropout_p = c->attention_dropout,
                        .softmax = PLIM_SOFTMAX_OWN_AND_BACK,
                        .is_left_strided = true};
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  split(t, plim_linear_forward(t, &b->c_attn, x), &q, &k, &v);
  bool is_query_first = !plim_transformers_from(t, 4, 48);
  if (is_query_first) set(t, &q, plim_split_heads(t, q, head_dim, NULL));
  set(t, &k, plim_split_heads(t, k, head_dim, NULL));
  set(t, &v, plim_split_heads(t, v, head_dim, NULL));
  if (!is_query_first) set(t, &q, plim_split_heads(t, q, head_dim, NULL));
  set(t, &out,
      b->bias && how.kind == PLIM_ATTENTION_EAGER ? attend_before(t, b, q, k, v, mask, weights)
                                                  : plim_attend(t, &how, q, k, v, mask, weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &b->attn_proj, out));
  set(t, &out, dropout(t, out, c->dropout));
  drop_all(t, &q, &k, &v);
  return give(t, &out);
}

static plim_tensor *mlp(plim_tape *t, const block *b, plim_tensor *x) {
  plim_tensor *hidden = NULL;
  set(t, &hidden, plim_linear_forward(t, &b->c_fc, x));
  set(t, &hidden, plim_activate(t, b->m->c.activation, hidden));
  set(t, &hidden, plim_linear_forward(t, &b->mlp_proj, hidden));
  set(t, &hidden, dropout(t, hidden, b->m->c.dropout));
  return give(t, &hidden);
}

enum { HELD_MASK, HELD_MASK_BEFORE }; // where the mask is; before 5.4 the positions were first

static plim_tensor *run_block(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const block *b = context;
  plim_tensor *mask = held[plim_transformers_from(t, 5, 4) ? HELD_MASK : HELD_MASK_BEFORE];
  plim_tensor *hidden = NULL, *residual = NULL, *attended = NULL, *fed = NULL, *weights = NULL;
  set(t, &residual, x);
  set(t, &hidden, plim_norm_forward(t, &b->ln_1, x));
  set(t, &attended, self_attention(t, b, hidden, mask, &weights));
  set(t, &hidden, add(t, attended, residual));
  set(t, &residual, hidden);
  set(t, &hidden, plim_norm_forward(t, &b->ln_2, hidden));
  set(t, &fed, mlp(t, b, hidden));
  set(t, &hidden, add(t, residual, fed));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &attended, &weights, &fed);
  return out;
}

static plim_tensor *last_norm(plim_tape *t, const plim_gpt2 *m, plim_tensor *hidden) {
  plim_tensor *x = plim_part_enter(t, PLIM_PART_NORM, hidden);
  return plim_part_leave(t, PLIM_PART_NORM, plim_norm_forward(t, &m->ln_f, x));
}

// Before 4.52, eager attention has no causal mask but the layer's buffer.
static plim_tensor *mask_new(plim_tape *t, const plim_batch *batch, plim_tensor *embedded,
                             plim_tensor *positions) {
  bool is_eager = batch->attention == PLIM_ATTENTION_EAGER;
  if (plim_transformers_from(t, 4, 52) || !is_eager)
    return plim_causal_mask(t, batch->attention, batch->mask_kind, embedded, positions,
                            batch->mask);
  return batch->mask ? plim_extended_mask(t, batch->attention, batch->mask_kind,
                                          (plim_dtype)embedded->dtype, batch->mask)
                     : NULL;
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_gpt2 *m = (plim_gpt2 *)model;
  int64_t length = batch->ids->shape.at[1];
  plim_tensor *ids = NULL, *embedded = NULL, *positions = NULL, *placed = NULL, *hidden = NULL;
  plim_tensor *mask = NULL, *last = NULL;
  m->attention = batch->attention;
  set(t, &ids, view(t, batch->ids, dims(-1, length)));
  bool counts_first = !plim_transformers_from(t, 4, 52);
  if (counts_first) set(t, &positions, plim_position_ids(t, length));
  set(t, &embedded, plim_embed(t, batch, m->wte, ids));
  if (!counts_first) set(t, &positions, plim_position_ids(t, length));
  set(t, &placed, plim_look_up(t, m->wpe, positions));
  set(t, &hidden, add(t, embedded, placed));
  set(t, &mask, mask_new(t, batch, embedded, positions));
  set(t, &hidden, dropout(t, hidden, m->c.embedding_dropout));
  for (int64_t i = 0; i < m->c.layers; i++) {
    plim_closure call = {run_block, &m->blocks[i], {mask, positions}, .positional = 1};
    if (!plim_transformers_from(t, 5, 4)) // cache_position is an argument before the mask
      call = (plim_closure){run_block, &m->blocks[i], {positions, mask}, .positional = 2};
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
  }
  if (!plim_transformers_from(t, 5, 3)) set(t, &last, hidden); // a variable holds it
  set(t, &hidden, last_norm(t, m, hidden));
  set(t, &hidden, view(t, hidden, hidden->shape));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &ids, &positions, &embedded, &placed, &mask, &last);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *gpt2_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_gpt2 *m = plim_model_new(sizeof *m, (plim_model){.forward = plim_causal_forward,
                                                        .inner = model_forward,
                                                        .add_lora = add_lora,
                                                        .in_name_order = in_name_order,
                                                        .has_aligned_labels = true});
  if (!m) return NULL;
  m->c = *config;
  m->blocks = plim_model_array(&m->model, config->layers, sizeof *m->blocks);
  if (m->blocks) build(t, m, dtype);
  return plim_model_finish(&m->model);
}

static const char *unfollowed(const plim_config *c) {
  return c->ties_embeddings ? NULL : "a head of its own";
}

const plim_family plim_family_gpt2 = {
    .model_type = "gpt2",
    .has_no_padding_row = true,
    .build = gpt2_new,
    .defaults = {.hidden = 768,
                 .layers = 12,
                 .heads = 12,
                 .positions = 1024,
                 .vocabulary = 50257,
                 .activation = PLIM_ACT_NEW_GELU,
                 .dropout = 0.1,
                 .attention_dropout = 0.1,
                 .embedding_dropout = 0.1,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .has_any_activation = true,
    .divides_width = true,
    .has_inline_loss = true,
    .has_position_table = true,
    .lora_targets = "c_attn",
    .loss_function_from = PLIM_RELEASE(4, 48),
    .logits_to_keep_from = PLIM_RELEASE(4, 53),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_SHARDED |
                PLIM_RECORDED_DEEPSPEED | PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 |
                PLIM_RECORDED_TORCH,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_NONE,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
