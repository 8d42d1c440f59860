// The largest tensors at the peak of a predicted run, those of a kind together.
#ifndef PLIM_CORE_HOLDERS_H
#define PLIM_CORE_HOLDERS_H

#include "predict.h"

// Tensors of one shape that the same part of the program made, in one layer or in several.
typedef struct {
  plim_program_point place; // of the first of them; place.layer is the first layer
  plim_dims shape;
  plim_dtype dtype;
  plim_purpose purpose;
  uint64_t bytes; // of all of them
  uint64_t count;
  bool is_in_layers; // they belong to several layers
} plim_holding;

typedef vec(plim_holding) plim_holders;

// Runs the job again, up to the event that made its peak. False when memory is out. Largest first;
// free with vec_free.
bool plim_holders_find(const plim_predict_request *request, const plim_prediction *p,
                       plim_holders *out);

// The group that a tensor belongs to; an empty one if it is the first. The tensor is not added.
// Returns its index, SIZE_MAX when memory is out.
size_t plim_holders_group(plim_holders *groups, const plim_holding *tensor);

#endif
