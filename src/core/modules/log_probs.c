#include "log_probs.h"

#include "kernels.h"
#include "ops.h"
#include "rounding.h"
#include "tape_state.h"
#include "work.h"
#include "wrapper.h"

#include "op_names.h"

// trl/kernels/chunked_logprob.py: the logits exist for one tile of tokens and vocabulary at a time. Forward keeps a few
// numbers per token; backward computes each tile again and adds up the gradients in float32.
enum { TOKEN_CHUNK = 4096, VOCABULARY_CHUNK = 32768 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// x.to(dtype), of a part of x.
static plim_tensor *part_in(plim_tape *t, const plim_tensor *x, int64_t rows, plim_dtype dtype) {
  plim_dims shape = x->shape;
  shape.at[0] = rows;
  if (x->dtype == dtype) return NULL;
  plim_tensor *out = empty(t, shape, dtype);
  plim_work_map(t, out, NULL, out);
  return out;
}

// The dtype of the products: autocast's, if it is on.
static plim_dtype dtype_of_products(const plim_tape *t, const plim_tensor *hidden) {
  plim_dtype autocast = (plim_dtype)plim_const_state(t)->autocast;
  return autocast == PLIM_BOOL ? (plim_dtype)hidden->dtype : autocast;
}

// ---- tiles ------------------------------------------------------------------------------------------

typedef struct {
  plim_tensor *hidden, *weight;           // borrowed
  plim_tensor *grad_hidden, *grad_weight; // in backward, where they are wanted
  plim_tensor *logits;                    // of one tile
  plim_tensor *rows, *words; // its tokens and words in the products' dtype; NULL: they have it
} tiles;

static void work_of_tile(plim_tape *t, const tiles *v, int64_t tokens, int64_t words) {
  int64_t width = v->hidden->shape.at[1];
  plim_tensor *a = alias_of(t, v->hidden, dims(tokens, width), v->hidden->stride);
  plim_tensor *b = alias_of(t, v->weight, dims(words, width), v->weight->stride);
  plim_tensor *c = alias_of(t, v->logits, dims(tokens, words), v->logits->stride);
  plim_work_products(t, width, a, b, c);
  plim_work_triton(t);
  plim_work_bytes(t, plim_bytes_of(c));
  if (v->grad_hidden) plim_work_products(t, words, c, b, a);
  if (v->grad_weight) plim_work_products(t, tokens, c, a, b);
  consume_all(t, c, b, a);
}

// Backward keeps the words of a tile in a variable; forward passes them on at once.
static void run_tiles(plim_tape *t, tiles *v, plim_dtype dtype, bool is_backward) {
  int64_t tokens = v->hidden->shape.at[0], words = v->weight->shape.at[0];
  set(t, &v->logits, empty(t, dims(least(tokens, TOKEN_CHUNK), VOCABULARY_CHUNK), dtype));
  for (int64_t i = 0; i < tokens; i += TOKEN_CHUNK) {
    int64_t rows = least(tokens - i, TOKEN_CHUNK);
    set(t, &v->rows, part_in(t, v->hidden, rows, dtype));
    for (int64_t k = 0; k < words; k += VOCABULARY_CHUNK) {
      int64_t columns = least(words - k, VOCABULARY_CHUNK);
      set(t, &v->words, part_in(t, v->weight, columns, dtype));
      k_cublas(t);
      if (!is_backward) drop(t, &v->words);
      work_of_tile(t, v, rows, columns);
    }
  }
}

// grad.to(dtype)
static plim_tensor *narrowed(plim_tape *t, plim_tensor *grad, const plim_tensor *x) {
  plim_tensor *out = k_to(t, grad, (plim_dtype)x->dtype);
  if (out == grad) plim_retain(out);
  return out;
}

static void tiles_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  tiles v = {.hidden = n->saved[0], .weight = n->saved[1]};
  if (!in[0]) return;
  if (wants(n, 0)) set(t, &v.grad_hidden, empty(t, v.hidden->shape, PLIM_FP32));
  if (wants(n, 1)) set(t, &v.grad_weight, empty(t, v.weight->shape, PLIM_FP32));
  run_tiles(t, &v, (plim_dtype)n->number, true);
  if (wants(n, 0)) out[0] = narrowed(t, v.grad_hidden, v.hidden);
  if (wants(n, 1)) out[1] = narrowed(t, v.grad_weight, v.weight);
  drop_all(t, &v.grad_hidden, &v.grad_weight, &v.rows, &v.words, &v.logits);
}

// ---- forward ----------------------------------------------------------------------------------------

enum { STATISTICS = 7 }; // running_max, sum_exp, ..., target_logit: a number for each token

// log_z - x_sum_exp / sum_exp
static plim_tensor *entropy_of(plim_tape *t, const plim_tensor *log_z) {
  plim_tensor *ratio = k_unary(t, log_z), *out = k_unary(t, log_z);
  plim_consume(t, ratio);
  return out;
}

// (target_logit >= running_max) & (target_logit > max_before_target)
static plim_tensor *top1_of(plim_tape *t, plim_dims shape) {
  plim_tensor *a = empty(t, shape, PLIM_BOOL), *b = empty(t, shape, PLIM_BOOL);
  plim_tensor *out = empty(t, shape, PLIM_BOOL);
  plim_consume(t, a);
  plim_consume(t, b);
  return out;
}

static void save(plim_tape *t, plim_grad_node *n, const tiles *v, plim_dtype dtype,
                 plim_tensor *targets, plim_tensor *log_z, plim_log_probs *out) {
  if (!n) return;
  n->number = dtype;
  n->drops_in_order = true;
  node_save(t, n, v->hidden), node_save(t, n, v->weight), node_save(t, n, targets);
  node_save(t, n, log_z);
  node_output(t, n, out->log_probs);
  if (!out->entropy) return;
  node_output(t, n, out->entropy);
  node_save_output(t, n, out->entropy);
}

// _ChunkedLogProbFunction.apply: sets the numbers of `out` for the tokens that count, in a row.
static void apply(plim_tape *t, plim_tensor *hidden, plim_tensor *weight, plim_tensor *targets,
                  unsigned outputs, plim_log_probs *out) {
  plim_grad_node *n = node_begin(t, tiles_backward, (plim_tensor *[]){hidden, weight}, 2);
  plim_dtype dtype = dtype_of_products(t, hidden);
  plim_dims shape = dims(hidden->shape.at[0]);
  plim_tensor *statistics[STATISTICS] = {0}, *log_z = NULL;
  tiles v = {.hidden = hidden, .weight = weight};
  for (int i = 0; i < STATISTICS; i++) set(t, &statistics[i], empty(t, shape, PLIM_FP32));
  run_tiles(t, &v, dtype, false);
  plim_tensor *log = empty(t, shape, PLIM_FP32);
  set(t, &log_z, empty(t, shape, PLIM_FP32));
  plim_consume(t, log);
  set(t, &out->log_probs, k_unary(t, log_z));
  if (outputs & PLIM_WITH_ENTROPY) set(t, &out->entropy, entropy_of(t, log_z));
  if (outputs & PLIM_WITH_MEAN_LOGITS) set(t, &out->mean_logits, k_unary(t, log_z));
  if (outputs & PLIM_WITH_TOP1) set(t, &out->is_top1, top1_of(t, shape));
  for (int i = 0; i < STATISTICS; i++) drop(t, &statistics[i]);
  drop_all(t, &v.rows, &v.logits);
  save(t, n, &v, dtype, targets, log_z,
       out); // what ctx.save_for_backward names is saved at the end
  drop(t, &log_z);
}

// -log_probs.sum() / mask.sum().clamp(min=1)
static plim_tensor *mean_loss(plim_tape *t, plim_tensor *log_probs, const plim_tensor *counts) {
  plim_tensor *sum = neg(t, sum_dim(t, view(t, log_probs, dims(-1)), 0, false, PLIM_FP32));
  plim_tensor *count = empty(t, (plim_dims){0}, PLIM_I64);
  plim_consume(t, empty(t, counts->shape, PLIM_I64));
  plim_tensor *clamped = k_unary(t, count);
  plim_consume(t, count);
  return divide(t, sum, clamped);
}

static void spread(plim_tape *t, plim_tensor *mask, plim_tensor *x, plim_tensor **out) {
  if (x) set(t, out, masked_scatter(t, mask, x));
}

void plim_call_log_probs(plim_tape *t, plim_model *m, const plim_batch *batch, int64_t scored,
                         unsigned outputs, plim_log_probs *out) {
  plim_tensor *hidden = NULL, *shifted = NULL;
  plim_log_probs row = {0};
  int64_t length = batch->ids->shape.at[1];
  plim_shards *shards = plim_begin_call(t, m);
  set(t, &hidden, m->inner(t, m, batch));
  set(t, &shifted, slice(t, hidden, 1, 0, length - 1));
  plim_purpose was = plim_tape_purpose(t, PLIM_FOR_LOGITS);
  plim_tape_at(t, "lm_head");
  set(t, &out->counts, empty(t, dims(batch->ids->shape.at[0], length - 1), PLIM_BOOL));
  plim_tensor *rows = NULL, *targets = NULL;
  set(t, &rows, index_masked(t, shifted, out->counts, scored));
  set(t, &targets, index_masked(t, slice(t, batch->labels, 1, 1, length), out->counts, scored));
  apply(t, rows, m->head, targets, outputs, &row);
  drop_all(t, &targets, &rows);
  spread(t, out->counts, row.log_probs, &out->log_probs);
  spread(t, out->counts, row.entropy, &out->entropy);
  spread(t, out->counts, row.mean_logits, &out->mean_logits);
  spread(t, out->counts, row.is_top1, &out->is_top1);
  drop_all(t, &row.mean_logits, &row.entropy, &row.log_probs, &row.is_top1);
  set(t, &out->loss, mean_loss(t, out->log_probs, out->counts));
  plim_tape_purpose(t, was);
  drop_all(t, &shifted, &hidden);
  plim_end_call(t, m, NULL, shards);
}

// ---- all logits in one kernel -----------------------------------------------------------------------

// trl/kernels/logprob_entropy.py: the gradient of all logits.
static void select_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  if (!in[0]) return;
  const plim_tensor *logits = n->saved[0];
  plim_tensor *whole = in[0], *grad = NULL;
  set(t, &grad, empty(t, logits->shape, (plim_dtype)logits->dtype));
  plim_work_triton(t);
  plim_work_map(t, whole, logits, grad);
  out[0] = give(t, &grad);
}

// It also computes the entropy, which is not wanted.
plim_tensor *plim_select_log_probs(plim_tape *t, plim_tensor *logits, plim_tensor *labels) {
  plim_grad_node *n = node_begin(t, select_backward, &logits, 1);
  plim_dims shape = dims(logits->shape.at[0], logits->shape.at[1]);
  plim_tensor *out = empty(t, shape, PLIM_FP32), *entropy = empty(t, shape, PLIM_FP32);
  plim_tensor *log_z = empty(t, shape, PLIM_FP32), *expected = empty(t, shape, PLIM_FP32);
  plim_work_triton(t);
  plim_work_map(t, logits, NULL, out);
  if (n) {
    n->drops_in_order = true;
    node_save(t, n, logits), node_save(t, n, labels);
    node_save(t, n, log_z), node_save(t, n, expected);
    node_output(t, n, out);
  }
  consume_all(t, entropy, log_z, expected, logits, labels);
  return out;
}

void plim_log_probs_drop(plim_tape *t, plim_log_probs *x) {
  drop_all(t, &x->loss, &x->log_probs, &x->entropy, &x->mean_logits, &x->is_top1, &x->counts);
}
