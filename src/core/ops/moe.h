// Operators that mixtures of experts are made of: choosing, sorting and gathering rows, and one
// product per group of rows. Arguments and results are as in ops.h.
#ifndef PLIM_CORE_MOE_H
#define PLIM_CORE_MOE_H

#include "tape.h"

// The k largest along the last dimension, and where they are: both variables.
void plim_op_topk(plim_tape *t, plim_tensor *x, int64_t k, plim_tensor **values,
                  plim_tensor **indices);
// torch.sort of integers: sorted, and where each came from; both variables.
void plim_op_sort_indices(plim_tape *t, plim_tensor *x, plim_tensor **sorted, plim_tensor **order);
void plim_op_div_in_place(plim_tape *t, plim_tensor *a, plim_tensor *b); // a /= b; a is no leaf
plim_tensor *plim_op_masked_fill(plim_tape *t, plim_tensor *x, plim_tensor *mask);
void plim_op_masked_fill_in_place(plim_tape *t, plim_tensor *x, plim_tensor *mask);
// Rows of x up to each offset times that group's matrix: (S,K) with (E,K,N) is (S,N).
plim_tensor *plim_op_grouped_mm(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                plim_tensor *offsets);

#endif
