// Operators with gradients. Each allocates what PyTorch's operator allocates and saves what its node
// saves. Arguments that are floating are let go when the operator is done; results are floating.
#ifndef PLIM_CORE_OPS_H
#define PLIM_CORE_OPS_H

#include "tape.h"

// x in autocast's dtype (tape_state.h): x itself if autocast is off or x has that dtype; the cast that is kept for a
// leaf that needs a gradient; or a new one, floating.
plim_tensor *plim_op_cast(plim_tape *t, plim_tensor *x);

// Elementwise.
plim_tensor *plim_op_add(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_add_scalar(plim_tape *t, plim_tensor *a);
void plim_op_add_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b); // a += b; a is no leaf
plim_tensor *plim_op_sub(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_mul(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_mul_scalar(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_divide(plim_tape *t, plim_tensor *a, plim_tensor *b); // b needs no gradient
plim_tensor *plim_op_div_scalar(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_mul_scalar_in_place(plim_tape *t,
                                         plim_tensor *a); // a *= k: the tensor after it
plim_tensor *plim_op_neg(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_square(plim_tape *t, plim_tensor *a); // pow(2), and any other power
plim_tensor *plim_op_rsqrt(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_silu(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_gelu(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_relu(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_tanh(plim_tape *t, plim_tensor *a);
plim_tensor *plim_op_where(plim_tape *t, plim_tensor *condition, plim_tensor *a); // a, or a number
plim_tensor *plim_op_to(plim_tape *t, plim_tensor *a, plim_dtype dtype); // a itself if it has it
plim_tensor *plim_op_dropout(plim_tape *t, plim_tensor *a, double p);    // a itself if p is 0
plim_tensor *plim_op_mean_last(plim_tape *t, plim_tensor *a); // over the last dimension, kept
plim_tensor *plim_op_mean_all(plim_tape *t, plim_tensor *a);  // over everything
plim_tensor *plim_op_sum_dim(plim_tape *t, plim_tensor *x, int dim, bool keep, plim_dtype dtype);
plim_tensor *plim_op_clamp_min(plim_tape *t, plim_tensor *x);

// Views and copies. A size of -1 is what is left.
plim_tensor *plim_op_view(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *plim_op_unsafe_view(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *plim_op_reshape(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *plim_op_transpose(plim_tape *t, plim_tensor *x, int a, int b);
// The dimensions in another order: order.at[i] is where dimension i comes from.
plim_tensor *plim_op_permute(plim_tape *t, plim_tensor *x, plim_dims order);
plim_tensor *plim_op_unsqueeze(plim_tape *t, plim_tensor *x, int dim);
plim_tensor *plim_op_expand(plim_tape *t, plim_tensor *x, plim_dims shape); // -1: as it is
// x[:, from:to]: among several indices, one that takes everything is passed over.
plim_tensor *plim_op_slice(plim_tape *t, plim_tensor *x, int dim, int64_t from, int64_t to);
// x[from:to]: alone, it is a slice even if it takes everything.
plim_tensor *plim_op_slice_rows(plim_tape *t, plim_tensor *x, int64_t from, int64_t to);
plim_tensor *plim_op_select_first(plim_tape *t, plim_tensor *x, int dim); // x[:, 0] if dim is 1
// split(t, x, &a, &b): equal views along the last dimension, as variables.
void plim_op_split(plim_tape *t, plim_tensor *x, plim_tensor **const *parts, size_t count);
plim_tensor *plim_op_contiguous(plim_tape *t, plim_tensor *x); // x itself if it is
plim_tensor *plim_op_contiguous_copy(plim_tape *t, plim_tensor *x);
plim_tensor *plim_op_cat2(plim_tape *t, plim_tensor *a, plim_tensor *b, int dim);

// Products.
plim_tensor *plim_op_mm(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_bmm(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_matmul2(plim_tape *t, plim_tensor *a,
                             plim_tensor *b);                              // 2-D: mm under autocast
plim_tensor *plim_op_matmul(plim_tape *t, plim_tensor *a, plim_tensor *b); // 4-D
plim_tensor *plim_op_addmm(plim_tape *t, plim_tensor *bias, plim_tensor *a, plim_tensor *b);
// x @ weight.T + bias; bias may be NULL.
plim_tensor *plim_op_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias);

// Models.
plim_tensor *plim_op_embedding(plim_tape *t, plim_tensor *weight, plim_tensor *ids);
plim_tensor *plim_op_softmax(plim_tape *t, plim_tensor *x, plim_dtype dtype);
// Rows that are masked out altogether become 0: the softmax of the math kernel.
plim_tensor *plim_op_safe_softmax(plim_tape *t, plim_tensor *x);
plim_tensor *plim_op_layer_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                plim_tensor *bias);
plim_tensor *plim_op_log_softmax(plim_tape *t, plim_tensor *x);
plim_tensor *plim_op_nll_loss(plim_tape *t, plim_tensor *log_probabilities, plim_tensor *target);

// Rows looked up, and what embeddings (N,H) are compared with.
plim_tensor *plim_op_index_rows(plim_tape *t, plim_tensor *x, plim_tensor *rows); // x[rows]
// x[rows, columns] of a matrix
plim_tensor *plim_op_index_pairs(plim_tape *t, plim_tensor *x, plim_tensor *rows,
                                 plim_tensor *columns);
plim_tensor *plim_op_gather_rows(plim_tape *t, plim_tensor *x,
                                 plim_tensor *index);                   // x.gather(1, index)
plim_tensor *plim_op_normalize(plim_tape *t, plim_tensor *x);           // every row of length 1
plim_tensor *plim_op_logsumexp(plim_tape *t, plim_tensor *x);           // of each row of a matrix
plim_tensor *plim_op_dot(plim_tape *t, plim_tensor *a, plim_tensor *b); // b needs no gradient
plim_tensor *plim_op_cat1(plim_tape *t, plim_tensor *x);                // torch.cat([x]): a copy
plim_tensor *plim_op_cat_parts(plim_tape *t, plim_tensor *x); // torch.cat(x.unbind(0)) of (K,N,H)

#endif
