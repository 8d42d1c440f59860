// GPT-NeoX (Pythia): attention and MLP side by side, part of each head turned.
#include "families.h"
#include "heads.h"
#include "modules.h"
#include "ops.h"
#include "rope.h"
#include "tape_state.h"

#include "op_names.h"

typedef struct {
  const struct plim_gpt_neox *m;
  plim_norm input_norm, post_attention_norm;
  plim_linear query_key_value, dense, dense_h_to_4h, dense_4h_to_h;
  plim_tensor *bias, *masked_bias; // buffers, before 4.49
  plim_rope_buffers rope;          // not used
} layer;

typedef struct plim_gpt_neox {
  plim_model model;
  plim_config c;
  plim_tensor *embed_in;
  plim_rope_buffers rope;
  layer *layers;
  plim_norm final_norm;
  plim_attention_kind attention; // of the batch that runs
} plim_gpt_neox;

// ---- construction ---------------------------------------------------------------------------------

// tril(ones((positions, positions))), the value of masked scores, and rotary frequencies.
static void add_buffers(plim_tape *t, const plim_gpt_neox *m, layer *l, plim_dtype d) {
  plim_dims square = dims(m->c.positions, m->c.positions);
  plim_tensor *ones = empty(t, square, PLIM_BOOL);
  set(t, &l->bias, empty(t, square, PLIM_BOOL));
  plim_consume(t, ones);
  set(t, &l->masked_bias, empty(t, (plim_dims){0}, d));
  plim_rope_new(t, PLIM_ROPE_DEFAULT, plim_config_rotary_width(&m->c), &l->rope);
}

static layer layer_new(plim_tape *t, plim_gpt_neox *m, plim_dtype d) {
  int64_t h = m->c.hidden, i = m->c.intermediate;
  layer l = {.m = m, .input_norm = plim_norm_new(t, &m->model, h, d)};
  l.post_attention_norm = plim_norm_new(t, &m->model, h, d);
  if (!plim_transformers_from(t, 4, 49)) add_buffers(t, m, &l, d);
  l.query_key_value = plim_linear_new(t, &m->model, "attention.query_key_value", 3 * h, h, true, d);
  l.dense = plim_linear_new(t, &m->model, "attention.dense", h, h, true, d);
  l.dense_h_to_4h = plim_linear_new(t, &m->model, "mlp.dense_h_to_4h", i, h, true, d);
  l.dense_4h_to_h = plim_linear_new(t, &m->model, "mlp.dense_4h_to_h", h, i, true, d);
  return l;
}

static void build(plim_tape *t, plim_gpt_neox *m, plim_dtype d) {
  plim_dims table = dims(m->c.vocabulary, m->c.hidden);
  plim_tensor *again = NULL;
  m->model.place = "gpt_neox.layers";
  m->model.spot = PLIM_SPOT_BESIDE;
  m->embed_in = plim_model_table(t, &m->model, table, d, false);
  plim_model_name(&m->model, "embed_in", "weight");
  for (int64_t i = 0; i < m->c.layers; i++) {
    m->model.spot = 1 + i;
    m->layers[i] = layer_new(t, m, d);
  }
  m->model.spot = PLIM_SPOT_BESIDE;
  m->final_norm = plim_norm_new(t, &m->model, m->c.hidden, d);
  plim_rope_new(t, PLIM_ROPE_DEFAULT, plim_config_rotary_width(&m->c), &m->rope);
  plim_rope_init(t, PLIM_ROPE_DEFAULT, &m->rope, &again);
  drop(t, &again);
  m->model.spot = PLIM_SPOT_OUTSIDE;
  if (m->c.head == PLIM_HEAD_CAUSAL) {
    m->model.head = plim_model_parameter(t, &m->model, table, d);
    plim_model_name(&m->model, "embed_out", "weight");
  } else plim_label_head_new(t, &m->model, &m->c, d);
}

static void visit_layer(const layer *l, plim_visit *visit, void *context) {
  plim_linear_visit(&l->dense, visit, context);
  plim_linear_visit(&l->query_key_value, visit, context);
  plim_norm_visit(&l->input_norm, visit, context);
  plim_linear_visit(&l->dense_4h_to_h, visit, context);
  plim_linear_visit(&l->dense_h_to_4h, visit, context);
  plim_norm_visit(&l->post_attention_norm, visit, context);
}

static void in_name_order(plim_model *model, plim_visit *visit, void *context) {
  plim_gpt_neox *m = (plim_gpt_neox *)model;
  if (model->head) visit(context, model->head);
  visit(context, m->embed_in);
  plim_norm_visit(&m->final_norm, visit, context);
  for (int64_t i = 0; i < m->c.layers; i++) visit_layer(&m->layers[i], visit, context);
  plim_label_head_visit(model, visit, context);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_gpt_neox *m = (plim_gpt_neox *)model;
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_add_all(t, model, lora, "gpt_neox.layers", i, &l->query_key_value, &l->dense,
                      &l->dense_h_to_4h, &l->dense_4h_to_h);
  }
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

enum { HELD_MASK, HELD_POSITIONS, HELD_SIN, HELD_COS }; // in the order they go

static plim_tensor *self_attention(plim_tape *t, const layer *l, plim_tensor *x,
                                   plim_tensor *const *held, plim_tensor **weights) {
  const plim_config *c = &l->m->c;
  plim_attending how = {.kind = l->m->attention, .dropout_p = c->attention_dropout};
  plim_tensor *qkv = NULL, *q = NULL, *k = NULL, *v = NULL, *out = NULL;
  bool was = hold(x);
  plim_tensor *all = plim_linear_forward(t, &l->query_key_value, x);
  set(t, &qkv, plim_split_heads(t, all, 3 * (c->hidden / c->heads), NULL)); // (B,H,T,3*D)
  split(t, qkv, &q, &k, &v);
  plim_apply_rope_parts(t, held[HELD_COS], held[HELD_SIN], true, &q, &k);
  set(t, &out, plim_attend(t, &how, q, k, v, held[HELD_MASK], weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, plim_linear_forward(t, &l->dense, out));
  drop_all(t, &qkv, &q, &k, &v);
  plim_tensor *result = give(t, &out);
  let_go(t, x, was);
  return result;
}

static plim_tensor *mlp(plim_tape *t, const layer *l, plim_tensor *x) {
  plim_tensor *hidden = NULL;
  bool was = hold(x);
  set(t, &hidden, plim_linear_forward(t, &l->dense_h_to_4h, x));
  set(t, &hidden, gelu(t, hidden));
  set(t, &hidden, plim_linear_forward(t, &l->dense_4h_to_h, hidden));
  plim_tensor *out = give(t, &hidden);
  let_go(t, x, was);
  return out;
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer *l = context;
  plim_tensor *attended = NULL, *fed = NULL, *weights = NULL;
  plim_tensor *normed = plim_norm_forward(t, &l->input_norm, x);
  set(t, &attended, self_attention(t, l, normed, held, &weights));
  set(t, &attended, dropout(t, attended, l->m->c.dropout));
  bool is_parallel = l->m->c.has_parallel_residual;
  if (!is_parallel) set(t, &attended, add(t, attended, x));
  normed = plim_norm_forward(t, &l->post_attention_norm, is_parallel ? x : attended);
  set(t, &fed, mlp(t, l, normed));
  set(t, &fed, dropout(t, fed, l->m->c.dropout));
  plim_tensor *out = add(t, fed, attended);
  if (is_parallel) out = add(t, out, x);
  drop_all(t, &attended, &weights, &fed);
  return out;
}

static plim_tensor *last_norm(plim_tape *t, const plim_gpt_neox *m, plim_tensor *hidden) {
  plim_tensor *x = plim_part_enter(t, PLIM_PART_NORM, hidden);
  return plim_part_leave(t, PLIM_PART_NORM, plim_norm_forward(t, &m->final_norm, x));
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_gpt_neox *m = (plim_gpt_neox *)model;
  int64_t length = batch->ids->shape.at[1];
  plim_tensor *embedded = NULL, *positions = NULL, *hidden = NULL;
  plim_tensor *mask = NULL, *cos = NULL, *sin = NULL, *last = NULL;
  m->attention = batch->attention;
  set(t, &embedded, plim_embed(t, batch, m->embed_in, batch->ids));
  set(t, &positions, plim_position_ids(t, length));
  set(t, &mask,
      plim_causal_mask(t, batch->attention, batch->mask_kind, embedded, positions, batch->mask));
  set(t, &hidden, dropout(t, embedded, m->c.dropout));
  plim_rotary(t, m->rope.inv_freq, length, (plim_dtype)hidden->dtype, false, &cos, &sin);
  for (int64_t i = 0; i < m->c.layers; i++) {
    plim_closure call = {run_layer, &m->layers[i], {mask, positions, sin, cos}};
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
  }
  if (!plim_transformers_from(t, 5, 2)) set(t, &last, hidden); // a variable holds it
  set(t, &hidden, last_norm(t, m, hidden));
  plim_tensor *out = give(t, &hidden);
  // Before 5.4 the positions are those of cache_position, an argument behind it.
  if (!plim_transformers_from(t, 5, 4)) drop(t, &embedded);
  drop_all(t, &positions, &embedded, &mask, &sin, &cos, &last);
  return out;
}

// ---- the family -----------------------------------------------------------------------------------

static plim_model *gpt_neox_new(plim_tape *t, const plim_config *config, plim_dtype dtype) {
  plim_gpt_neox *m = plim_model_new(sizeof *m, (plim_model){.forward = plim_causal_forward,
                                                            .inner = model_forward,
                                                            .add_lora = add_lora,
                                                            .in_name_order = in_name_order});
  if (!m) return NULL;
  m->c = *config;
  m->layers = plim_model_array(&m->model, config->layers, sizeof *m->layers);
  if (m->layers) build(t, m, dtype);
  return plim_model_finish(&m->model);
}

static const char *unfollowed(const plim_config *c) {
  if (c->ties_embeddings) return "a head tied to the embedding";
  return c->has_attention_bias ? NULL : "attention without biases";
}

const plim_family plim_family_gpt_neox = {
    .model_type = "gpt_neox",
    .has_no_padding_row = true,
    .build = gpt_neox_new,
    .defaults = {.hidden = 6144,
                 .intermediate = 24576,
                 .layers = 44,
                 .heads = 64,
                 .positions = 2048,
                 .vocabulary = 50432,
                 .activation = PLIM_ACT_GELU,
                 .rotary_share = 0.25,
                 .has_attention_bias = true,
                 .has_parallel_residual = true},
    .unfollowed = unfollowed,
    .divides_width = true,
    .turns_part_of_head = true,
    .lora_targets = "query_key_value",
    .loss_function_from = PLIM_RELEASE(4, 48),
    .logits_to_keep_from = PLIM_RELEASE(4, 49),
    .recorded = PLIM_RECORDED_TRAINING | PLIM_RECORDED_QUANTISED | PLIM_RECORDED_SHARDED |
                PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
    .axolotl_loss = PLIM_AXOLOTL_LOSS_BREAKS,
    .axolotl_lora_kernels = PLIM_LORA_KERNELS_FAIL,
};
