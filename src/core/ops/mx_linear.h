// Linear layers whose products use inputs and weights in MXFP4, as torchao emulates them (torchao/prototype/qat/mx.py): both
// are kept in 4 bits for backward, which converts them back.
#ifndef PLIM_CORE_MX_LINEAR_H
#define PLIM_CORE_MX_LINEAR_H

#include "tape.h"

// The bias, which may be NULL, gets no gradient.
plim_tensor *plim_mx_linear(plim_tape *t, plim_tensor *x, plim_tensor *weight, plim_tensor *bias);

#endif
