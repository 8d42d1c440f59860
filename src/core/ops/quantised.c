#include "quantised.h"

#include "kernels.h"
#include "ops.h"
#include "rounding.h"
#include "tape_state.h"
#include "work.h"

#include "op_names.h"

const char *const plim_weights_names[PLIM_WEIGHTS_COUNT + 1] = {
    [PLIM_WEIGHTS_PLAIN] = "plain",
    [PLIM_WEIGHTS_NF4] = "nf4",
    [PLIM_WEIGHTS_NF4_DOUBLE] = "nf4-double",
    [PLIM_WEIGHTS_INT8] = "int8",
};

#define BLOCK 64 // weights per scale: blocksize of Params4bit

static int64_t block_count(const plim_dims *shape) {
  return plim_ceil_div(plim_numel(shape), BLOCK);
}

// ---- quantising ------------------------------------------------------------------------------------

#define NESTED_BLOCK 256 // scales per nested scale: blocksize of quantize_blockwise
#define CODES 16         // values of a 4-bit code
#define NESTED_CODES 256 // values of an 8-bit code

static plim_quant *quant_new(plim_tape *t, plim_tensor *weight, plim_weights_kind kind) {
  plim_quant *q = plim_tape_object(t, sizeof *q);
  *q = (plim_quant){.kind = kind, .compute = (plim_dtype)weight->dtype};
  return q;
}

// Double quantisation: subtracts the mean of the scales and stores them in 8 bits. The table of 8-bit values is
// copied to the card once; every weight keeps a copy of it.
static void nest_scales(plim_tape *t, plim_quant *q) {
  int64_t blocks = q->scales->shape.at[0];
  set(t, &q->offset, k_sum(t, q->scales, 1, false, PLIM_FP32));
  plim_tensor *centred = k_like(t, q->scales);
  if (!plim_state(t)->nested_code)
    set(t, &plim_state(t)->nested_code, empty(t, dims(NESTED_CODES), PLIM_FP32));
  set(t, &q->nested_scales, empty(t, dims(plim_ceil_div(blocks, NESTED_BLOCK)), PLIM_FP32));
  plim_tensor *narrow = empty(t, dims(blocks), PLIM_U8);
  set(t, &q->nested_code, empty(t, dims(NESTED_CODES), PLIM_FP32));
  plim_consume(t, centred);
  set(t, &q->scales, narrow);
}

// data /= data.abs().max()
static void normalise_code(plim_tape *t) {
  plim_tensor *sizes = empty(t, dims(CODES), PLIM_FP32), *largest = NULL;
  largest = empty(t, (plim_dims){0}, PLIM_FP32);
  plim_consume(t, sizes);
  plim_consume(t, largest);
}

static plim_tensor *quantise4(plim_tape *t, plim_quant *q, const plim_tensor *weight) {
  set(t, &q->scales, empty(t, dims(block_count(&weight->shape)), PLIM_FP32));
  plim_tensor *packed = empty(t, dims((plim_numel(&weight->shape) + 1) / 2), PLIM_U8);
  set(t, &q->code, empty(t, dims(CODES), PLIM_FP32));
  normalise_code(t);
  if (q->kind == PLIM_WEIGHTS_NF4_DOUBLE) nest_scales(t, q);
  return packed;
}

// One scale per row; the weight is first converted to float16.
static plim_tensor *quantise8(plim_tape *t, plim_quant *q, const plim_tensor *weight) {
  plim_tensor *half = empty(t, weight->shape, PLIM_FP16);
  set(t, &q->scales, empty(t, dims(weight->shape.at[0]), PLIM_FP32));
  plim_tensor *packed = empty(t, weight->shape, PLIM_U8);
  plim_consume(t, half);
  return packed;
}

// A Conv1D becomes a linear layer: its weight is first copied as (out,in). Returns NULL for other weights.
static plim_tensor *flip(plim_tape *t, plim_tensor *weight) {
  if (!weight->is_flipped) return NULL;
  weight->shape = dims(weight->shape.at[1], weight->shape.at[0]);
  weight->stride = plim_contiguous_strides(&weight->shape);
  weight->is_flipped = false;
  return empty(t, weight->shape, (plim_dtype)weight->dtype);
}

void plim_quantise(plim_tape *t, plim_tensor *weight, plim_weights_kind kind) {
  plim_tensor *flipped = flip(t, weight);
  plim_quant *q = quant_new(t, weight, kind);
  bool is_8 = kind == PLIM_WEIGHTS_INT8;
  plim_tensor *packed = is_8 ? quantise8(t, q, weight) : quantise4(t, q, weight);
  plim_storage *old = weight->storage;
  weight->storage = packed->storage;
  weight->dtype = PLIM_U8;
  weight->quant = q;
  plim_state(t)->has_bitsandbytes |= !plim_state(t)->is_torchtune;
  packed->storage = old;
  plim_consume(t, flipped);
  plim_consume(t, packed); // also frees the old storage
}

// ---- 4 bits ---------------------------------------------------------------------------------------

// torchao's nf4_tensor.py. The indices of one half of the weights: (packed >> 4).to(torch.long)
static plim_tensor *indices_of_half(plim_tape *t, const plim_tensor *weight) {
  plim_dims half = dims(plim_numel(&weight->shape) / 2);
  plim_tensor *narrow = k_map(t, half, PLIM_U8, weight, NULL);
  plim_tensor *wide = k_map(t, half, PLIM_I64, narrow, NULL);
  plim_consume(t, narrow);
  return wide;
}

// dequantize_scalers: scales / factor + mean
static plim_tensor *scales_of(plim_tape *t, const plim_tensor *weight) {
  plim_dims blocks = dims(block_count(&weight->shape));
  plim_dtype compute = weight->quant->compute;
  plim_tensor *divided = k_map(t, blocks, compute, weight->quant->scales, NULL);
  plim_tensor *scales = k_map(t, blocks, compute, divided, NULL);
  plim_consume(t, divided);
  return scales;
}

// values * scales.unsqueeze(-1).expand(...).flatten()
static plim_tensor *scaled_half(plim_tape *t, const plim_tensor *values,
                                const plim_tensor *scales) {
  plim_tensor *spread = k_map(t, values->shape, (plim_dtype)values->dtype, scales, NULL);
  plim_tensor *scaled = k_map(t, values->shape, (plim_dtype)values->dtype, values, spread);
  plim_consume(t, spread);
  return scaled;
}

enum { OPERATORS_OF_UNPACKING = 22 }; // counted in get_original_weight

// get_original_weight: both halves of each byte apart, with an index of 64 bits for each weight, whose variables live to
// the end of the function.
static plim_tensor *unpacked_by_torchao(plim_tape *t, const plim_tensor *weight) {
  plim_dtype compute = weight->quant->compute;
  plim_dims half = dims(plim_numel(&weight->shape) / 2);
  plim_tensor *indices[2] = {NULL}, *values[2] = {NULL}, *scaled[2] = {NULL}, *scales = NULL;
  for (int i = 0; i < OPERATORS_OF_UNPACKING; i++) plim_work_operator(t);
  for (int i = 0; i < 2; i++) set(t, &indices[i], indices_of_half(t, weight));
  for (int i = 0; i < 2; i++) set(t, &values[i], k_map(t, half, compute, indices[i], NULL));
  set(t, &scales, scales_of(t, weight));
  for (int i = 0; i < 2; i++) set(t, &scaled[i], scaled_half(t, values[i], scales));
  plim_tensor *full = k_map(t, weight->shape, compute, scaled[0], scaled[1]);
  drop_all(t, &indices[0], &indices[1], &values[0], &values[1], &scales, &scaled[0], &scaled[1]);
  return full;
}

// Unpacks the whole weight for one product. With fewer than 5 to 512 rows, depending on the card, a kernel avoids this;
// training steps have more.
static plim_tensor *dequantised(plim_tape *t, const plim_tensor *weight) {
  if (plim_state(t)->is_torchtune) return unpacked_by_torchao(t, weight);
  plim_tensor *full = empty(t, weight->shape, weight->quant->compute);
  plim_work_map(t, weight, NULL, full);
  return full;
}

// bitsandbytes unpacks scales of 8 bits before the weight.
static bool has_nested_scales(const plim_tape *t, const plim_tensor *weight) {
  return weight->quant->kind == PLIM_WEIGHTS_NF4_DOUBLE && !plim_const_state(t)->is_torchtune;
}

// (N,H); a copy only where a view is not possible.
static plim_tensor *rows_of(plim_tape *t, plim_tensor *x) {
  int64_t width = x->shape.at[x->shape.n - 1];
  return k_reshape(t, x, dims(plim_numel(&x->shape) / width, width));
}

static void matmul4_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  const plim_tensor *weight = n->constant;
  plim_tensor *scales =
      has_nested_scales(t, weight) ? empty(t, dims(block_count(&weight->shape)), PLIM_FP32) : NULL;
  plim_tensor *full = dequantised(t, weight);
  plim_consume(t, scales);
  plim_dims shape = in[0]->shape;
  plim_tensor *rows = rows_of(t, in[0]);
  plim_tensor *product = k_mm(t, rows, full);
  plim_consume(t, rows);
  shape.at[shape.n - 1] = weight->shape.at[1];
  out[0] = alias_of(t, product, shape, plim_contiguous_strides(&shape));
  plim_consume(t, product);
  plim_consume(t, full);
}

#define SMALL_WEIGHT (4ll << 20) // elements; below this, unpacking costs more than the product

// Whether a product with few tokens reads the packed weight directly: the choice of bitsandbytes 0.50 on Hopper
// (backends/cuda/ops.py, _gemm_4bit_use_custom_cuda). Other cards have their own tables; for them the weight is assumed
// to be unpacked. All cards unpack it for many tokens and in backward.
static bool multiplies_packed(const plim_gpu *gpu, int64_t tokens, int64_t out, int64_t in) {
  int64_t blocks = (out + 63) / 64, card = gpu->multiprocessors;
  if (gpu->capability != 90) return false;
  if (out * in < SMALL_WEIGHT && 2 * in < out) return tokens <= (3 * blocks < card ? 512 : 320);
  if (out * in < SMALL_WEIGHT)
    return tokens <= (4 * blocks <= card ? 32 : 2 * blocks <= card ? 16 : 4);
  if (blocks >= card) return tokens <= (blocks >= 3 * card ? 64 : blocks >= 2 * card ? 48 : 32);
  bool is_deep = in >= out && 4 * blocks < 3 * card;
  return tokens <= (blocks >= card / 2 && !is_deep ? 16 : 4);
}

static plim_tensor *packed_product(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_dims shape = x->shape;
  shape.at[shape.n - 1] = weight->shape.at[0];
  plim_tensor *out = empty(t, shape, (plim_dtype)x->dtype);
  plim_work_products(t, weight->shape.at[1], x, weight, out);
  return out;
}

// 8-bit scales are converted to float32 in one buffer; adding their offset takes a second one.
static plim_tensor *unpacked_product(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                     plim_tensor *bias) {
  plim_dims blocks = dims(block_count(&weight->shape));
  plim_tensor *raw = has_nested_scales(t, weight) ? empty(t, blocks, PLIM_FP32) : NULL;
  plim_tensor *scales = raw ? empty(t, blocks, PLIM_FP32) : NULL, *full = NULL;
  set(t, &full, dequantised(t, weight));
  plim_tensor *out = linear(t, x, full, bias);
  plim_consume(t, scales);
  plim_consume(t, raw);
  drop(t, &full);
  return out;
}

static plim_tensor *matmul4(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias) {
  plim_grad_node *n = node_begin(t, matmul4_backward, &x, 1);
  if (n) n->constant = weight;
  bool was = set_grad_mode(t, false);
  int64_t out_width = weight->shape.at[0], in_width = weight->shape.at[1];
  int64_t tokens = plim_numel(&x->shape) / in_width;
  bool is_packed = !plim_state(t)->is_torchtune &&
                   multiplies_packed(plim_tape_gpu(t), tokens, out_width, in_width);
  plim_tensor *out =
      is_packed ? packed_product(t, x, weight) : unpacked_product(t, x, weight, bias);
  set_grad_mode(t, was);
  if (n) node_output(t, n, out);
  return out;
}

static plim_tensor *linear4(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias) {
  plim_dtype compute = weight->quant->compute, dtype = (plim_dtype)x->dtype;
  plim_tensor *input = NULL;
  set(t, &input, to(t, x, compute));
  if (bias && bias->dtype != compute) plim_retype(t, bias, compute);
  plim_tensor *out = to(t, matmul4(t, input, weight, bias), dtype);
  drop(t, &input);
  return out;
}

// ---- 8 bits ---------------------------------------------------------------------------------------

static plim_tensor *scaled_gradient(plim_tape *t, const plim_tensor *weight, plim_tensor *grad,
                                    plim_dtype dtype) {
  plim_tensor *full = empty(t, weight->shape, dtype);
  plim_work_map(t, weight, NULL, full);
  plim_consume(t, empty(t, dims(weight->shape.at[0], 1), PLIM_FP32));
  plim_tensor *same = k_to(t, grad, dtype);
  plim_tensor *product = k_mm(t, same, full);
  if (same != grad) plim_consume(t, same);
  plim_consume(t, full);
  return product;
}

static void matmul8_backward(plim_tape *t, plim_grad_node *n, plim_tensor **in, plim_tensor **out) {
  const plim_tensor *weight = n->constant;
  plim_dims shape = in[0]->shape;
  plim_tensor *rows = NULL;
  set(t, &rows, rows_of(t, in[0]));
  plim_tensor *product = scaled_gradient(t, weight, rows, (plim_dtype)n->kept[0]->dtype);
  shape.at[shape.n - 1] = weight->shape.at[1];
  out[0] = k_view(t, product, shape);
  plim_consume(t, product);
  drop(t, &rows);
}

static int64_t next_outliers(plim_tape *t) {
  if (!plim_state(t)->outlier_count || plim_state(t)->is_stopped) return 0;
  plim_state(t)->outlier_count--;
  return *plim_state(t)->outliers++;
}

// argwhere(large.any(dim=0)): the columns with a value of 6 or more.
static plim_tensor *find_columns(plim_tape *t, const plim_tensor *large, int64_t count) {
  plim_tensor *any = k_any_row(t, large);
  plim_tensor *out = k_nonzero(t, large->shape.at[1], 1, count);
  plim_consume(t, any);
  return out;
}

// Quantises each row to 8 bits with its own scale. Sets *columns to the outlier columns, if there are any.
static plim_tensor *quantise_rows(plim_tape *t, plim_tensor *rows, plim_tensor **scales,
                                  plim_tensor **columns) {
  plim_tensor *half = NULL, *large = NULL;
  int64_t outliers = next_outliers(t);
  set(t, &half, k_to(t, rows, PLIM_FP16));
  set(t, scales, empty(t, dims(rows->shape.at[0]), PLIM_FP32));
  plim_tensor *out = empty(t, rows->shape, PLIM_U8), *sizes = k_like(t, half);
  plim_work_map(t, half, NULL, out);
  plim_work_map(t, half, NULL, sizes);
  set(t, &large, empty(t, rows->shape, PLIM_BOOL));
  plim_consume(t, sizes);
  plim_consume(t, k_all(t, large));
  if (outliers) set(t, columns, find_columns(t, large, outliers));
  if (rows->shape.at[0] > 1) plim_consume(t, scratch(t, 1)); // the 0 written into outlier columns
  drop_all(t, &large, &half);
  return out;
}

// The weight's outlier columns, dequantised: selected, scaled in two steps, and cast.
static plim_tensor *full_columns(plim_tape *t, const plim_tensor *weight, int64_t count,
                                 plim_dtype dtype) {
  plim_dims shape = dims(weight->shape.at[0], count);
  plim_tensor *narrow = empty(t, shape, PLIM_U8), *scaled = empty(t, shape, PLIM_FP32);
  plim_tensor *wide = k_unary(t, scaled);
  plim_consume(t, scaled);
  plim_consume(t, narrow);
  plim_tensor *out = k_to(t, wide, dtype);
  if (out != wide) plim_consume(t, wide);
  return out;
}

static plim_tensor *product8(plim_tape *t, const plim_tensor *rows, const plim_tensor *weight,
                             plim_dims shape) {
  plim_tensor *sums = empty(t, shape, PLIM_I32), *half = empty(t, shape, PLIM_FP16);
  // Assumed to be as fast as in 16 bits; not measured.
  plim_work_products(t, weight->shape.at[1], rows, weight, sums);
  plim_work_map(t, sums, NULL, half);
  plim_tensor *out = k_to(t, half, (plim_dtype)rows->dtype);
  if (out != half) plim_consume(t, half);
  plim_consume(t, sums);
  return out;
}

// output.addmm(outlier columns of the rows, of the weight); autocast casts the arguments from right to left.
static plim_tensor *add_apart(plim_tape *t, plim_tensor *out, plim_tensor *rows,
                              plim_tensor *columns) {
  bool was = hold(out);
  plim_tensor *right = NULL, *left = NULL, *base = NULL;
  set(t, &right, cast(t, columns));
  set(t, &left, cast(t, rows));
  set(t, &base, cast(t, out));
  plim_tensor *sum = k_like(t, base);
  k_cublas(t);
  plim_work_products(t, left->shape.at[1], left, right, sum);
  drop(t, &base);
  drop(t, &left);
  drop(t, &right);
  let_go(t, out, was);
  return sum;
}

// The outlier part, the input and its columns are attributes of the node instead of saved tensors: neither
// checkpointing nor the end of backward frees them. The columns also stay with the weight until its next product.
static plim_tensor *matmul8(plim_tape *t, plim_tensor *x, plim_tensor *weight) {
  plim_grad_node *n = node_begin(t, matmul8_backward, &x, 1);
  bool was = set_grad_mode(t, false);
  plim_dims shape = x->shape;
  plim_dtype dtype = (plim_dtype)x->dtype;
  plim_tensor *rows = NULL, *narrow = NULL, *scales = NULL, *columns = NULL;
  plim_tensor *apart = NULL, *full = NULL;
  set(t, &rows, rows_of(t, x));
  set(t, &narrow, quantise_rows(t, rows, &scales, &columns));
  set(t, &weight->quant->outliers, columns);
  int64_t count = columns ? columns->shape.at[0] : 0;
  if (count) set(t, &apart, empty(t, dims(rows->shape.at[0], count), dtype));
  if (count) set(t, &full, full_columns(t, weight, count, dtype));
  shape.at[shape.n - 1] = weight->shape.at[0];
  plim_tensor *out = product8(t, rows, weight, shape);
  if (count) out = add_apart(t, out, apart, full);
  drop(t, &full);
  drop(t, &narrow);
  drop(t, &scales);
  set_grad_mode(t, was);
  if (n) {
    n->constant = weight;
    set(t, &n->kept[0], rows);
    set(t, &n->kept[1], apart);
    set(t, &n->kept[2], columns);
    node_output(t, n, out);
  }
  drop(t, &apart);
  drop(t, &rows);
  drop(t, &columns);
  return out;
}

static plim_tensor *linear8(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias) {
  if (bias && bias->dtype != x->dtype) plim_retype(t, bias, (plim_dtype)x->dtype);
  return matmul8(t, x, weight);
}

plim_tensor *plim_unpack(plim_tape *t, const plim_tensor *weight) { return dequantised(t, weight); }

plim_tensor *plim_quantised_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                   plim_tensor *bias) {
  bool was = hold(x);
  bool is_8 = weight->quant->kind == PLIM_WEIGHTS_INT8;
  plim_mark_used(t, weight); // neither is an input of a node
  if (bias) plim_mark_used(t, bias);
  plim_tensor *out = is_8 ? linear8(t, x, weight, bias) : linear4(t, x, weight, bias);
  let_go(t, x, was);
  return out;
}
