// Operators with gradients. Each allocates what PyTorch's operator allocates and saves what its node
// saves. Arguments that are floating are let go when the operator is done; results are floating.
#ifndef PLIM_CORE_OPS_H
#define PLIM_CORE_OPS_H

#include "tape.h"

#define autocast(...) plim_op_autocast(__VA_ARGS__)
#define cast(...) plim_op_cast(__VA_ARGS__)
#define add(...) plim_op_add(__VA_ARGS__)
#define add_in_place(...) plim_op_add_in_place(__VA_ARGS__)
#define add_scalar(...) plim_op_add_scalar(__VA_ARGS__)
#define mul(...) plim_op_mul(__VA_ARGS__)
#define mul_scalar(...) plim_op_mul_scalar(__VA_ARGS__)
#define divide(...) plim_op_divide(__VA_ARGS__)
#define mul_scalar_in_place(...) plim_op_mul_scalar_in_place(__VA_ARGS__)
#define div_scalar(...) plim_op_div_scalar(__VA_ARGS__)
#define neg(...) plim_op_neg(__VA_ARGS__)
#define sub(...) plim_op_sub(__VA_ARGS__)
#define square(...) plim_op_square(__VA_ARGS__)
#define rsqrt(...) plim_op_rsqrt(__VA_ARGS__)
#define tanh_(...) plim_op_tanh(__VA_ARGS__)
#define split(t, x, ...)                                                                           \
  plim_op_split(t, x, (plim_tensor * *const[]){__VA_ARGS__},                                       \
                sizeof((plim_tensor **const[]){__VA_ARGS__}) / sizeof(plim_tensor **))
#define layer_norm(...) plim_op_layer_norm(__VA_ARGS__)
#define gelu(...) plim_op_gelu(__VA_ARGS__)
#define silu(...) plim_op_silu(__VA_ARGS__)
#define relu(...) plim_op_relu(__VA_ARGS__)
#define where(...) plim_op_where(__VA_ARGS__)
#define to(...) plim_op_to(__VA_ARGS__)
#define dropout(...) plim_op_dropout(__VA_ARGS__)
#define mean_last(...) plim_op_mean_last(__VA_ARGS__)
#define mean_all(...) plim_op_mean_all(__VA_ARGS__)
#define select_first(...) plim_op_select_first(__VA_ARGS__)
#define view(...) plim_op_view(__VA_ARGS__)
#define unsafe_view(...) plim_op_unsafe_view(__VA_ARGS__)
#define reshape(...) plim_op_reshape(__VA_ARGS__)
#define transpose(...) plim_op_transpose(__VA_ARGS__)
#define permute(...) plim_op_permute(__VA_ARGS__)
#define unsqueeze(...) plim_op_unsqueeze(__VA_ARGS__)
#define slice(...) plim_op_slice(__VA_ARGS__)
#define slice_rows(...) plim_op_slice_rows(__VA_ARGS__)
#define contiguous_copy(...) plim_op_contiguous_copy(__VA_ARGS__)
#define contiguous(...) plim_op_contiguous(__VA_ARGS__)
#define cat2(...) plim_op_cat2(__VA_ARGS__)
#define expand(...) plim_op_expand(__VA_ARGS__)
#define bmm(...) plim_op_bmm(__VA_ARGS__)
#define matmul2(...) plim_op_matmul2(__VA_ARGS__)
#define matmul(...) plim_op_matmul(__VA_ARGS__)
#define safe_softmax(...) plim_op_safe_softmax(__VA_ARGS__)
#define softmax(...) plim_op_softmax(__VA_ARGS__)
#define mm(...) plim_op_mm(__VA_ARGS__)
#define addmm(...) plim_op_addmm(__VA_ARGS__)
#define linear(...) plim_op_linear(__VA_ARGS__)
#define embedding(...) plim_op_embedding(__VA_ARGS__)
#define log_softmax(...) plim_op_log_softmax(__VA_ARGS__)
#define nll_loss(...) plim_op_nll_loss(__VA_ARGS__)
#define index_rows(...) plim_op_index_rows(__VA_ARGS__)
#define index_pairs(...) plim_op_index_pairs(__VA_ARGS__)
#define gather_rows(...) plim_op_gather_rows(__VA_ARGS__)
#define sum_dim(...) plim_op_sum_dim(__VA_ARGS__)
#define clamp_min(...) plim_op_clamp_min(__VA_ARGS__)
#define normalize(...) plim_op_normalize(__VA_ARGS__)
#define logsumexp(...) plim_op_logsumexp(__VA_ARGS__)
#define dot(...) plim_op_dot(__VA_ARGS__)
#define cat1(...) plim_op_cat1(__VA_ARGS__)
#define cat_parts(...) plim_op_cat_parts(__VA_ARGS__)

// Autocast to a dtype, or off (PLIM_BOOL); returns what it was. Casts of leaves that need a gradient
// are kept for the next use; switching it off lets them go.
plim_dtype autocast(plim_tape *t, plim_dtype dtype);
bool plim_autocast_is_on(const plim_tape *t);
// x in autocast's dtype: x itself if it is off or x has it; a kept cast; or a new one, floating.
plim_tensor *cast(plim_tape *t, plim_tensor *x);

// Elementwise.
plim_tensor *add(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *add_scalar(plim_tape *t, plim_tensor *a);
void add_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b); // a += b; a is no leaf
plim_tensor *sub(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *mul(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *mul_scalar(plim_tape *t, plim_tensor *a);
plim_tensor *divide(plim_tape *t, plim_tensor *a, plim_tensor *b); // b needs no gradient
plim_tensor *div_scalar(plim_tape *t, plim_tensor *a);
plim_tensor *mul_scalar_in_place(plim_tape *t, plim_tensor *a); // a *= k: the tensor after it
plim_tensor *neg(plim_tape *t, plim_tensor *a);
plim_tensor *square(plim_tape *t, plim_tensor *a); // pow(2), and any other power
plim_tensor *rsqrt(plim_tape *t, plim_tensor *a);
plim_tensor *silu(plim_tape *t, plim_tensor *a);
plim_tensor *gelu(plim_tape *t, plim_tensor *a);
plim_tensor *relu(plim_tape *t, plim_tensor *a);
plim_tensor *tanh_(plim_tape *t, plim_tensor *a);
plim_tensor *where(plim_tape *t, plim_tensor *condition, plim_tensor *a); // a, or a number
plim_tensor *to(plim_tape *t, plim_tensor *a, plim_dtype dtype);          // a itself if it has it
plim_tensor *dropout(plim_tape *t, plim_tensor *a, double p);             // a itself if p is 0
plim_tensor *mean_last(plim_tape *t, plim_tensor *a); // over the last dimension, kept
plim_tensor *mean_all(plim_tape *t, plim_tensor *a);  // over everything
plim_tensor *sum_dim(plim_tape *t, plim_tensor *x, int dim, bool keep, plim_dtype dtype);
plim_tensor *clamp_min(plim_tape *t, plim_tensor *x);

// Views and copies. A size of -1 is what is left.
plim_tensor *view(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *unsafe_view(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *reshape(plim_tape *t, plim_tensor *x, plim_dims shape);
plim_tensor *transpose(plim_tape *t, plim_tensor *x, int a, int b);
// The dimensions in another order: order.at[i] is where dimension i comes from.
plim_tensor *permute(plim_tape *t, plim_tensor *x, plim_dims order);
plim_tensor *unsqueeze(plim_tape *t, plim_tensor *x, int dim);
plim_tensor *expand(plim_tape *t, plim_tensor *x, plim_dims shape); // -1: as it is
// x[:, from:to]: among several indices, one that takes everything is passed over.
plim_tensor *slice(plim_tape *t, plim_tensor *x, int dim, int64_t from, int64_t to);
// x[from:to]: alone, it is a slice even if it takes everything.
plim_tensor *slice_rows(plim_tape *t, plim_tensor *x, int64_t from, int64_t to);
plim_tensor *select_first(plim_tape *t, plim_tensor *x, int dim); // x[:, 0] if dim is 1
// split(t, x, &a, &b): equal views along the last dimension, as variables.
void plim_op_split(plim_tape *t, plim_tensor *x, plim_tensor **const *parts, size_t count);
plim_tensor *contiguous(plim_tape *t, plim_tensor *x); // x itself if it is
plim_tensor *contiguous_copy(plim_tape *t, plim_tensor *x);
plim_tensor *cat2(plim_tape *t, plim_tensor *a, plim_tensor *b, int dim);

// Products.
plim_tensor *mm(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *bmm(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *matmul2(plim_tape *t, plim_tensor *a, plim_tensor *b); // 2-D: mm under autocast
plim_tensor *matmul(plim_tape *t, plim_tensor *a, plim_tensor *b);  // 4-D
plim_tensor *addmm(plim_tape *t, plim_tensor *bias, plim_tensor *a, plim_tensor *b);
// x @ weight.T + bias; bias may be NULL.
plim_tensor *linear(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias);

// Models.
plim_tensor *embedding(plim_tape *t, plim_tensor *weight, plim_tensor *ids);
plim_tensor *softmax(plim_tape *t, plim_tensor *x, plim_dtype dtype);
// Rows that are masked out altogether become 0: the softmax of the math kernel.
plim_tensor *safe_softmax(plim_tape *t, plim_tensor *x);
plim_tensor *layer_norm(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias);
plim_tensor *log_softmax(plim_tape *t, plim_tensor *x);
plim_tensor *nll_loss(plim_tape *t, plim_tensor *log_probabilities, plim_tensor *target);

// Rows looked up, and what embeddings (N,H) are compared with.
plim_tensor *index_rows(plim_tape *t, plim_tensor *x, plim_tensor *rows); // x[rows]
// x[rows, columns] of a matrix
plim_tensor *index_pairs(plim_tape *t, plim_tensor *x, plim_tensor *rows, plim_tensor *columns);
plim_tensor *gather_rows(plim_tape *t, plim_tensor *x, plim_tensor *index); // x.gather(1, index)
plim_tensor *normalize(plim_tape *t, plim_tensor *x);                       // every row of length 1
plim_tensor *logsumexp(plim_tape *t, plim_tensor *x);           // of each row of a matrix
plim_tensor *dot(plim_tape *t, plim_tensor *a, plim_tensor *b); // b needs no gradient
plim_tensor *cat1(plim_tape *t, plim_tensor *x);                // torch.cat([x]): a copy
plim_tensor *cat_parts(plim_tape *t, plim_tensor *x);           // torch.cat(x.unbind(0)) of (K,N,H)

#endif
