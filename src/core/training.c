#include "training.h"

#include <stdlib.h>

#include "contrastive.h"
#include "cycle.h"
#include "flash_attention.h"
#include "kernels.h"
#include "loss.h"
#include "ops.h"
#include "scaler.h"
#include "sharding.h"
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
  plim_after_backward(t);
  t->thread = PLIM_MAIN_THREAD;
  drop(t, &one);
}

// accelerator.backward(loss) divides by the batches of a step; other loops have done so.
static plim_tensor *share_of(plim_tape *t, const plim_recipe *r, plim_tensor *loss) {
  return r->is_bare && r->uses_accelerator ? div_scalar(t, loss) : loss;
}

// With float16, of the loss times the scale: `scaler.scale(loss).backward()`.
static void scale_and_run_backward(plim_tape *t, const plim_recipe *r, plim_scaler *scaler,
                                   plim_tensor *loss) {
  plim_tensor *scaled = NULL;
  set(t, &scaled,
      r->autocast == PLIM_FP16 ? plim_scaler_scale(t, scaler, loss) : share_of(t, r, loss));
  run_backward(t, scaled);
  if (scaled != loss) drop_graph(t, scaled);
  drop(t, &scaled);
}

static bool has_engine(const plim_model *m) {
  return m->shards && m->shards->after_engine_backward;
}

// DeepSpeed: engine.backward(loss)
static void engine_backward(plim_tape *t, plim_shards *s, plim_tensor *loss, bool is_last) {
  plim_tensor *share = NULL, *scaled = NULL;
  set(t, &share, div_scalar(t, loss));
  set(t, &scaled, mul_scalar(t, share));
  run_backward(t, scaled);
  s->after_engine_backward(t, s, is_last);
  drop_all(t, &scaled, &share);
}

static void backward_of(plim_tape *t, plim_model *m, const plim_recipe *r, plim_scaler *scaler,
                        plim_tensor *loss, bool is_last) {
  t->reduces_once = r->is_trainer || r->uses_accelerator; // its no_sync; a plain loop has none
  t->reduces_gradients = is_last || !t->reduces_once;
  if (has_engine(m)) engine_backward(t, m->shards, loss, is_last);
  else scale_and_run_backward(t, r, scaler, loss);
  plim_work_pass_end(t);
}

static void begin_optimizer(plim_tape *t, int step) {
  plim_tape_set_phase(t, PLIM_PHASE_OPTIMIZER, step);
  plim_tape_purpose(t, PLIM_FOR_OPTIMIZER);
}

// An engine clips by itself, and prepares the gradients that its optimizer sees.
static bool clips(const plim_model *m, const plim_recipe *r) {
  return !r->skips_clipping && m->parameters.len && !has_engine(m);
}

static plim_tensor *clipped_norm(plim_tape *t, const plim_model *m, plim_scaler *scaler) {
  if (scaler->scale) plim_scaler_unscale(t, scaler);
  return plim_clip_grad_norm(t, m->parameters.at, m->parameters.len);
}

static void update(plim_tape *t, plim_model *m, const plim_recipe *r, plim_scaler *scaler,
                   plim_tensor *const *parameters, plim_tensor **state) {
  const plim_optimizer *o = r->optimizer;
  size_t count = m->parameters.len;
  if (has_engine(m)) m->shards->before_step(t, m->shards);
  if (scaler->scale) plim_scaler_step(t, scaler, o, parameters, count, state, r->is_trainer);
  else plim_optimizer_step(t, o, parameters, count, state, r->is_trainer);
  if (m->shards && m->shards->after_step) m->shards->after_step(t, m->shards);
  plim_zero_grad(t, m->parameters.at, count);
  plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
  plim_work_step_end(t);
}

static bool is_contrastive(const plim_recipe *r) { return r->loss == PLIM_LOSS_CONTRASTIVE; }

static int micro_batches(const plim_recipe *r) { return r->accumulate > 1 ? r->accumulate : 1; }

// Passes and steps that would be as the one just done are not run, but the last pass of a step is: an
// engine reduces after it.
static int next_pass(plim_tape *t, const plim_recipe *r, int done) {
  return plim_skip_alike(t, PLIM_CYCLE_PASS, done, micro_batches(r) - 2);
}

static int next_step(plim_tape *t, const plim_recipe *r, int done) {
  return plim_skip_alike(t, PLIM_CYCLE_STEP, done, r->steps - 1);
}

// Variables of the loop: what a step leaves in them lives until the next one rebinds it.
typedef struct {
  plim_batch batch;
  plim_tensor *logits, *extra, *loss, *scaled;
  plim_tensor *hidden, *targets; // of a chunked loss
  plim_tensors cached;
  plim_scaler scaler;
  plim_contrast contrast;
} variables;

static bool has_targets(const plim_model *m, const plim_recipe *r) {
  return m->is_encoder_decoder && r->target_length;
}

static plim_dims labels_shape(const plim_model *m, const plim_recipe *r) {
  return dims(r->batch, has_targets(m, r) ? r->target_length : r->length);
}

static plim_mask_kind mask_of(const plim_recipe *r) {
  if (r->mask != PLIM_MASK_LONGEST) return r->mask;
  return r->batch > 1 ? PLIM_MASK_PAD : PLIM_MASK_ONES;
}

// The new batch exists before the old one goes.
static void load_batch(plim_tape *t, const plim_model *m, const plim_recipe *r, plim_batch *b) {
  plim_dims shape = dims(r->batch, r->length);
  plim_tensor *ids = empty(t, shape, PLIM_I64);
  plim_tensor *mask = r->mask == PLIM_MASK_NONE ? NULL : empty(t, shape, PLIM_I64);
  plim_tensor *labels = m->is_bare ? NULL : empty(t, labels_shape(m, r), PLIM_I64);
  set(t, &b->ids, ids);
  set(t, &b->mask, mask);
  set(t, &b->labels, labels);
  b->mask_kind = mask_of(r);
  b->attention = r->attention;
  b->checkpoint = r->checkpoint;
  b->loss = r->loss;
  b->loss_chunk = r->loss_chunk;
}

static void release_all(plim_tape *t, plim_tensors *tensors) {
  for (size_t i = 0; i < tensors->len; i++) plim_release(t, tensors->at[i]);
  tensors->len = 0;
}

// model(**batch), with what it saves on the host if the recipe says so.
static plim_tensor *call_model(plim_tape *t, plim_model *m, const plim_recipe *r,
                               const plim_batch *batch, plim_tensor **logits) {
  plim_save_on_host(t, r->offloads_saved);
  plim_tensor *loss = plim_call_model(t, m, batch, logits);
  plim_save_on_host(t, false);
  return loss;
}

static void step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v, bool is_last) {
  load_batch(t, m, r, &v->batch);
  plim_tensor *logits = NULL;
  autocast(t, r->autocast);
  plim_tensor *loss = call_model(t, m, r, &v->batch, &logits);
  set(t, &v->logits, give(t, &logits));
  release_all(t, &v->cached);
  plim_tensors fresh = m->cached;
  m->cached = v->cached;
  v->cached = fresh;
  set(t, &v->extra, give(t, &m->extra));
  set(t, &v->loss, loss ? loss : mean_square(t, v->logits));
  autocast(t, PLIM_BOOL);
  plim_tensor *scaled = div_scalar(t, v->loss);
  drop_graph(t, v->scaled);
  set(t, &v->scaled, scaled);
  backward_of(t, m, r, &v->scaler, v->scaled, is_last);
  if (!r->deletes_outputs) return;
  drop(t, &v->logits);
  release_all(t, &v->cached);
  drop(t, &v->extra);
}

// The loop calls the model without its head and computes the loss itself. No variable holds logits;
// the graph goes when the sum starts again at 0.
static void chunked_step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v,
                         bool is_last) {
  plim_dims shape = dims(r->batch, r->length);
  set(t, &v->batch.ids, empty(t, shape, PLIM_I64));
  if (r->mask != PLIM_MASK_NONE) set(t, &v->batch.mask, empty(t, shape, PLIM_I64));
  v->batch.mask_kind = mask_of(r);
  v->batch.attention = r->attention;
  v->batch.checkpoint = r->checkpoint;
  autocast(t, r->autocast);
  plim_tensor *hidden = slice(t, m->inner(t, m, &v->batch), 1, 0, r->length - 1);
  set(t, &v->hidden, reshape(t, hidden, dims(-1, hidden->shape.at[2])));
  set(t, &v->targets, reshape(t, slice(t, v->batch.ids, 1, 1, r->length), dims(-1)));
  drop_graph(t, v->loss);
  drop(t, &v->loss);
  plim_tape_purpose(t, PLIM_FOR_LOGITS);
  chunked_loss(t, v->hidden, m->head, v->targets, r->loss_chunk, false, &v->loss);
  plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
  autocast(t, PLIM_BOOL);
  set(t, &v->scaled, div_scalar(t, div_scalar(t, v->loss)));
  backward_of(t, m, r, &v->scaler, v->scaled, is_last);
  drop_graph(t, v->scaled);
  drop(t, &v->scaled);
}

// The loss of the step before goes when `l` is bound again.
static void contrastive_step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v,
                             bool is_last) {
  autocast(t, r->autocast);
  set(t, &v->loss, plim_contrastive_forward(t, m, r, &v->contrast));
  autocast(t, PLIM_BOOL);
  plim_tensor *scaled = v->loss ? div_scalar(t, v->loss) : NULL;
  drop_graph(t, v->scaled);
  set(t, &v->scaled, scaled);
  if (scaled) backward_of(t, m, r, &v->scaler, scaled, is_last);
}

static void train_plainly(plim_tape *t, plim_model *m, const plim_recipe *r, plim_tensor **state) {
  variables v = {0};
  for (int i = 0; i < r->steps && !t->failed; i++) {
    plim_work_step_begin(t);
    for (int k = 0; k < micro_batches(r); k++) {
      plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
      bool is_last = k + 1 == micro_batches(r);
      (is_contrastive(r)           ? contrastive_step
       : r->loss == PLIM_LOSS_LOOP ? chunked_step
                                   : step)(t, m, r, &v, is_last);
      k = next_pass(t, r, k);
    }
    begin_optimizer(t, i);
    if (clips(m, r)) plim_consume(t, clipped_norm(t, m, &v.scaler));
    update(t, m, r, &v.scaler, m->parameters.at, state);
    i = next_step(t, r, i);
  }
  vec_free(&v.cached);
  free(v.contrast.columns);
}

// ---- the shortest loop ------------------------------------------------------------------------------

// Each variable lets its last value go as it gets the new one.
static void load_bare_batch(plim_tape *t, const plim_model *m, const plim_recipe *r,
                            plim_batch *b) {
  plim_dims shape = dims(r->batch, r->length);
  set(t, &b->ids, empty(t, shape, PLIM_I64));
  if (r->mask != PLIM_MASK_NONE) set(t, &b->mask, empty(t, shape, PLIM_I64));
  if (has_targets(m, r)) set(t, &b->labels, empty(t, labels_shape(m, r), PLIM_I64));
  b->mask_kind = r->mask;
  b->attention = r->attention;
  b->checkpoint = r->checkpoint;
  b->loss = r->loss;
  b->loss_chunk = r->loss_chunk;
}

// loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss; loss.backward()
static void bare_step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v,
                      bool is_last) {
  load_bare_batch(t, m, r, &v->batch);
  plim_batch batch = v->batch;
  if (!batch.labels && !m->is_bare) batch.labels = batch.ids;
  plim_tensor *logits = NULL;
  autocast(t, r->autocast);
  plim_tensor *fresh = call_model(t, m, r, &batch, &logits);
  if (!fresh) fresh = mean_square(t, logits);
  drop(t, &logits);
  release_all(t, &m->cached);
  drop(t, &m->extra);
  drop_graph(t, v->loss);
  set(t, &v->loss, fresh);
  autocast(t, PLIM_BOOL);
  backward_of(t, m, r, &v->scaler, v->loss, is_last);
}

static void train_barely(plim_tape *t, plim_model *m, const plim_recipe *r, plim_tensor **state) {
  variables v = {0};
  for (int i = 0; i < r->steps && !t->failed; i++) {
    plim_work_step_begin(t);
    for (int k = 0; k < micro_batches(r); k++) {
      plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
      (is_contrastive(r) ? contrastive_step : bare_step)(t, m, r, &v, k + 1 == micro_batches(r));
      k = next_pass(t, r, k);
    }
    begin_optimizer(t, i);
    if (r->clips_bare && clips(m, r)) plim_consume(t, clipped_norm(t, m, &v.scaler));
    update(t, m, r, &v.scaler, m->parameters.at, state);
    i = next_step(t, r, i);
  }
}

// ---- transformers.Trainer ---------------------------------------------------------------------------

typedef struct {
  plim_batch *batches; // of this step
  int count;
  plim_tensor *total_loss, *loss, *norm, *items;
  plim_scaler scaler;
  plim_contrast contrast;
} trainer;

// (labels[:, 1:] != -100).sum()
static plim_tensor *count_items(plim_tape *t, const plim_model *m, const plim_recipe *r) {
  plim_dims shape = labels_shape(m, r);
  if (!m->has_aligned_labels) shape.at[1]--;
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

// The sum over the batches, each count added in turn.
static plim_tensor *count_all_items(plim_tape *t, const plim_model *m, const plim_recipe *r,
                                    int count) {
  plim_tensor *total = NULL, *one = NULL;
  for (int i = 0; i < count; i++) {
    set(t, &one, count_items(t, m, r));
    set(t, &total, total ? add(t, total, one) : k_unary(t, one));
    drop(t, &one);
  }
  if (m->shards && m->shards->world > 1) set(t, &total, sum_of_ranks(t, m->shards->world));
  return give(t, &total);
}

static plim_batch batch_new(plim_tape *t, const plim_model *m, const plim_recipe *r) {
  plim_dims shape = dims(r->batch, r->length);
  plim_batch b = {.mask_kind = mask_of(r) == PLIM_MASK_PAD ? PLIM_MASK_PAD : PLIM_MASK_ONES,
                  .attention = r->attention,
                  .checkpoint = r->checkpoint,
                  .loss = r->loss,
                  .loss_chunk = r->loss_chunk};
  if (is_contrastive(r)) {
    b.columns = plim_columns_new(t, m, r);
    t->failed |= !b.columns;
    return b;
  }
  set(t, &b.ids, empty(t, shape, PLIM_I64));
  set(t, &b.mask, empty(t, shape, PLIM_I64));
  if (!m->is_bare) set(t, &b.labels, empty(t, labels_shape(m, r), PLIM_I64));
  return b;
}

static void batch_drop(plim_tape *t, const plim_recipe *r, plim_batch *b) {
  drop_all(t, &b->ids, &b->mask, &b->labels);
  plim_columns_drop(t, r, b->columns);
}

// All batches of a step are fetched before the last step's go; the one that was used last is still
// in a variable, until the first of the new takes its place.
static bool next_batches(plim_tape *t, const plim_model *m, const plim_recipe *r, trainer *v) {
  int count = micro_batches(r);
  plim_batch *fresh = calloc((size_t)count, sizeof *fresh), *old = v->batches;
  if (!fresh) return false;
  for (int i = 0; i < count; i++) fresh[i] = batch_new(t, m, r);
  plim_tensor *items = m->is_bare ? NULL : count_all_items(t, m, r, count);
  for (int i = v->count - 1; i-- > 0;) batch_drop(t, r, &old[i]);
  set(t, &v->items, items);
  if (old) batch_drop(t, r, &old[v->count - 1]);
  free(old);
  v->batches = fresh;
  v->count = count;
  return true;
}

// Under autocast, accelerate turns an output into float32.
static void widen(plim_tape *t, const plim_recipe *r, plim_tensor **wide, plim_tensor *output) {
  if (output) set(t, wide, r->autocast == PLIM_BOOL ? output : to(t, output, PLIM_FP32));
}

// The copies of outputs go when the loss has been taken out.
static plim_tensor *compute_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                 const plim_batch *b) {
  plim_tensor *logits = NULL, *loss = NULL, *wide = NULL, *wide_extra = NULL;
  autocast(t, r->autocast);
  set(t, &loss, call_model(t, m, r, b, &logits));
  autocast(t, PLIM_BOOL);
  widen(t, r, &wide, logits);
  widen(t, r, &wide_extra, m->extra);
  drop(t, &logits);
  drop(t, &m->extra);
  set(t, &loss, loss ? mul_scalar_in_place(t, loss) : mean_square(t, wide));
  plim_tensor *out = give(t, &loss);
  drop(t, &wide);
  release_all(t, &m->cached);
  drop(t, &wide_extra);
  return out;
}

// What the model left in its features goes when the loss is there. Trainer divides it by the number of passes,
// which the other loss is told.
static plim_tensor *compute_contrastive_loss(plim_tape *t, plim_model *m, const plim_recipe *r,
                                             trainer *v, int i) {
  v->contrast = (plim_contrast){m, r, v->batches[i].columns};
  plim_tensor *loss = plim_contrastive_loss(t, &v->contrast);
  plim_columns_forget(t, r, v->batches[i].columns);
  return div_scalar(t, loss);
}

static void training_step(plim_tape *t, plim_model *m, const plim_recipe *r, trainer *v, int i) {
  plim_tensor *loss = NULL, *scaled = NULL, *detached = NULL;
  v->batches[i].items = v->items;
  set(t, &loss,
      is_contrastive(r) ? compute_contrastive_loss(t, m, r, v, i)
                        : compute_loss(t, m, r, &v->batches[i]));
  set(t, &scaled, div_scalar(t, loss));
  backward_of(t, m, r, &v->scaler, scaled, i + 1 == v->count);
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

static bool decays(const plim_model *m, const plim_tensor *p) {
  return p->shape.n > 1 && p != m->undecayed[0] && p != m->undecayed[1];
}

// Weights decay, norms and biases do not: two groups, each in the model's order.
static void group_parameters(const plim_model *m, plim_tensor **grouped) {
  size_t n = 0;
  for (int decaying = 1; decaying >= 0; decaying--)
    for (size_t i = 0; i < m->parameters.len; i++)
      if (decays(m, m->parameters.at[i]) == decaying) grouped[n++] = m->parameters.at[i];
}

static bool train_with_trainer(plim_tape *t, plim_model *m, const plim_recipe *r,
                               plim_tensor **state, plim_tensor **grouped) {
  bool ok = true;
  trainer v = {0};
  group_parameters(m, grouped);
  if (!m->shards || !m->shards->is_wrapped_late) plim_tape_empty_cache(t);
  set(t, &v.total_loss, empty(t, (plim_dims){0}, PLIM_FP32));
  for (int i = 0; ok && i < r->steps && !t->failed; i++) {
    plim_work_step_begin(t);
    plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
    ok = next_batches(t, m, r, &v);
    for (int k = 0; ok && k < v.count; k++) {
      plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
      training_step(t, m, r, &v, k);
      check_loss(t, v.loss);
      k = next_pass(t, r, k);
    }
    begin_optimizer(t, i);
    drop(t, &v.norm);
    if (clips(m, r)) set(t, &v.norm, clipped_norm(t, m, &v.scaler));
    update(t, m, r, &v.scaler, grouped, state);
    i = next_step(t, r, i);
  }
  for (int i = 0; i < v.count; i++) free(v.batches[i].columns);
  free(v.batches);
  return ok;
}

bool plim_train(plim_tape *t, plim_model *m, const plim_recipe *recipe) {
  size_t count = m->parameters.len;
  plim_tensor **state = calloc(PLIM_OPTIMIZER_STATE * count + PLIM_OPTIMIZER_SHARED, sizeof *state);
  plim_tensor **grouped = calloc(count + 1, sizeof *grouped);
  bool ok = state && grouped;
  plim_tape_set_padding(t, recipe->padding);
  t->wraps_layers = recipe->wraps_layers;
  if (ok && recipe->is_trainer) ok = train_with_trainer(t, m, recipe, state, grouped);
  else if (ok && recipe->is_bare) train_barely(t, m, recipe, state);
  else if (ok) train_plainly(t, m, recipe, state);
  free(state);
  free(grouped);
  return ok && !plim_tape_failed(t);
}
