// The largest tensors at the peak of a predicted run, grouped by kind.
#ifndef PLIM_CORE_HOLDINGS_H
#define PLIM_CORE_HOLDINGS_H

#include "predict.h"

// Tensors of one shape that the same part of the program allocated, in one layer or in several.
typedef struct {
  plim_program_point place; // of the first tensor; place.layer is its layer
  plim_dims shape;
  plim_dtype dtype;
  plim_purpose purpose;
  uint64_t bytes; // of all of them together
  uint64_t count;
  bool is_in_layers; // they belong to several layers
} plim_holding;

typedef vec(plim_holding) plim_holdings;

// Runs the job again up to the event that made its peak. The result is sorted, largest first; free it with vec_free.
// Returns false when out of memory.
bool plim_holdings_find(const plim_predict_request *request, const plim_prediction *p,
                        plim_holdings *out);

// Finds the group of a tensor, or adds an empty group for it. Does not add the tensor. Returns the group's index,
// SIZE_MAX when out of memory.
size_t plim_holdings_group(plim_holdings *groups, const plim_holding *tensor);

#endif
