// Operators of layers that carry a state along the sequence: linear attention, state spaces, short convolutions.
#ifndef PLIM_CORE_RECURRENCE_H
#define PLIM_CORE_RECURRENCE_H

#include "tape.h"

// F.pad with zeros at one end of a dimension. Adding none makes a copy.
plim_tensor *plim_op_pad(plim_tape *t, plim_tensor *x, int dim, int64_t more);
plim_tensor *plim_op_cumsum(plim_tape *t, plim_tensor *x, int dim);
// x.repeat_interleave(times, dim)
plim_tensor *plim_op_repeat_each(plim_tape *t, plim_tensor *x, int64_t times, int dim);
// torch.linalg.solve_triangular(system, right, upper=False, unitriangular=True)
plim_tensor *plim_op_solve_triangular(plim_tape *t, plim_tensor *system, plim_tensor *right);
// x[:, :, i] = value if dim is 2. x must not be a leaf.
void plim_op_assign_index(plim_tape *t, plim_tensor *x, int dim, plim_tensor *value);
// F.conv1d of (B,C,T) in which every channel has a kernel of its own, (C,1,K); bias may be NULL.
plim_tensor *plim_op_depthwise_conv1d(plim_tape *t, plim_tensor *x, plim_tensor *weight,
                                      plim_tensor *bias, int64_t padding);

#endif
