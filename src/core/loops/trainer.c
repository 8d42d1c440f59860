// The training loop of transformers.Trainer, and of sentence-transformers' trainer built on it.
#include <stdlib.h>

#include "heads.h"
#include "kernels.h"
#include "loop_skip.h"
#include "ops.h"
#include "pass_replay.h"
#include "preference.h"
#include "sharding.h"
#include "tape_state.h"
#include "training_impl.h"
#include "work.h"

#include "op_names.h"

typedef struct {
  plim_batch *batches; // of the current step
  int count;
  plim_tensor *total_loss, *loss, *norm, *items;
  plim_scaler scaler;
  plim_contrast contrast;
} trainer;

// (labels[:, 1:] != -100).sum()
static plim_tensor *count_items(plim_tape *t, const plim_model *m, const plim_recipe *r) {
  plim_dims shape = train_labels_shape(m, r);
  // Labels that are not counted, because the loss shifts them, are left out since 5.11.
  if (!m->has_aligned_labels && plim_transformers_from(t, 5, 11)) shape.at[1]--;
  plim_tensor *is_item = empty(t, shape, PLIM_BOOL), *sum = empty(t, (plim_dims){0}, PLIM_I64);
  plim_consume(t, empty(t, shape, PLIM_I64));
  plim_consume(t, is_item);
  return sum;
}

// accelerator.gather(count).sum()
static plim_tensor *sum_of_ranks(plim_tape *t, int64_t world) {
  plim_tensor *own = empty(t, (plim_dims){0}, PLIM_I64), *all = empty(t, dims(world), PLIM_I64);
  plim_consume(t, own);
  plim_tensor *sum = empty(t, (plim_dims){0}, PLIM_I64);
  plim_consume(t, all);
  return sum;
}

// Sums the counts of all batches, one addition at a time. Before 4.57, all counts are made first.
static plim_tensor *count_all_items(plim_tape *t, const plim_model *m, const plim_recipe *r,
                                    int count) {
  plim_tensor *total = NULL, *one = NULL;
  plim_tensors counts = {0};
  bool lists = !plim_transformers_from(t, 4, 57) && vec_reserve(&counts, (size_t)count);
  for (int i = 0; lists && i < count; i++) {
    counts.at[i] = NULL;
    set(t, &counts.at[counts.len++], count_items(t, m, r));
  }
  for (int i = 0; i < count; i++) {
    set(t, &one, lists ? counts.at[i] : count_items(t, m, r));
    set(t, &total, total ? add(t, total, one) : k_unary(t, one));
    drop(t, &one);
  }
  while (counts.len) drop(t, &counts.at[--counts.len]);
  vec_free(&counts);
  if (m->shards && m->shards->world > 1) set(t, &total, sum_of_ranks(t, m->shards->world));
  else if (plim_transformers_from(t, 4, 54) && !plim_transformers_from(t, 5, 0))
    set(t, &total, k_unary(t, total)); // gathered from one rank, and summed up
  // divided by the number of ranks that have the same batch
  if (plim_transformers_from(t, 5, 19)) set(t, &total, k_unary(t, total));
  return give(t, &total);
}

static plim_batch batch_new(plim_tape *t, const plim_model *m, const plim_recipe *r) {
  if (train_has_preferences(r)) return plim_preference_batch(t, r);
  plim_dims shape = train_ids_shape(m, r);
  plim_batch b = {.mask_kind = train_mask_of(r) == PLIM_MASK_PAD ? PLIM_MASK_PAD : PLIM_MASK_ONES,
                  .attention = r->attention,
                  .checkpoint = r->checkpoint,
                  .loss = r->loss,
                  .loss_chunk = r->loss_chunk};
  if (train_is_contrastive(r)) {
    b.columns = plim_columns_new(t, m, r);
    plim_state(t)->failed |= !b.columns;
    return b;
  }
  set(t, &b.ids, train_copied(t, shape));
  set(t, &b.mask, train_copied(t, shape));
  if (!m->is_bare) train_load_labels(t, m, r, &b);
  return b;
}

static void batch_drop(plim_tape *t, const plim_recipe *r, plim_batch *b) {
  drop_all(t, &b->ids, &b->mask, &b->labels, &b->ends, &b->answers, &b->reference_chosen,
           &b->reference_rejected);
  for (int i = 0; i < PLIM_BATCH_PARTS; i++) drop(t, &b->parts[i]);
  plim_columns_drop(t, r, b->columns);
}

// All batches of a step are fetched before those of the previous step are freed. A variable keeps the batch that was
// used last until the first new one replaces it.
static bool next_batches(plim_tape *t, const plim_model *m, const plim_recipe *r, trainer *v) {
  int count = train_micro_batches(r);
  plim_batch *fresh = calloc((size_t)count, sizeof *fresh), *old = v->batches;
  if (!fresh) return false;
  for (int i = 0; i < count; i++) fresh[i] = batch_new(t, m, r);
  bool counts = !m->is_bare && !m->takes_no_items && !plim_has_ends(m) &&
                !train_has_preferences(r) && plim_transformers_since(t, m->loss_function_from);
  plim_tensor *items = counts ? count_all_items(t, m, r, count) : NULL;
  for (int i = v->count - 1; i-- > 0;) batch_drop(t, r, &old[i]);
  set(t, &v->items, items);
  if (old) batch_drop(t, r, &old[v->count - 1]);
  free(old);
  v->batches = fresh;
  v->count = count;
  return true;
}

// Under autocast, accelerate casts outputs to float32.
static void widen(plim_tape *t, const plim_recipe *r, plim_tensor **wide, plim_tensor *output) {
  if (output) set(t, wide, r->autocast == PLIM_BOOL ? output : to(t, output, PLIM_FP32));
}

// loss *= num_processes, since average_tokens_across_devices became the default.
static plim_tensor *scaled_by_ranks(plim_tape *t, plim_tensor *loss) {
  return plim_transformers_from(t, 4, 54) ? mul_scalar_in_place(t, loss) : loss;
}

// The float32 copies of the outputs are freed once the loss is taken out.
static plim_tensor *compute_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                 const plim_batch *b) {
  plim_tensor *logits = NULL, *loss = NULL, *wide = NULL, *wide_extra = NULL;
  plim_autocast(t, r->autocast);
  set(t, &loss, train_call_model(t, m, r, b, &logits));
  plim_autocast(t, PLIM_BOOL);
  widen(t, r, &wide, logits);
  widen(t, r, &wide_extra, m->extra);
  drop(t, &logits);
  drop(t, &m->extra);
  if (!loss) set(t, &loss, plim_mean_square(t, wide));
  else if (b->items) set(t, &loss, scaled_by_ranks(t, loss));
  plim_tensor *out = give(t, &loss);
  drop(t, &wide);
  train_release_all(t, &m->cached);
  drop(t, &wide_extra);
  bool divides = !b->items && !m->is_bare; // by the number of passes
  return divides ? div_scalar(t, out) : out;
}

// The tensors that the model added to its features are freed once the loss exists. Trainer divides the loss by the
// number of passes; a language model's loss gets num_items_in_batch instead.
static plim_tensor *compute_contrastive_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                             trainer *v, int i) {
  int64_t pass = v->contrast.model ? v->contrast.pass + 1 : 0;
  v->contrast = (plim_contrast){m, r, v->batches[i].columns, .pass = pass};
  plim_tensor *loss = plim_contrastive_loss(t, &v->contrast);
  plim_columns_forget(t, r, v->batches[i].columns);
  return div_scalar(t, loss);
}

static void training_step(plim_tape *t, plim_model *m, const plim_recipe *r, trainer *v, int i) {
  plim_tensor *loss = NULL, *scaled = NULL, *detached = NULL;
  plim_saves_enter(t, r->saving);
  v->batches[i].items = v->items;
  set(t, &loss,
      train_is_contrastive(r)    ? compute_contrastive_loss(t, m, r, v, i)
      : train_has_preferences(r) ? div_scalar(t, plim_preference_loss(t, m, r, &v->batches[i]))
                                 : compute_loss(t, m, r, &v->batches[i]));
  set(t, &scaled, train_has_engine(m) ? loss : div_scalar(t, loss));
  train_backward(t, m, r, &v->scaler, scaled, i + 1 == v->count);
  if (scaled != loss) drop_graph(t, scaled);
  drop(t, &scaled);
  detached = alias_of(t, loss, loss->shape, loss->stride);
  drop_graph(t, loss);
  drop(t, &loss);
  plim_saves_leave(t, r->saving);
  set(t, &v->loss, detached);
}

// gc.collect takes 0.21 s of a server's core with the 424,000 objects of a process that has imported torch, transformers,
// peft, trl and datasets.
#define COLLECT_SECONDS 0.21

// cudaFree waits for the card.
static void empty_cache(plim_tape *t) {
  plim_work_cpu(t, COLLECT_SECONDS);
  plim_work_synchronize(t);
  plim_tape_empty_cache(t);
}

// isnan and isinf of the loss, which Python reads; then the loss is added to the total, since 5.3 in place.
static void check_loss(plim_tape *t, const plim_tensor *loss, plim_tensor **total) {
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_BOOL));
  plim_tensor *size = k_unary(t, loss), *is_infinite = empty(t, (plim_dims){0}, PLIM_BOOL);
  plim_consume(t, size);
  plim_consume(t, is_infinite);
  if (!plim_transformers_from(t, 5, 3)) set(t, total, k_unary(t, *total));
  plim_work_trainer(t);
}

// Two optimizer groups, each in the model's order: weights with decay, and norms and biases without. Optimizers that project
// gradients have the projected ones in the second group.
static bool is_in_second_group(const plim_recipe *r, const plim_tensor *p) {
  switch (plim_optimizer_order(r->optimizer)) {
  case PLIM_STEPS_BY_DECAY: return !plim_decays(p);
  case PLIM_STEPS_AS_LISTED: return false;
  case PLIM_STEPS_PROJECTED_LAST: return p->blocks;
  }
  return false;
}

static void group_parameters(const plim_model *m, const plim_recipe *r, plim_tensor **grouped) {
  size_t n = 0;
  for (int second = 0; second <= 1; second++)
    for (size_t i = 0; i < m->parameters.len; i++)
      if (is_in_second_group(r, m->parameters.at[i]) == second) grouped[n++] = m->parameters.at[i];
}

bool train_with_trainer(plim_tape *t, plim_model *m, const plim_recipe *r, plim_tensor **state,
                        plim_tensor **grouped) {
  bool ok = true;
  trainer v = {0};
  group_parameters(m, r, grouped);
  plim_optimizer_begin(t, r->optimizer, m->parameters.at, m->parameters.len, state);
  train_own_optimizer *own = train_step_in_backward(t, m, r, state);
  if (train_has_preferences(r)) plim_preference_prepare(t, m, r);
  if (!m->shards || !m->shards->is_wrapped_late) plim_tape_empty_cache(t);
  set(t, &v.total_loss, empty(t, (plim_dims){0}, PLIM_FP32));
  for (int i = 0; ok && i < r->steps && !plim_state(t)->failed; i++) {
    plim_work_step_begin(t);
    plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
    ok = next_batches(t, m, r, &v);
    for (int k = 0; ok && k < v.count && !plim_state(t)->failed; k++) {
      plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
      plim_begin_pass(t);
      training_step(t, m, r, &v, k);
      if (r->empties_cache) empty_cache(t);
      check_loss(t, v.loss, &v.total_loss);
      k = train_next_pass(t, r, k);
    }
    train_begin_optimizer(t, i);
    if (plim_transformers_from(t, 5, 3)) drop(t, &v.norm); // before, the new one replaced it
    if (train_clips(m, r)) set(t, &v.norm, train_clipped_norm(t, m, &v.scaler));
    if (own) train_skip_update(t);
    else train_update(t, m, r, &v.scaler, grouped, state);
    i = train_next_step(t, r, i);
  }
  train_end_own_steps(t, m, own);
  for (int i = 0; i < v.count; i++) free(v.batches[i].columns);
  free(v.batches);
  return ok;
}
