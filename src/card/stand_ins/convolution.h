// The workspace of a convolution where no real cuDNN is there to plan it.
#ifndef PLIM_CONVOLUTION_H
#define PLIM_CONVOLUTION_H

#include "cudnn_graph.h"

// Bytes, by a rule fitted to measurements. Writes down that convolutions are approximate.
int64_t convolution_workspace(const cudnn_descriptor *operation);

// Bytes that are missing from the real library's plan on a card with clusters: without the card, the library does not
// know into how many parts a kernel will split its sums.
int64_t convolution_missing_sums(const cudnn_descriptor *operation, int64_t planned_bytes);

// Its products, as a matrix product of the same size. A gradient has as many.
void convolution_products(const cudnn_descriptor *operation, cudnn_shape *shape);

#endif
