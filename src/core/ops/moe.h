// Operators for mixtures of experts: choosing, sorting and gathering rows, and grouped matrix products. Arguments
// and results are as in ops.h.
#ifndef PLIM_CORE_MOE_H
#define PLIM_CORE_MOE_H

#include "tape.h"

// Sets two variables: the k largest values along the last dimension, and their indices.
void plim_op_topk(plim_tape *t, plim_tensor *x, int64_t k, plim_tensor **values,
                  plim_tensor **indices);
// torch.sort of integers. Sets two variables: the sorted values, and the index each came from.
void plim_op_sort_indices(plim_tape *t, plim_tensor *x, plim_tensor **sorted, plim_tensor **order);
// a /= b. a must not be a leaf.
void plim_op_div_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b);
plim_tensor *plim_op_masked_fill(plim_tape *t, plim_tensor *x, plim_tensor *mask);
void plim_op_masked_fill_in_place(plim_tape *t, plim_tensor *x, plim_tensor *mask);
// sum.index_add_(0, rows, x). sum must not be a leaf that needs a gradient.
void plim_op_index_add_in_place(plim_tape *t, plim_tensor *sum, plim_tensor *rows, plim_tensor *x);
// full_like(like, number).scatter_(1, index, values)
plim_tensor *plim_op_scatter_along(plim_tape *t, const plim_tensor *like, plim_tensor *index,
                                   plim_tensor *values);
// x.repeat(times, 1) of (N,h)
plim_tensor *plim_op_repeat_rows(plim_tape *t, plim_tensor *x, int64_t times);
// Multiplies each group of rows of x, which ends at its offset, by the group's matrix: (S,K) with (E,K,N) is (S,N).
plim_tensor *plim_op_grouped_mm(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                plim_tensor *offsets);

#endif
