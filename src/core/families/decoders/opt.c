// OPT: learned positions, counted from the mask; LayerNorms, ReLU, dropout.
#include "families.h"
#include "kernels.h"
#include "layered.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

enum {
  K_PROJ,
  V_PROJ,
  Q_PROJ,
  OUT_PROJ,
  FC1,
  FC2
}; // linear layers, in the order they are built in
enum { ATTENTION_NORM, MLP_NORM };

static plim_linear square_new(plim_tape *t, plim_layered *m, const char *path, plim_dtype d) {
  return plim_linear_new(t, &m->model, path, m->c.hidden, m->c.hidden, true, d);
}

static void add_layer(plim_tape *t, plim_layered *m, plim_layered_layer *l, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  l->linears[K_PROJ] = square_new(t, m, "self_attn.k_proj", d);
  l->linears[V_PROJ] = square_new(t, m, "self_attn.v_proj", d);
  l->linears[Q_PROJ] = square_new(t, m, "self_attn.q_proj", d);
  l->linears[OUT_PROJ] = square_new(t, m, "self_attn.out_proj", d);
  l->norms[ATTENTION_NORM] = plim_layered_norm(t, m, d);
  l->linears[FC1] = plim_linear_new(t, &m->model, "fc1", i, h, true, d);
  l->linears[FC2] = plim_linear_new(t, &m->model, "fc2", h, i, true, d);
  l->norms[MLP_NORM] = plim_layered_norm(t, m, d);
  l->norm_paths[ATTENTION_NORM] = "self_attn_layer_norm";
  l->norm_paths[MLP_NORM] = "final_layer_norm";
}

// ---- forward --------------------------------------------------------------------------------------

// In the order in which the arguments of a layer are released.
enum { HELD_MASK, HELD_POSITIONS };

static plim_tensor *self_attention(plim_tape *t, const plim_layered_layer *l, plim_tensor *x,
                                   plim_tensor *mask, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_attending how = {.kind = l->m->attention, .dropout_p = c->attention_dropout};
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  bool was = hold(x);
  set(t, &q, mul_scalar(t, plim_linear_forward(t, &l->linears[Q_PROJ], x)));
  set(t, &q, plim_split_heads(t, q, c->head_dim, NULL));
  set(t, &k, plim_linear_forward(t, &l->linears[K_PROJ], x));
  set(t, &v, plim_linear_forward(t, &l->linears[V_PROJ], x));
  set(t, &k, plim_split_heads(t, k, c->head_dim, NULL));
  set(t, &v, plim_split_heads(t, v, c->head_dim, NULL));
  set(t, &out, plim_attend(t, &how, q, k, v, mask, weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &l->linears[OUT_PROJ], out));
  drop_all(t, &q, &k, &v);
  plim_tensor *result = give(t, &out);
  let_go(t, x, was);
  return result;
}

// The MLP works on rows of all sequences together.
static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const plim_layered_layer *l = context;
  plim_tensor *hidden = NULL, *residual = NULL, *weights = NULL;
  plim_dims shape = x->shape;
  set(t, &residual, x);
  set(t, &hidden, plim_norm_forward(t, &l->norms[ATTENTION_NORM], x));
  set(t, &hidden, self_attention(t, l, hidden, held[HELD_MASK], &weights));
  set(t, &hidden, dropout(t, hidden, l->m->c.dropout));
  set(t, &hidden, add(t, residual, hidden));
  set(t, &hidden, reshape(t, hidden, dims(-1, shape.at[2])));
  set(t, &residual, hidden);
  set(t, &hidden, plim_norm_forward(t, &l->norms[MLP_NORM], hidden));
  set(t, &hidden, plim_linear_forward(t, &l->linears[FC1], hidden));
  set(t, &hidden, plim_activate(t, l->m->c.activation, hidden));
  set(t, &hidden, plim_linear_forward(t, &l->linears[FC2], hidden));
  set(t, &hidden, dropout(t, hidden, l->m->c.dropout));
  set(t, &hidden, view(t, add(t, residual, hidden), shape));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &residual, &weights);
  return out;
}

// (cumsum(mask) * mask - 1).long()
static plim_tensor *positions_from(plim_tape *t, plim_tensor *mask) {
  plim_tensor *counted = NULL;
  plim_dtype dtype = (plim_dtype)mask->dtype;
  set(t, &counted, empty(t, mask->shape, dtype));
  if (mask->shape.at[0] == 1)
    plim_consume(t, scratch(t, k_scan_bytes(t, mask->shape.at[1], K_SCAN_TILE, dtype)));
  set(t, &counted, to(t, add_scalar(t, mul(t, counted, mask)), PLIM_I64));
  return give(t, &counted);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_layered *m = (plim_layered *)model;
  plim_tensor *given = NULL, *embedded = NULL, *positions = NULL, *mask = NULL, *placed = NULL;
  plim_tensor *hidden = NULL, *weights = NULL;
  m->attention = batch->attention;
  set(t, &embedded, plim_embed(t, batch, m->words, batch->ids));
  set(t, &given, batch->mask ? batch->mask : empty(t, batch->ids->shape, PLIM_FP32));
  set(t, &positions, positions_from(t, given));
  set(t, &mask,
      plim_causal_mask(t, batch->attention, batch->mask ? batch->mask_kind : PLIM_MASK_ONES,
                       embedded, NULL, given));
  set(t, &placed, plim_look_up(t, m->positions, add_scalar(t, positions)));
  set(t, &hidden, add(t, embedded, placed));
  plim_closure call = {run_layer, NULL, {mask, positions}};
  plim_layered_run(t, m, batch, call, &hidden, &weights);
  set(t, &hidden, plim_layered_last_norm(t, m, hidden));
  plim_tensor *out = give(t, &hidden);
  drop_all(t, &given, &embedded, &positions, &mask, &placed, &weights);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *opt_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  enum { OFFSET = 2 };
  static const plim_layered_code code = {.layers = "model.decoder.layers",
                                         .add_layer = add_layer,
                                         .forward = model_forward,
                                         .has_positions = true,
                                         .spare_positions = OFFSET,
                                         .builds_norm_first = true,
                                         .names_tables_first = true};
  return plim_layered_new(t, c, dtype, &code);
}

static const char *unfollowed(const plim_config *c) {
  if (!c->has_attention_bias) return "layers without biases";
  if (c->embedding != c->hidden) return "embeddings narrower than the layers (word_embed_proj_dim)";
  return c->has_norms_before ? NULL : "norms after attention and MLP (do_layer_norm_before: false)";
}

const plim_family plim_family_opt = {
    .model_type = "opt",
    .build = opt_new,
    .defaults = {.has_padding_row = true,
                 .hidden = 768,
                 .intermediate = 3072,
                 .layers = 12,
                 .heads = 12,
                 .vocabulary = 50272,
                 .positions = 2048,
                 .activation = PLIM_ACT_RELU,
                 .dropout = 0.1,
                 .has_attention_bias = true,
                 .has_norms_before = true,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .has_any_activation = true,
    .divides_width = true,
    .has_position_table = true,
    .lora_targets = "q_proj,v_proj",
    .lacks_heads = 1u << PLIM_HEAD_TEXTS | 1u << PLIM_HEAD_TOKENS | 1u << PLIM_HEAD_ANSWERS,
    .recorded = PLIM_RECORDED_TRAINING,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_GENERIC,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
