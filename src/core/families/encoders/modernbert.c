// ModernBERT: an encoder with rotary positions, norms in front, a gated MLP, and windows in most layers.
#include "encoder.h"
#include "families.h"
#include "ops.h"
#include "rope.h"

#include "op_names.h"

typedef struct {
  const struct plim_modernbert *m;
  plim_norm attn_norm; // the first layer has none
  plim_linear qkv, o;
  plim_norm mlp_norm;
  plim_linear up, down;
} layer;

typedef struct plim_modernbert {
  plim_encoder e;
  plim_norm final_norm;
  plim_rope_buffers rope, local_rope;
  layer *layers;
  plim_attention_kind attention; // of the batch that runs
} plim_modernbert;

// Each n-th layer attends to all tokens, beginning with the first (global_attn_every_n_layers).
static bool slides(const plim_config *c, int64_t i) {
  if (c->listed_layers) return c->layer_kinds[i] == PLIM_LAYER_SLIDING;
  return i % c->window_pattern != 0;
}

// ---- construction ---------------------------------------------------------------------------------

static layer layer_new(plim_tape *t, plim_modernbert *m, int64_t i, plim_dtype d) {
  plim_model *model = &m->e.model;
  int64_t h = m->e.c.hidden, wide = m->e.c.intermediate;
  bool has_bias = m->e.c.has_attention_bias, has_mlp_bias = m->e.c.has_mlp_bias;
  layer l = {.m = m};
  if (i > 0) l.attn_norm = plim_norm_new_unbiased(t, model, h, d);
  l.qkv = plim_linear_new(t, model, "attn.Wqkv", 3 * h, h, has_bias, d);
  l.o = plim_linear_new(t, model, "attn.Wo", h, h, has_bias, d);
  l.mlp_norm = plim_norm_new_unbiased(t, model, h, d);
  l.up = plim_linear_new(t, model, "mlp.Wi", 2 * wide, h, has_mlp_bias, d);
  l.down = plim_linear_new(t, model, "mlp.Wo", h, wide, has_mlp_bias, d);
  return l;
}

static void add_rotary(plim_tape *t, plim_modernbert *m) {
  plim_tensor *again = NULL;
  plim_rope_new(t, PLIM_ROPE_DEFAULT, m->e.c.head_dim, &m->rope);
  plim_rope_new(t, PLIM_ROPE_DEFAULT, m->e.c.head_dim, &m->local_rope);
  plim_rope_init(t, PLIM_ROPE_DEFAULT, &m->rope, &again);
  plim_rope_init(t, PLIM_ROPE_DEFAULT, &m->local_rope, &again);
  drop(t, &again);
}

static void build(plim_tape *t, plim_encoder *e, plim_dtype d) {
  plim_modernbert *m = (plim_modernbert *)e;
  e->prefix = "model";
  e->layers = "layers";
  e->words =
      plim_model_table(t, &e->model, dims(e->c.vocabulary, e->c.hidden), d, e->c.has_padding_row);
  e->norm = plim_norm_new_unbiased(t, &e->model, e->c.hidden, d);
  for (int64_t i = 0; i < e->c.layers; i++) m->layers[i] = layer_new(t, m, i, d);
  m->final_norm = plim_norm_new_unbiased(t, &e->model, e->c.hidden, d);
  add_rotary(t, m);
  plim_encoder_build_end(t, e, d);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_modernbert *m = (plim_modernbert *)model;
  char place[PLIM_PLACE_BYTES];
  plim_encoder_place(&m->e, place);
  plim_lora_begin(model);
  for (int64_t i = 0; i < m->e.c.layers; i++) {
    layer *l = &m->layers[i];
    plim_lora_add_all(t, model, lora, place, i, &l->qkv, &l->o, &l->up, &l->down);
  }
  plim_encoder_end_lora(t, &m->e, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

enum { HELD_MASK, HELD_SIN, HELD_COS };

static plim_tensor *self_attention(plim_tape *t, const layer *l, plim_tensor *const *held,
                                   plim_tensor *x) {
  const plim_config *c = &l->m->e.c;
  plim_attending how = {
      .kind = l->m->attention, .dropout_p = c->attention_dropout, .sees_all = true};
  int64_t sizes[] = {c->heads, c->heads, c->heads};
  plim_tensor *qkv = NULL, *q = NULL, *k = NULL, *v = NULL, *out = NULL, *weights = NULL;
  bool was = hold(x);
  set(t, &qkv, plim_linear_forward(t, &l->qkv, x));
  plim_dims shape = dims(qkv->shape.at[0], qkv->shape.at[1], 3 * c->heads, c->head_dim);
  set(t, &qkv, view(t, qkv, shape));
  split_sizes(t, qkv, 2, sizes, &q, &k, &v);
  set(t, &q, transpose(t, q, 1, 2));
  set(t, &k, transpose(t, k, 1, 2));
  set(t, &v, transpose(t, v, 1, 2));
  plim_apply_rope_widening(t, held[HELD_COS], held[HELD_SIN], &q, &k);
  set(t, &out, plim_attend(t, &how, q, k, v, held[HELD_MASK], &weights));
  set(t, &out, plim_join_heads(t, out));
  set(t, &out, dropout(t, plim_linear_forward(t, &l->o, out), c->attention_dropout));
  drop_all(t, &qkv, &q, &k, &v, &weights);
  let_go(t, x, was);
  return give(t, &out);
}

static plim_tensor *feed(plim_tape *t, const layer *l, plim_tensor *x) {
  plim_tensor *input = NULL, *gate = NULL;
  bool was = hold(x);
  split(t, plim_linear_forward(t, &l->up, x), &input, &gate);
  plim_tensor *gated = mul(t, plim_activate(t, l->m->e.c.activation, input), gate);
  plim_tensor *out = plim_linear_forward(t, &l->down, gated);
  drop_all(t, &input, &gate);
  let_go(t, x, was);
  return out;
}

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer *l = context;
  plim_tensor *hidden = NULL, *attended = NULL;
  bool is_first = !l->attn_norm.weight;
  plim_tensor *normed = is_first ? x : plim_norm_forward(t, &l->attn_norm, x);
  set(t, &attended, self_attention(t, l, held, normed));
  set(t, &hidden, add(t, x, attended));
  set(t, &hidden, add(t, hidden, feed(t, l, plim_norm_forward(t, &l->mlp_norm, hidden))));
  drop(t, &attended);
  return give(t, &hidden);
}

static plim_tensor *embed(plim_tape *t, const plim_encoder *e, const plim_batch *batch) {
  plim_tensor *words = plim_embed(t, batch, e->words, batch->ids);
  return dropout(t, plim_norm_forward(t, &e->norm, words), e->c.embedding_dropout);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_modernbert *m = (plim_modernbert *)model;
  const plim_config *c = &m->e.c;
  int64_t length = batch->ids->shape.at[1];
  plim_tensor *positions = NULL, *embedded = NULL, *hidden = NULL, *full = NULL, *sliding = NULL;
  plim_tensor *cos = NULL, *sin = NULL, *local_cos = NULL, *local_sin = NULL;
  m->attention = batch->attention;
  set(t, &positions, empty(t, dims(1, length), PLIM_I64));
  set(t, &embedded, embed(t, &m->e, batch));
  plim_dtype dtype = (plim_dtype)embedded->dtype;
  set(t, &full,
      plim_bidirectional_mask(t, batch->attention, batch->mask_kind, length, embedded,
                              batch->mask));
  set(t, &sliding,
      plim_bidirectional_window_mask(t, batch->attention, batch->mask_kind, embedded, batch->mask,
                                     c->sliding_window / 2));
  plim_rotary(t, m->rope.inv_freq, length, dtype, false, &cos, &sin);
  plim_rotary(t, m->local_rope.inv_freq, length, dtype, false, &local_cos, &local_sin);
  set(t, &hidden, embedded);
  for (int64_t i = 0; i < c->layers; i++) {
    bool is_local = slides(c, i);
    plim_closure call = {run_layer, &m->layers[i]};
    call.held[HELD_MASK] = is_local ? sliding : full;
    call.held[HELD_COS] = is_local ? local_cos : cos;
    call.held[HELD_SIN] = is_local ? local_sin : sin;
    set(t, &hidden, plim_call_layer(t, batch->checkpoint, call, hidden));
  }
  set(t, &hidden, plim_norm_forward(t, &m->final_norm, hidden));
  drop_all(t, &positions, &full, &sliding, &embedded, &cos, &sin, &local_cos, &local_sin);
  return give(t, &hidden);
}

// ---- the family -----------------------------------------------------------------------------------

static const char *unfollowed(const plim_config *c) {
  if (c->dropout > 0) return "dropout in its MLP (mlp_dropout)";
  if (c->rope != PLIM_ROPE_DEFAULT) return "scaled rotary positions";
  if (c->window_pattern < 1) return "this global_attn_every_n_layers";
  return c->has_norm_bias || c->has_head_bias ? "biases in its norms or its head" : NULL;
}

static plim_model *modernbert_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  static const plim_encoder_code code = {.bytes = sizeof(plim_modernbert),
                                         .layer_bytes = sizeof(layer),
                                         .layers_at = offsetof(plim_modernbert, layers),
                                         .build = build,
                                         .forward = model_forward,
                                         .add_lora = add_lora};
  return plim_encoder_new(t, c, dtype, &code);
}

const plim_family plim_family_modernbert = {
    .model_type = "modernbert",
    .build = modernbert_new,
    .defaults = {.has_padding_row = true,
                 .head = PLIM_HEAD_MASKED,
                 .hidden = 768,
                 .intermediate = 1152,
                 .layers = 22,
                 .heads = 12,
                 .positions = 8192,
                 .vocabulary = 50368,
                 .sliding_window = 128,
                 .window_pattern = 3,
                 .activation = PLIM_ACT_GELU,
                 .ties_embeddings = true},
    .unfollowed = unfollowed,
    .is_encoder = true,
    .has_inline_loss = true,
    .calls_other_losses = true,
    .text_head = {.dense = "head.dense",
                  .activation = PLIM_ACT_GELU,
                  .is_in_all = true,
                  .classifier = "classifier"},
    .transform = "head.dense",
    .has_unbiased_transform = true,
    .has_no_pooler = true,
    .lacks_heads = 1u << PLIM_HEAD_CHOICES,
    .divides_width = true,
    .lacks_flash = true,
    .first_release = PLIM_RELEASE(4, 48),
    .loss_function_from = PLIM_RELEASE(5, 0),
    .recorded = PLIM_RECORDED_TRAINING,
};
