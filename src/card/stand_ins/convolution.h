// The workspace of a convolution.
#ifndef PLIM_CONVOLUTION_H
#define PLIM_CONVOLUTION_H

#include "cudnn_graph.h"

// Bytes, as recorded, or by a rule fitted to measurements, which is approximate: its use is recorded.
int64_t convolution_workspace(const cudnn_descriptor *operation);

// Bytes, if a real library has planned without a card. On a card with clusters the library does not know into how many parts
// a kernel will split its sums; the result is then what was recorded, or what the rule adds.
int64_t convolution_planned(const cudnn_descriptor *operation, int64_t planned_bytes);

// The convolution as a matrix product of the same size. Its gradients have the same number of products.
void convolution_products(const cudnn_descriptor *operation, cudnn_shape *shape);

#endif
