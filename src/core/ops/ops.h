// Operators with gradients. Each allocates what PyTorch's operator allocates, and its node saves what PyTorch's
// saves. An operator consumes its floating arguments when it is done; results are floating.
#ifndef PLIM_CORE_OPS_H
#define PLIM_CORE_OPS_H

#include "tape.h"

// x in autocast's dtype (tape_state.h). Returns x itself if autocast is off or x already has that dtype; for a
// float32 leaf that needs a gradient, the cast that autocast keeps; otherwise a new floating tensor.
plim_tensor *plim_op_cast(plim_tape *t, plim_tensor *x);

// Elementwise.
plim_tensor *plim_op_add(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_add_scalar(plim_tape *t, plim_tensor *a);
// a += b. a must not be a leaf.
void plim_op_add_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_sub(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_mul(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_mul_complex(plim_tape *t, plim_tensor *a,
                                 plim_tensor *b); // b needs no gradient
plim_tensor *plim_op_mul_scalar(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_divide(plim_tape *t, plim_tensor *a, plim_tensor *b); // b needs no gradient
plim_tensor *plim_op_divide_both(plim_tape *t, plim_tensor *a, plim_tensor *b); // both may need one
plim_tensor *plim_op_div_scalar(plim_tape *t, plim_tensor *a);
// a *= k. Use the result from then on: if a needs a gradient, it is an alias of a with the new node.
plim_tensor *plim_op_mul_scalar_in_place(plim_tape *t, plim_tensor *a);
// a *= b, which needs no gradient. Use the result, as above.
plim_tensor *plim_op_mul_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_neg(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_square(plim_tape *t, plim_tensor *a); // pow(2) or any other power
plim_tensor *plim_op_rsqrt(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_silu(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_log_sigmoid(plim_tape *t, plim_tensor *a);
// By tanh, in a function of its own that saves x alone and computes everything again in backward.
plim_tensor *plim_op_written_gelu(plim_tape *t, plim_tensor *x);
plim_tensor *plim_op_gelu(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_relu(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_exp(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_log(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_log1p(plim_tape *t, plim_tensor *a); // log(1 + a)
plim_tensor *plim_op_expm1(plim_tape *t, plim_tensor *a); // exp(a) - 1
plim_tensor *plim_op_softplus(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_tanh(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_sigmoid(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_where(plim_tape *t, plim_tensor *condition, plim_tensor *a); // a or a number
// a or a number in a tensor, which needs no gradient
plim_tensor *plim_op_where_else(plim_tape *t, plim_tensor *condition, plim_tensor *a,
                                plim_tensor *number);
// torch.where(condition, a, b) of two tensors that may need gradients
plim_tensor *plim_op_where_both(plim_tape *t, plim_tensor *condition, plim_tensor *a,
                                plim_tensor *b);
plim_tensor *plim_op_minimum(plim_tape *t, plim_tensor *x, plim_tensor *number);
// What autocast does to the argument of an operator that it runs in float32.
plim_tensor *plim_op_cast_wide(plim_tape *t, plim_tensor *x);
// Returns a itself if it has that dtype.
plim_tensor *plim_op_to(plim_tape *t, plim_tensor *a, plim_dtype dtype);
// The same with memory_format=torch.contiguous_format: what is converted becomes contiguous.
plim_tensor *plim_op_to_contiguous(plim_tape *t, plim_tensor *a, plim_dtype dtype);
plim_tensor *plim_op_dropout(plim_tape *t, plim_tensor *a, double p); // a itself if p is 0
// The mean over the last dimension, with keepdim=True.
plim_tensor *plim_op_mean_last(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_mean_all(plim_tape *t, plim_tensor *a);    // over all elements
plim_tensor *plim_op_sum_numbers(plim_tape *t, plim_tensor *x); // x.nansum()
plim_tensor *plim_op_sum_dim(plim_tape *t, plim_tensor *x, int dim, bool keep, plim_dtype dtype);
plim_tensor *plim_op_clamp(plim_tape *t, plim_tensor *x, int bounds); // 1: min or max; 2: both
// The same with both bounds. Saves a copy of what x was.
plim_tensor *plim_op_clamp_in_place(plim_tape *t, plim_tensor *x);
// amax and amin over the last dimension, with keepdim=True. Where several elements are equal, they share the gradient.
plim_tensor *plim_op_extreme_last(plim_tape *t, plim_tensor *x);
plim_tensor *plim_op_max_last(plim_tape *t,
                              plim_tensor *x); // over the last dimension, with keepdim=True

// Views and copies. A size of -1 is inferred from the others.
plim_tensor *plim_op_view(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *plim_op_unsafe_view(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *plim_op_reshape(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *plim_op_transpose(plim_tape *t, plim_tensor *x, int a, int b);
// Reorders the dimensions: dimension i of the result is dimension order.at[i] of x.
plim_tensor *plim_op_permute(plim_tape *t, plim_tensor *x, plim_dims order);
// Pairs of float32 along the last dimension as complex numbers, and back. A complex number counts as float64, which
// has as many bytes.
plim_tensor *plim_op_view_as_complex(plim_tape *t, plim_tensor *x);
plim_tensor *plim_op_view_as_real(plim_tape *t, plim_tensor *x);
plim_tensor *plim_op_unsqueeze(plim_tape *t, plim_tensor *x, int dim);
plim_tensor *plim_op_expand(plim_tape *t, plim_tensor *x, plim_dims shape); // -1: keeps that size
// x[:, from:to]. Among several indices, PyTorch skips a slice that covers its whole dimension: backward copies
// nothing.
plim_tensor *plim_op_slice(plim_tape *t, plim_tensor *x, int dim, int64_t from, int64_t to);
// x[from:to]. A single index creates a slice even if it covers everything.
plim_tensor *plim_op_slice_rows(plim_tape *t, plim_tensor *x, int64_t from, int64_t to);
// x[:, -n:] for n columns, all there are: PyTorch creates a slice, because it does not see that it covers everything.
plim_tensor *plim_op_slice_last(plim_tape *t, plim_tensor *x);
// The slices of x[:, 0:, :] that cover a whole dimension. Before torch 2.9 each of them is a slice whose gradient is copied;
// since then they are skipped, also by slice().
plim_tensor *plim_op_full_slices(plim_tape *t, plim_tensor *x, int count);
plim_tensor *plim_op_every_other(plim_tape *t, plim_tensor *x); // x[..., ::2]
// x[:, i] if dim is 1. Which i it is does not matter.
plim_tensor *plim_op_select_index(plim_tape *t, plim_tensor *x, int dim);
// split(t, x, &a, &b) sets the variables to equal views along the last dimension.
void plim_op_split(plim_tape *t, plim_tensor *x, plim_tensor **const *parts, size_t count);
// split_sizes(t, x, dim, sizes, &a, &b): the same along a dimension, with a size for each part.
void plim_op_split_sizes(plim_tape *t, plim_tensor *x, int dim, const int64_t *sizes,
                         plim_tensor **const *parts, size_t count);
plim_tensor *plim_op_contiguous(plim_tape *t, plim_tensor *x); // x itself if it is contiguous
plim_tensor *plim_op_contiguous_copy(plim_tape *t, plim_tensor *x);
// x[..., i:j].copy_(part)
void plim_op_copy_into(plim_tape *t, plim_tensor *x, plim_tensor *part);
// x.repeat(times, 1, 1) of a tensor with three dimensions.
plim_tensor *plim_op_repeat(plim_tape *t, plim_tensor *x, int64_t times);
plim_tensor *plim_op_cat2(plim_tape *t, plim_tensor *a, plim_tensor *b, int dim);
// Of one dtype.
plim_tensor *plim_op_cat3(plim_tape *t, plim_tensor *a, plim_tensor *b, plim_tensor *c, int dim);

// Products.
plim_tensor *plim_op_mm(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_bmm(plim_tape *t, plim_tensor *a, plim_tensor *b);
// bias.baddbmm(a, b) of 3-D tensors, with autocast's casts; the product is scaled. The bias needs no gradient.
plim_tensor *plim_op_add_product(plim_tape *t, plim_tensor *bias, plim_tensor *a, plim_tensor *b);
// mm of 2-D tensors, with autocast's casts.
plim_tensor *plim_op_matmul2(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_matmul(plim_tape *t, plim_tensor *a, plim_tensor *b); // 4-D or 5-D
plim_tensor *plim_op_addmm(plim_tape *t, plim_tensor *bias, plim_tensor *a, plim_tensor *b);
// x @ weight.T + bias; bias may be NULL.
plim_tensor *plim_op_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias);

// Layers.
plim_tensor *plim_op_embedding(plim_tape *t, plim_tensor *weight, plim_tensor *ids);
plim_tensor *plim_op_softmax(plim_tape *t, plim_tensor *x, plim_dtype dtype);
// The softmax of the math attention kernel: rows that are masked completely become 0.
plim_tensor *plim_op_safe_softmax(plim_tape *t, plim_tensor *x);
plim_tensor *plim_op_layer_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                plim_tensor *bias); // weight and bias may be NULL
plim_tensor *plim_op_log_softmax(plim_tape *t, plim_tensor *x);
plim_tensor *plim_op_nll_loss(plim_tape *t, plim_tensor *log_probabilities, plim_tensor *target);
plim_tensor *plim_op_mse_loss(plim_tape *t, plim_tensor *x, plim_tensor *target); // their mean

// Indexing, and operators for comparing embeddings (N,H).
plim_tensor *plim_op_index_rows(plim_tape *t, plim_tensor *x, plim_tensor *rows); // x[rows]
plim_tensor *plim_op_select_rows(plim_tape *t, plim_tensor *x,
                                 plim_tensor *rows); // x.index_select(0, rows)
// x[rows, columns] of a matrix, or of a matrix of vectors
plim_tensor *plim_op_index_one(plim_tape *t, plim_tensor *x, int dim); // x[..., [i], ...]
plim_tensor *plim_op_index_pairs(plim_tape *t, plim_tensor *x, plim_tensor *rows,
                                 plim_tensor *columns);
// x[mask]: the `found` elements (or rows) of x where the mask, which covers x's first dimensions, is true.
plim_tensor *plim_op_index_masked(plim_tape *t, plim_tensor *x, plim_tensor *mask, int64_t found);
// x.gather(-1, index) of (B,T,V): one element for each token, (B,T,1)
plim_tensor *plim_op_gather_each(plim_tape *t, plim_tensor *x, plim_tensor *index);
// x[mask] = 0 of (B,T), which is a view of a new tensor. Use the result from then on.
plim_tensor *plim_op_assign_masked(plim_tape *t, plim_tensor *x, plim_tensor *mask);
// zeros.masked_scatter(mask, x): the elements of x where the mask is true, 0 elsewhere.
plim_tensor *plim_op_masked_scatter(plim_tape *t, plim_tensor *mask, plim_tensor *x);
plim_tensor *plim_op_gather_last(plim_tape *t, plim_tensor *x,
                                 plim_tensor *index); // x.gather(-1, index)
plim_tensor *plim_op_gather_rows(plim_tape *t, plim_tensor *x,
                                 plim_tensor *index);              // x.gather(1, index)
plim_tensor *plim_op_normalize(plim_tape *t, plim_tensor *x);      // scales every row to length 1
plim_tensor *plim_op_logsumexp(plim_tape *t, plim_tensor *x);      // of each row of a matrix
plim_tensor *plim_op_logsumexp_rows(plim_tape *t, plim_tensor *x); // of (B,T,V), in float32: (B,T)
plim_tensor *plim_op_dot(plim_tape *t, plim_tensor *a, plim_tensor *b); // b needs no gradient
plim_tensor *plim_op_cat1(plim_tape *t, plim_tensor *x);                // torch.cat([x]): a copy
plim_tensor *plim_op_cat_parts(plim_tape *t, plim_tensor *x); // torch.cat(x.unbind(0)) of (K,N,H)

#endif
