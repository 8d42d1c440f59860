// Distillation as torchtune's recipe does it (recipes/knowledge_distillation_single_device.py): the student's cross
// entropy and the forward KL divergence from a frozen teacher, with all logits at once or in eight chunks.
#include "kernels.h"
#include "ops.h"
#include "tape_state.h"
#include "training_impl.h"
#include "two_models.h"
#include "wrapper.h"

#include "op_names.h"

// The logits of one model: in eighths, or all in the first place.
typedef struct {
  plim_tensor *at[PLIM_EIGHTHS];
} logits_list;

static void call(plim_tape *t, plim_model *m, const plim_recipe *r, const plim_distillation *v,
                 plim_checkpoint_kind checkpoint, logits_list *out) {
  plim_batch b = {.ids = v->ids, .attention = r->attention, .checkpoint = checkpoint};
  plim_tensor *logits = NULL, *hidden = NULL;
  bool is_whole = r->loss == PLIM_LOSS_FULL;
  if (is_whole) {
    plim_consume(t, train_call_model(t, m, r, &b, &logits));
    set(t, &out->at[0], to(t, logits, PLIM_FP32));
    set(t, &out->at[0], view(t, out->at[0], dims(-1, logits->shape.at[2])));
    drop(t, &logits);
    return;
  }
  plim_shards *shards = plim_begin_call(t, m);
  plim_saving saving_was = plim_saves(t, r->saving);
  set(t, &hidden, m->inner(t, m, &b));
  plim_saves(t, saving_was);
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_eighths_logits(t, m, hidden, out->at);
  plim_tape_purpose(t, was);
  drop(t, &hidden);
  plim_end_call(t, m, out->at[PLIM_EIGHTHS - 1], shards);
}

// (labels != -100).int()
static plim_tensor *mask_of(plim_tape *t, plim_dims shape) {
  plim_tensor *counts = empty(t, shape, PLIM_BOOL), *mask = empty(t, shape, PLIM_I32);
  plim_consume(t, counts);
  return mask;
}

// torch.sum(mask.view(-1), dim=0)
static plim_tensor *sum_of(plim_tape *t, const plim_tensor *mask) {
  plim_tensor *sum = empty(t, (plim_dims){0}, PLIM_I64);
  plim_consume(t, empty(t, mask->shape, PLIM_I64));
  return sum;
}

// sum_masks = torch.sum(mask.view(-1), dim=0); if sum_masks == 0
static void set_sum(plim_tape *t, plim_tensor **sum, const plim_tensor *mask) {
  set(t, sum, sum_of(t, mask));
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_BOOL));
}

// ForwardKLLoss(student, teacher, labels); a chunk's is not divided by the number of its labels
static plim_tensor *divergence(plim_tape *t, plim_tensor *student, plim_tensor *teacher,
                               bool is_whole) {
  plim_tensor *expected = NULL, *is_infinite = NULL, *log_probs = NULL, *products = NULL;
  plim_tensor *rows = NULL, *mask = NULL, *count = NULL;
  set(t, &expected, softmax(t, teacher, PLIM_FP32));
  plim_tensor *size = k_unary(t, student);
  set(t, &is_infinite, empty(t, student->shape, PLIM_BOOL));
  plim_consume(t, size);
  set(t, &log_probs, log_softmax(t, to(t, student, PLIM_FP32)));
  set(t, &products, masked_fill(t, mul(t, expected, log_probs), is_infinite));
  set(t, &rows, view(t, sum_dim(t, products, 1, false, PLIM_FP32), dims(-1)));
  set(t, &mask, mask_of(t, rows->shape));
  if (is_whole) set_sum(t, &count, mask);
  plim_tensor *sum = neg(t, sum_dim(t, mul(t, rows, mask), 0, false, PLIM_FP32));
  if (is_whole) sum = divide(t, sum, sum_of(t, mask));
  drop_all(t, &expected, &is_infinite, &log_probs, &products, &rows, &mask, &count);
  return sum;
}

// ForwardKLWithChunkedOutputLoss(student, teacher, labels)
static plim_tensor *listed_divergence(plim_tape *t, plim_tensor *labels, const logits_list *student,
                                      const logits_list *teacher) {
  plim_tensor *targets[PLIM_EIGHTHS] = {0}, *mask = NULL, *total = NULL, *count = NULL;
  logits_list given = {0}, own = {0};
  plim_eighths_as_rows(t, teacher->at, given.at);
  plim_eighths_as_rows(t, student->at, own.at);
  set(t, &mask, mask_of(t, labels->shape));
  plim_eighths_of_labels(t, labels, targets);
  for (int64_t i = 0; i < PLIM_EIGHTHS && own.at[i]; i++)
    plim_add_to_running(t, &total, divergence(t, own.at[i], given.at[i], false));
  set_sum(t, &count, mask);
  plim_tensor *loss = divide(t, total, sum_of(t, mask));
  plim_tensor *last = NULL; // the loop's variable
  set(t, &last, targets[PLIM_EIGHTHS - 1]);
  plim_eighths_drop(t, own.at);
  plim_eighths_drop(t, given.at);
  plim_eighths_drop(t, targets);
  drop_all(t, &mask, &total, &last, &count);
  return loss;
}

// The student's logits are freed before backward.
static void set_losses(plim_tape *t, plim_model *m, const plim_recipe *r, plim_distillation *v) {
  logits_list student = {0}, teacher = {0};
  plim_tensor *distance = NULL, *entropy = NULL;
  call(t, m, r, v, r->checkpoint, &student);
  bool was = set_grad_mode(t, false);
  call(t, m->reference, r, v, PLIM_CHECKPOINT_OFF, &teacher);
  set_grad_mode(t, was);
  plim_purpose purpose = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  if (r->loss == PLIM_LOSS_FULL) {
    set(t, &distance, divergence(t, student.at[0], teacher.at[0], true));
    plim_tensor *log_probs = log_softmax(t, student.at[0]);
    set(t, &entropy, nll_loss(t, log_probs, view(t, v->labels, dims(-1))));
  } else {
    set(t, &distance, listed_divergence(t, v->labels, &student, &teacher));
    set(t, &entropy, plim_listed_loss(t, student.at, v->labels));
  }
  plim_tape_purpose(t, purpose);
  plim_eighths_drop(t, student.at);
  plim_eighths_drop(t, teacher.at);
  set(t, &v->class_loss, give(t, &entropy));
  set(t, &v->teacher_loss, give(t, &distance));
}

void plim_distillation_step(plim_tape *t, plim_model *m, const plim_recipe *r,
                            plim_distillation *v) {
  plim_dims shape = dims(r->batch, r->length);
  drop_all(t, &v->ids, &v->labels);
  set(t, &v->ids, empty(t, shape, PLIM_I64));
  set(t, &v->labels, empty(t, shape, PLIM_I64));
  set(t, &v->count, plim_count_labels(t, shape));
  plim_add_to_running(t, &v->tokens, v->count);
  set_losses(t, m, r, v);
  plim_add_to_running(t, &v->running_class, mul(t, v->class_loss, v->count));
  plim_add_to_running(t, &v->running_teacher, mul(t, v->teacher_loss, v->count));
  plim_tensor *half = mul_scalar(t, v->class_loss);
  set(t, &v->loss, add(t, half, mul_scalar(t, v->teacher_loss)));
}

// A number over the tensor of tokens: its inverse, times the number
static plim_tensor *ratio(plim_tape *t) {
  plim_tensor *inverse = empty(t, (plim_dims){0}, PLIM_FP32);
  plim_tensor *out = k_unary(t, inverse);
  plim_consume(t, inverse);
  return out;
}

void plim_distillation_scale(plim_tape *t) { plim_consume(t, ratio(t)); }

void plim_distillation_log(plim_tape *t, plim_distillation *v) {
  bool was = set_grad_mode(t, false);
  set(t, &v->logged_class, ratio(t));
  set(t, &v->logged_teacher, ratio(t));
  plim_tensor *half = mul_scalar(t, v->logged_class);
  set(t, &v->logged, add(t, half, mul_scalar(t, v->logged_teacher)));
  set_grad_mode(t, was);
  drop_all(t, &v->running_class, &v->running_teacher, &v->tokens);
}
