// CachedMultipleNegativesRankingLoss (GradCache): embeds all texts in mini batches without a graph, computes the loss
// from the embeddings and keeps their gradients; backward embeds every mini batch again.
#include <stdlib.h>

#include "contrastive_impl.h"
#include "kernels.h"
#include "loop_skip.h"
#include "ops.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

typedef struct {
  int64_t from, end;
} rows;

static int64_t chunk_count(const plim_recipe *r) { return (r->batch - 1) / r->cached_batch + 1; }

int64_t plim_mini_batches(const plim_recipe *r) {
  bool is_cached = r->loss == PLIM_LOSS_CONTRASTIVE && !r->is_pairwise && r->cached_batch > 0;
  return is_cached ? r->columns * chunk_count(r) : 0;
}

static rows chunk_at(const plim_recipe *r, int64_t i) {
  int64_t from = i * r->cached_batch, left = r->batch - from;
  return (rows){from, left < r->cached_batch ? r->batch : from + r->cached_batch};
}

static int64_t length_of(const plim_contrast *c, int64_t chunk) {
  const plim_recipe *r = c->recipe;
  size_t at = (size_t)(c->pass * chunk_count(r) + chunk);
  return at < r->cached_length_count ? (int64_t)r->cached_lengths[at] : r->length - r->padding;
}

// How many chunks after chunk i (counted over all columns) are like it, not counting the very last one.
static int64_t alike_behind(const plim_contrast *c, int64_t i) {
  const plim_recipe *r = c->recipe;
  int64_t chunks = chunk_count(r), at = i % chunks, next = at + 1;
  if (!r->cached_length_count && r->batch % r->cached_batch == 0)
    return r->columns * chunks - 2 - i;
  if (!r->cached_length_count) return chunks - 2 - at;
  while (next < chunks - 1 && length_of(c, next) == length_of(c, at)) next++;
  return next - 1 - at;
}

// Finds the padding that all rows of the chunk share. Returns the length without it.
static int64_t look_for_padding(plim_tape *t, const plim_contrast *c, const plim_column *column,
                                int64_t chunk) {
  rows at = chunk_at(c->recipe, chunk);
  int64_t whole = c->recipe->length, length = length_of(c, chunk);
  if (!column->mask) return whole;
  plim_tensor *active = empty(t, dims(at.end - at.from, whole), PLIM_BOOL);
  plim_tensor *in_use = k_any_row(t, active);
  plim_consume(t, k_all(t, in_use));
  plim_tensor *found = k_nonzero(t, whole, 1, length);
  plim_tensor *last = k_reduce(t, found, PLIM_I64);
  plim_work_synchronize(t);
  consume_all(t, found, last, active, in_use);
  return length;
}

static plim_tensor *cut(plim_tape *t, plim_tensor *x, rows at, int64_t length) {
  if (!x) return NULL;
  plim_tensor *some = slice_rows(t, x, at.from, at.end);
  return length < x->shape.at[1] ? slice(t, some, 1, 0, length) : some;
}

// The embeddings of some rows of a column. Frees the features it makes for that.
static plim_tensor *embed_rows(plim_tape *t, const plim_contrast *c, const plim_column *column,
                               int64_t chunk) {
  plim_column some = {0};
  rows at = chunk_at(c->recipe, chunk);
  int64_t length = look_for_padding(t, c, column, chunk);
  set(t, &some.ids, cut(t, column->ids, at, length));
  set(t, &some.types, cut(t, column->types, at, length));
  set(t, &some.mask, cut(t, column->mask, at, length));
  contrast_embed(t, c, &some);
  plim_tensor *out = NULL;
  set(t, &out, some.embedding);
  contrast_drop_column(t, &some);
  return give(t, &out);
}

// Embeddings without gradients, indexed by column and chunk.
typedef struct {
  plim_tensor **at;
  int64_t columns, chunks;
} embeddings;

static void embed_all(plim_tape *t, const plim_contrast *c, const embeddings *e) {
  bool was = set_grad_mode(t, false);
  plim_inner_loop_begin(t);
  for (int64_t i = 0; i < e->columns * e->chunks && !plim_state(t)->failed; i++) {
    set(t, &e->at[i], embed_rows(t, c, &c->columns[i / e->chunks], i % e->chunks));
    i += plim_inner_loop_skip(t, e->at[i], alike_behind(c, i), &e->at[i + 1]);
  }
  plim_inner_loop_end(t);
  set_grad_mode(t, was);
}

// Python frees a list from its end, but variables keep the last column's list and its last chunk alive.
static void embeddings_drop(plim_tape *t, const embeddings *e) {
  int64_t last = e->columns * e->chunks - 1;
  for (int64_t i = last - e->chunks; i >= 0; i--) drop(t, &e->at[i]);
  for (int64_t i = last - 1; i > last - e->chunks; i--) drop(t, &e->at[i]);
  drop(t, &e->at[last]);
}

// A leaf that stands for the embeddings of several chunks: it has their shape, and the memory stays theirs.
static plim_tensor *leaf_of(plim_tape *t, const plim_tensor *piece, int64_t count) {
  plim_tensor *leaf = empty(t, dims(0), (plim_dtype)piece->dtype);
  leaf->shape = dims(count, piece->shape.at[1]);
  leaf->stride = plim_contiguous_strides(&leaf->shape);
  leaf->requires_grad = true;
  return leaf;
}

static void run_backward(plim_tape *t, plim_tensor *loss) {
  plim_tensor *one = NULL;
  set(t, &one, empty(t, loss->shape, (plim_dtype)loss->dtype));
  plim_retain(one);
  backward(t, loss, one);
  drop(t, &one);
}

// Variables that outlive one chunk of the loss.
typedef struct {
  plim_tensor *anchors, *others, *local; // anchors and others have gradients
  plim_tensor **docs, **losses;
  contrast_comparison v;
  plim_tensor *each, *loss;
} chunked;

static void loss_of_chunk(plim_tape *t, const plim_recipe *r, chunked *x, int64_t i) {
  rows at = chunk_at(r, i);
  set(t, &x->v.local, slice_rows(t, x->local, at.from, at.end));
  set(t, &x->v.rows, contrast_positions(t, at.end - at.from));
  set(t, &x->each, neg(t, contrast_compare(t, &x->v, x->anchors, x->docs[0], x->others)));
  set(t, &x->loss, div_scalar(t, mul_scalar(t, mean_all(t, x->each))));
  plim_thread was = plim_state(t)->thread;
  plim_state(t)->thread = PLIM_BACKWARD_THREAD;
  run_backward(t, x->loss);
  plim_state(t)->thread = was;
  plim_tensor *detached = alias_of(t, x->loss, x->loss->shape, x->loss->stride);
  drop_graph(t, x->loss);
  set(t, &x->loss, detached);
  set(t, &x->losses[i], x->loss);
}

static plim_tensor *sum_of(plim_tape *t, plim_tensor *const *losses, int64_t count) {
  plim_tensor *sum = NULL;
  for (int64_t i = 0; i < count && losses[i]; i++)
    set(t, &sum, sum ? add(t, sum, losses[i]) : add_scalar(t, losses[i]));
  return sum ? give(t, &sum) : NULL;
}

// Concatenates the embeddings, with gradients down to the chunks.
static void gather(plim_tape *t, plim_contrast *c, const embeddings *e, chunked *x) {
  const plim_recipe *r = c->recipe;
  int64_t others = (r->columns - 1) * r->batch;
  c->anchors = leaf_of(t, e->at[0], r->batch);
  c->others = leaf_of(t, e->at[0], others);
  c->anchors->is_floating = c->others->is_floating = false;
  set(t, &x->anchors, cat1(t, c->anchors));
  for (int64_t i = 0; i + 1 < r->columns; i++)
    set(t, &x->docs[i], cat1(t, leaf_of(t, e->at[0], r->batch)));
  set(t, &x->others, cat1(t, c->others));
  set(t, &x->local, contrast_positions(t, r->batch));
}

static plim_tensor *loss_in_chunks(plim_tape *t, plim_contrast *c, const embeddings *e,
                                   chunked *x) {
  const plim_recipe *r = c->recipe;
  gather(t, c, e, x);
  plim_inner_loop_begin(t);
  for (int64_t i = 0; i < e->chunks && !plim_state(t)->failed; i++) {
    loss_of_chunk(t, r, x, i);
    i += plim_inner_loop_skip(t, x->losses[i], e->chunks - 2 - i, &x->losses[i + 1]);
  }
  plim_inner_loop_end(t);
  plim_tensor *sum = sum_of(t, x->losses, e->chunks);
  drop(t, &x->anchors);
  for (int64_t i = r->columns - 1; i-- > 1;) drop(t, &x->docs[i]);
  drop_all(t, &x->others, &x->docs[0], &x->local);
  for (int64_t i = e->chunks; i-- > 0;) drop(t, &x->losses[i]);
  contrast_drop_comparison(t, &x->v);
  drop_all(t, &x->each, &x->loss);
  return sum;
}

// Runs backward for one mini batch, from the product of its embeddings with their cached gradients.
static void replay_chunk(plim_tape *t, plim_tensor *embedded, plim_tensor *gradients,
                         plim_tensor **surrogate) {
  plim_tensor *flat = reshape(t, embedded, dims(-1));
  plim_tensor *piece = view_of(t, gradients, flat->shape, dims(1));
  plim_tensor *product = dot(t, to(t, flat, PLIM_FP32), to(t, piece, PLIM_FP32));
  set(t, surrogate, mul_scalar(t, product));
  run_backward(t, *surrogate);
}

// The backward hook of the loss: embeds every chunk again, now with a graph, and runs backward from it. DDP reduces the
// gradients with the last chunk.
static void replay(plim_tape *t, void *context) {
  const plim_contrast *c = context;
  const plim_recipe *r = c->recipe;
  plim_tensor *embedded = NULL, *surrogate = NULL;
  bool was = set_grad_mode(t, true), reduces = plim_state(t)->reduces_gradients;
  int64_t chunks = chunk_count(r), count = r->columns * chunks;
  plim_inner_loop_begin(t);
  for (int64_t i = 0; i < count && !plim_state(t)->failed; i++) {
    plim_tensor *gradients = (i < chunks ? c->anchors : c->others)->grad;
    plim_state(t)->reduces_gradients = reduces && i + 1 == count;
    set(t, &embedded, embed_rows(t, c, &c->columns[i / chunks], i % chunks));
    if (gradients) replay_chunk(t, embedded, gradients, &surrogate); // NULL when out of memory
    i += plim_inner_loop_skip(t, NULL, alike_behind(c, i), NULL);
  }
  plim_inner_loop_end(t);
  plim_state(t)->reduces_gradients = reduces;
  drop(t, &embedded);
  drop_graph(t, surrogate);
  drop(t, &surrogate);
  set_grad_mode(t, was);
}

static plim_tensor *held_behind(plim_tensor *x, plim_tensor *before) {
  if (!x) return before;
  plim_retain(x);
  x->held = before;
  return x;
}

// The hook keeps the columns and the cache alive; the last column is freed first.
static void hold_cache(const plim_contrast *c, plim_tensor *loss) {
  plim_tensor *last = NULL;
  for (int64_t i = c->recipe->columns; i-- > 0;) {
    const plim_column *column = &c->columns[i];
    last = held_behind(column->ids, last);
    last = held_behind(column->types, last);
    last = held_behind(column->mask, last);
  }
  c->others->held = last;
  c->anchors->held = c->others;
  loss->held = c->anchors;
}

// The loss is a leaf whose hook runs the actual backward. If the tape has failed, it is a plain number without one.
static plim_tensor *loss_of(plim_tape *t, plim_contrast *c, const embeddings *e, chunked *x) {
  plim_tensor *loss = NULL;
  embed_all(t, c, e);
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "similarity");
  if (!plim_state(t)->failed) set(t, &loss, loss_in_chunks(t, c, e, x));
  if (!loss) set(t, &loss, empty(t, (plim_dims){0}, PLIM_FP32));
  plim_tape_purpose(t, was);
  loss->requires_grad = true;
  if (c->anchors) {
    loss->before_grad = (plim_hook){replay, c};
    hold_cache(c, loss);
  }
  embeddings_drop(t, e);
  return give(t, &loss);
}

plim_tensor *contrast_cached_loss(plim_tape *t, plim_contrast *c) {
  const plim_recipe *r = c->recipe;
  embeddings e = {.columns = r->columns, .chunks = chunk_count(r)};
  chunked x = {.docs = calloc((size_t)r->columns, sizeof *x.docs),
               .losses = calloc((size_t)e.chunks, sizeof *x.losses)};
  e.at = calloc((size_t)(e.columns * e.chunks), sizeof *e.at);
  bool ok = e.at && x.docs && x.losses;
  plim_state(t)->failed |= !ok;
  plim_tensor *loss = ok ? loss_of(t, c, &e, &x) : empty(t, (plim_dims){0}, PLIM_FP32);
  free(e.at);
  free(x.docs);
  free(x.losses);
  return loss;
}
