#include "training.h"

#include <stdlib.h>

#include "kernels.h"
#include "loss.h"
#include "ops.h"
#include "scaler.h"
#include "tape_impl.h"
#include "work.h"

// loss.backward(): the gradient of 1 lives until it returns; the engine has a thread of its own.
static void run_backward(plim_tape *t, plim_tensor *loss) {
  plim_tensor *one = NULL;
  set(t, &one, empty(t, loss->shape, (plim_dtype)loss->dtype));
  plim_retain(one);
  t->thread = PLIM_BACKWARD_THREAD;
  plim_tape_set_phase(t, PLIM_PHASE_BACKWARD, t->place.step);
  backward(t, loss, one);
  t->thread = PLIM_MAIN_THREAD;
  drop(t, &one);
}

// With float16, of the loss times the scale: `scaler.scale(loss).backward()`.
static void scale_and_run_backward(plim_tape *t, const plim_recipe *r, plim_scaler *scaler,
                                   plim_tensor *loss) {
  plim_tensor *scaled = NULL;
  set(t, &scaled, r->autocast == PLIM_FP16 ? plim_scaler_scale(t, scaler, loss) : loss);
  run_backward(t, scaled);
  if (scaled != loss) drop_graph(t, scaled);
  drop(t, &scaled);
}

static void step_optimizer(plim_tape *t, const plim_recipe *r, plim_scaler *scaler,
                           plim_tensor *const *parameters, size_t count, plim_tensor **state) {
  if (scaler->scale) plim_scaler_step(t, scaler, r->optimizer, parameters, count, state);
  else plim_optimizer_step(t, r->optimizer, parameters, count, state);
}

// Variables of the loop: what a step leaves in them lives until the next one rebinds it.
typedef struct {
  plim_batch batch;
  plim_tensor *logits, *pooled, *loss, *scaled;
  plim_scaler scaler;
} variables;

// The new batch exists before the old one goes.
static void load_batch(plim_tape *t, const plim_recipe *r, bool has_labels, plim_batch *b) {
  plim_dims shape = dims(r->batch, r->length);
  plim_tensor *ids = empty(t, shape, PLIM_I64);
  plim_tensor *mask = r->mask == PLIM_MASK_NONE ? NULL : empty(t, shape, PLIM_I64);
  plim_tensor *labels = has_labels ? empty(t, shape, PLIM_I64) : NULL;
  set(t, &b->ids, ids);
  set(t, &b->mask, mask);
  set(t, &b->labels, labels);
  b->mask_kind = r->mask;
  b->attention = r->attention;
  b->checkpoint = r->checkpoint;
}

static void step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v) {
  load_batch(t, r, !m->is_bare, &v->batch);
  plim_tensor *logits = NULL;
  autocast(t, r->autocast);
  plim_tensor *loss = m->forward(t, m, &v->batch, &logits);
  set(t, &v->logits, give(t, &logits));
  set(t, &v->pooled, give(t, &m->pooled));
  set(t, &v->loss, loss ? loss : mean_square(t, v->logits));
  autocast(t, PLIM_BOOL);
  plim_tensor *scaled = div_scalar(t, v->loss);
  drop_graph(t, v->scaled);
  set(t, &v->scaled, scaled);
  scale_and_run_backward(t, r, &v->scaler, v->scaled);
  if (!r->deletes_outputs) return;
  drop(t, &v->logits);
  drop(t, &v->pooled);
}

static void begin_optimizer(plim_tape *t, int step) {
  plim_tape_set_phase(t, PLIM_PHASE_OPTIMIZER, step);
  plim_tape_purpose(t, PLIM_FOR_OPTIMIZER);
}

static void train_plainly(plim_tape *t, plim_model *m, const plim_recipe *r, plim_tensor **state) {
  plim_tensor **parameters = m->parameters.at;
  size_t count = m->parameters.len;
  variables v = {0};
  for (int i = 0; i < r->steps; i++) {
    plim_work_step_begin(t);
    for (int k = 0; k < (r->accumulate > 1 ? r->accumulate : 1); k++) {
      plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
      step(t, m, r, &v);
    }
    begin_optimizer(t, i);
    if (v.scaler.scale && !r->skips_clipping) plim_scaler_unscale(t, &v.scaler);
    if (!r->skips_clipping) plim_consume(t, plim_clip_grad_norm(t, parameters, count));
    step_optimizer(t, r, &v.scaler, parameters, count, state);
    plim_zero_grad(t, parameters, count);
    plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
    plim_work_step_end(t);
  }
}

// ---- transformers.Trainer ---------------------------------------------------------------------------

typedef struct {
  plim_batch *batches; // of this step
  int count;
  plim_tensor *total_loss, *loss, *norm, *items;
  plim_scaler scaler;
} trainer;

// (labels[:, 1:] != -100).sum(), or of all labels where the loss takes them as they are.
static plim_tensor *count_items(plim_tape *t, const plim_recipe *r, bool all) {
  plim_dims shape = dims(r->batch, all ? r->length : r->length - 1);
  plim_tensor *is_item = empty(t, shape, PLIM_BOOL), *sum = empty(t, (plim_dims){0}, PLIM_I64);
  plim_consume(t, empty(t, shape, PLIM_I64));
  plim_consume(t, is_item);
  return sum;
}

// The sum over the batches, each count added in turn.
static plim_tensor *count_all_items(plim_tape *t, const plim_recipe *r, bool all, int count) {
  plim_tensor *total = NULL, *one = NULL;
  for (int i = 0; i < count; i++) {
    set(t, &one, count_items(t, r, all));
    set(t, &total, total ? add(t, total, one) : k_unary(t, one));
    drop(t, &one);
  }
  return give(t, &total);
}

static plim_batch batch_new(plim_tape *t, const plim_recipe *r) {
  plim_dims shape = dims(r->batch, r->length);
  plim_batch b = {
      .mask_kind = PLIM_MASK_ONES, .attention = r->attention, .checkpoint = r->checkpoint};
  set(t, &b.ids, empty(t, shape, PLIM_I64));
  set(t, &b.mask, empty(t, shape, PLIM_I64));
  set(t, &b.labels, empty(t, shape, PLIM_I64));
  return b;
}

static void batch_drop(plim_tape *t, plim_batch *b) {
  drop(t, &b->ids);
  drop(t, &b->mask);
  drop(t, &b->labels);
}

// All batches of a step are fetched before the last step's go; the one that was used last is still
// in a variable, until the first of the new takes its place.
static bool next_batches(plim_tape *t, const plim_model *m, const plim_recipe *r, trainer *v) {
  int count = r->accumulate > 1 ? r->accumulate : 1;
  plim_batch *fresh = calloc((size_t)count, sizeof *fresh), *old = v->batches;
  if (!fresh) return false;
  for (int i = 0; i < count; i++) fresh[i] = batch_new(t, r);
  plim_tensor *items = count_all_items(t, r, m->has_aligned_labels, count);
  for (int i = v->count - 1; i-- > 0;) batch_drop(t, &old[i]);
  set(t, &v->items, items);
  if (old) batch_drop(t, &old[v->count - 1]);
  free(old);
  v->batches = fresh;
  v->count = count;
  return true;
}

// Under autocast, accelerate turns the outputs into float32: a copy of the logits, which goes when
// the loss has been taken out.
static plim_tensor *compute_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                 const plim_batch *b) {
  plim_tensor *logits = NULL, *loss = NULL, *wide = NULL;
  autocast(t, r->autocast);
  set(t, &loss, m->forward(t, m, b, &logits));
  autocast(t, PLIM_BOOL);
  if (r->autocast != PLIM_BOOL) set(t, &wide, to(t, logits, PLIM_FP32));
  else set(t, &wide, logits);
  drop(t, &logits);
  set(t, &loss, mul_scalar_in_place(t, loss));
  plim_tensor *out = give(t, &loss);
  drop(t, &wide);
  return out;
}

static void training_step(plim_tape *t, plim_model *m, const plim_recipe *r, trainer *v, int i) {
  plim_tensor *loss = NULL, *scaled = NULL, *detached = NULL;
  v->batches[i].items = v->items;
  set(t, &loss, compute_loss(t, m, r, &v->batches[i]));
  set(t, &scaled, div_scalar(t, loss));
  scale_and_run_backward(t, r, &v->scaler, scaled);
  drop_graph(t, scaled);
  drop(t, &scaled);
  detached = alias_of(t, loss, loss->shape, loss->stride);
  drop_graph(t, loss);
  drop(t, &loss);
  set(t, &v->loss, detached);
}

// isnan and isinf of the loss, which Python looks at.
static void check_loss(plim_tape *t, const plim_tensor *loss) {
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_BOOL));
  plim_tensor *size = k_unary(t, loss), *is_infinite = empty(t, (plim_dims){0}, PLIM_BOOL);
  plim_consume(t, size);
  plim_consume(t, is_infinite);
  plim_work_trainer(t);
}

// Weights decay, norms and biases do not: two groups, each in the model's order.
static void group_parameters(plim_tensor *const *parameters, size_t count, plim_tensor **grouped) {
  size_t n = 0;
  for (int matrices = 1; matrices >= 0; matrices--)
    for (size_t i = 0; i < count; i++)
      if ((parameters[i]->shape.n > 1) == matrices) grouped[n++] = parameters[i];
}

static bool train_with_trainer(plim_tape *t, plim_model *m, const plim_recipe *r,
                               plim_tensor **state, plim_tensor **grouped) {
  bool ok = true;
  plim_tensor **parameters = m->parameters.at;
  size_t count = m->parameters.len;
  trainer v = {0};
  group_parameters(parameters, count, grouped);
  plim_tape_empty_cache(t);
  set(t, &v.total_loss, empty(t, (plim_dims){0}, PLIM_FP32));
  for (int i = 0; ok && i < r->steps; i++) {
    plim_work_step_begin(t);
    plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
    ok = next_batches(t, m, r, &v);
    for (int k = 0; ok && k < v.count; k++) {
      plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
      training_step(t, m, r, &v, k);
      check_loss(t, v.loss);
    }
    begin_optimizer(t, i);
    drop(t, &v.norm);
    if (v.scaler.scale) plim_scaler_unscale(t, &v.scaler);
    set(t, &v.norm, plim_clip_grad_norm(t, parameters, count));
    step_optimizer(t, r, &v.scaler, grouped, count, state);
    plim_zero_grad(t, parameters, count);
    plim_work_step_end(t);
    plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
  }
  free(v.batches);
  return ok;
}

bool plim_train(plim_tape *t, plim_model *m, const plim_recipe *recipe) {
  size_t count = m->parameters.len;
  plim_tensor **state = calloc(PLIM_OPTIMIZER_STATE * count + 1, sizeof *state);
  plim_tensor **grouped = calloc(count + 1, sizeof *grouped);
  bool ok = state && grouped;
  if (ok && recipe->is_trainer) ok = train_with_trainer(t, m, recipe, state, grouped);
  else if (ok) train_plainly(t, m, recipe, state);
  free(state);
  free(grouped);
  return ok && !plim_tape_failed(t);
}
