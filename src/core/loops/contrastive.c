#include "contrastive.h"

#include <stdlib.h>

#include "contrastive_impl.h"
#include "loss.h"
#include "ops.h"
#include "sharding.h"
#include "tape_state.h"

#include "op_names.h"

// ---- columns ----------------------------------------------------------------------------------------

static void column_forget(plim_tape *t, plim_column *c) { drop_all(t, &c->hidden, &c->embedding); }

void contrast_drop_column(plim_tape *t, plim_column *c) {
  drop_all(t, &c->ids, &c->types, &c->mask);
  column_forget(t, c);
}

static void column_load(plim_tape *t, const plim_model *m, const plim_recipe *r, plim_column *c) {
  plim_dims shape = dims(r->batch, r->length);
  set(t, &c->ids, empty(t, shape, PLIM_I64));
  if (m->has_token_types) set(t, &c->types, empty(t, shape, PLIM_I64));
  if (r->mask != PLIM_MASK_NONE) set(t, &c->mask, empty(t, shape, PLIM_I64));
}

plim_column *plim_columns_new(plim_tape *t, const plim_model *m, const plim_recipe *r) {
  plim_column *columns = calloc((size_t)r->columns, sizeof *columns);
  for (int64_t i = 0; columns && i < r->columns; i++) column_load(t, m, r, &columns[i]);
  return columns;
}

// Trainer keeps all columns in one dictionary; a manual loop keeps them in a list, which Python frees from its end.
void plim_columns_drop(plim_tape *t, const plim_recipe *r, plim_column *columns) {
  for (int64_t i = 0; columns && i < r->columns; i++)
    contrast_drop_column(t, &columns[r->is_trainer ? i : r->columns - 1 - i]);
  free(columns);
}

void plim_columns_forget(plim_tape *t, const plim_recipe *r, plim_column *columns) {
  for (int64_t i = r->columns; i-- > 0;) column_forget(t, &columns[i]);
}

// ---- the model --------------------------------------------------------------------------------------

static void forget_outputs(plim_tape *t, plim_model *m) {
  for (size_t i = 0; i < m->cached.len; i++) plim_release(t, m->cached.at[i]);
  m->cached.len = 0;
  drop(t, &m->extra);
}

static plim_mask_kind mask_of(const plim_recipe *r, const plim_column *c) {
  bool is_padded =
      r->mask == PLIM_MASK_PAD || (r->mask == PLIM_MASK_LONGEST && c->ids->shape.at[0] > 1);
  bool is_trimmed = c->ids->shape.at[1] < r->length;
  return !c->mask ? PLIM_MASK_NONE : is_padded && !is_trimmed ? PLIM_MASK_PAD : PLIM_MASK_ONES;
}

static void call_encoder(plim_tape *t, const plim_contrast *c, plim_column *f) {
  const plim_recipe *r = c->recipe;
  plim_batch batch = {.ids = f->ids,
                      .types = f->types,
                      .mask = f->mask,
                      .mask_kind = mask_of(r, f),
                      .attention = r->attention,
                      .checkpoint = r->checkpoint};
  plim_state(t)->next_layer = 0;
  plim_saving saving_was = plim_saves(t, r->saving);
  if (c->model->is_bare) plim_consume(t, plim_call_model(t, c->model, &batch, &f->hidden));
  else set(t, &f->hidden, c->model->inner(t, c->model, &batch));
  forget_outputs(t, c->model);
  plim_saves(t, saving_was);
}

// model(features)["sentence_embedding"]. accelerate enables autocast around each call of the model; a manual loop
// around the loss.
void contrast_embed(plim_tape *t, const plim_contrast *c, plim_column *f) {
  const plim_recipe *r = c->recipe;
  if (r->is_trainer) plim_autocast(t, r->autocast);
  call_encoder(t, c, f);
  set(t, &f->embedding, plim_pool(t, r->pooling, f->hidden, f->mask));
  if (r->normalizes) set(t, &f->embedding, normalize(t, f->embedding));
  if (r->is_trainer) plim_autocast(t, PLIM_BOOL);
}

// ---- scores -----------------------------------------------------------------------------------------

plim_tensor *contrast_positions(plim_tape *t, int64_t n) { return empty(t, dims(n), PLIM_I64); }

// cos_sim: compares every row of a with every row of b.
static plim_tensor *cosines(plim_tape *t, plim_tensor *a, plim_tensor *b) {
  plim_tensor *left = NULL, *right = NULL;
  set(t, &left, normalize(t, a));
  set(t, &right, normalize(t, b));
  plim_tensor *out = matmul2(t, left, transpose(t, right, 0, 1));
  drop_all(t, &left, &right);
  return out;
}

void contrast_drop_comparison(plim_tape *t, contrast_comparison *v) {
  drop_all(t, &v->local, &v->rows, &v->anchors, &v->matched, &v->scores, &v->positives, &v->all,
           &v->log_z);
}

// positive_scores - log_z for the anchors whose indices are in v->local.
plim_tensor *contrast_compare(plim_tape *t, contrast_comparison *v, plim_tensor *anchors,
                              plim_tensor *matched, plim_tensor *others) {
  set(t, &v->anchors, index_rows(t, anchors, v->local));
  set(t, &v->matched, index_rows(t, matched, v->local));
  drop(t, &v->scores);
  set(t, &v->scores, cosines(t, v->anchors, others));
  set(t, &v->scores, mul_scalar(t, v->scores));
  set(t, &v->positives, index_pairs(t, v->scores, v->rows, v->local));
  set(t, &v->all, cat1(t, v->scores));
  plim_tensor *scores = plim_autocast_is_on(t) ? to(t, v->all, PLIM_FP32) : v->all;
  set(t, &v->log_z, logsumexp(t, scores));
  return sub(t, v->positives, v->log_z);
}

// ---- MultipleNegativesRankingLoss -------------------------------------------------------------------

// All columns but the anchors go through the model together in one forward.
static void merge(plim_tape *t, const plim_contrast *c, plim_column *merged) {
  plim_dims shape = c->columns[1].ids->shape;
  shape.at[0] *= c->recipe->columns - 1;
  set(t, &merged->ids, empty(t, shape, PLIM_I64));
  if (c->columns[1].types) set(t, &merged->types, empty(t, shape, PLIM_I64));
  if (c->columns[1].mask) set(t, &merged->mask, empty(t, shape, PLIM_I64));
}

// (K,B,H): the embeddings of those columns.
static plim_tensor *embed_merged(plim_tape *t, plim_contrast *c) {
  plim_column merged = {0};
  plim_tensor *embedding = NULL;
  merge(t, c, &merged);
  contrast_embed(t, c, &merged);
  set(t, &embedding, merged.embedding);
  int64_t width = embedding->shape.at[1];
  plim_tensor *columns = reshape(t, embedding, dims(c->recipe->columns - 1, -1, width));
  contrast_drop_column(t, &merged);
  drop(t, &embedding);
  return columns;
}

static plim_tensor *ranking_loss(plim_tape *t, plim_tensor *anchors, plim_tensor *columns) {
  contrast_comparison v = {0};
  plim_tensor *others = NULL;
  int64_t batch = anchors->shape.at[0];
  set(t, &others, columns->shape.n == 3 ? cat_parts(t, columns) : cat1(t, columns));
  set(t, &v.local, contrast_positions(t, batch));
  set(t, &v.rows, contrast_positions(t, batch));
  plim_tensor *matched = columns->shape.n == 3 ? select_index(t, columns, 0) : columns;
  plim_tensor *loss = neg(t, mean_all(t, contrast_compare(t, &v, anchors, matched, others)));
  drop(t, &others);
  contrast_drop_comparison(t, &v);
  return loss;
}

static plim_tensor *plain_loss(plim_tape *t, plim_contrast *c) {
  plim_tensor *columns = NULL;
  contrast_embed(t, c, &c->columns[0]);
  if (c->recipe->columns > 2) set(t, &columns, embed_merged(t, c));
  else contrast_embed(t, c, &c->columns[1]), set(t, &columns, c->columns[1].embedding);
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "similarity");
  plim_tensor *loss = ranking_loss(t, c->columns[0].embedding, columns);
  plim_tape_purpose(t, was);
  drop(t, &columns);
  return loss;
}

// ---- losses within one sample -----------------------------------------------------------------------

// Stands for all losses that compare the texts of one sample or compare them with a label: distances, cosines and
// their errors. The tensors have shape (B,H) and (B) whatever the loss.
static plim_tensor *pairwise_loss(plim_tape *t, plim_contrast *c) {
  int64_t columns = c->recipe->columns;
  for (int64_t i = 0; i < columns; i++) contrast_embed(t, c, &c->columns[i]);
  plim_tensor *first = c->columns[0].embedding;
  if (columns == 1) return plim_mean_square(t, first);
  plim_tensor *total = NULL;
  for (int64_t i = 1; i < columns; i++) {
    plim_tensor *part = mean_all(t, square(t, sub(t, first, c->columns[i].embedding)));
    set(t, &total, total ? add(t, total, part) : part);
  }
  return give(t, &total);
}

plim_tensor *plim_contrastive_loss(plim_tape *t, plim_contrast *c) {
  if (c->recipe->is_pairwise) return pairwise_loss(t, c);
  return c->recipe->cached_batch ? contrast_cached_loss(t, c) : plain_loss(t, c);
}

plim_tensor *plim_contrastive_forward(plim_tape *t, plim_model *m, const plim_recipe *r,
                                      plim_contrast *c) {
  plim_columns_drop(t, r, c->columns);
  *c = (plim_contrast){m, r, plim_columns_new(t, m, r), .pass = c->model ? c->pass + 1 : 0};
  plim_state(t)->failed |= !c->columns;
  return c->columns ? plim_contrastive_loss(t, c) : empty(t, (plim_dims){0}, PLIM_FP32);
}
