#include "heads.h"

#include <string.h>

#include "family.h"
#include "kernels.h"
#include "ops.h"

#include "op_names.h"

bool plim_returns_labels(plim_head head) { return head >= PLIM_HEAD_TEXTS; }

bool plim_needs_pooler(const plim_config *c) {
  if (c->family->has_no_pooler) return false;
  return c->head == PLIM_HEAD_NONE || c->head == PLIM_HEAD_CHOICES ||
         (c->head == PLIM_HEAD_TEXTS && c->family->text_head.is_pooled);
}

// ---- construction -----------------------------------------------------------------------------------

static int64_t outputs_of(const plim_config *c) {
  return c->head == PLIM_HEAD_ANSWERS ? 2 : c->head == PLIM_HEAD_CHOICES ? 1 : c->labels;
}

static plim_linear layer_new(plim_tape *t, plim_model *m, const char *name, int64_t out, int64_t in,
                             bool has_bias, plim_dtype dtype) {
  plim_linear l = plim_linear_new(t, m, name, out, in, has_bias, dtype);
  l.weight->is_projection = false; // bitsandbytes leaves the last module as it is
  return l;
}

static const char *name_of(const plim_config *c) {
  const char *of_texts = c->family->text_head.classifier;
  if (c->head == PLIM_HEAD_ANSWERS && !c->family->text_head.is_in_all) return "qa_outputs";
  if (c->head == PLIM_HEAD_TEXTS && of_texts) return of_texts;
  return c->family->is_encoder ? "classifier" : "score";
}

void plim_label_head_new(plim_tape *t, plim_model *m, const plim_config *c, plim_dtype dtype) {
  plim_label_head *h = plim_model_array(m, 1, sizeof *h);
  if (!h) return;
  const plim_text_head *of_texts = &c->family->text_head;
  bool has_bias = c->family->is_encoder || c->head != PLIM_HEAD_TEXTS;
  bool is_of_texts =
      c->head == PLIM_HEAD_TEXTS || (c->head == PLIM_HEAD_CHOICES && !plim_needs_pooler(c));
  bool has_dense = of_texts->dense && (is_of_texts || of_texts->is_in_all);
  bool is_plain = c->family->has_unbiased_transform;
  h->c = c;
  if (has_dense)
    h->dense = layer_new(t, m, of_texts->dense, c->hidden, c->hidden, !is_plain, dtype);
  if (has_dense && is_plain) h->norm = plim_norm_new_unbiased(t, m, c->hidden, dtype);
  h->classifier = layer_new(t, m, name_of(c), outputs_of(c), c->hidden, has_bias, dtype);
  m->label_head = h;
  m->forward = plim_label_forward;
  m->has_aligned_labels = true;
}

// peft's modules_to_save of a task with labels: modules whose names end in these words, with all that is inside.
static bool is_saved(const plim_linear *l) {
  static const char *const endings[] = {"classifier", "score", "qa_outputs"};
  size_t size = strcspn(l->path, ".");
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    size_t n = strlen(endings[i]);
    if (size >= n && memcmp(l->path + size - n, endings[i], n) == 0) return true;
  }
  return false;
}

void plim_label_head_lora(plim_tape *t, plim_model *m, const plim_lora *lora) {
  plim_label_head *h = m->label_head;
  if (h && h->dense.weight && !is_saved(&h->dense))
    plim_lora_add_all(t, m, lora, "", -1, &h->dense);
}

// PeftModelForTokenClassification and PeftModelForQuestionAnswering name the modules to save after all else.
bool plim_label_head_is_late(const plim_model *m) {
  const plim_label_head *h = m->label_head;
  return h && (h->c->head == PLIM_HEAD_TOKENS || h->c->head == PLIM_HEAD_ANSWERS);
}

void plim_label_head_save(plim_tape *t, plim_model *m) {
  plim_label_head *h = m->label_head;
  if (!h) return;
  if (h->dense.weight && is_saved(&h->dense)) plim_linear_save(t, m, &h->dense);
  plim_linear_save(t, m, &h->classifier);
}

void plim_label_head_visit(const plim_model *m, plim_visit *visit, void *context) {
  if (!m->label_head) return;
  plim_linear_visit(&m->label_head->dense, visit, context);
  if (m->label_head->norm.weight) visit(context, m->label_head->norm.weight);
  plim_linear_visit(&m->label_head->classifier, visit, context);
}

plim_dims plim_labels_shape(const plim_model *m, int64_t batch, int64_t length) {
  bool is_of_tokens = !m->label_head || m->label_head->c->head == PLIM_HEAD_TOKENS;
  return is_of_tokens ? dims(batch, length) : dims(batch);
}

static bool is_number(const plim_config *c) { return c->head == PLIM_HEAD_TEXTS && c->labels == 1; }

plim_dtype plim_labels_dtype(const plim_model *m) {
  return m->label_head && is_number(m->label_head->c) ? PLIM_FP32 : PLIM_I64;
}

bool plim_has_ends(const plim_model *m) {
  return m->label_head && m->label_head->c->head == PLIM_HEAD_ANSWERS;
}

int64_t plim_texts_of_example(const plim_model *m) {
  bool chooses = m->label_head && m->label_head->c->head == PLIM_HEAD_CHOICES;
  return chooses ? m->label_head->c->choices : 1;
}

// ---- scores -----------------------------------------------------------------------------------------

// Variables of the head's forward, in the order in which its frame lets go of them.
typedef struct {
  plim_tensor *hidden, *pooled, *dropped, *scores, *is_token, *positions, *last;
  plim_tensor *begins, *ends, *from, *until, *first, *second; // of answers
} variables;

static void release(plim_tape *t, variables *v) {
  drop_all(t, &v->from, &v->until, &v->hidden, &v->pooled, &v->dropped, &v->scores, &v->is_token,
           &v->positions, &v->last, &v->begins, &v->ends, &v->first, &v->second);
}

// Decoders without a dropout of their own have this one (modeling_layers.py, GenericForTokenClassification).
static const double usual_dropout = 0.1;

static double dropout_of(const plim_config *c) {
  if (c->drops_no_scores) return 0;
  if (c->classifier_dropout > 0) return c->classifier_dropout;
  return c->family->is_encoder || c->dropout > 0 ? c->dropout : usual_dropout;
}

// The first token, through the layers before the classifier.
static plim_tensor *scores_of_first(plim_tape *t, const plim_label_head *h, plim_tensor *hidden) {
  const plim_text_head *how = &h->c->family->text_head;
  double dropout_p = dropout_of(h->c);
  plim_tensor *x = NULL;
  set(t, &x, select_index(t, hidden, 1));
  if (how->drops_first) set(t, &x, dropout(t, x, dropout_p));
  set(t, &x, plim_linear_forward(t, &h->dense, x));
  set(t, &x, plim_activate(t, how->activation, x));
  set(t, &x, dropout(t, x, dropout_p));
  set(t, &x, plim_linear_forward(t, &h->classifier, x));
  return give(t, &x);
}

// (hidden * mask.unsqueeze(-1)).sum(dim=1) / mask.sum(dim=1, keepdim=True)
static plim_tensor *mean_of_tokens(plim_tape *t, plim_tensor *hidden, const plim_batch *batch) {
  plim_tensor *mask = NULL, *sum = NULL;
  plim_dims tokens = dims(hidden->shape.at[0], hidden->shape.at[1]);
  set(t, &mask, batch->mask ? batch->mask : empty(t, tokens, PLIM_BOOL));
  plim_tensor *weighted = mul(t, hidden, unsqueeze(t, mask, 2));
  set(t, &sum, sum_dim(t, weighted, 1, false, (plim_dtype)hidden->dtype));
  plim_tensor *mean = divide(t, sum, empty(t, dims(tokens.at[0], 1), PLIM_I64));
  drop_all(t, &sum, &mask);
  return mean;
}

// norm(act(dense(x))), which every head of the family has, dropout, the classifier.
static plim_tensor *scores_of_normed(plim_tape *t, const plim_label_head *h, variables *v,
                                     plim_tensor *x) {
  plim_tensor *out =
      plim_activate(t, h->c->family->text_head.activation, plim_linear_forward(t, &h->dense, x));
  set(t, &v->dropped, plim_norm_forward(t, &h->norm, out));
  set(t, &v->dropped, dropout(t, v->dropped, dropout_of(h->c)));
  return plim_linear_forward(t, &h->classifier, v->dropped);
}

// The same of all tokens, or of a text: of the mean of its tokens, or of the first one.
static plim_tensor *scores_of_all(plim_tape *t, const plim_label_head *h, variables *v,
                                  const plim_batch *batch) {
  if (h->c->head != PLIM_HEAD_TEXTS) return scores_of_normed(t, h, v, v->hidden);
  set(t, &v->pooled,
      h->c->averages_tokens ? mean_of_tokens(t, v->hidden, batch) : select_index(t, v->hidden, 1));
  return scores_of_normed(t, h, v, v->pooled);
}

static plim_tensor *scores_behind_dropout(plim_tape *t, const plim_label_head *h, variables *v,
                                          plim_tensor *x) {
  set(t, &v->dropped, dropout(t, x, dropout_of(h->c)));
  return plim_linear_forward(t, &h->classifier, v->dropped);
}

// logits[arange(batch), last]: every token is scored; the last one that is not padding counts.
static plim_tensor *scores_of_last(plim_tape *t, const plim_label_head *h, variables *v,
                                   plim_tensor *ids) {
  int64_t batch = ids->shape.at[0], length = ids->shape.at[1];
  set(t, &v->scores, plim_linear_forward(t, &h->classifier, v->hidden));
  set(t, &v->is_token, to(t, k_binary_as(t, ids, NULL, PLIM_BOOL), PLIM_I32));
  set(t, &v->positions, empty(t, dims(length), PLIM_I32));
  plim_tensor *places = k_binary(t, v->positions, v->is_token);
  set(t, &v->last, empty(t, dims(batch), PLIM_I64)); // argmax
  plim_consume(t, places);
  plim_tensor *rows = empty(t, dims(batch), PLIM_I64);
  plim_tensor *chosen = index_pairs(t, v->scores, rows, v->last);
  plim_consume(t, rows);
  return chosen;
}

static plim_tensor *scores_of(plim_tape *t, plim_model *m, variables *v, const plim_batch *batch) {
  const plim_label_head *h = m->label_head;
  const plim_text_head *how = &h->c->family->text_head;
  if (how->is_in_all) return scores_of_all(t, h, v, batch);
  switch (h->c->head) {
  case PLIM_HEAD_ANSWERS:
    return h->c->family->drops_answers ? scores_behind_dropout(t, h, v, v->hidden)
                                       : plim_linear_forward(t, &h->classifier, v->hidden);
  case PLIM_HEAD_TOKENS: return scores_behind_dropout(t, h, v, v->hidden);
  case PLIM_HEAD_CHOICES:
    return v->pooled ? scores_behind_dropout(t, h, v, v->pooled) : scores_of_first(t, h, v->hidden);
  default:
    return how->is_pooled ? scores_behind_dropout(t, h, v, v->pooled)
           : how->dense   ? scores_of_first(t, h, v->hidden)
                          : scores_of_last(t, h, v, batch->ids);
  }
}

// ---- losses -----------------------------------------------------------------------------------------

// The function of loss_utils.py computes it in float32.
static plim_tensor *token_loss(plim_tape *t, const plim_config *c, plim_tensor *scores,
                               plim_tensor *labels) {
  return c->family->has_inline_loss ? plim_masked_loss(t, scores, labels)
                                    : plim_wide_loss(t, scores, labels, NULL);
}

// The cross entropy of the examples whose label is not negative: all of them, in float32. A variable keeps their scores.
static plim_tensor *labelled_loss(plim_tape *t, plim_tensor *scores, plim_tensor *labels,
                                  plim_tensor **chosen) {
  int64_t count = scores->shape.at[0];
  plim_tensor *index = NULL, *wanted = NULL, *wide = NULL;
  plim_tensor *is_labelled = empty(t, labels->shape, PLIM_BOOL);
  set(t, &index, view(t, k_nonzero(t, count, 1, count), dims(count, 1)));
  plim_consume(t, is_labelled);
  set(t, chosen, gather_last(t, scores, expand(t, index, scores->shape)));
  set(t, &wanted, empty(t, labels->shape, PLIM_I64));
  set(t, &wide, to(t, *chosen, PLIM_FP32));
  plim_tensor *loss = nll_loss(t, log_softmax(t, wide), wanted);
  drop_all(t, &wide, &wanted, &index);
  return loss;
}

static plim_tensor *loss_of(plim_tape *t, const plim_config *c, variables *v, plim_tensor *scores,
                            const plim_batch *batch) {
  if (c->head == PLIM_HEAD_TEXTS && c->family->gathers_labelled && !is_number(c))
    return labelled_loss(t, scores, batch->labels, &v->scores);
  if (c->head == PLIM_HEAD_TOKENS) return token_loss(t, c, scores, batch->labels);
  if (c->head == PLIM_HEAD_CHOICES) scores = view(t, scores, dims(-1, c->choices));
  if (is_number(c)) return mse_loss(t, view(t, scores, dims(-1)), batch->labels);
  return plim_masked_loss(t, scores, batch->labels);
}

// (cross_entropy(begins) + cross_entropy(ends)) / 2, of positions that are clamped to the text. Both scores are outputs.
static plim_tensor *answer_loss(plim_tape *t, plim_model *m, variables *v, plim_tensor *scores,
                                const plim_batch *batch, plim_tensor **logits) {
  plim_dims shape = dims(scores->shape.at[0], scores->shape.at[1]);
  set(t, &v->scores, scores);
  split(t, v->scores, &v->begins, &v->ends);
  set(t, &v->begins, contiguous(t, view(t, v->begins, shape)));
  set(t, &v->ends, contiguous(t, view(t, v->ends, shape)));
  set(t, &v->from, k_like(t, batch->labels));
  set(t, &v->until, k_like(t, batch->ends));
  set(t, &v->first, plim_masked_loss(t, v->begins, v->from));
  set(t, &v->second, plim_masked_loss(t, v->ends, v->until));
  set(t, logits, v->begins);
  set(t, &m->extra, v->ends);
  plim_tensor *loss = div_scalar(t, add(t, v->first, v->second));
  // The frame of the loss's function ends here.
  const plim_family *f = m->label_head->c->family;
  if (!f->has_inline_loss || f->calls_other_losses)
    drop_all(t, &v->from, &v->until, &v->first, &v->second);
  return loss;
}

// ---- forward ----------------------------------------------------------------------------------------

plim_tensor *plim_label_forward(plim_tape *t, plim_model *m, const plim_batch *batch,
                                plim_tensor **logits) {
  variables v = {0};
  const plim_config *c = m->label_head->c;
  set(t, &v.hidden, m->inner(t, m, batch));
  set(t, &v.pooled, give(t, &m->extra));
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tensor *scores = scores_of(t, m, &v, batch), *loss;
  if (c->head == PLIM_HEAD_ANSWERS) loss = answer_loss(t, m, &v, scores, batch, logits);
  else {
    set(t, logits, scores);
    if (is_number(c) && c->family->gathers_labelled)
      set(t, logits, to(t, view(t, *logits, dims(-1)), PLIM_FP32));
    loss = batch->labels ? loss_of(t, c, &v, *logits, batch) : NULL;
  }
  plim_tape_purpose(t, was);
  release(t, &v);
  return loss;
}
