#include "causal_conv.h"

#include "modules.h"
#include "ops.h"

#include "op_names.h"

// The convolution reaches beyond the end of the sequence; that part is cut off.
plim_tensor *plim_causal_conv(plim_tape *t, plim_tensor *weight, plim_tensor *bias,
                              plim_activation activation, plim_tensor *x) {
  int64_t channels = weight->shape.at[0], kernel = weight->shape.at[2], length = x->shape.at[2];
  plim_dtype dtype = (plim_dtype)x->dtype;
  plim_tensor *squeezed = NULL, *out = NULL;
  plim_tape_at(t, "conv1d");
  set(t, &squeezed, view(t, weight, dims(channels, kernel)));
  plim_tensor *input = to(t, x, (plim_dtype)weight->dtype);
  plim_tensor *whole = depthwise_conv1d(t, input, unsqueeze(t, squeezed, 1), bias, kernel - 1);
  set(t, &out, slice(t, whole, 2, 0, length));
  if (activation != PLIM_ACT_UNKNOWN) set(t, &out, plim_activate(t, activation, out));
  set(t, &out, to(t, out, dtype));
  drop(t, &squeezed);
  return give(t, &out);
}
