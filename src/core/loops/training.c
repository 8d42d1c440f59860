#include "training.h"

#include <stdlib.h>

#include "contrastive.h"
#include "flash_attention.h"
#include "heads.h"
#include "kernels.h"
#include "loop_skip.h"
#include "loss.h"
#include "ops.h"
#include "pass_replay.h"
#include "scaler.h"
#include "sharding.h"
#include "tape_state.h"
#include "training_impl.h"
#include "two_models.h"
#include "work.h"

#include "op_names.h"

const char *const plim_method_names[PLIM_METHODS + 1] = {
    [PLIM_METHOD_TEXTS] = "sft",
    [PLIM_METHOD_DPO] = "dpo",
    [PLIM_METHOD_ORPO] = "orpo",
    [PLIM_METHOD_CPO] = "cpo",
    [PLIM_METHOD_SIMPO] = "simpo",
    [PLIM_METHOD_KTO] = "kto",
    [PLIM_METHOD_REWARD] = "reward",
    [PLIM_METHOD_PRM] = "prm",
    [PLIM_METHOD_DPO_TUNE] = "dpo-torchtune",
    [PLIM_METHOD_DPO_FACTORY] = "dpo-llamafactory",
    [PLIM_METHOD_ORPO_FACTORY] = "orpo-llamafactory",
    [PLIM_METHOD_SIMPO_FACTORY] = "simpo-llamafactory",
};

const char *const plim_reference_names[PLIM_REFERENCES + 1] = {
    [PLIM_REFERENCE_OWN] = "own",
    [PLIM_REFERENCE_ADAPTER] = "adapter",
    [PLIM_REFERENCE_PRECOMPUTED] = "precomputed",
};

bool plim_method_compares(plim_method method) {
  return method != PLIM_METHOD_TEXTS && method != PLIM_METHOD_PRM;
}

int64_t plim_texts_per_sample(const plim_recipe *r) {
  if (r->loss == PLIM_LOSS_CONTRASTIVE) return r->columns;
  return plim_method_compares(r->method) && r->method != PLIM_METHOD_KTO ? 2 : 1;
}

void plim_recipe_offload(plim_recipe *r, bool on) {
  bool is_own = r->offloading != PLIM_SAVED_HERE;
  r->saving = !on ? PLIM_SAVED_HERE : is_own ? r->offloading : PLIM_SAVED_ON_HOST;
  bool is_replaced = on && r->checkpoint_beside && r->checkpoint;
  r->asked_checkpoint = is_replaced ? r->checkpoint : PLIM_CHECKPOINT_OFF;
  if (is_replaced) r->checkpoint = r->checkpoint_beside;
  if (r->wraps_beside) r->wraps_layers = is_replaced;
}

bool plim_method_is_of_factory(plim_method method) {
  return method == PLIM_METHOD_DPO_FACTORY || method == PLIM_METHOD_ORPO_FACTORY ||
         method == PLIM_METHOD_SIMPO_FACTORY;
}

bool plim_method_has_reference(plim_method method) {
  return method == PLIM_METHOD_DPO || method == PLIM_METHOD_DPO_TUNE ||
         method == PLIM_METHOD_DPO_FACTORY || method == PLIM_METHOD_KTO;
}

// loss.backward(): the initial gradient of 1 lives until it returns; the engine runs in its own thread.
static void run_backward(plim_tape *t, plim_tensor *loss) {
  plim_tensor *one = NULL;
  set(t, &one, empty(t, loss->shape, (plim_dtype)loss->dtype));
  plim_retain(one);
  plim_state(t)->thread = PLIM_BACKWARD_THREAD;
  plim_tape_set_phase(t, PLIM_PHASE_BACKWARD, plim_tape_point(t).step);
  backward(t, loss, one);
  plim_after_backward(t);
  plim_state(t)->thread = PLIM_MAIN_THREAD;
  drop(t, &one);
  plim_hook *rest = &plim_state(t)->after_backward;
  if (rest->run) rest->run(t, rest->context);
}

// accelerator.backward(loss) divides by the number of micro batches; other loops have already done so. AdaLOMO scales it.
static plim_tensor *share_of(plim_tape *t, const plim_recipe *r, plim_tensor *loss) {
  if (plim_optimizer_scales_loss(r->optimizer)) return mul_scalar(t, loss);
  return r->is_bare && r->uses_accelerator ? div_scalar(t, loss) : loss;
}

// With float16: `scaler.scale(loss).backward()`.
static void scale_and_run_backward(plim_tape *t, const plim_recipe *r, plim_scaler *scaler,
                                   plim_tensor *loss) {
  plim_tensor *scaled = NULL;
  set(t, &scaled,
      r->autocast == PLIM_FP16 ? plim_scaler_scale(t, scaler, loss) : share_of(t, r, loss));
  run_backward(t, scaled);
  if (scaled != loss) drop_graph(t, scaled);
  drop(t, &scaled);
}

bool train_has_engine(const plim_model *m) { return m->shards && m->shards->after_engine_backward; }

// DeepSpeed: engine.backward(loss). Trainer passes scale_wrt_gas=False and does not divide the loss either.
static void engine_backward(plim_tape *t, plim_shards *s, const plim_recipe *r, plim_tensor *loss,
                            bool is_last) {
  plim_tensor *share = NULL, *scaled = NULL;
  set(t, &share, r->is_trainer ? loss : div_scalar(t, loss));
  set(t, &scaled, mul_scalar(t, share));
  run_backward(t, scaled);
  s->after_engine_backward(t, s, is_last);
  drop_all(t, &scaled, &share);
}

// Trained parameters that the passes on the tape do not use.
static void give_gradients(plim_tape *t, const plim_model *m) {
  for (size_t i = 0; i < m->parameters.len; i++) {
    plim_tensor *p = m->parameters.at[i];
    if (!p->grad)
      set(t, &p->grad, empty_for(t, PLIM_FOR_GRADIENTS, p->shape, (plim_dtype)p->dtype));
  }
}

void train_backward(plim_tape *t, plim_model *m, const plim_recipe *r, plim_scaler *scaler,
                    plim_tensor *loss, bool is_last) {
  // Trainer and accelerate use no_sync, unless they are told not to; a plain loop does not.
  bool has_no_sync = r->is_trainer || r->uses_accelerator;
  plim_state(t)->reduces_once = has_no_sync && !(m->shards && m->shards->syncs_passes);
  plim_state(t)->reduces_gradients = is_last || !plim_state(t)->reduces_once;
  plim_state(t)->ends_step = is_last;
  if (train_has_engine(m)) engine_backward(t, m->shards, r, loss, is_last);
  else scale_and_run_backward(t, r, scaler, loss);
  if (r->reaches_towers && !m->shards && !r->steps_in_backward) give_gradients(t, m);
  plim_work_pass_end(t);
}

void train_begin_optimizer(plim_tape *t, int step) {
  plim_tape_set_phase(t, PLIM_PHASE_OPTIMIZER, step);
  plim_tape_purpose(t, PLIM_FOR_OPTIMIZER);
}

// DeepSpeed's engine clips gradients itself and prepares the gradients that its optimizer sees.
bool train_clips(const plim_model *m, const plim_recipe *r) {
  return !r->skips_clipping && m->parameters.len && !train_has_engine(m);
}

plim_tensor *train_clipped_norm(plim_tape *t, const plim_model *m, plim_scaler *scaler) {
  if (scaler->scale) plim_scaler_unscale(t, scaler);
  return plim_clip_grad_norm(t, m->parameters.at, m->parameters.len);
}

// DeepSpeed's engine calls the optimizer once for each of its groups.
static void update_in_turn(plim_tape *t, const plim_model *m, const plim_recipe *r,
                           plim_tensor *const *parameters, plim_tensor **state) {
  m->shards->before_step(t, m->shards);
  for (size_t i = 0; i < m->parameters.len; i++) {
    m->shards->before_update(t, m->shards, i);
    plim_optimizer_step_one(t, r->optimizer, parameters, m->parameters.len, state, i, false);
    drop(t, &parameters[i]->grad);
  }
}

void train_update(plim_tape *t, plim_model *m, const plim_recipe *r, plim_scaler *scaler,
                  plim_tensor *const *parameters, plim_tensor **state) {
  const plim_optimizer *o = r->optimizer;
  size_t count = m->parameters.len;
  if (train_has_engine(m)) update_in_turn(t, m, r, m->parameters.at, state);
  else if (scaler->scale) plim_scaler_step(t, scaler, o, parameters, count, state, r->is_trainer);
  else plim_optimizer_step(t, o, parameters, count, state, r->is_trainer);
  if (m->shards && m->shards->after_step) m->shards->after_step(t, m->shards);
  plim_zero_grad(t, m->parameters.at, count);
  plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
  plim_work_step_end(t);
}

void train_skip_update(plim_tape *t) {
  plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
  plim_work_step_end(t);
}

bool train_is_contrastive(const plim_recipe *r) { return r->loss == PLIM_LOSS_CONTRASTIVE; }

bool train_has_preferences(const plim_recipe *r) { return plim_method_compares(r->method); }

int train_micro_batches(const plim_recipe *r) { return r->accumulate > 1 ? r->accumulate : 1; }

// Passes and steps that would repeat the last one are skipped. The last pass of a step always runs if the model is
// sharded, because gradients are reduced in it or after it.
int train_next_pass(plim_tape *t, const plim_recipe *r, int done) {
  int last = train_micro_batches(r) - (plim_state(t)->shards ? 2 : 1);
  if (plim_replays_passes(t)) return plim_replay_passes(t, done, last);
  return plim_skip_alike(t, PLIM_CYCLE_PASS, done, train_micro_batches(r) - 2);
}

int train_next_step(plim_tape *t, const plim_recipe *r, int done) {
  return plim_skip_alike(t, PLIM_CYCLE_STEP, done, r->steps - 1);
}

// Variables of the loop: what a step assigns lives until the next step rebinds it.
typedef struct {
  plim_batch batch;
  plim_tensor *logits, *extra, *loss, *scaled;
  plim_tensor *hidden, *targets; // for a chunked loss
  plim_tensors cached;
  plim_scaler scaler;
  plim_contrast contrast;
  plim_pair_variables pairs;
  plim_distillation distillation;
} variables;

static bool has_targets(const plim_model *m, const plim_recipe *r) {
  return m->is_encoder_decoder && r->target_length;
}

plim_dims train_labels_shape(const plim_model *m, const plim_recipe *r) {
  return plim_labels_shape(m, r->batch, has_targets(m, r) ? r->target_length : r->length);
}

// A batch of choices has several texts for each example.
plim_dims train_ids_shape(const plim_model *m, const plim_recipe *r) {
  return dims(r->batch * plim_texts_of_example(m), r->length);
}

plim_tensor *train_copied(plim_tape *t, plim_dims shape) {
  plim_tape_written(t, PLIM_BY_COPY);
  return empty(t, shape, PLIM_I64);
}

void train_load_labels(plim_tape *t, const plim_model *m, const plim_recipe *r, plim_batch *b) {
  plim_dims shape = train_labels_shape(m, r);
  plim_tape_written(t, PLIM_BY_COPY);
  plim_tensor *labels = empty(t, shape, plim_labels_dtype(m));
  plim_tensor *ends = plim_has_ends(m) ? train_copied(t, shape) : NULL;
  set(t, &b->labels, labels);
  set(t, &b->ends, ends);
}

bool train_gives_mask(const plim_recipe *r) {
  return r->mask != PLIM_MASK_NONE && r->mask != PLIM_MASK_PACKED;
}

plim_mask_kind train_mask_of(const plim_recipe *r) {
  if (!train_gives_mask(r)) return PLIM_MASK_NONE;
  if (r->mask != PLIM_MASK_LONGEST) return r->mask;
  return r->batch > 1 ? PLIM_MASK_PAD : PLIM_MASK_ONES;
}

// The new batch is allocated before the old one is freed.
static void load_batch(plim_tape *t, const plim_model *m, const plim_recipe *r, plim_batch *b) {
  plim_dims shape = train_ids_shape(m, r);
  plim_batch fresh = {0};
  set(t, &fresh.ids, train_copied(t, shape));
  if (train_gives_mask(r)) set(t, &fresh.mask, train_copied(t, shape));
  if (!m->is_bare) train_load_labels(t, m, r, &fresh);
  set(t, &b->ids, give(t, &fresh.ids));
  set(t, &b->mask, give(t, &fresh.mask));
  set(t, &b->labels, give(t, &fresh.labels));
  set(t, &b->ends, give(t, &fresh.ends));
  b->mask_kind = train_mask_of(r);
  b->attention = r->attention;
  b->checkpoint = r->checkpoint;
  b->loss = r->loss;
  b->loss_chunk = r->loss_chunk;
  b->scores_again = r->scores_again;
}

void train_release_all(plim_tape *t, plim_tensors *tensors) {
  for (size_t i = 0; i < tensors->len; i++) plim_release(t, tensors->at[i]);
  tensors->len = 0;
}

// model(**batch), with saved tensors kept where the recipe asks for.
plim_tensor *train_call_model(plim_tape *t, plim_model *m, const plim_recipe *r,
                              const plim_batch *batch, plim_tensor **logits) {
  plim_saving saving_was = plim_saves(t, r->saving);
  plim_tensor *loss = plim_call_model(t, m, batch, logits);
  plim_saves(t, saving_was);
  return loss;
}

// compute_log_probs of LLaMA-Factory v1 (v1/core/base_trainer.py) passes the labels to the model, too. The model's output
// lives until the function returns.
static plim_tensor *score_again(plim_tape *t, const plim_batch *batch, plim_tensor *own,
                                plim_tensor *logits) {
  plim_tensor *kept = NULL;
  set(t, &kept, own);
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tensor *loss = plim_shifted_loss(t, logits, batch->labels);
  plim_tape_purpose(t, was);
  drop_graph(t, kept);
  drop(t, &kept);
  return loss;
}

// The model's output is freed as soon as its loss is taken from it.
static void drop_outputs(plim_tape *t, plim_model *m, plim_tensor **loss, plim_tensor **logits) {
  if (!*loss) *loss = plim_mean_square(t, *logits);
  drop(t, logits);
  train_release_all(t, &m->cached);
  drop(t, &m->extra);
}

static void step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v, bool is_last) {
  load_batch(t, m, r, &v->batch);
  plim_tensor *logits = NULL;
  plim_saves_enter(t, r->saving);
  plim_autocast(t, r->autocast);
  plim_tensor *loss = train_call_model(t, m, r, &v->batch, &logits);
  if (r->scores_again && loss && logits) loss = score_again(t, &v->batch, loss, logits);
  if (r->drops_batch) drop_all(t, &v->batch.ids, &v->batch.mask, &v->batch.labels, &v->batch.ends);
  if (r->keeps_only_loss) drop_outputs(t, m, &loss, &logits);
  set(t, &v->logits, give(t, &logits));
  train_release_all(t, &v->cached);
  plim_tensors fresh = m->cached;
  m->cached = v->cached;
  v->cached = fresh;
  set(t, &v->extra, give(t, &m->extra));
  set(t, &v->loss, loss ? loss : plim_mean_square(t, v->logits));
  plim_autocast(t, PLIM_BOOL);
  bool is_divided = !r->keeps_only_loss || train_micro_batches(r) > 1;
  if (is_divided) {
    plim_tensor *scaled = div_scalar(t, v->loss);
    drop_graph(t, v->scaled);
    set(t, &v->scaled, scaled);
  }
  train_backward(t, m, r, &v->scaler, is_divided ? v->scaled : v->loss, is_last);
  plim_saves_leave(t, r->saving);
  if (!r->deletes_outputs) return;
  drop(t, &v->logits);
  train_release_all(t, &v->cached);
  drop(t, &v->extra);
}

// The loop calls the model without its head and computes the loss itself. No variable holds logits; the graph is freed
// when the sum starts again at 0.
static void chunked_step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v,
                         bool is_last) {
  plim_dims shape = dims(r->batch, r->length);
  set(t, &v->batch.ids, train_copied(t, shape));
  if (train_gives_mask(r)) set(t, &v->batch.mask, train_copied(t, shape));
  v->batch.mask_kind = train_mask_of(r);
  v->batch.attention = r->attention;
  v->batch.checkpoint = r->checkpoint;
  plim_autocast(t, r->autocast);
  plim_tensor *hidden = slice(t, m->inner(t, m, &v->batch), 1, 0, r->length - 1);
  set(t, &v->hidden, reshape(t, hidden, dims(-1, hidden->shape.at[2])));
  set(t, &v->targets, reshape(t, slice(t, v->batch.ids, 1, 1, r->length), dims(-1)));
  drop_graph(t, v->loss);
  drop(t, &v->loss);
  plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_chunked_loss(t, v->hidden, m->head, NULL, v->targets, r->loss_chunk, PLIM_LOGITS_PLAIN,
                    &v->loss);
  plim_tape_purpose(t, PLIM_FOR_ACTIVATIONS);
  plim_autocast(t, PLIM_BOOL);
  set(t, &v->scaled, div_scalar(t, div_scalar(t, v->loss)));
  train_backward(t, m, r, &v->scaler, v->scaled, is_last);
  drop_graph(t, v->scaled);
  drop(t, &v->scaled);
}

// The loss of the previous step is freed when `l` is rebound.
static void contrastive_step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v,
                             bool is_last) {
  plim_autocast(t, r->autocast);
  set(t, &v->loss, plim_contrastive_forward(t, m, r, &v->contrast));
  plim_autocast(t, PLIM_BOOL);
  plim_tensor *scaled = div_scalar(t, v->loss);
  drop_graph(t, v->scaled);
  set(t, &v->scaled, scaled);
  train_backward(t, m, r, &v->scaler, scaled, is_last);
}

static void pairs_step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v,
                       bool is_last) {
  plim_pairs_step(t, m, r, &v->pairs);
  train_backward(t, m, r, &v->scaler, v->pairs.loss, is_last);
}

static void distillation_step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v,
                              bool is_last) {
  plim_distillation_step(t, m, r, &v->distillation);
  train_backward(t, m, r, &v->scaler, v->distillation.loss, is_last);
}

// ---- the minimal loop -------------------------------------------------------------------------------

// Each variable frees its old value when it is rebound.
static void load_bare_batch(plim_tape *t, const plim_model *m, const plim_recipe *r,
                            plim_batch *b) {
  plim_dims shape = train_ids_shape(m, r);
  set(t, &b->ids, train_copied(t, shape));
  if (train_gives_mask(r)) set(t, &b->mask, train_copied(t, shape));
  if (has_targets(m, r) || m->label_head) train_load_labels(t, m, r, b);
  b->mask_kind = train_mask_of(r);
  b->attention = r->attention;
  b->checkpoint = r->checkpoint;
  b->loss = r->loss;
  b->loss_chunk = r->loss_chunk;
  b->scores_again = r->scores_again;
}

// loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss; loss.backward()
static void bare_step(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v,
                      bool is_last) {
  load_bare_batch(t, m, r, &v->batch);
  plim_batch batch = v->batch;
  if (!batch.labels && !m->is_bare) batch.labels = batch.ids;
  plim_tensor *logits = NULL;
  plim_autocast(t, r->autocast);
  plim_tensor *fresh = train_call_model(t, m, r, &batch, &logits);
  if (r->scores_again && fresh && logits) fresh = score_again(t, &batch, fresh, logits);
  if (!fresh) fresh = plim_mean_square(t, logits);
  drop(t, &logits);
  train_release_all(t, &m->cached);
  drop(t, &m->extra);
  drop_graph(t, v->loss);
  set(t, &v->loss, fresh);
  plim_autocast(t, PLIM_BOOL);
  train_backward(t, m, r, &v->scaler, v->loss, is_last);
}

// ---- the optimizer in backward ------------------------------------------------------------------------

// optimizer.step(); optimizer.zero_grad()
static void step_on_grad(plim_tape *t, void *context) {
  const train_own_optimizer *o = context;
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_OPTIMIZER);
  plim_optimizer_step_one(t, o->recipe->optimizer, o->parameters, o->count, o->state, o->index,
                          true);
  plim_zero_grad(t, o->parameters + o->index, 1);
  plim_tape_purpose(t, was);
}

// LOMO: all parameters that have a gradient.
static void step_on_next_grad(plim_tape *t, void *context) {
  train_own_optimizer *all = context;
  for (size_t i = 0; i < all->count; i++)
    if (all->parameters[i]->grad) step_on_grad(t, &all[i]);
}

// register_post_accumulate_grad_hook for every parameter; LOMO: register_hook, and once more behind the backward pass.
train_own_optimizer *train_step_in_backward(plim_tape *t, const plim_model *m, const plim_recipe *r,
                                            plim_tensor **state) {
  size_t count = m->parameters.len;
  if (!r->steps_in_backward) return NULL;
  train_own_optimizer *all = calloc(count + 1, sizeof *all);
  for (size_t i = 0; all && i < count; i++) {
    all[i] = (train_own_optimizer){r, m->parameters.at, state, count, i};
    if (plim_optimizer_lags(r->optimizer))
      m->parameters.at[i]->before_grad = (plim_hook){step_on_next_grad, all, NULL};
    else m->parameters.at[i]->on_grad = (plim_hook){step_on_grad, &all[i], NULL};
  }
  if (!all) plim_tape_stop(t);
  else if (plim_optimizer_lags(r->optimizer))
    plim_state(t)->after_backward = (plim_hook){step_on_next_grad, all, NULL};
  return all;
}

void train_end_own_steps(plim_tape *t, const plim_model *m, train_own_optimizer *own) {
  for (size_t i = 0; own && i < m->parameters.len; i++)
    m->parameters.at[i]->on_grad = m->parameters.at[i]->before_grad = (plim_hook){0};
  plim_state(t)->after_backward = (plim_hook){0};
  free(own);
}

// ---- the loops --------------------------------------------------------------------------------------

typedef void step_function(plim_tape *t, plim_model *m, const plim_recipe *r, variables *v,
                           bool is_last);

static step_function *step_of(const plim_recipe *r) {
  if (r->method == PLIM_METHOD_DPO_TUNE) return pairs_step;
  if (r->distils) return distillation_step;
  if (train_is_contrastive(r)) return contrastive_step;
  if (r->is_bare) return bare_step;
  return r->loss == PLIM_LOSS_LOOP ? chunked_step : step;
}

static void train_manually(plim_tape *t, plim_model *m, const plim_recipe *r, plim_tensor **state) {
  variables v = {0};
  bool clips = train_clips(m, r) && (!r->is_bare || r->clips_bare);
  plim_optimizer_begin(t, r->optimizer, m->parameters.at, m->parameters.len, state);
  train_own_optimizer *own = train_step_in_backward(t, m, r, state);
  for (int i = 0; i < r->steps && !plim_state(t)->failed; i++) {
    plim_work_step_begin(t);
    for (int k = 0; k < train_micro_batches(r); k++) {
      plim_tape_set_phase(t, PLIM_PHASE_FORWARD, i);
      plim_begin_pass(t);
      step_of(r)(t, m, r, &v, k + 1 == train_micro_batches(r));
      k = train_next_pass(t, r, k);
    }
    train_begin_optimizer(t, i);
    if (r->distils) plim_distillation_scale(t);
    if (clips && r->distils) set(t, &v.distillation.norm, train_clipped_norm(t, m, &v.scaler));
    else if (clips) plim_consume(t, train_clipped_norm(t, m, &v.scaler));
    if (own) train_skip_update(t);
    else train_update(t, m, r, &v.scaler, m->parameters.at, state);
    if (r->method == PLIM_METHOD_DPO_TUNE) plim_pairs_log(t, &v.pairs);
    if (r->distils) plim_distillation_log(t, &v.distillation);
    i = train_next_step(t, r, i);
  }
  train_end_own_steps(t, m, own);
  vec_free(&v.cached);
  free(v.contrast.columns);
}

bool plim_train(plim_tape *t, plim_model *m, const plim_recipe *recipe) {
  size_t count = m->parameters.len;
  plim_tensor **state = calloc(PLIM_OPTIMIZER_STATE * count + PLIM_OPTIMIZER_SHARED, sizeof *state);
  plim_tensor **grouped = calloc(count + 1, sizeof *grouped);
  bool ok = state && grouped;
  plim_optimizer_prepare(m, recipe->optimizer, &recipe->projection);
  plim_tape_set_padding(t, recipe->padding);
  plim_tape_set_packing(t, recipe->mask == PLIM_MASK_PACKED);
  plim_state(t)->wraps_layers = recipe->wraps_layers;
  plim_state(t)->has_bitsandbytes |= plim_optimizer_is_bitsandbytes(recipe->optimizer);
  plim_state(t)->partly = m->is_partly_trained ? m : NULL;
  plim_state(t)->asks_for_inputs = recipe->asks_for_inputs;
  plim_state(t)->adds_noise = recipe->adds_noise;
  plim_state(t)->checkpoints_trained = recipe->checkpoints_trained;
  if (ok && recipe->is_trainer) ok = train_with_trainer(t, m, recipe, state, grouped);
  else if (ok) train_manually(t, m, recipe, state);
  free(state);
  free(grouped);
  return ok && !plim_tape_failed(t);
}
