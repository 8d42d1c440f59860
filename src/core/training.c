#include "training.h"

#include <stdlib.h>

#include "ops.h"
#include "tape_impl.h"

// loss.backward(): the gradient of 1 lives until it returns; the engine has a thread of its own.
static void run_backward(plim_tape *t, plim_tensor *loss) {
  plim_tensor *one = NULL;
  set(t, &one, empty(t, loss->shape, (plim_dtype)loss->dtype));
  plim_retain(one);
  t->thread = PLIM_BACKWARD_THREAD;
  backward(t, loss, one);
  t->thread = PLIM_MAIN_THREAD;
  drop(t, &one);
}

// Variables of the loop: what a step leaves in them lives until the next one rebinds it.
typedef struct {
  plim_batch batch;
  plim_tensor *logits, *loss, *scaled;
} variables;

// The new batch exists before the old one goes.
static void load_batch(plim_tape *t, const plim_recipe *r, plim_batch *b) {
  plim_dims shape = dims(r->batch, r->length);
  plim_tensor *ids = empty(t, shape, PLIM_I64);
  plim_tensor *mask = r->mask == PLIM_MASK_NONE ? NULL : empty(t, shape, PLIM_I64);
  plim_tensor *labels = empty(t, shape, PLIM_I64);
  set(t, &b->ids, ids);
  set(t, &b->mask, mask);
  set(t, &b->labels, labels);
  b->mask_kind = r->mask;
  b->attention = r->attention;
  b->checkpoint = r->checkpoint;
}

static void step(plim_tape *t, plim_llama *m, const plim_recipe *r, variables *v) {
  load_batch(t, r, &v->batch);
  plim_tensor *logits = NULL;
  autocast(t, r->autocast);
  plim_tensor *loss = plim_llama_forward(t, m, &v->batch, &logits);
  set(t, &v->logits, give(t, &logits));
  set(t, &v->loss, loss);
  autocast(t, PLIM_BOOL);
  plim_tensor *scaled = div_scalar(t, v->loss);
  drop_graph(t, v->scaled);
  set(t, &v->scaled, scaled);
  run_backward(t, v->scaled);
}

bool plim_train(plim_tape *t, plim_llama *m, const plim_recipe *recipe) {
  size_t count;
  plim_tensor **parameters = plim_llama_parameters(m, &count);
  plim_tensor **state = calloc(PLIM_OPTIMIZER_STATE * count, sizeof *state);
  variables v = {0};
  if (!state) return false;
  for (int i = 0; i < recipe->steps; i++) {
    step(t, m, recipe, &v);
    plim_clip_grad_norm(t, parameters, count);
    plim_optimizer_step(t, recipe->optimizer, parameters, count, state);
    plim_zero_grad(t, parameters, count);
  }
  free(state);
  return !plim_tape_failed(t);
}
