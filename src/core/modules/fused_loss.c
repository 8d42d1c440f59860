// The fused linear cross entropy of Liger-Kernel 0.8. Logits exist for one chunk of rows at a time; forward already
// computes the gradients of the input and of the weight, and keeps only those.
#include "kernels.h"
#include "loss.h"
#include "ops.h"
#include "rounding.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

// Rows per chunk, chosen so that their logits are about as large as the input.
static int64_t chunk_rows(int64_t rows, int64_t width, int64_t vocabulary) {
  int64_t wanted = plim_ceil_div(rows, plim_ceil_div(vocabulary, width)), chunk = 1;
  while (chunk < wanted) chunk *= 2;
  return chunk < rows ? chunk : rows;
}

typedef struct {
  plim_tensor *input, *weight;
  plim_tensor *logits; // one buffer for all chunks; NULL: autocast allocates new logits for each
  plim_tensor *grad_weight; // NULL: the weight needs no gradient
} fused;

// The buffer can be reused only if no operand is cast.
static bool can_reuse_logits(const plim_tape *t, const plim_tensor *input,
                             const plim_tensor *weight) {
  return input->dtype == weight->dtype &&
         (!plim_autocast_is_on(t) || plim_const_state(t)->autocast == input->dtype);
}

// The product is added in place to a 16-bit gradient, or to a 32-bit one if the logits have 16 bits; otherwise it
// needs a temporary.
static void add_to_weight(plim_tape *t, const fused *f, const plim_tensor *logits,
                          plim_tensor *rows) {
  if (!f->grad_weight) return;
  plim_work_products(t, rows->shape.at[0], logits, rows, f->grad_weight);
  bool in_place = logits->dtype != PLIM_FP32;
  if (in_place && rows->dtype != logits->dtype)
    plim_consume(t, k_to(t, rows, (plim_dtype)logits->dtype));
  else if (!in_place) plim_consume(t, k_like(t, f->grad_weight));
}

// logits = rows @ weight.t(); gradient of the rows = gradient of the logits @ weight.
static void run_chunk(plim_tape *t, const fused *f, int64_t from, int64_t end) {
  plim_work_triton(t);
  plim_tensor *rows = NULL, *logits = NULL;
  set(t, &rows, slice(t, f->input, 0, from, end));
  if (f->logits) {
    set(t, &logits, slice(t, f->logits, 0, 0, end - from));
    plim_work_matmul(t, rows, f->weight, logits);
    plim_work_matmul(t, logits, f->weight, rows); // the rows' gradient, which has the same shape
  } else {
    set(t, &logits, matmul2(t, rows, transpose(t, f->weight, 0, 1)));
    plim_consume(t, matmul2(t, logits, f->weight));
  }
  plim_work_softmax(t, 1, logits);
  add_to_weight(t, f, logits, rows);
  drop_all(t, &logits, &rows);
}

// (target != ignore_index).sum(); the mask is kept in a variable.
static plim_tensor *count_targets(plim_tape *t, int64_t rows) {
  plim_tensor *mask = empty(t, dims(rows), PLIM_BOOL), *sum = empty(t, (plim_dims){0}, PLIM_I64);
  plim_consume(t, empty(t, dims(rows), PLIM_I64));
  plim_consume(t, sum);
  return mask;
}

// Scales the gradients in place unless the incoming gradient is 1, which is compared on the card.
static void fused_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  (void)in;
  plim_tensor *one = empty(t, (plim_dims){0}, PLIM_FP32);
  plim_tensor *equal = empty(t, (plim_dims){0}, PLIM_BOOL);
  plim_consume(t, empty(t, (plim_dims){0}, PLIM_BOOL));
  plim_consume(t, equal);
  plim_consume(t, one);
  for (int i = 0, k = 0; i < 2; i++) {
    if (!wants(n, i)) continue;
    out[i] = n->saved[k++];
    plim_retain(out[i]);
  }
}

static plim_tensor *cross_entropy(plim_tape *t, plim_tensor *input, plim_tensor *weight) {
  int64_t rows = input->shape.at[0];
  int64_t chunk = chunk_rows(rows, input->shape.at[1], weight->shape.at[0]);
  plim_grad_node *n = node_begin(t, fused_backward, (plim_tensor *[]){input, weight}, 2);
  bool was = set_grad_mode(t, false);
  fused f = {.input = input, .weight = weight};
  plim_tensor *grad_input = k_like(t, input), *losses = NULL, *mask = NULL;
  if (n && wants(n, 1)) set(t, &f.grad_weight, k_like(t, weight));
  set(t, &losses, empty(t, dims(rows), PLIM_FP32));
  set(t, &mask, count_targets(t, rows));
  if (can_reuse_logits(t, input, weight))
    set(t, &f.logits, empty(t, dims(chunk, weight->shape.at[0]), (plim_dtype)input->dtype));
  for (int64_t from = 0; from < rows; from += chunk)
    run_chunk(t, &f, from, from + chunk < rows ? from + chunk : rows);
  drop(t, &f.logits);
  plim_tensor *loss = k_sum(t, losses, 1, false, PLIM_FP32);
  drop_all(t, &mask, &losses);
  set_grad_mode(t, was);
  if (n && wants(n, 0)) node_save(t, n, grad_input);
  if (f.grad_weight) node_save(t, n, f.grad_weight);
  if (n) node_output(t, n, loss);
  plim_consume(t, grad_input);
  drop(t, &f.grad_weight);
  return loss;
}

plim_tensor *plim_fused_loss(plim_tape *t, plim_tensor *hidden, plim_tensor *weight,
                             plim_tensor *labels, plim_tensor *items) {
  int64_t batch = labels->shape.at[0], length = labels->shape.at[1];
  plim_tensor *rows = NULL, *padded = NULL, *shifted = NULL;
  set(t, &padded, empty(t, dims(batch, length + 1), PLIM_I64));
  set(t, &shifted, contiguous(t, slice(t, padded, 1, 1, length + 1)));
  set(t, &rows, view(t, hidden, dims(-1, hidden->shape.at[2])));
  plim_tensor *loss = cross_entropy(t, rows, weight);
  if (items) loss = divide(t, loss, items);
  drop_all(t, &rows, &padded, &shifted);
  return loss;
}
