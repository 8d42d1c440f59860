// The workspace of a convolution.
#ifndef PLIM_CONVOLUTION_H
#define PLIM_CONVOLUTION_H

#include "cudnn_graph.h"

// Bytes, as recorded, or by a rule fitted to measurements. Writes down that the rule is approximate.
int64_t convolution_workspace(const cudnn_descriptor *operation);

// Bytes, where a real library has planned without a card. On a card with clusters it does not know into how many parts a
// kernel will split its sums: the answer is what was recorded, or what the rule adds.
int64_t convolution_planned(const cudnn_descriptor *operation, int64_t planned_bytes);

// Its products, as a matrix product of the same size. A gradient has as many.
void convolution_products(const cudnn_descriptor *operation, cudnn_shape *shape);

#endif
