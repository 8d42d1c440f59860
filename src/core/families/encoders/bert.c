#include "bert.h"

#include "encoder.h"
#include "families.h"
#include "flash_attention.h"
#include "ops.h"
#include "tape_state.h"

#include "op_names.h"

typedef struct {
  struct plim_bert *m;
  plim_encoder_layer own;
} layer;

typedef struct plim_bert {
  plim_encoder e;
  plim_bert_tables tables;
  plim_linear project; // from the width of the tables, if that is another
  layer *layers;
  plim_tensor *results
      [PLIM_MAX_RESULTS]; // of the layer that runs, before 5.0: the weights of eager attention
  plim_attention_kind attention; // of the batch that runs
} plim_bert;

// ---- construction ---------------------------------------------------------------------------------

static plim_tensor *table_new(plim_tape *t, plim_encoder *e, int64_t rows, plim_dtype d) {
  return plim_model_parameter(t, &e->model, dims(rows, e->c.embedding), d);
}

// RoBERTa makes the table of positions last. Before 5.0 it makes one like BERT first, and replaces it.
void plim_bert_tables_new(plim_tape *t, plim_encoder *e, plim_bert_tables *b, plim_dtype d) {
  bool is_made_late = e->c.family->counts_positions;
  bool is_last = is_made_late && plim_transformers_from(t, 5, 0);
  e->words = plim_model_table(t, &e->model, dims(e->c.vocabulary, e->c.embedding), d,
                              e->c.has_padding_row);
  if (!is_last) e->positions = table_new(t, e, e->c.positions, d);
  b->token_types = table_new(t, e, e->c.token_types, d);
  e->norm = plim_norm_new(t, &e->model, e->c.embedding, d);
  set(t, &e->position_ids, empty(t, dims(1, e->c.positions), PLIM_I64));
  set(t, &b->token_type_ids, empty(t, dims(1, e->c.positions), PLIM_I64));
  if (is_made_late && !is_last) plim_retype(t, e->positions, d);
  if (!is_last) return;
  e->positions = table_new(t, e, e->c.positions, d);
  plim_tape_move_behind(e->position_ids, e->positions, 1); // model.to: buffers go last
  plim_tape_move_behind(b->token_type_ids, e->positions, 2);
}

static void build(plim_tape *t, plim_encoder *e, plim_dtype d) {
  static const char *const paths[] = {"attention.self.query", "attention.self.key",
                                      "attention.self.value"};
  plim_bert *m = (plim_bert *)e;
  plim_encoder_build_begin(t, &m->e, d);
  plim_bert_tables_new(t, &m->e, &m->tables, d);
  if (m->e.c.embedding != m->e.c.hidden)
    m->project = plim_linear_new(t, &m->e.model, "embeddings_project", m->e.c.hidden,
                                 m->e.c.embedding, true, d);
  for (int64_t i = 0; i < e->c.layers; i++)
    m->layers[i] = (layer){m, plim_encoder_layer_new(t, e, paths, d)};
  plim_encoder_build_end(t, &m->e, d);
}

static void add_lora(plim_tape *t, plim_model *model, const plim_lora *lora) {
  plim_bert *m = (plim_bert *)model;
  char place[PLIM_PLACE_BYTES];
  plim_encoder_place(&m->e, place);
  plim_lora_begin(model);
  plim_lora_add_all(t, model, lora, m->e.c.family->model_type, -1, &m->project);
  for (int64_t i = 0; i < m->e.c.layers; i++)
    plim_encoder_layer_lora(t, &m->e, lora, place, i, &m->layers[i].own);
  plim_encoder_end_lora(t, &m->e, lora);
  plim_lora_end(t, model, lora);
}

// ---- forward --------------------------------------------------------------------------------------

static plim_tensor *projected(plim_tape *t, const layer *l, const plim_linear *projection,
                              plim_tensor *x) {
  return plim_split_heads(t, plim_linear_forward(t, projection, x), l->m->e.c.head_dim, NULL);
}

// Eager attention before 5.0: a variable holds the scores to the end of the layer's attention.
static plim_tensor *attend_before(plim_tape *t, const layer *l, plim_tensor *q, plim_tensor *k,
                                  plim_tensor *v, plim_tensor *mask, plim_tensor **scores,
                                  plim_tensor **weights) {
  plim_tape_at(t, "attention");
  set(t, scores, matmul(t, q, transpose(t, k, 2, 3)));
  set(t, scores, div_scalar(t, *scores));
  set(t, scores, add(t, *scores, mask));
  set(t, weights, plim_softmax_own(t, *scores));
  set(t, weights, dropout(t, *weights, l->m->e.c.attention_dropout));
  plim_tape_at(t, "attention");
  return contiguous(t, transpose(t, matmul(t, *weights, v), 1, 2));
}

static plim_tensor *self_attention(plim_tape *t, const layer *l, plim_tensor *x, plim_tensor *mask,
                                   plim_tensor **weights) {
  plim_attending how = {.kind = l->m->attention,
                        .dropout_p = l->m->e.c.attention_dropout,
                        .softmax = PLIM_SOFTMAX_OWN,
                        .sees_all = true};
  bool is_before = how.kind == PLIM_ATTENTION_EAGER && !plim_transformers_from(t, 5, 0);
  plim_tensor *q = NULL, *k = NULL, *v = NULL, *scores = NULL, *out = NULL;
  set(t, &q, projected(t, l, &l->own.query, x));
  set(t, &k, projected(t, l, &l->own.key, x));
  set(t, &v, projected(t, l, &l->own.value, x));
  set(t, &out,
      is_before ? attend_before(t, l, q, k, v, mask, &scores, weights)
                : plim_attend(t, &how, q, k, v, mask, weights));
  set(t, &out, plim_join_heads(t, out));
  drop_all(t, &q, &k, &v, &scores);
  return give(t, &out);
}

enum { HELD_MASK };

static plim_tensor *run_layer(plim_tape *t, const void *context, plim_tensor *const *held,
                              plim_tensor *x) {
  const layer *l = context;
  double dropout_p = l->m->e.c.dropout;
  plim_tensor *attended = NULL, *weights = NULL, *fed = NULL;
  set(t, &attended, self_attention(t, l, x, held[HELD_MASK], &weights));
  set(t, &attended, plim_encoder_output_forward(t, &l->own.attended, attended, x, dropout_p));
  set(t, &fed, plim_linear_forward(t, &l->own.intermediate, attended));
  set(t, &fed, gelu(t, fed));
  plim_tensor *out = plim_encoder_output_forward(t, &l->own.fed, fed, attended, dropout_p);
  if (!plim_transformers_from(t, 5, 0)) set(t, &l->m->results[0], give(t, &weights));
  drop_all(t, &fed, &weights, &attended);
  return out;
}

// The token types come from a buffer of zeros, since 5.0 gathered at the positions.
static plim_tensor *token_types(plim_tape *t, const plim_bert_tables *b, plim_tensor *position_ids,
                                const plim_dims *shape, plim_tensor **gathered) {
  if (!plim_transformers_from(t, 5, 0))
    return expand(t, slice(t, b->token_type_ids, 1, 0, shape->at[1]), *shape);
  set(t, gathered, empty(t, position_ids->shape, PLIM_I64));
  return expand(t, *gathered, *shape);
}

plim_tensor *plim_bert_embed(plim_tape *t, const plim_encoder *e, const plim_bert_tables *b,
                             const plim_batch *batch) {
  plim_tensor *positions = NULL, *types = NULL, *gathered = NULL, *words = NULL;
  plim_tensor *typed = NULL, *placed = NULL, *out = NULL;
  int64_t length = batch->ids->shape.at[1];
  if (e->c.family->counts_positions)
    set(t, &positions, plim_positions_from_ids(t, batch->ids, true));
  else set(t, &positions, slice(t, e->position_ids, 1, 0, length));
  if (batch->types) set(t, &types, batch->types);
  else set(t, &types, token_types(t, b, positions, &batch->ids->shape, &gathered));
  set(t, &words, plim_embed(t, batch, e->words, batch->ids));
  set(t, &typed, plim_look_up(t, b->token_types, types));
  set(t, &out, add(t, words, typed));
  set(t, &placed, plim_look_up(t, e->positions, positions));
  if (plim_transformers_from(t, 5, 0)) set(t, &out, add(t, out, placed));
  else add_in_place(t, out, placed);
  set(t, &out, plim_norm_forward(t, &e->norm, out));
  set(t, &out, dropout(t, out, e->c.dropout));
  drop_all(t, &types, &positions, &words, &gathered, &typed, &placed);
  return give(t, &out);
}

static plim_tensor *model_forward(plim_tape *t, plim_model *model, const plim_batch *batch) {
  plim_bert *m = (plim_bert *)model;
  plim_tensor *embedded = NULL, *ones = NULL, *mask = NULL, *hidden = NULL, *weights = NULL;
  m->attention = batch->attention;
  if (!plim_transformers_from(t, 5, 0)) plim_encoder_look_for_padding(t, batch);
  set(t, &embedded, plim_bert_embed(t, &m->e, &m->tables, batch));
  if (m->project.weight) set(t, &embedded, plim_linear_forward(t, &m->project, embedded));
  set(t, &mask, plim_encoder_mask(t, batch->attention, batch, embedded, &ones));
  set(t, &hidden, embedded);
  for (int64_t i = 0; i < m->e.c.layers; i++) {
    plim_closure call = {run_layer, &m->layers[i], {mask}, .results = m->results, .positional = 1};
    plim_tensor *fresh = plim_call_layer(t, batch->checkpoint, call, hidden);
    set(t, &weights, give(t, &m->results[0])); // those of the layer before go now
    set(t, &hidden, fresh);
  }
  drop(t, &weights);
  plim_encoder_pool(t, &m->e, hidden);
  plim_encoder_release(t, &ones, &mask, &embedded);
  return give(t, &hidden);
}

// ---- the family -----------------------------------------------------------------------------------

plim_model *plim_bert_new(plim_tape *t, const plim_config *c, plim_dtype dtype) {
  plim_encoder_code code = {.bytes = sizeof(plim_bert),
                            .layer_bytes = sizeof(layer),
                            .layers_at = offsetof(plim_bert, layers),
                            .build = build,
                            .forward = model_forward,
                            .add_lora = add_lora,
                            .has_token_types = !c->family->counts_positions};
  return plim_encoder_new(t, c, dtype, &code);
}

const plim_family plim_family_bert = {
    .model_type = "bert",
    .build = plim_bert_new,
    .defaults = {.has_padding_row = true,
                 .head = PLIM_HEAD_MASKED,
                 .hidden = 768,
                 .intermediate = 3072,
                 .layers = 12,
                 .heads = 12,
                 .positions = 512,
                 .token_types = 2,
                 .vocabulary = 30522,
                 .activation = PLIM_ACT_GELU,
                 .dropout = 0.1,
                 .attention_dropout = 0.1,
                 .ties_embeddings = true},
    .is_encoder = true,
    .has_inline_loss = true,
    .text_head = {.is_pooled = true},
    .divides_width = true,
    .has_position_table = true,
    .lora_targets = "query,value",
    .loss_function_from = PLIM_RELEASE(5, 0),
    .recorded =
        PLIM_RECORDED_TRAINING | PLIM_RECORDED_4_57 | PLIM_RECORDED_5_22 | PLIM_RECORDED_TORCH,
};
